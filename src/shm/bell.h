/*
 * A bell: the threads of a process sleep on it, and other processes ring it. One a process, in
 * shared memory; a ring wakes all its sleeping threads.
 *
 *   sleeper                                     ringer
 *   seen = shm_bell_listen(b)                   makes the condition true
 *   look at the condition; true: done           shm_bell_ring(b)
 *   shm_bell_sleep(b, seen, timeout)
 *   look again
 *
 * No lost wake-up: `rings` changes with every ring, so a ring after listen makes the sleep return
 * at once. The sleeper looks at the condition after listen, so it does not need a ring before
 * listen. No system call when no thread sleeps: the sleeper raises `sleepers` before the kernel
 * compares `rings`, and the ringer changes `rings` before it looks at `sleepers`. Both are
 * sequentially consistent, so one of the two sees the other.
 *
 * A process that dies asleep leaves `sleepers` too high: rings of a dead process's bell then cost a
 * needless system call. The daemon resets a bell before it gives its number to another process.
 */
#ifndef SHM_BELL_H
#define SHM_BELL_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct shm_bell {
    alignas(64) _Atomic uint32_t rings; /* changed by fetch_add by any process */
    _Atomic uint32_t sleepers;          /* changed by its own process's threads, by fetch_add */
} shm_bell_t;
_Static_assert(sizeof(shm_bell_t) == 64, "a bell is a cache line");

static inline uint32_t shm_bell_listen(shm_bell_t *bell) { return atomic_load(&bell->rings); }
bool shm_bell_ring(shm_bell_t *bell); /* true if a thread was woken */
/* Sleeps until the next ring after `seen`, at most timeout_ns (-1: no limit). False if a signal
 * handler ran. */
bool shm_bell_sleep(shm_bell_t *bell, uint32_t seen, int64_t timeout_ns);

#endif
