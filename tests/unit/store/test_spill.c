/* Spill files: what was written is read back, whatever its size and place; and a file that has
 * anything else is not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/spill.h"

enum { ARENA = 24 << 20, INCARNATION = 77, MOST = 400 };

static unsigned char *arena, *again;
static bool cached, read_cached; /* how files are written and read */
static char folder[] = "/tmp/mobula-spill-XXXXXX", path[64];
static store_spill_item_t items[MOST];
static size_t count;

static int make_folder(void **state) {
    (void)state;
    arena = aligned_alloc(4096, ARENA);
    again = aligned_alloc(4096, ARENA);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < ARENA; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(arena + i, &x, 8);
    }
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    snprintf(path, sizeof path, "%s/1", mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    rmdir(folder);
    free(arena);
    free(again);
    return 0;
}

static void add(uint64_t block, uint64_t bytes) {
    items[count] = (store_spill_item_t){.slot = (uint32_t)count + 1,
                                        .ref_count = (uint32_t)count % 3,
                                        .generation = 1000 + count,
                                        .meta = bytes << 16 | 1,
                                        .block = block,
                                        .bytes = bytes};
    count++;
}

static void write_all(void) {
    uint64_t size = 0;
    unlink(path);
    assert_int_equal(store_spill_write(path, cached, INCARNATION, arena, items, count, &size), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal((uint64_t)st.st_size, size);
}

static int read_one(const store_spill_item_t *item) {
    memset(again + item->block, 0xee, item->bytes);
    return store_spill_read(path, read_cached, INCARNATION, again, item);
}

static void read_all(void) {
    for (size_t i = count; i-- > 0;) {
        assert_int_equal(read_one(&items[i]), 0);
        assert_memory_equal(again + items[i].block, arena + items[i].block, items[i].bytes);
    }
}

static void test_all_sizes(void **state) {
    (void)state;
    static const uint64_t sizes[] = {41,
                                     63,
                                     64,
                                     65,
                                     4095,
                                     4096,
                                     4097,
                                     8192,
                                     4031,
                                     200000,
                                     262144,
                                     262145,
                                     300000,
                                     4 << 20,
                                     (4 << 20) - 64,
                                     (4 << 20) - 128,
                                     (4 << 20) + 1,
                                     9 << 20,
                                     (2 << 20) + 4032,
                                     (2 << 20) + 4033,
                                     (4 << 20) + 4032 - 8};
    uint64_t at = 64;
    count = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (at + sizes[i] > ARENA) at = 64;
        add(at, sizes[i]);
        /* A large one lies 64 bytes from a page's beginning. */
        at = sizes[i] > 60000 ? (at + sizes[i] + 8191) / 4096 * 4096 + 64
                              : (at + sizes[i] + 127) / 64 * 64;
    }
    write_all();
    read_all();
}

static void test_many_small_ones(void **state) {
    (void)state;
    count = 0;
    for (size_t i = 0; i < MOST; i++) add(64 + i * 6080, 41 + i * 15);
    write_all();
    read_all();
}

static void write_three(void) {
    count = 0;
    add(64, 100), add(8192 + 64, 5 << 20), add(8 << 20, 5000);
    write_all();
}

static void test_any_flipped_bit_is_found(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const uint64_t length = 64 + items[i].bytes + 8;
        for (int k = 0; k < 40; k++) {
            write_three();
            uint64_t place = items[i].offset +
                             (k < 36 ? length * (uint64_t)k / 36 : length - (uint64_t)(k - 35));
            int fd = open(path, O_RDWR);
            unsigned char byte;
            assert_int_equal(pread(fd, &byte, 1, (off_t)place), 1);
            byte ^= (unsigned char)(1 << k % 8);
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)place), 1);
            close(fd);
            for (size_t j = 0; j < 3; j++)
                assert_int_equal(read_one(&items[j]), j == i ? EBADMSG : 0);
        }
    }
}

static void test_a_short_file(void **state) {
    (void)state;
    for (uint64_t cut = 1; cut < 100000; cut += 9973) {
        write_three();
        assert_int_equal(truncate(path, (off_t)(items[2].offset + 64 + items[2].bytes -
                                                (cut < 5000 ? cut : 5000))),
                         0);
        assert_int_equal(read_one(&items[2]), EBADMSG);
        assert_int_equal(read_one(&items[1]), 0);
    }
    for (uint64_t pages = 0; pages * 4096 < items[2].offset;
         pages += pages < 4 ? 1 : 97) { /* as often within the large one */
        write_three();
        assert_int_equal(truncate(path, (off_t)(pages * 4096)), 0);
        for (size_t i = 1; i < 3; i++) assert_int_equal(read_one(&items[i]), EBADMSG);
        assert_int_equal(read_one(&items[0]), pages == 0 ? EBADMSG : 0);
    }
    unlink(path);
    assert_int_equal(read_one(&items[0]), ENOENT);
}

static void test_what_belongs_to_another(void **state) {
    (void)state;
    write_three();
    store_spill_item_t other = items[1];
    other.generation++;
    assert_int_equal(read_one(&other), EBADMSG);
    other = items[1];
    other.slot++;
    assert_int_equal(read_one(&other), EBADMSG);
    other = items[1];
    other.bytes--;
    assert_int_equal(read_one(&other), EBADMSG);
    other = items[1];
    other.block += 64; /* not as it was written */
    assert_int_equal(read_one(&other), EBADMSG);
    assert_int_equal(store_spill_read(path, cached, INCARNATION + 1, again, &items[1]), EBADMSG);
    assert_int_equal(store_spill_read(path, cached, INCARNATION, again, &items[1]), 0);
}

static void test_a_file_is_never_written_over(void **state) {
    (void)state;
    uint64_t size;
    write_three();
    assert_int_equal(store_spill_write(path, cached, INCARNATION, arena, items, count, &size),
                     EEXIST);
    read_all();
    assert_int_equal(
        store_spill_write("/nowhere/at/all", cached, INCARNATION, arena, items, count, &size),
        ENOENT);
}

/* How much of the file the page cache has. */
static double share_in_cache(void) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    size_t size = (size_t)st.st_size, pages = (size + 4095) / 4096, has = 0;
    unsigned char *found = malloc(pages);
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mincore(map, size, found), 0);
    for (size_t i = 0; i < pages; i++) has += found[i] & 1;
    munmap(map, size);
    free(found);
    close(fd);
    return (double)has / (double)pages;
}

static void test_the_page_cache_has_what_it_is_to_have(void **state) {
    (void)state;
    count = 0;
    add(64, 12 << 20);
    write_all();
    if (!cached && share_in_cache() > 0.5) skip(); /* this file system knows no other way */
    assert_true(cached ? share_in_cache() > 0.5 : share_in_cache() < 0.1);
    assert_int_equal(read_one(&items[0]), 0);
    if (!cached) assert_true(read_cached ? share_in_cache() > 0.5 : share_in_cache() < 0.1);
}

static void test_punching_gives_space_back(void **state) {
    (void)state;
    struct stat before, after;
    write_three();
    stat(path, &before);
    if (store_spill_punch(path, &items[1]) != 0) skip(); /* this file system can't */
    stat(path, &after);
    assert_true(after.st_size == before.st_size &&
                after.st_blocks < before.st_blocks - (4 << 20) / 512);
    assert_int_equal(read_one(&items[0]), 0);
    assert_int_equal(read_one(&items[1]), EBADMSG);
    assert_int_equal(read_one(&items[2]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_many_small_ones),
        cmocka_unit_test(test_any_flipped_bit_is_found),
        cmocka_unit_test(test_a_short_file),
        cmocka_unit_test(test_what_belongs_to_another),
        cmocka_unit_test(test_a_file_is_never_written_over),
        cmocka_unit_test(test_the_page_cache_has_what_it_is_to_have),
        cmocka_unit_test(test_punching_gives_space_back),
    };
    int failed = 0;
    for (int mode = 0; mode < 4; mode++) {
        cached = mode & 1;
        read_cached = mode & 2;
        print_message("written %s the page cache, read %s it\n", cached ? "into" : "past",
                      read_cached ? "through" : "past");
        failed += cmocka_run_group_tests(tests, make_folder, remove_folder);
    }
    return failed;
}
