/* Freeing blocks: once, by whoever comes first, and with the extent if the block was all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "shm/arena.h"

enum { GRANULES = 8, RACES = 50000 };

static unsigned char *arena;
static shm_extent_t extents[GRANULES + 1];

static int arena_make(void **state) {
    (void)state;
    memset(extents, 0, sizeof extents);
    arena = aligned_alloc(4096, GRANULES * SHM_GRANULE);
    if (arena != NULL) memset(arena, 0, GRANULES * SHM_GRANULE);
    return arena == NULL;
}

static int arena_unmake(void **state) {
    (void)state;
    free(arena);
    return 0;
}

static shm_block_t *block_make(uint64_t header, uint64_t tag, uint32_t units, uint32_t back) {
    shm_block_t *block = (shm_block_t *)(arena + header);
    block->back = back;
    atomic_store(&block->units, units);
    atomic_store(&block->word, shm_block_used(tag));
    return block;
}

static bool release(uint64_t header, uint64_t tag) {
    return shm_block_release(arena, extents, header + sizeof(shm_block_t), tag);
}

static void test_tags_are_distinct(void **state) {
    (void)state;
    const uint64_t tags[] = {shm_tag(false, 1, 1), shm_tag(true, 1, 1), shm_tag(false, 2, 1),
                             shm_tag(false, 1, 2), shm_tag(false, 0xffffff, 1)};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        assert_int_equal(tags[i] >> 63, 0);
        assert_int_not_equal(shm_block_used(tags[i]), 0);
        for (size_t k = 0; k < i; k++) assert_true(tags[i] != tags[k]);
    }
}

static void test_once_and_twice(void **state) {
    (void)state;
    uint64_t tag = shm_tag(false, 7, 3), header = SHM_GRANULE * 2 + SHM_BLOCK_FIRST;
    shm_block_t *block = block_make(header, tag, 4, 2);
    atomic_store(&extents[0].freed, shm_extent_count(9, 0));
    assert_true(release(header, tag));
    assert_int_equal(atomic_load(&block->word), 0);
    /* told to the extent's first granule */
    assert_int_equal(atomic_load(&extents[0].freed), shm_extent_count(9, 4));
    assert_false(release(header, tag));
    assert_int_equal(atomic_load(&extents[0].freed), shm_extent_count(9, 4));
}

static void test_another_tag_is_left_alone(void **state) {
    (void)state;
    uint64_t tag = shm_tag(false, 7, 3), header = SHM_BLOCK_FIRST;
    shm_block_t *block = block_make(header, tag, 1, 0);
    assert_false(release(header, shm_tag(false, 7, 4)));
    assert_false(release(header, shm_tag(true, 7, 3)));
    assert_false(release(header, shm_tag(false, 8, 3)));
    assert_true(atomic_load(&block->word) == shm_block_used(tag));
    assert_int_equal(atomic_load(&extents[0].freed), 0);
}

static void test_a_scribbled_distance_stays_inside(void **state) {
    (void)state;
    uint64_t tag = shm_tag(false, 7, 3), header = SHM_GRANULE + SHM_BLOCK_FIRST;
    const uint32_t backs[] = {2, 1000, SHM_BLOCK_WHOLE - 1};
    for (size_t i = 0; i < 3; i++) {
        block_make(header, tag, 5, backs[i]);
        assert_true(release(header, tag));
    }
    for (int g = 2; g <= GRANULES; g++) assert_int_equal(atomic_load(&extents[g].freed), 0);
}

static void test_a_whole_extent_is_empty_with_it(void **state) {
    (void)state;
    uint64_t tag = shm_tag(false, 9, 1), header = 3 * SHM_GRANULE + SHM_BLOCK_FIRST, serial = 77;
    atomic_store(&extents[3].word, serial << 2 | SHM_EXTENT_OWNED);
    block_make(header, tag, 2047, SHM_BLOCK_WHOLE);
    assert_true(release(header, tag));
    assert_int_equal(atomic_load(&extents[3].word), serial << 2 | SHM_EXTENT_EMPTY);
    assert_false(release(header, tag));
    assert_int_equal(atomic_load(&extents[3].word), serial << 2 | SHM_EXTENT_EMPTY);
}

static void test_an_extent_that_is_not_owned_stays(void **state) {
    (void)state;
    uint64_t tag = shm_tag(false, 9, 1), header = 3 * SHM_GRANULE + SHM_BLOCK_FIRST;
    const uint64_t words[] = {SHM_EXTENT_NONE, 5 << 2 | SHM_EXTENT_EMPTY, 5 << 2 | SHM_EXTENT_GONE};
    for (size_t i = 0; i < 3; i++) {
        atomic_store(&extents[3].word, words[i]);
        block_make(header, tag, 2047, SHM_BLOCK_WHOLE);
        assert_true(release(header, tag));
        assert_int_equal(atomic_load(&extents[3].word), words[i]);
    }
}

static _Atomic uint32_t race_begun, race_done, race_wins;
static uint64_t race_header;

static void *race(void *unused) {
    (void)unused;
    for (uint32_t i = 1; i <= RACES; i++) {
        while (atomic_load_explicit(&race_begun, memory_order_acquire) < i) sched_yield();
        if (release(race_header, shm_tag(false, 1, i))) atomic_fetch_add(&race_wins, 1);
        atomic_store_explicit(&race_done, i, memory_order_release);
    }
    return NULL;
}

static void test_two_at_once_free_it_once(void **state) {
    (void)state;
    pthread_t other;
    race_header = SHM_BLOCK_FIRST;
    atomic_store(&extents[0].word, 1 << 2 | SHM_EXTENT_OWNED);
    assert_int_equal(pthread_create(&other, NULL, race, NULL), 0);
    for (uint32_t i = 1; i <= RACES; i++) {
        block_make(race_header, shm_tag(false, 1, i), 3, 0);
        atomic_store_explicit(&race_begun, i, memory_order_release);
        if (release(race_header, shm_tag(false, 1, i))) atomic_fetch_add(&race_wins, 1);
        while (atomic_load_explicit(&race_done, memory_order_acquire) < i) sched_yield();
        assert_int_equal(atomic_load(&race_wins), i);
    }
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(atomic_load(&extents[0].freed), (uint64_t)RACES * 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags_are_distinct),
        cmocka_unit_test_setup_teardown(test_once_and_twice, arena_make, arena_unmake),
        cmocka_unit_test_setup_teardown(test_another_tag_is_left_alone, arena_make, arena_unmake),
        cmocka_unit_test_setup_teardown(test_a_scribbled_distance_stays_inside, arena_make,
                                        arena_unmake),
        cmocka_unit_test_setup_teardown(test_a_whole_extent_is_empty_with_it, arena_make,
                                        arena_unmake),
        cmocka_unit_test_setup_teardown(test_an_extent_that_is_not_owned_stays, arena_make,
                                        arena_unmake),
        cmocka_unit_test_setup_teardown(test_two_at_once_free_it_once, arena_make, arena_unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
