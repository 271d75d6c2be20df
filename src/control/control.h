/*
 * Control state: what the system remembers about itself beyond the life of a process's memory: its
 * jobs, its actors and what its tasks did.
 *
 * One interface; `embedded` and `names` keep it in the daemon's memory, which is all that one
 * machine needs. For one thread.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdbool.h>
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
    CONTROL_ACTOR_RESTARTING,
    CONTROL_ACTOR_DEAD
} control_actor_state_t;

typedef struct control_actor {
    mob_ref_t id;
    control_actor_state_t state;
    int32_t pid;       /* 0: it has no process */
    uint64_t node;     /* where it lives, or lived */
    uint32_t restarts; /* that there were */
    char name[64];
    char cause[192]; /* of its death */
} control_actor_t;

/* A job: a driver's, or a detached actor's. Times are of the wall clock. */
typedef struct control_job {
    uint32_t number;
    int32_t pid;               /* the driver's */
    uint64_t start_ms, end_ms; /* end_ms 0: it goes on */
    uint8_t is_detached;       /* a detached actor's */
    uint8_t failed;            /* its driver died, or hung up without a word */
    char name_space[256], entrypoint[1024];
} control_job_t;

enum {
    CONTROL_MAX_EVENTS = 1 << 18,
    CONTROL_MAX_DEAD_ACTORS = 1 << 12,
    CONTROL_MAX_DEAD_JOBS = 1 << 10
};

mob_status_t control_embedded_new(control_t **ret_control);
void control_free(control_t *control);

/* ---- names of actors and placement groups ---- */

/*
 * A request is answered later, by its callback, in a call of control_turn: where the state lies in
 * this process, in the next one. So a caller waits for nothing, and works the same when the state
 * lies elsewhere. Requests are answered in the order in which they were made.
 */

/* What has the name: an actor and a group may have the same. */
typedef enum { CONTROL_NAME_ACTOR, CONTROL_NAME_GROUP } control_named_t;

typedef struct control_name {
    control_named_t kind;
    char name_space[MOB_NAME_MAX + 1], name[MOB_NAME_MAX + 1];
    mob_ref_t actor, info; /* the actor, or the group */
} control_name_t;

typedef struct control_reply {
    mob_status_t status;
    const control_name_t *names; /* borrowed for the time of the callback */
    size_t count;
} control_reply_t;
typedef void (*control_reply_fn)(void *context, const control_reply_t *reply);

/* The name is this actor's from now on (MOB_OK), or another one has it (MOB_EEXISTS). MOB_ENOMEM.
 * If the request itself can't be noted, it returns that and there is no callback; so for all. */
mob_status_t control_name_take(control_t *control, const control_name_t *name,
                               control_reply_fn reply, void *context);
/* One name, or MOB_ENONAME. */
mob_status_t control_name_find(control_t *control, control_named_t kind, const char *name_space,
                               const char *name, control_reply_fn reply, void *context);
/* All names of this kind, of one namespace or, with NULL, of all. */
mob_status_t control_name_list(control_t *control, control_named_t kind, const char *name_space,
                               control_reply_fn reply, void *context);
/* The name is free again, if it is this actor's or group's. Has no answer. */
void control_name_drop(control_t *control, control_named_t kind, const char *name_space,
                       const char *name, mob_ref_t actor);

/* ---- values by key ---- */

/* See mob_kv. A request is answered as one about a name is. */

typedef struct control_kv_item {
    const uint8_t *key, *value;
    uint32_t key_size, value_size;
} control_kv_item_t;

typedef struct control_kv_reply {
    mob_status_t status; /* MOB_ELIMIT: there is no room for an item; those before it are written */
    uint64_t count;      /* of a write: what mob_kv says; of a question: how many were found */
    const control_kv_item_t *items; /* of a question; borrowed for the time of the callback */
} control_kv_reply_t;
typedef void (*control_kv_reply_fn)(void *context, const control_kv_reply_t *reply);

/* `items` are as mob_kv takes them, and are copied before they are looked at. MOB_EINVAL: they make
 * no sense; MOB_ELIMIT: they are too many; MOB_ENOMEM. There is no callback then. */
mob_status_t control_kv_ask(control_t *control, mob_kv_t what, const void *items, size_t size,
                            control_kv_reply_fn reply, void *context);
/* The job has ended: its keys go. */
void control_kv_drop_job(control_t *control, uint32_t job);
/* Everything that there is, in the order of the keys. An item is valid until the next call. */
size_t control_kv_count(control_t *control);
control_kv_item_t control_kv_at(control_t *control, size_t index);

/* Answers what can be answered now. True: something was. */
bool control_turn(control_t *control);

/* ---- what is remembered ---- */

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

/* Notes a job, by its number. Those that have ended are forgotten, oldest first, beyond
 * CONTROL_MAX_DEAD_JOBS. */
void control_job_put(control_t *control, const control_job_t *job);
size_t control_job_count(const control_t *control);
const control_job_t *control_job_at(const control_t *control, size_t index); /* oldest first */

#endif
