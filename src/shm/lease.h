/*
 * A worker's lease: the right to take tasks of one shape from the queues of its lane. One word a
 * worker, in the node's segment.
 *
 *   NONE      it has none: it runs what the daemon tells it to, or nothing
 *   FREE      it has one and runs nothing
 *   BUSY      it has one and runs a task, or is between two
 *   BLOCKED   its task waits in get or wait: its CPU may be lent
 *   LENT      ... and was lent
 *   RECALL    a flag beside BUSY, BLOCKED and LENT: no other task after this one
 *
 * A change is a compare-and-swap, but for the first, which is a release store.
 *
 *   change                by
 *   NONE -> FREE          daemon: has taken a CPU for it out of the pool
 *   FREE -> BUSY          worker, before it looks into a queue
 *   BUSY -> FREE          worker, when the queues are empty; it tells the daemon only if `wanted`
 *   FREE -> NONE          daemon: wants the CPU, and need not wake the worker for it
 *   sets RECALL           daemon: other tasks have waited for some time
 *   BUSY|RECALL -> NONE   worker, between two tasks; it then tells the daemon
 *   BUSY <-> BLOCKED      worker; it tells the daemon only if `wanted`: a task waits for a CPU
 *   BLOCKED -> LENT       daemon
 *   LENT -> BUSY|RECALL   worker, which goes on at once, without a CPU; it tells the daemon
 *   BUSY|RECALL -> BUSY   daemon: has found a CPU for a worker that went on without one
 *   any -> NONE           daemon, after the worker's certain death
 *
 * The CPU belongs to the worker in all states but NONE and LENT. The daemon's private books say the
 * same once the daemon has read the messages.
 */
#ifndef SHM_LEASE_H
#define SHM_LEASE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SHM_LEASE_NONE = 0,
    SHM_LEASE_FREE = 1,
    SHM_LEASE_BUSY = 2,
    SHM_LEASE_BLOCKED = 3,
    SHM_LEASE_LENT = 4,
    SHM_LEASE_STATE = 7,
    SHM_LEASE_RECALL = 8,
};

static const uint32_t SHM_LEASE_FORGETS =
    UINT32_MAX; /* in `run`: the worker unloads a function, which may take any time */

typedef struct shm_lease {
    alignas(64) _Atomic uint32_t word;
    _Atomic uint32_t lane; /* the lane that it is for. Written by the daemon in NONE */
    /* The record that the worker runs under its lease, plus one; 0: none, and it has told
     * everything about the last one; SHM_LEASE_FORGETS. Written by the worker. */
    _Atomic uint32_t run;
    /* 1: the worker sleeps, or is about to: a caller that pushes a call for it rings its bell.
     * Written by the worker. */
    _Atomic uint32_t rests;
    /* How many calls the worker runs, if its actor may run several at once. Written by the
     * worker. */
    _Atomic uint32_t calls;
} shm_lease_t;
_Static_assert(sizeof(shm_lease_t) == 64, "a lease is a cache line");

/* From state `from`, RECALL kept. False if it is in another state. All of this is sequentially
 * consistent: after a move each side looks at what the other side wrote. */
static inline bool shm_lease_move(shm_lease_t *lease, uint32_t from, uint32_t to) {
    uint32_t word = atomic_load(&lease->word);
    while ((word & SHM_LEASE_STATE) == from)
        if (atomic_compare_exchange_weak(&lease->word, &word, to | (word & SHM_LEASE_RECALL)))
            return true;
    return false;
}

/* The worker's task goes on after waiting. True: the daemon has lent the CPU, and the worker is to
 * tell it. Other tasks may run on all CPUs now: so the worker takes no other task before the daemon
 * has a CPU for it. */
static inline bool shm_lease_go_on(shm_lease_t *lease) {
    uint32_t word = atomic_load(&lease->word);
    for (;;) {
        uint32_t state = word & SHM_LEASE_STATE;
        if (state != SHM_LEASE_BLOCKED && state != SHM_LEASE_LENT) return false;
        uint32_t flag = state == SHM_LEASE_LENT ? SHM_LEASE_RECALL : word & SHM_LEASE_RECALL;
        if (atomic_compare_exchange_weak(&lease->word, &word, SHM_LEASE_BUSY | flag))
            return state == SHM_LEASE_LENT;
    }
}

#endif
