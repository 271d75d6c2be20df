/*
 * The allocator over granted extents, with a small daemon of its own that grants, takes back and
 * runs out.
 *
 * The property test lets a model decide at random what is allocated and freed, and by whom. It
 * knows each 64 bytes of the arena: no two blocks share any, and what was written into a block is
 * there until it is freed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../random.h"
#include "shm/heap.h"

enum { ARENA = 64 << 20, GRANULES = ARENA / SHM_GRANULE, UNITS = ARENA / SHM_BLOCK_UNIT };

static unsigned char *arena;
static shm_extent_t extents[GRANULES + 1];
static uint64_t extent_size[GRANULES], extent_serial[GRANULES];
static uint64_t serials, grants, last_asked;
static uint64_t limit; /* what the daemon grants at most, in bytes */
static shm_heap_t heap;

static uint64_t granted_bytes(void) {
    uint64_t sum = 0;
    for (int g = 0; g < GRANULES; g++) sum += extent_size[g];
    return sum;
}

/* First fit over the granules. */
static mob_status_t grant(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                          uint64_t *ret_size, uint64_t *ret_serial) {
    (void)context;
    uint64_t need = (size + SHM_GRANULE - 1) / SHM_GRANULE, free_run = 0;
    last_asked = size;
    if (least < size && granted_bytes() + need * SHM_GRANULE > limit)
        return grant(context, least, least, ret_offset, ret_size, ret_serial);
    if (size == 0 || size > ARENA || granted_bytes() + need * SHM_GRANULE > limit) return MOB_EFULL;
    for (uint64_t g = 0; g < GRANULES;) {
        if (extent_size[g] != 0) {
            g += extent_size[g] / SHM_GRANULE;
            free_run = 0;
            continue;
        }
        g++;
        if (++free_run < need) continue;
        uint64_t first = g - need;
        extent_size[first] = need * SHM_GRANULE;
        extent_serial[first] = ++serials;
        atomic_store(&extents[first].word, serials << 2 | SHM_EXTENT_OWNED);
        atomic_store(&extents[first].freed, shm_extent_count(serials, 0));
        /* until its first block */
        atomic_store(&extents[first].used, shm_extent_count(serials, SHM_EXTENT_IN_HAND));
        *ret_offset = first * SHM_GRANULE;
        *ret_size = extent_size[first];
        *ret_serial = serials;
        grants++;
        return MOB_OK;
    }
    return MOB_EFULL;
}

static bool looks_unused(uint64_t g) {
    return atomic_load(&extents[g].used) == atomic_load(&extents[g].freed);
}

/* Takes back what is not used, as the daemon does; how many bytes. */
static uint64_t empties_take(void) {
    uint64_t taken = 0;
    for (uint64_t g = 0; g < GRANULES; g++) {
        uint64_t owned = extent_serial[g] << 2 | SHM_EXTENT_OWNED,
                 empty = extent_serial[g] << 2 | SHM_EXTENT_EMPTY;
        if (extent_size[g] == 0) continue;
        if (looks_unused(g)) atomic_compare_exchange_strong(&extents[g].word, &owned, empty);
        if (!atomic_compare_exchange_strong(&extents[g].word, &empty,
                                            extent_serial[g] << 2 | SHM_EXTENT_GONE))
            continue;
        taken += extent_size[g];
        /* whoever gets it next writes what it likes */
        memset(arena + g * SHM_GRANULE, 0xdd, extent_size[g]);
        extent_size[g] = 0;
    }
    return taken;
}

static int heap_make(void **state) {
    (void)state;
    memset(extents, 0, sizeof extents);
    memset(extent_size, 0, sizeof extent_size);
    serials = grants = last_asked = 0;
    limit = ARENA;
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    return arena == MAP_FAILED ||
           shm_heap_init(&heap, arena, ARENA, extents, grant, NULL) != MOB_OK;
}

static int heap_unmake(void **state) {
    (void)state;
    shm_heap_fini(&heap);
    return munmap(arena, ARENA);
}

static uint64_t alloc_ok(uint64_t size, uint64_t tag) {
    uint64_t data = 0;
    assert_int_equal(shm_heap_alloc(&heap, size, tag, &data), MOB_OK);
    assert_true(data != 0 && data % 64 == 0 && data + size <= ARENA);
    const shm_block_t *block = (const shm_block_t *)(arena + data - sizeof(shm_block_t));
    assert_true(atomic_load(&block->word) == shm_block_used(tag));
    assert_true((uint64_t)atomic_load(&block->units) * SHM_BLOCK_UNIT >=
                size + sizeof(shm_block_t));
    return data;
}

static void test_all_sizes(void **state) {
    (void)state;
    const uint64_t sizes[] = {0,
                              1,
                              47,
                              48,
                              49,
                              64,
                              240,
                              241,
                              1000,
                              4096,
                              65536,
                              SHM_HEAP_SMALL - 1,
                              SHM_HEAP_SMALL,
                              SHM_HEAP_SMALL + 1,
                              5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        memset(arena + alloc_ok(sizes[i], i + 1), 0xff, sizes[i]);
}

static void test_little_is_wasted(void **state) {
    (void)state;
    for (uint64_t size = 1; size < SHM_HEAP_SMALL; size += size / 7 + 1) {
        uint64_t data = alloc_ok(size, 1);
        uint64_t whole =
            (uint64_t)atomic_load(&((shm_block_t *)(arena + data - sizeof(shm_block_t)))->units) *
            SHM_BLOCK_UNIT;
        assert_true(whole <
                    size + sizeof(shm_block_t) + SHM_BLOCK_UNIT + (size + sizeof(shm_block_t)) / 4);
        shm_heap_free(&heap, data, 1);
    }
}

static void test_freed_block_is_at_hand(void **state) {
    (void)state;
    for (uint64_t size = 1; size <= SHM_HEAP_SMALL; size = size * 2 + 1) {
        uint64_t data = alloc_ok(size, 5);
        alloc_ok(100, 6);
        shm_heap_free(&heap, data, 5);
        assert_int_equal(alloc_ok(size, 7), data);
    }
}

static void test_freeing_twice_or_by_the_wrong_tag(void **state) {
    (void)state;
    uint64_t data = alloc_ok(100, 5);
    shm_heap_free(&heap, data, 6);
    assert_int_not_equal(alloc_ok(100, 8), data);
    shm_heap_free(&heap, data, 5);
    shm_heap_free(&heap, data, 5);
    assert_int_equal(alloc_ok(100, 9), data);
    assert_int_not_equal(alloc_ok(100, 10), data); /* the second free put it on no list */
}

static void test_sweep_finds_what_others_freed(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static uint64_t data[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) data[i] = alloc_ok(1000, i + 1);
    uint64_t before = granted_bytes();
    for (int round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < COUNT; i++)
            assert_true(shm_block_release(arena, extents, data[i], i + 1));
        for (uint64_t i = 0; i < COUNT; i++) data[i] = alloc_ok(1000, i + 1);
        assert_true(granted_bytes() <= before + (4 << 20));
    }
}

static void test_adjacent_free_blocks_join(void **state) {
    (void)state;
    enum { COUNT = 16000 };
    static uint64_t data[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) data[i] = alloc_ok(1000, i + 1);
    uint64_t before = granted_bytes();
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(shm_block_release(arena, extents, data[i], i + 1));
    /* larger than any that was freed */
    for (uint64_t i = 0; i < COUNT / 100; i++) alloc_ok(64000, i + 1);
    assert_true(granted_bytes() <= before + (4 << 20));
}

static void test_large_extent_is_taken_again(void **state) {
    (void)state;
    uint64_t data = alloc_ok(1 << 20, 1), granule = data / SHM_GRANULE;
    assert_int_equal(grants, 1);
    shm_heap_free(&heap, data, 1);
    assert_int_equal(atomic_load(&extents[granule].word) & 3, SHM_EXTENT_EMPTY);
    assert_int_equal(alloc_ok(1 << 20, 2), data);
    assert_int_equal(grants, 1);
    assert_int_equal(atomic_load(&extents[granule].word) & 3, SHM_EXTENT_OWNED);
    /* freed by somebody else, it is ours to take all the same */
    assert_true(shm_block_release(arena, extents, data, 2));
    assert_int_equal(alloc_ok((1 << 20) - 5000, 3), data);
    assert_int_equal(grants, 1);
    /* but not for something much smaller */
    shm_heap_free(&heap, data, 3);
    assert_int_not_equal(alloc_ok(300000, 4), data);
    assert_int_equal(grants, 2);
}

/* Whoever writes a large block maps its pages, which takes long: once for each grant. */
static void test_a_large_block_is_cold_once(void **state) {
    (void)state;
    uint64_t size = 5 << 20, data = alloc_ok(size, 1);
    assert_true(shm_heap_cold(&heap, data));
    assert_false(shm_heap_cold(&heap, data));
    shm_heap_free(&heap, data, 1);
    uint64_t again = alloc_ok(size, 2), other = alloc_ok(size, 3);
    assert_int_equal(again, data);
    assert_false(shm_heap_cold(&heap, again));
    assert_true(shm_heap_cold(&heap, other));
    shm_heap_free(&heap, again, 2);
    assert_true(empties_take() >= size);
    again = alloc_ok(size, 5);
    /* the same place, which the machine may have got back in between */
    assert_int_equal(again, data);
    assert_true(shm_heap_cold(&heap, again));
    uint64_t small = alloc_ok(1000, 4);
    assert_false(shm_heap_cold(&heap, small));
}

static void test_gone_extent_is_forgotten(void **state) {
    (void)state;
    uint64_t data = alloc_ok(1 << 20, 1);
    shm_heap_free(&heap, data, 1);
    assert_true(empties_take() > 0);
    uint64_t again = alloc_ok(1 << 20, 2);
    assert_int_equal(grants, 2);
    assert_int_equal(again, data); /* the same place by a new grant, under a new serial */
    assert_int_equal(atomic_load(&extents[data / SHM_GRANULE].word),
                     serials << 2 | SHM_EXTENT_OWNED);
    assert_int_equal(empties_take(), 0);
}

static void test_another_grant_of_the_place_is_not_ours(void **state) {
    (void)state;
    uint64_t data = alloc_ok(1 << 20, 1), granule = data / SHM_GRANULE;
    shm_heap_free(&heap, data, 1);
    /* GONE and granted to somebody else, who has emptied it since */
    atomic_store(&extents[granule].word, (serials + 1) << 2 | SHM_EXTENT_EMPTY);
    assert_int_not_equal(alloc_ok(1 << 20, 2), data);
    assert_int_equal(atomic_load(&extents[granule].word), (uint64_t)2 << 2 | SHM_EXTENT_EMPTY);
}

static void test_unused_extents_can_be_recalled(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static uint64_t data[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) data[i] = alloc_ok(1000, i + 1);
    assert_int_equal(empties_take(), 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        if (i % 2)
            shm_heap_free(&heap, data[i], i + 1);
        else
            assert_true(shm_block_release(arena, extents, data[i], i + 1));
    }
    assert_true(empties_take() > COUNT * 1000); /* without asking the owner, which does nothing */
    for (uint64_t i = 0; i < COUNT; i++) memset(arena + alloc_ok(1000, i + 1), 1, 1000);
}

/* Its extent was taken and granted to somebody else, and it does not know yet. */
static void test_a_lost_extent_is_not_written_to(void **state) {
    (void)state;
    uint64_t data = alloc_ok(1000, 1), granule = data / SHM_GRANULE;
    shm_heap_free(&heap, data, 1);
    uint64_t size = extent_size[granule];
    assert_true(empties_take() > 0);
    extent_size[granule] = size;
    extent_serial[granule] = ++serials;
    const uint64_t used = shm_extent_count(serials, 64), word = serials << 2 | SHM_EXTENT_OWNED;
    atomic_store(&extents[granule].used, used);
    atomic_store(&extents[granule].freed, shm_extent_count(serials, 0));
    atomic_store(&extents[granule].word, word);
    memset(arena + granule * SHM_GRANULE, 0x77, size);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t other = alloc_ok(1000, i + 2);
        assert_true(other < granule * SHM_GRANULE || other >= granule * SHM_GRANULE + size);
        assert_int_equal(atomic_load(&extents[granule].used), used);
        assert_int_equal(atomic_load(&extents[granule].word), word);
    }
    for (uint64_t i = 0; i < size; i++) assert_int_equal(arena[granule * SHM_GRANULE + i], 0x77);
}

/* Another process has the place by now; we free what it made there, as the reader of its result. */
static void test_a_block_in_a_lost_extent_is_its_new_owners(void **state) {
    (void)state;
    shm_heap_t other;
    uint64_t small = alloc_ok(1000, 1), large;
    shm_heap_free(&heap, small, 1);
    assert_true(empties_take() > 0);
    assert_int_equal(shm_heap_init(&other, arena, ARENA, extents, grant, NULL), MOB_OK);
    assert_int_equal(shm_heap_alloc(&other, SHM_HEAP_SMALL * 2, 2, &large), MOB_OK);
    assert_int_equal(large / SHM_GRANULE, small / SHM_GRANULE);
    shm_heap_free(&heap, large, 2);
    assert_true(looks_unused(large / SHM_GRANULE));
    assert_int_equal(atomic_load(&extents[large / SHM_GRANULE].word) & 3, SHM_EXTENT_EMPTY);
    shm_heap_fini(&other);
}

/* Somebody has freed blocks, and counts them only after the owner has found them free by itself. */
static void test_a_late_count_does_not_hide_a_block(void **state) {
    (void)state;
    enum { MOST = 4096 };
    static uint64_t data[MOST];
    uint64_t count = 0, units = 0, other;
    limit = 1 << 20;
    while (count < MOST && shm_heap_alloc(&heap, 1000, count + 1, &data[count]) == MOB_OK) count++;
    assert_true(count > 100 && count < MOST);
    uint64_t granule = data[0] / SHM_GRANULE;
    for (uint64_t i = 0; i < count; i++) {
        shm_block_t *block = (shm_block_t *)(arena + data[i] - sizeof(shm_block_t));
        units = atomic_load(&block->units);
        atomic_store(&block->word, 0);
    }
    /* the store is full: a sweep found them */
    assert_int_equal(shm_heap_alloc(&heap, 1000, 1, &other), MOB_OK);
    atomic_fetch_add(&extents[granule].freed, units);
    assert_false(looks_unused(granule));
    for (uint64_t i = 1; i < count; i++) {
        atomic_fetch_add(&extents[granule].freed, units);
        assert_false(looks_unused(granule)); /* the block at `other` lives */
    }
}

static void test_full_passes_through(void **state) {
    (void)state;
    uint64_t data = 4711;
    limit = 0;
    assert_int_equal(shm_heap_alloc(&heap, 100, 1, &data), MOB_EFULL);
    assert_int_equal(shm_heap_alloc(&heap, 1 << 20, 1, &data), MOB_EFULL);
    assert_int_equal(data, 4711);
    limit = ARENA;
    uint64_t first = alloc_ok(1 << 20, 1);
    limit = granted_bytes();
    assert_int_equal(shm_heap_alloc(&heap, 1 << 20, 2, &data), MOB_EFULL);
    shm_heap_free(&heap, first, 1);
    assert_int_equal(alloc_ok(1 << 20, 3), first);
}

static void test_last_space_is_given_in_small_pieces(void **state) {
    (void)state;
    limit = SHM_GRANULE; /* less than the extent that is asked for first */
    alloc_ok(100, 1);
    assert_int_equal(granted_bytes(), SHM_GRANULE);
}

/* It waited for more, and got the least that it had asked for. */
static void test_a_little_that_was_granted_late_is_used(void **state) {
    (void)state;
    uint64_t data, offset, size, serial;
    limit = 0;
    assert_int_equal(shm_heap_alloc(&heap, 100, 1, &data), MOB_EFULL);
    limit = SHM_GRANULE;
    assert_int_equal(grant(NULL, SHM_GRANULE, SHM_GRANULE, &offset, &size, &serial), MOB_OK);
    atomic_store(&extents[offset / SHM_GRANULE].word, serial << 2 | SHM_EXTENT_EMPTY);
    atomic_store(&extents[offset / SHM_GRANULE].used, shm_extent_count(serial, 0));
    shm_heap_adopt(&heap, offset, size, serial);
    data = alloc_ok(100, 1);
    assert_int_equal(data / SHM_GRANULE, offset / SHM_GRANULE);
    assert_int_equal(grants, 1);
}

/* Many that live long, the oldest dropped first: their memory is found again, and what is gone is
 * forgotten. */
static void test_many_large_ones_dropped_oldest_first(void **state) {
    (void)state;
    enum { LIVE = 100, ROUNDS = 20000 };
    static uint64_t data[LIVE];
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (i >= LIVE) assert_true(shm_block_release(arena, extents, data[i % LIVE], i - LIVE + 1));
        if (i % 50 == 0) empties_take();
        data[i % LIVE] = alloc_ok(300000, i + 1);
    }
    assert_true(heap.kept.count < 1000);
    assert_true(grants < ROUNDS / 10);
}

static void test_full_store_still_finds_its_free_blocks(void **state) {
    (void)state;
    enum { MOST = 4096 };
    static uint64_t data[MOST];
    uint64_t count = 0;
    limit = 2 << 20;
    while (count < MOST && shm_heap_alloc(&heap, 1000, count + 1, &data[count]) == MOB_OK) count++;
    assert_true(count > 1000 && count < MOST);
    /* a fifth of all, side by side: too little for a sweep as long as there are extents to ask
     * for */
    for (uint64_t i = 0; i < count / 5; i++) shm_heap_free(&heap, data[i], i + 1);
    uint64_t other;
    assert_int_equal(shm_heap_alloc(&heap, 3000, 1, &other), MOB_OK);
}

static void test_impossible_sizes_are_full(void **state) {
    (void)state;
    const uint64_t sizes[] = {ARENA,
                              (uint64_t)1 << 48,
                              UINT64_MAX / 2,
                              UINT64_MAX - SHM_GRANULE - 64,
                              UINT64_MAX - SHM_GRANULE,
                              UINT64_MAX - 100,
                              UINT64_MAX - 16,
                              UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t data = 4711;
        last_asked = UINT64_MAX;
        assert_int_equal(shm_heap_alloc(&heap, sizes[i], 1, &data), MOB_EFULL);
        assert_int_equal(data, 4711);
        assert_true(last_asked >= sizes[i]); /* nobody was asked for less than is needed */
    }
}

/* ---- the model ---- */

typedef struct {
    uint64_t data, size, tag;
} live_t;

enum { LIVE_MAX = 3000, OPERATIONS = 150000 };
static live_t live[LIVE_MAX];
static size_t live_count;
static uint8_t unit_used[UNITS];
static unsigned char pattern(uint64_t tag, uint64_t at) {
    return (unsigned char)(tag * 31 + at * 7 + 1);
}

/* The first and last bytes, and some between: enough to see any block or header that lies over this
 * one. */
static void pattern_each(const live_t *l, bool check) {
    for (uint64_t at = 0; at < l->size; at += at < 64 || l->size - at <= 64 ? 1
                                              : l->size - at < 128          ? 16
                                                                            : 61) {
        if (!check)
            arena[l->data + at] = pattern(l->tag, at);
        else if (arena[l->data + at] != pattern(l->tag, at))
            fail_msg("block at %llu of %llu bytes has changed at %llu", (unsigned long long)l->data,
                     (unsigned long long)l->size, (unsigned long long)at);
    }
}

static void units_mark(const live_t *l, uint8_t to) {
    uint64_t first = (l->data - sizeof(shm_block_t)) / SHM_BLOCK_UNIT,
             last = l->size ? (l->data + l->size - 1) / SHM_BLOCK_UNIT : first;
    for (uint64_t u = first + (l->data % SHM_BLOCK_UNIT == 0); u <= last; u++) {
        if (unit_used[u] == to)
            fail_msg("two blocks share the bytes at %llu", (unsigned long long)u * SHM_BLOCK_UNIT);
        unit_used[u] = to;
    }
}

static uint64_t random_size(void) {
    uint64_t r = next_random();
    switch (r % 16) {
    case 0:
        return next_random() % (1 << 20) + SHM_HEAP_SMALL;
    case 1:
    case 2:
        return next_random() % SHM_HEAP_SMALL;
    case 3:
        return 0;
    default:
        return next_random() % 2000;
    }
}

static void model_alloc(uint64_t tag) {
    live_t l = {.size = random_size(), .tag = tag};
    uint64_t size = l.size;
    mob_status_t status = shm_heap_alloc(&heap, size, tag, &l.data);
    if (status == MOB_EFULL) {
        empties_take(); /* what the daemon does before it says so */
        return;
    }
    assert_int_equal(status, MOB_OK);
    units_mark(&l, 1);
    pattern_each(&l, false);
    live[live_count++] = l;
}

static void model_free(void) {
    size_t i = next_random() % live_count;
    live_t l = live[i];
    live[i] = live[--live_count];
    pattern_each(&l, true);
    units_mark(&l, 0);
    memset(arena + l.data, 0xee, l.size < 256 ? l.size : 256);
    if (next_random() % 2)
        shm_heap_free(&heap, l.data, l.tag);
    else
        assert_true(shm_block_release(arena, extents, l.data, l.tag));
}

static void test_model(void **state) {
    (void)state;
    for (uint64_t run = 1; run <= 3; run++) {
        heap_make(NULL);
        seed = run * 0x9e3779b97f4a7c15u;
        live_count = 0;
        memset(unit_used, 0, sizeof unit_used);
        limit = run == 3 ? ARENA / 4 : ARENA;
        uint64_t tag = 0;
        for (int i = 0; i < OPERATIONS; i++) {
            /* waves: mostly allocating, then mostly freeing */
            bool growing = (i / 5000) % 2 == 0;
            bool allocate = live_count == 0 ||
                            (live_count < LIVE_MAX && next_random() % 8 < (growing ? 5u : 3u));
            if (allocate)
                model_alloc(++tag);
            else
                model_free();
            if (next_random() % 2000 == 0) empties_take();
        }
        for (size_t i = 0; i < live_count; i++) pattern_each(&live[i], true);
        while (live_count > 0) model_free();
        heap_unmake(NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_sizes, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_little_is_wasted, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_freed_block_is_at_hand, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_freeing_twice_or_by_the_wrong_tag, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_sweep_finds_what_others_freed, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_adjacent_free_blocks_join, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_large_extent_is_taken_again, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_a_large_block_is_cold_once, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_gone_extent_is_forgotten, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_another_grant_of_the_place_is_not_ours, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_unused_extents_can_be_recalled, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_a_lost_extent_is_not_written_to, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_a_block_in_a_lost_extent_is_its_new_owners, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_a_late_count_does_not_hide_a_block, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_full_passes_through, heap_make, heap_unmake),
        cmocka_unit_test_setup_teardown(test_last_space_is_given_in_small_pieces, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_a_little_that_was_granted_late_is_used, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_many_large_ones_dropped_oldest_first, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_full_store_still_finds_its_free_blocks, heap_make,
                                        heap_unmake),
        cmocka_unit_test_setup_teardown(test_impossible_sizes_are_full, heap_make, heap_unmake),
        cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
