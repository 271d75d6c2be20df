/*
 * A program has few different demands and many tasks, so a demand is compared and checked once and is a small number
 * from then on. A shape is never dropped: numbers live in clients and in task records, and 65,536 of them cost a few
 * megabytes. The limit is what a program meets that asks for a different amount of memory in each of its tasks.
 *
 * The canonical form is the list of non-zero needs by resource number. Two lists are then the same demand exactly if
 * they are equal line by line, and two shapes are compared for a shared resource in one walk. Buckets do not grow:
 * chains of sixteen in the worst case, walked only when a demand is interned.
 */
#include "sched/shape.h"

#include <stdlib.h>
#include <string.h>

static mob_status_t shapes_add(sched_shapes_t *shapes, const sched_need_t *needs, uint32_t count, uint64_t hash,
                               sched_shape_t **ret_shape) {
    if (shapes->all.count == SCHED_SHAPES_MAX) return MOB_ELIMIT;
    if (!vec_reserve(&shapes->all, 1)) return MOB_ENOMEM;
    sched_shape_t *shape = calloc(1, sizeof *shape + count * sizeof *needs);
    if (!shape) return MOB_ENOMEM;
    shape->id = (uint32_t)shapes->all.count;
    shape->hash = hash;
    shape->count = count;
    for (uint32_t i = 0; i < count; i++) shape->needs[i] = needs[i];
    shapes->all.items[shapes->all.count++] = shape;
    *ret_shape = shape;
    return MOB_OK;
}

mob_status_t sched_shapes_init(sched_shapes_t *shapes) {
    sched_shape_t *nothing;
    return shapes_add(shapes, NULL, 0, 0, &nothing);
}

void sched_shapes_fini(sched_shapes_t *shapes) {
    for (size_t i = 0; i < shapes->all.count; i++) free(shapes->all.items[i]);
    vec_free(&shapes->all);
}

/* Whether a demand that passed sched_names_check may be asked for at all; says if it has names that are new. */
static mob_status_t demand_check(const sched_names_t *names, const sched_amount_t *demand, size_t count,
                                 size_t *ret_unknown) {
    size_t unknown = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t resource;
        if (!demand[i].amount) continue;
        if (!sched_names_find(names, demand[i].name, &resource)) {
            unknown++;
        } else if (resource == SCHED_GPU && demand[i].amount > SCHED_UNIT && demand[i].amount % SCHED_UNIT) {
            return MOB_EINVAL;
        }
    }
    *ret_unknown = unknown;
    return MOB_OK;
}

/* Turns a checked demand into its canonical form. */
static mob_status_t demand_resolve(sched_names_t *names, const sched_amount_t *demand, size_t count,
                                   sched_need_t *needs, uint32_t *ret_count) {
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!demand[i].amount) continue;
        uint32_t resource;
        if (!sched_names_find(names, demand[i].name, &resource)) {
            mob_status_t status = sched_names_add(names, demand[i].name, &resource);
            if (status) return status;
        }
        uint32_t at = used++;
        for (; at > 0 && needs[at - 1].resource > resource; at--) needs[at] = needs[at - 1];
        needs[at] = (sched_need_t){.resource = resource, .amount = (int64_t)demand[i].amount};
    }
    *ret_count = used;
    return MOB_OK;
}

static uint64_t needs_hash(const sched_need_t *needs, uint32_t count) {
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ needs[i].resource) * UINT64_C(0x9e3779b97f4a7c15);
        hash = (hash ^ (uint64_t)needs[i].amount ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    }
    return hash ^ hash >> 32;
}

static bool shape_equals(const sched_shape_t *shape, const sched_need_t *needs, uint32_t count) {
    if (shape->count != count) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (shape->needs[i].resource != needs[i].resource || shape->needs[i].amount != needs[i].amount) return false;
    }
    return true;
}

static mob_status_t shapes_find_or_add(sched_shapes_t *shapes, const sched_need_t *needs, uint32_t count,
                                       uint32_t *ret_shape) {
    uint64_t hash = needs_hash(needs, count);
    uint32_t *bucket = &shapes->buckets[hash % SCHED_SHAPE_BUCKETS];
    for (uint32_t id = *bucket; id; id = shapes->all.items[id]->chain) {
        const sched_shape_t *known = shapes->all.items[id];
        if (known->hash == hash && shape_equals(known, needs, count)) {
            *ret_shape = id;
            return MOB_OK;
        }
    }
    sched_shape_t *shape;
    mob_status_t status = shapes_add(shapes, needs, count, hash, &shape);
    if (status) return status;
    shape->chain = *bucket;
    *bucket = shape->id;
    *ret_shape = shape->id;
    return MOB_OK;
}

mob_status_t sched_shapes_intern(sched_shapes_t *shapes, sched_names_t *names, const sched_amount_t *demand,
                                 size_t count, uint32_t *ret_shape) {
    if (count > SCHED_NEEDS_MAX) return MOB_ELIMIT;
    size_t unknown = 0;
    mob_status_t status = sched_names_check(demand, count);
    if (!status) status = demand_check(names, demand, count, &unknown);
    if (status) return status;
    /* A demand with a new name is a new shape. Refused before its names are kept, so that refusals do not use names
     * up. */
    if (unknown && shapes->all.count == SCHED_SHAPES_MAX) return MOB_ELIMIT;
    if (unknown > SCHED_NAMES_MAX - names->count) return MOB_ELIMIT;

    sched_need_t needs[SCHED_NEEDS_MAX];
    uint32_t used = 0;
    status = demand_resolve(names, demand, count, needs, &used);
    if (status) return status;
    if (!used) {
        *ret_shape = 0;
        return MOB_OK;
    }
    return shapes_find_or_add(shapes, needs, used, ret_shape);
}

const sched_need_t *sched_shape_missing(const sched_shape_t *shape, const sched_pool_t *pool) {
    for (uint32_t i = 0; i < shape->count; i++) {
        if (!sched_pool_has(pool, &shape->needs[i])) return &shape->needs[i];
    }
    return NULL;
}

int64_t sched_shape_amount(const sched_shape_t *shape, uint32_t resource) {
    for (uint32_t i = 0; i < shape->count; i++) {
        if (shape->needs[i].resource == resource) return shape->needs[i].amount;
    }
    return 0;
}
