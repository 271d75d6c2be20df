/*
 * Requests to the control state, and what is to be said to a new master.
 *
 * A request names the master that is known here to have settled. Answered by another one, or by one
 * that is not the newest any more, it was no decision: it waits (parked) until a newer master has
 * settled, and is asked again. Every script is safe to repeat.
 *
 * What was decided at this node's wish and leaves no trace in its books, a removal or an abort, is
 * kept for GROUP_FACT_MS: as long as a replica may lag behind and be a master yet.
 */
#include <stdlib.h>

#include "group/books.h"

static void answered(void *context, uint64_t master, const void *answer, size_t size);

group_ask_t *group_ask_new(group_t *room, script_fn script, group_done_fn done,
                           const group_id_t *id, size_t size) {
    group_ask_t *ask = calloc(1, sizeof *ask + 8 + size);
    if (ask == NULL) {
        room->is_short = true;
        return NULL;
    }
    ask->room = room;
    ask->script = script;
    ask->done = done;
    if (id != NULL) ask->id = *id;
    ask->fence = room->fence;
    ask->arguments.bytes = ask->bytes;
    base_put_number(&ask->arguments, 0, 8);
    return ask;
}

void group_ask_put_leader(group_ask_t *ask) {
    base_put_number(&ask->arguments, ask->room->fence, 8);
    base_put_number(&ask->arguments, ask->room->self, 8);
}

void group_ask_send(group_ask_t *ask) {
    group_t *room = ask->room;
    base_writer_t w = {.bytes = ask->bytes};
    ask->settled = room->settled;
    base_put_number(&w, ask->script == group_script_say ? room->saying_to : ask->settled, 8);
    group_ring_add(&room->asked, &ask->link);
    room->ops->ask(room->context, ask->script, ask->bytes, ask->arguments.size, answered, ask);
}

static void answered(void *context, uint64_t master, const void *answer, size_t size) {
    group_ask_t *ask = context;
    group_t *room = ask->room;
    base_reader_t r = {.at = answer, .left = size};
    group_answer_t code = (group_answer_t)base_take_number(&r, 1);
    bool is_old = master < room->master && BASE_RULE(GROUP_OLD_ANSWER);
    if (ask->script != group_script_say && (code == GROUP_SAID_UNSETTLED || is_old)) {
        if (ask->settled < room->settled)
            group_ask_send(ask);
        else
            group_ring_add(&room->parked, &ask->link);
        return;
    }
    group_ring_drop(&ask->link);
    ask->done(room, ask, master, code, &r);
    free(ask);
}

void group_settled(group_t *room, uint64_t master) {
    if (master <= room->settled) return;
    room->settled = master;
    if (master > room->master) room->master = master;
    group_link_t all;
    group_ring_init(&all);
    while (room->parked.next != &room->parked) group_ring_add(&all, room->parked.next);
    while (all.next != &all) group_ask_send((group_ask_t *)all.next);
    if (room->is_leading) group_lead_scan(room); /* removed ones may be there again */
}

void group_asks_free(group_t *room) {
    group_link_t *rings[] = {&room->asked, &room->parked};
    for (int i = 0; i < 2; i++)
        while (rings[i]->next != rings[i]) {
            group_ask_t *ask = (group_ask_t *)rings[i]->next;
            group_ring_drop(&ask->link);
            free(ask);
        }
    vec_free(&room->kept);
}

/* ---- what is kept to be said again ---- */

void group_keep(group_t *room, group_fact_t kind, const group_id_t *id, uint64_t fence,
                uint64_t attempt) {
    group_kept_t kept = {kind, *id, fence, attempt, room->now_ms};
    (void)vec_push(&room->kept, kept); /* without memory it is as if replicas never lagged */
}

void group_kept_turn(group_t *room) {
    while (room->kept_from < room->kept.count &&
           room->kept.items[room->kept_from].at_ms + GROUP_FACT_MS < room->now_ms)
        room->kept_from++;
    if (room->kept_from < 64 && room->kept_from < room->kept.count) return;
    if (room->kept_from * 2 < room->kept.count || room->kept_from == 0) return;
    room->kept.count -= room->kept_from;
    memmove(room->kept.items, room->kept.items + room->kept_from,
            room->kept.count * sizeof *room->kept.items);
    room->kept_from = 0;
}
