/*
 * A task record: everything about a task that its worker and the daemon must know, in the node's table of records.
 *
 * The word holds generation, worker and state; it alone decides whether a task runs:
 *
 *   FREE(g)       the process that the record was granted to may fill it
 *   READY(g)      published; nobody runs it
 *   TAKEN(g, w)   worker w runs it, or died doing so
 *   DONE(g)       ran; all its results are written. The slots' words follow, by the worker or, if it died, by the daemon
 *
 * transition        by                                          how
 * FREE -> READY     submitter, g + 1                            release store
 * READY -> TAKEN    the worker that was told (WIRE_RUN)         compare-and-swap
 * TAKEN -> DONE     that worker                                 compare-and-swap
 * TAKEN -> READY    daemon, g + 1: its worker is certainly dead, or asked for it
 * READY -> READY    daemon, g + 1: taken back from a worker     compare-and-swap
 * DONE -> FREE      daemon, after the results are sealed; READY -> FREE: daemon, cancelled
 *
 * A worker that holds an old generation fails its compare-and-swap and forgets the matter.
 */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

enum { WIRE_RECORD_BODY = 152, WIRE_MAX_RECORDS = 1 << 22, WIRE_RECORD_BLOCK = 128 };
enum { WIRE_FREE = 0, WIRE_READY_STATE = 1, WIRE_TAKEN = 2, WIRE_DONE_STATE = 3 };
enum { WIRE_RETRY_EXCEPTIONS = 1 };

typedef struct wire_record {
    alignas(64) _Atomic uint64_t word; /* generation << 16 | worker << 4 | state */
    uint64_t block;                    /* the body's place in the arena; 0: in `body` */
    uint64_t body_size;
    uint8_t kind;  /* mob_kind_t */
    uint8_t flags; /* WIRE_RETRY_EXCEPTIONS */
    uint8_t name_size;
    uint8_t reserved;
    uint32_t shape, held_shape;
    int32_t max_retries;
    uint32_t num_returns, num_deps, num_refs;
    uint32_t max_calls;
    mob_ref_t function, actor;
    uint64_t start_ns, end_ns;      /* written by the worker, wall clock */
    uint8_t body[WIRE_RECORD_BODY]; /* returns, deps, refs (mob_ref_t each), name, arguments */
} wire_record_t;

_Static_assert(sizeof(wire_record_t) == 256, "a record is four cache lines");
_Static_assert(offsetof(wire_record_t, body) % 8 == 0, "references are read in place");

static inline uint64_t wire_word(uint64_t generation, uint32_t worker, unsigned state) {
    return generation << 16 | (uint64_t)worker << 4 | state;
}
static inline uint64_t wire_word_generation(uint64_t word) { return word >> 16; }
static inline unsigned wire_word_state(uint64_t word) { return word & 15; }
static inline uint32_t wire_word_worker(uint64_t word) { return word >> 4 & 0xfff; }

/* The parts of a body. */
typedef struct wire_body {
    const mob_ref_t *returns, *deps, *refs;
    const char *name;
    const uint8_t *args;
    uint64_t args_size;
} wire_body_t;

/* Size of a body with these parts. */
uint64_t wire_body_size(uint32_t num_returns, uint32_t num_deps, uint32_t num_refs, size_t name_size, size_t args_size);
/* Finds the parts of a body of `size` bytes at `start`, by the numbers of `record`, which must be a private copy if the record can change meanwhile.
 * MOB_EPROTO if they do not fit. */
mob_status_t wire_body_split(const wire_record_t *record, const void *start, uint64_t size, wire_body_t *ret_body);

#endif
