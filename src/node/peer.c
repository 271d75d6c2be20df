/*
 * Peers, and the way to the one that is this daemon itself.
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
#include "frame/id.h"
#include "frame/order.h"
#include "node/forward.h"
#include "node/state.h"
#include "node/value.h"
#include "node/visit.h"

bool node_peer_is(const node_client_t *c) { return c != NULL && c->role == NODE_PEER; }

node_peer_t *node_peer_new(node_t *n, const node_way_t *way, uint64_t incarnation) {
    node_peer_t *p = calloc(1, sizeof *p);
    node_client_t *c = p != NULL ? node_client_new(n) : NULL;
    if (c == NULL) {
        free(p);
        return NULL;
    }
    c->role = NODE_PEER;
    c->state = NODE_REMOTE;
    c->peer = p;
    p->node = n;
    p->client = c;
    p->way = way;
    p->incarnation = incarnation;
    if (node_number_take_high(c)) return p;
    node_peer_free(p);
    return NULL;
}

void node_peer_free(node_peer_t *p) {
    for (size_t i = 0; i < p->aside.count; i++) free(p->aside.items[i].bytes);
    vec_free(&p->aside);
    node_client_close(p->client);
    free(p);
}

/* ---- loopback: what is sent ---- */

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

static frame_id_t run_of(const node_peer_t *p, const node_task_t *t) {
    return (frame_id_t){
        .home = p->node->incarnation, .number = t->record, .generation = t->generation};
}

static void loop_cancel(node_peer_t *p, const node_task_t *t, bool force, bool recursive) {
    uint8_t body[FRAME_ORDER_BYTES];
    frame_order_write(&(frame_order_t){.force = force, .recursive = recursive}, body);
    /* without memory: it is not stopped, as with any cancel */
    (void)node_peer_send(p, FRAME_CANCEL, run_of(p, t), body, sizeof body);
}

static void loop_recall(node_peer_t *p, const node_task_t *t) {
    (void)node_peer_send(p, FRAME_RECALL, run_of(p, t), NULL, 0);
}

/* The value is moved from the peer's slot, which is one of this daemon's. */
static mob_status_t loop_fetch(node_peer_t *p, const node_task_t *t, const frame_value_t *v,
                               mob_ref_t to) {
    (void)t;
    mob_ref_t from = node_frame_ref(p->node, v->at);
    node_value_t found;
    if (!node_grant_slot_is(p->node, from.slot, p->client->number) ||
        node_object_known(p->node, from) == NULL || !node_value_read(p->node, from, &found))
        return MOB_ELOST;
    return node_value_move(p->node, from, &found, to) ? MOB_OK : MOB_ELOST;
}

static void loop_drop(node_peer_t *p, const frame_id_t *ids, size_t count) {
    uint8_t *body;
    size_t size;
    if (count == 0 || frame_drop_write(ids, count, &body, &size) != MOB_OK)
        return; /* without memory they stay until the peer ends */
    (void)node_peer_send(p, FRAME_DROP, (frame_id_t){0}, body, size);
    free(body);
}

/* The slot itself is what the peer is told of. */
static bool loop_stay(node_visit_t *v, uint32_t index, frame_value_t *ret_value) {
    mob_ref_t ref = v->here.fresh[index];
    ret_value->at = (frame_id_t){
        .home = v->peer->node->incarnation, .number = ref.slot, .generation = ref.generation};
    return true;
}

static bool loop_answer(node_visit_t *v, const uint8_t *body, size_t size) {
    (void)base_map_remove(&v->peer->visits, &v->run.number);
    return node_peer_send(v->peer, FRAME_DONE, v->run, body, size) == MOB_OK;
}

/* Frees the slot of a result and what is in it. */
static void result_free(node_t *n, node_own_t *own, mob_ref_t ref) {
    node_value_t v;
    if (node_value_read(n, ref, &v)) node_value_free(n, ref, &v);
    node_run_slot_free(n, own, ref);
}

/* Results that stay here do so without their visit; the others go with it. */
static void loop_settle(node_visit_t *v) {
    node_t *n = v->peer->node;
    for (uint32_t i = 0; i < v->here.num_returns; i++) {
        node_object_t *o = node_object_known(n, v->here.fresh[i]);
        bool stays = i < v->end.num_values && !frame_id_is_none(v->end.values[i].at);
        if (stays && o != NULL)
            o->stayed = true;
        else
            result_free(n, v->here.own, v->here.fresh[i]);
        v->here.fresh[i].slot = 0;
    }
    loop_drop(v->peer, v->named, v->num_named);
}

static const node_way_t loop_way = {.cancel = loop_cancel,
                                    .recall = loop_recall,
                                    .fetch = loop_fetch,
                                    .drop = loop_drop,
                                    .give = node_peer_hold,
                                    .ungive = node_peer_unhold,
                                    .stay = loop_stay,
                                    .answer = loop_answer,
                                    .settle = loop_settle};

mob_status_t node_peer_start(node_t *n) {
    node_peer_t *p = node_peer_new(n, &loop_way, 0);
    if (p == NULL) return MOB_ENOMEM;
    p->own.submitter = p->client->number;
    base_map_init(&p->sent, sizeof(uint32_t));
    base_map_init(&p->visits, sizeof(uint32_t));
    n->peer = p;
    return MOB_OK;
}

/* ---- loopback: what comes ---- */

/* The peer does not need this result any more, which stayed here. False: it is none. */
static bool stayed_drop(node_peer_t *p, mob_ref_t ref) {
    if (!node_grant_slot_is(p->node, ref.slot, p->client->number)) return false;
    const node_object_t *o = node_object_known(p->node, ref);
    /* only one that has left its visit: what is being made is not the peer's to drop */
    if (o != NULL && o->stayed) result_free(p->node, &p->own, ref);
    return true;
}

static void drop_read(node_peer_t *p, const frame_message_t *m) {
    frame_id_t *ids;
    size_t count;
    if (frame_drop_read(m->body, m->body_size, &ids, &count) != MOB_OK) return;
    for (size_t i = 0; i < count; i++) {
        mob_ref_t ref = node_frame_ref(p->node, ids[i]);
        if (!stayed_drop(p, ref)) node_peer_unhold(p, ref);
    }
    free(ids);
}

/* The visit of that run; NULL: it has ended, and the answer is under way. */
static node_visit_t *visit_find(const node_peer_t *p, frame_id_t run) {
    node_visit_t *v = base_map_get(&p->visits, &run.number);
    return v != NULL && v->run.generation == run.generation && v->run.home == run.home ? v : NULL;
}

/* The job that the frame names; NULL: it has ended. */
static node_job_t *job_of(node_t *n, frame_job_t id) {
    NODE_EACH_JOB(n, job)
    if (id.home == n->incarnation && job->number == id.number && !job->farewell.leaving) return job;
    return NULL;
}

/* Why it can be found by the peer's record: the peer sends a task again only after the answer to
 * the last sending, so of each of its records there is one visit at the most. A second one is a
 * fault of the peer's, and thrown away. */
static void task_read(node_peer_t *p, const frame_message_t *m) {
    frame_t frame;
    if (base_map_get(&p->visits, &m->run.number) != NULL ||
        frame_read(m->body, m->body_size, &frame) != MOB_OK)
        return;
    node_visit_t *v = node_visit_new(p, m->run, &frame);
    if (v != NULL && base_map_put(&p->visits, &m->run.number, v)) {
        node_visit_open(v, job_of(p->node, frame.job), &p->own, &frame);
        node_visit_begin(v);
    } else if (v != NULL) {
        node_visit_refuse(v, MOB_ENOMEM, mob_status_text(MOB_ENOMEM));
    } /* else: a link would end with such a peer */
    frame_fini(&frame);
}

static void message_handle(node_peer_t *p, const uint8_t *bytes, size_t size) {
    frame_message_t m;
    frame_order_t order;
    node_visit_t *v;
    if (frame_message_read(bytes, size, &m) != MOB_OK) return;
    switch (m.kind) {
    case FRAME_TASK:
        task_read(p, &m);
        break;
    case FRAME_DONE:
        node_forward_done(p, m.run, m.body, m.body_size);
        break;
    case FRAME_CANCEL:
        v = visit_find(p, m.run);
        if (v != NULL && frame_order_read(m.body, m.body_size, &order) == MOB_OK)
            node_visit_cancel(v, order.force, order.recursive);
        break;
    case FRAME_RECALL:
        if ((v = visit_find(p, m.run)) != NULL) node_visit_recall(v);
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
