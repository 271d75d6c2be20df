/*
 * Values out of the store: waiting until they are there, opening them where they lie, and bringing
 * them back from disk.
 */
#include <string.h>

#include "base/clock.h"
#include "client/client.h"

static const int64_t LOOK_SOON_NS = 20000000, LEND_AFTER_NS = 20000000;
enum { AHEAD = 8 }; /* objects that are brought back before they are asked for */

/* ---- opening ---- */

static bool is_away(const mob_client_t *c, mob_ref_t ref) {
    /* seq_cst: after the pin, see store/pins.h. acquire is in it: where the value lies was written
     * before AWAY went */
    return atomic_load(&c->slots[ref.slot].word) & STORE_AWAY;
}

/* Says where the value lies. The slot is SEALED, and pinned unless the value lies in it. */
static void value_fill(const mob_client_t *c, mob_ref_t ref, mob_value_t *ret_value) {
    store_slot_t *slot = &c->slots[ref.slot];
    uint64_t meta = slot->meta, size = store_meta_size(meta);
    *ret_value = (mob_value_t){
        .size = size, .format = store_meta_format(meta), .error = store_meta_error(meta)};
    if (store_meta_inline(meta)) {
        ret_value->data = slot->value.small;
        return;
    }
    const unsigned char *block = c->arena.read_only + slot->value.large.block;
    ret_value->data = block;
    ret_value->ref_count = slot->value.large.ref_count;
    ret_value->refs = (const mob_ref_t *)(block + store_refs_offset(size));
    uint32_t now = base_clock_coarse_ms();
    if (atomic_load_explicit(&slot->value.large.used_ms, memory_order_relaxed) != now)
        atomic_store_explicit(&slot->value.large.used_ms, now, memory_order_relaxed);
}

/* The same for a value in a file, if this process has mapped it: pins it. */
static bool large_fill(mob_client_t *c, mob_ref_t ref, mob_value_t *ret_value) {
    const store_slot_t *slot = &c->slots[ref.slot];
    pthread_mutex_lock(&c->mutex);
    const unsigned char *data = client_large_at(c, ref);
    if (data != NULL) client_pin(c, ref);
    pthread_mutex_unlock(&c->mutex);
    if (data == NULL) return false;
    *ret_value = (mob_value_t){
        .data = data,
        .size = store_meta_size(slot->meta),
        .format = store_meta_format(slot->meta),
        .error = store_meta_error(slot->meta),
        .ref_count = slot->value.large.ref_count,
        .refs = (const mob_ref_t *)(c->arena.read_only + slot->value.large.block),
        .pinned = true,
    };
    return true;
}

static bool needs_pin(const mob_client_t *c, mob_ref_t ref) {
    uint64_t meta = c->slots[ref.slot].meta;
    return !store_meta_inline(meta) && store_meta_error(meta) == MOB_OK;
}

/* Opens a value that is pinned and not AWAY. While it was AWAY it may have become an error, which
 * needs no pin. */
static void pinned_open(mob_client_t *c, mob_ref_t ref, mob_value_t *ret_value) {
    value_fill(c, ref, ret_value);
    ret_value->pinned = needs_pin(c, ref);
    if (!ret_value->pinned) client_pin_drop(c, ref);
    if (ret_value->error != MOB_OK) store_slot_see(&c->slots[ref.slot]);
}

static inline mob_status_t look(const mob_client_t *c, mob_ref_t ref) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    if (!client_slot_valid(ref.slot) ||
        atomic_load_explicit(&c->slots[ref.slot].generation, memory_order_relaxed) !=
            ref.generation)
        return base_fail(MOB_ESTALE, "the object that this reference named is gone");
    uint64_t word = atomic_load_explicit(&c->slots[ref.slot].word, memory_order_acquire);
    if ((word & STORE_STATE) != STORE_SEALED) return MOB_ETIMEOUT;
    return word & STORE_AWAY ? MOB_EAWAY : MOB_OK;
}

mob_status_t mob_get_look(mob_client_t *c, mob_ref_t ref) { return look(c, ref); }

void mob_get_see(mob_client_t *c, const mob_ref_t *refs, size_t count) {
    if (client_check(c) != MOB_OK) return;
    for (size_t i = 0; i < count; i++)
        /* A stale one would leave its mark in a slot that is free, or another object's. */
        if (client_refs_check(c, &refs[i], 1) == MOB_OK) store_slot_see(&c->slots[refs[i].slot]);
}

mob_status_t mob_get_begin(mob_client_t *c, mob_ref_t ref, mob_value_t *ret_value) {
    mob_status_t status = look(c, ref);
    if (status != MOB_OK) return status;
    if (store_meta_in_file(c->slots[ref.slot].meta))
        return large_fill(c, ref, ret_value) ? MOB_OK : MOB_EAWAY;
    if (!needs_pin(c, ref)) { /* and never will */
        value_fill(c, ref, ret_value);
        if (ret_value->error != MOB_OK) store_slot_see(&c->slots[ref.slot]);
        return MOB_OK;
    }
    client_pin_hold(c, ref);
    if (is_away(c, ref)) {
        client_pin_drop(c, ref);
        return MOB_EAWAY;
    }
    pinned_open(c, ref, ret_value);
    return MOB_OK;
}

static void ask_back(mob_client_t *c, const mob_ref_t *refs, size_t count, bool goes_on) {
    client_push(c, (wire_message_t){.restore = {WIRE_RESTORE, .slot = refs[0].slot,
                                                .generation = refs[0].generation, .waits = 1,
                                                .goes_on = goes_on}});
    for (size_t i = 1; i < count && i <= AHEAD; i++)
        if (client_slot_valid(refs[i].slot) && is_away(c, refs[i]))
            client_push(c, (wire_message_t){.restore = {WIRE_RESTORE, .slot = refs[i].slot,
                                                        .generation = refs[i].generation}});
}

/* What this thread waited for when it returned MOB_EINTR. If its caller calls again, the wait goes
 * on. */
static _Thread_local mob_ref_t awaited;

/* A disk takes a moment, for which nothing is lent. But the value may have to be made again, by a
 * task that needs the very CPU that this run holds. */
static bool sleep_or_lend(mob_client_t *c, uint32_t seen, int64_t slice_ns, uint64_t passed_ns,
                          client_wait_t *wait, bool *lends) {
    if (!*lends && passed_ns < (uint64_t)LEND_AFTER_NS) {
        int64_t soon = LEND_AFTER_NS - (int64_t)passed_ns;
        return client_sleep(c, seen, slice_ns < soon ? slice_ns : soon);
    }
    if (!*lends) *wait = client_waiting_begin(c);
    *lends = true;
    return client_sleep(c, seen, slice_ns);
}

static mob_status_t await_back(mob_client_t *c, const mob_ref_t *refs, size_t count,
                               int64_t timeout_ms) {
    bool goes_on = awaited.slot == refs[0].slot && awaited.generation == refs[0].generation;
    uint64_t told = 0; /* refusals, when this thread asked */
    uint64_t start = base_clock_mono_ns(), slice = (uint64_t)CLIENT_LOOK_UP_NS;
    if (timeout_ms >= 0 && (uint64_t)timeout_ms * 1000000 < slice)
        slice = (uint64_t)timeout_ms * 1000000;
    client_wait_t wait;
    bool lends = false;
    mob_status_t status = MOB_OK;
    for (bool asked = false;; asked = true) {
        uint32_t seen = shm_bell_listen(&c->node->bells[c->number]);
        pthread_mutex_lock(&c->mutex);
        client_listen(c);
        if (!asked) told = c->refusals_told;
        mob_status_t refused = client_refusal_find(c, refs[0], told);
        if (!asked && is_away(c, refs[0])) ask_back(c, refs, count, goes_on);
        pthread_mutex_unlock(&c->mutex);
        if (!is_away(c, refs[0])) break;
        if ((status = refused) != MOB_OK) break;
        uint64_t passed = base_clock_mono_ns() - start;
        if (passed >= slice) {
            status = client_daemon_look(c);
            if (status == MOB_OK)
                status = slice < (uint64_t)CLIENT_LOOK_UP_NS ? MOB_ETIMEOUT : MOB_EINTR;
            break;
        }
        if (!sleep_or_lend(c, seen, (int64_t)(slice - passed), passed, &wait, &lends)) {
            status = MOB_EINTR;
            break;
        }
    }
    if (lends) client_waiting_end(c, wait);
    return status;
}

mob_status_t mob_get_fetch(mob_client_t *c, const mob_ref_t *refs, size_t count, int64_t timeout_ms,
                           mob_value_t *ret_value) {
    mob_status_t status = mob_get_begin(c, refs[0], ret_value);
    if (status != MOB_EAWAY) return status;
    if (store_meta_in_file(c->slots[refs[0].slot].meta)) {
        status = client_large_open(c, refs[0]);
        if (status != MOB_OK) return status;
        (void)large_fill(c, refs[0],
                         ret_value); /* client_large_open has pinned it, so it is mapped */
        client_pin_drop(c, refs[0]);
        return MOB_OK;
    }
    /* Pinned before the daemon is asked for it: so it stays once it has come back. */
    client_pin_hold(c, refs[0]);
    status = await_back(c, refs, count, timeout_ms);
    awaited = status == MOB_EINTR ? refs[0] : (mob_ref_t){0};
    if (status == MOB_OK) {
        pinned_open(c, refs[0], ret_value);
        return MOB_OK;
    }
    client_pin_drop(c, refs[0]);
    if (status != MOB_EFULL && status != MOB_EDISK) return status;
    return client_refuse(c, status, store_meta_size(c->slots[refs[0].slot].meta));
}

void mob_get_keep(mob_client_t *c, mob_ref_t ref) {
    if (client_slot_valid(ref.slot) && client_check(c) == MOB_OK) client_pin_hold(c, ref);
}

void mob_get_end(mob_client_t *c, mob_ref_t ref, const mob_value_t *value) {
    if (value->pinned && client_slot_valid(ref.slot) && client_check(c) == MOB_OK)
        client_pin_drop(c, ref);
}

/* ---- waiting ---- */

static bool is_error(const mob_client_t *c, mob_ref_t ref) {
    return store_meta_error(c->slots[ref.slot].meta) != MOB_OK;
}

static bool has_error(const mob_client_t *c, const mob_ref_t *refs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (client_is_sealed(c, refs[i]) && is_error(c, refs[i])) return true;
    return false;
}

/* Leaves out the objects at the end of the list that are there. True if the wait is over: none is
 * left, or the last one met is an error. */
static bool end_is_there(const mob_client_t *c, const mob_ref_t *refs, size_t *count) {
    for (; *count > 0; --*count) {
        if (!client_is_sealed(c, refs[*count - 1])) return false;
        if (is_error(c, refs[*count - 1])) return true;
    }
    return true;
}

static bool last_is_sealed(mob_client_t *c, void *context) {
    return client_is_sealed(c, *(mob_ref_t *)context);
}

/*
 * Tasks mostly end in the order they were submitted in. So this thread sleeps on the last object
 * that is missing: one wake-up for a thousand results. An error among the others makes the daemon
 * ring every bell. If the thread wakes and its object is still missing, it looks for an error. If
 * its object is there it does not, for a look at a thousand others for each that arrives would take
 * too long. But an error may have rung at the same moment, so the next sleep is a short one.
 */
mob_status_t mob_get_wait(mob_client_t *c, const mob_ref_t *refs, size_t count,
                          int64_t timeout_ms) {
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = client_refs_check(c, refs, count);
    if (status != MOB_OK) return status;
    if (end_is_there(c, refs, &count)) return MOB_OK;
    if (timeout_ms == 0 && has_error(c, refs, count)) return MOB_OK;
    if (timeout_ms == 0) return (status = client_pulse_check(c)) != MOB_OK ? status : MOB_ETIMEOUT;
    mob_ref_t last = refs[count - 1];
    bool spun = !atomic_exchange_explicit(&c->woke, false, memory_order_relaxed);
    if (spun && client_spin(c, &c->get_patience, last_is_sealed, &last) &&
        end_is_there(c, refs, &count))
        return MOB_OK;
    if ((status = client_wait_check(c)) != MOB_OK) return status;
    uint64_t deadline = client_wait_deadline(timeout_ms),
             look_up = base_clock_mono_ns() + (uint64_t)CLIENT_LOOK_UP_NS;
    shm_bell_t *bell = &c->node->bells[c->number];
    client_wait_t wait = client_waiting_begin(c);
    shm_wait_t *vigil = client_vigil_begin(c, refs, count, count, timeout_ms);
    for (bool look = true;;) {
        uint32_t seen = shm_bell_listen(bell);
        bool still = store_slot_wait(&c->slots[refs[count - 1].slot], c->number);
        if (end_is_there(c, refs, &count)) break;
        if (!still) continue;
        if (look && has_error(c, refs, count))
            break; /* after this thread listened: a later error rings */
        int64_t slice = client_wait_slice(deadline);
        if (slice == 0) {
            if (look || !has_error(c, refs, count)) status = MOB_ETIMEOUT;
            break;
        }
        if (!client_sleep(c, seen, look || slice < LOOK_SOON_NS ? slice : LOOK_SOON_NS)) {
            status = MOB_EINTR;
            break;
        }
        look = !client_is_sealed(c, refs[count - 1]);
        if (!look) continue;
        if ((status = client_daemon_look(c)) != MOB_OK) break;
        if (vigil != NULL && (status = client_vigil_look(c)) != MOB_OK) break;
        if (base_clock_mono_ns() >= look_up) {
            status = MOB_EINTR;
            break;
        }
    }
    client_vigil_end(c, vigil, status);
    client_waiting_end(c, wait);
    /* A result that came because this worker lent its CPU would not have come while it looked. */
    if (spun && !wait.lends) client_patience_learn(&c->get_patience, status == MOB_OK);
    return status;
}
