/*
 * The memory that processes share, and the daemon's own tables about it: made at the start, gone
 * with the daemon.
 */
#ifndef NODE_SPACE_MEMORY_H
#define NODE_SPACE_MEMORY_H

#include "node/types.h"
#include "shm/segment.h"

/* The arena is the sixth; it lies in node_t, since every file uses it. */
typedef struct {
    shm_segment_t node, slots, records, extents, queues;
} node_segments_t;

/* At the start; the segments and tables go with the process. MOB_EINVAL, with words, if the store
 * is to be too small; MOB_ENOMEM, MOB_ESYS. */
mob_status_t node_memory_init(node_t *node);
/* Whether the machine, or the control group, has less than `bytes` and a reserve. Reads files of
 * the kernel's. */
bool node_memory_is_short(uint64_t bytes);

#endif
