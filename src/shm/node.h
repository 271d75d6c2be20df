/*
 * What all processes of a node share beside the tables: the bells, the daemon's doorbell, who has messages for it; and the
 * segment that each client shares with the daemon alone, with the two rings.
 */
#ifndef SHM_NODE_H
#define SHM_NODE_H

#include "shm/bell.h"
#include "shm/ring.h"

enum {
    SHM_MAX_CLIENTS = 4096,   /* numbers 1..4095; 0 is the daemon */
    SHM_UP_MESSAGES = 16384,  /* client to daemon */
    SHM_DOWN_MESSAGES = 1024, /* daemon to client */
};

typedef struct shm_node {
    /* 1: the daemon sleeps, or is about to: whoever pushes must write to its eventfd. Written by the daemon only, so that nobody who is held up between
     * a change of it and the write can leave it asleep. */
    alignas(64) _Atomic uint32_t daemon_sleeps;
    /* One bit a client: it has pushed since the daemon last looked. Set by the client, taken by exchange by the daemon. */
    alignas(64) _Atomic uint64_t pending[SHM_MAX_CLIENTS / 64];
    shm_bell_t bells[SHM_MAX_CLIENTS];
} shm_node_t;

/* In a client's own segment: the ring up, the ring down, and a scratch page for questions to the daemon and their answers, which is written by the client
 * before it asks and by the daemon before it answers. */
#define SHM_CLIENT_DOWN    (sizeof(shm_ring_t) + SHM_UP_MESSAGES * sizeof(shm_message_t))
#define SHM_CLIENT_SCRATCH (SHM_CLIENT_DOWN + sizeof(shm_ring_t) + SHM_DOWN_MESSAGES * sizeof(shm_message_t))
#define SHM_SCRATCH_BYTES  4096
#define SHM_CLIENT_BYTES   (SHM_CLIENT_SCRATCH + SHM_SCRATCH_BYTES)

/* Tells the daemon that client `number` has pushed. True: the daemon sleeps and the caller must write to its eventfd. */
static inline bool shm_node_notify(shm_node_t *node, uint32_t number) {
    /* seq_cst on both: the daemon stores daemon_sleeps and then reads pending, we set pending and then read daemon_sleeps; in one
     * total order one of the two sees the other, so a push is never left lying while the daemon sleeps. */
    atomic_fetch_or(&node->pending[number / 64], (uint64_t)1 << (number % 64));
    return atomic_load(&node->daemon_sleeps) != 0;
}

#endif
