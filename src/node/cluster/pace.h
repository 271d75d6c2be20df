/*
 * How fast the tasks of a lane run at this node. To send one elsewhere, and to hear of its end,
 * costs this node's daemon some microseconds. So tasks that take hardly longer are not offered to
 * others while this node runs them: it would be done later with them.
 */
#ifndef NODE_CLUSTER_PACE_H
#define NODE_CLUSTER_PACE_H

#include "node/types.h"

/* What was seen last. All zero at first. */
typedef struct {
    uint64_t since_ns, passed;
    bool is_quick;
} node_pace_t;

/* Whether the lane's tasks are so short, as far as is known; to be asked every few milliseconds
 * while some wait. */
bool node_pace_is_quick(node_pace_t *pace, const node_job_t *job, uint32_t lane, uint64_t now_ns);

#endif
