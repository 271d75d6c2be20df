/* The contract of the room by example. */
#include "fixture.h"

static pull_counts_t counts_of(const node_t *node) {
    pull_counts_t counts;
    pull_count(node->pull, &counts);
    return counts;
}

static void test_a_value_is_pulled_and_stays_until_the_want_ends(void **state) {
    (void)state;
    make(1, 7, 5);
    frame_id_t id = object(1, 7);
    pull_want_t *w = want(&nodes[1], PULL_GET, &id, 1);
    run();
    assert_int_equal(nodes[1].ready, 1);
    pull_copy_view_t copy;
    assert_true(pull_copy_look(nodes[1].pull, &id, &copy));
    assert_true(copy.is_complete && copy.is_pinned && copy.have == 5);
    assert_int_equal(counts_of(&nodes[1]).held_bytes, 5 * PULL_CHUNK);
    pull_want_end(nodes[1].pull, w, now_ns);
    assert_int_equal(counts_of(&nodes[1]).held_bytes, 0);
    assert_int_equal(counts_of(&nodes[0]).readings, 0);
    pull_object_view_t view;
    assert_true(pull_object_look(nodes[0].pull, &id, &view));
    assert_int_equal(view.copies, 2);
    assert_int_equal(view.primary, 1);
}

static void test_several_wants_pull_once(void **state) {
    (void)state;
    make(1, 7, 5);
    frame_id_t ids[] = {object(1, 7), object(1, 7)};
    pull_want_t *a = want(&nodes[1], PULL_GET, ids, 2),
                *b = want(&nodes[1], PULL_ARGUMENTS, ids, 1);
    run();
    assert_int_equal(nodes[1].ready, 2);
    assert_int_equal(nodes[1].extents, 1);
    pull_want_end(nodes[1].pull, a, now_ns);
    assert_int_equal(counts_of(&nodes[1]).held_bytes, 5 * PULL_CHUNK);
    pull_want_end(nodes[1].pull, b, now_ns);
}

static void test_what_can_never_fit_fails_at_once(void **state) {
    (void)state;
    make(1, 7, 10);
    make(1, 8, 7);
    frame_id_t ids[] = {object(1, 7), object(1, 8)};
    pull_want_t *w = want(&nodes[1], PULL_GET, ids, 2);
    run();
    assert_int_equal(nodes[1].failed, 1);
    assert_int_equal(nodes[1].why, MOB_EFULL);
    assert_int_equal(nodes[1].extents, 0);
    pull_want_end(nodes[1].pull, w, now_ns);
}

static void test_a_task_without_room_goes_back_after_a_second(void **state) {
    (void)state;
    make(1, 7, 10);
    make(1, 8, 10);
    frame_id_t first = object(1, 7), second = object(1, 8);
    pull_want_t *a = want(&nodes[1], PULL_GET, &first, 1);
    run();
    pull_want_t *b = want(&nodes[1], PULL_ARGUMENTS, &second, 1);
    run();
    assert_int_equal(pull_want_state(b), PULL_WAITING);
    now_ns += PULL_PATIENCE_NS;
    pull_tick(nodes[1].pull, now_ns);
    assert_int_equal(nodes[1].why, MOB_ESPACE);
    pull_want_end(nodes[1].pull, b, now_ns);
    pull_want_end(nodes[1].pull, a, now_ns);
}

static void test_the_cache_goes_for_a_want_and_the_home_hears_of_it(void **state) {
    (void)state;
    make(1, 7, 10);
    make(1, 8, 10);
    frame_id_t first = object(1, 7), second = object(1, 8);
    pull_want_end(nodes[1].pull, want(&nodes[1], PULL_WAIT, &first, 1), now_ns);
    pull_want_t *a = want(&nodes[1], PULL_WAIT, &first, 1);
    run();
    pull_want_t *b = want(&nodes[1], PULL_GET, &second, 1);
    run();
    assert_int_equal(nodes[1].ready, 2);
    uint64_t birth;
    assert_false(pull_object_names(nodes[0].pull, &first, 2, &birth));
    assert_true(pull_object_names(nodes[0].pull, &second, 2, &birth));
    pull_want_end(nodes[1].pull, a, now_ns);
    pull_want_end(nodes[1].pull, b, now_ns);
}

static void test_the_primary_moves_and_a_death_makes_an_heir(void **state) {
    (void)state;
    make(1, 7, 2);
    frame_id_t id = object(1, 7);
    pull_want_t *a = want(&nodes[1], PULL_GET, &id, 1), *b = want(&nodes[2], PULL_GET, &id, 1);
    run();
    assert_int_equal(pull_object_move(nodes[0].pull, &id, 2, now_ns), MOB_OK);
    run();
    pull_object_view_t view;
    assert_true(pull_object_look(nodes[0].pull, &id, &view) && view.primary == 2);
    assert_int_equal(pull_copy_drop(nodes[1].pull, &id, now_ns), MOB_ESTALE);
    pull_free(nodes[1].pull);
    nodes[1].pull = NULL;
    (void)a;
    assert_int_equal(pull_died(nodes[0].pull, 2, now_ns), MOB_OK);
    run();
    assert_true(pull_object_look(nodes[0].pull, &id, &view) && view.primary == 3);
    assert_int_equal(nodes[0].lost, 0);
    assert_int_equal(pull_died(nodes[0].pull, 3, now_ns), MOB_OK);
    assert_int_equal(nodes[0].lost, 1);
    pull_want_end(nodes[2].pull, b, now_ns);
}

static void test_a_want_waits_until_all_is_made(void **state) {
    (void)state;
    make(1, 7, 2);
    frame_id_t ids[] = {object(1, 7), object(1, 8)};
    pull_want_t *w = want(&nodes[1], PULL_GET, ids, 2);
    run();
    assert_int_equal(pull_want_state(w), PULL_ASKING);
    assert_int_equal(nodes[1].extents, 0);
    make(1, 8, 2);
    run();
    assert_int_equal(nodes[1].ready, 1);
    pull_want_end(nodes[1].pull, w, now_ns);
}

static void test_what_is_gone_fails(void **state) {
    (void)state;
    frame_id_t id = object(1, 1000);
    pull_want_t *w = want(&nodes[1], PULL_GET, &id, 1);
    run();
    assert_int_equal(nodes[1].why, MOB_ELOST);
    pull_want_end(nodes[1].pull, w, now_ns);
    id = object(1, 7);
    make(1, 7, 1);
    w = want(&nodes[1], PULL_GET, &id, 1);
    pull_object_free(nodes[0].pull, &id, now_ns);
    run();
    assert_int_equal(nodes[1].failed, 1); /* the second waits: the node says that it is made */
    pull_want_end(nodes[1].pull, w, now_ns);
}

static void test_wants_that_are_open_go_with_the_room(void **state) {
    (void)state;
    make(1, 7, 5);
    frame_id_t ids[] = {object(1, 7), object(1, 8), object(3, 9)};
    want(&nodes[1], PULL_GET, ids, 3);
    want(&nodes[0], PULL_GET, ids, 2);
    want(&nodes[1], PULL_GET, ids, 1);
    for (int i = 0; i < 5; i++) item_do(&queue[queue_first++]);
}

/* A get of two objects waits for room. One of them is lost, and made again larger. The get is let
 * in by what it was told of it, a younger one behind it too; then it reads of the larger one, and
 * waits anew, behind what the younger one holds by now. */
static void test_a_want_that_waits_anew_was_let_in_in_its_turn(void **state) {
    (void)state;
    node_t *home = &nodes[0];
    frame_id_t again = object(1, 7), big = object(3, 8), ids[] = {again, object(3, 9)},
               others[] = {object(3, 9), object(3, 10)};
    make(3, 8, 10);
    make(3, 9, 8);
    make(3, 10, 4);
    uint64_t chunk = PULL_CHUNK;
    assert_int_equal(pull_copy_made(nodes[1].pull, &again, 1, 2 * chunk, now_ns), MOB_OK);
    assert_int_equal(pull_object_add(home->pull, &again, 1, 2 * chunk, 2, now_ns), MOB_OK);
    pull_want_t *first = want(home, PULL_GET, &big, 1);
    run();
    pull_want_t *older = want(home, PULL_GET, ids, 2), *younger = want(home, PULL_GET, others, 2);
    run();
    assert_int_equal(pull_want_state(older), PULL_WAITING);
    assert_int_equal(pull_want_state(younger), PULL_WAITING);
    assert_int_equal(pull_want_turn(older), 0);
    assert_int_equal(pull_died(home->pull, 2, now_ns), MOB_OK);
    assert_int_equal(home->lost, 1);
    assert_int_equal(pull_copy_made(nodes[2].pull, &again, 2, 8 * chunk, now_ns), MOB_OK);
    assert_int_equal(pull_object_add(home->pull, &again, 2, 8 * chunk, 3, now_ns), MOB_OK);
    pull_want_end(home->pull, first, now_ns);
    assert_int_equal(pull_want_state(older), PULL_WAITING);
    assert_int_equal(pull_want_state(younger), PULL_ADMITTED);
    uint64_t turn = pull_want_turn(younger);
    assert_true(pull_want_turn(older) > 0 && pull_want_turn(older) < turn);
    run();
    pull_want_end(home->pull, younger, now_ns);
    run();
    assert_int_equal(pull_want_state(older), PULL_READY);
    assert_true(pull_want_turn(older) > turn);
    pull_want_end(home->pull, older, now_ns);
}

static void look_is_empty(node_t *node) {
    uint8_t answer = 0;
    pull_answered(node->pull, &node->question, &answer, 1, now_ns);
}

/* A node is stopped while it looks for the last time. When it reads that there was no copy, another
 * node may have one. */
static void test_an_old_look_does_not_say_that_an_object_is_lost(void **state) {
    (void)state;
    enum { HOME = 9 };
    node_t *node = &nodes[0];
    frame_id_t id = object(HOME, 7);
    assert_int_equal(pull_died(node->pull, HOME, now_ns), MOB_OK);
    pull_want_t *w = want(node, PULL_GET, &id, 1);
    for (int i = 0; i < 2; i++) {
        look_is_empty(node);
        pull_tick(node->pull, now_ns += 1000 * PULL_MS);
    }
    size_t asked = node->asked;
    now_ns += 5000 * PULL_MS;
    look_is_empty(node);
    assert_int_equal(node->failed, 0);
    assert_int_equal(node->asked, asked + 1);
    look_is_empty(node);
    assert_int_equal(node->failed, 1);
    assert_int_equal(node->why, MOB_ELOST);
    pull_want_end(node->pull, w, now_ns);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_value_is_pulled_and_stays_until_the_want_ends),
        TEST(test_several_wants_pull_once),
        TEST(test_what_can_never_fit_fails_at_once),
        TEST(test_a_task_without_room_goes_back_after_a_second),
        TEST(test_the_cache_goes_for_a_want_and_the_home_hears_of_it),
        TEST(test_the_primary_moves_and_a_death_makes_an_heir),
        TEST(test_a_want_waits_until_all_is_made),
        TEST(test_what_is_gone_fails),
        TEST(test_an_old_look_does_not_say_that_an_object_is_lost),
        TEST(test_a_want_that_waits_anew_was_let_in_in_its_turn),
        TEST(test_wants_that_are_open_go_with_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
