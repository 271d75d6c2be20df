/* Values and errors, of which the bytes may be anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <stdio.h>

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

/* ("Traceback: ValueError: no", b"carried") */
static void error_write(mob_writer_t *w) {
    mob_write_tuple(w, 2);
    mob_write_str(w, "Traceback: ValueError: no", 25);
    mob_write_bytes(w, "carried", 7);
}

static void test_error_text(void **state) {
    (void)state;
    mob_writer_t w = {0};
    const char *text;
    uint64_t size;
    error_write(&w);
    mob_value_t value = value_of(&w);
    assert_int_equal(mob_error_text(&value, &text, &size), MOB_EINVAL);
    value.error = MOB_ETASK;
    assert_int_equal(mob_error_text(&value, &text, &size), MOB_OK);
    assert_int_equal(size, 25);
    assert_memory_equal(text, "Traceback: ValueError: no", 25);
    for (uint64_t cut = 0; cut < 5 + 9 + 25; cut++) {
        char *exact = malloc(cut + 1);
        memcpy(exact, value.data, cut);
        mob_value_t part = {.data = exact, .size = cut, .error = MOB_ETASK};
        assert_int_equal(mob_error_text(&part, &text, &size), MOB_EPROTO);
        free(exact);
    }
    mob_writer_clear(&w);
    mob_write_str(&w, "words", 5);
    value = value_of(&w);
    value.error = MOB_ECRASHED;
    assert_int_equal(mob_error_text(&value, &text, &size), MOB_OK);
    assert_memory_equal(text, "words", 5);
    mob_writer_fini(&w);
}

/* The words of the error of a run whose argument is the error `value`. */
static uint64_t link_of(mob_value_t *value, const char *title, char *ret_words) {
    uint64_t size, words_size;
    const char *words;
    void *linked = task_error_link(value, title, strlen(title), &size);
    assert_non_null(linked);
    free((void *)value->data);
    *value = (mob_value_t){.data = linked, .size = size, .error = value->error};
    assert_int_equal(mob_error_text(value, &words, &words_size), MOB_OK);
    memcpy(ret_words, words, words_size);
    ret_words[words_size] = 0;
    return words_size;
}

static void test_a_failed_argument_names_the_chain(void **state) {
    (void)state;
    char words[16384], title[16], left_out[64];
    mob_writer_t w = {0};
    error_write(&w);
    mob_value_t value = value_of(&w);
    void *copy = malloc(value.size);
    memcpy(copy, value.data, value.size);
    value.data = copy;
    value.error = MOB_ETASK;
    link_of(&value, "train", words);
    assert_ptr_equal(strstr(words, "ray::train() (pid="), words);
    assert_non_null(strstr(words, TASK_LINK "ray.exceptions.RayTaskError: Traceback: "));
    /* what Python has beside the words is still there */
    assert_memory_equal((const char *)value.data + value.size - 7, "carried", 7);
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        snprintf(title, sizeof title, "link_%d", i);
        last = link_of(&value, title, words);
    }
    /* a long chain has its ends, and its length is bounded */
    assert_true(last < 3000);
    assert_ptr_equal(strstr(words, "ray::link_99() (pid="), words);
    assert_non_null(strstr(words, "ray::train() (pid="));
    assert_null(strstr(words, "ray::link_98()"));
    assert_memory_equal(words + last - 25, "Traceback: ValueError: no", 25);
    snprintf(left_out, sizeof left_out, "(%d tasks in between are left out)", 101 - 16);
    assert_non_null(strstr(words, left_out));
    free((void *)value.data);
    mob_writer_fini(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_error_text),
        cmocka_unit_test(test_a_failed_argument_names_the_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
