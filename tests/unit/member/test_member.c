/* A member's life by example: joining, pausing, dying, leading, and a state that loses things. */
#include "store.h"

static void town_start(uint64_t count) {
    for (uint64_t self = 1; self <= count; self++) node_start(self);
    town_run(10000);
}

static void test_bad_configuration(void **state) {
    (void)state;
    member_t *member = NULL;
    member_config_t config = {.self = 0};
    assert_int_equal(member_new(&config, &ops, NULL, &member), MOB_EINVAL);
    config = (member_config_t){.self = 1, .blob = "", .blob_size = MEMBER_BLOB_MAX + 1};
    assert_int_equal(member_new(&config, &ops, NULL, &member), MOB_EINVAL);
    assert_null(member);
    member_free(NULL);
}

static void test_nodes_meet(void **state) {
    (void)state;
    town_start(3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nodes[i].joined, 2);
        assert_false(nodes[i].is_paused);
        assert_true(nodes[i].end_ns > clock_ms * MS);
        assert_int_equal(nodes[i].settled, nodes[i].master);
        assert_int_equal(nodes[i].leader, nodes[0].leader);
    }
    assert_true(nodes[0].began < nodes[1].began && nodes[1].began < nodes[2].began);
    assert_true(member_knows(nodes[0].member, 2));
    assert_false(member_knows(nodes[0].member, 9));
}

static void test_idle_is_cheap(void **state) {
    (void)state;
    town_start(3);
    size_t before[3];
    for (int i = 0; i < 3; i++) before[i] = nodes[i].asked_ever;
    town_run(10000);
    for (int i = 0; i < 3; i++) assert_in_range(nodes[i].asked_ever - before[i], 18, 60);
}

static void test_a_death_is_told_and_closed(void **state) {
    (void)state;
    town_start(3);
    nodes[2].is_gone = true;
    town_run(5000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(nodes[i].died, 3);
        assert_int_equal(member_tombstone(nodes[i].member, 3), nodes[i].died_number);
        assert_false(member_knows(nodes[i].member, 3));
        assert_true(nodes[i].struck < nodes[i].died_number);
    }
    member_closed(nodes[0].member, nodes[0].died_number);
    town_run(2000);
    assert_true(nodes[0].struck < nodes[0].died_number); /* the other has not closed it */
    member_closed(nodes[1].member, nodes[1].died_number);
    town_run(2000);
    assert_int_equal(nodes[0].struck, nodes[0].died_number);
    assert_int_equal(nodes[1].struck, nodes[0].died_number);
}

static void test_cut_off_it_pauses_and_is_over(void **state) {
    (void)state;
    town_start(3);
    nodes[2].is_cut = true;
    town_run(2800);
    assert_true(nodes[2].is_paused);
    assert_int_equal(nodes[2].over, 0);
    assert_int_equal(nodes[0].died, 0);
    town_run(4000); /* peers tell it */
    assert_int_equal(nodes[0].died, 3);
    assert_int_equal(nodes[2].over, MEMBER_BURIED);
    assert_true(member_is_paused(nodes[2].member, clock_ms * MS));
}

static void test_a_node_may_be_silent_for_as_long_as_is_configured(void **state) {
    (void)state;
    patience_ms = 20000;
    town_start(3);
    nodes[2].is_cut = true;
    town_run(18000);
    assert_true(nodes[2].is_paused);
    nodes[2].is_cut = false;
    town_run(3000); /* it is back, and that counts anew */
    assert_false(nodes[2].is_paused);
    nodes[2].is_gone = true;
    town_run(18000);
    assert_int_equal(nodes[0].died, 0);
    town_run(6000);
    assert_int_equal(nodes[0].died, 3);
}

static void test_a_newcomer_is_spared_for_as_long_as_is_configured(void **state) {
    (void)state;
    newcomer_ms = 40000;
    town_start(3);
    nodes[2].is_gone = true;
    town_run(15000);
    assert_int_equal(nodes[0].died, 0);
    town_run(25000);
    assert_int_equal(nodes[0].died, 3);
    nodes[1].is_gone = true;
    town_run(10000);
    assert_int_equal(nodes[0].died, 2);
}

static void test_state_away_for_all(void **state) {
    (void)state;
    town_start(3);
    for (int i = 0; i < 3; i++) nodes[i].is_cut = true;
    for (int s = 0; s < 55; s++) {
        town_run(1000);
        for (int i = 0; i < 3; i++) assert_false(nodes[i].is_paused);
    }
    town_run(8000);
    for (int i = 0; i < 3; i++) assert_true(nodes[i].is_paused);
    for (int i = 0; i < 3; i++) nodes[i].is_cut = false;
    town_run(10000);
    for (int i = 0; i < 3; i++) assert_false(nodes[i].is_paused || nodes[i].over != 0);
    assert_int_equal(nodes[0].died, 0);
}

static void test_empty_state_is_told_again(void **state) {
    (void)state;
    town_start(3);
    nodes[2].is_gone = true;
    town_run(6000);
    uint64_t before = nodes[0].master, number = nodes[0].died_number;
    assert_int_equal(nodes[0].died, 3);
    stored_count = 0;
    town_run(1000);
    assert_true(nodes[0].master > before);
    assert_int_equal(nodes[1].master, nodes[0].master);
    town_run(10000);
    assert_int_equal(nodes[0].settled, before); /* the rooms have not said theirs */
    script_keys_t keys = keys_now();
    assert_false(member_script_guard(&keys, before));
    assert_true(member_script_guard(&keys, nodes[0].master));
    member_said(nodes[0].member, nodes[0].master);
    member_said(nodes[1].member, nodes[1].master);
    town_run(2000);
    assert_int_equal(nodes[0].settled, nodes[0].master);
    assert_int_equal(nodes[1].settled, nodes[0].master);
    assert_int_equal(nodes[0].died_number, number);
    node_start(4);
    town_run(2000);
    assert_int_equal(member_tombstone(nodes[3].member, 3), number);
    assert_int_equal(nodes[3].died, 0); /* before its time */
}

static void test_tombstones_that_are_not_the_states(void **state) {
    (void)state;
    town_start(3);
    nodes[2].is_gone = true;
    town_run(6000);
    assert_int_equal(nodes[1].died, 3);
    for (size_t i = 0; i < stored_count; i++)
        if (strncmp(stored[i].key, "m/t/", 4) == 0) stored[i].value[0] = 9;
    town_run(600);
    assert_int_equal(nodes[0].over, MEMBER_CONTRADICTED);
    assert_int_equal(nodes[1].over, MEMBER_CONTRADICTED);
}

static void test_another_cluster(void **state) {
    (void)state;
    town_start(1);
    node_t *node = node_start(2);
    member_free(node->member);
    member_config_t config = {.self = 2, .cluster = {9, 9}};
    assert_int_equal(member_new(&config, &ops, node, &node->member), MOB_OK);
    town_run(1000);
    assert_int_equal(node->over, MEMBER_STRANGER);
}

static void test_leaders_by_number(void **state) {
    (void)state;
    town_start(2);
    uint64_t fence = nodes[1].fence, leader = nodes[1].leader, held = 0;
    assert_true(member_is_leader(nodes[leader - 1].member, clock_ms * MS, &held));
    assert_int_equal(held, fence);
    assert_true(member_accepts(nodes[1].member, leader, fence));
    assert_false(member_accepts(nodes[1].member, leader, fence - 1));
    assert_false(member_accepts(nodes[1].member, 77, fence)); /* another's */
    assert_false(member_accepts(nodes[1].member, 0, fence + 1));
    member_refused(nodes[leader - 1].member, fence + 1000000);
    town_run(1000);
    assert_true(member_is_leader(nodes[leader - 1].member, clock_ms * MS, &held));
    assert_true(held > fence + 1000000);
}

static void test_one_end_of_a_cut_link_is_condemned(void **state) {
    (void)state;
    town_start(3);
    assert_int_equal(member_complain(nodes[0].member, 2, true), MOB_OK);
    assert_int_equal(member_complain(nodes[1].member, 1, true), MOB_OK);
    assert_int_equal(member_complain(nodes[1].member, 99, true), MOB_OK); /* nobody */
    town_run(8000);
    assert_int_equal(nodes[1].over, MEMBER_BURIED); /* the younger */
    assert_int_equal(nodes[0].over, 0);
    assert_int_equal(nodes[2].died, 2);
}

static void test_it_buries_its_earlier_self(void **state) {
    (void)state;
    town_start(2);
    nodes[1].is_gone = true;
    uint64_t before = 2;
    member_config_t config = {.self = 3,
                              .cluster = {7, 8},
                              .blob = "blob",
                              .blob_size = 4,
                              .buries = &before,
                              .buries_count = 1};
    nodes[2] = (node_t){.is_paused = true};
    assert_int_equal(member_new(&config, &ops, &nodes[2], &nodes[2].member), MOB_OK);
    town_run(1100);
    assert_int_equal(nodes[0].died, 2);
    assert_false(nodes[2].is_paused);
}

static void test_whoever_leaves_is_buried_at_once(void **state) {
    (void)state;
    town_start(3);
    uint64_t leader = nodes[0].leader, fence = nodes[0].fence;
    node_t *leaver = &nodes[leader - 1];
    member_leave(leaver->member, clock_ms * MS);
    assert_true(leaver->is_paused); /* before it has asked */
    assert_int_equal(leaver->end_ns, 0);
    assert_int_equal(leaver->over, 0);
    town_run(600);
    assert_int_equal(leaver->over, MEMBER_LEFT);
    for (uint64_t i = 0; i < 3; i++) {
        if (i + 1 == leader) continue;
        assert_int_equal(nodes[i].died, leader);
        assert_false(nodes[i].is_paused || nodes[i].over != 0);
    }
    town_run(1000); /* its lead has not to be waited for */
    const node_t *other = &nodes[leader % 3];
    assert_true(other->fence > fence && other->leader != leader);
    member_leave(leaver->member, clock_ms * MS); /* once is enough */
}

static void test_leaving_before_it_has_joined(void **state) {
    (void)state;
    node_t *node = node_start(1);
    member_leave(node->member, clock_ms * MS);
    assert_int_equal(node->over, MEMBER_LEFT);
    town_run(1000);
    assert_int_equal(node->asked_ever, 0);
}

static void test_leaving_waits_for_the_state_to_settle(void **state) {
    (void)state;
    town_start(3);
    stored_count = 0;
    town_run(1000);
    member_leave(nodes[2].member, clock_ms * MS);
    town_run(10000);
    assert_int_equal(nodes[2].over, 0);
    assert_true(nodes[2].is_paused);
    for (int i = 0; i < 3; i++) member_said(nodes[i].member, nodes[i].master);
    town_run(2000);
    assert_int_equal(nodes[2].over, MEMBER_LEFT);
    assert_int_equal(nodes[0].died, 3);
}

/* It has said goodbye to its peers, so nothing of what they send answers it. Its end comes while a
 * new state has not settled. */
static void test_a_leaver_that_ends_before_is_buried_like_any_other(void **state) {
    (void)state;
    town_start(2);
    nodes[0].is_cut = nodes[1].is_cut = true; /* for so long that nobody names witnesses */
    town_run(4000);
    nodes[1].is_mute = true;
    member_leave(nodes[1].member, clock_ms * MS);
    nodes[0].is_cut = nodes[1].is_cut = false;
    copy_number++;
    town_run(3000);
    assert_int_equal(nodes[1].over, 0);
    nodes[1].is_gone = true;
    member_said(nodes[0].member, nodes[0].master);
    town_run(12000);
    assert_int_equal(nodes[0].died, 2);
}

/* Nobody is left who could settle the state, but they themselves. */
static void test_all_leave(void **state) {
    (void)state;
    town_start(3);
    copy_number++;
    for (int i = 0; i < 3; i++) member_leave(nodes[i].member, clock_ms * MS);
    town_run(1000);
    for (int i = 0; i < 3; i++) member_said(nodes[i].member, nodes[i].master);
    town_run(15000);
    for (int i = 0; i < 3; i++) assert_int_equal(nodes[i].over, MEMBER_LEFT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_configuration),
        cmocka_unit_test_setup_teardown(test_nodes_meet, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_idle_is_cheap, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_a_death_is_told_and_closed, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_cut_off_it_pauses_and_is_over, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_state_away_for_all, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_empty_state_is_told_again, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_tombstones_that_are_not_the_states, town_begin,
                                        town_end),
        cmocka_unit_test_setup_teardown(test_another_cluster, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_a_node_may_be_silent_for_as_long_as_is_configured,
                                        town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_a_newcomer_is_spared_for_as_long_as_is_configured,
                                        town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_leaders_by_number, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_one_end_of_a_cut_link_is_condemned, town_begin,
                                        town_end),
        cmocka_unit_test_setup_teardown(test_it_buries_its_earlier_self, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_whoever_leaves_is_buried_at_once, town_begin,
                                        town_end),
        cmocka_unit_test_setup_teardown(test_leaving_before_it_has_joined, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_leaving_waits_for_the_state_to_settle, town_begin,
                                        town_end),
        cmocka_unit_test_setup_teardown(test_a_leaver_that_ends_before_is_buried_like_any_other,
                                        town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_all_leave, town_begin, town_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
