/* A worker: where its next run comes from, in which order, and when it is to end. */
#include "worker.h"

#include <pthread.h>
#include <sched.h>

static void expect_run(mob_client_t *c, task_t task) {
    mob_run_t *run = taken(c);
    assert_true(runs(run, task));
    finished(c, run);
}

static task_t ordered(mob_client_t *c) {
    task_t task = sent((mob_task_t){.kind = MOB_TASK});
    daemon_tells_to_run(c, task);
    return task;
}

/* ---- what the daemon tells it to run ---- */

static void test_orders_are_taken_one_by_one_in_their_order(void **state) {
    mob_client_t *c = *state;
    takes_nothing(c, MOB_ETIMEOUT);
    task_t first = ordered(c), second = ordered(c);
    mob_run_t *run = taken(c);
    assert_true(runs(run, first));
    takes_nothing(c, MOB_ELIMIT);
    finished(c, run);
    expect_run(c, second);
    takes_nothing(c, MOB_ETIMEOUT);
}

static void test_many_orders_keep_their_order(void **state) {
    enum { MANY = 3000, AHEAD = 500 };
    static task_t tasks[MANY];
    mob_client_t *c = *state;
    for (size_t given = 0, done = 0; done < MANY; done++) {
        for (; given < MANY && given < done + AHEAD; given++) tasks[given] = ordered(c);
        expect_run(c, tasks[done]);
        assert_int_equal(daemon_hears(c).kind, WIRE_DONE);
    }
    assert_true(c->orders.capacity < MANY);
}

static void test_an_order_that_was_taken_back_is_passed(void **state) {
    mob_client_t *c = *state;
    task_t gone = ordered(c), next = ordered(c);
    taken_back(gone);
    daemon_says(c, WIRE_RUN, WIRE_MAX_RECORDS, 1); /* nor does one without a record do harm */
    expect_run(c, next);
    daemon_hears_only(c, WIRE_DONE, next.record, next.generation);
    takes_nothing(c, MOB_ETIMEOUT);
}

static void test_an_order_whose_argument_is_missing_is_given_back(void **state) {
    mob_client_t *c = *state;
    task_t argument = pushed();
    task_t waits = sent((mob_task_t){.kind = MOB_TASK, .deps = &argument.result, .dep_count = 1});
    daemon_tells_to_run(c, waits);
    task_t next = ordered(c);
    assert_true(runs(taken(c), next));
    daemon_hears_only(c, WIRE_UNREADY, waits.record, waits.generation);
    assert_int_equal(wire_word_state(record_word(waits)), WIRE_READY_STATE);
    finished(c, c->claimed);
    store_slot_seal(&c->slots[argument.result.slot], false);
    daemon_tells_to_run(c, waits);
    expect_run(c, waits);
}

/* ---- what it takes by itself ---- */

static void test_a_queue_is_taken_from_under_a_lease(void **state) {
    mob_client_t *c = *state;
    task_t first = pushed(), second = pushed();
    takes_nothing(c, MOB_ETIMEOUT);
    lease_give(c);
    expect_run(c, first);
    assert_int_equal(lease_word(c), SHM_LEASE_BUSY); /* between two */
    task_t order = ordered(c);
    expect_run(c, order); /* the daemon's come first */
    expect_run(c, second);
    takes_nothing(c, MOB_ETIMEOUT);
    assert_int_equal(lease_word(c), SHM_LEASE_FREE);
}

static void test_after_a_recall_the_queue_is_left_alone(void **state) {
    mob_client_t *c = *state;
    task_t first = pushed();
    pushed();
    lease_give(c);
    mob_run_t *run = taken(c);
    assert_true(runs(run, first));
    atomic_fetch_or(&lease(c)->word, SHM_LEASE_RECALL);
    finished(c, run);
    takes_nothing(c, MOB_ETIMEOUT);
    assert_int_equal(lease_word(c), SHM_LEASE_NONE);
    daemon_hears_only(c, WIRE_LEASE, 0, 0);
    assert_true(client_queues_have(c, LANE));
}

static void test_an_old_entry_in_a_queue_is_passed(void **state) {
    mob_client_t *c = *state;
    task_t gone = pushed(), next = pushed();
    taken_back(gone);
    lease_give(c);
    expect_run(c, next);
    takes_nothing(c, MOB_ETIMEOUT);
    gone.generation++;
    assert_int_equal(record_word(gone), wire_word(gone.generation, 0, WIRE_READY_STATE));
}

static void test_while_it_has_runs_enough_it_only_listens(void **state) {
    mob_client_t *c = *state;
    lease_give(c);
    pushed();
    taken(c);
    pushed();
    daemon_says(c, WIRE_EXIT, 0, 0);
    takes_nothing(c, MOB_ELIMIT);
    assert_true(c->told_to_exit);
    assert_true(client_queues_have(c, LANE));
    assert_int_equal(lease_word(c), SHM_LEASE_BUSY);
}

/* ---- calls ---- */

static void test_calls_come_from_queues_that_the_daemon_named(void **state) {
    mob_client_t *c = *state;
    task_t first = called(NULL), second = called(NULL);
    takes_nothing(c, MOB_ETIMEOUT);
    daemon_says(c, WIRE_CALLS, CALLS, 0);
    task_t order = ordered(c); /* such messages stand between orders */
    daemon_says(c, WIRE_CALLS_END, CALLS, 0);
    expect_run(c, order);
    daemon_hears_only(c, WIRE_DONE, order.record, order.generation);
    expect_run(c, first);
    daemon_hears_nothing(c);
    mob_run_t *run = taken(c); /* the last one that will ever come */
    assert_true(runs(run, second));
    daemon_hears_only(c, WIRE_CALLS_ENDED, CALLS, 0);
    finished(c, run);
    takes_nothing(c, MOB_ETIMEOUT);
}

/* ---- its end ---- */

static void test_told_to_exit_it_begins_nothing_more(void **state) {
    mob_client_t *c = *state;
    c->actor = (mob_ref_t){0}; /* a worker of tasks */
    lease_give(c);
    task_t task = pushed(), order = ordered(c);
    daemon_says(c, WIRE_EXIT, 0, 0);
    takes_nothing(c, MOB_ECLOSED);
    assert_int_equal(wire_word_state(record_word(task)), WIRE_READY_STATE);
    assert_int_equal(wire_word_state(record_word(order)), WIRE_READY_STATE);
}

static void test_told_to_exit_it_finishes_what_it_runs(void **state) {
    mob_client_t *c = *state;
    ordered(c);
    c->limit = 2;
    mob_run_t *run = taken(c);
    daemon_says(c, WIRE_EXIT, 0, 0);
    takes_nothing(c, MOB_ETIMEOUT);
    finished(c, run);
    takes_nothing(c, MOB_ECLOSED);
}

static void test_told_to_exit_an_actor_runs_the_calls_that_it_has(void **state) {
    mob_client_t *c = *state;
    daemon_says(c, WIRE_CALLS, CALLS, 0);
    task_t argument = pushed();
    task_t first = called(NULL), second = called(&argument.result);
    daemon_says(c, WIRE_EXIT, 0, 0);
    expect_run(c, first);
    takes_nothing(c, MOB_ETIMEOUT); /* the other one's argument is missing */
    store_slot_seal(&c->slots[argument.result.slot], false);
    expect_run(c, second);
    takes_nothing(c, MOB_ECLOSED);
}

static void test_told_to_exit_an_actor_runs_what_it_was_handed(void **state) {
    mob_client_t *c = *state;
    task_t order = ordered(c);
    daemon_says(c, WIRE_EXIT, 0, 0);
    expect_run(c, order);
    takes_nothing(c, MOB_ECLOSED);
}

static void test_a_call_that_is_run_again_comes_before_all_others(void **state) {
    mob_client_t *c = *state;
    daemon_says(c, WIRE_CALLS, CALLS, 0);
    takes_nothing(c, MOB_ETIMEOUT);
    task_t waiting = called(NULL), again = ordered(c);
    client_listen(c);
    c->orders.count = 0; /* its order was read before: the worker has run it once */
    task_t other = ordered(c);
    client_listen(c);
    client_order_again(c, again.record, again.generation, false);
    expect_run(c, again);
    expect_run(c, other);
    expect_run(c, waiting);
}

static void test_without_a_daemon_it_ends(void **state) {
    mob_client_t *c = *state;
    atomic_store(&c->dead, true);
    takes_nothing(c, MOB_ECLOSED);
}

static void test_a_record_that_makes_no_sense_ends_it(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed(), next = pushed();
    record_of(task)->num_refs = 1000;
    lease_give(c);
    takes_nothing(c, MOB_ECLOSED);
    assert_int_equal(wire_word_state(record_word(task)), WIRE_READY_STATE); /* for others */
    assert_int_equal(wire_word_state(record_word(next)), WIRE_READY_STATE);
    assert_true(client_queues_have(c, LANE));
}

/* ---- functions to be unloaded ---- */

static void test_functions_are_forgotten_when_nothing_else_is_there(void **state) {
    mob_client_t *c = *state;
    daemon_says(c, WIRE_FORGET, 500, 1);
    task_t task = ordered(c);
    expect_run(c, task);
    mob_run_t *run = taken(c);
    assert_int_equal(run->kind, MOB_FORGET);
    assert_int_equal(run->function.slot, 500);
    assert_int_equal(run->function.generation, 1);
    assert_true(client_is_unloading()); /* what a finalizer does must not wait */
    assert_int_equal(atomic_load(&lease(c)->run), SHM_LEASE_FORGETS);
    takes_nothing(c, MOB_ETIMEOUT);
    assert_false(client_is_unloading());
    assert_int_equal(atomic_load(&lease(c)->run), 0);
}

static void test_too_many_functions_are_not_put_off(void **state) {
    enum { MANY = 100, FIRST = 500 };
    mob_client_t *c = *state;
    for (uint32_t i = 0; i < MANY; i++) daemon_says(c, WIRE_FORGET, FIRST + i, 1);
    lease_give(c);
    unsigned forgotten = 0;
    bool seen[MANY] = {false};
    pushed();
    mob_run_t *run = taken(c);
    assert_int_equal(run->kind, MOB_TASK); /* it listens as it takes this one */
    finished(c, run);
    pushed();
    for (; (run = taken(c))->kind == MOB_FORGET; forgotten++) {
        uint32_t index = run->function.slot - FIRST;
        assert_true(index < MANY && !seen[index]);
        seen[index] = true;
    }
    assert_true(forgotten > 0 && forgotten < MANY);
    finished(c, run);
    while (mob_run_try(c, &run) == MOB_OK) forgotten++;
    assert_int_equal(forgotten, MANY);
}

/* ---- sleep ---- */

typedef struct {
    mob_client_t *c;
    mob_status_t status;
    mob_run_t *run;
} sleeper_t;

static void *sleeper_run(void *context) {
    sleeper_t *s = context;
    s->status = mob_run_next(s->c, &s->run);
    return NULL;
}

static void test_a_push_wakes_it(void **state) {
    sleeper_t s = {.c = *state};
    lease_give(s.c);
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    task_t task = pushed();
    pthread_join(thread, NULL);
    assert_int_equal(s.status, MOB_OK);
    assert_true(runs(s.run, task));
}

static void test_the_end_of_a_run_wakes_who_may_not_begin_one(void **state) {
    sleeper_t s = {.c = *state};
    task_t first = ordered(s.c);
    mob_run_t *run = taken(s.c);
    assert_true(runs(run, first));
    task_t second = ordered(s.c);
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    assert_null(s.run);
    finished(s.c, run);
    pthread_join(thread, NULL);
    assert_int_equal(s.status, MOB_OK);
    assert_true(runs(s.run, second));
}

static void test_told_to_exit_while_it_sleeps(void **state) {
    sleeper_t s = {.c = *state};
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    daemon_says(s.c, WIRE_EXIT, 0, 0);
    shm_bell_ring(&s.c->node->bells[NUMBER]);
    pthread_join(thread, NULL);
    assert_int_equal(s.status, MOB_ECLOSED);
}

/* ---- every task runs once, whoever takes it ---- */

enum { TASKS = 20000, WORKERS = 3 };
static _Atomic uint8_t times[TASKS];
static _Atomic uint32_t ended;

static void *worker_run(void *context) {
    mob_client_t *c = context;
    mob_run_t *run;
    while (mob_run_next(c, &run) == MOB_OK) {
        uint32_t number;
        memcpy(&number, run->args, sizeof number);
        atomic_fetch_add(&times[number], 1);
        finished(c, run);
        atomic_fetch_add(&ended, 1);
    }
    return NULL;
}

/* As the daemon does; how many tasks they tell of. */
static uint32_t events_read(mob_client_t *const *workers) {
    uint32_t count = 0;
    shm_event_t event;
    for (uint32_t i = 0; i < WORKERS; i++)
        while (shm_events_take(workers[i]->events, &event)) count++;
    sched_yield();
    return count;
}

static void task_push(uint32_t number) {
    mob_ref_t result;
    mob_task_t task = {.kind = MOB_TASK,
                       .shape = MOB_SHAPE_ONE_CPU,
                       .num_returns = 1,
                       .args = &number,
                       .args_size = sizeof number};
    assert_int_equal(mob_submit(submitter, &task, &result), MOB_OK);
    mob_ref_release(submitter, result);
}

static void test_every_task_runs_once(void **state) {
    mob_client_t *c = *state, *workers[WORKERS];
    pthread_t threads[WORKERS];
    uint32_t told = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = client_beside(c, WIRE_WORKER, 10 + i);
        lease_give(workers[i]);
        assert_int_equal(pthread_create(&threads[i], NULL, worker_run, workers[i]), 0);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        task_push(i);
        /* records and slots are used again and again; now and then the workers fall asleep */
        uint32_t at_least = i % 1000 == 0 ? i + 1 : i < 1000 ? 0 : i - 1000;
        while (atomic_load(&ended) < at_least) told += events_read(workers);
    }
    while (atomic_load(&ended) < TASKS) told += events_read(workers);
    for (uint32_t i = 0; i < WORKERS; i++) {
        daemon_says(workers[i], WIRE_EXIT, 0, 0);
        shm_bell_ring(&c->node->bells[10 + i]);
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(told + events_read(workers), TASKS);
    for (uint32_t i = 0; i < WORKERS; i++) client_delete(workers[i]);
    for (uint32_t i = 0; i < TASKS; i++) assert_int_equal(atomic_load(&times[i]), 1);
    daemon_hears_nothing(submitter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_orders_are_taken_one_by_one_in_their_order),
        WORKER_TEST(test_many_orders_keep_their_order),
        WORKER_TEST(test_an_order_that_was_taken_back_is_passed),
        WORKER_TEST(test_an_order_whose_argument_is_missing_is_given_back),
        WORKER_TEST(test_a_queue_is_taken_from_under_a_lease),
        WORKER_TEST(test_after_a_recall_the_queue_is_left_alone),
        WORKER_TEST(test_an_old_entry_in_a_queue_is_passed),
        WORKER_TEST(test_while_it_has_runs_enough_it_only_listens),
        WORKER_TEST(test_calls_come_from_queues_that_the_daemon_named),
        WORKER_TEST(test_told_to_exit_it_begins_nothing_more),
        WORKER_TEST(test_told_to_exit_it_finishes_what_it_runs),
        WORKER_TEST(test_told_to_exit_an_actor_runs_the_calls_that_it_has),
        WORKER_TEST(test_told_to_exit_an_actor_runs_what_it_was_handed),
        WORKER_TEST(test_a_call_that_is_run_again_comes_before_all_others),
        WORKER_TEST(test_without_a_daemon_it_ends),
        WORKER_TEST(test_a_record_that_makes_no_sense_ends_it),
        WORKER_TEST(test_functions_are_forgotten_when_nothing_else_is_there),
        WORKER_TEST(test_too_many_functions_are_not_put_off),
        WORKER_TEST(test_a_push_wakes_it),
        WORKER_TEST(test_the_end_of_a_run_wakes_who_may_not_begin_one),
        WORKER_TEST(test_told_to_exit_while_it_sleeps),
        WORKER_TEST(test_every_task_runs_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
