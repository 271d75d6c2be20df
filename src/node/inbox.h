/* Messages on the clients' rings. */
#ifndef NODE_INBOX_H
#define NODE_INBOX_H

#include "node/types.h"

/* Reads what every client has said until now, at most a ring's length of each, and acts on it. Ends
 * clients that say what makes no sense. */
void node_inbox_read(node_t *node);

#endif
