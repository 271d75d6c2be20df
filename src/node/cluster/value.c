/*
 * POST_VALUE: the first byte says what a message is.
 *
 *   WATCH   to the home: the sender has proxies of these objects, and knows of no value
 *   VALUE   from the home: a small value, with the references inside, or an error. In the layout of
 *           a run's end (frame/done.h), with the object's id as `at`
 *   LARGE   from the home: there is a value, which can be pulled, and this is how large it is
 *   GONE    from the home: there is no such object
 *   CANCEL  to the home: the task that makes this object is to stop
 *
 * The home answers each WATCH once: when the slot is sealed. It knows of sealings that the books
 * take part in, and asks to be told of the others (WATCHED, as for tasks that wait). A peer whose
 * WATCH comes again, because its proxy was freed and made anew, is there once, and one answer does.
 *
 * A WATCH goes out after refs_flush, so after the HOLD for its object: the home has the object as
 * long as it has yet to answer, unless the peer has let go of it. An answer to a proxy that is not
 * there any more is read only as far as its references go.
 *
 * A value that is on disk counts as large: who wants it pulls it from there. A small value for
 * which the store has no space is put aside, as a peer's results are (forward.c).
 */
#include "node/cluster/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "frame/done.h"
#include "frame/id.h"
#include "frame/order.h"
#include "node/cluster/cluster.h"
#include "node/cluster/post.h"
#include "node/state.h"
#include "node/value.h"

enum { WATCH = 1, VALUE, LARGE, GONE, CANCEL };
enum { AGAIN_MS = 10, IDS_MOST = 512, LARGE_BYTES = MOB_ID_SIZE + 8 + 8 + 1 + 1 + 4 };
static const uint64_t PATIENCE_NS = 30000000000;

static mob_status_t letter_send(node_cluster_t *cluster, uint64_t peer, const base_writer_t *w,
                                bool is_answer) {
    return node_post_send(cluster, peer, POST_VALUE,
                          &(node_letter_parts_t){.body = w->bytes, .body_size = w->size},
                          is_answer);
}

/* ---- asking ---- */

bool node_watch_ask(node_cluster_t *cluster, frame_id_t id) {
    cluster->node->again = true;
    return vec_push(&cluster->watches.asked, id);
}

/* The proxy, if there is one that waits for its home's answer; NULL: there is none. */
static node_object_t *proxy_of(node_t *n, frame_id_t id) {
    mob_ref_t ref = node_proxy_find(n, id);
    node_object_t *o = ref.slot != 0 ? node_object_known(n, ref) : NULL;
    return o != NULL && o->proxy != NULL && o->proxy->is_asked && !o->proxy->is_made ? o : NULL;
}

/* A message to one home that is being written, and the ids in it. */
typedef struct {
    uint64_t home;
    size_t count;
    mob_status_t status; /* of the last one that was sent */
    frame_id_t ids[IDS_MOST];
} ask_t;

/* What can't be sent now goes to the end of the list, which has room for it, so that a home that
 * takes no more does not keep others waiting. */
static void ask_flush(node_cluster_t *cluster, ask_t *ask, frame_id_t *unsent, size_t *count) {
    uint8_t bytes[1 + IDS_MOST * MOB_ID_SIZE];
    base_writer_t w = {.bytes = bytes};
    if (ask->count == 0) return;
    base_put_number(&w, WATCH, 1);
    for (size_t i = 0; i < ask->count; i++) frame_id_put(&w, ask->ids[i]);
    ask->status = letter_send(cluster, ask->home, &w, false);
    bool sent = ask->status == MOB_OK || ask->status == MOB_ECLOSED; /* the dead tell nothing */
    for (size_t i = 0; !sent && i < ask->count; i++) unsent[(*count)++] = ask->ids[i];
    ask->count = 0;
    if (sent) ask->status = MOB_OK;
}

void node_watch_cancel(node_t *n, frame_id_t id, bool force, bool recursive) {
    uint8_t bytes[1 + FRAME_ORDER_BYTES + MOB_ID_SIZE];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, CANCEL, 1);
    frame_order_write(&(frame_order_t){.force = force, .recursive = recursive}, bytes + w.size);
    w.size += FRAME_ORDER_BYTES;
    frame_id_put(&w, id);
    (void)letter_send(n->cluster, id.home, &w, true);
}

/* Asks the home of the first in the list for all of its own. */
static mob_status_t home_ask(node_cluster_t *cluster) {
    node_watches_t *s = &cluster->watches;
    ask_t ask = {.home = s->asked.items[0].home};
    size_t total = s->asked.count, kept = 0, unsent = 0;
    frame_id_t *list = s->asked.items, *rest = malloc(total * sizeof *rest);
    if (rest == NULL) return MOB_ENOMEM;
    for (size_t i = 0; i < total; i++) {
        if (proxy_of(cluster->node, list[i]) == NULL) continue;
        if (list[i].home != ask.home) {
            list[kept++] = list[i];
        } else if (ask.status != MOB_OK) {
            rest[unsent++] = list[i];
        } else {
            ask.ids[ask.count++] = list[i];
            if (ask.count == IDS_MOST) ask_flush(cluster, &ask, rest, &unsent);
        }
    }
    ask_flush(cluster, &ask, rest, &unsent);
    if (unsent > 0) memcpy(list + kept, rest, unsent * sizeof *rest);
    s->asked.count = kept + unsent;
    free(rest);
    return ask.status;
}

/* ---- answering ---- */

static void watchers_free(node_watchers_t *w) {
    vec_free(&w->peers);
    free(w);
}

static bool watchers_add(node_watchers_t *w, uint64_t peer) {
    for (size_t i = 0; i < w->peers.count; i++)
        if (w->peers.items[i] == peer) return true;
    return vec_push(&w->peers, peer);
}

static void watchers_due(node_cluster_t *cluster, node_watchers_t *w) {
    if (w->is_due) return;
    w->is_due = true;
    w->next = cluster->watches.due;
    cluster->watches.due = w;
}

void node_watch_sealed(node_t *n, node_object_t *o) {
    watchers_due(n->cluster, o->watchers);
    n->again = true;
}

void node_watch_freed(node_t *n, node_object_t *o) {
    node_watchers_t *w = o->watchers;
    o->watchers = NULL;
    watchers_due(n->cluster, w); /* they are told that it is gone */
    n->again = true;
}

static mob_status_t gone_send(node_cluster_t *cluster, uint64_t peer, frame_id_t id) {
    uint8_t bytes[1 + MOB_ID_SIZE];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, GONE, 1);
    frame_id_put(&w, id);
    return letter_send(cluster, peer, &w, true);
}

static mob_status_t large_send(node_cluster_t *cluster, uint64_t peer, const node_object_t *o) {
    uint8_t bytes[1 + LARGE_BYTES];
    base_writer_t w = {.bytes = bytes};
    node_elsewhere_t what;
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    node_proxy_describe(cluster->node, o, &what);
    base_put_number(&w, LARGE, 1);
    frame_id_put(&w, node_proxy_id(cluster->node, ref));
    base_put_number(&w, what.pulled_bytes, 8);
    base_put_number(&w, what.bytes, 8);
    base_put_number(&w, what.format, 1);
    base_put_number(&w, what.error, 1);
    base_put_number(&w, what.ref_count, 4);
    return letter_send(cluster, peer, &w, true);
}

static mob_status_t small_send(node_cluster_t *cluster, uint64_t peer, frame_value_t *v) {
    frame_done_t done = {.end = FRAME_RESULTS, .values = v, .num_values = 1};
    uint8_t kind = VALUE, *body;
    size_t size;
    mob_status_t status = frame_done_write(&done, &body, &size);
    if (status != MOB_OK) return status;
    node_letter_parts_t parts = {.head = &kind, .head_size = 1, .body = body, .body_size = size};
    status = v->num_refs == 0 ? node_post_send(cluster, peer, POST_VALUE, &parts, true)
                              : node_post_send_refs(cluster, peer, POST_VALUE, &parts, v->refs,
                                                    v->num_refs, NULL, true);
    free(body);
    return status;
}

static mob_status_t value_send(node_cluster_t *cluster, uint64_t peer, mob_ref_t ref) {
    node_t *n = cluster->node;
    frame_id_t id = node_proxy_id(n, ref);
    node_object_t *o = node_object_known(n, ref);
    frame_value_t value;
    if (o == NULL) return gone_send(cluster, peer, id);
    mob_status_t status = node_value_frame(n, ref, &value);
    if (status == MOB_ELIMIT) return large_send(cluster, peer, o);
    if (status == MOB_ELOST) return gone_send(cluster, peer, id);
    if (status != MOB_OK) return status;
    value.at = id;
    status = small_send(cluster, peer, &value);
    free(value.refs);
    /* an error is told there, to whoever wants the value */
    if (status == MOB_OK && value.error != MOB_OK) store_slot_see(&n->slots[ref.slot]);
    return status;
}

/* Those that could not be answered for want of memory stay. */
static bool watchers_answer(node_cluster_t *cluster, node_watchers_t *w) {
    size_t kept = 0;
    for (size_t i = 0; i < w->peers.count; i++) {
        uint64_t peer = w->peers.items[i];
        if (!member_knows(cluster->member, peer)) continue;
        mob_status_t status = value_send(cluster, peer, w->ref);
        if (status != MOB_OK && status != MOB_ECLOSED) w->peers.items[kept++] = peer;
    }
    w->peers.count = kept;
    return kept == 0;
}

static bool all_answer(node_cluster_t *cluster) {
    node_watchers_t *w = cluster->watches.due;
    bool all = true;
    cluster->watches.due = NULL;
    while (w != NULL) {
        node_watchers_t *next = w->next;
        w->is_due = false;
        if (watchers_answer(cluster, w)) {
            node_object_t *o = node_object_known(cluster->node, w->ref);
            if (o != NULL && o->watchers == w) o->watchers = NULL;
            watchers_free(w);
        } else {
            watchers_due(cluster, w);
            all = false;
        }
        w = next;
    }
    return all;
}

/* The peer waits for the object, or is answered at the end of the round. */
static mob_status_t watch_note(node_cluster_t *cluster, uint64_t peer, frame_id_t id) {
    node_t *n = cluster->node;
    mob_ref_t ref = node_proxy_find(n, id);
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL) return gone_send(cluster, peer, id);
    if (o->watchers == NULL && (o->watchers = calloc(1, sizeof *o->watchers)) == NULL)
        return MOB_ENOMEM;
    o->watchers->ref = ref;
    if (!watchers_add(o->watchers, peer)) return MOB_ENOMEM;
    if (!store_slot_watch(&n->slots[o->slot])) watchers_due(cluster, o->watchers);
    return MOB_OK;
}

static mob_status_t watch_receive(node_cluster_t *cluster, uint64_t peer, base_reader_t *r) {
    if (r->left % MOB_ID_SIZE != 0) return MOB_EPROTO;
    while (r->left > 0) {
        frame_id_t id = frame_id_take(r);
        if (id.home != cluster->node->incarnation || id.number >= STORE_MAX_SLOTS)
            return MOB_EPROTO;
        mob_status_t status = watch_note(cluster, peer, id);
        if (status == MOB_ENOMEM) return status; /* what was noted is noted once */
    }
    return MOB_OK;
}

static mob_status_t cancel_receive(node_cluster_t *cluster, base_reader_t *r) {
    frame_order_t order;
    const void *how = base_take_bytes(r, FRAME_ORDER_BYTES);
    frame_id_t id = frame_id_take(r);
    if (!base_reader_is_done(r) || id.home != cluster->node->incarnation ||
        frame_order_read(how, FRAME_ORDER_BYTES, &order) != MOB_OK)
        return MOB_EPROTO;
    /* that a call of an actor is not stopped by force is not told over there */
    (void)node_cancel_ref(cluster->node, node_proxy_find(cluster->node, id), order.force,
                          order.recursive);
    return MOB_OK;
}

/* ---- answers ---- */

static void late_free(node_t *n, node_late_value_t *late) {
    for (uint32_t i = 0; i < late->num_refs; i++) node_object_unuse_ref(n, late->refs[i]);
    free(late->refs);
    free(late->bytes);
}

/* It is tried again; what is inside it is held meanwhile. False: no memory. */
static bool late_add(node_cluster_t *cluster, node_late_value_t late) {
    node_t *n = cluster->node;
    uint8_t *bytes = malloc(late.size + 1);
    if (bytes == NULL || !vec_reserve(&cluster->watches.late, 1)) {
        free(bytes);
        return false;
    }
    memcpy(bytes, late.bytes, late.size);
    late.bytes = bytes;
    late.since_ns = base_clock_mono_ns();
    for (uint32_t i = 0; i < late.num_refs; i++) {
        node_object_t *o = node_object_known(n, late.refs[i]);
        if (o != NULL)
            node_object_use(o);
        else
            late.refs[i].slot = 0;
    }
    (void)vec_push(&cluster->watches.late, late);
    node_look_again(n, AGAIN_MS);
    return true;
}

static mob_status_t late_write(node_t *n, const node_late_value_t *late) {
    return node_proxy_seal(n, late->to, (mob_format_t)late->format, (mob_status_t)late->error,
                           late->bytes, late->size, late->refs, late->num_refs);
}

static void late_settle(node_cluster_t *cluster) {
    node_watches_t *s = &cluster->watches;
    size_t count = s->late.count;
    /* a task that goes on may put more aside, behind these */
    for (size_t i = 0; i < count; i++) {
        node_late_value_t late = s->late.items[i];
        bool patient = base_clock_mono_ns() - late.since_ns < PATIENCE_NS;
        if (late_write(cluster->node, &late) != MOB_OK) {
            if (patient) continue;
            node_proxy_fail(cluster->node, late.to, MOB_EFULL,
                            "the store has no space for this value, which came from its node");
        }
        late_free(cluster->node, &late);
        s->late.items[i].to.slot = 0;
    }
    size_t kept = 0;
    for (size_t i = 0; i < s->late.count; i++)
        if (s->late.items[i].to.slot != 0) s->late.items[kept++] = s->late.items[i];
    s->late.count = kept;
    if (kept > 0) node_look_again(cluster->node, AGAIN_MS);
}

/* Its references are counted by now; what is not held of them is given back. */
static void value_write(node_cluster_t *cluster, mob_ref_t to, const frame_value_t *v) {
    node_t *n = cluster->node;
    node_late_value_t late = {.to = to,
                              .format = v->format,
                              .error = v->error,
                              .bytes = (uint8_t *)(uintptr_t)v->bytes,
                              .size = v->size,
                              .num_refs = v->num_refs};
    late.refs = calloc((size_t)v->num_refs + 1, sizeof *late.refs);
    bool known = late.refs != NULL;
    for (uint32_t i = 0; known && i < v->num_refs; i++) {
        late.refs[i] = node_frame_ref(n, v->refs[i]);
        known = late.refs[i].slot != 0 || frame_id_is_none(v->refs[i]);
    }
    mob_status_t status = known ? late_write(n, &late) : MOB_ENOMEM;
    if (known && status != MOB_OK && late_add(cluster, late)) return;
    if (status != MOB_OK)
        node_proxy_fail(n, to, MOB_ELOST, "this node had no memory for the value");
    free(late.refs);
}

static mob_status_t value_receive(node_cluster_t *cluster, uint64_t peer, base_reader_t *r) {
    frame_done_t done;
    mob_status_t status = frame_done_read(r->at, r->left, &done);
    if (status != MOB_OK) return status;
    const frame_value_t *v = done.values;
    if (done.num_values != 1 || v->at.home != peer)
        status = MOB_EPROTO;
    else if (v->num_refs > 0)
        status = node_holding_frame_came(cluster, peer, v->refs, v->num_refs);
    const node_object_t *o = status == MOB_OK ? proxy_of(cluster->node, v->at) : NULL;
    if (o != NULL)
        value_write(cluster, (mob_ref_t){.slot = o->slot, .generation = o->generation}, v);
    frame_done_fini(&done);
    return status;
}

static mob_status_t large_receive(node_cluster_t *cluster, uint64_t peer, base_reader_t *r) {
    frame_id_t id = frame_id_take(r);
    node_elsewhere_t what = {.pulled_bytes = base_take_number(r, 8)};
    what.bytes = base_take_number(r, 8);
    what.format = (mob_format_t)base_take_number(r, 1);
    what.error = (mob_status_t)base_take_number(r, 1);
    what.ref_count = (uint32_t)base_take_number(r, 4);
    if (!base_reader_is_done(r) || id.home != peer || what.bytes >= STORE_LARGEST ||
        what.format > MOB_FORMAT_PICKLE || what.error >= MOB_STATUS_COUNT)
        return MOB_EPROTO;
    const node_object_t *o = proxy_of(cluster->node, id);
    if (o == NULL) return MOB_OK;
    return node_proxy_seal_elsewhere(
        cluster->node, (mob_ref_t){.slot = o->slot, .generation = o->generation}, &what);
}

static mob_status_t gone_receive(node_cluster_t *cluster, uint64_t peer, base_reader_t *r) {
    frame_id_t id = frame_id_take(r);
    if (!base_reader_is_done(r) || id.home != peer) return MOB_EPROTO;
    if (proxy_of(cluster->node, id) != NULL) node_proxy_gone(cluster->node, id);
    return MOB_OK;
}

mob_status_t node_watch_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    mob_status_t status = node_holding_check(cluster);
    if (status != MOB_OK) return status;
    cluster->node->again = true;
    switch (base_take_number(&r, 1)) {
    case WATCH:
        return watch_receive(cluster, peer, &r);
    case VALUE:
        return value_receive(cluster, peer, &r);
    case LARGE:
        return large_receive(cluster, peer, &r);
    case GONE:
        return gone_receive(cluster, peer, &r);
    case CANCEL:
        return cancel_receive(cluster, &r);
    default:
        return MOB_EPROTO;
    }
}

/* ---- its course ---- */

void node_watches_settle(node_cluster_t *cluster) {
    node_watches_t *s = &cluster->watches;
    mob_status_t status = MOB_OK;
    if (s->late.count > 0) late_settle(cluster);
    node_proxies_ask(cluster);
    while (s->asked.count > 0 && status == MOB_OK) status = home_ask(cluster);
    if ((s->due != NULL && !all_answer(cluster)) || status != MOB_OK || cluster->proxies.unasked)
        node_look_again(cluster->node, AGAIN_MS);
}

void node_watches_end(node_cluster_t *cluster) {
    node_watches_t *s = &cluster->watches;
    while (s->due != NULL) {
        node_watchers_t *w = s->due;
        node_object_t *o = node_object_known(cluster->node, w->ref);
        if (o != NULL && o->watchers == w) o->watchers = NULL;
        s->due = w->next;
        watchers_free(w);
    }
    for (size_t i = 0; i < s->late.count; i++) late_free(cluster->node, &s->late.items[i]);
    vec_free(&s->late);
    vec_free(&s->asked);
}
