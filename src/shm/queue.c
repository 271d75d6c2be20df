#include "shm/queue.h"

bool shm_queue_push(shm_queue_t *q, uint64_t entry) {
    uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed); /* the producer's own */
    /* acquire: takers have read the places that they passed */
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    if (tail - head >= SHM_QUEUE_ENTRIES) return false;
    if (head == tail && tail % SHM_QUEUE_ENTRIES >= SHM_QUEUE_REWIND) {
        uint64_t next = (tail / SHM_QUEUE_ENTRIES + 1) * SHM_QUEUE_ENTRIES;
        /* Until tail follows, takers see head beyond tail, which is empty. */
        atomic_store_explicit(&q->head, next, memory_order_relaxed);
        tail = next;
    }
    atomic_store_explicit(&q->entries[tail % SHM_QUEUE_ENTRIES], entry, memory_order_relaxed);
    atomic_store(&q->tail, tail + 1);
    return true;
}
