/* Control state in memory: in order, by id, and bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/control.h"

static int control_open(void **state) { return control_embedded_new((control_t **)state); }

static int control_close(void **state) {
    control_free(*state);
    return 0;
}

static void actor_put(control_t *control, uint32_t slot, uint64_t generation,
                      control_actor_state_t state) {
    control_actor_put(control, &(control_actor_t){.id = {.slot = slot, .generation = generation},
                                                  .state = state,
                                                  .pid = (int32_t)slot + 1000,
                                                  .name = "Counter"});
}

static void test_nothing_at_first(void **state) {
    assert_int_equal(control_event_count(*state), 0);
    assert_int_equal(control_actor_count(*state), 0);
    control_free(NULL);
}

static void test_events_oldest_first(void **state) {
    for (uint32_t i = 0; i < 1000; i++)
        control_event_add(*state, &(control_event_t){.worker = i, .start_ns = i * 2});
    assert_int_equal(control_event_count(*state), 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(control_event_at(*state, i)->worker, i);
        assert_int_equal(control_event_at(*state, i)->start_ns, i * 2);
    }
}

static void test_events_are_bounded(void **state) {
    const uint32_t beyond = 12345;
    for (uint32_t i = 0; i < CONTROL_MAX_EVENTS + beyond; i++)
        control_event_add(*state, &(control_event_t){.worker = i});
    assert_int_equal(control_event_count(*state), CONTROL_MAX_EVENTS);
    for (uint32_t i = 0; i < CONTROL_MAX_EVENTS; i++)
        assert_int_equal(control_event_at(*state, i)->worker, beyond + i);
}

static void test_actor_goes_through_its_states(void **state) {
    actor_put(*state, 7, 1, CONTROL_ACTOR_PENDING);
    actor_put(*state, 8, 1, CONTROL_ACTOR_PENDING);
    actor_put(*state, 7, 1, CONTROL_ACTOR_ALIVE);
    actor_put(*state, 7, 1, CONTROL_ACTOR_DEAD);
    assert_int_equal(control_actor_count(*state), 2);
    const control_actor_t *first = control_actor_at(*state, 0),
                          *second = control_actor_at(*state, 1);
    assert_int_equal(first->id.slot, 7);
    assert_int_equal(first->state, CONTROL_ACTOR_DEAD);
    assert_int_equal(first->pid, 1007);
    assert_string_equal(first->name, "Counter");
    assert_int_equal(second->id.slot, 8);
    assert_int_equal(second->state, CONTROL_ACTOR_PENDING);
}

static void test_generations_are_different_actors(void **state) {
    actor_put(*state, 7, 1, CONTROL_ACTOR_DEAD);
    actor_put(*state, 7, 2, CONTROL_ACTOR_ALIVE);
    assert_int_equal(control_actor_count(*state), 2);
    assert_int_equal(control_actor_at(*state, 0)->state, CONTROL_ACTOR_DEAD);
    assert_int_equal(control_actor_at(*state, 1)->state, CONTROL_ACTOR_ALIVE);
}

static void test_oldest_dead_are_forgotten(void **state) {
    actor_put(*state, 1, 1, CONTROL_ACTOR_ALIVE); /* lives through all of it */
    for (uint32_t i = 2; i < CONTROL_MAX_DEAD_ACTORS + 102; i++) {
        actor_put(*state, i, 1, CONTROL_ACTOR_PENDING);
        actor_put(*state, i, 1, CONTROL_ACTOR_DEAD);
        actor_put(*state, i, 1, CONTROL_ACTOR_DEAD); /* saying it twice changes nothing */
    }
    assert_int_equal(control_actor_count(*state), CONTROL_MAX_DEAD_ACTORS + 1);
    assert_int_equal(control_actor_at(*state, 0)->id.slot, 1);
    assert_int_equal(control_actor_at(*state, 1)->id.slot, 102);
}

static void test_those_first_seen_dead_are_bounded_too(void **state) {
    for (uint32_t i = 1; i < CONTROL_MAX_DEAD_ACTORS + 100; i++)
        actor_put(*state, i, 1, CONTROL_ACTOR_DEAD);
    assert_int_equal(control_actor_count(*state), CONTROL_MAX_DEAD_ACTORS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_at_first, control_open, control_close),
        cmocka_unit_test_setup_teardown(test_events_oldest_first, control_open, control_close),
        cmocka_unit_test_setup_teardown(test_events_are_bounded, control_open, control_close),
        cmocka_unit_test_setup_teardown(test_actor_goes_through_its_states, control_open,
                                        control_close),
        cmocka_unit_test_setup_teardown(test_generations_are_different_actors, control_open,
                                        control_close),
        cmocka_unit_test_setup_teardown(test_oldest_dead_are_forgotten, control_open,
                                        control_close),
        cmocka_unit_test_setup_teardown(test_those_first_seen_dead_are_bounded_too, control_open,
                                        control_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
