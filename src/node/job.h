/*
 * A job: one driver's part of the node. It has its own setup, workers, lanes, output and namespace.
 * A client has one job, and so have tasks and actors. job.c has its states.
 */
#ifndef NODE_JOB_H
#define NODE_JOB_H

#include "frame/frame.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/output.h"
#include "node/failure.h"
#include "node/farewell.h"
#include "node/lease.h"
#include "node/pool.h"
#include "node/setup.h"
#include "node/shape.h"
#include "node/types.h"
#include "sched/sched.h"

struct node_job {
    node_t *node;
    uint32_t number;  /* no other job of this daemon ever has it */
    uint32_t shown;   /* what its processes are told; a detached actor's: its maker's number */
    uint32_t place;   /* of its lanes in shared memory; used again */
    uint32_t clients; /* connections that name it */
    node_setup_t *setup;
    node_client_t *driver; /* NULL: it is gone, or the job is a detached actor's */
    node_actor_t *actor;   /* the detached actor whose job it is, while that lives; else NULL */
    bool is_detached;      /* it is a detached actor's, and has no driver */
    node_job_t *maker;     /* of a detached actor's job: the one that made it, while that lives */
    bool is_guest;         /* its driver is at another node; it has none here */
    frame_job_t origin;    /* a guest's: its id */
    node_told_t told;      /* nodes that have its setup */
    node_output_t output;  /* on its way from here, or from other nodes */
    pid_t pid;             /* the driver's */
    uint64_t start_ms;     /* wall clock */
    sched_job_t *sched;    /* its demands, and the tasks that wait */
    VEC(node_pool_t *) pools; /* the first is its own, of its setup */
    node_lane_t lanes[SHM_LANES];
    node_shapes_t shapes;
    node_failures_t failures;
    node_farewell_t farewell;
    uint64_t finish_round; /* in which the driver gets the last of its messages; 0: not asked for */
    uint32_t groups;       /* placement groups of it that hold, or may hold, something */
    bool cancelling;       /* what it has waiting is being cancelled */
    bool lost;             /* its driver died, or hung up without a word */
};

typedef struct {
    VEC(node_job_t *) items; /* those that are there */
    uint32_t made;
    uint64_t places[SHM_JOBS / 64]; /* one bit a place in use */
} node_jobs_t;

/* A job of this setup, whose hold it takes, also if it fails. MOB_ELIMIT, MOB_ENOMEM. */
mob_status_t node_job_new(node_t *node, node_setup_t *setup, node_job_t **ret_job);
/* The client belongs to the job from now on. */
void node_job_join(node_job_t *job, node_client_t *client);
/* The client, which is closed, does not any more. May free the job. */
void node_job_unjoin(node_client_t *client);
/* The job ends: nothing of it is begun any more, its workers end in a limited time, what waits is
 * cancelled, its actors end. `driver_waits`: until everything that they printed was sent. */
void node_job_leave(node_job_t *job, bool driver_waits);
/* Frees jobs that are over and that no connection names; once a round. */
void node_jobs_settle(node_t *node);
/* Whether no job has a worker left. */
bool node_jobs_are_over(node_t *node);
/* Notes in the control state that the job is there, or has ended. */
void node_job_note(const node_job_t *job, bool ended);
/* The driver that is told of what happens in the job; NULL: there is none. */
node_client_t *node_job_listener(const node_job_t *job);

#define NODE_EACH_JOB(n, job)                                                                     \
    for (size_t at_##job = (n)->jobs.items.count; at_##job-- > 0;)                                \
        for (node_job_t *job = at_##job < (n)->jobs.items.count ? (n)->jobs.items.items[at_##job] \
                                                                : NULL;                           \
             job != NULL; job = NULL)

#define NODE_EACH_POOL(job, pool)                                           \
    for (size_t at_##pool = 0; at_##pool < (job)->pools.count; at_##pool++) \
        for (node_pool_t *pool = (job)->pools.items[at_##pool]; pool != NULL; pool = NULL)

#endif
