/* Reading the direct encoding: what was written comes back, and bytes of any kind do no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "mobula_task.h"

static void test_all_kinds(void **state) {
    (void)state;
    mob_writer_t w = {0};
    mob_item_t item, inner;
    const void *data;
    size_t size;
    mob_write_none(&w);
    mob_write_bool(&w, true);
    mob_write_bool(&w, false);
    mob_write_int(&w, INT64_MIN);
    mob_write_float(&w, -0.25);
    mob_write_str(&w, "ray", 3);
    mob_write_bytes(&w, "\0\1", 2);
    mob_write_tuple(&w, 2);
    mob_write_tuple(&w, 0);
    mob_write_int(&w, 7);
    assert_int_equal(w.count, 8);
    assert_int_equal(mob_writer_finish(&w, &data, &size), MOB_OK);
    mob_reader_t r = {.at = data, .end = (const uint8_t *)data + size};
    const int tags[] = {MOB_NONE,  MOB_TRUE, MOB_FALSE, MOB_INT,
                        MOB_FLOAT, MOB_STR,  MOB_BYTES, MOB_TUPLE};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(mob_read(&r, &item), MOB_OK);
        assert_int_equal(item.tag, tags[i]);
        if (item.tag == MOB_TRUE) assert_int_equal(item.integer, 1);
        if (item.tag == MOB_INT) assert_true(item.integer == INT64_MIN);
        if (item.tag == MOB_FLOAT) assert_true(item.real == -0.25);
        if (item.tag == MOB_STR) assert_memory_equal(item.data, "ray", 3);
        if (item.tag == MOB_BYTES) assert_int_equal(item.size, 2);
    }
    assert_int_equal(item.count, 2);
    assert_int_equal(mob_read(&item.items, &inner), MOB_OK);
    assert_int_equal(inner.tag, MOB_TUPLE);
    assert_int_equal(inner.count, 0);
    assert_int_equal(mob_read(&item.items, &inner), MOB_OK);
    assert_int_equal(inner.integer, 7);
    assert_int_equal(mob_read(&item.items, &inner), MOB_EPROTO);
    assert_ptr_equal(r.at, r.end);
    assert_int_equal(mob_read(&r, &item), MOB_EPROTO);
    mob_writer_fini(&w);
}

/* In memory of exactly that size, so that a sanitizer sees a read beyond it. */
static void read_all(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, bytes, size);
    mob_reader_t r = {.at = exact, .end = exact + size};
    mob_item_t item;
    volatile uint64_t seen = 0;
    while (r.at < r.end) {
        const uint8_t *before = r.at;
        if (mob_read(&r, &item) != MOB_OK) {
            assert_ptr_equal(r.at, before);
            break;
        }
        assert_true(r.at > before && r.at <= r.end);
        if (item.tag == MOB_STR || item.tag == MOB_BYTES)
            for (uint64_t i = 0; i < item.size; i++) seen += ((const uint8_t *)item.data)[i];
        if (item.tag != MOB_TUPLE) continue;
        mob_item_t inner;
        for (uint32_t i = 0; i < item.count; i++)
            assert_int_equal(mob_read(&item.items, &inner), MOB_OK);
        assert_ptr_equal(item.items.at, item.items.end);
    }
    free(exact);
}

static void test_garbage(void **state) {
    (void)state;
    uint8_t bytes[64];
    for (int round = 0; round < 300000; round++) {
        size_t size = next_random() % sizeof bytes;
        for (size_t i = 0; i < size; i++)
            bytes[i] = next_random() % 3 ? (uint8_t)(next_random() % 9) : (uint8_t)next_random();
        read_all(bytes, size);
    }
}

static void test_cut_short_and_changed(void **state) {
    (void)state;
    mob_writer_t w = {0};
    const void *data;
    size_t size;
    mob_write_tuple(&w, 3);
    mob_write_str(&w, "text", 4);
    mob_write_tuple(&w, 2);
    mob_write_int(&w, 1);
    mob_write_float(&w, 2);
    mob_write_bytes(&w, "bytes", 5);
    assert_int_equal(mob_writer_finish(&w, &data, &size), MOB_OK);
    uint8_t changed[128];
    for (size_t cut = 0; cut < size; cut++) {
        mob_reader_t r = {.at = data, .end = (const uint8_t *)data + cut};
        mob_item_t item;
        assert_int_equal(mob_read(&r, &item), MOB_EPROTO);
        read_all(data, cut);
        for (int value = 0; value < 256; value++) {
            memcpy(changed, data, size);
            changed[cut] = (uint8_t)value;
            read_all(changed, size);
        }
    }
    mob_writer_fini(&w);
}

/* A million tuples, each inside the last. */
static void test_deep(void **state) {
    (void)state;
    enum { DEPTH = 1000000 };
    mob_writer_t w = {0};
    const void *data;
    size_t size;
    for (int i = 0; i < DEPTH; i++) mob_write_tuple(&w, 1);
    assert_int_equal(mob_writer_finish(&w, &data, &size), MOB_EINVAL);
    mob_write_none(&w);
    assert_int_equal(mob_writer_finish(&w, &data, &size), MOB_OK);
    assert_int_equal(w.count, 1);
    mob_reader_t r = {.at = data, .end = (const uint8_t *)data + size};
    mob_item_t item;
    assert_int_equal(mob_read(&r, &item), MOB_OK);
    assert_ptr_equal(r.at, r.end);
    mob_writer_fini(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_cut_short_and_changed),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
