/*
 * Placement groups of other nodes, in this node's books: of bundles that it holds, and of handles
 * that processes here have. group_guest.c has their life.
 */
#ifndef NODE_CLUSTER_GROUP_GUEST_H
#define NODE_CLUSTER_GROUP_GUEST_H

#include "base/bytes.h"
#include "group/group.h"
#include "group/spec.h"
#include "node/types.h"
#include "wire/message.h"

/* ---- for the files beside cluster/ ---- */

/* WIRE_GROUP_OF_ID: the slot by which the client can name the group. Asks its home, if this node
 * has not done so. */
void node_group_of_id(node_client_t *client, const wire_message_t *message);
/* A process here removes it: its home is told. */
void node_group_guest_remove(node_group_t *group);

/* ---- for group_over.c and grouping.c ---- */

/* The book on the group, made if there is none; NULL: no memory. */
node_group_t *node_group_guest_get(node_cluster_t *cluster, frame_id_t id,
                                   const group_spec_t *spec);
/* Ends the book if nothing of the group is here, and nobody here has asked for it. */
void node_group_guest_try_end(node_group_t *group);
void node_group_guest_ended(node_group_t *group);
/* Its home says how it stands. MOB_EPROTO: that makes no sense; MOB_ENOMEM: again, please. */
mob_status_t node_group_guest_told(node_cluster_t *cluster, uint64_t peer, base_reader_t *reader);
/* Its home says that it is gone, or that there never was one. */
void node_group_guest_gone(node_cluster_t *cluster, frame_id_t id);
/* The home is dead, and its groups are gone. */
void node_group_guests_died(node_cluster_t *cluster, uint64_t home);

#endif
