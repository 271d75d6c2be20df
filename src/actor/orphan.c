/*
 * The leader's part: actors whose home is dead.
 *
 * It walks over the homes that have actors in the control state, and sweeps those that are dead: a
 * script ends what ends with its home, and tells which detached actors there are. The leader adopts
 * these: it reads each, and goes on as its home would have. It walks when it begins to lead, after
 * a death, after a master was settled, and every few seconds: a home that is buried and does not
 * know it may have written something a moment ago.
 *
 * Two nodes may both believe that they lead. That does no harm: every decision is a
 * compare-and-swap of the epoch, and whoever loses goes on from what is kept. So the leader's
 * fencing number is not needed here.
 */
#include "actor/room.h"

enum { WALK_MS = 5000, HOMES_PAGE = 256, IDS_PAGE = 128 };

static void sweep_next(actor_t *room) {
    if (room->walk_dead.count > 0) {
        room->walk_id = (frame_id_t){.home = vec_pop(&room->walk_dead)};
        question_ask(room, &room->walk, ASK_SWEEP, room);
    } else if (room->walk_home != 0) {
        question_ask(room, &room->walk, ASK_HOMES, room); /* the next page */
    }
}

void orphan_walk(actor_t *room) {
    bool is_due = room->walk_ms == 0 || room->now_ms >= room->walk_ms + WALK_MS;
    if (room->leader != room->self || !is_due || room->walk.kind != ASK_NONE) return;
    room->walk_ms = room->now_ms | 1;
    room->walk_home = 0;
    room->walk_dead.count = 0;
    question_ask(room, &room->walk, ASK_HOMES, room);
}

static void homes_answered(actor_t *room, base_reader_t *r) {
    size_t count = r->left / 8;
    for (size_t i = 0; i < count; i++) {
        uint64_t home = base_take_number(r, 8);
        room->walk_home = home;
        /* without memory it is found by the next walk */
        if (peer_is_dead(room, home)) (void)vec_push(&room->walk_dead, home);
    }
    if (count < HOMES_PAGE) room->walk_home = 0;
    sweep_next(room);
}

void orphan_adopt(actor_t *room, frame_id_t id) {
    bool is_ours = room->leader == room->self && peer_is_dead(room, id.home);
    if (!is_ours || record_find(room, id) != NULL) return;
    record_t *record = record_new(room, &(actor_facts_t){.id = id, .limit = 1});
    if (record == NULL) return; /* found by the next walk */
    record->is_adopted = true;
    record->phase = PHASE_LOAD;
    question_ask(room, &record->ask, ASK_ADOPT, record);
}

static void sweep_answered(actor_t *room, base_reader_t *r) {
    size_t count = r->left / ACTOR_ID_SIZE;
    for (size_t i = 0; i < count; i++) {
        room->walk_id = actor_id_take(r);
        orphan_adopt(room, room->walk_id);
    }
    if (count == IDS_PAGE)
        question_ask(room, &room->walk, ASK_SWEEP, room);
    else
        sweep_next(room);
}

void orphan_answered(actor_t *room, ask_kind_t kind, base_reader_t *r) {
    if (room->leader != room->self) return;
    if (kind == ASK_HOMES)
        homes_answered(room, r);
    else
        sweep_answered(room, r);
}

/* It leads no more: another one goes on from what is kept. */
void orphan_abandon(actor_t *room) {
    question_cancel(room, &room->walk);
    actor_list_each(&room->all_records, at) {
        record_t *record = actor_list_item(at, record_t, in_records);
        if (record->is_adopted) record_free(room, record);
    }
}
