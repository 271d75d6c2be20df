/*
 * A peer: another node, as this one sees it. In the books it is a client without a process: role
 * NODE_PEER, state NODE_REMOTE, a number from the top of the table, no rings, no bell.
 *
 * It has two sides, of which one node has the first and the other the second of each task:
 * forward.h, the node whose client submitted the task, and visit.h, the node that runs it. With
 * MOBULA_LOOPBACK=1 a daemon is its own peer, and has both.
 *
 * What a task is, and what becomes of it, is the same for both kinds of peers. How it is said is
 * the peer's way: loopback's is in peer.c, that between nodes in cluster/origin.c and guest.c.
 */
#ifndef NODE_PEER_H
#define NODE_PEER_H

#include "base/map.h"
#include "frame/done.h"
#include "frame/message.h"
#include "mobula.h"
#include "node/loop.h"
#include "node/space/grant.h"
#include "node/types.h"

/* How what is said about tasks gets to the peer. */
typedef struct {
    /* At the origin. The task is to stop. */
    void (*cancel)(node_peer_t *peer, const node_task_t *task, bool force, bool recursive);
    /* If the task has not begun, it is to come back. */
    void (*recall)(node_peer_t *peer, const node_task_t *task);
    /* The PENDING slot `to` has a value that stayed with the peer. MOB_ELOST: there is none;
     * MOB_ENOMEM: not now. */
    mob_status_t (*fetch)(node_peer_t *peer, const node_task_t *task, const frame_value_t *value,
                          mob_ref_t to);
    /* This node is done with what the peer's message named. */
    void (*drop)(node_peer_t *peer, const frame_id_t *ids, size_t count);

    /* Where it runs. The object goes along with the next answer, which holds it; that is undone if
     * there is no answer. False: no memory. */
    bool (*give)(node_peer_t *peer, mob_ref_t ref);
    void (*ungive)(node_peer_t *peer, mob_ref_t ref);
    /* The value of this result stays here: what is said of it, beside what is inside. False: no
     * memory. */
    bool (*stay)(node_visit_t *visit, uint32_t index, frame_value_t *ret_value);
    /* Sends the end of the visit. False: not now; nothing has changed. */
    bool (*answer)(node_visit_t *visit, const uint8_t *body, size_t size);
    /* It was sent: the results go, or stay without the visit. */
    void (*settle)(node_visit_t *visit);
} node_way_t;

/* A run's end that could not be written into the books for want of space. */
typedef struct {
    frame_id_t run;
    uint8_t *bytes; /* the message */
    size_t size;
    mob_ref_t *refs; /* what is inside its values: a use each */
    size_t num_refs;
    uint64_t since_ns;
} node_aside_t;

struct node_peer {
    node_t *node;
    node_client_t *client;
    const node_way_t *way;
    node_visit_t *owing; /* visits that have ended, and could not say so yet */
    VEC(node_aside_t) aside;

    uint32_t visit_count;

    uint64_t incarnation; /* of another node; 0: it is this daemon itself */

    /* of loopback */
    node_loop_t out;
    base_map_t sent;   /* by slot: how often it was sent, and not dropped */
    base_map_t visits; /* by the sender's record */
    node_own_t own;    /* what its tasks run with here */
};

/* At the start: the daemon becomes its own peer. */
mob_status_t node_peer_start(node_t *node);
/* Reads what has come; once a round. */
void node_peers_settle(node_t *node);
/* Whether the client is a peer. */
bool node_peer_is(const node_client_t *client);
/* Another node becomes a peer. NULL: no memory, or no number. */
node_peer_t *node_peer_new(node_t *node, const node_way_t *way, uint64_t incarnation);
/* None of its tasks is here, and none of this node's is there. */
void node_peer_free(node_peer_t *peer);

/* ---- loopback: what is sent ---- */

/* Sends a message; the body is borrowed. MOB_ENOMEM. */
mob_status_t node_peer_send(node_peer_t *peer, frame_kind_t kind, frame_id_t run,
                            const uint8_t *body, size_t body_size);
/* The object is named in what is about to be sent: the peer holds it until it drops it. True also
 * if there is no such object. False: no memory. */
bool node_peer_hold(node_peer_t *peer, mob_ref_t ref);
/* Undoes one node_peer_hold. */
void node_peer_unhold(node_peer_t *peer, mob_ref_t ref);

#endif
