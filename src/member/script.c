/*
 * Scripts that any node asks for: to register, to renew its lease, and to say again what was lost.
 *
 * An era is the name of a state: one that a fail-over has shortened, or that began empty, is
 * another. The first renewal that meets a copy which no era was begun on, or an era below one that
 * its node knows, begins one. The state is settled when the leader has written so (script_lead.c).
 */
#include "member/script.h"

#include <string.h>

#include "member/state.h"
#include "member/times.h"

enum { STONE_WORDS = 3, MEMBER_WORDS = 4, POLL_STONES = 32, POLL_MARGIN = 64 };

/* ---- eras ---- */

static bool era_get(state_t *s, era_t *ret_era) {
    uint64_t words[4];
    if (!state_get(s, "m/era", words, 4)) return false;
    *ret_era = (era_t){words[0], words[1], {words[2], words[3]}};
    return true;
}

static void era_begin(state_t *s, era_t *era, uint64_t above) {
    if (era->era < above) era->era = above;
    era->era++;
    if (era->era < s->keys->now_ms) era->era = s->keys->now_ms;
    era->copy = s->keys->master;
    uint64_t words[4] = {era->era, era->copy, era->cluster[0], era->cluster[1]};
    state_set(s, "m/era", words, 4, 0);
}

static bool is_strange(const era_t *era, const uint64_t cluster[2]) {
    return era->cluster[0] != cluster[0] || era->cluster[1] != cluster[1];
}

/* The state's era, a new one if it has changed. False: it is another cluster's, or poisoned. */
static bool era_meet(state_t *s, const member_renewal_t *a, era_t *ret_era) {
    era_t era = {.cluster = {a->cluster[0], a->cluster[1]}};
    bool is_there = era_get(s, &era);
    if (s->poisoned[0] != 0 || is_strange(&era, a->cluster)) return false;
    bool is_below = BASE_RULE(MEMBER_ERA_ABOVE) && era.era < a->era;
    if (!is_there || era.copy != s->keys->master || is_below) era_begin(s, &era, a->era);
    *ret_era = era;
    return true;
}

bool member_script_guard(const script_keys_t *keys, uint64_t master) {
    state_t s = {.keys = keys};
    era_t era;
    return era_get(&s, &era) && era.era == master && era.copy == keys->master;
}

/* ---- register ---- */

static bool nobody_is_there(const state_t *s) {
    return s->keys->next(s->keys->context, "m/l/", NULL) == NULL;
}

/* Whether a number may be given out: everybody has said his facts, or nobody is there who could. */
static bool is_open(state_t *s, const era_t *era) {
    if (era->copy != s->keys->master) return false;
    return state_is_settled(s, era->era) || nobody_is_there(s);
}

static size_t registered(state_t *s, void *answer, uint64_t number, uint64_t era) {
    base_writer_t w = state_answer(answer, MEMBER_SAYS_OK);
    base_put_number(&w, number, 8);
    base_put_number(&w, era, 8);
    return state_end(s, &w);
}

static size_t status_only(const state_t *s, void *answer, member_says_t status) {
    base_writer_t w = state_answer(answer, status);
    return state_end(s, &w);
}

static size_t dead(const state_t *s, void *answer, uint64_t number) {
    base_writer_t w = state_answer(answer, MEMBER_SAYS_DEAD);
    base_put_number(&w, number, 8);
    return state_end(s, &w);
}

size_t member_script_register(const script_keys_t *keys, const void *arguments, size_t size,
                              void *answer) {
    state_t s = {.keys = keys};
    base_reader_t r = {arguments, size, false};
    uint64_t self = base_take_number(&r, 8), founds = base_take_number(&r, 8);
    era_t mine = {.cluster[0] = base_take_number(&r, 8)}, era;
    mine.cluster[1] = base_take_number(&r, 8);
    if (!era_get(&s, &era)) {
        if (founds == 0 || s.poisoned[0] != 0) return status_only(&s, answer, MEMBER_SAYS_LATER);
        era = mine;
        era_begin(&s, &era, 0);
        state_set_one(&s, "m/settled", era.era); /* nobody else can have a fact */
    }
    if (is_strange(&era, mine.cluster)) return status_only(&s, answer, MEMBER_SAYS_STRANGER);
    uint64_t tombstone = state_tombstone(&s, self);
    if (tombstone != 0) return dead(&s, answer, tombstone);
    record_t record;
    if (state_record(&s, self, &record)) return registered(&s, answer, record.number, era.era);
    if (era.copy != keys->master && nobody_is_there(&s))
        era_begin(&s, &era, 0); /* nobody is left whose renewal would */
    if (!is_open(&s, &era)) return status_only(&s, answer, MEMBER_SAYS_LATER);
    uint64_t number = state_mint(&s);
    record = (record_t){.closed = number, .said = era.era};
    state_member_add(&s, self, number, &record, r.at, r.left);
    return registered(&s, answer, number, era.era);
}

/* ---- renew ---- */

static member_renewal_t renewal_read(const void *arguments, size_t size) {
    uint64_t words[MEMBER_RENEWAL_WORDS];
    member_renewal_t renewal;
    base_reader_t r = {arguments, size, false};
    for (size_t i = 0; i < MEMBER_RENEWAL_WORDS; i++) words[i] = base_take_number(&r, 8);
    memcpy(&renewal, words, sizeof renewal);
    return renewal;
}

/* The first tombstone after this number, or 0. */
static uint64_t stone_after(state_t *s, uint64_t number) {
    state_key_t after = state_key("m/t/", number);
    const char *key = s->keys->next(s->keys->context, "m/t/", after.text);
    return key != NULL ? state_key_number("m/t/", key) : 0;
}

/* Whether the asker acts on tombstones that are not this state's: one that it knows is missing
 * among them, or one that it does not know lies below what it has closed. */
static bool contradicts(state_t *s, const member_renewal_t *a) {
    if (a->is_member == 0) return false;
    uint64_t tail = state_get_one(s, "m/tail"), next = stone_after(s, a->heard);
    stone_t stone = {0};
    if (a->heard != 0 && a->heard <= tail && !state_stone(s, a->heard, &stone)) return true;
    if (a->heard != 0 && a->heard <= tail && stone.incarnation != a->heard_inc) return true;
    return next != 0 && next <= a->closed;
}

/* One that its node knows to be answered counts, not one that has only run. */
static void run_of_answers(const state_t *s, const member_renewal_t *a, const era_t *era,
                           record_t *record) {
    uint64_t now = s->keys->now_ms;
    if (record->era != era->era || record->echo_ms == 0 || record->echo_ms > now ||
        now - record->echo_ms > TIMES_GAP_MS)
        record->since_ms = now;
    record->echo_ms = BASE_RULE(MEMBER_WITNESS_ANSWERED) ? a->echo_ms : now;
    if (a->era != era->era) record->echo_ms = 0; /* by another clock */
}

static void fence_raise(state_t *s, const member_renewal_t *a) {
    uint64_t highest = state_get_one(s, "m/fence"), lead[2] = {0};
    state_get(s, "m/lead", lead, 2);
    if (a->fence > highest)
        state_set_one(s, "m/fence", a->fence);
    else if (a->fence != 0 && a->fence == highest && lead[1] == highest && lead[0] != a->holder)
        state_set_one(s, "m/fence", highest + 1);
}

static void renew(state_t *s, const member_renewal_t *a, const era_t *era, record_t *record) {
    run_of_answers(s, a, era, record);
    record->era = era->era;
    record->sequence = a->sequence;
    record->said = a->said;
    if (a->closed > record->closed) record->closed = a->closed;
    record->witness_count = a->witness_count;
    memcpy(record->witnesses, a->witnesses, sizeof record->witnesses);
    record->complaint_count = a->complaint_count;
    memcpy(record->complaints, a->complaints, sizeof record->complaints);
    uint64_t one = 1;
    state_record_set(s, a->self, record);
    state_set(s, state_key("m/l/", a->self).text, &one, 1, MEMBER_LEASE_MS);
    state_count_raise(s, a->seen);
    if (BASE_RULE(MEMBER_FENCE_RAISED)) fence_raise(s, a);
}

/* ---- what changed: the tail of a renewal's answer ---- */

/* Tombstones after the last one that the asker has. Returns whether there are more. */
static bool poll_stones(state_t *s, uint64_t after, base_writer_t *w, uint64_t *ret_count) {
    for (*ret_count = 0; (after = stone_after(s, after)) != 0; ++*ret_count) {
        stone_t stone;
        if (*ret_count == POLL_STONES) return true;
        if (!state_stone(s, after, &stone)) return false;
        base_put_number(w, after, 8);
        base_put_number(w, stone.incarnation, 8);
        base_put_number(w, stone.closed, 8);
    }
    return false;
}

static bool poll_member(state_t *s, uint64_t stamp, base_writer_t *w) {
    uint64_t incarnation = state_get_one(s, state_key("m/j/", stamp).text);
    size_t size = 0;
    state_key_t key = state_key("m/a/", incarnation);
    const uint8_t *value = s->keys->get(s->keys->context, key.text, &size);
    if (value == NULL || size < 8 || size > 8 + MEMBER_BLOB_MAX) {
        memcpy(s->poisoned, key.text, sizeof key.text);
        return false;
    }
    base_put_number(w, stamp, 8);
    base_put_number(w, incarnation, 8);
    base_put_bytes(w, value, 8);
    base_put_number(w, size - 8, 8);
    base_put_bytes(w, value + 8, size - 8);
    return true;
}

static bool poll_members(state_t *s, uint64_t after, base_writer_t *w, uint64_t *ret_count) {
    for (*ret_count = 0;; ++*ret_count) {
        state_key_t last = state_key("m/j/", after);
        const char *key = s->keys->next(s->keys->context, "m/j/", last.text);
        if (key == NULL) return false;
        after = state_key_number("m/j/", key);
        if (w->size + MEMBER_WORDS * 8 + MEMBER_BLOB_MAX + POLL_MARGIN > SCRIPT_ANSWER_MAX)
            return true;
        if (!poll_member(s, after, w)) return false;
    }
}

/* Everything of an answer but its status and its lists. */
static void head_put(base_writer_t *w, state_t *s, const era_t *era, const uint64_t counts[3]) {
    uint64_t lead[2] = {0};
    bool is_led = state_get(s, "m/lead", lead, 2) && lead[1] == state_get_one(s, "m/fence");
    uint64_t words[] = {era->era,
                        state_get_one(s, "m/settled"),
                        s->keys->now_ms,
                        is_led ? lead[0] : 0,
                        is_led ? lead[1] : 0,
                        state_get_one(s, "m/struck"),
                        state_get_one(s, "m/tail"),
                        counts[0],
                        counts[1],
                        counts[2]};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) base_put_number(w, words[i], 8);
}

static size_t renewed(state_t *s, const member_renewal_t *a, const era_t *era, void *answer,
                      member_says_t status) {
    uint64_t counts[3] = {0}; /* is there more; tombstones; members */
    base_writer_t w = state_answer(answer, status), head = w;
    head_put(&w, s, era, counts);
    uint64_t cursor = a->era == era->era ? a->cursor : 0;
    counts[0] = poll_stones(s, a->heard, &w, &counts[1]);
    counts[0] |= poll_members(s, cursor, &w, &counts[2]);
    head_put(&head, s, era, counts);
    return state_end(s, &w);
}

size_t member_script_renew(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    state_t s = {.keys = keys};
    member_renewal_t a = renewal_read(arguments, size);
    era_t era;
    record_t record;
    if (!era_meet(&s, &a, &era)) return status_only(&s, answer, MEMBER_SAYS_STRANGER);
    uint64_t tombstone = state_tombstone(&s, a.self);
    if (tombstone != 0) return dead(&s, answer, tombstone);
    if (!state_record(&s, a.self, &record))
        return renewed(&s, &a, &era, answer, MEMBER_SAYS_UNKNOWN);
    if (contradicts(&s, &a)) return status_only(&s, answer, MEMBER_SAYS_CONTRADICTED);
    if (record.condemned != 0 && nobody_is_there(&s) && BASE_RULE(MEMBER_PARDON))
        record.condemned = 0;
    if (record.condemned != 0) return renewed(&s, &a, &era, answer, MEMBER_SAYS_CONDEMNED);
    /* one that a dropped connection kept back runs after newer ones */
    if (a.sequence > record.sequence && s.poisoned[0] == 0) renew(&s, &a, &era, &record);
    return renewed(&s, &a, &era, answer, MEMBER_SAYS_OK);
}

/* ---- say again ---- */

static void say_stones(state_t *s, base_reader_t *r, uint64_t tail, uint64_t count) {
    bool fits = state_get_one(s, "m/tail") == tail;
    for (uint64_t i = 0; i < count && !r->short_of; i++) {
        uint64_t number = base_take_number(r, 8), incarnation = base_take_number(r, 8);
        uint64_t closed = base_take_number(r, 8);
        if (fits && !r->short_of) state_bury(s, incarnation, number, closed);
    }
}

static void say_members(state_t *s, base_reader_t *r, uint64_t count) {
    for (uint64_t i = 0; i < count && !r->short_of; i++) {
        uint64_t incarnation = base_take_number(r, 8), number = base_take_number(r, 8);
        record_t record = {.closed = base_take_number(r, 8)};
        size_t size = (size_t)base_take_number(r, 8);
        const void *blob = base_take_bytes(r, size);
        if (r->short_of || size > MEMBER_BLOB_MAX) return;
        state_count_raise(s, number);
        state_member_add(s, incarnation, number, &record, blob, size);
    }
}

size_t member_script_say(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer) {
    state_t s = {.keys = keys};
    base_reader_t r = {arguments, size, false};
    base_take_number(&r, 8);
    uint64_t wanted = base_take_number(&r, 8), tail = base_take_number(&r, 8);
    uint64_t stones = base_take_number(&r, 8), members = base_take_number(&r, 8);
    era_t era = {0};
    if (!era_get(&s, &era) || era.era != wanted || era.copy != keys->master ||
        state_is_settled(&s, wanted))
        return status_only(&s, answer, MEMBER_SAYS_REFUSED);
    say_stones(&s, &r, tail, stones);
    say_members(&s, &r, members);
    return status_only(&s, answer, MEMBER_SAYS_OK);
}
