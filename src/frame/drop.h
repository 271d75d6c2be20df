/* FRAME_DROP: objects that the sender was told of, and does not need any more. Each id undoes one
 * sending of it. */
#ifndef FRAME_DROP_H
#define FRAME_DROP_H

#include "frame/frame.h"

/* The body of a message, to be freed. MOB_ENOMEM. */
mob_status_t frame_drop_write(const frame_id_t *ids, size_t count, uint8_t **ret_bytes,
                              size_t *ret_size);
/* The ids in the body, to be freed. MOB_EPROTO, MOB_ENOMEM. */
mob_status_t frame_drop_read(const uint8_t *bytes, size_t size, frame_id_t **ret_ids,
                             size_t *ret_count);

#endif
