/* Processes below the daemon. */
#ifndef NODE_CHILDREN_H
#define NODE_CHILDREN_H

#include <sys/types.h>

#include "node/types.h"

typedef struct {
    VEC(pid_t)
    dead_sessions; /* of workers and zygotes that died: the daemon also ends their descendants,
                      which become its children */
} node_children_t;

/* Reaps the children that have ended: from now on their end is certain. */
void node_children_reap(node_t *node);
/* Ends every process below the daemon. At the end only: waits until there is none. */
void node_children_end(void);

#endif
