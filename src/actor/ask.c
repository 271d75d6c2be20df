/*
 * Questions to the control state.
 *
 * A question lies in what it is about, and its arguments are written anew whenever it is asked: so
 * it can wait without memory, and be asked again. It waits
 *
 *   while a new master is not settled. That master may lack the last writes; until every node has
 *   said to it what it knows, nothing that the first one wins may be decided. The script itself
 *   looks at the master too: a question may be on its way while the master changes
 *   without memory for its number, until the next tick
 *
 * An answer of an older master is none: its write may be gone, and this node has already said to
 * the new one what it knew before. The question is asked again, under the same request.
 */
#include "actor/room.h"

static bool is_say(const question_t *q) {
    return q->kind == ASK_SAY_RECORD || q->kind == ASK_SAY_SEAT;
}

static script_fn script_of(ask_kind_t kind) {
    switch (kind) {
    case ASK_TAKE:
        return actor_script_take;
    case ASK_MOVE:
        return actor_script_move;
    case ASK_ALIVE:
        return actor_script_alive;
    case ASK_KILL:
        return actor_script_kill;
    case ASK_END:
        return actor_script_end;
    case ASK_BEGIN:
        return actor_script_begin;
    case ASK_FIND:
        return actor_script_find;
    case ASK_HOMES:
        return actor_script_homes;
    case ASK_SWEEP:
        return actor_script_sweep;
    case ASK_SAY_RECORD:
    case ASK_SAY_SEAT:
        return actor_script_say;
    default:
        return actor_script_read;
    }
}

/* The facts as they shall be after a move. */
static actor_facts_t facts_moved(const record_t *record) {
    actor_facts_t facts = record->facts;
    facts.node = record->next_node;
    facts.request = record->next_request;
    facts.restarts_left = record->life.restarts_left;
    facts.restarts = record->life.restarts;
    return facts;
}

static void arguments_put(const actor_t *room, const question_t *q, base_writer_t *w) {
    actor_facts_t moved;
    base_put_number(w, room->settled, 8);
    switch (q->kind) {
    case ASK_MOVE:
        moved = facts_moved(q->owner);
        actor_facts_put(w, &moved);
        break;
    case ASK_BEGIN:
    case ASK_SAY_SEAT:
        actor_facts_put(w, &((seat_t *)q->owner)->facts);
        break;
    case ASK_FORGET:
        actor_id_put(w, ((seat_t *)q->owner)->facts.id);
        break;
    case ASK_LOOK:
        actor_id_put(w, ((stub_t *)q->owner)->id);
        break;
    case ASK_ADOPT:
        actor_id_put(w, ((record_t *)q->owner)->facts.id);
        break;
    case ASK_FIND:
        base_put_bytes(w, ((errand_t *)q->owner)->name, ACTOR_NAME_SIZE);
        break;
    case ASK_HOMES:
        base_put_number(w, room->walk_home, 8);
        break;
    case ASK_SWEEP:
        actor_id_put(w, room->walk_id);
        break;
    default:
        actor_facts_put(w, &((record_t *)q->owner)->facts);
        break;
    }
}

static void question_go(actor_t *room, question_t *q) {
    bool is_settled = !BASE_RULE(ACTOR_SETTLED) || room->settled == room->master;
    uint64_t number = room->numbers + 1;
    if ((!is_settled && !is_say(q)) || !base_map_put(&room->questions, &number, q)) {
        actor_list_add(&room->deferred, &q->in_deferred);
        return;
    }
    actor_list_remove(&q->in_deferred);
    q->number = room->numbers = number;
    uint8_t arguments[SCRIPT_VALUE_MAX];
    base_writer_t w = {.bytes = arguments};
    arguments_put(room, q, &w);
    room->ops->ask(room->context, script_of(q->kind), arguments, w.size, number);
}

void question_ask(actor_t *room, question_t *q, ask_kind_t kind, void *owner) {
    q->kind = kind;
    q->owner = owner;
    q->since_ms = room->now_ms;
    q->number = 0;
    question_go(room, q);
}

static void said_one(actor_t *room) {
    if (--room->said_left > 0) return;
    room->is_saying = false;
    room->ops->said(room->context, room->master);
}

static void question_drop(actor_t *room, question_t *q) {
    actor_list_remove(&q->in_deferred);
    if (q->number != 0) base_map_remove(&room->questions, &q->number);
    q->number = 0;
}

void question_cancel(actor_t *room, question_t *q) {
    if (q->kind == ASK_NONE) return;
    question_drop(room, q);
    bool was_say = is_say(q);
    q->kind = ASK_NONE;
    if (was_say) said_one(room);
}

void question_retry(actor_t *room) {
    actor_link_t waiting = {&waiting, &waiting};
    actor_list_each(&room->deferred, at) actor_list_add(&waiting, at);
    actor_list_each(&waiting, at) question_go(room, actor_list_item(at, question_t, in_deferred));
}

/* ---- answers ---- */

static void find_answered(actor_t *room, errand_t *find, actor_say_t what, base_reader_t *r) {
    frame_id_t id = actor_id_take(r);
    uint8_t flags = (uint8_t)base_take_number(r, 1);
    bool is_found = what == ACTOR_SAY_OK && base_reader_is_done(r);
    uint64_t token = find->token;
    actor_list_remove(&find->in_room);
    free(find);
    room->ops->found(room->context, token, is_found ? MOB_OK : MOB_ENONAME,
                     is_found ? id : (frame_id_t){0}, is_found ? flags : 0);
}

static void say_answered(actor_t *room, const question_t *q, ask_kind_t kind, actor_say_t what) {
    if (what == ACTOR_SAY_TAKEN && kind == ASK_SAY_RECORD) record_kill(room, q->owner, true);
    if (what == ACTOR_SAY_TAKEN && kind == ASK_SAY_SEAT) seat_stop(room, q->owner);
    said_one(room);
}

static void question_answered(actor_t *room, question_t *q, actor_say_t what, base_reader_t *r) {
    ask_kind_t kind = q->kind;
    q->kind = ASK_NONE;
    switch (kind) {
    case ASK_NONE:
        break;
    case ASK_BEGIN:
        seat_confirmed(room, q->owner, what);
        break;
    case ASK_FORGET:
        seat_forget(room, q->owner, what, r);
        break;
    case ASK_LOOK:
        stub_read(room, q->owner, what, r);
        break;
    case ASK_FIND:
        find_answered(room, q->owner, what, r);
        break;
    case ASK_HOMES:
    case ASK_SWEEP:
        orphan_answered(room, kind, r);
        break;
    case ASK_SAY_RECORD:
    case ASK_SAY_SEAT:
        say_answered(room, q, kind, what);
        break;
    default:
        record_answered(room, q->owner, kind, what, r);
        break;
    }
}

void actor_answered(actor_t *room, uint64_t number, uint64_t master, const void *answer,
                    size_t size) {
    question_t *q = base_map_remove(&room->questions, &number);
    if (q == NULL) return;
    q->number = 0;
    base_reader_t r = {.at = answer, .left = size};
    uint64_t what = base_take_number(&r, 1);
    if (r.short_of || what > ACTOR_SAY_POISONED) what = ACTOR_SAY_POISONED;
    if (BASE_RULE(ACTOR_OLD_ANSWER) && master < room->master)
        question_go(room, q);
    else if (what == ACTOR_SAY_UNSETTLED)
        actor_list_add(&room->deferred, &q->in_deferred); /* until it is settled, or a tick */
    else
        question_answered(room, q, (actor_say_t)what, &r);
}

/* ---- masters ---- */

/* A fact is what the control state has confirmed to this node before. */
static bool record_has_facts(const record_t *record) {
    return record->is_kept && record->phase != PHASE_LOAD;
}

static bool seat_has_facts(const seat_t *seat) {
    return (seat->facts.flags & ACTOR_DETACHED) != 0 && seat->state != SEAT_CONFIRM &&
           seat->state != SEAT_REFUSED && !seat->is_over;
}

static void say_again(actor_t *room, question_t *q, ask_kind_t kind, void *owner) {
    if (q->kind != ASK_NONE) question_drop(room, q);
    room->said_left++;
    question_ask(room, q, kind, owner);
}

void actor_master(actor_t *room, uint64_t master) {
    if (master <= room->master) return;
    room->master = master;
    room->is_saying = true;
    room->said_left = 1;
    actor_list_each(&room->all_records, at) {
        record_t *record = actor_list_item(at, record_t, in_records);
        if (record->phase == PHASE_DEAD) record->due_ms = room->now_ms + ACTOR_KEPT_MS;
        if (BASE_RULE(ACTOR_SAY_AGAIN) && record_has_facts(record))
            say_again(room, &record->say, ASK_SAY_RECORD, record);
    }
    actor_list_each(&room->all_seats, at) {
        seat_t *seat = actor_list_item(at, seat_t, in_seats);
        if (BASE_RULE(ACTOR_SAY_AGAIN) && seat_has_facts(seat))
            say_again(room, &seat->say, ASK_SAY_SEAT, seat);
    }
    said_one(room);
}

void actor_settled(actor_t *room, uint64_t master) {
    if (master <= room->settled) return;
    room->settled = master;
    room->walk_ms = 0; /* a leader looks again at what there is */
    question_retry(room);
}
