/*
 * ray.cancel: tasks that are to stop, and what their runs have submitted. cancel.c has the states;
 * control/cancel.h decides.
 */
#ifndef NODE_CANCEL_H
#define NODE_CANCEL_H

#include <uv.h>

#include "mobula.h"
#include "node/types.h"
#include "wire/message.h"

/* A task that is to be cancelled: its record, under that generation. */
typedef struct {
    uint32_t record;
    uint64_t generation;
    bool force, recursive;
    uint32_t aside; /* how often it was put aside */
    uint64_t round; /* until when */
} node_target_t;

/* A run that its worker is to break off, and has not yet. */
typedef struct {
    uint32_t record;
    uint64_t generation;
    uint32_t worker, epoch;
    uint32_t sent; /* signals */
    uint64_t due_ns;
} node_interrupt_t;

typedef struct {
    VEC(node_target_t) todo;  /* empty between two messages */
    VEC(node_target_t) early; /* KNOWN, and the daemon has not read of them yet */
    VEC(node_interrupt_t) interrupts;
    uint64_t serial; /* counts walks, so that none goes in a circle */
    uv_timer_t timer;
    bool ring; /* results were failed since the bells were rung */
} node_cancels_t;

/* At the start. */
mob_status_t node_cancels_start(node_t *node);
/* WIRE_CANCEL, which is answered if it is by force. */
void node_cancel(node_client_t *client, const wire_message_t *message);
/* The task that makes this object of the node's is to stop, if one does. MOB_EINVAL: it can't be
 * stopped by force. */
mob_status_t node_cancel_ref(node_t *node, mob_ref_t ref, bool force, bool recursive);
/* The task of this record, a peer's, is to stop. */
void node_cancel_record(node_t *node, uint32_t record, uint64_t generation, bool force,
                        bool recursive);
/* Takes a task that no worker has begun out of wherever it waits: it is the caller's to end. False:
 * one has. */
bool node_cancel_take(node_t *node, node_task_t *task);
/* WIRE_INTERRUPTED: the worker breaks its run off. Whatever that run has submitted until now goes
 * with it, if the cancel was recursive. */
void node_cancel_interrupted(node_client_t *worker, uint32_t record, uint64_t generation);
/* Goes on with what was put aside in former rounds: every ring was read since. Rings the bells for
 * what has failed. */
void node_cancels_settle(node_t *node);
/* The results of a task that was cancelled become that error, and it is freed. */
void node_cancel_fail(node_t *node, node_task_t *task);

#endif
