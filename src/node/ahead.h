/* Handing out ahead: a busy worker has tasks behind the one that it runs. */
#ifndef NODE_AHEAD_H
#define NODE_AHEAD_H

#include "node/types.h"

/* Gives the busy workers one more each in turn, until the queue is short or they have enough. */
void node_ahead_give(node_t *node);
/* Chains: gives busy workers what follows the last one that they have. Not while others wait for a
 * CPU, which would be passed over. */
void node_ahead_follow(node_t *node);
/* More CPUs are used than there are, by `over` units. As many are to come back when what runs now
 * ends: that many workers keep nothing to go on with. */
void node_ahead_settle(node_t *node, int64_t over);
/* Takes the newest one back that could start elsewhere, and what follows it, from the worker that
 * has most. False: there is none. */
bool node_ahead_take_one(node_t *node);
/* Takes back what the worker has behind the one that it runs, as far as it has not begun it. */
void node_ahead_take_all(node_client_t *worker);
/* The same of every worker. */
void node_ahead_hold_back(node_t *node);
/* Whether a task that could start elsewhere waits behind another in a worker, and since when it
 * waits. */
bool node_ahead_waits(node_t *node, uint64_t *ret_since_ns);

#endif
