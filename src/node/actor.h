/* Actors: one worker each, calls of one caller in order. actor/life.h has their states; restart.h
 * what happens when a process of theirs dies. */
#ifndef NODE_ACTOR_H
#define NODE_ACTOR_H

#include <sys/types.h>

#include "actor/life.h"
#include "mobula.h"
#include "node/name.h"
#include "node/types.h"

/* Calls of one caller and concurrency group that go through the daemon, in order. */
typedef struct {
    uint32_t caller;
    uint8_t group;
    node_task_t *head, *tail;
} node_calls_t;

struct node_actor {
    mob_ref_t id;
    node_job_t *job; /* its worker's; NULL: it is dead */
    actor_life_t life;
    node_task_t *creation; /* until it is done, and as long as it may have to be run again */
    node_client_t *worker;
    node_task_t *first; /* calls that come before all others once it is alive again, in order */
    VEC(node_calls_t) callers;
    node_task_t *aside;   /* of one out of order: calls that wait for arguments, in no order */
    VEC(uint32_t) queues; /* of calls that do not go through the daemon */
    uint32_t in_flight;
    uint32_t limit; /* calls that it may run at once */
    uint32_t slots; /* deadlock.c's: its number among the resources, in look number `look` */
    uint64_t look;
    node_named_t *named; /* NULL: it has no name, and is not detached */
    bool out_of_order;   /* a call that waits for an argument holds up no other */
    bool orphaned;       /* its job ends */
    bool released;       /* no handle is left: the actor ends when its calls are done */
    bool shot;           /* its process was killed by ray.kill(no_restart=False) */
    bool quiet; /* the driver is not told of the calls that it did not answer: its end was wanted,
                   or the driver knows of it */
    bool init_failed;        /* it could not be made */
    mob_status_t end_status; /* of what could not be done, if the daemon has ended it... */
    char *end_cause;         /* ... and why; NULL: it has not */
    pid_t pid;               /* of its process, or the last one it had */
    uint64_t runs;           /* of its worker, when that became the actor, as its events count */
    struct node_far *far;    /* it lives on another node (cluster/actor_stub.h); NULL: here */
    struct node_seat *seat;  /* other nodes call it (cluster/actor_seat.h); NULL: none does */
    actor_end_t end;         /* how its process ended, or why it had none */
    uint64_t due_ns;         /* when it is made again, if it waits for that; else 0 */
    char name[64];
    char cause[512];
    char *words; /* of its constructor, which raised when the actor was made again; or NULL */
};

/* A call, or with `call` NULL a kill, of an actor whose creation the daemon has not read yet. */
typedef struct {
    mob_ref_t actor;
    node_task_t *call;
    uint64_t round; /* in which it was read */
} node_early_t;

typedef struct {
    VEC(node_early_t) early;  /* about actors not yet created; settled once all rings were read */
    VEC(node_actor_t *) held; /* are made again after a pause */
} node_actors_t;

/* A creation was submitted. */
void node_actor_create(node_t *node, node_task_t *task);
/* The creation is done: the actor is alive, or dead because its constructor raised. True: the actor
 * keeps the creation, which it may have to run again. */
bool node_actor_created(node_t *node, node_task_t *task);
/* A call that goes through the daemon. Takes the task, which may fail at once. */
void node_actor_call(node_t *node, node_task_t *task, mob_ref_t id);
/* Hands on the calls and kills of an actor that came before its creation. The actor, and its
 * creation, may be gone afterwards. */
void node_actor_early(node_t *node, mob_ref_t id);
/* Fails the early calls of former rounds: every ring was read since. */
void node_actors_settle(node_t *node);
/* The arguments of a call that waits are there. */
void node_actor_call_ready(node_t *node, node_task_t *call);
/* The call does not wait beside the rows any more; false: it did not. */
bool node_actor_aside_remove(node_actor_t *actor, node_task_t *call);
/* Hands calls whose arguments are there to the worker, the callers in turn. */
void node_actor_pump(node_t *node, node_actor_t *actor);
/* ray.kill; `may_restart`: only its process is killed. */
void node_actor_kill(node_t *node, mob_ref_t id, bool may_restart);
/* It is killed, and not made again, for this reason, which is borrowed: its calls fail with it. */
void node_actor_end(node_t *node, node_actor_t *actor, mob_status_t status, const char *cause);
/* Its job ends: it is not made again, and dies when its process has ended. */
void node_actor_orphan(node_t *node, node_actor_t *actor);
/* No process has a handle to the actor any more. */
void node_actor_release(node_t *node, node_actor_t *actor);
/* There will be no worker for it: it is dead. `cause` is borrowed. */
void node_actor_died(node_t *node, node_actor_t *actor, const char *cause);
/* The actor is DEAD, and certainly has no process: its calls fail with `cause`, which is borrowed.
 * The actor may be gone afterwards. */
void node_actor_bury(node_t *node, node_actor_t *actor, const char *cause);
/* Notes the actor's state for people. */
void node_actor_note(node_t *node, const node_actor_t *actor);
/* Fails a call that its actor can't answer. `why` is a sentence about the actor. */
void node_actor_call_fail(node_t *node, node_task_t *call, mob_status_t status, const char *why);
/* The same, with the error that is the actor's value, if it is one, or by what else is known. */
void node_actor_call_die(node_t *node, node_task_t *call, const char *why);
/* The actor's id in hexadecimal digits, as ObjectRef.hex gives it, with a zero at the end. */
void node_actor_id_text(const node_t *node, const node_actor_t *actor,
                        char ret_text[2 * MOB_ID_SIZE + 1]);
/* Tells the actor's worker to end if no handle is left and its calls are done. */
void node_actor_try_end(node_t *node, node_actor_t *actor);

#endif
