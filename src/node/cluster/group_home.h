/*
 * Placement groups that were made here, and that other nodes have a part in. group_home.c says when
 * a group goes over nodes, and how others get to know of it.
 */
#ifndef NODE_CLUSTER_GROUP_HOME_H
#define NODE_CLUSTER_GROUP_HOME_H

#include "group/group.h"
#include "node/types.h"

/* ---- for node/group.c ---- */

/* A group that was made: true if it goes over nodes at once. Else it is to wait here, and may leave
 * later. `maker`: who is to be told that it can never be placed; NULL: nobody. */
bool node_group_leaves(node_group_t *group, const node_job_t *maker);

/* ---- for group_over.c ---- */

/* Tells the peers that have asked how it stands. */
void node_group_home_tell(node_group_t *group);
/* It has ended: all that hold or know of it are told, and the room. */
void node_group_home_ended(node_group_t *group);

/* ---- for grouping.c ---- */

/* Looks at those that wait here; every GROUPING_TICK_MS. */
void node_group_homes_tick(node_cluster_t *cluster);
/* What the room says of a group of this home. */
void node_group_home_told(node_cluster_t *cluster, frame_id_t id, group_state_t state,
                          const uint64_t *nodes, size_t count);
/* A peer wants to know of it. MOB_ENOMEM: the message has to come again. */
mob_status_t node_group_home_asked(node_cluster_t *cluster, uint64_t peer, frame_id_t id);
/* Answers those that asked for what was not read yet; once a round. */
void node_group_homes_settle(node_cluster_t *cluster);
void node_group_homes_died(node_cluster_t *cluster, uint64_t peer);

#endif
