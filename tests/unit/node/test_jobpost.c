/* What nodes say to each other of jobs: it is read as it was written, and what makes no sense is
 * not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "node/cluster/jobpost.h"
#include "wire/setup.h"

static uint8_t message[JOBPOST_HEAD_MAX + 4096];

static base_reader_t reader_of(size_t size, node_jobpost_kind_t kind) {
    base_reader_t r = {.at = message, .left = size};
    assert_int_equal(node_jobpost_kind(&r), kind);
    return r;
}

static void test_pieces(void **state) {
    (void)state;
    static const char text[] = "what a driver gives";
    node_jobpiece_t given = {.job = {.home = UINT64_MAX - 1, .number = 7},
                             .shown = 0x01020304,
                             .name = "123456789abcdef",
                             .total = 1000,
                             .offset = 11,
                             .bytes = text,
                             .size = sizeof text};
    for (int environment = 0; environment < 2; environment++) {
        node_jobpiece_t got;
        size_t size = node_jobpiece_head(environment, &given, message);
        assert_true(size <= JOBPOST_HEAD_MAX);
        memcpy(message + size, text, sizeof text);
        size += sizeof text;
        base_reader_t r = reader_of(size, environment ? JOBPOST_ENVIRONMENT : JOBPOST_SETUP);
        assert_true(node_jobpiece_read(environment, &r, &got));
        assert_int_equal(got.job.home, given.job.home);
        assert_int_equal(got.job.number, 7);
        assert_int_equal(got.total, 1000);
        assert_int_equal(got.offset, 11);
        assert_int_equal(got.size, sizeof text);
        assert_memory_equal(got.bytes, text, sizeof text);
        if (environment)
            assert_memory_equal(got.name, given.name, sizeof got.name);
        else
            assert_int_equal(got.shown, given.shown);
    }
}

static bool piece_is_read(node_jobpiece_t given) {
    node_jobpiece_t got;
    size_t size = node_jobpiece_head(false, &given, message);
    memset(message + size, 1, given.size);
    base_reader_t r = reader_of(size + given.size, JOBPOST_SETUP);
    return node_jobpiece_read(false, &r, &got);
}

static void test_pieces_beyond_the_whole(void **state) {
    (void)state;
    node_jobpiece_t good = {.job = {1, 1}, .total = 100, .offset = 90, .size = 10}, bad = good;
    assert_true(piece_is_read(good));
    bad.size = 11;
    assert_false(piece_is_read(bad));
    bad.size = 0;
    assert_false(piece_is_read(bad));
    bad = good, bad.offset = 101;
    assert_false(piece_is_read(bad));
    bad = good, bad.offset = UINT32_MAX;
    assert_false(piece_is_read(bad));
    bad = good, bad.total = WIRE_SETUP_MAX + 1;
    assert_false(piece_is_read(bad));
    bad = good, bad.job.home = 0;
    assert_false(piece_is_read(bad));
}

static void test_ends(void **state) {
    (void)state;
    static const uint8_t living[] = {1, 0, 0, 0, 0, 1, 0, 0};
    node_jobends_t given = {.made = 300, .count = 2}, got;
    size_t size = node_jobends_head(&given, message);
    memcpy(message + size, living, sizeof living);
    base_reader_t r = reader_of(size + sizeof living, JOBPOST_ENDS);
    assert_true(node_jobends_read(&r, &got));
    assert_int_equal(got.made, 300);
    assert_int_equal(node_jobends_at(&got, 0), 1);
    assert_int_equal(node_jobends_at(&got, 1), 256);
    for (size_t cut = 0; cut < sizeof living; cut++) {
        r = reader_of(size + cut, JOBPOST_ENDS);
        assert_false(node_jobends_read(&r, &got));
    }
    given.count = UINT32_MAX;
    size = node_jobends_head(&given, message);
    r = reader_of(size, JOBPOST_ENDS);
    assert_false(node_jobends_read(&r, &got));
}

static size_t print_write(const node_print_t *given, size_t name_size) {
    size_t size = node_jobprint_head((frame_job_t){5, 6}, given, message);
    memcpy(message + size, given->name, name_size);
    memcpy(message + size + name_size, given->text, given->size);
    return size + name_size + given->size;
}

static void test_prints(void **state) {
    (void)state;
    node_print_t given = {.kind = MOB_MESSAGE_ERR,
                          .pid = 4711,
                          .name = "work",
                          .text = "one\ntwo",
                          .size = 7,
                          .unfinished = true},
                 got;
    frame_job_t job;
    size_t size = print_write(&given, 5);
    base_reader_t r = reader_of(size, JOBPOST_PRINT);
    assert_true(node_jobprint_read(&r, &job, &got));
    assert_int_equal(job.home, 5);
    assert_int_equal(job.number, 6);
    assert_int_equal(got.kind, MOB_MESSAGE_ERR);
    assert_int_equal(got.pid, 4711);
    assert_true(got.unfinished);
    assert_string_equal(got.name, "work");
    assert_int_equal(got.size, 7);
    assert_memory_equal(got.text, "one\ntwo", 7);
    message[size - 8] = 'x'; /* the name has no end */
    r = reader_of(size, JOBPOST_PRINT);
    assert_false(node_jobprint_read(&r, &job, &got));
    given.kind = MOB_MESSAGE_UNHANDLED + 1;
    r = reader_of(print_write(&given, 5), JOBPOST_PRINT);
    assert_false(node_jobprint_read(&r, &job, &got));
}

/* Whatever it is, what is read lies within it. */
static void test_anything(void **state) {
    (void)state;
    for (int turn = 0; turn < 200000; turn++) {
        size_t size = next_random() % 80;
        uint8_t *bytes = malloc(size + 1); /* so that a sanitizer sees its end */
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(next_random() % 3 > 0 ? next_random() % 5 : next_random());
        base_reader_t r = {.at = bytes, .left = size}, again;
        node_jobpost_kind_t kind = node_jobpost_kind(&r);
        node_jobpiece_t piece;
        node_jobends_t ends;
        node_print_t print;
        frame_job_t job;
        again = r;
        if (node_jobpiece_read(kind == JOBPOST_ENVIRONMENT, &again, &piece))
            assert_true((const uint8_t *)piece.bytes + piece.size == bytes + size);
        again = r;
        if (node_jobends_read(&again, &ends))
            for (uint32_t i = 0; i < ends.count; i++) (void)node_jobends_at(&ends, i);
        again = r;
        if (node_jobprint_read(&again, &job, &print))
            assert_true((const uint8_t *)print.text + print.size == bytes + size &&
                        strlen(print.name) < NODE_NAME_BYTES);
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),   cmocka_unit_test(test_pieces_beyond_the_whole),
        cmocka_unit_test(test_ends),     cmocka_unit_test(test_prints),
        cmocka_unit_test(test_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
