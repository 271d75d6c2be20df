/*
 * What is offered:
 *
 *   in the scheduler    tasks that wait there, for resources that are in use, or that this node
 *                       does not have: then they are offered at once
 *   held here           tasks that are to be spread, that prefer another node, or whose arguments
 *                       are there (`hint`, locality.h): the leader says where each runs, which may
 *                       be here (`keep`)
 *   in a group          tasks that wait for bundles of a placement group, some of which are on
 *                       other nodes: an offer for each such node. As many are sent as these
 *                       bundles can run at once. There they wait again, if others were sent there;
 *                       and they may wait for those that are here: so one more goes each EXTRA_NS
 *   in queues           of a lane whose request for one more lease waits, so that all of its CPUs
 *                       are in use. The daemon takes them as a worker would. Not if they are short
 *                       (pace.h)
 *
 * Only tasks that node_forward_may lets go: what makes or calls an actor stays.
 * They stand among the others. So the number that the room is told is that of the tasks behind the
 * first that may go, and too high if more of them may not: it asks for a place too many then.
 *
 * An offer is made when its first task waits, and goes when it was not used for a while.
 */
#include "node/cluster/offer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/cluster/cluster.h"
#include "node/cluster/group_over.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/locality.h"
#include "node/forward.h"
#include "node/state.h"
#include "sched/selector.h"

enum { WALK_MAX = 256 }; /* tasks that are looked at, for one that may go */

static const uint64_t IDLE_NS = 1000000000;
static const uint64_t EXTRA_NS = 100000000;
static const char NODE_LABEL[] = "ray.io/node-id=";

typedef struct {
    uint32_t job, shape;
    uint64_t hint;
} offer_key_t;

static offer_key_t key_of(const node_job_t *job, uint32_t shape, uint64_t hint) {
    return (offer_key_t){job->number, shape, hint};
}

/* ---- what is asked for ---- */

/* The selector without the mark of one that must hold, or need not. */
static const char *terms_of(const char *selector) {
    bool is_marked = selector != NULL && (selector[0] == '!' || selector[0] == '~');
    return is_marked ? selector + 1 : selector;
}

static bool is_soft(const char *selector) { return selector != NULL && selector[0] == '~'; }

/* The node that the selector names; 0: it asks for something else. */
static uint64_t node_of(const char *terms) {
    char *end;
    size_t label = sizeof NODE_LABEL - 1;
    if (terms == NULL || strncmp(terms, NODE_LABEL, label) != 0) return 0;
    uint64_t node = strtoull(terms + label, &end, 16);
    return *end == 0 && end == terms + label + 16 ? node : 0;
}

/* What the bundles have is not the node's to give any more: nothing is asked for. */
static bool group_lane_make(node_cluster_t *c, node_offer_t *o) {
    place_demand_t demand = {.job = node_guestjob_id(o->job),
                             .strategy = PLACE_NODE,
                             .node = o->hint,
                             .is_local = o->is_local};
    return place_lane_new(c->placing.place, &demand, o, &o->lane) == MOB_OK;
}

static bool lane_make(node_cluster_t *c, node_offer_t *o) {
    sched_amount_t needs[SCHED_NEEDS_MAX];
    frame_amount_t amounts[PLACE_NAMES_MAX];
    size_t count = sched_shape_demand(o->job->sched, o->shape, needs, SCHED_NEEDS_MAX);
    if (count > PLACE_NAMES_MAX) return false;
    for (size_t i = 0; i < count; i++)
        amounts[i] = (frame_amount_t){.name = needs[i].name, .amount = needs[i].amount};
    const sched_where_t *where = sched_shape_where(o->job->sched, o->shape);
    const char *terms = terms_of(where->selector);
    uint64_t named = node_of(terms);
    bool spreads = named == 0 && (where->flags & MOB_WHERE_SPREAD);
    place_demand_t demand = {.job = node_guestjob_id(o->job),
                             .amounts = amounts,
                             .count = count,
                             .strategy = named != 0 ? PLACE_NODE
                                         : spreads  ? PLACE_SPREAD
                                                    : PLACE_ANY,
                             .is_soft = is_soft(where->selector),
                             .node = named,
                             .selector = named != 0 ? NULL : terms,
                             .hint = o->hint,
                             .is_local = o->is_local};
    return place_lane_new(c->placing.place, &demand, o, &o->lane) == MOB_OK;
}

/* ---- their life ---- */

void node_offers_start(node_offers_t *offers) {
    base_map_init(&offers->by_shape, sizeof(offer_key_t));
}

void node_offers_end(node_offers_t *offers) {
    for (size_t i = 0; i < offers->items.count; i++) free(offers->items.items[i]);
    vec_free(&offers->items);
    base_map_fini(&offers->by_shape);
}

static bool is_offered(const node_job_t *job, uint32_t shape) {
    const sched_where_t *where = sched_shape_where(job->sched, shape);
    return where->group == NULL && !(where->flags & NODE_WHERE_REMOVED);
}

static node_offer_t *offer_new(node_cluster_t *c, node_job_t *job, uint32_t shape, uint64_t hint) {
    node_offers_t *all = &c->placing.offers;
    offer_key_t key = key_of(job, shape, hint);
    node_offer_t *o = calloc(1, sizeof *o);
    if (o == NULL || !base_map_put(&all->by_shape, &key, o)) {
        free(o);
        return NULL;
    }
    o->job = job;
    o->shape = shape;
    o->hint = hint;
    const sched_group_t *group = sched_shape_where(job->sched, shape)->group;
    if (group != NULL) {
        const node_group_t *g = sched_group_user(group);
        o->in_group = true;
        o->capacity = node_group_capacity(g, job->sched, shape, hint);
        o->is_local = node_group_capacity(g, job->sched, shape, job->node->incarnation) > 0;
    } else {
        o->holds = hint != 0 || node_offer_holds(job, shape);
        o->is_local = !o->holds && sched_shape_fits_ever(job->sched, shape);
    }
    if (!vec_push(&all->items, o)) {
        (void)base_map_remove(&all->by_shape, &key);
        free(o);
        return NULL;
    }
    sched_shape_hold(job->sched, shape);
    (void)(o->in_group ? group_lane_make(c, o) : lane_make(c, o));
    return o;
}

/* NULL: not this, or no memory: it waits here. */
static node_offer_t *offer_open(node_job_t *job, uint32_t shape, uint64_t hint) {
    node_cluster_t *c = job->node->cluster;
    offer_key_t key = key_of(job, shape, hint);
    if (c == NULL || c->placing.place == NULL) return NULL;
    node_offer_t *o = base_map_get(&c->placing.offers.by_shape, &key);
    bool in_group = sched_shape_where(job->sched, shape)->group != NULL;
    if (o != NULL || job->farewell.leaving || !(in_group ? hint != 0 : is_offered(job, shape)))
        return o;
    return offer_new(c, job, shape, hint);
}

static void offer_free(node_cluster_t *c, size_t at) {
    node_offer_t *o = c->placing.offers.items.items[at];
    offer_key_t key = key_of(o->job, o->shape, o->hint);
    if (o->lane != NULL) place_lane_free(c->placing.place, o->lane);
    sched_shape_drop(o->job->sched, o->shape);
    (void)base_map_remove(&c->placing.offers.by_shape, &key);
    vec_swap_remove(&c->placing.offers.items, at);
    free(o);
}

void node_offers_forget(node_job_t *job) {
    node_cluster_t *c = job->node->cluster;
    if (c == NULL || c->placing.place == NULL) return;
    for (size_t i = c->placing.offers.items.count; i-- > 0;)
        if (c->placing.offers.items.items[i]->job == job) offer_free(c, i);
}

/* One for each node that may run it; or none, if it is not to be met in a group. */
static void shape_offer(node_job_t *job, uint32_t shape) {
    const sched_group_t *in = sched_shape_where(job->sched, shape)->group;
    const node_group_t *g = in != NULL ? sched_group_user(in) : NULL;
    if (in == NULL) (void)offer_open(job, shape, 0);
    for (size_t i = 0; g != NULL && g->over != NULL && i < g->over->others.count; i++)
        if (node_placing_peer(job->node->cluster, g->over->others.items[i]) != NULL)
            (void)offer_open(job, shape, g->over->others.items[i]);
}

void node_offer_note(const node_task_t *t) {
    if (t->job->node->cluster != NULL && node_forward_may(t)) shape_offer(t->job, t->shape);
}

void node_offers_regroup(const node_group_t *g) {
    node_offers_t *all = &g->node->cluster->placing.offers;
    for (size_t i = 0; i < all->items.count; i++) {
        node_offer_t *o = all->items.items[i];
        if (sched_shape_where(o->job->sched, o->shape)->group == g->sched)
            o->capacity = node_group_capacity(g, o->job->sched, o->shape, o->hint);
    }
}

/* ---- held ---- */

bool node_offer_holds(const node_job_t *job, uint32_t shape) {
    const node_cluster_t *c = job->node->cluster;
    if (c == NULL || c->placing.place == NULL) return false;
    const sched_where_t *where = sched_shape_where(job->sched, shape);
    if (where->group != NULL) return false;
    if (where->flags & MOB_WHERE_SPREAD) return true;
    uint64_t named = is_soft(where->selector) ? node_of(terms_of(where->selector)) : 0;
    return named != 0 && node_placing_peer(c, named) != NULL;
}

bool node_offer_hold(node_task_t *t) {
    const node_cluster_t *c = t->job->node->cluster;
    if (t->held_by != NULL) return true;
    if (c == NULL || c->placing.place == NULL || c->placing.peers.count == 0 ||
        c->placing.leader == 0 || t->kept || !node_forward_may(t))
        return false;
    uint64_t hint = node_locality_hint(t);
    if (hint == 0 && !node_offer_holds(t->job, t->shape)) return false;
    node_offer_t *o = offer_open(t->job, t->shape, hint);
    if (o == NULL || o->lane == NULL || !o->holds) return false;
    t->held_by = o;
    t->next = NULL;
    t->prev = o->tail;
    *(o->tail != NULL ? &o->tail->next : &o->head) = t;
    o->tail = t;
    o->held++;
    return true;
}

void node_offer_unhold(node_task_t *t) {
    node_offer_t *o = t->held_by;
    if (o == NULL) return;
    *(t->prev != NULL ? &t->prev->next : &o->head) = t->next;
    *(t->next != NULL ? &t->next->prev : &o->tail) = t->prev;
    t->held_by = NULL;
    t->next = t->prev = NULL;
    o->held--;
}

void node_offer_keep(node_offer_t *o, uint32_t count) {
    node_t *n = o->job->node;
    for (; count > 0 && o->head != NULL; count--) {
        node_task_t *t = o->head;
        node_offer_unhold(t);
        t->kept = true;
        node_task_ready(t, n);
    }
    n->again = true;
}

void node_offers_release(node_cluster_t *c) {
    for (size_t i = 0; i < c->placing.offers.items.count; i++)
        node_offer_keep(c->placing.offers.items.items[i], UINT32_MAX);
}

/* ---- how many wait ---- */

/* A lane's or a group's request stands among the tasks. */
static bool may_go(const sched_task_t *q) {
    const node_ask_t *ask = (const node_ask_t *)q;
    return ask->lane_of == NULL && ask->group == NULL && node_forward_may((const node_task_t *)q);
}

/* The first in the scheduler that may go; *ret_before: how many stand before it. NULL: none of the
 * first WALK_MAX may. */
static sched_task_t *first_of(const node_offer_t *o, size_t *ret_before) {
    sched_task_t *q = sched_task_behind(o->job->sched, o->shape, NULL);
    for (*ret_before = 0; q != NULL && *ret_before < WALK_MAX; ++*ret_before) {
        if (may_go(q)) return q;
        q = sched_task_behind(o->job->sched, o->shape, q);
    }
    return NULL;
}

/* The lane of that shape, if it asks for more CPUs than it can get; SHM_LANES: there is none. */
static uint32_t lane_of(const node_offer_t *o) {
    uint32_t l = 0;
    while (l < SHM_LANES && (o->job->lanes[l].shape != o->shape ||
                             !o->job->lanes[l].request.queued || o->job->lanes[l].closed))
        l++;
    return l;
}

/* How many more may be sent now, of one in a group. */
static uint32_t group_room(const node_offer_t *o) {
    uint32_t most = o->capacity + o->extra;
    bool is_there = node_placing_peer(o->job->node->cluster, o->hint) != NULL;
    return is_there && most > o->sent ? most - o->sent : 0;
}

/* In the queues of its lane, unless they are so short that this node is best for them. */
static uint64_t lane_waiting(node_offer_t *o, uint64_t now) {
    uint32_t l = lane_of(o);
    uint64_t queued = l < SHM_LANES ? node_lane_queued(o->job, l) : 0;
    if (queued == 0 || !o->is_local || !node_pace_is_quick(&o->pace, o->job, l, now)) return queued;
    o->job->node->cluster->placing.offers.is_quick = true;
    return 0;
}

static uint32_t waiting_of(node_offer_t *o, uint64_t now) {
    if (o->job->farewell.leaving) return 0;
    if (o->holds) return o->held;
    size_t before;
    uint64_t count = 0;
    if (first_of(o, &before) != NULL) count = sched_queued(o->job->sched, o->shape) - before;
    count += lane_waiting(o, now);
    if (o->in_group && count > group_room(o)) count = group_room(o);
    return count < PLACE_WANT_MAX ? (uint32_t)count : PLACE_WANT_MAX;
}

/* Whether one more is due. */
static void group_grow(node_offer_t *o, uint64_t now) {
    if (o->sent < o->capacity) {
        o->extra = 0;
        o->full_ns = 0;
    } else if (o->full_ns == 0) {
        o->full_ns = now;
    } else if (now - o->full_ns >= EXTRA_NS && o->capacity > 0 && group_room(o) == 0) {
        o->extra++;
        o->full_ns = now;
    }
}

/* Lanes whose tasks have no books: nobody has noted them. */
static void lanes_look(node_t *n) {
    NODE_EACH_JOB(n, job)
    for (uint32_t l = 0; l < SHM_LANES; l++)
        if (job->lanes[l].shape != 0 && job->lanes[l].request.queued)
            shape_offer(job, job->lanes[l].shape);
}

void node_offers_settle(node_cluster_t *c) {
    uint64_t now = base_clock_mono_ns();
    lanes_look(c->node);
    c->placing.offers.is_quick = false;
    for (size_t i = c->placing.offers.items.count; i-- > 0;) {
        node_offer_t *o = c->placing.offers.items.items[i];
        if (o->in_group) group_grow(o, now);
        uint32_t waiting = o->lane != NULL ? waiting_of(o, now) : 0;
        /* said also if it is as before: the room counts for itself what it takes and puts back */
        if (o->lane != NULL) place_lane_waiting(c->placing.place, o->lane, waiting, now);
        if (waiting > 0 || o->sent > 0)
            o->idle_ns = 0;
        else if (o->idle_ns == 0)
            o->idle_ns = now;
        else if (now - o->idle_ns > IDLE_NS)
            offer_free(c, i);
    }
}

/* ---- taking one ---- */

static node_task_t *queue_take(node_t *n, uint32_t number, uint32_t client) {
    shm_queue_t *queue = &n->queues[number];
    uint64_t position, entry;
    /* bounded: the client goes on pushing, and workers go on taking */
    for (uint64_t k = shm_queue_count(queue); k > 0; k--) {
        if (!shm_queue_peek(queue, &position, &entry)) return NULL;
        node_task_t *t = node_task_take_over(n, wire_entry_index(entry), entry, client);
        shm_queue_pass(queue, position);
        if (t == NULL || t->missing > 0) continue; /* the latter is ready when its arguments are */
        if (node_forward_may(t)) return t;
        node_task_ready(t, n);
    }
    return NULL;
}

static node_task_t *lane_take(const node_job_t *job, uint32_t lane) {
    node_t *n = job->node;
    for (uint32_t i = 1; i < n->client_next; i++) {
        if (n->clients[i] == NULL || n->clients[i]->job != job) continue;
        node_task_t *t = queue_take(n, shm_lane_queue(lane, i), i);
        if (t != NULL) return t;
    }
    return NULL;
}

node_task_t *node_offer_take(node_offer_t *o) {
    node_task_t *held = o->head;
    size_t before;
    if (held != NULL) {
        node_offer_unhold(held);
        return held;
    }
    if (o->holds || (o->in_group && group_room(o) == 0)) return NULL;
    sched_task_t *q = first_of(o, &before);
    if (q != NULL) {
        sched_task_remove(o->job->node->sched, q);
        return (node_task_t *)q;
    }
    uint32_t l = lane_of(o);
    return l < SHM_LANES ? lane_take(o->job, l) : NULL;
}

/* ---- other nodes ---- */

static bool row_has(const node_row_t *row, const sched_amount_t *need) {
    for (size_t i = 0; i < row->count; i++)
        if (strcmp(row->totals[i].name, need->name) == 0)
            return row->totals[i].amount >= need->amount;
    return false;
}

bool node_offer_fits_at(const node_job_t *job, uint32_t shape, uint64_t node) {
    node_t *n = job->node;
    const node_row_t *row = node_roster_find(&n->cluster->roster, node);
    if (row == NULL || row->until_ms != 0 || node == n->incarnation || !is_offered(job, shape))
        return false;
    const char *selector = sched_shape_where(job->sched, shape)->selector;
    sched_amount_t needs[SCHED_NEEDS_MAX];
    if (!is_soft(selector) && !sched_selector_matches(terms_of(selector), row->labels))
        return false;
    size_t count = sched_shape_demand(job->sched, shape, needs, SCHED_NEEDS_MAX), k = 0;
    while (k < count && row_has(row, &needs[k])) k++;
    return k == count;
}

bool node_offer_fits_elsewhere(const node_job_t *job, uint32_t shape) {
    const node_cluster_t *c = job->node->cluster;
    for (size_t i = 0; c != NULL && i < c->roster.order.count; i++)
        if (node_offer_fits_at(job, shape, c->roster.order.items[i]->incarnation)) return true;
    return false;
}
