/*
 * What clients and the daemon say to each other: messages on the rings, packets on the socket.
 * Layouts only.
 *
 * Everything here may come from a program that is broken: the reader bounds every number before it
 * uses it.
 */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <stdint.h>

enum { WIRE_VERSION = 1, WIRE_MAGIC = 0x4d4f4255 };

/* Ring messages. `a` is an index, b a generation, unless it says otherwise. */
enum {
    /* client to daemon */
    WIRE_SUBMIT = 1, /* a record, READY */
    WIRE_DONE,  /* a record, DONE. c: 1 if one of the waiters has no bit, or a result is an error */
    WIRE_RETRY, /* a record, still TAKEN by the sender: run it again */
    WIRE_UNREADY, /* a record that the sender was told to run: an argument is missing */
    WIRE_HOLD, /* the sender has a reference to this slot. c: 1 if only because it keeps a function
                  loaded */
    WIRE_HOLD_CONTENTS, /* ... to everything inside this slot's value */
    WIRE_DROP,          /* ... no longer has one */
    WIRE_ESCAPE,        /* this slot's value contains references, or lies in a file: then c is the
                           file's number */
    WIRE_BLOCK,         /* the sender's task waits: its CPUs are free */
    WIRE_UNBLOCK,       /* and goes on */
    WIRE_KILL,          /* an actor, by its slot; answered */
    WIRE_NEED_SLOTS,    /* a: how many */
    WIRE_NEED_RECORDS,  /* a: how many */
    WIRE_NEED_EXTENT,   /* a: 1 if this thread has asked before and goes on waiting; b: bytes, c: at
                           least, if so many can't be had at once */
    WIRE_BACKED, /* b: a large block of the sender's. Its extent has memory now, or will not get any
                    more */
    WIRE_QUERY,  /* a: what, b: argument, c: block for the answer (0: the scratch page), d: its size
                  */
    WIRE_SHAPE,  /* a: resources, b: bytes; c, d: as above, with the demand. The sender holds the
                    shape it is answered with */
    WIRE_SHAPE_DROP,   /* a: a shape that the sender holds, once less */
    WIRE_MESSAGES_END, /* send what was printed, then close the messages */
    WIRE_ARGUMENTS,   /* a record in a queue, or taken from one, that is KNOWN: keep a book on it */
    WIRE_SEALED,      /* a slot that the daemon watches has its value */
    WIRE_RING,        /* an error was published, or somebody waits who has no bit: ring all bells */
    WIRE_LEASE,       /* the sender gave its lease back, as it was told to */
    WIRE_EVENTS,      /* the sender's runs are to be read */
    WIRE_NEED_CALLS,  /* an actor: a queue for the sender's calls of it */
    WIRE_CLOSED,      /* a record that was put into the queue of a dead actor */
    WIRE_CALLS_ENDED, /* a: a queue that the sender will not look at any more */
    WIRE_SITE,        /* b: bytes of a text; c, d: as WIRE_SHAPE's. Answered with its number */
    WIRE_MADE_AT,     /* an object, c: number of the place where it was made */
    WIRE_RESTORE, /* an object that is AWAY is to come back; c: 1 if the sender waits for it and is
                     to be told; d: 1 if it goes on waiting */
    WIRE_NEED_FILE, /* a: the sender's number for it, b: bytes. A file for a value that is larger
                       than the store. It is fetched by the socket once WIRE_FILE has come */
    WIRE_DROP_FILE, /* a: such a number: the file is not needed */
    WIRE_UP_END,    /* none: what follows the last of these */

    /* daemon to client */
    WIRE_RUN = 64, /* a record; c: worker lease's GPUs */
    WIRE_SLOTS,    /* a: first, b: count; 0: none left */
    WIRE_RECORDS,  /* as above */
    WIRE_EXTENT,   /* a: 0 or a status, b: offset, c: size or capacity, d: serial */
    WIRE_ANSWER,   /* a: 0 or a status, b: bytes written, or needed when they did not fit; or a
                      shape's number, or the bytes in the scratch page that say why there is none */
    WIRE_FORGET,   /* a function that nobody but workers hold, for they keep it loaded: unload it */
    WIRE_EXIT,     /* a worker is to end */
    WIRE_CALLS_ARE, /* a: the queue that was asked for; 0: none */
    WIRE_CALLS,     /* a: a queue to take calls from */
    WIRE_CALLS_END, /* a: such a queue gets nothing more */
    WIRE_SPACE,     /* after WIRE_EXTENT with MOB_ESPACE. a: 0, b: offset, c: size, d: serial of an
                      extent, EMPTY; or a: a status, b: the size that was asked for */
    WIRE_RESTORED,  /* a slot, b: generation, c: 0 or a status */
    WIRE_FILE,      /* a: the number of a file that was asked for: it is there, or will not be */
};

/* Packets on the socket (SOCK_SEQPACKET): a header, then what the kind says. */
enum {
    WIRE_HELLO = 1, /* wire_hello_t, first of all */
    WIRE_WELCOME,   /* wire_welcome_t, strings; with descriptors */
    WIRE_REFUSED,   /* a text */
    WIRE_TEXT,      /* wire_text_t, name, text: printed by a worker, or a warning */
    WIRE_TEXT_END,  /* no more of these */
    WIRE_FORK,      /* daemon to zygote: wire_fork_t, with two descriptors for output */
    WIRE_PRELOAD,  /* daemon to zygote: names with their zeros: fork another zygote that loads these
                    */
    WIRE_READY,    /* a zygote can fork */
    WIRE_STUCK,    /* a zygote has threads and can't fork any more */
    WIRE_ASK,      /* observer to daemon: wire_ask_t */
    WIRE_ANSWERED, /* wire_answer_t; then packets with the answer's bytes and nothing else */
    WIRE_FETCHED,  /* daemon to fetcher: wire_fetched_t, with a descriptor, or with words why not */
};

/* Of a session, in each folder for values that memory has no space for: that folder, and the node's
 * incarnation. */
#define WIRE_SPILL_FOLDER "%s/mobula_spill_%016llx"

enum { WIRE_PACKET_MAX = 64 * 1024, WIRE_SHAPE_BYTES = 64 * 1024 };

typedef struct wire_packet {
    uint32_t magic;
    uint32_t kind;
} wire_packet_t;

/* A fetcher is a client's second connection, for one descriptor. */
enum { WIRE_DRIVER = 1, WIRE_WORKER = 2, WIRE_ZYGOTE = 3, WIRE_OBSERVER = 4, WIRE_FETCHER = 5 };

typedef struct wire_hello {
    wire_packet_t packet;
    uint32_t version;
    uint32_t role;
    uint64_t token; /* a worker's or zygote's: which one of those that were asked for */
} wire_hello_t;

/* Followed by the session's folder (with its zero) and the setup bytes. Descriptors: node, client,
 * slots, records, extents, arena, queues, eventfd. */
enum { WIRE_WELCOME_FDS = 8 };
typedef struct wire_welcome {
    wire_packet_t packet;
    uint32_t number;
    uint32_t reserved;
    uint64_t incarnation;
    uint64_t arena_size;
    uint32_t dir_size, setup_size;
} wire_welcome_t;

typedef struct wire_text {
    wire_packet_t packet;
    uint32_t stream; /* mob_message_kind_t */
    int32_t pid;
    uint32_t name_size, text_size;
} wire_text_t;

typedef struct wire_ask {
    wire_packet_t packet;
    uint32_t query, reserved; /* mob_query_t */
    uint64_t argument;
} wire_ask_t;

typedef struct wire_answer {
    wire_packet_t packet;
    uint32_t status, reserved;
    uint64_t size;
} wire_answer_t;

/* Follows a fetcher's hello. Which file: one that a client has asked for, to be written; or, if
 * `client` is 0, that of an object, to be read. */
typedef struct wire_fetch {
    uint32_t client, number;
    uint32_t slot, reserved;
    uint64_t generation;
} wire_fetch_t;

typedef struct wire_fetched {
    wire_packet_t packet;
    uint32_t status, reserved; /* MOB_ESPACE: not yet */
    uint64_t size;             /* of the file */
} wire_fetched_t;

typedef struct wire_fork {
    wire_packet_t packet;
    uint64_t token;
} wire_fork_t;

#endif
