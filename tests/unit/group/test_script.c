/* The scripts by example: the first decision wins, leaders are fenced, names are compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "group/script.h"
#include "group/spec.h"
#include "keys.h"

static keys_t keys;

typedef struct {
    uint8_t bytes[4096];
    base_writer_t w;
} words_t;

/* The master has settled; then these numbers of 8 bytes. */
static void begin(words_t *words) {
    words->w = (base_writer_t){.bytes = words->bytes};
    base_put_number(&words->w, 1, 8);
}
static void put(words_t *words, uint64_t number) { base_put_number(&words->w, number, 8); }
static void put_id(words_t *words, uint8_t which) {
    uint8_t id[GROUP_ID_SIZE] = {7, [8] = which, [12] = 1};
    base_put_bytes(&words->w, id, sizeof id);
}

static group_answer_t run(script_fn script, const words_t *words, uint64_t *ret_number) {
    uint8_t answer[SCRIPT_ANSWER_MAX];
    script_keys_t state = keys_of(&keys);
    size_t size = script(&state, words->bytes, words->w.size, answer);
    base_reader_t r = {.at = answer, .left = size};
    group_answer_t code = (group_answer_t)base_take_number(&r, 1);
    if (ret_number != NULL) *ret_number = base_take_number(&r, 8);
    return code;
}

static group_answer_t create(uint8_t which, uint8_t name, uint64_t *ret_number) {
    frame_amount_t cpu = {"CPU", 1};
    group_bundle_t bundles[2] = {{{&cpu, 1}, ""}, {{&cpu, 1}, ""}};
    group_want_t want = {.strategy = MOB_SPREAD,
                         .job = {7, 3},
                         .name_space = "",
                         .name = "",
                         .bundles = bundles,
                         .count = 2};
    group_spec_t *spec;
    words_t words;
    uint8_t hash[GROUP_NAME_HASH] = {name};
    assert_int_equal(group_spec_write(&want, &spec), MOB_OK);
    begin(&words);
    put_id(&words, which);
    base_put_bytes(&words.w, hash, sizeof hash);
    base_put_bytes(&words.w, spec->bytes, spec->size);
    group_spec_free(spec);
    return run(group_script_create, &words, ret_number);
}

static group_answer_t commit(uint64_t fence, uint64_t leader, uint64_t attempt, uint64_t late) {
    words_t words;
    begin(&words);
    put(&words, fence);
    put(&words, leader);
    put_id(&words, 1);
    put(&words, attempt);
    put(&words, late);
    base_put_number(&words.w, 0, 4);
    base_put_number(&words.w, 2, 4);
    put(&words, 9);
    return run(group_script_commit, &words, NULL);
}

static group_answer_t decide(uint64_t fence, uint64_t attempt, uint64_t node) {
    words_t words;
    begin(&words);
    put_id(&words, 1);
    put(&words, fence);
    put(&words, attempt);
    put(&words, node);
    base_put_number(&words.w, 0, 4);
    base_put_number(&words.w, 1, 4);
    return run(group_script_decide, &words, NULL);
}

static group_answer_t of_id(script_fn script, uint8_t which) {
    words_t words;
    begin(&words);
    put_id(&words, which);
    return run(script, &words, NULL);
}

static group_answer_t forget(uint64_t fence, uint64_t leader) {
    words_t words;
    begin(&words);
    put(&words, fence);
    put(&words, leader);
    put_id(&words, 1);
    return run(group_script_forget, &words, NULL);
}

static int fresh(void **state) {
    (void)state;
    keys.count = 0;
    return 0;
}

static void test_a_group_is_made_once(void **state) {
    (void)state;
    uint64_t first, again;
    assert_int_equal(create(1, 0, &first), GROUP_SAID_OK);
    assert_int_equal(create(1, 0, &again), GROUP_SAID_OK);
    assert_int_equal(first, again);
    assert_int_equal(create(2, 0, &again), GROUP_SAID_OK);
    assert_true(again > first);
    assert_int_equal(of_id(group_script_remove, 1), GROUP_SAID_REMOVED);
    assert_int_equal(create(1, 0, NULL), GROUP_SAID_REMOVED);
}

static void test_the_first_decision_wins(void **state) {
    (void)state;
    assert_int_equal(create(1, 0, NULL), GROUP_SAID_OK);
    assert_int_equal(decide(1, 5, 9), GROUP_SAID_ABORTED);
    assert_int_equal(commit(1, 8, 5, 0), GROUP_SAID_ABORTED);
    assert_int_equal(commit(1, 8, 6, 0), GROUP_SAID_COMMITTED);
    assert_int_equal(commit(1, 8, 6, 0), GROUP_SAID_COMMITTED);
    assert_int_equal(decide(1, 6, 9), GROUP_SAID_COMMITTED);
    assert_int_equal(decide(1, 5, 9), GROUP_SAID_ABORTED);
}

static void test_a_late_place_is_not_overwritten(void **state) {
    (void)state;
    assert_int_equal(create(1, 0, NULL), GROUP_SAID_OK);
    assert_int_equal(commit(1, 8, 6, 0), GROUP_SAID_COMMITTED);
    assert_int_equal(decide(1, 6, 10), GROUP_SAID_COMMITTED); /* its place was lost */
    assert_int_equal(commit(2, 8, 1, 0), GROUP_SAID_ABORTED);
    assert_int_equal(commit(2, 8, 2, UINT64_C(1) << 32), GROUP_SAID_COMMITTED);
}

static void test_an_older_leader_is_refused(void **state) {
    (void)state;
    assert_int_equal(create(1, 0, NULL), GROUP_SAID_OK);
    assert_int_equal(commit(2, 8, 1, 0), GROUP_SAID_COMMITTED);
    assert_int_equal(commit(1, 9, 2, 0), GROUP_SAID_FENCED);
    assert_int_equal(commit(2, 9, 2, 0), GROUP_SAID_FENCED);
    assert_int_equal(forget(1, 9), GROUP_SAID_FENCED);
}

static void test_only_what_is_removed_is_forgotten(void **state) {
    (void)state;
    assert_int_equal(create(1, 0, NULL), GROUP_SAID_OK);
    assert_int_equal(commit(2, 8, 1, 0), GROUP_SAID_COMMITTED);
    size_t count = keys.count;
    assert_int_equal(forget(2, 8), GROUP_SAID_OK);
    assert_int_equal(keys.count, count);
    assert_int_equal(of_id(group_script_remove, 1), GROUP_SAID_REMOVED);
    assert_int_equal(commit(2, 8, 3, 0), GROUP_SAID_ABSENT);
    assert_int_equal(forget(2, 8), GROUP_SAID_OK);
    assert_int_equal(keys.count, count - 2); /* its record, and where its bundles were */
    assert_int_equal(of_id(group_script_remove, 1), GROUP_SAID_ABSENT);
}

static void test_a_name_is_its_first_ones_until_that_is_removed(void **state) {
    (void)state;
    assert_int_equal(create(1, 5, NULL), GROUP_SAID_OK);
    assert_int_equal(create(2, 5, NULL), GROUP_SAID_TAKEN);
    assert_int_equal(of_id(group_script_remove, 1), GROUP_SAID_REMOVED);
    assert_int_equal(create(2, 5, NULL), GROUP_SAID_OK);
    assert_int_equal(of_id(group_script_remove, 1), GROUP_SAID_REMOVED); /* asked again */
    assert_int_equal(create(3, 5, NULL), GROUP_SAID_TAKEN);
}

static void test_a_job_that_has_ended_makes_no_groups(void **state) {
    (void)state;
    words_t words;
    begin(&words);
    put(&words, 7);
    base_put_number(&words.w, 3, 4);
    assert_int_equal(run(group_script_job_end, &words, NULL), GROUP_SAID_OK);
    assert_int_equal(create(1, 0, NULL), GROUP_SAID_ENDED);
}

static void test_a_master_that_has_not_settled_decides_nothing(void **state) {
    (void)state;
    words_t words;
    begin(&words);
    put_id(&words, 1);
    words.bytes[0] = 2;
    assert_int_equal(run(group_script_remove, &words, NULL), GROUP_SAID_UNSETTLED);
    assert_int_equal(keys.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_group_is_made_once, fresh),
        cmocka_unit_test_setup(test_the_first_decision_wins, fresh),
        cmocka_unit_test_setup(test_a_late_place_is_not_overwritten, fresh),
        cmocka_unit_test_setup(test_an_older_leader_is_refused, fresh),
        cmocka_unit_test_setup(test_only_what_is_removed_is_forgotten, fresh),
        cmocka_unit_test_setup(test_a_name_is_its_first_ones_until_that_is_removed, fresh),
        cmocka_unit_test_setup(test_a_job_that_has_ended_makes_no_groups, fresh),
        cmocka_unit_test_setup(test_a_master_that_has_not_settled_decides_nothing, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
