/* Writing values in the direct encoding (mobula.h) into memory of fixed size. */
#ifndef WIRE_DIRECT_H
#define WIRE_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `size` counts all bytes that the caller asked to write; those beyond `capacity` are not
 * written. */
typedef struct wire_writer {
    uint8_t *data;
    size_t capacity, size;
} wire_writer_t;

void wire_write_int(wire_writer_t *writer, int64_t value);
void wire_write_float(wire_writer_t *writer, double value);
void wire_write_str(wire_writer_t *writer, const char *text, size_t size);
void wire_write_bytes(wire_writer_t *writer, const void *bytes, size_t size);
void wire_write_none(wire_writer_t *writer);
void wire_write_bool(wire_writer_t *writer, bool value);
/* Followed by `count` values. */
void wire_write_tuple(wire_writer_t *writer, uint32_t count);

/* Where the words of an error lie in it: an error is a str, or a tuple that begins with one. False:
 * it has none. Each length is read once and then checked: another process may write to the bytes at
 * the same time. */
bool wire_error_words(const uint8_t *error, uint64_t size, const char **ret_words,
                      uint64_t *ret_size);

#endif
