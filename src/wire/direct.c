#include "wire/direct.h"

#include <string.h>

#include "mobula.h"

static void write_raw(wire_writer_t *w, const void *from, size_t size) {
    if (w->size <= w->capacity && size <= w->capacity - w->size && size > 0)
        memcpy(w->data + w->size, from, size);
    w->size += size;
}

static void write_tagged(wire_writer_t *w, uint8_t tag, const void *from, size_t size) {
    write_raw(w, &tag, 1);
    write_raw(w, from, size);
}

void wire_write_int(wire_writer_t *w, int64_t value) {
    write_tagged(w, MOB_INT, &value, sizeof value);
}
void wire_write_float(wire_writer_t *w, double value) {
    write_tagged(w, MOB_FLOAT, &value, sizeof value);
}
void wire_write_none(wire_writer_t *w) { write_tagged(w, MOB_NONE, NULL, 0); }

void wire_write_bool(wire_writer_t *w, bool value) {
    write_tagged(w, value ? MOB_TRUE : MOB_FALSE, NULL, 0);
}
void wire_write_tuple(wire_writer_t *w, uint32_t count) {
    write_tagged(w, MOB_TUPLE, &count, sizeof count);
}

static void write_sized(wire_writer_t *w, uint8_t tag, const void *from, size_t size) {
    uint64_t length = size;
    write_tagged(w, tag, &length, sizeof length);
    write_raw(w, from, size);
}

void wire_write_str(wire_writer_t *w, const char *text, size_t size) {
    write_sized(w, MOB_STR, text, size);
}
void wire_write_bytes(wire_writer_t *w, const void *bytes, size_t size) {
    write_sized(w, MOB_BYTES, bytes, size);
}

bool wire_error_words(const uint8_t *error, uint64_t size, const char **ret_words,
                      uint64_t *ret_size) {
    enum { TUPLE_HEAD = 5, STR_HEAD = 9 };
    uint64_t at = size > 0 && error[0] == MOB_TUPLE ? TUPLE_HEAD : 0, length;
    if (size < at + STR_HEAD || error[at] != MOB_STR) return false;
    memcpy(&length, error + at + 1, sizeof length);
    if (length > size - at - STR_HEAD) return false;
    *ret_words = (const char *)error + at + STR_HEAD;
    *ret_size = length;
    return true;
}
