/*
 * A peer: another node, as this one sees it. In the books it is a client without a process: role
 * NODE_PEER, state NODE_REMOTE, a number from the top of the table, no rings, no bell.
 *
 * It has two sides, of which one node has the first and the other the second of each task:
 * forward.h, the node whose client submitted the task, and visit.h, the node that runs it. With
 * MOBULA_LOOPBACK=1 a daemon is its own peer, and has both.
 */
#ifndef NODE_PEER_H
#define NODE_PEER_H

#include "base/map.h"
#include "frame/message.h"
#include "mobula.h"
#include "node/loop.h"
#include "node/space/grant.h"
#include "node/types.h"

/* A run's end that could not be written into the books for want of space. */
typedef struct {
    frame_id_t run;
    uint8_t *bytes; /* the message */
    size_t size;
    uint64_t since_ns;
} node_aside_t;

struct node_peer {
    node_t *node;
    node_client_t *client;
    node_loop_t out;     /* in loopback also what comes in */
    base_map_t sent;     /* by slot: how often it was sent, and not dropped */
    base_map_t visits;   /* by the sender's record */
    node_own_t own;      /* what its tasks run with here */
    node_visit_t *owing; /* visits that have ended, and could not say so for want of memory */
    VEC(node_aside_t) aside;
};

/* At the start: the daemon becomes its own peer. */
mob_status_t node_peer_start(node_t *node);
/* Reads what has come; once a round. */
void node_peers_settle(node_t *node);
/* Whether the client is a peer. */
bool node_peer_is(const node_client_t *client);

/* ---- what is sent ---- */

/* Sends a message; the body is borrowed. MOB_ENOMEM. */
mob_status_t node_peer_send(node_peer_t *peer, frame_kind_t kind, frame_id_t run,
                            const uint8_t *body, size_t body_size);
/* The object is named in what is about to be sent: the peer holds it until it drops it. True also
 * if there is no such object. False: no memory. */
bool node_peer_hold(node_peer_t *peer, mob_ref_t ref);
/* Undoes one node_peer_hold. */
void node_peer_unhold(node_peer_t *peer, mob_ref_t ref);
/* Tells the peer that this node does not need these any more, which it was sent. */
void node_peer_drop(node_peer_t *peer, const frame_id_t *ids, size_t count);

#endif
