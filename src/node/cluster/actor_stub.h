/*
 * Actors that live elsewhere, in the books: at their home, and at any node where a handle is used.
 * actor_stub.c has their creation and their end, actor_call.c their calls.
 */
#ifndef NODE_CLUSTER_ACTOR_STUB_H
#define NODE_CLUSTER_ACTOR_STUB_H

#include "actor/message.h"
#include "frame/done.h"
#include "frame/frame.h"
#include "node/types.h"

/* node_actor_t's `far`. */
typedef struct node_far {
    frame_id_t id;
    uint64_t node, epoch; /* at its home: where its creation was sent last */
    uint64_t pick;        /* at its home: where it goes next, if that is decided; else 0 */
    bool is_tried;        /* at its home: some node was asked that seemed to have no room */
    bool is_placing;      /* at its home: a node is looked for */
    bool is_unwanted;     /* the room knows that its last handle is gone */
    bool is_detached;     /* elsewhere: its home has said so */
    bool is_final;        /* elsewhere: it is not made again when its process dies */
    char how[440];        /* how it ended, as far as it is known */
} node_far_t;

/* What goes along with a message of the room. */
typedef struct {
    uint8_t *bytes; /* to be freed; NULL: nothing does */
    size_t size;
    frame_id_t *ids; /* references inside, to be freed; NULL: none */
    size_t count;
} node_freight_t;

/* ---- for the files beside cluster/ ---- */

/* A creation that is READY and in no queue: true if it leaves. Else it is to run here, and leaves
 * later if it waits in the scheduler while another node has room. */
bool node_far_takes(node_t *node, node_task_t *creation);
/* The process of an actor that lived here has died, and its creation is in the scheduler: it
 * leaves, too, if it waits there while another node has room. */
void node_far_again(node_t *node, node_actor_t *actor);
/* It is made, and lives here: the room is told, if it has asked where. */
void node_far_begun(node_t *node, const node_actor_t *actor);
/* The book on another node's actor, by its proxy. NULL: no memory, or this node is alone. */
node_actor_t *node_far_open(node_t *node, node_object_t *object);
/* Sends the calls whose arguments are there, each caller's in order. */
void node_far_pump(node_t *node, node_actor_t *actor);
/* Sends what its process here had begun, and what is to be run again, before all others. */
void node_far_first(node_t *node, node_actor_t *actor);
/* A call is answered, and its task gone. The actor may be gone afterwards. */
void node_far_answered(node_t *node, node_actor_t *actor);
void node_far_kill(node_t *node, node_actor_t *actor, bool may_restart);
/* No handle is left here, and no call. At its home it ends; elsewhere this says true, and its book
 * may go. */
bool node_far_is_over(node_t *node, node_actor_t *actor);
/* It is DEAD in the books. */
void node_far_buried(node_t *node, node_actor_t *actor);
/* Its book goes. */
void node_far_free(node_t *node, node_actor_t *actor);
/* The job ends, and its actors with it. */
void node_far_job_ends(node_job_t *job);
/* Whether it is not made again when its process dies, as far as it is known. */
bool node_far_is_final(const node_t *node, const node_actor_t *actor);
/* Where it lives, or lived, for words: the node's id, and its address. */
uint64_t node_far_where(const node_t *node, const node_actor_t *actor, const char **ret_host);

/* ---- for acting.c ---- */

/* The room wants a node for it. */
void node_far_place(node_cluster_t *cluster, frame_id_t id);
/* Looks for nodes for what waits. */
void node_far_tick(node_cluster_t *cluster);
/* The creation of that epoch goes to that node: its frame. MOB_ENOMEM and others: it can't. */
mob_status_t node_far_creation(node_cluster_t *cluster, uint64_t to, frame_id_t id, uint64_t epoch,
                               node_freight_t *ret_freight);
/* What goes along with ALIVE and DEAD: what callers elsewhere are to know. */
void node_far_words(node_cluster_t *cluster, const actor_message_t *message,
                    node_freight_t *ret_freight);
/* What came along with MADE, ENDED, ALIVE or DEAD; before the room sees the message. MOB_EPROTO. */
mob_status_t node_far_heard(node_cluster_t *cluster, uint64_t from, const actor_message_t *message,
                            const uint8_t *bytes, size_t size);
/* MADE: the constructor has ended there. */
void node_far_made(node_cluster_t *cluster, uint64_t from, const actor_message_t *message);
/* It is dead for good, says the room. */
void node_far_ended(node_cluster_t *cluster, frame_id_t id);
/* A node died: how actors there and of that home ended, before the room is told. */
void node_far_node_died(node_cluster_t *cluster, uint64_t peer);

/* ---- calls: actor_call.c ---- */

/* The answer to a call; `from`: the node that sent it. */
void node_far_result(node_cluster_t *cluster, uint64_t token, mob_status_t status, uint64_t from,
                     const uint8_t *bytes, size_t size);
/* The peer that stands for actors elsewhere. NULL: no memory. */
node_peer_t *node_far_peer_new(node_t *node);

#endif
