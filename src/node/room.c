/*
 * Who waits for memory.
 *
 * A request that can't be granted is answered with MOB_EROOM and noted here as a want; so is an object that is to come back from disk and finds no room. Objects that come back are served
 * first, since whoever waits for one may hold memory that it gives up when it has read it; then clients, in the order in which they came: a large request
 * is not overtaken for ever by small ones. Room comes from three sides: what was moved to disk (node/spill.c), what was dropped, what was unpinned. Of the last two nobody
 * tells us, so a timer looks while somebody waits, and only then.
 *
 * What a client waited for is granted as an extent that is EMPTY and promised: it finds it when it looks, and if it has given up, the extent is taken back like any that is not used.
 *
 * A want is refused when nothing moves any more: nobody got room, nothing was written or read for FULL_NS, and there is nothing that could be moved. MOB_EDISK if it is the disk that is to
 * blame, MOB_EFULL if all that is there is in use.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "node/state.h"

static const uint64_t FULL_NS = 3000000000u, DISK_NS = 500000000;
enum { LOOK_MS = 10 };

static uint64_t granule_round(uint64_t size) { return (size + SHM_GRANULE - 1) / SHM_GRANULE * SHM_GRANULE; }

static void on_timer(uv_timer_t *timer) { node_room_serve(timer->data); }

void node_room_start(node_t *n) {
    uv_timer_init(&n->loop, &n->room_timer);
    n->room_timer.data = n;
}

void node_room_want(node_t *n, uint32_t client, uint64_t size, mob_ref_t ref) {
    for (size_t i = 0; i < n->wants.count; i++) {
        const node_want_t *w = &n->wants.items[i];
        if (w->client == client && w->size == size && w->ref.slot == ref.slot && w->ref.generation == ref.generation)
            return;
    }
    node_want_t want = {.client = client, .size = size, .since_ns = base_clock_mono_ns(), .ref = ref};
    if (!vec_push(&n->wants, want)) return; /* it asks again: it looks up once a second */
    if (n->wants.count == 1) uv_timer_start(&n->room_timer, on_timer, 0, LOOK_MS);
}

static node_object_t *object_of(node_t *n, mob_ref_t ref) {
    node_object_t *o = n->objects[ref.slot];
    return o != NULL && o->generation == ref.generation ? o : NULL;
}

/* True: the want is no more. */
static bool want_serve(node_t *n, const node_want_t *w) {
    if (w->client == 0) {
        node_object_t *o = object_of(n, w->ref);
        return o == NULL || o->moving || o->copy == NULL || node_restore_begin(n, o);
    }
    node_client_t *c = n->clients[w->client];
    if (c == NULL || c->state != NODE_LIVE) return true;
    uint64_t offset, serial, size = granule_round(w->size);
    if (node_memory_grant(n, w->client, size, true, &offset, &serial) != MOB_OK) return false;
    node_client_tell(c, WIRE_ROOM, MOB_OK, offset, size, serial);
    return true;
}

static void want_refuse(node_t *n, const node_want_t *w, mob_status_t status) {
    node_client_t *c = n->clients[w->client];
    if (w->client == 0)
        node_restore_refuse(n, w->ref, status);
    else if (c != NULL)
        node_client_tell(c, WIRE_ROOM, status, w->size, 0, 0);
}

static void want_remove(node_t *n, size_t index) {
    memmove(&n->wants.items[index], &n->wants.items[index + 1], (n->wants.count - index - 1) * sizeof *n->wants.items);
    n->wants.count--;
}

/* The next one to be served: what comes back from disk before the others. */
static size_t want_first(const node_t *n) {
    for (size_t i = 0; i < n->wants.count; i++)
        if (n->wants.items[i].client == 0) return i;
    return 0;
}

/* Nothing can be moved for it. False: it may yet change. */
static bool want_is_hopeless(node_t *n, const node_want_t *w, mob_status_t *ret_status) {
    uint64_t now = base_clock_mono_ns(), since = w->since_ns > n->progress_ns ? w->since_ns : n->progress_ns;
    if (n->moves > 0) return false;
    if (n->disk_error != 0 && now - since > DISK_NS) {
        *ret_status = MOB_EDISK;
        return true;
    }
    *ret_status = MOB_EFULL;
    return now - since > FULL_NS;
}

void node_room_serve(node_t *n) {
    while (n->wants.count > 0) {
        size_t index = want_first(n);
        node_want_t w = n->wants.items[index];
        mob_status_t status;
        if (want_serve(n, &w)) {
            n->progress_ns = base_clock_mono_ns();
        } else if (n->spills > 0) {
            return; /* we come back when that is written */
        } else if (node_spill(n, granule_round(w.size)) > 0) {
            if (!want_serve(n, &w)) return; /* when it is written */
            n->progress_ns = base_clock_mono_ns();
        } else if (want_is_hopeless(n, &w, &status)) {
            want_refuse(n, &w, status);
        } else {
            return;
        }
        want_remove(n, index);
    }
    uv_timer_stop(&n->room_timer);
}

/* ---- who has it ---- */

typedef struct {
    uint64_t memory, disk, idle, pinned[SHM_MAX_CLIENTS];
} usage_t;

static void usage_survey(node_t *n, usage_t *u) {
    for (uint32_t i = STORE_SLOT_BLOCK; i < n->slots_granted; i++) {
        const store_slot_t *slot = &n->slots[i];
        uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire), meta = slot->meta;
        if ((word & STORE_STATE) != STORE_SEALED || store_meta_inline(meta)) continue;
        uint64_t size = store_meta_size(meta);
        if (word & STORE_AWAY) {
            u->disk += size;
            continue;
        }
        u->memory += size;
        bool pinned = false;
        for (uint32_t k = 1; k < n->client_next; k++) {
            if (n->clients[k] == NULL || !node_client_pins(n->clients[k], i)) continue;
            u->pinned[k] += size;
            pinned = true;
        }
        if (!pinned) u->idle += size;
    }
}

void node_room_text(node_t *n, uint64_t size, char *text, size_t capacity) {
    static usage_t u;
    memset(&u, 0, sizeof u);
    usage_survey(n, &u);
    size_t at = (size_t)snprintf(
        text, capacity,
        "the object store is full: %llu bytes were asked for, %llu of its %llu bytes are free. Objects in memory: %llu "
        "bytes, %llu of them not in use; on disk: %llu bytes",
        (unsigned long long)size, (unsigned long long)node_memory_free_bytes(n), (unsigned long long)n->store_bytes,
        (unsigned long long)u.memory, (unsigned long long)u.idle, (unsigned long long)u.disk);
    for (int told = 0; told < 3 && at < capacity; told++) {
        uint32_t most = 0;
        for (uint32_t k = 1; k < n->client_next; k++)
            if (u.pinned[k] > u.pinned[most]) most = k;
        if (most == 0) break;
        at += (size_t)snprintf(text + at, capacity - at, "; in use by %s %d: %llu bytes",
                               n->clients[most] == n->driver ? "the driver" : "the worker", (int)n->clients[most]->pid,
                               (unsigned long long)u.pinned[most]);
        u.pinned[most] = 0;
    }
    if (n->disk_error != 0 && at < capacity)
        at += (size_t)snprintf(text + at, capacity - at, "; writing to disk failed: %s", strerror(n->disk_error));
    if (at < capacity)
        snprintf(text + at, capacity - at,
                 ". Drop references and arrays that are no longer needed, or give ray.init a larger "
                 "object_store_memory%s",
                 n->disk_error != 0 ? " or another object_spilling_directory" : "");
}
