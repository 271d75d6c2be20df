/* The session's folder, with the socket that every process but the driver connects to. */
#ifndef NODE_SESSION_H
#define NODE_SESSION_H

#include "node/types.h"

typedef struct {
    char *dir, *socket_path;
    int listen_fd;
} node_session_t;

/* Makes the folder and listens. At the start only: may wait for another daemon that clears up.
 * MOB_ENOSPC, MOB_EPERM, MOB_ESYS, with words. */
mob_status_t node_session_open(node_t *node);
/* Drivers find the node from now on, under this address ("": none). MOB_ENOSPC and others, with
 * words. */
mob_status_t node_session_announce(const node_t *node, const char *address);
/* Removes the folder. At the end only: waits for the disk. */
void node_session_close(node_t *node);

#endif
