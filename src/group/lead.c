/*
 * What the leader does with what comes. It begins with nothing: it writes its fence into the
 * control state and reads all records there (scan.c), nodes send their views and watches by
 * themselves. From the first page on no older leader can commit anything, and what it had committed
 * before is in the pages.
 *
 * It scans again after every death, for the dead one may have made or removed groups without having
 * told, and when a new master has settled. And once more GROUP_LATER_MS after a death and after its
 * own beginning: a dead node that still runs, or its last requests, may write meanwhile, and nobody
 * hears what it says.
 */
#include <stdlib.h>

#include "group/books.h"

void group_lead_begin(group_t *room) {
    room->is_leading = true;
    room->is_scanning = room->scans_again = false;
    room->gains++;
    room->later_ms = room->now_ms + GROUP_LATER_MS;
    group_lead_scan(room);
}

void group_lead_turn(group_t *room) {
    if (room->later_ms == 0 || room->later_ms > room->now_ms) return;
    room->later_ms = 0;
    if (BASE_RULE(GROUP_SCAN_LATER)) group_lead_scan(room);
}

static void view_free(group_view_t *view) {
    vec_free(&view->free);
    vec_free(&view->pending);
    free(view->labels);
    free(view);
}

void group_lead_end(group_t *room) {
    size_t cursor = 0;
    const void *key;
    void *value;
    room->is_leading = false;
    while (base_map_each(&room->views, &cursor, &key, &value)) view_free(value);
    base_map_fini(&room->views);
    while (cursor = 0, base_map_each(&room->placed, &cursor, &key, &value))
        group_placed_free(room, value);
    base_map_fini(&room->placed);
    cursor = 0;
    while (base_map_each(&room->classes, &cursor, &key, &value)) free(value);
    base_map_fini(&room->classes);
}

/* ---- views ---- */

static group_view_t *view_of(group_t *room, uint64_t node) {
    group_view_t *view = base_map_get(&room->views, &node);
    if (view != NULL) return view;
    view = calloc(1, sizeof *view);
    if (view == NULL) return NULL;
    view->node = node;
    if (base_map_put(&room->views, &node, view)) return view;
    free(view);
    return NULL;
}

/* What the node says is free, less what it has been asked for since. */
static bool view_set(group_view_t *view, const group_item_t *item) {
    size_t size = strlen(item->labels) + 1;
    char *labels = malloc(size);
    if (labels == NULL || !vec_reserve(&view->free, item->count + 1)) {
        free(labels);
        return false;
    }
    memcpy(labels, item->labels, size);
    free(view->labels);
    view->labels = labels;
    base_reader_t r = {.at = item->list, .left = item->count * 16};
    view->free.count = 0;
    while (r.left > 0) {
        group_amount_t amount = {.name = base_take_number(&r, 8)};
        uint64_t said = base_take_number(&r, 8);
        amount.amount = said > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)said;
        for (size_t i = 0; i < view->pending.count; i++)
            if (view->pending.items[i].name == amount.name)
                amount.amount -= view->pending.items[i].amount;
        view->free.items[view->free.count++] = amount;
    }
    return true;
}

static void view_said(group_t *room, uint64_t from, const group_item_t *item) {
    group_view_t *view = view_of(room, from);
    if (view == NULL || !view_set(view, item)) {
        room->is_short = true;
        return;
    }
    view->is_wanted = !view->is_known;
    if (!view->is_known) group_say(room, from, &(group_item_t){.kind = GROUP_ITEM_WANT});
    view->is_known = true;
    room->gains++;
}

/* ---- what nodes say ---- */

static void watcher_add(group_t *room, group_placed_t *g, uint64_t watcher) {
    for (size_t i = 0; i < g->watchers.count; i++)
        if (g->watchers.items[i] == watcher) return;
    if (!vec_push(&g->watchers, watcher)) room->is_short = true;
}

static void watched(group_t *room, uint64_t from, const group_item_t *item, bool is_ended) {
    group_placed_t *g = group_placed_get(room, &item->id);
    bool is_new = g == NULL;
    if (is_new) g = group_placed_new(room, &item->id);
    if (g == NULL) return;
    watcher_add(room, g, from);
    bool is_certain = item->master >= room->master || !BASE_RULE(GROUP_ENDED_BY_MASTER);
    g->is_gone |= is_ended && is_certain;
    g->is_ended |= is_ended;
    g->was_placed |= item->flag;
    if (is_ended && g->state < PLACED_ENDING && g->state != PLACED_LOADING && !is_certain)
        group_placed_end(room, g);
    else if (is_ended && g->state != PLACED_LOADING && g->state != PLACED_REMOVED && is_certain)
        group_placed_remove(room, g);
    else if (g->state != PLACED_LOADING)
        group_placed_tell(room, g, from);
    if (is_new && !room->is_scanning) group_load(room, g);
}

/* The node holds what has no place here: its record has one now, or had one a while ago. */
static void held_late(group_t *room, group_placed_t *g) {
    if (g->state == PLACED_LOADING) g->is_late = true;
    if (g->state == PLACED_RESERVING) group_attempt_give_up(room, g);
    if (g->state == PLACED_RESERVING || g->state == PLACED_WAITING) group_load_again(room, g);
}

static void held(group_t *room, group_placed_t *g, uint64_t from, const group_item_t *item) {
    bool has_changed = false, is_attempt = false, is_known = false;
    for (uint32_t b = 0; g->places != NULL && b < g->spec->count; b++) {
        group_place_t *place = &g->places[b];
        if (place->node != from || place->fence != item->fence || place->attempt != item->attempt)
            continue;
        is_known = true;
        is_attempt |= place->state == BUNDLE_RESERVING;
        if (place->state != BUNDLE_ASSIGNED && place->state != BUNDLE_HELD) continue;
        bundle_state_t now = item->flag ? BUNDLE_HELD : BUNDLE_NONE;
        has_changed |= place->state != now;
        place->state = now;
    }
    if (is_attempt && !item->flag && g->state == PLACED_RESERVING)
        g->is_refused = true; /* it answers yet, to what it was asked */
    if (has_changed) group_placed_settle(room, g);
    if (item->flag && !is_known) held_late(room, g);
}

void group_lead_item(group_t *room, uint64_t from, const group_item_t *item) {
    if (item->kind == GROUP_ITEM_VIEW) {
        view_said(room, from, item);
        return;
    }
    if (item->kind == GROUP_ITEM_WATCH || item->kind == GROUP_ITEM_ENDED) {
        watched(room, from, item, item->kind == GROUP_ITEM_ENDED);
        return;
    }
    group_placed_t *g = group_placed_get(room, &item->id);
    if (g == NULL) return;
    if (item->kind == GROUP_ITEM_RESERVED) {
        if (item->attempt == g->attempt) group_attempt_answered(room, g, from, item->flag);
    } else if (item->kind == GROUP_ITEM_HELD) {
        held(room, g, from, item);
    } else if (item->kind == GROUP_ITEM_RELEASED) {
        group_placed_released(room, g, from);
    } else if (group_home_of(&g->id) == from) {
        g->is_seen = true;
        group_placed_forget(room, g);
    }
}

/* ---- deaths and ends ---- */

static void lost(group_t *room, group_placed_t *g, uint64_t peer) {
    bool has_changed = false;
    for (size_t i = g->watchers.count; i-- > 0;)
        if (g->watchers.items[i] == peer) vec_swap_remove(&g->watchers, i);
    if (g->state == PLACED_REMOVED) {
        if (group_home_of(&g->id) == peer) g->is_seen = true;
        group_placed_released(room, g, peer);
        return;
    }
    if (g->spec != NULL && g->state < PLACED_ENDING && !g->spec->detached &&
        g->spec->job.home == peer) {
        group_placed_end(room, g);
        return;
    }
    if (g->state == PLACED_RESERVING) group_attempt_answered(room, g, peer, false);
    for (uint32_t b = 0; g->places != NULL && b < g->spec->count; b++) {
        group_place_t *place = &g->places[b];
        if (place->node != peer || (place->state != BUNDLE_ASSIGNED && place->state != BUNDLE_HELD))
            continue;
        place->state = BUNDLE_NONE;
        has_changed = true;
    }
    if (has_changed) group_placed_settle(room, g);
}

void group_lead_died(group_t *room, uint64_t peer) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&room->placed, &cursor, &key, &value)) lost(room, value, peer);
    group_view_t *view = base_map_remove(&room->views, &peer);
    if (view != NULL) view_free(view);
    if (BASE_RULE(GROUP_SCAN_AT_DEATH)) group_lead_scan(room);
    room->later_ms = room->now_ms + GROUP_LATER_MS;
}

/* The end is written: what is made from now on is none of this job's. What is being read may have
 * been read before: then it is read once more. */
void group_lead_job_ended(group_t *room, frame_job_t job) {
    bool is_reading = room->is_scanning;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&room->placed, &cursor, &key, &value)) {
        group_placed_t *g = value;
        is_reading |= g->state == PLACED_LOADING;
        if (g->spec != NULL && g->state < PLACED_ENDING && g->state != PLACED_LOADING &&
            !g->spec->detached && g->spec->job.home == job.home &&
            g->spec->job.number == job.number)
            group_placed_end(room, g);
    }
    if (is_reading) group_lead_scan(room);
}
