/*
 * What a node says to a new master: it may lack what was written last. Home of a group: that it is
 * there, with its number and its name. Holder of bundles: which are committed. Leader: its fence.
 * And what was removed, aborted or ended a while ago.
 *
 * Facts go in several requests, so that none is very long. When all are answered the node is told,
 * and only when all nodes have said theirs does that master decide anything.
 */
#include <stdlib.h>

#include "group/books.h"

enum { SAY_MOST = 32 << 10, FACT_MOST = 8 << 10 };

typedef struct {
    group_t *room;
    group_ask_t *ask;
} speech_t;

static void said(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                 base_reader_t *answer) {
    (void)master;
    (void)code;
    (void)answer;
    if (ask->attempt != room->speech) return; /* all is being said again */
    if (--room->saying == 0) room->ops->said(room->context, room->saying_to);
}

static void speech_end(speech_t *speech) {
    if (speech->ask == NULL) return;
    speech->room->saying++;
    group_ask_send(speech->ask);
    speech->ask = NULL;
}

/* Where the next fact is to be written; it has at most `size` bytes. NULL: no memory. */
static base_writer_t *speech_room(speech_t *speech, size_t size) {
    if (speech->ask != NULL && speech->ask->arguments.size + size > SAY_MOST) speech_end(speech);
    if (speech->ask == NULL) {
        size_t most = size > SAY_MOST ? size : SAY_MOST;
        speech->ask = group_ask_new(speech->room, group_script_say, said, NULL, most);
        if (speech->ask == NULL) return NULL;
        speech->ask->attempt = speech->room->speech;
    }
    return &speech->ask->arguments;
}

static bool say_group(speech_t *speech, const group_watch_t *watch) {
    uint8_t hash[GROUP_NAME_HASH];
    base_writer_t *w = speech_room(speech, FACT_MOST);
    if (w == NULL) return false;
    group_name_hash(watch->spec->name_space, watch->spec->name, hash);
    base_put_number(w, GROUP_FACT_GROUP, 1);
    base_put_bytes(w, watch->id.bytes, GROUP_ID_SIZE);
    base_put_number(w, watch->number, 8);
    base_put_bytes(w, hash, sizeof hash);
    base_put_number(w, watch->spec->size, 2);
    base_put_bytes(w, watch->spec->bytes, watch->spec->size);
    return true;
}

static bool say_groups(speech_t *speech) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&speech->room->watches, &cursor, &key, &value)) {
        const group_watch_t *watch = value;
        if (watch->is_home && watch->phase == WATCH_SHARED && !watch->is_removed &&
            !say_group(speech, watch))
            return false;
    }
    return true;
}

static bool say_part(speech_t *speech, const group_part_t *part) {
    base_writer_t *w = speech_room(speech, FACT_MOST + 8 * part->range_count);
    if (w == NULL) return false;
    base_put_number(w, GROUP_FACT_HELD, 1);
    base_put_bytes(w, part->id.bytes, GROUP_ID_SIZE);
    base_put_number(w, part->fence, 8);
    base_put_number(w, part->attempt, 8);
    base_put_number(w, speech->room->self, 8);
    base_put_number(w, part->range_count, 2);
    for (size_t i = 0; i < part->range_count; i++) {
        base_put_number(w, part->ranges[i].first, 4);
        base_put_number(w, part->ranges[i].count, 4);
    }
    return true;
}

static bool say_parts(speech_t *speech) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&speech->room->parts, &cursor, &key, &value))
        for (const group_part_t *part = value; part != NULL; part = part->next)
            if (part->is_committed && !say_part(speech, part)) return false;
    return true;
}

static bool is_said(group_fact_t kind) {
    if (kind == GROUP_FACT_REMOVED) return BASE_RULE(GROUP_SAY_REMOVED);
    if (kind == GROUP_FACT_ABORTED) return BASE_RULE(GROUP_SAY_ABORTED);
    return BASE_RULE(GROUP_SAY_ENDED);
}

static bool say_kept(speech_t *speech) {
    const group_t *room = speech->room;
    for (size_t i = room->kept_from; i < room->kept.count; i++) {
        const group_kept_t *kept = &room->kept.items[i];
        if (!is_said(kept->kind)) continue;
        base_writer_t *w = speech_room(speech, FACT_MOST);
        if (w == NULL) return false;
        base_put_number(w, (uint64_t)kept->kind, 1);
        base_put_bytes(w, kept->id.bytes, kept->kind == GROUP_FACT_ENDED ? 12 : GROUP_ID_SIZE);
        if (kept->kind != GROUP_FACT_ABORTED) continue;
        base_put_number(w, kept->fence, 8);
        base_put_number(w, kept->attempt, 8);
    }
    return true;
}

static bool say_leader(speech_t *speech) {
    if (!speech->room->is_leading) return true;
    base_writer_t *w = speech_room(speech, FACT_MOST);
    if (w == NULL) return false;
    base_put_number(w, GROUP_FACT_LEADER, 1);
    base_put_number(w, speech->room->fence, 8);
    base_put_number(w, speech->room->self, 8);
    return true;
}

void group_facts_say(group_t *room) {
    speech_t speech = {.room = room};
    room->speech++;
    room->saying = 1; /* this speech, until its end */
    room->saying_to = room->master;
    bool is_whole = say_leader(&speech) && say_kept(&speech) &&
                    (!BASE_RULE(GROUP_SAY_GROUPS) || say_groups(&speech)) &&
                    (!BASE_RULE(GROUP_SAY_HELD) || say_parts(&speech));
    speech_end(&speech);
    if (!is_whole) return; /* no memory: group_turn says it all again; nobody was told yet */
    if (--room->saying == 0) room->ops->said(room->context, room->saying_to);
}

void group_master(group_t *room, uint64_t master) {
    if (master <= room->master) return;
    room->master = master;
    group_facts_say(room);
}
