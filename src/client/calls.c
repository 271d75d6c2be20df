/*
 * Calls of actors, straight from the caller to the actor. There is a queue for each pair: the
 * caller pushes, the actor's worker takes. So the worker takes the calls of one caller in their
 * order.
 *
 * The caller asks the daemon for the queue at its first call of an actor. If the actor is not alive
 * yet, the calls wait in the queue. The daemon tells the actor's worker which queues are its own.
 * The daemon grants no queue while calls of the same caller are on their way through itself, and
 * lets no call through while there is a queue: so the order holds.
 *
 * An actor that died: the daemon closes its queues and fails what lies in them. The daemon sets
 * `closed` before it looks. So a caller that pushed after the look sees `closed` and tells the
 * daemon, which fails that call like any other of a dead actor.
 *
 * A call whose argument is not there yet stays at its queue's head until it is. The worker goes on
 * with its other queues.
 *
 * No wake-up is lost: the actor sets `rests`, then looks into its queues; a caller pushes, then
 * reads `rests`; both sequentially consistent.
 */
#include "client/client.h"

enum { ASK_AGAIN = 64 }; /* calls, after the daemon had no queue for this pair */

/* ---- the caller ---- */

void client_calls_granted(mob_client_t *c, mob_ref_t actor, const wire_message_t *answer) {
    client_local_t *local = &c->local[actor.slot];
    if (!client_local_is(c, actor) || local->count == 0) return;
    if (answer->queue.queue >= SHM_FIRST_CALLS && answer->queue.queue < SHM_QUEUES)
        local->queue = (uint16_t)answer->queue.queue;
    local->refused = local->queue == 0;
}

mob_status_t client_calls_queue(mob_client_t *c, mob_ref_t actor, uint32_t *ret_queue) {
    client_local_t *local = &c->local[actor.slot];
    *ret_queue = 0;
    if (!client_local_is(c, actor) || local->count == 0 ||
        atomic_load_explicit(&c->node->fast, memory_order_relaxed) == 0)
        return MOB_OK;
    if (local->queue == 0) {
        if (local->refused > 0 && local->refused++ < ASK_AGAIN) return MOB_OK;
        wire_message_t m = wire_about_object(WIRE_NEED_CALLS, actor.slot, actor.generation), answer;
        mob_status_t status = client_ask(c, &m, WIRE_CALLS_ARE, &answer);
        /* Not through the daemon: it may grant the queue later, and this call would come after
         * those in it. */
        if (status != MOB_OK) return status;
        client_calls_granted(c, actor, &answer);
    }
    if (local->queue != 0 && !atomic_load(&c->queues[local->queue].closed))
        *ret_queue = local->queue;
    return MOB_OK;
}

void client_call_push(mob_client_t *c, uint32_t number, uint32_t record, uint64_t generation) {
    shm_queue_t *q = &c->queues[number];
    shm_queue_push(q, wire_entry(record, generation));
    if (atomic_load(&q->closed) != 0) {
        client_push(c, wire_about_record(WIRE_CLOSED, record, generation));
        return;
    }
    uint32_t taker = atomic_load(&q->taker);
    if (taker != 0 && taker < SHM_MAX_CLIENTS && atomic_load(&c->node->leases[taker].rests) != 0)
        c->woke = shm_bell_ring(&c->node->bells[taker]);
}

/* ---- the actor ---- */

void client_calls_add(mob_client_t *c, uint32_t number) {
    if (number < SHM_FIRST_CALLS || number >= SHM_QUEUES) return;
    /* Without memory for it: no other process can serve this actor, so this worker ends, and its
     * calls fail with it. */
    if (!vec_push(&c->calls, ((client_calls_t){.queue = number}))) c->told_to_exit = true;
}

void client_calls_end(mob_client_t *c, uint32_t number) {
    for (size_t i = 0; i < c->calls.count; i++)
        if (c->calls.items[i].queue == number) c->calls.items[i].ending = c->calls_ending = true;
}

/* Whether the queue has a first entry, and it may be taken. */
static bool calls_ready(mob_client_t *c, client_calls_t *calls) {
    if (shm_queue_count(&c->queues[calls->queue]) == 0) return false;
    if (calls->missing.slot == 0 || !client_is_pending(c, calls->missing)) return true;
    /* A call that waits may be cancelled: the daemon rings this worker's bell then. */
    uint64_t position, entry;
    return shm_queue_peek(&c->queues[calls->queue], &position, &entry) &&
           !wire_entry_names(entry, atomic_load_explicit(&c->records[wire_entry_index(entry)].word,
                                                         memory_order_acquire));
}

bool client_calls_have(mob_client_t *c) {
    for (size_t i = 0; i < c->calls.count; i++)
        if (calls_ready(c, &c->calls.items[i])) return true;
    return false;
}

bool client_calls_wait(mob_client_t *c) {
    for (size_t i = 0; i < c->calls.count; i++)
        if (shm_queue_count(&c->queues[c->calls.items[i].queue]) > 0) return true;
    return false;
}

/* Whether the arguments of the call that `entry` names are there. If not, `missing` becomes the
 * first of them, and its sealer wakes this worker. */
static bool call_is_ready(mob_client_t *c, client_calls_t *calls, uint64_t entry) {
    calls->missing = (mob_ref_t){0};
    const wire_record_t *record = &c->records[wire_entry_index(entry)];
    /* void */
    if (!wire_entry_names(entry, atomic_load_explicit(&record->word, memory_order_acquire)))
        return true;
    wire_body_t body;
    if (!client_record_split(c, record, &body)) return true;
    for (uint32_t i = 0; i < record->num_deps; i++) {
        mob_ref_t dep = body.deps[i];
        if (!client_slot_valid(dep.slot) || !client_is_pending(c, dep)) continue;
        if (!store_slot_wait(&c->slots[dep.slot], c->number)) continue;
        calls->missing = dep;
        return false;
    }
    return true;
}

bool client_call_take(mob_client_t *c, client_claim_fn claim) {
    for (size_t tried = 0; tried < c->calls.count; tried++) {
        size_t i = (c->calls_turn + tried) % c->calls.count;
        client_calls_t *calls = &c->calls.items[i];
        shm_queue_t *q = &c->queues[calls->queue];
        uint64_t position, entry;
        while (calls_ready(c, calls) && shm_queue_peek(q, &position, &entry) &&
               call_is_ready(c, calls, entry)) {
            uint64_t next = shm_queue_after(q, position);
            bool claimed = claim(c, entry);
            if (!claimed && c->run_unclaimable) return false;
            shm_queue_pass(q, position);
            if (next != 0) client_entry_fetch(c, next);
            if (!claimed) continue;
            c->calls_turn = i + 1;
            return true;
        }
    }
    return false;
}

void client_calls_finish(mob_client_t *c) {
    if (!c->calls_ending || c->run_unclaimable) return;
    c->calls_ending = false;
    for (size_t i = c->calls.count; i-- > 0;) {
        uint32_t queue = c->calls.items[i].queue;
        if (!c->calls.items[i].ending) continue;
        if (shm_queue_count(&c->queues[queue]) > 0) {
            c->calls_ending = true;
            continue;
        }
        client_push(c, wire_about_queue(WIRE_CALLS_ENDED, queue));
        vec_swap_remove(&c->calls, i);
    }
}
