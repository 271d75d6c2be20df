/*
 * What a message of this room is, for those who carry it: something of theirs may go along with
 * some kinds. A message is a head of kind (1), id (20), epoch (8) and what its kind adds, and for
 * some a body: the call, or its answer.
 */
#ifndef ACTOR_MESSAGE_H
#define ACTOR_MESSAGE_H

#include "frame/frame.h"

enum {
    MESSAGE_CREATE = 1,
    MESSAGE_MADE,
    MESSAGE_REFUSED,
    MESSAGE_ENDED,
    MESSAGE_OVER,
    MESSAGE_END,
    MESSAGE_LOOK,
    MESSAGE_UNLOOK,
    MESSAGE_ALIVE,
    MESSAGE_DEAD,
    MESSAGE_KILL,
    MESSAGE_KILLED,
    MESSAGE_CALL,
    MESSAGE_ANSWER,
    MESSAGE_CALL_CANCEL,
};

typedef struct {
    uint8_t kind; /* any */
    frame_id_t id;
    uint64_t epoch;
    bool no_restart; /* of KILL: for good */
} actor_message_t;

/* What its head says. False: there is not even a head. */
bool actor_message_peek(const void *bytes, size_t size, actor_message_t *ret_message);
/* The answer to a KILL, which is as it should be, by whoever has noted it beside the room: its
 * bytes, at most ACTOR_KILLED_MAX. */
enum { ACTOR_KILLED_MAX = 64 };
size_t actor_message_killed(const void *kill, size_t size, uint8_t ret_bytes[ACTOR_KILLED_MAX]);

#endif
