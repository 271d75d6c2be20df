/*
 * Groups that were made here.
 *
 *   here      its request waits in this node's scheduler, and all bundles are set aside at once, as
 *             on a node that is alone: no message, no question. So is a group that may be on one
 *             node, and fits on this one
 *   over      the room group has it (is_shared): it places it over the nodes, this one among them,
 *             and again what a dead node had. Its state is what the room tells
 *
 *   from   to     by
 *   here   over   there are other nodes, and it can't ever be placed here, or is to be spread, or
 *                 has waited here for LEAVES_NS
 *
 * It never comes back. The room knows it by no name, as a group of a job that ends with this node:
 * names are name.c's, and what ends a group, its job's end among them, ends it book by book.
 *
 * Other nodes know it because they hold bundles of it, or because a process there has its id: then
 * that node asks (GROUPING_ASK), and is told how it stands now and at each change. The first word
 * brings the object that names the group, which that node holds from then on.
 *
 *     TELL   id | first 1 | state 1 | job 4 | made 8 | placed 8 | count 4 | nodes 8 each: one for
 *            each bundle, one for all, or none | name and namespace with their zeros | the spec,
 *            without its value
 *
 * Why the order suffices: a TELL, all later ones and GONE go by one link. A node that is told READY
 * was not told so before each holder had said that its bundles can be used, so what it sends there
 * finds them. At the end holders are told, too, besides the room, which needs Redis for it: a
 * bundle is given back by whichever word comes first, and by that alone.
 */
#include "node/cluster/group_home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/group_fit.h"
#include "node/cluster/group_over.h"
#include "node/cluster/post.h"
#include "node/group_spec.h"
#include "node/state.h"

static const uint64_t LEAVES_NS = 250000000;

static mob_group_t head_of(const node_group_t *g) {
    mob_group_t head;
    memcpy(&head, g->spec, sizeof head);
    return head;
}

static bool is_spread(const node_group_t *g) {
    mob_group_t head = head_of(g);
    return head.bundles > 1 && (head.strategy == MOB_SPREAD || head.strategy == MOB_STRICT_SPREAD);
}

/* ---- it goes over nodes ---- */

/* The room's words for it; `amounts` and `bundles` have space for all. */
static void want_write(const node_group_wants_t *wants, frame_amount_t *amounts,
                       group_bundle_t *bundles) {
    for (uint32_t b = 0; b < wants->head.bundles; b++) {
        const sched_bundle_want_t *from = &wants->bundles[b];
        bundles[b] = (group_bundle_t){.demand = {.items = amounts},
                                      .selector = from->selector != NULL ? from->selector : ""};
        for (size_t k = 0; k < from->count; k++)
            if (from->demand[k].amount > 0)
                amounts[bundles[b].demand.count++] = (frame_amount_t){
                    .name = from->demand[k].name, .amount = from->demand[k].amount};
        amounts += from->count;
    }
}

static mob_status_t room_create(node_group_t *g) {
    node_group_wants_t wants;
    mob_status_t status = node_group_wants_read(g->spec, g->spec_size, &wants);
    if (status != MOB_OK) return status;
    size_t lines = 1;
    for (uint32_t b = 0; b < wants.head.bundles; b++) lines += wants.bundles[b].count;
    frame_amount_t *amounts = calloc(lines, sizeof *amounts);
    group_bundle_t *bundles = calloc(wants.head.bundles, sizeof *bundles);
    status = amounts != NULL && bundles != NULL ? MOB_OK : MOB_ENOMEM;
    if (status == MOB_OK) {
        want_write(&wants, amounts, bundles);
        group_want_t want = {.id = node_group_id(g),
                             .job = {.home = g->node->incarnation, .number = g->job_number},
                             .strategy = (mob_strategy_t)wants.head.strategy,
                             .name_space = "",
                             .name = "",
                             .bundles = bundles,
                             .count = wants.head.bundles};
        status = group_create(g->node->cluster->grouping.room, &want);
    }
    free(amounts);
    free(bundles);
    node_group_wants_free(&wants);
    return status;
}

/* The group may have ended afterwards. False: no memory, and it is as it was. */
static bool leave(node_group_t *g) {
    if (g->over == NULL && node_group_over_new(g, node_group_id(g)) == NULL) return false;
    bool has_waited = g->request.queued;
    sched_task_remove(g->node->sched, &g->request);
    g->over->is_shared = true;
    mob_status_t status = room_create(g);
    if (status == MOB_OK) return true;
    g->over->is_shared = false;
    if (status == MOB_ENOMEM) {
        if (has_waited) sched_task_readd(g->node->sched, &g->request);
        return false;
    }
    node_group_end(g, "it asks for more different bundles than can be placed over nodes; make "
                      "several groups");
    return true;
}

static bool has_others(const node_t *n) {
    return n->cluster != NULL && n->cluster->grouping.room != NULL &&
           n->cluster->placing.peers.count > 0;
}

static void never_warn(const node_group_t *g, const node_job_t *maker) {
    node_job_warn(maker,
                  "The placement group %s asks for what the nodes of the cluster do not have%s. It "
                  "waits until that changes; until then it can't be placed.",
                  *g->name ? g->name : "(without a name)",
                  head_of(g).strategy == MOB_STRICT_SPREAD
                      ? ", or for more of them than there are: it is STRICT_SPREAD"
                  : head_of(g).strategy == MOB_STRICT_PACK ? " on one of them: it is STRICT_PACK"
                                                           : "");
}

bool node_group_leaves(node_group_t *g, const node_job_t *maker) {
    node_t *n = g->node;
    if (!has_others(n) || (sched_group_fits_ever(g->sched) && !is_spread(g))) return false;
    mob_ref_t id = g->id;
    if (!leave(g)) return false;
    g = node_group_find(n, id);
    if (g != NULL && maker != NULL && !node_group_is_possible(g)) never_warn(g, maker);
    return true;
}

/* Whether it has waited here for too long, or for nothing. */
static bool is_to_leave(const node_group_t *g, uint64_t now) {
    if (node_group_is_guest(g) || g->state != NODE_GROUP_PENDING || g->naming ||
        (g->over != NULL && g->over->is_shared))
        return false;
    return is_spread(g) || !g->request.queued || now - g->request.since_ns >= LEAVES_NS;
}

void node_group_homes_tick(node_cluster_t *c) {
    node_groups_t *groups = &c->node->groups;
    uint64_t now = base_clock_mono_ns();
    while (c->grouping.unremoved.count > 0) {
        frame_id_t id = vec_pop(&c->grouping.unremoved);
        if (group_remove(c->grouping.room, &id) == MOB_OK) continue;
        (void)vec_push(&c->grouping.unremoved, id); /* there is room: one was taken */
        break;
    }
    for (size_t i = groups->items.count; has_others(c->node) && i-- > 0;)
        if (i < groups->items.count && is_to_leave(groups->items.items[i], now))
            (void)leave(groups->items.items[i]);
}

/* ---- what the room says ---- */

void node_group_home_told(node_cluster_t *c, frame_id_t id, group_state_t state,
                          const uint64_t *nodes, size_t count) {
    node_group_t *g = id.home == c->node->incarnation ? node_group_known(c->node, id) : NULL;
    if (g == NULL || g->over == NULL || !g->over->is_shared) return; /* it has ended since */
    switch (state) {
    case GROUP_WAITING:
        break;
    case GROUP_READY:
        if (!node_group_places_set(g, nodes, count))
            node_cluster_trouble(
                c, "the places of a placement group make no sense, or there is no memory for them");
        node_group_made(g);
        break;
    case GROUP_RESCHEDULING:
        g->state = NODE_GROUP_RESCHEDULING;
        node_group_home_tell(g);
        break;
    case GROUP_REMOVED:
    case GROUP_NAME_TAKEN:
        g->over->is_shared = false;
        node_group_end(g, "by ray.util.remove_placement_group");
    }
}

/* ---- what others are told ---- */

static void tell_write(const node_group_t *g, bool is_first, base_writer_t *w) {
    const node_group_over_t *over = g->over;
    mob_group_t head = head_of(g);
    bool is_here = over->nodes == NULL && g->state == NODE_GROUP_CREATED;
    uint32_t count = is_here ? 1 : over->nodes != NULL ? head.bundles : 0;
    frame_id_put(w, over->id);
    base_put_number(w, is_first, 1);
    base_put_number(w, g->state, 1);
    base_put_number(w, g->job_number, 4);
    base_put_number(w, g->made_ns, 8);
    base_put_number(w, g->placed_ns, 8);
    base_put_number(w, count, 4);
    for (uint32_t i = 0; i < count; i++)
        base_put_number(w, is_here ? g->node->incarnation : over->nodes[i], 8);
    base_put_bytes(w, g->name, strlen(g->name) + 1);
    base_put_bytes(w, g->name_space, strlen(g->name_space) + 1);
    size_t value_size = head.value_size;
    head.value_size = 0;
    base_put_bytes(w, &head, sizeof head);
    base_put_bytes(w, g->spec + sizeof head, g->spec_size - sizeof head - value_size);
}

static mob_status_t tell(node_group_t *g, uint64_t peer, bool is_first) {
    node_cluster_t *c = g->node->cluster;
    uint8_t kind = GROUPING_TELL;
    base_writer_t count = {0};
    tell_write(g, is_first, &count);
    base_writer_t w = {.bytes = malloc(count.size)};
    if (w.bytes == NULL) return MOB_ENOMEM;
    tell_write(g, is_first, &w);
    node_letter_parts_t parts = {&kind, w.bytes, sizeof kind, w.size};
    frame_id_t id = g->over->id;
    mob_status_t status = is_first
                              ? node_post_send_refs(c, peer, POST_GROUP, &parts, &id, 1, NULL, true)
                              : node_post_send(c, peer, POST_GROUP, &parts, true);
    free(w.bytes);
    return status;
}

void node_group_home_tell(node_group_t *g) {
    for (size_t i = 0; i < g->over->watchers.count; i++)
        if (tell(g, g->over->watchers.items[i], false) == MOB_ENOMEM)
            node_cluster_trouble(g->node->cluster,
                                 "no memory to tell node %016llx of a placement group",
                                 (unsigned long long)g->over->watchers.items[i]);
}

static bool is_watcher(const node_group_t *g, uint64_t peer) {
    for (size_t i = 0; g->over != NULL && i < g->over->watchers.count; i++)
        if (g->over->watchers.items[i] == peer) return true;
    return false;
}

static mob_status_t answer(node_group_t *g, uint64_t peer) {
    if (g->over == NULL && node_group_over_new(g, node_group_id(g)) == NULL) return MOB_ENOMEM;
    if (!is_watcher(g, peer) && !vec_push(&g->over->watchers, peer)) return MOB_ENOMEM;
    mob_status_t status = tell(g, peer, true);
    if (status == MOB_OK || status == MOB_ECLOSED) return MOB_OK;
    g->over->watchers.count--; /* it was the last that came */
    return status;
}

/* Its creation was pushed before its id was given away: so it was read once all rings were. */
mob_status_t node_group_home_asked(node_cluster_t *c, uint64_t peer, frame_id_t id) {
    node_group_t *g = node_group_known(c->node, id);
    if (g != NULL) return answer(g, peer);
    c->node->again = true;
    node_grouping_early_t early = {.peer = peer, .round = c->node->round, .id = id};
    return vec_push(&c->grouping.early, early) ? MOB_OK : MOB_ENOMEM;
}

void node_group_homes_settle(node_cluster_t *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->grouping.early.count; i++) {
        node_grouping_early_t e = c->grouping.early.items[i];
        node_group_t *g = node_group_known(c->node, e.id);
        if (g == NULL && e.round < c->node->round)
            node_grouping_say(c, e.peer, GROUPING_GONE, e.id);
        else if (g == NULL || answer(g, e.peer) != MOB_OK)
            c->grouping.early.items[kept++] = e;
    }
    c->grouping.early.count = kept;
    c->node->again |= kept > 0;
}

/* ---- its end ---- */

void node_group_home_ended(node_group_t *g) {
    node_cluster_t *c = g->node->cluster;
    node_group_over_t *over = g->over;
    for (size_t i = 0; i < over->watchers.count; i++)
        node_grouping_say(c, over->watchers.items[i], GROUPING_GONE, over->id);
    for (size_t i = 0; i < over->others.count; i++)
        if (!is_watcher(g, over->others.items[i]))
            node_grouping_say(c, over->others.items[i], GROUPING_GONE, over->id);
    if (!over->is_shared) return;
    over->is_shared = false;
    if (group_remove(c->grouping.room, &over->id) != MOB_OK &&
        !vec_push(&c->grouping.unremoved, over->id))
        node_cluster_trouble(c, "no memory to remove a placement group: its bundles stay");
    c->node->again = true;
}

void node_group_homes_died(node_cluster_t *c, uint64_t peer) {
    const node_groups_t *groups = &c->node->groups;
    for (size_t i = 0; i < groups->items.count; i++) {
        node_group_over_t *over = groups->items.items[i]->over;
        for (size_t k = over != NULL ? over->watchers.count : 0; k-- > 0;)
            if (over->watchers.items[k] == peer) vec_swap_remove(&over->watchers, k);
    }
    for (size_t i = c->grouping.early.count; i-- > 0;)
        if (c->grouping.early.items[i].peer == peer) vec_swap_remove(&c->grouping.early, i);
}
