/*
 * This node's view: what it has, and what of that is free and not promised. The leader hears of it
 * when it has changed, at most every PLACE_REPORT_NS, and when it asks. A version goes with it: a
 * node that has refused a demand is not named for it again before its view has a newer one.
 *
 * It is also said after each lease that was asked for here, given or not, for the leader has taken
 * it off already: short tasks may have come and gone, and left the same sums.
 *
 * A refusal may have a reason that amounts do not show (two halves of GPUs are no whole one). So
 * the first change after it makes a new version even if the sums are the same again.
 */
#include "place/books.h"

#include <stdlib.h>

#define TOTAL_MAX (UINT64_C(1) << 60)

static mob_status_t totals_check(const frame_amount_t *totals, size_t count, const char *labels) {
    if (count > PLACE_NAMES_MAX || strlen(labels) > PLACE_SELECTOR_MAX) return MOB_ELIMIT;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(totals[i].name);
        if (length == 0 || length > UINT8_MAX || totals[i].amount > TOTAL_MAX) return MOB_EINVAL;
    }
    return MOB_OK;
}

static void view_put(const place_t *place, base_writer_t *w) {
    base_put_number(w, MESSAGE_VIEW, 1);
    base_put_number(w, place->fence, 8);
    base_put_number(w, place->version, 8);
    place_message_text_write(w, place->labels);
    base_put_number(w, place->resource_count, 1);
    for (uint32_t i = 0; i < place->resource_count; i++) {
        const resource_t *resource = &place->resources[i];
        place_message_text_write(w, resource->name);
        base_put_number(w, resource->total, 8);
        base_put_number(w, resource->said > 0 ? (uint64_t)resource->said : 0, 8);
    }
}

mob_status_t place_resources_set(place_t *place, const frame_amount_t *totals, size_t count,
                                 const char *labels) {
    mob_status_t status = totals_check(totals, count, labels);
    if (status != MOB_OK) return status;
    place->resources = calloc(count + 1, sizeof *place->resources);
    place->labels = strdup(labels);
    if (place->resources == NULL || place->labels == NULL) return MOB_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        place->resources[i].name = strdup(totals[i].name);
        if (place->resources[i].name == NULL) return MOB_ENOMEM;
        place->resources[i].total = totals[i].amount;
        place->resource_count++;
    }
    base_writer_t w = {0};
    view_put(place, &w);
    place->view = malloc(w.size);
    if (place->view == NULL) return MOB_ENOMEM;
    place->must_say = place->is_view_new = true;
    return MOB_OK;
}

void place_free_changed(place_t *place) { place->is_view_new = true; }

/* What is left for new leases, now. */
void place_report_refresh(place_t *place) {
    int64_t free[PLACE_NAMES_MAX];
    if (!place->is_view_new) return;
    place->is_view_new = false;
    place->ops->free_amounts(place->context, free);
    bool is_other = place->has_refused || place->version == 0;
    for (uint32_t i = 0; i < place->resource_count; i++) {
        resource_t *resource = &place->resources[i];
        int64_t left = free[i] - (int64_t)resource->promised;
        is_other |= left != resource->said;
        resource->said = left;
    }
    if (!is_other) return;
    place->has_refused = false;
    place->version++;
    place->must_say = true;
}

void place_report_tick(place_t *place) {
    if (place->view == NULL || place->leader == 0) return;
    if (place->said_ns != 0 && place->now_ns < place->said_ns + PLACE_REPORT_NS) return;
    place_report_refresh(place);
    if (!place->must_say || (place->leader == place->self && place->lead == NULL)) return;
    place->must_say = false;
    place->said_ns = place->now_ns;
    base_writer_t w = {.bytes = place->view};
    view_put(place, &w);
    place_send_head(place, place->leader, &w, false);
}

uint64_t place_report_due_ns(const place_t *place) {
    if (place->leader == 0 || (!place->must_say && !place->is_view_new)) return UINT64_MAX;
    return place->said_ns + PLACE_REPORT_NS;
}
