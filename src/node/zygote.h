/* The process that a job's workers are forked from. */
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
    node_setup_t *mother;  /* whose zygote is to fork it, until it has said hello; NULL: none */
    bool asked;            /* the mother's zygote was asked to */
    uint64_t asked_ns;     /* when, or since when it waits for the mother to be ready */
} node_zygote_t;

/* Starts a zygote, with the driver's command, environment and folder; it connects by itself. It is
 * forked from a mother's where that makes no difference (mother.h). MOB_ESYS with words. */
mob_status_t node_zygote_start(node_setup_t *setup);
/* Ends mothers that do not answer; once a round of scheduling. */
void node_zygotes_watch(node_t *node);
/* Whether none is there or on its way. */
bool node_zygote_is_missing(const node_setup_t *setup);
/* A zygote has said hello. */
void node_zygote_hello(node_client_t *client, node_setup_t *setup);
/* What a zygote said after its hello. */
void node_zygote_packet(node_client_t *client, const void *packet, size_t size);
/* The zygote's connection is closed. */
void node_zygote_closed(node_client_t *client);
/* The zygote is gone: starts another, which is asked for the workers that were to come. */
void node_zygote_died(node_setup_t *setup);
/* Nobody needs it any more. */
void node_zygote_end(node_setup_t *setup);
/* Asks the zygote for the worker, with its token and the pipes of its output. False: there are no
 * descriptors left, or they can't be watched; the worker is gone then. */
bool node_zygote_fork(node_client_t *worker);

#endif
