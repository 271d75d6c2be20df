/*
 * Tasks in queues, as far as the daemon has to know of them: those with references among their
 * arguments, and those whose worker or submitter died. queued.c has the rules.
 */
#ifndef NODE_QUEUED_H
#define NODE_QUEUED_H

#include "mobula.h"
#include "node/types.h"

typedef struct {
    VEC(mob_ref_t) done_early; /* records whose worker was heard before their submitter */
} node_queued_t;

/* A book on a record that its submitter did not tell the daemon of, or not yet. NULL: the record
 * makes no sense, which need not be the submitter's fault; or the submitter is gone. */
node_task_t *node_queued_open(node_t *node, uint32_t record, uint64_t generation);
/* A record in the client's queue has references, or its function goes: opens a book on it. */
void node_task_arguments(node_client_t *client, uint32_t record, uint64_t generation);
/* A worker that takes tasks tells of a KNOWN record that it runs (`state` TAKEN) or has run (DONE):
 * opens a book on it if there is none. False: the message is put aside until the daemon hears the
 * submitter. */
bool node_queued_told(node_client_t *worker, uint32_t record, uint64_t generation, unsigned state);
/* Finds the tasks that a dead worker had taken from queues: its list of runs is complete then. */
void node_tasks_find_taken(node_client_t *worker);
/* Takes a record that `entry` names, and that no worker has begun, out of a queue of its owner's:
 * the record is the daemon's to run or to fail. NULL: it is begun, done, or makes no sense. */
node_task_t *node_task_take_over(node_t *node, uint32_t record, uint64_t entry, uint32_t owner);
/* The same, and it goes through the daemon from now on. */
void node_queued_return(node_t *node, uint32_t record, uint64_t generation, uint32_t owner);
/* A worker found a task in a queue that may not begin now (WIRE_POSTPONE). */
void node_queued_postpone(node_t *node, uint32_t record, uint64_t generation);
/* Keeps a book on a record that stays in its dead owner's queue, if no worker has begun it. */
void node_task_adopt(node_t *node, uint32_t record, uint64_t entry, uint32_t owner);
/* Whether something that the client submitted is not done. */
bool node_client_has_tasks(node_client_t *client);
/* A submitter died. Its tasks that no worker began, and whose results no other process knows of,
 * are cancelled; the others run. */
void node_tasks_cancel(node_client_t *client);
/* Fails the tasks that lie in the queues of a job's lane. */
void node_lane_fail(node_job_t *job, uint32_t lane, mob_status_t status, const char *text);
/* No worker can be had: what lies in the pool's queues fails. `text` is borrowed. */
void node_queues_fail(node_pool_t *pool, mob_status_t status, const char *text);

#endif
