/* A connection's first packet, and the answer. */
#ifndef NODE_GREETING_H
#define NODE_GREETING_H

#include "node/types.h"

/* The client's first packet, which is borrowed, and the descriptor that came with it, which is
 * taken; -1: none. Believes nothing in the packet. May close the client. */
void node_greet(node_client_t *client, const void *packet, size_t size, int fd);
/* The node is ready: its starter is told, now or when it has said hello. */
void node_starter_ready(node_t *node);
/* The node can't be: its starter is told why, if it still waits, and the daemon ends. */
void node_starter_fail(node_t *node, mob_status_t status, const char *why);
/* Gives the client its number and its segment, and tells it so. May refuse and close it. */
void node_client_welcome(node_client_t *client);
/* Tells the client why, and closes it. `text` is borrowed. */
void node_client_refuse(node_client_t *client, mob_status_t status, const char *text);

#endif
