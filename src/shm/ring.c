#include "shm/ring.h"

#include <string.h>

bool shm_ring_push(shm_ring_t *ring, uint32_t capacity, const void *message) {
    /* relaxed: this side is the only writer of tail */
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    /* acquire: the consumer's reads of the place happened before it moved head past it */
    if (tail - atomic_load_explicit(&ring->head, memory_order_acquire) >= capacity) return false;
    memcpy(&ring->messages[tail & (capacity - 1)], message, sizeof(shm_message_t));
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

shm_ring_result_t shm_ring_pop(shm_ring_t *ring, uint32_t capacity, void *ret_message) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    /* acquire: pairs with the producer's release, so the message is whole. Read once: the producer
     * can change it at any time. */
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (tail == head) return SHM_RING_EMPTY;
    if (tail - head > capacity) return SHM_RING_GARBAGE;
    memcpy(ret_message, &ring->messages[head & (capacity - 1)], sizeof(shm_message_t));
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return SHM_RING_MESSAGE;
}
