/*
 * Pins: which values a process reads in place, one bit a slot, in that process's own segment.
 *
 * A value that is pinned stays where it is. The reader sets its bit and then looks whether the slot
 * is AWAY; the daemon makes the slot AWAY and then looks at the bits of all processes. All four are
 * sequentially consistent, so at least one of the two sees the other: the reader finds that it must
 * ask for the value, or the daemon finds the pin and takes AWAY back. The reader leaves its bit
 * while it asks, so that the value stays once it has come back.
 *
 * A reader holds a reference beside its pin, so the slot is not used again as long as it is pinned.
 * A process that dies takes its pins along.
 */
#ifndef STORE_PINS_H
#define STORE_PINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/node.h"
#include "store/slot.h"

_Static_assert(SHM_PIN_WORDS * 64 == STORE_MAX_SLOTS, "one bit a slot");

static inline void store_pin(_Atomic uint64_t *pins, uint32_t slot) {
    atomic_fetch_or(&pins[slot / 64], (uint64_t)1 << (slot % 64));
}
static inline void store_unpin(_Atomic uint64_t *pins, uint32_t slot) {
    /* release, by its order: this process's reads of the value come before the daemon's use of its
     * memory */
    atomic_fetch_and(&pins[slot / 64], ~((uint64_t)1 << (slot % 64)));
}
/* Those of the 64 slots from word * 64 on. */
static inline uint64_t store_pins_word(_Atomic uint64_t *pins, uint32_t word) {
    return atomic_load(&pins[word]);
}

#endif
