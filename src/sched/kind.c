/*
 * Leaves are dense: one that leaves is replaced by the last. The smallest amounts of a node may
 * come from different leaves, and its oldest task from a third, so a way down can be in vain; then
 * the search goes on beside it, nearest in age first. What fits is nearly always either everything
 * or nothing, because a lack of CPUs is a lack for all.
 *
 * Rejected: a queue for all tasks in order of age (a pick walks past all that do not fit, each
 * time), and one heap by amount for each resource (no way to ask two of them at once for the
 * oldest).
 */
#include "sched/kind.h"

#include <stdlib.h>
#include <string.h>

#include "sched/shape.h"

struct sched_bounds {
    uint64_t oldest;   /* order number; UINT64_MAX: nobody waits below */
    int64_t most_cpus; /* that one of them needs */
    int64_t least[];   /* of each resource */
};

static size_t bounds_size(const sched_kind_t *kind) {
    return sizeof(sched_bounds_t) + kind->count * sizeof(int64_t);
}

static sched_bounds_t *bounds_of(const sched_kind_t *kind, uint32_t node) {
    return (sched_bounds_t *)((char *)kind->bounds + node * bounds_size(kind));
}

/* ---- The tree ------------------------------------------------------------ */

static void leaf_write(const sched_kind_t *kind, uint32_t place) {
    const sched_shape_t *shape = place < kind->waiting ? kind->leaves[place] : NULL;
    sched_bounds_t *leaf = bounds_of(kind, kind->capacity + place);
    leaf->oldest = shape ? shape->queue.head->order : UINT64_MAX;
    int64_t cpus = shape ? sched_shape_amount(shape, SCHED_CPU) : 0;
    leaf->most_cpus =
        cpus ? cpus : INT64_MIN; /* what needs none lacks none, even where they are below zero */
    for (uint32_t i = 0; i < kind->count; i++)
        leaf->least[i] = shape ? shape->needs[i].amount : INT64_MAX;
}

static void node_write(const sched_kind_t *kind, uint32_t node) {
    const sched_bounds_t *a = bounds_of(kind, 2 * node), *b = bounds_of(kind, 2 * node + 1);
    sched_bounds_t *both = bounds_of(kind, node);
    both->oldest = a->oldest < b->oldest ? a->oldest : b->oldest;
    both->most_cpus = a->most_cpus > b->most_cpus ? a->most_cpus : b->most_cpus;
    for (uint32_t i = 0; i < kind->count; i++)
        both->least[i] = a->least[i] < b->least[i] ? a->least[i] : b->least[i];
}

static void place_update(const sched_kind_t *kind, uint32_t place) {
    leaf_write(kind, place);
    for (uint32_t node = (kind->capacity + place) / 2; node > 0; node /= 2) node_write(kind, node);
}

static mob_status_t kind_grow(sched_kind_t *kind, uint32_t capacity) {
    sched_shape_t **leaves = realloc(kind->leaves, capacity * sizeof *leaves);
    if (!leaves) return MOB_ENOMEM;
    kind->leaves = leaves;
    sched_bounds_t *bounds = malloc(2 * (size_t)capacity * bounds_size(kind));
    if (!bounds) return MOB_ENOMEM;
    free(kind->bounds);
    kind->bounds = bounds;
    kind->capacity = capacity;
    for (uint32_t place = 0; place < capacity; place++) leaf_write(kind, place);
    for (uint32_t node = capacity - 1; node > 0; node--) node_write(kind, node);
    return MOB_OK;
}

void sched_kind_note(sched_shape_t *shape) {
    sched_kind_t *kind = shape->kind;
    bool was = shape->place < kind->waiting && kind->leaves[shape->place] == shape;
    if (shape->queue.head) {
        if (!was) {
            shape->place = kind->waiting++;
            kind->leaves[shape->place] = shape;
        }
        place_update(kind, shape->place);
    } else if (was) {
        uint32_t last = --kind->waiting, hole = shape->place;
        kind->leaves[hole] = kind->leaves[last];
        kind->leaves[hole]->place = hole;
        place_update(kind, last);
        if (hole != last) place_update(kind, hole);
    }
}

/* ---- Looking ------------------------------------------------------------- */

/* Whether what is looked for can be below a node; for a leaf, whether it is that. */
static bool node_may(const sched_kind_t *kind, const sched_bounds_t *node,
                     const sched_search_t *search) {
    if (search->lacks && node->most_cpus <= search->lacks->free[SCHED_CPU]) return false;
    for (uint32_t i = 0; i < kind->count; i++) {
        sched_need_t need = {.resource = kind->resources[i], .amount = node->least[i]};
        if (!sched_pool_has(search->fits, &need)) return false;
        if (search->lacks && need.resource != SCHED_CPU && !sched_pool_has(search->lacks, &need))
            return false;
    }
    return true;
}

static sched_task_t *node_oldest(const sched_kind_t *kind, uint32_t node,
                                 const sched_search_t *search, sched_task_t *best) {
    const sched_bounds_t *bounds = bounds_of(kind, node);
    uint64_t before = best ? best->order : UINT64_MAX;
    if (bounds->oldest >= before || !node_may(kind, bounds, search)) return best;
    if (node >= kind->capacity) {
        sched_task_t *head = kind->leaves[node - kind->capacity]->queue.head;
        sched_task_t *task = head == search->except ? head->next : head;
        return task && task->order < before ? task : best;
    }
    uint32_t first = bounds_of(kind, 2 * node)->oldest < bounds_of(kind, 2 * node + 1)->oldest
                         ? 2 * node
                         : 2 * node + 1;
    best = node_oldest(kind, first, search, best);
    return node_oldest(kind, first ^ 1, search, best);
}

sched_task_t *sched_kind_oldest(const sched_kind_t *kind, const sched_search_t *search,
                                sched_task_t *best) {
    return kind->waiting > 0 ? node_oldest(kind, 1, search, best) : best;
}

/* ---- Kinds --------------------------------------------------------------- */

static void kind_free(sched_kind_t *kind) {
    free(kind->leaves);
    free(kind->bounds);
    free(kind);
}

void sched_kinds_fini(sched_kinds_t *kinds) {
    for (size_t i = 0; i < kinds->count; i++) kind_free(kinds->items[i]);
    vec_free(kinds);
}

static bool kind_is(const sched_kind_t *kind, const sched_need_t *needs, uint32_t count) {
    if (kind->count != count) return false;
    for (uint32_t i = 0; i < count; i++)
        if (kind->resources[i] != needs[i].resource) return false;
    return true;
}

static mob_status_t kinds_add(sched_kinds_t *kinds, const sched_need_t *needs, uint32_t count,
                              sched_kind_t **ret_kind) {
    if (!vec_reserve(kinds, 1)) return MOB_ENOMEM;
    sched_kind_t *kind = calloc(1, sizeof *kind + count * sizeof *kind->resources);
    if (!kind) return MOB_ENOMEM;
    kind->count = count;
    for (uint32_t i = 0; i < count; i++) kind->resources[i] = needs[i].resource;
    kinds->items[kinds->count++] = kind;
    *ret_kind = kind;
    return MOB_OK;
}

mob_status_t sched_kinds_join(sched_kinds_t *kinds, const sched_need_t *needs, uint32_t count,
                              sched_kind_t **ret_kind) {
    sched_kind_t *kind = NULL;
    for (size_t i = 0; !kind && i < kinds->count; i++)
        if (kind_is(kinds->items[i], needs, count)) kind = kinds->items[i];
    mob_status_t status = kind ? MOB_OK : kinds_add(kinds, needs, count, &kind);
    if (status) return status;
    kind->shapes++;
    if (kind->shapes > kind->capacity)
        status = kind_grow(kind, kind->capacity ? 2 * kind->capacity : 1);
    if (status)
        sched_kinds_leave(kinds, kind);
    else
        *ret_kind = kind;
    return status;
}

void sched_kinds_leave(sched_kinds_t *kinds, sched_kind_t *kind) {
    if (--kind->shapes > 0) return;
    size_t i = 0;
    while (kinds->items[i] != kind) i++;
    vec_swap_remove(kinds, i);
    kind_free(kind);
}
