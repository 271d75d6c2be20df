/*
 * Tasks that leave a node and tasks that come: the room place (src/place) on the books of the
 * daemon. placing.c has its life and what it hears; origin.h the tasks of this node, guest.h those
 * of others; lanes.h what of this node's may be offered to others.
 *
 * Every function takes a cluster that is there. Before node_placing_start and after
 * node_placing_end, and before this node is a member, they do nothing.
 */
#ifndef NODE_CLUSTER_PLACING_H
#define NODE_CLUSTER_PLACING_H

#include <uv.h>

#include "base/map.h"
#include "frame/frame.h"
#include "node/types.h"
#include "place/place.h"

typedef struct node_lanes_entry node_lanes_entry_t;

/* What goes with the next body that the room sends: the references inside it. */
typedef struct {
    const void *body; /* NULL: nothing does */
    const frame_id_t *ids;
    size_t count;
} node_placing_parcel_t;

typedef struct {
    place_t *place;     /* NULL: it was not started, or has ended */
    uv_timer_t timer;   /* goes off at place_due_ns */
    base_map_t peers;   /* node_peer_t by incarnation */
    base_map_t lanes;   /* node_lanes_entry_t by job and shape */
    uint8_t *frame;     /* of the task that was taken last; lent to the room */
    frame_id_t *ids;    /* ... what it names */
    node_placing_parcel_t parcel;
    uint64_t burying;   /* the peer whose death is being told; 0: none is */
    uint64_t looked_ns; /* when it last looked what is free */
} node_placing_t;

/* This node is a member: from now on tasks may go and come. `self` is known by then. MOB_ENOMEM;
 * MOB_ELIMIT: it has more resources or labels than may be told. */
mob_status_t node_placing_start(node_cluster_t *cluster);
/* Once a round, after everything that was read of clients and peers, before refs_flush and what
 * mesh sends: offers what waits, and does what follows. */
void node_placing_settle(node_cluster_t *cluster);
/* The node leaves. What is at peers is lost, and nothing is said any more. */
void node_placing_end(node_cluster_t *cluster);

/* ---- what the node hears; from post.c and membership.c ---- */

/* MOB_EPROTO: it makes no sense; nothing has changed. MOB_ENOMEM: give it again, before anything
 * else of that peer. */
mob_status_t node_placing_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                  size_t size);
/* A member, before the first message of it. */
void node_placing_joined(node_cluster_t *cluster, uint64_t peer);
/* Its tombstone, after all that was received of it: its tasks here end, those that are there are
 * tried again. */
void node_placing_died(node_cluster_t *cluster, uint64_t peer);
void node_placing_silent(node_cluster_t *cluster, uint64_t peer, bool is_silent);
void node_placing_leads(node_cluster_t *cluster, uint64_t leader, uint64_t fence);
void node_placing_paused(node_cluster_t *cluster, bool is_paused);
/* The job has ended, whosever it is: its frames are refused from now on, its guests end, and what
 * of it is at peers has failed. MOB_ENOMEM: say it again. */
mob_status_t node_placing_job_ended(node_cluster_t *cluster, frame_job_t job);

/* ---- for the other files of the node ---- */

/* The peer, as a client without a process; NULL: it is none, or dead. */
node_peer_t *node_placing_peer(const node_cluster_t *cluster, uint64_t peer);
/* Whether another live node could ever run what this shape asks for. */
bool node_placing_fits_elsewhere(const node_job_t *job, uint32_t shape);
/* Amounts that are free, or leases, have changed. */
void node_placing_free_changed(node_cluster_t *cluster);

#endif
