/*
 * Values into the store: the user begins a buffer, fills it without any lock, and commits it. A
 * small value lies in its slot, a larger one in a block of the arena, one that is larger than the
 * store in a file (large.c).
 */
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "client/client.h"

static mob_status_t buffer_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                                 uint64_t most_inline, mob_buffer_t *ret_buffer) {
    ret_buffer->size = size;
    ret_buffer->ref_count = ref_count;
    ret_buffer->ref = ref;
    ret_buffer->block = 0;
    ret_buffer->file = 0;
    ret_buffer->cold = false;
    ret_buffer->data = ret_buffer->small;
    if (size <= most_inline && ref_count == 0) return MOB_OK;
    if (client_large_is(c, size, ref_count)) return client_large_begin(c, ret_buffer);
    uint64_t tag = shm_tag(false, ref.slot, ref.generation);
    mob_status_t status =
        shm_heap_alloc(&c->heap, store_block_size(size, ref_count), tag, &ret_buffer->block);
    if (status != MOB_OK) return status;
    ret_buffer->data = c->arena.base + ret_buffer->block;
    ret_buffer->cold = size > SHM_HEAP_SMALL && shm_heap_cold(&c->heap, ret_buffer->block);
    return MOB_OK;
}

mob_status_t client_buffer_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                                 mob_buffer_t *ret_buffer) {
    return buffer_begin(c, ref, size, ref_count, STORE_INLINE, ret_buffer);
}

mob_status_t client_item_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                               mob_buffer_t *ret_buffer) {
    return buffer_begin(c, ref, size, ref_count, STORE_ITEM_INLINE, ret_buffer);
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

/* Fills the slot's fields; the slot is PENDING and this process's to seal. */
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

static mob_status_t put_commit(mob_client_t *c, mob_buffer_t *buffer, mob_format_t format,
                               mob_status_t error, const mob_ref_t *refs, mob_ref_t *ret_ref) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    uint32_t index = buffer->ref.slot;
    bool escaped = buffer->ref_count > 0 || buffer->file != 0;
    client_buffer_store(c, buffer, format, error, refs);
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

mob_status_t mob_put_commit(mob_client_t *c, mob_buffer_t *buffer, mob_format_t format,
                            const mob_ref_t *refs, mob_ref_t *ret_ref) {
    return put_commit(c, buffer, format, MOB_OK, refs, ret_ref);
}

mob_status_t mob_put_error(mob_client_t *c, mob_buffer_t *buffer, mob_status_t error,
                           const mob_ref_t *refs, mob_ref_t *ret_ref) {
    return put_commit(c, buffer, MOB_FORMAT_DIRECT, error, refs, ret_ref);
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
