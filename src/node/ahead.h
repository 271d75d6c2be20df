/* Handing out ahead: a busy worker has tasks behind the one that it runs. */
#ifndef NODE_AHEAD_H
#define NODE_AHEAD_H

#include "node/types.h"

/* Gives the busy workers one more task each in turn, until the queue is short or they have
 * enough. */
void node_ahead_give(node_t *node);
/* Chains: gives a busy worker the tasks that follow the last one that it has. Not while other tasks
 * wait for a CPU: they would be passed over. */
void node_ahead_follow(node_t *node);
/* More CPUs are used than there are, by `over` units. So many are to come back when the tasks that
 * run now end: that many workers keep no task to go on with. */
void node_ahead_settle(node_t *node, int64_t over);
/* From the worker that has most tasks, takes back the newest that could start elsewhere, and those
 * behind it. False: there is none. */
bool node_ahead_take_one(node_t *node);
/* Takes back the tasks that the worker has behind the one that it runs, as far as it has not begun
 * them. */
void node_ahead_take_all(node_client_t *worker);
/* The same of the workers of jobs that hold more CPUs than another one that waits for some. */
void node_ahead_give_way(node_t *node);
/* The same of every worker. */
void node_ahead_hold_back(node_t *node);
/* Whether a task that could start elsewhere waits behind another in a worker, and since when it
 * waits. Only tasks count that a worker of `holder` has to give way to: of that job itself, or of
 * one that holds fewer CPUs; NULL: all. */
bool node_ahead_waits(node_t *node, const node_job_t *holder, uint64_t *ret_since_ns);

#endif
