/* When spill files go through the page cache, and when past it. */
#include "fixture.h"

enum { MB = 1 << 20 };
static const uint64_t GB = 1 << 30;

static void test_plentiful_begins_later_than_it_ends(void **state) {
    (void)state;
    node_cache_t c = {0};
    node_cache_learn(&c, 16 * GB, 3 * GB, 0);
    assert_false(c.plentiful);
    node_cache_learn(&c, 16 * GB, 5 * GB, 0);
    assert_true(c.plentiful);
    node_cache_learn(&c, 16 * GB, 3 * GB, 0);
    assert_true(c.plentiful);
    node_cache_learn(&c, 16 * GB, GB, 0);
    assert_false(c.plentiful);
    node_cache_learn(&c, 16 * GB, 3 * GB, 0);
    assert_false(c.plentiful);
    node_cache_learn(&c, 0, 0, 0); /* nothing is known */
    assert_false(c.plentiful);
}

static void test_no_more_than_the_budget(void **state) {
    (void)state;
    node_cache_t c = {0};
    node_cache_learn(&c, 24 * GB, 12 * GB, 0);
    assert_int_equal(c.budget, GB);
    assert_true(node_cache_choose(&c, 600 * MB));
    assert_false(node_cache_choose(&c, 600 * MB));
    node_cache_learn(&c, 24 * GB, 12 * GB, 0); /* it has not been written yet */
    assert_false(node_cache_choose(&c, 600 * MB));
    node_cache_written(&c, true, 600 * MB, 0);
    node_cache_learn(&c, 24 * GB, 12 * GB, 600 * MB); /* now it has, into the cache */
    assert_false(node_cache_choose(&c, 600 * MB));
    node_cache_learn(&c, 24 * GB, 12 * GB, 2 * GB); /* others write very much */
    assert_false(node_cache_choose(&c, 1));
    node_cache_learn(&c, 24 * GB, 12 * GB, 0);
    assert_true(node_cache_choose(&c, 600 * MB));
}

static void test_nothing_while_memory_is_short(void **state) {
    (void)state;
    node_cache_t c = {0};
    node_cache_learn(&c, 24 * GB, GB, 0);
    assert_false(node_cache_choose(&c, 1));
}

/* A hundred writes, of which those into the cache go on at one rate and those past it at another:
 * how many were into it. */
static int hundred(node_cache_t *c, uint64_t cached_ns, uint64_t direct_ns) {
    int count = 0;
    for (int i = 0; i < 100; i++) {
        node_cache_learn(c, 24 * GB, 12 * GB, 0);
        bool cached = node_cache_choose(c, 32 * MB);
        node_cache_written(c, cached, 32 * MB, cached ? cached_ns : direct_ns);
        count += cached;
    }
    return count;
}

static void test_not_where_it_is_much_slower(void **state) {
    (void)state;
    node_cache_t c = {0};
    assert_true(hundred(&c, 1000, 2000) > 90);
    assert_true(hundred(&c, 3000, 2000) > 90); /* the next read gains that */
    int after = hundred(&c, 5000, 1000);       /* the machine has changed its mind */
    assert_true(after < 60);
    assert_true(hundred(&c, 5000, 1000) < 10);
    assert_true(hundred(&c, 5000, 1000) > 0); /* it is tried now and then */
    assert_true(hundred(&c, 1000, 1000) > 0 && hundred(&c, 1000, 1000) > 90);
    assert_int_equal(c.flying, 0);
}

static void test_small_and_failed_writes_say_nothing(void **state) {
    (void)state;
    node_cache_t c = {0};
    node_cache_written(&c, false, 1000, 1);
    node_cache_written(&c, false, 32 * MB, 0);
    assert_true(c.rates[false] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plentiful_begins_later_than_it_ends),
        cmocka_unit_test(test_no_more_than_the_budget),
        cmocka_unit_test(test_nothing_while_memory_is_short),
        cmocka_unit_test(test_not_where_it_is_much_slower),
        cmocka_unit_test(test_small_and_failed_writes_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
