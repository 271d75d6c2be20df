/* Deadlocks: found while runs wait for long, and told to the driver. deadlock.c has the rules. */
#ifndef NODE_DEADLOCK_H
#define NODE_DEADLOCK_H

#include <uv.h>

#include "base/vec.h"
#include "mobula.h"
#include "node/types.h"

typedef struct {
    uv_timer_t timer; /* runs while a run waits for long */
    bool started;     /* the timer is libuv's */
    bool raises;      /* the youngest raises DeadlockError */
    bool empty;       /* the last look found nothing that waits */
    uint64_t looks;
    uint64_t seen;       /* a number for the runs that the last look found tied; 0: none */
    VEC(mob_ref_t) told; /* those of them that the driver knows of: record and generation */
    char text[2048];     /* what was told last */
} node_deadlock_t;

/* A run waits for long: looks for a deadlock from now on, as long as one does. */
void node_deadlock_suspect(node_t *node);
/* One look. Returns the time until the next, in ms; 0: nothing waits. */
uint64_t node_deadlock_look(node_t *node);

#endif
