/* Where the large arguments of a task lie. locality.c has the rule. */
#ifndef NODE_CLUSTER_LOCALITY_H
#define NODE_CLUSTER_LOCALITY_H

#include "node/types.h"

/* The node to which the task, whose arguments have values, had better go; 0: none. It is alive, as
 * far as is known here, and large enough for the task. */
uint64_t node_locality_hint(const node_task_t *task);

#endif
