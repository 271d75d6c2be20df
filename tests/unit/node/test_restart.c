/* An actor's process dies at any point: what is run again, in which order, and what fails. */
#include "players.h"

enum { RESTARTS = 3, CALLS = 4 };

static mob_ref_t actor;
static uint32_t creation; /* its record */
static node_client_t *first_worker, *next_worker;
static submitter_t caller;
static uint32_t queue;

static wire_message_t heard(node_client_t *c, uint32_t kind) {
    wire_message_t m;
    do m = fixture_heard(c);
    while (m.kind != 0 && m.kind != kind);
    return m;
}

static node_actor_t *books(void) { return n->objects[actor.slot]->actor; }

static void actor_submit(submitter_t *maker, mob_ref_t argument) {
    actor = slot_open(maker);
    creation = record_fill(maker, actor, argument, RESTARTS, true);
    n->records[creation].kind = MOB_ACTOR_CREATE;
    n->records[creation].held_shape = MOB_SHAPE_ONE_CPU;
    atomic_fetch_or(&slot_of(actor)->word, STORE_ESCAPED);
    fixture_say(maker->client, WIRE_SUBMIT, creation, generation_of(creation));
    node_schedule(n);
}

/* The constructor of an actor that was made before: its slot is not touched. */
static void remake(node_client_t *w) {
    uint64_t generation = generation_of(creation);
    wire_message_t m = heard(w, WIRE_RUN);
    assert_int_equal(m.run.record, creation);
    assert_int_equal(m.run.generation, generation);
    assert_int_equal(m.run.flags, WIRE_RUN_RESTARTED | WIRE_RUN_MADE);
    assert_true(wire_record_move(&n->records[creation], wire_word(generation, 0, WIRE_READY_STATE),
                                 wire_word(generation, w->number, WIRE_TAKEN), NULL));
    commit(w, creation);
    fixture_say(w, WIRE_DONE, creation, generation);
    node_schedule(n);
}

static int restart_setup(void **state) {
    setup(state);
    first_worker = worker_new();
    actor_submit(&driver, NONE);
    run(first_worker, creation, actor);
    assert_int_equal(books()->life.state, ACTOR_ALIVE);
    next_worker = worker_new();
    caller = submitter_of(client_new(WIRE_WORKER));
    fixture_say(caller.client, WIRE_HOLD, actor.slot, actor.generation);
    fixture_say(caller.client, WIRE_NEED_CALLS, actor.slot, actor.generation);
    queue = heard(caller.client, WIRE_CALLS_ARE).queue.queue;
    assert_int_not_equal(queue, 0);
    return 0;
}

/* A call in the caller's queue. */
static uint32_t call_push(int32_t retries, mob_ref_t *ret_result) {
    *ret_result = slot_open(&caller);
    uint32_t record = record_fill(&caller, *ret_result, NONE, retries, false);
    n->records[record].kind = MOB_ACTOR_CALL;
    n->records[record].shape = 0;
    n->records[record].actor = actor;
    assert_true(shm_queue_push(&n->queues[queue], wire_entry(record, generation_of(record))));
    return record;
}

/* The actor's worker claims it. `passed`: it also moved past its entry; `start_ns`: 0 if it was
 * killed before it wrote that down. */
static void call_claim(node_client_t *w, uint32_t record, bool passed, uint64_t start_ns) {
    uint64_t generation = generation_of(record), position, entry;
    assert_true(wire_record_move(&n->records[record], wire_word(generation, 0, WIRE_READY_STATE),
                                 wire_word(generation, w->number, WIRE_TAKEN), NULL));
    n->records[record].start_ns = start_ns;
    if (passed && shm_queue_peek(&n->queues[queue], &position, &entry))
        shm_queue_pass(&n->queues[queue], position);
}

/* What the queue's next taker could claim; UINT32_MAX: nothing. */
static uint32_t claimable(void) {
    uint64_t position, entry;
    while (shm_queue_peek(&n->queues[queue], &position, &entry)) {
        uint32_t record = wire_entry_index(entry);
        if (wire_entry_names(entry, record_word(record))) return record;
        shm_queue_pass(&n->queues[queue], position);
    }
    return UINT32_MAX;
}

static void first_dies(void) {
    node_client_died(first_worker);
    assert_int_equal(books()->life.state, ACTOR_RESTARTING);
    assert_int_equal(atomic_load(&n->queues[queue].taker), 0);
    assert_int_equal(atomic_load(&n->queues[queue].closed), 0);
}

static void test_the_creation_is_run_again_and_publishes_nothing(void **state) {
    (void)state;
    uint64_t word = word_of(actor), meta = slot_of(actor)->meta;
    assert_int_equal(n->open_tasks[JOB(n)->driver->number], 0);
    assert_int_equal(cpus_free(), CPUS - 1);
    first_dies();
    assert_int_equal(cpus_free(), CPUS - 1); /* given back, and taken again */
    remake(next_worker);
    assert_ptr_equal(books()->worker, next_worker);
    assert_int_equal(books()->life.state, ACTOR_ALIVE);
    assert_int_equal(atomic_load(&n->queues[queue].taker), next_worker->number);
    assert_int_equal(heard(next_worker, WIRE_CALLS).queue.queue, queue);
    assert_int_equal(word_of(actor), word);
    assert_int_equal(slot_of(actor)->meta, meta);
    assert_int_equal(cpus_free(), CPUS - 1);
}

static void test_the_last_restart_lets_the_creation_go(void **state) {
    (void)state;
    node_client_t *w = first_worker, *next = next_worker;
    for (int i = 0; i < RESTARTS; i++, w = next, next = worker_new()) {
        assert_non_null(n->tasks[creation]);
        node_client_died(w);
        remake(next);
    }
    assert_null(n->tasks[creation]);
    assert_int_equal(wire_word_state(record_word(creation)), WIRE_FREE);
    node_client_died(w);
    assert_int_equal(books()->life.state, ACTOR_DEAD);
    assert_int_equal(atomic_load(&n->queues[queue].closed), 1);
    assert_int_equal(cpus_free(), CPUS);
}

static void test_calls_that_were_not_begun_stay_where_they_are(void **state) {
    (void)state;
    mob_ref_t results[CALLS];
    uint32_t records[CALLS];
    for (int i = 0; i < CALLS; i++) records[i] = call_push(0, &results[i]);
    first_dies();
    remake(next_worker);
    assert_int_equal(heard(next_worker, WIRE_CALLS).queue.queue, queue);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(claimable(), records[i]);
        call_claim(next_worker, records[i], true, 1);
        finish(next_worker, records[i], results[i]);
    }
    assert_int_equal(books()->in_flight, 0);
}

/* Killed at each step of a call: before and after it passed the entry, before and after DONE. */
static void test_a_begun_call_without_retries_fails_once(void **state) {
    (void)state;
    for (int passed = 0; passed < 2; passed++) {
        mob_ref_t begun, waiting;
        uint32_t record = call_push(0, &begun), other = call_push(0, &waiting);
        node_client_t *w = books()->worker, *next = next_worker;
        call_claim(w, record, passed, passed);
        node_client_died(w);
        assert_int_equal(error_of(begun), MOB_EUNAVAILABLE);
        assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
        remake(next);
        assert_int_equal(claimable(), other);
        call_claim(next, other, true, 2);
        finish(next, other, waiting);
        assert_int_equal(claimable(), UINT32_MAX);
        next_worker = worker_new();
    }
}

static void test_a_call_that_was_done_is_complete(void **state) {
    (void)state;
    mob_ref_t result;
    uint32_t record = call_push(-1, &result);
    call_claim(first_worker, record, false, 1);
    slot_of(result)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    commit(first_worker, record); /* and killed before it sealed the result */
    first_dies();
    assert_int_equal(word_of(result) & STORE_STATE, STORE_SEALED);
    assert_int_equal(error_of(result), MOB_OK);
    assert_null(n->tasks[record]);
    remake(next_worker);
    assert_int_equal(heard(next_worker, WIRE_RUN).kind, 0);
}

/* Several at once, as a threaded actor has them; the records' numbers are in another order than the
 * calls, and the last one was killed before it noted its time. */
static void test_retried_calls_come_first_and_in_order(void **state) {
    (void)state;
    mob_ref_t results[CALLS], waiting;
    uint32_t records[CALLS];
    for (int i = 0; i < CALLS; i++) records[i] = call_push(1, &results[i]);
    uint32_t later = call_push(0, &waiting);
    for (int i = CALLS - 1; i >= 0; i--)
        call_claim(first_worker, records[i], true, i == 0 ? 0 : (uint64_t)(CALLS - i));
    first_dies();
    for (int i = 0; i < CALLS; i++) assert_int_equal(generation_of(records[i]), 2);
    remake(next_worker);
    for (int i = CALLS - 1; i >= 0; i--) {
        wire_message_t m = fixture_heard(next_worker);
        assert_int_equal(m.kind, WIRE_RUN);
        assert_int_equal(m.run.record, records[i]);
        assert_int_equal(m.run.flags, 0); /* that was the only retry */
    }
    assert_int_equal(fixture_heard(next_worker).kind, WIRE_CALLS);
    assert_int_equal(claimable(), later);
    assert_int_equal(books()->in_flight, CALLS);
    for (int i = CALLS - 1; i >= 0; i--) {
        call_claim(next_worker, records[i], false, 9);
        commit(next_worker, records[i]);
        slot_seal(results[i]);
        fixture_say(next_worker, WIRE_DONE, records[i], 2);
    }
    assert_int_equal(books()->in_flight, 0);
}

/* Through the daemon: the begun one fails, the ones behind it wait, and so do new ones. */
static void test_calls_through_the_daemon(void **state) {
    (void)state;
    mob_ref_t results[CALLS];
    uint32_t records[CALLS];
    for (int i = 0; i < CALLS; i++) {
        if (i == 3) first_dies();
        results[i] = slot_open(&driver);
        records[i] = record_fill(&driver, results[i], NONE, 0, true);
        n->records[records[i]].kind = MOB_ACTOR_CALL;
        n->records[records[i]].shape = 0;
        n->records[records[i]].actor = actor;
        fixture_say(JOB(n)->driver, WIRE_SUBMIT, records[i], generation_of(records[i]));
        if (i == 0) {
            assert_int_equal(heard(first_worker, WIRE_RUN).run.record, records[0]);
            call_claim(first_worker, records[0], false, 1);
        }
    }
    assert_int_equal(error_of(results[0]), MOB_EUNAVAILABLE);
    remake(next_worker);
    for (int i = 1; i < CALLS; i++) {
        wire_message_t m = heard(next_worker, WIRE_RUN);
        assert_int_equal(m.run.record, records[i]);
        assert_int_equal(m.run.generation, generation_of(records[i]));
    }
}

static void test_a_call_that_raises_is_run_again_by_the_same_worker(void **state) {
    (void)state;
    mob_ref_t result;
    uint32_t record = call_push(2, &result);
    n->records[record].flags = WIRE_RETRY_EXCEPTIONS;
    for (uint64_t left = 2; left > 0; left--) {
        uint64_t generation = generation_of(record);
        call_claim(first_worker, record, true, 1);
        (void)wire_record_make_known(&n->records[record], record_word(record));
        fixture_say(first_worker, WIRE_RETRY, record, generation);
        wire_message_t m = heard(first_worker, WIRE_ANSWER);
        assert_int_equal(m.answer.value, wire_again(generation + 1, left > 1));
        assert_true(wire_word_is(record_word(record), generation + 1, WIRE_READY_STATE));
        assert_ptr_equal(n->tasks[record]->worker, first_worker);
    }
    first_dies(); /* before it began it again: it is not lost, and costs nothing */
    remake(next_worker);
    assert_int_equal(heard(next_worker, WIRE_RUN).run.record, record);
}

/* One that may not is refused, and its worker ended. */
static void test_a_retry_that_may_not_be(void **state) {
    (void)state;
    mob_ref_t result;
    uint32_t record = call_push(0, &result);
    n->records[record].flags = WIRE_RETRY_EXCEPTIONS;
    call_claim(first_worker, record, true, 1);
    (void)wire_record_make_known(&n->records[record], record_word(record));
    fixture_say(first_worker, WIRE_RETRY, record, generation_of(record));
    assert_int_equal(first_worker->state, NODE_DYING);
}

static void test_a_constructor_that_raises_at_the_restart(void **state) {
    (void)state;
    static const char words[] = "no second life";
    first_dies();
    uint64_t generation = generation_of(creation);
    memcpy(next_worker->segment.base + SHM_CLIENT_SCRATCH, words, sizeof words);
    assert_true(wire_record_move(&n->records[creation], wire_word(generation, 0, WIRE_READY_STATE),
                                 wire_word(generation, next_worker->number, WIRE_TAKEN), NULL));
    wire_message_t m = {.failure = {WIRE_FAILED, creation, generation, sizeof words - 1}};
    assert_true(shm_ring_push(next_worker->up, SHM_UP_MESSAGES, &m));
    commit(next_worker, creation);
    fixture_say(next_worker, WIRE_DONE, creation, generation);
    assert_int_equal(books()->life.state, ACTOR_DEAD);
    assert_true(books()->init_failed);
    assert_string_equal(books()->words, words);
    assert_true(next_worker->retiring);
    assert_null(n->tasks[creation]);
    assert_int_equal(error_of(actor), MOB_OK);
}

/* The worker that has the creation, and what it was told of it. */
static node_client_t *creator(uint64_t *ret_flags) {
    (void)worker_new();
    node_schedule(n);
    node_client_t *w = n->tasks[creation]->worker;
    wire_message_t m = heard(w, WIRE_RUN);
    assert_int_equal(m.run.record, creation);
    *ret_flags = m.run.flags;
    return w;
}

/* The worker dies at each point of the first creation. */
static void test_deaths_during_the_first_creation(void **state) {
    (void)state;
    uint64_t flags;
    actor_submit(&driver, NONE);
    node_client_died(creator(&flags)); /* before it began: costs nothing */
    assert_int_equal(books()->life.restarts, 0);
    node_client_t *w = creator(&flags);
    assert_int_equal(flags, 0);
    call_claim(w, creation, false, 1);
    node_client_died(w); /* in the constructor */
    assert_int_equal(books()->life.restarts, 1);
    assert_int_equal(books()->life.state, ACTOR_RESTARTING);
    assert_int_equal(word_of(actor) & STORE_STATE, STORE_PENDING);
    w = creator(&flags);
    assert_int_equal(flags, WIRE_RUN_RESTARTED); /* not made: its result is published */
    call_claim(w, creation, false, 2);
    slot_of(actor)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    commit(w, creation);
    node_client_died(w); /* after DONE, before it told so */
    assert_int_equal(word_of(actor) & STORE_STATE, STORE_SEALED);
    assert_int_equal(books()->life.restarts, 2);
    (void)worker_new();
    node_schedule(n);
    remake(n->tasks[creation]->worker);
    assert_int_equal(books()->life.state, ACTOR_ALIVE);
}

static void test_a_kill_while_it_is_restarted(void **state) {
    (void)state;
    mob_ref_t result;
    (void)call_push(-1, &result);
    first_dies();
    assert_ptr_equal(n->tasks[creation]->worker, next_worker);
    fixture_say(JOB(n)->driver, WIRE_KILL, actor.slot, actor.generation);
    assert_int_equal(next_worker->state, NODE_DYING);
    node_client_died(next_worker);
    assert_int_equal(books()->life.state, ACTOR_DEAD);
    assert_int_equal(error_of(result), MOB_EACTOR);
    assert_null(n->tasks[creation]);
    assert_int_equal(cpus_free(), CPUS);
}

/* No worker is there yet: the calls fail at once. */
static void test_a_kill_while_it_waits_for_a_worker(void **state) {
    (void)state;
    mob_ref_t result;
    (void)call_push(-1, &result);
    node_client_died(next_worker);
    first_dies();
    assert_true(n->tasks[creation]->waiting_for_worker);
    fixture_say(JOB(n)->driver, WIRE_KILL, actor.slot, actor.generation);
    assert_int_equal(books()->life.state, ACTOR_DEAD);
    assert_int_equal(error_of(result), MOB_EACTOR);
    assert_int_equal(node_pool_first(JOB(n))->waiting, 0);
    assert_null(node_pool_first(JOB(n))->wait_head);
    assert_int_equal(cpus_free(), CPUS);
}

/* Its processes die before they answered anything: the next one comes after a pause, in which it
 * can be killed. */
static void test_a_kill_while_it_pauses(void **state) {
    (void)state;
    books()->life.fruitless = 100;
    first_dies();
    assert_int_not_equal(books()->due_ns, 0);
    assert_int_equal(cpus_free(), CPUS);
    node_schedule(n);
    assert_null(n->tasks[creation]->worker);
    books()->due_ns = 1; /* the pause is over */
    node_schedule(n);
    assert_int_equal(books()->due_ns, 0);
    remake(next_worker);
    node_client_died(next_worker);
    assert_int_not_equal(books()->due_ns, 0);
    fixture_say(JOB(n)->driver, WIRE_KILL, actor.slot, actor.generation);
    assert_int_equal(books()->life.state, ACTOR_DEAD);
    assert_int_equal(n->actors.held.count, 0);
    assert_null(n->tasks[creation]);
}

static void test_without_handles_it_ends_after_its_calls(void **state) {
    (void)state;
    mob_ref_t result;
    uint32_t record = call_push(0, &result);
    fixture_say(JOB(n)->driver, WIRE_DROP, actor.slot, actor.generation);
    fixture_say(caller.client, WIRE_DROP, actor.slot, actor.generation);
    fixture_settle(n);
    first_dies(); /* a call waits: it is restarted */
    remake(next_worker);
    assert_int_equal(heard(next_worker, WIRE_CALLS_END).queue.queue, queue);
    call_claim(next_worker, record, true, 1);
    finish(next_worker, record, result);
    fixture_say(next_worker, WIRE_CALLS_ENDED, queue, 0);
    assert_int_equal(heard(next_worker, WIRE_EXIT).kind, WIRE_EXIT);
    node_client_died(next_worker); /* killed meanwhile: nobody misses it */
    fixture_settle(n);
    assert_null(n->tasks[creation]);
    assert_null(n->objects[actor.slot]);
    assert_int_equal(cpus_free(), CPUS);
}

/* The process that made it is gone, and its number is another's: arguments and record are there. */
static void test_its_maker_is_dead(void **state) {
    (void)state;
    submitter_t maker = submitter_of(client_new(WIRE_WORKER));
    uint32_t number = maker.client->number;
    mob_ref_t argument = slot_open(&maker);
    slot_seal(argument);
    actor_submit(&maker, argument);
    node_client_t *w = n->tasks[creation]->worker;
    run(w, creation, actor);
    fixture_say(JOB(n)->driver, WIRE_HOLD, actor.slot, actor.generation);
    node_client_died(maker.client);
    fixture_settle(n);
    n->round += 2;
    assert_int_equal(client_new(WIRE_WORKER)->number, number);
    assert_non_null(n->objects[argument.slot]);
    (void)worker_new();
    node_client_died(w);
    node_schedule(n);
    remake(n->tasks[creation]->worker);
    assert_int_equal(books()->life.state, ACTOR_ALIVE);
    fixture_say(JOB(n)->driver, WIRE_KILL, actor.slot, actor.generation);
    node_client_died(books()->worker);
    fixture_settle(n);
    assert_null(n->objects[argument.slot]);
}

#define RESTART_TEST(name) cmocka_unit_test_setup_teardown(name, restart_setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        RESTART_TEST(test_the_creation_is_run_again_and_publishes_nothing),
        RESTART_TEST(test_the_last_restart_lets_the_creation_go),
        RESTART_TEST(test_calls_that_were_not_begun_stay_where_they_are),
        RESTART_TEST(test_a_begun_call_without_retries_fails_once),
        RESTART_TEST(test_a_call_that_was_done_is_complete),
        RESTART_TEST(test_retried_calls_come_first_and_in_order),
        RESTART_TEST(test_calls_through_the_daemon),
        RESTART_TEST(test_a_call_that_raises_is_run_again_by_the_same_worker),
        RESTART_TEST(test_a_retry_that_may_not_be),
        RESTART_TEST(test_a_constructor_that_raises_at_the_restart),
        RESTART_TEST(test_deaths_during_the_first_creation),
        RESTART_TEST(test_a_kill_while_it_is_restarted),
        RESTART_TEST(test_a_kill_while_it_waits_for_a_worker),
        RESTART_TEST(test_a_kill_while_it_pauses),
        RESTART_TEST(test_without_handles_it_ends_after_its_calls),
        RESTART_TEST(test_its_maker_is_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
