/*
 * What refs is told, and what it says.
 *
 * An own object that leaves in a message is held by `others` from then on, as a process would hold
 * it, so nothing else in the books has to know of nodes:
 *
 *   held here, too      refs has the nodes that hold it; `others` stays, even without any
 *   by `others` alone   every ring was read: refs is told so, once (`released`). If no other node
 *                       holds it `others` lets go, now or when refs says `free`. If one names it
 *                       in a message meanwhile, it counts as held here until the next sweep
 *
 * A proxy is held from its making until its freeing. If only processes that keep a function loaded
 * are left, refs is told that too: they keep it until its home says that nobody needs it. A process
 * may begin to use it again by itself. So whoever is asked to forget it looks first.
 *
 * A home of which this node has not heard yet has just registered, most likely: the message waits
 * until it is known, for a time. Then the home counts as dead, as one that is made up.
 */
#include "node/cluster/holding.h"

#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/post.h"
#include "node/state.h"

enum { AGAIN_MS = 10 };
static const uint64_t UNHEARD_NS = 5000000000;

static node_object_t *object_of(node_t *n, frame_id_t id) {
    mob_ref_t ref = node_proxy_find(n, id);
    return ref.slot != 0 ? node_object_known(n, ref) : NULL;
}

static uint32_t others_of(const node_t *n) { return n->cluster->proxies.others->number; }

static refs_t *refs_of(const node_t *n) {
    return n->cluster != NULL ? n->cluster->holding.refs : NULL;
}

/* ---- what refs says ---- */

static mob_status_t on_send(void *context, uint64_t peer, const void *bytes, size_t size) {
    return node_post_send(context, peer, POST_REFS,
                          &(node_letter_parts_t){.body = bytes, .body_size = size}, true);
}

static bool on_is_dead(void *context, uint64_t peer) {
    return !member_knows(((node_cluster_t *)context)->member, peer);
}

static void on_free(void *context, frame_id_t id) {
    node_cluster_t *cluster = context;
    node_object_t *o = object_of(cluster->node, id);
    if (o == NULL) return;
    o->released = false;
    node_object_unhold(cluster->node, o, others_of(cluster->node));
}

static void on_gone(void *context, frame_id_t id, refs_reason_t reason) {
    node_cluster_t *cluster = context;
    (void)reason;
    node_proxy_gone(cluster->node, id);
}

/* Whether more needs it than processes that keep it loaded. */
static bool is_used(const node_object_t *o) {
    for (size_t i = 0; i < o->holders.count; i++)
        if (!(o->holders.items[i] & NODE_CACHED)) return true;
    return o->uses > 0;
}

static void on_forget(void *context, frame_id_t id) {
    node_cluster_t *cluster = context;
    node_object_t *o = object_of(cluster->node, id);
    if (o == NULL || o->proxy == NULL) return;
    if (is_used(o)) {
        o->proxy->is_cached = false;
        refs_held(cluster->holding.refs, id);
    } else {
        node_object_unload(cluster->node, o);
    }
}

static void on_kept(void *context, uint64_t peer, uint64_t sequence) {
    node_cluster_t *cluster = context;
    if (cluster->holding.kept != NULL) cluster->holding.kept(cluster, peer, sequence);
}

static void on_closed(void *context, uint64_t number) {
    node_cluster_t *cluster = context;
    member_closed(cluster->member, number);
}

static const refs_ops_t operations = {
    .send = on_send,
    .is_dead = on_is_dead,
    .free = on_free,
    .gone = on_gone,
    .forget = on_forget,
    .kept = on_kept,
    .closed = on_closed,
};

/* ---- its course ---- */

mob_status_t node_holding_start(node_cluster_t *cluster, uint64_t number) {
    mob_status_t status = node_proxies_start(cluster);
    if (status != MOB_OK) return status;
    return refs_new(&operations, cluster, cluster->node->incarnation, number,
                    &cluster->holding.refs);
}

void node_holding_end(node_cluster_t *cluster) {
    refs_free(cluster->holding.refs);
    cluster->holding.refs = NULL;
    node_watches_end(cluster);
    node_outflows_end(cluster);
    node_proxies_end(cluster);
}

void node_holding_settle(node_cluster_t *cluster) {
    refs_t *refs = cluster->holding.refs;
    if (refs == NULL) return;
    /* what is asked about an object comes after the HOLD for it */
    if (refs_flush(refs) == MOB_OK)
        node_watches_settle(cluster);
    else
        node_look_again(cluster->node, AGAIN_MS);
}

mob_status_t node_holding_check(const node_cluster_t *cluster) {
    if (cluster->holding.refs != NULL) return MOB_OK;
    /* a peer may know that this node is registered before it knows that itself */
    return cluster->state < CLUSTER_MEMBER ? MOB_ENOMEM : MOB_ECLOSED;
}

mob_status_t node_holding_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                  size_t size) {
    mob_status_t status = node_holding_check(cluster);
    if (status != MOB_OK) return status;
    cluster->node->again = true; /* what came of it goes at the end of a round */
    return refs_message(cluster->holding.refs, peer, bytes, size);
}

void node_holding_died(node_cluster_t *cluster, uint64_t peer, uint64_t number) {
    if (cluster->holding.refs == NULL) { /* nothing of it is here, so nobody waits for this node */
        member_closed(cluster->member, number);
        return;
    }
    node_proxies_died(cluster, peer);
    refs_died(cluster->holding.refs, peer, number);
    cluster->node->again = true;
}

void node_holding_struck(node_cluster_t *cluster, uint64_t number) {
    if (cluster->holding.refs == NULL) return;
    refs_struck(cluster->holding.refs, number);
    cluster->node->again = true;
}

/* ---- references in messages ---- */

static bool is_held_by(const node_object_t *o, uint32_t client) {
    for (size_t i = 0; i < o->holders.count; i++)
        if (o->holders.items[i] == client) return true;
    return false;
}

/* The own object may be named elsewhere from now on. False: no memory. */
static bool own_lend(node_t *n, frame_id_t id) {
    mob_ref_t ref = node_proxy_find(n, id);
    if (frame_id_is_none(id) || id.home != n->incarnation || ref.slot == 0) return true;
    node_object_t *o = node_object_share(n, ref);
    if (o == NULL) return true; /* it is gone */
    node_holding_named(n, ref);
    node_object_hold(n, o, others_of(n), false);
    node_object_settle(n, o); /* an actor of which nothing is left here but its calls */
    return is_held_by(o, others_of(n));
}

mob_status_t node_holding_frame_sends(node_cluster_t *cluster, uint64_t peer, uint64_t sequence,
                                      const frame_id_t *ids, size_t count,
                                      const frame_id_t *container) {
    refs_t *refs = cluster->holding.refs;
    if (refs == NULL) return MOB_ECLOSED;
    /* If it is not sent after all, refs says so when it is asked. */
    for (size_t i = 0; i < count; i++)
        if (!own_lend(cluster->node, ids[i])) return MOB_ENOMEM;
    if (container == NULL) return refs_frame_send(refs, peer, sequence, ids, count);
    if (!own_lend(cluster->node, *container)) return MOB_ENOMEM;
    return refs_list_send(refs, peer, sequence, *container, ids, count);
}

static bool is_unheard(const node_cluster_t *cluster, uint64_t home) {
    return home != 0 && home != cluster->node->incarnation &&
           !member_knows(cluster->member, home) && member_tombstone(cluster->member, home) == 0;
}

/* Whether the message should wait: one of these homes may become known. */
static bool must_wait(node_cluster_t *cluster, const frame_id_t *ids, size_t count) {
    node_holding_t *h = &cluster->holding;
    uint64_t now = base_clock_mono_ns();
    size_t i = 0;
    while (i < count && !is_unheard(cluster, ids[i].home)) i++;
    if (i == count) return false;
    if (h->unheard != ids[i].home) {
        h->unheard = ids[i].home;
        h->unheard_ns = now;
    }
    return now - h->unheard_ns < UNHEARD_NS;
}

mob_status_t node_holding_frame_came(node_cluster_t *cluster, uint64_t peer, const frame_id_t *ids,
                                     size_t count) {
    bool waits;
    mob_status_t status = node_holding_check(cluster);
    if (status != MOB_OK) return status;
    if (must_wait(cluster, ids, count)) return MOB_ENOMEM;
    cluster->node->again = true;
    return refs_frame_came(cluster->holding.refs, peer, node_post_sequence(cluster), ids, count,
                           &waits);
}

mob_status_t node_holding_list_came(node_cluster_t *cluster, uint64_t peer, frame_id_t container,
                                    const frame_id_t *ids, size_t count, bool *ret_waits) {
    mob_status_t status = node_holding_check(cluster);
    if (status != MOB_OK) return status;
    if (must_wait(cluster, ids, count)) return MOB_ENOMEM;
    cluster->node->again = true;
    return refs_list_came(cluster->holding.refs, peer, node_post_sequence(cluster), container, ids,
                          count, ret_waits);
}

/* ---- what the books say ---- */

void node_holding_held(node_t *n, frame_id_t id) {
    refs_t *refs = refs_of(n);
    if (refs == NULL) return;
    refs_held(refs, id);
    n->again = true;
}

void node_holding_dropped(node_t *n, frame_id_t id) {
    refs_t *refs = refs_of(n);
    if (refs == NULL) return;
    (void)refs_unheld(refs, id);
    n->again = true;
}

bool node_holding_is_abroad(const node_t *n, const node_object_t *o) {
    return n->cluster != NULL && n->cluster->proxies.others != NULL && o->uses == 0 &&
           o->holders.count == 1 && o->holders.items[0] == others_of(n);
}

void node_holding_unheld(node_t *n, node_object_t *o) {
    refs_t *refs = refs_of(n);
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    o->released = true;
    n->again = true;
    if (refs != NULL && !refs_unheld(refs, node_proxy_id(n, ref))) return;
    o->released = false;
    node_object_unhold(n, o, others_of(n));
}

void node_holding_named(node_t *n, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL || !o->released) return;
    o->released = false;
    node_holding_held(n, node_proxy_id(n, ref));
    node_object_settle(n, o);
}

bool node_holding_cached(node_t *n, node_object_t *o) {
    refs_t *refs = refs_of(n);
    if (refs == NULL || o->proxy->is_lost) return false;
    if (o->proxy->is_cached) return true;
    o->proxy->is_cached = true;
    refs_cached(refs, o->proxy->id);
    n->again = true;
    return true;
}
