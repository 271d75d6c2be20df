/*
 * What one node says to another about a run of a task. Each message begins alike: which kind it is,
 * and the run: the record of the node that sent the task, under the generation in which it did. The
 * rest is one of
 *
 *   FRAME_TASK     a frame (frame.h): the receiver is to run it
 *   FRAME_DONE     done.h: how the run ended, or that it did not begin
 *   FRAME_CANCEL   order.h: it is to stop
 *   FRAME_RECALL   nothing: it is to come back if it has not begun
 *   FRAME_DROP     drop.h: the sender does not need these objects any more; of no run
 *
 * Nothing local is in them: ids of 20 bytes, no slot, offset or shape. What a peer sends may be
 * anything: each reader bounds what it takes by what is there.
 */
#ifndef FRAME_MESSAGE_H
#define FRAME_MESSAGE_H

#include "frame/frame.h"

typedef enum {
    FRAME_TASK = 1,
    FRAME_DONE,
    FRAME_CANCEL,
    FRAME_RECALL,
    FRAME_DROP,
} frame_kind_t;

typedef struct {
    frame_kind_t kind;
    frame_id_t run;
    const uint8_t *body; /* in the message */
    size_t body_size;
} frame_message_t;

/* MOB_EPROTO: it is no message, or of no kind that is known. */
mob_status_t frame_message_read(const uint8_t *bytes, size_t size, frame_message_t *ret_message);
/* A message with this body, which is copied, in bytes to be freed. MOB_ENOMEM. */
mob_status_t frame_message_write(frame_kind_t kind, frame_id_t run, const uint8_t *body,
                                 size_t body_size, uint8_t **ret_bytes, size_t *ret_size);

#endif
