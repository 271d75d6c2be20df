/*
 * Gaps: stretches of the arena that belong to nobody, in order of place. Each names its last owner:
 * a process that gets its old pages back finds them warm. The sizes are whole granules.
 */
#ifndef NODE_SPACE_GAP_H
#define NODE_SPACE_GAP_H

#include "node/types.h"

typedef struct {
    uint64_t offset, size;
    uint32_t last_owner;
} node_gap_t;
typedef VEC(node_gap_t) node_gaps_t;

/* Adds a stretch, and joins it with its neighbours. */
void node_gap_add(node_t *node, uint64_t offset, uint64_t size, uint32_t last_owner);
/* Takes `size` bytes out. `backed`: only what has its memory already. False: there is no such
 * stretch, or no memory for the list. */
bool node_gap_take(node_t *node, uint64_t size, uint32_t owner, bool backed, uint64_t *ret_offset);
/* Takes what is free between two places out of the gaps, and gives it back. The list stays its
 * caller's to free. */
void node_gaps_take(node_t *node, uint64_t from, uint64_t to, node_gaps_t *ret_taken);
void node_gaps_return(node_t *node, const node_gap_t *gaps, size_t count);

#endif
