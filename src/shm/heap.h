/*
 * A process's allocator: cuts blocks from the extents that the daemon granted to this process.
 *
 * Blocks up to SHM_HEAP_SMALL come from extents of 1 to 4 MiB with many blocks; larger ones have an
 * extent each. Not thread-safe: the client calls it under its mutex, the daemon from its one
 * thread.
 */
#ifndef SHM_HEAP_H
#define SHM_HEAP_H

#include "base/vec.h"
#include "mobula.h"
#include "shm/arena.h"

enum { SHM_HEAP_SMALL = 256 * 1024, SHM_HEAP_CLASSES = 64 };

/* Asks the daemon for an extent of at least `size` bytes, or if that can't be had at once of at
 * least `least`: its place, its real size, its serial number. MOB_ESPACE: no space now. MOB_EFULL:
 * never. */
typedef mob_status_t (*shm_grant_fn)(void *context, uint64_t size, uint64_t least,
                                     uint64_t *ret_offset, uint64_t *ret_size,
                                     uint64_t *ret_serial);

typedef struct {
    uint64_t offset, size, serial;
    uint64_t used;      /* units, as `used` in the extent table counts them */
    uint64_t published; /* the extent table's `used` as this process last set it */
    uint64_t swept;     /* units of `freed` at the last sweep */
    bool mapped;        /* this process has mapped its pages since it was granted */
    bool adopted;       /* and not used since: it may have only `least` bytes */
} shm_heap_extent_t;

typedef struct {
    uint64_t offset; /* of a block header */
    uint32_t units;
} shm_heap_piece_t;

typedef struct shm_heap {
    unsigned char *base;   /* the arena's writable view */
    shm_extent_t *extents; /* the extent table */
    shm_grant_fn grant;
    void *context;
    VEC(shm_heap_extent_t) small; /* extents that this process cuts into blocks */
    /* extents with one large block, or without any: OWNED, EMPTY or by now GONE */
    VEC(shm_heap_extent_t) kept;
    VEC(shm_heap_piece_t) pieces; /* free stretches to cut from, found by the last sweep */
    VEC(uint64_t)
    classes[SHM_HEAP_CLASSES]; /* headers of blocks that this process freed, by size */
    size_t kept_turn;          /* where in `kept` the next search goes on */
    size_t
        kept_clean; /* how many of `kept` there were when those that are GONE were last removed */
    uint32_t *mine; /* one a granule: 1 + its extent's place in `small`, 0 if it is in none */
    uint64_t granules;
    uint64_t small_bytes;  /* in `small` */
    uint64_t small_extent; /* size of the next small extent to ask for */
} shm_heap_t;

mob_status_t shm_heap_init(shm_heap_t *heap, unsigned char *base, uint64_t arena_size,
                           shm_extent_t *extents, shm_grant_fn grant, void *context);
void shm_heap_fini(shm_heap_t *heap);
/* A block for `size` bytes of data, aligned to 64, USED(tag). ret_data is its offset in the arena;
 * never 0. */
mob_status_t shm_heap_alloc(shm_heap_t *heap, uint64_t size, uint64_t tag, uint64_t *ret_data);
/* Whether the pages of a large block that was just allocated may have no memory, or are new to this
 * process. Then the caller maps them before it writes (base/copy.h): a matter of milliseconds, so
 * it is not done here. They count as mapped from now on. The pages of a small block are mapped. */
bool shm_heap_cold(shm_heap_t *heap, uint64_t data);
/* The least extent in which a value of `size` bytes has space. */
uint64_t shm_heap_extent_for(uint64_t size);
/* Adds an extent that the daemon granted later than this process asked for it. It is EMPTY until it
 * is used. */
void shm_heap_adopt(shm_heap_t *heap, uint64_t offset, uint64_t size, uint64_t serial);
/* Frees a block of any process. If it is one of this process's, it is at hand for the next
 * allocation. */
void shm_heap_free(shm_heap_t *heap, uint64_t data, uint64_t tag);

#endif
