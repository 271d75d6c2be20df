/* A worker of a node whose term is over: what it leaves alone, what it gives to the daemon, and
 * that it wakes when the term goes on. */
#include "worker.h"

#include <pthread.h>

#include "base/clock.h"
#include "shm/term.h"

static const uint64_t LONG_NS = UINT64_C(1000000000) * 3600;
enum { ROUNDS = 2000 };

/* As the daemon does. */
static void term_set(mob_client_t *c, uint64_t end_ns) {
    if (shm_term_set(c->node, end_ns)) shm_bell_ring(&c->node->bells[c->number]);
}
static void term_end(mob_client_t *c) { term_set(c, 1); }
static void term_go_on(mob_client_t *c) { term_set(c, base_clock_boot_ns() + LONG_NS); }

static task_t repeatable(void) {
    return submitted((mob_task_t){.kind = MOB_TASK, .shape = MOB_SHAPE_ONE_CPU, .max_retries = 1});
}

static void expect_run(mob_client_t *c, task_t task) {
    mob_run_t *run = taken(c);
    assert_true(runs(run, task));
    finished(c, run);
}

static void test_calls_stay_in_their_queue(void **state) {
    mob_client_t *c = *state;
    daemon_says(c, WIRE_CALLS, CALLS, 0);
    task_t first = called(NULL), second = called(NULL);
    term_end(c);
    takes_nothing(c, MOB_ETIMEOUT);
    assert_false(client_calls_have(c)); /* or the worker would look for ever */
    assert_true(client_calls_wait(c));
    uint32_t before = rings(c, NUMBER);
    term_go_on(c);
    assert_int_equal(rings(c, NUMBER), before + 1);
    expect_run(c, first);
    expect_run(c, second);
}

static void test_orders_for_the_actor_wait_in_their_order(void **state) {
    mob_client_t *c = *state;
    task_t tasks[3];
    for (int i = 0; i < 3; i++) {
        tasks[i] = sent((mob_task_t){.kind = MOB_ACTOR_CALL, .actor = actor});
        daemon_tells_to_run(c, tasks[i]);
    }
    term_end(c);
    takes_nothing(c, MOB_ETIMEOUT);
    takes_nothing(c, MOB_ETIMEOUT);
    taken_back(tasks[0]); /* it was cancelled */
    takes_nothing(c, MOB_ETIMEOUT);
    daemon_hears_nothing(c);
    term_go_on(c);
    expect_run(c, tasks[1]);
    expect_run(c, tasks[2]);
}

static void test_a_task_that_is_not_run_again_goes_back_to_the_daemon(void **state) {
    mob_client_t *c = *state;
    task_t once = sent((mob_task_t){.kind = MOB_TASK});
    task_t again = sent((mob_task_t){.kind = MOB_TASK, .max_retries = 1});
    daemon_tells_to_run(c, once);
    wire_message_t order = {.run = {WIRE_RUN, .record = again.record,
                                    .generation = again.generation, .flags = WIRE_RUN_MAY_RETRY}};
    assert_true(shm_ring_push(c->down, SHM_DOWN_MESSAGES, &order));
    term_end(c);
    mob_run_t *run = taken(c);
    assert_true(runs(run, again));
    daemon_hears_only(c, WIRE_UNREADY, once.record, once.generation);
    finished(c, run);
}

static void test_tasks_in_a_queue_that_are_run_again_do_not_wait_for_others(void **state) {
    mob_client_t *c = *state;
    task_t once = pushed(), again = repeatable();
    lease_give(c);
    term_end(c);
    mob_run_t *run = taken(c);
    assert_true(runs(run, again));
    daemon_hears_only(c, WIRE_POSTPONE, once.record, once.generation);
    assert_int_equal(wire_word_state(record_word(once)), WIRE_READY_STATE);
    finished(c, run);
    takes_nothing(c, MOB_ETIMEOUT);
}

static void test_without_a_cluster_the_term_has_no_end(void **state) {
    mob_client_t *c = *state;
    assert_false(shm_term_is_over(c->node));
    lease_give(c);
    expect_run(c, pushed());
}

static _Atomic bool ends;

/* The daemon of a node that is cut off now and then. */
static void *daemon_goes(void *context) {
    mob_client_t *c = context;
    while (!atomic_load(&ends)) {
        term_end(c);
        term_go_on(c);
    }
    return NULL;
}

/* Were one wake-up lost, the worker would sleep for ever: the test's time limit ends it. */
static void test_no_wake_up_is_lost(void **state) {
    mob_client_t *c = *state;
    pthread_t thread;
    atomic_store(&ends, false);
    daemon_says(c, WIRE_CALLS, CALLS, 0);
    assert_int_equal(pthread_create(&thread, NULL, daemon_goes, c), 0);
    for (int i = 0; i < ROUNDS; i++) {
        mob_run_t *run;
        task_t call = called(NULL);
        assert_int_equal(mob_run_next(c, &run), MOB_OK);
        assert_true(runs(run, call));
        finished(c, run);
        shm_event_t event;
        while (daemon_hears(c).kind != 0 || shm_events_take(c->events, &event)) {
        }
    }
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_calls_stay_in_their_queue),
        WORKER_TEST(test_orders_for_the_actor_wait_in_their_order),
        WORKER_TEST(test_a_task_that_is_not_run_again_goes_back_to_the_daemon),
        WORKER_TEST(test_tasks_in_a_queue_that_are_run_again_do_not_wait_for_others),
        WORKER_TEST(test_without_a_cluster_the_term_has_no_end),
        WORKER_TEST(test_no_wake_up_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
