/*
 * A job's setup, as its driver gave it (wire/setup.h), and the zygote that stands for it: the
 * process that the job's workers are forked from. A detached actor's job shares the setup of the
 * job that made it.
 */
#ifndef NODE_SETUP_H
#define NODE_SETUP_H

#include "node/types.h"
#include "node/zygote.h"
#include "wire/setup.h"

struct node_setup {
    node_t *node;
    uint32_t holds; /* pools, and setups that have it as a base */
    uint64_t token; /* its zygotes say hello with it */
    int fd;         /* its bytes, sealed: every worker gets them */
    size_t size;
    void *bytes, *lists; /* a private copy, and what `given` points into */
    wire_setup_t given;
    node_setup_t *base; /* a runtime environment's: the job's, held; else NULL */
    bool is_mother;     /* its zygote forks others' zygotes, and no workers */
    bool rests;         /* an environment's that is open with nothing to do */
    uint64_t used_ns;   /* when a mother was asked last, or an environment had something to do */
    bool preloads; /* its modules are to be loaded; not after one of them has started a thread */
    node_zygote_t zygote;
};

typedef struct {
    VEC(node_setup_t *) items;
    uint64_t made;
} node_setups_t;

/* Reads a driver's setup. Takes the descriptor, also if it fails. MOB_EPROTO, MOB_ELIMIT,
 * MOB_ENOMEM, with words. Held once. */
mob_status_t node_setup_new(node_t *node, int fd, node_setup_t **ret_setup);
node_setup_t *node_setup_hold(node_setup_t *setup);
/* The last one ends the zygote. NULL is fine. */
void node_setup_drop(node_setup_t *setup);
/* The setup whose zygote has this token, or this process id; NULL: none. */
node_setup_t *node_setup_by_token(node_t *node, uint64_t token);
node_setup_t *node_setup_by_pid(node_t *node, pid_t pid);

#endif
