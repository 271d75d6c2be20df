/* What listings and checks see. Nothing here changes anything. */
#include "pull/state.h"

bool pull_copy_look(const pull_t *pull, const frame_id_t *id, pull_copy_view_t *ret_view) {
    const copy_t *copy = pull_copy_find(pull, id);
    if (copy == NULL || !pull_copy_has_memory(copy)) return false;
    *ret_view = (pull_copy_view_t){
        .version = copy->version,
        .chunks = copy->chunks,
        .have = copy->have,
        .size = copy->size,
        .birth = copy->birth,
        .is_complete = copy->state == COPY_COMPLETE || copy->state == COPY_SEALING,
        .is_primary = copy->is_primary,
        .is_pinned = copy->pins > 0,
        .is_leaving = copy->state == COPY_LEAVING,
        .source = copy->phase == PHASE_READING ? copy->source : 0,
        .ticket = copy->phase == PHASE_READING ? copy->ticket : copy->old_ticket,
    };
    RING_EACH(link, &copy->readings)
    ret_view->readers += !RING_OF(link, reading_t, of_copy)->is_closed;
    return true;
}

bool pull_is_read_by(const pull_t *pull, const frame_id_t *id, uint64_t reader, uint64_t ticket) {
    const copy_t *copy = pull_copy_find(pull, id);
    if (copy == NULL) return false;
    RING_EACH(link, &copy->readings) {
        const reading_t *reading = RING_OF(link, reading_t, of_copy);
        if (reading->peer->node == reader && !reading->is_closed &&
            (ticket == 0 || reading->ticket == ticket))
            return true;
    }
    return false;
}

bool pull_object_look(const pull_t *pull, const frame_id_t *id, pull_object_view_t *ret_view) {
    book_t *book = pull_book_find(pull, id);
    if (book == NULL || book->state == BOOK_PENDING) return false;
    *ret_view = (pull_object_view_t){
        .version = book->version,
        .is_lost = book->state == BOOK_LOST,
        .primary = book->primary != NULL ? book->primary->peer->node : 0,
    };
    RING_EACH(link, &book->sites) {
        const site_t *site = RING_OF(link, site_t, of_book);
        ret_view->copies += site->has_copy;
        ret_view->askers += site->is_asking;
        ret_view->readers += site->source != NULL;
        if (site->live > ret_view->readers_most) ret_view->readers_most = site->live;
    }
    return true;
}

bool pull_object_names(pull_t *pull, const frame_id_t *id, uint64_t node, uint64_t *ret_birth) {
    book_t *book = pull_book_find(pull, id);
    const site_t *site = book != NULL ? pull_site_find(pull, book, node) : NULL;
    if (site == NULL || !site->has_copy) return false;
    *ret_birth = site->birth;
    return true;
}

void pull_count(const pull_t *pull, pull_counts_t *ret_counts) {
    *ret_counts = (pull_counts_t){
        .copies = pull->copies.count,
        .readings = pull->readings.count,
        .objects = pull->books.count,
        .memory_bytes = pull->capacity,
        .used_bytes = pull->used_bytes,
        .held_bytes = pull->held_bytes,
    };
    RING_EACH(link, &pull->all) ret_counts->wants++;
    for (int i = 0; i < PULL_CLASSES; i++) RING_EACH(link, &pull->lines[i]) ret_counts->waiting++;
    RING_EACH(link, &pull->active) ret_counts->transfers++;
}
