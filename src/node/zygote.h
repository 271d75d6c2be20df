/* The process that workers are forked from. */
#ifndef NODE_ZYGOTE_H
#define NODE_ZYGOTE_H

#include <sys/types.h>

#include "node/types.h"

typedef struct {
    node_client_t *client; /* that forks; NULL: none is ready */
    node_client_t *next;   /* that takes its place when it has loaded what it was asked to */
    bool ready;            /* one was, at some time */
    int failures;          /* in a row */
    pid_t pid;             /* of the one that was started last; 0: none */
} node_zygote_t;

/* Starts a zygote; it connects by itself. MOB_ESYS with words. */
mob_status_t node_zygote_start(node_t *node);
/* What a zygote said after its hello. */
void node_zygote_packet(node_client_t *client, uint32_t kind);
/* The zygote is gone: starts another, which is asked for the workers that were to come. */
void node_zygote_died(node_t *node);
/* Asks the zygote for the worker, with its token and the pipes of its output. False: there are no
 * descriptors left, or they can't be watched; the worker is gone then. */
bool node_zygote_fork(node_client_t *worker);

#endif
