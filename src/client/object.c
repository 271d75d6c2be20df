/* What this process sees of an object, and the references inside its value that it holds. */
#include <string.h>

#include "base/copy.h"
#include "client/client.h"

enum {
    /* Up to this size the C library keeps the pages of freed memory and gives them out again.
     * Beyond, each object's memory is new from the kernel. */
    FRESH_FROM = 32 << 20,
};

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

/* Whether all of them name objects that are there or pending. The caller holds them, so this does
 * not change. */
mob_status_t client_refs_check(const mob_client_t *c, const mob_ref_t *refs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!client_slot_valid(refs[i].slot) ||
            atomic_load_explicit(&c->slots[refs[i].slot].generation, memory_order_relaxed) !=
                refs[i].generation ||
            (atomic_load_explicit(&c->slots[refs[i].slot].word, memory_order_relaxed) &
             STORE_STATE) == STORE_FREE)
            return base_fail(MOB_ESTALE, "the object that reference %zu named is gone", i);
    return MOB_OK;
}

void mob_value_adopt(mob_client_t *c, mob_ref_t container, const mob_value_t *value) {
    if (client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    bool news = false;
    for (uint32_t i = 0; i < value->ref_count; i++) {
        if (!client_slot_valid(value->refs[i].slot)) continue;
        client_local_t *local = client_local(c, value->refs[i]);
        if (local == NULL) continue; /* the object is gone, and its container with it */
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

void mob_value_copy(mob_client_t *c, const void *data, uint64_t size, void *to) {
    if (size < CLIENT_LARGE_COPY)
        memcpy(to, data, size);
    else if (size < FRESH_FROM)
        base_copy(to, data, size, false, client_idle_cpus(c));
    else
        base_copy_fresh(to, data, size, client_idle_cpus(c));
}

bool mob_ref_maker(mob_client_t *c, mob_ref_t ref, mob_ref_t *ret_task) {
    if (client_check(c) != MOB_OK || !client_slot_valid(ref.slot) || !client_is_pending(c, ref))
        return false;
    uint32_t record = c->slots[ref.slot].value.maker;
    if (record >= WIRE_MAX_RECORDS) return false;
    uint64_t word = atomic_load_explicit(&c->records[record].word, memory_order_acquire);
    *ret_task = (mob_ref_t){.slot = record, .generation = wire_word_generation(word)};
    /* still: else the record may have another task by now */
    return client_is_pending(c, ref);
}
