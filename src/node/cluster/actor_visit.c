/*
 * Calls that come from other nodes, or from this one to an actor of another home: visits (visit.h)
 * that the room admits.
 *
 *   fetched    its frame is a record and slots for the results; it waits for its arguments, and the
 *              room is told when they are there
 *   run        the room says so, in its caller's order: it goes to the actor as any call
 *   answered   its end is the room's: actor_call_done
 *
 * If the actor dies its visits end without a word: the room says of each whether it had begun. So
 * does one that is over, and has items that were not sent yet: it was lost, and may be run again.
 */
#include <stdlib.h>

#include "actor/actor.h"
#include "base/bytes.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_seat.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/outflow.h"
#include "node/cluster/proxy.h"
#include "node/state.h"
#include "node/visit.h"

static node_seat_t *seat_find(const node_cluster_t *c, frame_id_t id) {
    node_acting_key_t key = node_acting_key(id);
    return base_map_get(&c->acting.seats, &key);
}

/* It runs where its actor is: what it asks for, and where, says nothing here. */
static void frame_settle(const node_actor_t *a, node_t *n, frame_t *f) {
    f->demand.count = f->held.count = 0;
    f->where = (frame_where_t){.selector = ""};
    f->actor = (frame_id_t){n->incarnation, a->id.slot, a->id.generation};
}

static mob_status_t visit_make(node_cluster_t *c, uint64_t call, node_seat_t *s, uint64_t from,
                               const uint8_t *bytes, size_t size) {
    node_t *n = c->node;
    base_reader_t r = {.at = bytes, .left = size};
    uint64_t run = base_take_number(&r, NODE_GUEST_HEAD);
    frame_t f;
    if (r.short_of) return MOB_EPROTO;
    mob_status_t status = frame_read(r.at, r.left, &f);
    if (status != MOB_OK) return status;
    frame_settle(s->actor, n, &f);
    node_visit_t *v =
        node_visit_new(c->acting.others, (frame_id_t){.home = from, .generation = run}, &f);
    if (v != NULL && !base_map_put(&c->acting.calls, &call, v)) {
        node_visit_refuse(v, MOB_ENOMEM, ""); /* which nobody hears */
        v = NULL;
    }
    if (v != NULL) {
        v->call = call;
        v->seat = s->id;
        v->version = node_guest_version(run);
        node_visit_open(v, s->actor->job, &c->proxies.own, &f);
    }
    frame_fini(&f);
    return v != NULL ? MOB_OK : MOB_ENOMEM;
}

static void ready_tell(node_cluster_t *c, uint64_t call) {
    node_acting_tell(c, (node_acting_word_t){.what = NODE_ACTING_READY, .number = call}, NULL, 0);
}

void node_seat_fetch(node_cluster_t *c, uint64_t call, frame_id_t id, uint64_t from,
                     const uint8_t *bytes, size_t size) {
    node_seat_t *s = seat_find(c, id);
    if (s == NULL || s->actor == NULL || s->actor->job == NULL) return; /* the room will hear */
    mob_status_t status = visit_make(c, call, s, from, bytes, size);
    if (status != MOB_OK) {
        node_cluster_trouble(c, "a call from node %016llx could not be taken in: %s",
                             (unsigned long long)from, mob_status_text(status));
        ready_tell(c, call);
        return;
    }
    node_visit_t *v = base_map_get(&c->acting.calls, &call);
    const node_task_t *t = node_visit_task(v);
    if (t == NULL || t->missing == 0) ready_tell(c, call);
}

/* Nobody is told how it ended. */
static void visit_drop(node_t *n, node_visit_t *v) {
    node_task_t *t = node_visit_task(v);
    uint64_t call = v->call;
    v->call = 0;
    if (call != 0) (void)base_map_remove(&n->cluster->acting.calls, &call);
    node_outflow_close(v);
    v->end.end = FRAME_REFUSED; /* it has made nothing */
    if (t != NULL)
        node_task_dismiss(n, t);
    else
        node_visit_end(n, v);
}

void node_seat_run(node_cluster_t *c, uint64_t call, bool begins) {
    node_visit_t *v = base_map_get(&c->acting.calls, &call);
    static const frame_done_t none = {.end = FRAME_REFUSED, .status = MOB_ENOMEM};
    uint8_t *bytes;
    size_t size;
    if (v != NULL && begins) {
        node_visit_begin(v);
    } else if (v != NULL) {
        visit_drop(c->node, v);
    } else if (begins && frame_done_write(&none, &bytes, &size) == MOB_OK) {
        node_acting_tell(c, (node_acting_word_t){.what = NODE_ACTING_DONE, .number = call}, bytes,
                         size);
        free(bytes);
    }
}

void node_seat_lost(node_cluster_t *c, frame_id_t id) {
    for (node_visit_t *v = c->acting.others->owing; v != NULL; v = v->next) {
        if (v->call == 0 || !actor_id_equal(v->seat, id)) continue;
        (void)base_map_remove(&c->acting.calls, &v->call);
        v->call = 0;
        node_outflow_close(v);
    }
}

void node_seat_cancel(node_cluster_t *c, uint64_t call, bool recursive) {
    node_visit_t *v = base_map_get(&c->acting.calls, &call);
    if (v != NULL) node_visit_cancel(v, false, recursive); /* else it has ended */
}

void node_seat_call_ready(node_t *n, node_task_t *t) {
    node_visit_t *v = t->visit;
    node_seat_t *s = seat_find(n->cluster, v->seat);
    if (!v->may_start)
        ready_tell(n->cluster, v->call);
    else if (s != NULL && s->actor != NULL)
        node_actor_call(n, t, s->actor->id);
    else
        visit_drop(n, v);
}

bool node_seat_call_drop(node_t *n, node_task_t *t) {
    const node_actor_t *a = t->actor;
    if (t->visit == NULL || (a != NULL && a->life.state != ACTOR_DEAD)) return false;
    visit_drop(n, t->visit);
    return true;
}

bool node_seat_answer(node_visit_t *v, const uint8_t *body, size_t size) {
    node_cluster_t *c = v->peer->node->cluster;
    if (v->call == 0) return true;
    (void)base_map_remove(&c->acting.calls, &v->call);
    node_acting_tell(c, (node_acting_word_t){.what = NODE_ACTING_DONE, .number = v->call}, body,
                     size);
    v->call = 0;
    return true;
}
