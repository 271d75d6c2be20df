/*
 * Scripts of the leader. Each checks that its asker leads, with the highest fencing number that
 * anybody who renewed has named, in this era.
 */
#include <string.h>

#include "base/vec.h"
#include "member/script.h"
#include "member/state.h"
#include "member/times.h"

static size_t answer_one(const state_t *s, void *answer, member_says_t status, uint64_t word) {
    base_writer_t w = state_answer(answer, status);
    if (status == MEMBER_SAYS_OK) base_put_number(&w, word, 8);
    return state_end(s, &w);
}

static bool is_era(const script_keys_t *keys, uint64_t era) {
    return member_script_guard(keys, era);
}

/* A leader has to renew: else its answers have gaps, and it can't decide anything. */
static bool may_lead(state_t *s, uint64_t self) {
    record_t record;
    return state_record(s, self, &record) && record.condemned == 0 && state_has_lease(s, self);
}

static bool leads(state_t *s, uint64_t self, uint64_t fence, uint64_t era) {
    uint64_t lead[2] = {0};
    if (!is_era(s->keys, era)) return false;
    if (!may_lead(s, self) && BASE_RULE(MEMBER_LEADER_RENEWS)) return false;
    return state_get(s, "m/lead", lead, 2) && lead[0] == self && lead[1] == fence &&
           state_get_one(s, "m/fence") == fence;
}

/* For what can't be taken back. */
static bool decides(state_t *s, uint64_t self, uint64_t fence, uint64_t era) {
    if (!BASE_RULE(MEMBER_FENCE_CHECKED)) return is_era(s->keys, era);
    return leads(s, self, fence, era);
}

/* ---- to lead ---- */

static uint64_t fence_mint(state_t *s, uint64_t above) {
    uint64_t fence = state_get_one(s, "m/fence");
    if (fence < above) fence = above;
    fence++;
    if (BASE_RULE(MEMBER_FENCE_BY_TIME) && fence < s->keys->now_ms) fence = s->keys->now_ms;
    state_set_one(s, "m/fence", fence);
    return fence;
}

size_t member_script_lead(const script_keys_t *keys, const void *arguments, size_t size,
                          void *answer) {
    state_t s = {.keys = keys};
    base_reader_t r = {arguments, size, false};
    uint64_t self = base_take_number(&r, 8), era = base_take_number(&r, 8);
    uint64_t above = base_take_number(&r, 8), lead[2] = {0};
    if (!is_era(keys, era) || !may_lead(&s, self))
        return answer_one(&s, answer, MEMBER_SAYS_REFUSED, 0);
    bool is_led = state_get(&s, "m/lead", lead, 2);
    if (is_led && lead[0] != self) return answer_one(&s, answer, MEMBER_SAYS_REFUSED, 0);
    /* the same answer to a repeated question */
    bool is_same = is_led && lead[1] > above && lead[1] == state_get_one(&s, "m/fence");
    uint64_t words[2] = {self, is_same ? lead[1] : fence_mint(&s, above)};
    state_set(&s, "m/lead", words, 2, TIMES_REIGN_MS);
    return answer_one(&s, answer, MEMBER_SAYS_OK, words[1]);
}

/* ---- the survey ---- */

typedef struct {
    uint64_t incarnation, number, count;
} accused_t;

enum { ACCUSED_MAX = 64 };

typedef struct {
    bool all_said;
    uint64_t least_closed;
    accused_t accused[ACCUSED_MAX];
    size_t accused_count;
    uint64_t absent[MEMBER_SURVEY_MAX][2]; /* incarnation, sequence */
    size_t absent_count;
} survey_t;

static void accuse(survey_t *v, uint64_t incarnation) {
    size_t i = 0;
    while (i < v->accused_count && v->accused[i].incarnation != incarnation) i++;
    if (i == ACCUSED_MAX) return;
    if (i == v->accused_count) v->accused[v->accused_count++] = (accused_t){incarnation, 0, 0};
    v->accused[i].count++;
}

static void survey_member(state_t *s, survey_t *v, uint64_t incarnation, uint64_t era) {
    record_t record;
    if (!state_record(s, incarnation, &record)) return;
    v->all_said &= record.said == era;
    if (record.closed < v->least_closed) v->least_closed = record.closed;
    if (!state_has_lease(s, incarnation)) {
        if (v->absent_count == MEMBER_SURVEY_MAX) return;
        v->absent[v->absent_count][0] = incarnation;
        v->absent[v->absent_count++][1] = record.sequence;
        return;
    }
    for (uint64_t i = 0; i < record.complaint_count; i++) accuse(v, record.complaints[i]);
}

static void survey_all(state_t *s, survey_t *v, uint64_t era) {
    const char *key;
    state_key_t at = {""};
    while ((key = s->keys->next(s->keys->context, "m/n/", at.text)) != NULL) {
        uint64_t incarnation = state_key_number("m/n/", key);
        at = state_key("m/n/", incarnation);
        survey_member(s, v, incarnation, era);
    }
}

/* The one with the most complaints, among equals the youngest; 0 while somebody is condemned. */
static uint64_t to_condemn(state_t *s, const survey_t *v) {
    accused_t worst = {0};
    record_t record;
    uint64_t condemned = state_get_one(s, "m/condemned");
    if (BASE_RULE(MEMBER_CONDEMN_ONE) && condemned != 0 && state_record(s, condemned, &record))
        return 0;
    for (size_t i = 0; i < v->accused_count; i++) {
        accused_t one = v->accused[i];
        if (!state_record(s, one.incarnation, &record) || record.condemned != 0 ||
            !state_has_lease(s, one.incarnation))
            continue;
        one.number = record.number;
        if (one.count > worst.count || (one.count == worst.count && one.number > worst.number))
            worst = one;
    }
    return worst.incarnation;
}

/* K: the greatest number that every member has closed, and every dead one that had closed less has
 * its own tombstone at or below. */
static uint64_t struck_now(state_t *s, uint64_t least_closed) {
    uint64_t before = state_get_one(s, "m/struck"), number = state_get_one(s, "m/tail");
    if (least_closed < number) number = least_closed;
    bool is_lower = BASE_RULE(MEMBER_STRUCK_DEAD);
    while (is_lower && number > before) {
        is_lower = false;
        state_key_t at = state_key("m/t/", before);
        const char *key;
        while ((key = s->keys->next(s->keys->context, "m/t/", at.text)) != NULL) {
            uint64_t own = state_key_number("m/t/", key);
            stone_t stone;
            at = state_key("m/t/", own);
            if (!state_stone(s, own, &stone) || own <= number || stone.closed >= number) continue;
            number = stone.closed;
            is_lower = true;
        }
    }
    return number;
}

static void publish(state_t *s, const survey_t *v, uint64_t era, bool had_two_leases) {
    bool is_settled = state_is_settled(s, era);
    bool all_said = v->all_said || !BASE_RULE(MEMBER_SETTLE_ALL_SAID);
    if (!is_settled && all_said && had_two_leases) state_set_one(s, "m/settled", era);
    if (!is_settled && BASE_RULE(MEMBER_STRUCK_SETTLED)) return;
    uint64_t struck = struck_now(s, v->least_closed);
    if (struck > state_get_one(s, "m/struck")) state_set_one(s, "m/struck", struck);
}

size_t member_script_survey(const script_keys_t *keys, const void *arguments, size_t size,
                            void *answer) {
    state_t s = {.keys = keys};
    base_reader_t r = {arguments, size, false};
    uint64_t self = base_take_number(&r, 8), fence = base_take_number(&r, 8);
    uint64_t era = base_take_number(&r, 8), had_two_leases = base_take_number(&r, 8);
    if (!leads(&s, self, fence, era)) return answer_one(&s, answer, MEMBER_SAYS_REFUSED, 0);
    survey_t v = {.all_said = true, .least_closed = UINT64_MAX};
    survey_all(&s, &v, era);
    if (s.poisoned[0] == 0) publish(&s, &v, era, had_two_leases != 0);
    uint64_t lead[2] = {self, fence};
    state_set(&s, "m/lead", lead, 2, TIMES_REIGN_MS);
    base_writer_t w = state_answer(answer, MEMBER_SAYS_OK);
    base_put_number(&w, to_condemn(&s, &v), 8);
    base_put_number(&w, v.absent_count, 8);
    for (size_t i = 0; i < v.absent_count; i++) {
        base_put_number(&w, v.absent[i][0], 8);
        base_put_number(&w, v.absent[i][1], 8);
    }
    return state_end(&s, &w);
}

/* ---- tombstones ---- */

/* Dead for long enough that nobody counts it any more; or its renewals were answered for two
 * leases, so it says so to whoever would count it. */
static bool is_certain(state_t *s, uint64_t witness, uint64_t era) {
    uint64_t number = state_tombstone(s, witness), now = s->keys->now_ms;
    stone_t stone;
    record_t record;
    if (number != 0) return state_stone(s, number, &stone) && now >= stone.at_ms + TIMES_REST_MS;
    if (!state_record(s, witness, &record) || !state_has_lease(s, witness)) return false;
    if (record.era != era || now < record.echo_ms || now < record.since_ms) return false;
    if (BASE_RULE(MEMBER_WITNESS_TWO_LEASES) && now - record.since_ms < TIMES_RUN_MS) return false;
    return now - record.echo_ms <= TIMES_GAP_MS;
}

/* At least half of the node and its witnesses: then not more than half can keep it going. */
static bool half_is_certain(state_t *s, const record_t *record, uint64_t era) {
    uint64_t certain = 0;
    for (uint64_t i = 0; i < record->witness_count; i++)
        certain += is_certain(s, record->witnesses[i], era);
    return 2 * certain >= record->witness_count + 1 || !BASE_RULE(MEMBER_BURY_HALF);
}

/* It has no lease, and has not renewed since the leader's look. */
static bool is_as_looked(state_t *s, uint64_t incarnation, bool is_same) {
    return (is_same && !state_has_lease(s, incarnation)) || !BASE_RULE(MEMBER_BURY_AS_LOOKED);
}

size_t member_script_bury(const script_keys_t *keys, const void *arguments, size_t size,
                          void *answer) {
    state_t s = {.keys = keys};
    base_reader_t r = {arguments, size, false};
    uint64_t self = base_take_number(&r, 8), fence = base_take_number(&r, 8);
    uint64_t era = base_take_number(&r, 8), incarnation = base_take_number(&r, 8);
    uint64_t sequence = base_take_number(&r, 8), is_certain_by_time = base_take_number(&r, 8);
    if (!decides(&s, self, fence, era)) return answer_one(&s, answer, MEMBER_SAYS_REFUSED, 0);
    uint64_t number = state_tombstone(&s, incarnation);
    if (number != 0) return answer_one(&s, answer, MEMBER_SAYS_OK, number);
    record_t record;
    bool is_refused = !state_record(&s, incarnation, &record) ||
                      !is_as_looked(&s, incarnation, record.sequence == sequence) ||
                      (!is_certain_by_time && !half_is_certain(&s, &record, era));
    if (is_refused || s.poisoned[0] != 0) return answer_one(&s, answer, MEMBER_SAYS_REFUSED, 0);
    number = state_mint(&s);
    state_bury(&s, incarnation, number, record.closed);
    return answer_one(&s, answer, MEMBER_SAYS_OK, number);
}

/* Whoever leaves has given up its lead: nobody has to wait for its end. */
static void lead_free(state_t *s, uint64_t self, uint64_t given_up) {
    uint64_t lead[2] = {0};
    if (state_get(s, "m/lead", lead, 2) && lead[0] == self && lead[1] <= given_up)
        s->keys->del(s->keys->context, "m/lead");
}

/* The asker has read that this era has settled, and it is still this one. */
size_t member_script_bury_own(const script_keys_t *keys, const void *arguments, size_t size,
                              void *answer) {
    state_t s = {.keys = keys};
    base_reader_t r = {arguments, size, false};
    record_t record;
    uint64_t self = base_take_number(&r, 8), era = base_take_number(&r, 8);
    uint64_t incarnation = base_take_number(&r, 8), given_up = base_take_number(&r, 8);
    if (!is_era(keys, era) || !state_record(&s, self, &record))
        return answer_one(&s, answer, MEMBER_SAYS_LATER, 0);
    if (state_record(&s, incarnation, &record) && s.poisoned[0] == 0) {
        if (incarnation == self) lead_free(&s, self, given_up);
        state_bury(&s, incarnation, state_mint(&s), record.closed);
    }
    return answer_one(&s, answer, MEMBER_SAYS_OK, incarnation);
}

size_t member_script_condemn(const script_keys_t *keys, const void *arguments, size_t size,
                             void *answer) {
    state_t s = {.keys = keys};
    base_reader_t r = {arguments, size, false};
    uint64_t self = base_take_number(&r, 8), fence = base_take_number(&r, 8);
    uint64_t era = base_take_number(&r, 8), incarnation = base_take_number(&r, 8);
    record_t record, other;
    uint64_t condemned = state_get_one(&s, "m/condemned");
    bool is_taken = BASE_RULE(MEMBER_CONDEMN_ONE) && condemned != 0 && condemned != incarnation &&
                    state_record(&s, condemned, &other);
    if (!decides(&s, self, fence, era) || is_taken || !state_record(&s, incarnation, &record) ||
        s.poisoned[0] != 0)
        return answer_one(&s, answer, MEMBER_SAYS_REFUSED, 0);
    record.condemned = 1;
    state_record_set(&s, incarnation, &record);
    state_set_one(&s, "m/condemned", incarnation);
    return answer_one(&s, answer, MEMBER_SAYS_OK, 0);
}
