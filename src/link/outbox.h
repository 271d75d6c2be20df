/*
 * What was sent to a peer and may not have come: a list of messages, oldest first, with a place in
 * it up to which this connection was given bytes.
 *
 * Costs are counted from the link's beginning, as sequence numbers are: a message's bytes and
 * LINK_MESSAGE_COST. So nothing has to be added up again.
 */
#ifndef LINK_OUTBOX_H
#define LINK_OUTBOX_H

#include "link/codec.h"

struct link_message {
    struct link_message *next;
    uint64_t sequence, cost; /* the cost of all messages up to this one */
    size_t size;             /* of its frame */
    uint8_t frame[];         /* its header, then its bytes */
};

/* All zero is an empty one. */
typedef struct {
    link_message_t *head, *tail;
    link_message_t *next; /* the first of which this connection has not been given all; or NULL */
    size_t offset;        /* how many bytes of that it has */
    uint64_t last;        /* the newest message */
    uint64_t written;     /* the newest that any connection was given all of */
    uint64_t received;    /* the newest that the peer has */
    uint64_t sent_cost, written_cost, received_cost;
    uint64_t processed_cost; /* by the peer */
} link_outbox_t;

void link_outbox_fini(link_outbox_t *outbox);
/* Takes the message. */
void link_outbox_push(link_outbox_t *outbox, link_message_t *message, link_kind_t kind);
/* The peer has received and processed as much. False: it can't have, and nothing has changed. */
bool link_outbox_acknowledge(link_outbox_t *outbox, uint64_t received, uint64_t processed);
/* The same, said at a connection's beginning: what follows is to be written to it. */
bool link_outbox_resume(link_outbox_t *outbox, uint64_t received, uint64_t processed);
bool link_outbox_can_resume(const link_outbox_t *outbox, uint64_t received, uint64_t processed);

/* The piece of a message that was begun, if there is one; it must be written before anything else.
 */
bool link_outbox_begun(const link_outbox_t *outbox, link_piece_t *ret_piece);
/* The messages after that. */
size_t link_outbox_gather(const link_outbox_t *outbox, link_piece_t *pieces, size_t most);
/* So many bytes of the next message, or of what is left of it, were written; returns those that are
 * left over once it is complete. */
size_t link_outbox_advance(link_outbox_t *outbox, size_t size);

/* What may be in the peer's memory or in this node's because of it. */
uint64_t link_outbox_used(const link_outbox_t *outbox);

#endif
