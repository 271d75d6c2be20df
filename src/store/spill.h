/*
 * A spill file: values that were moved out of the arena, one after the other.
 *
 *   a head            what file this is, of which session, how many values
 *   for each value    a head with its slot, generation and sizes; the bytes; a hash of both; filled
 *                     up to 64, or to a page after a large one
 *
 * A file is written once, in one go, and only read from then on. A reader checks that it holds the
 * bytes that were written: see store_spill_read.
 *
 * The arena begins at a page. These calls wait for the disk: they are for threads that have nothing
 * else to do. They touch nothing but their arguments. Each returns 0 or an errno; EBADMSG: the file
 * does not hold the bytes that were written.
 */
#ifndef STORE_SPILL_H
#define STORE_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct store_spill_item {
    uint32_t slot, ref_count;
    uint64_t generation, meta;
    uint64_t block;  /* where its bytes lie in the arena, or are to lie: a large one's at the same
                        place in a page */
    uint64_t bytes;  /* the value, and the references after it */
    uint64_t offset; /* of its head in the file */
} store_spill_item_t;

/* A value of more bytes is a large one, and lies 64 bytes from a page's beginning, or it can't be
 * moved. */
enum { STORE_SPILL_SMALL = 256 << 10, STORE_SPILL_PLACE = 64, STORE_SPILL_PAGE = 4096 };

/* Makes the file `path` of these values, and notes where each lies. `cached`: it goes through the
 * kernel's page cache, else past it. Removes the file if it can't be finished. */
int store_spill_write(const char *path, bool cached, uint64_t incarnation,
                      const unsigned char *arena, store_spill_item_t *items, size_t count,
                      uint64_t *ret_size);
/* Reads one of them back into the arena, however it was written. */
int store_spill_read(const char *path, bool cached, uint64_t incarnation, unsigned char *arena,
                     const store_spill_item_t *item);
/* The value is not needed any more: the disk gets its space back, as far as whole pages of it
 * go. */
int store_spill_punch(const char *path, const store_spill_item_t *item);

#endif
