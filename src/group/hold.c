/*
 * Bundles that this node holds, by attempts: a part is what one attempt at a group has set aside
 * here.
 *
 *   part        moved on by
 *   RESERVED    COMMIT, or the control state's word: COMMITTED; ABORT, the control state's word,
 *               RELEASE: gone
 *   COMMITTED   RELEASE: gone
 *
 * A reserved part that hears nothing for GROUP_DOUBT_MS asks the control state, which writes
 * ABORTED if nothing was decided. It asks as often as it must, and gives nothing back before it has
 * an answer. ABORT is the word of the one leader that could have asked for this attempt's COMMIT,
 * and did not.
 *
 * COMMIT names the master that decided. If this node has said its facts to a newer one meanwhile,
 * that decision may be lost, and another node may have been told the opposite: so it asks.
 */
#include <stdlib.h>

#include "group/books.h"

static group_part_t *part_find(const group_t *room, const group_id_t *id, uint64_t fence,
                               uint64_t attempt) {
    group_part_t *part = base_map_get(&room->parts, id);
    while (part != NULL && (part->fence != fence || part->attempt != attempt)) part = part->next;
    return part;
}

typedef void (*bundle_fn)(void *context, const group_key_t *key);

static void part_each(const group_t *room, const group_part_t *part, bundle_fn fn) {
    group_key_t key = {
        .id = group_id_frame(&part->id), .fence = part->fence, .attempt = part->attempt};
    for (size_t i = 0; i < part->range_count; i++)
        for (uint32_t b = 0; b < part->ranges[i].count; b++) {
            key.bundle = part->ranges[i].first + b;
            fn(room->context, &key);
        }
}

static void part_free(group_t *room, group_part_t *part) {
    group_part_t *first = base_map_get(&room->parts, &part->id);
    group_ring_drop(&part->link);
    if (first == part && part->next == NULL) {
        (void)base_map_remove(&room->parts, &part->id);
    } else if (first == part) {
        (void)base_map_put(&room->parts, &part->id, part->next);
    } else {
        while (first->next != part) first = first->next;
        first->next = part->next;
    }
    free(part);
}

static void part_release(group_t *room, group_part_t *part) {
    part_each(room, part, room->ops->release);
    part_free(room, part);
    room->is_view_due = true;
}

void group_holds_free(group_t *room) {
    for (;;) {
        size_t cursor = 0;
        const void *key;
        void *part;
        if (!base_map_each(&room->parts, &cursor, &key, &part)) break;
        part_free(room, part);
    }
    base_map_fini(&room->parts);
}

/* ---- reserving ---- */

static group_part_t *part_new(group_t *room, const group_item_t *item) {
    group_part_t *part = calloc(1, sizeof *part + item->count * sizeof *part->ranges);
    if (part == NULL) return NULL;
    part->id = item->id;
    part->fence = item->fence;
    part->attempt = item->attempt;
    part->range_count = item->count;
    part->since_ms = room->now_ms;
    for (size_t i = 0; i < item->count; i++) part->ranges[i] = group_item_range(item, i);
    part->next = base_map_get(&room->parts, &part->id);
    if (base_map_put(&room->parts, &part->id, part)) return part;
    free(part);
    return NULL;
}

/* All of its bundles, or none. */
static bool part_reserve(group_t *room, const group_part_t *part, const group_spec_t *spec) {
    group_key_t key = {
        .id = group_id_frame(&part->id), .fence = part->fence, .attempt = part->attempt};
    for (size_t i = 0; i < part->range_count; i++)
        for (uint32_t b = 0; b < part->ranges[i].count; b++) {
            key.bundle = part->ranges[i].first + b;
            if (room->ops->reserve(room->context, &key, spec)) continue;
            for (;;) { /* backwards */
                if (b == 0 && i == 0) return false;
                b = b > 0 ? b - 1 : part->ranges[--i].count - 1;
                key.bundle = part->ranges[i].first + b;
                room->ops->release(room->context, &key);
            }
        }
    return true;
}

static bool reserve(group_t *room, const group_item_t *item) {
    group_spec_t *spec;
    if (part_find(room, &item->id, item->fence, item->attempt) != NULL) return true;
    if (group_spec_read(item->spec, item->spec_size, &spec) != MOB_OK) return false;
    group_part_t *part = part_new(room, item);
    bool is_reserved = part != NULL && part_reserve(room, part, spec);
    group_spec_free(spec);
    if (is_reserved)
        group_ring_add(&room->doubts, &part->link);
    else if (part != NULL)
        part_free(room, part);
    return is_reserved;
}

void group_hold_reserve(group_t *room, uint64_t from, const group_item_t *item) {
    group_item_t answer = {.kind = GROUP_ITEM_RESERVED,
                           .id = item->id,
                           .attempt = item->attempt,
                           .flag = reserve(room, item)};
    group_say(room, from, &answer);
    room->is_view_due = true;
}

/* ---- the decision ---- */

static void held_say(group_t *room, const group_id_t *id, uint64_t fence, uint64_t attempt,
                     bool is_held) {
    group_item_t item = {
        .kind = GROUP_ITEM_HELD, .id = *id, .fence = fence, .attempt = attempt, .flag = is_held};
    group_say(room, room->leader, &item);
}

static void part_commit(group_t *room, group_part_t *part) {
    if (!part->is_committed) part_each(room, part, room->ops->commit);
    part->is_committed = true;
    group_ring_drop(&part->link);
    held_say(room, &part->id, part->fence, part->attempt, true);
}

static void doubt_again(group_t *room, group_part_t *part) {
    part->since_ms = room->now_ms;
    group_ring_add(&room->doubts, &part->link);
}

static void decided(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                    base_reader_t *answer) {
    (void)master;
    if (code == GROUP_SAID_COMMITTED) group_leads_learn(room, answer);
    group_part_t *part = part_find(room, &ask->id, ask->fence, ask->attempt);
    if (code == GROUP_SAID_ABORTED)
        group_keep(room, GROUP_FACT_ABORTED, &ask->id, ask->fence, ask->attempt);
    if (part == NULL) return;
    part->is_asked = false;
    if (code == GROUP_SAID_COMMITTED) {
        part_commit(room, part);
    } else if (part->is_committed) {
        return; /* it was committed since, and that came after */
    } else if (code == GROUP_SAID_ABORTED || code == GROUP_SAID_ABSENT) {
        held_say(room, &part->id, part->fence, part->attempt, false);
        part_release(room, part);
    } else {
        doubt_again(room, part);
    }
}

static void doubt_ask(group_t *room, group_part_t *part) {
    if (part->is_asked) return;
    group_ask_t *ask = group_ask_new(room, group_script_decide, decided, &part->id,
                                     GROUP_ID_SIZE + 24 + 8 * part->range_count);
    if (ask == NULL) {
        doubt_again(room, part);
        return;
    }
    base_put_bytes(&ask->arguments, part->id.bytes, GROUP_ID_SIZE);
    base_put_number(&ask->arguments, ask->fence = part->fence, 8);
    base_put_number(&ask->arguments, ask->attempt = part->attempt, 8);
    base_put_number(&ask->arguments, room->self, 8);
    for (size_t i = 0; i < part->range_count; i++) {
        base_put_number(&ask->arguments, part->ranges[i].first, 4);
        base_put_number(&ask->arguments, part->ranges[i].count, 4);
    }
    group_ring_drop(&part->link);
    part->is_asked = true;
    group_ask_send(ask);
}

void group_holds_turn(group_t *room) {
    while (room->doubts.next != &room->doubts) {
        group_part_t *part = (group_part_t *)room->doubts.next;
        if (part->since_ms + GROUP_DOUBT_MS > room->now_ms) return;
        if (BASE_RULE(GROUP_DOUBT_ASKS))
            doubt_ask(room, part);
        else
            part_release(room, part);
        if (group_ring_has(&part->link)) return; /* no memory to ask with: later */
    }
}

void group_hold_commit(group_t *room, uint64_t from, const group_item_t *item) {
    (void)from;
    group_part_t *part = part_find(room, &item->id, item->fence, item->attempt);
    if (part == NULL)
        held_say(room, &item->id, item->fence, item->attempt, false);
    else if (part->is_committed || item->master >= room->master ||
             !BASE_RULE(GROUP_COMMIT_OF_MASTER))
        part_commit(room, part);
    else
        doubt_ask(room, part);
}

void group_hold_abort(group_t *room, uint64_t from, const group_item_t *item) {
    (void)from;
    group_part_t *part = part_find(room, &item->id, item->fence, item->attempt);
    if (part != NULL && !part->is_committed) part_release(room, part);
}

void group_hold_release(group_t *room, uint64_t from, const group_item_t *item) {
    for (group_part_t *part; (part = base_map_get(&room->parts, &item->id)) != NULL;)
        part_release(room, part);
    group_say_id(room, from, GROUP_ITEM_RELEASED, &item->id);
}

/* ---- what is free ---- */

/* To the leader: after everything that it caused, and once after it has asked for it. A new one may
 * not know yet that it leads: so it is told again until it has answered. */
static bool view_is_due(const group_t *room) {
    bool is_unheard = !room->is_view_known && BASE_RULE(GROUP_VIEW_AGAIN) &&
                      room->view_ms + GROUP_AGAIN_MS <= room->now_ms;
    return room->leader != 0 &&
           (room->is_view_due || is_unheard || (room->is_wanted && room->has_changed));
}

void group_view_say(group_t *room) {
    if (!view_is_due(room)) return;
    const char *labels = "";
    frame_demand_t view = room->ops->view(room->context, &labels);
    uint8_t bytes[GROUP_VIEW_MAX * 16];
    base_writer_t w = {.bytes = bytes};
    group_item_t item = {.kind = GROUP_ITEM_VIEW, .list = bytes, .labels = labels};
    for (; item.count < view.count && item.count < GROUP_VIEW_MAX; item.count++) {
        base_put_number(&w, group_hash_text(view.items[item.count].name), 8);
        base_put_number(&w, view.items[item.count].amount, 8);
    }
    group_say(room, room->leader, &item);
    room->is_view_due = room->is_wanted = room->has_changed = false;
    room->view_ms = room->now_ms;
}
