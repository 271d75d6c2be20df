/* Tasks in queues: what becomes of them when a worker or their submitter dies, and of their
 * arguments. */
#include "players.h"

/* ---- workers that die ---- */

static void test_a_dead_workers_lease_in_every_state(void **state) {
    (void)state;
    const uint32_t words[] = {
        SHM_LEASE_FREE,
        SHM_LEASE_BUSY,
        SHM_LEASE_BUSY | SHM_LEASE_RECALL,
        SHM_LEASE_BLOCKED,
        SHM_LEASE_BLOCKED | SHM_LEASE_RECALL,
        SHM_LEASE_LENT,
        SHM_LEASE_LENT | SHM_LEASE_RECALL,
        SHM_LEASE_NONE,         /* given back, and dead before it said so */
        SHM_LEASE_STATE | 4096, /* what no worker writes */
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint32_t record;
        node_client_t *w = busy_worker(0, &record, NULL);
        finish(w, record, NONE);
        assert_int_equal(cpus_free(), CPUS - 1);
        if ((words[i] & SHM_LEASE_STATE) == SHM_LEASE_LENT) sched_lease_block(n->sched, &w->lease);
        atomic_store(&lease_of(w)->word, words[i]);
        uint32_t number = w->number;
        uint64_t bit = shm_node_bit(number);
        atomic_fetch_or(&n->shared->lanes[0].workers[number / 64].idle, bit);
        atomic_fetch_or(&n->shared->lanes[0].workers[number / 64].looking, bit);
        node_client_died(w);
        assert_int_equal(cpus_free(), CPUS);
        assert_int_equal(n->leases.given, 0);
        assert_int_equal(atomic_load(&n->shared->leases[number].word), SHM_LEASE_NONE);
        /* nobody relies on it any more */
        assert_int_equal(atomic_load(&n->shared->lanes[0].workers[number / 64].idle) & bit, 0);
        assert_int_equal(atomic_load(&n->shared->lanes[0].workers[number / 64].looking) & bit, 0);
    }
}

static void test_a_dead_workers_unread_unblock(void **state) {
    (void)state;
    node_client_t *w = busy_worker(0, NULL, NULL);
    sched_lease_block(n->sched, &w->lease);
    atomic_store(&lease_of(w)->word, SHM_LEASE_BUSY);
    wire_message_t m = wire_plain(WIRE_UNBLOCK);
    assert_true(shm_ring_push(w->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, w->number);
    node_client_died(w);
    assert_int_equal(cpus_free(), CPUS);
}

static void test_what_a_dead_worker_had_taken_is_tried_again(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result), *next = worker_new();
    uint64_t generation = generation_of(record);
    node_client_died(w);
    assert_non_null(n->tasks[record]);
    assert_int_equal(n->tasks[record]->retries, 2);
    assert_int_equal(record_word(record),
                     wire_word(generation + 1, 0, WIRE_READY_STATE | WIRE_KNOWN));
    assert_false(next->leased);
    assert_int_equal(word_of(result) & STORE_STATE, STORE_PENDING);
    run(next, record, result); /* it comes by the scheduler now */
    assert_null(n->tasks[record]);
    assert_int_equal(error_of(result), MOB_OK);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(cpus_free(), CPUS);
}

static void test_what_may_not_be_tried_again_fails(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_died(busy_worker(0, &record, &result));
    assert_int_equal(word_of(result) & STORE_STATE, STORE_SEALED);
    assert_int_equal(error_of(result), MOB_ECRASHED);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(n->open_tasks[JOB(n)->driver->number], 0);
    assert_int_equal(cpus_free(), CPUS);
}

static void test_what_a_dead_worker_had_done_is_completed(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    slot_of(result)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    assert_false(commit(w, record));
    node_client_died(w); /* before it sealed */
    assert_int_equal(word_of(result), STORE_SEALED);
    assert_int_equal(error_of(result), MOB_OK);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(control_event_count(n->control), 1);
    assert_int_equal(cpus_free(), CPUS);
}

/* It had sealed the result, whose reference then went: the slot is another object's by now, and
 * that one's value is not there. */
static void test_a_result_that_was_given_to_another_is_not_sealed(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    commit(w, record);
    slot_seal(result);
    store_slot_close(slot_of(result));
    store_slot_open(slot_of(result));
    node_client_died(w);
    assert_int_equal(word_of(result), STORE_PENDING);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
}

static void test_a_dead_worker_that_had_a_task_of_a_dead_submitter(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER), *w = worker_new();
    submitter_t other = submitter_of(client);
    uint32_t record = push(&other, slot_open(&other), 0);
    assert_int_equal(take(w, &other), record);
    node_client_died(client);
    assert_non_null(n->tasks[record]);
    node_client_died(w);
    fixture_settle(n);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(cpus_free(), CPUS);
}

/* ---- submitters that die ---- */

static void test_a_dead_submitters_queue_is_cancelled(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER), *w = worker_new();
    submitter_t other = submitter_of(client);
    mob_ref_t results[4];
    uint32_t records[4];
    for (int i = 0; i < 4; i++) {
        results[i] = slot_open(&other);
        records[i] = push(&other, results[i], 3);
    }
    assert_int_equal(take(w, &other), records[0]);
    uint32_t number = client->number;
    /* Somebody else has a reference to the last one's result. */
    atomic_fetch_or(&slot_of(results[3])->word, STORE_ESCAPED);
    fixture_say(JOB(n)->driver, WIRE_HOLD, results[3].slot, results[3].generation);
    node_client_died(client);
    for (int i = 1; i < 3; i++) {
        assert_null(n->tasks[records[i]]);
        assert_int_equal(wire_word_state(record_word(records[i])), WIRE_FREE);
    }
    assert_int_equal(shm_queue_count(&n->queues[number]), 0);
    assert_int_equal(atomic_load(&n->shared->lanes[0].queued[number / 64]) & shm_node_bit(number),
                     0);
    /* What was begun runs out. */
    assert_true(record_word(records[0]) & WIRE_KNOWN);
    finish(w, records[0], results[0]);
    assert_null(n->tasks[records[0]]);
    assert_int_equal(w->state, NODE_LIVE);
    rest(w);
    /* And what another waits for is run, by the scheduler. */
    node_schedule(n);
    if (w->leased) node_leases_take_free(n);
    node_schedule(n);
    run(w, records[3], results[3]);
    assert_int_equal(error_of(results[3]), MOB_OK);
    fixture_settle(n);
    for (int i = 0; i < 3; i++) assert_int_equal(word_of(results[i]), STORE_FREE);
    assert_int_equal(word_of(results[3]) & STORE_STATE, STORE_SEALED);
    assert_int_equal(n->open_tasks[number], 0);
}

/* An entry that a worker saw before its submitter died names nothing any more. */
static void test_a_late_claim_of_a_cancelled_task_fails(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER);
    submitter_t other = submitter_of(client);
    uint32_t record = record_fill(&other, slot_open(&other), NONE, 0, false);
    queue_push(&other, record);
    uint64_t position = 0, entry = 0;
    assert_true(shm_queue_peek(&n->queues[client->number], &position, &entry));
    assert_true(wire_entry_names(entry, record_word(record)));
    node_client_died(client);
    assert_false(wire_entry_names(entry, record_word(record)));
    /* also when the record lives again: its generation is another */
    atomic_store(&n->records[record].word,
                 wire_word(generation_of(record) + 1, 0, WIRE_READY_STATE));
    assert_false(wire_entry_names(entry, record_word(record)));
}

static void test_a_worker_with_tasks_in_its_queue_is_not_sent_home(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    submitter_t own = submitter_of(w);
    assert_false(node_client_has_tasks(w));
    uint32_t record = record_fill(&own, slot_open(&own), NONE, 0, false);
    queue_push(&own, record);
    assert_true(node_client_has_tasks(w));
    atomic_store(&n->records[record].word, wire_word(generation_of(record), 0, WIRE_FREE));
    assert_false(node_client_has_tasks(w));
}

/* ---- tasks with arguments ---- */

static void assert_over(uint32_t record, mob_ref_t argument) {
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(n->queued.done_early.count, 0);
    assert_int_equal(n->open_tasks[JOB(n)->driver->number], 0);
    assert_int_equal(n->objects[argument.slot]->uses, 0);
    assert_int_equal(control_event_count(n->control), 1);
    fixture_say(JOB(n)->driver, WIRE_DROP, argument.slot, argument.generation);
    fixture_settle(n);
    assert_int_equal(word_of(argument), STORE_FREE);
}

static void test_arguments_are_held_until_the_task_is_done(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    fixture_say(JOB(n)->driver, WIRE_ARGUMENTS, record, generation);
    assert_non_null(n->tasks[record]);
    assert_true(n->tasks[record]->queued);
    assert_int_equal(sched_queued(JOB(n)->sched, MOB_SHAPE_ONE_CPU),
                     0); /* workers take it, not we */
    fixture_say(JOB(n)->driver, WIRE_DROP, argument.slot, argument.generation);
    fixture_settle(n);
    assert_int_equal(word_of(argument) & STORE_STATE, STORE_SEALED);
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(control_event_count(n->control), 1);
    fixture_settle(n);
    assert_int_equal(word_of(argument), STORE_FREE);
    assert_true(w->leased);
    assert_int_equal(cpus_free(), CPUS - 1);
}

static void test_arguments_that_are_heard_of_after_the_task_is_done(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    assert_int_equal(w->state, NODE_LIVE); /* no fault of its */
    assert_int_equal(wire_word_state(record_word(record)), WIRE_DONE_STATE);
    fixture_say(JOB(n)->driver, WIRE_ARGUMENTS, record, generation);
    assert_null(JOB(n)->driver->fault);
    assert_over(record, argument);
}

static void test_arguments_of_a_task_that_is_taken(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    assert_int_equal(take(w, &driver), record);
    fixture_say(JOB(n)->driver, WIRE_ARGUMENTS, record, generation_of(record));
    assert_int_equal(n->objects[argument.slot]->uses, 1);
    finish(w, record, result);
    assert_over(record, argument);
}

static void test_arguments_that_are_heard_of_after_the_worker_died(void **state) {
    (void)state;
    node_client_t *w = worker_new(), *next;
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    assert_int_equal(take(w, &driver), record);
    node_client_died(w);
    fixture_say(JOB(n)->driver, WIRE_ARGUMENTS, record, generation);
    assert_null(JOB(n)->driver->fault);
    next = worker_new();
    run(next, record, result);
    assert_over(record, argument);
}

static void test_arguments_that_are_heard_of_after_the_worker_was_done_and_died(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    node_client_died(w);
    fixture_say(JOB(n)->driver, WIRE_ARGUMENTS, record, generation);
    assert_null(JOB(n)->driver->fault);
    assert_over(record, argument);
}

static void test_a_leased_worker_may_ask_for_a_retry(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t result = slot_open(&driver);
    uint32_t record = record_fill(&driver, result, NONE, 1, false);
    n->records[record].flags = WIRE_RETRY_EXCEPTIONS;
    queue_push(&driver, record);
    node_schedule(n);
    assert_int_equal(take(w, &driver), record);
    uint64_t generation = generation_of(record);
    assert_true(wire_record_make_known(&n->records[record], record_word(record)));
    atomic_store(&lease_of(w)->run, 0);
    fixture_say(w, WIRE_RETRY, record, generation);
    assert_int_equal(w->state, NODE_LIVE);
    assert_true(w->leased);
    assert_int_equal(record_word(record),
                     wire_word(generation + 1, 0, WIRE_READY_STATE | WIRE_KNOWN));
    assert_int_equal(n->tasks[record]->retries, 0);
    node_client_t *other = worker_new();
    node_schedule(n);
    run(other, record, result);
    assert_int_equal(error_of(result), MOB_OK);
    assert_int_equal(cpus_free(), CPUS - 1); /* the lease */
}

/* ---- what no client does ---- */

static void test_a_queue_of_nonsense(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    shm_queue_t *queue = &n->queues[JOB(n)->driver->number];
    atomic_store(&queue->tail, UINT64_MAX / 2);
    /* also of clients that do not exist */
    atomic_store(&n->shared->lanes[0].queued[0], UINT64_MAX);
    for (int i = 0; i < 3; i++) node_schedule(n);
    assert_true(cpus_free() >= 0);
    assert_int_equal(w->state, NODE_LIVE);
    atomic_store(&queue->tail, 0);
    node_leases_take_free(n);
    assert_int_equal(n->leases.given, 0);
}

static void test_arguments_of_records_of_others(void **state) {
    (void)state;
    node_client_t *liar = worker_new();
    uint32_t record = record_fill(&driver, slot_open(&driver), NONE, 0, true);
    fixture_say(liar, WIRE_ARGUMENTS, record, generation_of(record));
    assert_non_null(liar->fault);
    assert_int_equal(liar->state, NODE_DYING);
    assert_null(n->tasks[record]);
    node_client_died(liar);
    const uint32_t indices[] = {WIRE_MAX_RECORDS - 1, WIRE_MAX_RECORDS, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        liar = worker_new();
        fixture_say(liar, WIRE_ARGUMENTS, indices[i], 1);
        assert_non_null(liar->fault);
        node_client_died(liar);
    }
}

/* A record that was filled with nonsense does not become a task when its worker dies. */
static void test_a_dead_workers_record_that_makes_no_sense(void **state) {
    (void)state;
    uint32_t record;
    node_client_t *w = busy_worker(3, &record, NULL);
    n->records[record].num_returns = UINT32_MAX;
    n->records[record].block = UINT64_MAX;
    node_client_died(w);
    assert_null(n->tasks[record]);
    assert_int_equal(cpus_free(), CPUS);
    assert_false(n->ending);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_dead_workers_lease_in_every_state),
        TEST(test_a_dead_workers_unread_unblock),
        TEST(test_what_a_dead_worker_had_taken_is_tried_again),
        TEST(test_what_may_not_be_tried_again_fails),
        TEST(test_what_a_dead_worker_had_done_is_completed),
        TEST(test_a_result_that_was_given_to_another_is_not_sealed),
        TEST(test_a_dead_worker_that_had_a_task_of_a_dead_submitter),
        TEST(test_a_dead_submitters_queue_is_cancelled),
        TEST(test_a_late_claim_of_a_cancelled_task_fails),
        TEST(test_a_worker_with_tasks_in_its_queue_is_not_sent_home),
        TEST(test_arguments_are_held_until_the_task_is_done),
        TEST(test_arguments_that_are_heard_of_after_the_task_is_done),
        TEST(test_arguments_of_a_task_that_is_taken),
        TEST(test_arguments_that_are_heard_of_after_the_worker_died),
        TEST(test_arguments_that_are_heard_of_after_the_worker_was_done_and_died),
        TEST(test_a_leased_worker_may_ask_for_a_retry),
        TEST(test_a_queue_of_nonsense),
        TEST(test_arguments_of_records_of_others),
        TEST(test_a_dead_workers_record_that_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
