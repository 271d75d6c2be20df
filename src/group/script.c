/* The scripts: what each of them decides. The records are record.c's. */
#include "group/script.h"

#include <stdio.h>

#include "base/rule.h"
#include "group/record.h"
#include "group/spec.h"

static size_t say(void *answer, group_answer_t code) {
    *(uint8_t *)answer = (uint8_t)code;
    return 1;
}

/* And the newest leader that has read records. */
static size_t say_leader(const script_keys_t *keys, void *answer, group_answer_t code) {
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, code, 1);
    group_fence_put(keys, &w);
    return w.size;
}

/* The asker's master has settled, and is this one. */
static bool is_settled(const script_keys_t *keys, base_reader_t *r) {
    uint64_t settled = base_take_number(r, 8);
    if (settled != keys->master && BASE_RULE(GROUP_UNSETTLED)) return false;
    if (!group_settled_get(keys)) group_settled_set(keys);
    return true;
}

static size_t answer_number(void *answer, uint64_t number) {
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, GROUP_SAID_OK, 1);
    base_put_number(&w, number, 8);
    return w.size;
}

size_t group_script_create(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    group_record_value_t record = {0};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    const uint8_t *id = base_take_bytes(&r, GROUP_ID_SIZE),
                  *name = base_take_bytes(&r, GROUP_NAME_HASH);
    if (id == NULL || name == NULL) return say(answer, GROUP_SAID_BROKEN);
    if (group_record_get(keys, id, &record)) /* asked again */
        return record.state == GROUP_RECORD_LIVE ? answer_number(answer, record.number)
                                                 : say(answer, GROUP_SAID_REMOVED);
    bool is_its;
    if (!group_name_is_none(name) && group_name_get(keys, name, id, &is_its) != 0 &&
        BASE_RULE(GROUP_NAME_FIRST))
        return say(answer, GROUP_SAID_TAKEN);
    if (!group_record_fill(&record, name, r.at, r.left)) return say(answer, GROUP_SAID_BROKEN);
    if (!record.spec[1] && group_ended_get(keys, record.spec + 2))
        return say(answer, GROUP_SAID_ENDED);
    record.number = group_last_get(keys) + 1;
    if (record.number < keys->now_ms) record.number = keys->now_ms;
    group_last_set(keys, record.number);
    group_record_set(keys, id, &record);
    group_name_set(keys, id, &record);
    return answer_number(answer, record.number);
}

size_t group_script_commit(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    uint64_t fence = base_take_number(&r, 8), leader = base_take_number(&r, 8);
    const uint8_t *id = base_take_bytes(&r, GROUP_ID_SIZE);
    group_turn_t turn = {fence, base_take_number(&r, 8)};
    uint64_t late = base_take_number(&r, 8);
    group_record_value_t record;
    if (r.short_of) return say(answer, GROUP_SAID_BROKEN);
    if (!group_fence_pass(keys, fence, leader)) return say(answer, GROUP_SAID_FENCED);
    if (!group_record_get(keys, id, &record) || record.state != GROUP_RECORD_LIVE)
        return say(answer, GROUP_SAID_ABSENT);
    bool is_again = group_turn_is_equal(turn, record.committed);
    if (!is_again && !group_turn_is_after(turn, record.decided) && BASE_RULE(GROUP_FIRST_WINS))
        return say(answer, GROUP_SAID_ABORTED);
    record.decided = turn;
    if (!is_again && late != record.late && BASE_RULE(GROUP_LATE_PLACE)) {
        group_record_set(keys, id, &record);
        return say(answer, GROUP_SAID_ABORTED);
    }
    while (r.left >= 16) {
        uint32_t first = (uint32_t)base_take_number(&r, 4),
                 count = (uint32_t)base_take_number(&r, 4);
        group_places_set(keys, id, first, count, base_take_number(&r, 8), turn);
    }
    record.committed = turn;
    group_record_set(keys, id, &record);
    return say(answer, GROUP_SAID_COMMITTED);
}

size_t group_script_decide(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    const uint8_t *id = base_take_bytes(&r, GROUP_ID_SIZE);
    group_turn_t turn = group_turn_take(&r);
    uint64_t node = base_take_number(&r, 8);
    base_reader_t ranges = r;
    uint32_t first = (uint32_t)base_take_number(&r, 4);
    group_record_value_t record;
    if (r.short_of) return say(answer, GROUP_SAID_BROKEN);
    if (!group_record_get(keys, id, &record) || record.state != GROUP_RECORD_LIVE)
        return say(answer, GROUP_SAID_ABSENT);
    if (group_turn_is_after(turn, record.decided)) {
        record.decided = turn;
        group_record_set(keys, id, &record);
        return say(answer, GROUP_SAID_ABORTED);
    }
    if (group_place_is(keys, id, first, node, turn))
        return say_leader(keys, answer, GROUP_SAID_COMMITTED);
    if (!group_turn_is_equal(turn, record.committed) || !BASE_RULE(GROUP_HALF_SAID))
        return say(answer, GROUP_SAID_ABORTED);
    group_ranges_set(keys, id, &record, ranges, node, turn);
    return say_leader(keys, answer, GROUP_SAID_COMMITTED);
}

size_t group_script_remove(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    const uint8_t *id = base_take_bytes(&r, GROUP_ID_SIZE);
    group_record_value_t record;
    if (id == NULL || !group_record_get(keys, id, &record)) return say(answer, GROUP_SAID_ABSENT);
    if (record.state != GROUP_RECORD_REMOVED) group_record_end(keys, id, &record);
    return say_leader(keys, answer, GROUP_SAID_REMOVED);
}

size_t group_script_forget(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    uint64_t fence = base_take_number(&r, 8), leader = base_take_number(&r, 8);
    const uint8_t *id = base_take_bytes(&r, GROUP_ID_SIZE);
    group_record_value_t record;
    if (id == NULL) return say(answer, GROUP_SAID_BROKEN);
    if (!group_fence_pass(keys, fence, leader)) return say(answer, GROUP_SAID_FENCED);
    if (group_record_get(keys, id, &record) && record.state == GROUP_RECORD_REMOVED)
        group_record_forget(keys, id);
    return say(answer, GROUP_SAID_OK);
}

/* One key and its value; false: there is no room for it. */
static bool list_put(const script_keys_t *keys, const char *key, base_writer_t *w) {
    size_t size = 0;
    const uint8_t *value = keys->get(keys->context, key, &size);
    uint8_t copy[SCRIPT_VALUE_MAX];
    if (w->size + strlen(key) + 1 + 3 + size > SCRIPT_ANSWER_MAX) return false;
    memcpy(copy, value, size);
    bool is_head = strlen(key) == sizeof GROUP_PREFIX - 1 + 2 * (size_t)GROUP_ID_SIZE;
    bool has_job = is_head && size > GROUP_RECORD_HEAD + 14 && copy[GROUP_RECORD_HEAD + 1] == 0 &&
                   BASE_RULE(GROUP_ENDED_JOB);
    base_put_bytes(w, key, strlen(key) + 1);
    base_put_number(w, has_job && group_ended_get(keys, copy + GROUP_RECORD_HEAD + 2), 1);
    base_put_number(w, size, 2);
    base_put_bytes(w, copy, size);
    return true;
}

size_t group_script_list(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    uint64_t fence = base_take_number(&r, 8), leader = base_take_number(&r, 8);
    const char *prefix = group_take_text(&r), *after = group_take_text(&r);
    if (r.short_of) return say(answer, GROUP_SAID_BROKEN);
    if (!group_fence_pass(keys, fence, leader)) return say(answer, GROUP_SAID_FENCED);
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, GROUP_SAID_OK, 1);
    base_put_number(&w, 0, 1);
    char at[SCRIPT_KEY_MAX];
    snprintf(at, sizeof at, "%s", after);
    for (const char *next; (next = keys->next(keys->context, prefix, *at ? at : NULL)) != NULL;) {
        char key[SCRIPT_KEY_MAX];
        snprintf(key, sizeof key, "%s", next);
        if (!list_put(keys, key, &w)) {
            ((uint8_t *)answer)[1] = 1;
            break;
        }
        memcpy(at, key, sizeof at);
    }
    return w.size;
}

size_t group_script_find(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    const uint8_t *hash = base_take_bytes(&r, GROUP_NAME_HASH);
    char key[SCRIPT_KEY_MAX];
    size_t found = 0;
    if (hash == NULL) return say(answer, GROUP_SAID_BROKEN);
    group_name_key(hash, key);
    const void *value = keys->get(keys->context, key, &found);
    if (value == NULL || found != GROUP_ID_SIZE + 8) return say(answer, GROUP_SAID_ABSENT);
    memcpy((uint8_t *)answer + 1, value, GROUP_ID_SIZE);
    return say(answer, GROUP_SAID_OK) + GROUP_ID_SIZE;
}

size_t group_script_job_end(const script_keys_t *keys, const void *arguments, size_t size,
                            void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    if (!is_settled(keys, &r)) return say(answer, GROUP_SAID_UNSETTLED);
    const uint8_t *job = base_take_bytes(&r, 12);
    if (job == NULL) return say(answer, GROUP_SAID_BROKEN);
    group_ended_set(keys, job);
    return say(answer, GROUP_SAID_OK);
}

/* ---- facts ---- */

static void say_group(const script_keys_t *keys, base_reader_t *r) {
    const uint8_t *id = base_take_bytes(r, GROUP_ID_SIZE);
    uint64_t number = base_take_number(r, 8);
    const uint8_t *name = base_take_bytes(r, GROUP_NAME_HASH);
    size_t size = base_take_number(r, 2);
    const void *spec = base_take_bytes(r, size);
    group_record_value_t record = {0};
    bool is_its;
    if (r->short_of) return;
    if (group_record_get(keys, id, &record) && record.state == GROUP_RECORD_REMOVED) return;
    if (!group_record_fill(&record, name, spec, size)) return;
    record.number = number;
    if (group_last_get(keys) < number) group_last_set(keys, number);
    group_record_set(keys, id, &record);
    if (group_name_get(keys, name, id, &is_its) < number || !BASE_RULE(GROUP_NAME_NEWER))
        group_name_set(keys, id, &record);
}

/* The record, or a new one that waits for its home's word. */
static void record_say(const script_keys_t *keys, const uint8_t *id, group_record_value_t *record) {
    *record = (group_record_value_t){.state = GROUP_RECORD_SAID};
    (void)group_record_get(keys, id, record);
}

static void say_held(const script_keys_t *keys, base_reader_t *r) {
    const uint8_t *id = base_take_bytes(r, GROUP_ID_SIZE);
    group_turn_t turn = group_turn_take(r);
    uint64_t node = base_take_number(r, 8);
    size_t size = 8 * base_take_number(r, 2);
    const void *ranges = base_take_bytes(r, size);
    group_record_value_t record;
    if (r->short_of) return;
    record_say(keys, id, &record);
    if (group_turn_is_after(turn, record.decided)) record.decided = turn;
    if (group_turn_is_after(turn, record.committed)) record.committed = turn;
    group_ranges_set(keys, id, &record, (base_reader_t){.at = ranges, .left = size}, node, turn);
}

static void say_removed(const script_keys_t *keys, base_reader_t *r) {
    const uint8_t *id = base_take_bytes(r, GROUP_ID_SIZE);
    group_record_value_t record;
    if (id == NULL) return;
    record_say(keys, id, &record);
    if (record.state != GROUP_RECORD_REMOVED) group_record_end(keys, id, &record);
}

static void say_aborted(const script_keys_t *keys, base_reader_t *r) {
    const uint8_t *id = base_take_bytes(r, GROUP_ID_SIZE);
    group_turn_t turn = group_turn_take(r);
    group_record_value_t record;
    if (r->short_of) return;
    record_say(keys, id, &record);
    if (!group_turn_is_after(turn, record.decided)) return;
    record.decided = turn;
    group_record_set(keys, id, &record);
}

size_t group_script_say(const script_keys_t *keys, const void *arguments, size_t size,
                        void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    bool is_late = base_take_number(&r, 8) != keys->master || group_settled_get(keys);
    if (is_late && BASE_RULE(GROUP_SAY_LATE)) return say(answer, GROUP_SAID_OK);
    while (r.left > 0) {
        switch (base_take_number(&r, 1)) {
        case GROUP_FACT_LEADER: {
            uint64_t fence = base_take_number(&r, 8);
            (void)group_fence_pass(keys, fence, base_take_number(&r, 8));
            break;
        }
        case GROUP_FACT_GROUP:
            say_group(keys, &r);
            break;
        case GROUP_FACT_HELD:
            say_held(keys, &r);
            break;
        case GROUP_FACT_REMOVED:
            say_removed(keys, &r);
            break;
        case GROUP_FACT_ABORTED:
            say_aborted(keys, &r);
            break;
        default: {
            const uint8_t *job = base_take_bytes(&r, 12);
            if (job != NULL) group_ended_set(keys, job);
        }
        }
    }
    return say(answer, GROUP_SAID_OK);
}
