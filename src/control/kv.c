/*
 * Values by key. The entries lie in one array, in the order of their keys: a key is found by
 * halving, and keys that begin alike lie side by side. A new key moves those behind it, 8 bytes
 * each, which for the tens of thousands that fit is a matter of microseconds.
 *
 * A request has a copy of its items, checked when it is made, and is carried out in control_turn,
 * in the order in which it was made.
 */
#include "control/kv.h"

#include <string.h>

enum { ENTRY_COST = 64 }; /* what an entry costs beside its bytes, about */

struct control_kv_entry {
    uint32_t key_size, value_size;
    uint8_t *value;
    uint8_t key[];
};

struct control_kv_request {
    control_kv_request_t *next;
    mob_kv_t what;
    control_kv_reply_fn reply; /* NULL: nobody waits */
    void *context;
    size_t size;
    uint8_t items[];
};

typedef control_kv_item_t item_t;

/* ---- entries ---- */

static uint64_t cost(uint64_t key_size, uint64_t value_size) {
    return key_size + value_size + ENTRY_COST;
}

static int key_compare(const control_kv_entry_t *e, const uint8_t *key, uint32_t size) {
    int order = memcmp(e->key, key, e->key_size < size ? e->key_size : size);
    return order != 0 ? order : (e->key_size > size) - (e->key_size < size);
}

static bool begins_with(const control_kv_entry_t *e, const item_t *beginning) {
    return e->key_size >= beginning->key_size &&
           memcmp(e->key, beginning->key, beginning->key_size) == 0;
}

/* The place of the first entry that is not below the key. */
static size_t place_of(const control_kv_t *kv, const item_t *item) {
    size_t low = 0, high = kv->entries.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (key_compare(kv->entries.items[middle], item->key, item->key_size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static control_kv_entry_t *entry_at(const control_kv_t *kv, size_t place, const item_t *item) {
    control_kv_entry_t *e = place < kv->entries.count ? kv->entries.items[place] : NULL;
    return e != NULL && key_compare(e, item->key, item->key_size) == 0 ? e : NULL;
}

static mob_status_t value_set(control_kv_t *kv, control_kv_entry_t *e, const item_t *item) {
    uint64_t bytes = kv->bytes - e->value_size + item->value_size;
    if (bytes > MOB_KV_BYTES && item->value_size > e->value_size) return MOB_ELIMIT;
    uint8_t *value = malloc((size_t)item->value_size + 1);
    if (value == NULL) return MOB_ENOMEM;
    memcpy(value, item->value, item->value_size);
    free(e->value);
    e->value = value;
    e->value_size = item->value_size;
    kv->bytes = bytes;
    return MOB_OK;
}

static void entry_free(control_kv_entry_t *e) {
    if (e != NULL) free(e->value);
    free(e);
}

static mob_status_t entry_add(control_kv_t *kv, size_t place, const item_t *item) {
    if (kv->bytes + cost(item->key_size, item->value_size) > MOB_KV_BYTES) return MOB_ELIMIT;
    control_kv_entry_t *e = calloc(1, sizeof *e + item->key_size);
    if (e == NULL || !vec_reserve(&kv->entries, 1)) {
        free(e);
        return MOB_ENOMEM;
    }
    e->key_size = item->key_size;
    memcpy(e->key, item->key, item->key_size);
    kv->bytes += cost(item->key_size, 0);
    mob_status_t status = value_set(kv, e, item);
    if (status != MOB_OK) {
        kv->bytes -= cost(item->key_size, 0);
        entry_free(e);
        return status;
    }
    control_kv_entry_t **at = kv->entries.items + place;
    memmove(at + 1, at, (kv->entries.count - place) * sizeof *at);
    *at = e;
    kv->entries.count++;
    return MOB_OK;
}

static void entries_remove(control_kv_t *kv, size_t place, size_t count) {
    control_kv_entry_t **at = kv->entries.items + place;
    for (size_t i = 0; i < count; i++) {
        kv->bytes -= cost(at[i]->key_size, at[i]->value_size);
        entry_free(at[i]);
    }
    if (count > 0) memmove(at, at + count, (kv->entries.count - place - count) * sizeof *at);
    kv->entries.count -= count;
}

/* Adds numbers to numbers. */
static mob_status_t value_add(control_kv_entry_t *e, const item_t *item) {
    if (e->value_size != item->value_size || item->value_size % sizeof(double) != 0)
        return MOB_EINVAL;
    for (uint32_t at = 0; at < item->value_size; at += sizeof(double)) {
        double sum, more;
        memcpy(&sum, e->value + at, sizeof sum);
        memcpy(&more, item->value + at, sizeof more);
        sum += more;
        memcpy(e->value + at, &sum, sizeof sum);
    }
    return MOB_OK;
}

/* How many entries from `place` on begin so. */
static size_t run_of(const control_kv_t *kv, size_t place, const item_t *beginning) {
    size_t count = 0;
    while (place + count < kv->entries.count &&
           begins_with(kv->entries.items[place + count], beginning))
        count++;
    return count;
}

size_t control_kv_count(control_t *control) { return control_kv_of(control)->entries.count; }

control_kv_item_t control_kv_at(control_t *control, size_t index) {
    const control_kv_entry_t *e = control_kv_of(control)->entries.items[index];
    return (item_t){
        .key = e->key, .value = e->value, .key_size = e->key_size, .value_size = e->value_size};
}

/* ---- items ---- */

/* Reads the item at *at and steps over it; false: it does not lie within the bytes. */
static bool item_read(const uint8_t *items, size_t size, size_t *at, item_t *ret_item) {
    uint32_t sizes[2];
    if (size - *at < sizeof sizes) return false;
    memcpy(sizes, items + *at, sizeof sizes);
    size_t left = size - *at - sizeof sizes;
    if (sizes[0] > left || sizes[1] > left - sizes[0]) return false;
    const uint8_t *key = items + *at + sizeof sizes;
    *ret_item =
        (item_t){.key = key, .value = key + sizes[0], .key_size = sizes[0], .value_size = sizes[1]};
    *at += sizeof sizes + sizes[0] + (size_t)sizes[1];
    return true;
}

static bool is_write(mob_kv_t what) { return what <= MOB_KV_DROP_ALL; }

/* Whether the copied items are whole; a question has one. */
static bool items_check(mob_kv_t what, const uint8_t *items, size_t size) {
    size_t at = 0, count = 0;
    for (item_t item; at < size; count++)
        if (!item_read(items, size, &at, &item)) return false;
    return is_write(what) || count == 1;
}

/* ---- carrying out ---- */

static mob_status_t item_carry_out(control_kv_t *kv, mob_kv_t what, const item_t *item,
                                   uint64_t *count) {
    size_t place = place_of(kv, item);
    control_kv_entry_t *known = entry_at(kv, place, item);
    switch (what) {
    case MOB_KV_DROP:
    case MOB_KV_DROP_ALL: {
        size_t gone = what == MOB_KV_DROP ? known != NULL : run_of(kv, place, item);
        entries_remove(kv, place, gone);
        *count += gone;
        return MOB_OK;
    }
    default:
        if (known == NULL) {
            mob_status_t status = entry_add(kv, place, item);
            *count += status == MOB_OK;
            return status;
        }
        if (what == MOB_KV_NEW) return MOB_OK;
        return what == MOB_KV_ADD ? value_add(known, item) : value_set(kv, known, item);
    }
}

static void write_carry_out(control_kv_t *kv, const control_kv_request_t *r) {
    control_kv_reply_t reply = {.status = MOB_OK};
    size_t at = 0;
    for (item_t item; reply.status == MOB_OK && at < r->size;) {
        (void)item_read(r->items, r->size, &at, &item); /* it was checked */
        reply.status = item_carry_out(kv, r->what, &item, &reply.count);
    }
    if (r->reply != NULL) r->reply(r->context, &reply);
}

static void question_carry_out(control_t *control, const control_kv_request_t *r) {
    control_kv_t *kv = control_kv_of(control);
    item_t asked;
    size_t at = 0;
    (void)item_read(r->items, r->size, &at, &asked);
    size_t place = place_of(kv, &asked);
    size_t count =
        r->what == MOB_KV_GET ? entry_at(kv, place, &asked) != NULL : run_of(kv, place, &asked);
    item_t *found = calloc(count + 1, sizeof *found);
    control_kv_reply_t reply = {.status = found != NULL ? MOB_OK : MOB_ENOMEM, .items = found};
    if (found != NULL) reply.count = count;
    for (size_t i = 0; i < reply.count; i++) found[i] = control_kv_at(control, place + i);
    r->reply(r->context, &reply);
    free(found);
}

bool control_kv_turn(control_t *control) {
    control_kv_t *kv = control_kv_of(control);
    /* Those that a callback makes wait for the next turn. */
    control_kv_request_t *r = kv->first;
    bool any = r != NULL;
    kv->first = kv->last = NULL;
    while (r != NULL) {
        control_kv_request_t *next = r->next;
        if (is_write(r->what))
            write_carry_out(kv, r);
        else
            question_carry_out(control, r);
        free(r);
        r = next;
    }
    return any;
}

/* ---- asking ---- */

mob_status_t control_kv_ask(control_t *control, mob_kv_t what, const void *items, size_t size,
                            control_kv_reply_fn reply, void *context) {
    control_kv_t *kv = control_kv_of(control);
    if (what < MOB_KV_PUT || what > MOB_KV_SCAN) return MOB_EINVAL;
    if (size > MOB_KV_BYTES) return MOB_ELIMIT;
    control_kv_request_t *r = malloc(sizeof *r + size);
    if (r == NULL) return MOB_ENOMEM;
    *r = (control_kv_request_t){.what = what, .reply = reply, .context = context, .size = size};
    memcpy(r->items, items, size); /* which another process may change: the copy is checked */
    if (!items_check(what, r->items, size)) {
        free(r);
        return MOB_EINVAL;
    }
    if (kv->last != NULL)
        kv->last->next = r;
    else
        kv->first = r;
    kv->last = r;
    return MOB_OK;
}

void control_kv_drop_job(control_t *control, uint32_t job) {
    uint32_t sizes[2] = {1 + sizeof job, 0};
    uint8_t item[sizeof sizes + 1 + sizeof job] = {0};
    memcpy(item, sizes, sizeof sizes);
    item[sizeof sizes] = MOB_KV_OF_JOB;
    memcpy(item + sizeof sizes + 1, &job, sizeof job);
    if (control_kv_ask(control, MOB_KV_DROP_ALL, item, sizeof item, NULL, NULL) == MOB_OK) return;
    control_kv_t *kv = control_kv_of(control); /* without memory: at once */
    item_t beginning = {.key = item + sizeof sizes, .key_size = sizes[0]};
    size_t place = place_of(kv, &beginning);
    entries_remove(kv, place, run_of(kv, place, &beginning));
}

void control_kv_fini(control_kv_t *kv) {
    while (kv->first != NULL) {
        control_kv_request_t *r = kv->first;
        kv->first = r->next;
        free(r);
    }
    while (kv->entries.count > 0) entry_free(vec_pop(&kv->entries));
    vec_free(&kv->entries);
}
