/*
 * The codec of messages: magic, version, kind, the run, the body. The size of all is the link's to
 * say.
 */
#include "frame/message.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "frame/id.h"

enum { VERSION = 1 };
static const uint32_t MAGIC = 0x4d4f424d;

mob_status_t frame_message_read(const uint8_t *bytes, size_t size, frame_message_t *ret_message) {
    base_reader_t r = {.at = bytes, .left = size};
    if (base_take_number(&r, 4) != MAGIC || base_take_number(&r, 1) != VERSION) return MOB_EPROTO;
    uint64_t kind = base_take_number(&r, 1);
    frame_id_t run = frame_id_take(&r);
    if (r.short_of || kind < FRAME_TASK || kind > FRAME_DROP) return MOB_EPROTO;
    *ret_message = (frame_message_t){
        .kind = (frame_kind_t)kind, .run = run, .body = r.at, .body_size = r.left};
    return MOB_OK;
}

static void message_put(base_writer_t *w, frame_kind_t kind, frame_id_t run, const uint8_t *body,
                        size_t body_size) {
    base_put_number(w, MAGIC, 4);
    base_put_number(w, VERSION, 1);
    base_put_number(w, kind, 1);
    frame_id_put(w, run);
    base_put_bytes(w, body, body_size);
}

mob_status_t frame_message_write(frame_kind_t kind, frame_id_t run, const uint8_t *body,
                                 size_t body_size, uint8_t **ret_bytes, size_t *ret_size) {
    base_writer_t count = {0};
    message_put(&count, kind, run, body, body_size);
    base_writer_t writer = {.bytes = malloc(count.size)};
    if (writer.bytes == NULL) return MOB_ENOMEM;
    message_put(&writer, kind, run, body, body_size);
    *ret_bytes = writer.bytes;
    *ret_size = writer.size;
    return MOB_OK;
}

mob_status_t frame_ids_take(base_reader_t *r, uint64_t count, frame_id_t **ret_ids) {
    if (r->short_of || count > r->left / MOB_ID_SIZE) return MOB_EPROTO;
    frame_id_t *ids = count > 0 ? malloc((size_t)count * sizeof *ids) : NULL;
    if (count > 0 && ids == NULL) return MOB_ENOMEM;
    for (uint64_t i = 0; i < count; i++) ids[i] = frame_id_take(r);
    *ret_ids = ids;
    return MOB_OK;
}
