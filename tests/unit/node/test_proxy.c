/* Objects of other nodes as slots here, and how their values come. */
#include "nodes.h"

#include "../random.h"
#include "base/bytes.h"
#include "node/value.h"

enum { LARGE = 70000 };

static void test_a_proxy_that_nobody_holds_goes(void **state) {
    (void)state;
    mob_ref_t x = slot_open_by(A);
    frame_id_t id = node_proxy_id(A->n, x);
    mob_ref_t p = node_proxy_get(B->n, id);
    assert_int_not_equal(p.slot, 0);
    assert_int_equal(node_proxy_get(B->n, id).slot, p.slot);
    frame_id_t back = node_proxy_id(B->n, p);
    assert_true(back.home == id.home && back.number == id.number &&
                back.generation == id.generation);
    assert_int_equal(node_proxy_find(B->n, id).slot, p.slot);
    assert_int_equal(node_proxy_find(C->n, id).slot, 0);
    settle();
    assert_false(is_there(B, p));
    assert_int_equal(node_proxy_find(B->n, id).slot, 0);
    drop(A, x);
    seal(A, x, 8, NULL, 0);
    fixture_say(A->client, WIRE_SEALED, x.slot, x.generation);
    nothing_is_left();
}

static void test_a_node_that_is_alone_has_none(void **state) {
    (void)state;
    node_cluster_t *c = B->n->cluster;
    B->n->cluster = NULL;
    frame_id_t id = {.home = incarnation_of(0), .number = 300, .generation = 1};
    assert_int_equal(node_frame_ref(B->n, id).slot, 0);
    assert_int_equal(node_proxy_find(B->n, id).slot, 0);
    B->n->cluster = c;
    assert_int_equal(node_frame_ref(B->n, (frame_id_t){0}).slot, 0);
}

static void value_comes(uint64_t size) {
    mob_ref_t x = put(A, size), p = given(A, B, x);
    has_value(B, p, size);
    drop(B, p);
    settle();
    assert_false(is_there(B, p));
    assert_true(is_there(A, x));
    drop(A, x);
    nothing_is_left();
    assert_false(is_there(A, x));
}

static void test_a_value_that_is_there_comes(void **state) {
    (void)state;
    value_comes(0);
    value_comes(8);
    value_comes(1000);
    value_comes(FRAME_VALUE_MOST);
}

static void test_a_value_that_is_made_later_comes(void **state) {
    (void)state;
    mob_ref_t x = slot_open_by(A), p = given(A, B, x), q = given(A, C, x);
    assert_false(is_sealed(B, p));
    assert_true(word_at(A, x) & STORE_WATCHED);
    assert_true(store_slot_wait(slot_at(B, p), B->client->number));
    seal(A, x, 1000, NULL, 0);
    settle();
    has_value(B, p, 1000);
    has_value(C, q, 1000);
    drop(A, x);
    drop(B, p);
    settle();
    assert_true(is_there(A, x));
    drop(C, q);
    nothing_is_left();
    assert_false(is_there(A, x));
}

static void test_a_link_that_is_full_asks_later(void **state) {
    (void)state;
    mob_ref_t x = put(A, 8), y = put(C, 8);
    give(A, B, x);
    give(C, B, y);
    B->is_full = true;
    settle();
    mob_ref_t p = node_proxy_find(B->n, node_proxy_id(A->n, x));
    assert_false(is_sealed(B, p));
    assert_int_equal(B->n->cluster->watches.asked.count, 2);
    B->is_full = false;
    settle();
    has_value(B, p, 8);
    has_value(B, node_proxy_find(B->n, node_proxy_id(C->n, y)), 8);
    drop(B, p);
    drop(B, node_proxy_find(B->n, node_proxy_id(C->n, y)));
    drop(A, x);
    drop(C, y);
    nothing_is_left();
}

/* A task of the daemon's process, which waits for the argument; its record. */
static uint32_t task_submit(daemon_t *d, mob_ref_t result, mob_ref_t argument) {
    node_grant_records(d->client, WIRE_RECORD_BLOCK);
    uint32_t index = fixture_heard(d->client).grant.first;
    wire_record_t *r = fixture_record_fill(d->n, index, MOB_TASK, result, argument, 0);
    fixture_record_publish(r, true);
    fixture_say(d->client, WIRE_SUBMIT, index, wire_word_generation(atomic_load(&r->word)));
    return index;
}

static void test_a_task_waits_for_a_value_of_another_node(void **state) {
    (void)state;
    mob_ref_t x = slot_open_by(A), p = given(A, B, x);
    uint32_t record = task_submit(B, slot_open_by(B), p);
    assert_int_equal(B->n->tasks[record]->missing, 1);
    seal(A, x, 8, NULL, 0);
    settle();
    assert_int_equal(B->n->tasks[record]->missing, 0);
}

static void test_a_task_is_cancelled_from_another_node(void **state) {
    (void)state;
    mob_ref_t argument = slot_open_by(A), x = slot_open_by(A), p = given(A, B, x);
    uint32_t record = task_submit(A, x, argument);
    wire_message_t m = {.cancel = {WIRE_CANCEL, .slot = p.slot, .generation = p.generation,
                                   .how = WIRE_CANCEL_FORCE}};
    node_cancel(B->client, &m);
    assert_int_equal(fixture_heard(B->client).answer.status, MOB_OK);
    settle();
    assert_null(A->n->tasks[record]);
    assert_int_equal(error_at(A, x), MOB_ECANCELLED);
    assert_int_equal(error_at(B, p), MOB_ECANCELLED);
}

static void test_what_is_gone_is_an_error(void **state) {
    (void)state;
    frame_id_t id = {.home = incarnation_of(0), .number = 300, .generation = 7};
    mob_ref_t p = node_proxy_get(B->n, id);
    node_object_hold(B->n, node_object_known(B->n, p), B->client->number, false);
    settle();
    assert_true(is_sealed(B, p));
    assert_int_equal(error_at(B, p), MOB_ELOST);
    drop(B, p);
    nothing_is_left();
}

static void test_a_large_value_stays_where_it_is(void **state) {
    (void)state;
    mob_ref_t inner = put(A, 8), x = slot_open_by(A);
    seal(A, x, LARGE, &inner, 1);
    mob_ref_t p = given(A, B, x);
    node_object_t *o = node_object_known(B->n, p);
    assert_true(is_sealed(B, p));
    assert_true(node_proxy_is_elsewhere(B->n, o));
    assert_false(node_object_is_gone(B->n, o));
    assert_int_equal(o->elsewhere->bytes, LARGE);
    assert_int_equal(o->elsewhere->ref_count, 1);
    assert_int_equal(o->elsewhere->pulled_bytes, store_block_size(LARGE, 1));
    /* it is pulled */
    mob_ref_t q = given(A, B, inner);
    uint64_t block;
    assert_int_equal(shm_heap_alloc(&B->n->heap, store_block_size(LARGE, 1),
                                    shm_tag(false, p.slot, p.generation), &block),
                     MOB_OK);
    memset(B->n->arena.base + block, 7, LARGE);
    memcpy(B->n->arena.base + block + store_refs_offset(LARGE), &q, sizeof q);
    node_proxy_fill(B->n, o, block);
    assert_false(node_proxy_is_elsewhere(B->n, o));
    has_value(B, p, LARGE);
    drop(B, q);
    settle();
    assert_true(is_there(B, q)); /* inside */
    drop(B, p);
    drop(A, x);
    drop(A, inner);
    nothing_is_left();
}

static void test_a_large_value_that_no_node_has(void **state) {
    (void)state;
    mob_ref_t x = put(A, LARGE), p = given(A, B, x), own = slot_open_by(B);
    node_proxy_lose(B->n, node_object_known(B->n, p), MOB_EOWNER, "its nodes are dead");
    assert_int_equal(error_at(B, p), MOB_EOWNER);
    assert_false(word_at(B, p) & STORE_AWAY);
    /* the same of an own object, whose value a task made elsewhere */
    node_elsewhere_t what = {.pulled_bytes = LARGE, .bytes = LARGE};
    assert_int_equal(node_proxy_seal_elsewhere(B->n, own, &what), MOB_OK);
    assert_true(node_proxy_is_elsewhere(B->n, node_object_known(B->n, own)));
    mob_ref_t q = given(B, C, own);
    assert_true(node_proxy_is_elsewhere(C->n, node_object_known(C->n, q)));
    node_proxy_lose(B->n, node_object_known(B->n, own), MOB_ELOST, "its node is dead");
    node_remakes_settle(B->n);
    assert_int_equal(error_at(B, own), MOB_ELOST);
    drop(A, x);
    drop(B, p);
    drop(B, own);
    drop(C, q);
    nothing_is_left();
}

static void test_a_value_for_which_there_is_no_space_waits(void **state) {
    (void)state;
    mob_ref_t inner = put(A, 8), x = slot_open_by(A), full[64];
    seal(A, x, 60000, &inner, 1);
    int count = 0;
    uint64_t block, blocks[64];
    while (count < 64 && shm_heap_alloc(&B->n->heap, 60000, shm_tag(false, 1, 1), &block) == MOB_OK)
        blocks[count++] = block;
    (void)full;
    mob_ref_t p = given(A, B, x);
    assert_false(is_sealed(B, p));
    assert_int_equal(B->n->cluster->watches.late.count, 1);
    drop(A, inner);
    drop(A, x);
    settle();
    while (count > 0) shm_heap_free(&B->n->heap, blocks[--count], shm_tag(false, 1, 1));
    settle();
    has_value(B, p, 60000);
    assert_int_equal(node_object_known(B->n, p)->contents.count, 1);
    has_value(B, node_object_known(B->n, p)->contents.items[0], 8);
    drop(B, p);
    nothing_is_left();
}

static void test_a_result_that_is_made_here(void **state) {
    (void)state;
    mob_ref_t x = slot_open_by(A), p = given(A, B, x);
    frame_id_t id = node_proxy_id(A->n, x);
    assert_int_equal(node_proxy_result(B->n, id).slot, p.slot);
    assert_int_equal(node_proxy_result(B->n, id).slot, 0); /* one run at a time */
    node_object_t *o = node_object_known(B->n, p);
    node_object_use(o);
    /* the home knows a value first: the slot is the run's until that is over */
    seal(A, x, 8, NULL, 0);
    settle();
    assert_false(is_sealed(B, p));
    node_run_slot_free(B->n, &B->n->grants.own, p);
    settle();
    has_value(B, p, 8);
    assert_int_equal(node_proxy_result(B->n, id).slot, 0);
    drop(B, p);
    drop(A, x);
    nothing_is_left();
}

/* A result that was made again, in a slot of its run's own: it is large and stays here. */
static void test_a_result_that_is_adopted(void **state) {
    (void)state;
    mob_ref_t x = slot_open_by(A), p = given(A, B, x), made = put(B, LARGE), ref;
    frame_id_t id = node_proxy_id(A->n, x);
    assert_int_equal(node_proxy_adopt(B->n, id, made, &ref), MOB_OK);
    assert_int_equal(ref.slot, p.slot);
    has_value(B, p, LARGE);
    node_elsewhere_t what = {.pulled_bytes = LARGE, .bytes = LARGE};
    assert_int_equal(node_proxy_seal_elsewhere(A->n, x, &what), MOB_OK);
    settle();
    has_value(B, p, LARGE);
    mob_ref_t again = put(B, LARGE);
    assert_int_equal(node_proxy_adopt(B->n, id, again, &ref), MOB_EEXISTS);
    mob_ref_t q = given(B, C, p);
    node_object_t *o = node_object_known(C->n, q);
    assert_true(node_proxy_is_elsewhere(C->n, o));
    assert_int_equal(node_proxy_adopt(C->n, id, put(C, LARGE), &ref), MOB_OK);
    has_value(C, q, LARGE);
    drop(A, x);
    drop(B, p);
    drop(C, q);
    nothing_is_left();
}

static void test_a_peer_that_lies(void **state) {
    (void)state;
    mob_ref_t x = put(A, 8), p = given(A, B, x);
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[96];
        for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)next_random();
        bytes[0] = (uint8_t)(next_random() % 6);
        if (next_random() % 2) {
            frame_id_t id = node_proxy_id(A->n, x);
            base_writer_t w = {.bytes = bytes + 1};
            base_put_number(&w, id.home, 8);
            base_put_number(&w, id.number, 4);
        }
        (void)node_watch_receive(B->n->cluster, A->n->incarnation, bytes,
                                 next_random() % sizeof bytes);
        (void)node_watch_receive(A->n->cluster, B->n->incarnation, bytes,
                                 next_random() % sizeof bytes);
    }
    has_value(B, p, 8);
}

int main(void) {
#define PROXY_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        PROXY_TEST(test_a_proxy_that_nobody_holds_goes),
        PROXY_TEST(test_a_node_that_is_alone_has_none),
        PROXY_TEST(test_a_value_that_is_there_comes),
        PROXY_TEST(test_a_value_that_is_made_later_comes),
        PROXY_TEST(test_a_link_that_is_full_asks_later),
        PROXY_TEST(test_a_task_waits_for_a_value_of_another_node),
        PROXY_TEST(test_a_task_is_cancelled_from_another_node),
        PROXY_TEST(test_what_is_gone_is_an_error),
        PROXY_TEST(test_a_large_value_stays_where_it_is),
        PROXY_TEST(test_a_large_value_that_no_node_has),
        PROXY_TEST(test_a_value_for_which_there_is_no_space_waits),
        PROXY_TEST(test_a_result_that_is_made_here),
        PROXY_TEST(test_a_result_that_is_adopted),
        PROXY_TEST(test_a_peer_that_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
