/*
 * The daemon as the maker of a flow whose task is at another node. Its five steps (store/flow.h)
 * are one: no other process looks at the books in between.
 *
 * An item is
 *
 *   come     if it is the next one: `index` is the number of items that there are, and of those
 *            aside. One that is older was made before: by a run on a node that is dead, or by a run
 *            of an actor's that died. So it is left out, and the other node is told how many there
 *            are
 *   aside    it has come, and the store has no space for it. It is tried again; those behind it
 *            wait. They are no more than FLOW_WINDOW. One that was made on this node and is too
 *            large to travel waits where it is: there it goes when it has come
 *   written  the tail has its value, or says that it is at the other node; a slot is opened behind
 *            it. From here on it is an item as any other
 *
 * A reader that has closed the flow wants no items, and neither does a flow whose last item was the
 * task's error: what comes is thrown away, and the other node is told.
 *
 * The tail's id is the name of an item that is too large to travel. It is told when all before it
 * are written, for only then is there a tail.
 *
 * Whose run it is that sends items is not asked: a task is at one node at a time, and leaves that
 * by its answer or its tombstone, after which nothing of it comes.
 */
#include "node/cluster/inflow.h"

#include <stdlib.h>
#include <string.h>

#include "actor/actor.h"
#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_stub.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/origin.h"
#include "node/cluster/proxy.h"
#include "node/forward.h"
#include "node/state.h"
#include "node/value.h"

enum { AGAIN_MS = 10 };
static const uint64_t PATIENCE_NS = 30000000000;

/* An item for which the store had no space. */
typedef struct {
    uint64_t from, since_ns;
    uint8_t *bytes; /* as it came */
    size_t size;
    mob_ref_t *refs; /* what is inside: a use each */
    size_t num_refs;
} aside_t;

/* What the other node is told. */
typedef struct {
    uint64_t made, taken;
    bool is_closed;
} extent_t;

struct node_inflow {
    node_inflow_t *next, *prev;
    node_task_t *task;
    frame_id_t flow;
    uint64_t to; /* the node that makes the items, as far as is known; 0: it is not */
    extent_t told;
    bool is_limited; /* who makes the items may wait for the reader */
    bool is_due;     /* it is looked at, at the end of the round */
    bool must_tell;  /* also if nothing has changed */
    bool is_asked;   /* how this item is called: */
    uint64_t asked;
    VEC(aside_t) aside;
};

/* ---- its life ---- */

/* Nobody reads the flow. */
static void closed_send(node_cluster_t *c, uint64_t to, frame_id_t flow, uint64_t come) {
    node_flow_letter_t room = {.kind = FLOW_ROOM, .flow = flow, .index = come, .is_closed = true};
    /* without memory: what comes next is answered so, too */
    (void)node_flowpost_send(c, to, &room);
}

bool node_inflow_begin(node_t *n, node_task_t *t, uint64_t to) {
    node_cluster_t *c = n->cluster;
    node_inflow_t *in = calloc(1, sizeof *in);
    if (in == NULL) return false;
    in->task = t;
    in->flow = node_proxy_id(n, t->refs[0]);
    in->to = to;
    in->is_limited = node_flow_limit(n, t->refs[1]) > 0;
    in->is_due = true;
    in->next = c->inflows;
    if (in->next != NULL) in->next->prev = in;
    c->inflows = in;
    t->inflow = in;
    node_flow_far(n, t);
    n->again = true;
    return true;
}

static void aside_free(node_t *n, aside_t *a) {
    for (size_t i = 0; i < a->num_refs; i++) node_object_unuse_ref(n, a->refs[i]);
    free(a->refs);
    free(a->bytes);
}

void node_inflow_end(node_t *n, node_task_t *t) {
    node_inflow_t *in = t->inflow;
    bool is_awaited = in->is_due || in->is_asked || in->is_limited || in->aside.count > 0;
    t->inflow = NULL;
    if (is_awaited && in->to != 0) closed_send(n->cluster, in->to, in->flow, 0);
    if (in->next != NULL) in->next->prev = in->prev;
    if (in->prev != NULL)
        in->prev->next = in->next;
    else
        n->cluster->inflows = in->next;
    for (size_t i = 0; i < in->aside.count; i++) aside_free(n, &in->aside.items[i]);
    vec_free(&in->aside);
    free(in);
}

void node_inflow_note(const node_task_t *t) {
    if (t->inflow != NULL) t->inflow->is_due = true;
}

/* The task whose first or second result this is, if its items come from elsewhere. */
static node_task_t *task_of(node_t *n, mob_ref_t ref, uint32_t result) {
    if (ref.slot == 0 || ref.slot >= n->grants.slots.granted) return NULL;
    uint32_t record = *(const volatile uint32_t *)&n->slots[ref.slot].value.maker;
    node_task_t *t = record < n->grants.records.granted ? n->tasks[record] : NULL;
    bool is_its = t != NULL && t->inflow != NULL && t->refs[result].slot == ref.slot &&
                  t->refs[result].generation == ref.generation;
    return is_its && node_forward_is(t) ? t : NULL;
}

void node_inflow_read(node_t *n, mob_ref_t flow) {
    const node_task_t *t = task_of(n, flow, 1);
    if (t != NULL) node_inflow_note(t);
}

/* ---- an item's value ---- */

/* The value lies in the message. */
static mob_status_t value_write(node_t *n, mob_ref_t to, const frame_value_t *v) {
    mob_ref_t *refs = calloc((size_t)v->num_refs + 1, sizeof *refs);
    if (refs == NULL) return MOB_ENOMEM;
    for (uint32_t i = 0; i < v->num_refs; i++) refs[i] = node_frame_ref(n, v->refs[i]);
    mob_status_t status = node_value_write_item(n, to, v, refs);
    free(refs);
    return status;
}

/* It was made on this node itself, by an actor of another home. */
static mob_status_t value_move(node_t *n, mob_ref_t to, frame_id_t at) {
    mob_ref_t from = node_proxy_find(n, at);
    node_value_t found;
    if (node_object_known(n, from) == NULL || !node_value_read(n, from, &found)) return MOB_ELOST;
    return node_value_move(n, from, &found, to) ? MOB_OK : MOB_ELOST;
}

/* It stayed at its node. */
static mob_status_t value_note(node_t *n, const node_task_t *t, uint64_t from, mob_ref_t to,
                               const frame_value_t *v) {
    node_elsewhere_t what;
    if (v->at.home != n->incarnation || v->at.number != to.slot ||
        v->at.generation != to.generation)
        return MOB_ELOST;
    mob_status_t status =
        node_origin_note(n, to, node_guest_version(t->generation), from, false, v, &what);
    return status == MOB_OK ? node_proxy_put_elsewhere(n, to, &what) : status;
}

static mob_status_t value_put(node_t *n, const node_task_t *t, uint64_t from, mob_ref_t to,
                              const frame_value_t *v, bool *ret_away) {
    *ret_away = false;
    if (frame_id_is_none(v->at)) return value_write(n, to, v);
    if (from == n->incarnation) return value_move(n, to, v->at);
    *ret_away = true;
    return value_note(n, t, from, to, v);
}

/* The slot behind the tail. False: there is none. */
static bool next_open(node_t *n, mob_ref_t *ret_next) {
    if (!node_own_slot_swept(n, &n->cluster->proxies.swept, &ret_next->slot)) return false;
    ret_next->generation = store_slot_open(&n->slots[ret_next->slot]);
    n->slots[ret_next->slot].value.item.next = 0;
    return true;
}

static void item_fail(node_t *n, mob_ref_t tail, bool is_lost) {
    node_slot_write_error(n, tail, is_lost ? MOB_ELOST : MOB_EFULL,
                          is_lost ? "the node that made this item does not have it"
                                  : "the store has no space for this item",
                          NULL);
}

/* The next item. MOB_ESPACE: later, if the caller is patient. */
static mob_status_t item_write(node_t *n, const node_task_t *t, uint64_t from,
                               const frame_value_t *v, bool patient) {
    extent_t now;
    mob_ref_t next;
    bool is_away;
    t->inflow->is_due = true;
    if (!node_flow_look(n, t, &now.made, &now.taken, &now.is_closed) || now.is_closed)
        return MOB_OK; /* nobody wants it */
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    if (!next_open(n, &next)) {
        if (patient) return MOB_ESPACE;
        node_flow_fail(n, t, MOB_EFULL, "the node has no memory for more items", NULL);
        node_bells_ring(n);
        return MOB_OK;
    }
    mob_status_t status = value_put(n, t, from, tail, v, &is_away);
    if (status != MOB_OK && status != MOB_ELOST && patient) {
        store_slot_close(&n->slots[next.slot]);
        return MOB_ESPACE;
    }
    if (status != MOB_OK) item_fail(n, tail, status == MOB_ELOST);
    node_flow_publish(n, t, next, is_away && status == MOB_OK, v->error != MOB_OK);
    return MOB_OK;
}

/* ---- aside ---- */

/* False: no memory. */
static bool aside_add(node_t *n, node_inflow_t *in, uint64_t from, const node_flow_letter_t *l) {
    const frame_value_t *v = l->item;
    aside_t a = {.from = from,
                 .since_ns = base_clock_mono_ns(),
                 .bytes = malloc(l->value_size + 1),
                 .size = l->value_size,
                 .refs = calloc((size_t)v->num_refs + 1, sizeof *a.refs)};
    if (a.bytes == NULL || a.refs == NULL || !vec_reserve(&in->aside, 1)) {
        free(a.bytes);
        free(a.refs);
        return false;
    }
    memcpy(a.bytes, l->value, l->value_size);
    for (uint32_t i = 0; i < v->num_refs; i++) {
        mob_ref_t ref = node_frame_ref(n, v->refs[i]);
        node_object_t *o = node_object_find(n, ref);
        if (o == NULL) continue;
        node_object_use(o);
        a.refs[a.num_refs++] = ref;
    }
    (void)vec_push(&in->aside, a);
    node_look_again(n, AGAIN_MS);
    return true;
}

static bool aside_write(node_t *n, const node_task_t *t, const aside_t *a, bool patient) {
    frame_done_t done;
    patient = patient && base_clock_mono_ns() - a->since_ns < PATIENCE_NS;
    if (frame_done_read(a->bytes, a->size, &done) != MOB_OK) return false;
    mob_status_t status = item_write(n, t, a->from, done.values, patient);
    frame_done_fini(&done);
    return status == MOB_OK;
}

/* Those that find space, in their order. */
static void aside_settle(node_t *n, const node_task_t *t, bool patient) {
    node_inflow_t *in = t->inflow;
    size_t done = 0;
    while (done < in->aside.count && aside_write(n, t, &in->aside.items[done], patient))
        aside_free(n, &in->aside.items[done++]);
    in->aside.count -= done;
    memmove(in->aside.items, in->aside.items + done, in->aside.count * sizeof *in->aside.items);
    if (in->aside.count > 0) node_look_again(n, AGAIN_MS);
}

bool node_inflow_finish(node_t *n, node_task_t *t, bool patient) {
    if (t->inflow == NULL || t->inflow->aside.count == 0) return true;
    aside_settle(n, t, patient);
    return t->inflow->aside.count == 0;
}

/* ---- what comes ---- */

/* The task, if that node may speak of it. */
static node_task_t *task_from(node_t *n, uint64_t from, frame_id_t flow) {
    node_task_t *t = task_of(n, node_proxy_find(n, flow), 0);
    uint64_t peer = t != NULL ? t->worker->peer->incarnation : 0;
    if (t == NULL || (peer != 0 && peer != from)) return NULL;
    t->inflow->must_tell |= t->inflow->to != from; /* it knows nothing yet */
    t->inflow->to = from;
    t->inflow->is_due = true;
    return t;
}

/* Whether this item is wanted. If not, how things are is said again: its run may be another one
 * than that which was told. *ret_next: the number of the next item to come. */
static bool is_wanted(node_t *n, const node_task_t *t, uint64_t index, uint64_t *ret_next) {
    extent_t now = {0};
    bool is_open = node_flow_look(n, t, &now.made, &now.taken, &now.is_closed) && !now.is_closed;
    *ret_next = now.made + t->inflow->aside.count;
    bool wanted = is_open && index >= *ret_next;
    t->inflow->must_tell |= !wanted;
    return wanted;
}

mob_status_t node_inflow_item(node_cluster_t *c, uint64_t from, const node_flow_letter_t *l) {
    node_t *n = c->node;
    uint64_t next;
    node_task_t *t = task_from(n, from, l->flow);
    if (t == NULL) {
        closed_send(c, from, l->flow, l->index);
        return MOB_OK;
    }
    node_inflow_t *in = t->inflow;
    if (!is_wanted(n, t, l->index, &next)) return MOB_OK;
    if (l->index > next || in->aside.count >= FLOW_WINDOW) return MOB_EPROTO;
    if (in->aside.count == 0 && item_write(n, t, from, l->item, true) == MOB_OK) return MOB_OK;
    if (from == n->incarnation && !frame_id_is_none(l->item->at)) return MOB_ENOMEM;
    if (aside_add(n, in, from, l)) return MOB_OK;
    aside_settle(n, t, false);
    (void)item_write(n, t, from, l->item, false);
    return MOB_OK;
}

mob_status_t node_inflow_name(node_cluster_t *c, uint64_t from, const node_flow_letter_t *l) {
    uint64_t next;
    node_task_t *t = task_from(c->node, from, l->flow);
    if (t == NULL) {
        closed_send(c, from, l->flow, l->index);
        return MOB_OK;
    }
    if (!is_wanted(c->node, t, l->index, &next)) return MOB_OK;
    t->inflow->is_asked = true;
    t->inflow->asked = l->index;
    return MOB_OK;
}

/* ---- what is said ---- */

/* Where its items are made, as far as is known; 0: nowhere yet. */
static uint64_t maker_of(const node_cluster_t *c, const node_task_t *t) {
    const node_actor_t *a = t->actor;
    if (t->inflow->to != 0) return t->inflow->to;
    if (a == NULL || a->far == NULL || c->acting.room == NULL) return 0;
    return actor_stub_node(c->acting.room, a->far->id);
}

static mob_status_t name_tell(node_cluster_t *c, node_task_t *t, uint64_t to) {
    node_t *n = c->node;
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    node_flow_letter_t l = {.kind = FLOW_NAMED,
                            .flow = t->inflow->flow,
                            .index = t->inflow->asked,
                            .id = node_proxy_id(n, tail)};
    mob_status_t status = node_flowpost_send(c, to, &l);
    node_object_t *o = node_object_known(n, tail);
    if (o != NULL) node_flow_named(n, t, o);
    return status;
}

static mob_status_t room_tell(node_cluster_t *c, const node_task_t *t, uint64_t to,
                              const extent_t *now) {
    node_flow_letter_t l = {.kind = FLOW_ROOM,
                            .flow = t->inflow->flow,
                            .index = now->made,
                            .taken = now->taken,
                            .is_closed = now->is_closed};
    return node_flowpost_send(c, to, &l);
}

static bool is_told(const node_inflow_t *in, const extent_t *now) {
    return !in->must_tell && in->told.made == now->made && in->told.taken == now->taken &&
           in->told.is_closed == now->is_closed;
}

static void inflow_tell(node_cluster_t *c, node_task_t *t) {
    node_inflow_t *in = t->inflow;
    extent_t now = in->told;
    uint64_t to = maker_of(c, t);
    if (!node_flow_look(c->node, t, &now.made, &now.taken, &now.is_closed)) now.is_closed = true;
    in->is_due = false;
    if (to == 0) return;
    bool names = in->is_asked && in->asked == now.made && !now.is_closed;
    mob_status_t status = names ? name_tell(c, t, to) : MOB_OK;
    if (status == MOB_OK && names) in->is_asked = false;
    if (status == MOB_OK && !is_told(in, &now)) {
        status = room_tell(c, t, to, &now);
        in->told = now;
        in->must_tell = false;
    }
    if (status != MOB_ENOMEM) return;
    in->is_due = in->must_tell = true;
    node_look_again(c->node, AGAIN_MS);
}

void node_inflows_settle(node_cluster_t *c) {
    for (node_inflow_t *in = c->inflows, *next; in != NULL; in = next) {
        next = in->next;
        if (!node_forward_is(in->task)) continue; /* it is about to go */
        if (in->aside.count > 0) aside_settle(c->node, in->task, true);
        if (in->is_due) inflow_tell(c, in->task);
    }
}
