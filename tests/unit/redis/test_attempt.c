/*
 * Attempts: scripts that run over what was seen come to what they would come to where the keys are,
 * whoever else writes there meanwhile. The server is a model of `commit`, in C.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "redis/attempt.h"

enum { KEYS = 12, WORDS_MAX = 4096 };

/* ---- a server: a sorted table of a few keys ---- */

typedef struct {
    bool is_there[KEYS];
    uint64_t values[KEYS];
} server_t;

static const char *const names[KEYS] = {"a",    "a/1",  "a/2", "a/20", "a/3", "b/1",
                                        "b/10", "b/11", "b/2", "c",    "c/x", "d"};

static int index_of(const char *key) {
    for (int i = 0; i < KEYS; i++)
        if (strcmp(names[i], key) == 0) return i;
    return -1;
}

static const void *server_get(void *context, const char *key, size_t *ret_size) {
    server_t *s = context;
    int i = index_of(key);
    if (!s->is_there[i]) return NULL;
    *ret_size = sizeof s->values[i];
    return &s->values[i];
}

static void server_set(void *context, const char *key, const void *value, size_t size,
                       uint64_t ttl) {
    (void)ttl;
    server_t *s = context;
    assert_int_equal(size, 8);
    s->is_there[index_of(key)] = true;
    memcpy(&s->values[index_of(key)], value, size);
}

static void server_del(void *context, const char *key) {
    ((server_t *)context)->is_there[index_of(key)] = false;
}

static const char *server_next(void *context, const char *first, const char *after) {
    server_t *s = context;
    for (int i = 0; i < KEYS; i++)
        if (s->is_there[i] && strncmp(names[i], first, strlen(first)) == 0 &&
            (after == NULL || strcmp(names[i], after) > 0))
            return names[i];
    return NULL;
}

/* ---- commit, on that server ---- */

typedef struct {
    redis_word_t words[WORDS_MAX];
    size_t count, at;
} words_t;

static const char *text(words_t *w) {
    static char texts[8][8192];
    static int turn;
    redis_word_t word = w->words[w->at++];
    char *copy = texts[turn++ % 8];
    snprintf(copy, 8192, "%.*s", (int)word.size, word.bytes);
    return copy;
}

static void say(words_t *w, const void *bytes, size_t size) {
    char *copy = malloc(size + 1);
    memcpy(copy, bytes, size);
    copy[size] = 0;
    w->words[w->count++] = (redis_word_t){copy, size};
}

static void say_found(words_t *w, server_t *s, const char *key) {
    char found[9] = "-";
    int i = index_of(key);
    if (s->is_there[i]) found[0] = '+', memcpy(found + 1, &s->values[i], 8);
    say(w, found, s->is_there[i] ? 9 : 1);
}

static void say_walk(words_t *w, server_t *s, const char *first, const char *after, int most) {
    const char *keys[KEYS], *key = after;
    int count = 0;
    while (count < most && (key = server_next(s, first, key)) != NULL) keys[count++] = key;
    char digits[8];
    snprintf(digits, sizeof digits, "%d", count);
    say(w, "n", 1), say(w, first, strlen(first)), say(w, after, strlen(after));
    say(w, digits, strlen(digits));
    for (int i = 0; i < count; i++) say(w, keys[i], strlen(keys[i])), say_found(w, s, keys[i]);
    bool is_end = count < most || server_next(s, first, keys[count - 1]) == NULL;
    say(w, is_end ? "end" : "more", is_end ? 3 : 4);
}

static void look(words_t *in, server_t *s, words_t *out) {
    int checks = atoi(text(in));
    while (checks-- > 0) {
        if (strcmp(text(in), "g") == 0) {
            const char *key = text(in);
            redis_word_t seen = in->words[in->at++];
            char found[9] = "-";
            int i = index_of(key);
            size_t size = s->is_there[i] ? 9 : 1;
            if (s->is_there[i]) found[0] = '+', memcpy(found + 1, &s->values[i], 8);
            if (seen.size == size && memcmp(seen.bytes, found, size) == 0) continue;
            say(out, "g", 1), say(out, key, strlen(key)), say(out, found, size);
        } else {
            const char *first = text(in), *after = text(in), *seen = text(in);
            const char *next = server_next(s, first, after);
            if (strcmp(next != NULL ? next : "", seen) != 0) say_walk(out, s, first, after, 2);
        }
    }
}

static bool commit(redis_attempt_t *attempt, server_t *s) {
    words_t in = {0}, out = {0};
    const redis_word_t *words;
    assert_int_equal(redis_attempt_words(attempt, &words, &in.count), MOB_OK);
    memcpy(in.words, words, in.count * sizeof *words);
    text(&in); /* the time */
    look(&in, s, &out);
    if (out.count > 0) {
        assert_int_equal(redis_attempt_differs(attempt, out.words, out.count), MOB_OK);
        for (size_t i = 0; i < out.count; i++) free((void *)out.words[i].bytes);
        return false;
    }
    for (int writes = atoi(text(&in)); writes > 0; writes--) {
        bool is_set = strcmp(text(&in), "s") == 0;
        const char *key = text(&in);
        if (is_set) {
            server_set(s, key, in.words[in.at].bytes, in.words[in.at].size, 0);
            in.at += 2;
        } else {
            server_del(s, key);
        }
    }
    assert_int_equal(in.at, in.count);
    redis_attempt_done(attempt);
    return true;
}

/* ---- a script that does anything ---- */

static size_t anything(const script_keys_t *keys, const void *arguments, size_t size,
                       void *answer) {
    uint64_t seed, sum = keys->now_ms, *out = answer;
    assert_int_equal(size, sizeof seed);
    memcpy(&seed, arguments, sizeof seed);
    base_random_t random = {seed};
    for (uint64_t steps = 1 + base_random_below(&random, 6); steps > 0; steps--) {
        const char *key = names[base_random_below(&random, KEYS)];
        size_t got;
        uint64_t value = 0;
        switch (base_random_below(&random, 4)) {
        case 0: {
            const void *found = keys->get(keys->context, key, &got);
            if (found != NULL) memcpy(&value, found, got);
            sum = sum * 31 + (found != NULL ? value : 7);
            break;
        }
        case 1:
            sum++;
            keys->set(keys->context, key, &sum, sizeof sum, 0);
            break;
        case 2:
            keys->del(keys->context, key);
            break;
        default: { /* a walk, which depends on what it sees */
            char first[2] = {key[0], 0}, at[SCRIPT_KEY_MAX];
            const char *next = NULL;
            while ((next = keys->next(keys->context, first, next == NULL ? NULL : at)) != NULL) {
                snprintf(at, sizeof at, "%s", next);
                for (const char *c = at; *c != 0; c++) sum = sum * 31 + (uint8_t)*c;
                next = at;
            }
        }
        }
    }
    *out = sum;
    return sizeof sum;
}

static uint64_t run_there(server_t *s, uint64_t seed, uint64_t now) {
    script_keys_t keys = {s, now, 1, server_get, server_set, server_del, server_next};
    uint64_t answer;
    anything(&keys, &seed, sizeof seed, &answer);
    return answer;
}

static void comes_to_the_same(void **state) {
    (void)state;
    base_random_t random = {4};
    server_t server = {0}, model = {0};
    redis_attempt_t *attempts[2];
    int repeats = 0;
    for (int i = 0; i < 2; i++) assert_int_equal(redis_attempt_new(&attempts[i]), MOB_OK);
    for (uint64_t round = 0; round < 20000; round++) {
        redis_attempt_t *attempt = attempts[base_random_below(&random, 2)];
        if (base_random_chance(&random, 1, 500)) redis_attempt_forget(attempt);
        uint64_t seeds[3], answers[3] = {0}, count = 1 + base_random_below(&random, 3);
        for (uint64_t i = 0; i < count; i++) seeds[i] = base_random_next(&random);
        int tries = 0;
        do {
            assert_true(++tries < 20);
            redis_attempt_begin(attempt, round, 1);
            for (uint64_t i = 0; i < count; i++) {
                uint64_t answer[SCRIPT_ANSWER_MAX / 8];
                size_t size;
                assert_int_equal(
                    redis_attempt_run(attempt, anything, &seeds[i], sizeof seeds[i], answer, &size),
                    MOB_OK);
                answers[i] = answer[0];
            }
        } while (!commit(attempt, &server));
        repeats += tries - 1;
        for (uint64_t i = 0; i < count; i++)
            assert_true(run_there(&model, seeds[i], round) == answers[i]);
        for (int i = 0; i < KEYS; i++) {
            assert_int_equal(server.is_there[i], model.is_there[i]);
            if (server.is_there[i]) assert_true(server.values[i] == model.values[i]);
        }
    }
    assert_true(repeats > 1000); /* the other one was in the way */
    for (int i = 0; i < 2; i++) redis_attempt_free(attempts[i]);
}

/* What a server answers may be anything. */
static void nonsense_is_refused(void **state) {
    (void)state;
    redis_attempt_t *attempt;
    assert_int_equal(redis_attempt_new(&attempt), MOB_OK);
    static char large[SCRIPT_VALUE_MAX + 10];
    memset(large, '+', sizeof large);
    const redis_word_t wrong[][4] = {
        {{"x", 1}},
        {{"g", 1}},
        {{"g", 1}, {"key", 3}, {"?", 1}},
        {{"g", 1}, {"key", 3}, {"", 0}},
        {{"g", 1}, {"a\0b", 3}, {"-", 1}},
        {{"g", 1}, {large, SCRIPT_KEY_MAX}, {"-", 1}},
        {{"g", 1}, {"key", 3}, {large, sizeof large}},
        {{"n", 1}, {"a", 1}, {"", 0}, {"99999999999", 11}},
    };
    const size_t counts[] = {1, 1, 3, 3, 3, 3, 3, 4};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_int_equal(redis_attempt_differs(attempt, wrong[i], counts[i]), MOB_EPROTO);
    redis_attempt_free(attempt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_to_the_same),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
