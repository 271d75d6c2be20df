/*
 * A ring of messages: one producer process, one consumer process. Lives in shared memory.
 *
 * `tail` has one writer, the producer; `head` one, the consumer. The producer's release store of
 * `tail` makes a message visible, the consumer's release store of `head` makes its place free
 * again. A producer that dies before its store has sent nothing. If the consumer dies, no process
 * reads the rest. Neither side trusts the other's index: see shm_ring_pop.
 */
#ifndef SHM_RING_H
#define SHM_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* wire/message.h says what is in a message. */
typedef struct shm_message {
    uint64_t words[4];
} shm_message_t;

typedef struct shm_ring {
    alignas(64) _Atomic uint64_t head;
    alignas(64) _Atomic uint64_t tail;
    alignas(64) shm_message_t messages[];
} shm_ring_t;

_Static_assert(sizeof(shm_message_t) == 32, "two messages a cache line");
_Static_assert(sizeof(shm_ring_t) == 128, "the indices have a line each");

static inline uint64_t shm_ring_bytes(uint32_t capacity) {
    return sizeof(shm_ring_t) + (uint64_t)capacity * sizeof(shm_message_t);
}

/* Producer. Copies sizeof(shm_message_t) bytes. False if there is no space. `capacity` is a power
 * of two that both sides know. */
bool shm_ring_push(shm_ring_t *ring, uint32_t capacity, const void *message);

typedef enum { SHM_RING_EMPTY, SHM_RING_MESSAGE, SHM_RING_GARBAGE } shm_ring_result_t;
/* Consumer. Copies the next message and frees its place. GARBAGE: the producer's index is
 * impossible. */
shm_ring_result_t shm_ring_pop(shm_ring_t *ring, uint32_t capacity, void *ret_message);
/* Producer: how many wait to be read. */
static inline uint64_t shm_ring_count(shm_ring_t *ring) {
    return atomic_load_explicit(&ring->tail, memory_order_relaxed) -
           atomic_load_explicit(&ring->head, memory_order_acquire);
}
/* Consumer: whether there is something. */
static inline bool shm_ring_has_more(shm_ring_t *ring) {
    return atomic_load_explicit(&ring->tail, memory_order_acquire) !=
           atomic_load_explicit(&ring->head, memory_order_relaxed);
}

#endif
