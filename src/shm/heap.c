/*
 * Design. A small allocation takes, in this order: a freed block of its size class; a piece of a
 * piece (a free stretch); what a sweep finds; a new extent. Sizes are rounded up to classes of at
 * most a quarter's waste, so that freed blocks fit again exactly.
 *
 * A sweep walks the headers of all small extents and makes pieces of adjacent free blocks. It
 * throws the lists of freed blocks away, for it finds those blocks too. A sweep is worth its cost
 * only when other processes have freed enough (the extents' `freed` hints). So a process whose
 * blocks all live does not walk them over and over: it asks for another extent instead.
 *
 * The daemon takes extents in which nothing is used, without asking their owner. So before this
 * process touches a free block it raises the extent's `used` and looks at its word; if the extent
 * is lost, the process forgets it.
 *
 * A large allocation has an extent of its own. When any process frees its block, the extent is
 * EMPTY. Its owner may take it again, warm, until the daemon takes it back because another process
 * is short. `kept` names these extents, newest last. An allocation looks at the newest, which are
 * warm in the caches too, and at some of the others in turn: if a program drops the oldest first,
 * the newest are all in use. An allocation removes those that are GONE when the list has doubled.
 *
 * Warm is per process: the first touch of a page costs about ten times what copying it costs. So
 * this process maps a new extent's pages in one call before it uses them.
 *
 * Rejected: a buddy system (wastes up to half of a large array), return lists in shared memory (a
 * process that is killed between taking a block off one list and putting it on another loses it; a
 * header's own word can't be lost).
 */
#include "shm/heap.h"

#include <assert.h>
#include <string.h>

#include "base/copy.h"

enum {
    HEAP_FIRST_EXTENT = 1 << 20,
    HEAP_LAST_EXTENT = 4 << 20,
    HEAP_FEW_PIECES = 16, /* a long list of small pieces means that the next sweep is near */
    HEAP_LOOK_BACK = 64, /* how many kept extents an allocation looks at: of the newest, and then of
                            the others */
    HEAP_KEPT_FEW = 256, /* fewer are not worth cleaning up */
};

static shm_block_t *block_at(shm_heap_t *heap, uint64_t header) {
    return (shm_block_t *)(heap->base + header);
}

/* Classes: 1, 2, 3, 4, then four to each doubling: 5 6 7 8, 10 12 14 16, 20 ... units. */
static unsigned class_of(uint32_t units, uint32_t *ret_rounded) {
    if (units <= 4) {
        *ret_rounded = units;
        return units - 1;
    }
    /* so that units - 1 >> shift is 4..7 */
    unsigned shift = 29 - (unsigned)__builtin_clz(units - 1);
    uint32_t step = (units - 1) >> shift;
    *ret_rounded = (step + 1) << shift;
    return 4 + shift * 4 + step - 4;
}

mob_status_t shm_heap_init(shm_heap_t *heap, unsigned char *base, uint64_t arena_size,
                           shm_extent_t *extents, shm_grant_fn grant, void *context) {
    *heap = (shm_heap_t){.base = base, .extents = extents, .grant = grant, .context = context};
    heap->granules = arena_size / SHM_GRANULE;
    heap->small_extent = arena_size / 64 < HEAP_FIRST_EXTENT ? shm_granule_round(arena_size / 64)
                                                             : HEAP_FIRST_EXTENT;
    if (heap->small_extent < SHM_GRANULE) heap->small_extent = SHM_GRANULE;
    heap->mine = calloc(heap->granules + 1, sizeof *heap->mine);
    return heap->mine != NULL ? MOB_OK : MOB_ENOMEM;
}

void shm_heap_fini(shm_heap_t *heap) {
    vec_free(&heap->small);
    vec_free(&heap->kept);
    vec_free(&heap->pieces);
    for (int i = 0; i < SHM_HEAP_CLASSES; i++) vec_free(&heap->classes[i]);
    free(heap->mine);
    heap->mine = NULL;
}

bool shm_heap_cold(shm_heap_t *heap, uint64_t data) {
    for (size_t i = heap->kept.count; i-- > 0;) {
        shm_heap_extent_t *e = &heap->kept.items[i];
        if (e->offset / SHM_GRANULE != data / SHM_GRANULE) continue;
        bool cold = !e->mapped;
        e->mapped = true;
        return cold;
    }
    return false;
}

/* Tells the daemon how much of an extent is used. False: the extent is not this process's any more.
 * Sequentially consistent, since a look at the extent's word follows: see arena.h. */
static bool use_publish(shm_heap_t *heap, shm_heap_extent_t *e, uint64_t units) {
    uint64_t expected = e->published, next = shm_extent_count(e->serial, units);
    if (!atomic_compare_exchange_strong(&heap->extents[e->offset / SHM_GRANULE].used, &expected,
                                        next))
        return false;
    e->published = next;
    return true;
}

static uint64_t freed_units(shm_heap_t *heap, const shm_heap_extent_t *e) {
    return atomic_load_explicit(&heap->extents[e->offset / SHM_GRANULE].freed,
                                memory_order_acquire) &
           0xffffffff;
}

/* Takes an extent off `small`; the last one moves into its place. */
static void small_remove(shm_heap_t *heap, size_t index) {
    shm_heap_extent_t e = heap->small.items[index];
    for (uint64_t g = 0; g < e.size / SHM_GRANULE; g++) heap->mine[e.offset / SHM_GRANULE + g] = 0;
    heap->small_bytes -= e.size;
    vec_swap_remove(&heap->small, index);
    if (index == heap->small.count) return;
    e = heap->small.items[index];
    for (uint64_t g = 0; g < e.size / SHM_GRANULE; g++)
        heap->mine[e.offset / SHM_GRANULE + g] = (uint32_t)index + 1;
}

/* Forgets everything that lies in an extent which the daemon has taken. */
static void small_lost(shm_heap_t *heap, size_t index) {
    shm_heap_extent_t e = heap->small.items[index];
    uint64_t end = e.offset + e.size;
    for (int k = 0; k < SHM_HEAP_CLASSES; k++)
        for (size_t i = heap->classes[k].count; i-- > 0;)
            if (heap->classes[k].items[i] >= e.offset && heap->classes[k].items[i] < end)
                vec_swap_remove(&heap->classes[k], i);
    for (size_t i = heap->pieces.count; i-- > 0;)
        if (heap->pieces.items[i].offset >= e.offset && heap->pieces.items[i].offset < end)
            vec_swap_remove(&heap->pieces, i);
    small_remove(heap, index);
}

/* The new extent may lie where an old one of this process lay, which the daemon took and this
 * process has not missed yet. */
static void places_forget(shm_heap_t *heap, uint64_t offset, uint64_t size) {
    for (size_t i = heap->small.count; i-- > 0;)
        if (heap->small.items[i].offset < offset + size &&
            offset < heap->small.items[i].offset + heap->small.items[i].size)
            small_lost(heap, i);
}

void shm_heap_adopt(shm_heap_t *heap, uint64_t offset, uint64_t size, uint64_t serial) {
    assert(offset % SHM_GRANULE == 0 && (offset + size) / SHM_GRANULE <= heap->granules);
    places_forget(heap, offset, size);
    shm_heap_extent_t e = {.offset = offset,
                           .size = size,
                           .serial = serial,
                           .published = shm_extent_count(serial, 0),
                           .adopted = true};
    (void)vec_push(&heap->kept,
                   e); /* if there is no memory for that, the daemon takes the extent back */
}

static bool kept_is_gone(const shm_heap_t *heap, const shm_heap_extent_t *e) {
    uint64_t word =
        atomic_load_explicit(&heap->extents[e->offset / SHM_GRANULE].word, memory_order_relaxed);
    return word >> 2 != e->serial || (word & 3) == SHM_EXTENT_GONE;
}

static void kept_clean(shm_heap_t *heap) {
    size_t left = 0;
    for (size_t i = 0; i < heap->kept.count; i++)
        if (!kept_is_gone(heap, &heap->kept.items[i]))
            heap->kept.items[left++] = heap->kept.items[i];
    heap->kept.count = heap->kept_clean = left;
}

/* Takes kept.items[i] if it is EMPTY and fits well. */
static bool kept_take(shm_heap_t *heap, size_t i, uint64_t size, uint64_t least,
                      shm_heap_extent_t *ret_extent) {
    shm_heap_extent_t e = heap->kept.items[i];
    _Atomic uint64_t *word = &heap->extents[e.offset / SHM_GRANULE].word;
    uint64_t empty = e.serial << 2 | SHM_EXTENT_EMPTY;
    if (atomic_load_explicit(word, memory_order_relaxed) != empty ||
        e.size < (e.adopted ? least : size) || e.size > size + size / 4 + SHM_GRANULE)
        return false;
    /* So the daemon does not take it for unused while this process writes its first header. */
    if (!use_publish(heap, &e, e.used + SHM_EXTENT_IN_HAND)) return false;
    /* acquire: what readers of the old block did comes before this process's writes */
    if (!atomic_compare_exchange_strong_explicit(word, &empty, e.serial << 2 | SHM_EXTENT_OWNED,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    vec_swap_remove(&heap->kept, i);
    e.adopted = false;
    *ret_extent = e;
    return true;
}

static bool kept_find(shm_heap_t *heap, uint64_t size, uint64_t least,
                      shm_heap_extent_t *ret_extent) {
    size_t newest = heap->kept.count > HEAP_LOOK_BACK ? heap->kept.count - HEAP_LOOK_BACK : 0;
    for (size_t i = heap->kept.count; i-- > newest;) {
        if (kept_is_gone(heap, &heap->kept.items[i]))
            vec_swap_remove(&heap->kept, i);
        else if (kept_take(heap, i, size, least, ret_extent))
            return true;
    }
    for (size_t looked = 0; looked < HEAP_LOOK_BACK && looked < newest; looked++) {
        if (heap->kept_turn >= newest) heap->kept_turn = 0;
        if (kept_take(heap, heap->kept_turn++, size, least, ret_extent)) return true;
    }
    return false;
}

/* An extent of at least `size` bytes, or `least` if no more is to be had, OWNED by this process: a
 * kept one that fits well, or a new one. */
static mob_status_t extent_take(shm_heap_t *heap, uint64_t size, uint64_t least,
                                shm_heap_extent_t *ret_extent) {
    if (kept_find(heap, size, least, ret_extent)) return MOB_OK;
    if (heap->kept.count >= HEAP_KEPT_FEW && heap->kept.count >= 2 * heap->kept_clean)
        kept_clean(heap);
    shm_heap_extent_t e = {0};
    mob_status_t status = heap->grant(heap->context, size, least, &e.offset, &e.size, &e.serial);
    if (status != MOB_OK) return status;
    assert(e.offset % SHM_GRANULE == 0 && e.size >= least &&
           (e.offset + e.size) / SHM_GRANULE <= heap->granules);
    places_forget(heap, e.offset, e.size);
    e.published = shm_extent_count(e.serial, SHM_EXTENT_IN_HAND); /* as granted */
    *ret_extent = e;
    return MOB_OK;
}

static void block_write(shm_heap_t *heap, uint64_t header, uint32_t units, uint64_t extent_offset,
                        bool whole) {
    shm_block_t *b = block_at(heap, header);
    b->back = whole ? SHM_BLOCK_WHOLE : (uint32_t)((header - extent_offset) / SHM_GRANULE);
    atomic_store_explicit(&b->word, 0, memory_order_relaxed);
    /* release: the daemon, walking a dead process's extent, follows units and must find a whole
     * header there */
    atomic_store_explicit(&b->units, units, memory_order_release);
}

static uint32_t extent_units(const shm_heap_extent_t *e) {
    return (uint32_t)((e->size - SHM_BLOCK_FIRST) / SHM_BLOCK_UNIT);
}

static void extent_keep(shm_heap_t *heap, const shm_heap_extent_t *e) {
    /* Without memory for the list this process merely does not find the extent again; the daemon
     * still can take it. */
    (void)vec_push(&heap->kept, *e);
}

static uint64_t large_extent(uint64_t size) {
    return shm_granule_round(size + SHM_BLOCK_FIRST + sizeof(shm_block_t));
}

static uint32_t small_units(uint64_t size) {
    return (uint32_t)((size + sizeof(shm_block_t) + SHM_BLOCK_UNIT - 1) / SHM_BLOCK_UNIT);
}

static uint64_t small_extent_least(uint32_t units) {
    return shm_granule_round((uint64_t)units * SHM_BLOCK_UNIT + SHM_BLOCK_UNIT);
}

uint64_t shm_heap_extent_for(uint64_t size) {
    uint32_t units;
    if (size > SHM_HEAP_SMALL) return large_extent(size);
    class_of(small_units(size), &units);
    return small_extent_least(units);
}

static mob_status_t large_alloc(shm_heap_t *heap, uint64_t size, uint64_t tag, uint64_t *ret_data) {
    shm_heap_extent_t e;
    if (size > heap->granules * SHM_GRANULE) return MOB_EFULL;
    uint64_t whole = large_extent(size);
    mob_status_t status = extent_take(heap, whole, whole, &e);
    if (status != MOB_OK) return status;
    uint64_t header = e.offset + SHM_BLOCK_FIRST;
    block_write(heap, header, extent_units(&e), e.offset, true);
    atomic_store_explicit(&block_at(heap, header)->word, shm_block_used(tag), memory_order_release);
    e.used += extent_units(&e);
    use_publish(heap, &e, e.used);
    extent_keep(heap, &e);
    *ret_data = header + sizeof(shm_block_t);
    return MOB_OK;
}

/* Turns free stretches of one extent into pieces; true if nothing in it is used. */
static bool extent_sweep(shm_heap_t *heap, const shm_heap_extent_t *e) {
    uint64_t at = e->offset + SHM_BLOCK_FIRST,
             end = at + (uint64_t)extent_units(e) * SHM_BLOCK_UNIT, start = 0;
    bool empty = true;
    while (at <= end) {
        uint32_t units =
            at < end ? atomic_load_explicit(&block_at(heap, at)->units, memory_order_relaxed) : 0;
        /* acquire: pairs with the release of the process that freed it */
        bool is_free =
            at < end && atomic_load_explicit(&block_at(heap, at)->word, memory_order_acquire) == 0;
        if (is_free && start == 0) start = at;
        if (!is_free && start != 0) {
            shm_heap_piece_t piece = {.offset = start,
                                      .units = (uint32_t)((at - start) / SHM_BLOCK_UNIT)};
            block_write(heap, start, piece.units, e->offset, false);
            (void)vec_push(&heap->pieces, piece);
            start = 0;
        }
        if (at == end) break;
        empty &= is_free;
        if (units == 0 || at + (uint64_t)units * SHM_BLOCK_UNIT > end)
            return false; /* a program wrote over it: leave the rest alone */
        at += (uint64_t)units * SHM_BLOCK_UNIT;
    }
    return empty;
}

/* After `used` was raised: whether the extent is this process's. Takes it again if the daemon had
 * made it EMPTY. */
static bool word_is_ours(shm_heap_t *heap, const shm_heap_extent_t *e) {
    _Atomic uint64_t *word = &heap->extents[e->offset / SHM_GRANULE].word;
    uint64_t owned = e->serial << 2 | SHM_EXTENT_OWNED, empty = e->serial << 2 | SHM_EXTENT_EMPTY;
    return atomic_load(word) == owned || atomic_compare_exchange_strong(word, &empty, owned);
}

static void heap_sweep(shm_heap_t *heap) {
    for (int i = 0; i < SHM_HEAP_CLASSES; i++) heap->classes[i].count = 0;
    heap->pieces.count = 0;
    bool spare = false;
    for (size_t i = heap->small.count; i-- > 0;) {
        shm_heap_extent_t *e = &heap->small.items[i];
        shm_extent_t *entry = &heap->extents[e->offset / SHM_GRANULE];
        size_t pieces = heap->pieces.count;
        /* Keeps the extent for as long as the sweep looks at it. */
        if (!use_publish(heap, e, e->used + SHM_EXTENT_IN_HAND) || !word_is_ours(heap, e)) {
            small_remove(heap, i);
            continue;
        }
        e->swept = freed_units(heap, e);
        bool empty = extent_sweep(heap, e);
        use_publish(heap, e, e->used);
        if (!empty) continue;
        if (!spare) {
            spare = true;
            continue;
        }
        heap->pieces.count = pieces;
        shm_heap_extent_t given = *e;
        small_remove(heap, i);
        uint64_t still = given.serial << 2 | SHM_EXTENT_OWNED;
        atomic_compare_exchange_strong(&entry->word, &still,
                                       given.serial << 2 |
                                           SHM_EXTENT_EMPTY); /* else the daemon was faster */
        extent_keep(heap, &given);
    }
}

static bool worth_sweeping(shm_heap_t *heap) {
    uint64_t freed = 0;
    for (size_t i = 0; i < heap->small.count; i++)
        freed +=
            ((freed_units(heap, &heap->small.items[i]) - heap->small.items[i].swept) & 0xffffffff) *
            SHM_BLOCK_UNIT;
    for (int i = 0; i < SHM_HEAP_CLASSES; i++) {
        uint32_t units = i < 4 ? (uint32_t)i + 1 : (uint32_t)(i % 4 + 5) << (i / 4 - 1);
        freed += heap->classes[i].count * units * SHM_BLOCK_UNIT;
    }
    return freed > heap->small_bytes / 4;
}

/* Call it before you touch a free block at `header`: its extent then counts as used, and is this
 * process's. False: the extent is lost, and with it the block. */
static bool small_claim(shm_heap_t *heap, uint64_t header, uint32_t units) {
    size_t index = heap->mine[header / SHM_GRANULE] - 1;
    shm_heap_extent_t *e = &heap->small.items[index];
    if (use_publish(heap, e, e->used + units) && word_is_ours(heap, e)) {
        e->used += units;
        return true;
    }
    small_lost(heap, index);
    return false;
}

/* Cuts `units` off a piece: first fit from the newest of `look` pieces. */
static bool piece_cut(shm_heap_t *heap, uint32_t units, size_t look, uint64_t *ret_header) {
    size_t looked = 0;
    for (size_t i = heap->pieces.count; i-- > 0 && looked < look; looked++) {
        shm_heap_piece_t *piece = &heap->pieces.items[i];
        if (piece->units < units) continue;
        uint64_t header = piece->offset;
        if (!small_claim(heap, header, units)) {
            i = heap->pieces.count; /* the list has changed */
            continue;
        }
        shm_block_t *b = block_at(heap, header);
        if (piece->units > units) {
            uint64_t rest = header + (uint64_t)units * SHM_BLOCK_UNIT;
            uint64_t extent = (header / SHM_GRANULE - b->back) * SHM_GRANULE;
            block_write(heap, rest, piece->units - units, extent, false);
            atomic_store_explicit(&b->units, units, memory_order_release);
            piece->offset = rest;
            piece->units -= units;
        } else {
            vec_swap_remove(&heap->pieces, i);
        }
        *ret_header = header;
        return true;
    }
    return false;
}

static mob_status_t small_extent_add(shm_heap_t *heap, uint32_t units) {
    shm_heap_extent_t e;
    uint64_t least = small_extent_least(units);
    uint64_t wanted = heap->small_extent > least ? heap->small_extent : least;
    if (!vec_reserve(&heap->small, 1) || !vec_reserve(&heap->pieces, 1)) return MOB_ENOMEM;
    mob_status_t status =
        extent_take(heap, wanted, least,
                    &e); /* the daemon hands out the last bit of a full store in small pieces */
    if (status != MOB_OK) return status;
    if (!e.mapped) base_map(heap->base + e.offset, e.size, 0);
    e.mapped = true;
    if (heap->small_extent == HEAP_FIRST_EXTENT && heap->small_bytes >= HEAP_LAST_EXTENT)
        heap->small_extent = HEAP_LAST_EXTENT;
    block_write(heap, e.offset + SHM_BLOCK_FIRST, extent_units(&e), e.offset, false);
    e.swept = freed_units(heap, &e);
    vec_push(&heap->small, e);
    vec_push(&heap->pieces,
             ((shm_heap_piece_t){.offset = e.offset + SHM_BLOCK_FIRST, .units = extent_units(&e)}));
    for (uint64_t g = 0; g < e.size / SHM_GRANULE; g++)
        heap->mine[e.offset / SHM_GRANULE + g] = (uint32_t)heap->small.count;
    heap->small_bytes += e.size;
    return MOB_OK;
}

mob_status_t shm_heap_alloc(shm_heap_t *heap, uint64_t size, uint64_t tag, uint64_t *ret_data) {
    if (size > SHM_HEAP_SMALL) return large_alloc(heap, size, tag, ret_data);
    uint32_t units = small_units(size);
    unsigned class = class_of(units, &units);
    uint64_t header = 0;
    while (heap->classes[class].count > 0 && header == 0) {
        header = vec_pop(&heap->classes[class]);
        if (!small_claim(heap, header, units)) header = 0;
    }
    if (header == 0 && !piece_cut(heap, units, HEAP_FEW_PIECES, &header)) {
        if (worth_sweeping(heap)) heap_sweep(heap);
        while (!piece_cut(heap, units, HEAP_FEW_PIECES, &header)) {
            mob_status_t status = small_extent_add(heap, units);
            if (status == MOB_OK) continue;
            heap_sweep(heap); /* there are no more extents: every free bit counts */
            if (!piece_cut(heap, units, SIZE_MAX, &header)) return status;
            break;
        }
    }
    atomic_store_explicit(&block_at(heap, header)->word, shm_block_used(tag), memory_order_release);
    *ret_data = header + sizeof(shm_block_t);
    return MOB_OK;
}

/* Whether a used block lies in a small extent of this process. If the daemon took the extent, and
 * this process has not missed it yet, another process may have it by now. */
static bool block_is_mine(shm_heap_t *heap, uint64_t header) {
    uint32_t place = heap->mine[header / SHM_GRANULE];
    if (place == 0) return false;
    const shm_heap_extent_t *e = &heap->small.items[place - 1];
    uint64_t word =
        atomic_load_explicit(&heap->extents[e->offset / SHM_GRANULE].word, memory_order_relaxed);
    if (word >> 2 == e->serial && (word & 3) != SHM_EXTENT_GONE) return true;
    small_lost(heap, place - 1);
    return false;
}

void shm_heap_free(shm_heap_t *heap, uint64_t data, uint64_t tag) {
    uint64_t header = data - sizeof(shm_block_t);
    if (!block_is_mine(heap, header)) {
        shm_block_release(heap->base, heap->extents, data, tag);
        return;
    }
    shm_block_t *b = block_at(heap, header);
    uint64_t expected = shm_block_used(tag);
    if (!atomic_compare_exchange_strong_explicit(&b->word, &expected, 0, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return;
    uint32_t rounded, units = atomic_load_explicit(&b->units, memory_order_relaxed);
    shm_heap_extent_t *e = &heap->small.items[heap->mine[header / SHM_GRANULE] - 1];
    e->used -= units;
    use_publish(heap, e, e->used); /* after the block is free */
    unsigned class = class_of(units, &rounded);
    if (rounded == units && class < SHM_HEAP_CLASSES) (void)vec_push(&heap->classes[class], header);
}
