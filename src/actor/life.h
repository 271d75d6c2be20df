/*
 * An actor's life: when it is made again after its process died, and what becomes of its calls.
 * Decisions only, without I/O; life.c has the states. For one thread.
 */
#ifndef ACTOR_LIFE_H
#define ACTOR_LIFE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    ACTOR_PENDING,    /* its first constructor waits or runs */
    ACTOR_ALIVE,      /* its constructor has ended */
    ACTOR_RESTARTING, /* its process died, and the constructor waits or runs again */
    ACTOR_DEAD,
} actor_state_t;

/* How a process of the actor ended, or why there will be none. */
typedef enum {
    ACTOR_CRASHED,    /* it died, and did not mean to */
    ACTOR_SHOT,       /* it was killed by a user who said that it may be made again */
    ACTOR_LEFT,       /* it ended by itself, on purpose */
    ACTOR_REFUSED,    /* the constructor raised */
    ACTOR_UNBEGUN,    /* it died before it began the constructor */
    ACTOR_IMPOSSIBLE, /* no process can be had */
} actor_end_t;

typedef struct {
    actor_state_t state;
    int32_t restarts_left; /* -1: without end */
    uint32_t restarts;     /* that there were */
    uint32_t unbegun;      /* processes that died before they began the constructor */
    uint32_t fruitless;    /* processes in a row that died before they had answered a call */
    bool made;   /* the constructor has ended once: the actor's handles have their value */
    bool killed; /* for good */
} actor_life_t;

/* max_restarts below 0: without end. */
void actor_life_init(actor_life_t *life, int32_t max_restarts);
/* Whether a death could be followed by a restart: then what is needed for one is to be kept. */
bool actor_life_may_restart(const actor_life_t *life);
/* The constructor has ended, without an error. */
void actor_life_made(actor_life_t *life);
/* The actor is to die for good; it is DEAD once actor_life_ended was called. */
void actor_life_kill(actor_life_t *life);
/* The actor's process has answered a call. */
void actor_life_answered(actor_life_t *life);
/* There is certainly no process of the actor any more. `wanted`: a handle is left, or a call waits.
 * True: the constructor is to be run again, after actor_life_pause_ms. False: the actor is DEAD. */
bool actor_life_ended(actor_life_t *life, actor_end_t end, bool wanted);
/* How long to wait before the constructor runs again: 0, unless it or its calls die again and
 * again. */
uint32_t actor_life_pause_ms(const actor_life_t *life);

/* What becomes of a call that the actor did not finish when its process died. */
typedef enum {
    ACTOR_CALL_WAITS,       /* it is run after the restart */
    ACTOR_CALL_UNAVAILABLE, /* it fails: it may have run in part, and the actor comes back */
    ACTOR_CALL_DIES,        /* it fails: the actor is dead */
} actor_fate_t;

/* Ask it after actor_life_ended. `begun`: the dead process had begun it. `retries`: how often it
 * may still be run again, -1 without end; one less afterwards if that was used. */
actor_fate_t actor_call_fate(const actor_life_t *life, bool begun, int32_t *retries);
/* A call has raised what it may be run again for. True: it is to be run again, before the calls
 * that its caller made after it. */
bool actor_call_again(int32_t *retries);

#endif
