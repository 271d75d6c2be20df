/*
 * A kind: the demands for the same resources in different amounts, and which of them have tasks
 * waiting.
 *
 * The waiting ones are the leaves of a binary tree that lies in an array. Each node knows of those
 * below it the oldest task, the smallest amount of every resource and the largest of CPUs. So the
 * oldest that fits is found by a way down that leaves out whatever can't be it; with very many
 * different demands that costs as much as the tree is high.
 */
#ifndef SCHED_KIND_H
#define SCHED_KIND_H

#include "base/vec.h"
#include "sched/resources.h"

typedef struct sched_shape sched_shape_t;
typedef struct sched_bounds sched_bounds_t;

typedef struct sched_kind {
    uint32_t shapes;   /* that are of it: one hold each */
    uint32_t waiting;  /* of these, in the first places of the leaves */
    uint32_t capacity; /* leaves: a power of two, and space for every shape */
    sched_shape_t **leaves;
    sched_bounds_t
        *bounds; /* node 1 is the root, 2n and 2n + 1 are below n, leaf i is node capacity + i */
    uint32_t count;
    uint32_t resources[]; /* rising, as in its shapes' needs */
} sched_kind_t;

typedef VEC(sched_kind_t *) sched_kinds_t;

void sched_kinds_fini(sched_kinds_t *kinds);
/* The kind of a demand, held once more and with space for one more shape to wait. */
mob_status_t sched_kinds_join(sched_kinds_t *kinds, const sched_need_t *needs, uint32_t count,
                              sched_kind_t **ret_kind);
/* Gives that up. The last to leave ends the kind. */
void sched_kinds_leave(sched_kinds_t *kinds, sched_kind_t *kind);

/* Call it when the head of the shape's queue has changed: it begins to wait, goes on waiting with
 * another, or ends. */
void sched_kind_note(sched_shape_t *shape);

/* What is looked for. */
typedef struct sched_search {
    const sched_pool_t *fits; /* has everything that it needs */
    const sched_pool_t
        *lacks; /* unless NULL: has everything that it needs but CPUs, and too few of those */
    const sched_task_t *except; /* a task that does not count; may be NULL */
} sched_search_t;

/* The oldest such task of this kind if it is older than `best`, which may be NULL; else `best`. */
sched_task_t *sched_kind_oldest(const sched_kind_t *kind, const sched_search_t *search,
                                sched_task_t *best);

#endif
