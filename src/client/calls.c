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
 * Order. A call can't be taken while an argument of it is missing, or while its concurrency group
 * (group.c) is full. It holds up the calls behind it of the same caller and group, unless the actor
 * runs them out of order, and then only a full group does. The worker goes on with calls of other
 * groups and other queues.
 *
 * For that the worker looks beyond the head: it notes the calls that it could not take, in a row
 * for each group. An entry that was taken from behind the head is void, for its record is READY no
 * more in that generation; the head moves over it when it gets there. So the queue alone says what
 * is still to be done: what the worker noted may die with it, and the next one looks again from the
 * head. (A queue for each group would need no notes, but a caller that calls many actors would need
 * many more queues, and calls out of order would need the notes all the same.)
 *
 * No wake-up is lost: the actor sets `rests`, then looks into its queues; a caller pushes, then
 * reads `rests`; both sequentially consistent.
 */
#include "client/client.h"
#include "shm/term.h"

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

/* ---- looking into a queue ---- */

/* Nobody can take this entry any more: this worker has, or the daemon. */
static bool is_void(const mob_client_t *c, uint64_t entry) {
    return !wire_entry_names(entry, atomic_load_explicit(&c->records[wire_entry_index(entry)].word,
                                                         memory_order_acquire));
}

static bool row_has(const client_row_t *row) { return row->next < row->calls.count; }

static client_row_t *row_of(const client_calls_t *calls, uint32_t group) {
    return group < calls->rows.count ? &calls->rows.items[group] : NULL;
}

static bool group_has_kept(const client_calls_t *calls, uint32_t group) {
    const client_row_t *row = row_of(calls, group);
    return row != NULL && row_has(row);
}

static bool row_keep(client_calls_t *calls, uint32_t group, client_kept_t kept) {
    while (calls->rows.count <= group)
        if (!vec_push(&calls->rows, (client_row_t){0})) return false;
    return vec_push(&calls->rows.items[group].calls, kept);
}

static void row_drop_first(client_row_t *row) {
    if (++row->next < row->calls.count && row->next < 1024) return;
    row->calls.count -= row->next;
    if (row->calls.count > 0)
        memmove(row->calls.items, row->calls.items + row->next,
                row->calls.count * sizeof *row->calls.items);
    row->next = 0;
}

/* Whether the call waits for an argument that it was kept for. */
static bool kept_waits(const mob_client_t *c, const client_kept_t *kept) {
    /* A call that waits may be cancelled: the daemon rings this worker's bell then. */
    return kept->missing.slot != 0 && client_is_pending(c, kept->missing) &&
           !is_void(c, kept->entry);
}

/* A call of a group that has room, and of which none is kept, would be taken. */
static bool may_look(const mob_client_t *c, const client_calls_t *calls) {
    for (uint32_t g = 0; g < client_group_count(c); g++)
        if (client_group_has_room(c, g) && !group_has_kept(calls, g)) return true;
    return false;
}

/* Entries that were not looked at. */
static bool has_unseen(mob_client_t *c, const client_calls_t *calls) {
    shm_queue_t *q = &c->queues[calls->queue];
    /* seq_cst: as in shm_queue_count */
    uint64_t head = atomic_load(&q->head), tail = atomic_load(&q->tail);
    uint64_t from = (int64_t)(calls->seen - head) > 0 ? calls->seen : head;
    return (int64_t)(tail - from) > 0;
}

/* Moves the queue's head over what was looked at and nobody can take any more. */
static void head_move(mob_client_t *c, const client_calls_t *calls) {
    shm_queue_t *q = &c->queues[calls->queue];
    uint64_t position, entry;
    while (shm_queue_peek(q, &position, &entry) && (int64_t)(calls->seen - position) > 0 &&
           is_void(c, entry))
        shm_queue_pass(q, position);
}

static bool queue_waits(mob_client_t *c, const client_calls_t *calls) {
    if (shm_queue_count(&c->queues[calls->queue]) == 0) return false;
    head_move(c, calls);
    return shm_queue_count(&c->queues[calls->queue]) > 0;
}

static bool queue_has(mob_client_t *c, const client_calls_t *calls) {
    if (shm_queue_count(&c->queues[calls->queue]) == 0) return false;
    for (uint32_t g = 0; g < calls->rows.count; g++) {
        const client_row_t *row = &calls->rows.items[g];
        if (row_has(row) && client_group_has_room(c, g) &&
            !kept_waits(c, &row->calls.items[row->next]))
            return true;
    }
    for (size_t i = 0; i < calls->unready.count; i++)
        if (!kept_waits(c, &calls->unready.items[i])) return true;
    return may_look(c, calls) && has_unseen(c, calls);
}

bool client_calls_have(mob_client_t *c) {
    if (c->calls.count > 0 && shm_term_await(c->node)) return false;
    for (size_t i = 0; i < c->calls.count; i++)
        if (queue_has(c, &c->calls.items[i])) return true;
    return false;
}

bool client_calls_wait(mob_client_t *c) {
    for (size_t i = 0; i < c->calls.count; i++)
        if (queue_waits(c, &c->calls.items[i])) return true;
    return false;
}

static bool any_full(const mob_client_t *c) {
    for (uint32_t g = 0; g < c->groups.count; g++)
        if (!client_group_has_room(c, g)) return true;
    return false;
}

bool client_calls_crowded(mob_client_t *c) {
    if (!any_full(c)) return false;
    for (size_t i = 0; i < c->calls.count; i++) {
        const client_calls_t *calls = &c->calls.items[i];
        if (has_unseen(c, calls)) return true;
        for (uint32_t g = 0; g < calls->rows.count; g++)
            if (row_has(&calls->rows.items[g]) && !client_group_has_room(c, g)) return true;
    }
    return false;
}

/* ---- taking from it ---- */

/* Whether the arguments of the call that `entry` names are there. If not, *ret_missing becomes the
 * first of them, and its sealer wakes this worker. */
static bool call_is_ready(mob_client_t *c, uint64_t entry, mob_ref_t *ret_missing) {
    *ret_missing = (mob_ref_t){0};
    const wire_record_t *record = &c->records[wire_entry_index(entry)];
    wire_body_t body;
    if (is_void(c, entry) || !client_record_split(c, record, &body)) return true;
    for (uint32_t i = 0; i < record->num_deps; i++) {
        mob_ref_t dep = body.deps[i];
        if (!client_slot_valid(dep.slot) || !client_is_pending(c, dep)) continue;
        if (!store_slot_wait(&c->slots[dep.slot], c->number)) continue;
        *ret_missing = dep;
        return false;
    }
    return true;
}

/* Keeps a call that can't be taken now. Without memory this worker ends, as in client_calls_add. */
static void call_keep(mob_client_t *c, client_calls_t *calls, uint32_t group, client_kept_t kept) {
    bool unready = c->out_of_order && kept.missing.slot != 0;
    if (unready ? !vec_push(&calls->unready, kept) : !row_keep(calls, group, kept))
        c->told_to_exit = c->run_unclaimable = true;
}

/* Of an actor out of order: calls whose arguments are there by now go to their rows. Each sealer
 * rings the bell, so without a ring a look is seldom worth it: only before this worker sleeps
 * (`all`), for a sealer may have died before it rang. */
static void unready_look(mob_client_t *c, client_calls_t *calls, bool all) {
    uint32_t rings = shm_bell_listen(&c->node->bells[c->number]);
    if (calls->unready.count == 0 || (rings == calls->rings && !all)) return;
    calls->rings = rings;
    size_t kept = 0;
    for (size_t i = 0; i < calls->unready.count; i++) {
        client_kept_t *call = &calls->unready.items[i];
        uint32_t group = client_group_of(c, &c->records[wire_entry_index(call->entry)]);
        if (kept_waits(c, call) || !call_is_ready(c, call->entry, &call->missing))
            calls->unready.items[kept++] = *call;
        else if (!row_keep(calls, group, *call))
            c->told_to_exit = c->run_unclaimable = true;
    }
    calls->unready.count = kept;
}

/* Takes the first call of those that were kept of a group. */
static bool row_take(mob_client_t *c, client_calls_t *calls, uint32_t group,
                     client_claim_fn claim) {
    client_row_t *row = &calls->rows.items[group];
    while (row_has(row)) {
        client_kept_t call = row->calls.items[row->next];
        if (kept_waits(c, &call)) return false;
        bool ready = call_is_ready(c, call.entry, &call.missing), claimed = false;
        if (!ready && !c->out_of_order) {
            row->calls.items[row->next].missing = call.missing;
            return false;
        }
        if (ready) claimed = claim(c, call.entry);
        if (!claimed && c->run_unclaimable) return false;
        row_drop_first(row);
        if (!ready) call_keep(c, calls, group, call);
        head_move(c, calls);
        if (claimed) return true;
    }
    return false;
}

static bool rows_take(mob_client_t *c, client_calls_t *calls, client_claim_fn claim) {
    for (uint32_t g = 0; g < calls->rows.count; g++) {
        if (client_group_has_room(c, g) && row_take(c, calls, g, claim)) return true;
        if (c->run_unclaimable) return false;
    }
    return false;
}

/* Takes the next entry that was not looked at, if it can be taken; keeps those before it. */
static bool unseen_take(mob_client_t *c, client_calls_t *calls, client_claim_fn claim) {
    shm_queue_t *q = &c->queues[calls->queue];
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire), entry;
    if ((int64_t)(calls->seen - head) < 0) calls->seen = head;
    while (may_look(c, calls) && shm_queue_at(q, calls->seen, &entry)) {
        uint64_t position = calls->seen;
        uint32_t group = client_group_of(c, &c->records[wire_entry_index(entry)]);
        client_kept_t kept = {.entry = entry};
        if (!client_group_has_room(c, group) || group_has_kept(calls, group) ||
            !call_is_ready(c, entry, &kept.missing)) {
            call_keep(c, calls, group, kept);
            if (c->run_unclaimable) return false;
            calls->seen = position + 1;
            continue;
        }
        uint64_t next = shm_queue_after(q, position);
        bool claimed = claim(c, entry);
        if (!claimed && c->run_unclaimable) return false;
        calls->seen = position + 1;
        shm_queue_pass(q, position); /* unless an entry before it was kept */
        if (next != 0) client_entry_fetch(c, next);
        if (claimed) return true;
    }
    return false;
}

static bool queue_take(mob_client_t *c, client_calls_t *calls, bool all, client_claim_fn claim) {
    unready_look(c, calls, all);
    return rows_take(c, calls, claim) || (!c->run_unclaimable && unseen_take(c, calls, claim));
}

bool client_call_take(mob_client_t *c, client_claim_fn claim) {
    size_t count = c->calls.count;
    bool unready = false;
    if (count > 0 && shm_term_await(c->node)) return false;
    for (size_t tried = 0; tried < 2 * count && !c->run_unclaimable; tried++) {
        bool again = tried >= count;
        if (again && !unready) return false;
        size_t i = (c->calls_turn + tried) % count;
        client_calls_t *calls = &c->calls.items[i];
        if (queue_take(c, calls, again, claim)) {
            c->calls_turn = i + 1;
            return true;
        }
        unready |= calls->unready.count > 0;
    }
    return false;
}

static void calls_fini(client_calls_t *calls) {
    for (size_t g = 0; g < calls->rows.count; g++) vec_free(&calls->rows.items[g].calls);
    vec_free(&calls->rows);
    vec_free(&calls->unready);
}

void client_calls_free(mob_client_t *c) {
    for (size_t i = 0; i < c->calls.count; i++) calls_fini(&c->calls.items[i]);
    vec_free(&c->calls);
}

void client_calls_finish(mob_client_t *c) {
    if (!c->calls_ending || c->run_unclaimable) return;
    c->calls_ending = false;
    for (size_t i = c->calls.count; i-- > 0;) {
        if (!c->calls.items[i].ending) continue;
        if (queue_waits(c, &c->calls.items[i])) {
            c->calls_ending = true;
            continue;
        }
        client_push(c, wire_about_queue(WIRE_CALLS_ENDED, c->calls.items[i].queue));
        calls_fini(&c->calls.items[i]);
        vec_swap_remove(&c->calls, i);
    }
}
