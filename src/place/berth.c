/*
 * Leases that peers have here. This node alone knows what it has, so it alone says how many tasks
 * of a lease it takes: as many as fit now, at most as many as were asked for. Who gave the lease
 * does not matter; those that an old leader gave stay.
 *
 * Credits that are not used are kept free in what this node says of itself (`promised`), so that
 * the leader does not give them to another. They only ever become fewer: when a guest has waited in
 * vain, when the origin falls silent, when the job ends, and when the origin has not used them for
 * PLACE_LAPSE_NS [its tasks here are blocked, and what they wait for needs the very CPU that is
 * kept free for their origin]. A berth is over with its last credit, and
 * gone with its last guest.
 */
#include "place/books.h"

#include <stdlib.h>

typedef struct {
    uint64_t origin, id;
} berth_key_t;

#define PROMISED_MAX (UINT64_C(1) << 61)

berth_t *place_berth_find(const place_t *place, uint64_t origin, uint64_t id) {
    berth_key_t key = {origin, id};
    return base_map_get(&place->berths, &key);
}

static void credit_send(place_t *place, uint64_t to, uint64_t id, uint32_t credits) {
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    place_report_refresh(place);
    if (credits == 0) place->has_refused = true;
    base_put_number(&w, MESSAGE_CREDIT, 1);
    base_put_number(&w, id, 8);
    base_put_number(&w, credits, 4);
    base_put_number(&w, place->version, 8);
    place_send_head(place, to, &w, true);
}

/* Its part of what is promised, after a change. */
void place_berth_refresh(place_t *place, berth_t *berth) {
    uint32_t promised = berth->used < berth->credits ? berth->credits - berth->used : 0;
    for (uint32_t i = 0; i < berth->count; i++)
        place->resources[berth->needs[i].resource].promised +=
            ((uint64_t)promised - berth->promised) * berth->needs[i].amount;
    if (promised != berth->promised) place->is_view_new = true;
    if (promised == 0) {
        ring_remove(&berth->unused);
    } else if (promised != berth->promised || !ring_is_in(&berth->unused)) {
        berth->lapse_ns = place->now_ns + PLACE_LAPSE_NS;
        ring_push(&place->unused, &berth->unused);
    }
    berth->promised = promised;
    if (!berth->is_closed || berth->guests > 0) return;
    berth_key_t key = {berth->origin, berth->id};
    base_map_remove(&place->berths, &key);
    peer_t *peer = base_map_get(&place->peers, &berth->origin);
    if (peer != NULL) peer->berth_count--;
    ring_remove(&berth->in_peer);
    ring_remove(&berth->link);
    ring_remove(&berth->unused);
    free(berth);
}

void place_berth_shrink(place_t *place, berth_t *berth, uint32_t credits) {
    if (credits >= berth->credits || berth->is_closed) return;
    berth->credits = credits;
    berth->is_closed = credits == 0;
    credit_send(place, berth->origin, berth->id, credits);
}

/* How many of its guests stand in the scheduler's queue, or run: as many as it has credits; where
 * they are short some more, so that the scheduler can hand them to workers ahead. */
static uint64_t used_most(const berth_t *berth) {
    bool is_short = berth->ran_ns > 0 && berth->ran_ns < PLACE_SHORT_NS;
    return (uint64_t)berth->credits * (is_short ? 1 + PLACE_QUEUE_MAX : 1);
}

void place_berth_fill(place_t *place, berth_t *berth) {
    ring_t *next;
    for (ring_t *at = ring_first(&berth->held); at != NULL && berth->used < used_most(berth);
         at = next) {
        place_guest_t *guest = RING_OF(at, place_guest_t, held);
        next = ring_after(&berth->held, at);
        if (BASE_RULE(PLACE_PAUSED_HOLDS) && place->is_paused && guest->is_once) continue;
        ring_remove(at);
        guest->state = GUEST_QUEUED;
        berth->used++;
        place->ops->queue(place->context, guest->task);
    }
    place_berth_refresh(place, berth);
}

/* ---- a new one ---- */

static bool need_read(const place_t *place, const frame_amount_t *amount, need_t *ret_need) {
    for (uint32_t i = 0; i < place->resource_count; i++)
        if (strcmp(place->resources[i].name, amount->name) == 0) {
            *ret_need = (need_t){i, amount->amount};
            return amount->amount <= place->resources[i].total;
        }
    return false;
}

/* How many fit beside what is promised to others. */
static uint32_t credits_now(place_t *place, const message_demand_t *d, const need_t *needs,
                            uint32_t most) {
    place_report_refresh(place);
    for (size_t i = 0; i < d->demand.count && most > 0; i++) {
        int64_t left = place->resources[needs[i].resource].said;
        uint64_t fit = left > 0 ? (uint64_t)left / needs[i].amount : 0;
        if (fit < most) most = (uint32_t)fit;
    }
    if (most == 0) return 0;
    return place->ops->fits(place->context, d->demand.amounts, d->demand.count, most);
}

static uint32_t credits_choose(place_t *place, const message_demand_t *d, need_t *needs,
                               uint32_t most, bool is_to_queue) {
    if (place->is_paused || place_is_ended(place, d->demand.job)) return 0;
    for (size_t i = 0; i < d->demand.count; i++)
        if (!need_read(place, &d->demand.amounts[i], &needs[i]) ||
            place->resources[needs[i].resource].promised > PROMISED_MAX)
            return 0;
    uint32_t credits = credits_now(place, d, needs, most);
    return credits == 0 && is_to_queue ? 1 : credits;
}

static berth_t *berth_new(place_t *place, peer_t *peer, uint64_t id, const message_demand_t *d,
                          const need_t *needs) {
    size_t count = d->demand.count;
    berth_t *berth = calloc(1, sizeof *berth + count * sizeof *needs);
    berth_key_t key = {peer->id, id};
    if (berth == NULL || !base_map_put(&place->berths, &key, berth)) {
        free(berth);
        return NULL;
    }
    berth->origin = peer->id;
    berth->id = id;
    berth->job = d->demand.job;
    berth->count = (uint32_t)count;
    if (count > 0) memcpy(berth->needs, needs, count * sizeof *needs);
    ring_init(&berth->held);
    ring_init(&berth->all);
    peer->berth_count++;
    ring_push(&peer->berths, &berth->in_peer);
    ring_push(&place->all_berths, &berth->link);
    return berth;
}

mob_status_t place_berth_receive_open(place_t *place, uint64_t from, base_reader_t *r) {
    uint64_t id = base_take_number(r, 8);
    uint32_t most = (uint32_t)base_take_number(r, 4), flags = (uint32_t)base_take_number(r, 1);
    message_demand_t d;
    mob_status_t status = place_message_demand_read(r, &d);
    if (status != MOB_OK || most == 0 || most > PLACE_WANT_MAX || flags > MESSAGE_FLAGS)
        return MOB_EPROTO;
    if (place_berth_find(place, from, id) != NULL) return MOB_EPROTO;
    need_t needs[PLACE_NAMES_MAX];
    peer_t *peer = place_peer(place, from);
    if (from == place->self || base_map_get(&place->dead, &from) != NULL) return MOB_EPROTO;
    place->must_say = true;
    if (most > PLACE_CREDITS_MAX) most = PLACE_CREDITS_MAX;
    uint32_t credits = credits_choose(place, &d, needs, most, (flags & MESSAGE_QUEUES) != 0);
    if (peer != NULL && peer->berth_count >= PLACE_BERTHS_MAX) credits = 0;
    berth_t *berth = peer != NULL && credits > 0 ? berth_new(place, peer, id, &d, needs) : NULL;
    credit_send(place, from, id, berth != NULL ? credits : 0);
    if (berth == NULL) return MOB_OK;
    berth->credits = credits;
    place_berth_refresh(place, berth);
    return MOB_OK;
}

mob_status_t place_berth_receive_close(place_t *place, uint64_t from, base_reader_t *r) {
    uint64_t id = base_take_number(r, 8);
    if (!base_reader_is_done(r)) return MOB_EPROTO;
    berth_t *berth = place_berth_find(place, from, id);
    if (berth == NULL) return MOB_OK;
    berth->credits = 0;
    berth->is_closed = true;
    place_berth_refresh(place, berth);
    return MOB_OK;
}

/* ---- its end ---- */

void place_berths_tick(place_t *place) {
    ring_t *first;
    while ((first = ring_first(&place->unused)) != NULL) {
        berth_t *berth = RING_OF(first, berth_t, unused);
        if (berth->lapse_ns > place->now_ns) break;
        ring_remove(first);
        if (!BASE_RULE(PLACE_PROMISE_LAPSES)) continue;
        place_berth_shrink(place, berth, berth->used);
        place_berth_refresh(place, berth);
    }
}

uint64_t place_berths_due_ns(const place_t *place) {
    ring_t *first = ring_first(&place->unused);
    return first == NULL ? UINT64_MAX : RING_OF(first, berth_t, unused)->lapse_ns;
}

void place_berths_peer_died(place_t *place, peer_t *peer) {
    ring_t *first;
    while ((first = ring_first(&peer->berths)) != NULL) {
        berth_t *berth = RING_OF(first, berth_t, in_peer);
        ring_remove(first);
        berth->credits = 0;
        berth->is_closed = true;
        berth->guests++; /* it stays until all of them were told */
        ring_t *next;
        for (ring_t *at = ring_first(&berth->all); at != NULL; at = next) {
            next = ring_after(&berth->all, at);
            place_guest_orphan(RING_OF(at, place_guest_t, in_berth));
        }
        berth->guests--;
        place_berth_refresh(place, berth);
    }
}

void place_berths_peer_silent(place_t *place, peer_t *peer) {
    ring_t *next;
    for (ring_t *at = ring_first(&peer->berths); at != NULL; at = next) {
        berth_t *berth = RING_OF(at, berth_t, in_peer);
        next = ring_after(&peer->berths, at);
        place_berth_shrink(place, berth, berth->used);
        place_berth_refresh(place, berth);
    }
}

static void berth_job_ended(place_t *place, berth_t *berth) {
    berth->guests++; /* as above */
    place_berth_shrink(place, berth, 0);
    ring_t *next;
    for (ring_t *at = ring_first(&berth->all); at != NULL; at = next) {
        place_guest_t *guest = RING_OF(at, place_guest_t, in_berth);
        next = ring_after(&berth->all, at);
        if (!place_guest_return(guest))
            place->ops->stop(place->context, guest->task, PLACE_STOP_ALL);
    }
    berth->guests--;
    place_berth_refresh(place, berth);
}

void place_berths_job_ended(place_t *place, frame_job_t job) {
    ring_t *next;
    for (ring_t *at = ring_first(&place->all_berths); at != NULL; at = next) {
        berth_t *berth = RING_OF(at, berth_t, link);
        next = ring_after(&place->all_berths, at);
        if (berth->job.home == job.home && berth->job.number == job.number)
            berth_job_ended(place, berth);
    }
}
