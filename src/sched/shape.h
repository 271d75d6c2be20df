/*
 * Demands with a number: each different one is kept once, with the queue of the tasks that ask for
 * it, for as long as somebody holds it.
 *
 * A number is a place in the table and a generation, which rises each time the place is given to
 * another demand. So a number that is out of date is known as such, and who has kept something
 * under a number need not hold it. A place rests before it is used again, so that its generations
 * last.
 */
#ifndef SCHED_SHAPE_H
#define SCHED_SHAPE_H

#include "base/vec.h"
#include "sched/kind.h"
#include "sched/queue.h"
#include "sched/resources.h"

typedef struct sched_entry sched_entry_t;

struct sched_shape {
    sched_queue_t queue;
    sched_kind_t *kind;   /* NULL: it is to be met in a group */
    sched_entry_t *entry; /* ... by this; else NULL */
    sched_where_t where;  /* its selector is the shape's own copy */
    uint64_t hash;
    uint32_t id;
    uint32_t chain; /* the place of the next shape in its bucket; 0: none */
    uint32_t holds; /* at least 1 */
    uint32_t place; /* among its kind's waiting ones, while it is one */
    bool possible;  /* a node with nothing running has space for it; others are not looked at in a
                       pick */
    uint32_t count;
    sched_need_t needs[]; /* by rising resource number */
};

/* A place of the table. */
typedef struct sched_place {
    sched_shape_t *shape; /* NULL: free */
    uint32_t id;          /* of its shape, or of the next that it gets */
    uint32_t next_free;
} sched_place_t;

/* Those of one job. */
typedef struct sched_shapes {
    sched_names_t *names; /* the node's; each need of each shape is a user */
    const sched_pool_t *total;
    char *const *labels; /* the node's */
    VEC(sched_place_t) places;
    uint32_t free_first, free_last,
        free_count;        /* places that rest, longest first: a list through them */
    uint32_t *buckets;     /* places; 0: empty, for shape 0 is in none */
    uint32_t bucket_count; /* a power of two */
    sched_kinds_t kinds;
} sched_shapes_t;

/* Adds shape 0 to zeroed shapes, which stays. The node's names and totals are borrowed.
 * MOB_ENOMEM: fini it all the same. */
mob_status_t sched_shapes_init(sched_shapes_t *shapes, sched_names_t *names,
                               const sched_pool_t *total, char *const *labels);
void sched_shapes_fini(sched_shapes_t *shapes);
/* As sched_shape_intern_at, but a new shape in a group has no entry yet. */
mob_status_t sched_shapes_intern(sched_shapes_t *shapes, const sched_amount_t *demand, size_t count,
                                 const sched_where_t *where, uint32_t *ret_shape);
/* The number of a demand by its needs, which are in their order; held once more. */
mob_status_t sched_shapes_hold(sched_shapes_t *shapes, const sched_need_t *needs, uint32_t count,
                               uint32_t *ret_shape);
/* NULL: there is none of this number. */
sched_shape_t *sched_shapes_find(const sched_shapes_t *shapes, uint32_t id);
/* Takes one hold away; the last one forgets the shape, which must have no tasks waiting. */
void sched_shapes_drop(sched_shapes_t *shapes, sched_shape_t *shape);

/* The first line of the demand that the pool has too little for; NULL if it fits. */
const sched_need_t *sched_shape_missing(const sched_shape_t *shape, const sched_pool_t *pool);
/* The amount of a resource in the demand; 0 if it is not there. */
int64_t sched_shape_amount(const sched_shape_t *shape, uint32_t resource);

#endif
