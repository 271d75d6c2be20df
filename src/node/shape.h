/* Demands, and which client holds them. */
#ifndef NODE_SHAPE_H
#define NODE_SHAPE_H

#include "mobula.h"
#include "node/types.h"
#include "sched/sched.h"
#include "wire/message.h"

typedef struct {
    VEC(uint32_t)
    warned; /* shapes that can never fit, and the driver knows, by their places */
} node_shapes_t;

/* A client asks for a demand's number, and holds it from then on. `settled`: every ring was read
 * since. */
void node_shape(node_client_t *client, const wire_message_t *message, bool settled);
/* The client holds a shape that it did not ask for: what its actor holds. */
void node_shape_hold(node_client_t *client, uint32_t shape);
/* The client lets go of a shape. */
void node_shape_drop(node_client_t *client, uint32_t shape);
/* The client is dead. */
void node_shapes_forget(node_client_t *client);
/* What the node has too little of for ever; false: nothing. */
bool node_lacks_text(const sched_job_t *job, uint32_t shape, char *ret_text, size_t size);
/* Tells the driver, once a shape, that the node will never have what it needs. */
void node_warn_if_never(node_job_t *job, uint32_t shape, mob_kind_t kind, const char *name);

#endif
