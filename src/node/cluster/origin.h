/* Tasks of this node that are at others: what the room place asks of their origin. */
#ifndef NODE_CLUSTER_ORIGIN_H
#define NODE_CLUSTER_ORIGIN_H

#include "node/cluster/proxy.h"
#include "node/peer.h"
#include "place/place.h"

/* place_ops_t's; the context is the cluster, a lane's is its offer. */
bool node_origin_take(void *context, void *lane, uint64_t to, place_task_t *ret_task);
void node_origin_put_back(void *context, uint32_t record, int32_t retries, uint8_t moves);
void node_origin_ended(void *context, uint32_t record, place_outcome_t outcome, const void *value,
                       size_t size);
void node_origin_keep(void *context, void *lane, uint32_t count);
void node_origin_impossible(void *context, void *lane);

/* node_way_t's. */
void node_origin_cancel(node_peer_t *peer, const node_task_t *task, bool force, bool recursive);
void node_origin_recall(node_peer_t *peer, const node_task_t *task);
mob_status_t node_origin_fetch(node_peer_t *peer, const node_task_t *task,
                               const frame_value_t *value, mob_ref_t to);

/* The value of an own object stayed at the node `from`: what is to be said of it here. `version`:
 * of the run. `is_again`: it had a value, which is lost. MOB_ELOST: it can't be had; MOB_ENOMEM. */
mob_status_t node_origin_note(node_t *node, mob_ref_t of, uint32_t version, uint64_t from,
                              bool is_again, const frame_value_t *value,
                              node_elsewhere_t *ret_what);

#endif
