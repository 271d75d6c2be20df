/*
 * Tasks of this node that are at peers.
 *
 *     READY --take, TASK--> sent --BACK--> READY (never begun: no retry is spent)
 *                           sent --DONE--> ended, or READY with one retry less: its worker died
 *                           sent --tombstone--> READY with one retry less, or ended: LOST
 *
 * What was sent and has not returned counts as begun: nobody can know better. A cancelled task does
 * not end at once, for it may be about to begin at the peer: it ends at its return, whatever that
 * is. Only the end of its job ends it here and now, and its record may then name another task: so
 * each sending has a number, `run`, and what is said about another run is ignored.
 */
#include "place/books.h"

#include <assert.h>
#include <stdlib.h>

static void id_put(base_writer_t *w, message_kind_t kind, const sent_t *sent) {
    base_put_number(w, kind, 1);
    base_put_number(w, sent->record, 4);
    base_put_number(w, sent->run, 8);
}

static void sent_send(place_t *place, const sent_t *sent, const place_task_t *task) {
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    id_put(&w, MESSAGE_TASK, sent);
    base_put_number(&w, sent->lease->id, 8);
    base_put_number(&w, task->moves, 1);
    base_put_number(&w, task->retries == 0, 1);
    assert(w.size == MESSAGE_TASK_HEAD);
    place_send(place, sent->lease->peer->id, w.bytes, w.size, task->frame, task->size, false);
}

bool place_sent_fill(lease_t *lease) {
    place_lane_t *lane = lease->lane;
    place_t *place = lane->place;
    sent_t *sent = calloc(1, sizeof *sent);
    if (sent == NULL) return false;
    place_task_t task;
    if (!place->ops->take(place->context, lane->context, lease->peer->id, &task)) {
        lane->waiting = 0;
        free(sent);
        return false;
    }
    lane->waiting--;
    *sent = (sent_t){.record = task.record,
                     .run = ++place->run_last,
                     .lease = lease,
                     .retries = task.retries,
                     .moves = task.moves,
                     .since_ns = place->now_ns};
    if (!base_map_put(&place->sent, &sent->record, sent)) {
        place->ops->put_back(place->context, task.record, task.retries, task.moves);
        lane->waiting++;
        free(sent);
        return false;
    }
    ring_push(&lease->tasks, &sent->in_lease);
    lease->out++;
    lease->sent++;
    ring_remove(&lease->ready); /* the next task is for the next lease */
    place_lease_refresh(lease);
    sent_send(place, sent, &task);
    return true;
}

/* Takes it out of the books; the lease may be gone afterwards. */
static void sent_forget(place_t *place, sent_t *sent) {
    lease_t *lease = sent->lease;
    base_map_remove(&place->sent, &sent->record);
    ring_remove(&sent->in_lease);
    free(sent);
    lease->sent--;
    place_lease_refresh(lease);
    if (lease->is_closed) place_lease_close(lease);
}

static void sent_credit_back(sent_t *sent) {
    if (!sent->is_blocked) sent->lease->out--;
    sent->is_blocked = true;
}

static void sent_end(place_t *place, sent_t *sent, place_outcome_t outcome, const void *value,
                     size_t size) {
    uint32_t record = sent->record;
    sent_credit_back(sent);
    sent_forget(place, sent);
    place->ops->ended(place->context, record, outcome, value, size);
}

/* It is READY again, unless it was cancelled. */
static void sent_put_back(place_t *place, sent_t *sent, int32_t retries, uint8_t moves) {
    if (BASE_RULE(PLACE_CANCEL_IS_KEPT) && sent->is_cancelled) {
        sent_end(place, sent, PLACE_CANCELLED, NULL, 0);
        return;
    }
    place_lane_t *lane = sent->lease->lane;
    uint32_t record = sent->record;
    sent_credit_back(sent);
    sent_forget(place, sent);
    if (lane->waiting++ == 0) lane->since_ns = place->now_ns;
    place_lane_dirty(lane);
    place->ops->put_back(place->context, record, retries, moves);
}

/* It may have been begun, and has no result: again, if it may. */
static void sent_retry(place_t *place, sent_t *sent, place_outcome_t outcome) {
    if (sent->retries == 0)
        sent_end(place, sent, sent->is_cancelled ? PLACE_CANCELLED : outcome, NULL, 0);
    else
        sent_put_back(place, sent, sent->retries > 0 ? sent->retries - 1 : -1, sent->moves);
}

static void sent_lose(place_t *place, sent_t *sent) {
    if (BASE_RULE(PLACE_SENT_IS_BEGUN))
        sent_retry(place, sent, PLACE_LOST);
    else
        sent_put_back(place, sent, sent->retries, sent->moves);
}

void place_sent_peer_died(place_t *place, peer_t *peer) {
    ring_t *first;
    while ((first = ring_first(&peer->leases)) != NULL) {
        lease_t *lease = RING_OF(first, lease_t, in_peer);
        lease->lane->must_ask = true;
        lease->is_closed = true;
        lease->sent++; /* it stays until it is freed below */
        while ((first = ring_first(&lease->tasks)) != NULL)
            sent_lose(place, RING_OF(first, sent_t, in_lease));
        lease->sent--;
        place_lease_close(lease);
    }
}

static void lane_job_ended(place_t *place, place_lane_t *lane) {
    ring_t *first;
    place_lane_dirty(lane);
    while ((first = ring_first(&lane->leases)) != NULL) {
        lease_t *lease = RING_OF(first, lease_t, in_lane);
        lease->sent++; /* as above */
        while ((first = ring_first(&lease->tasks)) != NULL)
            sent_end(place, RING_OF(first, sent_t, in_lease), PLACE_CANCELLED, NULL, 0);
        lease->sent--;
        place_lease_close(lease);
    }
}

void place_sent_job_ended(place_t *place, frame_job_t job) {
    for (ring_t *at = place->all_lanes.next; at != &place->all_lanes; at = at->next) {
        place_lane_t *lane = RING_OF(at, place_lane_t, link);
        if (lane->job.home == job.home && lane->job.number == job.number)
            lane_job_ended(place, lane);
    }
}

/* ---- what the peer says ---- */

/* The task that the peer has the word about; NULL: not its, or not any more. */
static sent_t *sent_read(place_t *place, uint64_t from, base_reader_t *r) {
    uint32_t record = (uint32_t)base_take_number(r, 4);
    uint64_t run = base_take_number(r, 8);
    sent_t *sent = base_map_get(&place->sent, &record);
    if (sent == NULL || sent->lease->peer->id != from) return NULL;
    return sent->run == run || !BASE_RULE(PLACE_RUN_IS_KNOWN) ? sent : NULL;
}

mob_status_t place_sent_receive_back(place_t *place, uint64_t from, base_reader_t *r) {
    sent_t *sent = sent_read(place, from, r);
    if (!base_reader_is_done(r)) return MOB_EPROTO;
    if (sent == NULL) return MOB_OK;
    uint8_t moves = sent->moves < PLACE_MOVES_MAX ? sent->moves + 1 : PLACE_MOVES_MAX;
    /* What runs there takes long. The lease would get it again at once, and so without end: nothing
     * is sent ahead until another one is done. */
    if (BASE_RULE(PLACE_BACK_IS_LONG)) sent->lease->ran_ns = 0;
    sent_put_back(place, sent, sent->retries, moves);
    return MOB_OK;
}

/* What is to be sent ahead follows from it; see lease.c. */
static void lease_measure(lease_t *lease, uint64_t took_ns, uint64_t there_ns, uint64_t ran_ns) {
    lease->way_ns = place_mean(lease->way_ns, took_ns > there_ns ? took_ns - there_ns : 0);
    lease->ran_ns = place_mean(lease->ran_ns, ran_ns + 1000);
}

mob_status_t place_sent_receive_done(place_t *place, uint64_t from, base_reader_t *r) {
    sent_t *sent = sent_read(place, from, r);
    uint64_t outcome = base_take_number(r, 1);
    uint64_t there_ns = base_take_number(r, 4) * 1000, ran_ns = base_take_number(r, 4) * 1000;
    if (r->short_of || outcome > PLACE_CANCELLED) return MOB_EPROTO;
    if (sent == NULL) return MOB_OK;
    lease_measure(sent->lease, place->now_ns - sent->since_ns, there_ns, ran_ns);
    if (outcome == PLACE_CRASHED)
        sent_retry(place, sent, PLACE_CRASHED);
    else
        sent_end(place, sent, (place_outcome_t)outcome, r->at, r->left);
    return MOB_OK;
}

mob_status_t place_sent_receive_block(place_t *place, uint64_t from, base_reader_t *r) {
    sent_t *sent = sent_read(place, from, r);
    uint64_t is_blocked = base_take_number(r, 1);
    if (!base_reader_is_done(r) || is_blocked > 1) return MOB_EPROTO;
    if (sent == NULL || sent->is_blocked == is_blocked) return MOB_OK;
    sent->is_blocked = is_blocked;
    sent->lease->out += is_blocked ? -1u : 1;
    place_lease_refresh(sent->lease);
    return MOB_OK;
}

bool place_cancel(place_t *place, uint32_t record, uint32_t how) {
    sent_t *sent = base_map_get(&place->sent, &record);
    if (sent == NULL) return false;
    sent->is_cancelled = true;
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    id_put(&w, MESSAGE_CANCEL, sent);
    base_put_number(&w, how, 1);
    place_send_head(place, sent->lease->peer->id, &w, false);
    return true;
}
