/* One layout, read by everybody: numbers of a fixed width, the creation at the end. */
#include "actor/facts.h"

void actor_id_put(base_writer_t *w, frame_id_t id) {
    base_put_number(w, id.home, 8);
    base_put_number(w, id.number, 4);
    base_put_number(w, id.generation, 8);
}

frame_id_t actor_id_take(base_reader_t *r) {
    frame_id_t id = {.home = base_take_number(r, 8)};
    id.number = (uint32_t)base_take_number(r, 4);
    id.generation = base_take_number(r, 8);
    return id;
}

actor_key_t actor_key(frame_id_t id) {
    actor_key_t key;
    base_writer_t w = {.bytes = key.bytes};
    actor_id_put(&w, id);
    return key;
}

static void request_put(base_writer_t *w, const actor_request_t *request) {
    base_put_number(w, request->node, 8);
    base_put_number(w, request->number, 8);
}

static actor_request_t request_take(base_reader_t *r) {
    actor_request_t request = {.node = base_take_number(r, 8)};
    request.number = base_take_number(r, 8);
    return request;
}

void actor_facts_put(base_writer_t *w, const actor_facts_t *f) {
    actor_id_put(w, f->id);
    base_put_number(w, f->epoch, 8);
    base_put_number(w, f->node, 8);
    request_put(w, &f->request);
    request_put(w, &f->begun);
    base_put_number(w, f->at, 1);
    base_put_number(w, f->flags, 1);
    base_put_bytes(w, f->name, sizeof f->name);
    base_put_number(w, (uint32_t)f->restarts_left, 4);
    base_put_number(w, f->restarts, 4);
    base_put_number(w, f->limit, 4);
    base_put_number(w, f->spec_size, 2);
    base_put_bytes(w, f->spec, f->spec_size);
}

bool actor_facts_take(base_reader_t *r, actor_facts_t *ret_facts) {
    actor_facts_t f = {.id = actor_id_take(r)};
    f.epoch = base_take_number(r, 8);
    f.node = base_take_number(r, 8);
    f.request = request_take(r);
    f.begun = request_take(r);
    f.at = (uint8_t)base_take_number(r, 1);
    f.flags = (uint8_t)base_take_number(r, 1);
    const void *name = base_take_bytes(r, sizeof f.name);
    if (name != NULL) memcpy(f.name, name, sizeof f.name);
    f.restarts_left = (int32_t)base_take_number(r, 4);
    f.restarts = (uint32_t)base_take_number(r, 4);
    f.limit = (uint32_t)base_take_number(r, 4);
    f.spec_size = (size_t)base_take_number(r, 2);
    f.spec = base_take_bytes(r, f.spec_size);
    if (!base_reader_is_done(r) || f.at > ACTOR_AT_END || (f.flags & ~ACTOR_FLAGS) != 0 ||
        f.restarts_left < -1 || f.limit == 0 || f.spec_size > ACTOR_SPEC_MAX)
        return false;
    *ret_facts = f;
    return true;
}
