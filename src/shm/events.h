/*
 * The runs of a worker that it does not tell the daemon one by one: a ring of them, in the worker's
 * own segment. The worker writes. The daemon reads: when the ring is nearly full, when a client
 * asks for the timeline, and at the worker's end.
 */
#ifndef SHM_EVENTS_H
#define SHM_EVENTS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHM_EVENTS = 4096, SHM_EVENTS_TELL = SHM_EVENTS / 8 * 7 };

typedef struct shm_event {
    uint64_t start_ns, end_ns; /* wall clock */
    uint8_t kind;
    uint8_t name_size;
    char name[46];
} shm_event_t;
_Static_assert(sizeof(shm_event_t) == 64, "an event is a cache line");

typedef struct shm_events {
    alignas(64) _Atomic uint64_t head; /* read so far; the daemon's */
    alignas(64) _Atomic uint64_t tail; /* written so far; the worker's */
    alignas(64) shm_event_t items[SHM_EVENTS];
} shm_events_t;
_Static_assert(offsetof(shm_events_t, items) == 128, "the indices have a line each");

/* Worker: the place of the next event, NULL if there is none; then publishes it. */
static inline shm_event_t *shm_events_next(shm_events_t *e) {
    uint64_t tail = atomic_load_explicit(&e->tail, memory_order_relaxed);
    /* acquire: the daemon has copied what it passed */
    if (tail - atomic_load_explicit(&e->head, memory_order_acquire) >= SHM_EVENTS) return NULL;
    return &e->items[tail % SHM_EVENTS];
}
/* True if the worker is to tell the daemon now. */
static inline bool shm_events_publish(shm_events_t *e) {
    uint64_t tail = atomic_load_explicit(&e->tail, memory_order_relaxed) + 1;
    atomic_store_explicit(&e->tail, tail, memory_order_release);
    return tail - atomic_load_explicit(&e->head, memory_order_relaxed) == SHM_EVENTS_TELL;
}
/* Daemon: copies the next one. False if there is none, or the index makes no sense. */
static inline bool shm_events_take(shm_events_t *e, shm_event_t *ret_event) {
    uint64_t head = atomic_load_explicit(&e->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&e->tail, memory_order_acquire);
    if (tail - head == 0 || tail - head > SHM_EVENTS) return false;
    *ret_event = e->items[head % SHM_EVENTS];
    atomic_store_explicit(&e->head, head + 1, memory_order_release);
    return true;
}

#endif
