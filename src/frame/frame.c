/*
 * The codec of frames.
 *
 *   head      magic, version, size of all
 *   numbers   kind, flags, retries, limit, job, how many of what follows
 *   ids       function, actor, parent; returns, deps, refs: 20 bytes each
 *   demands   what it needs, what it holds: amount, size of the name, the name with its zero
 *   where     they are to be met: group, bundle, flags, priority, size of the selector, it with its
 * zero; the runtime environment name, arguments
 *
 * One writer runs twice: first it only counts, then it writes into a buffer of that size. So sizes
 * are said in one place.
 */
#include "frame/frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "frame/id.h"

enum {
    VERSION = 3,
    RETRIES_EXCEPTIONS = 1,
    FLOWS = 2,
    DYNAMIC = 4,
    OUT_OF_ORDER = 8,
    UNTOLD = 16,
    NAME_MOST = UINT8_MAX,
    RESOURCE_NAME_MOST = UINT16_MAX
};
static const uint32_t MAGIC = 0x4d4f4246;

/* ---- writing ---- */

static void put_demand(base_writer_t *w, const frame_demand_t *demand) {
    for (size_t i = 0; i < demand->count; i++) {
        size_t size = strlen(demand->items[i].name);
        base_put_number(w, demand->items[i].amount, 8);
        base_put_number(w, size, 2);
        base_put_bytes(w, demand->items[i].name, size + 1);
    }
}

static void put_where(base_writer_t *w, const frame_where_t *where) {
    const char *selector = where->selector != NULL ? where->selector : "";
    size_t size = strlen(selector);
    frame_id_put(w, where->group);
    base_put_number(w, (uint32_t)where->bundle, 4);
    base_put_number(w, where->flags, 4);
    base_put_number(w, (uint32_t)where->priority, 4);
    base_put_number(w, size, 2);
    base_put_bytes(w, selector, size + 1);
    base_put_bytes(w, where->environment, sizeof where->environment);
}

static void put_frame(base_writer_t *w, const frame_t *f, uint64_t whole) {
    base_put_number(w, MAGIC, 4);
    base_put_number(w, VERSION, 4);
    base_put_number(w, whole, 8);
    base_put_number(w, f->kind, 1);
    base_put_number(w,
                    (f->retries_exceptions ? RETRIES_EXCEPTIONS : 0) | (f->flows ? FLOWS : 0) |
                        (f->dynamic ? DYNAMIC : 0) | (f->out_of_order ? OUT_OF_ORDER : 0) |
                        (f->untold ? UNTOLD : 0),
                    1);
    base_put_number(w, f->group, 1);
    base_put_number(w, f->name_size, 1);
    base_put_number(w, (uint32_t)f->max_retries, 4);
    base_put_number(w, f->limit, 4);
    base_put_number(w, f->flow_limit, 4);
    base_put_number(w, f->job.home, 8);
    base_put_number(w, f->job.number, 4);
    base_put_number(w, f->num_returns, 4);
    base_put_number(w, f->num_deps, 4);
    base_put_number(w, f->num_refs, 4);
    base_put_number(w, f->demand.count, 2);
    base_put_number(w, f->held.count, 2);
    frame_id_put(w, f->function);
    frame_id_put(w, f->actor);
    frame_id_put(w, f->parent);
    for (size_t i = 0; i < frame_id_count(f); i++) frame_id_put(w, f->ids[i]);
    put_demand(w, &f->demand);
    put_demand(w, &f->held);
    put_where(w, &f->where);
    base_put_bytes(w, f->name, f->name_size);
    base_put_bytes(w, f->args, f->args_size);
}

static bool demand_fits(const frame_demand_t *demand) {
    if (demand->count > MOB_MAX_RESOURCES) return false;
    for (size_t i = 0; i < demand->count; i++)
        if (strlen(demand->items[i].name) > RESOURCE_NAME_MOST) return false;
    return true;
}

mob_status_t frame_write(const frame_t *frame, uint8_t **ret_bytes, size_t *ret_size) {
    bool long_selector =
        frame->where.selector != NULL && strlen(frame->where.selector) > RESOURCE_NAME_MOST;
    if (long_selector || frame->name_size > NAME_MOST || !demand_fits(&frame->demand) ||
        !demand_fits(&frame->held))
        return base_fail(MOB_EINVAL, "the task says more than a frame can");
    base_writer_t count = {0};
    put_frame(&count, frame, 0);
    base_writer_t writer = {.bytes = malloc(count.size)};
    if (writer.bytes == NULL) return MOB_ENOMEM;
    put_frame(&writer, frame, count.size);
    *ret_bytes = writer.bytes;
    *ret_size = writer.size;
    return MOB_OK;
}

/* ---- reading ---- */

static mob_status_t take_demand(base_reader_t *r, size_t count, frame_demand_t *ret_demand) {
    if (count > MOB_MAX_RESOURCES) return MOB_EPROTO;
    if (count == 0) return MOB_OK;
    ret_demand->items = calloc(count, sizeof *ret_demand->items);
    if (ret_demand->items == NULL) return MOB_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint64_t amount = base_take_number(r, 8), size = base_take_number(r, 2);
        const char *name = base_take_bytes(r, (size_t)size + 1);
        if (name == NULL || strnlen(name, (size_t)size + 1) != size) return MOB_EPROTO;
        ret_demand->items[i] = (frame_amount_t){.name = name, .amount = amount};
        ret_demand->count++;
    }
    return MOB_OK;
}

static mob_status_t take_where(base_reader_t *r, frame_where_t *where) {
    where->group = frame_id_take(r);
    where->bundle = (int32_t)base_take_number(r, 4);
    where->flags = (uint32_t)base_take_number(r, 4);
    where->priority = (int32_t)base_take_number(r, 4);
    size_t size = (size_t)base_take_number(r, 2);
    where->selector = base_take_bytes(r, size + 1);
    if (where->selector == NULL || strnlen(where->selector, size + 1) != size) return MOB_EPROTO;
    const void *environment = base_take_bytes(r, sizeof where->environment);
    if (environment == NULL) return MOB_EPROTO;
    memcpy(where->environment, environment, sizeof where->environment);
    return MOB_OK;
}

static mob_status_t take_ids(base_reader_t *r, frame_t *f) {
    size_t count = frame_id_count(f);
    if (f->num_returns > MOB_MAX_RETURNS || f->num_deps > MOB_MAX_DEPS ||
        f->num_refs > MOB_MAX_DEPS)
        return MOB_EPROTO;
    return frame_ids_take(r, count, &f->ids);
}

static mob_status_t head_take(base_reader_t *r, size_t size) {
    if (base_take_number(r, 4) != MAGIC || base_take_number(r, 4) != VERSION ||
        base_take_number(r, 8) != size)
        return MOB_EPROTO;
    return MOB_OK;
}

static mob_status_t frame_take(base_reader_t *r, frame_t *f) {
    f->kind = (uint8_t)base_take_number(r, 1);
    uint64_t flags = base_take_number(r, 1);
    f->retries_exceptions = flags & RETRIES_EXCEPTIONS;
    f->flows = flags & FLOWS;
    f->dynamic = flags & DYNAMIC;
    f->out_of_order = flags & OUT_OF_ORDER;
    f->untold = flags & UNTOLD;
    f->group = (uint8_t)base_take_number(r, 1);
    f->name_size = (size_t)base_take_number(r, 1);
    f->max_retries = (int32_t)base_take_number(r, 4);
    f->limit = (uint32_t)base_take_number(r, 4);
    f->flow_limit = (uint32_t)base_take_number(r, 4);
    f->job.home = base_take_number(r, 8);
    f->job.number = (uint32_t)base_take_number(r, 4);
    f->num_returns = (uint32_t)base_take_number(r, 4);
    f->num_deps = (uint32_t)base_take_number(r, 4);
    f->num_refs = (uint32_t)base_take_number(r, 4);
    size_t demands = (size_t)base_take_number(r, 2), held = (size_t)base_take_number(r, 2);
    f->function = frame_id_take(r);
    f->actor = frame_id_take(r);
    f->parent = frame_id_take(r);
    if (r->short_of || f->kind > MOB_ACTOR_CALL ||
        flags > (RETRIES_EXCEPTIONS | FLOWS | DYNAMIC | OUT_OF_ORDER | UNTOLD))
        return MOB_EPROTO;
    mob_status_t status = take_ids(r, f);
    if (status == MOB_OK) status = take_demand(r, demands, &f->demand);
    if (status == MOB_OK) status = take_demand(r, held, &f->held);
    if (status == MOB_OK) status = take_where(r, &f->where);
    if (status != MOB_OK) return status;
    f->name = base_take_bytes(r, f->name_size);
    f->args_size = r->left;
    f->args = base_take_bytes(r, r->left);
    return r->short_of ? MOB_EPROTO : MOB_OK;
}

mob_status_t frame_read(const uint8_t *bytes, size_t size, frame_t *ret_frame) {
    base_reader_t reader = {.at = bytes, .left = size};
    frame_t frame = {0};
    mob_status_t status = head_take(&reader, size);
    if (status == MOB_OK) status = frame_take(&reader, &frame);
    if (status != MOB_OK) {
        frame_fini(&frame);
        return status == MOB_EPROTO ? base_fail(status, "this is no frame of a task") : status;
    }
    *ret_frame = frame;
    return MOB_OK;
}

void frame_fini(frame_t *frame) {
    free(frame->ids);
    free(frame->demand.items);
    free(frame->held.items);
    *frame = (frame_t){0};
}
