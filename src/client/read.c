/*
 * Reading values in place. A value in the arena is pinned while it is read (store/pins.h), so that
 * the daemon does not move it to disk; one that lies in its slot needs no pin, nor does an error,
 * which is never moved.
 */
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "client/client.h"
#include "store/pins.h"

static const int64_t LOOK_UP_NS = 1000000000;
enum {
    AHEAD = 8, /* objects that are brought back before they are asked for */
    /* The C library keeps the pages of what is freed and gives them out again, up to here. Beyond,
       each object's memory is new from the kernel. */
    FRESH_FROM = 32 << 20,
};

client_map_t client_unpin(mob_client_t *c, uint32_t slot) {
    c->local[slot].pins = 0;
    store_unpin(c->pins, slot);
    return client_large_unpinned(c, slot);
}

void client_pin(mob_client_t *c, mob_ref_t ref) {
    client_local_t *local = client_local(c, ref);
    if (local != NULL && local->pins++ == 0) store_pin(c->pins, ref.slot);
}

static void pin(mob_client_t *c, mob_ref_t ref) {
    pthread_mutex_lock(&c->mutex);
    client_pin(c, ref);
    pthread_mutex_unlock(&c->mutex);
}

static void unpin(mob_client_t *c, mob_ref_t ref) {
    client_local_t *local = &c->local[ref.slot];
    client_map_t map = {0};
    pthread_mutex_lock(&c->mutex);
    if (client_local_is(c, ref) && local->pins > 0 && --local->pins == 0)
        map = client_unpin(c, ref.slot);
    pthread_mutex_unlock(&c->mutex);
    client_map_end(map);
}

static bool is_away(const mob_client_t *c, mob_ref_t ref) {
    /* seq_cst: after the pin, see store/pins.h. acquire is in it: where the value lies was written
     * before AWAY went */
    return atomic_load(&c->slots[ref.slot].word) & STORE_AWAY;
}

/* What the slot says; it is SEALED, and pinned unless the value lies in it. */
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

/* The same for a value in a file, if it is mapped here: pins it. */
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

/* Opens what is pinned and not AWAY. While it was AWAY it may have become an error, which needs no
 * pin. */
static void pinned_open(mob_client_t *c, mob_ref_t ref, mob_value_t *ret_value) {
    value_fill(c, ref, ret_value);
    ret_value->pinned = needs_pin(c, ref);
    if (!ret_value->pinned) unpin(c, ref);
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
        if (client_slot_valid(refs[i].slot)) store_slot_see(&c->slots[refs[i].slot]);
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
    pin(c, ref);
    if (is_away(c, ref)) {
        unpin(c, ref);
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

/* What this thread waited for until it was to look up; its caller calls again, and it goes on. */
static _Thread_local mob_ref_t awaited;

static mob_status_t await_back(mob_client_t *c, const mob_ref_t *refs, size_t count,
                               int64_t timeout_ms) {
    bool goes_on = awaited.slot == refs[0].slot && awaited.generation == refs[0].generation;
    uint64_t told = 0; /* refusals, when we asked */
    uint64_t start = base_clock_mono_ns(), slice = (uint64_t)LOOK_UP_NS;
    if (timeout_ms >= 0 && (uint64_t)timeout_ms * 1000000 < slice)
        slice = (uint64_t)timeout_ms * 1000000;
    for (bool asked = false;; asked = true) {
        uint32_t seen = shm_bell_listen(&c->node->bells[c->number]);
        pthread_mutex_lock(&c->mutex);
        client_listen(c);
        if (!asked) told = c->refusals_told;
        mob_status_t refused = client_refusal_find(c, refs[0], told);
        if (!asked && is_away(c, refs[0])) ask_back(c, refs, count, goes_on);
        pthread_mutex_unlock(&c->mutex);
        if (!is_away(c, refs[0])) return MOB_OK;
        if (refused != MOB_OK) return refused;
        uint64_t passed = base_clock_mono_ns() - start;
        if (passed >= slice)
            return slice < (uint64_t)LOOK_UP_NS ? MOB_ETIMEOUT
                   : client_daemon_alive(c)     ? MOB_EINTR
                                                : client_daemon_gone();
        if (!client_sleep(c, seen, (int64_t)(slice - passed))) return MOB_EINTR;
    }
}

mob_status_t mob_get_fetch(mob_client_t *c, const mob_ref_t *refs, size_t count, int64_t timeout_ms,
                           mob_value_t *ret_value) {
    mob_status_t status = mob_get_begin(c, refs[0], ret_value);
    if (status != MOB_EAWAY) return status;
    if (store_meta_in_file(c->slots[refs[0].slot].meta)) {
        status = client_large_open(c, refs[0]);
        if (status != MOB_OK) return status;
        (void)large_fill(c, refs[0], ret_value); /* it is mapped, for we have it pinned */
        unpin(c, refs[0]);
        return MOB_OK;
    }
    /* Pinned while it is asked for: what comes back stays. */
    pin(c, refs[0]);
    status = await_back(c, refs, count, timeout_ms); /* not long: a run's CPUs stay its own */
    awaited = status == MOB_EINTR ? refs[0] : (mob_ref_t){0};
    if (status == MOB_OK) {
        pinned_open(c, refs[0], ret_value);
        return MOB_OK;
    }
    unpin(c, refs[0]);
    if (status != MOB_EFULL && status != MOB_EDISK) return status;
    return client_refuse(c, status, store_meta_size(c->slots[refs[0].slot].meta));
}

void mob_get_keep(mob_client_t *c, mob_ref_t ref) {
    if (client_slot_valid(ref.slot) && client_check(c) == MOB_OK) pin(c, ref);
}

void mob_get_end(mob_client_t *c, mob_ref_t ref, const mob_value_t *value) {
    if (value->pinned && client_slot_valid(ref.slot) && client_check(c) == MOB_OK) unpin(c, ref);
}

void mob_value_copy(mob_client_t *c, const void *data, uint64_t size, void *to) {
    if (size < CLIENT_LARGE_COPY)
        memcpy(to, data, size);
    else if (size < FRESH_FROM)
        base_copy(to, data, size, false, client_idle_cpus(c));
    else
        base_copy_fresh(to, data, size, client_idle_cpus(c));
}
