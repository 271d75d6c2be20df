/*
 * The handshake of a connection, one side of it: bytes in, bytes out. README.md has the messages
 * and why they are so. For one thread; does not block.
 *
 *   state     what it waits for             what moves it on
 *   GREETING  the other side's greeting     net_handshake_take
 *   PROOF     (acceptor) the dialler's      net_handshake_take
 *   DECIDE    (acceptor) the caller         net_handshake_answer
 *   ANSWER    (dialler) the acceptor's      net_handshake_take
 *   DONE      nothing: keys and the peer's identity are there
 *   FAILED    nothing: the words are those of the status
 */
#ifndef NET_HANDSHAKE_H
#define NET_HANDSHAKE_H

#include "net/secret.h"

enum {
    NET_PROTOCOL = 1,
    NET_VERSION_MAX = 31,
    NET_GREETING = 48,
    NET_IDENTITY = 96,
    NET_HANDSHAKE_MOST = 4 + NET_IDENTITY + NET_PROOF, /* that one side needs at a time */
};

/* What a connection is for. */
typedef enum {
    NET_FRAMES = 1,
    NET_BULK,
    NET_JOIN, /* a node that is no member yet asks what it has to know */
    NET_PURPOSES
} net_purpose_t;

/* Who one side is. */
typedef struct net_identity {
    uint64_t cluster;     /* its id; 0: it wants to join, and does not know it */
    uint64_t incarnation; /* of the node */
    uint64_t wanted;      /* the dialler's: whom it wants to reach; 0: whoever is there */
    uint8_t purpose;      /* net_purpose_t: the dialler's */
    uint8_t python_major, python_minor;
    uint16_t port; /* where it listens */
    char version[NET_VERSION_MAX + 1];
} net_identity_t;

/* What the acceptor says to a dialler that knows the token. */
typedef enum {
    NET_WELCOME,
    NET_WRONG_TOKEN, /* said by the room itself */
    NET_WRONG_CLUSTER,
    NET_WRONG_VERSION, /* ours, or Python's */
    NET_WRONG_NODE,    /* the node that is wanted is not here (any more) */
    NET_DEAD,          /* the dialler has a tombstone */
    NET_BUSY,          /* not now: try again */
    NET_VERDICTS
} net_verdict_t;

typedef enum {
    NET_STATE_GREETING,
    NET_STATE_PROOF,
    NET_STATE_DECIDE,
    NET_STATE_ANSWER,
    NET_STATE_DONE,
    NET_STATE_FAILED
} net_state_t;

typedef struct net_handshake {
    net_state_t state;
    bool is_dialler;
    net_verdict_t verdict;
    net_secret_t secret;
    net_identity_t own, peer;
    uint8_t greetings[2][NET_GREETING]; /* the dialler's, the acceptor's */
    uint8_t identities[2][NET_IDENTITY];
    uint8_t out[NET_IDENTITY + NET_PROOF + 4 + NET_GREETING]; /* to be sent */
    size_t out_size;
    uint8_t keys[2][NET_KEY]; /* DONE: of what the dialler says, of what the acceptor says */
} net_handshake_t;

/* `nonce`: NET_NONCE bytes that nobody can guess and that are used once. The dialler's greeting is
 * there to be sent at once. */
void net_handshake_init(net_handshake_t *handshake, bool is_dialler, const net_secret_t *secret,
                        const net_identity_t *own, const uint8_t nonce[NET_NONCE]);
/* Forgets secret and keys. */
void net_handshake_fini(net_handshake_t *handshake);

/* How many bytes it needs next; 0: none, in DECIDE, DONE and FAILED. */
size_t net_handshake_needs(const net_handshake_t *handshake);
/* Takes exactly that many. MOB_EPROTO: this is no node of ours; MOB_EPERM: the token differs;
 * MOB_EINVAL: the acceptor's verdict is another one. Then it has FAILED, and base_fail has the
 * words. There may still be something to send. */
mob_status_t net_handshake_take(net_handshake_t *handshake, const uint8_t *bytes);
/* The acceptor's answer, in DECIDE: WELCOME ends in DONE, all others in FAILED. */
mob_status_t net_handshake_answer(net_handshake_t *handshake, net_verdict_t verdict);
/* What is to be sent, borrowed until the next call; it counts as sent. */
const uint8_t *net_handshake_out(net_handshake_t *handshake, size_t *ret_size);

#endif
