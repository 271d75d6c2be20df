/*
 * Reading records: all of them, or one. They come in pages, in the order of their keys: a head,
 * then its chunks. A group is complete when the next head or the end comes. What is in the book
 * already is newer than what is read, except that a removal is for good.
 *
 * Several readings may be under way, each with a number of its own: one of all records, and some of
 * one. Whichever has read a group's head reads the group, and the others leave it alone.
 */
#include <stdio.h>
#include <stdlib.h>

#include "group/books.h"

typedef struct {
    char key[SCRIPT_KEY_MAX];
    group_id_t id;
    int chunk; /* below 0: a head */
    bool is_ended;
    base_reader_t value;
} entry_t;

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool key_read(const char *key, entry_t *entry) {
    const char *at = key + sizeof GROUP_PREFIX - 1;
    if (strncmp(key, GROUP_PREFIX, sizeof GROUP_PREFIX - 1) != 0) return false;
    for (int i = 0; i < GROUP_ID_SIZE; i++, at += 2) {
        if (digit(at[0]) < 0 || digit(at[1]) < 0) return false;
        entry->id.bytes[i] = (uint8_t)(digit(at[0]) * 16 + digit(at[1]));
    }
    entry->chunk = *at == '/' ? (int)strtol(at + 1, NULL, 16) : -1;
    return true;
}

static bool entry_take(base_reader_t *r, entry_t *entry) {
    const char *key = group_take_text(r);
    entry->is_ended = base_take_number(r, 1) != 0;
    size_t size = base_take_number(r, 2);
    const void *value = base_take_bytes(r, size);
    if (r->short_of) return false;
    snprintf(entry->key, sizeof entry->key, "%s", key);
    entry->value = (base_reader_t){.at = value, .left = size};
    return key_read(entry->key, entry);
}

/* ---- one group ---- */

static bool is_of_all(const group_ask_t *ask) { return ask->attempt % 2 == 0; }

/* Its record was read to the end. */
static void loaded(group_t *room, group_placed_t *g, uint64_t master) {
    g->reading = 0;
    bool is_late = g->is_late;
    g->is_late = false;
    if (g->spec == NULL || g->is_gone) {
        if (g->is_gone)
            group_placed_remove(room, g);
        else
            group_placed_end(room, g); /* somebody has said facts of it, but not its home */
        return;
    }
    if (is_late) {
        group_load_again(room, g);
        return;
    }
    bool is_orphan = !g->spec->detached && group_is_dead(room, g->spec->job.home);
    for (uint32_t b = 0; b < g->spec->count; b++) {
        group_place_t *place = &g->places[b];
        if (place->node == 0) continue;
        bool is_lost = group_is_dead(room, place->node);
        place->master = master;
        place->state = is_lost ? BUNDLE_NONE : BUNDLE_ASSIGNED;
        g->was_placed = true; /* and its watchers may have been told */
    }
    g->state = PLACED_WHOLE;
    if (g->is_ended || is_orphan) {
        group_placed_end(room, g);
        return;
    }
    group_placed_confirm(room, g);
    group_placed_settle(room, g);
}

/* The group whose head this reading has read last is complete. */
static void loading_end(group_t *room, const group_ask_t *ask, uint64_t master) {
    bool is_all = is_of_all(ask);
    group_placed_t *g = !is_all || room->is_loading
                            ? group_placed_get(room, is_all ? &room->loading : &ask->id)
                            : NULL;
    if (is_all) room->is_loading = false;
    if (g != NULL && g->state == PLACED_LOADING && g->reading == ask->attempt)
        loaded(room, g, master);
}

static bool spec_take(group_t *room, group_placed_t *g, base_reader_t *r) {
    g->number = base_take_number(r, 8);
    (void)base_take_bytes(r, 32); /* what was decided */
    g->late = base_take_number(r, 8);
    (void)base_take_bytes(r, GROUP_NAME_HASH + 4);
    if (r->left == 0 || g->spec != NULL) return true;
    if (group_spec_read(r->at, r->left, &g->spec) == MOB_ENOMEM) {
        room->is_short = true;
        return false;
    }
    if (g->spec == NULL) return true; /* a broken value: it is removed */
    g->places = calloc(g->spec->count, sizeof *g->places);
    if (g->places != NULL) return true;
    group_spec_free(g->spec);
    g->spec = NULL;
    room->is_short = true;
    return false;
}

static void head_read(group_t *room, const group_ask_t *ask, entry_t *entry) {
    uint8_t state = (uint8_t)base_take_number(&entry->value, 1);
    group_placed_t *g = group_placed_get(room, &entry->id);
    if (g != NULL && g->state != PLACED_LOADING) {
        if (state == GROUP_RECORD_REMOVED)
            group_placed_remove(room, g);
        else if (entry->is_ended && g->state < PLACED_ENDING)
            group_placed_end(room, g);
        return;
    }
    if (g == NULL) g = group_placed_new(room, &entry->id);
    if (g == NULL || g->reading != 0 || !spec_take(room, g, &entry->value)) return;
    g->reading = ask->attempt;
    g->is_gone |= state == GROUP_RECORD_REMOVED;
    g->is_ended |= entry->is_ended;
    if (!is_of_all(ask)) return;
    room->is_loading = true;
    room->loading = entry->id;
}

static void chunk_read(group_t *room, const group_ask_t *ask, entry_t *entry) {
    group_placed_t *g = group_placed_get(room, &entry->id);
    if (g == NULL || g->state != PLACED_LOADING || g->reading != ask->attempt) return;
    base_reader_t *r = &entry->value;
    while (g->spec == NULL && r->left >= GROUP_PLACE_SIZE && BASE_RULE(GROUP_SAID_HOLDERS)) {
        group_placed_holder(room, g, base_take_number(r, 8)); /* it will be ended */
        (void)base_take_bytes(r, 16);
    }
    uint32_t b = (uint32_t)entry->chunk * GROUP_CHUNK;
    for (; g->places != NULL && b < g->spec->count && r->left >= GROUP_PLACE_SIZE; b++) {
        g->places[b].node = base_take_number(r, 8);
        g->places[b].fence = base_take_number(r, 8);
        g->places[b].attempt = base_take_number(r, 8);
    }
}

/* ---- pages ---- */

static bool page_ask(group_t *room, const group_id_t *only, uint64_t reading, const char *after);

/* Groups that were asked for while all were read, and were not among them. */
static void missing_load(group_t *room) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&room->placed, &cursor, &key, &value)) {
        group_placed_t *g = value;
        if (g->state == PLACED_LOADING && g->reading == 0) group_load(room, g);
    }
}

static void scan_end(group_t *room) {
    room->is_scanning = false;
    missing_load(room);
    room->has_new = true;
    if (!room->scans_again) return;
    room->scans_again = false;
    group_lead_scan(room);
}

/* It was asked for alone, and there is no record. */
static void absent(group_t *room, const group_id_t *id) {
    group_placed_t *g = group_placed_get(room, id);
    if (g == NULL || g->state != PLACED_LOADING || g->reading != 0) return;
    g->state = PLACED_REMOVED;
    group_placed_tell(room, g, 0);
    group_placed_free(room, g);
}

static void page(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                 base_reader_t *answer) {
    bool is_all = is_of_all(ask);
    if (!room->is_leading || ask->fence != room->fence) return;
    if (is_all && ask->attempt != room->scan) return; /* it was begun again */
    if (code != GROUP_SAID_OK) { /* there is a newer leader: this node will hear of it */
        group_lead_end(room);
        return;
    }
    bool has_more = base_take_number(answer, 1) != 0, has_any = answer->left > 0;
    entry_t entry = {.key = ""};
    while (answer->left > 0 && entry_take(answer, &entry)) {
        if (entry.chunk >= 0) {
            chunk_read(room, ask, &entry);
            continue;
        }
        loading_end(room, ask, master);
        head_read(room, ask, &entry);
    }
    if (has_more && page_ask(room, is_all ? NULL : &ask->id, ask->attempt, entry.key)) return;
    loading_end(room, ask, master);
    if (is_all)
        scan_end(room);
    else if (!has_any)
        absent(room, &ask->id);
}

static bool page_ask(group_t *room, const group_id_t *only, uint64_t reading, const char *after) {
    char prefix[SCRIPT_KEY_MAX] = GROUP_PREFIX;
    if (only != NULL) group_script_key(only->bytes, -1, prefix);
    group_ask_t *ask =
        group_ask_new(room, group_script_list, page, only, 16 + 2 * (size_t)SCRIPT_KEY_MAX);
    if (ask == NULL) return false;
    ask->attempt = reading;
    group_ask_put_leader(ask);
    base_put_bytes(&ask->arguments, prefix, strlen(prefix) + 1);
    base_put_bytes(&ask->arguments, after, strlen(after) + 1);
    group_ask_send(ask);
    return true;
}

/* Its number: even of all records, odd of one group's. */
static uint64_t reading_new(group_t *room, bool is_all) {
    room->readings += 2;
    return room->readings + !is_all;
}

void group_load(group_t *room, group_placed_t *g) {
    (void)page_ask(room, &g->id, reading_new(room, false), "");
}

void group_load_again(group_t *room, group_placed_t *g) {
    group_line_drop(room, g);
    group_spec_free(g->spec);
    free(g->places);
    g->spec = NULL;
    g->places = NULL;
    g->reading = 0;
    g->releasing.count = 0;
    g->state = PLACED_LOADING;
    if (!room->is_scanning) group_load(room, g);
}

void group_lead_scan(group_t *room) {
    if (room->is_scanning)
        room->scans_again = true;
    else
        room->is_scanning = page_ask(room, NULL, room->scan = reading_new(room, true), "");
}
