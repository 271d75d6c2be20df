/* What the files of pulling share: pulling, pulled, wanting, contents. Nothing here is for others.
 */
#ifndef NODE_CLUSTER_PULLED_H
#define NODE_CLUSTER_PULLED_H

#include "base/map.h"
#include "bulk/bulk.h"
#include "node/cluster/pulling.h"
#include "pull/pull.h"

typedef struct node_pulled node_pulled_t;

/* A want of one object in the room, for the clients that wait in its book. */
typedef struct {
    node_pulled_t *of;
    pull_want_t *want; /* NULL: none */
} node_pull_ask_t;

typedef enum {
    PULLED_NONE,
    PULLED_COMING,  /* it has a block, into which chunks come */
    PULLED_SEALING, /* all bytes are in it; the references inside are not */
    PULLED_HERE,    /* the slot has its value */
    PULLED_MADE,    /* the value was made here, and can be read by others */
} node_pulled_state_t;

/* What this node has to do with one object that is pulled: a copy of it, wants of it, or both. */
struct node_pulled {
    frame_id_t id;
    mob_ref_t ref;
    node_pulled_state_t state;
    uint64_t block;  /* that is not the slot's yet, or 0 */
    bool is_cold;    /* its pages may have no memory */
    bool is_short;   /* there was no space for a block */
    bool is_used;    /* it counts as a use of the object */
    bool is_shelved; /* the value is in a slot of the daemon's, which `ref` is then: shelf.c */
    bool is_kept;    /* nothing needs the proxy, and the value is to be shelved */
    bool is_owned;   /* its home is dead, and the copy is this node's */
    bool is_lost;    /* no node has it, and it is made again here */
    mob_ref_t *list; /* of references inside, each with a use, as far as they have come */
    uint32_t listed;
    uint64_t lost_bytes;                /* that it had */
    node_pull_ask_t asks[PULL_CLASSES]; /* by their class */
};

/* What the room has asked for from within a call: done when it has returned. */
typedef struct {
    enum {
        TODO_SEAL,
        TODO_SEALED,
        TODO_READY,
        TODO_FAILED,
        TODO_LOST,
        TODO_SPILL,
        TODO_SERVED,
        TODO_OFFER,
        TODO_UNANSWERED,
        TODO_LET_GO,
        TODO_DROP,
        TODO_GONE,
        TODO_ROOM,
    } kind;
    frame_id_t id;
    uint64_t reader, ticket, bytes;
    mob_status_t why;
    pull_class_t class;
    pull_question_t question;
} node_todo_t;

/* A chunk that a peer reads, of a value that is on disk now. */
typedef struct {
    frame_id_t id;
    uint64_t reader, ticket;
    uint32_t chunk;
} node_serving_t;

/* A list of references whose homes have yet to answer. */
typedef struct {
    frame_id_t id;
    uint64_t peer, sequence;
} node_pull_list_t;

struct node_pulling {
    node_cluster_t *cluster;
    node_t *node;
    pull_t *pull;
    bulk_t *bulk;
    uv_timer_t timer;
    uint64_t busy_ns;   /* when something last came of it */
    uint64_t said;      /* the newest master to which the room has said its facts */
    base_map_t all;     /* node_pulled_t, by id */
    base_map_t shelves; /* of these, by the slot (store_link) of their shelf */
    size_t lost;        /* of these, that are made again */
    VEC(node_todo_t) todo;
    VEC(node_serving_t) servings;
    VEC(node_pull_list_t) lists;
};

/* ---- pulling.c ---- */

uint64_t node_pulling_now(void);
void node_pulling_note(node_pulling_t *p, node_todo_t todo);
/* Time has to be kept from now on; `soon`: the room is to look at once. */
void node_pulling_wake(node_pulling_t *p, bool soon);

/* ---- pulled.c: copies at this node ---- */

static inline uint64_t node_pulled_offset(uint32_t chunk) { return (uint64_t)chunk * PULL_CHUNK; }

/* How many bytes of a value the chunk has: what is behind them is room for references. */
static inline size_t node_pulled_size_in(uint64_t bytes, uint32_t chunk) {
    uint64_t offset = node_pulled_offset(chunk), left = offset < bytes ? bytes - offset : 0;
    return left < PULL_CHUNK ? (size_t)left : PULL_CHUNK;
}

/* What a chunk says of its value beside its size. */
static inline uint64_t node_pulled_about(mob_format_t format, mob_status_t error,
                                         uint32_t ref_count) {
    return (uint64_t)ref_count << 32 | (uint64_t)error << 8 | (uint64_t)format;
}

node_pulled_t *node_pulled_find(const node_pulling_t *p, frame_id_t id);
/* Makes it if there is none; NULL: no memory. */
node_pulled_t *node_pulled_get(node_pulling_t *p, frame_id_t id, mob_ref_t ref);
/* Whether the object has to stay for its sake may have changed. Frees it if nothing is left. */
void node_pulled_update(node_pulling_t *p, node_pulled_t *e);
/* The same of all. */
void node_pulled_update_all(node_pulling_t *p);
/* The store has no space for so many bytes: copies go that nobody needs. */
void node_pulled_room_make(node_pulling_t *p, uint64_t bytes);
bool node_pulled_extent_new(node_pulling_t *p, const frame_id_t *id, uint64_t size);
void node_pulled_extent_free(node_pulling_t *p, const frame_id_t *id);
void node_pulled_fetch(node_pulling_t *p, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                       uint64_t source);
void node_pulled_came(node_pulling_t *p, const bulk_chunk_t *chunk, size_t size, bool is_whole);
/* All bytes are here, and so is the list: the slot has the value. */
void node_pulled_fill(node_pulling_t *p, node_pulled_t *e);

/* ---- serving.c: what others read ---- */

void node_pulled_serve(node_pulling_t *p, node_serving_t serving);
/* Chunks of values that have come from disk. */
void node_pulled_servings_settle(node_pulling_t *p);
/* An own object's value can be read by others from now on. */
mob_status_t node_pulled_offer(node_pulling_t *p, frame_id_t id);

/* ---- shelf.c: primary copies that nothing here needs ---- */

/* Out of the proxy's slot. False: not now. */
bool node_shelf_put(node_pulling_t *p, node_pulled_t *e, node_object_t *o);
/* Into the slot of the proxy that there is. False: not now. */
bool node_shelf_take(node_pulling_t *p, node_pulled_t *e);
void node_shelf_free(node_pulling_t *p, node_pulled_t *e);
/* It was not moved in its time, and still nothing needs the proxy. */
bool node_shelf_is_due(const node_pulling_t *p, const node_pulled_t *e);

/* ---- wanting.c: gets, waits and arguments ---- */

void node_wanting_ready(node_pulling_t *p, frame_id_t id, pull_class_t class);
void node_wanting_failed(node_pulling_t *p, frame_id_t id, pull_class_t class, mob_status_t why);
/* Ends wants of objects that nobody needs any more, or that are here. */
void node_wanting_settle(node_pulling_t *p);
/* No node has the object. */
void node_wanting_lost(node_pulling_t *p, frame_id_t id);
/* Objects that were lost and are here again can be read by others. */
void node_wanting_remade(node_pulling_t *p);

/* ---- contents.c: references inside ---- */

/* The room is told. */
void node_contents_sealed(node_pulling_t *p, frame_id_t id, mob_status_t status);
/* All bytes are here. */
void node_contents_seal(node_pulling_t *p, frame_id_t id);
/* A peer asks for an own object's list. */
mob_status_t node_contents_asked(node_pulling_t *p, uint64_t peer, const uint8_t *bytes,
                                 size_t size);
mob_status_t node_contents_came(node_pulling_t *p, uint64_t peer, const uint8_t *bytes,
                                size_t size);
void node_contents_kept(node_cluster_t *cluster, uint64_t peer, uint64_t sequence);
/* A home that was asked will not answer. */
void node_contents_died(node_pulling_t *p, uint64_t peer);
/* The list of a copy that is given up. */
void node_contents_drop(node_pulling_t *p, node_pulled_t *e);

/* What POST_PULL's first byte says. */
enum { PULLING_ROOM = 1, PULLING_LIST_ASK, PULLING_LIST };

#endif
