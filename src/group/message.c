/* Which fields a kind of item has is one table, for writing and for reading. */
#include "group/message.h"

#include "group/spec.h"

enum {
    ID = 1,
    FENCE = 2,
    ATTEMPT = 4,
    MASTER = 8,
    FLAG = 16,
    SPEC = 32,
    RANGES = 64,
    NODES = 128,
    VIEW = 256
};

static const uint16_t fields[GROUP_ITEM_LAST + 1] = {
    [GROUP_ITEM_WATCH] = ID | FLAG,
    [GROUP_ITEM_ENDED] = ID | MASTER,
    [GROUP_ITEM_RESERVED] = ID | ATTEMPT | FLAG,
    [GROUP_ITEM_HELD] = ID | FENCE | ATTEMPT | FLAG,
    [GROUP_ITEM_RELEASED] = ID,
    [GROUP_ITEM_SEEN] = ID,
    [GROUP_ITEM_VIEW] = VIEW,
    [GROUP_ITEM_RESERVE] = ID | ATTEMPT | SPEC | RANGES,
    [GROUP_ITEM_COMMIT] = ID | FENCE | ATTEMPT | MASTER,
    [GROUP_ITEM_ABORT] = ID | ATTEMPT,
    [GROUP_ITEM_RELEASE] = ID,
    [GROUP_ITEM_STATE] = ID | MASTER | FLAG | NODES,
    [GROUP_ITEM_WANT] = 0,
    [GROUP_ITEM_ASK] = ID,
    [GROUP_ITEM_REMOVE] = ID,
    [GROUP_ITEM_LOCAL] = ID | FLAG,
    [GROUP_ITEM_SHARED] = ID,
};

void group_item_put(base_writer_t *w, const group_item_t *item) {
    unsigned has = fields[item->kind];
    base_put_number(w, (uint64_t)item->kind, 1);
    if (has & ID) base_put_bytes(w, item->id.bytes, sizeof item->id.bytes);
    if (has & FENCE) base_put_number(w, item->fence, 8);
    if (has & ATTEMPT) base_put_number(w, item->attempt, 8);
    if (has & MASTER) base_put_number(w, item->master, 8);
    if (has & FLAG) base_put_number(w, item->flag, 1);
    if (has & SPEC) {
        base_put_number(w, item->spec_size, 2);
        base_put_bytes(w, item->spec, item->spec_size);
    }
    if (has & (RANGES | NODES | VIEW)) {
        base_put_number(w, item->count, 4);
        base_put_bytes(w, item->list, item->count * (has & VIEW ? 16 : 8));
    }
    if (has & VIEW) base_put_bytes(w, item->labels, strlen(item->labels) + 1);
}

group_range_t group_item_range(const group_item_t *item, size_t index) {
    base_reader_t r = {.at = item->list + 8 * index, .left = 8};
    group_range_t range = {.first = (uint32_t)base_take_number(&r, 4)};
    range.count = (uint32_t)base_take_number(&r, 4);
    return range;
}

uint64_t group_item_node(const group_item_t *item, size_t index) {
    base_reader_t r = {.at = item->list + 8 * index, .left = 8};
    return base_take_number(&r, 8);
}

/* Ranges rise, and lie among the bundles of the spec. */
static bool ranges_check(const group_item_t *item) {
    uint32_t bundles, next = 0;
    if (!group_spec_check(item->spec, item->spec_size, &bundles) || item->count == 0) return false;
    for (size_t i = 0; i < item->count; i++) {
        group_range_t range = group_item_range(item, i);
        if (range.count == 0 || range.first < next || range.first >= bundles ||
            range.count > bundles - range.first)
            return false;
        next = range.first + range.count;
    }
    return true;
}

static bool lists_take(base_reader_t *r, unsigned has, group_item_t *item) {
    if (has & SPEC) {
        item->spec_size = base_take_number(r, 2);
        item->spec = base_take_bytes(r, item->spec_size);
    }
    if (has & (RANGES | NODES | VIEW)) {
        size_t most = has & VIEW ? GROUP_VIEW_MAX : GROUP_BUNDLES_MAX;
        item->count = base_take_number(r, 4);
        if (item->count > most) return false;
        item->list = base_take_bytes(r, item->count * (has & VIEW ? 16 : 8));
    }
    if (has & VIEW) item->labels = group_take_text(r);
    return !r->short_of && (!(has & RANGES) || ranges_check(item));
}

bool group_item_take(base_reader_t *r, group_item_t *ret_item) {
    group_item_t item = {.kind = (group_item_kind_t)base_take_number(r, 1)};
    if (item.kind < GROUP_ITEM_WATCH || item.kind > GROUP_ITEM_LAST) return false;
    unsigned has = fields[item.kind];
    if (has & ID) {
        const void *id = base_take_bytes(r, sizeof item.id.bytes);
        if (id == NULL) return false;
        memcpy(item.id.bytes, id, sizeof item.id.bytes);
    }
    if (has & FENCE) item.fence = base_take_number(r, 8);
    if (has & ATTEMPT) item.attempt = base_take_number(r, 8);
    if (has & MASTER) item.master = base_take_number(r, 8);
    if (has & FLAG) item.flag = (uint8_t)base_take_number(r, 1);
    bool is_state = item.kind == GROUP_ITEM_STATE || item.kind == GROUP_ITEM_LOCAL;
    if (is_state ? item.flag < GROUP_WAITING || item.flag > GROUP_REMOVED : item.flag > 1)
        return false;
    if (!lists_take(r, has, &item)) return false;
    if (item.kind == GROUP_ITEM_STATE && (item.flag == GROUP_READY) != (item.count > 0))
        return false;
    *ret_item = item;
    return true;
}
