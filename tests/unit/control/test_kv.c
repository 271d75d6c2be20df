/* Values by key: in order, by beginnings, added to, and bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/control.h"

/* What came of a request: the count, and the keys and values one after the other. */
static struct {
    int calls;
    mob_status_t status;
    uint64_t count;
    char text[256];
} last;

static void on_reply(void *context, const control_kv_reply_t *reply) {
    assert_ptr_equal(context, &last);
    last.calls++;
    last.status = reply->status;
    last.count = reply->count;
    size_t used = 0;
    for (uint64_t i = 0; reply->items != NULL && i < reply->count; i++) {
        memcpy(last.text + used, reply->items[i].key, reply->items[i].key_size);
        used += reply->items[i].key_size;
        last.text[used++] = '=';
        memcpy(last.text + used, reply->items[i].value, reply->items[i].value_size);
        used += reply->items[i].value_size;
        last.text[used++] = ' ';
    }
    last.text[used] = 0;
}

static int open_it(void **state) { return control_embedded_new((control_t **)state); }

static int close_it(void **state) {
    control_free(*state);
    return 0;
}

static mob_status_t ask(control_t *control, mob_kv_t what, const void *key, uint32_t key_size,
                        const void *value, uint32_t value_size) {
    uint8_t *item = malloc(8 + (size_t)key_size + value_size);
    memcpy(item, &key_size, 4);
    memcpy(item + 4, &value_size, 4);
    memcpy(item + 8, key, key_size);
    memcpy(item + 8 + key_size, value, value_size);
    last.calls = 0;
    mob_status_t status =
        control_kv_ask(control, what, item, 8 + (size_t)key_size + value_size, on_reply, &last);
    free(item); /* it was copied */
    if (status != MOB_OK) return status;
    assert_int_equal(last.calls, 0); /* never at once */
    assert_true(control_turn(control));
    assert_int_equal(last.calls, 1);
    return last.status;
}

static void put(control_t *control, mob_kv_t what, const char *key, const char *value) {
    assert_int_equal(ask(control, what, key, (uint32_t)strlen(key), value, (uint32_t)strlen(value)),
                     MOB_OK);
}

static const char *look(control_t *control, mob_kv_t what, const char *key) {
    assert_int_equal(ask(control, what, key, (uint32_t)strlen(key), "", 0), MOB_OK);
    return last.text;
}

static void test_put_and_get(void **state) {
    assert_false(control_turn(*state));
    put(*state, MOB_KV_PUT, "b", "2");
    assert_int_equal(last.count, 1);
    put(*state, MOB_KV_PUT, "a", "1");
    put(*state, MOB_KV_PUT, "b", "two");
    assert_int_equal(last.count, 0);
    put(*state, MOB_KV_NEW, "b", "three");
    assert_int_equal(last.count, 0);
    put(*state, MOB_KV_NEW, "ab", "");
    assert_int_equal(last.count, 1);
    assert_string_equal(look(*state, MOB_KV_GET, "b"), "b=two ");
    assert_string_equal(look(*state, MOB_KV_GET, "c"), "");
    assert_string_equal(look(*state, MOB_KV_GET, ""), "");
    assert_string_equal(look(*state, MOB_KV_SCAN, ""), "a=1 ab= b=two ");
    assert_string_equal(look(*state, MOB_KV_LIST, "a"), "a=1 ab= ");
}

static void test_drop(void **state) {
    for (const char *const *key = (const char *const[]){"a", "ab", "abc", "b", NULL}; *key; key++)
        put(*state, MOB_KV_PUT, *key, "x");
    put(*state, MOB_KV_DROP, "ab", "");
    assert_int_equal(last.count, 1);
    put(*state, MOB_KV_DROP, "ab", "");
    assert_int_equal(last.count, 0);
    put(*state, MOB_KV_DROP_ALL, "a", "");
    assert_int_equal(last.count, 2);
    assert_string_equal(look(*state, MOB_KV_SCAN, ""), "b=x ");
}

static void test_add(void **state) {
    double one[2] = {1, 2}, sum[2];
    assert_int_equal(ask(*state, MOB_KV_ADD, "n", 1, one, sizeof one), MOB_OK);
    assert_int_equal(ask(*state, MOB_KV_ADD, "n", 1, one, sizeof one), MOB_OK);
    assert_int_equal(ask(*state, MOB_KV_ADD, "n", 1, one, sizeof one[0]), MOB_EINVAL);
    assert_int_equal(control_kv_count(*state), 1);
    control_kv_item_t item = control_kv_at(*state, 0);
    assert_int_equal(item.value_size, sizeof sum);
    memcpy(sum, item.value, sizeof sum);
    assert_true(sum[0] == 2 && sum[1] == 4);
}

static void test_it_is_bounded(void **state) {
    const uint32_t half = MOB_KV_BYTES / 2;
    uint8_t *large = calloc(1, half);
    assert_int_equal(ask(*state, MOB_KV_PUT, "a", 1, large, half), MOB_OK);
    assert_int_equal(ask(*state, MOB_KV_PUT, "b", 1, large, half), MOB_ELIMIT);
    assert_int_equal(ask(*state, MOB_KV_PUT, "a", 1, large, half - 1), MOB_OK);
    put(*state, MOB_KV_PUT, "b", "small");
    put(*state, MOB_KV_DROP, "a", "");
    assert_int_equal(ask(*state, MOB_KV_PUT, "c", 1, large, half), MOB_OK);
    free(large);
}

static void test_a_jobs_keys_go_with_it(void **state) {
    const char first[] = "\1\7\0\0\0x", second[] = "\1\10\0\0\0x";
    assert_int_equal(ask(*state, MOB_KV_PUT, first, sizeof first - 1, "", 0), MOB_OK);
    assert_int_equal(ask(*state, MOB_KV_PUT, second, sizeof second - 1, "", 0), MOB_OK);
    put(*state, MOB_KV_PUT, "x", "kept");
    control_kv_drop_job(*state, 7);
    assert_int_equal(control_kv_count(*state), 3);
    assert_true(control_turn(*state));
    assert_int_equal(control_kv_count(*state), 2);
    assert_memory_equal(control_kv_at(*state, 0).key, second, sizeof second - 1);
}

static void test_nonsense_is_refused(void **state) {
    uint32_t sizes[2] = {5, 0};
    assert_int_equal(control_kv_ask(*state, MOB_KV_GET, sizes, sizeof sizes, on_reply, &last),
                     MOB_EINVAL);
    assert_int_equal(control_kv_ask(*state, MOB_KV_GET, sizes, 3, on_reply, &last), MOB_EINVAL);
    assert_int_equal(control_kv_ask(*state, MOB_KV_GET, sizes, 0, on_reply, &last), MOB_EINVAL);
    assert_int_equal(control_kv_ask(*state, (mob_kv_t)0, sizes, 0, on_reply, &last), MOB_EINVAL);
    assert_int_equal(control_kv_ask(*state, (mob_kv_t)99, sizes, 0, on_reply, &last), MOB_EINVAL);
    assert_int_equal(
        control_kv_ask(*state, MOB_KV_PUT, sizes, (size_t)MOB_KV_BYTES + 1, on_reply, &last),
        MOB_ELIMIT);
    uint32_t huge[2] = {4, UINT32_MAX};
    assert_int_equal(control_kv_ask(*state, MOB_KV_PUT, huge, sizeof huge, on_reply, &last),
                     MOB_EINVAL);
    /* what is under way at the end is freed */
    sizes[0] = 0;
    assert_int_equal(control_kv_ask(*state, MOB_KV_GET, sizes, sizeof sizes, on_reply, &last),
                     MOB_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_and_get, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_drop, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_add, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_it_is_bounded, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_a_jobs_keys_go_with_it, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_nonsense_is_refused, open_it, close_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
