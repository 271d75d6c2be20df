/*
 * What a script reads it reads from what those before it in the attempt wrote, else from what was
 * seen, else it takes it for absent. The latter two are noted as checks, each once. A walk over
 * keys is both: the keys that were seen, without those that were deleted here, and the ones that
 * were written here in between.
 */
#include "redis/attempt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/vec.h"
#include "redis/seen.h"

typedef struct {
    bool is_walk;
    char key[SCRIPT_KEY_MAX];   /* or the beginning */
    char after[SCRIPT_KEY_MAX]; /* a walk's */
    char next[SCRIPT_KEY_MAX];
} check_t;

typedef struct {
    char key[SCRIPT_KEY_MAX];
    uint8_t *value; /* NULL: it is deleted */
    size_t size;
    char ttl[24];
} write_t;

struct redis_attempt {
    redis_seen_t seen;
    uint64_t now_ms, master;
    VEC(check_t) checks;
    VEC(write_t) writes;
    VEC(redis_word_t) words;
    base_map_t noted, written; /* checks, and places of writes from 1 on, by what they are about */
    char next[SCRIPT_KEY_MAX]; /* what the last walk gave out */
    char numbers[3][24];       /* now, checks, writes, in digits */
    bool is_short;             /* of memory */
};

mob_status_t redis_attempt_new(redis_attempt_t **ret_attempt) {
    redis_attempt_t *a = calloc(1, sizeof *a);
    if (a == NULL) return MOB_ENOMEM;
    redis_seen_init(&a->seen);
    base_map_init(&a->noted, sizeof(redis_hash_t));
    base_map_init(&a->written, sizeof(redis_hash_t));
    *ret_attempt = a;
    return MOB_OK;
}

static void lists_clear(redis_attempt_t *a) {
    for (size_t i = 0; i < a->writes.count; i++) free(a->writes.items[i].value);
    a->checks.count = a->writes.count = a->words.count = 0;
    base_map_fini(&a->noted);
    base_map_fini(&a->written);
}

void redis_attempt_free(redis_attempt_t *a) {
    if (a == NULL) return;
    lists_clear(a);
    vec_free(&a->checks);
    vec_free(&a->writes);
    vec_free(&a->words);
    redis_seen_fini(&a->seen);
    free(a);
}

void redis_attempt_begin(redis_attempt_t *a, uint64_t now_ms, uint64_t master) {
    lists_clear(a);
    redis_seen_trim(&a->seen);
    a->now_ms = now_ms;
    a->master = master;
    a->is_short = false;
}

void redis_attempt_forget(redis_attempt_t *a) { redis_seen_clear(&a->seen); }
bool redis_attempt_writes(const redis_attempt_t *a) { return a->writes.count > 0; }

/* ---- what a script does ---- */

static write_t *write_of(redis_attempt_t *a, const char *key) {
    redis_hash_t hash = redis_hash(key, "", 0);
    size_t place = (size_t)(uintptr_t)base_map_get(&a->written, &hash);
    return place > 0 ? &a->writes.items[place - 1] : NULL;
}

static void check_note(redis_attempt_t *a, bool is_walk, const char *key, const char *after,
                       const char *next) {
    redis_hash_t hash = redis_hash(key, after, is_walk);
    if (base_map_get(&a->noted, &hash) != NULL) return;
    check_t check = {.is_walk = is_walk};
    snprintf(check.key, sizeof check.key, "%s", key);
    snprintf(check.after, sizeof check.after, "%s", after);
    snprintf(check.next, sizeof check.next, "%s", next);
    if (!vec_push(&a->checks, check) || !base_map_put(&a->noted, &hash, a)) a->is_short = true;
}

static const void *key_get(void *context, const char *key, size_t *ret_size) {
    redis_attempt_t *a = context;
    const write_t *write = write_of(a, key);
    if (write != NULL) {
        if (write->value != NULL) *ret_size = write->size;
        return write->value;
    }
    check_note(a, false, key, "", "");
    const redis_text_t *seen = redis_seen_value(&a->seen, key);
    if (seen == NULL || seen->size == 0 || seen->bytes[0] != '+') return NULL;
    *ret_size = seen->size - 1;
    return seen->bytes + 1;
}

/* The place for a new write of the key, whatever was written there before. */
static write_t *write_place(redis_attempt_t *a, const char *key) {
    write_t *write = write_of(a, key);
    if (write == NULL) {
        redis_hash_t hash = redis_hash(key, "", 0);
        if (!vec_push(&a->writes, (write_t){0}) ||
            !base_map_put(&a->written, &hash, (void *)(uintptr_t)a->writes.count)) {
            a->is_short = true;
            return NULL;
        }
        write = &a->writes.items[a->writes.count - 1];
        snprintf(write->key, sizeof write->key, "%s", key);
    }
    free(write->value);
    write->value = NULL;
    return write;
}

static void key_set(void *context, const char *key, const void *value, size_t size,
                    uint64_t ttl_ms) {
    redis_attempt_t *a = context;
    uint8_t *copy = malloc(size + 1);
    write_t *write = copy != NULL ? write_place(a, key) : NULL;
    if (write == NULL) {
        free(copy);
        a->is_short = true;
        return;
    }
    if (size > 0) memcpy(copy, value, size);
    write->value = copy;
    write->size = size;
    snprintf(write->ttl, sizeof write->ttl, "%llu", (unsigned long long)ttl_ms);
}

static void key_del(void *context, const char *key) { write_place(context, key); }

/* The first key behind `after` that was seen, and is not deleted here. "": none. */
static const char *seen_next(redis_attempt_t *a, const char *first, const char *after) {
    for (;;) {
        const char *next = redis_seen_next(&a->seen, first, after);
        if (next == NULL) next = "";
        check_note(a, true, first, after, next);
        const write_t *write = next[0] != 0 ? write_of(a, next) : NULL;
        if (write == NULL || write->value != NULL) return next;
        after = next;
    }
}

/* The same of those that were written here. */
static const char *written_next(const redis_attempt_t *a, const char *first, const char *after) {
    const char *least = "";
    for (size_t i = 0; i < a->writes.count; i++) {
        const write_t *w = &a->writes.items[i];
        if (w->value != NULL && strncmp(w->key, first, strlen(first)) == 0 &&
            strcmp(w->key, after) > 0 && (least[0] == 0 || strcmp(w->key, least) < 0))
            least = w->key;
    }
    return least;
}

static const char *key_next(void *context, const char *first, const char *after) {
    redis_attempt_t *a = context;
    char behind[SCRIPT_KEY_MAX];
    /* what comes before all keys that begin so is as good as nothing */
    bool is_behind = after != NULL && strcmp(after, first) >= 0;
    snprintf(behind, sizeof behind, "%s", is_behind ? after : "");
    const char *seen = seen_next(a, first, behind), *written = written_next(a, first, behind);
    bool is_written = written[0] != 0 && (seen[0] == 0 || strcmp(written, seen) < 0);
    snprintf(a->next, sizeof a->next, "%s", is_written ? written : seen);
    return a->next[0] != 0 ? a->next : NULL;
}

mob_status_t redis_attempt_run(redis_attempt_t *a, script_fn script, const void *arguments,
                               size_t size, void *answer, size_t *ret_size) {
    script_keys_t keys = {a, a->now_ms, a->master, key_get, key_set, key_del, key_next};
    size_t answer_size = script(&keys, arguments, size, answer);
    if (a->is_short) return MOB_ENOMEM;
    *ret_size = answer_size;
    return MOB_OK;
}

/* ---- what is sent ---- */

static void word_add(redis_attempt_t *a, const void *bytes, size_t size) {
    if (!vec_push(&a->words, ((redis_word_t){bytes, size}))) a->is_short = true;
}

static void text_add(redis_attempt_t *a, const char *text) { word_add(a, text, strlen(text)); }

static void number_add(redis_attempt_t *a, int which, uint64_t number) {
    snprintf(a->numbers[which], sizeof a->numbers[which], "%llu", (unsigned long long)number);
    text_add(a, a->numbers[which]);
}

static void check_add(redis_attempt_t *a, const check_t *check) {
    text_add(a, check->is_walk ? "n" : "g");
    text_add(a, check->key);
    if (check->is_walk) {
        text_add(a, check->after);
        text_add(a, check->next);
        return;
    }
    const redis_text_t *seen = redis_seen_value(&a->seen, check->key);
    if (seen == NULL)
        text_add(a, "-");
    else
        word_add(a, seen->bytes, seen->size);
}

static void write_add(redis_attempt_t *a, const write_t *write) {
    text_add(a, write->value != NULL ? "s" : "d");
    text_add(a, write->key);
    if (write->value == NULL) return;
    word_add(a, write->value, write->size);
    text_add(a, write->ttl);
}

mob_status_t redis_attempt_words(redis_attempt_t *a, const redis_word_t **ret_words,
                                 size_t *ret_count) {
    a->words.count = 0;
    number_add(a, 0, a->now_ms);
    number_add(a, 1, a->checks.count);
    for (size_t i = 0; i < a->checks.count; i++) check_add(a, &a->checks.items[i]);
    number_add(a, 2, a->writes.count);
    for (size_t i = 0; i < a->writes.count; i++) write_add(a, &a->writes.items[i]);
    if (a->is_short) return MOB_ENOMEM;
    *ret_words = a->words.items;
    *ret_count = a->words.count;
    return MOB_OK;
}

/* ---- what comes back ---- */

/* Without memory nothing is known of the key, which is no error: it will be seen again. */
static void write_see(redis_attempt_t *a, const write_t *write) {
    const redis_text_t *before = redis_seen_value(&a->seen, write->key);
    bool was_there = before != NULL && before->size > 0 && before->bytes[0] == '+';
    if (before == NULL || was_there != (write->value != NULL))
        redis_seen_moved(&a->seen, write->key);
    char *found = malloc(write->size + 2);
    if (found == NULL) {
        redis_seen_clear(&a->seen);
        return;
    }
    found[0] = write->value != NULL ? '+' : '-';
    if (write->value != NULL) memcpy(found + 1, write->value, write->size);
    redis_seen_value_set(&a->seen, write->key, found, write->value != NULL ? write->size + 1 : 1);
    free(found);
}

void redis_attempt_done(redis_attempt_t *a) {
    for (size_t i = 0; i < a->writes.count; i++) write_see(a, &a->writes.items[i]);
}

typedef struct {
    const redis_word_t *words;
    size_t left;
    bool is_wrong;
} answer_t;

static redis_word_t word_take(answer_t *answer) {
    if (answer->left == 0) {
        answer->is_wrong = true;
        return (redis_word_t){"", 0};
    }
    answer->left--;
    return *answer->words++;
}

/* A key of ours: without a zero in it, and not too long. */
static void key_take(answer_t *answer, char *ret_key) {
    redis_word_t word = word_take(answer);
    ret_key[0] = 0;
    if (word.size >= SCRIPT_KEY_MAX || memchr(word.bytes, 0, word.size) != NULL)
        answer->is_wrong = true;
    else
        snprintf(ret_key, SCRIPT_KEY_MAX, "%.*s", (int)word.size, word.bytes);
}

static mob_status_t found_take(redis_attempt_t *a, answer_t *answer, const char *key) {
    redis_word_t found = word_take(answer);
    if (answer->is_wrong || found.size == 0 || found.size > SCRIPT_VALUE_MAX + 1 ||
        (found.bytes[0] != '+' && found.bytes[0] != '-'))
        return base_fail(MOB_EPROTO, "Redis has a value under %s that is none of ours", key);
    return redis_seen_value_set(&a->seen, key, found.bytes, found.size);
}

static mob_status_t walk_take(redis_attempt_t *a, answer_t *answer) {
    char first[SCRIPT_KEY_MAX], after[SCRIPT_KEY_MAX], next[SCRIPT_KEY_MAX], digits[24];
    key_take(answer, first);
    key_take(answer, after);
    redis_word_t count = word_take(answer);
    snprintf(digits, sizeof digits, "%.*s", (int)(count.size < 20 ? count.size : 20), count.bytes);
    mob_status_t status = MOB_OK;
    for (unsigned long i = strtoul(digits, NULL, 10); i > 0 && status == MOB_OK; i--) {
        key_take(answer, next);
        status = found_take(a, answer, next);
        if (status == MOB_OK) status = redis_seen_next_set(&a->seen, first, after, next);
        memcpy(after, next, sizeof after);
    }
    if (status != MOB_OK) return status;
    redis_word_t last = word_take(answer);
    if (last.size != 3 || memcmp(last.bytes, "end", 3) != 0) return MOB_OK;
    return redis_seen_next_set(&a->seen, first, after, "");
}

mob_status_t redis_attempt_differs(redis_attempt_t *a, const redis_word_t *words, size_t count) {
    answer_t answer = {words, count, false};
    mob_status_t status = MOB_OK;
    while (answer.left > 0 && status == MOB_OK) {
        redis_word_t what = word_take(&answer);
        char key[SCRIPT_KEY_MAX];
        if (what.size == 1 && what.bytes[0] == 'g') {
            key_take(&answer, key);
            redis_seen_moved(&a->seen, key);
            status = found_take(a, &answer, key);
        } else if (what.size == 1 && what.bytes[0] == 'n') {
            status = walk_take(a, &answer);
        } else {
            answer.is_wrong = true;
        }
        if (status == MOB_OK && answer.is_wrong)
            status = base_fail(MOB_EPROTO, "Redis gave an answer that makes no sense");
    }
    return status;
}
