/*
 * Placing work on many nodes: which of this node's waiting tasks go to which peer, and which of the
 * peers' tasks may start here. README.md has the words and the rules.
 *
 * Three parts of one handle. The origin has lanes: waiting tasks of this node that are alike, with
 * a demand that the leader may find a place for. The guest part has what peers run here. The leader
 * part, while this node leads, has the views of all nodes and what all origins ask for.
 *
 * Decisions only: time is an argument, messages and tasks go through the table of functions.
 * Calls change the books; `place_tick` acts on them. So call it after one or more other calls, and
 * at the time that `place_due_ns` names. The table's functions may call place_lane_waiting,
 * place_free_changed and place_guest_begun, nothing else of the room. For one thread.
 *
 * Messages are what a peer says, and may be anything: MOB_EPROTO changes nothing. Memory that is
 * lacking never loses a task: it is not taken, or goes back, or is asked for again at the next
 * tick.
 */
#ifndef PLACE_PLACE_H
#define PLACE_PLACE_H

#include "frame/frame.h"

enum {
    PLACE_NAMES_MAX = 64,     /* resource names in one demand or one node's view */
    PLACE_SELECTOR_MAX = 512, /* bytes of a selector, or of a node's labels */
    PLACE_WANT_MAX = 1 << 20, /* tasks that one question asks for */
    PLACE_BERTHS_MAX = 4096,  /* leases that one peer may have here */
    PLACE_CREDITS_MAX = 4096, /* of one lease */
    PLACE_QUEUE_MAX = 16,     /* times its credits: short tasks of a lease that are queued ahead */
    PLACE_LANES_MAX = 65536,  /* of one origin, with a question at the leader */
    PLACE_MOVES_MAX = 16,     /* after so many returns a task waits wherever it is */
};

/* How a run is to be stopped: with its process; with all that it has submitted. */
enum { PLACE_STOP_FORCE = 1, PLACE_STOP_CHILDREN = 2, PLACE_STOP_ALL = 3 };

#define PLACE_WAIT_NS   UINT64_C(5000000)  /* a task waits here before it may leave */
#define PLACE_REPORT_NS UINT64_C(10000000) /* between two reports of a node */
#define PLACE_IDLE_NS   UINT64_C(10000000) /* a remote lease without work is kept */
#define PLACE_PATIENCE_NS                                                                        \
    UINT64_C(50000000)                      /* a guest waits before it goes back: the first time \
                                             */
#define PLACE_SHORT_NS  UINT64_C(1000000)   /* guests that run for less are queued ahead */
#define PLACE_LAPSE_NS  UINT64_C(200000000) /* credits are kept free for an origin that is slow */
#define PLACE_STARVE_NS UINT64_C(20000000)  /* a question waits before it queues at a full node */
#define PLACE_PROBE_NS \
    UINT64_C(100000000) /* a node that was granted should have reported by then */

typedef struct place place_t;
typedef struct place_lane place_lane_t;   /* of the origin */
typedef struct place_guest place_guest_t; /* a peer's task here */

typedef enum {
    PLACE_ANY,    /* wherever there is room; best where its arguments are */
    PLACE_SPREAD, /* on as many nodes as there are */
    PLACE_NODE,   /* on that node; soft: unless it is gone or too small */
} place_strategy_t;

/* What tasks of a lane need, and where. Borrowed during the call. */
typedef struct place_demand {
    frame_job_t job;
    const frame_amount_t *amounts; /* each name once, no zeros */
    size_t count;
    place_strategy_t strategy;
    bool is_soft;
    uint64_t node;        /* PLACE_NODE: which */
    const char *selector; /* labels that the node must have, or should (is_soft); NULL or "": any */
    uint64_t hint;        /* the node that has most of the arguments' bytes; 0: none */
    bool is_local;        /* the local scheduler starts them too, as soon as they fit */
} place_demand_t;

/* What becomes of a run. */
typedef enum {
    PLACE_OK,        /* it ended, with a value (or an error that its code raised) */
    PLACE_CRASHED,   /* its worker died: begun again as its retries permit */
    PLACE_CANCELLED, /* at the user's word, or because its job ended */
    PLACE_LOST,      /* its node died and no retries were left */
} place_outcome_t;

/* A waiting task of this node, READY, that was TAKEN to be sent. */
typedef struct place_task {
    uint32_t record;   /* its number here; another task may have it once this one has ended */
    int32_t retries;   /* left; -1: without end */
    uint8_t moves;     /* how often it came back */
    const void *frame; /* borrowed until the next call of the table */
    size_t size;
} place_task_t;

typedef struct place_ops {
    /* Sends `head` and `body`, as one message, to a peer. It comes once, after those before it,
     * unless one of both dies. `is_answer`: never held up by a full link. */
    void (*send)(void *context, uint64_t to, const void *head, size_t head_size, const void *body,
                 size_t body_size, bool is_answer);

    /* The origin. Takes the oldest task of the lane off its queue, for that peer: it is sent next,
     * or put back. False: none is there, or none may go now; place_lane_waiting says that again. */
    bool (*take)(void *context, void *lane, uint64_t to, place_task_t *ret_task);
    /* A taken task is READY again, at the head of its lane: with these retries and moves. */
    void (*put_back)(void *context, uint32_t record, int32_t retries, uint8_t moves);
    /* A taken task has ended; a value that is not NULL is borrowed. */
    void (*ended)(void *context, uint32_t record, place_outcome_t outcome, const void *value,
                  size_t size);
    /* Up to `count` tasks of the lane, which is not local, may start here. */
    void (*keep)(void *context, void *lane, uint32_t count);
    /* No node will ever do: the one that it must run on is dead. All that waits fails. */
    void (*impossible)(void *context, void *lane);

    /* Guests. How many of a demand could start now, at most `most`. */
    uint32_t (*fits)(void *context, const frame_amount_t *amounts, size_t count, uint32_t most);
    /* What is free, in the order of place_resources_set; below 0 counts as 0. */
    void (*free_amounts)(void *context, int64_t *ret_free);
    /* Reads the frame of a peer's task, and holds what it names. It waits, and does not queue yet.
     * MOB_EPROTO, MOB_ENOMEM: nothing is kept. */
    mob_status_t (*admit)(void *context, place_guest_t *guest, uint64_t origin, const void *frame,
                          size_t size, void **ret_task);
    /* The frame of a job that has ended: its references are accounted for, nothing is kept. */
    void (*refuse)(void *context, uint64_t origin, const void *frame, size_t size);
    /* It stands in the local scheduler's queue (READY): a worker may take it, which
     * place_guest_begun says, now or later. */
    void (*queue)(void *context, void *task);
    /* READY to READY(g+1): no worker can take it any more. False: one has. */
    bool (*unqueue)(void *context, void *task);
    /* It was never begun and never will be; the guest is gone. */
    void (*drop)(void *context, void *task);
    /* It was begun: its run is to end, with place_guest_done. `how`: PLACE_STOP_*. */
    void (*stop)(void *context, void *task, uint32_t how);

    /* Whether a node with these labels is what the selector asks for. */
    bool (*matches)(void *context, const char *labels, const char *selector);
} place_ops_t;

/* `self` is this node's incarnation. NULL: no memory. */
place_t *place_new(const place_ops_t *ops, void *context, uint64_t self);
/* What was sent or runs here is forgotten; nothing is called. NULL is fine. */
void place_free(place_t *place);

/* Does what follows from all that was said before. */
void place_tick(place_t *place, uint64_t now_ns);
/* When place_tick is to be called though nothing else happens; UINT64_MAX: never. */
uint64_t place_due_ns(const place_t *place);

/* ---- what the node hears ---- */

/* MOB_EPROTO; MOB_ENOMEM, only where place_peer_joined has said so: give it again. */
mob_status_t place_receive(place_t *place, uint64_t from, const void *bytes, size_t size,
                           uint64_t now_ns);
/* What of a message is the node's own: a frame or a value. References in it are accounted for
 * before place_receive, which may have no use for it. False: it has none, or makes no sense. */
bool place_message_body(const void *bytes, size_t size, bool *ret_is_frame, const void **ret_body,
                        size_t *ret_size);
/* Before the first message of it. MOB_ENOMEM: say it again; its messages say it too. */
mob_status_t place_peer_joined(place_t *place, uint64_t peer);
void place_peer_died(place_t *place, uint64_t peer);
void place_peer_silent(place_t *place, uint64_t peer, bool is_silent);
void place_leads(place_t *place, uint64_t leader, uint64_t fence);
void place_paused(place_t *place, bool is_paused);
/* The job has ended, for all nodes: remembered. Its lanes and what was sent end here and now, its
 * guests as soon as they can. MOB_ENOMEM: nothing has happened. */
mob_status_t place_job_end(place_t *place, frame_job_t job);

/* ---- the node's own resources ---- */

/* Its totals and labels ("key=value,..."), once, before anything else. MOB_ELIMIT, MOB_ENOMEM. */
mob_status_t place_resources_set(place_t *place, const frame_amount_t *totals, size_t count,
                                 const char *labels);
/* free_amounts would say something else than before. */
void place_free_changed(place_t *place);

/* ---- lanes ---- */

/* `context` is what the table's functions are told. MOB_ELIMIT, MOB_ENOMEM, MOB_EINVAL. */
mob_status_t place_lane_new(place_t *place, const place_demand_t *demand, void *context,
                            place_lane_t **ret_lane);
/* How many tasks of it wait, each time that this changes. The room itself counts what it takes and
 * puts back. */
void place_lane_waiting(place_t *place, place_lane_t *lane, uint32_t waiting, uint64_t now_ns);
/* None of it waits, none is sent. */
void place_lane_free(place_t *place, place_lane_t *lane);
/* A sent task is to be cancelled: `ended` follows. `how`: PLACE_STOP_*. False: no such task is
 * sent. */
bool place_cancel(place_t *place, uint32_t record, uint32_t how);

/* ---- guests, from `admit` on ---- */

/* A worker has taken it: `unqueue` has said so, or would. */
void place_guest_begun(place_t *place, place_guest_t *guest, uint64_t now_ns);
/* It waits for others and has lent its CPUs; it goes on. */
void place_guest_block(place_t *place, place_guest_t *guest, uint64_t now_ns);
void place_guest_unblock(place_t *place, place_guest_t *guest, uint64_t now_ns);
/* Its run has ended; the guest is gone. The value is borrowed. */
void place_guest_done(place_t *place, place_guest_t *guest, place_outcome_t outcome,
                      const void *value, size_t size, uint64_t now_ns);

/* ---- for checks and figures ---- */

typedef struct place_counts {
    size_t lanes, leases, sent;         /* of the origin */
    size_t guests, guest_leases, views; /* views: of the leader */
    size_t questions;                   /* that wait at this leader */
    uint64_t messages;                  /* sent so far */
} place_counts_t;
void place_counts(const place_t *place, place_counts_t *ret_counts);
/* Of the guest's lease: its credits, and how many tasks that never blocked run or queue here. */
void place_guest_credits(const place_guest_t *guest, uint32_t *ret_credits, uint32_t *ret_used);

#endif
