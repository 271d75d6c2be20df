/*
 * The node where an epoch of an actor runs.
 *
 *   CONFIRM -> WAITS -> MAKES -> ALIVE -> ENDED      and from the first three: REFUSED
 *
 * A seat is one actor's newest epoch here. The creation of the same epoch comes again when a leader
 * asks: it begins nothing, and is answered with what became of it. So ENDED and REFUSED are
 * remembered.
 *
 * The home's creations come over one link, in order and once: a seat whose end the home has heard
 * (OVER) is forgotten. A detached actor's may come from several leaders, and very late. So
 *
 *   its seat asks the control state before it begins, which lets each epoch begin once
 *   it is remembered for a while after OVER, and until what is kept says that the epoch is over:
 * the authority may have died before it was kept, and a fail-over may take back the last writes,
 *   that it had begun among them
 *
 * WAITS: the node pauses, and may be buried already. It begins when it goes on, or never.
 */
#include "actor/room.h"

enum { REPEAT_MS = 1000 };

seat_t *seat_find(const actor_t *room, frame_id_t id) {
    actor_key_t key = actor_key(id);
    return base_map_get(&room->seats, &key);
}

void seat_free(actor_t *room, seat_t *s) {
    actor_key_t key = actor_key(s->facts.id);
    run_end_all(room, s);
    question_cancel(room, &s->ask);
    question_cancel(room, &s->say);
    base_map_remove(&room->seats, &key);
    actor_list_remove(&s->in_seats);
    actor_list_remove(&s->in_homed);
    actor_list_remove(&s->in_paused);
    actor_list_remove(&s->in_resting);
    free((void *)s->facts.spec);
    free(s);
}

/* ---- what is reported ---- */

static void seat_report(actor_t *room, seat_t *s, uint64_t to) {
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_ENDED, s->facts.id, s->facts.epoch);
    if (to == 0) return;
    if (s->state == SEAT_ALIVE) {
        message_send(room, to, MESSAGE_MADE, s->facts.id, s->facts.epoch);
    } else if (s->state == SEAT_REFUSED) {
        message_send(room, to, MESSAGE_REFUSED, s->facts.id, s->facts.epoch);
    } else if (s->state == SEAT_ENDED) {
        base_put_number(&w, s->end, 1);
        base_put_number(&w, s->has_answered, 1);
        head_send(room, to, &w, NULL, 0);
    }
}

/* To the authority, and to whoever asked for the creation if that is another one. */
static void seat_tell(actor_t *room, seat_t *s) {
    uint64_t authority = authority_of(room, s->facts.id, s->facts.flags);
    seat_report(room, s, authority);
    if (s->asked_by != authority) seat_report(room, s, s->asked_by);
}

/* Nothing more happens here. A leader may be asked in vain: it hears of it later, or leads no more
 * when it does. So a detached actor's seat says it until it is confirmed. */
static void seat_rest(actor_t *room, seat_t *s) {
    seat_tell(room, s);
    if ((s->facts.flags & ACTOR_DETACHED) == 0) return;
    s->due_ms = room->now_ms + REPEAT_MS;
    actor_list_add(&room->resting, &s->in_resting);
}

void seat_tick(actor_t *room, seat_t *s) {
    if (s->due_ms > room->now_ms || s->ask.kind != ASK_NONE) return;
    s->due_ms = room->now_ms + REPEAT_MS;
    if (s->is_over)
        question_ask(room, &s->ask, ASK_FORGET, s);
    else if (peer_is_dead(room, s->facts.id.home))
        seat_report(room, s, room->leader);
}

/* What is kept of the actor is known. While it stands in this epoch, a leader may yet ask for it.
 */
void seat_forget(actor_t *room, seat_t *s, actor_say_t what, base_reader_t *r) {
    actor_facts_t facts;
    bool stands = what == ACTOR_SAY_OTHER && actor_facts_take(r, &facts) &&
                  facts.epoch <= s->facts.epoch && facts.at != ACTOR_AT_END;
    if (!stands) seat_free(room, s);
}

static void seat_refuse(actor_t *room, seat_t *s) {
    s->state = SEAT_REFUSED;
    seat_rest(room, s);
    if (s->is_over || !BASE_RULE(ACTOR_REFUSAL_KEPT)) seat_free(room, s);
}

void seat_end(actor_t *room, seat_t *s, actor_end_t end) {
    s->state = SEAT_ENDED;
    s->end = end;
    s->is_stopping = false;
    actor_list_remove(&s->in_paused);
    run_end_all(room, s);
    seat_rest(room, s);
    if (s->is_over) seat_free(room, s);
}

/* ---- its course ---- */

static void seat_begin(actor_t *room, seat_t *s) {
    s->state = SEAT_WAITS;
    if (room->is_paused && BASE_RULE(ACTOR_PAUSE_CREATION)) {
        actor_list_add(&room->paused, &s->in_paused);
        return;
    }
    s->state = SEAT_MAKES;
    room->ops->make(room->context, s->facts.id, s->facts.epoch, s->facts.spec, s->facts.spec_size);
}

void seat_go_on(actor_t *room, seat_t *s) {
    if (s->state == SEAT_WAITS) seat_begin(room, s);
    if (s->state == SEAT_ALIVE) run_pump(room, s);
}

void seat_confirmed(actor_t *room, seat_t *s, actor_say_t what) {
    if (s->state != SEAT_CONFIRM) return;
    if (what != ACTOR_SAY_OK) {
        seat_refuse(room, s);
        return;
    }
    s->facts.at = ACTOR_AT_BEGUN;
    seat_begin(room, s);
}

static void seat_start(actor_t *room, seat_t *s) {
    bool is_detached = (s->facts.flags & ACTOR_DETACHED) != 0;
    if (!is_detached || !BASE_RULE(ACTOR_BEGIN_CONFIRM)) {
        seat_begin(room, s);
        return;
    }
    s->state = SEAT_CONFIRM;
    s->facts.begun = (actor_request_t){room->self, ++room->numbers};
    question_ask(room, &s->ask, ASK_BEGIN, s);
}

/* ---- creations ---- */

static bool facts_set(seat_t *s, const actor_facts_t *facts) {
    uint8_t *spec = malloc(facts->spec_size + 1);
    if (spec == NULL) return false;
    if (facts->spec_size > 0) memcpy(spec, facts->spec, facts->spec_size);
    free((void *)s->facts.spec);
    s->facts = *facts;
    s->facts.spec = spec;
    return true;
}

static seat_t *seat_new(actor_t *room, const actor_facts_t *facts) {
    actor_key_t key = actor_key(facts->id);
    bool is_orphan = peer_is_dead(room, facts->id.home);
    peer_t *home = is_orphan ? NULL : peer_of(room, facts->id.home);
    seat_t *s = is_orphan || home != NULL ? calloc(1, sizeof *s) : NULL;
    if (s == NULL || !facts_set(s, facts) || !base_map_put(&room->seats, &key, s)) {
        if (s != NULL) free((void *)s->facts.spec);
        free(s);
        return NULL;
    }
    actor_list_init(&s->callers);
    actor_list_init(&s->ready);
    actor_list_add(&room->all_seats, &s->in_seats);
    if (home != NULL) actor_list_add(&home->homed, &s->in_homed);
    return s;
}

/* A newer epoch than the one that ended here. */
static mob_status_t seat_again(actor_t *room, seat_t *s, const actor_facts_t *facts) {
    if (!facts_set(s, facts)) return MOB_ENOMEM;
    question_cancel(room, &s->ask);
    actor_list_remove(&s->in_resting);
    s->is_over = s->is_stopping = s->is_shot = s->has_answered = false;
    seat_start(room, s);
    return MOB_OK;
}

mob_status_t seat_create(actor_t *room, uint64_t from, const actor_facts_t *facts) {
    bool is_detached = (facts->flags & ACTOR_DETACHED) != 0;
    if (facts->node != room->self || (!is_detached && from != facts->id.home)) return MOB_OK;
    seat_t *s = seat_find(room, facts->id);
    if (s == NULL) {
        s = seat_new(room, facts);
        if (s == NULL) return MOB_ENOMEM;
        s->asked_by = from;
        seat_start(room, s);
        return MOB_OK;
    }
    s->asked_by = from;
    bool is_done = s->state == SEAT_ENDED || s->state == SEAT_REFUSED;
    if (facts->epoch > s->facts.epoch && is_done) return seat_again(room, s, facts);
    if (facts->epoch < s->facts.epoch) {
        message_send(room, from, MESSAGE_REFUSED, facts->id, facts->epoch);
    } else if (facts->epoch == s->facts.epoch) {
        if (!BASE_RULE(ACTOR_CREATE_ONCE) && is_done) return seat_again(room, s, facts);
        seat_report(room, s, from);
    } else {
        seat_stop(room, s); /* there is a newer one, so this one is over */
    }
    return MOB_OK;
}

/* ---- its end ---- */

void seat_stop(actor_t *room, seat_t *s) {
    if (s->state == SEAT_CONFIRM || s->state == SEAT_WAITS) {
        question_cancel(room, &s->ask);
        seat_end(room, s, ACTOR_UNBEGUN);
    } else if ((s->state == SEAT_MAKES || s->state == SEAT_ALIVE) && !s->is_stopping) {
        s->is_stopping = true;
        room->ops->stop(room->context, s->facts.id, s->facts.epoch);
    }
}

void seat_over(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch) {
    seat_t *s = seat_find(room, id);
    if (s == NULL || s->facts.epoch > epoch || s->is_over) return;
    bool is_detached = (s->facts.flags & ACTOR_DETACHED) != 0;
    if ((s->state != SEAT_ENDED && s->state != SEAT_REFUSED) || (!is_detached && from != id.home))
        return;
    s->is_over = true;
    if (is_detached && BASE_RULE(ACTOR_END_KEPT)) {
        s->due_ms = room->now_ms + ACTOR_KEPT_MS;
        actor_list_add(&room->resting, &s->in_resting);
    } else {
        seat_free(room, s);
    }
}

/* ---- what the node says ---- */

static seat_t *seat_of_process(actor_t *room, frame_id_t id, uint64_t epoch) {
    seat_t *s = seat_find(room, id);
    bool has_process =
        s != NULL && s->facts.epoch == epoch && (s->state == SEAT_MAKES || s->state == SEAT_ALIVE);
    return has_process ? s : NULL;
}

bool actor_seat_awaits(const actor_t *room, frame_id_t id) {
    const seat_t *s = seat_find(room, id);
    return s != NULL && s->state <= SEAT_MAKES;
}

void actor_process_made(actor_t *room, frame_id_t id, uint64_t epoch) {
    seat_t *s = seat_of_process(room, id, epoch);
    if (s == NULL || s->state != SEAT_MAKES) return;
    s->state = SEAT_ALIVE;
    seat_tell(room, s);
}

void actor_process_ended(actor_t *room, frame_id_t id, uint64_t epoch, actor_end_t end) {
    seat_t *s = seat_of_process(room, id, epoch);
    if (s != NULL) seat_end(room, s, s->is_shot ? ACTOR_SHOT : end);
}

void actor_process_refused(actor_t *room, frame_id_t id, uint64_t epoch) {
    seat_t *s = seat_of_process(room, id, epoch);
    if (s != NULL && s->state == SEAT_MAKES) seat_refuse(room, s);
}
