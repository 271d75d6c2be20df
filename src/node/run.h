/* A frame that the daemon runs here, in its own name or in a peer's: a record, and slots for the
 * results, which nobody else names, or proxies of the results' home. */
#ifndef NODE_RUN_H
#define NODE_RUN_H

#include "frame/frame.h"
#include "mobula.h"
#include "node/space/grant.h"
#include "node/types.h"

typedef struct {
    node_own_t *own; /* that record and slots are of */
    uint32_t record, num_returns;
    mob_ref_t *fresh; /* one a result; slot 0: it has left */
} node_run_t;

/* A run of the frame, whose book is READY, and not handed out. The caller makes it go on
 * (node_task_ready) if no argument is missing. */
mob_status_t node_run_init(node_job_t *job, node_own_t *own, const frame_t *frame,
                           node_run_t *ret_run, node_task_t **ret_task);
/* Its task is dismissed: gives the record back, and the slots, with what values they have. */
void node_run_fini(node_t *node, node_run_t *run);
/* The same for a slot that has left its run. A proxy is not freed: its own holders keep it, with
 * its value. */
void node_run_slot_free(node_t *node, node_own_t *own, mob_ref_t fresh);

#endif
