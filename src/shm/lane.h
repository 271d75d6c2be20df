/*
 * A lane: the queues of one job's tasks of one shape, one a submitter, and the workers whose leases
 * are for it. So a worker with a lease never sees another job's task. A job has SHM_LANES of them,
 * side by side. The first is that of one CPU. The daemon gives each other one, for as long as the
 * job lives, to a shape of CPUs alone: to those that it meets first. One whose shape is in a
 * placement group is closed when the group is removed, and may go to another shape then.
 */
#ifndef SHM_LANE_H
#define SHM_LANE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    SHM_MAX_CLIENTS = 4096,             /* numbers 1..4095; 0 is the daemon */
    SHM_LANES = 4,                      /* of a job */
    SHM_JOBS = SHM_MAX_CLIENTS,         /* at once: each has a client of its own */
    SHM_NO_LANE = SHM_JOBS * SHM_LANES, /* no lane's number */
};

/* One bit a worker that has a lease for the lane. */
typedef struct shm_worker_bits {
    /* It sleeps, or is about to. Set by the worker. Taken by the process that wakes it, by the
     * worker itself, or by the daemon with the lease. */
    _Atomic uint64_t idle;
    /* It is awake and looks into the queues again before it sleeps, so a submitter need wake no
     * worker for a push. Set and cleared by the worker; cleared by the daemon at its end. */
    _Atomic uint64_t looking;
} shm_worker_bits_t;

typedef struct shm_lane {
    /* plus one; 0: not in use, or closed. Written by the daemon */
    alignas(64) _Atomic uint32_t shape;
    /* 1: a push that finds no sleeping worker with a lease tells the daemon, which may grant one
     * more. Written by the daemon. */
    _Atomic uint32_t more;
    /* One bit a client: its queue may have entries. Set by its producer after a push; taken away by
     * a worker that found it empty, which then looks again. */
    alignas(64) _Atomic uint64_t queued[SHM_MAX_CLIENTS / 64];
    alignas(64) shm_worker_bits_t workers[SHM_MAX_CLIENTS / 64];
} shm_lane_t;
_Static_assert(sizeof(shm_lane_t) == 1600, "layout");

/* The number of a client's queue in a lane of its job's. A client has one job, so queues are told
 * apart by the lane's place within the job. */
static inline uint32_t shm_lane_queue(uint32_t lane, uint32_t client) {
    return lane % SHM_LANES * SHM_MAX_CLIENTS + client;
}

#endif
