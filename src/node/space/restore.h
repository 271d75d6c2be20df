/* Values back from disk into memory. Threads of libuv's read. */
#ifndef NODE_SPACE_RESTORE_H
#define NODE_SPACE_RESTORE_H

#include "mobula.h"
#include "node/types.h"

/* A client asks for a value that is AWAY. `waits`: it wants to be told when it is there. `goes_on`:
 * as for node_space_want. */
void node_restore(node_client_t *client, mob_ref_t ref, bool waits, bool goes_on);
/* Begins to read it; false: there is no space. */
bool node_restore_begin(node_t *node, node_object_t *object);
/* The daemon itself needs it, and looks again. */
void node_restore_own(node_t *node, node_object_t *object);
/* Tells the clients that wait for the value. */
void node_restore_tell(node_t *node, node_object_t *object, mob_status_t status);
/* There will be no space: clients that wait for the value are told. */
void node_restore_refuse(node_t *node, mob_ref_t ref, mob_status_t status);

#endif
