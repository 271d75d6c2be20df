/*
 * Messages between the rooms of two nodes, over the mesh: each once and in order between two
 * incarnations. The first byte says which room a message is for.
 */
#ifndef NODE_CLUSTER_POST_H
#define NODE_CLUSTER_POST_H

#include "frame/frame.h"
#include "node/types.h"

typedef enum {
    POST_PULSE = 1, /* membership's heartbeat, and what the node has free */
    POST_MEMBER,    /* a message of the room member */
    POST_REFS,      /* ... of refs */
    POST_PLACE,     /* ... of place */
    POST_PULL,      /* ... of pull */
    POST_ACTOR,     /* ... of actor */
    POST_GROUP,     /* ... of group, and what books on groups say */
    POST_JOB,       /* job.h: setups, ends and output of jobs on other nodes */
    POST_VALUE,     /* value.h: whether an object has its value, and small values */
    POST_FLOW,      /* flowpost.h: items of tasks that yield */
    POST_KINDS
} node_post_t;

/* Two pieces of one message: both borrowed for the time of the call. */
typedef struct {
    const void *head, *body;
    size_t head_size, body_size;
} node_letter_parts_t;

/* Sends a message; see mesh_send for `is_answer` and what it answers. */
mob_status_t node_post_send(node_cluster_t *cluster, uint64_t peer, node_post_t kind,
                            const node_letter_parts_t *parts, bool is_answer);
/* The same with references inside: they are the peer's too from now on, as refs_frame_send says.
 * `container`: NULL, or the own object whose value they are inside of (refs_list_send). MOB_ELIMIT:
 * the link is full, and nothing has happened; it never is for an answer. */
mob_status_t node_post_send_refs(node_cluster_t *cluster, uint64_t peer, node_post_t kind,
                                 const node_letter_parts_t *parts, const frame_id_t *ids,
                                 size_t count, const frame_id_t *container, bool is_answer);
/* Whether a message that is no answer would be taken. */
bool node_post_has_room(node_cluster_t *cluster, uint64_t peer);
/* The number of the message that is being received, in its peer's count. Within a room's receipt
 * only. */
uint64_t node_post_sequence(const node_cluster_t *cluster);

/* From the mesh. False: no memory; it comes again. */
bool node_post_receive(node_cluster_t *cluster, uint64_t peer, uint64_t sequence, const void *bytes,
                       size_t size);

#endif
