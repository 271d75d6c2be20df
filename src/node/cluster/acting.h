/*
 * The room actor on the books of the daemon: actors that live on other nodes than their home, and
 * calls between nodes. acting.c carries what the room says and hears; actor_stub.h has the actors
 * that live elsewhere, actor_seat.h what runs here for others. README.md says how it fits.
 *
 * Every function takes a cluster that is there. Before node_acting_start and after node_acting_end
 * they do nothing.
 */
#ifndef NODE_CLUSTER_ACTING_H
#define NODE_CLUSTER_ACTING_H

#include <uv.h>

#include "base/map.h"
#include "frame/frame.h"
#include "mobula.h"
#include "node/types.h"

typedef struct node_acting_event node_acting_event_t;
typedef struct node_name_search node_name_search_t;
typedef struct node_name_asked node_name_asked_t;

/* A detached actor whose home is dead, and that this node, the leader, looks after: see
 * actor_orphan.h. */
typedef struct node_orphan {
    frame_id_t id;
    uint8_t *will; /* NULL: it was not read yet */
    size_t size;
    bool is_reading, is_placing;
    bool is_tried;                 /* some node was asked */
    frame_id_t group;              /* the placement group that was looked for; none: not yet */
    bool asks_group, is_ungrouped; /* its home was asked; there is none any more */
} node_orphan_t;

/* An actor whose creation waits in the scheduler, since when. */
typedef struct {
    mob_ref_t id;
    uint64_t since_ns;
} node_acting_waiting_t;

/* A result that came, and may have to wait for space: which node has it. */
typedef struct {
    uint32_t record;
    uint64_t from;
} node_acting_source_t;

typedef struct {
    struct actor *room;  /* actor_t; NULL: it was not started, or has ended */
    node_peer_t *others; /* has the calls of actors elsewhere, and runs those from there */
    uv_timer_t timer;    /* the room's tick */
    node_acting_event_t *first, *last;  /* what is to be done at the end of the round */
    VEC(node_acting_event_t *) early;   /* LOOKs for actors that this node has yet to read of */
    VEC(node_acting_event_t *) unasked; /* questions for which there was no answer */
    base_map_t seats;                   /* node_seat_t by actor */
    base_map_t calls;                   /* visits by the room's numbers */
    base_map_t frames;                  /* creations that have come, by actor */
    VEC(node_actor_t *) fars;           /* all actors that live elsewhere */
    VEC(node_acting_waiting_t) waiting; /* actors whose creation waits here, and may go */
    VEC(mob_ref_t)
    sought; /* actors that have yet to begin here, or to leave: then
               the room is told where they are */
    VEC(node_acting_source_t) sources;
    node_name_search_t *searches;      /* of names; see actor_name.c */
    node_name_asked_t *unheard;        /* questions about names that were not answered */
    struct node_keep *keeps;           /* questions about wills that were not answered */
    VEC(node_orphan_t) orphans;        /* that this node looks after as the leader */
    struct node_gathering *gatherings; /* lists that are made */
    uint64_t spread;                   /* actors that were spread */
    uint64_t search_count;             /* that there were, and lists */
    uint64_t from;                     /* whose message is being received */
    uint64_t master, settled;          /* of the control state, as membership names it */
    uint64_t said;                     /* the newest master that was told all by the room */
    uint64_t names_master, names_said; /* the same for names: the newest, and that was told all */
    size_t names_open;                 /* that are said, and not answered */
    bool names_due;                    /* some are to be said yet */
} node_acting_t;

/* This node is a member. MOB_ENOMEM. */
mob_status_t node_acting_start(node_cluster_t *cluster);
void node_acting_end(node_cluster_t *cluster);
/* Once a round, after what was read of clients and before refs_flush and what mesh sends. */
void node_acting_settle(node_cluster_t *cluster);
/* A message of POST_ACTOR. MOB_EPROTO, MOB_ECLOSED: it is thrown away; MOB_ENOMEM: it has to come
 * again. */
mob_status_t node_acting_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                 size_t size);
/* The peer's tombstone, after all that was received of it, and before its proxies are told. */
void node_acting_died(node_cluster_t *cluster, uint64_t peer);
void node_acting_silent(node_cluster_t *cluster, uint64_t peer, bool is_silent);
void node_acting_leads(node_cluster_t *cluster, uint64_t leader);
void node_acting_paused(node_cluster_t *cluster, bool is_paused);
/* The control state has a new master. The room's facts are said to it: then member_said. */
void node_acting_master(node_cluster_t *cluster, uint64_t master);
/* The newest master that this room has said to what it has to say. */
uint64_t node_acting_said(const node_cluster_t *cluster);
void node_acting_settled(node_cluster_t *cluster, uint64_t master);

/* ---- for actor_stub.c and actor_seat.c ---- */

/* What the books tell the room, at the end of the round: it may be calling right now. */
typedef enum {
    NODE_ACTING_MADE,    /* actor_process_made; number: epoch */
    NODE_ACTING_GONE,    /* actor_process_ended; number: epoch, value: actor_end_t */
    NODE_ACTING_REFUSED, /* actor_process_refused; number: epoch */
    NODE_ACTING_READY,   /* actor_call_ready; number: the call */
    NODE_ACTING_DONE,    /* actor_call_done, with the bytes; number: the call */
    /* the rest is acting.c's own: what the room tells the books */
    NODE_ACTING_LETTER,
    NODE_ACTING_PLACE,
    NODE_ACTING_ENDED,
    NODE_ACTING_MAKE,
    NODE_ACTING_STOP,
    NODE_ACTING_FETCH,
    NODE_ACTING_RUN,
    NODE_ACTING_CANCEL,
    NODE_ACTING_RESULT,
} node_acting_what_t;

typedef struct {
    node_acting_what_t what;
    frame_id_t id;
    uint64_t number;
    uint32_t value;
} node_acting_word_t;

/* The bytes are copied. Without memory it is lost, with a word in cluster.log. */
void node_acting_tell(node_cluster_t *cluster, node_acting_word_t word, const void *bytes,
                      size_t size);
/* The message comes again when every ring was read once more. MOB_ENOMEM. */
mob_status_t node_acting_wait(node_cluster_t *cluster, const void *bytes, size_t size);
/* The book of the actor with this id, which may live anywhere; NULL: none here. */
node_actor_t *node_acting_actor(node_t *node, frame_id_t id);
/* What a map of actors is asked by: 20 bytes. */
typedef struct {
    uint8_t bytes[MOB_ID_SIZE];
} node_acting_key_t;
node_acting_key_t node_acting_key(frame_id_t id);

#endif
