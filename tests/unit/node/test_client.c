/* Connections: a driver, a zygote and workers by their sockets. */
#include "fixture.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CPUS = 4 };

static node_t *n;
static node_client_t *zygote;
static int driver_end, zygote_end;

/* A connection as it is accepted; its far end. */
static int connection_new(node_client_t **ret_client) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(node_client_accept(n, pair[0], ret_client), MOB_OK);
    return pair[1];
}

static void say_hello(int end, uint32_t role, const char *setup) {
    char frame[sizeof(wire_hello_t) + 64];
    wire_hello_t hello = {.frame = {.magic = WIRE_MAGIC, .kind = WIRE_HELLO}, .version = WIRE_VERSION, .role = role};
    memcpy(frame, &hello, sizeof hello);
    memcpy(frame + sizeof hello, setup, strlen(setup));
    size_t size = sizeof hello + strlen(setup);
    assert_int_equal(send(end, frame, size, 0), size);
    uv_run(&n->loop, UV_RUN_NOWAIT);
}

/* How many frames of a kind have come; the descriptors with them are let go. */
static size_t frames_count(int end, uint32_t kind) {
    static char frame[WIRE_FRAME_MAX];
    size_t count = 0;
    for (ssize_t size; (size = recv(end, frame, sizeof frame, 0)) > 0;) {
        wire_frame_t head;
        assert_true(size >= (ssize_t)sizeof head);
        memcpy(&head, frame, sizeof head);
        count += head.kind == kind;
    }
    return count;
}

static int setup(void **state) {
    (void)state;
    static char dir[] = "/nowhere", *argv[] = {"zygote", NULL};
    n = fixture_node_new(16 * SHM_GRANULE);
    n->session_dir = dir;
    n->zygote_argv = argv;
    n->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    driver_end = connection_new(&n->driver);
    n->driver->role = WIRE_DRIVER;
    zygote_end = connection_new(&zygote);
    zygote->pid = INT_MAX; /* no process has this number */
    say_hello(zygote_end, WIRE_ZYGOTE, "");
    assert_ptr_equal(n->next_zygote, zygote);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    int event_fd = n->event_fd;
    void *given = n->setup;
    n->driver = NULL;
    fixture_node_free(n);
    free(given);
    close(event_fd);
    close(driver_end);
    close(zygote_end);
    return 0;
}

/* What the driver says in its hello is for all workers: one that is welcomed before would never have it. */
static void test_no_spares_before_the_driver_has_said_hello(void **state) {
    (void)state;
    node_zygote_frame(zygote, WIRE_READY);
    assert_ptr_equal(n->zygote, zygote);
    node_schedule(n);
    assert_int_equal(n->starting.count, 0);
    assert_int_equal(frames_count(zygote_end, WIRE_FORK), 0);
    say_hello(driver_end, WIRE_DRIVER, "setup");
    assert_int_equal(n->driver->state, NODE_LIVE);
    assert_int_equal(n->starting.count, CPUS);
    assert_int_equal(frames_count(zygote_end, WIRE_FORK), CPUS);
}

static void test_spares_once_the_zygote_is_ready(void **state) {
    (void)state;
    say_hello(driver_end, WIRE_DRIVER, "setup");
    assert_int_equal(n->driver->state, NODE_GREETING);
    assert_int_equal(n->starting.count, 0);
    node_zygote_frame(zygote, WIRE_READY);
    assert_int_equal(n->driver->state, NODE_LIVE);
    assert_int_equal(n->starting.count, CPUS);
    assert_int_equal(frames_count(zygote_end, WIRE_FORK), CPUS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_no_spares_before_the_driver_has_said_hello),
        TEST(test_spares_once_the_zygote_is_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
