/* What workers print: whole lines, and pieces of those that have no end, under the name that was
 * announced, to a driver that reads its socket. */
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
    driver = fixture_client_new(n, WIRE_DRIVER);
    worker = fixture_client_new(n, WIRE_WORKER);
    JOB(n)->driver = driver;
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
    JOB(n)->driver = NULL;
    close(far_end);
    fixture_node_free(n);
    return 0;
}

static void print(const char *text, size_t size) {
    assert_int_equal(write(printer, text, size), size);
    uv_run(&n->loop, UV_RUN_NOWAIT);
}

static void print_text(const char *text) { print(text, strlen(text)); }

static bool unfinished; /* of the packet that was read last */

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
    assert_int_equal(sizeof head + head.name_size + head.address_size + head.text_size, size);
    assert_true(head.name_size > 0 && head.name_size <= 256 && head.text_size < capacity);
    assert_int_equal(packet[sizeof head + head.name_size - 1], 0);
    strcpy(ret_name, packet + sizeof head);
    memcpy(ret_text, packet + sizeof head + head.name_size + head.address_size, head.text_size);
    ret_text[head.text_size] = 0;
    unfinished = head.unfinished;
    return true;
}

/* The next lines, in one piece or in several: this process may have stood still for a while. */
static void expect(const char *name, const char *text) {
    char got_name[256], got_text[65536];
    size_t size = 0;
    do {
        assert_true(text_next(got_name, got_text + size, sizeof got_text - size));
        assert_string_equal(got_name, name);
        size += strlen(got_text + size);
    } while (unfinished);
    assert_string_equal(got_text, text);
}

/* Sleeps until the timer for lines without an end has gone off. */
static void expect_piece(const char *name, const char *text) {
    char got_name[256], got_text[65536];
    assert_true(uv_is_active((uv_handle_t *)&n->texts.timer));
    uv_run(&n->loop, UV_RUN_ONCE);
    assert_true(text_next(got_name, got_text, sizeof got_text));
    assert_string_equal(got_name, name);
    assert_string_equal(got_text, text);
    assert_true(unfinished);
    assert_false(uv_is_active((uv_handle_t *)&n->texts.timer));
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

static void test_a_line_without_an_end_comes_in_pieces(void **state) {
    (void)state;
    print_text("\1dots\n.");
    expect_nothing();
    expect_piece("dots", ".");
    print_text("..");
    expect_piece("dots", "..");
    print_text(".\n");
    expect("dots", ".");
    print_text("\r 10 %");
    expect_piece("dots", "\r 10 %");
    print_text("\n");
    expect("dots", ""); /* nothing but its end */
    expect_nothing();
}

static void test_a_piece_ends_between_characters(void **state) {
    (void)state;
    print_text("caf\xc3");
    expect_piece("", "caf"); /* and no timer runs for the rest */
    print_text("\xa9");
    expect_piece("", "\xc3\xa9");
    print_text("\xf0\x9f\x90\n"); /* no character at all: it is as it is */
    expect("", "\xf0\x9f\x90");
}

static void test_another_name_ends_an_open_line(void **state) {
    (void)state;
    print_text("\1first\nhalf");
    expect_piece("first", "half");
    print_text("\1second\nwhole\n");
    expect("first", "");
    expect("second", "whole");
    print_text("\1second\nhalf");
    expect_piece("second", "half");
    close(printer);
    printer = -1;
    uv_run(&n->loop, UV_RUN_NOWAIT);
    expect("second", ""); /* so does the stream's end */
}

/* Prints so many bytes without an end, and reads what is sent meanwhile; how much that is. */
static size_t print_long(size_t size) {
    static char much[60000], name[256], got[65536];
    memset(much, 'y', sizeof much);
    size_t sent = 0;
    for (size_t left = size; left > 0;) {
        size_t part = left < sizeof much ? left : sizeof much;
        print(much, part);
        left -= part;
        for (bool more = true; more; uv_run(&n->loop, UV_RUN_NOWAIT)) {
            more = driver->outbox.count > 0;
            while (text_next(name, got, sizeof got)) sent += strlen(got);
        }
    }
    return sent;
}

/* Reads until a line has ended; how long what was read of it is. */
static size_t line_read(void) {
    static char name[256], got[65536];
    size_t size = 0;
    do {
        while (!text_next(name, got, sizeof got)) uv_run(&n->loop, UV_RUN_NOWAIT);
        assert_null(strchr(got, '\n'));
        size += strlen(got);
    } while (unfinished);
    return size;
}

static void test_a_long_line_comes_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(print_long(16 << 20), 0); /* nothing before its end */
        print_text("\n");
        assert_int_equal(line_read(), 16 << 20);
        assert_int_equal(n->texts.bytes, 0);
    }
    expect_nothing();
}

static void test_a_line_that_is_too_long_is_cut(void **state) {
    (void)state;
    size_t sent = print_long(50 << 20);
    assert_true(sent >= 32 << 20 && n->texts.bytes <= 16 << 20);
    print_text("\n");
    assert_int_equal(sent + line_read(), 50 << 20);
    n->texts.bytes += 64 << 20; /* as if other streams had so much */
    assert_true(print_long(60000) == 60000);
    n->texts.bytes -= 64 << 20;
    print_text("\n");
    assert_int_equal(line_read(), 0);
}

static void test_a_long_line_that_stands_still_comes_in_pieces(void **state) {
    (void)state;
    size_t sent = print_long(100000);
    assert_int_equal(sent, 0);
    static char name[256], got[65536];
    while (sent < 100000) {
        uv_run(&n->loop, UV_RUN_ONCE);
        while (text_next(name, got, sizeof got)) sent += strlen(got);
    }
    assert_true(unfinished && sent == 100000);
    assert_false(uv_is_active((uv_handle_t *)&n->texts.timer));
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
    JOB(n)->setup->given.log_to_driver = false;
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
            total += strlen(got) + !unfinished;
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
        cmocka_unit_test_setup_teardown(test_a_line_without_an_end_comes_in_pieces, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_piece_ends_between_characters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_name_ends_an_open_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_line_comes_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_that_is_too_long_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_line_that_stands_still_comes_in_pieces, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_rest_comes_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_descriptor_outlives_its_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_sent_to_a_driver_that_wants_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_driver_that_does_not_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
