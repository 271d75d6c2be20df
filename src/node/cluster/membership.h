/* The room member, for this node: who is in the cluster, who is dead, who leads. */
#ifndef NODE_CLUSTER_MEMBERSHIP_H
#define NODE_CLUSTER_MEMBERSHIP_H

#include "node/types.h"

/* The control state is known: asks it to register this incarnation. */
mob_status_t node_membership_start(node_cluster_t *cluster);
/* Ends its timers. */
void node_membership_end(node_cluster_t *cluster);
/* A peer's heartbeat. MOB_EPROTO. */
mob_status_t node_membership_pulse(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                   size_t size);
/* A node dials that this one does not know: it may have registered since this one looked. */
void node_membership_stranger(node_cluster_t *cluster);
/* One of this node's rooms has said its facts to the master of the control state: once all have,
 * the room member says so. */
void node_membership_said(node_cluster_t *cluster);
/* The link to the peer is silent, or is heard again. */
void node_membership_silent(node_cluster_t *cluster, uint64_t peer, bool is_silent);
/* Leaves: the daemon ends when that is done, or after a time limit. */
void node_membership_leave(node_cluster_t *cluster);

#endif
