/*
 * What is to be known of an actor so that it can be made, made again, and found: the same bytes in
 * the control state, in a creation and in what a node says to a new master. For one thread.
 */
#ifndef ACTOR_FACTS_H
#define ACTOR_FACTS_H

#include "base/bytes.h"
#include "frame/frame.h"

enum {
    ACTOR_ID_SIZE = 20,
    ACTOR_NAME_SIZE = 16,
    ACTOR_SPEC_MAX = 3072, /* so that the facts fit into a value of the control state */
};

/* Kinds of actors. One without any of them is plain: it exists once, at its home's word. */
enum {
    ACTOR_RESTARTABLE = 1,
    ACTOR_NAMED = 2,
    ACTOR_DETACHED = 4,
    ACTOR_KILLED = 8, /* for good; its end follows */
    ACTOR_FLAGS = 15,
};

typedef enum {
    ACTOR_AT_NONE,  /* its name is taken, it has no node */
    ACTOR_AT_SENT,  /* the creation may go to the node */
    ACTOR_AT_BEGUN, /* the node of a detached one has begun it, or is about to */
    ACTOR_AT_ALIVE,
    ACTOR_AT_END,
} actor_at_t;

/* Who asked for a number, and for which one: a repeat gets the same answer. */
typedef struct {
    uint64_t node, number;
} actor_request_t;

typedef struct {
    frame_id_t id;
    uint64_t epoch, node;
    actor_request_t request; /* that set the epoch */
    actor_request_t begun;   /* that set ACTOR_AT_BEGUN */
    uint8_t at;              /* actor_at_t */
    uint8_t flags;
    uint8_t name[ACTOR_NAME_SIZE]; /* a hash of the namespace and the name */
    int32_t restarts_left;
    uint32_t restarts;
    uint32_t limit;      /* calls at once */
    const uint8_t *spec; /* borrowed: the creation */
    size_t spec_size;
} actor_facts_t;

/* An id as the key of a map, and as it crosses nodes. */
typedef struct {
    uint8_t bytes[ACTOR_ID_SIZE];
} actor_key_t;

actor_key_t actor_key(frame_id_t id);
static inline bool actor_id_equal(frame_id_t a, frame_id_t b) {
    return a.home == b.home && a.number == b.number && a.generation == b.generation;
}

void actor_id_put(base_writer_t *w, frame_id_t id);
frame_id_t actor_id_take(base_reader_t *r);
void actor_facts_put(base_writer_t *w, const actor_facts_t *facts);
/* The spec lies in what is read. False: these are no facts. */
bool actor_facts_take(base_reader_t *r, actor_facts_t *ret_facts);

#endif
