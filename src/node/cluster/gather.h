/* Lists (listing.h) of all nodes of a cluster. gather.c has the messages. */
#ifndef NODE_CLUSTER_GATHER_H
#define NODE_CLUSTER_GATHER_H

#include "actor/message.h"
#include "node/listing.h"
#include "node/types.h"

typedef struct node_gathering node_gathering_t;

/* What this node and all others have; a node that is alone asks nobody. MOB_OK: `listed` follows,
 * perhaps at once, with MOB_ETIMEOUT if a node did not answer; MOB_ENOMEM: it does not. */
mob_status_t node_gather(node_t *node, node_list_t what, const char *name_space,
                         node_listed_fn listed, void *context);

/* ---- for acting.c ---- */

enum { NODE_GATHER_ASK = 210, NODE_GATHER_TOLD }; /* kinds of messages, beside the room actor's */

/* MOB_EPROTO, MOB_ENOMEM. */
mob_status_t node_gather_asked(node_cluster_t *cluster, uint64_t peer,
                               const actor_message_t *message, const uint8_t *body, size_t size);
mob_status_t node_gather_told(node_cluster_t *cluster, uint64_t peer,
                              const actor_message_t *message, const uint8_t *body, size_t size);
/* Whoever has waited too long is told so; now and then. */
void node_gather_tick(node_cluster_t *cluster);
/* A peer died: nobody waits for it. */
void node_gather_died(node_cluster_t *cluster, uint64_t peer);
/* This node's part in the cluster is over: what was not answered will not be. */
void node_gather_end(node_cluster_t *cluster);

#endif
