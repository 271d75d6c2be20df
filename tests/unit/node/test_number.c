/* Numbers of clients: the lowest free one, and never one that something still names. */
#include "players.h"

/* As after two passes of the loop. */
static void rounds_pass(void) {
    for (int i = 0; i < 2; i++) {
        n->round++;
        node_inbox_read(n);
        node_questions_answer(n);
    }
}

/* A client comes: its number. */
static uint32_t arrive(void) { return client_new(WIRE_WORKER)->number; }

static void leave(uint32_t number) { node_client_died(n->clients[number]); }

static uint32_t shared_numbers(void) { return atomic_load(&n->shared->numbers); }

static void test_the_lowest_after_a_rest(void **state) {
    (void)state;
    uint32_t first = arrive(), second = arrive(), third = arrive();
    assert_true(first < second && second < third);
    leave(first);
    leave(second);
    assert_int_equal(arrive(), third + 1); /* they rest */
    rounds_pass();
    assert_int_equal(arrive(), first);
    assert_int_equal(arrive(), second);
    assert_int_equal(arrive(), third + 2);
}

static void test_many_come_and_go_and_numbers_stay_low(void **state) {
    (void)state;
    uint32_t before = n->client_next, epoch = n->numbers.epoch;
    for (uint32_t i = 1; i <= 500; i++) {
        node_client_t *c = client_new(WIRE_WORKER);
        assert_true(c->number <= STORE_WAITER_BITS);
        assert_int_equal(c->epoch, epoch + i); /* which is never the same */
        node_client_died(c);
        rounds_pass();
    }
    assert_int_equal(n->client_next, before);
    assert_int_equal(shared_numbers(), before);
}

/* Above every number in use, and no more: loops end there. */
static void test_the_bound_follows_the_highest(void **state) {
    (void)state;
    uint32_t low = arrive(), middle = arrive(), high = arrive();
    assert_int_equal(shared_numbers(), high + 1);
    leave(middle);
    assert_int_equal(shared_numbers(), high + 1);
    leave(high);
    assert_int_equal(shared_numbers(), low + 1);
    assert_int_equal(n->client_next, low + 1);
    rounds_pass();
    assert_int_equal(arrive(), middle);
    assert_int_equal(shared_numbers(), middle + 1);
}

static void test_resting_ones_if_there_are_no_others(void **state) {
    (void)state;
    uint32_t number = arrive();
    for (uint32_t i = 1; i < SHM_MAX_CLIENTS; i++) n->numbers.named[i]++; /* all but this one */
    n->numbers.named[number]--;
    leave(number);
    assert_int_equal(arrive(), number);
    node_client_t *one_more = node_client_new(n);
    assert_false(node_number_take(one_more));
    assert_int_equal(one_more->number, 0);
    for (uint32_t i = 1; i < SHM_MAX_CLIENTS; i++) n->numbers.named[i] = 0;
}

/* ---- what a number is kept for ---- */

static void test_not_while_a_task_of_it_runs(void **state) {
    (void)state;
    submitter_t submitter = submitter_of(client_new(WIRE_WORKER));
    uint32_t number = submitter.client->number;
    node_client_t *w = worker_new();
    mob_ref_t result = slot_open(&submitter);
    uint32_t record = push(&submitter, result, 0);
    assert_int_equal(take(w, &submitter), record);
    node_client_died(submitter.client);
    rounds_pass();
    assert_int_not_equal(arrive(), number);
    finish(w, record, result);
    rounds_pass();
    assert_int_equal(arrive(), number);
}

static void test_not_while_a_value_it_asked_for_is_being_read(void **state) {
    (void)state;
    mob_ref_t ref = slot_open(&driver);
    slot_seal(ref);
    atomic_fetch_or(&slot_of(ref)->word, STORE_ESCAPED | STORE_AWAY);
    node_object_t *o = node_object_find(n, ref);
    o->copy = calloc(1, sizeof *o->copy);
    o->moving = true;
    node_client_t *asker = client_new(WIRE_WORKER);
    uint32_t number = asker->number;
    node_restore(asker, ref, true, false);
    node_restore(asker, ref, true, false); /* another thread of it */
    node_client_died(asker);
    rounds_pass();
    assert_int_not_equal(arrive(), number);
    node_restore_refuse(n, ref, MOB_ENOMEM);
    uint32_t again = arrive();
    assert_int_equal(again, number);
    assert_int_equal(fixture_heard(n->clients[again]).kind, 0);
    atomic_fetch_and(&slot_of(ref)->word, ~(uint64_t)STORE_AWAY);
    free(o->copy);
    o->copy = NULL;
}

/* ---- what the next one of a number does not inherit ---- */

static void test_no_answer_to_the_question_of_another(void **state) {
    (void)state;
    uint32_t record;
    node_client_t *busy = busy_worker(0, &record, NULL), *asker = client_new(WIRE_WORKER);
    uint32_t number = asker->number;
    commit(busy, record); /* whoever asks waits for what it is about to say */
    wire_message_t m = {.query = {WIRE_QUERY, MOB_QUERY_RESOURCES, .capacity = SHM_SCRATCH_BYTES}};
    assert_true(shm_ring_push(asker->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, number);
    rounds_pass();
    assert_int_equal(n->questions.count, 1);
    node_client_died(asker);
    assert_int_equal(n->questions.count, 0);
    rounds_pass();
    assert_int_equal(arrive(), number);
    atomic_store(&lease_of(busy)->run, 0);
    rounds_pass();
    assert_int_equal(fixture_heard(n->clients[number]).kind, 0);
}

static void test_no_space_that_another_waited_for(void **state) {
    (void)state;
    node_client_t *asker = client_new(WIRE_WORKER);
    uint32_t number = asker->number;
    node_space_want(n, number, SHM_GRANULE, SHM_GRANULE, NONE, false);
    n->space.wants.items[0].stuck_ns = 1; /* it has waited in vain for long, */
    node_want_t past = n->space.wants.items[0];
    past.size = 2 * SHM_GRANULE;
    assert_true(vec_push(&n->space.past_wants, past)); /* and before */
    node_client_died(asker);
    assert_int_equal(n->space.wants.count, 0);
    assert_int_equal(n->space.past_wants.count, 0);
    rounds_pass();
    assert_int_equal(arrive(), number);
    node_space_serve(n);
    assert_int_equal(fixture_heard(n->clients[number]).kind, 0);
}

/* A record that a worker had taken is dealt with before another has its number: the end of the
 * other says nothing about it. */
static void test_a_record_that_another_had_taken(void **state) {
    (void)state;
    uint32_t record, number;
    mob_ref_t result;
    node_client_t *w = busy_worker(1, &record, &result);
    number = w->number;
    uint64_t generation = generation_of(record);
    node_client_died(w);
    rounds_pass();
    assert_int_equal(generation_of(record), generation + 1); /* it is to run again */
    node_client_t *next = worker_new();
    assert_int_equal(next->number, number);
    node_schedule(n);
    run(next, record, result);
    assert_int_equal(error_of(result), MOB_OK);
    node_client_died(next);
    assert_int_equal(word_of(result) & STORE_STATE, STORE_SEALED);
    assert_int_equal(error_of(result), MOB_OK);
    assert_null(n->tasks[record]);
}

/* A worker that was held up in the queue of one that died passes nothing of the next one's. */
static void test_a_taker_that_was_held_up(void **state) {
    (void)state;
    submitter_t old = submitter_of(client_new(WIRE_WORKER));
    uint32_t number = old.client->number;
    uint64_t position = 0, entry = 0;
    queue_push(&old, record_fill(&old, slot_open(&old), NONE, 0, false));
    shm_queue_t *q = &n->queues[number];
    assert_true(shm_queue_peek(q, &position, &entry));
    node_client_died(old.client);
    rounds_pass();
    submitter_t next = submitter_of(client_new(WIRE_WORKER));
    assert_int_equal(next.client->number, number);
    uint32_t record = record_fill(&next, slot_open(&next), NONE, 0, false);
    queue_push(&next, record);
    assert_false(wire_entry_names(entry, record_word(wire_entry_index(entry))));
    shm_queue_pass(q, position);
    assert_int_equal(shm_queue_count(q), 1);
    assert_int_equal(take(busy_worker(0, NULL, NULL), &next), record);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_the_lowest_after_a_rest),
        TEST(test_many_come_and_go_and_numbers_stay_low),
        TEST(test_the_bound_follows_the_highest),
        TEST(test_resting_ones_if_there_are_no_others),
        TEST(test_not_while_a_task_of_it_runs),
        TEST(test_not_while_a_value_it_asked_for_is_being_read),
        TEST(test_no_answer_to_the_question_of_another),
        TEST(test_no_space_that_another_waited_for),
        TEST(test_a_record_that_another_had_taken),
        TEST(test_a_taker_that_was_held_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
