/*
 * The memory that processes share: what segments there are, and the daemon's tables about them.
 *
 * Tables are as large as they can ever be, and cost what is used of them: the kernel backs a page
 * when it is first written.
 */
#include <sys/mman.h>

#include "base/memory.h"
#include "node/state.h"

static const uint64_t RESERVE_BYTES = 64 << 20, LEAST_STORE_BYTES = 16 * SHM_GRANULE;

static void *table_new(size_t count, size_t size) {
    void *p = mmap(NULL, count * size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

mob_status_t node_memory_init(node_t *n) {
    if (n->config.store_bytes < LEAST_STORE_BYTES)
        return base_fail(MOB_EINVAL, "object_store_memory must be at least %llu bytes, not %llu",
                         (unsigned long long)LEAST_STORE_BYTES,
                         (unsigned long long)n->config.store_bytes);
    n->config.store_bytes = n->config.store_bytes / SHM_GRANULE * SHM_GRANULE;
    uint64_t granules = n->config.store_bytes / SHM_GRANULE;
    const struct {
        shm_segment_t *segment;
        const char *name;
        uint64_t size;
    } wanted[] = {
        {&n->segments.node, "mobula-node", sizeof(shm_node_t)},
        {&n->segments.slots, "mobula-slots", (uint64_t)STORE_MAX_SLOTS * sizeof(store_slot_t)},
        {&n->segments.records, "mobula-records",
         (uint64_t)WIRE_MAX_RECORDS * sizeof(wire_record_t)},
        {&n->segments.extents, "mobula-extents", (granules + 1) * sizeof(shm_extent_t)},
        {&n->arena, "mobula-arena", n->config.store_bytes},
        {&n->segments.queues, "mobula-queues", (uint64_t)SHM_QUEUES * sizeof(shm_queue_t)},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        mob_status_t status = shm_segment_create(wanted[i].name, wanted[i].size, wanted[i].segment);
        if (status != MOB_OK) return status;
    }
    n->shared = (shm_node_t *)n->segments.node.base;
    n->queues = (shm_queue_t *)n->segments.queues.base;
    n->slots = (store_slot_t *)n->segments.slots.base;
    n->records = (wire_record_t *)n->segments.records.base;
    n->extents = (shm_extent_t *)n->segments.extents.base;
    n->tasks = table_new(WIRE_MAX_RECORDS, sizeof *n->tasks);
    n->objects = table_new(STORE_MAX_SLOTS, sizeof *n->objects);
    n->grants.slots.owner =
        table_new(STORE_MAX_SLOTS / STORE_SLOT_BLOCK, sizeof *n->grants.slots.owner);
    n->grants.records.owner =
        table_new(WIRE_MAX_RECORDS / WIRE_RECORD_BLOCK, sizeof *n->grants.records.owner);
    n->sites.of = table_new(STORE_MAX_SLOTS, sizeof *n->sites.of);
    n->pairs.items = table_new(SHM_CALL_QUEUES, sizeof *n->pairs.items);
    n->books.extents = table_new(granules + 1, sizeof *n->books.extents);
    n->books.owner = table_new(granules + 1, sizeof *n->books.owner);
    n->books.backed = table_new(granules / 64 + 1, sizeof *n->books.backed);
    if (!n->sites.of || !n->pairs.items || !n->tasks || !n->objects || !n->grants.slots.owner ||
        !n->grants.records.owner || !n->books.extents || !n->books.owner || !n->books.backed)
        return MOB_ENOMEM;
    n->grants.slots.granted = STORE_SLOT_BLOCK; /* slot 0 names nothing */
    n->books.free_bytes = n->config.store_bytes;
    if (!vec_push(&n->books.gaps, ((node_gap_t){.offset = 0, .size = n->config.store_bytes})))
        return MOB_ENOMEM;
    return shm_heap_init(&n->heap, n->arena.base, n->config.store_bytes, n->extents,
                         node_extent_ask_own, n);
}

bool node_memory_is_short(uint64_t bytes) {
    uint64_t headroom;
    return base_memory_headroom("", &headroom) == MOB_OK && bytes + RESERVE_BYTES > headroom;
}
