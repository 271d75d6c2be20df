/*
 * Detached actors whose home is dead. The leader goes on with them (src/actor/orphan.c) by what
 * they have left (actor_will.h): it is their home's part that is here, and what it takes to make
 * one and to find one without its home.
 */
#ifndef NODE_CLUSTER_ACTOR_ORPHAN_H
#define NODE_CLUSTER_ACTOR_ORPHAN_H

#include "node/cluster/acting.h"
#include "node/cluster/actor_name.h"
#include "node/cluster/actor_seat.h"
#include "node/cluster/actor_stub.h"
#include "node/listing.h"
#include "node/types.h"

/* Of the head of a creation (NODE_GUEST_HEAD): what follows is a will, not a frame. */
static const uint64_t NODE_ORPHAN_CREATION = UINT64_C(1) << 63;

/* ---- the leader ---- */

/* The room wants a node for it. */
void node_orphan_place(node_cluster_t *cluster, frame_id_t id);
/* What goes along with its creation, whose facts these are. MOB_ESTALE: there is nothing yet. */
mob_status_t node_orphan_creation(node_cluster_t *cluster, frame_id_t id, const void *facts,
                                  size_t size, node_freight_t *ret_freight);
/* It is dead for good: what it has left goes. */
void node_orphan_ended(node_cluster_t *cluster, frame_id_t id);
/* The placement group is gone, says its home. */
void node_orphans_ungroup(node_cluster_t *cluster, frame_id_t group);
/* Looks for nodes for those that wait. */
void node_orphans_tick(node_cluster_t *cluster);
/* This node leads no more, or ends. */
void node_orphans_forget(node_cluster_t *cluster);

/* ---- where one lives ---- */

/* A job of this node's own for the actor, of its will. MOB_ENOMEM and others, with words. */
mob_status_t node_orphan_job(node_t *node, const void *setup, size_t size, node_job_t **ret_job);
/* The home is dead, and the actor lives here: its guest job is this node's own from now on. False:
 * no such actor is of this job. */
bool node_orphan_takes_job(node_cluster_t *cluster, node_job_t *job);
/* Adds the names of those that live here. False: no memory. */
bool node_orphans_list(node_t *node, const char *name_space, node_rows_t *rows);

/* ---- who looks for one ---- */

/* By its facts: a handle, if it has that name. `found` follows. */
void node_orphan_find(node_cluster_t *cluster, const node_named_t *named, const void *facts,
                      size_t size, node_name_found_fn found, void *context);

#endif
