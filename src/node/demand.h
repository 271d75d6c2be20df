/* What waits for resources, for people. */
#ifndef NODE_DEMAND_H
#define NODE_DEMAND_H

#include "node/types.h"
#include "wire/direct.h"

/* Writes each demand that something waits for, and how many tasks and actors do: ((name, amount),
 * ...), count. The same demand of two jobs stands there twice. */
void node_demands_write(node_t *node, wire_writer_t *writer);

#endif
