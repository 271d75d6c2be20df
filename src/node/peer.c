/*
 * Peers.
 *
 * Messages of one pair come in the order in which they were sent, each once: that is the link's
 * promise, and all that is relied on here.
 *
 *   origin            the other node
 *   TASK       ---->  a visit begins, or REFUSED
 *   CANCEL     ---->  the visit is cancelled as any task; its end says so. Unknown: it has ended,
 * and DONE is under way RECALL     ---->  a visit that no worker has begun ends: REFUSED. Else
 * nothing
 *              <----  DONE: exactly one for each TASK. The visit is over before it is sent
 *   DROP       <--->  undoes one sending of each object that it names
 *
 * References (C6 of the design, its first rule): whoever sends an id holds the object under the
 * peer's number from then on, counted. Whoever has received one drops it once, when nothing here
 * needs it any more: a visit at its end, after DONE was sent; the origin when the value that names
 * it is in the books. So an object that is only on its way has a holder, and a DROP that is older
 * than the last sending of its object takes back an older one.
 *
 * A message that makes no sense is thrown away: it changes nothing, and a link would end its peer.
 */
#include "node/peer.h"

#include <stdlib.h>

#include "frame/drop.h"
#include "node/forward.h"
#include "node/state.h"
#include "node/visit.h"

bool node_peer_is(const node_client_t *c) { return c != NULL && c->role == NODE_PEER; }

mob_status_t node_peer_start(node_t *n) {
    node_peer_t *p = calloc(1, sizeof *p);
    node_client_t *c = p != NULL ? node_client_new(n) : NULL;
    if (c == NULL || !node_number_take_high(c)) {
        free(p);
        return MOB_ENOMEM;
    }
    c->role = NODE_PEER;
    c->state = NODE_REMOTE;
    p->node = n;
    p->client = c;
    p->own.submitter = c->number;
    base_map_init(&p->sent, sizeof(uint32_t));
    base_map_init(&p->visits, sizeof(uint32_t));
    n->peer = p;
    return MOB_OK;
}

/* ---- what is sent ---- */

mob_status_t node_peer_send(node_peer_t *p, frame_kind_t kind, frame_id_t run, const uint8_t *body,
                            size_t body_size) {
    uint8_t *bytes;
    size_t size;
    mob_status_t status = frame_message_write(kind, run, body, body_size, &bytes, &size);
    if (status == MOB_OK) status = node_loop_push(&p->out, bytes, size);
    p->node->again = true;
    return status;
}

bool node_peer_hold(node_peer_t *p, mob_ref_t ref) {
    node_object_t *o = node_object_known(p->node, ref);
    if (o == NULL) return true;
    uintptr_t count = (uintptr_t)base_map_get(&p->sent, &ref.slot);
    if (!base_map_put(&p->sent, &ref.slot, (void *)(count + 1))) return false;
    if (count == 0) node_object_hold(p->node, o, p->client->number, false);
    return true;
}

void node_peer_unhold(node_peer_t *p, mob_ref_t ref) {
    node_object_t *o = node_object_known(p->node, ref);
    uintptr_t count = o != NULL ? (uintptr_t)base_map_get(&p->sent, &ref.slot) : 0;
    if (count == 0) return;
    if (count > 1) {
        (void)base_map_put(&p->sent, &ref.slot, (void *)(count - 1));
        return;
    }
    (void)base_map_remove(&p->sent, &ref.slot);
    node_object_unhold(p->node, o, p->client->number);
}

void node_peer_drop(node_peer_t *p, const frame_id_t *ids, size_t count) {
    uint8_t *body;
    size_t size;
    if (count == 0 || frame_drop_write(ids, count, &body, &size) != MOB_OK)
        return; /* without memory they stay until the peer ends */
    (void)node_peer_send(p, FRAME_DROP, (frame_id_t){0}, body, size);
    free(body);
}

/* ---- what comes ---- */

static void drop_read(node_peer_t *p, const frame_message_t *m) {
    frame_id_t *ids;
    size_t count;
    if (frame_drop_read(m->body, m->body_size, &ids, &count) != MOB_OK) return;
    for (size_t i = 0; i < count; i++) {
        mob_ref_t ref = node_frame_ref(p->node, ids[i]);
        if (!node_visit_result_drop(p, ref)) node_peer_unhold(p, ref);
    }
    free(ids);
}

static void message_handle(node_peer_t *p, const uint8_t *bytes, size_t size) {
    frame_message_t m;
    if (frame_message_read(bytes, size, &m) != MOB_OK) return;
    switch (m.kind) {
    case FRAME_TASK:
        node_visit_begin(p, m.run, m.body, m.body_size);
        break;
    case FRAME_DONE:
        node_forward_done(p, m.run, m.body, m.body_size);
        break;
    case FRAME_CANCEL:
        node_visit_cancel(p, m.run, m.body, m.body_size);
        break;
    case FRAME_RECALL:
        node_visit_recall(p, m.run);
        break;
    case FRAME_DROP:
        drop_read(p, &m);
    }
}

void node_peers_settle(node_t *n) {
    node_peer_t *p = n->peer;
    if (p == NULL) return;
    node_visits_answer(p);
    node_forward_retry(p);
    uint8_t *bytes;
    size_t size;
    /* What is sent meanwhile waits for the next round: the rings are read in between. */
    for (size_t i = p->out.count; i > 0 && node_loop_pop(&p->out, &bytes, &size); i--) {
        message_handle(p, bytes, size);
        free(bytes);
    }
    n->again |= p->out.count > 0;
}
