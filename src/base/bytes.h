/*
 * Numbers and bytes, written one after the other and read back: the layout of what crosses nodes.
 * Numbers are little-endian, of a width in bytes. Whoever reads may be given anything: a reader
 * that lacks what is asked for gives zeros from then on, and says so once, in `short_of`.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The memory is the caller's, and large enough: a first writer without any counts what is needed.
 */
typedef struct base_writer {
    uint8_t *bytes; /* NULL: it only counts */
    size_t size;
} base_writer_t;

static inline void base_put_bytes(base_writer_t *w, const void *bytes, size_t size) {
    if (w->bytes != NULL && size > 0) memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
}

static inline void base_put_number(base_writer_t *w, uint64_t number, int width) {
    uint8_t bytes[8];
    for (int i = 0; i < width; i++) bytes[i] = (uint8_t)(number >> 8 * i);
    base_put_bytes(w, bytes, (size_t)width);
}

typedef struct base_reader {
    const uint8_t *at; /* borrowed */
    size_t left;
    bool short_of; /* something was asked for that is not there */
} base_reader_t;

/* Borrowed from what is read; NULL if it is not there. */
static inline const void *base_take_bytes(base_reader_t *r, size_t size) {
    if (size > r->left) {
        r->short_of = true;
        r->left = 0;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += size;
    r->left -= size;
    return at;
}

static inline uint64_t base_take_number(base_reader_t *r, int width) {
    const uint8_t *bytes = base_take_bytes(r, (size_t)width);
    uint64_t number = 0;
    for (int i = 0; bytes != NULL && i < width; i++) number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

/* All of it was read, and nothing was missing. */
static inline bool base_reader_is_done(const base_reader_t *r) {
    return !r->short_of && r->left == 0;
}

#endif
