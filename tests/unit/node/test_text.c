/* What workers print: whole lines, under the name that was announced, to a driver that reads its
 * socket. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static node_t *n;
static node_client_t *driver, *worker;
static int far_end, printer;

static int setup(void **state) {
    (void)state;
    n = fixture_node_new(16 * SHM_GRANULE);
    n->config.log_to_driver = true;
    driver = fixture_client_new(n, WIRE_DRIVER);
    worker = fixture_client_new(n, WIRE_WORKER);
    n->driver = driver;
    worker->pid = 0;
    int pair[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(node_client_attach(driver, pair[0]), MOB_OK);
    far_end = pair[1];
    printer = pipes[1];
    assert_int_equal(node_stream_open(worker, &worker->out, pipes[0], MOB_MESSAGE_OUT), MOB_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    if (printer >= 0) close(printer);
    n->driver = NULL;
    close(far_end);
    fixture_node_free(n);
    return 0;
}

static void print(const char *text, size_t size) {
    assert_int_equal(write(printer, text, size), size);
    uv_run(&n->loop, UV_RUN_NOWAIT);
}

static void print_text(const char *text) { print(text, strlen(text)); }

/* The next packet's name and text; false if there is none. */
static bool text_next(char *ret_name, char *ret_text, size_t capacity) {
    static char packet[WIRE_PACKET_MAX];
    ssize_t size = recv(far_end, packet, sizeof packet, MSG_DONTWAIT);
    if (size < 0) return false;
    wire_text_t head;
    assert_true(size >= (ssize_t)sizeof head);
    memcpy(&head, packet, sizeof head);
    assert_int_equal(head.packet.magic, WIRE_MAGIC);
    assert_int_equal(head.packet.kind, WIRE_TEXT);
    assert_int_equal(sizeof head + head.name_size + head.text_size, size);
    assert_true(head.name_size > 0 && head.name_size <= 256 && head.text_size < capacity);
    assert_int_equal(packet[sizeof head + head.name_size - 1], 0);
    strcpy(ret_name, packet + sizeof head);
    memcpy(ret_text, packet + sizeof head + head.name_size, head.text_size);
    ret_text[head.text_size] = 0;
    return true;
}

static void expect(const char *name, const char *text) {
    char got_name[256], got_text[65536];
    assert_true(text_next(got_name, got_text, sizeof got_text));
    assert_string_equal(got_name, name);
    assert_string_equal(got_text, text);
}

static void expect_nothing(void) {
    char name[256], text[65536];
    assert_false(text_next(name, text, sizeof text));
}

static void test_whole_lines(void **state) {
    (void)state;
    print_text("one\ntwo\n");
    expect("", "one\ntwo");
    print_text("three");
    expect_nothing();
    print_text(" and four\nfive");
    expect("", "three and four");
    expect_nothing();
    print_text("\n");
    expect("", "five");
    print_text("\n\n");
    expect("", "\n"); /* two empty lines */
}

static void test_names_are_announced(void **state) {
    (void)state;
    print_text("\1first\nhello\n");
    expect("first", "hello");
    print_text("again\n\1second\nworld\n");
    expect("first", "again");
    expect("second", "world");
    print_text("half a line\1third\nrest\n"); /* a change of name ends the line */
    expect("second", "half a line");
    expect("third", "rest");
    print_text("\1\nnameless\n");
    expect("", "nameless");
}

static void test_a_name_in_pieces(void **state) {
    (void)state;
    print_text("\1fi");
    print_text("rst");
    expect_nothing();
    print_text("\nx\n");
    expect("first", "x");
}

static void test_a_long_name_is_cut(void **state) {
    (void)state;
    char text[1000] = "\1";
    memset(text + 1, 'n', 600);
    strcpy(text + 601, "\nx\n");
    print_text(text);
    char name[256], got[100];
    assert_true(text_next(name, got, sizeof got));
    assert_int_equal(strlen(name), 255);
    assert_string_equal(got, "x");
}

static void test_lines_without_an_end(void **state) {
    (void)state;
    static char much[60000], name[256], got[65536];
    memset(much, 'y', sizeof much);
    size_t total = 0;
    for (int i = 0; i < 5; i++) print(much, sizeof much);
    while (text_next(name, got, sizeof got)) total += strlen(got);
    assert_true(total > 200000); /* does not wait for ever for the line's end */
    close(printer);
    printer = -1;
    uv_run(&n->loop, UV_RUN_NOWAIT);
    for (int i = 0; i < 10; i++) {
        while (text_next(name, got, sizeof got)) total += strlen(got);
        uv_run(&n->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(total, 300000);
}

static void test_the_rest_comes_at_the_end(void **state) {
    (void)state;
    print_text("\1last\nwithout a line's end");
    expect_nothing();
    close(printer);
    printer = -1;
    uv_run(&n->loop, UV_RUN_NOWAIT);
    expect("last", "without a line's end");
    assert_false(worker->out.live);
}

/* libuv knows a handle by its descriptor's number: a handle that is closed after that number was
 * given to a new connection takes the connection out of the set that is polled, and nobody ever
 * hears it. */
static void test_a_descriptor_outlives_its_handle(void **state) {
    (void)state;
    int number = worker->out.fd;
    close(printer);
    printer = -1;
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_false(worker->out.live);
    assert_true(fcntl(number, F_GETFD) >= 0); /* at an end, but its handle is open */
    node_client_close(worker);
    assert_true(fcntl(number, F_GETFD) >= 0);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_int_equal(fcntl(number, F_GETFD), -1);
}

static void test_nothing_is_sent_to_a_driver_that_wants_none(void **state) {
    (void)state;
    n->config.log_to_driver = false;
    print_text("\1x\nhello\n");
    expect_nothing();
    node_warn(n, "a %s comes all the same", "warning");
    expect("", "a warning comes all the same");
}

static void test_a_driver_that_does_not_read(void **state) {
    (void)state;
    static char much[32768];
    memset(much, 'z', sizeof much);
    for (size_t i = 99; i < sizeof much; i += 100) much[i] = '\n';
    fcntl(printer, F_SETFL, O_NONBLOCK);
    size_t printed = 0;
    ssize_t wrote = 0;
    /* until the pipe is full: nobody reads it any more */
    for (int i = 0; i < 5000 && wrote >= 0; i++) {
        wrote = write(printer, much, sizeof much);
        if (wrote > 0) printed += (size_t)wrote;
        uv_run(&n->loop, UV_RUN_NOWAIT);
    }
    assert_true(worker->out.paused);
    assert_true(driver->outbox_bytes < 16 << 20);
    static char name[256], got[65536];
    size_t total = 0;
    for (int idle = 0; idle < 10;) {
        if (text_next(name, got, sizeof got)) {
            total += strlen(got) + 1;
            idle = 0;
        } else {
            uv_run(&n->loop, UV_RUN_NOWAIT);
            idle++;
        }
    }
    assert_false(worker->out.paused);
    assert_true(total + 200 > printed && total <= printed + 1);
    assert_int_equal(driver->outbox.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_are_announced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_name_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_name_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_without_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_rest_comes_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_descriptor_outlives_its_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_sent_to_a_driver_that_wants_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_driver_that_does_not_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
