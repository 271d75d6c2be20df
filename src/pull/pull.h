/*
 * Values that lie on other nodes: which copy each receiver reads from, and which of them may come
 * into a node's memory. README.md has the words and the rules.
 *
 * One pull_t is what one node knows: as the home of objects, where their copies are; as a holder of
 * copies, who reads them; as a receiver, what is wanted and what comes.
 *
 * Decisions only: no I/O, no clock, no chance. Bytes are moved by the node's bulk thread, by order
 * of `fetch` and `serve`. For one thread. The functions of pull_ops_t must not call the room: they
 * note what is asked of them, and do it later. Every call below may call any of them.
 *
 * Calls that return a status change nothing if it is MOB_ENOMEM, and may be made again.
 */
#ifndef PULL_PULL_H
#define PULL_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/script.h"
#include "frame/frame.h"
#include "mobula.h"

enum {
    PULL_CHUNK = 1 << 20, /* bytes of a chunk; the last one of a value may have fewer */
    PULL_AHEAD = 8,       /* chunks that a receiver asks a source for before the first has come */
    PULL_SERVES = 4,      /* chunks of a reading that the bulk thread is given to send at a time */
};
#define PULL_MS          UINT64_C(1000000)
#define PULL_STALL_NS    (1000 * PULL_MS) /* without a chunk: another source is asked for */
#define PULL_STALE_NS    (1500 * PULL_MS) /* the same, as the home sees it */
#define PULL_PATIENCE_NS (1000 * PULL_MS) /* of a task that waits for memory */
#define PULL_TELL_NS     (250 * PULL_MS)  /* progress is told to the home as often */
#define PULL_NOTE_NS     (100 * PULL_MS)  /* complete copies are told to the control state */
#define PULL_TICK_NS     (50 * PULL_MS)   /* how often pull_tick wants to be called */
#define PULL_SIZE_MAX    (UINT64_C(1) << 50)

typedef struct pull pull_t;
typedef struct pull_want pull_want_t;

/* Who wants a set of objects. The first kinds get memory first. */
typedef enum {
    PULL_GET,       /* a get: all its objects stay until the want ends */
    PULL_WAIT,      /* a wait, one object each: fetched, and then it is a copy that may go */
    PULL_ARGUMENTS, /* of a task that is to begin here: all stay until the want ends */
    PULL_CLASSES
} pull_class_t;

/* Which question to the control state an answer is of. The node gives it back as it got it. */
typedef struct pull_question {
    enum { PULL_FIND, PULL_WRITE, PULL_STRIKE } kind;
    uint64_t number;
    frame_id_t id;
} pull_question_t;

typedef struct pull_ops {
    /* To the room of a peer, in order. Answers are sent even if the link is full. */
    void (*send)(void *context, uint64_t peer, const void *bytes, size_t size, bool is_answer);
    /* Runs a script of the control state; pull_answered brings its answer, once, however long that
     * takes. */
    void (*ask)(void *context, const pull_question_t *question, script_fn script,
                const void *arguments, size_t size);
    /* The room has said its facts to this master of the control state (pull_master). */
    void (*said)(void *context, uint64_t master);

    /* At the home: what became of an object that pull_object_add has not named. MOB_OK: it is being
     * made; else why it will never be there. */
    mob_status_t (*object_state)(void *context, const frame_id_t *id);
    /* At the home: no copy is left. The node makes it again and adds it with a greater version, or
     * frees it. It may be said again while the node makes it: a copy had turned up, and is gone. */
    void (*lost)(void *context, const frame_id_t *id);
    /* The home is dead, and this node's copy belongs to this node: it goes by pull_copy_drop. */
    void (*owned)(void *context, const frame_id_t *id);

    /* Memory for a copy, within pull_memory_set. False: not now. */
    bool (*extent_new)(void *context, const frame_id_t *id, uint64_t size);
    /* A want waits for memory that this primary copy has: the node moves it to its disk and calls
     * pull_copy_spilled, also if it did not. One at a time. */
    void (*spill)(void *context, const frame_id_t *id);
    /* The copy is gone: its memory, or its file. */
    void (*extent_free)(void *context, const frame_id_t *id);
    /* The bulk thread is to take this chunk from this node into the copy; pull_chunk_came. */
    void (*fetch)(void *context, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                  uint64_t source);
    /* The bulk thread must write no more for this ticket; pull_let_go once that is so. */
    void (*let_go)(void *context, uint64_t ticket, const frame_id_t *id);
    /* The bulk thread is to send a chunk of this node's copy; pull_served. */
    void (*serve)(void *context, uint64_t reader, uint64_t ticket, const frame_id_t *id,
                  uint32_t chunk);
    /* All bytes are here. The node takes hold of what the value refers to; pull_sealed. */
    void (*seal)(void *context, const frame_id_t *id);

    /* Every object of the want is here, and stays (a wait's: is here now). */
    void (*ready)(void *context, void *user);
    /* The want holds nothing and will get nothing: because of this object, or MOB_EFULL: all of it
     * together is more than this node can ever have; MOB_ESPACE: a task's arguments had no room for
     * a second, and it goes back to its origin. It stays until pull_want_end. */
    void (*failed)(void *context, void *user, const frame_id_t *id, mob_status_t why);
} pull_ops_t;

/* `self`: this node's incarnation. `ops` must stay. MOB_ENOMEM. */
mob_status_t pull_new(const pull_ops_t *ops, void *context, uint64_t self, pull_t **ret_pull);
void pull_free(pull_t *pull);

/* ---- what the node is told ---- */

/* A message of a peer. MOB_EPROTO: it makes no sense, and changed nothing. */
mob_status_t pull_receive(pull_t *pull, uint64_t peer, const void *bytes, size_t size,
                          uint64_t now_ns);
/* The peer's tombstone; one that joins says all that there are, before the first want. Its bulk
 * connection is closed: what it was sent is answered by pull_served. MOB_ENOMEM. */
mob_status_t pull_died(pull_t *pull, uint64_t peer, uint64_t now_ns);
void pull_answered(pull_t *pull, const pull_question_t *question, const void *answer, size_t size,
                   uint64_t now_ns);
/* The control state has a new master, which may lack the last writes. */
void pull_master(pull_t *pull, uint64_t master, uint64_t now_ns);
/* Time passes. At least every PULL_TICK_NS. */
void pull_tick(pull_t *pull, uint64_t now_ns);

/* ---- the home ---- */

/* The object has a value: at this node, or at the one that made it, which has called pull_copy_made
 * before it said so. That copy is the primary. MOB_EEXISTS: it has one (a copy turned up while it
 * was made again): the new one goes. MOB_EINVAL: size or version make no sense; MOB_ESTALE: that
 * node is dead; MOB_ESPACE as for pull_copy_made; MOB_ENOMEM. */
mob_status_t pull_object_add(pull_t *pull, const frame_id_t *id, uint32_t version, uint64_t size,
                             uint64_t node, uint64_t now_ns);
/* Nobody holds it any more, or it can't be made: askers are told, copies go. */
void pull_object_free(pull_t *pull, const frame_id_t *id, uint64_t now_ns);
/* Another node shall have the primary copy. Nothing changes unless it has a complete one and says
 * that it keeps it. MOB_ESTALE: it has none, or there is no such object. */
mob_status_t pull_object_move(pull_t *pull, const frame_id_t *id, uint64_t node, uint64_t now_ns);

/* ---- copies at this node ---- */

/* An object of another home was made here: this copy is the primary, until the home says otherwise.
 * Its memory is the node's own, not of pull_memory_set. MOB_EEXISTS: there is a copy here, or one
 * is being read. MOB_EINVAL, MOB_ENOMEM. */
mob_status_t pull_copy_made(pull_t *pull, const frame_id_t *id, uint32_t version, uint64_t size,
                            uint64_t now_ns);
/* The node needs the copy no more: it goes as soon as nobody reads it. Only one that is complete,
 * and not the primary of a home that lives: MOB_ESTALE. */
mob_status_t pull_copy_drop(pull_t *pull, const frame_id_t *id, uint64_t now_ns);
/* The node has moved a complete copy to its disk, and frees its memory if this is MOB_OK: the copy
 * takes none any more, and is served from there. Others are let in by a later call. MOB_ESTALE, and
 * it stays in memory: there is none, a want holds it, or another node reads it. */
mob_status_t pull_copy_spilled(pull_t *pull, const frame_id_t *id, uint64_t now_ns);
/* How much memory copies may have. Less than they have now: nothing is let in until it fits. */
void pull_memory_set(pull_t *pull, uint64_t bytes, uint64_t now_ns);

/* ---- wants ---- */

/* Wants a set of objects, all or none; `count` is not 0. `user` goes to `ready` or `failed`, one of
 * which is called once, perhaps before this returns. MOB_ENOMEM. */
mob_status_t pull_want_new(pull_t *pull, pull_class_t class, const frame_id_t *ids, size_t count,
                           void *user, uint64_t now_ns, pull_want_t **ret_want);
/* It wants them no more, or has read them. Cancels what only it wanted. */
void pull_want_end(pull_t *pull, pull_want_t *want, uint64_t now_ns);

/* ---- the bulk thread ---- */

/* A chunk of a `fetch` is in its place; `is_whole`: its checksum fits. */
void pull_chunk_came(pull_t *pull, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                     bool is_whole, uint64_t now_ns);
/* Answers `let_go`: nothing is written for this ticket any more. */
void pull_let_go(pull_t *pull, uint64_t ticket, const frame_id_t *id, uint64_t now_ns);
/* Answers `serve`: the chunk was sent, or never will be. */
void pull_served(pull_t *pull, uint64_t reader, uint64_t ticket, uint64_t now_ns);
/* Answers `seal`: what the value refers to is held; else why it can't be. */
void pull_sealed(pull_t *pull, const frame_id_t *id, mob_status_t status, uint64_t now_ns);

/* ---- for listings and checks ---- */

typedef struct pull_copy_view {
    uint32_t version, chunks, have;
    uint64_t size, birth;
    bool is_complete, is_primary, is_pinned, is_leaving;
    uint64_t source; /* that it is read from; 0: none */
    uint64_t ticket; /* of that, or of the last reading that is not acknowledged */
    size_t readers;
} pull_copy_view_t;

/* False: this node has no memory for a copy of it. */
bool pull_copy_look(const pull_t *pull, const frame_id_t *id, pull_copy_view_t *ret_view);
/* Whether `reader` reads this node's copy, with this ticket or (0) any. */
bool pull_is_read_by(const pull_t *pull, const frame_id_t *id, uint64_t reader, uint64_t ticket);

typedef struct pull_object_view {
    uint32_t version;
    bool is_lost;
    uint64_t primary;      /* 0: none */
    size_t copies, askers; /* nodes that have bytes; that wait for a source */
    size_t readers_most;   /* that one source has, of those that get on */
    size_t readers;        /* in all */
} pull_object_view_t;

/* At the home; counts by walking over the copies. */
bool pull_object_look(const pull_t *pull, const frame_id_t *id, pull_object_view_t *ret_view);

/* At the home: whether it would send somebody to that node's copy, and of which birth. */
bool pull_object_names(pull_t *pull, const frame_id_t *id, uint64_t node, uint64_t *ret_birth);

typedef struct pull_counts {
    size_t wants, waiting; /* of these, that wait for memory */
    size_t copies, transfers, readings, objects;
    uint64_t memory_bytes, used_bytes, held_bytes;
} pull_counts_t;

void pull_count(const pull_t *pull, pull_counts_t *ret_counts);

typedef enum { PULL_ASKING, PULL_WAITING, PULL_ADMITTED, PULL_READY, PULL_FAILED } pull_state_t;
pull_state_t pull_want_state(const pull_want_t *want);
/* When the want was let in last, as a number that grows from want to want; 0: never. One that was
 * let in may wait again: an object was made again meanwhile, and is larger. */
uint64_t pull_want_turn(const pull_want_t *want);

#endif
