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

/* The slot becomes the daemon's to free, if it was not, and its value is used once more. */
static void pinned_note(node_client_t *c, uint32_t slot) {
    node_t *n = c->node;
    if (slot >= n->grants.slots.granted) return;
    (void)store_slot_escape(&n->slots[slot]);
    mob_ref_t ref = {.slot = slot};
    ref.generation = atomic_load_explicit(&n->slots[slot].generation, memory_order_relaxed);
    node_object_t *o = node_object_find(n, ref);
    if (o != NULL && vec_push(&c->pinned, ref)) node_object_use(o);
}

void node_pinned_hold(node_client_t *c) {
    uint32_t words = (c->node->grants.slots.granted + 63) / 64;
    for (uint32_t w = 0; w < words; w++)
        for (uint64_t bits = node_client_pins_word(c, w); bits != 0; bits &= bits - 1)
            pinned_note(c, w * 64 + (uint32_t)__builtin_ctzll(bits));
}

void node_pinned_drop(node_client_t *c) {
    while (c->pinned.count > 0) node_object_unuse_ref(c->node, vec_pop(&c->pinned));
}
