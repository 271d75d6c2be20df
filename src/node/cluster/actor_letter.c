/*
 * A message of the room, as it crosses nodes:
 *
 *     u32 count | ids | u32 size | freight | what the room wrote
 *
 * The ids are the references inside of it, which are the receiver's too from then on. The freight
 * is what goes along: the frame of a creation (CREATE), what the constructor left or how the actor
 * ended (MADE, ENDED), what callers elsewhere are to know (ALIVE, DEAD).
 *
 * All messages are sent as answers, for which a link always has room: a call has a record of its
 * caller's, and so they are bounded.
 */
#include "node/cluster/actor_letter.h"

#include <stdlib.h>
#include <string.h>

#include "actor/actor.h"
#include "actor/message.h"
#include "base/bytes.h"
#include "frame/id.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_name.h"
#include "node/cluster/actor_orphan.h"
#include "node/cluster/actor_seat.h"
#include "node/cluster/actor_stub.h"
#include "node/cluster/cluster.h"
#include "node/cluster/gather.h"
#include "node/cluster/guest.h"
#include "node/cluster/post.h"
#include "node/state.h"

enum { HEAD_SIZE = 1 + MOB_ID_SIZE + 8 }; /* of every message: kind, id, epoch */

/* ---- out ---- */

/* What goes along with it, by its kind. */
static mob_status_t freight_load(node_cluster_t *c, uint64_t to, const actor_message_t *m,
                                 const void *body, size_t size, node_freight_t *f) {
    if (m->kind == MESSAGE_CREATE && m->id.home != c->node->incarnation)
        return node_orphan_creation(c, m->id, body, size, f);
    if (m->kind == MESSAGE_CREATE) return node_far_creation(c, to, m->id, m->epoch, f);
    if (m->kind == MESSAGE_CALL) return node_guest_frame_ids(body, size, &f->ids, &f->count);
    if (m->kind == MESSAGE_ANSWER && size > 0)
        return node_guest_answer_ids(body, size, &f->ids, &f->count);
    if (m->kind == MESSAGE_MADE || m->kind == MESSAGE_ENDED) node_seat_words(c, m->id, f);
    if (m->kind == MESSAGE_ALIVE || m->kind == MESSAGE_DEAD) node_far_words(c, m, f);
    return MOB_OK;
}

static void letter_put(base_writer_t *w, const node_freight_t *f, const node_letter_parts_t *p) {
    base_put_number(w, f->count, 4);
    for (size_t i = 0; i < f->count; i++) frame_id_put(w, f->ids[i]);
    base_put_number(w, f->size, 4);
    base_put_bytes(w, f->bytes, f->size);
    base_put_bytes(w, p->head, p->head_size);
    base_put_bytes(w, p->body, p->body_size);
}

static mob_status_t letter_send(node_cluster_t *c, uint64_t to, const node_freight_t *f,
                                const node_letter_parts_t *p) {
    base_writer_t w = {0};
    letter_put(&w, f, p);
    w.bytes = malloc(w.size);
    if (w.bytes == NULL) return MOB_ENOMEM;
    w.size = 0;
    letter_put(&w, f, p);
    mob_status_t status = MOB_OK;
    if (to == c->node->incarnation) {
        uint64_t from = c->acting.from;
        c->acting.from = to;
        node_acting_tell(c, (node_acting_word_t){.what = NODE_ACTING_LETTER}, w.bytes, w.size);
        c->acting.from = from;
    } else {
        node_letter_parts_t whole = {.body = w.bytes, .body_size = w.size};
        status = node_post_send_refs(c, to, POST_ACTOR, &whole, f->ids, f->count, NULL, true);
    }
    free(w.bytes);
    return status;
}

void node_actor_letter_send(void *context, uint64_t to, const void *head, size_t head_size,
                            const void *body, size_t body_size, bool is_answer) {
    (void)is_answer;
    node_cluster_t *c = context;
    node_letter_parts_t parts = {
        .head = head, .head_size = head_size, .body = body, .body_size = body_size};
    node_freight_t freight = {0};
    actor_message_t m;
    if (!actor_message_peek(head, head_size, &m)) return;
    mob_status_t status = freight_load(c, to, &m, body, body_size, &freight);
    if (status == MOB_OK) status = letter_send(c, to, &freight, &parts);
    /* a dead peer needs none */
    if (status != MOB_OK && status != MOB_ECLOSED)
        node_cluster_trouble(c, "what was to be said of an actor to node %016llx was lost: %s",
                             (unsigned long long)to, mob_status_text(status));
    free(freight.bytes);
    free(freight.ids);
}

/* ---- in ---- */

static mob_status_t kill_come(node_cluster_t *c, uint64_t from, const actor_message_t *m,
                              const void *bytes, size_t size) {
    node_t *n = c->node;
    uint8_t answer[ACTOR_KILLED_MAX];
    node_actor_kill(n, node_proxy_find(n, m->id), !m->no_restart);
    node_letter_parts_t parts = {.head = answer,
                                 .head_size = actor_message_killed(bytes, size, answer)};
    (void)letter_send(c, from, &(node_freight_t){0}, &parts);
    return MOB_OK;
}

/* Whether it is for an actor of this home that lives here: then the books know better. */
static bool is_for_books(node_t *n, const actor_message_t *m) {
    const node_actor_t *a = m->id.home == n->incarnation ? node_acting_actor(n, m->id) : NULL;
    return m->kind == MESSAGE_KILL && a != NULL && a->far == NULL;
}

/* What goes along is seen first, then the room sees the message. */
static mob_status_t message_come(node_cluster_t *c, uint64_t from, const void *bytes, size_t size,
                                 const uint8_t *freight, size_t freight_size) {
    actor_message_t m;
    if (!actor_message_peek(bytes, size, &m)) return MOB_EPROTO;
    const uint8_t *body = (const uint8_t *)bytes + HEAD_SIZE;
    if (m.kind == NODE_NAME_ASK) return node_actor_name_asked(c, from, &m, body, size - HEAD_SIZE);
    if (m.kind == NODE_NAME_TOLD) return node_actor_name_told(c, from, &m, body, size - HEAD_SIZE);
    if (m.kind == NODE_GATHER_ASK) return node_gather_asked(c, from, &m, body, size - HEAD_SIZE);
    if (m.kind == NODE_GATHER_TOLD) return node_gather_told(c, from, &m, body, size - HEAD_SIZE);
    if (is_for_books(c->node, &m)) return kill_come(c, from, &m, bytes, size);
    if (m.kind == MESSAGE_CREATE && freight_size > 0 && !node_seat_has(c, m.id, m.epoch)) {
        uint8_t *copy = malloc(freight_size);
        if (copy == NULL) return MOB_ENOMEM;
        memcpy(copy, freight, freight_size);
        node_seat_creation_came(c, m.id, copy, freight_size);
    } else if (m.kind != MESSAGE_CREATE && freight_size > 0) {
        mob_status_t status = node_far_heard(c, from, &m, freight, freight_size);
        if (status != MOB_OK) return status;
    }
    mob_status_t status = actor_receive(c->acting.room, from, bytes, size);
    if (status == MOB_OK && m.kind == MESSAGE_MADE) node_far_made(c, from, &m);
    return status;
}

mob_status_t node_actor_letter_come(node_cluster_t *c, uint64_t from, const void *bytes,
                                    size_t size, bool may_wait) {
    base_reader_t r = {.at = bytes, .left = size};
    size_t count = base_take_number(&r, 4);
    if (count > r.left / MOB_ID_SIZE) return base_fail(MOB_EPROTO, "an actor's message cut short");
    frame_id_t *ids;
    mob_status_t status = frame_ids_take(&r, count, &ids);
    if (status != MOB_OK) return status;
    if (count > 0 && from != c->node->incarnation)
        status = node_holding_frame_came(c, from, ids, count);
    free(ids);
    if (status != MOB_OK) return status;
    size_t freight_size = base_take_number(&r, 4);
    const uint8_t *freight = base_take_bytes(&r, freight_size);
    actor_message_t m;
    if (r.short_of || !actor_message_peek(r.at, r.left, &m))
        return base_fail(MOB_EPROTO, "an actor's message cut short");
    bool waits =
        m.kind == MESSAGE_LOOK && m.id.home == c->node->incarnation && !node_seat_adopt(c, m.id);
    if (waits && may_wait) return node_acting_wait(c, bytes, size);
    status = message_come(c, from, r.at, r.left, freight, freight_size);
    return status == MOB_EPROTO ? base_fail(status, "an actor's message that makes no sense")
                                : status;
}
