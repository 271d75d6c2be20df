/* The way between two nodes, while both are this one: what goes out comes in again, in order. A
 * network takes the place of this file, and of nothing else. */
#ifndef NODE_LOOP_H
#define NODE_LOOP_H

#include "node/types.h"

typedef struct node_letter node_letter_t;

typedef struct {
    node_letter_t *head, *tail;
    size_t count, bytes; /* under way */
} node_loop_t;

/* Whether a task may be sent. Answers always may: two full ways would wait for each other. */
bool node_loop_has_room(const node_loop_t *loop);
/* Takes the bytes, also if it fails. MOB_ENOMEM. */
mob_status_t node_loop_push(node_loop_t *loop, uint8_t *bytes, size_t size);
/* Gives the oldest, to be freed. False: there is none. */
bool node_loop_pop(node_loop_t *loop, uint8_t **ret_bytes, size_t *ret_size);

#endif
