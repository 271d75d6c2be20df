/*
 * The codec of ends.
 *
 *   end, flags, status, pid, size of the text, number of values
 *   text
 *   values: at, format, error, size, number of references, bytes, references; before the size, of
 *           one that stays, how large it is and how much comes
 *
 * A value has VALUE_LEAST bytes or more, so their number is bounded by the size of the message
 * before anything is allocated.
 */
#include "frame/done.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"
#include "frame/id.h"

enum { BEGUN = 1, OOM = 2, OOM_AGAIN = 4, VALUE_LEAST = MOB_ID_SIZE + 1 + 1 + 4 + 4 };

/* ---- writing ---- */

static void value_put(base_writer_t *w, const frame_value_t *v) {
    frame_id_put(w, v->at);
    base_put_number(w, v->format, 1);
    base_put_number(w, v->error, 1);
    if (!frame_id_is_none(v->at)) {
        base_put_number(w, v->stayed_bytes, 8);
        base_put_number(w, v->pulled_bytes, 8);
    }
    base_put_number(w, v->size, 4);
    base_put_number(w, v->num_refs, 4);
    base_put_bytes(w, v->bytes, v->size);
    for (uint32_t i = 0; i < v->num_refs; i++) frame_id_put(w, v->refs[i]);
}

static void done_put(base_writer_t *w, const frame_done_t *d) {
    base_put_number(w, d->end, 1);
    base_put_number(w, (d->begun ? BEGUN : 0) | (d->oom ? OOM : 0) | (d->oom_again ? OOM_AGAIN : 0),
                    1);
    base_put_number(w, d->status, 1);
    base_put_number(w, (uint32_t)d->pid, 4);
    base_put_number(w, d->text_size, 4);
    base_put_number(w, d->num_values, 4);
    base_put_bytes(w, d->text, d->text_size);
    for (uint32_t i = 0; i < d->num_values; i++) value_put(w, &d->values[i]);
}

mob_status_t frame_done_write(const frame_done_t *d, uint8_t **ret_bytes, size_t *ret_size) {
    bool fits = d->text_size <= FRAME_TEXT_MOST && d->num_values <= MOB_MAX_RETURNS;
    for (uint32_t i = 0; fits && i < d->num_values; i++)
        fits = d->values[i].size <= FRAME_VALUE_MOST;
    if (!fits) return base_fail(MOB_EINVAL, "the run's end says more than a message can");
    base_writer_t count = {0};
    done_put(&count, d);
    base_writer_t writer = {.bytes = malloc(count.size)};
    if (writer.bytes == NULL) return MOB_ENOMEM;
    done_put(&writer, d);
    *ret_bytes = writer.bytes;
    *ret_size = writer.size;
    return MOB_OK;
}

/* ---- reading ---- */

static mob_status_t value_take(base_reader_t *r, frame_value_t *v) {
    v->at = frame_id_take(r);
    v->format = (uint8_t)base_take_number(r, 1);
    v->error = (uint8_t)base_take_number(r, 1);
    if (!frame_id_is_none(v->at)) {
        v->stayed_bytes = base_take_number(r, 8);
        v->pulled_bytes = base_take_number(r, 8);
    }
    v->size = (size_t)base_take_number(r, 4);
    uint64_t refs = base_take_number(r, 4);
    if (r->short_of || v->size > FRAME_VALUE_MOST || v->format > MOB_FORMAT_PICKLE)
        return MOB_EPROTO;
    v->bytes = base_take_bytes(r, v->size);
    mob_status_t status = frame_ids_take(r, refs, &v->refs);
    if (status == MOB_OK) v->num_refs = (uint32_t)refs;
    return status;
}

static mob_status_t values_take(base_reader_t *r, uint64_t count, frame_done_t *d) {
    if (count > MOB_MAX_RETURNS || count > r->left / VALUE_LEAST) return MOB_EPROTO;
    if (count == 0) return MOB_OK;
    d->values = calloc((size_t)count, sizeof *d->values);
    if (d->values == NULL) return MOB_ENOMEM;
    for (mob_status_t status; d->num_values < count;)
        if ((status = value_take(r, &d->values[d->num_values++])) != MOB_OK) return status;
    return MOB_OK;
}

static mob_status_t done_take(base_reader_t *r, frame_done_t *d) {
    uint64_t end = base_take_number(r, 1), flags = base_take_number(r, 1);
    d->status = (uint8_t)base_take_number(r, 1);
    d->pid = (int32_t)base_take_number(r, 4);
    d->text_size = (size_t)base_take_number(r, 4);
    uint64_t count = base_take_number(r, 4);
    if (r->short_of || end < FRAME_RESULTS || end > FRAME_REFUSED ||
        flags > (BEGUN | OOM | OOM_AGAIN) || d->text_size > FRAME_TEXT_MOST ||
        (count > 0 && end != FRAME_RESULTS))
        return MOB_EPROTO;
    d->end = (frame_end_t)end;
    d->begun = flags & BEGUN;
    d->oom = flags & OOM;
    d->oom_again = flags & OOM_AGAIN;
    d->text = base_take_bytes(r, d->text_size);
    if (r->short_of) return MOB_EPROTO;
    mob_status_t status = values_take(r, count, d);
    return status == MOB_OK && !base_reader_is_done(r) ? MOB_EPROTO : status;
}

mob_status_t frame_done_read(const uint8_t *bytes, size_t size, frame_done_t *ret_done) {
    base_reader_t r = {.at = bytes, .left = size};
    frame_done_t done = {0};
    mob_status_t status = done_take(&r, &done);
    if (status != MOB_OK)
        frame_done_fini(&done);
    else
        *ret_done = done;
    return status;
}

void frame_done_fini(frame_done_t *d) {
    for (uint32_t i = 0; i < d->num_values; i++) free(d->values[i].refs);
    free(d->values);
}
