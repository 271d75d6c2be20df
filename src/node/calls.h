/* Queues of calls that go straight from the caller to the actor. calls.c has their states. */
#ifndef NODE_CALLS_H
#define NODE_CALLS_H

#include "mobula.h"
#include "node/types.h"

/* A queue of calls. */
typedef struct {
    uint32_t caller;
    int state;           /* 0: nobody's; see calls.c */
    node_actor_t *actor; /* may be dead */
} node_pair_t;

typedef struct {
    node_pair_t *items; /* by queue number above SHM_FIRST_CALLS */
    uint32_t used;      /* the first that was never given */
    VEC(uint32_t) free; /* numbers */
} node_pairs_t;

/* The caller asks for a queue to an actor, and is answered. */
void node_calls_need(node_client_t *caller, mob_ref_t actor);
/* The actor is alive: its worker hears of its queues. */
void node_calls_begin(node_t *node, node_actor_t *actor);
/* The actor's worker is certainly dead, and there will be another: what lies in its queues waits.
 */
void node_calls_pause(node_t *node, node_actor_t *actor);
/* Whether a call lies in one of the actor's queues; a moment's truth. */
bool node_calls_wait(node_t *node, const node_actor_t *actor);
/* The actor is to die: no more calls for it. */
void node_calls_close(node_t *node, node_actor_t *actor);
/* The actor has no worker, and gets none here: it is dead, or will live on another node. What lies
 * in its queues, and what is pushed yet, goes through the daemon. */
void node_calls_give_up(node_t *node, node_actor_t *actor);
/* The caller has pushed into a queue and found it closed. */
void node_calls_closed(node_client_t *caller, uint32_t record, uint64_t generation);
/* The caller has no handle any more. */
void node_calls_unheld(node_t *node, node_actor_t *actor, uint32_t caller);
/* Nobody can name the actor any more. */
void node_calls_forget(node_t *node, node_actor_t *actor);
/* The actor's worker will not look into a queue any more. */
void node_calls_ended(node_client_t *worker, uint32_t number);
/* The caller is certainly dead: the daemon keeps books on the calls in its queues. */
void node_calls_caller_died(node_client_t *caller);
/* Whether this pair has a queue: then none of its calls goes through the daemon. */
bool node_calls_open(node_t *node, const node_actor_t *actor, uint32_t caller);

#endif
