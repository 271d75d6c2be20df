/*
 * What a node keeps about references across nodes, and the calls between the files of this room.
 *
 *     own    an object of this node that other nodes hold: a member for each of these nodes
 *     away   an object of another node that is held here, or asked for, or given on
 *     sent   a frame to a peer with references to third nodes' objects, which the peer has not
 *            confirmed; it pins them
 *     came   a frame of a peer: some of what it named is asked for at the homes (a wait each), or
 *            the peer must be told that all is answered
 *     peer   another node
 *
 * Lists lead from everything to what must change with it, so no step looks at all objects or nodes.
 */
#ifndef REFS_BOOKS_H
#define REFS_BOOKS_H

#include "base/bytes.h"
#include "base/map.h"
#include "refs/list.h"
#include "refs/refs.h"

typedef enum refs_level { REFS_NONE, REFS_CACHED, REFS_HELD } refs_level_t;

typedef struct {
    uint8_t bytes[MOB_ID_SIZE];
} refs_key_t;
/* An object and a node that holds it. */
typedef struct {
    refs_key_t object;
    uint8_t node[8];
} refs_pair_t;

typedef struct refs_peer {
    uint64_t node;
    uint64_t processed;   /* the number of its newest frame with references */
    uint64_t last;        /* the newest number of a frame to it */
    uint64_t number;      /* of its tombstone; 0: it lives */
    size_t pending;       /* frames of it in `came` */
    refs_link_t busy;     /* in refs->busy, while there is something to say to it */
    refs_link_t dead;     /* in refs->dead */
    refs_link_t changed;  /* away objects of it whose home may have to be told something */
    refs_link_t answered; /* frames of it that are to be confirmed */
    refs_link_t forgets;  /* its members that are to be told FORGET */
    refs_link_t aways;    /* all away objects that have it as their home */
    refs_link_t members;  /* all its members */
    base_map_t sent;      /* number to refs_sent_t */
} refs_peer_t;

typedef struct refs_own {
    frame_id_t id;
    bool is_local;       /* something on this node holds it */
    size_t count, held;  /* of its members: all; those that do more than cache it */
    refs_link_t changed; /* in refs->changed */
    refs_link_t untold;  /* members that cache it and were not told FORGET */
    refs_link_t members; /* all others */
} refs_own_t;

typedef struct refs_member {
    refs_own_t *own;
    refs_peer_t *peer;
    uint64_t last;      /* the number of the newest frame that gave it to the peer */
    bool is_fresh;      /* made for a frame that may yet not be sent */
    refs_level_t level; /* REFS_NONE: while it is fresh */
    refs_link_t in_own, in_peer, in_forgets;
} refs_member_t;

typedef struct refs_away {
    frame_id_t id;
    refs_peer_t *home;  /* NULL: it is gone, and in no map; pins keep its memory */
    refs_level_t level; /* what this node does with it */
    refs_level_t told;  /* what the home has on its books, by all that was answered */
    bool is_asking;     /* a HOLD is not answered */
    bool is_forgotten;  /* the home has said FORGET */
    size_t pins;        /* by frames */
    refs_link_t waits;  /* of frames that came */
    refs_link_t in_home, changed;
} refs_away_t;

struct refs_came;
typedef struct refs_wait {
    refs_link_t in_away;
    struct refs_came *frame;
} refs_wait_t;

typedef struct refs_came {
    refs_peer_t *peer;
    uint64_t sequence;
    refs_away_t *container; /* pinned; NULL: none */
    bool confirms;          /* the peer is to be told */
    size_t missing;         /* answers */
    refs_link_t answered;   /* in the peer's list */
    refs_link_t in_all;     /* in refs->frames */
    refs_wait_t waits[];
} refs_came_t;

typedef struct refs_sent {
    size_t count;
    refs_away_t *pinned[];
} refs_sent_t;

struct refs {
    const refs_ops_t *ops;
    void *context;
    uint64_t self;
    uint64_t heard;  /* the newest tombstone that was told of */
    uint64_t closed; /* all tombstones up to this one are closed */
    base_map_t peers, owns, members, aways;
    size_t sent, came, dead_count;
    bool is_closing;     /* a tombstone may be closed now */
    refs_link_t frames;  /* all that came */
    refs_link_t busy;    /* peers */
    refs_link_t changed; /* own objects that may have to be freed or forgotten */
    refs_link_t dead;    /* peers, by number */
    uint64_t out_to;     /* to whom `out` goes; 0: nobody */
    base_writer_t out;
    uint8_t out_bytes[REFS_MESSAGE_MAX];
};

static inline refs_key_t refs_key(frame_id_t id) {
    refs_key_t key;
    base_writer_t w = {.bytes = key.bytes};
    base_put_number(&w, id.home, 8);
    base_put_number(&w, id.number, 4);
    base_put_number(&w, id.generation, 8);
    return key;
}

/* ---- refs.c ---- */

refs_peer_t *refs_peer_find(const refs_t *refs, uint64_t node);
/* Makes it if it is not there. NULL: no memory. */
refs_peer_t *refs_peer_get(refs_t *refs, uint64_t node);
void refs_peer_busy(refs_t *refs, refs_peer_t *peer);

/* ---- own.c ---- */

refs_own_t *refs_own_find(const refs_t *refs, frame_id_t id);
void refs_own_change(refs_t *refs, refs_own_t *own);
/* The member, made if need be: fresh, which counts for nothing until refs_member_set. NULL: no
 * memory. */
refs_member_t *refs_member_get(refs_t *refs, frame_id_t id, refs_peer_t *peer);
refs_member_t *refs_member_find(const refs_t *refs, frame_id_t id, const refs_peer_t *peer);
void refs_member_set(refs_t *refs, refs_member_t *member, refs_level_t level);
void refs_member_remove(refs_t *refs, refs_member_t *member);
/* Frees what nobody holds, and asks for FORGET where only caches are left. */
void refs_own_settle(refs_t *refs, refs_own_t *own);

/* ---- away.c ---- */

refs_away_t *refs_away_find(const refs_t *refs, frame_id_t id);
/* Makes it if it is not there. NULL: no memory. */
refs_away_t *refs_away_get(refs_t *refs, frame_id_t id);
void refs_away_change(refs_t *refs, refs_away_t *away);
void refs_away_pin(refs_away_t *away);
void refs_away_unpin(refs_t *refs, refs_away_t *away);
/* Its home has sent it in a frame. */
void refs_away_given(refs_t *refs, refs_away_t *away);
/* The home's answer to a HOLD: it knows. */
void refs_away_answered(refs_t *refs, refs_away_t *away);
/* It is gone: nothing is counted any more. */
void refs_away_lose(refs_t *refs, refs_away_t *away, refs_reason_t reason);
/* Writes what its home must be told now, at most one word. */
void refs_away_settle(refs_t *refs, refs_away_t *away);

/* ---- frames.c ---- */

/* The peer says that everything of this frame is answered. */
void refs_sent_confirm(refs_t *refs, refs_peer_t *peer, uint64_t sequence);
/* All frames to it are as good as confirmed. */
void refs_sent_release(refs_t *refs, refs_peer_t *peer);
void refs_came_answer(refs_t *refs, refs_came_t *frame);
/* Writes the confirmation of a frame that is answered, tells the node, and frees it. */
void refs_came_settle(refs_t *refs, refs_came_t *frame);

/* ---- message.c ---- */

typedef enum {
    REFS_SAY_HOLD = 1, /* to the home: the sender holds it. Answered by one of the next three */
    REFS_SAY_KNOWN,
    REFS_SAY_GONE,
    REFS_SAY_AGAIN,   /* the home has no memory for it now */
    REFS_SAY_DROP,    /* to the home: the sender does not hold it */
    REFS_SAY_CACHE,   /* to the home: the sender only keeps it loaded */
    REFS_SAY_FORGET,  /* from the home */
    REFS_SAY_CONFIRM, /* to the giver, with the number of its frame */
    REFS_SAYS
} refs_say_t;

/* Begins a message to the peer, if there is none; MOB_ENOMEM: one to another could not be sent. */
mob_status_t refs_out_begin(refs_t *refs, refs_peer_t *peer);
/* Sends what was written, if any. */
mob_status_t refs_out_send(refs_t *refs);
/* There is room for another word. */
bool refs_out_has_room(const refs_t *refs);
void refs_say_object(refs_t *refs, refs_say_t what, frame_id_t id);
void refs_say_confirm(refs_t *refs, uint64_t sequence);

#endif
