/*
 * A message is kept once, as the bytes of its frame, from which connections are written. It goes
 * when the peer says that it has it. After a reconnect only the place moves back.
 *
 *     head ... | next ... tail
 *     written    to be written
 *
 * received <= written <= last, and processed <= received, in messages and in costs. A peer that
 * claims otherwise is not believed.
 */
#include "link/outbox.h"

#include <assert.h>
#include <stdlib.h>

#include "base/rule.h"

mob_status_t link_message_new(size_t size, link_message_t **ret_message) {
    if (size > LINK_MESSAGE_MAX) return MOB_ELIMIT;
    link_message_t *message = malloc(sizeof *message + LINK_HEADER_SIZE + size);
    if (message == NULL) return MOB_ENOMEM;
    message->size = LINK_HEADER_SIZE + size;
    *ret_message = message;
    return MOB_OK;
}

void *link_message_bytes(link_message_t *message) { return message->frame + LINK_HEADER_SIZE; }
void link_message_free(link_message_t *message) { free(message); }

static void head_drop(link_outbox_t *outbox) {
    link_message_t *message = outbox->head;
    outbox->head = message->next;
    if (outbox->head == NULL) outbox->tail = NULL;
    outbox->received = message->sequence;
    outbox->received_cost = message->cost;
    free(message);
}

void link_outbox_fini(link_outbox_t *outbox) {
    while (outbox->head != NULL) head_drop(outbox);
    outbox->next = NULL;
}

void link_outbox_push(link_outbox_t *outbox, link_message_t *message, link_kind_t kind) {
    size_t size = message->size - LINK_HEADER_SIZE;
    message->sequence = ++outbox->last;
    message->cost = outbox->sent_cost += size + LINK_MESSAGE_COST;
    message->next = NULL;
    base_writer_t w = {message->frame, 0};
    link_put_header(&w, kind, message->sequence, size);
    *(outbox->tail != NULL ? &outbox->tail->next : &outbox->head) = message;
    outbox->tail = message;
    if (outbox->next == NULL) outbox->next = message;
}

static bool is_credible(const link_outbox_t *outbox, uint64_t received, uint64_t most,
                        uint64_t processed) {
    return received >= outbox->received && received <= most &&
           processed >= outbox->processed_cost && processed <= outbox->written_cost;
}

static void acknowledge(link_outbox_t *outbox, uint64_t received, uint64_t processed) {
    while (outbox->head != NULL && outbox->head->sequence <= received) head_drop(outbox);
    outbox->processed_cost = processed;
}

bool link_outbox_acknowledge(link_outbox_t *outbox, uint64_t received, uint64_t processed) {
    uint64_t most = outbox->next != NULL ? outbox->next->sequence - 1 : outbox->last;
    if (!is_credible(outbox, received, most, processed)) return false;
    acknowledge(outbox, received, processed);
    return true;
}

bool link_outbox_can_resume(const link_outbox_t *outbox, uint64_t received, uint64_t processed) {
    return is_credible(outbox, received, outbox->written, processed);
}

bool link_outbox_resume(link_outbox_t *outbox, uint64_t received, uint64_t processed) {
    if (!link_outbox_can_resume(outbox, received, processed)) return false;
    link_message_t *next = outbox->next;
    if (BASE_RULE(LINK_GREETING_ACKNOWLEDGES)) acknowledge(outbox, received, processed);
    outbox->offset = 0;
    outbox->next = outbox->head;
    while (outbox->next != NULL && outbox->next->sequence <= received)
        outbox->next = outbox->next->next;
    if (!BASE_RULE(LINK_RESENDS)) outbox->next = next;
    return true;
}

bool link_outbox_begun(const link_outbox_t *outbox, link_piece_t *ret_piece) {
    if (outbox->offset == 0) return false;
    const link_message_t *message = outbox->next;
    *ret_piece = (link_piece_t){message->frame + outbox->offset, message->size - outbox->offset};
    return true;
}

size_t link_outbox_gather(const link_outbox_t *outbox, link_piece_t *pieces, size_t most) {
    const link_message_t *message = outbox->next;
    if (outbox->offset > 0) message = message->next;
    size_t count = 0;
    for (; message != NULL && count < most; message = message->next)
        pieces[count++] = (link_piece_t){message->frame, message->size};
    return count;
}

size_t link_outbox_advance(link_outbox_t *outbox, size_t size) {
    link_message_t *message = outbox->next;
    assert(message != NULL);
    size_t left = message->size - outbox->offset;
    if (size < left) {
        outbox->offset += size;
        return 0;
    }
    outbox->offset = 0;
    outbox->next = message->next;
    if (outbox->written < message->sequence) {
        outbox->written = message->sequence;
        outbox->written_cost = message->cost;
    }
    return size - left;
}

uint64_t link_outbox_used(const link_outbox_t *outbox) {
    uint64_t held = outbox->sent_cost - outbox->received_cost;
    uint64_t used = outbox->sent_cost - outbox->processed_cost;
    return held > used ? held : used;
}
