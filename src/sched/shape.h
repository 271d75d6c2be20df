/* Demands with a number: each different one is kept once, with the queue of the tasks that ask for it. */
#ifndef SCHED_SHAPE_H
#define SCHED_SHAPE_H

#include "base/vec.h"
#include "sched/queue.h"
#include "sched/resources.h"

typedef struct sched_shape {
    sched_queue_t queue;
    size_t place; /* among the shapes that have tasks waiting, while it has */
    uint64_t hash;
    uint32_t id;
    uint32_t chain; /* the next shape in its bucket; 0: none */
    uint32_t count;
    sched_need_t needs[]; /* by rising resource number */
} sched_shape_t;

enum { SCHED_SHAPE_BUCKETS = 4096 };

typedef struct sched_shapes {
    VEC(sched_shape_t *) all;              /* by id */
    uint32_t buckets[SCHED_SHAPE_BUCKETS]; /* 0: empty; shape 0 is in none */
} sched_shapes_t;

/* Adds shape 0 to zeroed shapes. MOB_ENOMEM: fini it all the same. */
mob_status_t sched_shapes_init(sched_shapes_t *shapes);
void sched_shapes_fini(sched_shapes_t *shapes);
/* sched_shape_intern over these names. New names are added to them, and stay there when this fails later on. */
mob_status_t sched_shapes_intern(sched_shapes_t *shapes, sched_names_t *names, const sched_amount_t *demand,
                                 size_t count, uint32_t *ret_shape);

/* The first line of the demand that the pool has too little for; NULL if it fits. */
const sched_need_t *sched_shape_missing(const sched_shape_t *shape, const sched_pool_t *pool);
/* The amount of a resource in the demand; 0 if it is not there. */
int64_t sched_shape_amount(const sched_shape_t *shape, uint32_t resource);

#endif
