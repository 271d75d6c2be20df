/* Workers that end by themselves, in a limited time. farewell.c has the rules. */
#ifndef NODE_FAREWELL_H
#define NODE_FAREWELL_H

#include <uv.h>

#include "node/types.h"

/* The end of a job's workers. */
typedef struct {
    bool leaving;      /* the job ends: workers end by themselves, nothing is begun */
    bool driver_waits; /* until they have */
    bool over;         /* they have */
    uint64_t began_ns; /* when the job's end did */
    uint32_t awaited;  /* other nodes where workers of it may still end */
} node_farewell_t;

typedef struct {
    uint64_t end_ms;  /* how long a worker may take to end; from the environment */
    uv_timer_t timer; /* runs while a worker ends */
} node_ending_t;

/* At the start. */
mob_status_t node_farewell_start(node_t *node);
/* The worker has begun to end. */
void node_worker_ending(node_client_t *worker);
/* The job ends: lets its workers end, and kills those that have not after a while. Then the job is
 * over: if the driver waits, it is sent what was printed. Called again (`begins` false) because the
 * driver does not wait any more: kills them now. */
void node_farewell(node_job_t *job, bool begins, bool driver_waits);
/* While the job ends: a worker is gone. */
void node_farewell_gone(node_job_t *job);
/* The same, in a daemon that ends with the job: its books on the worker stay as they are. */
void node_farewell_reaped(node_client_t *worker);

#endif
