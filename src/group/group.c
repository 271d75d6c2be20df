/*
 * One node's part, put together: what comes is given to the file that it is for, and a turn does
 * what is due.
 *
 *   home.c     groups that are made here
 *   watch.c    news of groups, for whoever waits for them here
 *   hold.c     bundles that this node holds
 *   lead.c, scan.c, placed.c, attempt.c    what the leader does
 *   ask.c, say.c, out.c                    the control state, a new master, peers
 *
 * Rejected: two-phase commit with the leader's word as the decision. A leader that dies between two
 * COMMITs leaves nodes that no one can answer; so the decision is a write that every node can ask
 * for. Rejected: reservations that lapse by a clock: a node that was stopped gives back what
 * was committed meanwhile.
 */
#include "group/group.h"

#include <stdlib.h>

#include "group/books.h"

mob_status_t group_new(const group_ops_t *ops, void *context, uint64_t self, group_t **ret_room) {
    group_t *room = calloc(1, sizeof *room);
    if (room == NULL) return MOB_ENOMEM;
    room->ops = ops;
    room->context = context;
    room->self = self;
    group_link_t *rings[] = {&room->full, &room->asked, &room->parked, &room->unanswered,
                             &room->doubts};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) group_ring_init(rings[i]);
    base_map_init(&room->boxes, sizeof(uint64_t));
    base_map_init(&room->watches, sizeof(group_id_t));
    base_map_init(&room->waiting, sizeof(uint64_t));
    base_map_init(&room->parts, sizeof(group_id_t));
    base_map_init(&room->placed, sizeof(group_id_t));
    base_map_init(&room->classes, sizeof(uint64_t));
    base_map_init(&room->views, sizeof(uint64_t));
    *ret_room = room;
    return MOB_OK;
}

void group_free(group_t *room) {
    if (room == NULL) return;
    group_lead_end(room);
    group_asks_free(room);
    group_watches_free(room);
    group_holds_free(room);
    group_boxes_free(room);
    base_map_fini(&room->waiting);
    base_map_fini(&room->placed);
    base_map_fini(&room->classes);
    base_map_fini(&room->views);
    free(room);
}

group_id_t group_id_of(const frame_id_t *id) {
    group_id_t key;
    base_writer_t w = {.bytes = key.bytes};
    base_put_number(&w, id->home, 8);
    base_put_number(&w, id->number, 4);
    base_put_number(&w, id->generation, 8);
    return key;
}

frame_id_t group_id_frame(const group_id_t *id) {
    base_reader_t r = {.at = id->bytes, .left = sizeof id->bytes};
    frame_id_t frame = {.home = base_take_number(&r, 8)};
    frame.number = (uint32_t)base_take_number(&r, 4);
    frame.generation = base_take_number(&r, 8);
    return frame;
}

bool group_is_dead(const group_t *room, uint64_t node) {
    return node != room->self && room->ops->is_dead(room->context, node);
}

/* ---- who leads ---- */

void group_leads(group_t *room, uint64_t leader, uint64_t fence) {
    if (fence < room->fence) return;
    if (fence == room->fence && (leader == room->leader || (leader != 0 && room->leader != 0)))
        return;
    group_boxes_send(room); /* what was said so far was said with the old fence */
    if (room->is_leading) group_lead_end(room);
    room->leader = leader;
    room->fence = fence;
    room->is_wanted = room->is_view_known = false;
    room->is_view_due = true;
    if (leader == room->self) group_lead_begin(room);
    if (leader != 0) group_watches_again(room);
}

/* Whoever has read a record before it was changed is to hear of that. An older leader's word that a
 * group is gone would be true, and leave the newer one with it. */
void group_leads_learn(group_t *room, base_reader_t *answer) {
    uint64_t fence = base_take_number(answer, 8), leader = base_take_number(answer, 8);
    if (fence > room->fence && leader != room->self && BASE_RULE(GROUP_TELL_NEWEST))
        group_leads(room, leader, fence);
}

/* Whether a leader's word is to be heeded: not if there is a newer one. */
static bool is_heeded(group_t *room, uint64_t from, uint64_t fence) {
    if (!BASE_RULE(GROUP_FENCE_NODE)) return fence != 0;
    if (fence > room->fence) group_leads(room, from, fence);
    return fence != 0 && fence == room->fence && from == room->leader;
}

/* ---- what comes ---- */

static void leader_item(group_t *room, uint64_t from, group_item_t *item) {
    switch (item->kind) {
    case GROUP_ITEM_RESERVE:
        group_hold_reserve(room, from, item);
        break;
    case GROUP_ITEM_COMMIT:
        group_hold_commit(room, from, item);
        break;
    case GROUP_ITEM_ABORT:
        group_hold_abort(room, from, item);
        break;
    case GROUP_ITEM_RELEASE:
        group_hold_release(room, from, item);
        break;
    case GROUP_ITEM_STATE:
        group_watch_told(room, from, item);
        break;
    default:
        room->is_wanted = room->is_view_known = true;
    }
}

static void item_do(group_t *room, uint64_t from, uint64_t fence, group_item_t *item) {
    if (item->kind >= GROUP_ITEM_RESERVE && item->kind <= GROUP_ITEM_WANT) {
        if (item->kind == GROUP_ITEM_RESERVE || item->kind == GROUP_ITEM_ABORT) item->fence = fence;
        if (is_heeded(room, from, fence)) leader_item(room, from, item);
    } else if (item->kind < GROUP_ITEM_RESERVE) {
        if (room->is_leading) group_lead_item(room, from, item);
    } else if (item->kind == GROUP_ITEM_ASK || item->kind == GROUP_ITEM_REMOVE) {
        group_watch_asked(room, from, item);
    } else {
        group_watch_shared(room, from, item);
    }
}

mob_status_t group_receive(group_t *room, uint64_t from, const void *bytes, size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    group_item_t item;
    uint64_t fence = base_take_number(&r, 8);
    base_reader_t first = r;
    while (r.left > 0)
        if (!group_item_take(&r, &item)) return MOB_EPROTO;
    if (!base_reader_is_done(&r)) return MOB_EPROTO;
    while (first.left > 0 && group_item_take(&first, &item)) item_do(room, from, fence, &item);
    return MOB_OK;
}

void group_died(group_t *room, uint64_t peer) {
    group_box_drop(room, peer);
    group_watches_died(room, peer);
    if (room->is_leading) group_lead_died(room, peer);
}

void group_freed(group_t *room) { room->has_changed = true; }

/* ---- a turn ---- */

/* Memory was short, and something was not said: everything that can be is said again. The
 * leader begins again, but not while a decision is asked for: it would be written after the records
 * were read. */
static void say_again(group_t *room) {
    room->is_short = room->is_leading && room->deciding > 0;
    if (room->saying > 0) group_facts_say(room);
    if (room->is_leading && room->deciding == 0) {
        group_lead_end(room);
        group_lead_begin(room);
    }
    room->is_view_due = true;
    group_watches_again(room);
}

void group_turn(group_t *room, uint64_t now_ms) {
    room->now_ms = now_ms;
    if (room->is_short) say_again(room);
    group_kept_turn(room);
    group_holds_turn(room);
    group_watches_turn(room);
    if (room->is_leading) group_lead_turn(room);
    do {
        if (room->is_leading) group_line_pass(room);
        group_view_say(room);
        group_boxes_send(room);
    } while (room->is_leading && room->has_new && !room->is_scanning);
}

bool group_is_idle(const group_t *room) {
    return room->watches.count == 0 && room->parts.count == 0 && room->placed.count == 0 &&
           room->waiting.count == 0 && room->asked.next == &room->asked &&
           room->parked.next == &room->parked;
}
