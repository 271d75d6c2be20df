/*
 * The calls of one node to one actor.
 *
 * They stand in one list, in the order in which they were made, so each caller's are in its order.
 * First come those that were sent in the stub's epoch, then (from `unsent`) the others. A call that
 * comes back (BOUNCED: never begun; LOST with a retry left) keeps its place. When everything of the
 * epoch is answered, failed or back, the stub goes to the epoch that it was told of, and `unsent`
 * is the first of the list again: so what goes again goes in order, before what is new.
 *
 * A stub sends no more in an epoch once one call came back from it, or a newer one was told.
 *
 * Its home tells where the actor is, when it is ALIVE there. That node may have joined a moment
 * ago, and this one not have heard of it, while it can't reach the control state: then it waits for
 * that. If the home is dead, an actor that is not detached is; of a detached one the control state
 * is asked, again and again.
 *
 * A call that is cancelled is never sent from then on. If it was sent, its seat is told, and
 * answers; if it comes back, that is its end.
 *
 * Silence: of the node that calls were sent to, or of the home that has yet to tell where. Then
 * every call here that may not run again fails, "outcome unknown", and is forgotten: it is never
 * sent again, so it runs at most once, in the epoch in which it was sent. One that may run again
 * waits until the node is heard, or dead.
 */
#include "actor/room.h"

static stub_t *stub_find(const actor_t *room, frame_id_t id) {
    actor_key_t key = actor_key(id);
    return base_map_get(&room->stubs, &key);
}

static bool is_orphan(const actor_t *room, const stub_t *s) {
    return peer_is_dead(room, s->id.home);
}

/* Its home says that it is at a node of which this one has not heard yet; or that is dead, and then
 * its home says more. */
static bool is_unmet(const actor_t *room, const stub_t *s) {
    return s->next_epoch != 0 && !is_orphan(room, s) && peer_is_dead(room, s->next_node);
}

/* ---- calls leave ---- */

static void call_remove(actor_t *room, call_t *call) {
    stub_t *s = call->stub;
    if (s->unsent == &call->in_stub) s->unsent = call->in_stub.next;
    if (call->is_sent && !call->is_back) s->sent--;
    base_map_remove(&room->calls, &call->token);
    actor_list_remove(&call->in_stub);
}

static void call_fail(actor_t *room, call_t *call, mob_status_t status) {
    call_remove(room, call);
    room->ops->answer(room->context, call->token, status, NULL, 0);
    free(call);
}

/* It is to go again, at its place. */
static void call_back(actor_t *room, call_t *call) {
    stub_t *s = call->stub;
    s->is_over = true;
    if (call->is_cancelled && BASE_RULE(ACTOR_CANCEL_STANDS)) {
        call_fail(room, call, MOB_ECANCELLED);
        return;
    }
    call->is_back = true;
    s->sent--;
    if (BASE_RULE(ACTOR_REQUEUE_ORDER) && BASE_RULE(ACTOR_DRAIN)) return;
    call->is_sent = call->is_back = false;
    actor_list_add(&s->calls, &call->in_stub);
    if (s->unsent == &s->calls) s->unsent = &call->in_stub;
}

/* The process, or the node, died under it. */
static void call_lost(actor_t *room, call_t *call) {
    stub_t *s = call->stub;
    s->is_over = true;
    bool again = !BASE_RULE(ACTOR_SENT_IS_BEGUN) || actor_call_again(&call->retries);
    if (!s->is_dead && (again || call->is_cancelled))
        call_back(room, call);
    else
        call_fail(room, call, s->is_dead ? MOB_EACTOR : MOB_EUNAVAILABLE);
}

static void call_send(actor_t *room, call_t *call) {
    stub_t *s = call->stub;
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_CALL, s->id, s->epoch);
    base_put_number(&w, call->caller, 8);
    base_put_number(&w, call->token, 8);
    call->is_sent = true;
    call->is_back = false;
    s->sent++;
    head_send(room, s->node, &w, call->bytes, call->size);
}

/* ---- the stub goes on ---- */

static void stub_look(actor_t *room, stub_t *s) {
    if (actor_link_is_in(&s->in_looking)) return;
    s->looking_ms = room->now_ms;
    actor_list_add(&room->looking, &s->in_looking);
}

static void stub_move(actor_t *room, stub_t *s) {
    s->epoch = s->next_epoch;
    s->next_epoch = 0;
    peer_t *peer = peer_is_dead(room, s->next_node) ? NULL : peer_of(room, s->next_node);
    s->is_over = peer == NULL;
    s->node = peer != NULL ? s->next_node : 0;
    actor_list_remove(&s->in_node);
    if (peer != NULL) actor_list_add(&peer->stubs_node, &s->in_node);
    if (!BASE_RULE(ACTOR_DRAIN)) return;
    s->unsent = s->calls.next;
}

static void stub_pump(actor_t *room, stub_t *s) {
    bool is_free = s->sent == 0 || !BASE_RULE(ACTOR_DRAIN);
    if (s->is_dead) {
        actor_list_each(&s->calls, at) {
            call_t *call = actor_list_item(at, call_t, in_stub);
            if (!call->is_sent || call->is_back) call_fail(room, call, MOB_EACTOR);
        }
    } else if (s->next_epoch != 0 && is_free && !is_unmet(room, s)) {
        stub_move(room, s);
    }
    if (!s->is_dead && s->node != 0 && !s->is_over)
        for (; s->unsent != &s->calls; s->unsent = s->unsent->next)
            call_send(room, actor_list_item(s->unsent, call_t, in_stub));
    bool has_place = s->node != 0 && !s->is_over;
    bool looks = s->next_epoch == 0 ? is_orphan(room, s) : is_unmet(room, s);
    if (!s->is_dead && !has_place && looks) stub_look(room, s);
}

static void stub_release(actor_t *room, stub_t *s) {
    if (s->handles > 0 || !actor_list_is_empty(&s->calls)) return;
    frame_id_t id = s->id;
    if (!is_orphan(room, s)) message_send(room, id.home, MESSAGE_UNLOOK, id, 0);
    stub_free(room, s);
    room->ops->released(room->context, id);
}

static void stub_go_on(actor_t *room, stub_t *s) {
    stub_pump(room, s);
    stub_release(room, s);
}

/* ---- what is told ---- */

static void stub_told(actor_t *room, stub_t *s, uint64_t epoch, uint64_t node) {
    if (s->is_dead || epoch <= s->epoch || epoch <= s->next_epoch) return;
    s->next_epoch = epoch;
    s->next_node = node;
    s->is_over = true;
    actor_list_remove(&s->in_looking);
    stub_go_on(room, s);
}

void stub_alive(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch, uint64_t node) {
    stub_t *s = stub_find(room, id);
    if (s != NULL && from == id.home) stub_told(room, s, epoch, node);
}

static void stub_bury(actor_t *room, stub_t *s) {
    s->is_dead = true;
    actor_list_remove(&s->in_looking);
    stub_go_on(room, s);
}

void stub_dead(actor_t *room, uint64_t from, frame_id_t id) {
    stub_t *s = stub_find(room, id);
    if (s != NULL && from == id.home) stub_bury(room, s);
}

void stub_read(actor_t *room, stub_t *s, actor_say_t what, base_reader_t *r) {
    actor_facts_t facts;
    s->looking_ms = room->now_ms;
    if (what == ACTOR_SAY_OTHER && actor_facts_take(r, &facts)) {
        if (facts.at == ACTOR_AT_ALIVE && !peer_is_dead(room, facts.node))
            stub_told(room, s, facts.epoch, facts.node);
        else if (facts.at == ACTOR_AT_END)
            stub_bury(room, s);
    } else {
        stub_bury(room, s);
    }
}

static void stub_fail_unsent(actor_t *room, stub_t *s) {
    actor_list_each(&s->calls, at) {
        call_t *call = actor_list_item(at, call_t, in_stub);
        if (!call->is_sent || call->is_back) call_fail(room, call, MOB_EUNAVAILABLE);
    }
}

/* Of one that waits for the control state, or until it has heard of the actor's node. */
void stub_tick(actor_t *room, stub_t *s) {
    bool has_place = s->node != 0 && !s->is_over;
    if (is_unmet(room, s)) return;
    if (s->next_epoch != 0 || has_place) {
        actor_list_remove(&s->in_looking);
        stub_go_on(room, s);
        return;
    }
    if (room->now_ms - s->looking_ms >= ACTOR_CONTROL_MS) stub_fail_unsent(room, s);
    if (s->handles == 0 && actor_list_is_empty(&s->calls))
        stub_release(room, s);
    else if (s->ask.kind == ASK_NONE)
        question_ask(room, &s->ask, ASK_LOOK, s);
}

void stub_silent(actor_t *room, stub_t *s) {
    actor_list_each(&s->calls, at) {
        call_t *call = actor_list_item(at, call_t, in_stub);
        if (call->retries == 0) call_fail(room, call, MOB_EUNAVAILABLE);
    }
    stub_go_on(room, s);
}

void stub_home_died(actor_t *room, stub_t *s) {
    actor_list_remove(&s->in_home);
    if ((s->flags & ACTOR_DETACHED) == 0)
        stub_bury(room, s);
    else
        stub_go_on(room, s);
}

void stub_node_died(actor_t *room, stub_t *s) {
    actor_list_remove(&s->in_node);
    s->node = 0;
    s->is_over = true;
    actor_list_each(&s->calls, at) {
        call_t *call = actor_list_item(at, call_t, in_stub);
        if (call->is_sent && !call->is_back) call_lost(room, call);
    }
    stub_go_on(room, s);
}

void stub_answered(actor_t *room, uint64_t from, uint64_t token, answer_t what, mob_status_t status,
                   const void *bytes, size_t size) {
    call_t *call = base_map_get(&room->calls, &token);
    if (call == NULL || !call->is_sent || call->is_back || call->stub->node != from) return;
    stub_t *s = call->stub;
    if (what == ANSWER_DONE) {
        call_remove(room, call);
        room->ops->answer(room->context, call->token, status, bytes, size);
        free(call);
    } else if (what == ANSWER_LOST) {
        call_lost(room, call);
    } else if (what == ANSWER_CANCELLED) {
        call_fail(room, call, MOB_ECANCELLED);
    } else {
        call_back(room, call);
    }
    stub_go_on(room, s);
}

/* ---- handles and calls ---- */

static stub_t *stub_new(actor_t *room, frame_id_t id, uint8_t flags) {
    actor_key_t key = actor_key(id);
    bool is_orphan = peer_is_dead(room, id.home);
    peer_t *home = is_orphan ? NULL : peer_of(room, id.home);
    stub_t *s = is_orphan || home != NULL ? calloc(1, sizeof *s) : NULL;
    if (s == NULL || !base_map_put(&room->stubs, &key, s)) {
        free(s);
        return NULL;
    }
    s->id = id;
    s->flags = flags;
    s->is_dead = is_orphan && (flags & ACTOR_DETACHED) == 0;
    actor_list_init(&s->calls);
    s->unsent = &s->calls;
    actor_list_add(&room->all_stubs, &s->in_stubs);
    if (home != NULL) actor_list_add(&home->stubs_home, &s->in_home);
    if (home != NULL) message_send(room, id.home, MESSAGE_LOOK, id, 0);
    return s;
}

void stub_free(actor_t *room, stub_t *s) {
    actor_key_t key = actor_key(s->id);
    actor_list_each(&s->calls, at) {
        call_t *call = actor_list_item(at, call_t, in_stub);
        call_remove(room, call);
        free(call);
    }
    question_cancel(room, &s->ask);
    base_map_remove(&room->stubs, &key);
    actor_list_remove(&s->in_stubs);
    actor_list_remove(&s->in_home);
    actor_list_remove(&s->in_node);
    actor_list_remove(&s->in_looking);
    free(s);
}

mob_status_t actor_handle_open(actor_t *room, frame_id_t id, uint8_t flags) {
    stub_t *s = stub_find(room, id);
    if (s == NULL) s = stub_new(room, id, flags);
    if (s == NULL) return MOB_ENOMEM;
    s->handles++;
    stub_pump(room, s);
    return MOB_OK;
}

void actor_handle_close(actor_t *room, frame_id_t id) {
    stub_t *s = stub_find(room, id);
    if (s == NULL || s->handles == 0) return;
    s->handles--;
    stub_release(room, s);
}

void actor_handle_detached(actor_t *room, frame_id_t id) {
    stub_t *s = stub_find(room, id);
    if (s != NULL) s->flags |= ACTOR_DETACHED;
}

mob_status_t actor_call(actor_t *room, frame_id_t id, uint64_t caller, uint64_t token,
                        int32_t retries, const void *bytes, size_t size) {
    stub_t *s = stub_find(room, id);
    if (s == NULL || s->handles == 0) return MOB_ESTALE;
    call_t *call = malloc(sizeof *call + size);
    if (call == NULL || !base_map_put(&room->calls, &token, call)) {
        free(call);
        return MOB_ENOMEM;
    }
    *call = (call_t){.stub = s,
                     .caller = caller,
                     .token = token,
                     .retries = retries < 0 ? -1 : retries,
                     .size = size};
    if (size > 0) memcpy(call->bytes, bytes, size);
    actor_list_add(&s->calls, &call->in_stub);
    if (s->unsent == &s->calls) s->unsent = &call->in_stub;
    stub_go_on(room, s);
    return MOB_OK;
}

void actor_cancel(actor_t *room, uint64_t token, bool recursive) {
    call_t *call = base_map_get(&room->calls, &token);
    if (call == NULL) return;
    stub_t *s = call->stub;
    call->is_cancelled = true;
    if (!call->is_sent || call->is_back) {
        call_fail(room, call, MOB_ECANCELLED);
        stub_go_on(room, s);
        return;
    }
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_CALL_CANCEL, s->id, s->epoch);
    base_put_number(&w, token, 8);
    base_put_number(&w, recursive, 1);
    head_send(room, s->node, &w, NULL, 0);
}

uint64_t actor_stub_node(const actor_t *room, frame_id_t id) {
    const stub_t *s = stub_find(room, id);
    return s != NULL && (s->sent > 0 || !s->is_over) ? s->node : 0;
}
