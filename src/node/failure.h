/*
 * What the daemon tells the driver of failures that it might not hear of. That is bounded: each of
 * them may be counted instead. failure.c has the rules.
 */
#ifndef NODE_FAILURE_H
#define NODE_FAILURE_H

#include <sys/types.h>
#include <uv.h>

#include "mobula.h"
#include "node/types.h"
#include "wire/message.h"

/* A failure that a job's driver was told of a moment ago, and how many were like it since. */
typedef struct {
    uint64_t hash, repeats;
    uint32_t kind;
    char line[256];
} node_failure_t;

enum { NODE_FAILURES_MOST = 32 };

typedef struct {
    uv_timer_t timer; /* runs while a job has some */
} node_failing_t;

/* A job's. */
typedef struct {
    node_failure_t told[NODE_FAILURES_MOST];
    uint32_t count;
    uint64_t left_out;
} node_failures_t;

/* At the start. */
mob_status_t node_failures_start(node_t *node);
/* Tells what was counted. False: there is nothing left to count. */
bool node_failures_flush(node_job_t *job);
/* The slot is about to be freed: tells the driver of an error in it that no process has seen. */
void node_failure_freed(node_t *node, mob_ref_t ref);
/* A run failed that has no results. */
void node_failure_said(node_client_t *client, const wire_message_t *message);
/* The actor has an error as its value, which says why it could not be made. */
void node_failure_creation(node_t *node, const node_actor_t *actor, pid_t pid);
/* The actor's process died, as `how` tells, and the actor is made again. */
void node_failure_restart(const node_actor_t *actor, const char *how);
/* The object's value was lost, and is made again. */
void node_failure_lost(node_t *node, const node_object_t *object);
/* The task is run again; `retries` are left, this one among them; -1: without end. `why` is
 * borrowed. */
void node_failure_retry(const node_task_t *task, int32_t retries, const char *why, size_t size);

#endif
