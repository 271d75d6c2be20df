/*
 * What a connection carries: frames, one after the other.
 *
 *     u32 length of the rest | u8 kind | ...
 *     HELLO, WELCOME   u32 magic | u64 from | u64 to | u64 turn | u64 received | u64 processed
 *     ACK              u64 received | u64 processed
 *     BEAT             u64 age of the last renewal, in ms
 *     MESSAGE          u64 sequence | its bytes
 *     GOODBYE          u64 sequence
 *     REFUSED          u64 the incarnation that is dead
 *
 * HELLO is the first frame of whoever has dialled, WELCOME the first of the other, each once.
 * REFUSED may come in the place of WELCOME. The magic number changes with the layout of anything
 * here.
 */
#ifndef LINK_CODEC_H
#define LINK_CODEC_H

#include "base/bytes.h"
#include "link/link.h"

typedef enum {
    LINK_HELLO = 1,
    LINK_WELCOME,
    LINK_ACK,
    LINK_BEAT,
    LINK_MESSAGE,
    LINK_GOODBYE,
    LINK_REFUSED
} link_kind_t;

enum {
    LINK_LENGTH_SIZE = 4,
    LINK_HEADER_SIZE = LINK_LENGTH_SIZE + 1 + 8, /* of a message, before its bytes */
    LINK_FRAME_MAX = LINK_HEADER_SIZE + LINK_MESSAGE_MAX,
    LINK_CONTROL_MAX = 64, /* bytes of a hello, or of an acknowledgement and a heartbeat */
};

/* One frame, taken apart. Which fields mean something depends on its kind. */
typedef struct {
    link_kind_t kind;
    link_hello_t hello;
    uint64_t received, processed; /* ACK */
    uint64_t age_ms;              /* BEAT */
    uint64_t sequence;            /* MESSAGE, GOODBYE */
    uint64_t dead;                /* REFUSED */
    const void *bytes;            /* borrowed from what was read */
    size_t size;
} link_frame_t;

void link_put_hello(base_writer_t *w, link_kind_t kind, const link_hello_t *hello);
void link_put_ack(base_writer_t *w, uint64_t received, uint64_t processed);
void link_put_beat(base_writer_t *w, uint64_t age_ms);
/* All of a message's frame that comes before its bytes. */
void link_put_header(base_writer_t *w, link_kind_t kind, uint64_t sequence, size_t size);

/* A whole frame, its length included. MOB_EPROTO. */
mob_status_t link_frame_read(const uint8_t *bytes, size_t size, link_frame_t *ret_frame);

#endif
