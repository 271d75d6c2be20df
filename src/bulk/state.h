/* What the files of the room share. Nothing here is for others. */
#ifndef BULK_STATE_H
#define BULK_STATE_H

#include "base/map.h"
#include "base/status.h"
#include "bulk/bulk.h"
#include "bulk/chunk.h"

typedef struct item item_t;
typedef struct pipe pipe_t;

typedef enum {
    ITEM_PEER,
    ITEM_DIED,
    ITEM_ACCEPT,
    ITEM_FETCH,
    ITEM_LET_GO,
    ITEM_SERVE,
    ITEM_CLOSE,
    ITEM_TROUBLE, /* an answer only */
} item_kind_t;

/* A request, and then, in the same memory, its answer: so an answer needs none. */
struct item {
    item_t *next;
    item_kind_t kind;
    uint64_t peer; /* that is meant: the source of a fetch, the reader of what is served */
    bulk_chunk_t chunk;
    size_t size; /* answered: of the chunk that came */
    bool is_whole;
    mob_status_t status;
    char words[256]; /* an address; of trouble, the words */
    uint16_t port;
    net_handover_t handover;
    struct {
        uint8_t *at;
        size_t capacity;
        bool is_cold;
    } to;
    bulk_bytes_t from;
    uint8_t *read; /* the bytes, of what was read from a file */
};

typedef struct {
    item_t *first, *last;
} items_t;

void bulk_items_add(items_t *items, item_t *item);
item_t *bulk_items_take(items_t *items); /* the first; NULL: none */
/* Of what is no answer, too. */
void bulk_item_free(item_t *item);

/* Where a peer listens, and the connection on which it is sent chunks. */
typedef struct {
    uint64_t node;
    char address[64];
    uint16_t port;
    pipe_t *out; /* NULL: none */
} peer_t;

/*
 *   DIALLING -> SHAKING -> UP -> ENDED, and from each to ENDED. An accepted one begins UP.
 */
typedef enum { PIPE_DIALLING, PIPE_SHAKING, PIPE_UP, PIPE_ENDED } pipe_state_t;

/* A connection. Chunks go one way only: from whoever has dialled. */
struct pipe {
    bulk_t *bulk;
    pipe_t *previous, *next;
    uv_poll_t poll;
    int fd, events;
    bool is_out;
    pipe_state_t state;
    uint64_t peer;
    char address[64];
    size_t taken;               /* bytes from the socket, in this turn */
    uint64_t touched_ms;        /* when it last got on */
    net_tls_t *tls;             /* NULL: without */
    net_handshake_t *handshake; /* until it is UP */
    chunk_key_t key;
    chunk_hash_t *hash;
    uint8_t head[NET_HANDSHAKE_MOST];
    size_t head_size; /* that has come, of a message of the handshake or a chunk's head */
    /* bytes that go before all else */
    uint8_t *out;
    size_t out_size, out_at;
    /* out.c */
    items_t line;    /* to be served */
    item_t *serving; /* the one that goes now; NULL: none */
    size_t served;   /* bytes of it that went */
    bool is_told;    /* its head was said */
    bool is_reading; /* a thread of libuv's reads it from its file */
    /* in.c */
    bulk_chunk_t chunk; /* that comes now */
    size_t size, got;
    item_t *into; /* the fetch that it is for; NULL: nobody's, and it is thrown away */
};

_Static_assert((int)CHUNK_HEAD <= (int)NET_HANDSHAKE_MOST, "one place for both");

struct bulk {
    const bulk_ops_t *ops;
    void *context;
    net_secret_t secret;
    net_credentials_t *credentials;
    net_identity_t self;
    uv_thread_t thread;
    uv_mutex_t mutex;
    items_t requests, answers; /* under the mutex */
    uv_async_t asked;          /* wakes the thread */
    uv_async_t answered;       /* wakes the owner */
    /* the thread's */
    uv_loop_t loop;
    uv_timer_t limit; /* runs while bytes are due */
    base_map_t peers;
    pipe_t *pipes;
    items_t fetches;
    uint8_t *scratch; /* what is thrown away; sealed bytes of TLS */
    bool is_closing;
};

/* BULK_TURN: bytes that one connection takes before others have their turn. */
enum { SCRATCH = 64 << 10, PIECE = 256 << 10, BULK_TURN = 2 << 20 };

/* ---- bulk.c ---- */

/* Reads what the owner has asked for. */
void bulk_requests_read(bulk_t *bulk);
void bulk_answer(bulk_t *bulk, item_t *item);
/* Tells the owner, with the words of base_fail. */
void bulk_trouble(bulk_t *bulk, uint64_t peer, mob_status_t status);
/* The time as it is: the loop's own stands still while one connection has its turn. */
static inline uint64_t bulk_now_ms(void) { return uv_hrtime() / 1000000; }
/* Bytes are due from now on: the limit of time is looked at. */
void bulk_limit_start(bulk_t *bulk);

/* ---- pipe.c: a connection ---- */

/* Takes the socket. NULL: no memory, and it is closed. */
pipe_t *bulk_pipe_new(bulk_t *bulk, int fd, bool is_out, uint64_t peer, const char *address);
/* Ends it, and tells why: the words are base_fail's. MOB_OK: it tells nobody. */
void bulk_pipe_end(pipe_t *pipe, mob_status_t status);
/* The rest of its end, where a file was being read for it. */
void bulk_pipe_close(pipe_t *pipe);
/* Which events it waits for: UV_READABLE always. */
void bulk_pipe_watch(pipe_t *pipe, bool writable);
/* It has got on. */
void bulk_pipe_touch(pipe_t *pipe);
/* Puts bytes behind those that wait to go: through TLS, if there is one. */
mob_status_t bulk_pipe_say(pipe_t *pipe, const void *bytes, size_t size);
/* Sends what waits. False: the kernel takes no more now, or it has ended. */
bool bulk_pipe_flush(pipe_t *pipe);
/* Up to `size` bytes of the peer; 0: no more now, or it has ended. */
size_t bulk_pipe_read(pipe_t *pipe, uint8_t *to, size_t size);

/* ---- dial.c: to a peer ---- */

/* NULL, with the words of base_fail: it can't be dialled. */
pipe_t *bulk_dial(bulk_t *bulk, const peer_t *peer);
void bulk_dial_event(pipe_t *pipe);

/* ---- out.c: chunks that go ---- */

void bulk_out_add(bulk_t *bulk, item_t *item);
/* Goes on as far as it can. */
void bulk_out_go(pipe_t *pipe);
bool bulk_out_is_busy(const pipe_t *pipe);
/* The connection has ended: what was to go never will. */
void bulk_out_ended(pipe_t *pipe);

/* ---- in.c: chunks that come ---- */

void bulk_in_accept(bulk_t *bulk, item_t *item);
void bulk_in_go(pipe_t *pipe);
bool bulk_in_is_busy(const pipe_t *pipe);
void bulk_in_ended(pipe_t *pipe);
/* Writes nothing more for the ticket. */
void bulk_in_let_go(bulk_t *bulk, uint64_t ticket);

#endif
