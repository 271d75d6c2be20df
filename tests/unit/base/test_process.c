/* What processes have for themselves, asked about real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

enum { MB = 1 << 20 };

static void use(size_t bytes, int flags) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, bytes);
}

/* A child that has so much, whose child has so much more; it says when that is so. */
static pid_t family_start(size_t own, size_t childs) {
    int ready[2];
    char word;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        use(own, MAP_PRIVATE);
        use(32 * MB, MAP_SHARED);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            use(childs, MAP_PRIVATE);
            if (write(ready[1], "x", 1) != 1) _exit(1);
        }
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void assert_about(uint64_t bytes, uint64_t expected) {
    assert_in_range(bytes, expected, expected + 4 * MB);
}

static void test_a_family(void **state) {
    (void)state;
    pid_t child = family_start(64 * MB, 16 * MB);
    assert_about(base_process_bytes(child), 64 * MB);
    /* which has inherited 64, and not changed them */
    assert_about(base_process_children_bytes(child), 16 * MB);
    /* what both have counts for neither */
    assert_about(base_process_children_bytes(getpid()), 16 * MB);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(base_process_bytes(child), 0);
    assert_int_equal(base_process_children_bytes(child), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
