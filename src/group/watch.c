/*
 * News of groups.
 *
 *   phase      who tells                  moved on by
 *   LOCAL      this node made it          its end
 *   CREATING   the control state is asked the answer: SHARED, or its end
 *   SHARED     the leader                 its last word
 *   AT_HOME    the node that made it      SHARED, its death: SHARED; its last word
 *
 * A leader is asked again when there is another, and each second until it has answered: it may not
 * know yet that it leads. That it answers at all says that it does.
 *
 * Whoever removes a group of another node's asks the control state first, which needs nobody else.
 * If that does not know the group, only its home can; if its home dies instead of answering, it may
 * have asked for the group meanwhile, so the control state is asked again.
 */
#include <stdlib.h>

#include "group/books.h"

group_watch_t *group_watch_new(group_t *room, const group_id_t *id) {
    group_watch_t *watch = calloc(1, sizeof *watch);
    if (watch == NULL) return NULL;
    watch->id = *id;
    watch->phase = WATCH_AT_HOME;
    if (base_map_put(&room->watches, id, watch)) return watch;
    free(watch);
    return NULL;
}

void group_watch_free(group_t *room, group_watch_t *watch) {
    (void)base_map_remove(&room->watches, &watch->id);
    group_ring_drop(&watch->link);
    vec_free(&watch->nodes);
    vec_free(&watch->askers);
    group_spec_free(watch->spec);
    free(watch);
}

void group_watches_free(group_t *room) {
    for (;;) {
        size_t cursor = 0;
        const void *key;
        void *watch;
        if (!base_map_each(&room->watches, &cursor, &key, &watch)) break;
        group_watch_free(room, watch);
    }
    base_map_fini(&room->watches);
}

/* ---- telling ---- */

static bool is_news(const group_watch_t *watch, group_state_t state, const uint8_t *nodes,
                    size_t count) {
    if (state == GROUP_WAITING) return watch->told == 0;
    if (state != watch->told || state != GROUP_READY) return state != watch->told;
    if (count != watch->nodes.count) return true;
    group_item_t item = {.list = nodes, .count = count};
    for (size_t i = 0; i < count; i++)
        if (group_item_node(&item, i) != watch->nodes.items[i]) return true;
    return false;
}

void group_watch_tell(group_t *room, group_watch_t *watch, group_state_t state,
                      const uint8_t *nodes, size_t count) {
    if (!is_news(watch, state, nodes, count)) return;
    frame_id_t id = group_id_frame(&watch->id);
    if (state == GROUP_READY) {
        group_item_t item = {.list = nodes, .count = count};
        watch->nodes.count = 0;
        if (!vec_reserve(&watch->nodes, count)) {
            room->is_short = true; /* the leader is asked again, and tells again */
            return;
        }
        for (size_t i = 0; i < count; i++) watch->nodes.items[i] = group_item_node(&item, i);
        watch->nodes.count = count;
    }
    if (watch->is_home && watch->phase == WATCH_SHARED)
        group_waiting_count(room, watch, (watch->told == GROUP_READY) - (state == GROUP_READY));
    watch->told = state;
    bool is_ready = state == GROUP_READY;
    room->ops->told(room->context, &id, state, is_ready ? watch->nodes.items : NULL,
                    is_ready ? count : 0);
}

/* The last word. */
void group_watch_end(group_t *room, group_watch_t *watch, group_state_t state) {
    if (watch->is_home && watch->phase != WATCH_LOCAL && watch->told != GROUP_READY)
        group_waiting_count(room, watch, -1);
    watch->phase = WATCH_AT_HOME; /* it is counted no more */
    group_watch_tell(room, watch, state, NULL, 0);
    for (size_t i = 0; i < watch->askers.count; i++)
        group_say(
            room, watch->askers.items[i],
            &(group_item_t){.kind = GROUP_ITEM_LOCAL, .id = watch->id, .flag = GROUP_REMOVED});
    group_watch_free(room, watch);
}

/* ---- asking ---- */

/* Asks whoever knows. */
void group_watch_seek(group_t *room, group_watch_t *watch) {
    uint64_t home = group_home_of(&watch->id);
    group_ring_drop(&watch->link);
    if (watch->phase == WATCH_AT_HOME && (home == room->self || group_is_dead(room, home)))
        watch->phase = WATCH_SHARED;
    if (watch->phase == WATCH_AT_HOME) {
        group_say_id(room, home, watch->is_removing ? GROUP_ITEM_REMOVE : GROUP_ITEM_ASK,
                     &watch->id);
        return;
    }
    if (watch->phase != WATCH_SHARED) return;
    group_item_t item = {.kind = watch->is_removed ? GROUP_ITEM_ENDED : GROUP_ITEM_WATCH,
                         .id = watch->id,
                         .master = room->master,
                         .flag = watch->told == GROUP_READY && BASE_RULE(GROUP_WAS_READY)};
    group_say(room, room->leader, &item);
    watch->since_ms = room->now_ms;
    group_ring_add(&room->unanswered, &watch->link);
}

void group_watches_turn(group_t *room) {
    while (room->unanswered.next != &room->unanswered && BASE_RULE(GROUP_WATCH_AGAIN)) {
        group_watch_t *watch = (group_watch_t *)room->unanswered.next;
        if (watch->since_ms + GROUP_AGAIN_MS > room->now_ms) return;
        group_watch_seek(room, watch);
    }
}

/* Removals whose request was not made for want of memory are made now. */
void group_watches_again(group_t *room) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&room->watches, &cursor, &key, &value)) {
        group_watch_t *watch = value;
        if (watch->phase == WATCH_LOCAL || watch->phase == WATCH_CREATING) continue;
        if (watch->is_removing && !watch->is_asked && !watch->is_removed)
            group_watch_remove(room, watch);
        else
            group_watch_seek(room, watch);
    }
}

void group_watches_died(group_t *room, uint64_t peer) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&room->watches, &cursor, &key, &value)) {
        group_watch_t *watch = value;
        for (size_t i = watch->askers.count; i-- > 0;)
            if (watch->askers.items[i] == peer) vec_swap_remove(&watch->askers, i);
        if (watch->phase != WATCH_AT_HOME || group_home_of(&watch->id) != peer || watch->is_asked)
            continue;
        if (watch->is_removing && BASE_RULE(GROUP_REMOVE_AGAIN))
            group_watch_remove(room, watch);
        else
            group_watch_seek(room, watch);
    }
}

mob_status_t group_watch(group_t *room, const frame_id_t *frame) {
    group_id_t id = group_id_of(frame);
    if (base_map_get(&room->watches, &id) != NULL) return MOB_OK;
    group_watch_t *watch = group_watch_new(room, &id);
    if (watch == NULL) return MOB_ENOMEM;
    group_watch_seek(room, watch);
    return MOB_OK;
}

/* ---- what comes ---- */

static bool has_dead(const group_t *room, const group_item_t *item) {
    for (size_t i = 0; i < item->count; i++)
        if (group_is_dead(room, group_item_node(item, i))) return true;
    return false;
}

/* The leader's word. */
void group_watch_told(group_t *room, uint64_t from, const group_item_t *item) {
    group_watch_t *watch = base_map_get(&room->watches, &item->id);
    bool is_over = item->flag == GROUP_REMOVED;
    if (watch != NULL && watch->phase == WATCH_CREATING) {
        watch->is_ended |= is_over;
        return;
    }
    bool is_certain = item->master >= room->master || !BASE_RULE(GROUP_ENDED_BY_MASTER);
    if (is_over && !is_certain && watch != NULL && watch->phase == WATCH_SHARED) {
        watch->is_removing = true; /* this node may have told a newer master that it is there */
        group_watch_remove(room, watch);
        return;
    }
    if (is_over && group_home_of(&item->id) == room->self)
        group_say_id(room, from, GROUP_ITEM_SEEN, &item->id);
    if (watch == NULL || watch->phase != WATCH_SHARED) return;
    if (is_over) {
        if (BASE_RULE(GROUP_HEARD_REMOVED))
            group_keep(room, GROUP_FACT_REMOVED, &item->id, 0, 0); /* it will be told as certain */
        group_watch_end(room, watch, GROUP_REMOVED);
        return;
    }
    bool is_stale = item->flag == GROUP_READY && has_dead(room, item);
    if (is_stale && BASE_RULE(GROUP_READY_OF_DEAD)) { /* or of one that has only just joined */
        watch->since_ms = room->now_ms;
        group_ring_add(&room->unanswered, &watch->link);
        return;
    }
    if (!watch->is_removed) group_ring_drop(&watch->link);
    group_watch_tell(room, watch, (group_state_t)item->flag, item->list, item->count);
}

static void asker_add(group_t *room, group_watch_t *watch, uint64_t from) {
    for (size_t i = 0; i < watch->askers.count; i++)
        if (watch->askers.items[i] == from) return;
    if (!vec_push(&watch->askers, from)) /* it is told at once what is not certain: to ask again */
        group_say_id(room, from, GROUP_ITEM_SHARED, &watch->id);
}

/* A peer asks for a group that was made here, or wants it removed. */
void group_watch_asked(group_t *room, uint64_t from, const group_item_t *item) {
    group_watch_t *watch = base_map_get(&room->watches, &item->id);
    if (watch == NULL || !watch->is_home) {
        group_say(room, from,
                  &(group_item_t){.kind = GROUP_ITEM_LOCAL, .id = item->id, .flag = GROUP_REMOVED});
        return;
    }
    if (watch->phase == WATCH_SHARED) {
        group_say_id(room, from, GROUP_ITEM_SHARED, &item->id);
        return;
    }
    asker_add(room, watch, from);
    if (item->kind == GROUP_ITEM_REMOVE) {
        watch->is_removing = true;
        group_watch_remove(room, watch);
    } else if (watch->phase == WATCH_LOCAL) {
        group_say(room, from,
                  &(group_item_t){.kind = GROUP_ITEM_LOCAL, .id = item->id, .flag = GROUP_READY});
    }
}

/* The word of a group's home. */
void group_watch_shared(group_t *room, uint64_t from, const group_item_t *item) {
    group_watch_t *watch = base_map_get(&room->watches, &item->id);
    if (watch == NULL || watch->phase != WATCH_AT_HOME || group_home_of(&item->id) != from) return;
    if (item->kind == GROUP_ITEM_SHARED) {
        watch->phase = WATCH_SHARED;
        if (watch->is_removing && !watch->is_asked)
            group_watch_remove(room, watch);
        else
            group_watch_seek(room, watch);
    } else if (item->flag == GROUP_REMOVED) {
        if (!watch->is_asked) group_watch_end(room, watch, GROUP_REMOVED);
    } else {
        group_watch_tell(room, watch, GROUP_READY, item->id.bytes, 1); /* an id begins with it */
    }
}
