/* Arguments: the bytes that mobula.h describes, and what can't be an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "mobula_task.h"

static void test_bytes(void **state) {
    (void)state;
    mob_args_t a;
    mob_task_t task = {0};
    mob_args_init(&a);
    mob_write_bool(&a.values, true);
    mob_args_ref(&a, (mob_ref_t){.slot = 5, .generation = 6});
    mob_args_keyword(&a, "k");
    mob_write_none(&a.values);
    mob_args_keyword(&a, "r");
    mob_args_ref(&a, (mob_ref_t){.slot = 7, .generation = 8});
    assert_int_equal(mob_args_finish(&a, &task), MOB_OK);
    const uint8_t head[] = {2, 0, 0, 0, 2, 0, 0, 0, MOB_TRUE, MOB_ARG_DEP, 0, 0, 0, 0};
    const uint8_t rest[] = {MOB_STR, 1, 0, 0, 0, 0, 0, 0,   0,           'k', MOB_NONE, MOB_STR, 1,
                            0,       0, 0, 0, 0, 0, 0, 'r', MOB_ARG_DEP, 1,   0,        0,       0};
    assert_int_equal(task.args_size, sizeof head + sizeof rest);
    assert_memory_equal(task.args, head, sizeof head);
    assert_memory_equal((const uint8_t *)task.args + sizeof head, rest, sizeof rest);
    assert_int_equal(task.dep_count, 2);
    assert_int_equal(task.deps[1].slot, 7);
    mob_args_clear(&a);
    assert_int_equal(mob_args_finish(&a, &task), MOB_OK);
    assert_int_equal(task.args_size, 8);
    assert_int_equal(task.dep_count, 0);
    mob_args_fini(&a);
}

static void test_many(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    mob_args_t a;
    mob_task_t task = {0};
    uint32_t counts[2];
    mob_args_init(&a);
    for (uint32_t i = 0; i < COUNT; i++)
        mob_args_ref(&a, (mob_ref_t){.slot = i + 1, .generation = 1});
    assert_int_equal(mob_args_finish(&a, &task), MOB_OK);
    memcpy(counts, task.args, sizeof counts);
    assert_int_equal(counts[0], COUNT);
    assert_int_equal(task.dep_count, COUNT);
    assert_int_equal(task.deps[COUNT - 1].slot, COUNT);
    mob_args_fini(&a);
}

#define EXPECT_REFUSED(...)                                       \
    {                                                             \
        mob_args_t a;                                             \
        mob_task_t task = {0};                                    \
        mob_args_init(&a);                                        \
        __VA_ARGS__;                                              \
        assert_int_equal(mob_args_finish(&a, &task), MOB_EINVAL); \
        assert_true(strlen(mob_last_error()) > 10);               \
        mob_args_fini(&a);                                        \
    }

static void test_refused(void **state) {
    (void)state;
    EXPECT_REFUSED(mob_args_keyword(&a, "without"))
    EXPECT_REFUSED(mob_args_keyword(&a, "k"); mob_write_int(&a.values, 1);
                   mob_write_int(&a.values, 2))
    EXPECT_REFUSED(mob_args_keyword(&a, "a"); mob_args_keyword(&a, "b");
                   mob_write_int(&a.values, 2))
    EXPECT_REFUSED(mob_write_tuple(&a.values, 2); mob_write_int(&a.values, 1))
    EXPECT_REFUSED(mob_write_tuple(&a.values, 1); mob_args_ref(&a, (mob_ref_t){.slot = 1}))
    EXPECT_REFUSED(mob_write_tuple(&a.values, 1); mob_args_keyword(&a, "k");
                   mob_write_int(&a.values, 1))
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
