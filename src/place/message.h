/*
 * What nodes say to each other about placing work. A message begins with its kind; numbers are
 * little-endian (base/bytes.h).
 *
 *     VIEW    node to leader    version, resources, labels
 *     PROBE   leader to node    say your view
 *     ASK     origin to leader  lane, how many, whom it need not name, the demand; 0: none any more
 *     GRANT   leader to origin  lane, node, how many at once
 *     OPEN    origin to node    lease, how many at once, the demand
 *     CREDIT  node to origin    how many the lease has from now on; 0: it is over
 *     CLOSE   origin to node    the lease is over
 *     TASK    origin to node    lease, run, frame
 *     BACK    node to origin    the run was never begun here
 *     DONE    node to origin    outcome, how long it was there and ran, value
 *     BLOCK   node to origin    the run has lent its CPUs, or goes on
 *     CANCEL  origin to node
 *
 * A demand travels with OPEN, once for each lease, and tasks name the lease: a frame of a small
 * task is some 200 bytes, its demand would be 30 of them, and would have to be read and compared.
 * There is no table of demands by number for each pair of nodes: it would have to be kept in step
 * by both through deaths and limits, for messages that are rare.
 */
#ifndef PLACE_MESSAGE_H
#define PLACE_MESSAGE_H

#include "base/bytes.h"
#include "place/place.h"

typedef enum {
    MESSAGE_VIEW = 1,
    MESSAGE_PROBE,
    MESSAGE_ASK,
    MESSAGE_GRANT,
    MESSAGE_OPEN,
    MESSAGE_CREDIT,
    MESSAGE_CLOSE,
    MESSAGE_TASK,
    MESSAGE_BACK,
    MESSAGE_DONE,
    MESSAGE_BLOCK,
    MESSAGE_CANCEL,
} message_kind_t;

enum {
    MESSAGE_AVOID_MAX = 8,
    MESSAGE_AHEAD_MAX = 64, /* times its credits: what a lease may have waiting at the node */
    MESSAGE_HEAD_MAX = 256, /* all but demand, view, frame and value */
    MESSAGE_TASK_HEAD = 1 + 4 + 8 + 8 + 1 + 1, /* before the frame */
    MESSAGE_DONE_HEAD = 1 + 4 + 8 + 1 + 4 + 4, /* before the value */
    MESSAGE_LOCAL = 1,   /* ASK: not the asker itself, which starts them by itself */
    MESSAGE_STARVES = 2, /* ASK: nothing of the lane can run anywhere now */
    MESSAGE_QUEUES = 4,  /* GRANT, OPEN: it is to wait there, though nothing is free */
    MESSAGE_FLAGS = 7,
};

/* A node that has refused, and the version of its view then: it is not named again before it has a
 * newer one. */
typedef struct message_avoid {
    uint64_t node, version;
} message_avoid_t;

typedef struct message_demand {
    place_demand_t demand; /* names and selector lie in the bytes */
    frame_amount_t amounts[PLACE_NAMES_MAX];
    const uint8_t *shape; /* all but job and hint: the same bytes for the same needs */
    size_t shape_size;
} message_demand_t;

/* To be freed. MOB_EINVAL, MOB_ELIMIT, MOB_ENOMEM. */
mob_status_t place_message_demand_write(const place_demand_t *demand, uint8_t **ret_bytes,
                                        size_t *ret_size);
/* The rest of the reader. MOB_EPROTO. */
mob_status_t place_message_demand_read(base_reader_t *r, message_demand_t *ret_demand);

/* A text with its end, at most `most` bytes of it; NULL: there is none. */
const char *place_message_text_read(base_reader_t *r, size_t most);
void place_message_text_write(base_writer_t *w, const char *text);

#endif
