/* Large copies: every byte arrives, none around them changes, whatever the place, the size and the
 * number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/copy.h"

enum { SPACE = 40 << 20, EDGE = 128 };

static int file;
static unsigned char *from, *to;

static int setup(void **state) {
    (void)state;
    file = memfd_create("test-copy", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, SPACE), 0);
    to = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    from = malloc(SPACE);
    assert_true(to != MAP_FAILED && from != NULL);
    uint64_t seed = 1;
    for (size_t i = 0; i < SPACE / 8; i++)
        ((uint64_t *)from)[i] = seed = seed * 6364136223846793005u + 1442695040888963407u;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    free(from);
    munmap(to, SPACE);
    return close(file);
}

/* Pages that have memory. */
static uint64_t backed(void) {
    struct stat st;
    assert_int_equal(fstat(file, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static void pages_drop(void) {
    assert_int_equal(madvise(to, SPACE, MADV_REMOVE), 0);
    assert_int_equal(backed(), 0);
}

static void copy_check(size_t at, size_t start, size_t size, bool cold, unsigned helpers) {
    static const unsigned char untouched[EDGE];
    pages_drop();
    base_copy(to + at, from + start, size, cold, helpers);
    assert_memory_equal(to + at, from + start, size);
    assert_memory_equal(to + at - EDGE, untouched, EDGE);
    assert_memory_equal(to + at + size, untouched, EDGE);
}

static void test_every_byte(void **state) {
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   63,
                                   4096,
                                   (2 << 20) - 1,
                                   2 << 20,
                                   (2 << 20) + 1,
                                   8 << 20,
                                   (8 << 20) + 77,
                                   (16 << 20) + 1,
                                   (33 << 20) - 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned helpers = 0; helpers < 5; helpers += 2)
            for (int cold = 0; cold < 2; cold++) {
                copy_check(EDGE, 0, sizes[i], cold, helpers);
                copy_check(4096 + 48 + i, 13 * i, sizes[i], cold, helpers);
            }
}

/* In memory of its own, whose pages may become large ones: what lies around the bytes is left alone
 * too. */
static void test_every_byte_in_fresh_memory(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, (2 << 20) - 1, (4 << 20) + 3, (33 << 20) - 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t at = 32; at < 3 << 20; at += (1 << 20) + 4096 * i + 17) {
            unsigned char *fresh = mmap(NULL, SPACE, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            assert_true(fresh != MAP_FAILED);
            fresh[at - 1] = 7, fresh[at + sizes[i]] = 8;
            base_copy_fresh(fresh + at, from + i, sizes[i], (unsigned)i % 3);
            assert_memory_equal(fresh + at, from + i, sizes[i]);
            assert_true(fresh[at - 1] == 7 && fresh[at + sizes[i]] == 8);
            munmap(fresh, SPACE);
        }
}

static void test_mapping_gives_memory_and_keeps_what_is_there(void **state) {
    (void)state;
    pages_drop();
    memcpy(to + (3 << 20), from, 100000);
    base_map(to + (2 << 20), 20 << 20, 2);
    assert_true(backed() >= 20 << 20 && backed() < 21 << 20);
    assert_memory_equal(to + (3 << 20), from, 100000);
}

static volatile sig_atomic_t signalled;
static void signal_note(int number) { signalled = number; }

/* Signals are for the program's own threads, and what they interrupt goes on. */
static void test_signals_do_not_disturb(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = signal_note}, before;
    sigaction(SIGUSR1, &action, &before);
    sigset_t mask, after;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int i = 0; i < 20; i++) {
        raise(SIGUSR1);
        copy_check(EDGE, 0, 32 << 20, true, 3);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < NSIG; number++)
        assert_int_equal(sigismember(&mask, number), sigismember(&after, number));
    assert_int_equal(signalled, SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_byte_in_fresh_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mapping_gives_memory_and_keeps_what_is_there, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_signals_do_not_disturb, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
