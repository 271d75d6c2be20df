/* Every kind has one layout, and a frame that is longer or shorter is none. */
#include "link/codec.h"

#define LINK_MAGIC UINT32_C(0x314b4c4d) /* "MLK1" */

static void put_begin(base_writer_t *w, link_kind_t kind, size_t size) {
    base_put_number(w, 1 + size, LINK_LENGTH_SIZE);
    base_put_number(w, kind, 1);
}

void link_put_hello(base_writer_t *w, link_kind_t kind, const link_hello_t *hello) {
    put_begin(w, kind, LINK_HELLO_SIZE - LINK_LENGTH_SIZE - 1);
    base_put_number(w, LINK_MAGIC, 4);
    base_put_number(w, hello->from, 8);
    base_put_number(w, hello->to, 8);
    base_put_number(w, hello->turn, 8);
    base_put_number(w, hello->received, 8);
    base_put_number(w, hello->processed, 8);
}

void link_put_ack(base_writer_t *w, uint64_t received, uint64_t processed) {
    put_begin(w, LINK_ACK, 16);
    base_put_number(w, received, 8);
    base_put_number(w, processed, 8);
}

void link_put_beat(base_writer_t *w, uint64_t age_ms) {
    put_begin(w, LINK_BEAT, 8);
    base_put_number(w, age_ms, 8);
}

void link_put_header(base_writer_t *w, link_kind_t kind, uint64_t sequence, size_t size) {
    put_begin(w, kind, 8 + size);
    base_put_number(w, sequence, 8);
}

void link_refusal_write(const link_hello_t *hello, uint8_t ret_bytes[LINK_REFUSAL_SIZE]) {
    base_writer_t w = {ret_bytes, 0};
    put_begin(&w, LINK_REFUSED, 8);
    base_put_number(&w, hello->from, 8);
}

static bool hello_take(base_reader_t *r, link_hello_t *hello) {
    uint64_t magic = base_take_number(r, 4);
    hello->from = base_take_number(r, 8);
    hello->to = base_take_number(r, 8);
    hello->turn = base_take_number(r, 8);
    hello->received = base_take_number(r, 8);
    hello->processed = base_take_number(r, 8);
    return magic == LINK_MAGIC;
}

/* What follows the kind. False: there is no such kind. */
static bool body_take(base_reader_t *r, link_frame_t *frame) {
    switch (frame->kind) {
    case LINK_HELLO:
    case LINK_WELCOME:
        return hello_take(r, &frame->hello);
    case LINK_ACK:
        frame->received = base_take_number(r, 8);
        frame->processed = base_take_number(r, 8);
        return true;
    case LINK_BEAT:
        frame->age_ms = base_take_number(r, 8);
        return true;
    case LINK_MESSAGE:
        frame->sequence = base_take_number(r, 8);
        frame->size = r->left;
        frame->bytes = base_take_bytes(r, r->left);
        return true;
    case LINK_GOODBYE:
        frame->sequence = base_take_number(r, 8);
        return true;
    case LINK_REFUSED:
        frame->dead = base_take_number(r, 8);
        return true;
    }
    return false;
}

mob_status_t link_frame_read(const uint8_t *bytes, size_t size, link_frame_t *ret_frame) {
    base_reader_t r = {bytes, size, false};
    link_frame_t frame = {0};
    uint64_t length = base_take_number(&r, LINK_LENGTH_SIZE);
    if (length != r.left || length > LINK_FRAME_MAX) return MOB_EPROTO;
    frame.kind = (link_kind_t)base_take_number(&r, 1);
    if (!body_take(&r, &frame) || !base_reader_is_done(&r)) return MOB_EPROTO;
    *ret_frame = frame;
    return MOB_OK;
}

mob_status_t link_hello_read(const uint8_t bytes[LINK_HELLO_SIZE], link_hello_t *ret_hello) {
    link_frame_t frame;
    mob_status_t status = link_frame_read(bytes, LINK_HELLO_SIZE, &frame);
    if (status != MOB_OK || frame.kind != LINK_HELLO) return MOB_EPROTO;
    *ret_hello = frame.hello;
    return MOB_OK;
}
