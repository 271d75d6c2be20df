/*
 * Large values in the control state, in pieces: what a detached actor leaves (actor_will.h). A
 * value is written once, under an actor's id, and never changes. Answers come later, in a call of
 * the loop's; to all of it, or MOB_ECLOSED when this node's part in the cluster is over.
 */
#ifndef NODE_CLUSTER_KEEP_H
#define NODE_CLUSTER_KEEP_H

#include "frame/frame.h"
#include "mobula.h"
#include "node/types.h"

/* With what goes along it fits into one message (LINK_MESSAGE_MAX). */
enum { NODE_KEEP_MOST = (1 << 20) - (16 << 10) };

typedef struct node_keep node_keep_t;

/* MOB_OK and the bytes, which are borrowed; MOB_ELOST: they are not there, or not all;
 * MOB_ETIMEOUT: the control state did not answer in time. */
typedef void (*node_kept_fn)(void *context, mob_status_t status, const uint8_t *bytes, size_t size);

/* Writes it, however long that takes. The bytes are copied, at most NODE_KEEP_MOST. MOB_ENOMEM. */
mob_status_t node_keep_write(node_cluster_t *cluster, frame_id_t id, const void *bytes,
                             size_t size);
/* MOB_ENOMEM: no answer follows. */
mob_status_t node_keep_read(node_cluster_t *cluster, frame_id_t id, size_t size, node_kept_fn kept,
                            void *context);
/* Deletes it, however long that takes. */
void node_keep_drop(node_cluster_t *cluster, frame_id_t id, size_t size);

/* Asks again what was not answered; now and then. */
void node_keeps_tick(node_cluster_t *cluster);
void node_keeps_end(node_cluster_t *cluster);

#endif
