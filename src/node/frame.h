/* Tasks as frames (frame/frame.h): written from a record in the books, read into a record. */
#ifndef NODE_FRAME_H
#define NODE_FRAME_H

#include "frame/frame.h"
#include "mobula.h"
#include "node/types.h"

/* The task's frame in bytes, to be freed. Its job must be there. */
mob_status_t node_frame_write(node_t *node, const node_task_t *task, uint8_t **ret_bytes,
                              size_t *ret_size);
/* Fills a record that no process but the daemon uses now, but for its word, which will have
 * `generation`. The results go into the slots `returns` instead of those that the frame names. On
 * success the job's two shapes are held once for the caller. */
mob_status_t node_frame_fill(node_job_t *job, const frame_t *frame, const mob_ref_t *returns,
                             uint32_t record, uint64_t generation);
/* The local reference that an id names; slot 0: none. */
mob_ref_t node_frame_ref(const node_t *node, frame_id_t id);
/* For tests (MOBULA_LOOPBACK): the task, which is READY and not handed out, goes out as a frame and
 * comes in again, as if from another node. */
void node_frame_loop(node_t *node, node_task_t *task);

#endif
