/* The clocks: one never goes back, the other is the time of day. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "base/clock.h"

static void test_mono_never_goes_back(void **state) {
    (void)state;
    uint64_t last = base_clock_mono_ns();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = base_clock_mono_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void test_mono_counts_nanoseconds(void **state) {
    (void)state;
    uint64_t start = base_clock_mono_ns();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    uint64_t passed = base_clock_mono_ns() - start;
    /* never less than was slept; far more only on a machine that is very busy */
    assert_true(passed >= 20000000 && passed < UINT64_C(20000000000));
}

static void test_wall_is_the_time_of_day(void **state) {
    (void)state;
    uint64_t before = (uint64_t)time(NULL), wall = base_clock_wall_ns() / 1000000000u,
             after = (uint64_t)time(NULL);
    /* time() reads a coarser clock, which may lie a tick behind */
    assert_true(wall + 1 >= before && wall <= after + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mono_never_goes_back),
        cmocka_unit_test(test_mono_counts_nanoseconds),
        cmocka_unit_test(test_wall_is_the_time_of_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
