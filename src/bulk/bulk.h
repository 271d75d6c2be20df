/*
 * Chunks of large values from one node's memory into another's, by a thread with a loop of its own:
 * the loop of its owner never copies. README.md says how. It knows tickets and places in memory,
 * and nothing of what they are for: the room pull decides, and says so here.
 *
 * All functions are for the owner's thread, do not block, and are done later, in the order in which
 * they were called; what is answered is answered by a call of bulk_ops_t on the owner's loop. The
 * process must ignore SIGPIPE.
 */
#ifndef BULK_BULK_H
#define BULK_BULK_H

#include <uv.h>

#include "frame/frame.h"
#include "net/port.h"

typedef struct bulk bulk_t;

enum {
    BULK_CHUNK = 1 << 20, /* the most bytes of a chunk */
    BULK_LIMIT_MS = 5000, /* without a byte, where one is due: the connection ends */
};

/* Which chunk: as the receiver calls it. */
typedef struct bulk_chunk {
    frame_id_t id;
    uint64_t ticket; /* of the receiver's reading */
    uint32_t chunk, version;
    uint64_t about[2]; /* what the source says of the value: not the room's business */
} bulk_chunk_t;

typedef struct bulk_ops {
    /* A chunk that was to be fetched has come, of `size` bytes; it is answered for, and nothing
     * more is written there. `is_whole`: its tag fits; else its bytes are worth nothing. Not every
     * fetch is answered: connections end. */
    void (*came)(void *context, const bulk_chunk_t *chunk, size_t size, bool is_whole);
    /* Answers bulk_let_go: nothing is written for this ticket any more. */
    void (*let_go)(void *context, uint64_t ticket, const frame_id_t *id);
    /* Answers bulk_serve: the kernel has all of the chunk, or never will. It may still read the
     * memory until the reader has the chunk. */
    void (*served)(void *context, uint64_t reader, const bulk_chunk_t *chunk);
    /* A connection with that peer has ended, or never came about, with these words. */
    void (*trouble)(void *context, uint64_t peer, mob_status_t status, const char *words);
} bulk_ops_t;

typedef struct bulk_config {
    const net_secret_t *secret;
    net_credentials_t *credentials; /* NULL: no TLS; borrowed */
    const net_identity_t *self;     /* with the cluster's id */
} bulk_config_t;

/* Where a chunk's bytes are. They must not change, nor go away, before the reader has them. */
typedef struct bulk_bytes {
    const uint8_t *bytes; /* mapped from `fd`; NULL: they are read from `fd`, a file */
    int fd;
    uint64_t offset; /* in `fd` */
    size_t size;     /* at most BULK_CHUNK */
} bulk_bytes_t;

/* Starts the thread. `ops` must stay. MOB_ENOMEM, MOB_ESYS. */
mob_status_t bulk_open(uv_loop_t *loop, const bulk_config_t *config, const bulk_ops_t *ops,
                       void *context, bulk_t **ret_bulk);
/* Ends all connections and the thread, and waits for that: also for a file that is being read.
 * Nothing is answered any more. Its memory goes in a later turn of the loop. Not within an op. */
void bulk_close(bulk_t *bulk);

/* Of the following, MOB_ENOMEM: nothing has happened, and nothing will be answered. */

/* A node and where it listens, before anything is served to it. */
mob_status_t bulk_peer(bulk_t *bulk, uint64_t peer, const char *address, uint16_t port);
/* The peer is dead: its connections end, and what it was to be sent is answered. */
mob_status_t bulk_peer_died(bulk_t *bulk, uint64_t peer);
/* A connection that was accepted for bulk data. Takes what is in it, always. */
mob_status_t bulk_accept(bulk_t *bulk, net_handover_t *handover);

/* Of a chunk that `source` will send, at most `capacity` bytes go to `to`. `is_cold`: the pages
 * there are not mapped yet. */
mob_status_t bulk_fetch(bulk_t *bulk, uint64_t source, const bulk_chunk_t *chunk, uint8_t *to,
                        size_t capacity, bool is_cold);
/* Nothing more is to be written for the ticket. */
mob_status_t bulk_let_go(bulk_t *bulk, uint64_t ticket, const frame_id_t *id);
/* Sends a chunk to `reader`, which has asked for it. */
mob_status_t bulk_serve(bulk_t *bulk, uint64_t reader, const bulk_chunk_t *chunk,
                        const bulk_bytes_t *from);

#endif
