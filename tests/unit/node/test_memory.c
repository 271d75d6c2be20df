/* What the daemon grants: slots, records and extents; what it takes back; and what a dead client
 * leaves. */
#include "fixture.h"

#include <sys/stat.h>

#include "base/copy.h"

enum { GRANULES = 64 };
static const uint64_t STORE = (uint64_t)GRANULES * SHM_GRANULE;

static node_t *n;
static node_client_t *a, *b;

static int setup(void **state) {
    (void)state;
    n = fixture_node_new(STORE);
    a = fixture_client_new(n, WIRE_WORKER);
    b = fixture_client_new(n, WIRE_WORKER);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fixture_node_free(n);
    return 0;
}

typedef struct {
    uint64_t offset, size, serial;
} extent_t;

/* The extents tile the arena together with the gaps, and every granule's owner is its extent's. */
static void books_check(void) {
    uint64_t free_bytes = 0;
    for (size_t i = 0; i < n->books.gaps.count; i++) {
        assert_true(n->books.gaps.items[i].size > 0);
        if (i > 0)
            assert_true(n->books.gaps.items[i - 1].offset + n->books.gaps.items[i - 1].size <
                        n->books.gaps.items[i].offset);
        for (uint64_t g = n->books.gaps.items[i].offset / SHM_GRANULE;
             g < (n->books.gaps.items[i].offset + n->books.gaps.items[i].size) / SHM_GRANULE; g++) {
            assert_int_equal(n->books.extents[g].size, 0);
            assert_int_equal(n->books.owner[g], 0);
        }
        free_bytes += n->books.gaps.items[i].size;
    }
    assert_int_equal(free_bytes, n->books.free_bytes);
    uint64_t used = 0;
    for (uint64_t g = 0; g < GRANULES; g++) {
        for (uint64_t k = g; k < g + n->books.extents[g].size / SHM_GRANULE; k++)
            assert_int_equal(n->books.owner[k], n->books.extents[g].owner);
        used += n->books.extents[g].size;
    }
    assert_int_equal(used + free_bytes, STORE);
}

static mob_status_t ask(node_client_t *c, uint64_t size, extent_t *ret_extent) {
    node_extent_ask(c, size, size, false);
    wire_message_t m = fixture_heard(c);
    assert_int_equal(m.kind, WIRE_EXTENT);
    books_check();
    if (m.extent.status == MOB_EFULL) assert_int_equal(m.extent.size, STORE);
    /* Whoever asks next is not to wait behind this one. */
    assert_int_equal(n->space.wants.count, m.extent.status == MOB_ESPACE);
    n->space.wants.count = 0;
    if (m.extent.status != 0) return (mob_status_t)m.extent.status;
    *ret_extent =
        (extent_t){.offset = m.extent.offset, .size = m.extent.size, .serial = m.extent.serial};
    return MOB_OK;
}

static extent_t granted(node_client_t *c, uint64_t size) {
    extent_t e = {0};
    assert_int_equal(ask(c, size, &e), MOB_OK);
    assert_int_equal(e.offset % SHM_GRANULE, 0);
    assert_true(e.size >= size && e.size < size + SHM_GRANULE);
    assert_int_equal(atomic_load(&n->extents[e.offset / SHM_GRANULE].word),
                     e.serial << 2 | SHM_EXTENT_OWNED);
    return e;
}

static void make_empty(extent_t e) {
    atomic_store(&n->extents[e.offset / SHM_GRANULE].word, e.serial << 2 | SHM_EXTENT_EMPTY);
}

static void test_extents_are_apart(void **state) {
    (void)state;
    extent_t first = granted(a, 1), second = granted(b, SHM_GRANULE + 1),
             third = granted(a, SHM_GRANULE);
    assert_true(first.serial != second.serial && second.serial != third.serial);
    assert_true(node_extent_owned(n, a->number, first.offset + 64, SHM_GRANULE - 64));
    assert_false(node_extent_owned(n, b->number, first.offset + 64, 1));
    assert_true(node_extent_owned(n, b->number, second.offset + 64, 2 * SHM_GRANULE - 64));
    /* a byte of the next one's */
    assert_false(node_extent_owned(n, b->number, second.offset + 64, 2 * SHM_GRANULE));
    assert_int_equal(node_extents_free_bytes(n), STORE - 4 * SHM_GRANULE);
}

static void test_owning_is_bounded(void **state) {
    (void)state;
    extent_t all = granted(a, STORE);
    assert_int_equal(all.offset, 0);
    assert_true(node_extent_owned(n, a->number, 64, STORE - 64));
    assert_true(node_extent_owned(n, a->number, STORE - 1, 1));
    assert_false(node_extent_owned(n, a->number, 64, STORE));
    assert_false(node_extent_owned(n, a->number, 0, 1)); /* no block begins there */
    assert_false(node_extent_owned(n, a->number, STORE, 0));
    assert_false(node_extent_owned(n, a->number, 64, UINT64_MAX));
    assert_false(node_extent_owned(n, a->number, UINT64_MAX, 1));
    assert_false(node_extent_owned(n, a->number, UINT64_MAX - 10, UINT64_MAX));
}

static void test_full_is_not_for_ever(void **state) {
    (void)state;
    extent_t e;
    granted(a, STORE - 2 * SHM_GRANULE);
    assert_int_equal(ask(b, 3 * SHM_GRANULE, &e), MOB_ESPACE);
    assert_int_equal(ask(b, UINT64_MAX, &e), MOB_EFULL);
    assert_int_equal(ask(b, STORE + 1, &e), MOB_EFULL);
    granted(b, 2 * SHM_GRANULE);
    assert_int_equal(ask(b, 1, &e), MOB_ESPACE);
    assert_int_equal(node_extents_free_bytes(n), 0);
}

static void test_nothing_is_a_fault(void **state) {
    (void)state;
    node_extent_ask(a, 0, 0, false);
    assert_int_equal(a->state, NODE_DYING);
    assert_non_null(a->fault);
}

static void test_empty_ones_are_taken_back_when_short(void **state) {
    (void)state;
    extent_t half = granted(a, STORE / 2), rest = granted(a, STORE / 2);
    make_empty(half);
    assert_int_equal(node_extents_free_bytes(n), STORE / 2); /* counts as free before it is taken */
    extent_t e = granted(b, SHM_GRANULE);
    assert_int_equal(e.offset, half.offset);
    assert_int_equal(atomic_load(&n->extents[rest.offset / SHM_GRANULE].word) & 3,
                     SHM_EXTENT_OWNED);
    assert_int_equal(node_extents_free_bytes(n), STORE / 2 - SHM_GRANULE);
}

static void test_neighbours_join(void **state) {
    (void)state;
    extent_t e[8];
    for (int i = 0; i < 8; i++) e[i] = granted(a, STORE / 8);
    for (int i = 1; i < 8; i += 2) make_empty(e[i]);
    for (int i = 0; i < 8; i += 2) make_empty(e[i]);
    extent_t all = granted(b, STORE);
    assert_int_equal(all.offset, 0);
}

static void test_small_ones_from_the_bottom_large_ones_from_the_top(void **state) {
    (void)state;
    extent_t small = granted(a, STORE / 64), large = granted(b, STORE * 5 / 8),
             more = granted(b, STORE / 64);
    assert_int_equal(small.offset, 0);
    assert_int_equal(large.offset + large.size, STORE);
    assert_int_equal(more.offset, small.size);
    make_empty(small);
    extent_t none;
    assert_int_equal(ask(a, STORE, &none), MOB_ESPACE); /* so that it is taken back */
    assert_int_equal(granted(b, STORE / 64).offset, 0);
}

static uint64_t arena_memory(void) {
    struct stat st;
    assert_int_equal(fstat(n->arena.fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static extent_t granted_large(node_client_t *c, uint64_t size) {
    node_extent_ask(c, size, size, false);
    wire_message_t m = fixture_heard(c);
    assert_int_equal(m.kind, WIRE_EXTENT);
    assert_int_equal(m.extent.status, 0);
    return (extent_t){.offset = m.extent.offset, .size = m.extent.size, .serial = m.extent.serial};
}

/* The kernel takes long to clear much memory: the owner waits for that, and not the daemon. */
static void test_owners_get_memory_for_large_ones(void **state) {
    (void)state;
    const uint64_t large = 16 << 20;
    fixture_node_free(n);
    n = fixture_node_new(2 * large);
    a = fixture_client_new(n, WIRE_WORKER);
    b = fixture_client_new(n, WIRE_WORKER);
    granted_large(b, SHM_BACKED_AT_ONCE);
    assert_int_equal(arena_memory(), SHM_BACKED_AT_ONCE);
    assert_int_equal(n->books.cold, 0);
    extent_t e = granted_large(a, large);
    assert_int_equal(arena_memory(), SHM_BACKED_AT_ONCE);
    assert_int_equal(n->books.cold, large); /* is counted with what the next one asks for */
    base_map(n->arena.base + e.offset, e.size, 0);
    fixture_say(b, WIRE_BACKED, 0, e.offset + SHM_BLOCK_FIRST); /* not its own */
    fixture_say(b, WIRE_BACKED, 0, UINT64_MAX);
    assert_int_equal(n->books.cold, large);
    fixture_say(a, WIRE_BACKED, 0, e.offset + SHM_BLOCK_FIRST);
    assert_int_equal(n->books.cold, 0);
    fixture_say(a, WIRE_BACKED, 0, e.offset + SHM_BLOCK_FIRST);
    assert_int_equal(n->books.cold, 0);
    make_empty(e);
    e = granted_large(b, large); /* with the memory that it has */
    assert_int_equal(n->books.cold, 0);
    make_empty(e);
    node_extents_give_back(n);
    assert_int_equal(arena_memory(), SHM_BACKED_AT_ONCE);
    /* One that is given up, nobody knows with how much. */
    e = granted_large(a, large);
    base_map(n->arena.base + e.offset, e.size / 4, 0);
    make_empty(e);
    granted_large(b, n->config.store_bytes - SHM_BACKED_AT_ONCE);
    assert_int_equal(n->books.cold, n->config.store_bytes - SHM_BACKED_AT_ONCE);
    assert_int_equal(arena_memory(), SHM_BACKED_AT_ONCE);
}

static void test_an_old_serial_takes_nothing(void **state) {
    (void)state;
    extent_t e = granted(a, STORE);
    /* not what we granted: scribbled */
    atomic_store(&n->extents[0].word, (e.serial + 1) << 2 | SHM_EXTENT_EMPTY);
    extent_t none;
    assert_int_equal(ask(b, SHM_GRANULE, &none), MOB_ESPACE);
    books_check();
}

static void test_slots_by_blocks(void **state) {
    (void)state;
    node_grant_slots(a, 1);
    wire_message_t first = fixture_heard(a);
    node_grant_slots(b, STORE_SLOT_BLOCK + 1);
    wire_message_t second = fixture_heard(b);
    assert_int_equal(first.kind, WIRE_SLOTS);
    assert_true(first.grant.first > 0 && first.grant.first % STORE_SLOT_BLOCK == 0);
    assert_int_equal(first.grant.count, STORE_SLOT_BLOCK);
    assert_int_equal(second.grant.count, 2 * STORE_SLOT_BLOCK);
    assert_int_not_equal(first.grant.first, second.grant.first);
    assert_true(node_grant_slot_is(n, first.grant.first, a->number));
    assert_true(node_grant_slot_is(n, first.grant.first + STORE_SLOT_BLOCK - 1, a->number));
    assert_false(node_grant_slot_is(n, first.grant.first, b->number));
    assert_false(node_grant_slot_is(n, 0, 0)); /* slot 0 is nobody's */
    assert_false(node_grant_slot_is(n, STORE_MAX_SLOTS, a->number));
    assert_false(node_grant_slot_is(n, UINT32_MAX, a->number));
    assert_false(node_grant_record_is(n, WIRE_MAX_RECORDS, a->number));
}

/* A stock whose slots others free, which say nothing: it finds those, and need not grow. */
static void test_slots_that_others_free(void **state) {
    enum { AT_ONCE = 100, TIMES = 50 };
    uint32_t slots[AT_ONCE];
    node_own_t own = {.submitter = a->number};
    (void)state;
    for (int k = 0; k < TIMES; k++) {
        for (int i = 0; i < AT_ONCE; i++) {
            assert_true(node_own_slot_swept(n, &own, &slots[i]));
            store_slot_open(&n->slots[slots[i]]);
        }
        for (int i = 0; i < AT_ONCE; i++) store_slot_close(&n->slots[slots[i]]);
    }
    assert_true(own.slots.spans.count <= 2);
    /* what is in use stays so */
    assert_true(node_own_slot_swept(n, &own, &slots[0]));
    store_slot_open(&n->slots[slots[0]]);
    for (int i = 0; i < 3 * STORE_SLOT_BLOCK; i++) {
        assert_true(node_own_slot_swept(n, &own, &slots[1]));
        assert_int_not_equal(slots[1], slots[0]);
        store_slot_open(&n->slots[slots[1]]);
        store_slot_close(&n->slots[slots[1]]);
    }
    vec_free(&own.slots.free);
    vec_free(&own.slots.spans);
}

static void test_impossible_numbers_are_faults(void **state) {
    (void)state;
    node_grant_slots(a, 0);
    assert_non_null(a->fault);
    node_grant_records(b, UINT32_MAX);
    assert_non_null(b->fault);
}

/* A block in `e` that a live slot names. */
/* What its owner allocated there. */
static void use(extent_t e, uint64_t units) {
    uint64_t granule = e.offset / SHM_GRANULE;
    atomic_store(&n->extents[granule].used,
                 shm_extent_count(n->books.extents[granule].serial, units));
}

static uint32_t value_make(node_client_t *owner, extent_t e) {
    node_grant_slots(owner, 1);
    uint32_t slot = fixture_heard(owner).grant.first;
    uint64_t generation = store_slot_open(&n->slots[slot]), data = e.offset + 64;
    shm_block_t *block = (shm_block_t *)(n->arena.base + data - sizeof(shm_block_t));
    block->back = SHM_BLOCK_WHOLE;
    atomic_store(&block->units, (uint32_t)((e.size - SHM_BLOCK_FIRST) / SHM_BLOCK_UNIT));
    atomic_store(&block->word, shm_block_used(shm_tag(false, slot, generation)));
    use(e, block->units);
    n->slots[slot].value.large.block = data;
    n->slots[slot].value.large.ref_count = 0;
    n->slots[slot].meta = store_meta(100, MOB_FORMAT_DIRECT, MOB_OK, false);
    store_slot_seal(&n->slots[slot], false);
    return slot;
}

static void test_a_dead_clients_memory_comes_back(void **state) {
    (void)state;
    extent_t e = granted(a, STORE / 2);
    (void)value_make(a, e);
    granted(a, STORE / 4); /* never cut */
    granted(b, SHM_GRANULE);
    node_objects_forget(a);
    node_extents_forget(a);
    node_grants_forget(a);
    books_check();
    assert_int_equal(node_extents_free_bytes(n), STORE - SHM_GRANULE);
    assert_true(n->grants.slots.free.count > 0);
    assert_int_equal(n->grants.slots.orphans.count, 0);
}

/* It died before its first block: what lies there is of an earlier grant. */
static void test_old_bytes_in_what_was_never_cut(void **state) {
    (void)state;
    extent_t e = granted(a, STORE / 2);
    shm_block_t *block = (shm_block_t *)(n->arena.base + e.offset + SHM_BLOCK_FIRST);
    memset(n->arena.base + e.offset, 1, e.size);
    *block = (shm_block_t){.units = 7};
    node_extents_forget(a);
    node_grants_forget(a);
    books_check();
    assert_int_equal(node_extents_free_bytes(n), STORE);
}

static void test_what_others_hold_outlives_its_owner(void **state) {
    (void)state;
    extent_t e = granted(a, STORE / 2);
    uint32_t slot = value_make(a, e);
    mob_ref_t ref = {.slot = slot, .generation = atomic_load(&n->slots[slot].generation)};
    atomic_fetch_or(&n->slots[slot].word, STORE_ESCAPED);
    node_object_t *o = node_object_find(n, ref);
    assert_non_null(o);
    node_object_hold(n, o, b->number, false);
    node_objects_forget(a);
    node_extents_forget(a);
    node_grants_forget(a);
    books_check();
    assert_int_equal(node_extents_free_bytes(n), STORE / 2);
    assert_int_equal(atomic_load(&n->slots[slot].word) & STORE_STATE, STORE_SEALED);
    /* and is found free when the store is short, once the last holder has let go */
    fixture_say(b, WIRE_DROP, ref.slot, ref.generation);
    fixture_settle(n);
    assert_int_equal(atomic_load(&n->slots[slot].word), STORE_FREE);
    granted(b, STORE);
}

static void test_scribbled_headers_stay_inside(void **state) {
    (void)state;
    const uint32_t units[] = {0, 1, 0xffffffff, 0x80000000};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        node_client_t *c = fixture_client_new(n, WIRE_WORKER);
        extent_t e = granted(c, 2 * SHM_GRANULE);
        memset(n->arena.base + e.offset, 0xa5 + (int)i, e.size);
        use(e, 2);
        atomic_store(&((shm_block_t *)(n->arena.base + e.offset + SHM_BLOCK_FIRST))->units,
                     units[i]);
        node_extents_forget(c);
        node_grants_forget(c);
        books_check();
    }
}

static void test_random_grants(void **state) {
    (void)state;
    enum { LIVE = 24 };
    extent_t live[LIVE];
    unsigned seed = 7;
    int count = 0;
    for (int i = 0; i < 20000; i++) {
        if (count < LIVE && rand_r(&seed) % 2) {
            extent_t e;
            if (ask(rand_r(&seed) % 2 ? a : b, (uint64_t)(rand_r(&seed) % (6 * SHM_GRANULE)) + 1,
                    &e) != MOB_OK)
                continue;
            for (int k = 0; k < count; k++)
                assert_true(e.offset + e.size <= live[k].offset ||
                            live[k].offset + live[k].size <= e.offset);
            live[count++] = e;
        } else if (count > 0) {
            int k = rand_r(&seed) % count;
            make_empty(live[k]);
            live[k] = live[--count];
        }
    }
    while (count > 0) make_empty(live[--count]);
    assert_int_equal(node_extents_free_bytes(n), STORE);
    granted(a, STORE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_extents_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owning_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_is_not_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_a_fault, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_ones_are_taken_back_when_short, setup, teardown),
        cmocka_unit_test_setup_teardown(test_neighbours_join, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_ones_from_the_bottom_large_ones_from_the_top,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_owners_get_memory_for_large_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_old_serial_takes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slots_by_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slots_that_others_free, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impossible_numbers_are_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_dead_clients_memory_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_bytes_in_what_was_never_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_others_hold_outlives_its_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scribbled_headers_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_grants, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
