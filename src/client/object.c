/* Objects: put, get, wait. */
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "client/client.h"

static const int64_t LOOK_UP_NS = 1000000000, LOOK_SOON_NS = 20000000;

mob_status_t client_buffer_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                                 mob_buffer_t *ret_buffer) {
    ret_buffer->size = size;
    ret_buffer->ref_count = ref_count;
    ret_buffer->ref = ref;
    ret_buffer->block = 0;
    ret_buffer->file = 0;
    ret_buffer->cold = false;
    ret_buffer->data = ret_buffer->small;
    if (size <= STORE_INLINE && ref_count == 0) return MOB_OK;
    if (client_large_is(c, size, ref_count)) return client_large_begin(c, ret_buffer);
    uint64_t tag = shm_tag(false, ref.slot, ref.generation);
    mob_status_t status =
        shm_heap_alloc(&c->heap, store_block_size(size, ref_count), tag, &ret_buffer->block);
    if (status != MOB_OK) return status;
    ret_buffer->data = c->arena.base + ret_buffer->block;
    ret_buffer->cold = size > SHM_HEAP_SMALL && shm_heap_cold(&c->heap, ret_buffer->block);
    return MOB_OK;
}

void mob_buffer_write(mob_client_t *c, mob_buffer_t *buffer, uint64_t offset, const void *data,
                      uint64_t size) {
    char *to = (char *)buffer->data + offset;
    if (size < CLIENT_LARGE_COPY)
        memcpy(to, data, size);
    else
        base_copy(to, data, size, buffer->cold, client_idle_cpus(c));
}

void mob_buffer_map(mob_client_t *c, mob_buffer_t *buffer) {
    if (buffer->cold) base_map(buffer->data, buffer->size, client_idle_cpus(c));
}

void client_buffer_told(mob_client_t *c, const mob_buffer_t *buffer) {
    client_push_quietly(c, (wire_message_t){.backed = {WIRE_BACKED, .block = buffer->block}});
}

/* Fills the slot's fields; the slot is PENDING and ours to seal. */
void client_buffer_store(mob_client_t *c, mob_buffer_t *buffer, mob_format_t format,
                         mob_status_t error, const mob_ref_t *refs) {
    store_slot_t *slot = &c->slots[buffer->ref.slot];
    bool is_inline = buffer->block == 0 && buffer->file == 0;
    if (is_inline) {
        memcpy(slot->value.small, buffer->small, buffer->size);
    } else {
        if (buffer->ref_count > 0)
            memcpy(c->arena.base + buffer->block +
                       store_refs_offset(buffer->file ? 0 : buffer->size),
                   refs, buffer->ref_count * sizeof *refs);
        slot->value.large.block = buffer->block;
        slot->value.large.ref_count = buffer->ref_count;
        atomic_store_explicit(&slot->value.large.used_ms, base_clock_coarse_ms(),
                              memory_order_relaxed);
    }
    slot->meta = store_meta(buffer->size, format, error, is_inline) |
                 (buffer->file ? STORE_META_IN_FILE : 0);
}

mob_status_t mob_put_begin(mob_client_t *c, uint64_t size, uint32_t ref_count,
                           mob_buffer_t *ret_buffer) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    mob_ref_t ref = {0};
    status = client_slot_take(c, &ref.slot);
    if (status == MOB_OK) {
        ref.generation = store_slot_open(&c->slots[ref.slot]);
        status = client_buffer_begin(c, ref, size, ref_count, ret_buffer);
        if (status != MOB_OK) {
            store_slot_close(&c->slots[ref.slot]);
            client_slot_give(c, ref.slot);
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return status;
}

wire_message_t client_escape_of(const mob_buffer_t *buffer) {
    return (wire_message_t){.escape = {WIRE_ESCAPE, .slot = buffer->ref.slot,
                                       .generation = buffer->ref.generation, .file = buffer->file}};
}

mob_status_t mob_put_commit(mob_client_t *c, mob_buffer_t *buffer, mob_format_t format,
                            const mob_ref_t *refs, mob_ref_t *ret_ref) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    uint32_t index = buffer->ref.slot;
    bool escaped = buffer->ref_count > 0 || buffer->file != 0;
    client_buffer_store(c, buffer, format, MOB_OK, refs);
    pthread_mutex_lock(&c->mutex);
    client_local_begin(c, buffer->ref);
    c->local[index].escaped = escaped;
    if (buffer->cold) client_buffer_told(c, buffer);
    store_slot_seal(&c->slots[index], escaped);
    if (escaped) {
        for (uint32_t i = 0; i < buffer->ref_count; i++)
            if (client_slot_valid(refs[i].slot)) client_ref_escape(c, refs[i]);
        client_push(c, client_escape_of(buffer));
    }
    pthread_mutex_unlock(&c->mutex);
    if (buffer->file != 0) client_large_end(c, buffer->file, false);
    *ret_ref = buffer->ref;
    return MOB_OK;
}

void mob_put_abort(mob_client_t *c, mob_buffer_t *buffer) {
    if (client_check(c) != MOB_OK) return;
    if (buffer->file != 0) client_large_end(c, buffer->file, true);
    pthread_mutex_lock(&c->mutex);
    if (buffer->cold) client_buffer_told(c, buffer);
    if (buffer->block != 0)
        shm_heap_free(&c->heap, buffer->block,
                      shm_tag(false, buffer->ref.slot, buffer->ref.generation));
    store_slot_close(&c->slots[buffer->ref.slot]);
    client_slot_give(c, buffer->ref.slot);
    pthread_mutex_unlock(&c->mutex);
}

mob_status_t mob_put(mob_client_t *c, const void *data, uint64_t size, mob_format_t format,
                     mob_ref_t *ret_ref) {
    mob_buffer_t buffer;
    mob_status_t status;
    while ((status = mob_put_begin(c, size, 0, &buffer)) == MOB_ESPACE)
        if ((status = mob_space_await(c)) != MOB_OK) return status;
    if (status != MOB_OK) return status;
    if (size > 0) mob_buffer_write(c, &buffer, 0, data, size);
    return mob_put_commit(c, &buffer, format, NULL, ret_ref);
}

bool client_is_sealed(const mob_client_t *c, mob_ref_t ref) {
    /* acquire: pairs with the seal's release, so that the value is whole */
    return (atomic_load_explicit(&c->slots[ref.slot].word, memory_order_acquire) & STORE_STATE) ==
           STORE_SEALED;
}

bool client_is_pending(const mob_client_t *c, mob_ref_t ref) {
    const store_slot_t *slot = &c->slots[ref.slot];
    return (atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) ==
               STORE_PENDING &&
           atomic_load_explicit(&slot->generation, memory_order_relaxed) == ref.generation;
}

void mob_value_adopt(mob_client_t *c, mob_ref_t container, const mob_value_t *value) {
    if (client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    bool news = false;
    for (uint32_t i = 0; i < value->ref_count; i++) {
        if (!client_slot_valid(value->refs[i].slot)) continue;
        client_local_t *local = client_local(c, value->refs[i]);
        if (local == NULL) continue; /* it is gone, and its container with it */
        if (local->count++ > 0 && (local->owned || local->registered)) continue;
        local->registered = true;
        news = true;
    }
    if (news)
        client_push(c, wire_about_object(WIRE_HOLD_CONTENTS, container.slot, container.generation));
    pthread_mutex_unlock(&c->mutex);
}

void mob_value_release(mob_client_t *c, const mob_value_t *value) {
    if (client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    for (uint32_t i = 0; i < value->ref_count; i++)
        if (client_slot_valid(value->refs[i].slot)) client_ref_release(c, value->refs[i]);
    pthread_mutex_unlock(&c->mutex);
}

static int64_t slice_ns(uint64_t deadline_ns) {
    if (deadline_ns == UINT64_MAX) return LOOK_UP_NS;
    uint64_t now = base_clock_mono_ns();
    if (now >= deadline_ns) return 0;
    return deadline_ns - now < (uint64_t)LOOK_UP_NS ? (int64_t)(deadline_ns - now) : LOOK_UP_NS;
}

static uint64_t deadline_of(int64_t timeout_ms) {
    return timeout_ms < 0 ? UINT64_MAX : base_clock_mono_ns() + (uint64_t)timeout_ms * 1000000u;
}

/* Whether all of them name objects that are there or pending. The caller holds them, so this does
 * not change. */
static mob_status_t refs_check(const mob_client_t *c, const mob_ref_t *refs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!client_slot_valid(refs[i].slot) ||
            atomic_load_explicit(&c->slots[refs[i].slot].generation, memory_order_relaxed) !=
                refs[i].generation ||
            (atomic_load_explicit(&c->slots[refs[i].slot].word, memory_order_relaxed) &
             STORE_STATE) == STORE_FREE)
            return base_fail(MOB_ESTALE, "the object that reference %zu named is gone", i);
    return MOB_OK;
}

static bool is_error(const mob_client_t *c, mob_ref_t ref) {
    return store_meta_error(c->slots[ref.slot].meta) != MOB_OK;
}

static bool has_error(const mob_client_t *c, const mob_ref_t *refs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (client_is_sealed(c, refs[i]) && is_error(c, refs[i])) return true;
    return false;
}

/* Leaves out what is there at the end of the list. True if the wait is over: nothing is left, or
 * what was met last is an error. */
static bool end_is_there(const mob_client_t *c, const mob_ref_t *refs, size_t *count) {
    for (; *count > 0; --*count) {
        if (!client_is_sealed(c, refs[*count - 1])) return false;
        if (is_error(c, refs[*count - 1])) return true;
    }
    return true;
}

/* Before a sleep. */
static mob_status_t wait_check(void) {
    if (!client_forgets()) return MOB_OK;
    return base_fail(
        MOB_ELIMIT,
        "a result that is not there yet can't be waited for while a worker unloads a function "
        "that nobody refers to any more (in a __del__, most likely): leave it to a task");
}

static bool last_is_sealed(mob_client_t *c, void *context) {
    return client_is_sealed(c, *(mob_ref_t *)context);
}

/*
 * Tasks mostly end in the order they were submitted in, so we sleep on the last one that is
 * missing: one wake-up for a thousand results. An error among the others makes the daemon ring
 * every bell; woken though our slot is still missing, we look for one. Woken by our slot we don't,
 * for a look at a thousand others for each that arrives would take too long; but an error may have
 * rung at the same moment, so the next sleep is a short one.
 */
mob_status_t mob_get_wait(mob_client_t *c, const mob_ref_t *refs, size_t count,
                          int64_t timeout_ms) {
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = refs_check(c, refs, count);
    if (status != MOB_OK) return status;
    if (end_is_there(c, refs, &count)) return MOB_OK;
    if (timeout_ms == 0) return has_error(c, refs, count) ? MOB_OK : MOB_ETIMEOUT;
    mob_ref_t last = refs[count - 1];
    bool spun = !atomic_exchange_explicit(&c->woke, false, memory_order_relaxed);
    if (spun && client_spin(c, &c->get_patience, last_is_sealed, &last) &&
        end_is_there(c, refs, &count))
        return MOB_OK;
    if ((status = wait_check()) != MOB_OK) return status;
    uint64_t deadline = deadline_of(timeout_ms),
             look_up = base_clock_mono_ns() + (uint64_t)LOOK_UP_NS;
    shm_bell_t *bell = &c->node->bells[c->number];
    client_wait_t wait = client_waiting_begin(c);
    for (bool look = true;;) {
        uint32_t seen = shm_bell_listen(bell);
        bool still = store_slot_wait(&c->slots[refs[count - 1].slot], c->number);
        if (end_is_there(c, refs, &count)) break;
        if (!still) continue;
        if (look && has_error(c, refs, count)) break; /* after we listen: later ones ring */
        int64_t slice = slice_ns(deadline);
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
        if (!client_daemon_alive(c)) {
            status = client_daemon_gone();
            break;
        }
        if (base_clock_mono_ns() >= look_up) {
            status = MOB_EINTR;
            break;
        }
    }
    client_waiting_end(c, wait);
    /* What came because we lent our CPU would not have come while we looked. */
    if (spun && !wait.lends) client_patience_learn(&c->get_patience, status == MOB_OK);
    return status;
}

static size_t mark_ready(const mob_client_t *c, const mob_ref_t *refs, size_t count, size_t needed,
                         uint8_t *ready) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        ready[i] = found < needed && client_is_sealed(c, refs[i]);
        found += ready[i];
    }
    return found;
}

mob_status_t mob_wait(mob_client_t *c, const mob_ref_t *refs, size_t count, size_t needed,
                      int64_t timeout_ms, uint8_t *ret_ready, size_t *ret_count) {
    *ret_count = 0;
    if (count > 0) memset(ret_ready, 0, count);
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = refs_check(c, refs, count);
    if (status != MOB_OK) return status;
    *ret_count = mark_ready(c, refs, count, needed, ret_ready);
    if (*ret_count >= needed || timeout_ms == 0) return MOB_OK;
    if ((status = wait_check()) != MOB_OK) return status;
    uint64_t deadline = deadline_of(timeout_ms),
             look_up = base_clock_mono_ns() + (uint64_t)LOOK_UP_NS;
    shm_bell_t *bell = &c->node->bells[c->number];
    bool noted = false;
    client_wait_t wait = client_waiting_begin(c);
    for (;;) {
        uint32_t seen = shm_bell_listen(bell);
        if (!noted)
            for (size_t i = 0; i < count; i++) store_slot_wait(&c->slots[refs[i].slot], c->number);
        noted = true; /* a bit stays until its slot is sealed */
        *ret_count = mark_ready(c, refs, count, needed, ret_ready);
        if (*ret_count >= needed) break;
        int64_t slice = slice_ns(deadline);
        if (slice == 0) break;
        if (!client_sleep(c, seen, slice)) {
            status = MOB_EINTR;
            break;
        }
        if (!client_daemon_alive(c)) {
            status = client_daemon_gone();
            break;
        }
        if (base_clock_mono_ns() >= look_up &&
            mark_ready(c, refs, count, needed, ret_ready) < needed) {
            status = MOB_EINTR;
            break;
        }
    }
    client_waiting_end(c, wait);
    return status;
}
