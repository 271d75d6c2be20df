#include "node/space/survey.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/cluster/pulling.h"
#include "node/space/pins.h"
#include "node/state.h"

/* ---- values ---- */

/* The first granule of the extent that the block with data at `data` lies in; UINT64_MAX: in none.
 * The block itself says how far it is from the beginning. */
static uint64_t extent_of(const node_t *n, uint64_t data) {
    if (data < SHM_BLOCK_UNIT || data % SHM_BLOCK_UNIT != 0 || data >= n->config.store_bytes)
        return UINT64_MAX;
    uint64_t g = (data - sizeof(shm_block_t)) / SHM_GRANULE;
    uint32_t back = ((const shm_block_t *)(n->arena.base + data - sizeof(shm_block_t)))->back;
    if (back != SHM_BLOCK_WHOLE) g = back <= g ? g - back : g;
    return n->books.extents[g].size > 0 && g * SHM_GRANULE + n->books.extents[g].size > data
               ? g
               : UINT64_MAX;
}

bool node_survey_block(const node_t *n, uint64_t data, uint64_t tag, uint64_t bytes,
                       uint64_t *ret_extent, uint32_t *ret_units) {
    uint64_t extent = extent_of(n, data);
    if (extent == UINT64_MAX) return false;
    const shm_block_t *header = (const shm_block_t *)(n->arena.base + data - sizeof *header);
    uint32_t units = atomic_load_explicit(&header->units, memory_order_relaxed);
    *ret_extent = extent;
    *ret_units = units;
    return atomic_load_explicit(&header->word, memory_order_relaxed) == shm_block_used(tag) &&
           bytes + sizeof *header <= (uint64_t)units * SHM_BLOCK_UNIT &&
           data + bytes <= extent * SHM_GRANULE + n->books.extents[extent].size;
}

/* Whether this slot's value can go, and what it is then. Clients write the slot: everything is
 * bounded here. */
static bool slot_can_go(node_t *n, uint32_t index, store_spill_item_t *ret_item,
                        uint64_t *ret_extent, uint32_t *ret_units) {
    store_slot_t *slot = &n->slots[index];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    if ((word & (STORE_STATE | STORE_DROPPED | STORE_GOING | STORE_AWAY)) != STORE_SEALED)
        return false;
    uint64_t meta = slot->meta, block = slot->value.large.block, size = store_meta_size(meta);
    uint32_t ref_count = slot->value.large.ref_count;
    if (store_meta_inline(meta) || store_meta_in_file(meta) || store_meta_error(meta) != MOB_OK)
        return false;
    uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
    uint64_t bytes = store_block_size(size, ref_count);
    if (size > n->config.store_bytes ||
        !node_survey_block(n, block, shm_tag(false, index, generation), bytes, ret_extent,
                           ret_units))
        return false;
    if (bytes > STORE_SPILL_SMALL && block % STORE_SPILL_PAGE != STORE_SPILL_PLACE) return false;
    node_object_t *o = n->objects[index];
    if (o != NULL && (o->generation != generation || o->moving)) return false;
    if (o != NULL && !node_pulling_may_move(n, o)) return false;
    /* the daemon has not read yet what is inside */
    if (ref_count > 0 && (o == NULL || !o->contents_held)) return false;
    *ret_item = (store_spill_item_t){.slot = index,
                                     .ref_count = ref_count,
                                     .generation = generation,
                                     .meta = meta,
                                     .block = block,
                                     .bytes = bytes};
    return true;
}

void node_survey_walk(node_t *n, node_value_fn f, void *context) {
    for (uint32_t w = STORE_SLOT_BLOCK / 64; w < (n->grants.slots.granted + 63) / 64; w++) {
        uint64_t pinned = node_pins_word(n, w);
        for (uint32_t i = w * 64; i < w * 64 + 64 && i < n->grants.slots.granted; i++) {
            store_spill_item_t item;
            uint64_t extent;
            uint32_t units;
            if (!(pinned >> (i % 64) & 1) && slot_can_go(n, i, &item, &extent, &units))
                f(n, &item, extent, units, context);
        }
    }
}

node_object_t *node_survey_claim(node_t *n, const store_spill_item_t *item, uint64_t extent) {
    store_spill_item_t again;
    uint64_t place;
    uint32_t units;
    if (!store_slot_escape(&n->slots[item->slot])) return NULL;
    /* From here on only the daemon frees the value; until here it may have been freed and made
     * anew. */
    if (!slot_can_go(n, item->slot, &again, &place, &units) || place != extent ||
        memcmp(&again, item, sizeof again) != 0)
        return NULL;
    return node_object_find(n, (mob_ref_t){.slot = item->slot, .generation = item->generation});
}

bool node_object_leave(node_t *n, node_object_t *o) {
    store_slot_t *slot = &n->slots[o->slot];
    if (!node_pulling_may_move(n, o) || !store_slot_leave(slot)) return false;
    if (!node_slot_is_pinned(n, o->slot)) return true;
    store_slot_return(slot);
    return false;
}

/* ---- extents ---- */

typedef struct {
    node_survey_t *extents;
    uint32_t now_ms;
} surveyor_t;

static void value_add(node_t *n, const store_spill_item_t *item, uint64_t extent, uint32_t units,
                      void *context) {
    surveyor_t *s = context;
    node_survey_t *e = &s->extents[extent];
    uint32_t idle = s->now_ms - atomic_load_explicit(&n->slots[item->slot].value.large.used_ms,
                                                     memory_order_relaxed);
    if (idle > INT32_MAX) idle = 0; /* used since the clock was read */
    if (e->units == 0 || idle < e->idle_ms) e->idle_ms = idle;
    e->units += units;
    e->whole = ((const shm_block_t *)(n->arena.base + item->block - sizeof(shm_block_t)))->back ==
               SHM_BLOCK_WHOLE;
    if (n->objects[item->slot] != NULL && n->objects[item->slot]->copy != NULL) e->copied += units;
}

node_survey_t *node_survey_make(node_t *n) {
    surveyor_t s = {.extents = calloc(n->config.store_bytes / SHM_GRANULE + 1, sizeof *s.extents),
                    .now_ms = base_clock_coarse_ms()};
    if (s.extents == NULL) return NULL;
    node_survey_walk(n, value_add, &s);
    for (uint64_t g = 0; g < n->config.store_bytes / SHM_GRANULE; g = node_survey_next(n, g)) {
        if (n->books.extents[g].size == 0 || s.extents[g].units == 0) continue;
        uint64_t used = atomic_load(&n->extents[g].used), freed = atomic_load(&n->extents[g].freed);
        s.extents[g].can_go =
            used >> 32 == freed >> 32 && ((used - freed) & 0xffffffff) == s.extents[g].units;
    }
    return s.extents;
}

/* A gap that has no memory is of no use while the machine has none to give. */
static bool gap_is_useless(const node_t *n, uint64_t granule) {
    return n->space.unbacked_short && !node_granule_is_backed(n, granule);
}

/* A window slides over the arena: what it costs to empty one more extent is added at its end, what
 * is not needed is left out at its beginning. */
bool node_survey_stretch(const node_t *n, const node_survey_t *extents, uint64_t size,
                         node_cost_fn cost, const void *context, node_stretch_t *ret_best) {
    uint64_t wanted = (size + SHM_GRANULE - 1) / SHM_GRANULE;
    node_stretch_t s = {0};
    bool found = false;
    for (uint64_t g = 0; g < n->config.store_bytes / SHM_GRANULE;) {
        bool gap = n->books.extents[g].size == 0;
        double price = gap ? 0 : cost(n, &extents[g], g, context);
        uint64_t next = node_survey_next(n, g);
        if (gap ? gap_is_useless(n, g) : price < 0) {
            s = (node_stretch_t){.first = next, .end = next};
            g = next;
            continue;
        }
        s.cost += price;
        s.extents += !gap;
        s.end = g = next;
        for (uint64_t after; s.end - (after = node_survey_next(n, s.first)) >= wanted;
             s.first = after) {
            if (n->books.extents[s.first].size == 0) continue;
            s.cost -= cost(n, &extents[s.first], s.first, context);
            s.extents--;
        }
        /* What is free was not to be had: a stretch of gaps alone is no answer. */
        if (s.end - s.first < wanted || s.extents == 0 || (found && s.cost >= ret_best->cost))
            continue;
        *ret_best = s;
        found = true;
    }
    return found;
}
