/* Tasks that are kept, so that results of theirs that are lost can be made again (remake.h). */
#ifndef NODE_LINEAGE_H
#define NODE_LINEAGE_H

#include "mobula.h"
#include "node/types.h"

/* How a kept task holds one of its arguments. */
typedef enum {
    NODE_NOT_KEPT,  /* an actor's handle: it would keep the actor */
    NODE_SLOT_KEPT, /* its slot and its own lineage, not its value */
    NODE_VALUE_KEPT,
} node_keeping_t;

typedef struct {
    mob_ref_t ref;
    node_keeping_t how;
} node_kept_t;

struct node_lineage {
    node_lineage_t *older, *newer;
    node_job_t *job;
    uint8_t *frame;
    size_t frame_size, bytes; /* bytes: of all that is kept for it */
    int32_t retries;          /* that are left; -1: without end */
    uint32_t live;            /* results that name it */
    bool running;             /* it is being run again, and is freed after that at the soonest */
    mob_ref_t function;
    mob_ref_t *returns;
    node_kept_t *kept;
    uint32_t num_returns, num_kept;
};

typedef struct {
    node_lineage_t *oldest, *newest;
    uint64_t bytes, most; /* kept now; most: RAY_max_lineage_bytes */
} node_lineages_t;

/* The task is done and about to be dismissed: keeps it if one of its results is large enough. */
void node_lineage_keep(node_t *node, node_task_t *task);
/* The object, which names a lineage, does not any more. */
void node_lineage_unname(node_t *node, node_object_t *object);
/* It has been run again. */
void node_lineage_settle(node_t *node, node_lineage_t *lineage);
/* The object's copy for lineages: puts it where the value was, if there is one of that many bytes;
 * frees it. */
bool node_spare_read(const node_object_t *object, void *value, uint64_t bytes);
void node_spare_free(node_t *node, node_object_t *object);
/* The job ends: what it kept goes. */
void node_lineage_job_ends(node_job_t *job);

#endif
