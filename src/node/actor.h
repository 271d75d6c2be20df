/* Actors: one worker each, calls of one caller in order. actor.c has their states. */
#ifndef NODE_ACTOR_H
#define NODE_ACTOR_H

#include <sys/types.h>

#include "mobula.h"
#include "node/types.h"

/* Calls of one caller that go through the daemon, in order. */
typedef struct {
    uint32_t caller;
    node_task_t *head, *tail;
} node_calls_t;

struct node_actor {
    mob_ref_t id;
    node_task_t *creation; /* until it is done */
    node_client_t *worker;
    VEC(node_calls_t) callers;
    VEC(uint32_t) queues; /* of calls that do not go through us */
    uint32_t in_flight;
    enum { NODE_ACTOR_PENDING, NODE_ACTOR_ALIVE, NODE_ACTOR_DEAD } state;
    bool released; /* nobody has a handle any more: ends when its calls are done */
    bool killed;   /* by ray.kill */
    bool quiet; /* nobody need be told of calls that it did not answer: its end was wanted, or was
                   told */
    bool init_failed; /* it could not be made */
    pid_t pid;        /* of its process, or the last one it had */
    char name[64];
    char cause[256];
};

/* A call of an actor whose creation was not read yet; without a call: it is to be killed. */
typedef struct {
    mob_ref_t actor;
    node_task_t *call;
    uint64_t round; /* in which it was read */
} node_early_t;

typedef struct {
    VEC(node_early_t) early; /* about actors not yet created; settled once all rings were read */
} node_actors_t;

/* A creation was submitted. */
void node_actor_create(node_t *node, node_task_t *task);
/* Its creation is done: it is alive, or dead because its constructor raised. */
void node_actor_created(node_t *node, node_task_t *task);
/* A call that goes through the daemon. Takes the task: it may be failed at once. */
void node_actor_call(node_t *node, node_task_t *task, mob_ref_t id);
/* Hands on what was said of an actor before its creation was read. The actor, and its creation, may
 * be gone afterwards. */
void node_actor_early(node_t *node, mob_ref_t id);
/* Fails the early calls of former rounds: every ring was read since. */
void node_actors_settle(node_t *node);
/* Hands calls whose arguments are there to the worker, the callers in turn. */
void node_actor_pump(node_t *node, node_actor_t *actor);
/* ray.kill. */
void node_actor_kill(node_t *node, mob_ref_t id);
/* Nobody has a handle any more. */
void node_actor_release(node_t *node, node_actor_t *actor);
/* Its worker is certainly dead, or will never be: calls fail with `cause`, which is borrowed. */
void node_actor_died(node_t *node, node_actor_t *actor, const char *cause);
/* A call whose actor can't answer it fails: why, in a sentence about the actor. */
void node_actor_call_fail(node_t *node, node_task_t *call, mob_status_t status, const char *why);
/* Its process died in the constructor. */
void node_actor_creation_lost(node_t *node, node_task_t *creation, mob_status_t status,
                              const char *how);
/* Its id in hexadecimal digits, as ObjectRef.hex gives it, with a zero at the end. */
void node_actor_id_text(const node_t *node, const node_actor_t *actor,
                        char ret_text[2 * MOB_ID_SIZE + 1]);
/* Tells its worker to end if nobody has a handle and its calls are done. */
void node_actor_try_end(node_t *node, node_actor_t *actor);

#endif
