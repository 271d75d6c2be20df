/*
 * A task in the daemon's books: from WIRE_SUBMIT until its record is free again. task.c has its
 * way. Tasks that workers take from queues by themselves are queued.h's.
 */
#ifndef NODE_TASK_H
#define NODE_TASK_H

#include <sys/types.h>

#include "mobula.h"
#include "node/lease.h"
#include "node/types.h"
#include "sched/sched.h"
#include "wire/message.h"
#include "wire/record.h"

struct node_task {
    union {
        node_ask_t ask;
        sched_task_t queue;
    };                 /* first: the scheduler gives this back */
    node_job_t *job;   /* its submitter's, or its detached actor's; NULL: that has ended */
    node_task_t *next; /* in an actor's queue of one caller, among those that wait for a
                          worker, in an offer (`held_by`), or for a term (`awaits_term`) */
    node_task_t *prev; /* beside an actor's queues, if `aside`; in an offer; for a term */
    node_task_t *run_prev, *run_next; /* among those that were handed to one worker */
    uint64_t generation;              /* the record's, as of now */
    uint32_t record, submitter, shape, held_shape, max_calls;
    uint32_t num_returns, num_deps, num_refs;
    uint32_t missing;       /* arguments that are not there yet */
    int32_t retries;        /* left; -1 without end */
    uint8_t kind, oom_runs; /* oom_runs: that ended for want of memory */
    bool retries_exceptions;
    bool dynamic; /* as mob_task_t's */
    bool flows;   /* it gives out items: refs[1] is the flow's slot */
    bool waiting_for_worker;
    bool queued; /* workers take it from its submitter's queue, or one has: the daemon learns which
                    one when that says so, or dies */
    bool aside;  /* a call of an actor out of order that waits for an argument */
    bool held;   /* a creation that waits for the actor's name */
    bool awaits_term;                   /* the node's term is over: see term.h */
    bool adopted;                       /* a call of a dead caller's that was seen in its queue */
    bool interrupted;                   /* cancelled, and its worker breaks the run off */
    bool cancel_force, cancel_children; /* how */
    uint64_t cancelled; /* the generation under which it was; 0: it was not. It is not run again */
    uint64_t cancel_walk; /* the last walk that came by */
    uint64_t block;       /* of the body; 0: in the record */
    mob_ref_t function;
    node_actor_t *actor;
    bool stays;                 /* no peer takes it */
    uint8_t moves;              /* how often it came back from one */
    struct node_offer *offer;   /* by which it was sent to another node; NULL: it was not */
    struct node_offer *held_by; /* it waits there, for the leader says where it runs; NULL: no */
    bool kept;                  /* that is here */
    bool recalled;              /* it is at a peer, and is to come back: its submitter is dead */
    uint32_t written;           /* results of a peer's that are written */
    node_inflow_t *inflow;      /* its items come from the peer that has it; NULL: none do */
    node_visit_t *visit;        /* it is a peer's; NULL: it is not */
    node_remake_t *remake;      /* it makes lost objects again; NULL: it does not */
    node_client_t *worker;
    sched_lease_t lease;
    mob_ref_t refs[]; /* returns, deps, refs: private copies */
};

/* ---- from a client's messages ---- */

/* A record that goes through the daemon. */
void node_task_submit(node_client_t *client, uint32_t record, uint64_t generation);
/* A creation that is not to be scheduled yet: `held`. NULL: it makes no sense, and is the client's
 * fault. */
node_task_t *node_task_submit_held(node_client_t *client, uint32_t record, uint64_t generation);
/* The book on a record that its submitter has just published; NULL: it makes no sense, and is the
 * client's fault. */
node_task_t *node_task_submit_open(node_client_t *client, uint32_t record, uint64_t generation,
                                   mob_ref_t *ret_actor);
/* The worker has published the results. `crowd`: a client waits that the worker could not wake, or
 * a result is an error. */
void node_task_done(node_client_t *client, uint32_t record, uint64_t generation, bool crowd);
/* The worker is about to publish a large result, or has: its lineage is kept. */
void node_task_keep(node_client_t *client, uint32_t record, uint64_t generation);
/* The task raised, and may be run again; WIRE_RETRY, which is answered. */
void node_task_retry(node_client_t *client, const wire_message_t *message);
/* The worker finds that an argument is not there: the task before it is to run again. */
void node_task_unready(node_client_t *client, uint32_t record, uint64_t generation);

/* ---- a book ---- */

/* Copies the record and checks it, and holds what it names. Submitter 0 is the daemon itself.
 * `queued`: workers take it by themselves. NULL: it makes no sense, or no memory. */
node_task_t *node_task_open(node_job_t *job, uint32_t submitter, uint32_t record,
                            uint64_t generation, bool queued, mob_ref_t *ret_actor);
/* Lets go of what the task holds, but for its record and its resources, and forgets it: its worker
 * has done the rest. */
void node_task_forget(node_t *node, node_task_t *task);
/* The record gets a new generation, and what the last run of it left behind is void: it is READY to
 * be run again. Its worker, if it had one, is certainly dead or asked for this. */
void node_task_reset(node_t *node, node_task_t *task);
/* A creation that has run, and may have to be run again: from now on it is the daemon's own. */
void node_task_park(node_t *node, node_task_t *task);
/* Lets everything go that the task holds, and gives the record back; its results stay as they
 * are. */
void node_task_dismiss(node_t *node, node_task_t *task);
/* The record gets a new generation, and its body's block with it, so that a claim of the old one
 * fails for good. The record's word is the caller's to change. */
void node_task_renew(node_t *node, node_task_t *task);

/* Whether the body of a record, of which this is a private copy, lies in its owner's memory, or in
 * the daemon's, which wrote it from a frame. */
bool node_record_block_is(node_t *node, uint32_t owner, const wire_record_t *copy);
/* The parts of a record's body, by a private copy of the record. False: it makes no sense. */
bool node_record_split(node_t *node, uint32_t owner, const wire_record_t *copy,
                       wire_body_t *ret_body);

/* ---- on its way ---- */

/* Why it can never run, and the words for that; MOB_OK: it can. */
mob_status_t node_task_doom(const node_task_t *task, const char **ret_words);
/* Its arguments are there. */
void node_task_ready(node_task_t *task, node_t *node);
/* Hands the task to a worker, behind the tasks that it has. */
void node_task_run_on(node_t *node, node_task_t *task, node_client_t *worker);
/* Notes that this worker runs the task, without telling the worker, which knows. */
void node_task_link(node_task_t *task, node_client_t *worker);
/* Puts a task that was handed out behind another, and that its worker has not begun, back where it
 * was; in a job that ends it waits for that end. False if it has begun. */
bool node_task_take_back(node_t *node, node_task_t *task);
/* The worker has published the results: lets what waits for them go on, and frees the task. */
void node_task_complete(node_t *node, node_task_t *task);
/* Its results become this error, and it is freed. `text` is borrowed. */
void node_task_fail(node_t *node, node_task_t *task, mob_status_t status, const char *text);
/* The same, but the caller rings the bells. */
void node_task_end(node_t *node, node_task_t *task, mob_status_t status, const char *text);
/* Its job has ended, and the task goes on: a call of another job's actor. */
void node_task_disown(node_task_t *task);
/* How the worker of a task died. */
typedef struct {
    bool begun, oom, oom_again; /* as control_death_t's */
    bool with_node;             /* its node died; `how` names that */
    pid_t pid;
    const char *how;
} node_death_t;

/* The worker of a task that is no actor's is certainly dead, here or at a peer, and has not
 * finished it: runs it again, or fails it. */
void node_task_died(node_t *node, node_task_t *task, const node_death_t *death);
/* Its worker is certainly dead: completes it, runs it again, or fails it. */
void node_task_lost(node_t *node, node_task_t *task);

#endif
