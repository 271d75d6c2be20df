/* Demands, and which client holds them. */
#ifndef NODE_SHAPE_H
#define NODE_SHAPE_H

#include "mobula.h"
#include "node/types.h"
#include "wire/message.h"

typedef struct {
    VEC(uint32_t)
    warned; /* shapes that can never fit, and the driver knows, by their places */
} node_shapes_t;

/* A client asks for a demand's number, and holds it from then on. */
void node_shape(node_client_t *client, const wire_message_t *message);
/* The client lets go of a shape. */
void node_shape_drop(node_client_t *client, uint32_t shape);
/* The client is dead. */
void node_shapes_forget(node_client_t *client);
/* Tells the driver, once a shape, that the node will never have what it needs. */
void node_warn_if_never(node_job_t *job, uint32_t shape, mob_kind_t kind, const char *name);

#endif
