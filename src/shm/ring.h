/*
 * A ring of messages: one producer process, one consumer process. Lives in shared memory.
 *
 * `tail` has one writer, the producer; `head` one, the consumer. A message is visible by the
 * release store of `tail`, its place is free again by the release store of `head`. A producer that
 * dies before the store has sent nothing; a consumer that dies leaves the rest to be read by
 * nobody. Neither side trusts the other's index: see shm_ring_pop.
 */
#ifndef SHM_RING_H
#define SHM_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a message says is its users' business (wire/message.h). */
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
