/* Values of objects: waiting for one, and reading it as what it should be. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "mobula_task.h"
#include "task/task.h"
#include "wire/direct.h"

/* Finds the buffer of a pickle that has exactly one. */
static void pickle_look(const mob_value_t *value, mob_item_t *ret_item) {
    mob_pickle_t head;
    uint64_t place[2];
    *ret_item = (mob_item_t){.tag = MOB_PICKLED};
    if (value->size < sizeof head + sizeof place) return;
    memcpy(&head, value->data, sizeof head);
    memcpy(place, (const uint8_t *)value->data + sizeof head, sizeof place);
    if (head.buffer_count != 1 || place[0] > value->size || place[1] > value->size - place[0])
        return;
    ret_item->data = (const uint8_t *)value->data + place[0];
    ret_item->size = place[1];
}

mob_status_t mob_value_item(const mob_value_t *value, mob_item_t *ret_item) {
    mob_reader_t reader = {.at = value->data, .end = (const uint8_t *)value->data + value->size};
    if (value->error != MOB_OK) return base_fail(MOB_EINVAL, "this is an error, not a value");
    if (value->format == MOB_FORMAT_DIRECT) return mob_read(&reader, ret_item);
    pickle_look(value, ret_item);
    return MOB_OK;
}

static mob_status_t item_expect(const mob_value_t *value, const char *what, int tag, int or_tag,
                                mob_item_t *ret_item) {
    mob_status_t status = mob_value_item(value, ret_item);
    if (status != MOB_OK || ret_item->tag == tag || ret_item->tag == or_tag) return status;
    return base_fail(MOB_EINVAL, "the value is %s, and %s is needed", mob_tag_text(ret_item->tag),
                     what);
}

mob_status_t mob_value_int(const mob_value_t *value, int64_t *ret_integer) {
    mob_item_t item;
    mob_status_t status = item_expect(value, "an int", MOB_INT, MOB_INT, &item);
    if (status == MOB_OK) *ret_integer = item.integer;
    return status;
}

mob_status_t mob_value_float(const mob_value_t *value, double *ret_real) {
    mob_item_t item;
    mob_status_t status = item_expect(value, "a float", MOB_FLOAT, MOB_INT, &item);
    if (status == MOB_OK) *ret_real = item.tag == MOB_INT ? (double)item.integer : item.real;
    return status;
}

mob_status_t mob_value_bool(const mob_value_t *value, bool *ret_truth) {
    mob_item_t item;
    mob_status_t status = item_expect(value, "a bool", MOB_FALSE, MOB_TRUE, &item);
    if (status == MOB_OK) *ret_truth = item.integer != 0;
    return status;
}

mob_status_t mob_value_str(const mob_value_t *value, const char **ret_text, uint64_t *ret_size) {
    mob_item_t item;
    mob_status_t status = item_expect(value, "a str", MOB_STR, MOB_STR, &item);
    if (status != MOB_OK) return status;
    *ret_text = item.data;
    *ret_size = item.size;
    return MOB_OK;
}

mob_status_t mob_value_buffer(const mob_value_t *value, const void **ret_data, uint64_t *ret_size) {
    mob_item_t item;
    mob_status_t status = item_expect(value, "bytes or an array", MOB_BYTES, MOB_PICKLED, &item);
    if (status != MOB_OK) return status;
    if (item.data == NULL)
        return base_fail(
            MOB_EINVAL,
            "the value is a pickled Python object without a buffer of its own, and bytes or an "
            "array is "
            "needed (arrays of less than 4,096 bytes have none either: hand them over as bytes)");
    *ret_data = item.data;
    *ret_size = item.size;
    return MOB_OK;
}

mob_status_t mob_put_value(mob_client_t *c, mob_writer_t *writer, mob_ref_t *ret_ref) {
    const void *data;
    size_t size;
    mob_status_t status = mob_writer_finish(writer, &data, &size);
    if (status == MOB_OK && writer->count != 1)
        status = base_fail(MOB_EINVAL,
                           "an object is one value, and %u were written: make a tuple of them",
                           writer->count);
    return status == MOB_OK ? mob_put(c, data, size, MOB_FORMAT_DIRECT, ret_ref) : status;
}

/* ---- errors ---- */

mob_status_t mob_error_text(const mob_value_t *value, const char **ret_text, uint64_t *ret_size) {
    if (value->error == MOB_OK) return base_fail(MOB_EINVAL, "this is a value, not an error");
    return wire_error_words(value->data, value->size, ret_text, ret_size)
               ? MOB_OK
               : base_fail(MOB_EPROTO, "an error without words");
}

static mob_status_t error_raise(const mob_value_t *value) {
    enum { MOST = 480 }; /* what mob_last_error has space for */
    const char *text;
    uint64_t size;
    if (mob_error_text(value, &text, &size) != MOB_OK)
        return base_fail(value->error, "%s", mob_status_text(value->error));
    /* The end of a traceback says what went wrong. */
    bool cut = size > MOST;
    return base_fail(value->error, "%s%.*s", cut ? "..." : "", (int)(cut ? MOST : size),
                     text + (cut ? size - MOST : 0));
}

/* What remains of a time limit that began then. */
static int64_t time_left(int64_t timeout_ms, uint64_t start_ns) {
    if (timeout_ms <= 0) return timeout_ms;
    int64_t passed = (int64_t)((base_clock_mono_ns() - start_ns) / 1000000);
    return timeout_ms > passed ? timeout_ms - passed : 0;
}

mob_status_t mob_flow_read(mob_client_t *c, mob_flow_t *flow, int64_t timeout_ms,
                           mob_ref_t *ret_ref) {
    uint64_t start = timeout_ms > 0 ? base_clock_mono_ns() : 0;
    mob_status_t status;
    while ((status = mob_flow_next(c, flow, ret_ref)) == MOB_ETIMEOUT) {
        status = mob_get_wait(c, &flow->head, 1, time_left(timeout_ms, start));
        if (status != MOB_OK && status != MOB_EINTR) return status;
    }
    return status;
}

mob_status_t mob_get(mob_client_t *c, mob_ref_t ref, int64_t timeout_ms, mob_value_t *ret_value) {
    uint64_t start = timeout_ms > 0 ? base_clock_mono_ns() : 0;
    mob_value_t value;
    mob_status_t status;
    while ((status = mob_get_begin(c, ref, &value)) != MOB_OK) {
        int64_t left = time_left(timeout_ms, start);
        if (status == MOB_EAWAY) {
            status = mob_get_fetch(c, &ref, 1, left, &value);
            if (status == MOB_OK) break;
        } else if (status == MOB_ETIMEOUT) {
            status = mob_get_wait(c, &ref, 1, left);
        }
        if (status != MOB_OK && status != MOB_EINTR) return status;
    }
    if (value.error != MOB_OK) return error_raise(&value);
    *ret_value = value;
    return MOB_OK;
}
