/* An actor's life: which deaths are followed by a restart, and what becomes of calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actor/life.h"

static actor_life_t alive(int32_t max_restarts) {
    actor_life_t life;
    actor_life_init(&life, max_restarts);
    assert_int_equal(life.state, ACTOR_PENDING);
    actor_life_made(&life);
    assert_int_equal(life.state, ACTOR_ALIVE);
    return life;
}

static void test_a_crash_without_restarts_is_the_end(void **state) {
    (void)state;
    actor_life_t life = alive(0);
    assert_false(actor_life_may_restart(&life));
    assert_false(actor_life_ended(&life, ACTOR_CRASHED, true));
    assert_int_equal(life.state, ACTOR_DEAD);
    actor_life_made(&life);
    assert_int_equal(life.state, ACTOR_DEAD);
}

static void test_restarts_are_counted(void **state) {
    (void)state;
    actor_life_t life = alive(2);
    for (uint32_t i = 1; i <= 2; i++) {
        assert_true(actor_life_may_restart(&life));
        assert_true(actor_life_ended(&life, i == 1 ? ACTOR_CRASHED : ACTOR_SHOT, true));
        assert_int_equal(life.state, ACTOR_RESTARTING);
        assert_int_equal(life.restarts, i);
        assert_int_equal(life.restarts_left, 2 - i);
        actor_life_made(&life);
    }
    assert_false(actor_life_may_restart(&life));
    assert_false(actor_life_ended(&life, ACTOR_SHOT, true));
    assert_int_equal(life.state, ACTOR_DEAD);
}

static void test_restarts_without_end(void **state) {
    (void)state;
    actor_life_t life = alive(-1);
    for (int i = 0; i < 1000; i++) {
        assert_true(actor_life_ended(&life, ACTOR_CRASHED, true));
        actor_life_made(&life);
    }
    assert_int_equal(life.restarts, 1000);
    assert_int_equal(life.restarts_left, -1);
}

static void test_ends_that_are_for_good(void **state) {
    (void)state;
    const actor_end_t ends[] = {ACTOR_LEFT, ACTOR_REFUSED, ACTOR_IMPOSSIBLE};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        actor_life_t life = alive(-1);
        assert_false(actor_life_ended(&life, ends[i], true));
        assert_int_equal(life.state, ACTOR_DEAD);
        actor_life_init(&life, -1);
        assert_false(actor_life_ended(&life, ends[i], true));
    }
    actor_life_t unwanted = alive(-1);
    assert_false(actor_life_ended(&unwanted, ACTOR_CRASHED, false));
}

static void test_a_kill_for_good_holds_in_every_state(void **state) {
    (void)state;
    actor_life_t lives[3] = {alive(-1), alive(-1)};
    assert_true(actor_life_ended(&lives[1], ACTOR_CRASHED, true)); /* RESTARTING */
    actor_life_init(&lives[2], -1);                                /* PENDING */
    for (int i = 0; i < 3; i++) {
        actor_life_kill(&lives[i]);
        assert_false(actor_life_may_restart(&lives[i]));
        assert_false(actor_life_ended(&lives[i], i == 1 ? ACTOR_UNBEGUN : ACTOR_CRASHED, true));
        assert_int_equal(lives[i].state, ACTOR_DEAD);
    }
}

static void test_a_death_in_the_constructor_counts(void **state) {
    (void)state;
    actor_life_t life;
    actor_life_init(&life, 1);
    assert_true(actor_life_ended(&life, ACTOR_CRASHED, true));
    assert_int_equal(life.state, ACTOR_RESTARTING);
    assert_false(life.made);
    assert_false(actor_life_ended(&life, ACTOR_CRASHED, true));
}

static void test_a_process_that_began_nothing_costs_nothing_but_not_for_ever(void **state) {
    (void)state;
    actor_life_t life;
    actor_life_init(&life, 0);
    int times = 0;
    while (actor_life_ended(&life, ACTOR_UNBEGUN, true)) {
        assert_int_equal(life.state, ACTOR_PENDING);
        assert_int_equal(life.restarts, 0);
        assert_true(++times < 100);
    }
    assert_true(times > 1);
    assert_int_equal(life.state, ACTOR_DEAD);
}

static void test_processes_that_answer_nothing_get_pauses(void **state) {
    (void)state;
    actor_life_t life = alive(-1);
    uint32_t last = 0;
    for (int i = 0; i < 40; i++) {
        assert_true(actor_life_ended(&life, ACTOR_CRASHED, true));
        uint32_t pause = actor_life_pause_ms(&life);
        assert_true(i > 2 || pause == 0);
        assert_true(pause >= last && pause <= 1000);
        last = pause;
    }
    assert_int_equal(last, 1000);
    actor_life_made(&life);
    assert_int_equal(actor_life_pause_ms(&life), 1000); /* to be made is no answer */
    actor_life_answered(&life);
    for (int i = 0; i < 100; i++) {
        assert_true(actor_life_ended(&life, ACTOR_CRASHED, true));
        assert_int_equal(actor_life_pause_ms(&life), 0);
        actor_life_made(&life);
        actor_life_answered(&life);
    }
}

static void test_what_becomes_of_calls(void **state) {
    (void)state;
    actor_life_t life = alive(1);
    assert_true(actor_life_ended(&life, ACTOR_CRASHED, true));
    int32_t none = 0, one = 1, endless = -1;
    assert_int_equal(actor_call_fate(&life, false, &none), ACTOR_CALL_WAITS);
    assert_int_equal(actor_call_fate(&life, true, &none), ACTOR_CALL_UNAVAILABLE);
    assert_int_equal(actor_call_fate(&life, false, &one), ACTOR_CALL_WAITS);
    assert_int_equal(one, 1);
    assert_int_equal(actor_call_fate(&life, true, &one), ACTOR_CALL_WAITS);
    assert_int_equal(one, 0);
    assert_int_equal(actor_call_fate(&life, true, &one), ACTOR_CALL_UNAVAILABLE);
    assert_int_equal(actor_call_fate(&life, true, &endless), ACTOR_CALL_WAITS);
    assert_int_equal(endless, -1);
    assert_true(actor_call_again(&endless));
    assert_false(actor_call_again(&none));
    assert_false(actor_life_ended(&life, ACTOR_CRASHED, true));
    assert_int_equal(actor_call_fate(&life, false, &endless), ACTOR_CALL_DIES);
    assert_int_equal(actor_call_fate(&life, true, &endless), ACTOR_CALL_DIES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_crash_without_restarts_is_the_end),
        cmocka_unit_test(test_restarts_are_counted),
        cmocka_unit_test(test_restarts_without_end),
        cmocka_unit_test(test_ends_that_are_for_good),
        cmocka_unit_test(test_a_kill_for_good_holds_in_every_state),
        cmocka_unit_test(test_a_death_in_the_constructor_counts),
        cmocka_unit_test(test_a_process_that_began_nothing_costs_nothing_but_not_for_ever),
        cmocka_unit_test(test_processes_that_answer_nothing_get_pauses),
        cmocka_unit_test(test_what_becomes_of_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
