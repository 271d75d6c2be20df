/*
 * Items that visits make here, on their way to their origin: an outflow for each visit that yields.
 * outflow.c has its states; flowpost.h the messages.
 */
#ifndef NODE_CLUSTER_OUTFLOW_H
#define NODE_CLUSTER_OUTFLOW_H

#include "base/map.h"
#include "mobula.h"
#include "node/cluster/flowpost.h"
#include "node/types.h"

typedef struct {
    base_map_t by_flow;    /* node_outflow_t, by the flow's name */
    node_outflow_t *first; /* of all */
} node_outflows_t;

/* ---- for visit.c ---- */

/* The visit is about to become a task that yields. MOB_ENOMEM; MOB_EEXISTS: another run of that
 * task is here. */
mob_status_t node_outflow_new(node_visit_t *visit);
/* It is a task. `limit`: as a flow's. */
void node_outflow_open(node_visit_t *visit, uint32_t limit);
/* Its items are not wanted any more. Nothing happens to a visit without an outflow. */
void node_outflow_close(node_visit_t *visit);
/* All of its items were sent, or nobody wants them, and the task is over. */
bool node_outflow_is_over(const node_visit_t *visit);
/* The visit ends. */
void node_outflow_free(node_visit_t *visit);

/* ---- for flowpost.c, cluster.c and membership.c ---- */

mob_status_t node_outflow_named(node_cluster_t *cluster, const node_flow_letter_t *letter);
mob_status_t node_outflow_room(node_cluster_t *cluster, const node_flow_letter_t *letter);
void node_outflows_start(node_cluster_t *cluster);
void node_outflows_end(node_cluster_t *cluster);
/* Once a round: sends what was made. */
void node_outflows_settle(node_cluster_t *cluster);
/* The peer's tombstone: nobody reads what is made for it. */
void node_outflows_died(node_cluster_t *cluster, uint64_t peer);

#endif
