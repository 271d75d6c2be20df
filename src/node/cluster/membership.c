/*
 * The room member decides; this file asks the control state what it wants to know, keeps its time,
 * sends its heartbeats, and tells the rest of the daemon.
 *
 * Heartbeats go to each peer to which there is a connection, every MEMBER_RENEW_MS, with what this
 * node has free behind them. One that waited for a connection would be old when it came. While a
 * peer is new they go more often, for a heartbeat counts only when it answers another one: a node
 * that has heard nobody is buried late if it dies.
 *
 * What the room tells comes from inside of its own calls. So what may call it back is done at the
 * end of the turn: the tick's timer is set to go off at once.
 */
#include "node/cluster/membership.h"

#include <stdio.h>
#include <stdlib.h>

#include "node/cluster/cluster.h"
#include "node/cluster/pause.h"
#include "node/cluster/post.h"
#include "node/cluster/pulling.h"
#include "node/state.h"

enum {
    LEAVE_MS = 3000,
    USAGE_MAX = 512,
    SOON_MS = 20,
    NEW_MS = 300,
    LATE_MS = 2000,
    WITNESS_MS = 1000
};
enum { BURIES_MAX = 32 };

static void on_tick(uv_timer_t *timer);
static void begin_if_witnessed(node_cluster_t *c);

/* The room is to be asked what is due, now. */
static void tick_soon(node_cluster_t *c) { uv_timer_start(&c->tick, on_tick, 0, 0); }

static void tick(node_cluster_t *c) {
    if (c->member == NULL || c->state == CLUSTER_OVER) return;
    uint64_t now = node_cluster_now_ns(), next = member_tick(c->member, now);
    if (c->state == CLUSTER_OVER) return;
    begin_if_witnessed(c);
    uv_timer_start(&c->tick, on_tick, next > now ? (next - now) / 1000000 + 1 : 0, 0);
}

static void on_tick(uv_timer_t *timer) { tick(timer->data); }

/* ---- questions to the control state ---- */

typedef struct {
    node_cluster_t *cluster;
    uint64_t request;
} asked_t;

static void answered(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    asked_t asked = *(asked_t *)context;
    free(context);
    node_cluster_t *c = asked.cluster;
    if (c->member == NULL || c->state == CLUSTER_OVER) return;
    if (member_answer(c->member, node_cluster_now_ns(), asked.request, answer, size) == MOB_EPROTO)
        node_cluster_trouble(c, "Redis gave an answer that makes no sense");
    tick(c);
}

/* Without memory there is no answer, which the room takes for one that was lost. */
static void ask(void *context, uint64_t request, script_fn script, const void *arguments,
                size_t size) {
    node_cluster_t *c = context;
    asked_t *asked = malloc(sizeof *asked);
    if (asked == NULL) return;
    *asked = (asked_t){c, request};
    if (node_cluster_ask(c, script, arguments, size, answered, asked) != MOB_OK) free(asked);
}

static void send_to(void *context, uint64_t peer, const void *bytes, size_t size) {
    node_letter_parts_t parts = {.body = bytes, .body_size = size};
    (void)node_post_send(context, peer, POST_MEMBER, &parts, true); /* it may be lost */
}

/* ---- heartbeats ---- */

/* False: it is new. */
static bool pulse_send(node_cluster_t *c, const node_row_t *row, const uint8_t *usage,
                       size_t size) {
    uint8_t pulse[MEMBER_PULSE_SIZE];
    uint64_t age_ms = uv_now(&c->node->loop) - row->met_ms;
    if (row->until_ms != 0) return true;
    if (!mesh_is_open(c->mesh, row->incarnation)) return age_ms > LATE_MS;
    member_pulse_write(c->member, node_cluster_now_ns(), row->incarnation, pulse);
    node_letter_parts_t parts = {
        .head = pulse, .head_size = sizeof pulse, .body = usage, .body_size = size};
    (void)node_post_send(c, row->incarnation, POST_PULSE, &parts, true); /* another one follows */
    return age_ms > (member_is_witnessed(c->member) ? NEW_MS : LATE_MS);
}

static void on_pulse(uv_timer_t *timer) {
    node_cluster_t *c = timer->data;
    uint8_t usage[USAGE_MAX];
    if (c->state == CLUSTER_OVER) return;
    size_t size = node_roster_usage_write(c->node, usage, sizeof usage);
    bool are_known = true;
    for (size_t i = 0; i < c->roster.order.count; i++)
        are_known &= pulse_send(c, c->roster.order.items[i], usage, size);
    uv_timer_start(timer, on_pulse, are_known ? MEMBER_RENEW_MS : SOON_MS, 0);
}

/* ---- who is there ---- */

/* Whether there are others. */
static bool has_company(const node_cluster_t *c) {
    for (size_t i = 0; i < c->roster.order.count; i++)
        if (c->roster.order.items[i]->until_ms == 0) return true;
    return false;
}

/* The starter is told that the node is ready when others have heard it, which takes milliseconds;
 * or after a while, for it may be that no other one lives. */
static void begin_if_witnessed(node_cluster_t *c) {
    if (c->has_begun || c->state != CLUSTER_MEMBER) return;
    uint64_t now = node_cluster_now_ns();
    if (c->member_ns == 0) c->member_ns = now;
    bool is_late = now - c->member_ns > WITNESS_MS * UINT64_C(1000000);
    if (has_company(c) && !member_is_witnessed(c->member) && !is_late) return;
    c->has_begun = true;
    node_cluster_began(c);
}

static void began(void *context, uint64_t number) {
    node_cluster_t *c = context;
    c->number = number;
    mob_status_t status = node_holding_start(c, number);
    if (status == MOB_OK) status = node_pulling_start(c);
    for (size_t i = 0; status == MOB_OK && i < c->roster.order.count; i++) {
        const node_row_t *row = c->roster.order.items[i];
        if (row->until_ms == 0 && row->incarnation != c->node->incarnation)
            (void)node_pulling_peer(c, row->incarnation, row->host, row->port);
    }
    if (status == MOB_OK) status = node_placing_start(c);
    if (status == MOB_OK) status = node_acting_start(c);
    if (status == MOB_OK) status = node_grouping_start(c);
    if (status != MOB_OK) {
        node_cluster_fail(c, status, *mob_last_error() ? mob_last_error() : "no memory");
        return;
    }
    c->state = CLUSTER_MEMBER;
    begin_if_witnessed(c);
}

static void joined(void *context, uint64_t peer, const void *blob, size_t size) {
    node_cluster_t *c = context;
    mob_status_t status = node_roster_add(&c->roster, peer, blob, size);
    node_row_t *row = node_roster_find(&c->roster, peer);
    if (row != NULL) row->met_ms = uv_now(&c->node->loop);
    if (status == MOB_OK) status = mesh_peer_add(c->mesh, peer, row->host, row->port);
    if (status == MOB_OK) uv_timer_start(&c->pulse, on_pulse, 0, 0);
    if (status != MOB_OK && status != MOB_EEXISTS)
        node_cluster_trouble(c, "node %016llx can't be taken in: %s", (unsigned long long)peer,
                             mob_status_text(status));
    else
        node_guestjob_joined(c, peer);
    if (row != NULL && c->pulling != NULL) (void)node_pulling_peer(c, peer, row->host, row->port);
    node_placing_joined(c, peer);
    c->grouping.has_met = true;
}

/* A node that said goodbye has left; another one is dead. */
static const char *reason_of(const node_row_t *row) {
    return row != NULL && row->has_left
               ? "it was ended in peace"
               : "its daemon or its machine died, or it was cut off from the others";
}

static void died(void *context, uint64_t peer, uint64_t number) {
    node_cluster_t *c = context;
    const char *reason = reason_of(node_roster_find(&c->roster, peer));
    mesh_peer_close(c->mesh, peer);
    node_roster_bury(&c->roster, peer, reason);
    node_outflows_died(c, peer);
    node_placing_died(c, peer);
    node_acting_died(c, peer);
    node_grouping_died(c, peer);
    if (c->pulling != NULL) (void)node_pulling_died(c, peer);
    node_guestjob_died(c, peer);
    node_holding_died(c, peer, number); /* which says when the tombstone is closed */
}

static void struck(void *context, uint64_t number) { node_holding_struck(context, number); }

/* ---- this node's own right to go on ---- */

static void term(void *context, uint64_t end_ns) {
    const node_cluster_t *c = context;
    node_term_set(c->node, end_ns);
}

static void paused(void *context, bool is_paused) {
    node_placing_paused(context, is_paused);
    node_acting_paused(context, is_paused);
    if (is_paused)
        node_pause_begin(context);
    else
        node_pause_over(context);
}

/* A leader that has given up, and nobody else leads yet (0), is still whom others say to what they
 * have: it may lead again with the same number, and they would not say it again. */
static void leads(void *context, uint64_t leader, uint64_t fence) {
    if (leader != 0) node_placing_leads(context, leader, fence);
    node_acting_leads(context, leader);
    node_grouping_leads(context, leader, fence);
}

static void master(void *context, uint64_t number) {
    node_cluster_t *c = context;
    c->master = number;
    node_acting_master(c, number);
    node_pulling_master(c, number);
    node_grouping_master(c, number);
    node_membership_said(c);
}

void node_membership_said(node_cluster_t *c) {
    bool all = node_acting_said(c) >= c->master && node_pulling_said(c) >= c->master &&
               node_grouping_said(c) >= c->master;
    if (all && c->member != NULL) member_said(c->member, c->master);
}

static void settled(void *context, uint64_t number) {
    node_acting_settled(context, number);
    node_grouping_settled(context, number);
}

static const char *words_on(member_end_t why) {
    switch (why) {
    case MEMBER_BURIED:
        return "the cluster took it for dead: it, or its machine, had stopped or was cut off";
    case MEMBER_CONTRADICTED:
        return "Redis has lost what this node knows for certain";
    case MEMBER_FORGOTTEN:
        return "Redis has lost this node, and the others went on without it";
    case MEMBER_STRANGER:
        return "Redis holds another cluster";
    default:
        return "it has left";
    }
}

static void over(void *context, member_end_t why, uint64_t number) {
    (void)number;
    node_cluster_t *c = context;
    c->state = CLUSTER_OVER;
    node_cluster_over(c, why == MEMBER_LEFT, words_on(why));
}

static void poisoned(void *context, const char *key) {
    node_cluster_trouble(context, "the value of %s in Redis makes no sense: delete that key", key);
}

static const member_ops_t ops = {.ask = ask,
                                 .send = send_to,
                                 .began = began,
                                 .joined = joined,
                                 .died = died,
                                 .struck = struck,
                                 .term = term,
                                 .paused = paused,
                                 .leads = leads,
                                 .master = master,
                                 .settled = settled,
                                 .over = over,
                                 .poisoned = poisoned};

mob_status_t node_membership_pulse(node_cluster_t *c, uint64_t peer, const void *bytes,
                                   size_t size) {
    if (size < MEMBER_PULSE_SIZE) return base_fail(MOB_EPROTO, "a heartbeat that is cut short");
    mob_status_t status =
        member_pulse_read(c->member, node_cluster_now_ns(), peer, bytes, MEMBER_PULSE_SIZE);
    node_row_t *row = node_roster_find(&c->roster, peer);
    if (status != MOB_OK || row == NULL || size == MEMBER_PULSE_SIZE) return status;
    return node_roster_usage_read(row, (const uint8_t *)bytes + MEMBER_PULSE_SIZE,
                                  size - MEMBER_PULSE_SIZE);
}

void node_membership_stranger(node_cluster_t *c) {
    if (c->member == NULL || c->state == CLUSTER_OVER) return;
    member_look(c->member, node_cluster_now_ns());
    tick_soon(c);
}

void node_membership_silent(node_cluster_t *c, uint64_t peer, bool is_silent) {
    node_row_t *row = node_roster_find(&c->roster, peer);
    if (c->member == NULL || row == NULL) return;
    row->is_silent = is_silent;
    node_placing_silent(c, peer, is_silent);
    node_acting_silent(c, peer, is_silent);
    (void)member_complain(c->member, peer, is_silent); /* without memory: at the next silence */
    tick_soon(c);
}

/* ---- beginning and end ---- */

/* Those of the dead nodes of this machine that were of this cluster. */
static size_t buries_read(const node_cluster_t *c, uint64_t *ret_incarnations, size_t most) {
    size_t count = 0;
    const char *at = c->node->config.cluster.buries;
    for (; at != NULL && count < most; at = strchr(at, ',')) {
        unsigned long long high, low, incarnation;
        if (*at == ',') at++;
        if (sscanf(at, "%16llx%16llx:%16llx", &high, &low, &incarnation) == 3 && high == c->id[0] &&
            low == c->id[1] && incarnation != c->node->incarnation)
            ret_incarnations[count++] = incarnation;
    }
    return count;
}

mob_status_t node_membership_start(node_cluster_t *c) {
    uint64_t buries[BURIES_MAX];
    member_config_t config = {.self = c->node->incarnation,
                              .cluster = {c->id[0], c->id[1]},
                              .founds = c->founds,
                              .buries = buries,
                              .buries_count = buries_read(c, buries, BURIES_MAX),
                              .patience_ms = c->node->config.cluster.patience_ms,
                              .newcomer_ms = c->node->config.cluster.newcomer_ms};
    uint8_t *card;
    mob_status_t status = node_roster_card(c->node, MEMBER_BLOB_MAX, &card, &config.blob_size);
    if (status != MOB_OK) return status;
    config.blob = card;
    status = member_new(&config, &ops, c, &c->member);
    free(card);
    if (status != MOB_OK) return status;
    c->state = CLUSTER_JOINING;
    node_term_set(c->node, 0);
    uv_timer_start(&c->pulse, on_pulse, MEMBER_RENEW_MS, 0);
    tick_soon(c);
    return MOB_OK;
}

void node_membership_end(node_cluster_t *c) {
    uv_timer_stop(&c->tick);
    uv_timer_stop(&c->pulse);
    uv_timer_stop(&c->limit);
    node_pause_end(c);
}

static void on_leave_limit(uv_timer_t *timer) {
    node_cluster_t *c = timer->data;
    c->state = CLUSTER_OVER;
    node_cluster_over(c, true, "it could not say so in Redis");
}

void node_membership_leave(node_cluster_t *c) {
    c->state = CLUSTER_LEAVING;
    member_leave(c->member, node_cluster_now_ns());
    mesh_leave(c->mesh);
    uv_timer_start(&c->limit, on_leave_limit, LEAVE_MS, 0);
    tick_soon(c);
}
