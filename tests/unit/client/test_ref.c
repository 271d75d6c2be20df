/* A client's counting and its pools, on a client made by hand. */
#include "fixture.h"

static void test_id_round_trip(void **state) {
    mob_client_t *c = *state;
    const mob_ref_t refs[] = {{.slot = 1, .generation = 1},
                              {.slot = STORE_MAX_SLOTS - 1, .generation = ((uint64_t)1 << 48) - 1}};
    for (size_t i = 0; i < 2; i++) {
        uint8_t id[MOB_ID_SIZE];
        mob_ref_t back = {0};
        mob_ref_id(c, refs[i], id);
        assert_int_equal(id[0], 0x01);
        assert_int_equal(id[7], 0xef);
        assert_int_equal(mob_ref_from_id(c, id, &back), MOB_OK);
        assert_int_equal(back.slot, refs[i].slot);
        assert_true(back.generation == refs[i].generation);
    }
}

static void test_ids_from_elsewhere_are_stale(void **state) {
    mob_client_t *c = *state;
    uint8_t id[MOB_ID_SIZE];
    mob_ref_t back = {.slot = 77};
    mob_ref_id(c, (mob_ref_t){.slot = 5, .generation = 9}, id);
    id[3] ^= 1; /* another session's */
    assert_int_equal(mob_ref_from_id(c, id, &back), MOB_ESTALE);
    mob_ref_id(c, (mob_ref_t){0}, id);
    assert_int_equal(mob_ref_from_id(c, id, &back), MOB_ESTALE);
    mob_ref_id(c, (mob_ref_t){.slot = STORE_MAX_SLOTS}, id);
    assert_int_equal(mob_ref_from_id(c, id, &back), MOB_ESTALE);
    assert_int_equal(back.slot, 77);
}

static void test_own_value_is_freed_without_a_word(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = sealed(c);
    mob_ref_retain(c, ref);
    mob_ref_release(c, ref);
    assert_int_equal(word_of(c, ref), STORE_SEALED);
    mob_ref_release(c, ref);
    assert_int_equal(word_of(c, ref), STORE_FREE);
    daemon_hears_nothing(c);
    uint32_t again;
    assert_int_equal(client_slot_take(c, &again), MOB_OK);
    assert_int_equal(again, ref.slot);
    mob_ref_release(c, ref); /* one too many is nothing */
    daemon_hears_nothing(c);
}

static void test_pending_is_left_to_its_task(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = opened(c);
    mob_ref_release(c, ref);
    assert_int_equal(word_of(c, ref), STORE_PENDING | STORE_DROPPED);
    daemon_hears_nothing(c);
}

static void test_escaped_is_the_daemons_to_free(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = sealed(c);
    client_ref_escape(c, ref);
    client_ref_escape(c, ref);
    assert_int_equal(word_of(c, ref), STORE_SEALED | STORE_ESCAPED);
    mob_ref_release(c, ref);
    assert_int_equal(word_of(c, ref), STORE_SEALED | STORE_ESCAPED);
    wire_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, WIRE_DROP);
    assert_int_equal(m.object.slot, ref.slot);
    assert_int_equal(m.object.generation, ref.generation);
    daemon_hears_nothing(c);
}

static void test_what_is_not_ours_does_not_escape(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = {.slot = 9000, .generation = 5};
    atomic_store(&c->slots[9000].generation, 5);
    client_ref_retain(c, ref);
    client_ref_escape(c, ref);
    assert_int_equal(atomic_load(&c->slots[9000].word), STORE_FREE);
    client_ref_release(c, ref); /* an argument, held by its record: nobody is told */
    daemon_hears_nothing(c);
}

/* ---- references of an earlier object in the same slot ---- */

/* One that was released once too often, and one that was read from an id after its object's end. */
static void test_a_stale_release_does_not_hit_the_next_object(void **state) {
    mob_client_t *c = *state;
    for (int late = 0; late < 2; late++) {
        mob_ref_t old = sealed(c);
        mob_ref_release(c, old);
        assert_int_equal(word_of(c, old), STORE_FREE);
        if (late) mob_ref_retain(c, old); /* nothing is there, and nothing has come yet */
        mob_ref_t next = sealed(c);
        assert_int_equal(next.slot, old.slot);
        if (!late) mob_ref_retain(c, old);
        mob_ref_release(c, old);
        mob_ref_release(c, old);
        assert_int_equal(word_of(c, next), STORE_SEALED);
        assert_int_equal(c->local[next.slot].count, 1);
        mob_ref_release(c, next);
        assert_int_equal(word_of(c, next), STORE_FREE);
        daemon_hears_nothing(c);
    }
}

/* Its count is left over when the slot, another process's, holds the next object: which is told of
 * and let go of as if it were the first. */
static void test_a_stale_count_does_not_keep_the_next_object(void **state) {
    mob_client_t *c = *state;
    mob_ref_t old = {.slot = 9000, .generation = 5}, next = {.slot = 9000, .generation = 6};
    atomic_store(&c->slots[9000].generation, 5);
    mob_ref_retain(c, old);
    mob_get_keep(c, old);
    atomic_store(&c->slots[9000].generation, 6);
    mob_value_t value = {.ref_count = 1, .refs = &next};
    mob_value_adopt(c, (mob_ref_t){.slot = 9001, .generation = 1}, &value);
    assert_int_equal(daemon_hears(c).kind, WIRE_HOLD_CONTENTS);
    assert_int_equal(c->local[9000].pins, 0); /* the pin was of the old value */
    assert_int_equal(atomic_load(&c->pins[9000 / 64]), 0);
    mob_ref_release(c, old);
    daemon_hears_nothing(c);
    mob_ref_release(c, next);
    wire_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, WIRE_DROP);
    assert_int_equal(m.object.slot, 9000);
    assert_int_equal(m.object.generation, 6);
    mob_ref_release(c, next);
    daemon_hears_nothing(c);
}

/* What is known of one actor is not used for the next one in its slot, nor a function for what is
 * none. */
static void test_a_stale_handle_has_no_queue(void **state) {
    mob_client_t *c = *state;
    mob_ref_t old = {.slot = 9000, .generation = 5}, next = {.slot = 9000, .generation = 6};
    atomic_store(&c->node->fast, 1);
    atomic_store(&c->slots[9000].generation, 5);
    mob_ref_retain(c, old);
    c->local[9000].queue = SHM_FIRST_CALLS;
    c->local[9000].is_function = true;
    atomic_store(&c->slots[9000].generation, 6);
    assert_int_equal(calls_queue(c, next), 0);
    mob_ref_retain(c, next);
    assert_int_equal(c->local[9000].queue, 0);
    assert_false(c->local[9000].is_function);
    assert_int_equal(c->local[9000].count, 1);
    assert_int_equal(calls_queue(c, old), 0);
    mob_ref_release(c, next);
    daemon_hears_nothing(c);
}

static void test_contents_are_registered_once(void **state) {
    mob_client_t *c = *state;
    const mob_ref_t inside[] = {{.slot = 9000, .generation = 1},
                                {.slot = 9001, .generation = 1},
                                {.slot = 0},
                                {.slot = STORE_MAX_SLOTS}};
    const mob_value_t value = {.refs = inside, .ref_count = 4};
    mob_ref_t container = {.slot = 8000, .generation = 6};
    for (int i = 0; i < 2; i++) atomic_store(&c->slots[inside[i].slot].generation, 1);
    mob_value_adopt(c, container, &value);
    wire_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, WIRE_HOLD_CONTENTS);
    assert_int_equal(m.object.slot, 8000);
    assert_int_equal(m.object.generation, 6);
    mob_value_adopt(c, container, &value);
    daemon_hears_nothing(c);
    mob_value_release(c, &value);
    daemon_hears_nothing(c);
    mob_ref_retain(c, inside[1]);
    mob_value_release(c, &value);
    assert_int_equal(daemon_hears(c).object.slot, inside[0].slot);
    daemon_hears_nothing(c);
    mob_ref_release(c, inside[1]);
    m = daemon_hears(c);
    assert_int_equal(m.kind, WIRE_DROP);
    assert_int_equal(m.object.slot, inside[1].slot);
}

static void test_pool_grows_and_sweeps(void **state) {
    mob_client_t *c = *state;
    static uint32_t taken[512];
    daemon_says(c, WIRE_SLOTS, 256, 256);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(client_slot_take(c, &taken[i]), MOB_OK);
        assert_true(taken[i] >= 256 && taken[i] < 512);
        store_slot_open(&c->slots[taken[i]]);
    }
    wire_message_t asked = daemon_hears(c);
    assert_int_equal(asked.kind, WIRE_NEED_SLOTS);
    assert_int_equal(asked.need.count, STORE_SLOT_BLOCK);
    daemon_hears_nothing(c);
    /* the daemon frees most of them: a sweep finds those, and nothing is asked for */
    for (int i = 0; i < 200; i++) store_slot_close(&c->slots[taken[i]]);
    for (int i = 0; i < 200; i++) {
        uint32_t slot;
        assert_int_equal(client_slot_take(c, &slot), MOB_OK);
        assert_int_equal(atomic_load(&c->slots[slot].word), STORE_FREE);
        store_slot_open(&c->slots[slot]);
    }
    daemon_hears_nothing(c);
    /* none left anywhere */
    daemon_says(c, WIRE_SLOTS, 0, 0);
    uint32_t slot = 4711;
    assert_int_equal(client_slot_take(c, &slot), MOB_ELIMIT);
    assert_int_equal(slot, 4711);
    assert_true(strstr(mob_last_error(), "objects") != NULL);
}

static void test_what_is_not_the_answer_is_kept(void **state) {
    mob_client_t *c = *state;
    daemon_says(c, WIRE_RUN, 5, 6);
    daemon_says(c, WIRE_RUN, 7, 8);
    daemon_says(c, WIRE_EXIT, 0, 0);
    daemon_says(c, WIRE_ANSWER, 0, 99);
    wire_message_t answer, request = wire_plain(WIRE_QUERY);
    assert_int_equal(client_ask(c, &request, WIRE_ANSWER, &answer), MOB_OK);
    assert_int_equal(answer.answer.value, 99);
    assert_int_equal(c->orders.count, 2);
    assert_int_equal(c->orders.items[0].run.record, 5);
    assert_int_equal(c->orders.items[1].run.record, 7);
    assert_true(c->told_to_exit);
}

static void test_wake_rings_all_who_wait(void **state) {
    mob_client_t *c = *state;
    uint64_t word = STORE_PENDING | (uint64_t)1 << (STORE_WAITER_SHIFT + NUMBER - 1) |
                    (uint64_t)1 << STORE_WAITER_SHIFT |
                    (uint64_t)1 << (STORE_WAITER_SHIFT + STORE_WAITER_BITS - 1);
    assert_false(client_wake(c, word));
    assert_int_equal(atomic_load(&c->node->bells[1].rings), 1);
    assert_int_equal(atomic_load(&c->node->bells[STORE_WAITER_BITS].rings), 1);
    /* another thread of ours may wait */
    assert_int_equal(atomic_load(&c->node->bells[NUMBER].rings), 1);
    assert_int_equal(atomic_load(&c->node->bells[2].rings), 0);
    assert_true(client_wake(c, STORE_PENDING | STORE_CROWD));
    assert_false(client_wake(c, 0));
}

/* Every call that gives a status, on a client that may not be used. */
static void expect_refused(mob_client_t *c, mob_status_t expected) {
    mob_ref_t ref = {.slot = 300, .generation = 1}, made = {0};
    mob_buffer_t buffer;
    mob_value_t value;
    void *answer = NULL;
    size_t size = 0;
    uint32_t shape = 0;
    uint8_t ready = 9;
    const mob_task_t task = {.num_returns = 1};
    assert_int_equal(mob_put(c, "x", 1, MOB_FORMAT_DIRECT, &made), expected);
    assert_int_equal(mob_put_begin(c, 1, 0, &buffer), expected);
    assert_int_equal(mob_get_wait(c, &ref, 1, 0), expected);
    assert_int_equal(mob_get_begin(c, ref, &value), expected);
    assert_int_equal(mob_wait(c, &ref, 1, 1, 0, &ready, &size), expected);
    assert_int_equal(ready, 0);
    assert_int_equal(mob_submit(c, &task, &made), expected);
    assert_int_equal(mob_actor_kill(c, ref, false), expected);
    assert_int_equal(mob_query(c, MOB_QUERY_RESOURCES, 0, &answer, &size), expected);
    assert_int_equal(mob_shape(c, NULL, 0, &shape), expected);
    assert_int_equal(made.slot, 0);
    assert_true(strlen(mob_last_error()) > 0);
    mob_ref_retain(c, ref);
    mob_ref_release(c, ref);
    mob_message_finish(c);
    daemon_hears_nothing(c);
}

static void test_forked_child_is_refused(void **state) {
    atomic_store(&client_forked, true);
    expect_refused(*state, MOB_EFORKED);
    atomic_store(&client_forked, false);
}

static void test_without_a_daemon(void **state) {
    mob_client_t *c = *state;
    atomic_store(&c->dead, true);
    expect_refused(c, MOB_ECLOSED);
}

static void test_a_stale_reference_is_not_seen(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = sealed(c);
    mob_get_see(c, &ref, 1);
    assert_int_equal(word_of(c, ref), STORE_SEALED | STORE_SEEN);
    mob_ref_release(c, ref);
    assert_int_equal(word_of(c, ref), STORE_FREE);
    mob_get_see(c, &ref, 1);
    assert_int_equal(word_of(c, ref), STORE_FREE); /* else it would never be given out again */
    mob_get_see(c, &(mob_ref_t){.slot = UINT32_MAX, .generation = 1}, 1);
}

static void test_references_without_an_object(void **state) {
    mob_client_t *c = *state;
    const mob_ref_t refs[] = {{0}, {.slot = STORE_MAX_SLOTS}, {.slot = 300, .generation = 5}};
    for (size_t i = 0; i < 3; i++) {
        mob_value_t value;
        uint8_t ready;
        size_t count;
        assert_int_equal(mob_get_wait(c, &refs[i], 1, 1000), MOB_ESTALE);
        assert_int_equal(mob_get_begin(c, refs[i], &value), MOB_ESTALE);
        assert_int_equal(mob_wait(c, &refs[i], 1, 1, 1000, &ready, &count), MOB_ESTALE);
    }
    mob_ref_t gone = sealed(c);
    mob_ref_release(c, gone);
    assert_int_equal(mob_get_wait(c, &gone, 1, 1000), MOB_ESTALE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_id_round_trip),
        TEST(test_ids_from_elsewhere_are_stale),
        TEST(test_own_value_is_freed_without_a_word),
        TEST(test_pending_is_left_to_its_task),
        TEST(test_escaped_is_the_daemons_to_free),
        TEST(test_what_is_not_ours_does_not_escape),
        TEST(test_a_stale_release_does_not_hit_the_next_object),
        TEST(test_a_stale_count_does_not_keep_the_next_object),
        TEST(test_a_stale_handle_has_no_queue),
        TEST(test_contents_are_registered_once),
        TEST(test_pool_grows_and_sweeps),
        TEST(test_what_is_not_the_answer_is_kept),
        TEST(test_wake_rings_all_who_wait),
        TEST(test_forked_child_is_refused),
        TEST(test_without_a_daemon),
        TEST(test_a_stale_reference_is_not_seen),
        TEST(test_references_without_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
