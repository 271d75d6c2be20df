/* Memory short on the machine. pressure.c has the rules. */
#ifndef NODE_SPACE_PRESSURE_H
#define NODE_SPACE_PRESSURE_H

#include <uv.h>

#include "node/types.h"

typedef struct {
    /* from the environment */
    double threshold; /* of the limit */
    uint64_t refresh_ms;
    bool enforce; /* a task may have no more than the memory that it asked for */

    uv_timer_t timer; /* runs while anything does */
    uint64_t look_ms, looked_ns;
    uint64_t last_used, last_limit;
    double growth; /* bytes a nanosecond, lately */
    bool paused;   /* nothing new is started */
    uint64_t short_since_ns, relief_ns, relief_pause_ns;
    uint64_t last_kill_ns, kernel_kills, kernel_kill_ns, kernel_owes;
} node_pressure_t;

/* At the start. */
mob_status_t node_pressure_start(node_t *node);
/* Before the loop sleeps: the timer runs while anything does. */
void node_pressure_watch(node_t *node);
/* The worker is an actor from now on: the kernel is rather to end a task. */
void node_pressure_spare(node_client_t *worker);
/* The worker is about to be given a task: the memory that it has now is not the task's. */
void node_pressure_begins(node_client_t *worker);
/* The worker is dead: finds out whether it was for want of memory. */
void node_pressure_died(node_client_t *worker);
/* What the worker is, or runs, for people to read: "The actor A", "The task f", "A worker". */
void node_worker_name(node_client_t *worker, char *ret_name, size_t capacity);
/* Whether no task may start now. Lets one through if nothing else runs. */
bool node_is_paused(node_t *node);

#endif
