/* Frames out of a stream of bytes that comes in pieces of any size. */
#ifndef LINK_INBOX_H
#define LINK_INBOX_H

#include "base/vec.h"
#include "link/codec.h"

/* All zero is one that has read nothing. */
typedef struct {
    VEC(uint8_t) part; /* the beginning of a frame */
    bool is_whole;     /* the frame in `part` was given out */
} link_inbox_t;

/* The next frame, if all of it is there: either in `part` or in what came, which is then moved past
 * it. Valid until the next call. *ret_frame NULL: what came is used up, and the beginning of a
 * frame kept. A frame has at most `most` bytes. MOB_EPROTO: this one is longer, or empty;
 * MOB_ENOMEM. */
mob_status_t link_inbox_next(link_inbox_t *inbox, const uint8_t **bytes, size_t *size, size_t most,
                             const uint8_t **ret_frame, size_t *ret_size);
/* Forgets the beginning that it has: the stream has ended. A frame that was given out stays until
 * link_inbox_rest. */
void link_inbox_clear(link_inbox_t *inbox);
/* Gives memory back that a large frame has needed. */
void link_inbox_rest(link_inbox_t *inbox);
void link_inbox_fini(link_inbox_t *inbox);

#endif
