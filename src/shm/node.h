/*
 * The words that all processes of a node share beside the tables: the bells, the daemon's doorbell,
 * which clients have messages for it, the leases, which workers sleep and which queues have tasks.
 * And the segment that each client shares with the daemon alone, with the two rings.
 */
#ifndef SHM_NODE_H
#define SHM_NODE_H

#include <stddef.h>

#include "shm/bell.h"
#include "shm/events.h"
#include "shm/lane.h"
#include "shm/lease.h"
#include "shm/queue.h"
#include "shm/ring.h"
#include "shm/wait.h"

enum {
    SHM_CALL_QUEUES = 8192,                        /* for pairs of a caller and an actor */
    SHM_FIRST_CALLS = SHM_LANES * SHM_MAX_CLIENTS, /* their numbers begin here */
    SHM_QUEUES = SHM_FIRST_CALLS + SHM_CALL_QUEUES,
    SHM_UP_MESSAGES = 16384,  /* client to daemon */
    SHM_DOWN_MESSAGES = 1024, /* daemon to client */
};

typedef struct shm_node {
    /* 1: the daemon sleeps, or is about to: a client that pushes must write to its eventfd. Only
     * the daemon writes it. If clients did, one that is held up between its change and its write to
     * the eventfd could leave the daemon asleep. */
    alignas(64) _Atomic uint32_t daemon_sleeps;
    /* One bit a client: it has pushed since the daemon last looked. The client sets it, the daemon
     * takes it by exchange. */
    alignas(64) _Atomic uint64_t pending[SHM_MAX_CLIENTS / 64];
    /* Written by the daemon at its start, and when it gives numbers to clients. */
    alignas(64) _Atomic uint32_t fast; /* 1: tasks may be taken from queues */
    _Atomic uint32_t cpus;             /* how many processes can really run at a time */
    _Atomic uint32_t numbers;          /* the numbers of all clients are below this */
    _Atomic uint32_t clustered;        /* 1: there are, or were, objects of other nodes here */
    /* 0: nothing runs, so the daemon does not look at the machine's memory: a worker that wakes to
     * work tells the daemon. Written by the daemon. */
    _Atomic uint32_t watched;
    /* Counts the names of actors that were given up: what a client was told of a name holds as long
     * as this stays. Written by the daemon. */
    _Atomic uint32_t names_dropped;
    /* 1: a worker waits for a later term: see shm/term.h. */
    _Atomic uint32_t term_awaited;
    /* Until when, by CLOCK_BOOTTIME, workers may begin what runs at most once; 0: for ever, for the
     * node is in no cluster. Written by the daemon. */
    _Atomic uint64_t term_ns;
    /* 1: a task waits for a CPU: a worker that blocks or has nothing to do tells the daemon.
     * Written by the daemon. */
    alignas(64) _Atomic uint32_t wanted;
    /* One bit a client: it does not sleep in a call. Set and cleared by the client; cleared by the
     * daemon at its end. For guesses only. */
    alignas(64) _Atomic uint64_t awake[SHM_MAX_CLIENTS / 64];
    shm_bell_t bells[SHM_MAX_CLIENTS];
    shm_lease_t leases[SHM_MAX_CLIENTS];
    /* Counts the daemon's readings of all rings: a client that rang and sees it change knows that
     * the daemon runs. Written by the daemon. */
    alignas(64) _Atomic uint64_t rounds;
    shm_lane_t lanes[SHM_JOBS * SHM_LANES]; /* a job's lie side by side; memory where one is used */
} shm_node_t;
_Static_assert(offsetof(shm_node_t, pending) == 64 && offsetof(shm_node_t, bells) == 1216 &&
                   offsetof(shm_node_t, leases) == 263360 && offsetof(shm_node_t, lanes) == 525568,
               "layout");

static inline uint64_t shm_node_bit(uint32_t number) { return (uint64_t)1 << (number % 64); }
static inline uint32_t shm_node_words(shm_node_t *node) {
    /* seq_cst: read after a push, against a new worker's look at the queues */
    uint32_t numbers = atomic_load(&node->numbers);
    return numbers > SHM_MAX_CLIENTS ? SHM_MAX_CLIENTS / 64 : (numbers + 63) / 64;
}

/* In a client's own segment: the ring up, the ring down, a scratch page for questions to the daemon
 * and their answers, the runs of a worker, its long waits, and the pins. The client writes the
 * scratch page before it asks, the daemon before it answers. */
#define SHM_CLIENT_DOWN (sizeof(shm_ring_t) + SHM_UP_MESSAGES * sizeof(shm_message_t))
#define SHM_CLIENT_SCRATCH \
    (SHM_CLIENT_DOWN + sizeof(shm_ring_t) + SHM_DOWN_MESSAGES * sizeof(shm_message_t))
#define SHM_SCRATCH_BYTES 4096
#define SHM_CLIENT_EVENTS (SHM_CLIENT_SCRATCH + SHM_SCRATCH_BYTES)
#define SHM_CLIENT_WAITS  (SHM_CLIENT_EVENTS + sizeof(shm_events_t))
#define SHM_CLIENT_PINS \
    (SHM_CLIENT_WAITS + SHM_WAITS * sizeof(shm_wait_t)) /* store/pins.h; memory where touched */
#define SHM_PIN_WORDS    (1 << 18)
#define SHM_CLIENT_BYTES (SHM_CLIENT_PINS + SHM_PIN_WORDS * sizeof(uint64_t))

/* Something is in a queue of the lane: wakes a worker that sleeps with a lease, unless a worker
 * looks. False: no worker does either. *ret_rang: a system call woke it. */
static inline bool shm_node_rouse(shm_node_t *node, uint32_t lane, bool *ret_rang) {
    uint32_t words = shm_node_words(node);
    shm_worker_bits_t *workers = node->lanes[lane].workers;
    *ret_rang = false;
    for (uint32_t w = 0; w < words; w++)
        if (atomic_load(&workers[w].looking) != 0) return true;
    for (uint32_t w = 0; w < words; w++)
        for (uint64_t bits = atomic_load(&workers[w].idle); bits != 0; bits &= bits - 1) {
            uint64_t bit = bits & -bits;
            if (!(atomic_fetch_and(&workers[w].idle, ~bit) & bit)) continue;
            *ret_rang = shm_bell_ring(&node->bells[w * 64 + (uint32_t)__builtin_ctzll(bit)]);
            return true;
        }
    return false;
}

/* Tells the daemon that client `number` has pushed. True: the daemon sleeps and the caller must
 * write to its eventfd. */
static inline bool shm_node_notify(shm_node_t *node, uint32_t number) {
    /* seq_cst on both: the daemon stores daemon_sleeps and then reads pending; the client sets
     * pending and then reads daemon_sleeps. In one total order one of the two sees the other, so
     * the daemon never sleeps while a push waits. */
    atomic_fetch_or(&node->pending[number / 64], (uint64_t)1 << (number % 64));
    return atomic_load(&node->daemon_sleeps) != 0;
}

#endif
