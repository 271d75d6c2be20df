/* Sealed bytes: as they were given, for ever; and refused when they are not sealed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/sealed.h"

static void test_what_is_given_is_read(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, 4096, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *data = malloc(sizes[i] + 1), *again = calloc(sizes[i] + 1, 1);
        for (size_t k = 0; k < sizes[i]; k++) data[k] = (char)(k * 31 + k / 4096);
        int fd;
        size_t size;
        assert_int_equal(shm_sealed_make("test", data, sizes[i], &fd), MOB_OK);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(shm_sealed_check(fd, sizes[i], &size), MOB_OK);
        assert_int_equal(size, sizes[i]);
        assert_int_equal(shm_sealed_read(fd, again, size), MOB_OK);
        assert_memory_equal(data, again, size);
        close(fd);
        free(data);
        free(again);
    }
}

static void test_nobody_can_change_it(void **state) {
    (void)state;
    int fd;
    assert_int_equal(shm_sealed_make("test", "four", 4, &fd), MOB_OK);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_int_equal(ftruncate(fd, 10000), -1);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    close(fd);
}

static void test_what_is_not_sealed_or_too_large_is_refused(void **state) {
    (void)state;
    size_t size = 77;
    int open_one = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2], fd;
    assert_int_equal(write(open_one, "four", 4), 4);
    assert_int_equal(fcntl(open_one, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(shm_sealed_check(open_one, 100, &size), MOB_EPROTO);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(shm_sealed_check(pipes[0], 100, &size), MOB_EPROTO);
    assert_int_equal(shm_sealed_make("test", "four", 4, &fd), MOB_OK);
    assert_int_equal(shm_sealed_check(fd, 3, &size), MOB_ELIMIT);
    assert_int_equal(size, 77);
    assert_int_equal(shm_sealed_read(fd, (char[8]){0}, 8), MOB_ESYS);
    close(open_one), close(pipes[0]), close(pipes[1]), close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_given_is_read),
        cmocka_unit_test(test_nobody_can_change_it),
        cmocka_unit_test(test_what_is_not_sealed_or_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
