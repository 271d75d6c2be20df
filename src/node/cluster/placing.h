/*
 * Tasks that leave a node and tasks that come: the room place (src/place) on the books of the
 * daemon. placing.c has its life and what it hears; offer.h which tasks may leave, origin.c those
 * that have left, guest.c those of others.
 *
 * Every function takes a cluster that is there. Before node_placing_start and after
 * node_placing_end they do nothing.
 */
#ifndef NODE_CLUSTER_PLACING_H
#define NODE_CLUSTER_PLACING_H

#include <uv.h>

#include "base/map.h"
#include "frame/frame.h"
#include "node/cluster/offer.h"
#include "node/types.h"
#include "place/place.h"

/* What goes with the next body that the room sends. */
typedef struct {
    const void *body; /* NULL: nothing does */
    uint64_t run;     /* a task's: the number of its run, which stands before the frame */
    bool is_task;
    frame_id_t *ids; /* the references inside it */
    size_t count;
} node_placing_parcel_t;

typedef struct {
    place_t *place;               /* NULL: it was not started, or has ended */
    uv_timer_t timer;             /* goes off at place_due_ns */
    base_map_t peers;             /* node_peer_t by incarnation */
    VEC(node_peer_t *) dead;      /* peers with a tombstone, whose tasks are about to end here */
    node_offers_t offers;         /* of this node's tasks */
    uint8_t *frame;               /* of the task that was taken last; lent to the room */
    node_placing_parcel_t parcel; /* also lent, within one call */
    uint32_t depth;               /* calls of the room that are going on */
    uint64_t leader, fence;       /* who leads, as far as is known */
    bool is_burying;              /* a peer's death is being told */
    bool leases_busy;             /* when what is free was looked at last */
    int64_t free[PLACE_NAMES_MAX];
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

/* ---- for the files of this folder ---- */

/* The peer, as a client without a process; NULL: it is none, or dead. */
node_peer_t *node_placing_peer(const node_cluster_t *cluster, uint64_t peer);
/* Around each call of the room: what it asks for must not call it again. */
void node_placing_enter(node_cluster_t *cluster);
void node_placing_leave(node_cluster_t *cluster);

/* ---- a visit of another node's; guest.c ---- */

/* Its run has begun, or is certain to. */
void node_placing_begun(node_visit_t *visit);
/* Its run waits for others and has lent its CPUs; it goes on. */
void node_placing_blocked(node_visit_t *visit, bool is_blocked);

#endif
