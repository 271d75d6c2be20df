/*
 * Tasks of peers here.
 *
 *     TASK --> held --credit--> queued --a worker takes it--> running <--> blocked --> DONE
 *              held, queued --waited in vain, cancelled, job ended--> BACK
 *
 * A guest goes back only if no worker has it, and none can get it any more: the scheduler's queue
 * says so (`unqueue`). A worker may have taken it before this room hears of that.
 *
 * One that waits in vain goes back, for there may be room elsewhere by now. Each return doubles how
 * long it waits at the next node. So a task that nobody has room for moves a number of times that
 * grows with the logarithm of its wait, and two full nodes do not throw it back and forth.
 */
#include "place/books.h"

#include <assert.h>
#include <stdlib.h>

typedef struct {
    uint64_t origin, run;
} guest_key_t;

static void id_put(const place_guest_t *guest, message_kind_t kind, base_writer_t *w) {
    base_put_number(w, kind, 1);
    base_put_number(w, guest->record, 4);
    base_put_number(w, guest->run, 8);
}

static void back_send(const place_guest_t *guest) {
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    id_put(guest, MESSAGE_BACK, &w);
    if (!guest->is_orphan) place_send_head(guest->place, guest->origin, &w, true);
}

static void block_send(const place_guest_t *guest, bool is_blocked) {
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    id_put(guest, MESSAGE_BLOCK, &w);
    base_put_number(&w, is_blocked, 1);
    if (!guest->is_orphan) place_send_head(guest->place, guest->origin, &w, true);
}

static uint64_t passed_us(const place_t *place, uint64_t since_ns) {
    uint64_t us = since_ns < place->now_ns ? (place->now_ns - since_ns) / 1000 : 0;
    return us < UINT32_MAX ? us : UINT32_MAX;
}

static void done_send(const place_guest_t *guest, place_outcome_t outcome, const void *value,
                      size_t size) {
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    id_put(guest, MESSAGE_DONE, &w);
    base_put_number(&w, outcome, 1);
    base_put_number(&w, passed_us(guest->place, guest->came_ns), 4);
    base_put_number(&w, passed_us(guest->place, guest->begun_ns), 4);
    assert(w.size == MESSAGE_DONE_HEAD);
    if (!guest->is_orphan)
        place_send(guest->place, guest->origin, w.bytes, w.size, value, size, true);
}

/* ---- coming ---- */

static void guest_wait(place_guest_t *guest) {
    place_t *place = guest->place;
    uint8_t moves = BASE_RULE(PLACE_PATIENCE_DOUBLES) ? guest->moves : 0;
    if (moves >= PLACE_MOVES_MAX || !BASE_RULE(PLACE_PATIENCE_ENDS)) return;
    guest->due_ns = place->now_ns + (PLACE_PATIENCE_NS << moves);
    ring_push(&place->unbegun[moves], &guest->patient);
}

/* NULL: it can't be taken, or its frame makes no sense. */
static place_guest_t *guest_new(place_t *place, berth_t *berth, uint64_t run, const void *frame,
                                size_t size) {
    guest_key_t key = {berth->origin, run};
    place_guest_t *guest = calloc(1, sizeof *guest);
    if (guest == NULL || !base_map_put(&place->guests, &key, guest)) {
        free(guest);
        return NULL;
    }
    *guest = (place_guest_t){.place = place, .berth = berth, .origin = berth->origin, .run = run};
    if (place->ops->admit(place->context, guest, guest->origin, frame, size, &guest->task) ==
        MOB_OK)
        return guest;
    base_map_remove(&place->guests, &key);
    free(guest);
    return NULL;
}

/* The origin has sent more than it may, or before it heard that it has less. */
static bool is_over_full(const berth_t *berth) {
    return berth->guests - berth->blocked >= (uint64_t)berth->credits * (1 + MESSAGE_AHEAD_MAX);
}

static void guest_refuse(place_t *place, uint64_t from, uint32_t record, uint64_t run,
                         const base_reader_t *frame) {
    if (BASE_RULE(PLACE_REFUSED_IS_COUNTED))
        place->ops->refuse(place->context, from, frame->at, frame->left);
    back_send(&(place_guest_t){.place = place, .origin = from, .record = record, .run = run});
}

mob_status_t place_guest_receive_task(place_t *place, uint64_t from, base_reader_t *r) {
    uint32_t record = (uint32_t)base_take_number(r, 4);
    uint64_t run = base_take_number(r, 8), lease = base_take_number(r, 8);
    uint64_t moves = base_take_number(r, 1), is_once = base_take_number(r, 1);
    guest_key_t key = {from, run};
    if (r->short_of || moves > PLACE_MOVES_MAX || is_once > 1 ||
        base_map_get(&place->guests, &key) != NULL || place_peer(place, from) == NULL)
        return MOB_EPROTO;
    berth_t *berth = place_berth_find(place, from, lease);
    bool is_full = berth == NULL || is_over_full(berth);
    place_guest_t *guest = is_full ? NULL : guest_new(place, berth, run, r->at, r->left);
    if (guest == NULL) {
        guest_refuse(place, from, record, run, r);
        return MOB_OK;
    }
    guest->record = record;
    guest->moves = (uint8_t)moves;
    guest->is_once = is_once;
    guest->came_ns = place->now_ns;
    berth->guests++;
    ring_push(&berth->all, &guest->in_berth);
    ring_push(&berth->held, &guest->held);
    guest_wait(guest);
    place_berth_fill(place, berth);
    return MOB_OK;
}

/* ---- going ---- */

static bool is_using(const place_guest_t *guest) {
    return guest->state == GUEST_QUEUED || guest->state == GUEST_RUNNING;
}

/* Out of the books; its berth may be gone afterwards. */
static void guest_forget(place_guest_t *guest) {
    place_t *place = guest->place;
    berth_t *berth = guest->berth;
    guest_key_t key = {guest->origin, guest->run};
    base_map_remove(&place->guests, &key);
    ring_remove(&guest->in_berth);
    ring_remove(&guest->held);
    ring_remove(&guest->patient);
    berth->used -= is_using(guest);
    berth->blocked -= guest->state == GUEST_BLOCKED;
    berth->guests--;
    free(guest);
    place_berth_fill(place, berth);
}

/* Whether no worker has it and none can get it. */
static bool guest_take(place_guest_t *guest) {
    place_t *place = guest->place;
    if (guest->state == GUEST_HELD) return true;
    if (guest->state != GUEST_QUEUED) return false;
    bool is_taken = place->ops->unqueue(place->context, guest->task);
    if (!is_taken && BASE_RULE(PLACE_BEGUN_STAYS)) place_guest_begun(place, guest, place->now_ns);
    return is_taken || !BASE_RULE(PLACE_BEGUN_STAYS);
}

static void guest_back(place_guest_t *guest) {
    place_t *place = guest->place;
    place->ops->drop(place->context, guest->task);
    back_send(guest);
    guest_forget(guest);
}

bool place_guest_return(place_guest_t *guest) {
    bool is_taken = guest_take(guest);
    if (is_taken) guest_back(guest);
    return is_taken;
}

void place_guest_orphan(place_guest_t *guest) {
    guest->is_orphan = true;
    if (!place_guest_return(guest))
        guest->place->ops->stop(guest->place->context, guest->task, PLACE_STOP_ALL);
}

void place_guest_hold(place_guest_t *guest) {
    if (guest->state != GUEST_QUEUED || !guest_take(guest)) return;
    guest->state = GUEST_HELD;
    guest->berth->used--;
    ring_push(&guest->berth->held, &guest->held);
    place_berth_refresh(guest->place, guest->berth);
}

mob_status_t place_guest_receive_cancel(place_t *place, uint64_t from, base_reader_t *r) {
    base_take_number(r, 4); /* its record means nothing here */
    guest_key_t key = {from, base_take_number(r, 8)};
    uint32_t how = (uint32_t)base_take_number(r, 1);
    if (!base_reader_is_done(r) || how > PLACE_STOP_ALL) return MOB_EPROTO;
    place_guest_t *guest = base_map_get(&place->guests, &key);
    if (guest == NULL || place_guest_return(guest)) return MOB_OK;
    place->ops->stop(place->context, guest->task, how);
    return MOB_OK;
}

/* It has waited in vain. The credits that its lease does not use here are no use to it; the origin
 * hears that first, or it would send the task again. One that was sent ahead waits on while others
 * of its lease end; one that was queued ahead first becomes such a one. */
static void guest_give_up(place_guest_t *guest) {
    place_t *place = guest->place;
    if (guest->state == GUEST_HELD && guest->berth->done_ns + PLACE_PATIENCE_NS > place->now_ns) {
        guest_wait(guest);
        return;
    }
    if (guest->state == GUEST_QUEUED && guest->berth->used > guest->berth->credits) {
        guest->berth->ran_ns = PLACE_SHORT_NS; /* who is before it takes long */
        place_guest_hold(guest);
        if (guest->state == GUEST_HELD) guest_wait(guest);
        return;
    }
    if (!guest_take(guest)) return;
    place_berth_shrink(place, guest->berth, guest->berth->used - is_using(guest));
    guest_back(guest);
}

void place_guests_tick(place_t *place) {
    for (int i = 0; i < PLACE_MOVES_MAX; i++) {
        ring_t *first;
        while ((first = ring_first(&place->unbegun[i])) != NULL) {
            place_guest_t *guest = RING_OF(first, place_guest_t, patient);
            if (guest->due_ns > place->now_ns) break;
            ring_remove(first);
            guest_give_up(guest);
        }
    }
}

uint64_t place_guests_due_ns(const place_t *place) {
    uint64_t due = UINT64_MAX;
    for (int i = 0; i < PLACE_MOVES_MAX; i++) {
        ring_t *first = ring_first(&place->unbegun[i]);
        if (first != NULL && RING_OF(first, place_guest_t, patient)->due_ns < due)
            due = RING_OF(first, place_guest_t, patient)->due_ns;
    }
    return due;
}

/* ---- what the node says ---- */

void place_guest_begun(place_t *place, place_guest_t *guest, uint64_t now_ns) {
    place->now_ns = now_ns;
    if (guest->state == GUEST_QUEUED) {
        guest->state = GUEST_RUNNING;
        guest->begun_ns = place->now_ns;
    }
    ring_remove(&guest->patient);
}

void place_guest_block(place_t *place, place_guest_t *guest, uint64_t now_ns) {
    place_guest_begun(place, guest, now_ns);
    if (guest->state != GUEST_RUNNING || !BASE_RULE(PLACE_BLOCKED_LENDS)) return;
    guest->state = GUEST_BLOCKED;
    guest->has_blocked = true;
    guest->berth->used--;
    guest->berth->blocked++;
    block_send(guest, true);
    place_berth_fill(place, guest->berth);
}

void place_guest_unblock(place_t *place, place_guest_t *guest, uint64_t now_ns) {
    place->now_ns = now_ns;
    if (guest->state != GUEST_BLOCKED) return;
    guest->state = GUEST_RUNNING;
    guest->berth->used++;
    guest->berth->blocked--;
    block_send(guest, false);
    place_berth_refresh(place, guest->berth);
}

void place_guest_done(place_t *place, place_guest_t *guest, place_outcome_t outcome,
                      const void *value, size_t size, uint64_t now_ns) {
    place_guest_begun(place, guest, now_ns);
    done_send(guest, outcome, value, size);
    guest->berth->ran_ns = place_mean(guest->berth->ran_ns, now_ns - guest->begun_ns + 1000);
    guest->berth->done_ns = place->now_ns;
    guest_forget(guest);
}

void place_guest_credits(const place_guest_t *guest, uint32_t *ret_credits, uint32_t *ret_used) {
    *ret_credits = guest->berth->credits;
    *ret_used = 0;
    for (ring_t *at = guest->berth->all.next; at != &guest->berth->all; at = at->next) {
        const place_guest_t *other = RING_OF(at, place_guest_t, in_berth);
        *ret_used += is_using(other) && !other->has_blocked;
    }
}
