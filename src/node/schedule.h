/* Carries out the scheduler's answers: which task starts, and where. */
#ifndef NODE_SCHEDULE_H
#define NODE_SCHEDULE_H

#include <uv.h>

#include "node/types.h"

typedef struct {
    uv_timer_t timer; /* for callers of node_look_again */
} node_schedule_t;

/* Starts what may start. To be called after everything that may have changed that. */
void node_schedule(node_t *node);
/* Schedules, and answers what waits, after that time at the latest. */
void node_look_again(node_t *node, uint64_t ms);
/* In SCHED_UNITs; negative when more are used than there are. */
int64_t node_cpus_free(node_t *node);
/* The worker's task waits for other tasks: its CPU is lent. */
void node_worker_blocked(node_client_t *worker);
/* It goes on. */
void node_worker_unblocked(node_client_t *worker);

#endif
