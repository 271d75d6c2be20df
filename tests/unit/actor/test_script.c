/* The scripts by example: who has a name, whatever a fail-over takes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "actor/script.h"

/* ---- the control state: some keys, which are copied whole for a fail-over ---- */

enum { KEYS_MOST = 16, VALUE_MOST = 256 };

typedef struct {
    uint64_t now_ms;
    size_t count;
    struct {
        char key[SCRIPT_KEY_MAX];
        size_t size;
        uint8_t value[VALUE_MOST];
    } all[KEYS_MOST];
} keys_t;

static size_t place_of(const keys_t *keys, const char *key) {
    size_t at = 0;
    while (at < keys->count && strcmp(keys->all[at].key, key) != 0) at++;
    return at;
}

static const void *on_get(void *context, const char *key, size_t *ret_size) {
    const keys_t *keys = context;
    size_t at = place_of(keys, key);
    if (at == keys->count) return NULL;
    *ret_size = keys->all[at].size;
    return keys->all[at].value;
}

static void on_set(void *context, const char *key, const void *value, size_t size, uint64_t ttl) {
    keys_t *keys = context;
    size_t at = place_of(keys, key);
    (void)ttl;
    assert_true(at < KEYS_MOST && size <= VALUE_MOST);
    if (at == keys->count) snprintf(keys->all[keys->count++].key, SCRIPT_KEY_MAX, "%s", key);
    keys->all[at].size = size;
    memcpy(keys->all[at].value, value, size);
}

/* ---- scripts ---- */

static actor_facts_t actor(uint64_t home) {
    return (actor_facts_t){.id = {home, 1, 1}, .flags = ACTOR_NAMED, .name = "n", .limit = 1};
}

static actor_say_t run(keys_t *keys, script_fn script, const uint8_t *bytes, size_t size,
                       uint64_t *ret_number) {
    script_keys_t state = {keys, keys->now_ms, 1, on_get, on_set, NULL, NULL};
    uint8_t answer[SCRIPT_ANSWER_MAX];
    base_reader_t r = {.at = answer, .left = script(&state, bytes, size, answer)};
    actor_say_t what = (actor_say_t)base_take_number(&r, 1);
    *ret_number = base_take_number(&r, 8);
    return what;
}

static actor_say_t ask(keys_t *keys, script_fn script, const actor_facts_t *facts) {
    uint8_t bytes[SCRIPT_VALUE_MAX];
    base_writer_t w = {.bytes = bytes};
    uint64_t epoch;
    base_put_number(&w, 1, 8);
    actor_facts_put(&w, facts);
    return run(keys, script, bytes, w.size, &epoch);
}

static actor_say_t take(keys_t *keys, actor_facts_t *facts) {
    uint8_t bytes[SCRIPT_VALUE_MAX];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, 1, 8);
    actor_facts_put(&w, facts);
    return run(keys, actor_script_take, bytes, w.size, &facts->epoch);
}

/* The home of the actor that has the name; 0: nobody has it. */
static uint64_t owner(keys_t *keys) {
    uint8_t bytes[8 + ACTOR_NAME_SIZE] = {1, [8] = 'n'};
    uint64_t home;
    return run(keys, actor_script_find, bytes, sizeof bytes, &home) == ACTOR_SAY_OK ? home : 0;
}

static void test_a_name_has_one_owner(void **state) {
    (void)state;
    keys_t keys = {.now_ms = 1000};
    actor_facts_t a = actor(1), b = actor(2);
    assert_int_equal(owner(&keys), 0);
    assert_int_equal(take(&keys, &a), ACTOR_SAY_OK);
    assert_int_equal(take(&keys, &b), ACTOR_SAY_TAKEN);
    assert_int_equal(owner(&keys), 1);
    assert_int_equal(ask(&keys, actor_script_end, &a), ACTOR_SAY_OK);
    assert_int_equal(owner(&keys), 0);
    assert_int_equal(take(&keys, &b), ACTOR_SAY_OK);
    assert_int_equal(ask(&keys, actor_script_end, &a), ACTOR_SAY_OK); /* asked for twice */
    assert_int_equal(owner(&keys), 2);
}

/* The clock of a new master may be behind, and time may stand. */
static void test_who_takes_a_name_is_newer(void **state) {
    (void)state;
    keys_t keys = {.now_ms = 1000};
    actor_facts_t a = actor(1), b = actor(2);
    assert_int_equal(take(&keys, &a), ACTOR_SAY_OK);
    assert_int_equal(ask(&keys, actor_script_end, &a), ACTOR_SAY_OK);
    keys.now_ms = 900;
    assert_int_equal(take(&keys, &b), ACTOR_SAY_OK);
    assert_true(b.epoch > a.epoch);
}

/* A has ended, and B has taken the name. A fail-over loses both. */
static void lose_both(keys_t *keys, actor_facts_t *a, actor_facts_t *b) {
    *keys = (keys_t){.now_ms = 1000};
    *a = actor(1);
    *b = actor(2);
    assert_int_equal(take(keys, a), ACTOR_SAY_OK);
    keys_t before = *keys;
    assert_int_equal(ask(keys, actor_script_end, a), ACTOR_SAY_OK);
    assert_int_equal(take(keys, b), ACTOR_SAY_OK);
    *keys = before;
    assert_int_equal(owner(keys), 1);
}

static void test_an_end_that_is_lost_leaves_the_name_to_the_newer(void **state) {
    (void)state;
    keys_t keys;
    actor_facts_t a, b;
    lose_both(&keys, &a, &b);
    assert_int_equal(ask(&keys, actor_script_say, &b), ACTOR_SAY_OK);
    assert_int_equal(owner(&keys), 2);
    assert_int_equal(ask(&keys, actor_script_say, &a), ACTOR_SAY_OK); /* its end is kept */
    assert_int_equal(ask(&keys, actor_script_end, &a), ACTOR_SAY_OK);
    assert_int_equal(owner(&keys), 2);
}

/* Nobody has said the end again; the old owner's node says what it knew, before or after. */
static void test_the_older_is_refused_what_it_says_late(void **state) {
    (void)state;
    keys_t keys;
    actor_facts_t a, b;
    lose_both(&keys, &a, &b);
    keys.count = 0; /* all is lost */
    assert_int_equal(ask(&keys, actor_script_say, &b), ACTOR_SAY_OK);
    assert_int_equal(ask(&keys, actor_script_say, &a), ACTOR_SAY_TAKEN);
    assert_int_equal(owner(&keys), 2);
    keys.count = 0;
    assert_int_equal(ask(&keys, actor_script_say, &a), ACTOR_SAY_OK);
    assert_int_equal(ask(&keys, actor_script_say, &b), ACTOR_SAY_OK);
    assert_int_equal(owner(&keys), 2);
}

/* A home takes a name and does not hear that it has it. It is buried, a leader moves the actor on,
 * and the home asks again: what it is told must not be an epoch that it could move on. */
static void test_a_take_that_is_repeated_late_is_told_how_it_is(void **state) {
    (void)state;
    keys_t keys = {.now_ms = 1000};
    actor_facts_t a = actor(1), again = actor(1);
    assert_int_equal(take(&keys, &a), ACTOR_SAY_OK);
    assert_int_equal(take(&keys, &again), ACTOR_SAY_OK);
    assert_int_equal(again.epoch, a.epoch);
    a.node = 3;
    a.request = (actor_request_t){3, 1};
    assert_int_equal(ask(&keys, actor_script_move, &a), ACTOR_SAY_OK);
    assert_int_equal(take(&keys, &again), ACTOR_SAY_OTHER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_has_one_owner),
        cmocka_unit_test(test_who_takes_a_name_is_newer),
        cmocka_unit_test(test_an_end_that_is_lost_leaves_the_name_to_the_newer),
        cmocka_unit_test(test_a_take_that_is_repeated_late_is_told_how_it_is),
        cmocka_unit_test(test_the_older_is_refused_what_it_says_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
