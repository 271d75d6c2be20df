/*
 * Tasks of this node at others; forward.c has their way, and what is made of their ends. The room
 * counts what was sent by leases, and says how each came back:
 *
 *   ended, with a value    the other node's answer (frame/done.h), whatever it says: also that the
 *                          worker died, for this node counts retries by its own rule
 *   ended, without one     cancelled and never begun, or its node died and no retry is left
 *   put back               never begun; or its node died
 *
 * A frame names the results too: the other node has proxies of them.
 */
#include "node/cluster/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/inflow.h"
#include "node/cluster/post.h"
#include "node/cluster/proxy.h"
#include "node/cluster/pulling.h"
#include "node/forward.h"
#include "node/state.h"

/* ---- out ---- */

/* What the frame names. False: no memory. */
static bool ids_write(node_t *n, const node_task_t *t, node_placing_parcel_t *parcel) {
    uint32_t count = t->num_returns + t->num_deps + t->num_refs;
    frame_id_t *ids = realloc(parcel->ids, ((size_t)count + 1) * sizeof *ids);
    if (ids == NULL) return false;
    parcel->ids = ids;
    parcel->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        mob_ref_t ref = i < t->num_returns ? node_remake_result(t, i) : t->refs[i];
        if (t->flows && i == 1) continue; /* the flow's slot: see frame.c */
        if (ref.slot != 0) ids[parcel->count++] = node_proxy_id(n, ref);
    }
    if (t->function.slot != 0) ids[parcel->count++] = node_proxy_id(n, t->function);
    return true;
}

/* The frame, and what goes with it. MOB_EPROTO: its submitter has changed it since. */
static mob_status_t parcel_make(node_cluster_t *c, node_task_t *t, uint64_t to,
                                place_task_t *ret_task) {
    node_placing_t *placing = &c->placing;
    uint8_t *frame;
    size_t size;
    if (t->remake != NULL && !node_remake_send(c->node, t->remake)) return MOB_EPROTO;
    mob_status_t status = node_guestjob_send_pool(c, to, node_pool_of(t->job, t->shape));
    if (status != MOB_OK) return status;
    status = node_frame_write(c->node, t, &frame, &size);
    if (status != MOB_OK) return status;
    free(placing->frame);
    placing->frame = frame;
    if (!ids_write(c->node, t, &placing->parcel)) return MOB_ENOMEM;
    if (t->flows && !node_inflow_begin(c->node, t, to)) return MOB_ENOMEM;
    placing->parcel.body = frame;
    placing->parcel.run = t->remake != NULL ? t->remake->version : t->generation;
    placing->parcel.is_task = true;
    *ret_task = (place_task_t){t->record, t->retries, t->moves, frame, size};
    return MOB_OK;
}

bool node_origin_take(void *context, void *lane, uint64_t to, place_task_t *ret_task) {
    node_cluster_t *c = context;
    node_offer_t *offer = lane;
    node_peer_t *p = node_placing_peer(c, to);
    if (p == NULL || !node_post_has_room(c, to)) return false;
    node_task_t *t = node_offer_take(offer);
    if (t == NULL) return false;
    mob_status_t status = parcel_make(c, t, to, ret_task);
    if (status != MOB_OK) {
        t->stays |= status == MOB_EPROTO;
        node_task_ready(t, c->node);
        return false;
    }
    node_forward_claim(p, t);
    t->offer = offer;
    offer->sent++;
    return true;
}

void node_origin_cancel(node_peer_t *p, const node_task_t *t, bool force, bool recursive) {
    node_cluster_t *c = p->node->cluster;
    uint32_t how = (force ? PLACE_STOP_FORCE : 0) | (recursive ? PLACE_STOP_CHILDREN : 0);
    node_placing_enter(c);
    (void)place_cancel(c->placing.place, t->record, how); /* else its end is being written */
    node_placing_leave(c);
}

/* That its submitter is dead stands in its book, and is honoured if it comes back by itself. */
void node_origin_recall(node_peer_t *p, const node_task_t *t) { (void)p, (void)t; }

/* ---- back ---- */

/* The task that the room names, which is not at a peer any more, as far as that knows. */
static node_task_t *task_of(node_cluster_t *c, uint32_t record) {
    node_task_t *t = c->node->tasks[record];
    if (t == NULL || t->offer == NULL) return NULL;
    t->offer->sent--;
    t->offer = NULL;
    c->node->again = true;
    return t;
}

static void node_lost(node_t *n, node_task_t *t) {
    char how[NODE_ROSTER_WORDS];
    node_roster_words(&n->cluster->roster, t->worker->peer->incarnation, how, sizeof how);
    node_task_died(n, t, &(node_death_t){.begun = true, .with_node = true, .how = how});
}

void node_origin_put_back(void *context, uint32_t record, int32_t retries, uint8_t moves) {
    node_cluster_t *c = context;
    node_task_t *t = task_of(c, record);
    (void)retries; /* counted here */
    c->placing.parcel.body = NULL;
    if (t == NULL) return;
    t->moves = moves;
    if (c->placing.is_burying)
        node_lost(c->node, t);
    else
        node_forward_return(c->node, t);
}

void node_origin_ended(void *context, uint32_t record, place_outcome_t outcome, const void *value,
                       size_t size) {
    node_cluster_t *c = context;
    node_t *n = c->node;
    node_task_t *t = task_of(c, record);
    if (t == NULL) return;
    node_peer_t *p = t->worker->peer;
    if (value == NULL && outcome == PLACE_LOST)
        node_lost(n, t);
    else if (value == NULL && outcome == PLACE_CANCELLED && t->cancelled == 0)
        node_task_fail(n, t, MOB_ECANCELLED, "its job has ended");
    else if (value == NULL && outcome == PLACE_CANCELLED)
        node_forward_return(n, t);
    else if (!node_forward_done(p, node_forward_run(n, t), value, size))
        node_task_fail(n, t, MOB_EPROTO, "the node that ran it gave an answer that makes no sense");
}

void node_origin_keep(void *context, void *lane, uint32_t count) {
    (void)context;
    node_offer_keep(lane, count);
}

void node_origin_impossible(void *context, void *lane) {
    node_cluster_t *c = context;
    const node_offer_t *offer = lane;
    node_task_t *t;
    if (offer->in_group) return; /* its bundles get other places */
    while ((t = node_offer_take(lane)) != NULL)
        node_task_fail(c->node, t, MOB_EPLACE,
                       "The task is not schedulable: The node specified via "
                       "NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, "
                       "and soft=False was specified.");
}

/* ---- results that stay there ---- */

/* What is inside the value, which the home holds as long as it has the value. False: no memory. */
static bool contents_note(node_t *n, node_object_t *o, const frame_value_t *v) {
    if (o->contents_held) return true;
    for (uint32_t i = 0; i < v->num_refs; i++) {
        mob_ref_t ref = node_frame_ref(n, v->refs[i]);
        node_object_t *inner = ref.slot != 0 ? node_object_find(n, ref) : NULL;
        if (inner == NULL) ref = (mob_ref_t){0};
        if (!vec_push(&o->contents, ref)) return false;
        if (inner != NULL) node_object_use(inner);
    }
    o->contents_held = true;
    return true;
}

/* Which run of the task it is, as its values' versions say: no two of an object have the same. */
static uint32_t version_of(const node_task_t *t) {
    return t->remake != NULL ? t->remake->version : node_guest_version(t->generation);
}

/* The own object that the result `to` is for. */
static mob_ref_t result_of(const node_task_t *t, mob_ref_t to) {
    for (uint32_t i = 0; i < t->num_returns; i++)
        if (t->refs[i].slot == to.slot) return node_remake_result(t, i);
    return to;
}

mob_status_t node_origin_note(node_t *n, mob_ref_t of, uint32_t version, uint64_t from,
                              bool is_again, const frame_value_t *v, node_elsewhere_t *ret_what) {
    frame_id_t id = {.home = n->incarnation, .number = of.slot, .generation = of.generation};
    if (v->stayed_bytes > STORE_LARGEST || v->pulled_bytes > 2 * STORE_LARGEST) return MOB_ELOST;
    node_object_t *o = node_object_share(n, of);
    if (o == NULL) return is_again ? MOB_ELOST : MOB_ENOMEM;
    mob_status_t status = node_pulling_found(n->cluster, id, version, v->pulled_bytes, from);
    if (status == MOB_ESTALE) return MOB_ELOST;
    if (status != MOB_OK && status != MOB_EEXISTS) return status;
    if (is_again) node_object_contents_release(n, o); /* of the value that is lost */
    if (!contents_note(n, o, v)) {
        node_object_contents_release(n, o);
        return MOB_ENOMEM;
    }
    *ret_what = (node_elsewhere_t){.pulled_bytes = v->pulled_bytes,
                                   .bytes = v->stayed_bytes,
                                   .format = (mob_format_t)v->format,
                                   .error = (mob_status_t)v->error,
                                   .ref_count = v->num_refs};
    return MOB_OK;
}

mob_status_t node_origin_fetch(node_peer_t *p, const node_task_t *t, const frame_value_t *v,
                               mob_ref_t to) {
    node_t *n = p->node;
    node_elsewhere_t what;
    mob_status_t status = node_origin_note(n, result_of(t, to), version_of(t), p->incarnation,
                                           t->remake != NULL, v, &what);
    if (status != MOB_OK) return status;
    return t->remake != NULL ? node_remake_elsewhere(n, t, to, &what)
                             : node_proxy_seal_elsewhere(n, to, &what);
}
