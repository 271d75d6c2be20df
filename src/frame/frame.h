/*
 * A frame: a task, a creation or a call, written so that it stands alone. README.md says what it is
 * for.
 */
#ifndef FRAME_FRAME_H
#define FRAME_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

/* The name of an object, or of a run, in all nodes: 20 bytes, as MOB_ID_SIZE. All zero: none. */
typedef struct {
    uint64_t home;   /* the incarnation of the node that it was made on */
    uint32_t number; /* its slot there, or its record */
    uint64_t generation;
} frame_id_t;

typedef struct {
    uint64_t home; /* of the node that its driver joined */
    uint32_t number;
} frame_job_t;

typedef struct {
    const char *name;
    uint64_t amount; /* in the scheduler's units */
} frame_amount_t;

typedef struct {
    frame_amount_t *items;
    size_t count;
} frame_demand_t;

enum { FRAME_ENVIRONMENT = 16 };

/* Where both demands are to be met, as mob_where_t. */
typedef struct {
    frame_id_t group; /* all zero: none */
    int32_t bundle;
    uint32_t flags;
    int32_t priority;
    const char *selector;                   /* "": any node will do */
    uint8_t environment[FRAME_ENVIRONMENT]; /* a hash of the job's runtime environment; all zero:
                                               none */
} frame_where_t;

typedef struct {
    uint8_t kind; /* mob_kind_t */
    bool retries_exceptions;
    bool flows;          /* it gives out items */
    uint32_t flow_limit; /* so many that were not taken; 0: any number */
    bool dynamic;        /* as mob_task_t's */
    bool untold;         /* as mob_task_t's */
    bool out_of_order;   /* a creation's: see mob_task_t */
    uint8_t group;       /* a call's: its concurrency group */
    int32_t max_retries; /* left when it was written; -1: without end */
    uint32_t limit;      /* max_calls of a task, max_concurrency of a creation */
    frame_job_t job;
    frame_id_t function, actor;
    frame_id_t parent;           /* the run that submitted it */
    frame_demand_t demand, held; /* what it needs to start; what an actor holds from then on */
    frame_where_t where;
    frame_id_t *ids; /* returns, deps, refs, one after the other */
    uint32_t num_returns, num_deps, num_refs;
    const char *name;
    size_t name_size;
    const uint8_t *args;
    size_t args_size;
} frame_t;

static inline size_t frame_id_count(const frame_t *frame) {
    return (size_t)frame->num_returns + frame->num_deps + frame->num_refs;
}

/* The frame in bytes, to be freed. MOB_ENOMEM; MOB_EINVAL: more than a frame can say. */
mob_status_t frame_write(const frame_t *frame, uint8_t **ret_bytes, size_t *ret_size);
/* What the bytes say. Names and arguments lie in the bytes, which must stay. MOB_EPROTO: this is no
 * frame, or one of another version; MOB_ENOMEM. */
mob_status_t frame_read(const uint8_t *bytes, size_t size, frame_t *ret_frame);
/* Frees what frame_read has made. */
void frame_fini(frame_t *frame);

#endif
