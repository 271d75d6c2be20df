/*
 * Calls of actors that live elsewhere, at their callers' node.
 *
 *   in a row    in its caller's, as ever, until its arguments are there
 *   sent        TAKEN by the peer that stands for actors elsewhere. The room has the frame, and
 *               sends it, again if need be, in order; nobody here knows where it is
 *   answered    what its visit said (frame_done_t), as of any forwarded task; or the room says
 *               that it was lost
 *
 * The frame has the number of the run before it, as those of tasks: it tells the values of one run
 * from those of another.
 *
 * A call that was lost fails. Its actor is dead for its callers if it is not made again, but not as
 * long as its node is silent only; else nobody knows whether the call ran. If it was cancelled,
 * that is how it ends, however it comes back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actor/actor.h"
#include "base/bytes.h"
#include "frame/id.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_seat.h"
#include "node/cluster/actor_stub.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/inflow.h"
#include "node/cluster/origin.h"
#include "node/cluster/proxy.h"
#include "node/forward.h"
#include "node/runname.h"
#include "node/state.h"
#include "node/value.h"

/* ---- out ---- */

/* Who calls: its number and epoch, and the concurrency group, which has an order of its own. */
static uint64_t caller_of(const node_t *n, const node_task_t *t) {
    const node_client_t *c = n->clients[t->submitter];
    uint64_t epoch = c != NULL ? c->epoch : 0;
    return epoch << 32 | (uint64_t)n->records[t->record].group << 16 | t->submitter;
}

/* The frame behind the number of its run. */
static mob_status_t frame_make(node_t *n, const node_task_t *t, uint8_t **ret_bytes,
                               size_t *ret_size) {
    uint8_t *frame;
    size_t size;
    mob_status_t status = node_frame_write(n, t, &frame, &size);
    if (status != MOB_OK) return status;
    base_writer_t w = {.bytes = malloc(NODE_GUEST_HEAD + size)};
    if (w.bytes != NULL) {
        base_put_number(&w, t->generation, NODE_GUEST_HEAD);
        base_put_bytes(&w, frame, size);
    }
    free(frame);
    *ret_bytes = w.bytes;
    *ret_size = w.size;
    return w.bytes != NULL ? MOB_OK : MOB_ENOMEM;
}

static mob_status_t call_send(node_t *n, const node_actor_t *a, node_task_t *t) {
    node_acting_t *acting = &n->cluster->acting;
    uint8_t *bytes;
    size_t size;
    if (acting->room == NULL) return MOB_ECLOSED;
    mob_status_t status = frame_make(n, t, &bytes, &size);
    if (status != MOB_OK) return status;
    if (t->flows && !node_inflow_begin(n, t, 0)) {
        free(bytes);
        return MOB_ENOMEM;
    }
    node_forward_claim(acting->others, t);
    status = actor_call(acting->room, a->far->id, caller_of(n, t),
                        wire_entry(t->record, t->generation), t->retries, bytes, size);
    free(bytes);
    return status;
}

static const char *words_of(mob_status_t status) {
    if (status == MOB_EPROTO) return "the call was changed after it was submitted";
    return mob_status_text(status);
}

static void call_go(node_t *n, node_actor_t *a, node_task_t *t) {
    a->in_flight++;
    mob_status_t status = call_send(n, a, t);
    if (status == MOB_OK) return;
    if (!node_forward_is(t)) a->in_flight--;
    node_task_fail(n, t, status, words_of(status));
}

void node_far_first(node_t *n, node_actor_t *a) {
    while (a->first != NULL) {
        node_task_t *t = a->first;
        a->first = t->next;
        call_go(n, a, t);
    }
}

void node_far_pump(node_t *n, node_actor_t *a) {
    for (size_t i = 0; i < a->callers.count;) {
        node_calls_t *calls = &a->callers.items[i];
        while (calls->head != NULL && calls->head->missing == 0) {
            node_task_t *t = calls->head;
            calls->head = t->next;
            call_go(n, a, t);
        }
        if (calls->head == NULL)
            vec_swap_remove(&a->callers, i);
        else
            i++;
    }
    n->again = true;
}

void node_far_answered(node_t *n, node_actor_t *a) {
    a->in_flight--;
    node_actor_try_end(n, a);
}

/* ---- back ---- */

/* Where it lives, as far as is known here; else its home, which has yet to say where. NULL: it is
 * here. */
static const node_row_t *row_of(const node_t *n, const node_actor_t *a) {
    if (a->far == NULL) return NULL;
    uint64_t node = a->far->node;
    if (node == 0) node = actor_stub_node(n->cluster->acting.room, a->far->id);
    return node_roster_find(&n->cluster->roster, node != 0 ? node : a->far->id.home);
}

static bool is_silent(const node_row_t *row) {
    return row != NULL && row->is_silent && row->until_ms == 0;
}

/* How a call was lost. The room says so as soon as the actor's node is not heard. */
static void how_lost(node_t *n, const node_actor_t *a, char *ret_how, size_t capacity) {
    const node_row_t *row = row_of(n, a);
    char words[NODE_ROSTER_WORDS];
    bool is_gone = row != NULL && (row->is_silent || row->until_ms != 0);
    if (is_gone) node_roster_words(&n->cluster->roster, row->incarnation, words, sizeof words);
    if (is_silent(row))
        snprintf(ret_how, capacity, "its node is not heard any more: %s", words);
    else if (a->far != NULL && a->far->how[0] != 0)
        snprintf(ret_how, capacity, "%s", a->far->how);
    else if (is_gone)
        snprintf(ret_how, capacity, "its node died: %s", words);
    else
        snprintf(ret_how, capacity, "its process, or its node, died");
}

/* It was cancelled, and has not begun in its actor's last process. */
static void cancelled(node_t *n, node_task_t *t) {
    node_actor_t *a = t->actor;
    node_forward_return(n, t);
    if (a != NULL) node_far_answered(n, a);
}

/* It lives, and is dead soon, or heard again; or it is made again. */
static bool is_dead(const node_t *n, const node_actor_t *a, mob_status_t status) {
    if (status == MOB_EACTOR) return true;
    return a->far != NULL && node_far_is_final(n, a) && !is_silent(row_of(n, a));
}

static void lost(node_t *n, node_task_t *t, mob_status_t status) {
    char text[1200], name[256], how[NODE_ROSTER_WORDS + 64] = "";
    const node_actor_t *a = t->actor;
    node_task_name(n, t, name, sizeof name);
    if (a != NULL) how_lost(n, a, how, sizeof how);
    if (a == NULL) { /* its job has ended: nobody need be told */
        for (uint32_t i = 0; i < t->num_returns; i++) node_slot_quiet(n, t->refs[i]);
        node_task_fail(n, t, MOB_EACTOR, "its actor is gone");
    } else if (is_dead(n, a, status)) {
        snprintf(text, sizeof text, "it died while or before it ran %s: %s", name, how);
        node_actor_call_die(n, t, text);
    } else {
        snprintf(text, sizeof text,
                 "The actor %s is unavailable: %s. %s. The task %s may or may not have been "
                 "executed on the actor.",
                 a->name, how,
                 is_silent(row_of(n, a)) ? "It may be heard again, or be dead soon"
                                         : "It may be restarted",
                 name);
        node_task_fail(n, t, MOB_EUNAVAILABLE, text);
    }
}

/* It was not run there, and will not be; or it makes no sense. */
static void refused(node_t *n, node_task_t *t, const frame_done_t *d) {
    char text[512];
    snprintf(text, sizeof text, "the node of its actor could not run it: %.*s",
             (int)(d->text_size < 400 ? d->text_size : 400), d->text_size > 0 ? d->text : "");
    node_task_fail(n, t, d->status != MOB_OK ? (mob_status_t)d->status : MOB_EPROTO, text);
}

static void source_set(node_acting_t *acting, uint32_t record, uint64_t from) {
    for (size_t i = acting->sources.count; i-- > 0;)
        if (acting->sources.items[i].record == record) vec_swap_remove(&acting->sources, i);
    if (from != 0) (void)vec_push(&acting->sources, ((node_acting_source_t){record, from}));
}

/* Its results are written now, or when there is space. */
static void results_come(node_cluster_t *c, node_task_t *t, uint64_t from, const uint8_t *bytes,
                         size_t size) {
    node_t *n = c->node;
    frame_id_t run = node_forward_run(n, t);
    source_set(&c->acting, t->record, from);
    bool ok = node_forward_done(c->acting.others, run, bytes, size);
    node_task_t *left = node_forward_find(c->acting.others, run);
    if (!ok && left != NULL)
        node_task_fail(n, left, MOB_EPROTO, "its actor gave an answer that makes no sense");
    if (!ok || left == NULL) source_set(&c->acting, run.number, 0);
}

void node_far_result(node_cluster_t *c, uint64_t token, mob_status_t status, uint64_t from,
                     const uint8_t *bytes, size_t size) {
    node_t *n = c->node;
    frame_done_t done;
    frame_id_t run = {
        .home = n->incarnation, .number = wire_entry_index(token), .generation = token >> 22};
    node_task_t *t = node_forward_find(c->acting.others, run);
    if (t == NULL) return;
    if (status == MOB_ECANCELLED) {
        cancelled(n, t);
        return;
    }
    if (status != MOB_OK && t->cancelled != 0) {
        node_cancel_fail(n, t);
        return;
    }
    if (status != MOB_OK) {
        lost(n, t, status);
        return;
    }
    if (frame_done_read(bytes, size, &done) != MOB_OK) {
        node_task_fail(n, t, MOB_EPROTO, "its actor gave an answer that makes no sense");
        return;
    }
    bool is_end = done.end == FRAME_RESULTS || (done.end == FRAME_CANCELLED && done.begun);
    bool is_unbegun = done.end == FRAME_CANCELLED && !done.begun && t->cancelled != 0;
    if (is_unbegun)
        cancelled(n, t);
    else if (!is_end)
        refused(n, t, &done);
    frame_done_fini(&done);
    if (is_end) results_come(c, t, from, bytes, size);
}

/* ---- the peer ---- */

/* By force no call of an actor is (control/cancel.h). */
static void far_cancel(node_peer_t *p, const node_task_t *t, bool force, bool recursive) {
    actor_t *room = p->node->cluster->acting.room;
    (void)force;
    if (room != NULL) actor_cancel(room, wire_entry(t->record, t->generation), recursive);
}

/* Its submitter is dead: it runs all the same, as one that lies in a queue here. */
static void far_recall(node_peer_t *p, const node_task_t *t) { (void)p, (void)t; }

/* Else the result's own name is said. */
static bool is_own_run(const node_t *n, frame_id_t at, mob_ref_t to) {
    return at.home == n->incarnation && at.number < STORE_MAX_SLOTS && at.number != to.slot;
}

/* One that ran on this node itself, for a caller of it: its result is moved. */
static mob_status_t own_fetch(node_t *n, frame_id_t at, mob_ref_t to) {
    mob_ref_t from = node_proxy_find(n, at);
    node_value_t found;
    if (!node_proxy_owns(n, n->grants.slots.owner[from.slot / STORE_SLOT_BLOCK]) ||
        node_object_known(n, from) == NULL || !node_value_read(n, from, &found))
        return MOB_ELOST;
    return node_value_move(n, from, &found, to) ? MOB_OK : MOB_ELOST;
}

static mob_status_t far_fetch(node_peer_t *p, const node_task_t *t, const frame_value_t *v,
                              mob_ref_t to) {
    const node_acting_t *acting = &p->node->cluster->acting;
    node_peer_t there = *p;
    if (is_own_run(p->node, v->at, to)) return own_fetch(p->node, v->at, to);
    for (size_t i = 0; i < acting->sources.count; i++)
        if (acting->sources.items[i].record == t->record)
            there.incarnation = acting->sources.items[i].from;
    return node_origin_fetch(&there, t, v, to);
}

static void far_drop(node_peer_t *p, const frame_id_t *ids, size_t count) {
    node_t *n = p->node; /* all else the room refs counts */
    for (size_t i = 0; i < count; i++) {
        mob_ref_t ref = node_proxy_find(n, ids[i]);
        const node_object_t *o = ids[i].home == n->incarnation ? node_object_known(n, ref) : NULL;
        if (o != NULL && o->stayed) node_run_slot_free(n, &n->cluster->proxies.own, ref);
    }
}

static bool far_stay(node_visit_t *v, uint32_t index, frame_value_t *ret_value) {
    node_t *n = v->peer->node;
    if (v->results[index].home != n->incarnation) return node_guest_stay(v, index, ret_value);
    ret_value->at = node_proxy_id(n, v->here.fresh[index]);
    return true;
}

static void far_settle(node_visit_t *v) {
    for (uint32_t i = 0; i < v->here.num_returns && i < v->end.num_values; i++) {
        node_object_t *o = node_object_known(v->peer->node, v->here.fresh[i]);
        if (v->results[i].home != v->peer->node->incarnation || o == NULL ||
            frame_id_is_none(v->end.values[i].at))
            continue;
        o->stayed = true;
        v->here.fresh[i].slot = 0;
    }
}

static bool far_give(node_peer_t *p, mob_ref_t ref) {
    (void)p, (void)ref; /* the message does: node_post_send_refs */
    return true;
}

static void far_ungive(node_peer_t *p, mob_ref_t ref) { (void)p, (void)ref; }

static const node_way_t way = {.cancel = far_cancel,
                               .recall = far_recall,
                               .fetch = far_fetch,
                               .drop = far_drop,
                               .give = far_give,
                               .ungive = far_ungive,
                               .stay = far_stay,
                               .answer = node_seat_answer,
                               .settle = far_settle};

node_peer_t *node_far_peer_new(node_t *n) { return node_peer_new(n, &way, 0); }
