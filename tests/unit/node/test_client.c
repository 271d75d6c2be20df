/* Connections: a driver, a zygote and workers by their sockets. */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPUS = 4 };

static node_t *n;
static node_client_t *zygote;
static int driver_end, zygote_end;

/* A connection as it is accepted; its far end. */
static int connection_new(node_client_t **ret_client) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    assert_int_equal(node_client_accept(n, pair[0], ret_client), MOB_OK);
    return pair[1];
}

static void say_hello(int end, uint32_t role, const char *setup) {
    char packet[sizeof(wire_hello_t) + 64];
    wire_hello_t hello = {
        .packet = {.magic = WIRE_MAGIC, .kind = WIRE_HELLO}, .version = WIRE_VERSION, .role = role};
    memcpy(packet, &hello, sizeof hello);
    memcpy(packet + sizeof hello, setup, strlen(setup));
    size_t size = sizeof hello + strlen(setup);
    assert_int_equal(send(end, packet, size, 0), size);
    uv_run(&n->loop, UV_RUN_NOWAIT);
}

/* How many packets of a kind have come; the descriptors with them are let go. */
static size_t packets_count(int end, uint32_t kind) {
    static char packet[WIRE_PACKET_MAX];
    size_t count = 0;
    for (ssize_t size; (size = recv(end, packet, sizeof packet, 0)) > 0;) {
        wire_packet_t head;
        assert_true(size >= (ssize_t)sizeof head);
        memcpy(&head, packet, sizeof head);
        count += head.kind == kind;
    }
    return count;
}

static int setup(void **state) {
    (void)state;
    static char dir[] = "/nowhere", *argv[] = {"zygote", NULL};
    n = fixture_node_new(16 * SHM_GRANULE);
    n->session.dir = dir;
    n->config.zygote_argv = argv;
    n->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    driver_end = connection_new(&n->driver);
    n->driver->role = WIRE_DRIVER;
    zygote_end = connection_new(&zygote);
    zygote->pid = INT_MAX; /* no process has this number */
    say_hello(zygote_end, WIRE_ZYGOTE, "");
    assert_ptr_equal(n->zygote.next, zygote);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    int event_fd = n->event_fd;
    void *given = n->setup.data;
    n->driver = NULL;
    fixture_node_free(n);
    free(given);
    close(event_fd);
    close(driver_end);
    close(zygote_end);
    return 0;
}

/* What the driver says in its hello is for all workers: one that is welcomed before would never
 * have it. */
static void test_no_spares_before_the_driver_has_said_hello(void **state) {
    (void)state;
    node_zygote_packet(zygote, WIRE_READY);
    assert_ptr_equal(n->zygote.client, zygote);
    node_schedule(n);
    assert_int_equal(n->pool.starting.count, 0);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), 0);
    say_hello(driver_end, WIRE_DRIVER, "setup");
    assert_int_equal(n->driver->state, NODE_LIVE);
    assert_int_equal(n->pool.starting.count, CPUS);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), CPUS);
}

static void test_spares_once_the_zygote_is_ready(void **state) {
    (void)state;
    say_hello(driver_end, WIRE_DRIVER, "setup");
    assert_int_equal(n->driver->state, NODE_GREETING);
    assert_int_equal(n->pool.starting.count, 0);
    node_zygote_packet(zygote, WIRE_READY);
    assert_int_equal(n->driver->state, NODE_LIVE);
    assert_int_equal(n->pool.starting.count, CPUS);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), CPUS);
}

/* ---- what can't be watched ---- */

/* Something else in the place of the loop's epoll: nothing can be added to it then. */
static int epoll_hide(void) {
    int epoll = uv_backend_fd(&n->loop), kept = dup(epoll), null = open("/dev/null", O_RDONLY);
    assert_true(kept >= 0 && null >= 0 && dup2(null, epoll) >= 0);
    close(null);
    return kept;
}

static void epoll_show(int kept) {
    assert_true(dup2(kept, uv_backend_fd(&n->loop)) >= 0);
    close(kept);
}

static size_t descriptors_open(void) {
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) count++;
    closedir(dir);
    return count;
}

static void test_a_driver_that_is_refused_is_the_end(void **state) {
    (void)state;
    node_client_refuse(n->driver, MOB_ELIMIT, "a test");
    assert_null(n->driver);
    assert_true(n->ending);
    node_warn(n, "nobody hears this");
}

static void test_a_file_is_no_connection(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    int fd = dup(fileno(file));
    fclose(file);
    size_t connections = n->connections.count;
    node_client_t *c = node_client_new(n);
    assert_int_equal(node_client_attach(c, fd), MOB_ESYS);
    assert_false(c->sock_polled);
    node_client_close(c);
    assert_int_equal(n->connections.count, connections);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_a_connection_that_can_not_be_watched_is_closed(void **state) {
    (void)state;
    int pair[2];
    char byte;
    size_t connections = n->connections.count;
    node_client_t *c;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    int kept = epoll_hide();
    mob_status_t status = node_client_accept(n, pair[0], &c);
    epoll_show(kept);
    assert_int_equal(status, MOB_ESYS);
    assert_int_equal(n->connections.count, connections);
    assert_int_equal(recv(pair[1], &byte, 1, 0), 0); /* it hears of it */
    close(pair[1]);
}

/* Its socket tells of its end too. */
static void test_a_driver_whose_process_can_not_be_watched(void **state) {
    (void)state;
    int kept = epoll_hide();
    node_client_welcome(n->driver);
    epoll_show(kept);
    assert_int_equal(n->driver->state, NODE_LIVE);
    shutdown(driver_end, SHUT_RDWR);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_true(n->ending);
}

/* A zygote that can fork, and a setup: the next look asks for spares. */
static void session_begin(void) {
    node_zygote_packet(zygote, WIRE_READY);
    n->setup.data = calloc(1, 1);
    assert_non_null(n->setup.data);
    assert_true(n->pool.spares_wanted);
}

/* It is not asked for, and its pipes are closed; when they can be watched, others are. */
static void test_a_worker_whose_output_can_not_be_watched(void **state) {
    (void)state;
    session_begin();
    size_t connections = n->connections.count, descriptors = descriptors_open();
    int kept = epoll_hide();
    node_schedule(n);
    epoll_show(kept);
    assert_int_equal(n->pool.starting.count, 0);
    assert_int_equal(n->pool.failures, 1);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), 0);
    assert_int_equal(n->connections.count, connections);
    assert_int_equal(descriptors_open(), descriptors);
    n->pool.spares_wanted = true;
    node_schedule(n);
    assert_int_equal(n->pool.starting.count, CPUS);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), CPUS);
}

/* It has connected, and its socket can't move over to the one that was asked for: that counts as
 * one that did not come. */
static void test_a_worker_that_can_not_be_watched(void **state) {
    (void)state;
    session_begin();
    node_schedule(n);
    assert_int_equal(n->pool.starting.count, CPUS);
    size_t connections = n->connections.count;
    node_client_t *c;
    char byte;
    int end = connection_new(&c);
    c->pid = fork();
    if (c->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    pid_t child = c->pid;
    int kept = epoll_hide();
    node_worker_hello(c, n->pool.starting.items[0]->token);
    epoll_show(kept);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_int_equal(n->pool.starting.count, CPUS - 1);
    assert_int_equal(n->pool.failures, 1);
    assert_int_equal(n->connections.count, connections - 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(recv(end, &byte, 1, 0), 0); /* it hears of it */
    close(end);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_no_spares_before_the_driver_has_said_hello),
        TEST(test_a_driver_that_is_refused_is_the_end),
        TEST(test_spares_once_the_zygote_is_ready),
        TEST(test_a_file_is_no_connection),
        TEST(test_a_connection_that_can_not_be_watched_is_closed),
        TEST(test_a_driver_whose_process_can_not_be_watched),
        TEST(test_a_worker_whose_output_can_not_be_watched),
        TEST(test_a_worker_that_can_not_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
