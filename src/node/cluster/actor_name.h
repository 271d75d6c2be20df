/*
 * Names of actors in a cluster: which node's actor has one is kept in the control state, and that
 * node says the rest. actor_name.c has the messages. A node that is alone has its own (name.h).
 */
#ifndef NODE_CLUSTER_ACTOR_NAME_H
#define NODE_CLUSTER_ACTOR_NAME_H

#include "actor/message.h"
#include "mobula.h"
#include "node/name.h"
#include "node/types.h"

/* The answer, which waits until there is a control state. MOB_OK; MOB_EEXISTS: another actor has
 * the name; MOB_ENONAME: nobody has it; MOB_ECLOSED: this node's part in the cluster is over. */
typedef void (*node_name_taken_fn)(void *context, mob_status_t status);
/* What was found has been held for nobody yet: it is to be, in this call. */
typedef void (*node_name_found_fn)(void *context, mob_status_t status, mob_ref_t actor,
                                   mob_ref_t info);

/* The own actor gets the name, if nobody has it. MOB_ENOMEM, MOB_ECLOSED: no answer follows. */
mob_status_t node_actor_name_take(node_cluster_t *cluster, const node_named_t *named,
                                  mob_ref_t actor, node_name_taken_fn taken, void *context);
/* The actor's name is free; nothing happens if it has it not. */
void node_actor_name_drop(node_cluster_t *cluster, const node_named_t *named, frame_id_t actor);
/* Who has the name, on another node. MOB_ENOMEM, MOB_ECLOSED: no answer follows. */
mob_status_t node_actor_name_find(node_cluster_t *cluster, const node_named_t *named,
                                  node_name_found_fn found, void *context);

/* ---- for acting.c ---- */

enum { NODE_NAME_ASK = 200, NODE_NAME_TOLD }; /* kinds of messages, beside those of the room */

/* MOB_EPROTO, MOB_ENOMEM. */
mob_status_t node_actor_name_asked(node_cluster_t *cluster, uint64_t peer,
                                   const actor_message_t *message, const uint8_t *body,
                                   size_t size);
mob_status_t node_actor_name_told(node_cluster_t *cluster, uint64_t peer,
                                  const actor_message_t *message, const uint8_t *body, size_t size);
/* The control state may have lost names: this node's are said to it again. */
void node_actor_names_master(node_cluster_t *cluster, uint64_t master);
/* Asks again what was not answered; now and then. */
void node_actor_names_tick(node_cluster_t *cluster);
/* What was not answered will not be. */
void node_actor_names_end(node_cluster_t *cluster);
/* A peer died: what it was asked has no answer. */
void node_actor_names_died(node_cluster_t *cluster, uint64_t peer);

#endif
