/*
 * The line of groups that wait for room, and attempts to place them.
 *
 * Groups of equal demands are a class; only the oldest of a class is tried, and a class that did
 * not fit is not tried again before some node has said something new. So a look at the line costs
 * as many tries as there are different demands, whatever the number of groups. Groups that have
 * lost some of their bundles are classes of their own.
 *
 * An attempt asks all its nodes to set bundles aside. When all have, the control state is asked to
 * write COMMITTED; only its answer sends COMMIT to the nodes. A refusal ends the attempt: nobody
 * else could have committed it, so the leader's own word is enough to give it up. Attempts are
 * numbered by the leader for all groups together, and the fence tells leaders apart: no two have
 * the same key.
 */
#include <stdlib.h>

#include "group/books.h"

/* ---- the line ---- */

static group_class_t *class_of(group_t *room, uint64_t hash) {
    group_class_t *class = base_map_get(&room->classes, &hash);
    if (class != NULL) return class;
    class = calloc(1, sizeof *class);
    if (class == NULL) return NULL;
    class->hash = hash;
    group_ring_init(&class->line);
    if (base_map_put(&room->classes, &hash, class)) return class;
    free(class);
    return NULL;
}

static group_placed_t *line_at(group_link_t *link) { return (group_placed_t *)link; }

static bool has_places(const group_placed_t *g) {
    for (uint32_t b = 0; b < g->spec->count; b++)
        if (g->places[b].state != BUNDLE_NONE) return true;
    return false;
}

void group_line_add(group_t *room, group_placed_t *g) {
    uint64_t hash =
        has_places(g) ? group_hash(7, g->id.bytes, sizeof g->id.bytes) : g->spec->class_hash;
    if (g->class != NULL && g->class->hash != hash) group_line_drop(room, g);
    if (g->class == NULL) g->class = class_of(room, hash);
    if (g->class == NULL) {
        room->is_short = true;
        return;
    }
    group_link_t *at = &g->class->line; /* mostly it is the newest */
    while (at->prev != &g->class->line && line_at(at->prev)->number > g->number) at = at->prev;
    if (at != &g->line && at->prev != &g->line) group_ring_add(at, &g->line);
    g->class->failed_at = 0;
    room->has_new = true;
}

void group_line_drop(group_t *room, group_placed_t *g) {
    group_class_t *class = g->class;
    if (class == NULL) return;
    group_ring_drop(&g->line);
    g->class = NULL;
    class->failed_at = 0; /* the next one may fit where this one did not: it is as old now */
    room->has_new = true;
    if (class->line.next != &class->line) return;
    (void)base_map_remove(&room->classes, &class->hash);
    free(class);
}

/* ---- what nodes were asked for ---- */

static void pend(group_view_t *view, const frame_demand_t *demand, int64_t times) {
    for (size_t i = 0; i < demand->count; i++) {
        uint64_t name = group_hash_text(demand->items[i].name);
        int64_t amount = times * (int64_t)demand->items[i].amount;
        size_t at = 0;
        while (at < view->pending.count && view->pending.items[at].name != name) at++;
        if (at < view->pending.count)
            view->pending.items[at].amount += amount;
        else /* without memory a view is too kind, and the node refuses */
            (void)vec_push(&view->pending, ((group_amount_t){name, amount}));
    }
}

/* What the attempt asks of this node is on its way, or answered. */
static void attempt_pend(group_t *room, const group_placed_t *g, uint64_t node, int64_t times) {
    group_view_t *view = base_map_get(&room->views, &node);
    if (view == NULL) return;
    for (uint32_t b = 0; b < g->spec->count; b++)
        if (g->places[b].node == node && g->places[b].state == BUNDLE_RESERVING)
            pend(view, &group_spec_run(g->spec, b)->demand, times);
}

/* ---- an attempt ---- */

/* All RESERVING bundles on this node, as one request. */
static bool reserve_say(group_t *room, const group_placed_t *g, uint64_t node) {
    uint8_t *list = malloc(8 * (size_t)g->spec->count);
    if (list == NULL) return false;
    group_item_t item = {.kind = GROUP_ITEM_RESERVE,
                         .id = g->id,
                         .attempt = g->attempt,
                         .spec = g->spec->bytes,
                         .spec_size = g->spec->size,
                         .list = list};
    base_writer_t w = {.bytes = list};
    for (uint32_t b = 0, next; b < g->spec->count; b = next) {
        for (next = b; next < g->spec->count && g->places[next].node == node &&
                       g->places[next].state == BUNDLE_RESERVING;)
            next++;
        if (next == b) {
            next++;
            continue;
        }
        base_put_number(&w, b, 4);
        base_put_number(&w, next - b, 4);
        item.count++;
    }
    group_say(room, node, &item);
    free(list);
    return true;
}

/* Calls for each node of the attempt once: for its first bundle that is in this state. */
static bool is_new_node(const group_placed_t *g, uint32_t b, bundle_state_t state) {
    if (g->places[b].state != state) return false;
    for (uint32_t i = b; i-- > 0;)
        if (g->places[i].state == state && g->places[i].node == g->places[b].node) return false;
    return true;
}

static void attempt_begin(group_t *room, group_placed_t *g, const uint64_t *nodes) {
    group_line_drop(room, g);
    g->state = PLACED_RESERVING;
    g->attempt = ++room->attempt;
    g->unanswered = 0;
    g->is_refused = false;
    for (uint32_t b = 0; b < g->spec->count; b++)
        if (g->places[b].state == BUNDLE_NONE)
            g->places[b] = (group_place_t){nodes[b], room->fence, g->attempt, BUNDLE_RESERVING, 0};
    for (uint32_t b = 0; b < g->spec->count; b++) {
        if (!is_new_node(g, b, BUNDLE_RESERVING)) continue;
        g->unanswered++;
        attempt_pend(room, g, g->places[b].node, 1);
        if (!reserve_say(room, g, g->places[b].node)) room->is_short = true;
    }
}

/* The nodes give back what they have set aside. */
void group_attempt_give_up(group_t *room, group_placed_t *g) {
    for (uint32_t b = 0; b < g->spec->count; b++) {
        bundle_state_t state = g->places[b].state;
        if (state != BUNDLE_RESERVING && state != BUNDLE_RESERVED) continue;
        if (!is_new_node(g, b, state)) continue;
        if (state == BUNDLE_RESERVING) attempt_pend(room, g, g->places[b].node, -1);
        group_say(room, g->places[b].node,
                  &(group_item_t){.kind = GROUP_ITEM_ABORT, .id = g->id, .attempt = g->attempt});
    }
    for (uint32_t b = 0; b < g->spec->count; b++)
        if (g->places[b].state == BUNDLE_RESERVING || g->places[b].state == BUNDLE_RESERVED)
            g->places[b] = (group_place_t){0};
    g->attempt = 0;
}

static void attempt_fail(group_t *room, group_placed_t *g) {
    group_attempt_give_up(room, g);
    g->state = PLACED_WAITING;
    group_placed_settle(room, g);
}

/* COMMITTED: the nodes are told. One that is dead by now has lost its bundles again. */
static void attempt_commit(group_t *room, group_placed_t *g, uint64_t master) {
    for (uint32_t b = 0; b < g->spec->count; b++) {
        group_place_t *place = &g->places[b];
        if (place->state != BUNDLE_RESERVED) continue;
        place->state = group_is_dead(room, place->node) ? BUNDLE_NONE : BUNDLE_ASSIGNED;
        place->master = master;
    }
    g->state = PLACED_WHOLE;
    group_placed_confirm(room, g);
    group_placed_settle(room, g);
}

/* ABORTED: by a node in doubt, or because its record says more than was read. */
static void attempt_deny(group_t *room, group_placed_t *g) {
    group_attempt_give_up(room, g);
    group_load_again(room, g);
}

static void committed(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                      base_reader_t *answer) {
    (void)answer;
    room->deciding--;
    if (!room->is_leading || ask->fence != room->fence) return;
    group_placed_t *g = group_placed_get(room, &ask->id);
    if (code == GROUP_SAID_FENCED) {
        group_lead_end(room);
        return;
    }
    if (g == NULL || g->state != PLACED_DECIDING || g->attempt != ask->attempt) return;
    if (code == GROUP_SAID_COMMITTED)
        attempt_commit(room, g, master);
    else if (code == GROUP_SAID_ABORTED)
        attempt_deny(room, g);
    else
        group_placed_remove(room, g);
}

static void decide(group_t *room, group_placed_t *g) {
    group_ask_t *ask = group_ask_new(room, group_script_commit, committed, &g->id,
                                     16 + GROUP_ID_SIZE + 16 + 16 * (size_t)g->spec->count);
    if (ask == NULL) {
        attempt_fail(room, g);
        return;
    }
    group_ask_put_leader(ask);
    base_put_bytes(&ask->arguments, g->id.bytes, GROUP_ID_SIZE);
    base_put_number(&ask->arguments, ask->attempt = g->attempt, 8);
    base_put_number(&ask->arguments, g->late, 8);
    for (uint32_t b = 0, next; b < g->spec->count; b = next) {
        for (next = b + 1; next < g->spec->count && g->places[next].node == g->places[b].node &&
                           g->places[next].state == g->places[b].state;)
            next++;
        if (g->places[b].state != BUNDLE_RESERVED) continue;
        base_put_number(&ask->arguments, b, 4);
        base_put_number(&ask->arguments, next - b, 4);
        base_put_number(&ask->arguments, g->places[b].node, 8);
    }
    g->state = PLACED_DECIDING;
    room->deciding++;
    group_ask_send(ask);
    if (!BASE_RULE(GROUP_DECIDE_FIRST)) attempt_commit(room, g, room->master);
}

void group_attempt_answered(group_t *room, group_placed_t *g, uint64_t from, bool is_reserved) {
    bool was_asked = false;
    if (g->state != PLACED_RESERVING) return;
    attempt_pend(room, g, from, -1);
    for (uint32_t b = 0; b < g->spec->count; b++) {
        group_place_t *place = &g->places[b];
        if (place->node != from || place->state != BUNDLE_RESERVING) continue;
        was_asked = true;
        if (is_reserved)
            place->state = BUNDLE_RESERVED;
        else
            *place = (group_place_t){0};
    }
    g->is_refused |= was_asked && !is_reserved;
    g->unanswered -= was_asked;
    if (g->is_refused)
        attempt_fail(room, g);
    else if (was_asked && g->unanswered == 0)
        decide(room, g);
}

/* ---- looking for room ---- */

static bool try_place(group_t *room, group_placed_t *g, group_views_t *views) {
    uint64_t *nodes = calloc(g->spec->count, sizeof *nodes);
    bool is_short = nodes == NULL, is_placed = false;
    for (uint32_t b = 0; nodes != NULL && b < g->spec->count; b++) nodes[b] = g->places[b].node;
    if (nodes != NULL)
        is_placed =
            group_choose(g->spec, views, room->ops->matches, room->context, nodes, &is_short);
    if (is_placed) attempt_begin(room, g, nodes);
    room->is_short |= is_short;
    free(nodes);
    return is_placed;
}

static int by_number(const void *left, const void *right) {
    const group_placed_t *a = *(group_placed_t *const *)left, *b = *(group_placed_t *const *)right;
    return a->number != b->number ? (a->number < b->number ? -1 : 1)
                                  : memcmp(a->id.bytes, b->id.bytes, sizeof a->id.bytes);
}

typedef VEC(group_placed_t *) heads_t;

/* The oldest of each class that was not tried since something has changed. */
static bool heads_get(const group_t *room, heads_t *heads) {
    size_t cursor = 0;
    const void *key;
    void *value;
    heads->count = 0;
    while (base_map_each(&room->classes, &cursor, &key, &value)) {
        group_class_t *class = value;
        if (class->failed_at == room->gains) continue;
        if (!vec_push(heads, line_at(class->line.next))) return false;
    }
    if (heads->count > 1) qsort(heads->items, heads->count, sizeof *heads->items, by_number);
    return true;
}

static bool views_get(const group_t *room, group_views_t *views) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&room->views, &cursor, &key, &value))
        if (!vec_push(views, value)) return false;
    return true;
}

/* While something waits, nodes are to say when they have more. */
static void views_want(group_t *room, const group_views_t *views) {
    for (size_t i = 0; i < views->count; i++) {
        group_view_t *view = views->items[i];
        if (view->is_wanted) continue;
        view->is_wanted = true;
        group_say(room, view->node, &(group_item_t){.kind = GROUP_ITEM_WANT});
    }
}

void group_line_pass(group_t *room) {
    if (room->is_scanning || (!room->has_new && room->passed == room->gains)) return;
    group_views_t views = {0};
    heads_t heads = {0};
    bool is_whole = views_get(room, &views), has_placed = true;
    room->passed = room->gains;
    room->has_new = false;
    while (is_whole && has_placed && (is_whole = heads_get(room, &heads))) {
        has_placed = false;
        for (size_t i = 0; i < heads.count; i++) {
            group_class_t *class = heads.items[i]->class;
            if (try_place(room, heads.items[i], &views))
                has_placed = true;
            else
                class->failed_at = room->gains;
        }
    }
    room->has_new = false; /* that was looked at: leaving a line is no news */
    if (!is_whole) room->is_short = true;
    if (room->classes.count > 0 && BASE_RULE(GROUP_WANT_VIEWS)) views_want(room, &views);
    vec_free(&views);
    vec_free(&heads);
}

void group_demands(const group_t *room, group_demand_fn visit, void *context) {
    heads_t heads = {0};
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&room->classes, &cursor, &key, &value))
        (void)vec_push(&heads, line_at(((group_class_t *)value)->line.next));
    if (heads.count > 1) qsort(heads.items, heads.count, sizeof *heads.items, by_number);
    for (size_t i = 0; i < heads.count; i++) {
        uint64_t groups = 0;
        const group_link_t *line = &heads.items[i]->class->line;
        for (const group_link_t *at = line->next; at != line; at = at->next) groups++;
        const group_spec_t *spec = heads.items[i]->spec;
        for (size_t run = 0; run < spec->run_count; run++)
            visit(context, &spec->runs[run].demand, spec->runs[run].selector,
                  groups * spec->runs[run].count);
    }
    vec_free(&heads);
}
