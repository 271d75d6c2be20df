/* Numbers of clients, which are small and used again. number.c has the rule. */
#ifndef NODE_NUMBER_H
#define NODE_NUMBER_H

#include "node/types.h"
#include "shm/lane.h"

typedef struct {
    uint32_t epoch;                  /* how many were given */
    uint32_t named[SHM_MAX_CLIENTS]; /* in how many places of the books, beside tasks
                                        (node_t.open_tasks), the number may outlive its client */
    uint64_t left[SHM_MAX_CLIENTS];  /* the round in which its last client went, plus one; 0: it had
                                        none */
} node_numbers_t;

/* Gives the client the lowest number that is free, and an epoch. False: all are in use. */
bool node_number_take(node_client_t *client);
/* The highest that is free, for a peer. No loop over clients goes up to it. */
bool node_number_take_high(node_client_t *client);
/* The client is closed: its number is free when it has rested, and nothing names it. */
void node_number_leave(node_client_t *client);
/* The number is written down in such a place of the books; it is struck off there. */
void node_number_name(node_t *node, uint32_t number);
void node_number_unname(node_t *node, uint32_t number);

#endif
