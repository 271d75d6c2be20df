/* Writing the direct encoding: the bytes that mobula.h describes, counted beyond the end and never
 * written there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "mobula.h"
#include "wire/direct.h"

static void write_all(wire_writer_t *w) {
    wire_write_tuple(w, 3);
    wire_write_int(w, -2);
    wire_write_float(w, 0.5);
    wire_write_str(w, "ray", 3);
}

enum { ALL_SIZE = 5 + 9 + 9 + 9 + 3 };

static void test_bytes(void **state) {
    (void)state;
    uint8_t data[64];
    wire_writer_t w = {.data = data, .capacity = sizeof data};
    write_all(&w);
    const uint8_t expected[ALL_SIZE] = {
        MOB_TUPLE, 3,    0,         0, 0, MOB_INT, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff,      0xff, MOB_FLOAT, 0, 0, 0,       0,    0,    0,    0xe0, 0x3f, MOB_STR,
        3,         0,    0,         0, 0, 0,       0,    0,    'r',  'a',  'y'};
    assert_int_equal(w.size, ALL_SIZE);
    assert_memory_equal(data, expected, ALL_SIZE);
}

static void test_counts_beyond_capacity(void **state) {
    (void)state;
    for (size_t capacity = 0; capacity <= ALL_SIZE; capacity++) {
        uint8_t data[ALL_SIZE + 16], whole[64];
        memset(data, 0xaa, sizeof data);
        wire_writer_t full = {.data = whole, .capacity = sizeof whole},
                      w = {.data = data, .capacity = capacity};
        write_all(&full);
        write_all(&w);
        assert_int_equal(w.size, ALL_SIZE);
        for (size_t i = capacity; i < sizeof data; i++) assert_int_equal(data[i], 0xaa);
        if (capacity == ALL_SIZE) assert_memory_equal(data, whole, ALL_SIZE);
    }
}

static void test_counting_needs_no_memory(void **state) {
    (void)state;
    wire_writer_t w = {0};
    write_all(&w);
    assert_int_equal(w.size, ALL_SIZE);
}

static void test_empty_string(void **state) {
    (void)state;
    uint8_t data[16];
    wire_writer_t w = {.data = data, .capacity = sizeof data};
    wire_write_str(&w, "", 0);
    assert_int_equal(w.size, 9);
    assert_int_equal(data[0], MOB_STR);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_counts_beyond_capacity),
        cmocka_unit_test(test_counting_needs_no_memory),
        cmocka_unit_test(test_empty_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
