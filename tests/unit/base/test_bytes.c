/* Numbers and bytes: what is written is read back, and what is not there is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"

static size_t all_put(base_writer_t *w) {
    base_put_number(w, 0x1234, 2);
    base_put_number(w, UINT64_MAX, 8);
    base_put_bytes(w, "abc", 3);
    base_put_number(w, 7, 1);
    return w->size;
}

static void reads_what_was_written(void **state) {
    (void)state;
    uint8_t bytes[32];
    base_writer_t count = {0}, writer = {.bytes = bytes};
    assert_int_equal(all_put(&count), 14);
    assert_int_equal(all_put(&writer), 14);
    assert_int_equal(bytes[0], 0x34); /* the low byte first */
    base_reader_t r = {.at = bytes, .left = 14};
    assert_int_equal(base_take_number(&r, 2), 0x1234);
    assert_true(base_take_number(&r, 8) == UINT64_MAX);
    assert_memory_equal(base_take_bytes(&r, 3), "abc", 3);
    assert_false(base_reader_is_done(&r));
    assert_int_equal(base_take_number(&r, 1), 7);
    assert_true(base_reader_is_done(&r));
}

static void says_what_is_not_there(void **state) {
    (void)state;
    const uint8_t bytes[3] = {1, 2, 3};
    base_reader_t r = {.at = bytes, .left = sizeof bytes};
    assert_int_equal(base_take_number(&r, 4), 0);
    assert_true(r.short_of);
    assert_null(base_take_bytes(&r, 1)); /* nothing is there any more after that */
    assert_false(base_reader_is_done(&r));
    r = (base_reader_t){.at = bytes, .left = sizeof bytes};
    assert_null(base_take_bytes(&r, SIZE_MAX));
    assert_true(r.short_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_was_written),
        cmocka_unit_test(says_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
