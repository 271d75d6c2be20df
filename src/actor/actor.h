/*
 * The actors of a cluster, as one node sees them (cluster: C7). Three roles, in one handle:
 *
 *   authority   moves an actor from epoch to epoch: its home, and for a detached actor whose home
 *               is dead the leader
 *   seat        the node where an epoch of the actor runs, and its calls
 *   stub        the caller's node: sends calls in order, and says what became of them
 *
 * An algorithm only: no I/O, no clock, no chance, no threads. What it wants done it says through
 * actor_ops_t; none of these may call back into the room before it returns. Messages and answers
 * come by the calls below. Ids, epochs and messages of peers may be anything: what makes no sense
 * is MOB_EPROTO, what a peer has no right to is ignored; neither changes anything.
 *
 * Memory that can't be had is a status where a user asked for something. Elsewhere the step is kept
 * and tried again at the next actor_tick.
 */
#ifndef ACTOR_ACTOR_H
#define ACTOR_ACTOR_H

#include "actor/facts.h"
#include "actor/life.h"
#include "control/script.h"

typedef struct actor actor_t;

enum {
    ACTOR_TICK_MS = 250,      /* at least so often is actor_tick to be called */
    ACTOR_PATIENCE_MS = 2000, /* of a peer's silence after it was told: then calls fail that may
                                 not run again */
    ACTOR_CONTROL_MS = 5000,  /* of the control state's silence: then calls fail */
    ACTOR_KEPT_MS = 10000,    /* ends are remembered so long */
};

typedef struct actor_ops {
    /* A message, in two pieces, to the same room of a peer, which may be this node itself: then it
     * is received later too, in order. `is_answer`: it is sent even if the link is full. */
    void (*send)(void *context, uint64_t to, const void *head, size_t head_size, const void *body,
                 size_t body_size, bool is_answer);
    /* Asks the control state; asked again until it answers by actor_answered. */
    void (*ask)(void *context, script_fn script, const void *arguments, size_t size,
                uint64_t question);
    /* What this room knows was said to this master. */
    void (*said)(void *context, uint64_t master);
    bool (*is_dead)(void *context, uint64_t peer); /* its tombstone is known here */

    /* Authority. Find a node for it; later actor_placed, however long that takes. */
    void (*place)(void *context, frame_id_t id);
    /* At its home: it will be made (MOB_OK), or another has its name (MOB_EEXISTS): then there is
     * no such actor. */
    void (*created)(void *context, frame_id_t id, mob_status_t status);
    /* It is dead for good, and so is its last process. */
    void (*ended)(void *context, frame_id_t id);

    /* Seat. Run the constructor in a process of its own: later actor_process_made or _ended. */
    void (*make)(void *context, frame_id_t id, uint64_t epoch, const void *spec, size_t size);
    /* End the process, if there is one: later actor_process_ended, once it is certainly gone. */
    void (*stop)(void *context, frame_id_t id, uint64_t epoch);
    /* A call has come: fetch its arguments, then actor_call_ready. The bytes are borrowed for the
     * time of this call. */
    void (*fetch)(void *context, uint64_t call, frame_id_t id, uint64_t epoch, const void *bytes,
                  size_t size);
    /* Run it now, or, if `begins` is false, forget it: it will not be run here. */
    void (*run)(void *context, uint64_t call, bool begins);
    /* Break off this call, which has begun: actor_call_done follows as ever. `recursive`: and what
     * it has submitted. */
    void (*cancel)(void *context, uint64_t call, bool recursive);

    /* Stub. The answer to the call with this token: MOB_OK and the result; what the run said;
     * MOB_EACTOR: the actor is dead; MOB_EUNAVAILABLE: nobody knows whether it ran;
     * MOB_ECANCELLED: it was cancelled, and is not run (again). */
    void (*answer)(void *context, uint64_t token, mob_status_t status, const void *bytes,
                   size_t size);
    /* No handle is open here any more and no call waits: the node may give back its reference. */
    void (*released)(void *context, frame_id_t id);
    /* The answer to actor_name_find: MOB_OK, MOB_ENONAME, MOB_ECLOSED: the control state did not
     * answer in time. */
    void (*found)(void *context, uint64_t token, mob_status_t status, frame_id_t id, uint8_t flags);
} actor_ops_t;

/* ---- the room ---- */

/* `self`: this node's incarnation; `master`: of the control state. Nothing is asked of it before
 * actor_settled. */
mob_status_t actor_new(const actor_ops_t *ops, void *context, uint64_t self, uint64_t master,
                       uint64_t now_ms, actor_t **ret_actor);
void actor_free(actor_t *room); /* NULL is fine; says nothing to anybody */

/* MOB_EPROTO: this is no message. MOB_ENOMEM: nothing was changed; give it again. */
mob_status_t actor_receive(actor_t *room, uint64_t from, const void *bytes, size_t size);
void actor_answered(actor_t *room, uint64_t question, uint64_t master, const void *answer,
                    size_t size);
void actor_tick(actor_t *room, uint64_t now_ms);
/* The peer's tombstone: nothing of it will come any more. */
void actor_peer_died(actor_t *room, uint64_t peer);
void actor_peer_silent(actor_t *room, uint64_t peer, bool is_silent);
/* While it is paused, this node begins no call and no creation. */
void actor_pause(actor_t *room, bool is_paused);
void actor_leader(actor_t *room, uint64_t leader);
/* The control state has a new master, before its first answer; later: every node has said to it
 * what it knows. */
void actor_master(actor_t *room, uint64_t master);
void actor_settled(actor_t *room, uint64_t master);

/* ---- authority ---- */

typedef struct {
    uint8_t flags; /* ACTOR_NAMED, ACTOR_DETACHED */
    uint8_t name[ACTOR_NAME_SIZE];
    int32_t max_restarts; /* below 0: without end */
    uint32_t limit;       /* calls at once, at least 1 */
    const void *bytes;    /* what ops.make is to have; copied */
    size_t size;          /* at most ACTOR_SPEC_MAX */
} actor_spec_t;

/* A new actor of this node. Its id was never used. MOB_EINVAL: it is another node's, or is known,
 * or the limit is 0; MOB_ELIMIT: its creation is too large; MOB_ENOMEM. */
mob_status_t actor_create(actor_t *room, frame_id_t id, const actor_spec_t *spec);
/* The answer to ops.place. */
void actor_placed(actor_t *room, frame_id_t id, uint64_t node);
/* Its last handle is gone, everywhere. Ignored for a detached actor. */
void actor_unwanted(actor_t *room, frame_id_t id);

/* ---- seat ---- */

/* Whether ops.make for a creation that has come was said, or may be. */
bool actor_seat_awaits(const actor_t *room, frame_id_t id);
void actor_process_made(actor_t *room, frame_id_t id, uint64_t epoch);
/* There is certainly no process of this epoch any more. */
void actor_process_ended(actor_t *room, frame_id_t id, uint64_t epoch, actor_end_t end);
/* This node will not run the constructor: nothing of it has begun. */
void actor_process_refused(actor_t *room, frame_id_t id, uint64_t epoch);
void actor_call_ready(actor_t *room, uint64_t call);
/* The run is over. MOB_OK or what went wrong, and the result. */
void actor_call_done(actor_t *room, uint64_t call, mob_status_t status, const void *bytes,
                     size_t size);

/* ---- stub ---- */

/* A handle of the actor is in use on this node; counted. MOB_ENOMEM. */
mob_status_t actor_handle_open(actor_t *room, frame_id_t id, uint8_t flags);
void actor_handle_close(actor_t *room, frame_id_t id);
/* It is a detached one, which the opener did not know: when its home dies the control state says
 * where it is. */
void actor_handle_detached(actor_t *room, frame_id_t id);
/* A call of one of this node's callers (number and epoch in one). Calls of one caller are begun in
 * the order of these calls. `retries`: how often it may be run again after its actor's process
 * died, -1 without end. `token` comes back with the one answer, and is never used for another call
 * of this node. A call is a use of the handle.
 * MOB_ESTALE: no handle is open; MOB_ENOMEM. */
mob_status_t actor_call(actor_t *room, frame_id_t id, uint64_t caller, uint64_t token,
                        int32_t retries, const void *bytes, size_t size);
/* The call with this token is to stop, wherever it is: it is never begun from now on, and a run of
 * it is broken off. It is answered as ever. One that is not known has been answered. */
void actor_cancel(actor_t *room, uint64_t token, bool recursive);
/* ray.kill, from any node. It is told to the authority until that has noted it. MOB_ENOMEM. */
mob_status_t actor_kill(actor_t *room, frame_id_t id, uint8_t flags, bool no_restart);
/* Whose name it is; ops.found has the answer. MOB_ENOMEM. */
mob_status_t actor_name_find(actor_t *room, const uint8_t name[ACTOR_NAME_SIZE], uint64_t token);

/* ---- what there is, for pages and checks ---- */

typedef struct {
    size_t actors; /* of which this node is the authority, those remembered included */
    size_t seats, calls, stubs, errands;
} actor_counts_t;

actor_counts_t actor_counts(const actor_t *room);
/* What the record here has for ops.make, borrowed; NULL: there is none here. */
const void *actor_spec_of(const actor_t *room, frame_id_t id, size_t *ret_size);
/* Where the stub sends calls now; 0: nowhere. */
uint64_t actor_stub_node(const actor_t *room, frame_id_t id);

#endif
