/* Flows: a reader and a maker in one process, in every order; and both at once. */
#include "worker.h"

static mob_flow_t flow;
static mob_run_t *run;

/* The worker has slots of its own, and runs a task that flows to the submitter. */
static void begin(mob_client_t *c, uint32_t limit) {
    uint32_t index;
    daemon_says(c, WIRE_SLOTS, 20000, 2048);
    assert_int_equal(client_slot_take(c, &index), MOB_OK);
    client_slot_give(c, index);
    mob_task_t task = {
        .kind = MOB_TASK, .shape = MOB_SHAPE_ONE_CPU, .name = "flow", .name_size = 4};
    assert_int_equal(mob_submit_flow(submitter, &task, limit, &flow), MOB_OK);
    lease_give(c);
    run = taken(c);
    assert_true(run->flows);
    assert_int_equal(run->num_returns, 1);
    assert_int_equal(run->items, 0);
}

static mob_status_t give(mob_client_t *c, int64_t number, size_t size) {
    mob_buffer_t buffer;
    mob_status_t status = mob_run_item_begin(c, run, size, 0, &buffer);
    if (status != MOB_OK) return status;
    memset(buffer.data, 0, size);
    memcpy(buffer.data, &number, sizeof number);
    mob_run_item_commit(c, run, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
    return MOB_OK;
}

static mob_ref_t next_is(int64_t number) {
    mob_ref_t ref;
    mob_value_t value;
    int64_t found = -1;
    assert_int_equal(mob_flow_next(submitter, &flow, &ref), MOB_OK);
    assert_int_equal(mob_get_begin(submitter, ref, &value), MOB_OK);
    memcpy(&found, value.data, sizeof found);
    mob_get_end(submitter, ref, &value);
    assert_int_equal(found, number);
    return ref;
}

static bool is_free(mob_client_t *c, mob_ref_t ref) {
    return atomic_load(&c->slots[ref.slot].word) == STORE_FREE;
}

/* How many slots of the worker's and the submitter's are in use. */
static size_t slots_used(mob_client_t *c) {
    size_t used = 0;
    for (uint32_t i = 9000; i < 9000 + 8192; i++)
        used += atomic_load(&c->slots[i].word) != STORE_FREE;
    for (uint32_t i = 20000; i < 20000 + 2048; i++)
        used += atomic_load(&c->slots[i].word) != STORE_FREE;
    return used;
}

static void finish(mob_client_t *c) {
    finished(c, run);
    run = NULL;
}

/* ---- one after the other ---- */

static void test_items_in_their_order(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref;
    begin(c, 0);
    assert_int_equal(mob_flow_next(submitter, &flow, &ref), MOB_ETIMEOUT);
    for (int64_t i = 0; i < 100; i++) {
        assert_int_equal(give(c, i, i % 3 == 0 ? 8 : i % 3 == 1 ? 32 : 33), MOB_OK);
        if (i % 2 == 0) continue;
        mob_ref_release(submitter, next_is(i - 1));
        mob_ref_release(submitter, next_is(i));
        assert_int_equal(mob_flow_next(submitter, &flow, &ref), MOB_ETIMEOUT);
    }
    finish(c);
    assert_int_equal(mob_flow_look(submitter, &flow), MOB_EOVER);
    assert_int_equal(mob_flow_next(submitter, &flow, &ref), MOB_EOVER);
    assert_int_equal(mob_flow_next(submitter, &flow, &ref), MOB_EOVER);
    mob_flow_close(submitter, &flow);
    assert_int_equal(slots_used(c), 0);
}

static void test_an_item_is_its_readers(void **state) {
    mob_client_t *c = *state;
    begin(c, 0);
    for (int64_t i = 0; i < 3; i++) assert_int_equal(give(c, i, 50), MOB_OK);
    mob_ref_t first = next_is(0), second = next_is(1);
    assert_int_equal(atomic_load(&c->slots[first.slot].word), STORE_SEALED);
    uint64_t word = atomic_load(&c->slots[second.slot].word);
    assert_int_equal(word & 0xffff, STORE_SEALED | STORE_GIVEN);
    assert_int_equal(store_word_reader(word), SUBMITTER);
    uint64_t block = c->slots[second.slot].value.large.block;
    assert_true(block_is_used(c, block));
    mob_ref_retain(submitter, second);
    mob_ref_release(submitter, second);
    assert_true(block_is_used(c, block));
    mob_ref_release(submitter, second);
    assert_true(is_free(c, second) && !block_is_used(c, block));
    mob_ref_release(submitter, first);
    /* one that escapes is the daemon's to free */
    mob_ref_t third = next_is(2);
    client_ref_escape(submitter, third);
    mob_ref_release(submitter, third);
    assert_true(atomic_load(&c->slots[third.slot].word) & STORE_ESCAPED);
    while (daemon_hears(c).kind != 0) {
    }
    wire_message_t m = daemon_hears(submitter);
    while (m.kind == WIRE_READS) m = daemon_hears(submitter);
    assert_int_equal(m.kind, WIRE_DROP);
    assert_int_equal(m.object.slot, third.slot);
    finish(c);
    mob_flow_close(submitter, &flow);
}

static void test_the_daemon_hears_once_of_a_reader(void **state) {
    mob_client_t *c = *state;
    begin(c, 0);
    assert_int_equal(daemon_hears(submitter).kind, WIRE_READS);
    assert_int_equal(daemon_hears(submitter).kind, 0);
    while (daemon_hears(c).kind != 0) {
    }
    assert_int_equal(give(c, 0, 8), MOB_OK);
    assert_int_equal(daemon_hears(c).kind, 0);
    finish(c);
    assert_int_equal(daemon_hears(c).kind, 0);
    mob_flow_close(submitter, &flow);
    assert_int_equal(daemon_hears(submitter).kind, 0);
}

/* Closed after each number of items made and taken; before the task's end and after it. */
static void test_closed_at_every_point(void **state) {
    mob_client_t *c = *state;
    for (int64_t made = 0; made < 4; made++)
        for (int64_t seen = 0; seen <= made; seen++)
            for (int done = 0; done < 2; done++) {
                begin(c, 0);
                for (int64_t i = 0; i < made; i++) assert_int_equal(give(c, i, 50), MOB_OK);
                for (int64_t i = 0; i < seen; i++) mob_ref_release(submitter, next_is(i));
                if (done) finish(c);
                mob_flow_close(submitter, &flow);
                if (!done) {
                    assert_int_equal(give(c, made, 50), MOB_EOVER);
                    finish(c);
                }
                assert_int_equal(slots_used(c), 0);
            }
}

/* The reader closes between the maker's look and its seal: the maker finds DROPPED. */
static void test_closed_while_an_item_is_made(void **state) {
    mob_client_t *c = *state;
    for (int64_t before = 0; before < 3; before++) {
        begin(c, 0);
        for (int64_t i = 0; i < before; i++) assert_int_equal(give(c, i, 8), MOB_OK);
        mob_buffer_t buffer;
        assert_int_equal(mob_run_item_begin(c, run, 60, 0, &buffer), MOB_OK);
        mob_flow_close(submitter, &flow);
        mob_run_item_commit(c, run, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
        assert_false(block_is_used(c, buffer.block));
        assert_int_equal(mob_run_item_begin(c, run, 60, 0, &buffer), MOB_EOVER);
        finish(c);
        assert_int_equal(slots_used(c), 0);
    }
}

static void test_an_item_that_is_not_committed(void **state) {
    mob_client_t *c = *state;
    mob_buffer_t one, two;
    begin(c, 0);
    assert_int_equal(mob_run_item_begin(c, run, 100, 0, &one), MOB_OK);
    assert_int_equal(mob_run_item_begin(c, run, 200, 0, &two), MOB_OK);
    assert_int_equal(mob_run_item_begin(c, run, 300, 0, &one), MOB_OK);
    finish(c);
    assert_false(block_is_used(c, one.block));
    assert_int_equal(mob_flow_look(submitter, &flow), MOB_EOVER);
    mob_flow_close(submitter, &flow);
    assert_int_equal(slots_used(c), 0);
}

/* As if the first worker had died: the next begins where it stopped. */
static void test_the_next_run_goes_on(void **state) {
    mob_client_t *c = *state;
    begin(c, 0);
    for (int64_t i = 0; i < 3; i++) assert_int_equal(give(c, i, 8), MOB_OK);
    client_run_t *inside = (client_run_t *)run;
    mob_ref_t tail = inside->item;
    client_maker_begin(c, inside, true);
    assert_int_equal(run->items, 3);
    assert_int_equal(inside->item.slot, tail.slot);
    assert_int_equal(give(c, 3, 8), MOB_OK);
    for (int64_t i = 0; i < 4; i++) mob_ref_release(submitter, next_is(i));
    /* the error that ended it was the last item */
    mob_buffer_t buffer;
    assert_int_equal(mob_run_item_begin(c, run, 9, 0, &buffer), MOB_OK);
    memcpy(buffer.data, "\5\0\0\0\0\0\0\0\0", 9);
    mob_run_item_commit(c, run, &buffer, MOB_FORMAT_DIRECT, MOB_ETASK, NULL);
    client_maker_begin(c, inside, true);
    assert_int_equal(mob_run_item_begin(c, run, 9, 0, &buffer), MOB_EOVER);
    mob_ref_t ref;
    mob_value_t value;
    assert_int_equal(mob_flow_next(submitter, &flow, &ref), MOB_OK);
    assert_int_equal(mob_get_begin(submitter, ref, &value), MOB_OK);
    assert_int_equal(value.error, MOB_ETASK);
    mob_ref_release(submitter, ref);
    finish(c);
    assert_int_equal(mob_flow_next(submitter, &flow, &ref), MOB_EOVER);
    mob_flow_close(submitter, &flow);
    assert_int_equal(slots_used(c), 0);
}

static void test_garbage_in_the_flow(void **state) {
    mob_client_t *c = *state;
    mob_buffer_t buffer;
    begin(c, 0);
    client_run_t *inside = (client_run_t *)run;
    uint64_t link = inside->flow->links[0];
    const uint64_t links[] = {0, UINT64_MAX, link + 1, (uint64_t)77 << 40};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        inside->flow->links[0] = links[i];
        client_maker_begin(c, inside, true);
        assert_int_equal(mob_run_item_begin(c, run, 8, 0, &buffer), MOB_EOVER);
    }
    inside->flow->links[0] = link;
    client_maker_begin(c, inside, true);
    finish(c);
    mob_flow_close(submitter, &flow);
}

/* ---- both at once ---- */

enum { ITEMS = 20000 };
static uint32_t stop_at;

static void *reader(void *unused) {
    (void)unused;
    mob_ref_t ref;
    mob_value_t value;
    int64_t found;
    for (uint32_t i = 0; i < stop_at;) {
        mob_status_t status = mob_flow_next(submitter, &flow, &ref);
        if (status == MOB_EOVER) break;
        if (status == MOB_ETIMEOUT) {
            sched_yield();
            continue;
        }
        assert_int_equal(mob_get_begin(submitter, ref, &value), MOB_OK);
        memcpy(&found, value.data, sizeof found);
        mob_get_end(submitter, ref, &value);
        assert_int_equal(found, i++);
        mob_ref_release(submitter, ref);
    }
    mob_flow_close(submitter, &flow);
    return NULL;
}

static void race(mob_client_t *c, uint32_t limit, int64_t items) {
    pthread_t thread;
    begin(c, limit);
    assert_int_equal(pthread_create(&thread, NULL, reader, NULL), 0);
    for (int64_t i = 0; i < items; i++) {
        if (give(c, i, i % 50 ? 8 : 64) != MOB_OK) break;
        while (mob_run_item_wait(c, run) != MOB_OK) {
        }
    }
    finish(c);
    pthread_join(thread, NULL);
    while (daemon_hears(submitter).kind != 0) {
    }
    while (daemon_hears(c).kind != 0) {
    }
    assert_int_equal(slots_used(c), 0);
}

static void test_both_at_once(void **state) {
    stop_at = UINT32_MAX;
    race(*state, 3, ITEMS);
    race(*state, 1, 2000);
    race(*state, 1000, ITEMS);
}

static void test_closed_while_it_is_made(void **state) {
    for (int round = 0; round < 300; round++) {
        stop_at = (uint32_t)round % 37;
        race(*state, round % 2 ? 0 : 2, 40);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_items_in_their_order),
        WORKER_TEST(test_an_item_is_its_readers),
        WORKER_TEST(test_the_daemon_hears_once_of_a_reader),
        WORKER_TEST(test_closed_at_every_point),
        WORKER_TEST(test_closed_while_an_item_is_made),
        WORKER_TEST(test_an_item_that_is_not_committed),
        WORKER_TEST(test_the_next_run_goes_on),
        WORKER_TEST(test_garbage_in_the_flow),
        WORKER_TEST(test_both_at_once),
        WORKER_TEST(test_closed_while_it_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
