/* Values by key: clients' requests to the control state, and its answers, which come later. The
 * asker may be gone by then, so each request has a note of who asked. */
#include "node/kv.h"

#include <stdlib.h>

#include "node/state.h"

typedef struct {
    node_t *node;
    uint32_t client, epoch;
    wire_message_t message;
} note_t;

static void item_write(wire_writer_t *w, const control_kv_item_t *item) {
    wire_write_tuple(w, 2);
    wire_write_bytes(w, item->key, item->key_size);
    wire_write_bytes(w, item->value, item->value_size);
}

static void reply_write(wire_writer_t *w, mob_kv_t what, const control_kv_reply_t *reply) {
    switch (what) {
    case MOB_KV_GET:
        if (reply->count > 0)
            wire_write_bytes(w, reply->items[0].value, reply->items[0].value_size);
        else
            wire_write_none(w);
        return;
    case MOB_KV_LIST:
        wire_write_tuple(w, (uint32_t)reply->count);
        for (uint64_t i = 0; i < reply->count; i++)
            wire_write_bytes(w, reply->items[i].key, reply->items[i].key_size);
        return;
    case MOB_KV_SCAN:
        wire_write_tuple(w, (uint32_t)reply->count);
        for (uint64_t i = 0; i < reply->count; i++) item_write(w, &reply->items[i]);
        return;
    default:
        wire_write_int(w, (int64_t)reply->count);
    }
}

static void on_reply(void *context, const control_kv_reply_t *reply) {
    note_t *note = context;
    node_client_t *c = note->node->clients[note->client];
    const wire_message_t *m = &note->message;
    bool there = c != NULL && c->epoch == note->epoch && c->state == NODE_LIVE;
    uint8_t *space = there ? node_question_space(c, m) : NULL;
    if (space != NULL && reply->status != MOB_OK) {
        node_client_tell(c, wire_answer(reply->status, 0));
    } else if (space != NULL) {
        wire_writer_t w = {.data = space, .capacity = m->query.capacity};
        reply_write(&w, (mob_kv_t)m->query.what, reply);
        node_client_tell(c, wire_answer(w.size > w.capacity ? MOB_ELIMIT : MOB_OK, w.size));
    }
    free(note);
}

void node_kv(node_client_t *c, const wire_message_t *m) {
    const uint8_t *space = node_question_space(c, m);
    if (space == NULL) return;
    if (m->query.argument > m->query.capacity) {
        node_client_fault(c, "gave keys and values that make no sense");
        return;
    }
    note_t *note = malloc(sizeof *note);
    mob_status_t status = MOB_ENOMEM;
    if (note != NULL) {
        *note = (note_t){.node = c->node, .client = c->number, .epoch = c->epoch, .message = *m};
        status = control_kv_ask(c->node->control, (mob_kv_t)m->query.what, space, m->query.argument,
                                on_reply, note);
    }
    c->node->again = true;
    if (status == MOB_OK) return;
    free(note);
    node_client_tell(c, wire_answer(status, 0));
}

void node_kv_write(node_t *n, wire_writer_t *w) {
    size_t count = control_kv_count(n->control), first = 0, end;
    /* they begin with the lowest byte but one: all of them lie at the front */
    control_kv_item_t item;
    while (first < count && (item = control_kv_at(n->control, first),
                             item.key_size == 0 || item.key[0] < MOB_KV_OF_JOB))
        first++;
    for (end = first; end < count; end++) {
        item = control_kv_at(n->control, end);
        if (item.key[0] != MOB_KV_OF_JOB) break;
    }
    wire_write_tuple(w, (uint32_t)(end - first));
    for (size_t i = first; i < end; i++) {
        item = control_kv_at(n->control, i);
        item_write(w, &item);
    }
}
