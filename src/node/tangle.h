/*
 * A picture of everything that waits: tasks and calls that were submitted and are not done, what
 * each of them waits for, and which of them can never go on. tangle.c has the rules.
 */
#ifndef NODE_TANGLE_H
#define NODE_TANGLE_H

#include "base/vec.h"
#include "knot/knot.h"
#include "mobula.h"
#include "node/types.h"
#include "sched/sched.h"
#include "shm/wait.h"

/* A record that is READY or TAKEN, or a placement group that waits for its bundles. */
typedef struct {
    uint32_t record, shape;
    const sched_job_t *job; /* whose shape it is; NULL: that is gone */
    uint64_t generation;
    uint32_t worker; /* the number of the client that runs it; 0: it is not begun */
    uint32_t thing;  /* in the knot */
    int32_t wait;    /* its place among the waits; -1: it is not known to wait */
    uint8_t kind;    /* mob_kind_t */
    bool asks;       /* it waits for resources, unless arguments are missing */
    node_actor_t *actor;
    const node_group_t *group; /* NULL: it is a record */
} node_strand_t;

/* How much there is of a resource in a bundle, or with -1 in all bundles of a group. */
typedef struct {
    const sched_group_t *group;
    int32_t bundle;
    const char *name;
    uint32_t resource; /* in the knot */
} node_pot_t;

typedef struct {
    shm_wait_t wait;
    node_client_t *worker;
} node_standing_t;

/* An object, and which strand makes it (`producers`) or needs it (`needs`). */
typedef struct {
    mob_ref_t ref;
    uint32_t strand;
} node_thread_t;

typedef struct {
    knot_t *knot;
    uint32_t world; /* the thing that always goes on: whatever is not known */
    VEC(node_standing_t) waits;
    VEC(node_strand_t) strands;
    VEC(node_thread_t) producers; /* sorted by slot */
    VEC(node_thread_t) needs;     /* arguments that are not there */
    VEC(node_pot_t) pots;         /* of bundles that somebody asks for or holds some of */
} node_tangle_t;

/* Takes the picture. False: no run waits, or there is no memory. Fini it in any case. */
bool node_tangle_take(node_t *node, node_tangle_t *ret_tangle);
void node_tangle_fini(node_tangle_t *tangle);
/* The strand that makes the object; NULL: not known. */
const node_strand_t *node_tangle_producer(const node_tangle_t *tangle, mob_ref_t ref);
/* Whether the strand can never go on. */
bool node_tangle_tied(const node_tangle_t *tangle, const node_strand_t *strand);

#endif
