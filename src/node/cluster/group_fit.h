/* Whether a placement group can ever be placed, as the nodes are now: for people. */
#ifndef NODE_CLUSTER_GROUP_FIT_H
#define NODE_CLUSTER_GROUP_FIT_H

#include "node/types.h"

/* On this node alone, unless it goes over nodes. Each bundle is looked at by itself, so that it may
 * say so of a group whose sum no nodes have. */
bool node_group_is_possible(const node_group_t *group);

#endif
