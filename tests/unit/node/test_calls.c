/* Calls of actors in queues: what becomes of them when the caller or the actor dies at any point
 * between the two. */
#include "players.h"

static mob_ref_t actor;
static node_client_t *actors_worker;

/* The next message of this kind; those before it are passed over. */
static wire_message_t heard(node_client_t *c, uint32_t kind) {
    wire_message_t m;
    do m = fixture_heard(c);
    while (m.kind != 0 && m.kind != kind);
    return m;
}

/* An actor of one CPU, of the driver's. */
static int actor_setup(void **state) {
    setup(state);
    actors_worker = worker_new();
    actor = slot_open(&driver);
    atomic_fetch_or(&slot_of(actor)->word, STORE_ESCAPED);
    uint32_t record = record_fill(&driver, actor, NONE, 0, true);
    n->records[record].kind = MOB_ACTOR_CREATE;
    n->records[record].held_shape = MOB_SHAPE_ONE_CPU;
    fixture_say(JOB(n)->driver, WIRE_SUBMIT, record, generation_of(record));
    node_schedule(n);
    run(actors_worker, record, actor);
    assert_non_null(actors_worker->actor);
    assert_int_equal(cpus_free(), CPUS - 1);
    return 0;
}

/* A process with a handle and a queue. */
static submitter_t caller_new(uint32_t *ret_queue) {
    submitter_t caller = submitter_of(client_new(WIRE_WORKER));
    fixture_say(caller.client, WIRE_HOLD, actor.slot, actor.generation);
    fixture_say(caller.client, WIRE_NEED_CALLS, actor.slot, actor.generation);
    *ret_queue = heard(caller.client, WIRE_CALLS_ARE).queue.queue;
    assert_int_not_equal(*ret_queue, 0);
    return caller;
}

/* A call that is READY; the daemon is told of its argument, if it has one. */
static uint32_t call_new(submitter_t *caller, mob_ref_t argument) {
    uint32_t record = record_fill(caller, slot_open(caller), argument, 0, argument.slot != 0);
    n->records[record].kind = MOB_ACTOR_CALL;
    n->records[record].shape = 0;
    n->records[record].actor = actor;
    if (argument.slot != 0)
        fixture_say(caller->client, WIRE_ARGUMENTS, record, generation_of(record));
    return record;
}

static mob_ref_t sealed_argument(submitter_t *of) {
    mob_ref_t argument = slot_open(of);
    slot_seal(argument);
    return argument;
}

/* A task of the driver's whose result is not there yet, on a worker of its own. */
static mob_ref_t pending_argument(node_client_t **ret_worker, uint32_t *ret_record) {
    mob_ref_t argument = slot_open(&driver);
    *ret_worker = worker_new();
    *ret_record = record_fill(&driver, argument, NONE, 0, true);
    atomic_fetch_or(&slot_of(argument)->word, STORE_ESCAPED);
    fixture_say(JOB(n)->driver, WIRE_SUBMIT, *ret_record, generation_of(*ret_record));
    node_schedule(n);
    return argument;
}

static void handle_drop(void) {
    fixture_say(JOB(n)->driver, WIRE_DROP, actor.slot, actor.generation);
    fixture_settle(n);
}

/* Killed after it has told of the arguments, before it pushed: the call runs, and the actor ends
 * with its last handle. */
static void test_a_caller_that_dies_before_the_push(void **state) {
    (void)state;
    for (int with_argument = 0; with_argument < 2; with_argument++) {
        uint32_t queue;
        submitter_t caller = caller_new(&queue);
        uint32_t record = call_new(&caller, with_argument ? sealed_argument(&caller) : NONE);
        node_client_died(caller.client);
        fixture_settle(n);
        assert_int_equal(heard(actors_worker, WIRE_CALLS_END).queue.queue, queue);
        fixture_say(actors_worker, WIRE_CALLS_ENDED, queue, 0);
        run(actors_worker, record, NONE);
        assert_null(n->tasks[record]);
        assert_int_equal(actors_worker->actor->in_flight, 0);
    }
    handle_drop();
    assert_int_equal(heard(actors_worker, WIRE_EXIT).kind, WIRE_EXIT);
}

/* Its number goes to nobody else before the actor has finished its queue: the next one would have
 * to wait for calls that are not its own. */
static void test_the_number_of_a_caller_that_died(void **state) {
    (void)state;
    uint32_t queue;
    submitter_t caller = caller_new(&queue);
    uint32_t number = caller.client->number;
    node_client_died(caller.client);
    fixture_settle(n);
    n->round += 2;
    assert_int_not_equal(client_new(WIRE_WORKER)->number, number);
    assert_int_equal(heard(actors_worker, WIRE_CALLS_END).queue.queue, queue);
    fixture_say(actors_worker, WIRE_CALLS_ENDED, queue, 0);
    assert_int_equal(client_new(WIRE_WORKER)->number, number);
}

/* The same, and then the actor dies and is forgotten, and the argument comes. */
static void test_a_caller_that_dies_before_the_push_and_then_the_actor(void **state) {
    (void)state;
    uint32_t queue, made;
    node_client_t *maker;
    submitter_t caller = caller_new(&queue);
    mob_ref_t argument = pending_argument(&maker, &made);
    uint32_t record = call_new(&caller, argument);
    node_client_died(caller.client);
    fixture_settle(n);
    handle_drop();
    node_client_died(actors_worker);
    fixture_settle(n);
    assert_null(n->tasks[record]);
    run(maker, made, argument);
    assert_int_equal(cpus_free(), CPUS);
}

/* Killed after the push, before it has seen that the actor is dead. */
static void test_a_caller_that_dies_after_the_push_to_a_dead_actor(void **state) {
    (void)state;
    uint32_t queue;
    submitter_t caller = caller_new(&queue);
    mob_ref_t argument = sealed_argument(&driver);
    uint32_t record = call_new(&caller, argument);
    node_client_died(actors_worker);
    assert_int_equal(atomic_load(&n->queues[queue].closed), 1);
    assert_true(shm_queue_push(&n->queues[queue], wire_entry(record, generation_of(record))));
    node_client_died(caller.client);
    fixture_settle(n);
    assert_null(n->tasks[record]);
    assert_int_equal(n->objects[argument.slot]->uses, 0);
}

/* It lives, but never pushes what it told of: the daemon does not trip over it when the actor is
 * long forgotten. */
static void test_a_caller_that_never_pushes(void **state) {
    (void)state;
    uint32_t queue, made;
    node_client_t *maker;
    submitter_t caller = caller_new(&queue);
    mob_ref_t argument = pending_argument(&maker, &made);
    uint32_t record = call_new(&caller, argument);
    fixture_say(caller.client, WIRE_DROP, actor.slot, actor.generation);
    handle_drop();
    node_client_died(actors_worker);
    fixture_settle(n);
    run(maker, made, argument);
    node_client_died(caller.client);
    fixture_settle(n);
    assert_null(n->tasks[record]);
    assert_int_equal(cpus_free(), CPUS);
}

/* What lies in a dead caller's queue stays there, in its order, whether or not the daemon knew of
 * it. */
static void test_a_dead_callers_queue_stays_in_order(void **state) {
    (void)state;
    uint32_t queue;
    submitter_t caller = caller_new(&queue);
    enum { CALLS = 6 };
    uint32_t records[CALLS];
    caller.next_record += CALLS;
    for (int i = 0; i < CALLS; i++) {
        caller.next_record -= 2; /* records come from a pool, in any order */
        records[i] = call_new(&caller, i % 2 ? sealed_argument(&caller) : NONE);
        assert_true(
            shm_queue_push(&n->queues[queue], wire_entry(records[i], generation_of(records[i]))));
    }
    node_client_died(caller.client);
    for (int i = 0; i < CALLS; i++) {
        uint64_t position = 0, entry = 0;
        assert_true(shm_queue_peek(&n->queues[queue], &position, &entry));
        assert_true(wire_entry_names(entry, record_word(records[i])));
        shm_queue_pass(&n->queues[queue], position);
        uint64_t generation = generation_of(records[i]);
        assert_true(
            wire_record_move(&n->records[records[i]], wire_word(generation, 0, WIRE_READY_STATE),
                             wire_word(generation, actors_worker->number, WIRE_TAKEN), NULL));
        assert_true(commit(actors_worker, records[i]));
        fixture_say(actors_worker, WIRE_DONE, records[i], generation);
        assert_null(n->tasks[records[i]]);
    }
}

#define ACTOR_TEST(name) cmocka_unit_test_setup_teardown(name, actor_setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ACTOR_TEST(test_a_caller_that_dies_before_the_push),
        ACTOR_TEST(test_the_number_of_a_caller_that_died),
        ACTOR_TEST(test_a_caller_that_dies_before_the_push_and_then_the_actor),
        ACTOR_TEST(test_a_caller_that_dies_after_the_push_to_a_dead_actor),
        ACTOR_TEST(test_a_caller_that_never_pushes),
        ACTOR_TEST(test_a_dead_callers_queue_stays_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
