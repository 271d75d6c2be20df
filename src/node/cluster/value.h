/*
 * Whether an object of another node has its value, and small values: POST_VALUE. value.c has the
 * messages.
 */
#ifndef NODE_CLUSTER_VALUE_H
#define NODE_CLUSTER_VALUE_H

#include "frame/frame.h"
#include "mobula.h"
#include "node/types.h"

/* A small value that came, for which the store had no space. */
typedef struct {
    mob_ref_t to;
    uint8_t format, error;
    uint8_t *bytes;
    size_t size;
    mob_ref_t *refs; /* inside it, each with a use */
    uint32_t num_refs;
    uint64_t since_ns;
} node_late_value_t;

/* Peers that wait for an own object: node_object_t's `watchers`. */
typedef struct node_watchers {
    struct node_watchers *next; /* of those that are due */
    mob_ref_t ref;
    bool is_due; /* they are answered at the end of the round */
    VEC(uint64_t) peers;
} node_watchers_t;

typedef struct {
    VEC(frame_id_t) asked; /* whose homes are to be asked, at the end of the round */
    node_watchers_t *due;
    VEC(node_late_value_t) late;
} node_watches_t;

/* A message of POST_VALUE. MOB_EPROTO, MOB_ECLOSED: it is thrown away; MOB_ENOMEM: it has to come
 * again. */
mob_status_t node_watch_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                size_t size);

/* ---- for the other files of this folder, object.c and cancel.c ---- */

/* The end of a round, after refs_flush: asks and answers. */
void node_watches_settle(node_cluster_t *cluster);
void node_watches_end(node_cluster_t *cluster);
/* Asks the home of this proxy at the end of the round. False: no memory. */
bool node_watch_ask(node_cluster_t *cluster, frame_id_t id);
/* Asks the home of this object to stop the task that makes it; as for any cancel, it need not
 * succeed. */
void node_watch_cancel(node_t *node, frame_id_t id, bool force, bool recursive);
/* An own object with watchers is sealed: they are told at the end of the round. */
void node_watch_sealed(node_t *node, node_object_t *object);
/* It is freed: so are they. */
void node_watch_freed(node_t *node, node_object_t *object);

#endif
