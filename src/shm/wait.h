/*
 * A long wait of a worker's run, where the daemon can read it: what the run waits for, and since
 * when. In the worker's own segment; each thread that waits has a place.
 *
 * Only waits without a time limit stand here, and only after some time: a short one writes nothing.
 * The daemon reads when it looks for deadlocks. It takes a copy that it read while `word` stayed
 * the same; whatever is in it is the worker's word, to be checked.
 */
#ifndef SHM_WAIT_H
#define SHM_WAIT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SHM_WAITS = 8, SHM_WAIT_REFS = 16 };

typedef struct shm_wait {
    /* A count that rises with each change, and the state in its lowest bit: 1: a wait stands here
     */
    alignas(64) _Atomic uint64_t word;
    uint64_t generation, since_ns; /* of the run's record; by the monotonic clock */
    uint32_t record;
    uint32_t count, needed; /* of objects that are missing; how many must come */
    uint32_t listed;        /* those of them that are named here */
    uint32_t slots[SHM_WAIT_REFS];
    uint64_t generations[SHM_WAIT_REFS];
} shm_wait_t;

/* Worker: before it changes the other fields, and when nothing waits any more. */
static inline void shm_wait_clear(shm_wait_t *w) {
    uint64_t word = atomic_load_explicit(&w->word, memory_order_relaxed);
    atomic_store_explicit(&w->word, (word | 1) + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* a reader that sees a new field sees the count */
}
/* Worker: the fields are filled. */
static inline void shm_wait_publish(shm_wait_t *w) {
    uint64_t word = atomic_load_explicit(&w->word, memory_order_relaxed);
    atomic_store_explicit(&w->word, word | 1, memory_order_release);
}
/* Daemon: false: nothing waits here, or it changes. */
static inline bool shm_wait_read(shm_wait_t *w, shm_wait_t *ret_copy) {
    uint64_t word = atomic_load_explicit(&w->word, memory_order_acquire);
    if (!(word & 1)) return false;
    memcpy(ret_copy, w, sizeof *ret_copy);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&w->word, memory_order_relaxed) == word;
}

#endif
