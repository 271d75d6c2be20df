/*
 * Remote leases: "the peer takes up to c at once of this lane".
 *
 *     (grant) --OPEN--> opening --CREDIT c--> open --CREDIT 0, or idle: CLOSE--> closed
 *                       opening --CREDIT 0--> closed: it has refused
 *
 * No frame goes out before the peer has said how many it takes: a refusal would carry it twice. It
 * costs one way more for each lease, none for each task. A closed lease stays in the books until
 * what was sent by it has returned.
 *
 * The number of a lease is never used again. So what the peer says about one that was closed is
 * not mistaken for a word about the next one of the same lane and peer.
 *
 * Where tasks are short the way is as long as the work. Then more are sent ahead, and wait at the
 * peer until their turn comes: as many as run there while one is on its way, and at least as many
 * as run in PLACE_SHORT_NS. Alone, a task pays for two wake-ups; many in a row hardly do.
 */
#include "place/books.h"

#include <stdlib.h>

static uint32_t lease_spare(const lease_t *lease) {
    if (lease->is_closed) return 0;
    if (BASE_RULE(PLACE_SILENT_NO_WORK) && lease->peer->is_silent) return 0;
    uint64_t while_ns = lease->way_ns > PLACE_SHORT_NS ? lease->way_ns : PLACE_SHORT_NS;
    uint64_t ahead = lease->ran_ns > 0 ? lease->credits * while_ns / lease->ran_ns : 0;
    uint64_t most = (uint64_t)lease->credits * MESSAGE_AHEAD_MAX;
    uint64_t window = lease->credits + (ahead < most ? ahead : most);
    return lease->out < window ? (uint32_t)window - lease->out : 0;
}

void place_lease_refresh(lease_t *lease) {
    place_lane_t *lane = lease->lane;
    uint32_t spare = lease_spare(lease);
    lane->spare += spare - lease->spare;
    lease->spare = spare;
    if (lease->is_open && spare > 0)
        ring_add(&lane->ready, &lease->ready);
    else
        ring_remove(&lease->ready);
    if (!lease->is_open || lease->sent > 0) {
        ring_remove(&lease->idle);
    } else if (!ring_is_in(&lease->idle)) {
        lease->idle_ns = lane->place->now_ns;
        ring_push(&lane->place->idle, &lease->idle);
    }
    place_lane_dirty(lane);
}

void place_lease_new(place_lane_t *lane, peer_t *peer, uint32_t credits, bool is_to_queue) {
    place_t *place = lane->place;
    lease_t *lease = calloc(1, sizeof *lease);
    uint64_t id = place->lease_last + 1;
    if (lease == NULL || !base_map_put(&place->leases, &id, lease)) {
        free(lease);
        lane->must_ask = true;
        return;
    }
    place->lease_last = id;
    *lease = (lease_t){.id = id, .lane = lane, .peer = peer, .credits = credits};
    ring_init(&lease->tasks);
    ring_push(&lane->leases, &lease->in_lane);
    ring_push(&peer->leases, &lease->in_peer);
    place_lease_refresh(lease);
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    base_put_number(&w, MESSAGE_OPEN, 1);
    base_put_number(&w, id, 8);
    base_put_number(&w, credits, 4);
    base_put_number(&w, is_to_queue ? MESSAGE_QUEUES : 0, 1);
    place_send(place, peer->id, w.bytes, w.size, lane->demand, lane->demand_size, false);
}

static void lease_free(lease_t *lease) {
    lease->credits = 0;
    lease->is_open = false;
    lease->is_closed = true;
    place_lease_refresh(lease);
    ring_remove(&lease->in_lane);
    ring_remove(&lease->in_peer);
    base_map_remove(&lease->lane->place->leases, &lease->id);
    free(lease);
}

void place_lease_close(lease_t *lease) {
    if (!lease->is_closed) {
        uint8_t head[MESSAGE_HEAD_MAX];
        base_writer_t w = {.bytes = head};
        base_put_number(&w, MESSAGE_CLOSE, 1);
        base_put_number(&w, lease->id, 8);
        place_send_head(lease->lane->place, lease->peer->id, &w, false);
        lease->is_closed = true;
        place_lease_refresh(lease);
    }
    if (lease->sent == 0) lease_free(lease);
}

mob_status_t place_lease_receive_credit(place_t *place, uint64_t from, base_reader_t *r) {
    uint64_t id = base_take_number(r, 8);
    uint32_t credits = (uint32_t)base_take_number(r, 4);
    uint64_t version = base_take_number(r, 8);
    if (!base_reader_is_done(r)) return MOB_EPROTO;
    lease_t *lease = base_map_get(&place->leases, &id);
    if (lease == NULL || lease->peer->id != from || lease->is_closed) return MOB_OK;
    place_lane_t *lane = lease->lane;
    if (credits < lease->credits) lease->credits = credits; /* it never grows */
    if (credits == 0) {
        lease->is_closed = true;
        place_lane_refused(lane, from, version);
    }
    lease->is_open = true;
    place_lease_refresh(lease);
    if (lease->is_closed) place_lease_close(lease);
    return MOB_OK;
}

void place_leases_tick(place_t *place) {
    ring_t *first;
    while ((first = ring_first(&place->idle)) != NULL) {
        lease_t *lease = RING_OF(first, lease_t, idle);
        if (lease->idle_ns + PLACE_IDLE_NS > place->now_ns) break;
        place_lease_close(lease);
    }
}

uint64_t place_leases_due_ns(const place_t *place) {
    ring_t *first = ring_first(&place->idle);
    return first == NULL ? UINT64_MAX : RING_OF(first, lease_t, idle)->idle_ns + PLACE_IDLE_NS;
}
