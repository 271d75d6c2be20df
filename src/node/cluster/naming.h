/* Ids of other nodes' objects, for clients: they pickle references by their ids. */
#ifndef NODE_CLUSTER_NAMING_H
#define NODE_CLUSTER_NAMING_H

#include "node/types.h"
#include "wire/message.h"

/* WIRE_ID: the id of the object that a slot here stands for. */
void node_naming_id(node_client_t *client, const wire_message_t *message);
/* WIRE_OF_ID: the slot here of an object of another node. It makes none: whoever has an id that it
 * may use has it from a value, a task or a process that holds the object. */
void node_naming_of_id(node_client_t *client, const wire_message_t *message);

#endif
