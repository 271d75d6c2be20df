/* FRAME_CANCEL: a run is to stop. */
#ifndef FRAME_ORDER_H
#define FRAME_ORDER_H

#include "frame/frame.h"

typedef struct {
    bool force;     /* its worker is killed */
    bool recursive; /* what it has submitted is to stop too */
} frame_order_t;

enum { FRAME_ORDER_BYTES = 1 };

/* The body of a message. */
void frame_order_write(const frame_order_t *order, uint8_t ret_bytes[FRAME_ORDER_BYTES]);
/* MOB_EPROTO: it makes no sense. */
mob_status_t frame_order_read(const uint8_t *bytes, size_t size, frame_order_t *ret_order);

#endif
