/* The strategies by example: nodes of some CPUs each, and where bundles of 1 CPU go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "group/choose.h"

enum { MOST = 4 };

static bool matches(void *context, const char *selector, const char *labels) {
    (void)context;
    return *selector == 0 || strcmp(selector, labels) == 0;
}

/* Nodes 1, 2, ... have these CPUs; ends with a negative. `where` is filled in. */
static bool choose(mob_strategy_t strategy, const int *cpus, size_t count, const char *selector,
                   uint64_t *where) {
    static char labels[MOST][2] = {"a", "b", "c", "d"};
    frame_amount_t cpu = {"CPU", 1};
    group_bundle_t bundles[MOST];
    for (size_t b = 0; b < count; b++)
        bundles[b] = (group_bundle_t){{&cpu, 1}, b == 0 ? selector : ""};
    group_want_t want = {
        .strategy = strategy, .name_space = "", .name = "", .bundles = bundles, .count = count};
    group_view_t memory[MOST] = {0};
    group_views_t views = {0};
    group_spec_t *spec;
    assert_int_equal(group_spec_write(&want, &spec), MOB_OK);
    for (size_t i = 0; cpus[i] >= 0; i++) {
        memory[i].node = i + 1;
        memory[i].labels = labels[i];
        group_amount_t amount = {group_hash_text("CPU"), cpus[i]};
        assert_true(vec_push(&memory[i].free, amount) && vec_push(&views, &memory[i]));
    }
    bool is_short = false, is_placed = group_choose(spec, &views, matches, NULL, where, &is_short);
    assert_false(is_short);
    for (size_t i = 0; i < MOST; i++) vec_free(&memory[i].free);
    vec_free(&views);
    group_spec_free(spec);
    return is_placed;
}

static void test_pack_takes_one_node_if_it_can(void **state) {
    (void)state;
    uint64_t one[MOST] = {0}, two[MOST] = {0};
    assert_true(choose(MOB_PACK, (int[]){1, 3, -1}, 3, "", one));
    assert_true(one[0] == 2 && one[1] == 2 && one[2] == 2);
    assert_true(choose(MOB_PACK, (int[]){1, 2, -1}, 3, "", two));
    assert_false(choose(MOB_PACK, (int[]){1, 1, -1}, 3, "", (uint64_t[MOST]){0}));
}

static void test_strict_pack_takes_one_node_or_none(void **state) {
    (void)state;
    uint64_t where[MOST] = {0};
    assert_true(choose(MOB_STRICT_PACK, (int[]){2, 3, -1}, 3, "", where));
    assert_true(where[0] == 2 && where[1] == 2 && where[2] == 2);
    assert_false(choose(MOB_STRICT_PACK, (int[]){2, 2, -1}, 3, "", (uint64_t[MOST]){0}));
}

static void test_spread_takes_several_nodes_if_it_can(void **state) {
    (void)state;
    uint64_t two[MOST] = {0}, one[MOST] = {0};
    assert_true(choose(MOB_SPREAD, (int[]){2, 2, -1}, 2, "", two));
    assert_true(two[0] != two[1]);
    assert_true(choose(MOB_SPREAD, (int[]){0, 2, -1}, 2, "", one));
    assert_true(one[0] == 2 && one[1] == 2);
}

static void test_strict_spread_takes_a_node_once(void **state) {
    (void)state;
    uint64_t where[MOST] = {0};
    assert_true(choose(MOB_STRICT_SPREAD, (int[]){9, 1, 1, -1}, 3, "", where));
    assert_true(where[0] != where[1] && where[1] != where[2] && where[0] != where[2]);
    assert_false(choose(MOB_STRICT_SPREAD, (int[]){9, 9, -1}, 3, "", (uint64_t[MOST]){0}));
}

static void test_a_selector_chooses_the_node(void **state) {
    (void)state;
    uint64_t where[MOST] = {0};
    assert_true(choose(MOB_STRICT_SPREAD, (int[]){1, 1, -1}, 2, "b", where));
    assert_true(where[0] == 2 && where[1] == 1);
    assert_false(choose(MOB_PACK, (int[]){1, 1, -1}, 1, "z", (uint64_t[MOST]){0}));
}

static void test_what_has_a_place_stays_there(void **state) {
    (void)state;
    uint64_t where[MOST] = {1, 0};
    assert_true(choose(MOB_STRICT_SPREAD, (int[]){5, 1, -1}, 2, "", where));
    assert_true(where[0] == 1 && where[1] == 2);
    uint64_t packed[MOST] = {2, 0};
    assert_true(choose(MOB_STRICT_PACK, (int[]){5, 1, -1}, 2, "", packed));
    assert_true(packed[1] == 2);
    assert_false(choose(MOB_STRICT_PACK, (int[]){5, 0, -1}, 2, "", (uint64_t[MOST]){2, 0}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack_takes_one_node_if_it_can),
        cmocka_unit_test(test_strict_pack_takes_one_node_or_none),
        cmocka_unit_test(test_spread_takes_several_nodes_if_it_can),
        cmocka_unit_test(test_strict_spread_takes_a_node_once),
        cmocka_unit_test(test_a_selector_chooses_the_node),
        cmocka_unit_test(test_what_has_a_place_stays_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
