/*
 * Events. The room must not be called from what it says. So what it says, and what the books have
 * to tell it, are events, done in their order at the end of the round. Messages to this node itself
 * are among them. Nothing that is named in an event goes meanwhile: objects are freed by the sweep
 * of a later round.
 */
#include "node/cluster/acting.h"

#include <stdlib.h>
#include <string.h>

#include "actor/actor.h"
#include "actor/script.h"
#include "base/bytes.h"
#include "frame/id.h"
#include "node/cluster/actor_letter.h"
#include "node/cluster/actor_name.h"
#include "node/cluster/actor_orphan.h"
#include "node/cluster/actor_seat.h"
#include "node/cluster/actor_stub.h"
#include "node/cluster/cluster.h"
#include "node/cluster/gather.h"
#include "node/cluster/keep.h"
#include "node/cluster/membership.h"
#include "node/forward.h"
#include "node/state.h"
#include "node/visit.h"

struct node_acting_event {
    node_acting_event_t *next;
    node_acting_word_t word;
    node_cluster_t *cluster;
    uint64_t from; /* whose message it came with; of an early LOOK, too */
    uint64_t round;
    size_t size;
    uint8_t bytes[];
};

node_acting_key_t node_acting_key(frame_id_t id) {
    node_acting_key_t key;
    base_writer_t w = {.bytes = key.bytes};
    frame_id_put(&w, id);
    return key;
}

node_actor_t *node_acting_actor(node_t *n, frame_id_t id) {
    mob_ref_t ref = node_proxy_find(n, id);
    const node_object_t *o = ref.slot != 0 ? node_object_known(n, ref) : NULL;
    return o != NULL ? o->actor : NULL;
}

static uint64_t now_ms(void) { return node_cluster_now_ns() / 1000000; }

/* ---- events ---- */

static node_acting_event_t *event_new(node_cluster_t *c, node_acting_word_t word, const void *bytes,
                                      size_t size) {
    node_acting_event_t *e = malloc(sizeof *e + size);
    if (e == NULL) {
        node_cluster_trouble(c, "no memory for what is to be said of an actor");
        return NULL;
    }
    *e = (node_acting_event_t){.word = word, .cluster = c, .from = c->acting.from, .size = size};
    if (size > 0) memcpy(e->bytes, bytes, size);
    return e;
}

static void event_add(node_cluster_t *c, node_acting_event_t *e) {
    node_acting_t *a = &c->acting;
    e->next = NULL;
    if (a->last != NULL)
        a->last->next = e;
    else
        a->first = e;
    a->last = e;
    c->node->again = true;
}

void node_acting_tell(node_cluster_t *c, node_acting_word_t word, const void *bytes, size_t size) {
    node_acting_event_t *e = event_new(c, word, bytes, size);
    if (e != NULL) event_add(c, e);
}

/* ---- what the room says ---- */

/* Names of masters are membership's in all rooms; the state says whether it is still that one. */
typedef struct {
    script_fn script;
    uint64_t master;
} guarded_t;

static size_t guarded_script(const script_keys_t *keys, const void *arguments, size_t size,
                             void *answer) {
    guarded_t guarded;
    memcpy(&guarded, arguments, sizeof guarded);
    if (!member_script_guard(keys, guarded.master)) {
        *(uint8_t *)answer = ACTOR_SAY_UNSETTLED; /* it is asked again */
        return 1;
    }
    script_keys_t named = *keys;
    named.master = guarded.master;
    return guarded.script(&named, (const uint8_t *)arguments + sizeof guarded,
                          size - sizeof guarded, answer);
}

static uint64_t question_master(const node_acting_event_t *asked) {
    guarded_t guarded;
    memcpy(&guarded, asked->bytes, sizeof guarded);
    return guarded.master;
}

static void on_answered(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master; /* the connection's */
    node_acting_event_t *asked = context;
    node_cluster_t *c = asked->cluster;
    if (c->acting.room == NULL) {
        free(asked);
    } else if (answer == NULL) {
        if (!vec_push(&c->acting.unasked, asked)) free(asked);
    } else {
        actor_answered(c->acting.room, asked->word.number, question_master(asked), answer, size);
        free(asked);
        c->node->again = true;
    }
}

static void question_go(node_cluster_t *c, node_acting_event_t *asked) {
    mob_status_t status =
        node_cluster_ask(c, guarded_script, asked->bytes, asked->size, on_answered, asked);
    if (status != MOB_OK && !vec_push(&c->acting.unasked, asked)) free(asked);
}

static void on_ask(void *context, script_fn script, const void *arguments, size_t size,
                   uint64_t question) {
    node_cluster_t *c = context;
    guarded_t guarded = {script, c->acting.master};
    uint8_t bytes[sizeof guarded + SCRIPT_VALUE_MAX];
    memcpy(bytes, &guarded, sizeof guarded);
    memcpy(bytes + sizeof guarded, arguments, size);
    node_acting_event_t *asked =
        event_new(c, (node_acting_word_t){.number = question}, bytes, sizeof guarded + size);
    if (asked != NULL) question_go(c, asked);
}

static void on_said(void *context, uint64_t master) {
    node_cluster_t *c = context;
    c->acting.said = master;
    node_membership_said(c);
}

static bool on_is_dead(void *context, uint64_t peer) {
    node_cluster_t *c = context;
    return peer != c->node->incarnation && !member_knows(c->member, peer);
}

static void on_place(void *context, frame_id_t id) {
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_PLACE, id, 0, 0}, NULL, 0);
}

/* Names are the node's own (name.c): no actor is created here with one. */
static void on_created(void *context, frame_id_t id, mob_status_t status) {
    (void)context, (void)id, (void)status;
}

static void on_ended(void *context, frame_id_t id) {
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_ENDED, id, 0, 0}, NULL, 0);
}

/* The rest of what there is to know came along with the message. */
static void on_make(void *context, frame_id_t id, uint64_t epoch, const void *spec, size_t size) {
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_MAKE, id, epoch, 0}, spec, size);
}

static void on_stop(void *context, frame_id_t id, uint64_t epoch) {
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_STOP, id, epoch, 0}, NULL, 0);
}

static void on_fetch(void *context, uint64_t call, frame_id_t id, uint64_t epoch, const void *bytes,
                     size_t size) {
    (void)epoch;
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_FETCH, id, call, 0}, bytes, size);
}

static void on_run(void *context, uint64_t call, bool begins) {
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_RUN, {0}, call, begins}, NULL, 0);
}

static void on_cancel(void *context, uint64_t call, bool recursive) {
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_CANCEL, {0}, call, recursive}, NULL,
                     0);
}

static void on_answer(void *context, uint64_t token, mob_status_t status, const void *bytes,
                      size_t size) {
    node_acting_tell(context, (node_acting_word_t){NODE_ACTING_RESULT, {0}, token, status}, bytes,
                     size);
}

static void on_released(void *context, frame_id_t id) { (void)context, (void)id; }

static void on_found(void *context, uint64_t token, mob_status_t status, frame_id_t id,
                     uint8_t flags) {
    (void)context, (void)token, (void)status, (void)id, (void)flags;
}

static const actor_ops_t ops = {
    .send = node_actor_letter_send,
    .ask = on_ask,
    .said = on_said,
    .is_dead = on_is_dead,
    .place = on_place,
    .created = on_created,
    .ended = on_ended,
    .make = on_make,
    .stop = on_stop,
    .fetch = on_fetch,
    .run = on_run,
    .cancel = on_cancel,
    .answer = on_answer,
    .released = on_released,
    .found = on_found,
};

/* ---- messages ---- */

mob_status_t node_acting_wait(node_cluster_t *c, const void *bytes, size_t size) {
    node_acting_event_t *e =
        event_new(c, (node_acting_word_t){.what = NODE_ACTING_LETTER}, bytes, size);
    if (e == NULL || !vec_push(&c->acting.early, e)) {
        free(e);
        return MOB_ENOMEM;
    }
    e->round = c->node->round;
    c->node->again = true;
    return MOB_OK;
}

mob_status_t node_acting_receive(node_cluster_t *c, uint64_t peer, const void *bytes, size_t size) {
    if (c->acting.room == NULL) return MOB_ECLOSED;
    c->acting.from = peer;
    mob_status_t status = node_actor_letter_come(c, peer, bytes, size, true);
    c->acting.from = 0;
    c->node->again = true;
    return status;
}

/* ---- the end of a round ---- */

static void event_do(node_cluster_t *c, const node_acting_event_t *e) {
    actor_t *room = c->acting.room;
    const node_acting_word_t *w = &e->word;
    switch (w->what) {
    case NODE_ACTING_MADE:
        actor_process_made(room, w->id, w->number);
        break;
    case NODE_ACTING_GONE:
        node_seat_lost(c, w->id);
        actor_process_ended(room, w->id, w->number, (actor_end_t)w->value);
        node_seat_gone(c, w->id);
        break;
    case NODE_ACTING_REFUSED:
        actor_process_refused(room, w->id, w->number);
        node_seat_gone(c, w->id);
        break;
    case NODE_ACTING_READY:
        actor_call_ready(room, w->number);
        break;
    case NODE_ACTING_DONE:
        actor_call_done(room, w->number, MOB_OK, e->bytes, e->size);
        break;
    case NODE_ACTING_LETTER:
        (void)node_actor_letter_come(c, e->from, e->bytes, e->size, true);
        break;
    case NODE_ACTING_PLACE:
        node_far_place(c, w->id);
        break;
    case NODE_ACTING_ENDED:
        node_far_ended(c, w->id);
        break;
    case NODE_ACTING_MAKE:
        node_seat_make(c, w->id, w->number, e->bytes, e->size);
        break;
    case NODE_ACTING_STOP:
        node_seat_stop(c, w->id, w->number);
        break;
    case NODE_ACTING_FETCH:
        node_seat_fetch(c, w->number, w->id, e->from, e->bytes, e->size);
        break;
    case NODE_ACTING_RUN:
        node_seat_run(c, w->number, w->value != 0);
        break;
    case NODE_ACTING_CANCEL:
        node_seat_cancel(c, w->number, w->value != 0);
        break;
    case NODE_ACTING_RESULT:
        node_far_result(c, w->number, (mob_status_t)w->value, e->from, e->bytes, e->size);
    }
}

/* Those of former rounds: every ring was read since, so there is no such actor, or it is known. */
static void early_settle(node_cluster_t *c) {
    node_acting_t *a = &c->acting;
    size_t count = a->early.count;
    for (size_t i = 0; i < count; i++) {
        node_acting_event_t *e = a->early.items[i];
        if (e->round == c->node->round) {
            vec_push(&a->early, e); /* there is room: one was taken */
            continue;
        }
        a->from = e->from;
        (void)node_actor_letter_come(c, e->from, e->bytes, e->size, false);
        a->from = 0;
        free(e);
    }
    memmove(a->early.items, a->early.items + count, (a->early.count - count) * sizeof(void *));
    a->early.count -= count;
    c->node->again |= a->early.count > 0;
}

void node_acting_settle(node_cluster_t *c) {
    node_acting_t *a = &c->acting;
    if (a->room == NULL) return;
    node_forward_retry(a->others);
    node_visits_answer(a->others);
    if (a->early.count > 0) early_settle(c);
    while (a->first != NULL && a->room != NULL) {
        node_acting_event_t *e = a->first;
        a->first = e->next;
        if (a->first == NULL) a->last = NULL;
        a->from = e->from;
        event_do(c, e);
        a->from = 0;
        free(e);
    }
}

static void on_timer(uv_timer_t *timer) {
    node_cluster_t *c = timer->data;
    node_acting_t *a = &c->acting;
    if (a->room == NULL) return;
    for (size_t i = a->unasked.count; i-- > 0;) question_go(c, vec_pop(&a->unasked));
    node_actor_names_tick(c);
    node_gather_tick(c);
    node_keeps_tick(c);
    actor_tick(a->room, now_ms());
    node_far_tick(c);
    node_orphans_tick(c);
    node_seat_creations_tick(c);
    c->node->again = true;
}

/* ---- its course ---- */

mob_status_t node_acting_start(node_cluster_t *c) {
    node_acting_t *a = &c->acting;
    base_map_init(&a->seats, MOB_ID_SIZE);
    base_map_init(&a->calls, sizeof(uint64_t));
    base_map_init(&a->frames, MOB_ID_SIZE);
    a->others = node_far_peer_new(c->node);
    if (a->others == NULL) return MOB_ENOMEM;
    a->master = a->said = a->names_said =
        member_master(c->member); /* there is nothing to say to it yet */
    mob_status_t status = actor_new(&ops, c, c->node->incarnation, a->master, now_ms(), &a->room);
    if (status != MOB_OK) return status;
    actor_settled(a->room, a->settled);
    uv_timer_init(&c->node->loop, &a->timer);
    a->timer.data = c;
    uv_timer_start(&a->timer, on_timer, ACTOR_TICK_MS, ACTOR_TICK_MS);
    return MOB_OK;
}

void node_acting_end(node_cluster_t *c) {
    node_acting_t *a = &c->acting;
    if (a->room == NULL) return;
    uv_close((uv_handle_t *)&a->timer, NULL);
    node_actor_names_end(c);
    node_gather_end(c);
    node_keeps_end(c);
    node_orphans_forget(c);
    actor_free(a->room);
    a->room = NULL;
    while (a->first != NULL) {
        node_acting_event_t *e = a->first;
        a->first = e->next;
        free(e);
    }
    while (a->early.count > 0) free(vec_pop(&a->early));
    while (a->unasked.count > 0) free(vec_pop(&a->unasked));
    vec_free(&a->early);
    vec_free(&a->unasked);
    vec_free(&a->orphans);
}

void node_acting_died(node_cluster_t *c, uint64_t peer) {
    if (c->acting.room == NULL) return;
    node_far_node_died(c, peer);
    node_actor_names_died(c, peer);
    node_gather_died(c, peer);
    actor_peer_died(c->acting.room, peer);
    c->node->again = true;
}

void node_acting_silent(node_cluster_t *c, uint64_t peer, bool is_silent) {
    if (c->acting.room != NULL) actor_peer_silent(c->acting.room, peer, is_silent);
}

void node_acting_leads(node_cluster_t *c, uint64_t leader) {
    if (c->acting.room == NULL) return;
    if (leader != c->node->incarnation) node_orphans_forget(c);
    actor_leader(c->acting.room, leader);
}

void node_acting_paused(node_cluster_t *c, bool is_paused) {
    if (c->acting.room == NULL) return;
    actor_pause(c->acting.room, is_paused);
    c->node->again = true;
}

void node_acting_master(node_cluster_t *c, uint64_t master) {
    c->acting.master = master;
    if (c->acting.room == NULL) return;
    actor_master(c->acting.room, master);
    node_actor_names_master(c, master);
}

uint64_t node_acting_said(const node_cluster_t *c) {
    const node_acting_t *a = &c->acting;
    if (a->room == NULL) return UINT64_MAX;
    return a->said < a->names_said ? a->said : a->names_said;
}

void node_acting_settled(node_cluster_t *c, uint64_t master) {
    c->acting.settled = master;
    if (c->acting.room != NULL) actor_settled(c->acting.room, master);
}
