/* Tasks that are kept, and lost objects that are made again; with workers played by the test, which
 * may write what they like. */
#include "players.h"

enum { LARGE = WIRE_LINEAGE_LEAST };

static node_client_t *worker;
static mob_ref_t function;

/* What the loop does between two sleeps. */
static void rounds(void) {
    for (int i = 0; i < 6; i++) {
        n->round++;
        size_t settled = n->zero.count;
        node_inbox_read(n);
        node_remakes_settle(n);
        node_objects_sweep(n, settled);
        node_schedule(n);
    }
}

static int begin(void **state) {
    setup(state);
    n->config.fast = false;
    n->lineages.most = 1 << 20;
    worker = worker_new();
    function = slot_open(&driver);
    slot_seal(function);
    atomic_fetch_or(&slot_of(function)->word, STORE_ESCAPED);
    return 0;
}

static int end(void **state) {
    vec_free(&n->grants.own.slots.free);
    vec_free(&n->grants.own.slots.spans);
    vec_free(&n->grants.own.records.free);
    vec_free(&n->grants.own.records.spans);
    return teardown(state);
}

/* ---- a worker's part ---- */

static void value_write(mob_ref_t ref, uint64_t size) {
    uint64_t block;
    assert_int_equal(
        shm_heap_alloc(&n->heap, size, shm_tag(false, ref.slot, ref.generation), &block), MOB_OK);
    slot_of(ref)->value.large.block = block;
    slot_of(ref)->value.large.ref_count = 0;
    slot_of(ref)->meta = store_meta(size, MOB_FORMAT_DIRECT, MOB_OK, false);
}

static mob_ref_t result_of(uint32_t record) {
    mob_ref_t ref;
    memcpy(&ref, n->records[record].body, sizeof ref);
    return ref;
}

/* The record that it was told to run, taken. */
static uint32_t told(void) {
    wire_message_t m = fixture_heard(worker);
    while (m.kind == WIRE_FORGET) m = fixture_heard(worker);
    assert_int_equal(m.kind, WIRE_RUN);
    uint32_t record = m.run.record;
    assert_true(wire_record_move(&n->records[record],
                                 wire_word(m.run.generation, 0, WIRE_READY_STATE),
                                 wire_word(m.run.generation, worker->number, WIRE_TAKEN), NULL));
    return record;
}

/* Says that its result is worth keeping. */
static void keep(uint32_t record) { fixture_say(worker, WIRE_KEEP, record, generation_of(record)); }

static void end_run(uint32_t record, bool seals) {
    mob_ref_t result = result_of(record);
    uint64_t generation = generation_of(record);
    commit(worker, record);
    if (seals) store_slot_seal(slot_of(result), false);
    fixture_say(worker, WIRE_DONE, record, generation);
    node_schedule(n);
}

/* A task with this argument, run to its end with a large result. */
static mob_ref_t made_from(mob_ref_t argument, int32_t max_retries) {
    mob_ref_t result = slot_open(&driver);
    uint32_t record = record_fill(&driver, result, argument, max_retries, true);
    n->records[record].function = function;
    fixture_say(driver.client, WIRE_SUBMIT, record, generation_of(record));
    node_schedule(n);
    assert_int_equal(told(), record);
    value_write(result, LARGE);
    keep(record);
    end_run(record, true);
    return result;
}

/* ---- losing ---- */

static node_object_t *book(mob_ref_t ref) { return node_object_known(n, ref); }

static void drop(mob_ref_t ref) {
    fixture_say(driver.client, WIRE_DROP, ref.slot, ref.generation);
    rounds();
}

/* Its value is gone, as if its file were, and somebody asks. */
static void lose(mob_ref_t ref) {
    node_object_t *o = book(ref);
    assert_true(store_slot_leave(slot_of(ref)));
    shm_heap_free(&n->heap, slot_of(ref)->value.large.block,
                  shm_tag(false, ref.slot, ref.generation));
    slot_of(ref)->value.large.block = 0;
    node_remake_want(n, o);
    rounds();
}

static bool is_lost(mob_ref_t ref) {
    return !(word_of(ref) & STORE_AWAY) && error_of(ref) == MOB_ELOST;
}

static void test_a_value_is_made_again(void **state) {
    (void)state;
    mob_ref_t result = made_from(NONE, 3);
    assert_non_null(book(result)->lineage);
    lose(result);
    uint32_t record = told();
    mob_ref_t fresh = result_of(record);
    assert_true(node_grant_record_is(n, record, NODE_ORPHAN));
    assert_true(word_of(result) & STORE_AWAY);
    value_write(fresh, 2 * LARGE); /* another one than before */
    end_run(record, true);
    assert_false(word_of(result) & STORE_AWAY);
    assert_int_equal(store_meta_size(slot_of(result)->meta), 2 * LARGE);
    assert_int_equal(word_of(fresh) & STORE_STATE, STORE_FREE);
    assert_null(book(fresh));
    assert_int_equal(book(result)->lineage->retries, 2);
    drop(result);
    assert_null(book(result));
    assert_null(n->lineages.oldest);
    assert_int_equal(n->lineages.bytes, 0);
}

static void test_a_chain_keeps_slots_and_no_values(void **state) {
    (void)state;
    mob_ref_t first = made_from(NONE, 3), second = made_from(first, 3);
    drop(first);
    assert_non_null(book(first));
    assert_true(node_object_is_gone(n, book(first)));
    lose(second);
    for (int i = 0; i < 2; i++) { /* the argument first */
        uint32_t record = told();
        value_write(result_of(record), LARGE);
        end_run(record, true);
        rounds();
    }
    assert_int_equal(error_of(second), MOB_OK);
    assert_false(word_of(second) & STORE_AWAY);
    assert_true(node_object_is_gone(n, book(first))); /* again */
    drop(second);
    assert_null(book(first));
    assert_null(n->lineages.oldest);
}

static void test_it_is_kept_before_it_is_sealed(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver);
    uint32_t record = record_fill(&driver, result, NONE, 3, true);
    n->records[record].function = function;
    fixture_say(driver.client, WIRE_SUBMIT, record, generation_of(record));
    node_schedule(n);
    assert_int_equal(told(), record);
    value_write(result, LARGE);
    keep(record);
    assert_int_equal(word_of(result) & STORE_STATE, STORE_PENDING);
    assert_non_null(book(result)->lineage);
    keep(record); /* twice is once */
    assert_ptr_equal(n->lineages.oldest, n->lineages.newest);
    end_run(record, true);
    drop(result);
    assert_null(n->lineages.oldest);
}

static void test_what_is_not_kept(void **state) {
    (void)state;
    mob_ref_t never = made_from(NONE, 0);
    assert_true(book(never) == NULL || book(never)->lineage == NULL);
    mob_ref_t small = slot_open(&driver);
    uint32_t record = record_fill(&driver, small, NONE, 3, true);
    n->records[record].function = function;
    fixture_say(driver.client, WIRE_SUBMIT, record, generation_of(record));
    node_schedule(n);
    assert_int_equal(told(), record);
    value_write(small, LARGE - 1);
    keep(record);
    end_run(record, true);
    assert_null(n->lineages.oldest);
    keep(record); /* of a record that it does not run any more */
    fixture_say(worker, WIRE_KEEP, UINT32_MAX, 1);
    assert_int_equal(worker->state, NODE_LIVE);
}

static void test_no_retry_is_left(void **state) {
    (void)state;
    mob_ref_t result = made_from(NONE, 1);
    lose(result);
    uint32_t record = told();
    value_write(result_of(record), LARGE);
    end_run(record, true);
    lose(result);
    assert_true(is_lost(result));
}

static void test_the_oldest_go_first(void **state) {
    (void)state;
    mob_ref_t old = made_from(NONE, 3);
    n->lineages.most = n->lineages.bytes + 8;
    mob_ref_t young = made_from(NONE, 3);
    assert_null(book(old)->lineage);
    assert_non_null(book(young)->lineage);
    lose(old);
    assert_true(is_lost(old));
}

/* Nothing that its worker writes is believed. */
static void test_results_that_make_no_sense(void **state) {
    (void)state;
    const uint64_t blocks[] = {0, 7, UINT64_MAX, 64 * SHM_GRANULE, 16 * SHM_GRANULE};
    for (size_t i = 0; i <= sizeof blocks / sizeof *blocks; i++) {
        mob_ref_t result = made_from(NONE, -1);
        lose(result);
        uint32_t record = told();
        mob_ref_t fresh = result_of(record);
        bool seals = i < sizeof blocks / sizeof *blocks; /* the last one says DONE and no more */
        if (seals) {
            slot_of(fresh)->meta = store_meta(LARGE, MOB_FORMAT_DIRECT, MOB_OK, false);
            slot_of(fresh)->value.large.block = blocks[i];
            slot_of(fresh)->value.large.ref_count = 0;
        }
        end_run(record, seals);
        assert_true(is_lost(result));
        drop(result);
    }
    assert_null(n->lineages.oldest);
}

static void test_a_worker_that_dies_meanwhile(void **state) {
    (void)state;
    mob_ref_t result = made_from(NONE, 1);
    lose(result);
    told();
    node_client_died(worker); /* the only retry is used up */
    worker = worker_new();
    rounds();
    assert_true(is_lost(result));
}

static void test_its_job_ends_meanwhile(void **state) {
    (void)state;
    mob_ref_t result = made_from(NONE, 3);
    node_client_died(worker);
    lose(result);
    assert_true(word_of(result) & STORE_AWAY); /* no worker runs it */
    JOB(n)->farewell.leaving = true;
    node_lineage_job_ends(JOB(n));
    assert_null(book(result)->lineage);
    for (uint32_t r = 0; r < n->grants.records.granted; r++)
        if (n->tasks[r] != NULL) node_task_fail(n, n->tasks[r], MOB_ECANCELLED, "its job ends");
    assert_true(is_lost(result));
    assert_null(n->lineages.oldest);
}

#define LINEAGE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        LINEAGE_TEST(test_a_value_is_made_again),
        LINEAGE_TEST(test_a_chain_keeps_slots_and_no_values),
        LINEAGE_TEST(test_it_is_kept_before_it_is_sealed),
        LINEAGE_TEST(test_what_is_not_kept),
        LINEAGE_TEST(test_no_retry_is_left),
        LINEAGE_TEST(test_the_oldest_go_first),
        LINEAGE_TEST(test_results_that_make_no_sense),
        LINEAGE_TEST(test_a_worker_that_dies_meanwhile),
        LINEAGE_TEST(test_its_job_ends_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
