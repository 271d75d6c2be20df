/* Flows whose maker or reader dies, after each step of an item. */
#include "players.h"

#include "store/flow.h"

/* A flow between the driver and a worker, played by hand. */
typedef struct {
    node_client_t *worker;
    submitter_t maker; /* the worker's own slots */
    uint32_t record;
    mob_ref_t done, link, tail;
    mob_ref_t made[8]; /* the items, in order */
    uint32_t count;
} flow_t;

static store_flow_t *shared(const flow_t *f) { return &slot_of(f->link)->value.flow; }

/* A worker with slots of its own. */
static node_client_t *maker_new(submitter_t *ret_maker) {
    node_client_t *w = client_new(WIRE_WORKER);
    *ret_maker = submitter_of(w);
    node_worker_free(w);
    return w;
}

/* Taken from the reader's queue by a worker. */
static flow_t flow_begin(submitter_t *reader, int32_t max_retries) {
    flow_t f = {0};
    f.worker = maker_new(&f.maker);
    f.done = slot_open(reader);
    f.link = slot_open(reader);
    f.tail = slot_open(reader);
    reader->client->reads = true;
    f.record = reader->next_record++;
    wire_record_t *r =
        fixture_record_fill(n, f.record, MOB_TASK, f.done, (mob_ref_t){0}, max_retries);
    r->num_returns = 2;
    r->flags = WIRE_FLOWS;
    memcpy(r->body + sizeof f.done, &f.link, sizeof f.link);
    memcpy(r->body + 2 * sizeof f.done, "work", 4);
    r->body_size = wire_body_size(2, 0, 0, 4, 0);
    slot_of(f.link)->value.maker = f.record;
    store_flow_init(shared(&f), reader->client->number, 0, f.tail);
    fixture_record_publish(r, false);
    queue_push(reader, f.record);
    node_schedule(n);
    assert_int_equal(take(f.worker, reader), f.record);
    return f;
}

enum { OPENED = 1, WRITTEN, LINKED, COMMITTED, SEALED }; /* the steps of store/flow.h */

/* The worker makes one item, up to this step. */
static void item_make(flow_t *f, int step) {
    mob_ref_t next = slot_open(&f->maker), item = f->tail;
    slot_of(next)->value.item.next = 0;
    if (step < WRITTEN) return;
    slot_of(item)->meta = store_meta(1, MOB_FORMAT_DIRECT, MOB_OK, true);
    slot_of(item)->value.item.next = store_link(next);
    if (step < LINKED) return;
    uint64_t made = store_flow_made(shared(f));
    shared(f)->links[(made + 1) % 2] = store_link(next);
    if (step < COMMITTED) return;
    atomic_store(&shared(f)->made, made + 1);
    f->made[f->count++] = item;
    f->tail = next;
    if (step < SEALED) return;
    if (made == 0)
        store_slot_seal(slot_of(item), false);
    else
        store_slot_seal_given(slot_of(item), false, store_flow_reader(shared(f)));
}

static bool is_given(mob_ref_t ref, uint32_t reader) {
    uint64_t word = word_of(ref);
    return (word & 0xffff & ~STORE_SEEN) == (STORE_SEALED | STORE_GIVEN) &&
           store_word_reader(word) == reader;
}

/* ---- the maker ---- */

/* It dies at each step of its third item, and the task is run again. */
static void test_a_maker_that_dies(void **state) {
    (void)state;
    for (int step = OPENED; step <= SEALED; step++) {
        uint32_t number = driver.client->number;
        flow_t f = flow_begin(&driver, 3);
        for (int i = 0; i < 2; i++) item_make(&f, SEALED);
        item_make(&f, step);
        node_client_died(f.worker);
        uint32_t whole = step >= COMMITTED ? 3 : 2;
        assert_int_equal(f.count, whole);
        assert_int_equal(word_of(f.made[0]), STORE_SEALED);
        for (uint32_t i = 1; i < whole; i++) assert_true(is_given(f.made[i], number));
        assert_int_equal(word_of(f.tail) & STORE_STATE, STORE_PENDING);
        assert_int_equal(store_flow_made(shared(&f)), whole);
        assert_int_equal(wire_word_state(record_word(f.record)), WIRE_READY_STATE);
        /* The next worker goes on with the tail, and ends. */
        node_client_t *next = maker_new(&f.maker);
        node_schedule(n);
        item_make(&f, SEALED);
        assert_true(is_given(f.made[whole], number));
        slot_of(f.tail)->meta = store_meta(0, (mob_format_t)STORE_FORMAT_END, MOB_OK, true);
        slot_of(f.tail)->value.item.next = 0;
        store_slot_seal_given(slot_of(f.tail), false, number);
        slot_of(f.link)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
        store_slot_seal(slot_of(f.link), false);
        wire_message_t m = fixture_heard(next);
        while (m.kind != 0 && m.kind != WIRE_RUN) m = fixture_heard(next);
        assert_int_equal(m.kind, WIRE_RUN);
        uint64_t generation = generation_of(f.record);
        assert_true(wire_record_move(&n->records[f.record],
                                     wire_word(generation, 0, WIRE_READY_STATE),
                                     wire_word(generation, next->number, WIRE_TAKEN), NULL));
        commit(next, f.record);
        slot_seal(f.done);
        fixture_say(next, WIRE_DONE, f.record, generation);
        assert_null(n->tasks[f.record]);
        assert_int_equal(n->flows, 0);
        node_client_died(next);
    }
}

static void test_a_maker_that_dies_without_retries(void **state) {
    (void)state;
    for (int step = OPENED; step <= SEALED; step++) {
        flow_t f = flow_begin(&driver, 0);
        item_make(&f, SEALED);
        item_make(&f, step);
        node_client_died(f.worker);
        assert_int_equal(error_of(f.tail), MOB_ECRASHED);
        assert_true(is_given(f.tail, driver.client->number));
        assert_int_equal(slot_of(f.tail)->value.item.next, 0);
        assert_int_equal(error_of(f.done), MOB_ECRASHED);
        /* it is told by the last item, and by nothing else */
        assert_false(store_is_untold(word_of(f.done), slot_of(f.done)->meta));
        assert_false(store_is_untold(word_of(f.link), slot_of(f.link)->meta));
        assert_true(store_is_untold(word_of(f.tail), slot_of(f.tail)->meta));
        assert_int_equal(n->flows, 0);
    }
}

/* After DONE, before it sealed anything. */
static void test_a_maker_that_dies_at_the_end(void **state) {
    (void)state;
    for (uint32_t items = 0; items < 3; items++) {
        flow_t f = flow_begin(&driver, 3);
        for (uint32_t i = 0; i < items; i++) item_make(&f, i + 1 < items ? SEALED : COMMITTED);
        slot_of(f.tail)->meta = store_meta(0, (mob_format_t)STORE_FORMAT_END, MOB_OK, true);
        slot_of(f.done)->meta = slot_of(f.link)->meta =
            store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
        commit(f.worker, f.record);
        node_client_died(f.worker);
        for (uint32_t i = 0; i < items; i++)
            assert_int_equal(word_of(f.made[i]) & STORE_STATE, STORE_SEALED);
        assert_int_equal(word_of(f.tail) & STORE_STATE, STORE_SEALED);
        assert_true(store_meta_is_end(slot_of(f.tail)->meta));
        assert_int_equal(word_of(f.done), STORE_SEALED);
        assert_int_equal(word_of(f.link), STORE_SEALED);
    }
}

/* The reader had closed the flow: what is left is freed, wherever the maker dies. */
static void test_a_maker_that_dies_in_a_closed_flow(void **state) {
    (void)state;
    for (int step = OPENED; step <= SEALED; step++) {
        flow_t f = flow_begin(&driver, 0);
        item_make(&f, SEALED);
        atomic_fetch_or(&shared(&f)->taken, STORE_CLOSED);
        assert_true(store_slot_abandon(slot_of(f.tail)));
        store_slot_drop(slot_of(f.done), false);
        store_slot_drop(slot_of(f.link), false);
        mob_ref_t dropped = f.tail;
        item_make(&f, step);
        node_client_died(f.worker);
        assert_int_equal(word_of(dropped), STORE_FREE);
        assert_int_equal(word_of(f.tail), STORE_FREE);
        assert_int_equal(word_of(f.done), STORE_FREE);
        assert_int_equal(word_of(f.link), STORE_FREE);
    }
}

/* ---- the reader ---- */

static void test_a_reader_that_dies(void **state) {
    (void)state;
    for (int step = OPENED; step <= SEALED; step++) {
        teardown(state);
        setup(state);
        node_client_t *client = client_new(WIRE_WORKER);
        submitter_t reader = submitter_of(client);
        flow_t f = flow_begin(&reader, 3);
        uint32_t number = client->number;
        for (int i = 0; i < 2; i++) item_make(&f, SEALED);
        store_slot_close(slot_of(f.made[0])); /* taken and dropped */
        node_client_died(client);
        assert_int_equal(word_of(f.made[1]), STORE_FREE);
        assert_true(word_of(f.tail) & STORE_DROPPED);
        assert_true(store_flow_is_closed(shared(&f)));
        assert_true(n->open_tasks[number] > 0); /* its number is not given out */
        /* The worker makes one more, and dies at each step of it. */
        item_make(&f, step);
        node_client_died(f.worker);
        for (uint32_t i = 0; i < f.count; i++) assert_int_equal(word_of(f.made[i]), STORE_FREE);
        /* the task may be run again, and its tail is nobody's */
        assert_int_equal(word_of(f.tail) & (STORE_STATE | STORE_DROPPED),
                         STORE_PENDING | STORE_DROPPED);
        node_task_fail(n, n->tasks[f.record], MOB_ECANCELLED, "over");
        assert_int_equal(word_of(f.tail), STORE_FREE);
        assert_int_equal(n->open_tasks[number], 0);
        fixture_settle(n);
    }
}

/* Items that escaped are counted; the reader counts as their holder. */
static void test_an_item_that_escaped(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER), *other = client_new(WIRE_WORKER);
    submitter_t reader = submitter_of(client);
    flow_t f = flow_begin(&reader, 0);
    for (int i = 0; i < 3; i++) item_make(&f, SEALED);
    mob_ref_t kept = f.made[1], dropped = f.made[2];
    atomic_fetch_or(&slot_of(kept)->word, STORE_ESCAPED);
    atomic_fetch_or(&slot_of(dropped)->word, STORE_ESCAPED);
    node_object_t *o = node_object_find(n, kept);
    assert_non_null(o);
    assert_int_equal(o->holders.count, 1);
    assert_int_equal(o->holders.items[0], client->number);
    fixture_say(other, WIRE_HOLD, kept.slot, kept.generation);
    fixture_say(client, WIRE_DROP, dropped.slot, dropped.generation);
    fixture_settle(n);
    assert_int_equal(word_of(dropped), STORE_FREE);
    node_client_died(f.worker); /* whose slots these were */
    assert_int_equal(word_of(kept) & STORE_STATE, STORE_SEALED);
    node_client_died(client);
    fixture_settle(n);
    assert_int_equal(word_of(kept) & STORE_STATE, STORE_SEALED);
    fixture_say(other, WIRE_DROP, kept.slot, kept.generation);
    fixture_settle(n);
    assert_int_equal(word_of(kept), STORE_FREE);
}

/* What clients wrote makes no sense: nothing of it is believed. */
static void test_garbage(void **state) {
    (void)state;
    const uint64_t links[] = {0, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)3 << 40 | 77};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        flow_t f = flow_begin(&driver, 0);
        item_make(&f, SEALED);
        shared(&f)->links[0] = shared(&f)->links[1] = links[i];
        atomic_store(&shared(&f)->made, UINT64_MAX);
        node_client_died(f.worker);
        assert_int_equal(error_of(f.done), MOB_ECRASHED);
    }
    /* a flow of another number of results is no task */
    flow_t f = flow_begin(&driver, 0);
    n->records[f.record].num_returns = 1;
    fixture_say(driver.client, WIRE_ARGUMENTS, f.record, generation_of(f.record));
    assert_null(n->tasks[f.record]);
    assert_non_null(driver.client->fault);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_maker_that_dies),
        TEST(test_a_maker_that_dies_without_retries),
        TEST(test_a_maker_that_dies_at_the_end),
        TEST(test_a_maker_that_dies_in_a_closed_flow),
        TEST(test_a_reader_that_dies),
        TEST(test_an_item_that_escaped),
        TEST(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
