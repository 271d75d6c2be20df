/* Packets with descriptors: as many as are wanted arrive, the others are closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/packet.h"

static int here, there;

static int setup(void **state) {
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    here = pair[0];
    there = pair[1];
    return 0;
}

static int teardown(void **state) {
    (void)state;
    close(here);
    close(there);
    return 0;
}

/* The lowest free number: as long as it stays the same, nothing was left open below it. */
static int lowest_free(void) {
    int fd = fcntl(0, F_DUPFD, 0);
    close(fd);
    return fd;
}

static void test_a_packet_and_its_descriptors_arrive(void **state) {
    (void)state;
    int pipes[2], fds[4] = {-1, -1, -1, -1}, count = 9;
    char text[16];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(base_packet_send(here, "hello", 5, pipes, 2, 0), 5);
    assert_int_equal(base_packet_receive(there, text, sizeof text, 0, fds, 4, &count), 5);
    assert_memory_equal(text, "hello", 5);
    assert_int_equal(count, 2);
    assert_int_equal(fcntl(fds[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(read(pipes[0], text, sizeof text), 1);
    for (int i = 0; i < 2; i++) close(fds[i]), close(pipes[i]);
}

static void test_what_is_not_wanted_is_closed(void **state) {
    (void)state;
    int many[4] = {0, 1, 2, 0}, first = lowest_free();
    char text[16];
    for (int most = 0; most <= 3; most++) {
        int fds[3] = {-1, -1, -1}, count = -1;
        assert_int_equal(base_packet_send(here, "x", 1, many, 4, 0), 1);
        assert_int_equal(base_packet_receive(there, text, sizeof text, 0, fds, most, &count), 1);
        assert_int_equal(count, most);
        for (int i = 0; i < count; i++) close(fds[i]);
        assert_int_equal(lowest_free(), first);
    }
}

static void test_a_packet_that_is_too_long_is_cut(void **state) {
    (void)state;
    char text[4];
    assert_int_equal(base_packet_send(here, "longer", 6, NULL, 0, 0), 6);
    assert_int_equal(base_packet_receive(there, text, sizeof text, 0, NULL, 0, NULL), 4);
    assert_memory_equal(text, "long", 4);
}

static void test_nothing_to_read_and_the_end(void **state) {
    (void)state;
    char text[4];
    assert_int_equal(base_packet_receive(there, text, sizeof text, MSG_DONTWAIT, NULL, 0, NULL),
                     -1);
    assert_int_equal(errno, EAGAIN);
    shutdown(here, SHUT_WR);
    assert_int_equal(base_packet_receive(there, text, sizeof text, 0, NULL, 0, NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_packet_and_its_descriptors_arrive),
        TEST(test_what_is_not_wanted_is_closed),
        TEST(test_a_packet_that_is_too_long_is_cut),
        TEST(test_nothing_to_read_and_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
