/* Questions of clients, and of observers. */
#ifndef NODE_QUERY_H
#define NODE_QUERY_H

#include "node/types.h"
#include "wire/message.h"

/* A question. The daemon answers it when it has heard of everything that is done. */
typedef struct {
    uint32_t client;
    uint64_t asked_ns, round;
    wire_message_t message;
} node_question_t;
typedef VEC(node_question_t) node_questions_t;

/* A question on a client's ring. */
void node_query(node_client_t *client, const wire_message_t *message);
/* Answers the questions that have waited for that. */
void node_questions_answer(node_t *node);
/* The client is certainly dead: nobody waits for its answers. */
void node_questions_forget(node_client_t *client);
/* A question on an observer's socket. */
void node_observer_packet(node_client_t *client, const void *packet, size_t size);
/* The memory that a question names; NULL, and the client's fault, if it is not the client's own. */
/* Answers with the status, and the words of why in the asker's scratch page. */
void node_question_refuse(node_client_t *client, mob_status_t status);
uint8_t *node_question_space(node_client_t *client, const wire_message_t *message);
/* A client names a place where objects are made; the number of that text is the answer. */
void node_site(node_client_t *client, const wire_message_t *message);

#endif
