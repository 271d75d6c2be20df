/*
 * What clients and the daemon say to each other: messages on the rings, packets on the socket.
 * Layouts only.
 *
 * Everything here may come from a program that is broken: the reader bounds every number before it
 * uses it.
 */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_VERSION = 2, WIRE_MAGIC = 0x4d4f4255, WIRE_RELEASE_BYTES = 40 };

/* Kinds of ring messages; beside each, the member of wire_message_t that it uses. */
enum {
    /* client to daemon */
    WIRE_SUBMIT = 1, /* record: is READY */
    WIRE_DONE,       /* done: the record is DONE */
    WIRE_RETRY,   /* failure: the record, still TAKEN by the sender, is to be run again; answered */
    WIRE_UNREADY, /* record: the daemon told the sender to run it, and an argument is missing */
    WIRE_HOLD,    /* hold: the sender has a reference to this object */
    WIRE_HOLD_CONTENTS, /* object: ... to every object that its value refers to */
    WIRE_DROP,          /* object: the sender no longer has a reference to it */
    WIRE_ESCAPE,        /* escape: its value contains references, or lies in a file */
    WIRE_BLOCK,         /* the sender's runs wait: its CPUs are free */
    WIRE_UNBLOCK,       /* ... and go on */
    WIRE_KILL,          /* kill: an actor; answered */
    WIRE_NEED_SLOTS,    /* need */
    WIRE_NEED_RECORDS,  /* need */
    WIRE_NEED_EXTENT,   /* need_extent */
    WIRE_BACKED, /* backed: the block's extent has memory now, or the sender maps no more of it */
    WIRE_QUERY,  /* query */
    WIRE_SHAPE,  /* shape: the sender holds the shape that the daemon answers with */
    WIRE_SHAPE_DROP,   /* shape_drop: the sender holds it once less */
    WIRE_MESSAGES_END, /* a driver is about to end its job: the daemon lets the workers end, sends
                          what they printed, then closes the messages */
    WIRE_LEAVE, /* a driver whose process lives on has ended its job, and sends nothing after this.
                   What it has pinned stays held until it hangs up */
    WIRE_ARGUMENTS, /* record: in a queue, or taken from one, and KNOWN: the daemon is to keep a
                       book on it */
    WIRE_SEALED,    /* object: has its value; for the daemon, which watches it or has to free it */
    WIRE_RING,      /* an error was published, or a client without a bit waits: the daemon rings all
                       bells */
    WIRE_LEASE,     /* the sender gave its lease back, as RECALL told it to */
    WIRE_EVENTS,    /* the daemon is to read the sender's events */
    WIRE_NEED_CALLS,  /* object: an actor; a queue for the sender's calls of it */
    WIRE_CLOSED,      /* record: the sender put it into the queue of a dead actor, or of a lane that
                         was closed */
    WIRE_CALLS_ENDED, /* queue: the sender will not look at it any more */
    WIRE_SITE,        /* site: answered with its number */
    WIRE_MADE_AT,     /* made_at */
    WIRE_RESTORE,     /* restore: the daemon is to bring back an object that is AWAY */
    WIRE_FAILED,      /* failure: of a run that has no results; answered */
    WIRE_ENDING,      /* the sender, a worker, has begun to end: the daemon limits its time now */
    WIRE_NEED_FILE, /* file: for a value that is larger than the store. The sender fetches it by the
                       socket once WIRE_FILE has come */
    WIRE_DROP_FILE, /* file: the sender does not need it */
    WIRE_CANCEL,    /* cancel: the task that makes this object; answered if by force */
    WIRE_INTERRUPTED, /* record: the sender breaks its run of it off, as WIRE_CANCEL_RUN said */
    WIRE_CREATE,      /* failure: a creation's record is READY; its name, wire_name_t, lies in the
                         sender's scratch page. Answered once the name is the actor's, or another's;
                         or at once with a number: see WIRE_NAME_WAIT */
    WIRE_FIND,        /* named: the actor whose name lies in the scratch page; answered, with two
                         mob_ref_t there: the actor, and what its maker gave for those who find it;
                         or with a number: see WIRE_NAME_WAIT */
    WIRE_KEEP,        /* record: TAKEN by the sender, which is about to seal a large result: the
                         daemon is to keep what it can be made again from */
    WIRE_KV,    /* query: `what` is a mob_kv_t, and `argument` the size of its items, which lie
                   in the block; answered there */
    WIRE_WAITS, /* a run of the sender waits for long: see shm/wait.h */
    WIRE_READS, /* the sender is about to read its first flow: other clients' slots will be given
                   to it */
    WIRE_GROUP_REMOVE, /* object: a placement group */
    WIRE_ENVIRONMENT,  /* site: a runtime environment of its job's, described by a setup with what
                          differs; answered with its number */
    WIRE_WORKER_UNFIT, /* failure, without a record: the sender, a worker, can't run anything, and
                          ends; answered */
    WIRE_ID,       /* object: another node's (STORE_FOREIGN). Answered, with its wire_id_t in the
                      scratch page */
    WIRE_OF_ID,    /* id: another node's object. Answered, with the sender's mob_ref_t for it in the
                      scratch page; MOB_ESTALE: this node has none */
    WIRE_POSTPONE, /* record: a task in a queue that may not begin, for the node's term is over
                      (shm/term.h): the daemon is to keep it */
    WIRE_GROUP_OF_ID, /* id: another node's placement group. Answered, once this node knows it,
                         with the sender's mob_ref_t for it in the scratch page: of no object if
                         the group is gone */
    WIRE_TAKEN_OF,    /* object: a flow of a task at another node: the sender has taken an item of
                         it, or has closed it */
    WIRE_NAME_WAIT,   /* wait: what became of a WIRE_CREATE or WIRE_FIND that was answered with a
                         number. Answered the same way, so with the number again while it is not
                         known */
    WIRE_UP_END,      /* none: what follows the last of these */

    /* daemon to client */
    WIRE_RUN = 64,  /* run */
    WIRE_SLOTS,     /* grant */
    WIRE_RECORDS,   /* grant */
    WIRE_EXTENT,    /* extent: the answer to WIRE_NEED_EXTENT */
    WIRE_ANSWER,    /* answer */
    WIRE_FORGET,    /* object: a function that only workers hold, which keep it loaded: the receiver
                       unloads it */
    WIRE_EXIT,      /* exit: the receiver, a worker, is to end */
    WIRE_CALLS_ARE, /* queue: the one that the client asked for; 0: none */
    WIRE_CALLS,     /* queue: the receiver takes calls from it */
    WIRE_CALLS_END, /* queue: it gets nothing more */
    WIRE_SPACE,    /* extent, EMPTY: after WIRE_EXTENT with MOB_ESPACE; or why there will be none */
    WIRE_RESTORED, /* restored */
    WIRE_FILE,     /* file: the one that the client asked for is there, or will not be */
    WIRE_CANCEL_RUN, /* record: the receiver's run of it was cancelled */
    WIRE_DEADLOCK,   /* deadlock: a run of the receiver waits in vain, and is to raise */
};

enum { WIRE_MESSAGE_BYTES = 32 };

enum {
    WIRE_RUN_MAY_RETRY = 1, /* it has retries left */
    WIRE_RUN_RESTARTED = 2, /* a creation: a process of this actor died before */
    WIRE_RUN_MADE = 4,      /* a creation: the actor was made before, and its slot has its value */
};

/* A ring message. Each member begins with the kind, which says which one it is. */
typedef union wire_message {
    uint32_t kind;
    struct {
        uint32_t kind, record;
        uint64_t generation;
    } record;
    struct {
        uint32_t kind, record;
        uint64_t generation;
        uint64_t
            crowd; /* 1: a waiter has no bit, or a result is an error: the daemon rings all bells */
    } done;
    struct {
        uint32_t kind, record;
        uint64_t generation;
        uint64_t size; /* of the words in the sender's scratch page that say why */
    } failure;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
    } object;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
        uint64_t cached; /* 1: only because the sender keeps a function loaded */
    } hold;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
        uint64_t file; /* the number of the file that the value lies in; 0: none */
    } escape;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
        uint64_t how; /* WIRE_CANCEL_* */
    } cancel;
    struct {
        uint32_t kind, number; /* the client's number for the file */
        uint64_t size;
    } file;
    struct {
        uint32_t kind, count;
    } need;
    struct {
        uint32_t kind, goes_on; /* 1: the asking thread has asked before and goes on waiting */
        uint64_t size, least;   /* bytes; the least that will do, if `size` can't be had at once */
    } need_extent;
    struct {
        uint32_t kind, unused;
        uint64_t block; /* a large block of the sender */
    } backed;
    /* Three questions that say where the question lies and the answer goes: `capacity` bytes in the
     * asker's `block` (0: in its scratch page). */
    struct {
        uint32_t kind, what; /* mob_query_t */
        uint64_t argument, block, capacity;
    } query;
    struct {
        uint32_t kind, resources; /* how many */
        uint64_t size, block, capacity;
    } shape;
    struct {
        uint32_t kind;
        uint32_t at_once; /* WIRE_ENVIRONMENT: 1: it is set up before a task needs it */
        uint64_t size, block, capacity;
    } site;
    struct {
        uint32_t kind, shape;
    } shape_drop;
    struct {
        uint32_t kind, size; /* of the wire_name_t in the scratch page */
    } named;
    struct {
        uint32_t kind, unused;
        uint64_t number;
    } wait;
    struct {
        uint32_t kind, number; /* as wire_id_t's */
        uint64_t home, generation;
    } id;
    struct {
        uint32_t kind, queue;
    } queue;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
        uint64_t site;
    } made_at;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
        uint64_t waits;   /* 1: the sender waits for the object, and the daemon is to tell it */
        uint64_t goes_on; /* 1: it has waited for it before */
    } restore;
    struct {
        uint32_t kind, record;
        uint64_t generation;
        uint64_t gpu_mask; /* the lease's */
        uint64_t flags;    /* WIRE_RUN_* */
    } run;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
        uint64_t may_restart; /* 1: only its process is to die */
    } kill;
    struct {
        uint32_t kind;
        uint32_t job_ends; /* 1: the worker begins no run any more */
    } exit;
    struct {
        uint32_t kind, first;
        uint64_t count; /* 0: none left */
    } grant;
    struct {
        uint32_t kind, status;
        uint64_t offset; /* WIRE_SPACE with a status: the size that the client asked for */
        uint64_t size;   /* WIRE_EXTENT with MOB_EFULL: what the store has in all */
        uint64_t serial;
    } extent;
    struct {
        uint32_t kind, status;
        uint64_t value; /* bytes written, or needed when they did not fit; the number of a shape or
                           site; bytes in the scratch page that say why there is none. WIRE_RETRY of
                           a call: wire_again, the asker runs it next; else 0 */
    } answer;
    struct {
        uint32_t kind, slot;
        uint64_t generation;
        uint64_t status;
    } restored;
    struct {
        uint32_t kind, record;
        uint64_t generation;
        uint64_t since_ns; /* of the wait, as the receiver published it */
    } deadlock;
    uint64_t words[4];
} wire_message_t;
_Static_assert(sizeof(wire_message_t) == WIRE_MESSAGE_BYTES, "a message is two to a cache line");
_Static_assert(offsetof(wire_message_t, run.gpu_mask) == 16, "kind, index, then words");
_Static_assert(offsetof(wire_message_t, shape.block) == offsetof(wire_message_t, query.block) &&
                   offsetof(wire_message_t, site.block) == offsetof(wire_message_t, query.block),
               "where the space is is read before what is asked");

static inline wire_message_t wire_plain(uint32_t kind) {
    wire_message_t m = {.words = {0}};
    m.kind = kind;
    return m;
}

static inline wire_message_t wire_about_record(uint32_t kind, uint32_t record,
                                               uint64_t generation) {
    return (wire_message_t){.record = {kind, record, generation}};
}

static inline wire_message_t wire_about_object(uint32_t kind, uint32_t slot, uint64_t generation) {
    return (wire_message_t){.object = {kind, slot, generation}};
}

static inline wire_message_t wire_about_queue(uint32_t kind, uint32_t queue) {
    return (wire_message_t){.queue = {kind, queue}};
}

/* Of a call that its worker runs again at once: the record's new generation, and whether it may be
 * run again after that. */
static inline uint64_t wire_again(uint64_t generation, bool may_retry) {
    return generation << 1 | may_retry;
}

static inline wire_message_t wire_answer(uint32_t status, uint64_t value) {
    return (wire_message_t){.answer = {WIRE_ANSWER, status, value}};
}

/* The id of an object in all nodes: its node, and its slot there. */
typedef struct wire_id {
    uint64_t home, generation;
    uint32_t number, unused;
} wire_id_t;
_Static_assert(sizeof(wire_id_t) == 24, "in the scratch page");

/* Followed by the namespace and the name, each with its zero. */
typedef struct wire_name {
    uint32_t slot;  /* of the object for those who find the actor; 0: none */
    uint32_t flags; /* WIRE_NAME_* */
    uint64_t generation;
    uint32_t space_size, name_size; /* with their zeros */
} wire_name_t;
_Static_assert(sizeof(wire_name_t) == 24, "in the scratch page");
enum { WIRE_NAME_DETACHED = 1, WIRE_NAME_GROUP = 2 };

/* A question for a shape begins with where the demand is to be met; then the selector with its
 * zero, then for each resource 8 bytes of amount and a name with its zero. */
typedef struct wire_where {
    uint32_t slot; /* of the placement group; 0: none */
    int32_t bundle;
    uint64_t generation;
    uint32_t flags;         /* MOB_WHERE_* */
    uint32_t selector_size; /* with its zero; 0: there is none, and no zero */
    uint32_t environment;   /* 0: the job's own */
    int32_t priority;
} wire_where_t;
_Static_assert(sizeof(wire_where_t) == 32, "in the scratch page");

/* The daemon sends it to a worker with WIRE_EXIT at its job's end: the worker is to break off
 * its run. It has no other use. A worker without a handler for it dies by it, which is right
 * too. */
#define WIRE_END_SIGNAL (SIGRTMIN + 11)

/* How a task is cancelled. */
enum { WIRE_CANCEL_FORCE = 1, WIRE_CANCEL_RECURSIVE = 2 };

/* The daemon sends it to a worker's first thread after WIRE_CANCEL_RUN: the worker reads its ring,
 * and breaks off what runs if that is the run that the message names. A worker that does not
 * handle it ignores it. */
#define WIRE_CANCEL_SIGNAL (SIGRTMIN + 12)

/* Packets on the socket (SOCK_SEQPACKET): a header, then what the kind says. */
enum {
    WIRE_HELLO = 1, /* wire_hello_t, the first packet of all; a driver sends the descriptor of its
                       job's setup (wire/setup.h) with it */
    WIRE_WELCOME,   /* wire_welcome_t, a string; with descriptors */
    WIRE_REFUSED,   /* a text */
    WIRE_TEXT,      /* wire_text_t, name, address, text: printed by a worker, or a warning */
    WIRE_TEXT_END,  /* no more of these */
    WIRE_FORK,      /* daemon to zygote: wire_fork_t, with two descriptors for output */
    WIRE_PRELOAD,   /* daemon to zygote: names with their zeros: the zygote forks another one that
                       loads these */
    WIRE_READY,     /* a zygote can fork */
    WIRE_STUCK,     /* a zygote has threads and can't fork any more */
    WIRE_ASK,       /* observer to daemon: wire_ask_t */
    WIRE_ANSWERED,  /* wire_answer_t; then packets with the answer's bytes and nothing else */
    WIRE_FETCHED, /* daemon to fetcher: wire_fetched_t, with a descriptor, or with words why not */
    WIRE_STARTED, /* daemon to starter: it is ready; then the session's folder */
    WIRE_ADOPT,   /* daemon to zygote: wire_fork_t, with the descriptor of another setup: the zygote
                     forks one for that */
    WIRE_ADOPTED, /* zygote to daemon: wire_adopted_t: it has */
    WIRE_UNFIT,   /* a zygote can't get ready for its setup; a text says why */
    WIRE_WANTED,  /* a zygote that gets ready lacks a file of its runtime environment: its name */
    WIRE_BROUGHT, /* daemon to zygote: that name with its zero; then why the file can't be had, or
                     nothing: it lies in the session's folder */
};

/* A session's own folder in each folder for values that memory has no space for: by that folder's
 * path and the node's incarnation. */
#define WIRE_SPILL_FOLDER "%s/mobula_spill_%016llx"

enum { WIRE_PACKET_MAX = 64 * 1024, WIRE_SHAPE_BYTES = 64 * 1024 };

typedef struct wire_packet {
    uint32_t magic;
    uint32_t kind;
} wire_packet_t;
_Static_assert(sizeof(wire_packet_t) == 8, "on the socket");

/* A fetcher is a client's second connection, for one descriptor. A starter is the process that
 * started a daemon which outlives it. */
enum {
    WIRE_DRIVER = 1,
    WIRE_WORKER = 2,
    WIRE_ZYGOTE = 3,
    WIRE_OBSERVER = 4,
    WIRE_FETCHER = 5,
    WIRE_STARTER = 6
};

typedef struct wire_hello {
    wire_packet_t packet;
    uint32_t version;
    uint32_t role;
    uint64_t token; /* a worker's or zygote's: which of those that the daemon asked for it is */
    char release[WIRE_RELEASE_BYTES]; /* the program's version, with its zero: processes of two
                                         releases would not agree on the layout of memory */
} wire_hello_t;
_Static_assert(sizeof(wire_hello_t) == 64, "on the socket");

static inline wire_hello_t wire_hello(uint32_t role, uint64_t token) {
    return (wire_hello_t){.packet = {.magic = WIRE_MAGIC, .kind = WIRE_HELLO},
                          .version = WIRE_VERSION,
                          .role = role,
                          .token = token,
                          .release = MOBULA_VERSION};
}

/* Followed by the session's folder (with its zero). Descriptors: node, client, slots, records,
 * extents, arena, queues, eventfd; and, for a worker, its job's setup (wire/setup.h), as sealed
 * bytes (shm/sealed.h). */
enum { WIRE_WELCOME_FDS = 8, WIRE_MOST_FDS = WIRE_WELCOME_FDS + 1 };
typedef struct wire_welcome {
    wire_packet_t packet;
    uint32_t number;
    uint32_t epoch; /* counts the session's clients, whose numbers are used again */
    uint64_t incarnation;
    uint64_t arena_size;
    uint32_t dir_size, setup_size;
    uint32_t job;                   /* its number, which no other job of this daemon ever has */
    uint32_t lanes;                 /* the number of its job's first lane */
    uint32_t environment, reserved; /* a worker's; 0: its job's own */
} wire_welcome_t;
_Static_assert(sizeof(wire_welcome_t) == 56, "on the socket");

typedef struct wire_text {
    wire_packet_t packet;
    uint32_t stream; /* mob_message_kind_t */
    int32_t pid;
    uint32_t name_size, text_size; /* the name with its zero */
    uint32_t unfinished;           /* as mob_message_t says */
    uint32_t address_size;         /* with its zero */
} wire_text_t;
_Static_assert(sizeof(wire_text_t) == 32, "on the socket");

typedef struct wire_ask {
    wire_packet_t packet;
    uint32_t query, reserved; /* mob_query_t */
    uint64_t argument;
} wire_ask_t;
_Static_assert(sizeof(wire_ask_t) == 24, "on the socket");

typedef struct wire_answer {
    wire_packet_t packet;
    uint32_t status, reserved;
    uint64_t size;
} wire_answer_t;
_Static_assert(sizeof(wire_answer_t) == 24, "on the socket");

/* Follows a fetcher's hello. Names the file: one that a client has asked for and will write; or, if
 * `client` is 0, that of an object, to be read. */
typedef struct wire_fetch {
    uint32_t client, number;
    uint32_t slot, reserved;
    uint64_t generation;
} wire_fetch_t;
_Static_assert(sizeof(wire_fetch_t) == 24, "on the socket");

typedef struct wire_fetched {
    wire_packet_t packet;
    uint32_t status, reserved; /* MOB_ESPACE: not yet */
    uint64_t size;             /* of the file */
} wire_fetched_t;
_Static_assert(sizeof(wire_fetched_t) == 24, "on the socket");

typedef struct wire_fork {
    wire_packet_t packet;
    uint64_t token;
} wire_fork_t;
_Static_assert(sizeof(wire_fork_t) == 16, "on the socket");

typedef struct wire_adopted {
    wire_packet_t packet;
    uint64_t token;
    int32_t pid, reserved; /* of the new zygote; 0: it could not be forked */
} wire_adopted_t;
_Static_assert(sizeof(wire_adopted_t) == 24, "on the socket");

#endif
