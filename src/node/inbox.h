/* Messages on the clients' rings. */
#ifndef NODE_INBOX_H
#define NODE_INBOX_H

#include "node/types.h"

/* Reads what every client has said until now, each ring up to the tail that it has now, and acts on
 * it. Clients that say what makes no sense are ended. */
void node_inbox_read(node_t *node);

#endif
