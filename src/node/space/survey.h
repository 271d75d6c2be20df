/*
 * What in the arena can be moved: by extents, since only whole extents give space to other clients.
 *
 * An extent can go if every block of it that is used holds a value that is SEALED, no error, and
 * pinned by nobody. A survey over the table of slots finds for each extent how much of it can go.
 */
#ifndef NODE_SPACE_SURVEY_H
#define NODE_SPACE_SURVEY_H

#include "node/state.h"

/* What is known of an extent, by its first granule. */
typedef struct node_survey {
    uint32_t units,
        copied;       /* in blocks that can go; of those, in values that have a copy on disk */
    uint32_t idle_ms; /* since the newest of them was used */
    bool can_go;      /* all of it */
    bool whole;       /* it has one block */
    bool goes, ahead; /* for the caller, which chooses: it is to go, or to be written ahead */
} node_survey_t;

/* A stretch of the arena, of whole extents and gaps. */
typedef struct {
    uint64_t first, end; /* granules */
    uint32_t extents;
    double cost; /* of emptying it */
} node_stretch_t;

/* One entry a granule, to be freed; NULL: no memory. */
node_survey_t *node_survey_make(node_t *node);
/* The next extent or granule of a gap after this one. */
static inline uint64_t node_survey_next(const node_t *n, uint64_t granule) {
    return granule +
           (n->books.extents[granule].size ? n->books.extents[granule].size / SHM_GRANULE : 1);
}
/* What it costs to empty an extent; negative: it can't be. */
typedef double (*node_cost_fn)(const node_t *node, const node_survey_t *extent, uint64_t granule,
                               const void *context);
/* The cheapest stretch of at least `size` bytes with something in it that has to go. */
bool node_survey_stretch(const node_t *node, const node_survey_t *extents, uint64_t size,
                         node_cost_fn cost, const void *context, node_stretch_t *ret_stretch);
/* Whether the block with data at `data` is used under `tag` and holds `bytes`: in which extent, and
 * of how many units. Clients write slots and headers: everything is bounded here. */
bool node_survey_block(const node_t *node, uint64_t data, uint64_t tag, uint64_t bytes,
                       uint64_t *ret_extent, uint32_t *ret_units);
/* Calls `f` for every value that can go. */
typedef void (*node_value_fn)(node_t *node, const store_spill_item_t *item, uint64_t extent,
                              uint32_t units, void *context);
void node_survey_walk(node_t *node, node_value_fn f, void *context);
/* Takes such a value into the books, so that only the daemon frees it, and looks at it again: NULL
 * if it has changed since. */
node_object_t *node_survey_claim(node_t *node, const store_spill_item_t *item, uint64_t extent);
/* The value has another place, or none: makes it AWAY, so that its block may be freed. False: it is
 * pinned or dropped. */
bool node_object_leave(node_t *node, node_object_t *object);

#endif
