/*
 * The end of this node's term (shm/term.h), and tasks that wait for a later one: they had their
 * turn in the scheduler when it was over. Those are tasks that are not run again, and creations of
 * actors. Calls wait at their actor's worker, or in its queues.
 *
 * A task that waits here is in no other list, and holds no resources.
 */
#ifndef NODE_TERM_H
#define NODE_TERM_H

#include "node/types.h"

typedef struct {
    node_task_t *first, *last; /* those that wait, by `next` and `prev` */
} node_term_t;

/* The term ends then, by CLOCK_BOOTTIME; 0: it is over for good. If it is not over any more, what
 * waits goes on. */
void node_term_set(node_t *node, uint64_t end_ns);
/* The scheduler gave the task out. True: it waits from now on, for the term is over; its lease is
 * the caller's to release. */
bool node_term_hold(node_t *node, node_task_t *task);
/* The task waits no longer. Harmless if it does not. */
void node_term_unhold(node_t *node, node_task_t *task);

#endif
