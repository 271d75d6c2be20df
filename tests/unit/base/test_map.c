/* A map against a plain list of pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/random.h"

enum { KEYS = 200, STEPS = 200000 };

static int values[KEYS];

static void random_steps(size_t key_size) {
    base_map_t map;
    base_map_init(&map, key_size);
    base_random_t random = {key_size};
    int *model[KEYS] = {NULL};
    size_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t number = base_random_below(&random, KEYS);
        uint8_t key[BASE_MAP_KEY_MAX] = {0};
        key[0] = (uint8_t)number;
        key[key_size - 1] ^= (uint8_t)(number * 7);
        if (base_random_chance(&random, 1, 2)) {
            int *value = &values[base_random_below(&random, KEYS)];
            count += model[number] == NULL;
            model[number] = value;
            assert_true(base_map_put(&map, key, value));
        } else {
            assert_ptr_equal(base_map_remove(&map, key), model[number]);
            count -= model[number] != NULL;
            model[number] = NULL;
        }
        assert_int_equal(map.count, count);
        assert_ptr_equal(base_map_get(&map, key), model[number]);
    }
    size_t cursor = 0, seen = 0;
    const void *key;
    void *value;
    while (base_map_each(&map, &cursor, &key, &value)) {
        assert_ptr_equal(value, model[((const uint8_t *)key)[0]]);
        seen++;
    }
    assert_int_equal(seen, count);
    base_map_fini(&map);
}

static void test_random_steps(void **state) {
    (void)state;
    random_steps(2);
    random_steps(8);
    random_steps(20);
    random_steps(BASE_MAP_KEY_MAX);
}

static void test_an_empty_map(void **state) {
    (void)state;
    base_map_t map;
    base_map_init(&map, 4);
    assert_null(base_map_get(&map, "abcd"));
    assert_null(base_map_remove(&map, "abcd"));
    size_t cursor = 0;
    const void *key;
    void *value;
    assert_false(base_map_each(&map, &cursor, &key, &value));
    base_map_fini(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_steps),
        cmocka_unit_test(test_an_empty_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
