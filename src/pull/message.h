/* What the rooms of two nodes say to each other: one message each, of a kind, with the fields of
 * that kind. R is a receiver, H an object's home, S a source. */
#ifndef PULL_MESSAGE_H
#define PULL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame/frame.h"

typedef enum {
    PULL_DESCRIBE,  /* R to H: how large is it, once it is made? */
    PULL_DESCRIBED, /* H to R */
    PULL_ASK,       /* R to H: from where? It has `chunk` chunks of `version`, not from `node` */
    PULL_SOURCE,    /* H to R: from this node's copy of this birth */
    PULL_UNMADE,    /* H to R: no copy is left, and it is made again: hold nothing for it */
    PULL_GONE,      /* H to R: it will never be there; to both questions */
    PULL_PROGRESS,  /* R to H: the copy has that many chunks */
    PULL_GAVE_UP,   /* R to H: there is no such copy any more */
    PULL_FETCH,     /* R to S: send this chunk; `flag`: the first with this ticket */
    PULL_NOT_HERE,  /* S to R: this ticket gets nothing more */
    PULL_CLOSE,     /* R to S: this ticket is over, and all that was sent for it is received */
    PULL_KEEP,      /* H to a holder: be the primary */
    PULL_KEPT,      /* ... and its answer, `flag` */
    PULL_RELEASE,   /* H to a holder: it is not the primary; `flag`: and is not needed */
    PULL_KINDS
} pull_kind_t;

/* Why another source is asked for. */
typedef enum { PULL_FIRST, PULL_STALLED, PULL_ABSENT, PULL_BROKEN, PULL_REASONS } pull_reason_t;

typedef struct pull_message {
    pull_kind_t kind;
    frame_id_t id;
    uint64_t ticket; /* which question this answers; which reading it is of */
    uint64_t birth;  /* which of the copies that a node has had, one after the other */
    uint64_t node, size;
    uint32_t version, chunk;
    uint8_t flag;
} pull_message_t;

enum { PULL_MESSAGE_MAX = 62, PULL_ID_SIZE = 20 };

/* The id as bytes: in messages, and as a key, for the struct has gaps. */
void pull_id_write(const frame_id_t *id, uint8_t ret_bytes[PULL_ID_SIZE]);
/* Writes the message's fields, and returns their size. */
size_t pull_message_write(const pull_message_t *message, uint8_t ret_bytes[PULL_MESSAGE_MAX]);
/* False: this is none. What it says of objects and nodes may still be nonsense. */
bool pull_message_read(const void *bytes, size_t size, pull_message_t *ret_message);

#endif
