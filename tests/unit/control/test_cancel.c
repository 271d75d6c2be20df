/* What ray.cancel decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/cancel.h"

static void test_decisions(void **state) {
    (void)state;
    static const struct {
        mob_kind_t kind;
        control_stage_t stage;
        control_cancel_t plain, by_force;
    } rows[] = {
        {MOB_TASK, CONTROL_TASK_WAITS, CONTROL_CANCEL_FAIL, CONTROL_CANCEL_FAIL},
        {MOB_TASK, CONTROL_TASK_RUNS, CONTROL_CANCEL_INTERRUPT, CONTROL_CANCEL_KILL},
        {MOB_TASK, CONTROL_TASK_OVER, CONTROL_CANCEL_NOTHING, CONTROL_CANCEL_NOTHING},
        {MOB_ACTOR_CALL, CONTROL_TASK_WAITS, CONTROL_CANCEL_FAIL, CONTROL_CANCEL_REFUSE},
        {MOB_ACTOR_CALL, CONTROL_TASK_RUNS, CONTROL_CANCEL_TELL, CONTROL_CANCEL_REFUSE},
        {MOB_ACTOR_CALL, CONTROL_TASK_OVER, CONTROL_CANCEL_NOTHING, CONTROL_CANCEL_NOTHING},
        {MOB_ACTOR_CREATE, CONTROL_TASK_WAITS, CONTROL_CANCEL_NOTHING, CONTROL_CANCEL_NOTHING},
        {MOB_ACTOR_CREATE, CONTROL_TASK_RUNS, CONTROL_CANCEL_NOTHING, CONTROL_CANCEL_NOTHING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(control_cancel_decide(rows[i].kind, rows[i].stage, false), rows[i].plain);
        assert_int_equal(control_cancel_decide(rows[i].kind, rows[i].stage, true),
                         rows[i].by_force);
    }
}

static void test_signals_come_again_and_end(void **state) {
    (void)state;
    uint64_t before = 0, all = 0;
    uint32_t sent = 1;
    for (uint64_t pause; (pause = control_cancel_pause_ns(sent)) != 0; sent++) {
        assert_true(pause >= before);
        before = pause;
        all += pause;
    }
    assert_true(control_cancel_pause_ns(1) <= 10000000); /* one that was missed costs little */
    assert_in_range(all, UINT64_C(5000000000), UINT64_C(20000000000));
    assert_int_equal(control_cancel_pause_ns(sent + 1), 0);
    assert_int_equal(control_cancel_pause_ns(0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_signals_come_again_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
