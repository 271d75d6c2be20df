/* The codec of drops: ids, one after the other. */
#include "frame/drop.h"

#include <stdlib.h>

#include "frame/id.h"

mob_status_t frame_drop_write(const frame_id_t *ids, size_t count, uint8_t **ret_bytes,
                              size_t *ret_size) {
    base_writer_t writer = {.bytes = malloc(count * MOB_ID_SIZE + 1)};
    if (writer.bytes == NULL) return MOB_ENOMEM;
    for (size_t i = 0; i < count; i++) frame_id_put(&writer, ids[i]);
    *ret_bytes = writer.bytes;
    *ret_size = writer.size;
    return MOB_OK;
}

mob_status_t frame_drop_read(const uint8_t *bytes, size_t size, frame_id_t **ret_ids,
                             size_t *ret_count) {
    if (size % MOB_ID_SIZE != 0) return MOB_EPROTO;
    base_reader_t reader = {.at = bytes, .left = size};
    mob_status_t status = frame_ids_take(&reader, size / MOB_ID_SIZE, ret_ids);
    if (status == MOB_OK) *ret_count = size / MOB_ID_SIZE;
    return status;
}
