/* Ids in bytes: 20 of them, whatever the machine. */
#ifndef FRAME_ID_H
#define FRAME_ID_H

#include "base/bytes.h"
#include "frame/frame.h"

static inline void frame_id_put(base_writer_t *w, frame_id_t id) {
    base_put_number(w, id.home, 8);
    base_put_number(w, id.number, 4);
    base_put_number(w, id.generation, 8);
}

static inline frame_id_t frame_id_take(base_reader_t *r) {
    frame_id_t id = {.home = base_take_number(r, 8)};
    id.number = (uint32_t)base_take_number(r, 4);
    id.generation = base_take_number(r, 8);
    return id;
}

static inline bool frame_id_is_none(frame_id_t id) {
    return id.home == 0 && id.number == 0 && id.generation == 0;
}

/* As many ids as the reader should have; to be freed, NULL if `count` is 0. MOB_EPROTO: it has
 * fewer; MOB_ENOMEM. */
mob_status_t frame_ids_take(base_reader_t *r, uint64_t count, frame_id_t **ret_ids);

#endif
