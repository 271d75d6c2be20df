/*
 * A program has few different demands and many tasks, so a demand is compared and checked once and
 * is a small number from then on. But a program may also estimate the memory of each of its tasks,
 * and then every demand is a new one: so a shape that nobody holds is forgotten, and with the last
 * that names a resource, the name. Holders are the caller, as often as it asked, and each lease.
 *
 * The canonical form is the list of non-zero needs by resource number. Two lists are then the same
 * demand exactly if they are equal line by line, and two shapes are compared for a shared resource
 * in one walk.
 */
#include "sched/shape.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sched/group.h"
#include "sched/selector.h"

enum {
    PLACE_MASK = (1 << SCHED_PLACE_BITS) - 1,
    PLACES_RESTING = 1024, /* so many free places are not used again while there are others */
    BUCKETS_LEAST = 1024,
};

/* ---- Places -------------------------------------------------------------- */

static bool place_take(sched_shapes_t *shapes, uint32_t *ret_place) {
    if (shapes->free_count > PLACES_RESTING ||
        (shapes->free_count > 0 && shapes->places.count == SCHED_SHAPES_MAX)) {
        *ret_place = shapes->free_first;
        shapes->free_first = shapes->places.items[*ret_place].next_free;
        shapes->free_count--;
        return true;
    }
    *ret_place = (uint32_t)shapes->places.count;
    return vec_push(&shapes->places, (sched_place_t){.id = *ret_place});
}

/* To the end of those that rest. */
static void place_give(sched_shapes_t *shapes, uint32_t place) {
    shapes->places.items[place].shape = NULL;
    if (shapes->free_count++ > 0)
        shapes->places.items[shapes->free_last].next_free = place;
    else
        shapes->free_first = place;
    shapes->free_last = place;
}

sched_shape_t *sched_shapes_find(const sched_shapes_t *shapes, uint32_t id) {
    uint32_t place = id & PLACE_MASK;
    const sched_place_t *found = place < shapes->places.count ? &shapes->places.items[place] : NULL;
    return found && found->id == id ? found->shape : NULL;
}

/* ---- Buckets ------------------------------------------------------------- */

static uint32_t *bucket_of(const sched_shapes_t *shapes, uint64_t hash) {
    return &shapes->buckets[hash & (shapes->bucket_count - 1)];
}

static void bucket_link(sched_shapes_t *shapes, sched_shape_t *shape) {
    uint32_t *bucket = bucket_of(shapes, shape->hash);
    shape->chain = *bucket;
    *bucket = shape->id & PLACE_MASK;
}

static void bucket_unlink(sched_shapes_t *shapes, const sched_shape_t *shape) {
    uint32_t *at = bucket_of(shapes, shape->hash);
    while (*at != (shape->id & PLACE_MASK)) at = &shapes->places.items[*at].shape->chain;
    *at = shape->chain;
}

/* About as many as places. Without memory chains become longer, and that is all. */
static void buckets_grow(sched_shapes_t *shapes) {
    if (shapes->places.count <= shapes->bucket_count) return;
    uint32_t *buckets = calloc(2 * (size_t)shapes->bucket_count, sizeof *buckets);
    if (!buckets) return;
    free(shapes->buckets);
    shapes->buckets = buckets;
    shapes->bucket_count *= 2;
    for (size_t i = 1; i < shapes->places.count; i++)
        if (shapes->places.items[i].shape) bucket_link(shapes, shapes->places.items[i].shape);
}

/* ---- A shape's life ------------------------------------------------------ */

static void names_leave(sched_shapes_t *shapes, const sched_need_t *needs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) sched_names_leave(shapes->names, needs[i].resource);
}

static void shape_free(sched_shape_t *shape) {
    if (!shape) return;
    sched_entry_free(shape->entry);
    free((char *)shape->where.selector);
    free(shape);
}

/* The kind and the selector of a new shape. */
static mob_status_t shape_fill(sched_shapes_t *shapes, sched_shape_t *shape,
                               const sched_need_t *needs, const sched_where_t *where) {
    shape->where = *where;
    if (where->selector) shape->where.selector = strdup(where->selector);
    if (where->selector && !shape->where.selector) return MOB_ENOMEM;
    if (where->group) return MOB_OK;
    return sched_kinds_join(&shapes->kinds, needs, shape->count, &shape->kind);
}

static mob_status_t shapes_add(sched_shapes_t *shapes, const sched_need_t *needs, uint32_t count,
                               const sched_where_t *where, uint64_t hash,
                               sched_shape_t **ret_shape) {
    if (shapes->places.count - shapes->free_count == SCHED_SHAPES_MAX)
        return base_fail(MOB_ELIMIT,
                         "at most %d different demands for resources can be in use at once",
                         SCHED_SHAPES_MAX);
    sched_shape_t *shape = calloc(1, sizeof *shape + count * sizeof *needs);
    if (!shape) return MOB_ENOMEM;
    shape->count = count;
    mob_status_t status = shape_fill(shapes, shape, needs, where);
    uint32_t place;
    if (!status && !place_take(shapes, &place)) {
        if (shape->kind) sched_kinds_leave(&shapes->kinds, shape->kind);
        status = MOB_ENOMEM;
    }
    if (status) {
        shape_free(shape);
        return status;
    }
    shape->id = shapes->places.items[place].id;
    shape->hash = hash;
    shape->holds = 1;
    for (uint32_t i = 0; i < count; i++) {
        shape->needs[i] = needs[i];
        shapes->names->users[needs[i].resource]++;
    }
    shapes->places.items[place].shape = shape;
    *ret_shape = shape;
    return MOB_OK;
}

mob_status_t sched_shapes_init(sched_shapes_t *shapes, sched_names_t *names,
                               const sched_pool_t *total, char *const *labels) {
    shapes->names = names;
    shapes->total = total;
    shapes->labels = labels;
    shapes->buckets = calloc(BUCKETS_LEAST, sizeof *shapes->buckets);
    if (!shapes->buckets) return MOB_ENOMEM;
    shapes->bucket_count = BUCKETS_LEAST;
    sched_shape_t *nothing;
    mob_status_t status = shapes_add(shapes, NULL, 0, &(sched_where_t){.bundle = -1}, 0, &nothing);
    if (!status) nothing->possible = true;
    return status;
}

void sched_shapes_fini(sched_shapes_t *shapes) {
    for (size_t i = 0; i < shapes->places.count; i++) {
        sched_shape_t *shape = shapes->places.items[i].shape;
        if (shape) names_leave(shapes, shape->needs, shape->count);
        shape_free(shape);
    }
    vec_free(&shapes->places);
    free(shapes->buckets);
    sched_kinds_fini(&shapes->kinds);
}

void sched_shapes_drop(sched_shapes_t *shapes, sched_shape_t *shape) {
    assert(shape->holds > 0);
    if (--shape->holds > 0) return;
    assert(!shape->queue.head && shape->id != 0);
    uint32_t place = shape->id & PLACE_MASK;
    bucket_unlink(shapes, shape);
    if (shape->kind) sched_kinds_leave(&shapes->kinds, shape->kind);
    names_leave(shapes, shape->needs, shape->count);
    shapes->places.items[place].id += PLACE_MASK + 1; /* the next generation */
    place_give(shapes, place);
    shape_free(shape);
}

/* ---- Demands ------------------------------------------------------------- */

/* Turns a checked demand into its canonical form, whose names have one user more. Needs that it got
 * to before it failed are counted too. */
static mob_status_t demand_resolve(sched_names_t *names, const sched_amount_t *demand, size_t count,
                                   sched_need_t *needs, uint32_t *used) {
    for (size_t i = 0; i < count; i++) {
        if (!demand[i].amount) continue;
        uint32_t resource;
        mob_status_t status = sched_names_use(names, demand[i].name, &resource);
        if (status) return status;
        uint32_t at = (*used)++;
        for (; at > 0 && needs[at - 1].resource > resource; at--) needs[at] = needs[at - 1];
        needs[at] = (sched_need_t){.resource = resource, .amount = (int64_t)demand[i].amount};
    }
    return MOB_OK;
}

static mob_status_t needs_check(const sched_need_t *needs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (needs[i].resource == SCHED_GPU && needs[i].amount > SCHED_UNIT &&
            needs[i].amount % SCHED_UNIT)
            return base_fail(MOB_EINVAL, "more than one GPU must be a whole number of them, not %g",
                             (double)needs[i].amount / SCHED_UNIT);
    }
    return MOB_OK;
}

static uint64_t needs_hash(const sched_need_t *needs, uint32_t count, const sched_where_t *where) {
    uint64_t hash = count ^ (uint64_t)(uintptr_t)where->group ^ (uint64_t)(uint32_t)where->bundle ^
                    (uint64_t)where->tag << 32 ^ (uint64_t)where->flags << 24 ^
                    (uint64_t)(uint32_t)where->priority << 40;
    for (const char *at = where->selector; at && *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ needs[i].resource) * UINT64_C(0x9e3779b97f4a7c15);
        hash = (hash ^ (uint64_t)needs[i].amount ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    }
    return hash ^ hash >> 32;
}

static bool where_equals(const sched_where_t *a, const sched_where_t *b) {
    return a->group == b->group && a->bundle == b->bundle && a->tag == b->tag &&
           a->flags == b->flags && a->priority == b->priority &&
           (a->selector && b->selector ? strcmp(a->selector, b->selector) == 0
                                       : a->selector == b->selector);
}

static bool shape_equals(const sched_shape_t *shape, const sched_need_t *needs, uint32_t count,
                         const sched_where_t *where) {
    if (shape->count != count || !where_equals(&shape->where, where)) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (shape->needs[i].resource != needs[i].resource ||
            shape->needs[i].amount != needs[i].amount)
            return false;
    }
    return true;
}

static sched_shape_t *shapes_find_equal(const sched_shapes_t *shapes, const sched_need_t *needs,
                                        uint32_t count, const sched_where_t *where, uint64_t hash) {
    for (uint32_t place = *bucket_of(shapes, hash); place;
         place = shapes->places.items[place].shape->chain) {
        sched_shape_t *known = shapes->places.items[place].shape;
        if (known->hash == hash && shape_equals(known, needs, count, where)) return known;
    }
    return NULL;
}

static const sched_where_t anywhere = {.bundle = -1};

static mob_status_t shapes_hold_or_add(sched_shapes_t *shapes, const sched_need_t *needs,
                                       uint32_t count, const sched_where_t *where,
                                       uint32_t *ret_shape) {
    uint64_t hash = needs_hash(needs, count, where);
    sched_shape_t *shape = count || !where_equals(where, &anywhere)
                               ? shapes_find_equal(shapes, needs, count, where, hash)
                               : shapes->places.items[0].shape;
    if (shape) {
        shape->holds++;
    } else {
        mob_status_t status = shapes_add(shapes, needs, count, where, hash, &shape);
        if (status) return status;
        shape->possible = !where->group && !sched_shape_missing(shape, shapes->total) &&
                          sched_selector_matches(where->selector, *shapes->labels);
        bucket_link(shapes, shape);
        buckets_grow(shapes);
    }
    *ret_shape = shape->id;
    return MOB_OK;
}

mob_status_t sched_shapes_hold(sched_shapes_t *shapes, const sched_need_t *needs, uint32_t count,
                               uint32_t *ret_shape) {
    return shapes_hold_or_add(shapes, needs, count, &anywhere, ret_shape);
}

mob_status_t sched_shapes_intern(sched_shapes_t *shapes, const sched_amount_t *demand, size_t count,
                                 const sched_where_t *where, uint32_t *ret_shape) {
    if (count > SCHED_NEEDS_MAX)
        return base_fail(MOB_ELIMIT, "one demand can name at most %d resources, not %zu",
                         SCHED_NEEDS_MAX, count);
    mob_status_t status = sched_names_check(demand, count);
    if (status) return status;
    sched_need_t needs[SCHED_NEEDS_MAX];
    uint32_t used = 0;
    status = demand_resolve(shapes->names, demand, count, needs, &used);
    if (!status) status = needs_check(needs, used);
    if (!status) status = shapes_hold_or_add(shapes, needs, used, where, ret_shape);
    /* A new shape uses them by itself, so that a refusal keeps none. */
    names_leave(shapes, needs, used);
    return status;
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
