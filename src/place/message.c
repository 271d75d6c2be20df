/* Texts travel with their end, so that a reader can lend them. Amounts are sorted by name, each
 * name once: so equal demands are equal bytes, whoever wrote them. */
#include "place/message.h"

#include <stdlib.h>

#define AMOUNT_MAX (UINT64_C(1) << 60) /* as the scheduler's */

const char *place_message_text_read(base_reader_t *r, size_t most) {
    size_t size = base_take_number(r, 2);
    const char *text = size > 0 && size <= most + 1 ? base_take_bytes(r, size) : NULL;
    if (text != NULL && memchr(text, 0, size) == text + size - 1) return text;
    r->short_of = true;
    return NULL;
}

void place_message_text_write(base_writer_t *w, const char *text) {
    size_t size = strlen(text) + 1;
    base_put_number(w, size, 2);
    base_put_bytes(w, text, size);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const frame_amount_t *)a)->name, ((const frame_amount_t *)b)->name);
}

static void demand_put(base_writer_t *w, const place_demand_t *demand,
                       const frame_amount_t *amounts) {
    base_put_number(w, demand->job.home, 8);
    base_put_number(w, demand->job.number, 4);
    base_put_number(w, demand->hint, 8);
    base_put_number(w, demand->strategy, 1);
    base_put_number(w, demand->is_soft, 1);
    base_put_number(w, demand->strategy == PLACE_NODE ? demand->node : 0, 8);
    place_message_text_write(w, demand->selector != NULL ? demand->selector : "");
    base_put_number(w, demand->count, 1);
    for (size_t i = 0; i < demand->count; i++) {
        place_message_text_write(w, amounts[i].name);
        base_put_number(w, amounts[i].amount, 8);
    }
}

/* Whether they are as they are written: by rising name, none of them empty, long, or nothing. */
static bool are_amounts(const frame_amount_t *amounts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (amounts[i].name[0] == 0 || amounts[i].amount == 0 || amounts[i].amount > AMOUNT_MAX ||
            strlen(amounts[i].name) > UINT8_MAX ||
            (i > 0 && strcmp(amounts[i - 1].name, amounts[i].name) >= 0))
            return false;
    return true;
}

mob_status_t place_message_demand_write(const place_demand_t *demand, uint8_t **ret_bytes,
                                        size_t *ret_size) {
    frame_amount_t amounts[PLACE_NAMES_MAX];
    if (demand->count > PLACE_NAMES_MAX) return MOB_ELIMIT;
    if (demand->selector != NULL && strlen(demand->selector) > PLACE_SELECTOR_MAX)
        return MOB_ELIMIT;
    if (demand->count > 0) memcpy(amounts, demand->amounts, demand->count * sizeof *amounts);
    qsort(amounts, demand->count, sizeof *amounts, by_name);
    if (demand->strategy > PLACE_NODE || !are_amounts(amounts, demand->count)) return MOB_EINVAL;
    base_writer_t w = {0};
    demand_put(&w, demand, amounts);
    w.bytes = malloc(w.size);
    if (w.bytes == NULL) return MOB_ENOMEM;
    w.size = 0;
    demand_put(&w, demand, amounts);
    *ret_bytes = w.bytes;
    *ret_size = w.size;
    return MOB_OK;
}

mob_status_t place_message_demand_read(base_reader_t *r, message_demand_t *d) {
    place_demand_t *demand = &d->demand;
    *demand = (place_demand_t){.amounts = d->amounts};
    demand->job.home = base_take_number(r, 8);
    demand->job.number = (uint32_t)base_take_number(r, 4);
    demand->hint = base_take_number(r, 8);
    d->shape = r->at;
    d->shape_size = r->left;
    demand->strategy = (place_strategy_t)base_take_number(r, 1);
    demand->is_soft = base_take_number(r, 1);
    demand->node = base_take_number(r, 8);
    demand->selector = place_message_text_read(r, PLACE_SELECTOR_MAX);
    demand->count = base_take_number(r, 1);
    if (demand->count > PLACE_NAMES_MAX || demand->strategy > PLACE_NODE) return MOB_EPROTO;
    for (size_t i = 0; i < demand->count && !r->short_of; i++) {
        d->amounts[i].name = place_message_text_read(r, UINT8_MAX);
        d->amounts[i].amount = base_take_number(r, 8);
    }
    if (!base_reader_is_done(r) || !are_amounts(d->amounts, demand->count)) return MOB_EPROTO;
    return MOB_OK;
}

bool place_message_body(const void *bytes, size_t size, bool *ret_is_frame, const void **ret_body,
                        size_t *ret_size) {
    uint8_t kind = size > 0 ? *(const uint8_t *)bytes : 0;
    size_t head = kind == MESSAGE_TASK ? MESSAGE_TASK_HEAD : MESSAGE_DONE_HEAD;
    if ((kind != MESSAGE_TASK && kind != MESSAGE_DONE) || size <= head) return false;
    *ret_is_frame = kind == MESSAGE_TASK;
    *ret_body = (const uint8_t *)bytes + head;
    *ret_size = size - head;
    return true;
}
