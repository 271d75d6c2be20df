/* A script reads all that it decides by before it writes: so one that meets a poisoned value has
 * changed nothing that matters. */
#include "member/state.h"

#include <stdio.h>
#include <stdlib.h>

#include "member/script.h"

state_key_t state_key(const char *prefix, uint64_t number) {
    state_key_t key;
    size_t length = strlen(prefix);
    memcpy(key.text, prefix, length);
    for (int i = 0; i < 16; i++)
        key.text[length++] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
    key.text[length] = 0;
    return key;
}

uint64_t state_key_number(const char *prefix, const char *key) {
    return strtoull(key + strlen(prefix), NULL, 16);
}

static void poison(state_t *s, const char *key) {
    if (s->poisoned[0] == 0) snprintf(s->poisoned, sizeof s->poisoned, "%s", key);
}

static void words_read(const void *bytes, size_t size, uint64_t *ret_words, size_t count) {
    base_reader_t r = {bytes, size, false};
    for (size_t i = 0; i < count; i++) ret_words[i] = base_take_number(&r, 8);
}

bool state_get(state_t *s, const char *key, uint64_t *ret_words, size_t count) {
    size_t size = 0;
    const void *value = s->keys->get(s->keys->context, key, &size);
    if (value == NULL) return false;
    if (size != count * 8) {
        poison(s, key);
        return false;
    }
    words_read(value, size, ret_words, count);
    return true;
}

uint64_t state_get_one(state_t *s, const char *key) {
    uint64_t word = 0;
    state_get(s, key, &word, 1);
    return word;
}

void state_set(state_t *s, const char *key, const uint64_t *words, size_t count, uint64_t ttl_ms) {
    uint8_t bytes[8 * STATE_BEHIND_MAX];
    base_writer_t w = {bytes, 0};
    for (size_t i = 0; i < count; i++) base_put_number(&w, words[i], 8);
    s->keys->set(s->keys->context, key, bytes, w.size, ttl_ms);
}

void state_set_one(state_t *s, const char *key, uint64_t word) { state_set(s, key, &word, 1, 0); }

/* ---- members ---- */

_Static_assert(sizeof(record_t) <= 8 * (size_t)STATE_BEHIND_MAX,
               "a record has more words than a value may have");

bool state_record(state_t *s, uint64_t incarnation, record_t *ret_record) {
    uint64_t words[RECORD_WORDS];
    record_t record;
    state_key_t key = state_key("m/n/", incarnation);
    if (!state_get(s, key.text, words, RECORD_WORDS)) return false;
    memcpy(&record, words, sizeof record);
    if (record.witness_count > MEMBER_WITNESSES || record.complaint_count > MEMBER_COMPLAINTS) {
        poison(s, key.text);
        return false;
    }
    *ret_record = record;
    return true;
}

void state_record_set(state_t *s, uint64_t incarnation, const record_t *record) {
    uint64_t words[RECORD_WORDS];
    memcpy(words, record, sizeof words);
    state_set(s, state_key("m/n/", incarnation).text, words, RECORD_WORDS, 0);
}

bool state_has_lease(state_t *s, uint64_t incarnation) {
    return state_get_one(s, state_key("m/l/", incarnation).text) != 0;
}

bool state_stone(state_t *s, uint64_t number, stone_t *ret_stone) {
    uint64_t words[3];
    if (!state_get(s, state_key("m/t/", number).text, words, 3)) return false;
    *ret_stone = (stone_t){words[0], words[1], words[2]};
    return true;
}

uint64_t state_tombstone(state_t *s, uint64_t incarnation) {
    return state_get_one(s, state_key("m/d/", incarnation).text);
}

bool state_is_settled(state_t *s, uint64_t era) { return state_get_one(s, "m/settled") == era; }

uint64_t state_mint(state_t *s) {
    uint64_t number = state_get_one(s, "m/count") + 1;
    if (number < s->keys->now_ms) number = s->keys->now_ms;
    state_set_one(s, "m/count", number);
    return number;
}

void state_count_raise(state_t *s, uint64_t number) {
    if (state_get_one(s, "m/count") < number) state_set_one(s, "m/count", number);
}

static void blob_set(state_t *s, uint64_t incarnation, uint64_t number, const void *blob,
                     size_t size) {
    uint8_t bytes[8 + MEMBER_BLOB_MAX];
    base_writer_t w = {bytes, 0};
    base_put_number(&w, number, 8);
    base_put_bytes(&w, blob, size);
    s->keys->set(s->keys->context, state_key("m/a/", incarnation).text, bytes, w.size, 0);
}

void state_member_add(state_t *s, uint64_t incarnation, uint64_t number, const record_t *record,
                      const void *blob, size_t size) {
    record_t added = *record, before;
    if (state_tombstone(s, incarnation) != 0 || state_record(s, incarnation, &before)) return;
    added.number = number;
    added.stamp = state_mint(s);
    state_set_one(s, state_key("m/j/", added.stamp).text, incarnation);
    blob_set(s, incarnation, number, blob, size);
    state_record_set(s, incarnation, &added);
}

void state_bury(state_t *s, uint64_t incarnation, uint64_t number, uint64_t closed) {
    uint64_t words[3] = {incarnation, closed, s->keys->now_ms};
    record_t record;
    void *context = s->keys->context;
    state_set(s, state_key("m/t/", number).text, words, 3, 0);
    state_set_one(s, state_key("m/d/", incarnation).text, number);
    state_set_one(s, "m/tail", number);
    state_count_raise(s, number);
    if (!state_record(s, incarnation, &record)) return;
    s->keys->del(context, state_key("m/j/", record.stamp).text);
    s->keys->del(context, state_key("m/a/", incarnation).text);
    s->keys->del(context, state_key("m/l/", incarnation).text);
    s->keys->del(context, state_key("m/n/", incarnation).text);
}

/* ---- answers ---- */

base_writer_t state_answer(void *answer, uint64_t status) {
    base_writer_t w = {answer, 0};
    base_put_number(&w, status, 8);
    return w;
}

size_t state_end(const state_t *s, base_writer_t *w) {
    if (s->poisoned[0] == 0) return w->size;
    *w = state_answer(w->bytes, MEMBER_SAYS_POISONED);
    base_put_bytes(w, s->poisoned, strlen(s->poisoned));
    return w->size;
}
