/* The growing array: what it keeps when it grows, and what it does without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/vec.h"

/* The address sanitizer ends a program that asks for too much, unless it is told that the program
 * copes. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static void test_push_keeps_all(void **state) {
    (void)state;
    VEC(uint32_t) v = {0};
    for (uint32_t i = 0; i < 100000; i++) assert_true(vec_push(&v, i * 7));
    assert_int_equal(v.count, 100000);
    assert_true(v.capacity >= v.count && v.capacity < 2 * v.count + 8);
    for (uint32_t i = 0; i < 100000; i++) assert_int_equal(v.items[i], i * 7);
    vec_free(&v);
}

static void test_pop_and_swap_remove(void **state) {
    (void)state;
    VEC(int) v = {0};
    for (int i = 0; i < 5; i++) assert_true(vec_push(&v, i));
    assert_int_equal(vec_pop(&v), 4);
    vec_swap_remove(&v, 1); /* 0 3 2 */
    assert_int_equal(v.count, 3);
    assert_int_equal(v.items[0], 0);
    assert_int_equal(v.items[1], 3);
    assert_int_equal(v.items[2], 2);
    vec_swap_remove(&v, 2); /* the last one removes itself */
    assert_int_equal(v.count, 2);
    assert_int_equal(vec_pop(&v), 3);
    vec_free(&v);
}

static void test_reserve_changes_nothing_visible(void **state) {
    (void)state;
    VEC(char) v = {0};
    assert_true(vec_reserve(&v, 0));
    assert_null(v.items);
    assert_true(vec_reserve(&v, 1000));
    assert_int_equal(v.count, 0);
    size_t capacity = v.capacity;
    char *items = v.items;
    assert_true(capacity >= 1000);
    assert_true(vec_reserve(&v, 1000));
    assert_ptr_equal(v.items, items);
    assert_int_equal(v.capacity, capacity);
    vec_free(&v);
}

static void test_impossible_size_is_refused(void **state) {
    (void)state;
    VEC(uint64_t) v = {0};
    assert_true(vec_push(&v, 5));
    size_t capacity = v.capacity;
    /* so many that the number of bytes does not fit into a size_t */
    assert_false(vec_reserve(&v, SIZE_MAX / 4));
    assert_int_equal(v.count, 1);
    assert_int_equal(v.capacity, capacity);
    assert_int_equal(v.items[0], 5);
    vec_free(&v);
}

static void test_free_leaves_an_empty_one(void **state) {
    (void)state;
    VEC(int) v = {0};
    vec_free(&v);
    assert_true(vec_push(&v, 1));
    vec_free(&v);
    assert_null(v.items);
    assert_int_equal(v.count, 0);
    assert_int_equal(v.capacity, 0);
    assert_true(vec_push(&v, 2));
    assert_int_equal(v.items[0], 2);
    vec_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_keeps_all),
        cmocka_unit_test(test_pop_and_swap_remove),
        cmocka_unit_test(test_reserve_changes_nothing_visible),
        cmocka_unit_test(test_impossible_size_is_refused),
        cmocka_unit_test(test_free_leaves_an_empty_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
