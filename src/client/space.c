/*
 * Memory of the arena, when there is none at once.
 *
 * The daemon answers a request that it can't grant with MOB_ESPACE and makes space: it moves
 * objects to disk that no process reads. No thread here waits for that under the mutex: the call
 * fails, its thread waits in mob_space_wait and then calls again. The daemon grants the space
 * later, by WIRE_SPACE. It becomes an extent of the heap that is EMPTY: the thread that allocates
 * next finds it, and if none does the daemon may take it back. If there will be no space,
 * WIRE_SPACE says so.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"

enum { MOST_REFUSALS = 256, MOST_TRIES = 5 };

/* The space that this thread waits for. */
static _Thread_local struct {
    uint64_t size;
    uint32_t seen; /* space_news when it asked */
    bool goes_on;  /* it waited, and the daemon has not refused it */
} wanted;

/* Takes the refusal of so much space off the list; MOB_OK: the daemon has refused none. Under the
 * mutex. */
static mob_status_t refusal_take(mob_client_t *c, uint64_t size) {
    for (size_t i = 0; i < c->refusals.count; i++) {
        client_refusal_t r = c->refusals.items[i];
        if (r.size != size || r.ref.slot != 0) continue;
        memmove(c->refusals.items + i, c->refusals.items + i + 1,
                (c->refusals.count - i - 1) * sizeof r);
        c->refusals.count--;
        return r.status;
    }
    return MOB_OK;
}

mob_status_t client_heap_grant(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                               uint64_t *ret_size, uint64_t *ret_serial) {
    mob_client_t *c = context;
    wire_message_t m = {.need_extent = {WIRE_NEED_EXTENT,
                                        .goes_on = wanted.goes_on && wanted.size == size,
                                        .size = size, .least = least}};
    wire_message_t answer;
    wanted.size = size;
    wanted.goes_on = false;
    while (refusal_take(c, size) != MOB_OK) { /* refusals for threads that did not wait for them */
    }
    wanted.seen = c->space_news; /* before this thread asks: it may hear of a later grant together
                                    with the answer */
    mob_status_t status = client_ask(c, &m, WIRE_EXTENT, &answer);
    if (status != MOB_OK) return status;
    if (answer.extent.status == MOB_ESPACE) return MOB_ESPACE;
    if (answer.extent.status != MOB_OK)
        return base_fail((mob_status_t)answer.extent.status,
                         "an object of %llu bytes does not fit into the object store, which has "
                         "%llu in all. Give "
                         "ray.init a larger object_store_memory",
                         (unsigned long long)size, (unsigned long long)answer.extent.size);
    *ret_offset = answer.extent.offset;
    *ret_size = answer.extent.size;
    *ret_serial = answer.extent.serial;
    return MOB_OK;
}

void client_space_told(mob_client_t *c, const wire_message_t *m) {
    client_refusal_t refusal = {.status = (mob_status_t)m->extent.status, .size = m->extent.offset};
    if (m->kind == WIRE_RESTORED) {
        refusal = (client_refusal_t){
            .status = (mob_status_t)m->restored.status,
            .ref = {.slot = m->restored.slot, .generation = m->restored.generation}};
    } else {
        c->space_news++;
        if (m->extent.status == MOB_OK)
            shm_heap_adopt(&c->heap, m->extent.offset, m->extent.size, m->extent.serial);
    }
    if (refusal.status == MOB_OK) return;
    /* The thread that waited may have gone: a refusal that no thread takes is forgotten in the
     * end. */
    if (c->refusals.count >= MOST_REFUSALS) {
        memmove(c->refusals.items, c->refusals.items + 1,
                (c->refusals.count - 1) * sizeof *c->refusals.items);
        c->refusals.count--;
    }
    refusal.number = ++c->refusals_told;
    (void)vec_push(&c->refusals, refusal);
}

mob_status_t client_refusal_find(mob_client_t *c, mob_ref_t ref, uint64_t told) {
    for (size_t i = c->refusals.count; i-- > 0 && c->refusals.items[i].number > told;) {
        mob_ref_t r = c->refusals.items[i].ref;
        if (r.slot == ref.slot && r.generation == ref.generation)
            return c->refusals.items[i].status;
    }
    return MOB_OK;
}

mob_status_t client_refuse(mob_client_t *c, mob_status_t status, uint64_t size) {
    void *answer = NULL;
    size_t answer_size = 0;
    if (mob_query(c, MOB_QUERY_SPACE, size, &answer, &answer_size) != MOB_OK || answer_size < 9)
        return base_fail(status, "%s", mob_status_text(status));
    /* a str in the direct encoding */
    base_fail(status, "%.*s", (int)(answer_size - 9), (const char *)answer + 9);
    free(answer);
    return status;
}

mob_status_t mob_space_wait(mob_client_t *c) {
    shm_bell_t *bell = &c->node->bells[c->number];
    uint64_t look_up = base_clock_mono_ns() + (uint64_t)CLIENT_LOOK_UP_NS;
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    if (client_large_awaits(c)) return client_large_wait(c);
    for (;;) {
        uint32_t seen = shm_bell_listen(bell);
        pthread_mutex_lock(&c->mutex);
        client_listen(c);
        bool news = c->space_news != wanted.seen;
        status = refusal_take(c, wanted.size);
        pthread_mutex_unlock(&c->mutex);
        if (news || status != MOB_OK) break;
        bool signalled = !client_sleep(c, seen, CLIENT_LOOK_UP_NS);
        if (!signalled && base_clock_mono_ns() < look_up) continue;
        /* MOB_OK makes the thread ask again: by that the daemon knows that it still waits. */
        status = client_daemon_look(c);
        if (status == MOB_OK && signalled) status = MOB_EINTR;
        break;
    }
    wanted.goes_on = status == MOB_OK || status == MOB_EINTR;
    return status == MOB_EFULL || status == MOB_EDISK ? client_refuse(c, status, wanted.size)
                                                      : status;
}

void mob_space_forget(mob_client_t *c) {
    if (client_check(c) == MOB_OK)
        client_large_forget(c); /* an extent needs nothing: the daemon takes it back */
}

mob_status_t mob_space_await(mob_client_t *c) {
    mob_status_t status = mob_space_wait(c);
    return status == MOB_EINTR ? MOB_OK : status;
}

static int slot_compare(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* The space that these objects need in the arena. One that is named twice needs it once. */
static uint64_t bytes_of(mob_client_t *c, const mob_ref_t *refs, size_t count) {
    uint64_t bytes = 0;
    uint32_t *slots = malloc(count * sizeof *slots);
    for (size_t i = 0; slots != NULL && i < count; i++) slots[i] = refs[i].slot;
    if (slots != NULL) qsort(slots, count, sizeof *slots, slot_compare);
    for (size_t i = 0; slots != NULL && i < count; i++) {
        if (!client_slot_valid(slots[i]) || (i > 0 && slots[i] == slots[i - 1])) continue;
        uint64_t meta = c->slots[slots[i]].meta;
        if (!store_meta_inline(meta) && !store_meta_in_file(meta)) bytes += store_meta_size(meta);
    }
    free(slots);
    return bytes;
}

bool mob_space_retry(mob_client_t *c, const mob_ref_t *refs, size_t count, int tries) {
    if (tries >= MOST_TRIES || bytes_of(c, refs, count) > c->arena.size) return false;
    usleep(100000 * (unsigned)tries + (unsigned)getpid() % 100 * 2000);
    return true;
}
