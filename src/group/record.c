/*
 * Keys:
 *
 *   group/r/<id>          a record: what the group is, and what was decided last
 *   group/r/<id>/<chunk>  where GROUP_CHUNK of its bundles are: node, fence, attempt of each
 *   group/n/<hash>        a name: its group's id and number
 *   group/fence           the newest leader that has written here: fence, leader
 *   group/last            the last number of a group
 *   group/settled         the master that has decided something: nobody says facts to it any more
 *   job/ended/<job>       jobs that have ended
 *
 * A record: state 1, number 8, decided 8 + 8, committed 8 + 8, late 8, hash of its name 16,
 * bundles 4, spec. `decided` is the newest (fence, attempt) that is decided: every one up to it is,
 * and it is committed exactly where a bundle's place says so. `committed` is the newest that was
 * committed: after a loss of writes some of its places may be missing, and are written again when
 * their nodes ask. `late` then grows, so that a leader that has read before does not place them
 * elsewhere; its first half is the master's number, so that no two masters give the same.
 *
 * A record without a spec is SAID: somebody has said facts about it, its home has not (yet). A
 * REMOVED record stays until its home has seen that, for its home's request to make it may come
 * once more.
 */
#include "group/record.h"

#include <stdio.h>

#include "base/rule.h"
#include "group/spec.h"

static const uint8_t NO_NAME[GROUP_NAME_HASH];

bool group_turn_is_after(group_turn_t a, group_turn_t b) {
    return a.fence != b.fence ? a.fence > b.fence : a.attempt > b.attempt;
}

bool group_turn_is_equal(group_turn_t a, group_turn_t b) {
    return a.fence == b.fence && a.attempt == b.attempt;
}

group_turn_t group_turn_take(base_reader_t *r) {
    group_turn_t turn = {.fence = base_take_number(r, 8)};
    turn.attempt = base_take_number(r, 8);
    return turn;
}

static void put_turn(base_writer_t *w, group_turn_t turn) {
    base_put_number(w, turn.fence, 8);
    base_put_number(w, turn.attempt, 8);
}

/* ---- keys ---- */

static void put_hex(char *to, const uint8_t *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    *to = 0;
}

void group_script_key(const uint8_t *id, int chunk, char key[SCRIPT_KEY_MAX]) {
    memcpy(key, GROUP_PREFIX, sizeof GROUP_PREFIX);
    put_hex(key + sizeof GROUP_PREFIX - 1, id, GROUP_ID_SIZE);
    size_t size = sizeof GROUP_PREFIX - 1 + 2 * (size_t)GROUP_ID_SIZE;
    if (chunk >= 0) snprintf(key + size, SCRIPT_KEY_MAX - size, "/%04x", (unsigned)chunk & 0xffff);
}

void group_name_key(const uint8_t *hash, char key[SCRIPT_KEY_MAX]) {
    memcpy(key, "group/n/", sizeof "group/n/");
    put_hex(key + sizeof "group/n/" - 1, hash, GROUP_NAME_HASH);
}

static void job_key(const uint8_t *job, char key[SCRIPT_KEY_MAX]) {
    memcpy(key, "job/ended/", sizeof "job/ended/");
    put_hex(key + sizeof "job/ended/" - 1, job, 12);
}

void group_ended_set(const script_keys_t *keys, const uint8_t *job) {
    char key[SCRIPT_KEY_MAX];
    job_key(job, key);
    keys->set(keys->context, key, "", 0, 0);
}

bool group_ended_get(const script_keys_t *keys, const uint8_t *job) {
    char key[SCRIPT_KEY_MAX];
    size_t size;
    job_key(job, key);
    return keys->get(keys->context, key, &size) != NULL;
}

bool group_record_get(const script_keys_t *keys, const uint8_t *id, group_record_value_t *record) {
    char key[SCRIPT_KEY_MAX];
    size_t size;
    group_script_key(id, -1, key);
    const void *value = keys->get(keys->context, key, &size);
    if (value == NULL || size < GROUP_RECORD_HEAD || size > GROUP_RECORD_HEAD + GROUP_SPEC_MAX)
        return false;
    base_reader_t r = {.at = value, .left = size};
    record->state = (uint8_t)base_take_number(&r, 1);
    record->number = base_take_number(&r, 8);
    record->decided = group_turn_take(&r);
    record->committed = group_turn_take(&r);
    record->late = base_take_number(&r, 8);
    memcpy(record->name, base_take_bytes(&r, GROUP_NAME_HASH), GROUP_NAME_HASH);
    record->count = (uint32_t)base_take_number(&r, 4);
    record->spec_size = r.left;
    if (r.left > 0) memcpy(record->spec, r.at, r.left);
    return true;
}

void group_record_set(const script_keys_t *keys, const uint8_t *id,
                      const group_record_value_t *record) {
    char key[SCRIPT_KEY_MAX];
    uint8_t bytes[GROUP_RECORD_HEAD + GROUP_SPEC_MAX];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, record->state, 1);
    base_put_number(&w, record->number, 8);
    put_turn(&w, record->decided);
    put_turn(&w, record->committed);
    base_put_number(&w, record->late, 8);
    base_put_bytes(&w, record->name, GROUP_NAME_HASH);
    base_put_number(&w, record->count, 4);
    base_put_bytes(&w, record->spec, record->spec_size);
    group_script_key(id, -1, key);
    keys->set(keys->context, key, bytes, w.size, 0);
}

/* ---- places ---- */

bool group_place_is(const script_keys_t *keys, const uint8_t *id, uint32_t bundle, uint64_t node,
                    group_turn_t turn) {
    char key[SCRIPT_KEY_MAX];
    size_t size;
    group_script_key(id, (int)(bundle / GROUP_CHUNK), key);
    const uint8_t *value = keys->get(keys->context, key, &size);
    size_t at = (size_t)bundle % GROUP_CHUNK * GROUP_PLACE_SIZE;
    if (value == NULL || at + GROUP_PLACE_SIZE > size) return false;
    base_reader_t r = {.at = value + at, .left = GROUP_PLACE_SIZE};
    uint64_t there = base_take_number(&r, 8);
    return there == node && group_turn_is_equal(group_turn_take(&r), turn);
}

/* Bundles of one chunk are on this node. */
static void chunk_set(const script_keys_t *keys, const uint8_t *id, uint32_t first, uint32_t count,
                      uint64_t node, group_turn_t turn) {
    char key[SCRIPT_KEY_MAX];
    uint8_t bytes[GROUP_CHUNK * GROUP_PLACE_SIZE] = {0};
    size_t size;
    group_script_key(id, (int)(first / GROUP_CHUNK), key);
    const void *value = keys->get(keys->context, key, &size);
    if (value != NULL) memcpy(bytes, value, size < sizeof bytes ? size : sizeof bytes);
    uint32_t at = first % GROUP_CHUNK;
    base_writer_t w = {.bytes = bytes + (size_t)at * GROUP_PLACE_SIZE};
    for (uint32_t i = 0; i < count; i++) {
        base_put_number(&w, node, 8);
        put_turn(&w, turn);
    }
    size_t end = ((size_t)at + count) * GROUP_PLACE_SIZE;
    if (value == NULL || size < end) size = end;
    keys->set(keys->context, key, bytes, size < sizeof bytes ? size : sizeof bytes, 0);
}

void group_places_set(const script_keys_t *keys, const uint8_t *id, uint32_t first, uint32_t count,
                      uint64_t node, group_turn_t turn) {
    while (count > 0) {
        uint32_t part = GROUP_CHUNK - first % GROUP_CHUNK;
        if (part > count) part = count;
        chunk_set(keys, id, first, part, node, turn);
        first += part;
        count -= part;
    }
}

void group_ranges_set(const script_keys_t *keys, const uint8_t *id, group_record_value_t *record,
                      base_reader_t r, uint64_t node, group_turn_t turn) {
    record->late = record->late >> 32 < keys->master ? keys->master << 32 : record->late + 1;
    group_record_set(keys, id, record);
    while (r.left >= 8) {
        uint32_t first = (uint32_t)base_take_number(&r, 4);
        group_places_set(keys, id, first, (uint32_t)base_take_number(&r, 4), node, turn);
    }
}

/* ---- names ---- */

bool group_name_is_none(const uint8_t *hash) { return memcmp(hash, NO_NAME, sizeof NO_NAME) == 0; }

void group_name_set(const script_keys_t *keys, const uint8_t *id,
                    const group_record_value_t *record) {
    char key[SCRIPT_KEY_MAX];
    uint8_t bytes[GROUP_ID_SIZE + 8];
    base_writer_t w = {.bytes = bytes};
    if (group_name_is_none(record->name)) return;
    base_put_bytes(&w, id, GROUP_ID_SIZE);
    base_put_number(&w, record->number, 8);
    group_name_key(record->name, key);
    keys->set(keys->context, key, bytes, w.size, 0);
}

/* The number of the group that has the record's name; 0: none has. */
uint64_t group_name_get(const script_keys_t *keys, const uint8_t *hash, const uint8_t *id,
                        bool *ret_is_its) {
    char key[SCRIPT_KEY_MAX];
    size_t size = 0;
    group_name_key(hash, key);
    const uint8_t *value = keys->get(keys->context, key, &size);
    *ret_is_its = false;
    if (value == NULL || size != GROUP_ID_SIZE + 8) return 0;
    base_reader_t r = {.at = value + GROUP_ID_SIZE, .left = 8};
    *ret_is_its = memcmp(value, id, GROUP_ID_SIZE) == 0;
    return base_take_number(&r, 8);
}

/* Compare and delete. */
static void name_drop(const script_keys_t *keys, const uint8_t *id,
                      const group_record_value_t *record) {
    char key[SCRIPT_KEY_MAX];
    bool is_its;
    if (group_name_is_none(record->name)) return;
    (void)group_name_get(keys, record->name, id, &is_its);
    if (!is_its && BASE_RULE(GROUP_NAME_COMPARE)) return;
    group_name_key(record->name, key);
    keys->del(keys->context, key);
}

/* ---- the leader's number ---- */

/* False: a newer one has written here, or another with the same number. */
bool group_fence_pass(const script_keys_t *keys, uint64_t fence, uint64_t leader) {
    size_t size = 0;
    const void *value = keys->get(keys->context, "group/fence", &size);
    base_reader_t r = {.at = value, .left = value != NULL ? size : 0};
    uint64_t there = base_take_number(&r, 8), holder = base_take_number(&r, 8);
    if (BASE_RULE(GROUP_FENCE_SCRIPT) && !r.short_of &&
        (there > fence || (there == fence && holder != leader)))
        return false;
    if (!r.short_of && there == fence) return true;
    uint8_t bytes[16];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, fence, 8);
    base_put_number(&w, leader, 8);
    keys->set(keys->context, "group/fence", bytes, sizeof bytes, 0);
    return true;
}

void group_fence_put(const script_keys_t *keys, base_writer_t *w) {
    static const uint8_t none[16];
    size_t size = 0;
    const void *value = keys->get(keys->context, "group/fence", &size);
    base_put_bytes(w, value != NULL && size == sizeof none ? value : none, sizeof none);
}

bool group_settled_get(const script_keys_t *keys) {
    size_t size = 0;
    const void *value = keys->get(keys->context, "group/settled", &size);
    base_reader_t r = {.at = value, .left = value != NULL ? size : 0};
    return base_take_number(&r, 8) == keys->master && !r.short_of;
}

void group_settled_set(const script_keys_t *keys) {
    uint8_t bytes[8];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, keys->master, 8);
    keys->set(keys->context, "group/settled", bytes, sizeof bytes, 0);
}

uint64_t group_last_get(const script_keys_t *keys) {
    size_t size = 0;
    const void *value = keys->get(keys->context, "group/last", &size);
    base_reader_t r = {.at = value, .left = value != NULL ? size : 0};
    return base_take_number(&r, 8);
}

void group_last_set(const script_keys_t *keys, uint64_t number) {
    uint8_t bytes[8];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, number, 8);
    keys->set(keys->context, "group/last", bytes, sizeof bytes, 0);
}

/* ---- a record's life ---- */

bool group_record_fill(group_record_value_t *record, const uint8_t *name, const void *spec,
                       size_t size) {
    memcpy(record->name, name, GROUP_NAME_HASH);
    if (size > GROUP_SPEC_MAX || !group_spec_check(spec, size, &record->count)) return false;
    memcpy(record->spec, spec, size);
    record->spec_size = size;
    record->state = GROUP_RECORD_LIVE;
    return true;
}

void group_record_end(const script_keys_t *keys, const uint8_t *id, group_record_value_t *record) {
    name_drop(keys, id, record);
    record->state = GROUP_RECORD_REMOVED;
    group_record_set(keys, id, record);
}

void group_record_forget(const script_keys_t *keys, const uint8_t *id) {
    char key[SCRIPT_KEY_MAX];
    group_script_key(id, -1, key);
    keys->del(keys->context, key);
    for (;;) {
        group_script_key(id, -1, key);
        const char *next = keys->next(keys->context, key, key);
        if (next == NULL) return;
        snprintf(key, sizeof key, "%s", next);
        keys->del(keys->context, key);
    }
}
