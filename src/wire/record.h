/*
 * A task record: everything about a task that its worker and the daemon must know, in the node's
 * table of records.
 *
 * The word holds generation, worker and state; it alone decides whether a task runs:
 *
 *   FREE(g)       the process that the record was granted to may fill it
 *   READY(g)      published; nobody runs it
 *   TAKEN(g, w)   worker w runs it, or died doing so
 *   DONE(g, w)    ran; all its results are written. The slots' words follow, by the worker or, if
 *                 it died, by the daemon
 *   KNOWN         a flag beside READY, TAKEN and DONE: the daemon keeps, or is about to keep, a
 *                 book on it. Its worker tells the daemon when it is done, and the daemon frees it.
 *                 Without it the worker frees the record itself, and the daemon never hears of the
 *                 task
 *
 * A change is a compare-and-swap, but for the first, which is a release store.
 *
 *   transition       by
 *   FREE -> READY    submitter, g + 1, KNOWN if it goes to the daemon or has references
 *   READY -> TAKEN   the worker that was told (WIRE_RUN), or that took it from a queue; the
 *                    daemon, under a peer's number, whose worker runs it elsewhere
 *   TAKEN -> DONE    that worker; the daemon, for a peer
 *   DONE -> FREE     without KNOWN: that worker, after the results are sealed;
 *                    KNOWN: the daemon, after the results are sealed
 *   sets KNOWN       the submitter, whose reference to the function goes before the task is done;
 *                    the worker, which asks for a retry, has made a large result or has failed;
 *                    the daemon, when the submitter has died
 *   TAKEN -> READY   daemon, g + 1: its worker is certainly dead, or asked for it
 *   READY -> READY   daemon, g + 1: taken back from a worker, out of a dead submitter's queue, or
 *                    cancelled
 *   TAKEN -> TAKEN   daemon, g + 1: cancelled by force, and its worker is killed next
 *   DONE -> READY    daemon, g + 1: a creation whose actor is made again
 *   READY -> FREE    daemon, cancelled
 *
 * A worker that holds an old generation fails its compare-and-swap and forgets the record. So does
 * a worker that finds an old entry in a queue.
 */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

enum { WIRE_RECORD_BODY = 144, WIRE_MAX_RECORDS = 1 << 22, WIRE_RECORD_BLOCK = 128 };
enum {
    WIRE_FREE = 0,
    WIRE_READY_STATE = 1,
    WIRE_TAKEN = 2,
    WIRE_DONE_STATE = 3,
    WIRE_STATE = 7,
    WIRE_KNOWN = 8
};
enum {
    WIRE_RETRY_EXCEPTIONS = 1,
    WIRE_TOLD = 2,
    WIRE_RAISED = 4,
    WIRE_FLOWS = 8,
    WIRE_DYNAMIC = 16,
    WIRE_OUT_OF_ORDER = 32,
    WIRE_UNTOLD = 64
};
/* A result of this size or more, of a task that may be run again, can be made again if it is lost.
 * Below it the daemon never hears of the task. */
enum { WIRE_LINEAGE_LEAST = 64 * 1024 };

typedef struct wire_record {
    alignas(64) _Atomic uint64_t word; /* generation << 16 | worker << 4 | KNOWN | state */
    uint64_t block;                    /* the body's place in the arena; 0: in `body` */
    uint64_t body_size;
    uint8_t kind;  /* mob_kind_t */
    uint8_t flags; /* By the submitter: WIRE_RETRY_EXCEPTIONS; WIRE_FLOWS, it gives out items, and
                      its results are `done` and the flow's slot (store/flow.h); WIRE_DYNAMIC, for
                      its worker; WIRE_OUT_OF_ORDER, a creation's; WIRE_UNTOLD, its runs are not for
                      the timeline. By the worker, in DONE: WIRE_TOLD, the run is among its events;
                      WIRE_RAISED, the daemon is to keep it for people */
    uint8_t name_size;
    uint8_t group; /* a call's, of its actor's concurrency groups */
    uint32_t shape, held_shape;
    int32_t max_retries; /* of a creation: how often the actor may be made again */
    uint32_t num_returns, num_deps, num_refs;
    union {
        uint32_t max_calls;       /* a task's */
        uint32_t max_concurrency; /* an actor's creation's */
    };
    mob_ref_t function, actor;
    uint64_t parent; /* wire_entry of the run that submitted it; 0: none did, or it is not known */
    uint64_t start_ns, end_ns;      /* written by the worker, wall clock */
    uint8_t body[WIRE_RECORD_BODY]; /* returns, deps, refs (mob_ref_t each), name, arguments */
} wire_record_t;

_Static_assert(sizeof(wire_record_t) == 256, "a record is four cache lines");
_Static_assert(offsetof(wire_record_t, body) % 8 == 0, "references are read in place");

static inline uint64_t wire_word(uint64_t generation, uint32_t worker, unsigned state) {
    return generation << 16 | (uint64_t)worker << 4 | state;
}
static inline uint64_t wire_word_generation(uint64_t word) { return word >> 16; }
static inline unsigned wire_word_state(uint64_t word) { return word & WIRE_STATE; }
static inline uint32_t wire_word_worker(uint64_t word) { return word >> 4 & 0xfff; }
static inline bool wire_word_is(uint64_t word, uint64_t generation, unsigned state) {
    return wire_word_generation(word) == generation && wire_word_state(word) == state;
}

/* Changes the word from one to another, both without KNOWN. KNOWN is kept, and *ret_known says
 * whether it was set, if ret_known is not NULL. False if the word was not `from`. acquire: pairs
 * with the submitter's release of the whole record. release: everything written before belongs to
 * the new state. */
static inline bool wire_record_move(wire_record_t *record, uint64_t from, uint64_t to,
                                    bool *ret_known) {
    uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire);
    while ((word & ~(uint64_t)WIRE_KNOWN) == from) {
        bool known = word & WIRE_KNOWN;
        if (!atomic_compare_exchange_weak_explicit(&record->word, &word, to | (word & WIRE_KNOWN),
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        if (ret_known != NULL) *ret_known = known;
        return true;
    }
    return false;
}

/* Makes the record KNOWN, if its word is `word`. False if the word has changed. */
static inline bool wire_record_make_known(wire_record_t *record, uint64_t word) {
    return atomic_compare_exchange_strong_explicit(&record->word, &word, word | WIRE_KNOWN,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* What stands in a queue for a record: its index, and as much of its generation as fits. */
static inline uint64_t wire_entry(uint32_t index, uint64_t generation) {
    return generation << 22 | index;
}
static inline uint32_t wire_entry_index(uint64_t entry) { return entry & (WIRE_MAX_RECORDS - 1); }
static inline bool wire_entry_names(uint64_t entry, uint64_t word) {
    return wire_word_state(word) == WIRE_READY_STATE &&
           (wire_word_generation(word) << 22) == (entry & ~(uint64_t)(WIRE_MAX_RECORDS - 1));
}

/* The parts of a body. */
typedef struct wire_body {
    const mob_ref_t *returns, *deps, *refs;
    const char *name;
    const uint8_t *args;
    uint64_t args_size;
} wire_body_t;

/* Size of a body with these parts. */
uint64_t wire_body_size(uint32_t num_returns, uint32_t num_deps, uint32_t num_refs,
                        size_t name_size, size_t args_size);
/* Finds the parts of a body of `size` bytes at `start`, by the numbers of `record`: a private copy
 * of it, if another process can change the record. MOB_EPROTO if they do not fit. */
mob_status_t wire_body_split(const wire_record_t *record, const void *start, uint64_t size,
                             wire_body_t *ret_body);

#endif
