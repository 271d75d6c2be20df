/*
 * A piece of shared memory without a name: a memfd, sealed against shrinking, passed by file
 * descriptor.
 *
 * Sparse: its size is address space; only pages that were touched or backed use memory. Not
 * thread-safe; the caller owns the struct.
 */
#ifndef SHM_SEGMENT_H
#define SHM_SEGMENT_H

#include <stdbool.h>

#include "mobula.h"

typedef struct shm_segment {
    int fd;                         /* owned; -1: none */
    uint64_t size;                  /* whole pages */
    unsigned char *base;            /* the writable view; NULL: not mapped */
    const unsigned char *read_only; /* a second view for readers; NULL: not mapped */
} shm_segment_t;

#define SHM_SEGMENT_NONE ((shm_segment_t){.fd = -1})

/* Makes a segment of `size` bytes (rounded up to pages), mapped writable. */
mob_status_t shm_segment_create(const char *name, uint64_t size, shm_segment_t *ret_segment);
/* Maps a received segment. Takes the descriptor, also on failure. Checks the size and the seals of
 * the descriptor. `read_only_too`: makes a second view, which a forked child inherits; it does not
 * inherit the writable one. */
mob_status_t shm_segment_open(int fd, uint64_t expected_size, bool read_only_too,
                              shm_segment_t *ret_segment);
/* Gives memory to [offset, offset + size): after this no access there can fail for want of
 * memory. */
mob_status_t shm_segment_back(const shm_segment_t *segment, uint64_t offset, uint64_t size);
/* The reverse: the memory there goes back to the kernel, and the bytes read as zeros. */
void shm_segment_unback(const shm_segment_t *segment, uint64_t offset, uint64_t size);
/* Closes the descriptor and unmaps. Takes half-built ones. */
void shm_segment_fini(shm_segment_t *segment);
/* In a forked child: closes the descriptor and forgets the writable view, which the child does not
 * have. */
void shm_segment_abandon(shm_segment_t *segment);

#endif
