/*
 * Whether an object of another node has its value, and small values: POST_VALUE. value.c has the
 * messages.
 */
#ifndef NODE_CLUSTER_VALUE_H
#define NODE_CLUSTER_VALUE_H

#include "frame/frame.h"
#include "node/types.h"

/* A small value that came, for which the store had no space. */
typedef struct {
    mob_ref_t to;
    uint8_t *bytes; /* the message's */
    size_t size;
    uint64_t since_ns;
} node_late_value_t;

/* Another node that waits for the value of an own object. */
typedef struct {
    mob_ref_t ref;
    uint64_t peer;
} node_watch_t;

/* Peers that wait for one own object: node_object_t's `watchers`. */
typedef struct {
    VEC(uint64_t) peers;
} node_watchers_t;

typedef struct {
    VEC(frame_id_t) asked; /* whose homes are to be asked, at the end of the round */
    VEC(node_watch_t) due; /* to be answered then */
    VEC(node_late_value_t) late;
} node_watches_t;

/* A message of POST_VALUE. MOB_EPROTO, MOB_ECLOSED: it is thrown away; MOB_ENOMEM: it has to come
 * again. */
mob_status_t node_watch_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                size_t size);
/* The end of a round, after refs_flush: asks and answers. */
void node_watches_settle(node_cluster_t *cluster);
void node_watches_end(node_cluster_t *cluster);
/* Asks the home of this proxy at the end of the round. False: no memory. */
bool node_watch_ask(node_cluster_t *cluster, frame_id_t id);
/* An own object with watchers is sealed: they are told at the end of the round. */
void node_watch_sealed(node_t *node, node_object_t *object);

#endif
