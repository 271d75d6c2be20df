/* Writing values in the direct encoding (mobula.h) into memory of fixed size. */
#ifndef WIRE_DIRECT_H
#define WIRE_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `size` counts what was asked for, also beyond `capacity`; nothing is written past it. */
typedef struct wire_writer {
    uint8_t *data;
    size_t capacity, size;
} wire_writer_t;

void wire_write_int(wire_writer_t *writer, int64_t value);
void wire_write_float(wire_writer_t *writer, double value);
void wire_write_str(wire_writer_t *writer, const char *text, size_t size);
void wire_write_bool(wire_writer_t *writer, bool value);
/* Followed by `count` values. */
void wire_write_tuple(wire_writer_t *writer, uint32_t count);

/* Where the words of an error lie in it: it is a str, or a tuple that begins with one. False: it
 * has none. Each length is read once, and looked at: the bytes may be written by somebody
 * meanwhile. */
bool wire_error_words(const uint8_t *error, uint64_t size, const char **ret_words,
                      uint64_t *ret_size);

#endif
