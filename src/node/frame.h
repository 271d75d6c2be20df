/* Tasks as frames (frame/frame.h): written from a record in the books, read into a record. */
#ifndef NODE_FRAME_H
#define NODE_FRAME_H

#include "frame/frame.h"
#include "mobula.h"
#include "node/types.h"

/* The task's frame in bytes, to be freed. Its job must be there. */
mob_status_t node_frame_write(node_t *node, const node_task_t *task, uint8_t **ret_bytes,
                              size_t *ret_size);
/* What a record was filled with. It is not read back: every client can write there. */
typedef struct {
    uint64_t block;             /* of the body, in the daemon's heap; 0: in the record */
    uint32_t shape, held_shape; /* held once for the caller */
} node_filled_t;

/* Fills a record that no process but the daemon uses now, but for its word, which will have
 * `generation`. The results go into the slots `returns` instead of those that the frame names. */
mob_status_t node_frame_fill(node_job_t *job, const frame_t *frame, const mob_ref_t *returns,
                             uint32_t record, uint64_t generation, node_filled_t *ret_filled);
/* The local reference that an id of a message names, which has come (see node_holding_frame_came):
 * an own object, which need not be there, or a proxy, which is made if there is none. Slot 0:
 * none. */
mob_ref_t node_frame_ref(node_t *node, frame_id_t id);
/* For tests (MOBULA_LOOPBACK): a creation, a call or a task that yields, which is READY and not
 * handed out, goes out as a frame and comes in again in place: no peer takes these yet. If it
 * fails, the task can only be failed. */
mob_status_t node_frame_loop(node_t *node, node_task_t *task);

#endif
