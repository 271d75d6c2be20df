#include "node/space/pins.h"

#include "node/state.h"
#include "store/pins.h"

bool node_client_pins(node_client_t *c, uint32_t slot) {
    return node_client_pins_word(c, slot / 64) >> (slot % 64) & 1;
}

uint64_t node_client_pins_word(node_client_t *c, uint32_t word) {
    return c->segment.base != NULL
               ? store_pins_word((_Atomic uint64_t *)(c->segment.base + SHM_CLIENT_PINS), word)
               : 0;
}

uint64_t node_pins_word(node_t *n, uint32_t word) {
    uint64_t pins = 0;
    for (uint32_t k = 1; k < n->client_next; k++)
        if (n->clients[k] != NULL) pins |= node_client_pins_word(n->clients[k], word);
    return pins;
}

bool node_slot_is_pinned(node_t *n, uint32_t slot) {
    return node_pins_word(n, slot / 64) >> (slot % 64) & 1;
}
