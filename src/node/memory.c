/*
 * What clients are granted: blocks of slots and of records, extents of the arena.
 *
 * The arena's books: `books` has an entry at the first granule of every extent, `granule_owner`
 * says for each granule whose it is, `gaps` are the stretches that belong to nobody, in order of
 * place, with who had them last: a process that gets its old pages back finds them warm. An extent
 * that is EMPTY is its owner's to use again, but counts as free and is taken back when a request
 * does not fit otherwise.
 *
 * Memory is given to an extent before it is handed out, after a look at what the cgroup has left,
 * with a reserve: running into its limit would bring the kernel's killer, not an error.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/memory.h"
#include "node/state.h"

static const uint64_t RESERVE_BYTES = 64 << 20, SMALL_BYTES = 4 << 20,
                      LEAST_STORE_BYTES = 16 * SHM_GRANULE, PROMISE_NS = 500000000;

static void *table_new(size_t count, size_t size) {
    void *p = mmap(NULL, count * size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static mob_status_t own_grant(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                              uint64_t *ret_size, uint64_t *ret_serial);
static void orphan_extents_clean(node_t *n);

mob_status_t node_memory_init(node_t *n) {
    if (n->store_bytes < LEAST_STORE_BYTES)
        return base_fail(MOB_EINVAL, "object_store_memory must be at least %llu bytes, not %llu",
                         (unsigned long long)LEAST_STORE_BYTES, (unsigned long long)n->store_bytes);
    n->store_bytes = n->store_bytes / SHM_GRANULE * SHM_GRANULE;
    uint64_t granules = n->store_bytes / SHM_GRANULE;
    const struct {
        shm_segment_t *segment;
        const char *name;
        uint64_t size;
    } wanted[] = {
        {&n->node_segment, "mobula-node", sizeof(shm_node_t)},
        {&n->slot_segment, "mobula-slots", (uint64_t)STORE_MAX_SLOTS * sizeof(store_slot_t)},
        {&n->record_segment, "mobula-records", (uint64_t)WIRE_MAX_RECORDS * sizeof(wire_record_t)},
        {&n->extent_segment, "mobula-extents", (granules + 1) * sizeof(shm_extent_t)},
        {&n->arena, "mobula-arena", n->store_bytes},
        {&n->queue_segment, "mobula-queues", (uint64_t)SHM_QUEUES * sizeof(shm_queue_t)},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        mob_status_t status = shm_segment_create(wanted[i].name, wanted[i].size, wanted[i].segment);
        if (status != MOB_OK) return status;
    }
    n->shared = (shm_node_t *)n->node_segment.base;
    n->queues = (shm_queue_t *)n->queue_segment.base;
    n->slots = (store_slot_t *)n->slot_segment.base;
    n->records = (wire_record_t *)n->record_segment.base;
    n->extents = (shm_extent_t *)n->extent_segment.base;
    n->tasks = table_new(WIRE_MAX_RECORDS, sizeof *n->tasks);
    n->objects = table_new(STORE_MAX_SLOTS, sizeof *n->objects);
    n->slot_owner = table_new(STORE_MAX_SLOTS / STORE_SLOT_BLOCK, sizeof *n->slot_owner);
    n->record_owner = table_new(WIRE_MAX_RECORDS / WIRE_RECORD_BLOCK, sizeof *n->record_owner);
    n->site_of = table_new(STORE_MAX_SLOTS, sizeof *n->site_of);
    n->pairs = table_new(SHM_CALL_QUEUES, sizeof *n->pairs);
    n->books = table_new(granules + 1, sizeof *n->books);
    n->granule_owner = table_new(granules + 1, sizeof *n->granule_owner);
    n->backed = table_new(granules / 64 + 1, sizeof *n->backed);
    if (!n->site_of || !n->pairs || !n->tasks || !n->objects || !n->slot_owner ||
        !n->record_owner || !n->books || !n->granule_owner || !n->backed)
        return MOB_ENOMEM;
    n->slots_granted = STORE_SLOT_BLOCK; /* slot 0 names nothing */
    n->arena_free = n->store_bytes;
    if (!vec_push(&n->gaps, ((node_gap_t){.offset = 0, .size = n->store_bytes}))) return MOB_ENOMEM;
    return shm_heap_init(&n->heap, n->arena.base, n->store_bytes, n->extents, own_grant, n);
}

void node_memory_fini(node_t *n) {
    shm_heap_fini(&n->heap);
    shm_segment_fini(&n->node_segment);
    shm_segment_fini(&n->slot_segment);
    shm_segment_fini(&n->record_segment);
    shm_segment_fini(&n->extent_segment);
    shm_segment_fini(&n->arena);
    shm_segment_fini(&n->queue_segment);
}

/* ---- slots and records ---- */

static bool memory_is_short(uint64_t wanted) {
    uint64_t headroom;
    return base_memory_headroom("", &headroom) == MOB_OK && wanted + RESERVE_BYTES > headroom;
}

/* A free span of exactly or at least the blocks needed, or fresh ones above the high-water mark. */
static node_span_t node_span_take(node_spans_t *spans, uint32_t *granted, uint32_t limit,
                                  uint32_t block, uint32_t wanted) {
    wanted = (wanted + block - 1) / block * block;
    for (size_t i = 0; i < spans->count; i++) {
        node_span_t s = spans->items[i];
        if (s.count > wanted) {
            spans->items[i].first += wanted;
            spans->items[i].count -= wanted;
            s.count = wanted;
        } else {
            vec_swap_remove(spans, i);
        }
        return s;
    }
    if (*granted >= limit) return (node_span_t){0};
    node_span_t s = {.first = *granted,
                     .count = limit - *granted < wanted ? limit - *granted : wanted};
    *granted += s.count;
    return s;
}

void node_memory_slots(node_client_t *client, uint32_t wanted) {
    node_t *n = client->node;
    if (wanted == 0 || wanted > STORE_MAX_SLOTS / 4) {
        node_client_fault(client, "asked for an impossible number of slots");
        return;
    }
    node_span_t s = node_span_take(&n->free_slots, &n->slots_granted, STORE_MAX_SLOTS,
                                   STORE_SLOT_BLOCK, wanted);
    uint64_t bytes = (uint64_t)s.count * sizeof(store_slot_t);
    if (s.count > 0 && (memory_is_short(bytes) ||
                        shm_segment_back(&n->slot_segment, (uint64_t)s.first * sizeof(store_slot_t),
                                         bytes) != MOB_OK ||
                        !vec_push(&client->slots, s))) {
        (void)vec_push(&n->free_slots, s);
        s.count = 0;
    }
    if (s.count > 0) {
        for (uint32_t b = s.first / STORE_SLOT_BLOCK; b < (s.first + s.count) / STORE_SLOT_BLOCK;
             b++)
            n->slot_owner[b] = (uint16_t)client->number;
    }
    node_client_tell(client, WIRE_SLOTS, s.first, s.count, 0, 0);
}

void node_memory_records(node_client_t *client, uint32_t wanted) {
    node_t *n = client->node;
    if (wanted == 0 || wanted > WIRE_MAX_RECORDS / 4) {
        node_client_fault(client, "asked for an impossible number of records");
        return;
    }
    node_span_t s = node_span_take(&n->free_records, &n->records_granted, WIRE_MAX_RECORDS,
                                   WIRE_RECORD_BLOCK, wanted);
    uint64_t bytes = (uint64_t)s.count * sizeof(wire_record_t);
    if (s.count > 0 &&
        (memory_is_short(bytes) ||
         shm_segment_back(&n->record_segment, (uint64_t)s.first * sizeof(wire_record_t), bytes) !=
             MOB_OK ||
         !vec_push(&client->records, s))) {
        (void)vec_push(&n->free_records, s);
        s.count = 0;
    }
    if (s.count > 0) {
        for (uint32_t b = s.first / WIRE_RECORD_BLOCK; b < (s.first + s.count) / WIRE_RECORD_BLOCK;
             b++)
            n->record_owner[b] = (uint16_t)client->number;
    }
    node_client_tell(client, WIRE_RECORDS, s.first, s.count, 0, 0);
}

bool node_memory_slot_is(node_t *n, uint32_t slot, uint32_t owner) {
    return slot != 0 && slot < STORE_MAX_SLOTS && n->slot_owner[slot / STORE_SLOT_BLOCK] == owner;
}

bool node_memory_record_is(node_t *n, uint32_t record, uint32_t owner) {
    return record < WIRE_MAX_RECORDS && n->record_owner[record / WIRE_RECORD_BLOCK] == owner;
}

/* ---- the arena ---- */

static void gap_add(node_t *n, uint64_t offset, uint64_t size, uint32_t last_owner) {
    size_t i = 0;
    while (i < n->gaps.count && n->gaps.items[i].offset < offset) i++;
    node_gap_t *before = i > 0 ? &n->gaps.items[i - 1] : NULL,
               *after = i < n->gaps.count ? &n->gaps.items[i] : NULL;
    bool joins_before = before && before->offset + before->size == offset,
         joins_after = after && offset + size == after->offset;
    n->arena_free += size;
    if (joins_before) {
        before->size += size;
        before->last_owner = before->last_owner == last_owner ? last_owner : 0;
        if (joins_after) {
            before->size += after->size;
            memmove(after, after + 1, (n->gaps.count - i - 1) * sizeof *after);
            n->gaps.count--;
        }
    } else if (joins_after) {
        after->offset = offset;
        after->size += size;
        after->last_owner = after->last_owner == last_owner ? last_owner : 0;
    } else if (vec_reserve(&n->gaps, 1)) {
        after = &n->gaps.items[i];
        memmove(after + 1, after, (n->gaps.count - i) * sizeof *after);
        *after = (node_gap_t){.offset = offset, .size = size, .last_owner = last_owner};
        n->gaps.count++;
    }
}

bool node_memory_is_backed(const node_t *n, uint64_t granule) {
    return n->backed[granule / 64] >> (granule % 64) & 1;
}

/* A stretch of `size` bytes in the gap that has its memory already. */
static bool gap_find_backed(const node_t *n, const node_gap_t *gap, uint64_t size,
                            uint64_t *ret_offset) {
    uint64_t run = 0;
    for (uint64_t g = gap->offset / SHM_GRANULE; g < (gap->offset + gap->size) / SHM_GRANULE; g++) {
        run = node_memory_is_backed(n, g) ? run + SHM_GRANULE : 0;
        if (run < size) continue;
        *ret_offset = (g + 1) * SHM_GRANULE - size;
        return true;
    }
    return false;
}

static void gap_cut(node_t *n, size_t index, uint64_t offset, uint64_t size) {
    node_gap_t *g = &n->gaps.items[index];
    node_gap_t rest = {.offset = offset + size,
                       .size = g->offset + g->size - offset - size,
                       .last_owner = g->last_owner};
    g->size = offset - g->offset;
    n->arena_free -= size;
    if (g->size == 0) {
        if (rest.size > 0)
            *g = rest;
        else
            memmove(g, g + 1, (--n->gaps.count - index) * sizeof *g);
    } else if (rest.size > 0) {
        g++; /* the caller made space */
        memmove(g + 1, g, (n->gaps.count++ - index - 1) * sizeof *g);
        *g = rest;
    }
}

/* Small extents from the bottom, large ones from the top: else one small object that lives long
 * would cut the space for large ones in two. Large ones by best fit, the asker's own former
 * stretches first. `backed`: only what has its memory already. */
static bool gap_take(node_t *n, uint64_t size, uint32_t owner, bool backed, uint64_t *ret_offset) {
    bool small = size <= SMALL_BYTES && size <= n->store_bytes / 16;
    size_t best = SIZE_MAX;
    uint64_t place = 0;
    if (!vec_reserve(&n->gaps, 1)) return false;
    for (size_t i = 0; i < n->gaps.count && !(small && best != SIZE_MAX); i++) {
        const node_gap_t *g = &n->gaps.items[i],
                         *b = best != SIZE_MAX ? &n->gaps.items[best] : NULL;
        if (g->size < size || (backed && !gap_find_backed(n, g, size, &place))) continue;
        bool mine = g->last_owner == owner, best_mine = b != NULL && b->last_owner == owner;
        if (b != NULL && !(mine != best_mine ? mine : g->size < b->size)) continue;
        best = i;
        *ret_offset = backed ? place : small ? g->offset : g->offset + g->size - size;
    }
    if (best == SIZE_MAX) return false;
    gap_cut(n, best, *ret_offset, size);
    return true;
}

void node_memory_take_gaps(node_t *n, uint64_t from, uint64_t to, node_gaps_t *ret_taken) {
    for (size_t i = 0; i < n->gaps.count && n->gaps.items[i].offset < to;) {
        node_gap_t g = n->gaps.items[i];
        uint64_t first = g.offset > from ? g.offset : from,
                 end = g.offset + g.size < to ? g.offset + g.size : to;
        if (first >= end || !vec_reserve(&n->gaps, 1) ||
            !vec_push(
                ret_taken,
                ((node_gap_t){.offset = first, .size = end - first, .last_owner = g.last_owner}))) {
            i++;
            continue;
        }
        gap_cut(n, i, first, end - first);
        if (first > g.offset) i++; /* what is left before it */
    }
}

void node_memory_return_gaps(node_t *n, const node_gap_t *gaps, size_t count) {
    for (size_t i = 0; i < count; i++) gap_add(n, gaps[i].offset, gaps[i].size, gaps[i].last_owner);
}

static void granules_unback(node_t *n, uint64_t first, uint64_t count) {
    for (uint64_t g = first; g < first + count; g++)
        n->backed[g / 64] &= ~((uint64_t)1 << (g % 64));
    shm_segment_unback(&n->arena, first * SHM_GRANULE, count * SHM_GRANULE);
}

static void extent_close(node_t *n, uint64_t granule) {
    node_extent_t *e = &n->books[granule];
    uint64_t size = e->size;
    /* who knows what its owner has got */
    if (e->cold > 0) granules_unback(n, granule, size / SHM_GRANULE);
    n->cold -= e->cold;
    memset(&n->granule_owner[granule], 0, size / SHM_GRANULE * sizeof *n->granule_owner);
    if (e->owner == NODE_ORPHAN)
        n->orphan_extents--;
    else if (n->clients[e->owner] != NULL)
        n->clients[e->owner]->extents--;
    gap_add(n, granule * SHM_GRANULE, size, e->owner);
    *e = (node_extent_t){0};
}

static bool extent_is_unused(const shm_extent_t *entry) {
    return atomic_load(&entry->used) == atomic_load(&entry->freed);
}

/* Takes an extent back in which nothing is used. */
static bool extent_take_back(node_t *n, uint64_t granule) {
    node_extent_t *e = &n->books[granule];
    shm_extent_t *entry = &n->extents[granule];
    uint64_t owned = e->serial << 2 | SHM_EXTENT_OWNED, empty = e->serial << 2 | SHM_EXTENT_EMPTY;
    if (e->owner != NODE_ORPHAN && extent_is_unused(entry) &&
        atomic_compare_exchange_strong(&entry->word, &owned, empty) && !extent_is_unused(entry)) {
        uint64_t again = empty;
        /* its owner has begun to use it */
        atomic_compare_exchange_strong(&entry->word, &again, owned);
        return false;
    }
    /* acquire: its owner's last use comes before the next owner's first */
    return atomic_compare_exchange_strong(&entry->word, &empty, e->serial << 2 | SHM_EXTENT_GONE);
}

/* Takes back what is not used, but for what somebody was just given who waited for it. */
static void empties_take(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    for (uint64_t g = 0; g < n->store_bytes / SHM_GRANULE;) {
        uint64_t size = n->books[g].size, step = size ? size / SHM_GRANULE : 1;
        bool promised = size && now - n->books[g].promised_ns < PROMISE_NS &&
                        atomic_load(&n->extents[g].used) == shm_extent_count(n->books[g].serial, 0);
        if (size && !promised && extent_take_back(n, g)) extent_close(n, g);
        g += step;
    }
}

uint64_t node_memory_free_bytes(node_t *n) {
    uint64_t bytes = n->arena_free;
    for (uint64_t g = 0; g < n->store_bytes / SHM_GRANULE;) {
        node_extent_t *e = &n->books[g];
        if (e->size && (extent_is_unused(&n->extents[g]) ||
                        (atomic_load_explicit(&n->extents[g].word, memory_order_relaxed) & 3) ==
                            SHM_EXTENT_EMPTY))
            bytes += e->size;
        g += e->size ? e->size / SHM_GRANULE : 1;
    }
    return bytes;
}

/*
 * Gives memory to a stretch. A large one gets it as its owner maps the pages: the kernel clears
 * them, a gigabyte in most of a second, and this loop can't stand still for so long. *ret_cold: the
 * bytes that are to come. MOB_ESPACE: the machine has none left.
 */
static mob_status_t granules_back(node_t *n, uint64_t offset, uint64_t size, uint64_t *ret_cold) {
    uint64_t first = offset / SHM_GRANULE, end = (offset + size) / SHM_GRANULE, cold = 0;
    for (uint64_t g = first; g < end; g++) cold += !node_memory_is_backed(n, g);
    *ret_cold = 0;
    if (cold == 0) return MOB_OK;
    bool at_once = size <= SHM_BACKED_AT_ONCE;
    n->unbacked_short = memory_is_short(cold * SHM_GRANULE + n->cold) ||
                        (at_once && shm_segment_back(&n->arena, offset, size) != MOB_OK);
    if (n->unbacked_short) return MOB_ESPACE;
    if (!at_once) *ret_cold = cold * SHM_GRANULE;
    for (uint64_t g = first; g < end; g++) n->backed[g / 64] |= (uint64_t)1 << (g % 64);
    return MOB_OK;
}

/* A place with memory, taken out of the gaps. */
static bool place_find(node_t *n, uint64_t size, uint32_t owner, uint64_t *ret_offset,
                       uint64_t *ret_cold) {
    if (gap_take(n, size, owner, false, ret_offset)) {
        if (granules_back(n, *ret_offset, size, ret_cold) == MOB_OK) return true;
        gap_add(n, *ret_offset, size, owner);
    }
    return gap_take(n, size, owner, true, ret_offset);
}

mob_status_t node_memory_grant(node_t *n, uint32_t owner, uint64_t size, bool promised,
                               uint64_t *ret_offset, uint64_t *ret_serial) {
    uint64_t offset, cold = 0;
    if (!place_find(n, size, owner, &offset, &cold)) {
        empties_take(n);
        orphan_extents_clean(n);
        if (!place_find(n, size, owner, &offset, &cold)) return MOB_ESPACE;
    }
    uint64_t granule = offset / SHM_GRANULE, serial = ++n->next_serial;
    n->books[granule] = (node_extent_t){.size = size,
                                        .serial = serial,
                                        .owner = owner,
                                        .promised_ns = promised ? base_clock_mono_ns() : 0,
                                        .cold = cold};
    n->cold += cold;
    if (n->clients[owner] != NULL) n->clients[owner]->extents++;
    for (uint64_t g = granule; g < granule + size / SHM_GRANULE; g++)
        n->granule_owner[g] = (uint16_t)owner;
    atomic_store_explicit(&n->extents[granule].freed, shm_extent_count(serial, 0),
                          memory_order_relaxed);
    /* Not unused, until its owner's first allocation. */
    atomic_store_explicit(&n->extents[granule].used,
                          shm_extent_count(serial, promised ? 0 : SHM_EXTENT_IN_HAND),
                          memory_order_relaxed);
    atomic_store_explicit(&n->extents[granule].word,
                          serial << 2 | (promised ? SHM_EXTENT_EMPTY : SHM_EXTENT_OWNED),
                          memory_order_release);
    *ret_offset = offset;
    *ret_serial = serial;
    return MOB_OK;
}

void node_memory_backed(node_t *n, uint32_t owner, uint64_t block) {
    uint64_t granule = block / SHM_GRANULE; /* a large block begins in its extent's first */
    /* it may be somebody else's by now */
    if (block >= n->store_bytes || n->books[granule].owner != owner) return;
    n->cold -= n->books[granule].cold;
    n->books[granule].cold = 0;
}

/* `size`, or less but at least `least` if there is no more now. */
static mob_status_t grant_some(node_t *n, uint32_t owner, uint64_t size, uint64_t least,
                               uint64_t *ret_offset, uint64_t *ret_size, uint64_t *ret_serial) {
    *ret_size = shm_granule_round(size);
    mob_status_t status = node_memory_grant(n, owner, *ret_size, false, ret_offset, ret_serial);
    if (status != MOB_ESPACE || shm_granule_round(least) >= *ret_size) return status;
    *ret_size = shm_granule_round(least);
    return node_memory_grant(n, owner, *ret_size, false, ret_offset, ret_serial);
}

static mob_status_t own_grant(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                              uint64_t *ret_size, uint64_t *ret_serial) {
    node_t *n = context;
    if (least > n->store_bytes) return MOB_EFULL;
    return grant_some(n, 0, size, least, ret_offset, ret_size, ret_serial);
}

void node_memory_extent(node_client_t *client, uint64_t size, uint64_t least, bool goes_on) {
    node_t *n = client->node;
    uint64_t offset = 0, given = 0, serial = 0;
    if (least == 0 || least > size) {
        node_client_fault(client, "asked for an extent of nothing");
        return;
    }
    if (size > n->store_bytes) {
        node_client_tell(client, WIRE_EXTENT, MOB_EFULL, 0, n->store_bytes, 0);
        return;
    }
    /* Who came first is served first. */
    mob_status_t status =
        n->wants.count > 0 ? MOB_ESPACE
                           : grant_some(n, client->number, size, least, &offset, &given, &serial);
    node_client_tell(client, WIRE_EXTENT, status, offset, given, serial);
    if (status == MOB_ESPACE)
        node_space_want(n, client->number, size, least, (mob_ref_t){0}, goes_on);
}

void node_memory_give_back(node_t *n) {
    empties_take(n);
    orphan_extents_clean(n);
    for (size_t i = 0; i < n->gaps.count; i++) {
        uint64_t first = n->gaps.items[i].offset / SHM_GRANULE,
                 end = first + n->gaps.items[i].size / SHM_GRANULE;
        for (uint64_t g = first; g < end; g++) {
            uint64_t from = g;
            while (g < end && node_memory_is_backed(n, g)) g++;
            if (g > from) granules_unback(n, from, g - from);
        }
    }
}

bool node_memory_owns(node_t *n, uint32_t owner, uint64_t offset, uint64_t size) {
    if (offset < SHM_BLOCK_FIRST || offset >= n->store_bytes || size > n->store_bytes - offset)
        return false;
    for (uint64_t g = offset / SHM_GRANULE; g <= (offset + (size ? size - 1 : 0)) / SHM_GRANULE;
         g++)
        if (n->granule_owner[g] != owner) return false;
    return true;
}

/* ---- the end of a client ---- */

/* Whether a block is still the value of a live slot, or the body of a live record. */
static bool block_is_named(node_t *n, uint64_t data, uint64_t tag) {
    uint32_t index = (uint32_t)(tag >> 38 & 0xffffff);
    uint64_t generation = tag & 0x3fffffffff;
    if (tag >> 62 & 1) {
        if (index >= WIRE_MAX_RECORDS) return false;
        node_task_t *task = n->tasks[index];
        return task != NULL && task->block == data;
    }
    store_slot_t *slot = &n->slots[index];
    return (atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) ==
               STORE_SEALED &&
           (atomic_load_explicit(&slot->generation, memory_order_relaxed) & 0x3fffffffff) ==
               generation &&
           !store_meta_inline(slot->meta) && slot->value.large.block == data;
}

/* Frees what a dead process left in its extent. True if nothing is used any more. */
static bool extent_clean(node_t *n, uint64_t granule) {
    uint64_t at = granule * SHM_GRANULE + SHM_BLOCK_FIRST,
             end =
                 granule * SHM_GRANULE + n->books[granule].size - SHM_BLOCK_UNIT + SHM_BLOCK_FIRST;
    bool empty = true;
    while (at < end) {
        shm_block_t *block = (shm_block_t *)(n->arena.base + at);
        uint64_t word = atomic_load_explicit(&block->word, memory_order_acquire);
        uint32_t units = atomic_load_explicit(&block->units, memory_order_acquire);
        if (units == 0 || (uint64_t)units * SHM_BLOCK_UNIT > end - at)
            return empty && at == granule * SHM_GRANULE + SHM_BLOCK_FIRST;
        if (word != 0 && !block_is_named(n, at + sizeof *block, word >> 1))
            shm_block_release(n->arena.base, n->extents, at + sizeof *block, word >> 1);
        empty &= atomic_load_explicit(&block->word, memory_order_relaxed) == 0;
        at += (uint64_t)units * SHM_BLOCK_UNIT;
    }
    return empty;
}

/* Extents of the dead with something alive in them: looked at again when a process ends or the
 * store is short. */
static void orphan_extents_clean(node_t *n) {
    for (uint64_t g = 0; n->orphan_extents > 0 && g < n->store_bytes / SHM_GRANULE;) {
        node_extent_t *e = &n->books[g];
        uint64_t step = e->size ? e->size / SHM_GRANULE : 1;
        bool counted = e->size / SHM_BLOCK_UNIT < SHM_EXTENT_IN_HAND &&
                       shm_extent_is_left_empty(&n->extents[g]);
        if (e->size && e->owner == NODE_ORPHAN && (counted || extent_clean(n, g)))
            extent_close(n, g);
        g += step;
    }
}

static bool slot_block_is_free(node_t *n, uint32_t first) {
    for (uint32_t i = first; i < first + STORE_SLOT_BLOCK; i++)
        if (atomic_load_explicit(&n->slots[i].word, memory_order_acquire) != STORE_FREE ||
            n->objects[i] != NULL)
            return false;
    return true;
}

static bool record_block_is_free(node_t *n, uint32_t first) {
    for (uint32_t i = first; i < first + WIRE_RECORD_BLOCK; i++)
        if (n->tasks[i] != NULL) return false;
    return true;
}

/* Blocks that nothing names any more can be granted again. */
static void orphan_blocks_clean(node_t *n, node_spans_t *orphans, node_spans_t *free_spans,
                                uint16_t *owners, uint32_t block,
                                bool (*is_free)(node_t *, uint32_t)) {
    for (size_t i = orphans->count; i-- > 0;) {
        node_span_t s = orphans->items[i];
        if (!is_free(n, s.first) || !vec_push(free_spans, s)) continue;
        owners[s.first / block] = 0;
        vec_swap_remove(orphans, i);
    }
}

static void spans_orphan(const node_spans_t *spans, node_spans_t *orphans, uint16_t *owners,
                         uint32_t block) {
    for (size_t i = 0; i < spans->count; i++) {
        for (uint32_t at = spans->items[i].first;
             at < spans->items[i].first + spans->items[i].count; at += block) {
            owners[at / block] = NODE_ORPHAN;
            (void)vec_push(orphans, ((node_span_t){.first = at, .count = block}));
        }
    }
}

void node_memory_forget(node_client_t *client) {
    node_t *n = client->node;
    for (uint64_t g = 0; client->extents > 0 && g < n->store_bytes / SHM_GRANULE;) {
        node_extent_t *e = &n->books[g];
        uint64_t step = e->size ? e->size / SHM_GRANULE : 1;
        if (e->size && e->owner == client->number) {
            e->owner = NODE_ORPHAN;
            client->extents--;
            n->orphan_extents++;
            for (uint64_t k = g; k < g + step; k++) n->granule_owner[k] = NODE_ORPHAN;
        }
        g += step;
    }
    orphan_extents_clean(n);
    spans_orphan(&client->slots, &n->orphan_slots, n->slot_owner, STORE_SLOT_BLOCK);
    spans_orphan(&client->records, &n->orphan_records, n->record_owner, WIRE_RECORD_BLOCK);
    orphan_blocks_clean(n, &n->orphan_slots, &n->free_slots, n->slot_owner, STORE_SLOT_BLOCK,
                        slot_block_is_free);
    orphan_blocks_clean(n, &n->orphan_records, &n->free_records, n->record_owner, WIRE_RECORD_BLOCK,
                        record_block_is_free);
}
