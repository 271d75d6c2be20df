/*
 * Jobs on other nodes than their driver's. guestjob.c has the rules.
 *
 * A job's id is (home, number): the node that its driver joined, and the job's number there. On any
 * other node it is a guest job: a node_job_t without a driver, made when the first task of it
 * comes, with a setup that was sent before. A detached actor's job is one of its own, with an id of
 * its own.
 */
#ifndef NODE_CLUSTER_GUESTJOB_H
#define NODE_CLUSTER_GUESTJOB_H

#include "base/map.h"
#include "frame/frame.h"
#include "node/types.h"

/* Nodes that have been told something, each once. */
typedef VEC(uint64_t) node_told_t;

typedef struct {
    base_map_t homes;     /* by incarnation: which of its jobs have ended */
    base_map_t guests;    /* by job: its setup, and the guest job once there is one */
    base_map_t parts;     /* by peer: what it sends in pieces, so far */
    VEC(uint32_t) abroad; /* this node's jobs of detached actors that go on without it */
    bool owes;            /* an end could not be told to everybody for want of memory */
} node_guestjobs_t;

void node_guestjobs_start(node_cluster_t *cluster);
/* The daemon ends: frees what is here. Jobs stay, as all others do then. */
void node_guestjobs_end(node_cluster_t *cluster);
/* Once a round: tells what could not be told before. */
void node_guestjobs_settle(node_cluster_t *cluster);

/* ---- jobs by their ids ---- */

/* What frames say of this job. */
frame_job_t node_guestjob_id(const node_job_t *job);
/* This node's own job, or the guest job, which is made if this is its first task. NULL: it has
 * ended, or else it was never told here or can't be made, with words. Nothing of a job that it
 * gives is leaving. */
node_job_t *node_guestjob_find(node_t *node, frame_job_t id, bool *ret_is_ended);

/* ---- what is sent ---- */

/* Before a frame of the job goes to that peer: it gets the job's setup, once. The job may be a
 * guest here itself. The link's room does not matter. MOB_ENOMEM, MOB_ECLOSED: the frame must not
 * go. */
mob_status_t node_guestjob_send(node_cluster_t *cluster, uint64_t peer, node_job_t *job);
/* The same, and also the pool's runtime environment, which the frame names. */
mob_status_t node_guestjob_send_pool(node_cluster_t *cluster, uint64_t peer, node_pool_t *pool);
/* One of this node's jobs has begun to end: all members are told. Other jobs: nothing. */
void node_guestjob_ended(node_job_t *job);
/* No worker of the guest job is left: its home is told. Other jobs: nothing. */
void node_guestjob_over(node_job_t *job);
/* The guest job's struct is about to be freed. Other jobs: nothing. */
void node_guestjob_freed(node_job_t *job);

/* ---- what comes ---- */

/* A member, before anything is sent to it: it is told which jobs of this node go on. */
void node_guestjob_joined(node_cluster_t *cluster, uint64_t peer);
/* A message of POST_JOB. MOB_EPROTO: it makes no sense, and nothing has changed; MOB_ENOMEM: the
 * same, and it is to come again. */
mob_status_t node_guestjob_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                   size_t size);
/* The peer's tombstone: the guest jobs of that home end, and its ended jobs are forgotten. */
void node_guestjob_died(node_cluster_t *cluster, uint64_t peer);

#endif
