/* The codec of orders: a byte of flags. */
#include "frame/order.h"

enum { FORCE = 1, RECURSIVE = 2 };

void frame_order_write(const frame_order_t *order, uint8_t ret_bytes[FRAME_ORDER_BYTES]) {
    ret_bytes[0] = (uint8_t)((order->force ? FORCE : 0) | (order->recursive ? RECURSIVE : 0));
}

mob_status_t frame_order_read(const uint8_t *bytes, size_t size, frame_order_t *ret_order) {
    if (size != FRAME_ORDER_BYTES || bytes[0] > (FORCE | RECURSIVE)) return MOB_EPROTO;
    *ret_order = (frame_order_t){.force = bytes[0] & FORCE, .recursive = bytes[0] & RECURSIVE};
    return MOB_OK;
}
