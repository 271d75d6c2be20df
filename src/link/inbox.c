/*
 * A frame that came whole is read where it lies. Only one that lies in two pieces is copied, and
 * its memory grows with the bytes that came, not with the length that it claims.
 */
#include "link/inbox.h"

enum { PART_KEPT = 64 << 10 }; /* bytes of memory that are kept for the next frame */

/* How long the frame is of which these are the first bytes. */
static mob_status_t frame_size(const uint8_t *bytes, size_t most, size_t *ret_size) {
    base_reader_t r = {bytes, LINK_LENGTH_SIZE, false};
    uint64_t length = base_take_number(&r, LINK_LENGTH_SIZE);
    if (length == 0 || length > most - LINK_LENGTH_SIZE) return MOB_EPROTO;
    *ret_size = LINK_LENGTH_SIZE + (size_t)length;
    return MOB_OK;
}

/* Moves what came into `part`, until that has this size. False without memory. */
static bool part_fill(link_inbox_t *inbox, const uint8_t **bytes, size_t *size, size_t wanted) {
    if (inbox->part.count >= wanted) return true;
    size_t n = wanted - inbox->part.count;
    if (n > *size) n = *size;
    if (n == 0) return true;
    if (!vec_reserve(&inbox->part, n)) return false;
    memcpy(inbox->part.items + inbox->part.count, *bytes, n);
    inbox->part.count += n;
    *bytes += n;
    *size -= n;
    return true;
}

static mob_status_t part_next(link_inbox_t *inbox, const uint8_t **bytes, size_t *size, size_t most,
                              const uint8_t **ret_frame, size_t *ret_size) {
    *ret_frame = NULL;
    if (!part_fill(inbox, bytes, size, LINK_LENGTH_SIZE)) return MOB_ENOMEM;
    if (inbox->part.count < LINK_LENGTH_SIZE) return MOB_OK;
    size_t wanted;
    mob_status_t status = frame_size(inbox->part.items, most, &wanted);
    if (status != MOB_OK) return status;
    if (!part_fill(inbox, bytes, size, wanted)) return MOB_ENOMEM;
    if (inbox->part.count < wanted) return MOB_OK;
    inbox->is_whole = true;
    *ret_frame = inbox->part.items;
    *ret_size = wanted;
    return MOB_OK;
}

mob_status_t link_inbox_next(link_inbox_t *inbox, const uint8_t **bytes, size_t *size, size_t most,
                             const uint8_t **ret_frame, size_t *ret_size) {
    if (inbox->is_whole) link_inbox_clear(inbox);
    if (inbox->part.count > 0 || *size < LINK_LENGTH_SIZE)
        return part_next(inbox, bytes, size, most, ret_frame, ret_size);
    size_t whole;
    mob_status_t status = frame_size(*bytes, most, &whole);
    if (status != MOB_OK) return status;
    if (*size < whole) return part_next(inbox, bytes, size, most, ret_frame, ret_size);
    *ret_frame = *bytes;
    *ret_size = whole;
    *bytes += whole;
    *size -= whole;
    return MOB_OK;
}

void link_inbox_clear(link_inbox_t *inbox) {
    inbox->part.count = 0;
    inbox->is_whole = false;
}

void link_inbox_rest(link_inbox_t *inbox) {
    if (inbox->is_whole) link_inbox_clear(inbox);
    if (inbox->part.count == 0 && inbox->part.capacity > PART_KEPT) vec_free(&inbox->part);
}

void link_inbox_fini(link_inbox_t *inbox) { vec_free(&inbox->part); }
