/*
 * Where the large arguments of a task lie.
 *
 * A task would rather run at a node that has at least LEAVES_FROM bytes of its arguments, if those
 * are more than what lies here, and no other node has more. What is less than that comes here in
 * about the time that the question to the leader takes. The leader gives it a place there if there
 * is room now, else at any node with room, which may be this one: no CPU is idle for the sake of an
 * argument. A task that came back from another node stays with the usual rules: what it had to wait
 * for there may last.
 *
 * Own values that are at peers: the room pull knows where the primary copy is. Another node's: only
 * its home knows that; it is taken to be at its home, as everything is that ray.put or a task of
 * that node made there. A wrong guess costs one pull more.
 *
 * Tasks that ask for a certain node, or to be spread, or for a place in a group, go where they
 * ask to.
 */
#include "node/cluster/locality.h"

#include "node/cluster/cluster.h"
#include "node/cluster/offer.h"
#include "node/cluster/proxy.h"
#include "node/cluster/pulling.h"
#include "node/state.h"

enum {
    LOOK_MAX = 256,
    NODES_MAX = 8
}; /* arguments that are looked at; nodes that are told apart */

static const uint64_t LEAVES_FROM = UINT64_C(1) << 20;

typedef struct {
    uint64_t here;
    uint64_t nodes[NODES_MAX], bytes[NODES_MAX];
    size_t count;
} tally_t;

static void tally_add(tally_t *tally, uint64_t node, uint64_t bytes) {
    size_t i = 0;
    while (i < tally->count && tally->nodes[i] != node) i++;
    if (i == NODES_MAX) return;
    if (i == tally->count) {
        tally->nodes[i] = node;
        tally->bytes[i] = 0;
        tally->count++;
    }
    tally->bytes[i] += bytes;
}

static void argument_add(node_t *n, mob_ref_t ref, tally_t *tally) {
    const node_object_t *o = ref.slot != 0 ? node_object_known(n, ref) : NULL;
    node_elsewhere_t what;
    if (o == NULL) return;
    node_proxy_describe(n, o, &what);
    if (!node_proxy_is_elsewhere(n, o)) {
        tally->here += what.bytes;
        return;
    }
    uint64_t node = o->proxy != NULL ? o->proxy->id.home : node_pulling_primary(n, o);
    if (node != 0 && node != n->incarnation) tally_add(tally, node, what.bytes);
}

static uint64_t best_of(const tally_t *tally) {
    uint64_t node = 0, most = tally->here;
    for (size_t i = 0; i < tally->count; i++) {
        if (tally->bytes[i] < LEAVES_FROM || tally->bytes[i] <= most) continue;
        most = tally->bytes[i];
        node = tally->nodes[i];
    }
    return node;
}

static bool has_wish(const node_task_t *t) {
    const sched_where_t *where = sched_shape_where(t->job->sched, t->shape);
    return where->group != NULL || where->flags != 0 ||
           (where->selector != NULL && where->selector[0] != 0);
}

uint64_t node_locality_hint(const node_task_t *t) {
    node_t *n = t->job->node;
    tally_t tally = {0};
    if (t->num_deps == 0 || t->moves > 0 || has_wish(t)) return 0;
    for (uint32_t i = 0; i < t->num_deps && i < LOOK_MAX; i++)
        argument_add(n, t->refs[t->num_returns + i], &tally);
    uint64_t node = best_of(&tally);
    if (node == 0 || node_placing_peer(n->cluster, node) == NULL) return 0;
    return node_offer_fits_at(t->job, t->shape, node) ? node : 0;
}
