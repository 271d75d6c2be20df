/*
 * The calls of a seat. A caller is (peer, number): its calls are begun in the order in which they
 * came, each when its arguments are there. Callers do not wait for each other: one whose first call
 * lacks an argument is not among the ready ones. The ready ones take turns.
 *
 * A call of another epoch than the seat's is sent back: its stub does not know yet that the epoch
 * is over, and would not know in which order it was run with those that it sends later.
 *
 * A call is begun or not, and that is all that a stub is told when the process ends: LOST or
 * BOUNCED. While the node pauses none is begun.
 *
 * CANCEL comes after its CALL, by the same link. So a call that is not here then was answered, and
 * the stub knows what to do with that. One that was not begun is taken out: those behind it keep
 * their order.
 */
#include "actor/room.h"

static void answer_send(actor_t *room, uint64_t to, frame_id_t id, uint64_t epoch, uint64_t token,
                        answer_t what, mob_status_t status, const void *bytes, size_t size) {
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_ANSWER, id, epoch);
    base_put_number(&w, token, 8);
    base_put_number(&w, what, 1);
    base_put_number(&w, status, 2);
    head_send(room, to, &w, bytes, size);
}

static void run_answer(actor_t *room, const run_t *run, answer_t what) {
    const seat_t *s = run->caller->seat;
    answer_send(room, run->caller->peer, s->facts.id, s->facts.epoch, run->token, what, MOB_OK,
                NULL, 0);
}

static void run_free(actor_t *room, run_t *run) {
    peer_key_t key = peer_key(run->caller->seat->facts.id, run->caller->peer, run->token);
    base_map_remove(&room->runs, &run->number);
    base_map_remove(&room->asked, &key);
    actor_list_remove(&run->in_caller);
    free(run);
}

static void caller_free_if_done(actor_t *room, caller_t *c) {
    if (!actor_list_is_empty(&c->calls) || !actor_list_is_empty(&c->begun)) return;
    peer_key_t key = peer_key(c->seat->facts.id, c->peer, c->number);
    base_map_remove(&room->callers, &key);
    actor_list_remove(&c->in_seat);
    actor_list_remove(&c->in_ready);
    actor_list_remove(&c->in_peer);
    free(c);
}

static caller_t *caller_of(actor_t *room, seat_t *s, uint64_t from, uint64_t number) {
    peer_key_t key = peer_key(s->facts.id, from, number);
    caller_t *c = base_map_get(&room->callers, &key);
    if (c != NULL) return c;
    peer_t *peer = peer_of(room, from);
    c = peer != NULL ? calloc(1, sizeof *c) : NULL;
    if (c == NULL || !base_map_put(&room->callers, &key, c)) {
        free(c);
        return NULL;
    }
    c->seat = s;
    c->peer = from;
    c->number = number;
    actor_list_init(&c->calls);
    actor_list_init(&c->begun);
    actor_list_add(&s->callers, &c->in_seat);
    actor_list_add(&peer->callers, &c->in_peer);
    return c;
}

mob_status_t run_come(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch, uint64_t number,
                      uint64_t token, const void *bytes, size_t size) {
    seat_t *s = seat_find(room, id);
    bool is_epoch = s != NULL && (s->facts.epoch == epoch || !BASE_RULE(ACTOR_BOUNCE));
    if (!is_epoch || s->state != SEAT_ALIVE) {
        answer_send(room, from, id, epoch, token, ANSWER_BOUNCED, MOB_OK, NULL, 0);
        return MOB_OK;
    }
    caller_t *c = caller_of(room, s, from, BASE_RULE(ACTOR_CALLERS_APART) ? number : 0);
    run_t *run = c != NULL ? calloc(1, sizeof *run) : NULL;
    uint64_t book = room->numbers + 1;
    if (run == NULL || !base_map_put(&room->runs, &book, run)) {
        free(run);
        if (c != NULL) caller_free_if_done(room, c);
        return MOB_ENOMEM;
    }
    *run = (run_t){.caller = c, .number = room->numbers = book, .token = token};
    actor_list_add(&c->calls, &run->in_caller);
    peer_key_t key = peer_key(id, from, token);
    if (!base_map_put(&room->asked, &key, run)) {
        run_free(room, run);
        caller_free_if_done(room, c);
        return MOB_ENOMEM;
    }
    room->ops->fetch(room->context, run->number, id, s->facts.epoch, bytes, size);
    return MOB_OK;
}

/* Among the ready ones exactly if its first call that waits has its arguments. */
static void caller_line_up(caller_t *c) {
    bool is_ready = !actor_list_is_empty(&c->calls) &&
                    actor_list_item(c->calls.next, run_t, in_caller)->is_ready;
    if (is_ready && !actor_link_is_in(&c->in_ready)) actor_list_add(&c->seat->ready, &c->in_ready);
    if (!is_ready) actor_list_remove(&c->in_ready);
}

static void run_begin(actor_t *room, seat_t *s, caller_t *c) {
    run_t *run = actor_list_item(c->calls.next, run_t, in_caller);
    actor_list_add(&c->begun, &run->in_caller);
    actor_list_remove(&c->in_ready); /* behind the others */
    caller_line_up(c);
    run->is_begun = true;
    s->running++;
    room->ops->run(room->context, run->number, true);
}

void run_pump(actor_t *room, seat_t *s) {
    if (s->state != SEAT_ALIVE) return;
    while (!actor_list_is_empty(&s->ready) && s->running < s->facts.limit) {
        if (room->is_paused && BASE_RULE(ACTOR_PAUSE_CALLS)) {
            actor_list_add(&room->paused, &s->in_paused);
            return;
        }
        run_begin(room, s, actor_list_item(s->ready.next, caller_t, in_ready));
    }
}

void actor_call_ready(actor_t *room, uint64_t call) {
    run_t *run = base_map_get(&room->runs, &call);
    if (run == NULL) return;
    run->is_ready = true;
    if (!run->is_begun) caller_line_up(run->caller);
    run_pump(room, run->caller->seat);
}

void actor_call_done(actor_t *room, uint64_t call, mob_status_t status, const void *bytes,
                     size_t size) {
    run_t *run = base_map_get(&room->runs, &call);
    if (run == NULL || !run->is_begun) return;
    caller_t *c = run->caller;
    seat_t *s = c->seat;
    answer_send(room, c->peer, s->facts.id, s->facts.epoch, run->token, ANSWER_DONE, status, bytes,
                size);
    run_free(room, run);
    s->running--;
    s->has_answered = true;
    caller_free_if_done(room, c);
    run_pump(room, s);
}

void run_cancel(actor_t *room, uint64_t from, frame_id_t id, uint64_t token, bool recursive) {
    peer_key_t key = peer_key(id, from, token);
    run_t *run = base_map_get(&room->asked, &key);
    if (run == NULL) return;
    caller_t *c = run->caller;
    seat_t *s = c->seat;
    if (run->is_begun) {
        room->ops->cancel(room->context, run->number, recursive);
        return;
    }
    room->ops->run(room->context, run->number, false);
    run_answer(room, run, ANSWER_CANCELLED);
    run_free(room, run);
    caller_line_up(c);
    caller_free_if_done(room, c);
    run_pump(room, s);
}

static void caller_bounce(actor_t *room, caller_t *c, bool is_told) {
    actor_list_each(&c->calls, at) {
        run_t *run = actor_list_item(at, run_t, in_caller);
        room->ops->run(room->context, run->number, false);
        if (is_told) run_answer(room, run, ANSWER_BOUNCED);
        run_free(room, run);
    }
    actor_list_remove(&c->in_ready);
}

void run_end_all(actor_t *room, seat_t *s) {
    actor_list_each(&s->callers, at) {
        caller_t *c = actor_list_item(at, caller_t, in_seat);
        actor_list_each(&c->begun, begun) {
            run_t *run = actor_list_item(begun, run_t, in_caller);
            run_answer(room, run, ANSWER_LOST);
            run_free(room, run);
        }
        caller_bounce(room, c, true);
        caller_free_if_done(room, c);
    }
    s->running = 0;
}

/* The caller's node is dead: what it wanted and was not begun is nobody's any more. */
void caller_drop(actor_t *room, caller_t *c) {
    actor_list_remove(&c->in_peer);
    caller_bounce(room, c, false);
    caller_free_if_done(room, c);
}
