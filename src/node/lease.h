/* Workers that take tasks from queues by themselves: their CPUs. lease.c has the rules. */
#ifndef NODE_LEASE_H
#define NODE_LEASE_H

#include "node/types.h"
#include "sched/sched.h"
#include "shm/lane.h"

/* What asks the scheduler: a task, a lane for one more lease, or a group for its bundles. */
typedef struct {
    sched_task_t queue;  /* first: the scheduler gives this back */
    node_job_t *lane_of; /* the lane's job; NULL: it is no lane */
    node_group_t *group; /* NULL: it is no group */
} node_ask_t;

/* The queues of one shape, of one job. */
typedef struct {
    union {
        node_ask_t ask;
        sched_task_t request; /* for one more lease, while it waits for its CPUs */
    };
    uint32_t shape; /* 0: not in use */
    int64_t cpus;
    uint32_t leases;       /* given */
    sched_lease_t granted; /* a lease that waits for its worker */
    bool inside;           /* its tasks run in a placement group */
    bool closed;           /* the group was removed: free once no lease is given */
} node_lane_t;

typedef struct {
    uint32_t given;
    uint32_t inside; /* of these, in placement groups */
    bool owing;      /* a leased worker owes */
} node_leases_t;

/* Opens a lane for the shape, if it is of CPUs alone, and there is a lane left. */
void node_lane_open(node_job_t *job, uint32_t shape);
/* The job is to end: its lanes ask for nothing any more. */
void node_lanes_close(node_job_t *job);
/* A placement group was removed: lanes of tasks in it are closed, and what lies there fails. */
void node_lanes_leave(node_t *node, const sched_group_t *group);
/* Nobody can name the job's lanes any more: another job may have them. */
void node_lanes_end(node_job_t *job);
/* The job whose lane asks, and which of its lanes it is; NULL: it is a task that asks. */
node_job_t *node_lane_asks(const sched_task_t *task, uint32_t *ret_lane);
/* How many tasks lie in the lane's queues; a moment's truth. */
uint64_t node_lane_queued(const node_job_t *job, uint32_t lane);
/* How far those queues have come that have tasks, and how many workers take from them. */
uint64_t node_lane_passed(const node_job_t *job, uint32_t lane, uint32_t *ret_workers);
/* The number of the job's lane in shared memory. */
uint32_t node_lane_number(const node_job_t *job, uint32_t lane);
/* A process that died may have taken a queue's bit and not looked again. */
void node_queues_note(node_t *node);

/* Asks the scheduler for one more lease in each lane that has more to do than workers for it. */
void node_lease_request(node_job_t *job);
/* The scheduler has given the lease that was asked for. */
void node_lease_granted(node_job_t *job, uint32_t lane, const sched_lease_t *lease);
/* Gives an idle worker a lease that waits for a worker. False: none does. */
bool node_lease_claim(node_client_t *worker);
/* No worker can be had for the leases that wait for one: they go back. */
void node_lease_abandon(node_pool_t *pool);
/* The worker has given its lease back. */
void node_lease_returned(node_client_t *worker);
/* The worker's task goes on after its CPU was lent. */
void node_lease_unblocked(node_client_t *worker);
/* The worker is certainly dead. */
void node_lease_forget(node_client_t *worker);

/* Gives other tasks the CPUs that leases can spare; true if a task may start now that could not
 * before. */
bool node_leases_yield(node_t *node);
/* Takes back the leases of workers that run nothing. */
void node_leases_take_free(node_t *node);
/* Takes back or recalls all leases: nothing new is to be begun. */
void node_leases_recall(node_t *node);
/* CPUs of leases on the node itself whose workers run nothing. `ret_busy`: some run something, and
 * nobody will say when they are done. */
int64_t node_leases_spare(node_t *node, bool *ret_busy);
/* How many leased workers are between two tasks, or about to be free. */
size_t node_leases_due(node_t *node);

/* Notes in the timeline what the worker has run since the last look. */
void node_events_read(node_client_t *worker);
/* The name of a task that lies in a queue or was taken from one, for people to read. False: not to
 * be had easily. */
bool node_record_name(node_t *node, uint32_t record, char *ret_name, size_t capacity);

#endif
