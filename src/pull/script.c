/* Keys are in hexadecimal, so that their order and their parts are plain. */
#include "pull/script.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "pull/pull.h"

enum { VALUE_SIZE = 20, ID_TEXT = 2 * PULL_ID_SIZE };

static_assert(1 + PULL_FOUND_MAX * PULL_NOTE_SIZE <= SCRIPT_ANSWER_MAX, "an answer has room");

size_t pull_note_write(const pull_note_t *note, uint8_t ret_bytes[PULL_NOTE_SIZE]) {
    base_writer_t w = {ret_bytes, 0};
    uint8_t id[PULL_ID_SIZE];
    pull_id_write(&note->id, id);
    base_put_bytes(&w, id, sizeof id);
    base_put_number(&w, note->node, 8);
    base_put_number(&w, note->birth, 8);
    base_put_number(&w, note->size, 8);
    base_put_number(&w, note->version, 4);
    base_put_number(&w, note->is_there, 1);
    return w.size;
}

bool pull_note_read(const void *bytes, size_t size, pull_note_t *ret_note) {
    base_reader_t r = {.at = bytes, .left = size};
    pull_note_t note = {.id.home = base_take_number(&r, 8)};
    note.id.number = (uint32_t)base_take_number(&r, 4);
    note.id.generation = base_take_number(&r, 8);
    note.node = base_take_number(&r, 8);
    note.birth = base_take_number(&r, 8);
    note.size = base_take_number(&r, 8);
    note.version = (uint32_t)base_take_number(&r, 4);
    note.is_there = base_take_number(&r, 1) != 0;
    if (r.short_of || note.size == 0 || note.size > PULL_SIZE_MAX || note.version == 0)
        return false;
    *ret_note = note;
    return true;
}

static void id_text(const frame_id_t *id, char ret_text[ID_TEXT + 1]) {
    snprintf(ret_text, ID_TEXT + 1, "%016llx%08lx%016llx", (unsigned long long)id->home,
             (unsigned long)id->number, (unsigned long long)id->generation);
}

static void key_write(char key[SCRIPT_KEY_MAX], const char *id, uint64_t node) {
    snprintf(key, SCRIPT_KEY_MAX, "pull:%s:%016llx", id, (unsigned long long)node);
}

static void node_key_write(char key[SCRIPT_KEY_MAX], const char *id, uint64_t node) {
    snprintf(key, SCRIPT_KEY_MAX, "pulln:%016llx:%s", (unsigned long long)node, id);
}

/* What the value says, with the key's id and node; false: it is no such value. */
static bool value_read(const void *value, size_t size, pull_note_t *note) {
    if (value == NULL || size != VALUE_SIZE) return false;
    base_reader_t r = {.at = value, .left = size};
    note->birth = base_take_number(&r, 8);
    note->size = base_take_number(&r, 8);
    note->version = (uint32_t)base_take_number(&r, 4);
    return true;
}

static void note_run(const script_keys_t *keys, const pull_note_t *note) {
    char id[ID_TEXT + 1], key[SCRIPT_KEY_MAX], node_key[SCRIPT_KEY_MAX];
    id_text(&note->id, id);
    key_write(key, id, note->node);
    node_key_write(node_key, id, note->node);
    if (note->is_there) {
        uint8_t value[VALUE_SIZE];
        base_writer_t w = {value, 0};
        base_put_number(&w, note->birth, 8);
        base_put_number(&w, note->size, 8);
        base_put_number(&w, note->version, 4);
        keys->set(keys->context, key, value, w.size, 0);
        keys->set(keys->context, node_key, "", 0, 0);
        return;
    }
    keys->del(keys->context, key);
    keys->del(keys->context, node_key);
}

size_t pull_script_write(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer) {
    const uint8_t *bytes = arguments;
    pull_note_t note;
    for (size_t at = 0; pull_note_read(bytes + at, size - at, &note); at += PULL_NOTE_SIZE)
        note_run(keys, &note);
    *(uint8_t *)answer = 1;
    return 1;
}

size_t pull_script_find(const script_keys_t *keys, const void *arguments, size_t size,
                        void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    pull_note_t note = {.id.home = base_take_number(&r, 8), .is_there = true};
    note.id.number = (uint32_t)base_take_number(&r, 4);
    note.id.generation = base_take_number(&r, 8);
    char id[ID_TEXT + 1], prefix[SCRIPT_KEY_MAX], after[SCRIPT_KEY_MAX];
    id_text(&note.id, id);
    snprintf(prefix, sizeof prefix, "pull:%s:", id);
    memcpy(after, prefix, sizeof after);
    uint8_t *out = answer;
    size_t used = 1;
    out[0] = 1;
    const char *key;
    for (int i = 0; i < PULL_FOUND_MAX; i++) {
        if ((key = keys->next(keys->context, prefix, after)) == NULL) break;
        snprintf(after, sizeof after, "%s", key);
        unsigned long long node = 0;
        size_t value_size;
        const void *value = keys->get(keys->context, after, &value_size);
        if (sscanf(after + strlen(prefix), "%16llx", &node) != 1) continue;
        note.node = node;
        if (value_read(value, value_size, &note)) used += pull_note_write(&note, out + used);
    }
    return used;
}

size_t pull_script_strike(const script_keys_t *keys, const void *arguments, size_t size,
                          void *answer) {
    base_reader_t r = {.at = arguments, .left = size};
    uint64_t node = base_take_number(&r, 8);
    char prefix[SCRIPT_KEY_MAX], key[SCRIPT_KEY_MAX], node_key[SCRIPT_KEY_MAX];
    node_key_write(prefix, "", node);
    uint8_t *more = answer;
    for (int i = 0; i < PULL_STRIKE_MAX; i++) {
        const char *found = keys->next(keys->context, prefix, prefix);
        *more = found != NULL;
        if (found == NULL) return 1;
        snprintf(node_key, sizeof node_key, "%s", found);
        key_write(key, node_key + strlen(prefix), node);
        keys->del(keys->context, key);
        keys->del(keys->context, node_key);
    }
    return 1;
}
