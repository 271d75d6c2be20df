/*
 * The room group on the books of the daemon: placement groups whose bundles are on several nodes.
 * grouping.c carries what the room says and hears, grouping_ask.c its questions to the control
 * state. group_over.h has the books.
 *
 * Every function takes a cluster that is there. Before node_grouping_start they do nothing.
 */
#ifndef NODE_CLUSTER_GROUPING_H
#define NODE_CLUSTER_GROUPING_H

#include <uv.h>

#include "base/bytes.h"
#include "base/map.h"
#include "frame/frame.h"
#include "group/group.h"
#include "node/types.h"
#include "place/place.h"

enum { GROUPING_TICK_MS = 100 };

/* What books say to each other; the first byte of a message of POST_GROUP. */
typedef enum {
    GROUPING_ROOM = 1, /* a message of the room */
    /* to a group's home: an id follows */
    GROUPING_ASK,    /* how does it stand? Now, and whenever that changes */
    GROUPING_REMOVE, /* remove it */
    /* from its home */
    GROUPING_TELL, /* group_home.c has the layout */
    GROUPING_GONE, /* id: there is none. The last word */
} grouping_kind_t;

typedef struct node_grouping_question node_grouping_question_t;

/* A process here that wants to know of a group of another node. */
typedef struct {
    uint32_t client, epoch;
    frame_id_t id;
} node_grouping_asker_t;

/* A peer that asked for a group of this node which is not known: its creation may lie in a ring. */
typedef struct {
    uint64_t peer, round;
    frame_id_t id;
} node_grouping_early_t;

typedef struct {
    group_t *room; /* NULL: it was not started */
    uv_timer_t timer;
    base_map_t guests; /* node_group_t by id */
    VEC(node_grouping_asker_t) askers;
    VEC(node_grouping_early_t) early;
    VEC(frame_id_t) unremoved;              /* for want of memory the room was not told */
    node_grouping_question_t *first, *last; /* to the control state; the first was asked */
    bool is_asking;                         /* ... and there was no answer yet */
    bool has_met;                           /* a node has joined since the last round */
    frame_amount_t view[PLACE_NAMES_MAX];   /* lent to the room */
    int64_t said_free[PLACE_NAMES_MAX];     /* as the room was told last */
    uint64_t master, settled;               /* of the control state, as membership names it */
    uint64_t said;                          /* the newest master that was told all */
} node_grouping_t;

/* This node is a member. MOB_ENOMEM. */
mob_status_t node_grouping_start(node_cluster_t *cluster);
/* Once a round, after what was read of clients and peers. */
void node_grouping_settle(node_cluster_t *cluster);
/* A message of POST_GROUP. MOB_EPROTO: it makes no sense; MOB_ENOMEM: it has to come again. */
mob_status_t node_grouping_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                   size_t size);
/* The peer's tombstone, after all that was received of it. */
void node_grouping_died(node_cluster_t *cluster, uint64_t peer);
void node_grouping_leads(node_cluster_t *cluster, uint64_t leader, uint64_t fence);
void node_grouping_master(node_cluster_t *cluster, uint64_t master);
/* The newest master that this room has said to what it has to say. */
uint64_t node_grouping_said(const node_cluster_t *cluster);
void node_grouping_settled(node_cluster_t *cluster, uint64_t master);

/* ---- for the files of this folder ---- */

/* A word with an id: ASK, REMOVE or GONE. */
void node_grouping_say(node_cluster_t *cluster, uint64_t peer, grouping_kind_t kind, frame_id_t id);
/* The room's questions; grouping_ask.c. */
void node_grouping_ask(void *context, script_fn script, const void *arguments, size_t size,
                       void (*reply)(void *ask, uint64_t master, const void *answer, size_t size),
                       void *ask);
/* Asks again what was not answered. */
void node_grouping_ask_again(node_cluster_t *cluster);

#endif
