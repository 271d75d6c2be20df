/* Records: what was sealed is taken, in its order, once; nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "net/seal.h"

typedef struct {
    net_seal_t out, in;
} pair_t;

static void pair_init(pair_t *p) {
    uint8_t key[NET_KEY] = "a key of thirty-two bytes or so";
    assert_int_equal(net_seal_init(&p->out, key), MOB_OK);
    assert_int_equal(net_seal_init(&p->in, key), MOB_OK);
}

static void pair_fini(pair_t *p) {
    net_seal_fini(&p->out);
    net_seal_fini(&p->in);
}

static void records_come_in_order(void **state) {
    (void)state;
    static uint8_t bytes[NET_RECORD_MAX];
    pair_t p;
    pair_init(&p);
    base_random_t random = {3};
    for (int i = 0; i < 300; i++) {
        uint8_t head[NET_RECORD_HEAD];
        size_t size = 1 + base_random_below(&random, i % 10 == 0 ? NET_RECORD_MAX : 500), told;
        for (size_t j = 0; j < size; j++) bytes[j] = (uint8_t)base_random_next(&random);
        assert_int_equal(net_seal_write(&p.out, bytes, size, head), MOB_OK);
        assert_int_equal(net_seal_size(head, &told), MOB_OK);
        assert_int_equal(told, size);
        assert_int_equal(net_seal_check(&p.in, head, bytes, size), MOB_OK);
    }
    pair_fini(&p);
}

static void a_changed_record_is_found(void **state) {
    (void)state;
    base_random_t random = {5};
    for (int i = 0; i < 1000; i++) {
        uint8_t head[NET_RECORD_HEAD], bytes[100] = "something to say";
        pair_t p;
        pair_init(&p);
        net_seal_write(&p.out, bytes, sizeof bytes, head);
        size_t bit = base_random_below(&random, 8 * (sizeof head + sizeof bytes));
        uint8_t *at = bit / 8 < sizeof head ? &head[bit / 8] : &bytes[bit / 8 - sizeof head];
        *at ^= 1u << bit % 8;
        assert_int_equal(net_seal_check(&p.in, head, bytes, sizeof bytes), MOB_EPERM);
        pair_fini(&p);
    }
}

static void a_repeated_and_a_missing_one_are_found(void **state) {
    (void)state;
    uint8_t heads[3][NET_RECORD_HEAD], bytes[3] = "abc";
    pair_t p;
    pair_init(&p);
    for (int i = 0; i < 3; i++) net_seal_write(&p.out, &bytes[i], 1, heads[i]);
    assert_int_equal(net_seal_check(&p.in, heads[0], &bytes[0], 1), MOB_OK);
    assert_int_equal(net_seal_check(&p.in, heads[0], &bytes[0], 1), MOB_EPERM);
    assert_int_equal(net_seal_check(&p.in, heads[2], &bytes[2], 1), MOB_EPERM);
    assert_int_equal(net_seal_check(&p.in, heads[1], &bytes[1], 1), MOB_OK);
    pair_fini(&p);
}

static void sizes_that_lie(void **state) {
    (void)state;
    size_t size;
    const uint8_t none[NET_RECORD_HEAD] = {0}, huge[NET_RECORD_HEAD] = {0xff, 0xff, 0xff, 0xff},
                  more[NET_RECORD_HEAD] = {1, 0, 1, 0};
    assert_int_equal(net_seal_size(none, &size), MOB_EPROTO);
    assert_int_equal(net_seal_size(huge, &size), MOB_EPROTO);
    assert_int_equal(net_seal_size(more, &size), MOB_EPROTO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_order),
        cmocka_unit_test(a_changed_record_is_found),
        cmocka_unit_test(a_repeated_and_a_missing_one_are_found),
        cmocka_unit_test(sizes_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
