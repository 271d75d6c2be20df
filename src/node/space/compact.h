/* Moves values within the arena, so that free space comes together. */
#ifndef NODE_SPACE_COMPACT_H
#define NODE_SPACE_COMPACT_H

#include "node/types.h"

/* So that there will be space for `size` in one piece. True: it is under way; a thread of libuv's
 * copies, and node_space_serve is called when it is done. */
bool node_compact(node_t *node, uint64_t size);

#endif
