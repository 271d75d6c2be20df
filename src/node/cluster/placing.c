/*
 * The room place in the daemon: its life, and what it hears.
 *
 * The room decides by the books' numbers, which it is told at the end of each round: how many tasks
 * of each offer wait, and what is free. Then it does what follows (place_tick), within which it
 * asks for tasks, sends them, and puts those of others into the scheduler.
 *
 * What it asks for must not call it again. So the end of a visit that comes within a call of the
 * room (`depth`) is told at the next settling.
 *
 * Everything is sent as an answer, which no full link holds up: questions are few and small, and a
 * task is taken only while there is room for it.
 *
 * References in a message are accounted for before the room sees it: it may have no use for the
 * message.
 *
 * Leases of workers that run nothing count as free. Nobody says when a leased worker has nothing to
 * do any more, so while some are busy the daemon looks every LOOK_MS; while short tasks wait, which
 * may become longer ones, every LOOK_QUICK_MS.
 */
#include "node/cluster/placing.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/origin.h"
#include "node/cluster/post.h"
#include "node/forward.h"
#include "node/peer.h"
#include "node/state.h"
#include "sched/selector.h"

enum { LOOK_MS = 100, LOOK_QUICK_MS = 10, HEAD_MAX = 512 };

static const node_way_t way;

void node_placing_enter(node_cluster_t *c) { c->placing.depth++; }
void node_placing_leave(node_cluster_t *c) { c->placing.depth--; }

/* ---- sending ---- */

/* The room's own words, and before a frame the number of its run. */
static void op_send(void *context, uint64_t to, const void *head, size_t head_size,
                    const void *body, size_t body_size, bool is_answer) {
    node_cluster_t *c = context;
    node_placing_parcel_t *parcel = &c->placing.parcel;
    uint8_t bytes[HEAD_MAX];
    (void)is_answer;
    node_letter_parts_t parts = {head, body, head_size, body_size};
    bool is_parcel = body != NULL && body == parcel->body;
    if (is_parcel && parcel->is_task && head_size + NODE_GUEST_HEAD <= sizeof bytes) {
        memcpy(bytes, head, head_size);
        base_writer_t w = {.bytes = bytes, .size = head_size};
        base_put_number(&w, parcel->run, NODE_GUEST_HEAD);
        parts.head = bytes;
        parts.head_size = w.size;
    }
    mob_status_t status = is_parcel ? node_post_send_refs(c, to, POST_PLACE, &parts, parcel->ids,
                                                          parcel->count, NULL, true)
                                    : node_post_send(c, to, POST_PLACE, &parts, true);
    if (is_parcel) parcel->body = NULL;
    if (status != MOB_OK && status != MOB_ECLOSED)
        node_cluster_trouble(c, "what was said to node %016llx about a task is lost: %s",
                             (unsigned long long)to, mob_status_text(status));
}

static bool op_matches(void *context, const char *labels, const char *selector) {
    (void)context;
    return sched_selector_matches(selector, labels);
}

static const place_ops_t ops = {.send = op_send,
                                .take = node_origin_take,
                                .put_back = node_origin_put_back,
                                .ended = node_origin_ended,
                                .keep = node_origin_keep,
                                .impossible = node_origin_impossible,
                                .fits = node_guest_fits,
                                .free_amounts = node_guest_free_amounts,
                                .admit = node_guest_admit,
                                .refuse = node_guest_refuse,
                                .queue = node_guest_queue,
                                .unqueue = node_guest_unqueue,
                                .drop = node_guest_drop,
                                .stop = node_guest_stop,
                                .matches = op_matches};

/* ---- peers ---- */

/* The room refs counts what messages name. */
static bool way_give(node_peer_t *p, mob_ref_t ref) {
    (void)p, (void)ref;
    return true;
}
static void way_ungive(node_peer_t *p, mob_ref_t ref) { (void)p, (void)ref; }
static void way_drop(node_peer_t *p, const frame_id_t *ids, size_t count) {
    (void)p, (void)ids, (void)count;
}

static const node_way_t way = {.cancel = node_origin_cancel,
                               .recall = node_origin_recall,
                               .fetch = node_origin_fetch,
                               .drop = way_drop,
                               .give = way_give,
                               .ungive = way_ungive,
                               .stay = node_guest_stay,
                               .answer = node_guest_answer,
                               .settle = node_guest_settle};

node_peer_t *node_placing_peer(const node_cluster_t *c, uint64_t peer) {
    return base_map_get(&c->placing.peers, &peer);
}

/* False: no memory; it is tried again when the peer says something. */
static bool peer_make(node_cluster_t *c, uint64_t peer) {
    if (node_placing_peer(c, peer) != NULL) return true;
    if (place_peer_joined(c->placing.place, peer) != MOB_OK) return false;
    node_peer_t *p = node_peer_new(c->node, &way, peer);
    if (p == NULL || base_map_put(&c->placing.peers, &peer, p)) return p != NULL;
    node_peer_free(p);
    return false;
}

void node_placing_joined(node_cluster_t *c, uint64_t peer) {
    if (c->placing.place != NULL) (void)peer_make(c, peer);
}

/* Of the dead, whose tasks here end one by one. */
static void dead_settle(node_cluster_t *c) {
    for (size_t i = c->placing.dead.count; i-- > 0;) {
        node_peer_t *p = c->placing.dead.items[i];
        if (p->visit_count > 0) continue;
        vec_swap_remove(&c->placing.dead, i);
        node_peer_free(p);
    }
}

void node_placing_died(node_cluster_t *c, uint64_t peer) {
    if (c->placing.place == NULL) return;
    node_peer_t *p = base_map_remove(&c->placing.peers, &peer);
    if (p != NULL) node_forward_last(p);
    node_placing_enter(c);
    c->placing.is_burying = true;
    place_peer_died(c->placing.place, peer);
    c->placing.is_burying = false;
    node_placing_leave(c);
    /* without memory its number stays taken */
    if (p != NULL) (void)vec_push(&c->placing.dead, p);
    c->node->again = true;
}

void node_placing_silent(node_cluster_t *c, uint64_t peer, bool is_silent) {
    if (c->placing.place == NULL) return;
    node_placing_enter(c);
    place_peer_silent(c->placing.place, peer, is_silent);
    node_placing_leave(c);
}

void node_placing_leads(node_cluster_t *c, uint64_t leader, uint64_t fence) {
    c->placing.leader = leader;
    c->placing.fence = fence;
    if (c->placing.place != NULL) place_leads(c->placing.place, leader, fence);
}

void node_placing_paused(node_cluster_t *c, bool is_paused) {
    if (c->placing.place == NULL) return;
    node_placing_enter(c);
    place_paused(c->placing.place, is_paused);
    node_placing_leave(c);
}

mob_status_t node_placing_job_ended(node_cluster_t *c, frame_job_t job) {
    if (c->placing.place == NULL) return MOB_OK;
    node_placing_enter(c);
    mob_status_t status = place_job_end(c->placing.place, job);
    node_placing_leave(c);
    c->node->again = true;
    return status;
}

/* ---- messages ---- */

static mob_status_t refs_account(node_cluster_t *c, uint64_t peer, const void *bytes, size_t size) {
    const void *body;
    size_t body_size, count;
    bool is_frame;
    frame_id_t *ids;
    if (!place_message_body(bytes, size, &is_frame, &body, &body_size)) return MOB_OK;
    mob_status_t status = is_frame ? node_guest_frame_ids(body, body_size, &ids, &count)
                                   : node_guest_answer_ids(body, body_size, &ids, &count);
    if (status != MOB_OK) return status;
    status = node_holding_frame_came(c, peer, ids, count);
    free(ids);
    return status;
}

mob_status_t node_placing_receive(node_cluster_t *c, uint64_t peer, const void *bytes,
                                  size_t size) {
    if (c->placing.place == NULL || !peer_make(c, peer)) return MOB_ENOMEM;
    mob_status_t status = refs_account(c, peer, bytes, size);
    if (status != MOB_OK) return status;
    node_placing_enter(c);
    status = place_receive(c->placing.place, peer, bytes, size, base_clock_mono_ns());
    node_placing_leave(c);
    if (status == MOB_OK) return MOB_OK;
    return base_fail(MOB_EPROTO, "a message about tasks that makes no sense");
}

/* ---- its course ---- */

static void on_timer(uv_timer_t *timer) { (void)timer; /* a round of the loop follows */ }

static void timer_set(node_cluster_t *c) {
    uint64_t due = place_due_ns(c->placing.place), now = base_clock_mono_ns(), ms = UINT64_MAX;
    if (due != UINT64_MAX) ms = due > now ? (due - now) / 1000000 + 1 : 1;
    if (c->placing.leases_busy && ms > LOOK_MS) ms = LOOK_MS;
    if (c->placing.offers.is_quick && ms > LOOK_QUICK_MS) ms = LOOK_QUICK_MS;
    if (ms == UINT64_MAX)
        uv_timer_stop(&c->placing.timer);
    else
        uv_timer_start(&c->placing.timer, on_timer, ms, 0);
}

static void free_look(node_cluster_t *c) {
    int64_t now[PLACE_NAMES_MAX] = {0};
    node_guest_free_amounts(c, now);
    if (memcmp(now, c->placing.free, sizeof now) == 0) return;
    memcpy(c->placing.free, now, sizeof now);
    place_free_changed(c->placing.place);
}

void node_placing_settle(node_cluster_t *c) {
    node_placing_t *placing = &c->placing;
    if (placing->place == NULL) return;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&placing->peers, &cursor, &key, &value)) {
        node_visits_answer(value);
        node_forward_retry(value);
    }
    for (size_t i = 0; i < placing->dead.count; i++) node_visits_answer(placing->dead.items[i]);
    dead_settle(c);
    if (placing->peers.count == 0 || placing->leader == 0) node_offers_release(c);
    if (placing->peers.count == 0) return;
    free_look(c);
    node_offers_settle(c);
    node_placing_enter(c);
    place_tick(placing->place, base_clock_mono_ns());
    node_placing_leave(c);
    timer_set(c);
}

/* ---- beginning and end ---- */

static mob_status_t resources_set(node_cluster_t *c) {
    frame_amount_t totals[PLACE_NAMES_MAX];
    sched_t *sched = c->node->sched;
    size_t count = sched_resource_count(sched);
    if (count > PLACE_NAMES_MAX) return MOB_ELIMIT;
    for (size_t i = 0; i < count; i++) {
        int64_t available;
        sched_resource_at(sched, i, &totals[i].name, &totals[i].amount, &available);
    }
    const char *labels = sched_labels(sched);
    place_leads(c->placing.place, c->placing.leader, c->placing.fence);
    return place_resources_set(c->placing.place, totals, count, labels != NULL ? labels : "");
}

mob_status_t node_placing_start(node_cluster_t *c) {
    node_placing_t *placing = &c->placing;
    placing->place = place_new(&ops, c, c->node->incarnation);
    if (placing->place == NULL) return MOB_ENOMEM;
    base_map_init(&placing->peers, sizeof(uint64_t));
    node_offers_start(&placing->offers);
    placing->timer.data = c;
    int error = uv_timer_init(&c->node->loop, &placing->timer);
    mob_status_t status = error == 0 ? resources_set(c) : MOB_ESYS;
    for (size_t i = 0; i < c->roster.order.count; i++) {
        const node_row_t *row = c->roster.order.items[i];
        if (row->until_ms == 0 && row->incarnation != c->node->incarnation)
            node_placing_joined(c, row->incarnation);
    }
    if (status == MOB_ELIMIT)
        (void)base_fail(MOB_ELIMIT,
                        "a node of a cluster has up to %d resources, and %d bytes of "
                        "labels",
                        PLACE_NAMES_MAX, PLACE_SELECTOR_MAX);
    return status;
}

void node_placing_end(node_cluster_t *c) {
    node_placing_t *placing = &c->placing;
    if (placing->place == NULL) return;
    uv_timer_stop(&placing->timer);
    place_free(placing->place);
    placing->place = NULL;
    node_offers_end(&placing->offers);
    free(placing->frame);
    free(placing->parcel.ids);
}
