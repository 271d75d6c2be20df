/*
 * Control state: what the system remembers about itself beyond the life of a process's memory: its
 * actors and what its tasks did.
 *
 * One interface; `embedded` keeps it in the daemon's memory, which is all that one machine needs.
 * For one thread.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

typedef struct control control_t;

/* One run of a task. Times are of the wall clock. */
typedef struct control_event {
    uint64_t start_ns, end_ns;
    int32_t pid;
    uint32_t worker; /* its epoch */
    uint8_t kind;    /* mob_kind_t */
    char name[47];
} control_event_t;

typedef enum {
    CONTROL_ACTOR_PENDING,
    CONTROL_ACTOR_ALIVE,
    CONTROL_ACTOR_DEAD
} control_actor_state_t;

typedef struct control_actor {
    mob_ref_t id;
    control_actor_state_t state;
    int32_t pid;
    char name[64];
} control_actor_t;

enum { CONTROL_MAX_EVENTS = 1 << 18, CONTROL_MAX_DEAD_ACTORS = 1 << 12 };

mob_status_t control_embedded_new(control_t **ret_control);
void control_free(control_t *control);

/* Remembers an event; the oldest is forgotten beyond CONTROL_MAX_EVENTS, and this one without
 * memory. */
void control_event_add(control_t *control, const control_event_t *event);
size_t control_event_count(const control_t *control);
const control_event_t *control_event_at(const control_t *control, size_t index); /* oldest first */

/* Notes an actor's state, by its id. Dead ones are forgotten, oldest first, beyond
 * CONTROL_MAX_DEAD_ACTORS. */
void control_actor_put(control_t *control, const control_actor_t *actor);
size_t control_actor_count(const control_t *control);
const control_actor_t *control_actor_at(const control_t *control, size_t index);

#endif
