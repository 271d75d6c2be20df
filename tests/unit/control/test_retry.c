/* Tasks whose worker died: which are run again, and what that costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/retry.h"

static control_fate_t decide(control_retry_t *r, control_death_t d) {
    return control_retry_decide(r, &d);
}

static void test_one_that_was_not_begun_costs_nothing(void **state) {
    (void)state;
    control_retry_t r = {.retries = 0};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(decide(&r, (control_death_t){0}), CONTROL_TASK_AGAIN);
    assert_int_equal(r.retries, 0);
}

static void test_retries_are_counted(void **state) {
    (void)state;
    control_retry_t r = {.retries = 3}, endless = {.retries = -1};
    for (int i = 0; i < 3; i++)
        assert_int_equal(decide(&r, (control_death_t){.begun = true}), CONTROL_TASK_AGAIN);
    assert_int_equal(decide(&r, (control_death_t){.begun = true}), CONTROL_TASK_FAILS);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(decide(&endless, (control_death_t){.begun = true}), CONTROL_TASK_AGAIN);
    assert_int_equal(endless.retries, -1);
}

static void test_want_of_memory(void **state) {
    (void)state;
    control_death_t hopeful = {.begun = true, .oom = true, .oom_again = true},
                    alone = {.begun = true, .oom = true};
    control_retry_t r = {.retries = 2}, none = {.retries = 0};
    for (int i = 0; i < 20; i++) assert_int_equal(decide(&r, hopeful), CONTROL_TASK_AGAIN);
    assert_int_equal(r.retries, 2);
    assert_int_equal(decide(&r, hopeful), CONTROL_TASK_AGAIN);
    assert_int_equal(decide(&r, hopeful), CONTROL_TASK_AGAIN);
    assert_int_equal(decide(&r, hopeful), CONTROL_TASK_FAILS);
    assert_int_equal(decide(&none, hopeful), CONTROL_TASK_FAILS);
    r.retries = 5;
    assert_int_equal(decide(&r, alone), CONTROL_TASK_FAILS);
    assert_int_equal(r.retries, 5);
}

static void test_what_is_never_run_again(void **state) {
    (void)state;
    control_retry_t r = {.retries = -1};
    for (int begun = 0; begun < 2; begun++) {
        control_death_t both = {.begun = begun, .cancelled = true, .job_ends = true},
                        ends = {.begun = begun, .job_ends = true};
        assert_int_equal(decide(&r, both), CONTROL_TASK_CANCELLED);
        assert_int_equal(decide(&r, ends), CONTROL_TASK_DROPPED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_was_not_begun_costs_nothing),
        cmocka_unit_test(test_retries_are_counted),
        cmocka_unit_test(test_want_of_memory),
        cmocka_unit_test(test_what_is_never_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
