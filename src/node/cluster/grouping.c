/*
 * The room group in the daemon. It is called at the end of each round (group_turn), and by what
 * comes. What it wants done is done within its calls, for none of that calls it again: a group that
 * ends by its word is not shared any more when it ends (group_home.c).
 *
 * The room says nothing of who has asked for a group of another node: that is its home's, by the
 * words of grouping.h. They are few, and small; all are answers, which no full link holds up.
 */
#include "node/cluster/grouping.h"

#include <stdlib.h>
#include <string.h>

#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/group_guest.h"
#include "node/cluster/group_home.h"
#include "node/cluster/group_over.h"
#include "node/cluster/guest.h"
#include "node/cluster/membership.h"
#include "node/cluster/post.h"
#include "node/state.h"
#include "sched/selector.h"

static uint64_t now_ms(void) { return node_cluster_now_ns() / 1000000; }

/* ---- what the room says ---- */

static void on_send(void *context, uint64_t to, const void *bytes, size_t size) {
    node_cluster_t *c = context;
    uint8_t kind = GROUPING_ROOM;
    node_letter_parts_t parts = {&kind, bytes, sizeof kind, size};
    mob_status_t status = node_post_send(c, to, POST_GROUP, &parts, true);
    if (status != MOB_OK && status != MOB_ECLOSED)
        node_cluster_trouble(c, "what was said to node %016llx about placement groups is lost: %s",
                             (unsigned long long)to, mob_status_text(status));
}

void node_grouping_say(node_cluster_t *c, uint64_t peer, grouping_kind_t kind, frame_id_t id) {
    uint8_t bytes[1 + MOB_ID_SIZE];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, kind, 1);
    frame_id_put(&w, id);
    node_letter_parts_t parts = {.body = bytes, .body_size = w.size};
    mob_status_t status = node_post_send(c, peer, POST_GROUP, &parts, true);
    if (status != MOB_OK && status != MOB_ECLOSED)
        node_cluster_trouble(c, "a word to node %016llx about a placement group is lost: %s",
                             (unsigned long long)peer, mob_status_text(status));
}

static void on_said(void *context, uint64_t master) {
    node_cluster_t *c = context;
    c->grouping.said = master;
    node_membership_said(c);
}

static bool on_is_dead(void *context, uint64_t peer) {
    const node_cluster_t *c = context;
    return peer != c->node->incarnation && !member_knows(c->member, peer);
}

/* A group of this home that has ended since, or a job that ends, gets nothing any more. */
static bool on_reserve(void *context, const group_key_t *key, const group_spec_t *spec) {
    node_cluster_t *c = context;
    node_group_t *g = node_group_known(c->node, key->id);
    if (g == NULL && key->id.home != c->node->incarnation)
        g = node_group_guest_get(c, key->id, spec);
    if (g == NULL || g->over == NULL || (g->job != NULL && g->job->farewell.leaving)) return false;
    if (!node_group_is_guest(g) && !g->over->is_shared) return false; /* whoever says so lies */
    const group_run_t *run = group_spec_run(spec, key->bundle);
    if (run != NULL && node_bundle_reserve(g, key, run->selector)) return true;
    node_group_guest_try_end(g);
    return false;
}

static void on_commit(void *context, const group_key_t *key) {
    node_group_t *g = node_group_known(((node_cluster_t *)context)->node, key->id);
    if (g != NULL) node_bundle_commit(g, key);
}

static void on_release(void *context, const group_key_t *key) {
    node_group_t *g = node_group_known(((node_cluster_t *)context)->node, key->id);
    if (g == NULL) return;
    if (node_bundle_release(g, key)) {
        g->over->is_shared = false;
        node_group_end(g, "by ray.util.remove_placement_group");
    } else {
        node_group_guest_try_end(g);
    }
}

static frame_demand_t on_view(void *context, const char **ret_labels) {
    node_cluster_t *c = context;
    sched_t *sched = c->node->sched;
    int64_t *free = c->grouping.said_free;
    frame_demand_t view = {.items = c->grouping.view, .count = sched_resource_count(sched)};
    if (view.count > PLACE_NAMES_MAX) view.count = PLACE_NAMES_MAX;
    node_guest_free_amounts(c, free);
    for (size_t i = 0; i < view.count; i++) {
        uint64_t total;
        int64_t available;
        sched_resource_at(sched, i, &view.items[i].name, &total, &available);
        view.items[i].amount = free[i] > 0 ? (uint64_t)free[i] : 0;
    }
    const char *labels = sched_labels(sched);
    *ret_labels = labels != NULL ? labels : "";
    return view;
}

static bool on_matches(void *context, const char *selector, const char *labels) {
    (void)context;
    return *selector == 0 || sched_selector_matches(selector, labels);
}

static void on_told(void *context, const frame_id_t *id, group_state_t state, const uint64_t *nodes,
                    size_t count) {
    node_group_home_told(context, *id, state, nodes, count);
}

/* Names are the node's own (name.c), and jobs end group by group. */
static void on_found(void *context, uint64_t request, mob_status_t status, const frame_id_t *id) {
    (void)context, (void)request, (void)status, (void)id;
}
static void on_job_written(void *context, frame_job_t job) { (void)context, (void)job; }

static const group_ops_t ops = {.send = on_send,
                                .ask = node_grouping_ask,
                                .said = on_said,
                                .is_dead = on_is_dead,
                                .reserve = on_reserve,
                                .commit = on_commit,
                                .release = on_release,
                                .view = on_view,
                                .matches = on_matches,
                                .told = on_told,
                                .found = on_found,
                                .job_written = on_job_written};

/* ---- what comes ---- */

static mob_status_t removal_come(node_cluster_t *c, frame_id_t id) {
    node_group_t *g = id.home == c->node->incarnation ? node_group_known(c->node, id) : NULL;
    if (g == NULL) return MOB_OK; /* it is gone already */
    node_slot_quiet(c->node, g->id);
    node_group_end(g, "by ray.util.remove_placement_group");
    return MOB_OK;
}

mob_status_t node_grouping_receive(node_cluster_t *c, uint64_t peer, const void *bytes,
                                   size_t size) {
    if (c->grouping.room == NULL) return MOB_ECLOSED;
    base_reader_t r = {.at = bytes, .left = size};
    grouping_kind_t kind = (grouping_kind_t)base_take_number(&r, 1);
    if (kind == GROUPING_ROOM && group_receive(c->grouping.room, peer, r.at, r.left) == MOB_OK)
        return MOB_OK;
    if (kind == GROUPING_TELL) return node_group_guest_told(c, peer, &r);
    frame_id_t id = frame_id_take(&r);
    bool is_home = id.home == c->node->incarnation;
    if (base_reader_is_done(&r) && kind == GROUPING_ASK && is_home)
        return node_group_home_asked(c, peer, id);
    if (base_reader_is_done(&r) && kind == GROUPING_REMOVE && is_home) return removal_come(c, id);
    if (base_reader_is_done(&r) && kind == GROUPING_GONE && id.home == peer) {
        node_group_guest_gone(c, id);
        return MOB_OK;
    }
    return base_fail(MOB_EPROTO, "a message about placement groups that makes no sense");
}

void node_grouping_died(node_cluster_t *c, uint64_t peer) {
    if (c->grouping.room == NULL) return;
    group_died(c->grouping.room, peer);
    node_group_homes_died(c, peer);
    node_group_guests_died(c, peer);
    c->node->again = true;
}

void node_grouping_leads(node_cluster_t *c, uint64_t leader, uint64_t fence) {
    if (c->grouping.room != NULL) group_leads(c->grouping.room, leader, fence);
}

void node_grouping_master(node_cluster_t *c, uint64_t master) {
    c->grouping.master = master;
    if (c->grouping.room != NULL) group_master(c->grouping.room, master);
}

uint64_t node_grouping_said(const node_cluster_t *c) {
    return c->grouping.room != NULL ? c->grouping.said : UINT64_MAX;
}

void node_grouping_settled(node_cluster_t *c, uint64_t master) {
    c->grouping.settled = master;
    if (c->grouping.room != NULL) group_settled(c->grouping.room, master);
}

/* ---- its course ---- */

/* Against what was said last, not against the last look: what was low when it was said, and at no
 * look, would stay low for the leader. */
static void free_look(node_cluster_t *c) {
    int64_t now[PLACE_NAMES_MAX] = {0};
    bool has_more = false;
    node_guest_free_amounts(c, now);
    for (size_t i = 0; i < PLACE_NAMES_MAX; i++) has_more |= now[i] > c->grouping.said_free[i];
    if (has_more) group_freed(c->grouping.room);
}

static void on_timer(uv_timer_t *timer) {
    node_cluster_t *c = timer->data;
    node_grouping_ask_again(c);
    free_look(c);
    node_group_homes_tick(c); /* the room's turn follows at the end of the round */
}

/* A home may know of a node, and say that a bundle is there, before this node does. */
static void met_settle(node_cluster_t *c) {
    const node_groups_t *groups = &c->node->groups;
    for (size_t i = 0; c->grouping.has_met && i < groups->items.count; i++)
        if (groups->items.items[i]->over != NULL && groups->items.items[i]->over->nodes != NULL)
            node_group_stir(groups->items.items[i]);
    c->grouping.has_met = false;
}

void node_grouping_settle(node_cluster_t *c) {
    if (c->grouping.room == NULL) return;
    met_settle(c);
    node_group_homes_settle(c);
    group_turn(c->grouping.room, now_ms());
}

mob_status_t node_grouping_start(node_cluster_t *c) {
    node_grouping_t *grouping = &c->grouping;
    base_map_init(&grouping->guests, MOB_ID_SIZE);
    mob_status_t status = group_new(&ops, c, c->node->incarnation, &grouping->room);
    if (status != MOB_OK) return status;
    grouping->master = member_master(c->member);
    group_master(grouping->room, grouping->master);
    group_settled(grouping->room, grouping->settled);
    group_leads(grouping->room, c->placing.leader, c->placing.fence);
    uv_timer_init(&c->node->loop, &grouping->timer);
    grouping->timer.data = c;
    uv_timer_start(&grouping->timer, on_timer, GROUPING_TICK_MS, GROUPING_TICK_MS);
    return MOB_OK;
}
