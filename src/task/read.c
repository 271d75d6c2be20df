/*
 * Reading the direct encoding. The bytes may come from any program. So the reader checks every
 * length before it uses it, and does not call itself: a value of a million tuples inside each other
 * costs no stack.
 */
#include <string.h>

#include "base/status.h"
#include "mobula_task.h"

const char *mob_tag_text(int tag) {
    switch (tag) {
    case MOB_NONE:
        return "None";
    case MOB_FALSE:
    case MOB_TRUE:
        return "a bool";
    case MOB_INT:
        return "an int";
    case MOB_FLOAT:
        return "a float";
    case MOB_STR:
        return "a str";
    case MOB_BYTES:
        return "bytes";
    case MOB_TUPLE:
        return "a tuple";
    case MOB_PICKLED:
        return "a pickled Python object";
    default:
        return "no value";
    }
}

static mob_status_t malformed(const char *what) {
    return base_fail(MOB_EPROTO, "a value in the direct encoding %s", what);
}

/* Reads one value, without what is inside it: a tuple's items come next. Moves *at. */
static mob_status_t head_read(const uint8_t **at, const uint8_t *end, mob_item_t *item) {
    if (*at >= end) return malformed("is missing");
    const uint8_t *from = *at + 1;
    size_t left = (size_t)(end - from);
    *item = (mob_item_t){.tag = **at};
    switch (item->tag) {
    case MOB_NONE:
        break;
    case MOB_FALSE:
    case MOB_TRUE:
        item->integer = item->tag == MOB_TRUE;
        break;
    case MOB_INT:
    case MOB_FLOAT:
        if (left < 8) return malformed("is cut short");
        memcpy(item->tag == MOB_INT ? (void *)&item->integer : (void *)&item->real, from, 8);
        from += 8;
        break;
    case MOB_STR:
    case MOB_BYTES:
        if (left < 8) return malformed("is cut short");
        memcpy(&item->size, from, 8);
        if (item->size > left - 8) return malformed("is cut short");
        item->data = from + 8;
        from += 8 + item->size;
        break;
    case MOB_TUPLE:
        if (left < 4) return malformed("is cut short");
        memcpy(&item->count, from, 4);
        from += 4;
        /* each item has a byte at least */
        if (item->count > left - 4) return malformed("is cut short");
        break;
    default:
        return base_fail(MOB_EPROTO, "a value in the direct encoding has the unknown tag %d",
                         item->tag);
    }
    *at = from;
    return MOB_OK;
}

mob_status_t mob_read(mob_reader_t *reader, mob_item_t *ret_item) {
    const uint8_t *at = reader->at;
    mob_item_t item, inner;
    mob_status_t status = head_read(&at, reader->end, &item);
    item.items.at = at;
    for (uint64_t owed = status == MOB_OK ? item.count : 0; status == MOB_OK && owed > 0; owed--) {
        status = head_read(&at, reader->end, &inner);
        if (status == MOB_OK) owed += inner.count;
    }
    if (status != MOB_OK) return status;
    item.items.end = at;
    if (item.tag != MOB_TUPLE) item.items = (mob_reader_t){0};
    reader->at = at;
    *ret_item = item;
    return MOB_OK;
}
