/*
 * Making one large gap of many small ones, by moving values within the arena.
 *
 * When there is free memory, but not in one piece, or much of it inside of extents that are nearly
 * empty, the daemon empties the stretch with the fewest bytes to move. It sets the gaps of the
 * stretch aside, so that no client gets them. Each value in the stretch gets a block elsewhere, and
 * a thread of libuv's copies them, for values do not change. Then each slot says the new place, by
 * the same steps as for a move to disk: AWAY, a look at the pins, the place, AWAY no longer. A
 * value that is pinned meanwhile stays, and the stretch with it. In this way small values leave
 * half-empty extents of any process and lie densely in the daemon's own.
 */
#include <stdlib.h>
#include <string.h>

#include "node/space/compact.h"
#include "node/space/survey.h"

static const uint64_t MOST_BYTES = 256 << 20;

typedef struct {
    store_spill_item_t item;
    uint64_t to; /* its block there */
} moved_t;

typedef struct {
    uv_work_t work;
    node_t *node;
    const node_survey_t *extents; /* while values are collected */
    node_stretch_t stretch;
    VEC(moved_t) values;
    node_gaps_t aside;
    bool failed;
} compaction_t;

/* The fewer bytes the better. The daemon's own small extents are where the values would go. */
static double price_of(const node_t *n, const node_survey_t *e, uint64_t granule,
                       const void *context) {
    (void)context;
    return e->can_go && (e->whole || n->books.extents[granule].owner != 0)
               ? (double)e->units * SHM_BLOCK_UNIT
               : -1;
}

static uint64_t gaps_in(const node_t *n, const node_stretch_t *s) {
    uint64_t bytes = 0;
    for (uint64_t g = s->first; g < s->end; g = node_survey_next(n, g))
        bytes += n->books.extents[g].size ? 0 : SHM_GRANULE;
    return bytes;
}

static void value_collect(node_t *n, const store_spill_item_t *item, uint64_t extent,
                          uint32_t units, void *context) {
    compaction_t *c = context;
    (void)units;
    if (c->failed || extent < c->stretch.first || extent >= c->stretch.end) return;
    moved_t m = {.item = *item};
    node_object_t *o = node_survey_claim(n, item, extent);
    uint64_t tag = shm_tag(false, item->slot, item->generation);
    c->failed = o == NULL || shm_heap_alloc(&n->heap, item->bytes, tag, &m.to) != MOB_OK;
    if (c->failed) return;
    if (!vec_push(&c->values, m)) {
        shm_heap_free(&n->heap, m.to, tag);
        c->failed = true;
        return;
    }
    o->moving = true;
}

static void copy_run(uv_work_t *work) {
    compaction_t *c = work->data;
    for (size_t i = 0; i < c->values.count; i++)
        memcpy(c->node->arena.base + c->values.items[i].to,
               c->node->arena.base + c->values.items[i].item.block, c->values.items[i].item.bytes);
}

/* The value lies in two places: one of them is freed. */
static void value_settle(node_t *n, const moved_t *m, bool copied) {
    node_extent_backed(n, 0, m->to);
    node_object_t *o = n->objects[m->item.slot];
    uint64_t tag = shm_tag(false, m->item.slot, m->item.generation);
    bool here = o != NULL && o->generation == m->item.generation && o->moving;
    if (here) {
        o->moving = false;
        node_object_settle(n, o); /* which frees nothing before the next reading of all rings */
    }
    if (!here || !copied || !node_object_leave(n, o)) {
        shm_heap_free(&n->heap, m->to, tag);
        return;
    }
    n->slots[o->slot].value.large.block = m->to;
    store_slot_return(&n->slots[o->slot]);
    shm_block_release(n->arena.base, n->extents, m->item.block, tag);
}

static void compaction_end(compaction_t *c, bool copied) {
    for (size_t i = 0; i < c->values.count; i++) value_settle(c->node, &c->values.items[i], copied);
    node_gaps_return(c->node, c->aside.items, c->aside.count);
    vec_free(&c->values);
    vec_free(&c->aside);
    free(c);
}

static void copy_done(uv_work_t *work, int status) {
    compaction_t *c = work->data;
    node_t *n = c->node;
    n->space.compacting = false;
    compaction_end(c, status == 0);
    node_space_serve(n);
}

bool node_compact(node_t *n, uint64_t size) {
    if (n->space.compacting) return true;
    node_survey_t *extents = node_survey_make(n);
    compaction_t *c = calloc(1, sizeof *c);
    bool begun = false;
    if (extents != NULL && c != NULL &&
        node_survey_stretch(n, extents, size, price_of, NULL, &c->stretch) &&
        c->stretch.cost < (double)MOST_BYTES &&
        c->stretch.cost * 1.25 < (double)(n->books.free_bytes - gaps_in(n, &c->stretch))) {
        c->node = n;
        c->work.data = c;
        node_gaps_take(n, c->stretch.first * SHM_GRANULE, c->stretch.end * SHM_GRANULE, &c->aside);
        node_survey_walk(n, value_collect, c);
        begun = !c->failed && c->values.count > 0 &&
                uv_queue_work(&n->loop, &c->work, copy_run, copy_done) == 0;
        n->space.compacting = begun;
        if (!begun) compaction_end(c, false);
    } else {
        free(c);
    }
    free(extents);
    return begun;
}
