/*
 * Extents of the arena.
 *
 * The daemon's books have an entry at the first granule of every extent, and say for each granule
 * whose it is and whether it has memory. An extent that is EMPTY is its owner's to use again, but
 * counts as free and is taken back when a request does not fit otherwise.
 *
 * The daemon gives an extent its memory before it hands the extent out (but a large one gets it
 * from its owner: granules_back). Before, it looks whether the control group has that much left and
 * a reserve: running into its limit would bring the kernel's killer, not an error.
 */
#include <string.h>

#include "base/clock.h"
#include "node/state.h"

static const uint64_t PROMISE_NS = 500000000;

bool node_granule_is_backed(const node_t *n, uint64_t granule) {
    return n->books.backed[granule / 64] >> (granule % 64) & 1;
}

static void granules_unback(node_t *n, uint64_t first, uint64_t count) {
    for (uint64_t g = first; g < first + count; g++)
        n->books.backed[g / 64] &= ~((uint64_t)1 << (g % 64));
    shm_segment_unback(&n->arena, first * SHM_GRANULE, count * SHM_GRANULE);
}

static void extent_close(node_t *n, uint64_t granule) {
    node_extent_t *e = &n->books.extents[granule];
    uint64_t size = e->size;
    /* how much memory its owner has got is not known */
    if (e->cold > 0) granules_unback(n, granule, size / SHM_GRANULE);
    n->books.cold -= e->cold;
    memset(&n->books.owner[granule], 0, size / SHM_GRANULE * sizeof *n->books.owner);
    if (e->owner == NODE_ORPHAN)
        n->books.orphans--;
    else if (n->clients[e->owner] != NULL)
        n->clients[e->owner]->extents--;
    node_gap_add(n, granule * SHM_GRANULE, size, e->owner);
    *e = (node_extent_t){0};
}

static bool extent_is_unused(const shm_extent_t *entry) {
    return atomic_load(&entry->used) == atomic_load(&entry->freed);
}

/* Takes an extent back in which nothing is used. */
static bool extent_take_back(node_t *n, uint64_t granule) {
    node_extent_t *e = &n->books.extents[granule];
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

/* ---- what the dead left ---- */

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
    uint64_t at = granule * SHM_GRANULE + SHM_BLOCK_FIRST, end = granule * SHM_GRANULE +
                                                                 n->books.extents[granule].size -
                                                                 SHM_BLOCK_UNIT + SHM_BLOCK_FIRST;
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

/* Closes extents of the dead in which nothing is alive any more. The daemon looks when a process
 * ends or the store is short. */
static void orphans_clean(node_t *n) {
    for (uint64_t g = 0; n->books.orphans > 0 && g < n->config.store_bytes / SHM_GRANULE;) {
        node_extent_t *e = &n->books.extents[g];
        uint64_t step = e->size ? e->size / SHM_GRANULE : 1;
        bool counted = e->size / SHM_BLOCK_UNIT < SHM_EXTENT_IN_HAND &&
                       shm_extent_is_left_empty(&n->extents[g]);
        if (e->size && e->owner == NODE_ORPHAN && (counted || extent_clean(n, g)))
            extent_close(n, g);
        g += step;
    }
}

void node_extents_forget(node_client_t *client) {
    node_t *n = client->node;
    for (uint64_t g = 0; client->extents > 0 && g < n->config.store_bytes / SHM_GRANULE;) {
        node_extent_t *e = &n->books.extents[g];
        uint64_t step = e->size ? e->size / SHM_GRANULE : 1;
        if (e->size && e->owner == client->number) {
            e->owner = NODE_ORPHAN;
            client->extents--;
            n->books.orphans++;
            for (uint64_t k = g; k < g + step; k++) n->books.owner[k] = NODE_ORPHAN;
        }
        g += step;
    }
    orphans_clean(n);
}

/* ---- granting ---- */

/* Takes back extents that are not used, but for those that were just promised to a client that
 * waited. */
static void empties_take(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    for (uint64_t g = 0; g < n->config.store_bytes / SHM_GRANULE;) {
        uint64_t size = n->books.extents[g].size, step = size ? size / SHM_GRANULE : 1;
        bool promised =
            size && now - n->books.extents[g].promised_ns < PROMISE_NS &&
            atomic_load(&n->extents[g].used) == shm_extent_count(n->books.extents[g].serial, 0);
        if (size && !promised && extent_take_back(n, g)) extent_close(n, g);
        g += step;
    }
}

uint64_t node_extents_free_bytes(node_t *n) {
    uint64_t bytes = n->books.free_bytes;
    for (uint64_t g = 0; g < n->config.store_bytes / SHM_GRANULE;) {
        node_extent_t *e = &n->books.extents[g];
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
    for (uint64_t g = first; g < end; g++) cold += !node_granule_is_backed(n, g);
    *ret_cold = 0;
    if (cold == 0) return MOB_OK;
    bool at_once = size <= SHM_BACKED_AT_ONCE;
    n->space.unbacked_short = node_memory_is_short(cold * SHM_GRANULE + n->books.cold) ||
                              (at_once && shm_segment_back(&n->arena, offset, size) != MOB_OK);
    if (n->space.unbacked_short) return MOB_ESPACE;
    if (!at_once) *ret_cold = cold * SHM_GRANULE;
    for (uint64_t g = first; g < end; g++) n->books.backed[g / 64] |= (uint64_t)1 << (g % 64);
    return MOB_OK;
}

/* A place with memory, taken out of the gaps. */
static bool place_find(node_t *n, uint64_t size, uint32_t owner, uint64_t *ret_offset,
                       uint64_t *ret_cold) {
    if (node_gap_take(n, size, owner, false, ret_offset)) {
        if (granules_back(n, *ret_offset, size, ret_cold) == MOB_OK) return true;
        node_gap_add(n, *ret_offset, size, owner);
    }
    return node_gap_take(n, size, owner, true, ret_offset);
}

mob_status_t node_extent_grant(node_t *n, uint32_t owner, uint64_t size, bool promised,
                               uint64_t *ret_offset, uint64_t *ret_serial) {
    uint64_t offset, cold = 0;
    if (!place_find(n, size, owner, &offset, &cold)) {
        empties_take(n);
        orphans_clean(n);
        if (!place_find(n, size, owner, &offset, &cold)) return MOB_ESPACE;
    }
    uint64_t granule = offset / SHM_GRANULE, serial = ++n->books.next_serial;
    n->books.extents[granule] = (node_extent_t){.size = size,
                                                .serial = serial,
                                                .owner = owner,
                                                .promised_ns = promised ? base_clock_mono_ns() : 0,
                                                .cold = cold};
    n->books.cold += cold;
    if (n->clients[owner] != NULL) n->clients[owner]->extents++;
    for (uint64_t g = granule; g < granule + size / SHM_GRANULE; g++)
        n->books.owner[g] = (uint16_t)owner;
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

void node_extent_backed(node_t *n, uint32_t owner, uint64_t block) {
    uint64_t granule = block / SHM_GRANULE; /* a large block begins in its extent's first */
    /* it may be another owner's by now */
    if (block >= n->config.store_bytes || n->books.extents[granule].owner != owner) return;
    n->books.cold -= n->books.extents[granule].cold;
    n->books.extents[granule].cold = 0;
}

/* `size`, or less but at least `least` if there is no more now. */
static mob_status_t grant_some(node_t *n, uint32_t owner, uint64_t size, uint64_t least,
                               uint64_t *ret_offset, uint64_t *ret_size, uint64_t *ret_serial) {
    *ret_size = shm_granule_round(size);
    mob_status_t status = node_extent_grant(n, owner, *ret_size, false, ret_offset, ret_serial);
    if (status != MOB_ESPACE || shm_granule_round(least) >= *ret_size) return status;
    *ret_size = shm_granule_round(least);
    return node_extent_grant(n, owner, *ret_size, false, ret_offset, ret_serial);
}

mob_status_t node_extent_ask_own(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                                 uint64_t *ret_size, uint64_t *ret_serial) {
    node_t *n = context;
    if (least > n->config.store_bytes) return MOB_EFULL;
    return grant_some(n, 0, size, least, ret_offset, ret_size, ret_serial);
}

void node_extent_ask(node_client_t *client, uint64_t size, uint64_t least, bool goes_on) {
    node_t *n = client->node;
    uint64_t offset = 0, given = 0, serial = 0;
    if (least == 0 || least > size) {
        node_client_fault(client, "asked for an extent of nothing");
        return;
    }
    if (size > n->config.store_bytes) {
        node_client_tell(client,
                         (wire_message_t){.extent = {WIRE_EXTENT, .status = MOB_EFULL, .offset = 0,
                                                     .size = n->config.store_bytes}});
        return;
    }
    /* Clients that came first are served first. */
    mob_status_t status = n->space.wants.count > 0 ? MOB_ESPACE
                                                   : grant_some(n, client->number, size, least,
                                                                &offset, &given, &serial);
    node_client_tell(client,
                     (wire_message_t){.extent = {WIRE_EXTENT, .status = status, .offset = offset,
                                                 .size = given, .serial = serial}});
    if (status == MOB_ESPACE)
        node_space_want(n, client->number, size, least, (mob_ref_t){0}, goes_on);
}

void node_extents_give_back(node_t *n) {
    empties_take(n);
    orphans_clean(n);
    for (size_t i = 0; i < n->books.gaps.count; i++) {
        uint64_t first = n->books.gaps.items[i].offset / SHM_GRANULE,
                 end = first + n->books.gaps.items[i].size / SHM_GRANULE;
        for (uint64_t g = first; g < end; g++) {
            uint64_t from = g;
            while (g < end && node_granule_is_backed(n, g)) g++;
            if (g > from) granules_unback(n, from, g - from);
        }
    }
}

bool node_extent_owned(node_t *n, uint32_t owner, uint64_t offset, uint64_t size) {
    if (offset < SHM_BLOCK_FIRST || offset >= n->config.store_bytes ||
        size > n->config.store_bytes - offset)
        return false;
    for (uint64_t g = offset / SHM_GRANULE; g <= (offset + (size ? size - 1 : 0)) / SHM_GRANULE;
         g++)
        if (n->books.owner[g] != owner) return false;
    return true;
}
