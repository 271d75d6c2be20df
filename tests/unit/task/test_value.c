/* Values and errors, of which the bytes may be anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "task/task.h"

static mob_value_t value_of(mob_writer_t *w) {
    const void *data;
    size_t size;
    assert_int_equal(mob_writer_finish(w, &data, &size), MOB_OK);
    return (mob_value_t){.data = data, .size = size, .format = MOB_FORMAT_DIRECT};
}

static void test_types(void **state) {
    (void)state;
    mob_writer_t w = {0};
    int64_t integer;
    double real;
    bool truth;
    const char *text;
    const void *data;
    uint64_t size;
    mob_write_int(&w, 3);
    mob_value_t value = value_of(&w);
    assert_int_equal(mob_value_int(&value, &integer), MOB_OK);
    assert_int_equal(integer, 3);
    assert_int_equal(mob_value_float(&value, &real), MOB_OK);
    assert_true(real == 3);
    assert_int_equal(mob_value_bool(&value, &truth), MOB_EINVAL);
    assert_int_equal(mob_value_str(&value, &text, &size), MOB_EINVAL);
    assert_string_equal(mob_last_error(), "the value is an int, and a str is needed");
    assert_int_equal(mob_value_buffer(&value, &data, &size), MOB_EINVAL);
    mob_writer_clear(&w);
    mob_write_bytes(&w, "abc", 3);
    value = value_of(&w);
    assert_int_equal(mob_value_buffer(&value, &data, &size), MOB_OK);
    assert_int_equal(size, 3);
    assert_int_equal(mob_value_int(&value, &integer), MOB_EINVAL);
    value.error = MOB_ETASK;
    assert_int_equal(mob_value_int(&value, &integer), MOB_EINVAL);
    mob_writer_fini(&w);
}

static void test_arrays(void **state) {
    (void)state;
    const char *dtypes[] = {"f8", "u1", NULL};
    for (int i = 0; i < 3; i++) {
        task_array_t a;
        assert_int_equal(task_array_plan(dtypes[i], 100, 8, &a), MOB_OK);
        uint8_t *bytes = aligned_alloc(64, (a.size + 63) / 64 * 64);
        double *numbers = task_array_write(&a, bytes);
        assert_int_equal((uintptr_t)numbers % 64, 0);
        for (int k = 0; k < 100; k++) numbers[k] = k;
        mob_value_t value = {.data = bytes, .size = a.size, .format = MOB_FORMAT_PICKLE};
        const void *data;
        uint64_t size;
        assert_int_equal(mob_value_buffer(&value, &data, &size), MOB_OK);
        assert_ptr_equal(data, numbers);
        assert_int_equal(size, 800);
        for (value.size = 0; value.size < a.size; value.size++)
            assert_int_equal(mob_value_buffer(&value, &data, &size), MOB_EINVAL);
        free(bytes);
    }
    task_array_t a;
    assert_int_equal(task_array_plan("", 1, 8, &a), MOB_EINVAL);
    assert_int_equal(task_array_plan("a dtype that is too long", 1, 8, &a), MOB_EINVAL);
    assert_int_equal(task_array_plan("f8", UINT64_MAX / 8, 8, &a), MOB_EINVAL);
    assert_int_equal(task_array_plan("f8", 1, 0, &a), MOB_EINVAL);
}

/* pickle.dumps(("f", "Traceback: ValueError: no", b"carried", 4711), 5) */
static const char pickled[] = "\x80\x05\x95\x34\0\0\0\0\0\0\0(\x8c\x01"
                              "f\x94\x8c\x19Traceback: ValueError: noC\x07"
                              "carried\x94Mg\x12t\x94.";

static void test_error_text(void **state) {
    (void)state;
    mob_writer_t w = {0};
    const char *text;
    uint64_t size;
    mob_write_bytes(&w, pickled, sizeof pickled - 1);
    mob_value_t value = value_of(&w);
    assert_int_equal(mob_error_text(&value, &text, &size), MOB_EINVAL);
    value.error = MOB_ETASK;
    assert_int_equal(mob_error_text(&value, &text, &size), MOB_OK);
    assert_int_equal(size, 25);
    assert_memory_equal(text, "Traceback: ValueError: no", 25);
    for (size_t cut = 0; cut < sizeof pickled - 1; cut++) {
        mob_writer_clear(&w);
        char *exact = malloc(cut + 1);
        memcpy(exact, pickled, cut);
        mob_write_bytes(&w, exact, cut);
        free(exact);
        value = value_of(&w);
        value.error = MOB_ETASK;
        if (mob_error_text(&value, &text, &size) == MOB_OK) assert_int_equal(size, 25);
    }
    mob_writer_clear(&w);
    mob_write_str(&w, "words", 5);
    value = value_of(&w);
    value.error = MOB_ECRASHED;
    assert_int_equal(mob_error_text(&value, &text, &size), MOB_OK);
    assert_memory_equal(text, "words", 5);
    mob_writer_fini(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_error_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
