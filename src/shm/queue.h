/*
 * A queue of numbers: one producer process, any number of takers. Lives in shared memory.
 *
 * The queue does not decide which taker gets an entry. The record that the entry names has a word
 * of its own, and the taker that changes that word by compare-and-swap has it. The queue only says
 * where to look. So `head` is a hint that any taker may move past an entry that is taken or void.
 * Nothing depends on whose move wins, and a taker that dies anywhere leaves at most a hint that the
 * next one moves on.
 *
 * Invariant: a taker passes an entry only after it tried its claim. head <= tail, but for the
 * moment of a rewind.
 *
 * Rewind: positions count up for ever, their place is the position modulo the size. A queue that
 * was emptied begins again at the first place, by moving head and tail to the next multiple: so the
 * memory it touches is what its longest backlog needed. Only the producer rewinds, and only at head
 * == tail, where no taker moves head.
 */
#ifndef SHM_QUEUE_H
#define SHM_QUEUE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHM_QUEUE_ENTRIES = 1 << 20, SHM_QUEUE_REWIND = 448 }; /* entries in its first page */

typedef struct shm_queue {
    alignas(64) _Atomic uint64_t head;
    alignas(64) _Atomic uint64_t tail;
    /* Of a queue of calls, written by the daemon. */
    _Atomic uint32_t taker;  /* the actor's worker; 0: not there yet */
    _Atomic uint32_t closed; /* 1: the actor is dead */
    alignas(64) _Atomic uint64_t entries[SHM_QUEUE_ENTRIES];
} shm_queue_t;
_Static_assert(offsetof(shm_queue_t, tail) == 64 && offsetof(shm_queue_t, entries) == 128,
               "head, tail and entries have lines of their own");

/* Producer. False: full. Sequentially consistent: a look at which workers sleep may follow. */
bool shm_queue_push(shm_queue_t *queue, uint64_t entry);
/* The first entry that was not passed, and its position; false if there is none. */
static inline bool shm_queue_peek(shm_queue_t *queue, uint64_t *ret_position, uint64_t *ret_entry) {
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    /* acquire: pairs with the producer's store, so that the entry and what it names are whole */
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    if ((int64_t)(tail - head) <= 0) return false;
    *ret_position = head;
    *ret_entry =
        atomic_load_explicit(&queue->entries[head % SHM_QUEUE_ENTRIES], memory_order_relaxed);
    return true;
}
/* The entry at `position`, which the only taker of the queue has not passed; false if there is none
 * yet. */
static inline bool shm_queue_at(shm_queue_t *queue, uint64_t position, uint64_t *ret_entry) {
    /* acquire: as in shm_queue_peek */
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    if ((int64_t)(tail - position) <= 0) return false;
    *ret_entry =
        atomic_load_explicit(&queue->entries[position % SHM_QUEUE_ENTRIES], memory_order_relaxed);
    return true;
}
/* The entry after the one at `position`, 0 if there is none (or it is 0); a moment's truth. */
static inline uint64_t shm_queue_after(shm_queue_t *queue, uint64_t position) {
    /* relaxed: it is looked at, not acted on */
    if ((int64_t)(atomic_load_explicit(&queue->tail, memory_order_relaxed) - position) <= 1)
        return 0;
    return atomic_load_explicit(&queue->entries[(position + 1) % SHM_QUEUE_ENTRIES],
                                memory_order_relaxed);
}
/* After a taker has tried the claim: no taker need look at this position any more. */
static inline void shm_queue_pass(shm_queue_t *queue, uint64_t position) {
    /* relaxed on failure: another taker passed it. release: this taker's look at the entry comes
     * before the producer may write its place again. */
    atomic_compare_exchange_strong_explicit(&queue->head, &position, position + 1,
                                            memory_order_release, memory_order_relaxed);
}
/* How many were not passed; a moment's truth. */
static inline uint64_t shm_queue_count(shm_queue_t *queue) {
    /* seq_cst: for a worker that looks here after it has said that it will sleep */
    uint64_t head = atomic_load(&queue->head), tail = atomic_load(&queue->tail);
    return (int64_t)(tail - head) > 0 ? tail - head : 0;
}

#endif
