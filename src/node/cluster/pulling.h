/*
 * The room pull in the daemon's books: large values of other nodes come here when somebody asks for
 * them, and go from here. pulling.c has the design.
 *
 * What is pulled of a value is its block: the bytes, and behind them room for the references
 * inside, which come in a message. node_pulling_size says how many bytes that are; it is the size
 * in all of these.
 */
#ifndef NODE_CLUSTER_PULLING_H
#define NODE_CLUSTER_PULLING_H

#include "frame/frame.h"
#include "mobula.h"
#include "net/port.h"
#include "node/types.h"

typedef struct node_pulling node_pulling_t;

/* ---- for cluster.c and membership.c ---- */

/* Before the node says that it is a member: with its bulk thread. MOB_ENOMEM, MOB_ESYS. */
mob_status_t node_pulling_start(node_cluster_t *cluster);
/* Once a round. */
void node_pulling_settle(node_cluster_t *cluster);
/* The daemon ends: the bulk thread is asked to, and not waited for. */
void node_pulling_end(node_cluster_t *cluster);
/* A member, and where it listens. MOB_ENOMEM. */
mob_status_t node_pulling_peer(node_cluster_t *cluster, uint64_t peer, const char *address,
                               uint16_t port);
/* The peer's tombstone, after place has been told. MOB_ENOMEM: tell it again. */
mob_status_t node_pulling_died(node_cluster_t *cluster, uint64_t peer);
/* The control state has a new master. */
void node_pulling_master(node_cluster_t *cluster, uint64_t master);
/* The newest master that this room has said to what it has to say. */
uint64_t node_pulling_said(const node_cluster_t *cluster);
/* A message of POST_PULL. MOB_EPROTO: it makes no sense; MOB_ENOMEM: it has to come again. */
mob_status_t node_pulling_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                  size_t size);
/* mesh_ops_t's `bulk`: a connection of a peer's bulk thread. Takes what is in it. */
void node_pulling_accept(node_cluster_t *cluster, net_handover_t *handover);

/* ---- for placing ---- */

/* The bytes of a sealed value as they are pulled; 0: it is none that can be: it lies in its slot,
 * it is an error, or it makes no sense. */
uint64_t node_pulling_size(const node_t *node, mob_ref_t ref);
/* A large result of a visit was sealed here: `id` is its origin's. To be called before DONE is
 * sent. `version`: the run's, from 1. The proxy keeps its value until its home lets go of it.
 * MOB_EEXISTS: there is a copy already, the new one is not needed; MOB_ENOMEM. */
mob_status_t node_pulling_made(node_cluster_t *cluster, frame_id_t id, uint32_t version,
                               uint64_t size);
/* At the origin: DONE says that this own object's value is at the peer. The slot becomes SEALED and
 * AWAY afterwards, by the caller. MOB_ESTALE: the peer is dead: the task is lost with it;
 * MOB_EEXISTS: it has a value; MOB_ENOMEM. */
mob_status_t node_pulling_found(node_cluster_t *cluster, frame_id_t id, uint32_t version,
                                uint64_t size, uint64_t peer);
/* Which version of an own object's value was known last; 0: none was. */
uint32_t node_pulling_version(const node_t *node, mob_ref_t ref);
/* Where the primary copy of an own object's value is, which is elsewhere; 0: that is not known. */
uint64_t node_pulling_primary(const node_t *node, const node_object_t *object);
/* A visit's task that was just opened: its arguments that are on other nodes begin to come, and it
 * waits for them (`missing`). node_task_ready follows when all are here, or can't come: then their
 * slots have errors, which its run raises. Not if nothing is missing. */
void node_pulling_arguments(node_task_t *task);

/* ---- for object.c ---- */

/* Nothing here holds the proxy any more, which is about to be freed. True: it must stay for a
 * while, and node_object_settle follows. */
bool node_pulling_keeps(node_t *node, node_object_t *object);
/* The object is freed; its slot is as it was. */
void node_pulling_freed(node_t *node, const node_object_t *object);

/* ---- for space/ ---- */

/* A client asks for a value that is AWAY without a copy on disk. True: it is at another node, and
 * is asked for; who waits is told as of a file (node_restore_tell). `waits`: as for node_restore.
 */
bool node_pulling_want(node_t *node, node_object_t *object, bool waits);
/* Its copy on disk here is damaged, and was dropped. True: it is asked of other nodes. */
bool node_pulling_lost(node_t *node, node_object_t *object);
/* There will be no space for it. */
void node_pulling_refused(node_t *node, const node_object_t *object, mob_status_t status);
/* Whether its value, which is to come, waits for space: see node_space_want. */
bool node_pulling_waits(const node_t *node, const node_object_t *object);
/* There may be space for it. True: it has it. */
bool node_pulling_space(node_t *node, node_object_t *object);
/* Whether the value may leave its place in memory: no other node reads it there. */
bool node_pulling_may_move(const node_t *node, const node_object_t *object);
/* It has left memory, and is on disk. */
void node_pulling_left(node_t *node, const node_object_t *object);

#endif
