/* Segments: sealed, of the size that was asked for, and refused when they are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/segment.h"

static uint64_t page(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static void test_create_is_whole_pages_of_zeros(void **state) {
    (void)state;
    shm_segment_t s;
    assert_int_equal(shm_segment_create("test", 3 * page() + 1, &s), MOB_OK);
    assert_int_equal(s.size, 4 * page());
    assert_null(s.read_only);
    for (uint64_t i = 0; i < s.size; i++) assert_int_equal(s.base[i], 0);
    struct stat st;
    assert_int_equal(fstat(s.fd, &st), 0);
    assert_int_equal(st.st_size, s.size);
    assert_true(fcntl(s.fd, F_GETFD) & FD_CLOEXEC);
    shm_segment_fini(&s);
    assert_int_equal(s.fd, -1);
    assert_null(s.base);
}

static void test_create_is_sealed(void **state) {
    (void)state;
    shm_segment_t s;
    assert_int_equal(shm_segment_create("test", page(), &s), MOB_OK);
    assert_int_equal(fcntl(s.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    assert_int_equal(ftruncate(s.fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(s.fd, (off_t)(2 * page())), -1);
    assert_int_equal(fcntl(s.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    shm_segment_fini(&s);
}

static void test_impossible_size(void **state) {
    (void)state;
    shm_segment_t s = SHM_SEGMENT_NONE;
    assert_int_equal(shm_segment_create("test", (uint64_t)1 << 62, &s), MOB_ESYS);
    assert_int_equal(s.fd, -1);
    assert_true(strlen(mob_last_error()) > 0);
}

static void test_open_sees_the_same_memory(void **state) {
    (void)state;
    shm_segment_t a, b;
    assert_int_equal(shm_segment_create("test", 2 * page(), &a), MOB_OK);
    assert_int_equal(shm_segment_open(dup(a.fd), 2 * page(), true, &b), MOB_OK);
    a.base[page() + 5] = 42;
    assert_int_equal(b.base[page() + 5], 42);
    assert_int_equal(b.read_only[page() + 5], 42);
    b.base[7] = 43;
    assert_int_equal(a.base[7], 43);
    shm_segment_fini(&a);
    assert_int_equal(b.read_only[7], 43);
    shm_segment_fini(&b);
}

/* Opens what `fd` is and expects a refusal that has taken the descriptor. */
static void expect_refused(int fd, uint64_t size) {
    shm_segment_t s = {.fd = 12345};
    assert_true(fd >= 0);
    assert_int_equal(shm_segment_open(fd, size, true, &s), MOB_EPROTO);
    assert_int_equal(s.fd, 12345);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_wrong_descriptors_are_refused(void **state) {
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    close(pipes[1]);
    expect_refused(pipes[0], page());

    int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(unsealed, (off_t)page()), 0);
    expect_refused(unsealed, page());

    int small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(small, (off_t)page()), 0);
    assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    expect_refused(small, page() + 1);

    shm_segment_t s = SHM_SEGMENT_NONE;
    assert_int_equal(shm_segment_open(-1, page(), false, &s), MOB_EPROTO);
}

/* Runs `act` in a child; the signal that ended it, or 0 and its exit code in *ret_code. */
static int in_child(void (*act)(const shm_segment_t *), const shm_segment_t *s, int *ret_code) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* the sanitizers' own handler would print and exit */
        signal(SIGBUS, SIG_DFL);
        act(s);
        _exit(17);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void write_read_only(const shm_segment_t *s) { *(volatile unsigned char *)s->read_only = 1; }
static void read_writable(const shm_segment_t *s) { (void)*(volatile unsigned char *)s->base; }
static void read_read_only(const shm_segment_t *s) {
    if (*(volatile const unsigned char *)s->read_only == 99) _exit(18);
}

static void test_a_child_may_only_read(void **state) {
    (void)state;
    shm_segment_t a, b;
    int code;
    assert_int_equal(shm_segment_create("test", page(), &a), MOB_OK);
    assert_int_equal(shm_segment_open(dup(a.fd), page(), true, &b), MOB_OK);
    b.base[0] = 99;
    assert_int_equal(in_child(read_read_only, &b, &code), 0);
    assert_int_equal(code, 18);
    assert_int_equal(in_child(write_read_only, &b, &code), SIGSEGV);
    assert_int_equal(in_child(read_writable, &b, &code), SIGSEGV);
    shm_segment_fini(&a);
    shm_segment_fini(&b);
}

static uint64_t blocks_of(const shm_segment_t *s) {
    struct stat st;
    assert_int_equal(fstat(s->fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static void test_back(void **state) {
    (void)state;
    shm_segment_t s;
    uint64_t size = 64 * page();
    assert_int_equal(shm_segment_create("test", size, &s), MOB_OK);
    assert_int_equal(blocks_of(&s), 0);
    assert_int_equal(shm_segment_back(&s, 8 * page(), 16 * page()), MOB_OK);
    assert_true(blocks_of(&s) >= 16 * page());
    s.base[8 * page()] = 5;
    assert_int_equal(shm_segment_back(&s, 8 * page(), 16 * page()), MOB_OK); /* twice is once */
    assert_int_equal(s.base[8 * page()], 5);
    assert_int_equal(shm_segment_back(&s, 0, (uint64_t)1 << 62), MOB_EFULL);
    shm_segment_fini(&s);
}

static void test_fini_takes_anything(void **state) {
    (void)state;
    shm_segment_t s = SHM_SEGMENT_NONE;
    shm_segment_fini(&s);
    shm_segment_fini(&s);
    assert_int_equal(shm_segment_create("test", page(), &s), MOB_OK);
    close(s.fd); /* half-built: no descriptor yet */
    s.fd = -1;
    shm_segment_fini(&s);
    shm_segment_fini(&s);
    assert_null(s.base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_is_whole_pages_of_zeros),
        cmocka_unit_test(test_create_is_sealed),
        cmocka_unit_test(test_impossible_size),
        cmocka_unit_test(test_open_sees_the_same_memory),
        cmocka_unit_test(test_wrong_descriptors_are_refused),
        cmocka_unit_test(test_a_child_may_only_read),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_fini_takes_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
