/* Which processes read a value in place: bits in the readers' own segments, see store/pins.h. */
#ifndef NODE_SPACE_PINS_H
#define NODE_SPACE_PINS_H

#include "node/types.h"

bool node_client_pins(node_client_t *client, uint32_t slot);
bool node_slot_is_pinned(node_t *node, uint32_t slot);
/* The bits of 64 slots, of one process and of all. */
uint64_t node_client_pins_word(node_client_t *client, uint32_t word);
uint64_t node_pins_word(node_t *node, uint32_t word);
/* The client leaves, and goes on reading what it has pinned now: the daemon keeps those values for
 * it, until it is gone. */
void node_pinned_hold(node_client_t *client);
void node_pinned_drop(node_client_t *client);

#endif
