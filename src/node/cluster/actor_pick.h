/* On which node an actor is to be made, as far as the nodes' heartbeats tell. actor_pick.c has the
 * rule. */
#ifndef NODE_CLUSTER_ACTOR_PICK_H
#define NODE_CLUSTER_ACTOR_PICK_H

#include "frame/frame.h"
#include "node/types.h"

/* A node that has room for the creation now, this one if it `may_stay` and no other has; 0: none.
 */
uint64_t node_actor_pick(node_cluster_t *cluster, const node_task_t *creation, bool may_stay);
/* One that may have room by now, though it had none at its last heartbeat; 0: none could ever. */
uint64_t node_actor_try(node_cluster_t *cluster, const node_task_t *creation);
/* Where it goes at once, though it might run here: it is to be spread, or would rather be there.
 * 0: it may stay. */
uint64_t node_actor_wish(node_cluster_t *cluster, const node_task_t *creation);
/* Of an actor whose creation comes from elsewhere: a node that has room now, this one if no other
 * has; 0: none. */
uint64_t node_actor_pick_frame(node_cluster_t *cluster, const frame_t *creation);
/* Whether a node that is not dead has what the selector says must hold; NULL: nothing must. */
bool node_actor_may_ever(node_cluster_t *cluster, const char *selector);
/* Whether another live node could ever run it. */
bool node_actor_fits_elsewhere(node_cluster_t *cluster, const node_task_t *creation);

#endif
