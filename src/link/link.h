/*
 * The link between two nodes: messages that go from one incarnation of a daemon to another, each
 * once and in order, over connections that break.
 *
 * A link_t is one side, for one peer. It lives from the moment this node hears of the peer until
 * the peer's tombstone, however many connections that takes. It knows no sockets: the caller (the
 * daemon, or the simulator) dials, accepts, reads and writes, and says here what happened. The
 * streams are authenticated below it. What the peer sends may still be anything.
 *
 * No clock: `now_ns` is the caller's, of one clock that never goes back. For one thread. Functions
 * of link_ops_t may call link_send, link_processed, link_leave, link_flush and link_close of the
 * same link, and nothing else of it.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

enum {
    LINK_MESSAGE_MAX = 1 << 20, /* bytes of one message */
    LINK_MESSAGE_COST = 64,     /* what a message counts as, beyond its bytes */
    LINK_HELLO_SIZE = 49,       /* the first bytes of a connection, from whoever has dialled */
    LINK_REFUSAL_SIZE = 13,     /* the only bytes of the answer to one that is dead */
    LINK_ACK_MESSAGES = 64,     /* that are acknowledged together, at the most */
};

#define LINK_TICK_NS      UINT64_C(100000000)  /* link_tick is to be called as often */
#define LINK_LATE_NS      UINT64_C(300000000)  /* ... and was called late, if not for this long */
#define LINK_BEAT_NS      UINT64_C(500000000)  /* from one heartbeat to the next */
#define LINK_SILENCE_NS   UINT64_C(2500000000) /* without a byte: the peer is silent */
#define LINK_GREET_NS     UINT64_C(2000000000) /* a dial that was not answered by then has failed */
#define LINK_PAUSE_NS     UINT64_C(50000000)   /* between dials; doubled with every failure */
#define LINK_PAUSE_MAX_NS UINT64_C(2000000000)

typedef struct link link_t;

/* Memory for a message, that its writer fills and a link then sends as it is: no copy is made. */
typedef struct link_message link_message_t;

typedef struct {
    const void *bytes;
    size_t size;
} link_piece_t;

/* What the link asks of its caller. Connections have numbers that the caller gives: never 0, never
 * the same again for this link. */
typedef struct link_ops {
    /* Begins to dial the peer. Returns the connection's number; link_connected or link_ended
     * follows, later. 0: it can't now. */
    uint64_t (*dial)(void *context);
    /* Takes as many of these bytes as the connection takes now, and returns how many. If those are
     * not all, link_writable follows when it takes more. */
    size_t (*write)(void *context, uint64_t connection, const link_piece_t *pieces, size_t count);
    /* Ends a connection or a dial. Nothing that came on it is given to the link any more. Bytes
     * that were written may be lost. */
    void (*end)(void *context, uint64_t connection);
    /* A message of the peer, borrowed until the return. `sequence` counts them from 1. False: the
     * node has no memory for it. The link then ends the connection, and it comes again. Once it was
     * taken and dealt with, the node calls link_processed with its size. */
    bool (*receive)(void *context, uint64_t sequence, const void *bytes, size_t size);
    /* There is room again: link_has_room or link_send had said that there is none. */
    void (*room)(void *context);
    /* Nothing was heard of the peer for LINK_SILENCE_NS, or it is heard again. */
    void (*silent)(void *context, bool silent);
    /* A heartbeat: when it was sent, the peer's last renewal in Redis was so old. */
    void (*beat)(void *context, uint64_t renewal_age_ms);
    /* The peer leaves: this was its last message. */
    void (*goodbye)(void *context);
    /* The peer says that it knows this node's tombstone. The link goes on dialling. */
    void (*refused)(void *context);
} link_ops_t;

/* `room_bytes`: how much may be on its way to the peer before the link is full: the bytes of
 * messages, LINK_MESSAGE_COST each, that the peer has not processed. The same for all nodes of a
 * cluster. `self` and `peer` are incarnations, which differ. The context is borrowed. MOB_ENOMEM.
 */
mob_status_t link_new(const link_ops_t *ops, void *context, uint64_t self, uint64_t peer,
                      size_t room_bytes, uint64_t now_ns, link_t **ret_link);
/* Ends its connection, and forgets what was not sent. NULL is fine. */
void link_free(link_t *link);

/* ---- messages ---- */

/* MOB_ELIMIT: over LINK_MESSAGE_MAX. MOB_ENOMEM. */
mob_status_t link_message_new(size_t size, link_message_t **ret_message);
void *link_message_bytes(link_message_t *message);
/* Of a message that was not sent. NULL is fine. */
void link_message_free(link_message_t *message);

/* Takes the message, which is sent by link_flush, and never withdrawn. An answer is something that
 * the peer's own message asks for, and is taken even if the link is full. MOB_ELIMIT: the link is
 * full; ops.room follows. MOB_ECLOSED: after link_leave or link_close. The message is the caller's
 * then. ret_sequence may be NULL. */
mob_status_t link_send(link_t *link, link_message_t *message, bool is_answer,
                       uint64_t *ret_sequence);
/* The number that the next message will get; 0: none is taken any more. */
uint64_t link_next_sequence(const link_t *link);
/* Whether link_send would take a message that is no answer. If not, ops.room follows. */
bool link_has_room(link_t *link);
/* The node has dealt with a message of this size that it had received, in any order: the peer may
 * send as much again. */
void link_processed(link_t *link, size_t size);
/* Says goodbye, after all that was sent. Nothing can be sent any more. Once link_is_idle, the peer
 * has heard it. */
void link_leave(link_t *link);
/* Writes what is to be written, and dials if there is a reason to. Call it at the end of a turn in
 * which something was sent or processed. */
void link_flush(link_t *link, uint64_t now_ns);

/* ---- connections ---- */

/* What is in the first LINK_HELLO_SIZE bytes of a connection that was accepted. */
typedef struct link_hello {
    uint64_t from, to; /* incarnations: who has dialled, and whom it means */
    uint64_t turn;
    uint64_t received, processed;
} link_hello_t;

/* The caller reads exactly so many bytes of an accepted connection, within a time limit of its own,
 * and then knows by hello.from which link it is for. MOB_EPROTO: this is no hello. */
mob_status_t link_hello_read(const uint8_t bytes[LINK_HELLO_SIZE], link_hello_t *ret_hello);
/* An accepted connection, and what it began with; its next bytes go to link_received. Any other
 * status than MOB_OK: the link has not taken it, and the caller ends it. MOB_ESTALE: it means
 * another incarnation, or was overtaken by a newer one. MOB_EEXISTS: this node's own dial goes
 * first. MOB_ECLOSED: the peer is dead. MOB_EPROTO: it asks for what can't be. */
mob_status_t link_accept(link_t *link, uint64_t connection, const link_hello_t *hello,
                         uint64_t now_ns);
/* After MOB_ECLOSED: what the caller writes to the connection before it ends it, so that one that
 * was buried and goes on hears of it. */
void link_refusal_write(const link_hello_t *hello, uint8_t ret_bytes[LINK_REFUSAL_SIZE]);
/* What ops.dial began has come up. */
void link_connected(link_t *link, uint64_t connection, uint64_t now_ns);
/* Bytes that came, all that there are: the caller never stops reading. What is not of the current
 * connection is ignored. MOB_EPROTO: the peer does not keep to the protocol. MOB_ENOMEM: for these
 * bytes, or by ops.receive. MOB_ESTALE: another incarnation has answered. MOB_ECLOSED: ops.refused
 * was called. After each of them the link has ended the connection, and dials again. */
mob_status_t link_received(link_t *link, uint64_t connection, const void *bytes, size_t size,
                           uint64_t now_ns);
/* The connection takes bytes again. */
void link_writable(link_t *link, uint64_t connection);
/* The connection, or the dial, has ended, but not by ops.end. */
void link_ended(link_t *link, uint64_t connection, uint64_t now_ns);

/* ---- time ---- */

/* Every LINK_TICK_NS, after what came in that turn was received. `renewal_age_ms`: since this node
 * sent its last renewal in Redis that was answered. */
void link_tick(link_t *link, uint64_t now_ns, uint64_t renewal_age_ms);

/* The peer's tombstone: nothing of it is received any more, nothing is sent to it. What was not
 * acknowledged is freed. */
void link_close(link_t *link);

/* ---- questions ---- */

bool link_is_open(const link_t *link); /* there is a connection, and both sides have greeted */
bool link_is_silent(const link_t *link);
/* The peer has all that was sent, and has been told that this node has all of its. */
bool link_is_idle(const link_t *link);
uint64_t link_received_sequence(const link_t *link); /* of the newest message that was received */
size_t link_held_bytes(const link_t *link);          /* of messages that the peer may not have */

#endif
