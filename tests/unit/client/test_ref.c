/*
 * A client's counting and its pools, on a client made by hand: its tables are plain memory, and the daemon is what this
 * test puts on the ring down.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"

enum { NUMBER = 3 };
static const uint64_t ARENA = 1 << 20;

extern _Atomic bool client_forked;

static void *memory(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static mob_status_t no_grant(void *context, uint64_t size, uint64_t *ret_offset, uint64_t *ret_size,
                             uint64_t *ret_serial) {
    (void)context, (void)size, (void)ret_offset, (void)ret_size, (void)ret_serial;
    return MOB_EFULL;
}

static int client_make(void **state) {
    mob_client_t *c = calloc(1, sizeof *c);
    pthread_mutex_init(&c->mutex, NULL);
    c->role = WIRE_DRIVER;
    c->number = NUMBER;
    c->incarnation = 0x0123456789abcdef;
    c->sock = -1;
    c->daemon_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->node = memory(sizeof *c->node);
    c->own_segment.base = memory(SHM_CLIENT_BYTES);
    c->up = (shm_ring_t *)c->own_segment.base;
    c->down = (shm_ring_t *)(c->own_segment.base + SHM_CLIENT_DOWN);
    c->slots = memory((size_t)STORE_MAX_SLOTS * sizeof *c->slots);
    c->records = memory((size_t)WIRE_MAX_RECORDS * sizeof *c->records);
    c->local = memory((size_t)STORE_MAX_SLOTS * sizeof *c->local);
    c->arena.base = memory(ARENA);
    c->arena.read_only = c->arena.base;
    c->arena.size = ARENA;
    shm_extent_t *extents = memory((ARENA / SHM_GRANULE + 1) * sizeof *extents);
    c->extent_segment.base = (unsigned char *)extents;
    *state = c;
    return shm_heap_init(&c->heap, c->arena.base, ARENA, extents, no_grant, NULL);
}

static int client_unmake(void **state) {
    mob_client_t *c = *state;
    shm_heap_fini(&c->heap);
    munmap(c->node, sizeof *c->node);
    munmap(c->own_segment.base, SHM_CLIENT_BYTES);
    munmap(c->slots, (size_t)STORE_MAX_SLOTS * sizeof *c->slots);
    munmap(c->records, (size_t)WIRE_MAX_RECORDS * sizeof *c->records);
    munmap(c->local, (size_t)STORE_MAX_SLOTS * sizeof *c->local);
    munmap(c->arena.base, ARENA);
    munmap(c->extent_segment.base, (ARENA / SHM_GRANULE + 1) * sizeof(shm_extent_t));
    vec_free(&c->slot_pool.free);
    vec_free(&c->record_pool.free);
    vec_free(&c->runs);
    free(c->slot_pool.ranges);
    free(c->record_pool.ranges);
    close(c->daemon_event);
    pthread_mutex_destroy(&c->mutex);
    free(c);
    return 0;
}

/* What the daemon would say next. */
static void daemon_says(mob_client_t *c, uint32_t kind, uint32_t a, uint64_t b) {
    shm_message_t m = {.kind = kind, .a = a, .b = b};
    assert_true(shm_ring_push(c->down, SHM_DOWN_MESSAGES, &m));
}

/* The next message that the daemon would read; kind 0 if there is none. */
static shm_message_t daemon_hears(mob_client_t *c) {
    shm_message_t m = {0};
    (void)shm_ring_pop(c->up, SHM_UP_MESSAGES, &m);
    return m;
}

static void daemon_hears_nothing(mob_client_t *c) { assert_int_equal(daemon_hears(c).kind, 0); }

static mob_ref_t opened(mob_client_t *c) {
    mob_ref_t ref = {0};
    if (c->slot_pool.total == 0) daemon_says(c, WIRE_SLOTS, 256, 256);
    assert_int_equal(client_slot_take(c, &ref.slot), MOB_OK);
    while (daemon_hears(c).kind != 0) {
    }
    ref.generation = store_slot_open(&c->slots[ref.slot]);
    c->local[ref.slot] = (client_local_t){.count = 1, .owned = true};
    return ref;
}

static mob_ref_t sealed(mob_client_t *c) {
    mob_ref_t ref = opened(c);
    c->slots[ref.slot].meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    store_slot_seal(&c->slots[ref.slot], false);
    return ref;
}

static uint64_t word_of(mob_client_t *c, mob_ref_t ref) { return atomic_load(&c->slots[ref.slot].word); }

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
    client_ref_escape(c, ref.slot);
    client_ref_escape(c, ref.slot);
    assert_int_equal(word_of(c, ref), STORE_SEALED | STORE_ESCAPED);
    mob_ref_release(c, ref);
    assert_int_equal(word_of(c, ref), STORE_SEALED | STORE_ESCAPED);
    shm_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, WIRE_DROP);
    assert_int_equal(m.a, ref.slot);
    assert_int_equal(m.b, ref.generation);
    daemon_hears_nothing(c);
}

static void test_what_is_not_ours_does_not_escape(void **state) {
    mob_client_t *c = *state;
    client_ref_retain(c, 9000);
    client_ref_escape(c, 9000);
    assert_int_equal(atomic_load(&c->slots[9000].word), STORE_FREE);
    client_ref_release(c, 9000); /* an argument, held by its record: nobody is told */
    daemon_hears_nothing(c);
}

static void test_contents_are_registered_once(void **state) {
    mob_client_t *c = *state;
    const mob_ref_t inside[] = {
        {.slot = 9000, .generation = 1}, {.slot = 9001, .generation = 1}, {.slot = 0}, {.slot = STORE_MAX_SLOTS}};
    const mob_value_t value = {.refs = inside, .ref_count = 4};
    mob_ref_t container = {.slot = 8000, .generation = 6};
    mob_value_adopt(c, container, &value);
    shm_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, WIRE_HOLD_CONTENTS);
    assert_int_equal(m.a, 8000);
    assert_int_equal(m.b, 6);
    mob_value_adopt(c, container, &value);
    daemon_hears_nothing(c);
    for (int i = 0; i < 2; i++) mob_ref_release(c, inside[0]);
    assert_int_equal(daemon_hears(c).kind, WIRE_DROP);
    mob_ref_release(c, inside[1]);
    daemon_hears_nothing(c);
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
    shm_message_t asked = daemon_hears(c);
    assert_int_equal(asked.kind, WIRE_NEED_SLOTS);
    assert_int_equal(asked.a, STORE_SLOT_BLOCK);
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
    shm_message_t answer, request = {.kind = WIRE_QUERY};
    assert_int_equal(client_ask(c, &request, WIRE_ANSWER, &answer), MOB_OK);
    assert_int_equal(answer.b, 99);
    assert_int_equal(c->runs.count, 2);
    assert_int_equal(c->runs.items[0].a, 5);
    assert_int_equal(c->runs.items[1].a, 7);
    assert_true(c->told_to_exit);
}

static void test_wake_rings_all_who_wait(void **state) {
    mob_client_t *c = *state;
    uint64_t word = STORE_PENDING | (uint64_t)1 << (STORE_WAITER_SHIFT + NUMBER - 1) |
                    (uint64_t)1 << STORE_WAITER_SHIFT | (uint64_t)1 << (STORE_WAITER_SHIFT + STORE_WAITER_BITS - 1);
    assert_false(client_wake(c, word));
    assert_int_equal(atomic_load(&c->node->bells[1].rings), 1);
    assert_int_equal(atomic_load(&c->node->bells[STORE_WAITER_BITS].rings), 1);
    assert_int_equal(atomic_load(&c->node->bells[NUMBER].rings), 1); /* another thread of ours may wait */
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
    assert_int_equal(mob_get_peek(c, ref, &value), expected);
    assert_int_equal(mob_wait(c, &ref, 1, 1, 0, &ready, &size), expected);
    assert_int_equal(ready, 0);
    assert_int_equal(mob_submit(c, &task, &made), expected);
    assert_int_equal(mob_actor_kill(c, ref), expected);
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

static void test_references_without_an_object(void **state) {
    mob_client_t *c = *state;
    const mob_ref_t refs[] = {{0}, {.slot = STORE_MAX_SLOTS}, {.slot = 300, .generation = 5}};
    for (size_t i = 0; i < 3; i++) {
        mob_value_t value;
        uint8_t ready;
        size_t count;
        assert_int_equal(mob_get_wait(c, &refs[i], 1, 1000), MOB_ESTALE);
        assert_int_equal(mob_get_peek(c, refs[i], &value), MOB_ESTALE);
        assert_int_equal(mob_wait(c, &refs[i], 1, 1, 1000, &ready, &count), MOB_ESTALE);
    }
    mob_ref_t gone = sealed(c);
    mob_ref_release(c, gone);
    assert_int_equal(mob_get_wait(c, &gone, 1, 1000), MOB_ESTALE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_id_round_trip, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_ids_from_elsewhere_are_stale, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_own_value_is_freed_without_a_word, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_pending_is_left_to_its_task, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_escaped_is_the_daemons_to_free, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_what_is_not_ours_does_not_escape, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_contents_are_registered_once, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_pool_grows_and_sweeps, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_what_is_not_the_answer_is_kept, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_wake_rings_all_who_wait, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_forked_child_is_refused, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_without_a_daemon, client_make, client_unmake),
        cmocka_unit_test_setup_teardown(test_references_without_an_object, client_make, client_unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
