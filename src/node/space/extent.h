/* Extents of the arena: which client was granted which, and which of them have memory. */
#ifndef NODE_SPACE_EXTENT_H
#define NODE_SPACE_EXTENT_H

#include "node/space/gap.h"
#include "node/types.h"

/* An extent, by its first granule. */
typedef struct {
    uint64_t size; /* 0: this granule begins no extent */
    uint64_t serial;
    uint32_t owner;       /* client; 0: the daemon's own; or NODE_ORPHAN */
    uint64_t promised_ns; /* granted to a client that waited, and may not have seen it yet */
    uint64_t cold;        /* bytes that its owner is getting memory for */
} node_extent_t;

typedef struct {
    node_extent_t *extents; /* by granule */
    uint16_t *owner;        /* by granule */
    uint64_t *backed;       /* one bit a granule: it has memory, or its owner is getting it */
    uint64_t cold; /* bytes that owners are getting memory for: the machine still has them */
    node_gaps_t gaps;
    uint64_t free_bytes; /* in the gaps */
    uint64_t next_serial;
    uint64_t orphans; /* extents of the dead with something alive in them */
} node_books_t;

/* The client asks for an extent, and is answered; if there is no space, it waits (space.h).
 * `goes_on`: the client has asked before, and how long it waited in vain counts. */
void node_extent_ask(node_client_t *client, uint64_t size, uint64_t least, bool goes_on);
/* The daemon's own: a grant function for its heap, with the node as its context. */
mob_status_t node_extent_ask_own(void *node, uint64_t size, uint64_t least, uint64_t *ret_offset,
                                 uint64_t *ret_size, uint64_t *ret_serial);
/* Grants an extent. `size` is whole granules. MOB_ESPACE: not now. `promised`: the extent is EMPTY,
 * for a client that is about to be told of it. */
mob_status_t node_extent_grant(node_t *node, uint32_t owner, uint64_t size, bool promised,
                               uint64_t *ret_offset, uint64_t *ret_serial);
/* The owner of a large block has got memory for it, or gives it up. */
void node_extent_backed(node_t *node, uint32_t owner, uint64_t block);
/* Whether the bytes, whose place need not make sense, lie in extents of that owner's. */
bool node_extent_owned(node_t *node, uint32_t owner, uint64_t offset, uint64_t size);
/* How many are in gaps, and in extents in which nothing is used. Walks all extents. */
uint64_t node_extents_free_bytes(node_t *node);
bool node_granule_is_backed(const node_t *node, uint64_t granule);
/* Gives the memory of gaps and of unused extents back to the machine. */
void node_extents_give_back(node_t *node);
/* The client is certainly dead: blocks that nothing names are freed, the rest belongs to
 * NODE_ORPHAN. */
void node_extents_forget(node_client_t *client);

#endif
