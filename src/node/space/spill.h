/* Values out of memory onto disk. spill.c has the states; threads of libuv's write. */
#ifndef NODE_SPACE_SPILL_H
#define NODE_SPACE_SPILL_H

#include "node/types.h"

typedef struct {
    uint64_t next_file;
    uint32_t writes;       /* under way */
    uint64_t ahead_flying; /* bytes that are being written ahead */
    int disk_error; /* errno of the last write that failed; 0: none, or one has succeeded since */
    char disk_error_path[256];
    uint64_t disk_error_ns;
    uint64_t bytes, objects, told_bytes, busy_ns, begun_ns; /* for the words to the driver */
    uint64_t quiet_bytes; /* below which they are not said; 0: they never are */
} node_spill_t;

typedef enum {
    NODE_SPILL_FREED,   /* it had copies, and is gone */
    NODE_SPILL_WRITES,  /* it is being written */
    NODE_SPILL_DISK,    /* the disk fails */
    NODE_SPILL_NOTHING, /* there is no such piece */
} node_spilled_t;

/* Moves what was least recently used and nobody reads, so that there will be space for `size` in
 * one piece. copied_only: nothing is written for it. */
node_spilled_t node_spill(node_t *node, uint64_t size, bool copied_only);
/* Moves about so many bytes, longest unused first. */
void node_spill_idlest(node_t *node, uint64_t bytes);
/* The object's value on disk is not needed any more. */
void node_copy_drop(node_t *node, node_object_t *object);

#endif
