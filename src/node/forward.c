/*
 * Forwarded tasks, at their origin.
 *
 *   READY(g)        ready to run, in the books
 *   TAKEN(g, peer)  its frame is sent. It counts as begun: only the peer's word, or its certain
 *                   death, brings it back
 *   DONE(g, peer)   the peer's results are written; sealed and freed as after a worker
 *   READY(g + 1)    it came back: its worker there died, it raised and may be tried again, or it
 * was refused. The origin alone counts retries (control/retry.h)
 *
 * A DONE names record and generation. One that fits no task which is TAKEN by that peer is late,
 * and dropped with what it names. No task is sent under the same generation twice, so a late one
 * can't be taken for the next.
 *
 * Results come by value, or stay with the peer: see node_way_t's `fetch`.
 *
 * A task that gives out items (cluster/inflow.h) goes to other nodes only, not by loopback: its end
 * is in the books when all of its items are. Its results are one for its peer, `done`: the end of
 * the items and the flow's slot follow from that.
 *
 * What can't be sent runs here: a peer that has no room, or has refused the task. A value for which
 * the store has no space is put aside and tried again; meanwhile the task counts as running.
 */
#include "node/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "frame/done.h"
#include "frame/id.h"
#include "node/cluster/inflow.h"
#include "node/state.h"
#include "node/value.h"

enum { SPACE_MS = 10 };
static const uint64_t PATIENCE_NS = 30000000000;

bool node_forward_is(const node_task_t *t) { return node_peer_is(t->worker); }

node_task_t *node_forward_find(node_peer_t *p, frame_id_t run) {
    node_t *n = p->node;
    node_task_t *t = run.home == n->incarnation && run.number < n->grants.records.granted
                         ? n->tasks[run.number]
                         : NULL;
    return t != NULL && t->worker == p->client && t->generation == run.generation ? t : NULL;
}

frame_id_t node_forward_run(const node_t *n, const node_task_t *t) {
    return (frame_id_t){.home = n->incarnation, .number = t->record, .generation = t->generation};
}

/* ---- out ---- */

bool node_forward_may(const node_task_t *t) {
    return t->kind == MOB_TASK && !t->stays && t->visit == NULL &&
           (t->remake == NULL || t->remake->goes);
}

/* What the frame names is the peer's too, until it says otherwise: function, deps, refs. */
static bool names_hold(node_peer_t *p, const node_task_t *t) {
    uint32_t count = t->num_deps + t->num_refs, held = 0;
    if (!node_peer_hold(p, t->function)) return false;
    while (held < count && node_peer_hold(p, t->refs[t->num_returns + held])) held++;
    if (held == count) return true;
    while (held > 0) node_peer_unhold(p, t->refs[t->num_returns + --held]);
    node_peer_unhold(p, t->function);
    return false;
}

static void names_unhold(node_peer_t *p, const node_task_t *t) {
    for (uint32_t i = 0; i < t->num_deps + t->num_refs; i++)
        node_peer_unhold(p, t->refs[t->num_returns + i]);
    node_peer_unhold(p, t->function);
}

static bool frame_send(node_peer_t *p, const node_task_t *t) {
    uint8_t *frame;
    size_t size;
    if (node_frame_write(p->node, t, &frame, &size) != MOB_OK) return false;
    bool sent = names_hold(p, t);
    if (sent &&
        node_peer_send(p, FRAME_TASK, node_forward_run(p->node, t), frame, size) != MOB_OK) {
        names_unhold(p, t);
        sent = false;
    }
    free(frame);
    return sent;
}

void node_forward_claim(node_peer_t *p, node_task_t *t) {
    /* No worker was told of it, so nobody else can claim it. */
    (void)wire_record_move(&p->node->records[t->record],
                           wire_word(t->generation, 0, WIRE_READY_STATE),
                           wire_word(t->generation, p->client->number, WIRE_TAKEN), NULL);
    node_task_link(t, p->client);
}

bool node_forward(node_t *n, node_task_t *t) {
    node_peer_t *p = n->peer;
    if (p == NULL || t->flows || !node_forward_may(t) || !node_loop_has_room(&p->out) ||
        !frame_send(p, t))
        return false;
    node_forward_claim(p, t);
    return true;
}

void node_forward_cancel(node_t *n, node_task_t *t, bool force, bool recursive) {
    (void)n;
    node_peer_t *p = t->worker->peer;
    p->way->cancel(p, t, force, recursive);
}

void node_forward_recall(node_t *n, node_task_t *t) {
    (void)n;
    node_peer_t *p = t->worker->peer;
    t->recalled = true;
    p->way->recall(p, t);
}

/* ---- results ---- */

/* The local references that ids stand for. False: no memory. */
static bool refs_read(node_t *n, const frame_value_t *v, mob_ref_t **ret_refs) {
    *ret_refs = calloc((size_t)v->num_refs + 1, sizeof **ret_refs);
    for (uint32_t i = 0; *ret_refs != NULL && i < v->num_refs; i++)
        (*ret_refs)[i] = node_frame_ref(n, v->refs[i]);
    return *ret_refs != NULL;
}

static mob_status_t result_write(node_peer_t *p, const node_task_t *t, const frame_value_t *v,
                                 mob_ref_t to) {
    mob_ref_t *refs;
    if (!frame_id_is_none(v->at)) return p->way->fetch(p, t, v, to);
    if (!refs_read(p->node, v, &refs)) return MOB_ENOMEM;
    mob_status_t status =
        node_value_write(p->node, to, (mob_format_t)v->format, (mob_status_t)v->error, v->bytes,
                         v->size, refs, v->num_refs);
    free(refs);
    return status;
}

/* Writes what is not written yet; `patient`: what has no space may wait. MOB_ESPACE: so it does. */
static mob_status_t results_write(node_peer_t *p, node_task_t *t, const frame_done_t *d,
                                  bool patient) {
    if (t->flows && !node_inflow_finish(p->node, t, patient)) return MOB_ESPACE;
    for (; t->written < d->num_values; t->written++) {
        mob_ref_t to = t->refs[t->written];
        mob_status_t status = result_write(p, t, &d->values[t->written], to);
        if (status == MOB_OK) continue;
        if (status != MOB_ELOST && patient) return MOB_ESPACE;
        node_slot_write_error(p->node, to, status == MOB_ELOST ? status : MOB_EFULL,
                              status == MOB_ELOST ? "the peer that made this value does not have it"
                                                  : "the store has no space for this result",
                              NULL);
    }
    return MOB_OK;
}

/* The processes that wait for it go on. True: all are to be woken. */
static bool slot_wake(node_t *n, uint64_t word) {
    for (uint64_t bits = word >> STORE_WAITER_SHIFT; bits != 0; bits &= bits - 1)
        shm_bell_ring(&n->shared->bells[__builtin_ctzll(bits) + 1]);
    return word & STORE_CROWD;
}

static bool result_seal(node_t *n, mob_ref_t ref) {
    store_slot_t *slot = &n->slots[ref.slot];
    uint64_t meta = slot->meta;
    bool escaped =
        !store_meta_inline(meta) && (store_meta_in_file(meta) || slot->value.large.ref_count > 0);
    bool failed = store_meta_error(meta) != MOB_OK;
    return slot_wake(n, store_slot_seal(slot, escaped)) || failed;
}

/* The end stands behind the items. That the task has failed is told once, by an item. */
static void flow_complete(node_t *n, const node_task_t *t) {
    uint64_t made, taken;
    bool closed;
    bool told = node_flow_look(n, t, &made, &taken, &closed) && closed;
    if (told) node_slot_quiet(n, t->refs[0]);
    node_flow_stop(n, t);
    n->slots[t->refs[1].slot].meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
}

/* As for a worker of this node: DONE, sealed, woken, freed. */
static void task_complete(node_peer_t *p, node_task_t *t) {
    node_t *n = p->node;
    bool crowd = t->flows;
    if (t->flows) flow_complete(n, t);
    node_lineage_keep(n, t);
    (void)wire_record_move(&n->records[t->record],
                           wire_word(t->generation, p->client->number, WIRE_TAKEN),
                           wire_word(t->generation, p->client->number, WIRE_DONE_STATE), NULL);
    for (uint32_t i = 0; i < t->num_returns; i++) crowd |= result_seal(n, t->refs[i]);
    for (uint32_t i = 0; i < t->num_returns; i++) node_object_sealed(n, t->refs[i]);
    node_task_dismiss(n, t);
    if (crowd) node_bells_ring(n);
}

/* ---- back ---- */

/* This node is done with what the message named. */
static void names_drop(node_peer_t *p, const frame_done_t *d) {
    for (uint32_t i = 0; i < d->num_values; i++) {
        if (!frame_id_is_none(d->values[i].at)) p->way->drop(p, &d->values[i].at, 1);
        p->way->drop(p, d->values[i].refs, d->values[i].num_refs);
    }
}

/* It was not begun, or may be run again: READY(g + 1), and where it goes is decided anew. */
void node_forward_return(node_t *n, node_task_t *t) {
    node_task_reset(n, t);
    if (t->cancelled != 0) {
        node_cancel_fail(n, t);
        node_bells_ring(n);
    } else if (t->recalled) {
        node_task_fail(n, t, MOB_ECANCELLED,
                       "the process that submitted this task died before it began");
    } else if (t->job == NULL || t->job->farewell.leaving) {
        node_task_fail(n, t, MOB_ECANCELLED, "its job has ended");
    } else {
        node_task_ready(t, n);
    }
}

static void task_raised(node_t *n, node_task_t *t, const frame_done_t *d) {
    if (t->retries == 0 || !t->retries_exceptions) {
        node_task_fail(n, t, MOB_EPROTO, "a peer asked to retry what may not be");
        return;
    }
    if (t->cancelled == 0) {
        if (t->job != NULL) node_failure_retry(t, t->retries, d->text, d->text_size);
        if (t->retries > 0) t->retries--;
    }
    node_forward_return(n, t);
}

static void task_cancelled(node_t *n, node_task_t *t, bool begun) {
    if (t->cancelled == 0) t->cancelled = t->generation;
    if (begun) {
        node_cancel_fail(n, t);
        node_bells_ring(n);
    } else {
        node_forward_return(n, t);
    }
}

static void task_died(node_t *n, node_task_t *t, const frame_done_t *d) {
    char how[256];
    snprintf(how, sizeof how, "%.*s", (int)d->text_size, d->text_size > 0 ? d->text : "");
    node_task_died(n, t,
                   &(node_death_t){.begun = d->begun,
                                   .oom = d->oom,
                                   .oom_again = d->oom_again,
                                   .pid = d->pid,
                                   .how = how});
}

/* MOB_ESPACE: later; MOB_EPROTO: it makes no sense. */
static mob_status_t task_back(node_peer_t *p, node_task_t *t, const frame_done_t *d, bool patient) {
    node_t *n = p->node;
    mob_status_t status = MOB_OK;
    switch (d->end) {
    case FRAME_RESULTS:
        if (d->num_values != (t->flows ? 1 : t->num_returns)) return MOB_EPROTO;
        status = results_write(p, t, d, patient);
        if (status == MOB_OK) task_complete(p, t);
        break;
    case FRAME_DIED:
        task_died(n, t, d);
        break;
    case FRAME_RAISED:
        task_raised(n, t, d);
        break;
    case FRAME_CANCELLED:
        task_cancelled(n, t, d->begun);
        break;
    case FRAME_REFUSED:
        t->stays = true;
        node_forward_return(n, t);
    }
    return status;
}

static mob_status_t end_read(node_peer_t *p, frame_id_t run, const uint8_t *body, size_t size,
                             bool patient) {
    frame_done_t done;
    mob_status_t status = frame_done_read(body, size, &done);
    if (status != MOB_OK) return status;
    node_task_t *t = node_forward_find(p, run);
    if (t != NULL) status = task_back(p, t, &done, patient);
    if (status != MOB_ESPACE) names_drop(p, &done);
    frame_done_fini(&done);
    return status;
}

/* ---- aside ---- */

/* What is inside its values must be there when they are written. False: no memory. */
static bool aside_hold(node_t *n, node_aside_t *a) {
    frame_done_t done;
    size_t count = 0;
    if (frame_done_read(a->bytes, a->size, &done) != MOB_OK) return false;
    for (uint32_t i = 0; i < done.num_values; i++) count += done.values[i].num_refs;
    a->refs = calloc(count + 1, sizeof *a->refs);
    for (uint32_t i = 0; a->refs != NULL && i < done.num_values; i++)
        for (uint32_t k = 0; k < done.values[i].num_refs; k++) {
            mob_ref_t ref = node_frame_ref(n, done.values[i].refs[k]);
            node_object_t *o = node_object_find(n, ref);
            if (o == NULL) continue;
            node_object_use(o);
            a->refs[a->num_refs++] = ref;
        }
    frame_done_fini(&done);
    return a->refs != NULL;
}

static void aside_free(node_t *n, node_aside_t *a) {
    for (size_t i = 0; i < a->num_refs; i++) node_object_unuse_ref(n, a->refs[i]);
    free(a->refs);
    free(a->bytes);
}

bool node_forward_done(node_peer_t *p, frame_id_t run, const uint8_t *body, size_t size) {
    mob_status_t status = end_read(p, run, body, size, true);
    if (status != MOB_ESPACE) return status == MOB_OK;
    node_aside_t aside = {
        .run = run, .bytes = malloc(size), .size = size, .since_ns = base_clock_mono_ns()};
    if (aside.bytes != NULL) memcpy(aside.bytes, body, size);
    if (aside.bytes != NULL && aside_hold(p->node, &aside) && vec_push(&p->aside, aside)) {
        node_look_again(p->node, SPACE_MS);
        return true;
    }
    aside_free(p->node, &aside);
    return end_read(p, run, body, size, false) == MOB_OK;
}

static void aside_write(node_peer_t *p, uint64_t patience_ns) {
    size_t kept = 0;
    for (size_t i = 0; i < p->aside.count; i++) {
        node_aside_t a = p->aside.items[i];
        bool patient = base_clock_mono_ns() - a.since_ns < patience_ns;
        if (end_read(p, a.run, a.bytes, a.size, patient) == MOB_ESPACE)
            p->aside.items[kept++] = a;
        else
            aside_free(p->node, &a);
    }
    p->aside.count = kept;
    if (kept > 0) node_look_again(p->node, SPACE_MS);
}

void node_forward_retry(node_peer_t *p) { aside_write(p, PATIENCE_NS); }

void node_forward_last(node_peer_t *p) { aside_write(p, 0); }
