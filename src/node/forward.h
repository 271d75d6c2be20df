/* Tasks that are sent to a peer: the side of the node whose client submitted them. */
#ifndef NODE_FORWARD_H
#define NODE_FORWARD_H

#include "frame/frame.h"
#include "node/peer.h"
#include "node/types.h"

/* Loopback: sends a task that is ready to the peer, if it takes it. False: it is to run here. */
bool node_forward(node_t *node, node_task_t *task);
/* Whether the task is of a kind that other nodes take. */
bool node_forward_may(const node_task_t *task);
/* The task, which is READY and nowhere else, is TAKEN by the peer. */
void node_forward_claim(node_peer_t *peer, node_task_t *task);
/* What the run is called. */
frame_id_t node_forward_run(const node_t *node, const node_task_t *task);
/* Whether the task is at a peer. */
bool node_forward_is(const node_task_t *task);
/* The task that this peer has under that run; NULL: none. */
node_task_t *node_forward_find(node_peer_t *peer, frame_id_t run);
/* It is to stop there. That it was cancelled stands in its book, and is honoured however it comes
 * back. */
void node_forward_cancel(node_t *node, node_task_t *task, bool force, bool recursive);
/* Its submitter is dead: if it has not begun, it comes back and fails. */
void node_forward_recall(node_t *node, node_task_t *task);

/* ---- from the peer ---- */

/* Its answer, frame/done.h. False: it makes no sense, and nothing has changed but that it was
 * thrown away. */
bool node_forward_done(node_peer_t *peer, frame_id_t run, const uint8_t *body, size_t size);
/* The task comes back, and was not begun. */
void node_forward_return(node_t *node, node_task_t *task);
/* Writes what was put aside for want of space; once a round. */
void node_forward_retry(node_peer_t *peer);
/* The same, and nothing stays aside: what finds no space is an error. */
void node_forward_last(node_peer_t *peer);

#endif
