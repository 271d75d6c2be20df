/* Workers that end by themselves, in a limited time. farewell.c has the rules. */
#ifndef NODE_FAREWELL_H
#define NODE_FAREWELL_H

#include <uv.h>

#include "node/types.h"

typedef struct {
    uint64_t end_ms;   /* how long a worker may take to end; from the environment */
    uv_timer_t timer;  /* runs while a worker ends, or all do */
    bool leaving;      /* the session ends: workers end by themselves, nothing is begun */
    bool driver_waits; /* until they have */
    bool over;         /* they have, or were killed */
    uint64_t began_ns; /* when the session's end did */
} node_farewell_t;

/* At the start. */
mob_status_t node_farewell_start(node_t *node);
/* The worker has begun to end. */
void node_worker_ending(node_client_t *worker);
/* The session ends: lets all workers end, kills those that have not after a while, and then ends
 * the loop, or, if the driver waits, sends what was printed. Called again because the driver does
 * not wait any more: ends the loop now. */
void node_farewell(node_t *node, bool driver_waits);
/* While the session ends: the worker was reaped. */
void node_farewell_gone(node_client_t *worker);

#endif
