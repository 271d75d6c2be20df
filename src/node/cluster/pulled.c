/*
 * Copies at this node.
 *
 * A copy that comes has a block of the daemon's own heap under the tag of its slot, which is AWAY;
 * the bulk thread writes there, and nobody else. When it is whole the slot says where it lies, as
 * for a value that came from disk. From then on it is like any value in the store: it may go to
 * disk. When the room gives a copy up, the slot becomes AWAY again, unless somebody has it pinned;
 * then it stays, for this node only.
 *
 * An object stays, by a use, as long as its copy is on its way or is read by another node. And its
 * value stays where it is while it is read: sendfile and the bulk thread's hash go there
 * (node_pulling_may_move, for space/). A primary copy stays without its proxy (shelf.c).
 */
#include "node/cluster/pulled.h"

#include <stdlib.h>

#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/space/pins.h"
#include "node/space/restore.h"
#include "node/space/survey.h"
#include "node/state.h"
#include "node/value.h"

typedef struct {
    uint8_t bytes[MOB_ID_SIZE];
} id_key_t;

static id_key_t key_of(frame_id_t id) {
    id_key_t key;
    base_writer_t w = {.bytes = key.bytes};
    frame_id_put(&w, id);
    return key;
}

static uint64_t tag_of(mob_ref_t ref) { return shm_tag(false, ref.slot, ref.generation); }

node_pulled_t *node_pulled_find(const node_pulling_t *p, frame_id_t id) {
    id_key_t key = key_of(id);
    return base_map_get(&p->all, &key);
}

node_pulled_t *node_pulled_get(node_pulling_t *p, frame_id_t id, mob_ref_t ref) {
    id_key_t key = key_of(id);
    node_pulled_t *e = base_map_get(&p->all, &key);
    if (e != NULL && e->state == PULLED_NONE && e->block == 0) e->ref = ref; /* a new proxy */
    if (e != NULL) return e;
    e = calloc(1, sizeof *e);
    if (e == NULL || !base_map_put(&p->all, &key, e)) {
        free(e);
        return NULL;
    }
    e->id = id;
    e->ref = ref;
    for (size_t i = 0; i < PULL_CLASSES; i++) e->asks[i].of = e;
    return e;
}

/* ---- how long it stays ---- */

static bool must_stay(const node_pulling_t *p, const node_pulled_t *e) {
    pull_copy_view_t view;
    if (e->state == PULLED_COMING || e->state == PULLED_SEALING || e->is_kept) return true;
    if (e->state == PULLED_NONE || !pull_copy_look(p->pull, &e->id, &view)) return false;
    return view.readers > 0;
}

static void block_free(node_pulling_t *p, node_pulled_t *e) {
    if (e->block == 0) return;
    node_extent_backed(p->node, 0, e->block);
    shm_heap_free(&p->node->heap, e->block, tag_of(e->ref));
    e->block = 0;
}

void node_pulled_update(node_pulling_t *p, node_pulled_t *e) {
    node_t *n = p->node;
    node_object_t *o = node_object_known(n, e->ref);
    if (node_shelf_is_due(p, e))
        e->is_kept = !node_shelf_put(p, e, o);
    else if (e->is_kept && o != NULL)
        e->is_kept = o->holders.count == 0 && o->uses <= 1;
    o = node_object_known(n, e->ref);
    bool stays = must_stay(p, e);
    if (stays && !e->is_used && o != NULL) {
        node_object_use(o);
        e->is_used = true;
    } else if (!stays && e->is_used) {
        e->is_used = false;
        node_object_unuse_ref(n, e->ref);
    }
    for (size_t i = 0; i < PULL_CLASSES; i++)
        if (e->asks[i].want != NULL) return;
    if (e->state != PULLED_NONE || e->is_lost) return;
    block_free(p, e);
    id_key_t key = key_of(e->id);
    (void)base_map_remove(&p->all, &key);
    free(e);
}

void node_pulled_update_all(node_pulling_t *p) {
    VEC(frame_id_t) ids = {0};
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&p->all, &cursor, &key, &value))
        (void)vec_push(&ids, ((node_pulled_t *)value)->id); /* the rest at the next tick */
    for (size_t i = 0; i < ids.count; i++) {
        node_pulled_t *e = node_pulled_find(p, ids.items[i]);
        if (e != NULL) node_pulled_update(p, e);
    }
    vec_free(&ids);
}

/* ---- memory ---- */

/* A block for the value; false: there is no space, and the store was asked for some. */
static bool block_get(node_pulling_t *p, node_pulled_t *e, uint64_t size) {
    node_t *n = p->node;
    if (e->block != 0) return true;
    if (shm_heap_alloc(&n->heap, size, tag_of(e->ref), &e->block) != MOB_OK) {
        uint64_t extent = shm_heap_extent_for(size);
        e->block = 0;
        e->is_short = true;
        node_space_want(n, 0, extent, extent, e->ref, false);
        node_pulling_note(p, (node_todo_t){.kind = TODO_ROOM, .bytes = size});
        return false;
    }
    e->is_short = false;
    e->is_cold = size > SHM_HEAP_SMALL && shm_heap_cold(&n->heap, e->block);
    return true;
}

bool node_pulled_extent_new(node_pulling_t *p, const frame_id_t *id, uint64_t size) {
    node_pulled_t *e = node_pulled_find(p, *id);
    node_object_t *o = e != NULL ? node_object_known(p->node, e->ref) : NULL;
    if (o == NULL || !node_proxy_is_elsewhere(p->node, o)) return false;
    if (o->elsewhere->pulled_bytes != size) { /* not what was told of it */
        node_pulling_refused(p->node, o, MOB_ELOST);
        return false;
    }
    if (e->state != PULLED_NONE || !block_get(p, e, size)) return false;
    e->state = PULLED_COMING;
    node_object_use(o);
    e->is_used = true;
    return true;
}

bool node_pulling_waits(const node_t *n, const node_object_t *o) {
    if (n->cluster == NULL || n->cluster->pulling == NULL || o->elsewhere == NULL) return false;
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    node_pulled_t *e =
        node_pulled_find(n->cluster->pulling, node_proxy_id((node_t *)(uintptr_t)n, ref));
    return e != NULL && e->is_short && e->state == PULLED_NONE;
}

bool node_pulling_space(node_t *n, node_object_t *o) {
    node_pulling_t *p = n->cluster->pulling;
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    node_pulled_t *e = node_pulled_find(p, node_proxy_id(n, ref));
    uint64_t block;
    if (e == NULL || e->block != 0) return true;
    if (shm_heap_alloc(&n->heap, o->elsewhere->pulled_bytes, tag_of(ref), &block) != MOB_OK)
        return false;
    e->block = block;
    e->is_short = false;
    e->is_cold = o->elsewhere->pulled_bytes > SHM_HEAP_SMALL && shm_heap_cold(&n->heap, block);
    node_pulling_wake(p, true);
    return true;
}

/* The one that was not used for longest, of those that may go; NULL: none. */
static node_pulled_t *idlest(const node_pulling_t *p, uint64_t *ret_bytes) {
    node_t *n = p->node;
    node_pulled_t *best = NULL;
    uint32_t now_ms = base_clock_coarse_ms(), best_ms = 0;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&p->all, &cursor, &key, &value)) {
        node_pulled_t *e = value;
        pull_copy_view_t view;
        const node_object_t *o = node_object_known(n, e->ref);
        if (e->state != PULLED_HERE || e->is_shelved || o == NULL || o->elsewhere == NULL ||
            o->moving || node_object_is_away(n, o) || node_slot_is_pinned(n, o->slot) ||
            !pull_copy_look(p->pull, &e->id, &view) || view.is_primary || view.is_pinned ||
            view.readers > 0)
            continue;
        uint32_t idle = now_ms - atomic_load_explicit(&n->slots[o->slot].value.large.used_ms,
                                                      memory_order_relaxed);
        if (best != NULL && idle <= best_ms) continue;
        best = e;
        best_ms = idle;
        *ret_bytes = view.size;
    }
    return best;
}

void node_pulled_room_make(node_pulling_t *p, uint64_t bytes) {
    uint64_t freed = 0, size;
    for (node_pulled_t *e; freed < bytes && (e = idlest(p, &size)) != NULL; freed += size) {
        frame_id_t id = e->id;
        if (pull_copy_drop(p->pull, &id, node_pulling_now()) != MOB_OK) return;
    }
    if (freed > 0) node_space_serve(p->node);
}

/* The value goes out of memory, if it can be had again, and nobody has it pinned. */
static void value_leave(node_pulling_t *p, node_pulled_t *e) {
    node_t *n = p->node;
    node_object_t *o = node_object_known(n, e->ref);
    if (o == NULL || o->elsewhere == NULL || o->moving) return;
    if (node_object_is_away(n, o)) {
        if (o->copy != NULL) node_copy_drop(n, o);
        return;
    }
    uint64_t block = n->slots[o->slot].value.large.block;
    if (!node_object_leave(n, o)) return;
    n->slots[o->slot].value.large.block = 0; /* nobody reads it while it is AWAY */
    shm_block_release(n->arena.base, n->extents, block, tag_of(e->ref));
    if (o->copy != NULL) node_copy_drop(n, o);
}

void node_pulled_extent_free(node_pulling_t *p, const frame_id_t *id) {
    node_pulled_t *e = node_pulled_find(p, *id);
    if (e == NULL) return;
    node_pulled_state_t state = e->state;
    e->state = PULLED_NONE;
    node_contents_drop(p, e);
    if (e->is_shelved)
        node_shelf_free(p, e);
    else if (state == PULLED_HERE)
        value_leave(p, e);
    block_free(p, e);
    if (!e->is_used) return; /* it goes when the next look at all is taken */
    e->is_used = false;
    node_object_unuse_ref(p->node, e->ref);
}

void node_pulled_fill(node_pulling_t *p, node_pulled_t *e) {
    node_t *n = p->node;
    node_object_t *o = node_object_known(n, e->ref);
    uint64_t block = e->block;
    e->state = PULLED_HERE;
    if (o == NULL || !node_proxy_is_elsewhere(n, o)) {
        block_free(p, e); /* it has its value by another way */
        node_contents_drop(p, e);
        return;
    }
    e->block = 0;
    node_extent_backed(n, 0, block);
    if (o->elsewhere->ref_count > 0)
        memcpy(n->arena.base + block + store_refs_offset(o->elsewhere->bytes), e->list,
               o->elsewhere->ref_count * sizeof *e->list);
    node_proxy_fill(n, o, block); /* which holds what is inside */
    node_contents_drop(p, e);
}

/* ---- chunks that come ---- */

void node_pulled_fetch(node_pulling_t *p, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                       uint64_t source) {
    pull_copy_view_t view;
    node_pulled_t *e = node_pulled_find(p, *id);
    node_object_t *o = e != NULL ? node_object_known(p->node, e->ref) : NULL;
    if (o == NULL || o->elsewhere == NULL || e->state != PULLED_COMING ||
        !pull_copy_look(p->pull, id, &view))
        return;
    bulk_chunk_t want = {.id = *id, .ticket = ticket, .chunk = chunk, .version = view.version};
    /* without memory the chunk does not come, and the room asks for another source */
    (void)bulk_fetch(p->bulk, source, &want,
                     p->node->arena.base + e->block + node_pulled_offset(chunk),
                     node_pulled_size_in(o->elsewhere->bytes, chunk), e->is_cold);
}

void node_pulled_came(node_pulling_t *p, const bulk_chunk_t *chunk, size_t size, bool is_whole) {
    const node_pulled_t *e = node_pulled_find(p, chunk->id);
    const node_object_t *o = e != NULL ? node_object_known(p->node, e->ref) : NULL;
    const node_elsewhere_t *what = o != NULL ? o->elsewhere : NULL;
    bool is_it = what != NULL && size == node_pulled_size_in(what->bytes, chunk->chunk) &&
                 chunk->about[0] == what->bytes &&
                 chunk->about[1] == node_pulled_about(what->format, what->error, what->ref_count);
    pull_chunk_came(p->pull, chunk->ticket, &chunk->id, chunk->chunk, is_whole && is_it,
                    node_pulling_now());
}

/* ---- its end ---- */

void node_pulling_freed(node_t *n, const node_object_t *o) {
    node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    if (p == NULL) return;
    frame_id_t id = node_proxy_id(n, (mob_ref_t){.slot = o->slot, .generation = o->generation});
    uint64_t now = node_pulling_now();
    node_pulled_t *e = node_pulled_find(p, id);
    bool is_its = e != NULL && e->ref.slot == o->slot && e->ref.generation == o->generation;
    if (e != NULL && e->state >= PULLED_HERE && (is_its || e->is_owned))
        (void)pull_copy_drop(p->pull, &id, now);
    if (id.home == n->incarnation) pull_object_free(p->pull, &id, now);
    if (e != NULL && (e = node_pulled_find(p, id)) != NULL) node_pulled_update(p, e);
}

/* ---- for space/ ---- */

static node_pulled_t *entry_of(const node_t *n, const node_object_t *o) {
    const node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    if (p == NULL || p->all.count == 0) return NULL;
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    uint64_t shelf = store_link(ref);
    node_pulled_t *e = base_map_get(&p->shelves, &shelf);
    if (e == NULL) e = node_pulled_find(p, node_proxy_id((node_t *)(uintptr_t)n, ref));
    return e != NULL && e->ref.slot == ref.slot && e->ref.generation == ref.generation ? e : NULL;
}

bool node_pulling_may_move(const node_t *n, const node_object_t *o) {
    const node_pulled_t *e = entry_of(n, o);
    pull_copy_view_t view;
    return e == NULL || !pull_copy_look(n->cluster->pulling->pull, &e->id, &view) ||
           view.readers == 0;
}

void node_pulling_left(node_t *n, const node_object_t *o) {
    const node_pulled_t *e = entry_of(n, o);
    if (e != NULL && e->state == PULLED_HERE)
        node_pulling_note(n->cluster->pulling, (node_todo_t){.kind = TODO_SPILL, .id = e->id});
}
