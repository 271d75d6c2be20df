/*
 * Workers of one setup in a job: those that are started, those that are idle, and tasks that wait
 * for one. A job has a pool for itself, and one for each runtime environment that its tasks name.
 */
#ifndef NODE_POOL_H
#define NODE_POOL_H

#include "node/cluster/guestjob.h"
#include "node/environment.h"
#include "node/types.h"
#include "wire/message.h"

struct node_pool {
    node_job_t *job;
    node_setup_t *setup; /* NULL: an environment's that is not open */
    void *
        environment; /* how a client described it: a wire_setup_t of changes; NULL: the job's own */
    size_t environment_size;
    uint8_t name[NODE_ENVIRONMENT_NAME]; /* the same for the same description */
    node_told_t told;                    /* nodes that have the environment */
    uint32_t workers;                    /* that are there or asked for, actors too */
    uint32_t number; /* in its job, and the tag of its tasks' shapes; 0: the job's own */
    VEC(node_client_t *) starting;              /* workers that were asked for */
    VEC(node_client_t *) idle;                  /* the one that became idle last is the last */
    bool spares_wanted;                         /* there may be fewer workers than are kept ready */
    int failures;                               /* workers in a row that ended at once */
    uint64_t first_failure_ns, last_failure_ns; /* of that series */
    node_task_t *wait_head, *wait_tail;         /* have their resources, wait for a worker */
    uint32_t waiting;                           /* tasks and leases that wait for a worker */
};

/* A pool of the job, the last of its list; takes the setup's hold, also if it fails. NULL: of an
 * environment. MOB_ENOMEM. */
mob_status_t node_pool_new(node_job_t *job, node_setup_t *setup);
/* No worker of it is left. */
void node_pool_free(node_pool_t *pool);
/* The pool whose workers run tasks of this shape. */
node_pool_t *node_pool_of(const node_job_t *job, uint32_t shape);
/* The job's own pool. */
node_pool_t *node_pool_first(const node_job_t *job);

/* ---- starting ---- */

/* Starts as many workers as tasks wait for, and spares; sends home what is idle for long. */
void node_pool_fill(node_pool_t *pool);
/* A worker has connected: it becomes the one that was asked for under its token. */
void node_worker_hello(node_client_t *connection, uint64_t token);
/* The worker that was asked for will not come. */
void node_worker_start_failed(node_client_t *worker);
/* The worker can't have its pipes: gives it up for now. `why` is borrowed. */
void node_worker_give_up(node_client_t *worker, const char *why);
/* A worker ended without having run anything. After some in a row, the tasks that wait for one
 * fail. `by_itself`: nobody killed it. */
void node_worker_useless(node_pool_t *pool, const char *how, bool by_itself);

/* ---- workers that have nothing to do ---- */

/* Takes the worker that became idle last out of the pool; NULL: none. */
node_client_t *node_worker_idle(node_pool_t *pool);
/* The worker has nothing to do now: it gets a task or a lease that waits, or is idle. */
void node_worker_free(node_client_t *worker);
/* Sends an idle worker home. False: tasks that it submitted are open, and would be cancelled with
 * it. */
bool node_worker_retire(node_client_t *worker);
/* The task has its resources and waits for a worker. */
void node_pool_wait(node_task_t *task);
/* ... and does not any more. */
void node_pool_unwait(node_task_t *task);
/* No worker can be had: tasks that wait for one fail, as cancelled if their job ends. `text` is
 * borrowed. */
void node_pool_fail(node_pool_t *pool, mob_status_t status, const char *text);
/* The worker can't run anything, and ends: its runtime environment is at fault. */
void node_worker_unfit(node_client_t *worker, const wire_message_t *message);
/* How many workers have published the results of what they run and not told the daemon yet. They
 * are about to, unless they were killed. */
size_t node_workers_due(node_t *node, bool actors_too);

/* ---- its end ---- */

/* The worker is certainly dead: its tasks run again or fail, its actor is dead. */
void node_worker_forget(node_client_t *worker);
/* How the worker ended, for people. */
void node_worker_exit_text(const node_client_t *worker, char *ret_text, size_t size);

#endif
