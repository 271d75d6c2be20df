/*
 * What people are told while this node's term is over (shm/term.h): it has paused. At once in
 * cluster.log and in what the node says of itself (`ray status`); its programs after a while, for
 * most pauses are short.
 */
#ifndef NODE_CLUSTER_PAUSE_H
#define NODE_CLUSTER_PAUSE_H

#include <uv.h>

#include "node/types.h"

typedef struct {
    uint64_t since_ns; /* CLOCK_BOOTTIME; 0: the node has not paused */
    bool is_told;      /* to its programs */
    uv_timer_t timer;
} node_pause_t;

/* MOB_ESYS, with words. */
mob_status_t node_pause_start(node_cluster_t *cluster);
/* Ends its timer. */
void node_pause_end(node_cluster_t *cluster);
void node_pause_begin(node_cluster_t *cluster);
/* Harmless if the node has not paused. */
void node_pause_over(node_cluster_t *cluster);
/* For its row among the nodes; NULL: it has not paused. */
const char *node_pause_words(const node_cluster_t *cluster);

#endif
