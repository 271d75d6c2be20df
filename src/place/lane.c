/*
 * Lanes: tasks of this node that wait and are alike, and what is asked of the leader for them.
 *
 * A lane wants a place for each task that waits beyond the credits it has unused. A local lane
 * wants nothing before some of it have waited for PLACE_WAIT_NS without a pause: what need not wait
 * stays here. The leader is told once, and then keeps the question: it is told again if the lane
 * wants twice as much, or nothing, or if a node has refused. So a long backlog costs one question.
 *
 * A question is the whole truth about a lane, not a change: it can be said again at any time, to
 * the same leader or to another. Grants that were on their way meanwhile are taken all the same; a
 * lease too many is closed again when it has nothing to do.
 */
#include "place/books.h"

#include <assert.h>
#include <stdlib.h>

void place_lane_dirty(place_lane_t *lane) { ring_add(&lane->place->dirty, &lane->dirty); }

static void lane_look_later(place_lane_t *lane) {
    if (ring_is_in(&lane->patient)) return;
    lane->look_ns = lane->place->now_ns + PLACE_WAIT_NS;
    ring_push(&lane->place->patient, &lane->patient);
}

mob_status_t place_lane_new(place_t *place, const place_demand_t *demand, void *context,
                            place_lane_t **ret_lane) {
    place_lane_t *lane = calloc(1, sizeof *lane);
    if (lane == NULL) return MOB_ENOMEM;
    mob_status_t status = place_message_demand_write(demand, &lane->demand, &lane->demand_size);
    while (++place->lane_last == 0 || base_map_get(&place->lanes, &place->lane_last) != NULL) {
    }
    if (status == MOB_OK && !base_map_put(&place->lanes, &place->lane_last, lane))
        status = MOB_ENOMEM;
    if (status != MOB_OK) {
        free(lane->demand);
        free(lane);
        return status;
    }
    lane->place = place;
    lane->number = place->lane_last;
    lane->context = context;
    lane->strategy = demand->strategy;
    lane->is_soft = demand->is_soft;
    lane->is_local = demand->is_local;
    lane->node = demand->node;
    lane->job = demand->job;
    ring_init(&lane->leases);
    ring_init(&lane->ready);
    ring_push(&place->all_lanes, &lane->link);
    *ret_lane = lane;
    return MOB_OK;
}

void place_lane_waiting(place_t *place, place_lane_t *lane, uint32_t waiting, uint64_t now_ns) {
    place->now_ns = now_ns;
    if (lane->waiting == waiting) return;
    if (lane->waiting == 0) lane->since_ns = now_ns;
    lane->waiting = waiting;
    place_lane_dirty(lane);
}

/* ---- questions ---- */

static void ask_send(place_lane_t *lane, uint32_t want) {
    place_t *place = lane->place;
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    uint64_t age_ms = want > 0 ? (place->now_ns - lane->since_ns) / 1000000 : 0;
    bool starves = !lane->is_local && ring_is_empty(&lane->leases);
    base_put_number(&w, MESSAGE_ASK, 1);
    base_put_number(&w, place->fence, 8);
    base_put_number(&w, lane->number, 4);
    base_put_number(&w, ++lane->serial, 4);
    base_put_number(&w, want, 4);
    base_put_number(&w, age_ms < UINT32_MAX ? age_ms : UINT32_MAX, 4);
    base_put_number(&w, (lane->is_local ? MESSAGE_LOCAL : 0) | (starves ? MESSAGE_STARVES : 0), 1);
    base_put_number(&w, lane->avoid_count, 1);
    for (size_t i = 0; i < lane->avoid_count; i++) {
        base_put_number(&w, lane->avoid[i].node, 8);
        base_put_number(&w, lane->avoid[i].version, 8);
    }
    lane->is_asked = want > 0;
    lane->asked = want;
    lane->must_ask = false;
    place_send(place, place->leader, w.bytes, w.size, lane->demand, lane->demand_size, false);
}

/* How many the leader should find places for. */
static uint32_t lane_wants(const place_lane_t *lane) {
    if (lane->waiting <= lane->spare || place_is_ended(lane->place, lane->job)) return 0;
    if (lane->is_local && lane->place->now_ns - lane->since_ns < PLACE_WAIT_NS) return 0;
    uint32_t want = lane->waiting - lane->spare;
    return want < PLACE_WANT_MAX ? want : PLACE_WANT_MAX;
}

static void lane_ask(place_lane_t *lane) {
    if (lane->place->leader == 0) return;
    uint32_t want = lane_wants(lane);
    bool is_new = lane->is_asked ? lane->must_ask || want == 0 || want / 2 > lane->asked : want > 0;
    if (is_new) ask_send(lane, want);
}

void place_lane_refused(place_lane_t *lane, uint64_t node, uint64_t version) {
    lane->must_ask = true;
    place_lane_dirty(lane);
    if (!BASE_RULE(PLACE_REFUSED_IS_SAID)) return;
    size_t i = 0;
    while (i < lane->avoid_count && lane->avoid[i].node != node) i++;
    if (i == MESSAGE_AVOID_MAX) { /* the oldest goes */
        i--;
        memmove(lane->avoid, lane->avoid + 1, i * sizeof *lane->avoid);
    } else if (i == lane->avoid_count) {
        lane->avoid_count++;
    }
    lane->avoid[i] = (message_avoid_t){node, version};
}

static void ask_again(place_lane_t *lane) {
    lane->must_ask = true;
    lane->avoid_count = 0;
    place_lane_dirty(lane);
}

/* The leader is another one. */
void place_lanes_ask_again(place_t *place) {
    for (ring_t *at = place->all_lanes.next; at != &place->all_lanes; at = at->next)
        ask_again(RING_OF(at, place_lane_t, link));
}

/* A peer can be named again that could not. */
void place_lanes_ask_refused(place_t *place) {
    for (ring_t *at = place->all_lanes.next; at != &place->all_lanes; at = at->next)
        if (RING_OF(at, place_lane_t, link)->avoid_count > 0)
            ask_again(RING_OF(at, place_lane_t, link));
}

mob_status_t place_lane_receive_grant(place_t *place, uint64_t from, base_reader_t *r) {
    uint64_t fence = base_take_number(r, 8);
    uint32_t number = (uint32_t)base_take_number(r, 4), serial = (uint32_t)base_take_number(r, 4);
    uint64_t node = base_take_number(r, 8);
    uint32_t credits = (uint32_t)base_take_number(r, 4), flags = (uint32_t)base_take_number(r, 1);
    if (!base_reader_is_done(r) || credits > PLACE_WANT_MAX || flags > MESSAGE_FLAGS)
        return MOB_EPROTO;
    place_lane_t *lane = base_map_get(&place->lanes, &number);
    if (lane == NULL || from != place->leader || fence != place->fence) return MOB_OK;
    if (serial == lane->serial) {
        lane->asked -= credits < lane->asked ? credits : lane->asked;
        lane->is_asked = lane->asked > 0 && credits > 0;
    }
    if (credits == 0) { /* it had no memory for the question */
        lane_look_later(lane);
        return MOB_OK;
    }
    place_lane_dirty(lane);
    if (lane->waiting == 0) return MOB_OK;
    peer_t *peer = base_map_get(&place->peers, &node);
    if (node == place->self) {
        uint32_t kept = credits < lane->waiting ? credits : lane->waiting;
        lane->waiting -= kept;
        place->must_say = true;
        place->ops->keep(place->context, lane->context, kept);
    } else if (peer == NULL || peer->is_silent) {
        place_lane_refused(lane, node, UINT64_MAX);
    } else {
        place_lease_new(lane, peer, credits, (flags & MESSAGE_QUEUES) != 0);
    }
    return MOB_OK;
}

/* ---- its course ---- */

static bool is_impossible(const place_lane_t *lane) {
    return lane->strategy == PLACE_NODE && !lane->is_soft &&
           base_map_get(&lane->place->dead, &lane->node) != NULL;
}

static void lane_tick(place_lane_t *lane) {
    place_t *place = lane->place;
    while (lane->waiting > 0 && !place_is_ended(place, lane->job)) {
        ring_t *first = ring_first(&lane->ready);
        if (first == NULL) break;
        if (place_sent_fill(RING_OF(first, lease_t, ready))) continue;
        lane_look_later(lane);
        break;
    }
    if (lane->waiting > 0 && is_impossible(lane)) {
        place->ops->impossible(place->context, lane->context);
        lane->waiting = 0;
    }
    lane_ask(lane);
    bool is_early = lane->is_local && lane->waiting > lane->spare && !lane->is_asked &&
                    place->now_ns - lane->since_ns < PLACE_WAIT_NS;
    if (is_early) lane_look_later(lane);
}

void place_lanes_tick(place_t *place) {
    ring_t *first;
    while ((first = ring_first(&place->patient)) != NULL) {
        place_lane_t *lane = RING_OF(first, place_lane_t, patient);
        if (lane->look_ns > place->now_ns) break;
        ring_remove(first);
        place_lane_dirty(lane);
    }
    ring_t now; /* what becomes dirty meanwhile waits for the next round */
    ring_init(&now);
    while ((first = ring_first(&place->dirty)) != NULL) ring_push(&now, first);
    while ((first = ring_first(&now)) != NULL) {
        ring_remove(first);
        lane_tick(RING_OF(first, place_lane_t, dirty));
    }
}

uint64_t place_lanes_due_ns(const place_t *place) {
    ring_t *first = ring_first(&place->patient);
    return first == NULL ? UINT64_MAX : RING_OF(first, place_lane_t, patient)->look_ns;
}

void place_lanes_node_died(place_t *place, uint64_t node) {
    for (ring_t *at = place->all_lanes.next; at != &place->all_lanes; at = at->next) {
        place_lane_t *lane = RING_OF(at, place_lane_t, link);
        if (lane->strategy == PLACE_NODE && lane->node == node) place_lane_dirty(lane);
    }
}

void place_lane_free(place_t *place, place_lane_t *lane) {
    ring_t *first;
    while ((first = ring_first(&lane->leases)) != NULL) {
        lease_t *lease = RING_OF(first, lease_t, in_lane);
        assert(lease->sent == 0);
        place_lease_close(lease);
    }
    lane->waiting = 0;
    if (lane->is_asked && place->leader != 0) ask_send(lane, 0);
    ring_remove(&lane->link);
    ring_remove(&lane->dirty);
    ring_remove(&lane->patient);
    base_map_remove(&place->lanes, &lane->number);
    free(lane->demand);
    free(lane);
}
