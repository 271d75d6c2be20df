/* Processes below the daemon. */
#ifndef NODE_CHILDREN_H
#define NODE_CHILDREN_H

#include <sys/types.h>

#include "node/types.h"

typedef struct {
    VEC(pid_t)
    dead_sessions; /* of workers that died: their descendants, which become the daemon's
                      children, are ended too */
} node_children_t;

/* Reaps those that have ended: now their end is certain. */
void node_children_reap(node_t *node);
/* Ends every process below the daemon. At the end only: waits until there is none. */
void node_children_end(void);

#endif
