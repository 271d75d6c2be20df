/*
 * One group, as the leader has it.
 *
 *   state       moved on by
 *   LOADING     its record was read: WHOLE or WAITING; REMOVED; ENDING
 *   WAITING     the line's pass finds nodes: RESERVING
 *   RESERVING   the last answer: DECIDING; a refusal: WAITING
 *   DECIDING    COMMITTED: WHOLE; ABORTED: WAITING
 *   WHOLE       a node died, or holds nothing: WAITING
 *   ENDING      its record is REMOVED: REMOVED
 *   REMOVED     forgotten
 *
 * READY is said when every bundle's node has confirmed that it holds it for good. Until then a node
 * in doubt could be told something else by a master that has lost the decision.
 *
 * A record is forgotten when all nodes have given back and its home will not ask for it any more.
 */
#include <stdlib.h>

#include "group/books.h"

group_placed_t *group_placed_get(group_t *room, const group_id_t *id) {
    return base_map_get(&room->placed, id);
}

group_placed_t *group_placed_new(group_t *room, const group_id_t *id) {
    uint64_t home = group_home_of(id);
    group_placed_t *g = calloc(1, sizeof *g);
    bool is_there = g != NULL && vec_push(&g->watchers, home);
    if (is_there) g->id = *id;
    if (is_there && base_map_put(&room->placed, id, g)) return g;
    if (g != NULL) vec_free(&g->watchers);
    free(g);
    room->is_short = true;
    return NULL;
}

void group_placed_free(group_t *room, group_placed_t *g) {
    group_line_drop(room, g);
    (void)base_map_remove(&room->placed, &g->id);
    group_spec_free(g->spec);
    free(g->places);
    vec_free(&g->watchers);
    vec_free(&g->releasing);
    free(g);
}

/* ---- news ---- */

static group_state_t state_of(const group_placed_t *g) {
    if (g->state == PLACED_REMOVED) return GROUP_REMOVED;
    if (g->state == PLACED_WHOLE && (g->unconfirmed == 0 || !BASE_RULE(GROUP_READY_HELD)))
        return GROUP_READY;
    return g->state != PLACED_WHOLE && g->was_placed ? GROUP_RESCHEDULING : GROUP_WAITING;
}

static void tell(group_t *room, const group_placed_t *g, uint64_t to, group_state_t state,
                 const uint8_t *nodes, size_t count) {
    group_item_t item = {.kind = GROUP_ITEM_STATE,
                         .id = g->id,
                         .master = room->master,
                         .flag = (uint8_t)state,
                         .list = nodes,
                         .count = count};
    group_say(room, to, &item);
}

/* only 0: to all who watch it. */
void group_placed_tell(group_t *room, group_placed_t *g, uint64_t only) {
    group_state_t state = state_of(g);
    size_t count = state == GROUP_READY ? g->spec->count : 0;
    uint8_t *nodes = malloc(8 * count + 1);
    if (nodes == NULL) {
        room->is_short = true;
        return;
    }
    base_writer_t w = {.bytes = nodes};
    for (size_t b = 0; b < count; b++) base_put_number(&w, g->places[b].node, 8);
    if (only != 0) tell(room, g, only, state, nodes, count);
    for (size_t i = 0; only == 0 && i < g->watchers.count; i++)
        tell(room, g, g->watchers.items[i], state, nodes, count);
    free(nodes);
    g->told = state;
    g->was_placed |= state == GROUP_READY;
}

/* ---- where its bundles are ---- */

/* Each node once: whether bundle b is the first of its node that is so. */
static bool is_first(const group_placed_t *g, uint32_t b) {
    for (uint32_t i = b; i-- > 0;)
        if (g->places[i].node == g->places[b].node && g->places[i].state == g->places[b].state &&
            g->places[i].attempt == g->places[b].attempt &&
            g->places[i].fence == g->places[b].fence)
            return false;
    return true;
}

/* Tells the nodes of its ASSIGNED bundles that they are committed. */
void group_placed_confirm(group_t *room, group_placed_t *g) {
    for (uint32_t b = 0; b < g->spec->count; b++) {
        const group_place_t *place = &g->places[b];
        if (place->state != BUNDLE_ASSIGNED || !is_first(g, b)) continue;
        group_item_t item = {.kind = GROUP_ITEM_COMMIT,
                             .id = g->id,
                             .fence = place->fence,
                             .attempt = place->attempt,
                             .master = place->master};
        group_say(room, place->node, &item);
    }
}

void group_placed_settle(group_t *room, group_placed_t *g) {
    uint32_t missing = 0;
    g->unconfirmed = 0;
    for (uint32_t b = 0; b < g->spec->count; b++) {
        bundle_state_t state = g->places[b].state;
        if (state == BUNDLE_NONE) g->places[b].node = 0;
        missing += state == BUNDLE_NONE;
        g->unconfirmed += state != BUNDLE_HELD;
    }
    if (g->state != PLACED_WHOLE && g->state != PLACED_WAITING) return;
    g->state = missing > 0 ? PLACED_WAITING : PLACED_WHOLE;
    if (missing > 0)
        group_line_add(room, g);
    else
        group_line_drop(room, g);
    group_state_t state = state_of(g);
    if (state != g->told && state != GROUP_WAITING) group_placed_tell(room, g, 0);
}

/* ---- its end ---- */

/* The node holds some of it, and is to give that back when it ends. */
void group_placed_holder(group_t *room, group_placed_t *g, uint64_t node) {
    if (node == 0 || group_is_dead(room, node)) return;
    for (size_t i = 0; i < g->releasing.count; i++)
        if (g->releasing.items[i] == node) return;
    if (!vec_push(&g->releasing, node))
        room->is_short = true; /* all is begun again, with this group's record */
}

void group_placed_remove(group_t *room, group_placed_t *g) {
    if (g->state == PLACED_REMOVED) return;
    group_line_drop(room, g);
    if (g->state == PLACED_RESERVING) group_attempt_give_up(room, g);
    for (uint32_t b = 0; g->places != NULL && b < g->spec->count; b++)
        group_placed_holder(room, g, g->places[b].node);
    for (size_t i = 0; i < g->releasing.count; i++)
        group_say_id(room, g->releasing.items[i], GROUP_ITEM_RELEASE, &g->id);
    g->state = PLACED_REMOVED;
    if (BASE_RULE(GROUP_HEARD_REMOVED)) group_keep(room, GROUP_FACT_REMOVED, &g->id, 0, 0);
    g->is_seen |= group_is_dead(room, group_home_of(&g->id));
    group_placed_tell(room, g, 0);
    group_placed_forget(room, g);
}

static void forgotten(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                      base_reader_t *answer) {
    (void)master;
    (void)answer;
    group_placed_t *g = group_placed_get(room, &ask->id);
    if (!room->is_leading || ask->fence != room->fence) return;
    if (code != GROUP_SAID_OK)
        group_lead_end(room);
    else if (g != NULL && g->state == PLACED_REMOVED)
        group_placed_free(room, g);
}

void group_placed_forget(group_t *room, group_placed_t *g) {
    if (g->state != PLACED_REMOVED || g->is_forgetting) return;
    if (g->releasing.count > 0 && BASE_RULE(GROUP_ALL_RELEASE)) return;
    if (!g->is_seen && BASE_RULE(GROUP_HOME_SEES)) return;
    group_ask_t *ask =
        group_ask_new(room, group_script_forget, forgotten, &g->id, 16 + GROUP_ID_SIZE);
    if (ask == NULL) return;
    group_ask_put_leader(ask);
    base_put_bytes(&ask->arguments, g->id.bytes, GROUP_ID_SIZE);
    g->is_forgetting = true;
    group_ask_send(ask);
}

void group_placed_released(group_t *room, group_placed_t *g, uint64_t node) {
    for (size_t i = g->releasing.count; i-- > 0;)
        if (g->releasing.items[i] == node) vec_swap_remove(&g->releasing, i);
    group_placed_forget(room, g);
}

static void ended(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                  base_reader_t *answer) {
    (void)master;
    (void)answer;
    if (code == GROUP_SAID_REMOVED) group_keep(room, GROUP_FACT_REMOVED, &ask->id, 0, 0);
    group_placed_t *g = group_placed_get(room, &ask->id);
    if (g != NULL && room->is_leading && ask->fence == room->fence) group_placed_remove(room, g);
}

void group_placed_end(group_t *room, group_placed_t *g) {
    group_ask_t *ask = group_ask_new(room, group_script_remove, ended, &g->id, GROUP_ID_SIZE);
    if (ask == NULL) return;
    base_put_bytes(&ask->arguments, g->id.bytes, GROUP_ID_SIZE);
    group_line_drop(room, g);
    if (g->state == PLACED_RESERVING) group_attempt_give_up(room, g);
    g->state = PLACED_ENDING;
    group_ask_send(ask);
}
