/*
 * References, counted in the process. Only the first and the last of a process ever concern the
 * daemon, and not even those while a slot that the process owns has not escaped.
 *
 *   how a process comes to hold a slot          what it tells the daemon when the last count goes
 *   opened it (owned), never published          nothing: frees it, or leaves it to its task's end
 *   opened it, published (ESCAPED)              WIRE_DROP (that the owner holds it goes untold)
 *   was given it, an item of a flow             the same as if it had opened it
 *   found it inside a value (registered by      WIRE_DROP
 *     WIRE_HOLD_CONTENTS before unpacking)
 *   argument of what it runs (the record        nothing, unless it outlives the run:
 *     holds it)                                   then WIRE_HOLD before WIRE_DONE
 *
 * A count is of an object, not of a slot: it stands under the object's generation. Where all keep
 * the rules, a slot is not opened again while any process has a count of its last object, for the
 * daemon knows of a holder or a record holds it. But a reference may be stale from the start (read
 * from an id that a program kept), or released once too often. Then its slot may hold a new object,
 * of this process or of another, at any time. So the first count under a new generation clears what
 * is left of an old one. A reference of another generation than the counted one changes nothing.
 * The low 32 bits suffice: to be taken for the new one a reference would have to be older by a
 * multiple of 2^32 objects in the same slot.
 *
 * A process registers an escape before it publishes the bytes that carry it: the record or
 * container that carries it goes up the process's ring, in order, before any WIRE_DROP of the same
 * process.
 */
#include <endian.h>
#include <string.h>

#include "client/client.h"

bool client_local_renew(mob_client_t *c, mob_ref_t ref) {
    client_local_t *local = &c->local[ref.slot];
    if (atomic_load_explicit(&c->slots[ref.slot].generation, memory_order_relaxed) !=
        ref.generation)
        return false;
    if (local->pins > 0) client_map_end(client_unpin(c, ref.slot));
    *local = (client_local_t){.generation = (uint32_t)ref.generation};
    return true;
}

void client_ref_retain(mob_client_t *c, mob_ref_t ref) {
    client_local_t *local = client_local(c, ref);
    if (local != NULL) local->count++;
}

void client_ref_adopt(mob_client_t *c, mob_ref_t ref) {
    if (!client_slot_valid(ref.slot)) return;
    client_ref_retain(c, ref);
    client_local_t *local = client_local(c, ref);
    if (local != NULL && !local->owned) local->registered = true;
}

uint64_t mob_run_number(mob_ref_t task_id) {
    return wire_entry(task_id.slot & (WIRE_MAX_RECORDS - 1), task_id.generation);
}

static void slot_free(mob_client_t *c, uint32_t index, uint64_t generation, bool given) {
    store_slot_t *slot = &c->slots[index];
    /* Block first: if this process dies between the two, the daemon repeats both, and the tag makes
     * that harmless. */
    if (!store_meta_inline(slot->meta))
        shm_heap_free(&c->heap, slot->value.large.block, shm_tag(false, index, generation));
    store_slot_close(slot);
    if (!given) client_slot_give(c, index); /* else its owner finds it */
}

/* The last reference to a function goes while tasks that name it are in this process's queues, or
 * run, and the daemon does not know of them. The daemon learns of them now, and keeps the function
 * for them. */
static void function_tasks_tell(mob_client_t *c, uint32_t index) {
    for (size_t r = 0; r < c->record_pool.range_count; r++) {
        uint32_t first = c->record_pool.ranges[r].first,
                 end = first + c->record_pool.ranges[r].count;
        for (uint32_t i = first; i < end; i++) {
            wire_record_t *record = &c->records[i];
            uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire);
            unsigned state = wire_word_state(word);
            /* Its worker may have made it KNOWN, and have died before it told the daemon. Of one
             * with references this process has told the daemon itself. */
            bool told = record->num_deps + record->num_refs > 0;
            while ((state == WIRE_READY_STATE || state == WIRE_TAKEN) &&
                   !(told && (word & WIRE_KNOWN)) && record->function.slot == index) {
                if ((word & WIRE_KNOWN) || wire_record_make_known(record, word)) {
                    client_push(c,
                                wire_about_record(WIRE_ARGUMENTS, i, wire_word_generation(word)));
                    break;
                }
                word = atomic_load_explicit(&record->word, memory_order_acquire);
                state = wire_word_state(word);
            }
        }
    }
}

void client_ref_release(mob_client_t *c, mob_ref_t ref) {
    uint32_t index = ref.slot;
    client_local_t *local = &c->local[index];
    if (!client_local_is(c, ref) || local->count == 0 || --local->count > 0) return;
    bool owned = local->owned, registered = local->registered, given = local->given;
    if (local->pins > 0) client_map_end(client_unpin(c, index)); /* its user left it open */
    if (local->is_function) function_tasks_tell(c, index);
    *local = (client_local_t){0};
    if (owned) {
        switch (store_slot_drop(&c->slots[index], false)) {
        case STORE_DROP_FREE:
            slot_free(c, index, ref.generation, given);
            return;
        case STORE_DROP_LATER:
            return;
        case STORE_DROP_ASK:
            break;
        }
    } else if (!registered) {
        return;
    }
    client_push(c, wire_about_object(WIRE_DROP, index, ref.generation));
}

void client_ref_escape(mob_client_t *c, mob_ref_t ref) {
    uint32_t index = ref.slot;
    client_local_t *local = &c->local[index];
    if (!client_local_is(c, ref) || !local->owned || local->escaped) return;
    local->escaped = true;
    /* relaxed: the daemon learns of it by this process's ring, whose release store comes after */
    atomic_fetch_or_explicit(&c->slots[index].word, STORE_ESCAPED, memory_order_relaxed);
}

void mob_ref_retain(mob_client_t *c, mob_ref_t ref) {
    if (!client_slot_valid(ref.slot) || client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    client_ref_retain(c, ref);
    pthread_mutex_unlock(&c->mutex);
}

void mob_ref_release(mob_client_t *c, mob_ref_t ref) {
    if (!client_slot_valid(ref.slot) || client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    client_ref_release(c, ref);
    pthread_mutex_unlock(&c->mutex);
}

/* ---- ids ---- */

/* Asks the daemon; what it answers lies in the scratch page. */
static mob_status_t ask_scratch(mob_client_t *c, wire_message_t request, void *ret, size_t size) {
    wire_message_t answer;
    pthread_mutex_lock(&c->mutex);
    mob_status_t status = client_ask(c, &request, WIRE_ANSWER, &answer);
    if (status == MOB_OK) status = (mob_status_t)answer.answer.status;
    if (status == MOB_OK) memcpy(ret, c->own_segment.base + SHM_CLIENT_SCRATCH, size);
    pthread_mutex_unlock(&c->mutex);
    return status;
}

static bool is_foreign(const mob_client_t *c, mob_ref_t ref) {
    return client_slot_valid(ref.slot) &&
           atomic_load_explicit(&c->node->clustered, memory_order_relaxed) != 0 &&
           atomic_load_explicit(&c->slots[ref.slot].word, memory_order_acquire) & STORE_FOREIGN;
}

void mob_ref_id(mob_client_t *c, mob_ref_t ref, uint8_t ret_id[MOB_ID_SIZE]) {
    wire_id_t id = {.home = c->incarnation, .number = ref.slot, .generation = ref.generation};
    /* without an answer: the session is over, and its references with it */
    if (client_check(c) == MOB_OK && is_foreign(c, ref))
        (void)ask_scratch(c, wire_about_object(WIRE_ID, ref.slot, ref.generation), &id, sizeof id);
    uint64_t home = htobe64(id.home), generation = htobe64(id.generation);
    uint32_t number = htobe32(id.number);
    memcpy(ret_id, &home, 8);
    memcpy(ret_id + 8, &number, 4);
    memcpy(ret_id + 12, &generation, 8);
}

static mob_status_t foreign_find(mob_client_t *c, uint32_t kind, wire_id_t id, mob_ref_t *ret_ref) {
    wire_message_t request = {.id = {kind, id.number, id.home, id.generation}};
    if (client_check(c) != MOB_OK ||
        atomic_load_explicit(&c->node->clustered, memory_order_relaxed) == 0)
        return MOB_ESTALE;
    return ask_scratch(c, request, ret_ref, sizeof *ret_ref);
}

/* `kind`: how the daemon is asked for what another node has made. */
static mob_status_t from_id(mob_client_t *c, uint32_t kind, const uint8_t bytes[MOB_ID_SIZE],
                            mob_ref_t *ret_ref) {
    wire_id_t id = {0};
    memcpy(&id.home, bytes, 8);
    memcpy(&id.number, bytes + 8, 4);
    memcpy(&id.generation, bytes + 12, 8);
    id.home = be64toh(id.home), id.number = be32toh(id.number);
    id.generation = be64toh(id.generation);
    mob_ref_t ref = {.slot = id.number, .generation = id.generation};
    mob_status_t status = client_slot_valid(id.number) ? MOB_OK : MOB_ESTALE;
    if (id.home != c->incarnation) status = foreign_find(c, kind, id, &ref);
    if (status == MOB_ESTALE)
        return base_fail(MOB_ESTALE, "this reference belongs to another session: refs and actor "
                                     "handles do not outlive ray.shutdown()");
    if (status == MOB_OK) *ret_ref = ref;
    return status;
}

mob_status_t mob_ref_from_id(mob_client_t *c, const uint8_t id[MOB_ID_SIZE], mob_ref_t *ret_ref) {
    return from_id(c, WIRE_OF_ID, id, ret_ref);
}

mob_status_t mob_group_from_id(mob_client_t *c, const uint8_t id[MOB_ID_SIZE], mob_ref_t *ret_ref) {
    return from_id(c, WIRE_GROUP_OF_ID, id, ret_ref);
}

/* ---- counts that are kept ---- */

void mob_ref_keep(mob_client_t *c, mob_ref_t ref) {
    if (client_check(c) != MOB_OK || !client_slot_valid(ref.slot)) return;
    pthread_mutex_lock(&c->mutex);
    client_ref_escape(c, ref);
    client_ref_retain(c, ref);
    pthread_mutex_unlock(&c->mutex);
}

mob_status_t mob_ref_restore(mob_client_t *c, mob_ref_t ref) {
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = client_refs_check(c, &ref, 1);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    client_local_t *local = client_local(c, ref);
    /* A process that has a count holds it already, by the value or the record that it came in. */
    if (local != NULL && local->count++ == 0) {
        local->registered = true;
        client_push(c, (wire_message_t){
                           .hold = {WIRE_HOLD, .slot = ref.slot, .generation = ref.generation}});
    }
    pthread_mutex_unlock(&c->mutex);
    return MOB_OK;
}

bool mob_ref_is_pending(const mob_client_t *c, mob_ref_t ref) {
    return client_slot_valid(ref.slot) && client_is_pending(c, ref);
}
