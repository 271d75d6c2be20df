/* A byte for the kind, the id, then the fields that the kind has, in the order of their bits. */
#include "pull/message.h"

#include "base/bytes.h"
#include "pull/pull.h"

enum { TICKET = 1, BIRTH = 2, NODE = 4, SIZE = 8, VERSION = 16, CHUNK = 32, FLAG = 64 };

static const uint8_t fields_of[PULL_KINDS] = {
    [PULL_DESCRIBE] = TICKET,
    [PULL_DESCRIBED] = TICKET | SIZE | VERSION,
    [PULL_ASK] = TICKET | BIRTH | NODE | VERSION | CHUNK | FLAG,
    [PULL_SOURCE] = TICKET | BIRTH | NODE | SIZE | VERSION,
    [PULL_UNMADE] = TICKET,
    [PULL_GONE] = TICKET | FLAG,
    [PULL_PROGRESS] = BIRTH | VERSION | CHUNK,
    [PULL_GAVE_UP] = BIRTH,
    [PULL_FETCH] = TICKET | BIRTH | VERSION | CHUNK | FLAG,
    [PULL_NOT_HERE] = TICKET,
    [PULL_CLOSE] = TICKET,
    [PULL_KEEP] = TICKET | BIRTH | VERSION,
    [PULL_KEPT] = TICKET | FLAG,
    [PULL_RELEASE] = VERSION | FLAG,
};

static void id_put(base_writer_t *w, const frame_id_t *id) {
    base_put_number(w, id->home, 8);
    base_put_number(w, id->number, 4);
    base_put_number(w, id->generation, 8);
}

void pull_id_write(const frame_id_t *id, uint8_t ret_bytes[PULL_ID_SIZE]) {
    id_put(&(base_writer_t){ret_bytes, 0}, id);
}

size_t pull_message_write(const pull_message_t *m, uint8_t ret_bytes[PULL_MESSAGE_MAX]) {
    base_writer_t w = {ret_bytes, 0};
    uint8_t fields = fields_of[m->kind];
    base_put_number(&w, m->kind, 1);
    id_put(&w, &m->id);
    if (fields & TICKET) base_put_number(&w, m->ticket, 8);
    if (fields & BIRTH) base_put_number(&w, m->birth, 8);
    if (fields & NODE) base_put_number(&w, m->node, 8);
    if (fields & SIZE) base_put_number(&w, m->size, 8);
    if (fields & VERSION) base_put_number(&w, m->version, 4);
    if (fields & CHUNK) base_put_number(&w, m->chunk, 4);
    if (fields & FLAG) base_put_number(&w, m->flag, 1);
    return w.size;
}

/* What no room ever writes. */
static bool makes_sense(const pull_message_t *m) {
    if (m->id.home == 0) return false;
    uint8_t fields = fields_of[m->kind];
    if ((fields & SIZE) && (m->size == 0 || m->size > PULL_SIZE_MAX || m->version == 0))
        return false;
    if (m->kind == PULL_ASK) return m->flag < PULL_REASONS;
    return !(fields & FLAG) || m->kind == PULL_GONE || m->flag <= 1;
}

bool pull_message_read(const void *bytes, size_t size, pull_message_t *ret_message) {
    base_reader_t r = {.at = bytes, .left = size};
    pull_message_t m = {.kind = (pull_kind_t)base_take_number(&r, 1)};
    if (m.kind >= PULL_KINDS) return false;
    uint8_t fields = fields_of[m.kind];
    m.id.home = base_take_number(&r, 8);
    m.id.number = (uint32_t)base_take_number(&r, 4);
    m.id.generation = base_take_number(&r, 8);
    if (fields & TICKET) m.ticket = base_take_number(&r, 8);
    if (fields & BIRTH) m.birth = base_take_number(&r, 8);
    if (fields & NODE) m.node = base_take_number(&r, 8);
    if (fields & SIZE) m.size = base_take_number(&r, 8);
    if (fields & VERSION) m.version = (uint32_t)base_take_number(&r, 4);
    if (fields & CHUNK) m.chunk = (uint32_t)base_take_number(&r, 4);
    if (fields & FLAG) m.flag = (uint8_t)base_take_number(&r, 1);
    if (!base_reader_is_done(&r) || !makes_sense(&m)) return false;
    *ret_message = m;
    return true;
}
