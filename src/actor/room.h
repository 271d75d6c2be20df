/* What the files of this room share. Nobody else includes it. */
#ifndef ACTOR_ROOM_H
#define ACTOR_ROOM_H

#include "actor/actor.h"
#include "actor/list.h"
#include "actor/message.h"
#include "actor/script.h"
#include "base/map.h"
#include "base/rule.h"
#include "base/vec.h"

/* ---- peers ---- */

typedef struct {
    uint64_t incarnation;
    uint64_t silent_ms;      /* since; of one in room's silent */
    actor_link_t in_silent;  /* room's silent */
    actor_link_t placed;     /* records whose epoch is there */
    actor_link_t watches;    /* of records here, by stubs there */
    actor_link_t homed;      /* seats here of actors whose home it is */
    actor_link_t callers;    /* of seats here, from there */
    actor_link_t stubs_home; /* stubs here of actors whose home it is */
    actor_link_t stubs_node; /* stubs here whose calls go there */
} peer_t;

/* An actor, a peer, and a number of the peer's own. */
typedef struct {
    actor_key_t id;
    uint8_t peer[8], number[8];
} peer_key_t;

static inline peer_key_t peer_key(frame_id_t id, uint64_t peer, uint64_t number) {
    peer_key_t key = {.id = actor_key(id)};
    memcpy(key.peer, &peer, sizeof key.peer);
    memcpy(key.number, &number, sizeof key.number);
    return key;
}

/* ---- questions to the control state (ask.c) ---- */

typedef enum {
    ASK_NONE,
    ASK_TAKE,
    ASK_MOVE,
    ASK_ALIVE,
    ASK_KILL,
    ASK_END,
    ASK_ADOPT,
    ASK_BEGIN,
    ASK_FORGET,
    ASK_LOOK,
    ASK_FIND,
    ASK_HOMES,
    ASK_SWEEP,
    ASK_SAY_RECORD,
    ASK_SAY_SEAT,
} ask_kind_t;

/* Lies in what it is about. At most one answer, and none after question_cancel. */
typedef struct {
    ask_kind_t kind; /* ASK_NONE: nothing is asked */
    uint64_t number; /* under which it was asked; 0: it is deferred */
    void *owner;
    uint64_t since_ms;
    actor_link_t in_deferred;
} question_t;

void question_ask(actor_t *room, question_t *q, ask_kind_t kind, void *owner);
void question_cancel(actor_t *room, question_t *q);
/* Asks what was deferred, if it can be asked now. */
void question_retry(actor_t *room);

/* ---- authority ---- */

typedef enum {
    PHASE_LOAD,  /* adopted; what is kept is not known yet */
    PHASE_NONE,  /* it has no node */
    PHASE_PLACE, /* one is looked for */
    PHASE_MOVE,  /* there is one; the epoch is to be moved there */
    PHASE_SENT,  /* the creation was sent there */
    PHASE_MADE,  /* its constructor has ended; that is to be kept */
    PHASE_ALIVE,
    PHASE_END,  /* its end is to be kept */
    PHASE_DEAD, /* remembered */
} phase_t;

typedef struct {
    actor_facts_t facts; /* as they are kept; spec is the record's own */
    actor_life_t life;
    phase_t phase;
    bool is_adopted, is_kept; /* in the control state */
    bool is_named_ours;       /* the name was taken */
    bool is_kill_kept, is_unwanted;
    bool is_placing;    /* ops.place has to answer */
    uint64_t next_node; /* of PHASE_MOVE */
    actor_request_t next_request;
    uint64_t due_ms; /* of PHASE_NONE, PHASE_DEAD, or the next repeat */
    question_t ask, say;
    actor_link_t in_records, in_restless, in_placed, watches;
} record_t;

/* A stub's node that is to be told. */
typedef struct {
    record_t *record;
    uint64_t peer;
    actor_link_t in_record, in_peer;
} watch_t;

record_t *record_find(const actor_t *room, frame_id_t id);
record_t *record_new(actor_t *room, const actor_facts_t *facts);
void record_free(actor_t *room, record_t *record);
void record_step(actor_t *room, record_t *record);
void record_load(actor_t *room, record_t *record, const actor_facts_t *facts);
void record_answered(actor_t *room, record_t *record, ask_kind_t kind, actor_say_t what,
                     base_reader_t *r);
void record_tick(actor_t *room, record_t *record);
void record_seat_gone(actor_t *room, record_t *record, actor_end_t end);
void record_kill(actor_t *room, record_t *record, bool no_restart);
mob_status_t record_watch(actor_t *room, frame_id_t id, uint64_t peer);
void record_unwatch(actor_t *room, frame_id_t id, uint64_t peer);
void watch_free(actor_t *room, watch_t *watch);
/* Where the actor is, to all; that it is dead, to all, which forgets them. */
void watches_tell(actor_t *room, const record_t *r);
void watches_end(actor_t *room, record_t *r);
void record_made(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch);
void record_refused(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch);
void record_ended(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch, actor_end_t end,
                  bool has_answered);

/* ---- the leader's part (orphan.c) ---- */

void orphan_walk(actor_t *room);
void orphan_answered(actor_t *room, ask_kind_t kind, base_reader_t *r);
void orphan_abandon(actor_t *room);
/* If this node leads, and the home is dead. */
void orphan_adopt(actor_t *room, frame_id_t id);

/* ---- seat ---- */

typedef enum {
    SEAT_CONFIRM, /* the control state is asked whether it may begin */
    SEAT_WAITS,   /* it may begin when the node does not pause */
    SEAT_MAKES,
    SEAT_ALIVE,
    SEAT_ENDED,
    SEAT_REFUSED,
} seat_state_t;

typedef struct {
    actor_facts_t facts; /* spec is the seat's own */
    seat_state_t state;
    actor_end_t end;
    bool is_stopping, is_shot, has_answered;
    bool is_over;      /* its end was confirmed, or nobody asks for it */
    uint64_t asked_by; /* who sent the creation last */
    uint64_t due_ms;   /* of one in room's resting */
    uint32_t running;
    question_t ask, say;
    actor_link_t in_seats, in_homed, in_paused, in_resting;
    actor_link_t callers, ready; /* those with calls; those whose first call can begin */
} seat_t;

seat_t *seat_find(const actor_t *room, frame_id_t id);
mob_status_t seat_create(actor_t *room, uint64_t from, const actor_facts_t *facts);
void seat_end(actor_t *room, seat_t *seat, actor_end_t end);
void seat_stop(actor_t *room, seat_t *seat);
void seat_over(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch);
void seat_free(actor_t *room, seat_t *seat);
void seat_confirmed(actor_t *room, seat_t *seat, actor_say_t what);
void seat_forget(actor_t *room, seat_t *seat, actor_say_t what, base_reader_t *r);
void seat_go_on(actor_t *room, seat_t *seat);
void seat_tick(actor_t *room, seat_t *seat);

/* ---- a seat's calls (run.c) ---- */

typedef struct {
    seat_t *seat;
    uint64_t peer, number;
    actor_link_t in_seat, in_ready, in_peer;
    actor_link_t calls; /* that wait, in order */
    actor_link_t begun;
} caller_t;

typedef struct {
    caller_t *caller;
    uint64_t number; /* in the node's books */
    uint64_t token;  /* at the stub; by that, and the stub's node, in the room's `asked` */
    bool is_ready, is_begun;
    actor_link_t in_caller;
} run_t;

mob_status_t run_come(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch, uint64_t number,
                      uint64_t token, const void *bytes, size_t size);
void run_pump(actor_t *room, seat_t *seat);
void run_cancel(actor_t *room, uint64_t from, frame_id_t id, uint64_t token, bool recursive);
/* The process is gone: what was begun is lost, the rest goes back. */
void run_end_all(actor_t *room, seat_t *seat);
void caller_drop(actor_t *room, caller_t *caller);

/* ---- stub ---- */

typedef struct {
    frame_id_t id;
    uint8_t flags;
    uint64_t handles;
    uint64_t epoch, node;           /* where calls go; node 0: nowhere */
    uint64_t next_epoch, next_node; /* told; the stub goes there when all of `epoch` is answered */
    bool is_dead, is_looking;       /* the home was asked */
    bool is_over;                   /* nothing more is sent in `epoch` */
    size_t sent;                    /* unanswered */
    uint64_t looking_ms;            /* since; of one in room's looking */
    actor_link_t calls;             /* in order: those that were sent, then the others */
    actor_link_t *unsent;           /* the first of the others, or the list itself */
    question_t ask;
    actor_link_t in_stubs, in_home, in_node, in_looking;
} stub_t;

typedef struct {
    stub_t *stub;
    uint64_t caller, token;
    int32_t retries;
    bool is_sent, is_back, is_cancelled;
    size_t size;
    actor_link_t in_stub;
    uint8_t bytes[];
} call_t;

/* BOUNCED: it was not begun, for its epoch is over; CANCELLED: for it was cancelled. */
typedef enum { ANSWER_DONE, ANSWER_BOUNCED, ANSWER_LOST, ANSWER_CANCELLED } answer_t;

void stub_free(actor_t *room, stub_t *stub);
void stub_tick(actor_t *room, stub_t *stub);
void stub_alive(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch, uint64_t node);
void stub_dead(actor_t *room, uint64_t from, frame_id_t id);
void stub_answered(actor_t *room, uint64_t from, uint64_t token, answer_t what, mob_status_t status,
                   const void *bytes, size_t size);
void stub_read(actor_t *room, stub_t *stub, actor_say_t what, base_reader_t *r);
void stub_home_died(actor_t *room, stub_t *stub);
void stub_node_died(actor_t *room, stub_t *stub);
void stub_silent(actor_t *room, stub_t *stub);

/* ---- the room ---- */

/* A kill that the authority has not noted yet, or a name that is looked for. */
typedef struct {
    frame_id_t id;
    uint8_t flags;
    bool no_restart;
    uint64_t number;
    uint8_t name[ACTOR_NAME_SIZE];
    uint64_t token, due_ms;
    question_t ask;
    actor_link_t in_room;
} errand_t;

struct actor {
    const actor_ops_t *ops;
    void *context;
    uint64_t self, leader, now_ms, numbers; /* given out */
    uint64_t master, settled;
    bool is_paused, is_saying;
    size_t said_left; /* facts that the new master has not answered for */
    base_map_t peers, records, watches, seats, callers, runs, asked, stubs, calls, questions, kills;
    actor_link_t all_records, all_seats, all_stubs;
    actor_link_t restless; /* records that wait for time, or for a repeat */
    actor_link_t paused;   /* seats that have something to begin */
    actor_link_t resting;  /* seats that report again, or are to be forgotten */
    actor_link_t looking;  /* stubs that wait for the control state, or to hear of a node */
    actor_link_t silent;   /* peers */
    actor_link_t deferred; /* questions */
    actor_link_t errands, finds;
    question_t walk; /* the leader's */
    uint64_t walk_home, walk_ms;
    frame_id_t walk_id;
    VEC(uint64_t) walk_dead; /* homes that are to be swept */
};

enum { HEAD_MAX = 96 };

/* The head of a message: its kind, the actor, the epoch. More numbers may follow. */
base_writer_t head_begin(uint8_t *head, uint8_t kind, frame_id_t id, uint64_t epoch);
void head_send(actor_t *room, uint64_t to, const base_writer_t *head, const void *body,
               size_t body_size);
void message_send(actor_t *room, uint64_t to, uint8_t kind, frame_id_t id, uint64_t epoch);

/* NULL: no memory. */
peer_t *peer_of(actor_t *room, uint64_t incarnation);
static inline peer_t *peer_find(const actor_t *room, uint64_t incarnation) {
    return base_map_get(&room->peers, &incarnation);
}
/* Whose tombstone is known. */
bool peer_is_dead(const actor_t *room, uint64_t incarnation);
/* Who decides about the actor now; 0: nobody is known. */
uint64_t authority_of(const actor_t *room, frame_id_t id, uint8_t flags);

#endif
