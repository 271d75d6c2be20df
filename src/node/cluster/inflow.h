/*
 * Items of this node's tasks that other nodes make: an inflow for each task that yields and is at
 * another node. inflow.c has its states; flowpost.h the messages.
 */
#ifndef NODE_CLUSTER_INFLOW_H
#define NODE_CLUSTER_INFLOW_H

#include "mobula.h"
#include "node/cluster/flowpost.h"
#include "node/types.h"

/* The task, which yields, is about to be sent to that node; 0: an actor's, wherever that is. False:
 * no memory. */
bool node_inflow_begin(node_t *node, node_task_t *task, uint64_t to);
/* It is not there any more, or over. What was not written is void, and the other node, if it waits
 * for a word, is told that nothing is wanted. */
void node_inflow_end(node_t *node, node_task_t *task);
/* Its reader has taken items, or closed it. */
void node_inflow_note(const node_task_t *task);
/* The same, said by the reader (WIRE_TAKEN_OF), of which nothing need be true. */
void node_inflow_read(node_t *node, mob_ref_t flow);
/* All items of the task have come, and it is to be done: false: some wait for space. Not `patient`:
 * these are errors then. */
bool node_inflow_finish(node_t *node, node_task_t *task, bool patient);

/* ---- for flowpost.c and cluster.c ---- */

mob_status_t node_inflow_item(node_cluster_t *cluster, uint64_t from,
                              const node_flow_letter_t *letter);
mob_status_t node_inflow_name(node_cluster_t *cluster, uint64_t from,
                              const node_flow_letter_t *letter);
/* Once a round: writes what waits for space, and says how things are. */
void node_inflows_settle(node_cluster_t *cluster);

#endif
