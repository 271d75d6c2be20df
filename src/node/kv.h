/* Values by key that clients leave with the daemon (control/control.h). */
#ifndef NODE_KV_H
#define NODE_KV_H

#include "node/types.h"
#include "wire/direct.h"
#include "wire/message.h"

/* WIRE_KV, which is answered. */
void node_kv(node_client_t *client, const wire_message_t *message);
/* MOB_QUERY_KEPT. */
void node_kv_write(node_t *node, wire_writer_t *writer);

#endif
