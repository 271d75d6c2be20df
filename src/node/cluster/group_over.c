/*
 * Where bundles are is said by the home alone: the room group tells it, and it tells those that
 * have asked. A bundle that can be used stays at its node until that dies or the group ends. So who
 * knows an old place knows a dead node, to which nothing is sent.
 *
 * A node that only holds bundles, and was not told where the others are, runs what comes to it.
 */
#include "node/cluster/group_over.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/cluster/acting.h"
#include "node/cluster/cluster.h"
#include "node/cluster/group_guest.h"
#include "node/cluster/group_home.h"
#include "node/forward.h"
#include "node/state.h"
#include "sched/selector.h"

node_group_over_t *node_group_over_new(node_group_t *g, frame_id_t id) {
    node_group_over_t *over = calloc(1, sizeof *over);
    if (over != NULL) over->id = id;
    g->over = over;
    return over;
}

void node_group_over_free(node_group_t *g) {
    if (g->over == NULL) return;
    free(g->over->nodes);
    free(g->over->turns);
    vec_free(&g->over->others);
    vec_free(&g->over->watchers);
    free(g->over);
    g->over = NULL;
}

frame_id_t node_group_id(const node_group_t *g) {
    if (g->over != NULL) return g->over->id;
    return (frame_id_t){
        .home = g->node->incarnation, .number = g->id.slot, .generation = g->id.generation};
}

void node_group_id_text(const node_group_t *g, char text[2 * MOB_ID_SIZE + 1]) {
    frame_id_t id = node_group_id(g);
    snprintf(text, 2 * MOB_ID_SIZE + 1, "%016llx%08x%016llx", (unsigned long long)id.home,
             id.number, (unsigned long long)id.generation);
}

bool node_group_is_guest(const node_group_t *g) {
    return g->over != NULL && g->over->id.home != g->node->incarnation;
}

node_group_t *node_group_known(node_t *n, frame_id_t id) {
    if (id.home == n->incarnation) return node_group_find(n, node_proxy_find(n, id));
    if (n->cluster == NULL || n->cluster->grouping.room == NULL) return NULL;
    node_acting_key_t key = node_acting_key(id);
    return base_map_get(&n->cluster->grouping.guests, &key);
}

/* ---- where its bundles are ---- */

static bool others_add(node_group_over_t *over, uint64_t node) {
    for (size_t i = over->others.count; i-- > 0;)
        if (over->others.items[i] == node) return true;
    return vec_push(&over->others, node);
}

bool node_group_places_set(node_group_t *g, const uint64_t *nodes, size_t count) {
    node_group_over_t *over = g->over;
    size_t bundles = sched_group_bundles(g->sched);
    uint64_t *places = count == 1 || count == bundles ? malloc(bundles * sizeof *places) : NULL;
    if (places == NULL) return false;
    for (size_t b = 0; b < bundles; b++) places[b] = nodes[count == 1 ? 0 : b];
    bool is_whole = true;
    over->others.count = 0;
    for (size_t b = 0; b < bundles; b++)
        if (places[b] != g->node->incarnation) is_whole &= others_add(over, places[b]);
    free(over->nodes);
    over->nodes = places;
    if (!is_whole) /* what could go there waits */
        node_cluster_trouble(g->node->cluster, "no memory for the places of a placement group");
    node_offers_regroup(g);
    node_group_stir(g);
    return true;
}

uint64_t node_group_place_of(const node_group_t *g, uint32_t bundle) {
    if (g->over != NULL && g->over->nodes != NULL) return g->over->nodes[bundle];
    return sched_bundle_is_held(g->sched, bundle) ? g->node->incarnation : 0;
}

uint32_t node_group_capacity(const node_group_t *g, const sched_job_t *job, uint32_t shape,
                             uint64_t node) {
    uint64_t sum = 0;
    int32_t asked = sched_shape_where(job, shape)->bundle;
    uint32_t first = asked >= 0 ? (uint32_t)asked : 0;
    uint32_t end = asked >= 0 ? first + 1 : (uint32_t)sched_group_bundles(g->sched);
    for (uint32_t b = first; b < end; b++)
        if (node_group_place_of(g, b) == node) sum += sched_bundle_capacity(job, shape, b);
    return sum < PLACE_WANT_MAX ? (uint32_t)sum : PLACE_WANT_MAX;
}

static bool is_there(const node_group_t *g, uint64_t node) {
    return node == g->node->incarnation || node_placing_peer(g->node->cluster, node) != NULL;
}

uint64_t node_group_pick(node_group_t *g, const sched_job_t *job, uint32_t shape, bool may_stay) {
    uint64_t self = g->node->incarnation;
    size_t count = g->over->others.count + 1; /* this one is the last */
    for (size_t i = 0; i < count; i++) {
        size_t at = (size_t)(g->over->turn++ % count);
        uint64_t node = at < g->over->others.count ? g->over->others.items[at] : self;
        if ((node != self || may_stay) && is_there(g, node) &&
            node_group_capacity(g, job, shape, node) > 0)
            return node;
    }
    return 0;
}

uint64_t node_group_bundle_node(node_group_t *g, int32_t bundle) {
    uint32_t count = (uint32_t)sched_group_bundles(g->sched);
    if (bundle >= 0 && (uint32_t)bundle >= count) return 0;
    for (uint32_t i = 0; i < (bundle < 0 ? count : 1); i++) {
        uint64_t turn = g->over != NULL ? g->over->turn++ : i;
        uint64_t node =
            node_group_place_of(g, (uint32_t)(bundle < 0 ? turn % count : (uint64_t)bundle));
        if (node != 0 && is_there(g, node)) return node;
    }
    return 0;
}

node_group_t *node_group_over_of(const node_task_t *t) {
    const sched_where_t *where = sched_shape_where(t->job->sched, t->shape);
    node_group_t *g = where->group != NULL && !sched_group_is_removed(where->group)
                          ? sched_group_user(where->group)
                          : NULL;
    return g != NULL && g->over != NULL && g->over->nodes != NULL ? g : NULL;
}

/* Creations leave by themselves (actor_stub.c), unless they were sent here or are made again. */
static bool may_go(const node_task_t *t) {
    if (t->kind != MOB_ACTOR_CREATE) return node_forward_may(t);
    return t->actor == NULL || (t->actor->seat == NULL && !t->actor->life.made);
}

bool node_group_bars(const node_task_t *t, const char **ret_words) {
    const node_group_t *g = node_group_over_of(t);
    if (g == NULL || may_go(t)) return false;
    if (node_group_capacity(g, t->job->sched, t->shape, g->node->incarnation) > 0) return false;
    *ret_words = t->kind == MOB_ACTOR_CREATE
                     ? "The bundle of the placement group that the actor asks for is not on this "
                       "node any more."
                     : "The bundle of the placement group that the task asks for is on another "
                       "node, and this task can't go there: it was sent here from another node, "
                       "or makes a lost object again.";
    return true;
}

/* ---- set aside here ---- */

static node_bundle_turn_t *turn_of(const node_group_t *g, const group_key_t *key) {
    if (g->over == NULL || g->over->turns == NULL || key->bundle >= sched_group_bundles(g->sched))
        return NULL;
    node_bundle_turn_t *turn = &g->over->turns[key->bundle];
    bool is_it = turn->is_here && turn->fence == key->fence && turn->attempt == key->attempt;
    return is_it ? turn : NULL;
}

bool node_bundle_reserve(node_group_t *g, const group_key_t *key, const char *selector) {
    node_t *n = g->node;
    if (key->bundle >= sched_group_bundles(g->sched) || node_is_paused(n)) return false;
    if (*selector != 0 && !sched_selector_matches(selector, sched_labels(n->sched))) return false;
    if (g->over->turns == NULL)
        g->over->turns = calloc(sched_group_bundles(g->sched), sizeof *g->over->turns);
    if (g->over->turns == NULL) return false;
    if (!sched_bundle_reserve(g->sched, key->bundle)) {
        node_leases_take_free(n); /* of workers that have nothing to do */
        if (!sched_bundle_reserve(g->sched, key->bundle)) return false;
    }
    g->over->turns[key->bundle] =
        (node_bundle_turn_t){.fence = key->fence, .attempt = key->attempt, .is_here = true};
    return true;
}

void node_bundle_commit(node_group_t *g, const group_key_t *key) {
    if (sched_group_is_removed(g->sched) || turn_of(g, key) == NULL ||
        sched_bundle_is_open(g->sched, key->bundle))
        return; /* it has ended meanwhile, or it is said again */
    sched_bundle_open(g->sched, key->bundle);
    g->node->again = true;
}

bool node_bundle_release(node_group_t *g, const group_key_t *key) {
    node_bundle_turn_t *turn = turn_of(g, key);
    if (turn == NULL) return false;
    turn->is_here = false;
    bool was_open = sched_bundle_is_open(g->sched, key->bundle);
    sched_bundle_close(g->sched, key->bundle);
    g->node->again = true;
    return was_open;
}

bool node_group_has_bundles(const node_group_t *g) {
    for (uint32_t b = 0; b < sched_group_bundles(g->sched); b++)
        if (sched_bundle_is_held(g->sched, b)) return true;
    return false;
}

/* ---- what the book tells ---- */

void node_group_over_tell(node_group_t *g) {
    if (g->over != NULL && !node_group_is_guest(g)) node_group_home_tell(g);
}

void node_group_over_end(node_group_t *g) {
    if (g->over == NULL) return;
    if (node_group_is_guest(g))
        node_group_guest_ended(g);
    else
        node_group_home_ended(g);
}
