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
#include "node/types.h"

typedef struct node_pulling node_pulling_t;
struct net_handover;

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
/* The control state has a new master. `said`, later: what this room has to say to it was said; the
 * caller's. */
void node_pulling_master(node_cluster_t *cluster, uint64_t master);
/* A message of POST_PULL. MOB_EPROTO: it makes no sense; MOB_ENOMEM: it has to come again. */
mob_status_t node_pulling_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                  size_t size);
/* mesh_ops_t's `bulk`: a connection of a peer's bulk thread. Takes what is in it. */
void node_pulling_accept(node_cluster_t *cluster, struct net_handover *handover);

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
/*
 * The task's arguments that are not in this node's memory begin to come. True: some are missing,
 * and `task->missing` counts one more; node_task_ready follows when they are here, or can't come
 * (then their slots have errors, which the run raises). False: all are here.
 */
bool node_pulling_arguments(node_task_t *task);
/* The task is over, or goes back to its origin: its arguments need not stay. */
void node_pulling_arguments_end(node_task_t *task);

/* ---- for proxy and value ---- */

/* An own object has a large value here, and another node asks for it (WATCH): it can be pulled from
 * now on. Its size, which is what the answer says. MOB_EINVAL: it is not a value to be pulled;
 * MOB_ENOMEM. */
mob_status_t node_pulling_offer(node_cluster_t *cluster, mob_ref_t ref, uint64_t *ret_size);
/* An own object is freed, or an own proxy: nobody here holds it any more. Called before its slot
 * goes. True: its value is still being read by another node; the slot must stay, and
 * node_object_settle is called again when that is over. */
bool node_pulling_freed(node_cluster_t *cluster, node_object_t *object);

/* ---- for space/ ---- */

/* A client asks for a value that is AWAY without a copy on disk. True: it is at another node, and
 * is asked for; who waits is told as of a file (node_restore_tell). `waits`: as for node_restore. */
bool node_pulling_want(node_t *node, node_object_t *object, bool waits);
/* Whether the value may leave its place in memory now: nobody reads it from another node, and no
 * want keeps it. */
bool node_pulling_may_move(const node_t *node, const node_object_t *object);
/* It has left memory, and is on disk. */
void node_pulling_left(node_t *node, node_object_t *object);
/* A value that waited for space: see node_space_want. True: it has it. */
bool node_pulling_space(node_t *node, node_object_t *object);

#endif
