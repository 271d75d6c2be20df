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

#include "shm/sealed.h"

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

/* With a descriptor, which is taken; -1: without. */
static void say_hello_as(int end, uint32_t role, uint64_t token, int fd) {
    wire_hello_t hello = wire_hello(role, token);
    struct iovec part = {.iov_base = &hello, .iov_len = sizeof hello};
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        *CMSG_FIRSTHDR(&m) = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof fd);
    }
    assert_int_equal(sendmsg(end, &m, 0), sizeof hello);
    if (fd >= 0) close(fd);
    uv_run(&n->loop, UV_RUN_NOWAIT);
}

static void say_hello(int end, uint32_t role, int fd) { say_hello_as(end, role, 0, fd); }

static int sealed(const void *data, size_t size) {
    int fd;
    assert_int_equal(shm_sealed_make("test-setup", data, size, &fd), MOB_OK);
    return fd;
}

/* A driver's setup, with so many bytes for its workers. */
static int job_setup(const void *inner, size_t size) {
    static const char *const argv[] = {"true", NULL};
    wire_setup_t given = {.argv = argv, .inner = inner, .inner_size = size};
    size_t whole = wire_setup_size(&given);
    void *bytes = malloc(whole);
    wire_setup_write(&given, bytes);
    int fd = sealed(bytes, whole);
    free(bytes);
    return fd;
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
    static char dir[] = "/nowhere", path[] = "/nowhere/socket";
    n = fixture_node_new(16 * SHM_GRANULE);
    n->session.dir = dir;
    n->session.socket_path = path;
    n->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)vec_pop(&n->setups.items);
    fixture_job_free(n, vec_pop(&n->jobs.items));
    driver_end = connection_new(&n->starter);
    zygote_end = -1;
    return 0;
}

/* The driver says hello, and the job's zygote does. */
static void job_begin(void) {
    say_hello(driver_end, WIRE_DRIVER, job_setup("setup", 5));
    assert_int_equal(n->jobs.items.count, 1);
    assert_int_equal(JOB(n)->driver->state, NODE_GREETING);
    while (waitpid(-1, NULL, 0) > 0) { /* what was started in the zygote's place */
    }
    zygote_end = connection_new(&zygote);
    zygote->pid = INT_MAX; /* no process has this number */
    say_hello_as(zygote_end, WIRE_ZYGOTE, JOB(n)->setup->token, -1);
    assert_ptr_equal(JOB(n)->setup->zygote.next, zygote);
}

static int teardown(void **state) {
    (void)state;
    int event_fd = n->event_fd;
    fixture_node_free(n);
    close(event_fd);
    close(driver_end);
    if (zygote_end >= 0) close(zygote_end);
    return 0;
}

static void test_spares_once_the_zygote_is_ready(void **state) {
    (void)state;
    job_begin();
    assert_int_equal(node_pool_first(JOB(n))->starting.count, 0);
    wire_packet_t ready = {.magic = WIRE_MAGIC, .kind = WIRE_READY};
    node_zygote_packet(zygote, &ready, sizeof ready);
    assert_int_equal(JOB(n)->driver->state, NODE_LIVE);
    assert_int_equal(node_pool_first(JOB(n))->starting.count, CPUS);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), CPUS);
}

/* ---- the setup ---- */

/* Of a megabyte: more than a packet holds, and more than a socket. */
static void test_a_large_setup_is_read(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    char *bytes = malloc(SIZE);
    memset(bytes, 's', SIZE);
    say_hello(driver_end, WIRE_DRIVER, job_setup(bytes, SIZE));
    const wire_setup_t *given = &JOB(n)->setup->given;
    assert_int_equal(given->inner_size, SIZE);
    assert_memory_equal(given->inner, bytes, SIZE);
    assert_string_equal(given->argv[0], "true");
    assert_null(given->argv[1]);
    assert_null(given->env[0]);
    free(bytes);
}

static size_t descriptors_open(void) {
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) count++;
    closedir(dir);
    return count;
}

/* What its hello came with, or how long it is, is refused in words. */
static void test_a_setup_that_makes_no_sense(void **state) {
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    say_hello(driver_end, WIRE_DRIVER, fd);
    assert_int_equal(n->jobs.items.count, 0);
    assert_int_equal(packets_count(driver_end, WIRE_REFUSED), 1);
}

static void test_a_setup_of_garbage(void **state) {
    (void)state;
    say_hello(driver_end, WIRE_DRIVER, sealed("garbage that is no setup, of enough bytes", 41));
    assert_int_equal(n->jobs.items.count, 0);
    assert_int_equal(packets_count(driver_end, WIRE_REFUSED), 1);
    assert_true(n->ending);
}

static void test_another_driver_is_refused_by_a_private_session(void **state) {
    (void)state;
    job_begin();
    node_client_t *other;
    int end = connection_new(&other);
    say_hello(end, WIRE_DRIVER, job_setup("", 0));
    assert_int_equal(packets_count(end, WIRE_REFUSED), 1);
    assert_int_equal(n->jobs.items.count, 1);
    close(end);
}

static void test_another_release_is_refused(void **state) {
    (void)state;
    node_client_t *other;
    int end = connection_new(&other);
    wire_hello_t hello = wire_hello(WIRE_OBSERVER, 0);
    hello.release[0] = 'x';
    assert_int_equal(send(end, &hello, sizeof hello, 0), sizeof hello);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_int_equal(packets_count(end, WIRE_REFUSED), 1);
    close(end);
}

static void test_a_hello_that_is_too_long(void **state) {
    (void)state;
    static char packet[128 << 10];
    wire_hello_t hello = wire_hello(WIRE_DRIVER, 0);
    memcpy(packet, &hello, sizeof hello);
    assert_int_equal(send(driver_end, packet, sizeof packet, 0), sizeof packet);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_null(n->starter);
    assert_int_equal(packets_count(driver_end, WIRE_REFUSED), 1);
}

static void test_descriptors_of_those_who_may_give_none(void **state) {
    (void)state;
    node_client_t *c;
    int end = connection_new(&c);
    size_t descriptors = descriptors_open();
    say_hello(end, WIRE_OBSERVER, open("/dev/null", O_RDONLY | O_CLOEXEC));
    assert_int_equal(c->state, NODE_LIVE);
    say_hello(end, WIRE_OBSERVER, open("/dev/null", O_RDONLY | O_CLOEXEC)); /* it is closed */
    assert_true(descriptors_open() <= descriptors);
    close(end);
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

static void test_a_driver_that_is_refused_is_the_end(void **state) {
    (void)state;
    job_begin();
    node_client_refuse(JOB(n)->driver, MOB_ELIMIT, "a test");
    assert_null(JOB(n)->driver);
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
    assert_int_equal(packets_count(pair[1], WIRE_REFUSED), 1); /* it hears why, */
    assert_int_equal(recv(pair[1], &byte, 1, 0), 0);           /* and that is the end */
    close(pair[1]);
}

/* Its socket tells of its end too. */
static void test_a_driver_whose_process_can_not_be_watched(void **state) {
    (void)state;
    job_begin();
    int kept = epoll_hide();
    node_client_welcome(JOB(n)->driver);
    epoll_show(kept);
    assert_int_equal(JOB(n)->driver->state, NODE_LIVE);
    shutdown(driver_end, SHUT_RDWR);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_true(n->ending);
}

/* A zygote that can fork: the next look asks for spares. */
static void session_begin(void) {
    job_begin();
    JOB(n)->setup->zygote.next = NULL;
    JOB(n)->setup->zygote.client = zygote;
    node_pool_first(JOB(n))->spares_wanted = true;
}

/* It is not asked for, and its pipes are closed; when they can be watched, others are. */
static void test_a_worker_whose_output_can_not_be_watched(void **state) {
    (void)state;
    session_begin();
    size_t connections = n->connections.count, descriptors = descriptors_open();
    int kept = epoll_hide();
    node_schedule(n);
    epoll_show(kept);
    assert_int_equal(node_pool_first(JOB(n))->starting.count, 0);
    assert_int_equal(node_pool_first(JOB(n))->failures, 1);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), 0);
    assert_int_equal(n->connections.count, connections);
    assert_int_equal(descriptors_open(), descriptors);
    node_pool_first(JOB(n))->spares_wanted = true;
    node_schedule(n);
    assert_int_equal(node_pool_first(JOB(n))->starting.count, CPUS);
    assert_int_equal(packets_count(zygote_end, WIRE_FORK), CPUS);
}

/* It has connected, and its socket can't move over to the one that was asked for: that counts as
 * one that did not come. */
static void test_a_worker_that_can_not_be_watched(void **state) {
    (void)state;
    session_begin();
    node_schedule(n);
    assert_int_equal(node_pool_first(JOB(n))->starting.count, CPUS);
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
    node_worker_hello(c, node_pool_first(JOB(n))->starting.items[0]->token);
    epoll_show(kept);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_int_equal(node_pool_first(JOB(n))->starting.count, CPUS - 1);
    assert_int_equal(node_pool_first(JOB(n))->failures, 1);
    assert_int_equal(n->connections.count, connections - 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(recv(end, &byte, 1, 0), 0); /* it hears of it */
    close(end);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_driver_that_is_refused_is_the_end),
        TEST(test_spares_once_the_zygote_is_ready),
        TEST(test_a_large_setup_is_read),
        TEST(test_a_setup_that_makes_no_sense),
        TEST(test_a_setup_of_garbage),
        TEST(test_another_driver_is_refused_by_a_private_session),
        TEST(test_another_release_is_refused),
        TEST(test_a_hello_that_is_too_long),
        TEST(test_descriptors_of_those_who_may_give_none),
        TEST(test_a_file_is_no_connection),
        TEST(test_a_connection_that_can_not_be_watched_is_closed),
        TEST(test_a_driver_whose_process_can_not_be_watched),
        TEST(test_a_worker_whose_output_can_not_be_watched),
        TEST(test_a_worker_that_can_not_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
