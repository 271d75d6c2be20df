/*
 * Actors that live here and are called from other nodes: those of other homes, which were sent
 * here, and this node's own, once another node has a handle in use. actor_seat.c has their life,
 * actor_visit.c the calls that come.
 */
#ifndef NODE_CLUSTER_ACTOR_SEAT_H
#define NODE_CLUSTER_ACTOR_SEAT_H

#include "frame/frame.h"
#include "node/cluster/actor_stub.h"
#include "node/run.h"
#include "node/types.h"

/* node_actor_t's `seat`. */
typedef struct node_seat {
    frame_id_t id; /* by which other nodes know it */
    uint64_t epoch;
    node_actor_t *actor; /* NULL: it has ended, and the room has yet to hear of it */
    bool is_adopted;     /* an actor of this home, which was here before the room knew of it */
    bool is_final;       /* it is not made again elsewhere */
    node_run_t here;     /* its creation, if it is not adopted */
    uint8_t *spec;       /* of a detached one, as the room has it; else NULL */
    size_t spec_size;
    uint8_t *done; /* what its constructor left, or how it ended: a frame_done_t */
    size_t done_size;
} node_seat_t;

/* ---- for the files beside cluster/ ---- */

/* Its constructor has ended. */
void node_seat_made(node_t *node, node_actor_t *actor);
/* It is DEAD, and has no process. If it was sent here its book goes with that. */
void node_seat_ended(node_t *node, node_actor_t *actor);
/* A call from elsewhere has its arguments. */
void node_seat_call_ready(node_t *node, node_task_t *call);
/* A call that the dead actor did not answer: true if it came from elsewhere, and is gone here; the
 * room tells its caller. */
bool node_seat_call_drop(node_t *node, node_task_t *call);

/* The id by which other nodes know the actor, which is about to be named by its process: this node
 * has a proxy of it then, for a while. */
frame_id_t node_seat_id(node_t *node, const node_actor_t *actor);
/* The slot by which this process knows itself, if it is the actor of this id; else slot 0. */
mob_ref_t node_seat_find(const node_client_t *client, frame_id_t id);

/* ---- for acting.c ---- */

/* Another node asks where this node's actor is: the room gets to know of it, if it lives here.
 * False: its creation may not have been read yet. */
bool node_seat_adopt(node_cluster_t *cluster, frame_id_t id);
/* A creation has come: kept until `make`. Takes the bytes. */
void node_seat_creation_came(node_cluster_t *cluster, frame_id_t id, uint8_t *bytes, size_t size);
/* Frees those that have come and will not be made. */
void node_seat_creations_tick(node_cluster_t *cluster);
/* `spec` is borrowed; of one that is not detached it has 0 bytes. */
void node_seat_make(node_cluster_t *cluster, frame_id_t id, uint64_t epoch, const void *spec,
                    size_t size);
/* Whether it was made here in this epoch, or a newer one. */
bool node_seat_has(node_cluster_t *cluster, frame_id_t id, uint64_t epoch);
void node_seat_stop(node_cluster_t *cluster, frame_id_t id, uint64_t epoch);
/* The room has heard of its end. */
void node_seat_gone(node_cluster_t *cluster, frame_id_t id);
/* What goes along with MADE and ENDED. */
void node_seat_words(node_cluster_t *cluster, frame_id_t id, node_freight_t *ret_freight);

/* ---- calls: actor_visit.c ---- */

void node_seat_fetch(node_cluster_t *cluster, uint64_t call, frame_id_t id, uint64_t from,
                     const uint8_t *bytes, size_t size);
void node_seat_run(node_cluster_t *cluster, uint64_t call, bool begins);
/* The actor's process has ended: the calls that it has answered, and whose answers are not sent
 * yet, end without one. */
void node_seat_lost(node_cluster_t *cluster, frame_id_t id);
/* It was begun, and is to stop. */
void node_seat_cancel(node_cluster_t *cluster, uint64_t call, bool recursive);
/* The end of a visit: tells the room. */
bool node_seat_answer(node_visit_t *visit, const uint8_t *body, size_t size);

#endif
