/* Actors with a name, and detached ones. name.c has the rules. */
#ifndef NODE_NAME_H
#define NODE_NAME_H

#include "mobula.h"
#include "node/types.h"
#include "wire/message.h"

/* How an actor is known; the actor's. */
typedef struct {
    char name_space[MOB_NAME_MAX + 1], name[MOB_NAME_MAX + 1]; /* name "": it has none */
    mob_ref_t info;                                            /* a use; slot 0: none */
    bool detached; /* the daemon holds the actor: a use */
    uint8_t *spec; /* of a detached actor in a cluster: see cluster/actor_will.h; else NULL */
    size_t spec_size;
    bool is_group; /* what has the name is a placement group */
} node_named_t;

/* Copies a name out of the client's scratch page; false: it makes no sense. */
bool node_name_read(node_client_t *client, uint64_t size, node_named_t *ret_named);
/* What a client waits for that was told to ask again: WIRE_NAME_WAIT. */
typedef struct {
    uint64_t number;
    uint32_t client, epoch;
    bool is_over;
    mob_status_t status;
    mob_ref_t found[2]; /* of WIRE_FIND; the client holds them */
} node_name_wait_t;

typedef struct {
    VEC(node_name_wait_t) items;
    uint64_t made;
} node_name_waits_t;

/* A creation with a name, or of a detached actor; WIRE_CREATE, which is answered. */
void node_name_create(node_client_t *client, const wire_message_t *message);
/* WIRE_FIND, which is answered. */
void node_name_find(node_client_t *client, const wire_message_t *message);
/* WIRE_NAME_WAIT, which is answered. */
void node_name_waited(node_client_t *client, const wire_message_t *message);
/* The client is gone. */
void node_name_waits_forget(node_client_t *client);
/* Who has the name here: an actor, and what it is described by. MOB_OK: `found` follows, with
 * MOB_OK or MOB_ENONAME; MOB_ENOMEM: it does not. */
mob_status_t node_name_look(node_t *node, const node_named_t *named,
                            void (*found)(void *context, mob_status_t status, mob_ref_t actor,
                                          mob_ref_t info),
                            void *context);
/* The actor is dead, or was told to end: its name is free. */
void node_name_end(node_t *node, node_actor_t *actor);

#endif
