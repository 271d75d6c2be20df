/* Values that are larger than the store, each in a file of its own. large.c has their states. */
#ifndef NODE_SPACE_LARGE_H
#define NODE_SPACE_LARGE_H

#include "mobula.h"
#include "node/types.h"

typedef struct node_large node_large_t;

typedef struct {
    VEC(node_large_t *) files;
    bool told; /* the driver knows that there are such values */
} node_larges_t;

/* A client asks for a file of `size` bytes, which it calls `number`. The client is told (WIRE_FILE)
 * when there is a file, or will be none: a thread of libuv's makes it. May end the client. */
void node_large_need(node_client_t *client, uint32_t number, uint64_t size);
/* The client does not need the file any more. A file that is published already stays. */
void node_large_drop(node_client_t *client, uint32_t number);
/* The client has written the object's value into that file: the file goes with the object from now
 * on. It takes the place of an earlier one. */
void node_large_bind(node_client_t *client, mob_ref_t ref, uint32_t number);
/* Its descriptor, borrowed; -1: it has none yet. */
int node_large_fd(const node_large_t *large);
/* The file of `from`'s value is that of `to`'s from now on, which had none. */
void node_large_move(node_object_t *from, node_object_t *to);
/* Answers a process that has connected to fetch a descriptor, and hangs up. Reads all rings before,
 * for the fetcher may be faster than the message that binds the file. */
void node_large_fetch(node_client_t *fetcher, const void *request, size_t size);
/* The file's object is freed. Takes `large`; a thread of libuv's closes the file. */
void node_large_free(node_t *node, node_large_t *large);
/* The client is certainly dead: files that it had not published go. */
void node_large_forget(node_client_t *client);

#endif
