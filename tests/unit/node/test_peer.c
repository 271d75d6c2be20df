/* A daemon that is its own peer: tasks that go out as frames and come back as messages, with
 * workers played by the test; and messages of a peer that lies. */
#include "players.h"

#include "../random.h"
#include "frame/done.h"
#include "node/forward.h"
#include "node/visit.h"

enum { LARGE = 70000, ROUNDS = 10000 };

static node_client_t *worker;
static node_peer_t *peer;

/* What the loop does between two sleeps. */
static void rounds(void) {
    for (int i = 0; i < 8; i++) {
        n->round++;
        size_t settled = n->zero.count;
        node_inbox_read(n);
        node_cancels_settle(n);
        node_peers_settle(n);
        node_objects_sweep(n, settled);
        node_schedule(n);
    }
}

static int begin(void **state) {
    setup(state);
    n->config.fast = false;
    n->incarnation = 77;
    assert_int_equal(node_peer_start(n), MOB_OK);
    peer = n->peer;
    worker = worker_new();
    return 0;
}

static void stock_free(node_stock_t *s) {
    vec_free(&s->free);
    vec_free(&s->spans);
}

/* The daemon itself never does this. */
static int end(void **state) {
    uint8_t *bytes;
    size_t size, cursor = 0;
    const void *key;
    void *value;
    while (node_loop_pop(&peer->out, &bytes, &size)) free(bytes);
    while (base_map_each(&peer->visits, &cursor, &key, &value)) {
        node_visit_t *v = value;
        free(v->here.fresh);
        free(v->named);
        free(v);
    }
    base_map_fini(&peer->visits);
    base_map_fini(&peer->sent);
    stock_free(&peer->own.slots);
    stock_free(&peer->own.records);
    vec_free(&peer->aside);
    free(peer);
    return teardown(state);
}

/* ---- both sides ---- */

static uint32_t send_with(mob_ref_t result, mob_ref_t argument, int32_t max_retries) {
    uint32_t record = record_fill(&driver, result, argument, max_retries, true);
    fixture_say(driver.client, WIRE_SUBMIT, record, generation_of(record));
    return record;
}

static uint32_t send_task(mob_ref_t result, int32_t max_retries) {
    return send_with(result, NONE, max_retries);
}

static bool is_at_peer(uint32_t record) {
    uint64_t word = record_word(record);
    return wire_word_state(word) == WIRE_TAKEN && wire_word_worker(word) == peer->client->number;
}

/* The visit that the worker was told to run, begun; its record. */
static uint32_t visit_take(void) {
    wire_message_t m = fixture_heard(worker);
    while (m.kind == WIRE_FORGET) m = fixture_heard(worker);
    assert_int_equal(m.kind, WIRE_RUN);
    assert_true(node_grant_record_is(n, m.run.record, peer->client->number));
    assert_true(wire_record_move(&n->records[m.run.record],
                                 wire_word(m.run.generation, 0, WIRE_READY_STATE),
                                 wire_word(m.run.generation, worker->number, WIRE_TAKEN), NULL));
    return m.run.record;
}

static mob_ref_t result_of(uint32_t record) {
    mob_ref_t ref;
    memcpy(&ref, n->records[record].body, sizeof ref);
    return ref;
}

static void visit_finish(uint32_t record, uint64_t size) {
    mob_ref_t ref = result_of(record);
    uint64_t generation = generation_of(record), block = 0;
    if (size > STORE_INLINE) {
        assert_int_equal(
            shm_heap_alloc(&n->heap, size, shm_tag(false, ref.slot, ref.generation), &block),
            MOB_OK);
        memset(n->arena.base + block, 7, size);
        slot_of(ref)->value.large.block = block;
        slot_of(ref)->value.large.ref_count = 0;
    } else {
        memset(slot_of(ref)->value.small, 7, size);
    }
    slot_of(ref)->meta = store_meta(size, MOB_FORMAT_PICKLE, MOB_OK, block == 0);
    commit(worker, record);
    store_slot_seal(slot_of(ref), false);
    fixture_say(worker, WIRE_DONE, record, generation);
    rounds();
}

static const uint8_t *value_of(mob_ref_t ref) {
    return store_meta_inline(slot_of(ref)->meta) ? slot_of(ref)->value.small
                                                 : n->arena.base + slot_of(ref)->value.large.block;
}

static bool is_sealed(mob_ref_t ref) { return (word_of(ref) & STORE_STATE) == STORE_SEALED; }

static void nothing_is_left(void) {
    rounds();
    assert_int_equal(peer->visits.count, 0);
    assert_int_equal(peer->sent.count, 0);
    assert_int_equal(peer->out.count, 0);
    assert_int_equal(peer->client->run_count, 0);
    assert_int_equal(n->open_tasks[peer->client->number], 0);
    size_t slots = 0, records = 0;
    for (size_t i = 0; i < peer->own.slots.spans.count; i++)
        slots += peer->own.slots.spans.items[i].count;
    for (size_t i = 0; i < peer->own.records.spans.count; i++)
        records += peer->own.records.spans.items[i].count;
    assert_int_equal(peer->own.slots.free.count, slots);
    assert_int_equal(peer->own.records.free.count, records);
}

static void message_push(frame_kind_t kind, frame_id_t run, const uint8_t *body, size_t size) {
    assert_int_equal(node_peer_send(peer, kind, run, body, size), MOB_OK);
}

static void end_push(uint32_t record, uint64_t generation, const frame_done_t *done) {
    uint8_t *body;
    size_t size;
    frame_id_t run = {.home = n->incarnation, .number = record, .generation = generation};
    assert_int_equal(frame_done_write(done, &body, &size), MOB_OK);
    message_push(FRAME_DONE, run, body, size);
    free(body);
    rounds();
}

/* ---- tests ---- */

static void test_a_peer_is_a_client_without_a_process(void **state) {
    (void)state;
    assert_int_equal(peer->client->number, SHM_MAX_CLIENTS - 1);
    assert_true(n->client_next < SHM_MAX_CLIENTS - 1);
    node_client_tell(peer->client, wire_answer(MOB_OK, 0)); /* it is told nothing */
    node_bells_ring(n);
}

static void values_come_back(uint64_t size) {
    mob_ref_t result = slot_open(&driver);
    uint32_t record = send_task(result, 0);
    assert_true(is_at_peer(record));
    rounds();
    uint32_t visit = visit_take();
    assert_int_equal(n->tasks[visit]->submitter, peer->client->number);
    assert_false(is_sealed(result));
    visit_finish(visit, size);
    assert_true(is_sealed(result));
    assert_int_equal(store_meta_size(slot_of(result)->meta), size);
    for (uint64_t i = 0; i < size; i++) assert_int_equal(value_of(result)[i], 7);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_null(n->tasks[record]);
    nothing_is_left();
}

static void test_values_come_back(void **state) {
    (void)state;
    values_come_back(0);
    values_come_back(8);
    values_come_back(1000);
    values_come_back(FRAME_VALUE_MOST);
    values_come_back(LARGE);
}

static bool peer_holds(mob_ref_t ref) {
    const node_object_t *o = node_object_known(n, ref);
    for (size_t i = 0; o != NULL && i < o->holders.count; i++)
        if (o->holders.items[i] == peer->client->number) return true;
    return false;
}

static void test_an_argument_is_held_until_the_visit_ends(void **state) {
    (void)state;
    mob_ref_t argument = slot_open(&driver), result = slot_open(&driver);
    slot_seal(argument);
    uint32_t record = send_with(result, argument, 0);
    rounds();
    assert_int_equal(peer->sent.count, 1);
    node_object_t *o = node_object_known(n, argument);
    assert_int_equal(o->uses, 2);
    assert_true(peer_holds(argument));
    uint32_t visit = visit_take();
    fixture_say(driver.client, WIRE_DROP, argument.slot, argument.generation);
    rounds();
    assert_ptr_equal(node_object_known(n, argument), o);
    visit_finish(visit, 8);
    assert_null(n->tasks[record]);
    nothing_is_left();
    assert_null(node_object_known(n, argument));
}

/* The visit is over and its slot free, and the origin has not read of it: nobody else names what is
 * inside. */
static void test_what_is_inside_a_result_is_held_on_its_way(void **state) {
    (void)state;
    mob_ref_t inner = slot_open(&driver), result = slot_open(&driver);
    slot_seal(inner);
    atomic_fetch_or(&slot_of(inner)->word, STORE_ESCAPED);
    (void)send_task(result, 0);
    rounds();
    uint32_t visit = visit_take();
    mob_ref_t made = result_of(visit);
    uint64_t generation = generation_of(visit), block;
    assert_int_equal(shm_heap_alloc(&n->heap, store_block_size(8, 1),
                                    shm_tag(false, made.slot, made.generation), &block),
                     MOB_OK);
    memcpy(n->arena.base + block + store_refs_offset(8), &inner, sizeof inner);
    slot_of(made)->value.large.block = block;
    slot_of(made)->value.large.ref_count = 1;
    slot_of(made)->meta = store_meta(8, MOB_FORMAT_PICKLE, MOB_OK, false);
    fixture_say(worker, WIRE_ESCAPE, made.slot, made.generation);
    commit(worker, visit);
    store_slot_seal(slot_of(made), true);
    fixture_say(worker, WIRE_DONE, visit, generation);
    fixture_say(driver.client, WIRE_DROP, inner.slot, inner.generation);
    fixture_settle(n);
    assert_false(is_sealed(result));
    assert_true(peer_holds(inner));
    rounds();
    assert_true(is_sealed(result));
    assert_int_equal(node_object_known(n, inner)->uses, 1);
    assert_false(peer_holds(inner));
    fixture_say(driver.client, WIRE_DROP, result.slot, result.generation);
    nothing_is_left();
    assert_null(node_object_known(n, inner));
}

static void worker_die(void) {
    worker->exited = true;
    node_client_died(worker);
    worker = worker_new();
    rounds();
}

static void test_the_origin_counts_the_retries(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver);
    uint32_t record = send_task(result, 1);
    uint64_t first = generation_of(record);
    rounds();
    (void)visit_take();
    worker_die();
    assert_true(is_at_peer(record));
    assert_int_equal(generation_of(record), first + 1);
    assert_int_equal(n->tasks[record]->retries, 0);
    (void)visit_take();
    worker_die();
    assert_true(is_sealed(result));
    assert_int_equal(error_of(result), MOB_ECRASHED);
    nothing_is_left();
}

static void test_what_was_not_begun_costs_no_retry(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver);
    uint32_t record = send_task(result, 0);
    rounds();
    worker_die(); /* it was told, and has not begun */
    assert_true(is_at_peer(record));
    visit_finish(visit_take(), 8);
    assert_int_equal(error_of(result), MOB_OK);
    assert_true(is_sealed(result));
    nothing_is_left();
}

static void test_a_late_end_changes_nothing(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver);
    uint32_t record = send_task(result, 3);
    uint64_t generation = generation_of(record);
    rounds();
    uint32_t visit = visit_take();
    uint8_t byte = 1;
    frame_value_t value = {.bytes = &byte, .size = 1};
    frame_done_t done = {.end = FRAME_RESULTS, .values = &value, .num_values = 1};
    end_push(record, generation - 1, &done);
    end_push(record, generation + 1, &done);
    end_push(record + 1, generation, &done);
    end_push(UINT32_MAX, generation, &done);
    assert_false(is_sealed(result));
    assert_true(is_at_peer(record));
    done.num_values = 0; /* as many as it has results, or none of it counts */
    end_push(record, generation, &done);
    assert_false(is_sealed(result));
    visit_finish(visit, 8);
    assert_true(is_sealed(result));
    nothing_is_left();
}

static void test_a_refused_task_runs_here(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver);
    uint32_t record = send_task(result, 0);
    uint8_t *bytes;
    size_t size;
    assert_true(node_loop_pop(&peer->out, &bytes, &size)); /* it never comes there */
    free(bytes);
    end_push(record, generation_of(record),
             &(frame_done_t){.end = FRAME_REFUSED, .status = MOB_ENOMEM});
    run(worker, record, result);
    assert_true(is_sealed(result));
    nothing_is_left();
}

static void test_a_cancelled_visit_that_waits(void **state) {
    (void)state;
    mob_ref_t results[2] = {slot_open(&driver), slot_open(&driver)};
    (void)send_task(results[0], 3);
    rounds();
    uint32_t visit = visit_take();
    node_client_t *taken = worker;
    uint32_t record = send_task(results[1], 3);
    rounds();
    wire_message_t m = {
        .cancel = {WIRE_CANCEL, .slot = results[1].slot, .generation = results[1].generation}};
    node_cancel(driver.client, &m);
    assert_true(is_at_peer(record)); /* only its own node knows whether it has begun */
    rounds();
    assert_true(is_sealed(results[1]));
    assert_int_equal(error_of(results[1]), MOB_ECANCELLED);
    assert_ptr_equal(taken, worker);
    visit_finish(visit, 8);
    assert_int_equal(error_of(results[0]), MOB_OK);
    nothing_is_left();
}

static void test_a_recalled_task_comes_back_if_it_has_not_begun(void **state) {
    (void)state;
    mob_ref_t results[2] = {slot_open(&driver), slot_open(&driver)};
    uint32_t begun = send_task(results[0], 0);
    rounds();
    uint32_t visit = visit_take();
    uint32_t waits = send_task(results[1], 0);
    rounds();
    node_forward_recall(n, n->tasks[begun]);
    node_forward_recall(n, n->tasks[waits]);
    rounds();
    assert_int_equal(error_of(results[1]), MOB_ECANCELLED);
    assert_null(n->tasks[waits]);
    assert_true(is_at_peer(begun));
    visit_finish(visit, 8);
    assert_int_equal(error_of(results[0]), MOB_OK);
    nothing_is_left();
}

static void test_a_job_that_ends_takes_its_visits_along(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver);
    uint32_t record = send_task(result, 0);
    JOB(n)->farewell.leaving = true;
    rounds();
    assert_null(n->tasks[record]);
    assert_int_equal(error_of(result), MOB_ECANCELLED);
    nothing_is_left();
}

/* Real messages with some bytes changed, and bytes that never were a message. */
static void test_a_peer_that_lies(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t *bytes, made_up[64];
        size_t size;
        if (driver.next_record % WIRE_RECORD_BLOCK == WIRE_RECORD_BLOCK - 1 ||
            driver.next_slot % STORE_SLOT_BLOCK == STORE_SLOT_BLOCK - 1)
            driver = submitter_of(driver.client);
        (void)send_task(slot_open(&driver), 0);
        assert_true(node_loop_pop(&peer->out, &bytes, &size));
        for (uint64_t k = 1 + next_random() % 3; k > 0; k--)
            bytes[next_random() % size] = (uint8_t)next_random();
        assert_int_equal(node_loop_push(&peer->out, bytes, size), MOB_OK);
        for (size_t k = 0; k < sizeof made_up; k++) made_up[k] = (uint8_t)next_random();
        message_push((frame_kind_t)(FRAME_TASK + next_random() % FRAME_DROP),
                     (frame_id_t){.home = n->incarnation,
                                  .number = (uint32_t)(next_random() % 300),
                                  .generation = next_random() % 3},
                     made_up, next_random() % sizeof made_up);
        node_peers_settle(n);
    }
    assert_false(n->ending);
}

int main(void) {
#define PEER_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        PEER_TEST(test_a_peer_is_a_client_without_a_process),
        PEER_TEST(test_values_come_back),
        PEER_TEST(test_an_argument_is_held_until_the_visit_ends),
        PEER_TEST(test_what_is_inside_a_result_is_held_on_its_way),
        PEER_TEST(test_the_origin_counts_the_retries),
        PEER_TEST(test_what_was_not_begun_costs_no_retry),
        PEER_TEST(test_a_late_end_changes_nothing),
        PEER_TEST(test_a_refused_task_runs_here),
        PEER_TEST(test_a_cancelled_visit_that_waits),
        PEER_TEST(test_a_recalled_task_comes_back_if_it_has_not_begun),
        PEER_TEST(test_a_job_that_ends_takes_its_visits_along),
        PEER_TEST(test_a_peer_that_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
