/*
 * The daemon as the reader of a flow whose task is another node's. Its head is the oldest item that
 * it has not sent:
 *
 *   PENDING   it is being made. The daemon watches it: the worker says when it is SEALED
 *   SEALED    it is sent, in the order of the items, if it is wanted, the link has room, and less
 *             than FLOW_WINDOW items are under way. Then it is freed, and the next one is the head
 *   asked     ... or it is too large. The origin is asked how it is called
 *   lies      its value is its name's proxy's, as that of a large result (guest.c). It is sent
 *   the end   the task has made its last item. The visit's answer may be sent: only then, so the
 *             origin has all items by then. A task that ends in another way gets its end by
 *             node_flow_stop, also if its worker is dead
 *
 * Items are GIVEN to the client that stands for the visit's peer, as to any reader. Item 0 is the
 * daemon's own, and has a book from the start, with a use.
 *
 * Not wanted are items that the origin has (a run before this one made them), and all of them once
 * it is closed: by the origin, by the origin's death, or because the visit is dropped. They are
 * freed as they are made, and the maker is told by CLOSED.
 *
 * Limit: what the reader has taken is the origin's word (ROOM). It may speak of items that this run
 * has yet to make; then `taken` here follows as it makes them.
 *
 * Until it is moved to its name's proxy, an item that is asked for is `moving`: it stays in memory.
 */
#include "node/cluster/outflow.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/post.h"
#include "node/cluster/proxy.h"
#include "node/space/restore.h"
#include "node/state.h"
#include "node/value.h"
#include "node/visit.h"
#include "store/flow.h"

enum { AGAIN_MS = 10, TURN = 4 * FLOW_WINDOW }; /* items of one outflow in a round */

struct node_outflow {
    node_outflow_t *next, *prev;
    node_visit_t *visit;
    frame_id_t flow;
    uint64_t to;     /* the origin */
    uint32_t reader; /* the client that the items are given to */
    uint32_t limit;
    mob_ref_t link;       /* the flow's slot; slot 0: it has yet to be a task */
    mob_ref_t head;       /* slot 0: the end was read */
    uint64_t index;       /* of the head */
    uint64_t come, taken; /* as the origin says */
    bool is_closed;
    bool is_asked;       /* how the head is called */
    mob_ref_t lies;      /* the proxy that has its value, with a use; slot 0: it has it itself */
    frame_value_t stays; /* what is said of that */
};

typedef struct {
    uint8_t bytes[MOB_ID_SIZE];
} flow_key_t;

static flow_key_t key_of(frame_id_t flow) {
    flow_key_t key;
    base_writer_t w = {.bytes = key.bytes};
    frame_id_put(&w, flow);
    return key;
}

static node_t *node_of(const node_outflow_t *out) { return out->visit->peer->node; }

static store_slot_t *slot_of(const node_outflow_t *out, mob_ref_t ref) {
    return &node_of(out)->slots[ref.slot];
}

static uint64_t word_of(const node_outflow_t *out, mob_ref_t ref) {
    return atomic_load_explicit(&slot_of(out, ref)->word, memory_order_acquire);
}

/* ---- its life ---- */

/* The slot of item 0, with a book. False: no memory. */
static bool first_open(node_t *n, mob_ref_t *ret_first) {
    mob_ref_t ref;
    if (!node_own_slot_swept(n, &n->cluster->proxies.swept, &ref.slot)) return false;
    store_slot_t *slot = &n->slots[ref.slot];
    ref.generation = store_slot_open(slot);
    slot->value.item.next = 0;
    atomic_fetch_or_explicit(&slot->word, STORE_ESCAPED, memory_order_relaxed);
    node_object_t *o = node_object_find(n, ref);
    if (o == NULL) {
        store_slot_close(slot);
        return false;
    }
    node_object_use(o);
    *ret_first = ref;
    return true;
}

static void first_close(node_t *n, mob_ref_t first) {
    node_object_forget(n, first);
    store_slot_close(&n->slots[first.slot]);
}

mob_status_t node_outflow_new(node_visit_t *v) {
    node_t *n = v->peer->node;
    node_outflows_t *all = &n->cluster->outflows;
    flow_key_t key = key_of(v->results[0]);
    if (base_map_get(&all->by_flow, &key) != NULL) return MOB_EEXISTS;
    node_outflow_t *out = calloc(1, sizeof *out);
    if (out == NULL || !first_open(n, &out->head)) {
        free(out);
        return MOB_ENOMEM;
    }
    if (!base_map_put(&all->by_flow, &key, out)) {
        first_close(n, out->head);
        free(out);
        return MOB_ENOMEM;
    }
    out->visit = v;
    out->flow = v->results[0];
    out->to = v->run.home;
    out->reader = v->peer->client->number;
    out->next = all->first;
    if (out->next != NULL) out->next->prev = out;
    all->first = out;
    v->outflow = out;
    return MOB_OK;
}

void node_outflow_open(node_visit_t *v, uint32_t limit) {
    node_outflow_t *out = v->outflow;
    out->link = v->here.fresh[1];
    out->limit = limit <= STORE_FLOW_LIMIT ? limit : STORE_FLOW_LIMIT;
    store_flow_init(&slot_of(out, out->link)->value.flow, out->reader, out->limit, out->head);
    v->peer->node->again = true;
}

void node_outflow_close(node_visit_t *v) {
    if (v->outflow == NULL) return;
    v->outflow->is_closed = true;
    v->peer->node->again = true;
}

bool node_outflow_is_over(const node_visit_t *v) {
    return v->outflow->head.slot == 0 || v->outflow->link.slot == 0;
}

void node_outflow_free(node_visit_t *v) {
    node_outflow_t *out = v->outflow;
    node_outflows_t *all = &v->peer->node->cluster->outflows;
    flow_key_t key = key_of(out->flow);
    if (out->head.slot != 0) first_close(v->peer->node, out->head); /* it was never a task */
    (void)base_map_remove(&all->by_flow, &key);
    if (out->next != NULL) out->next->prev = out->prev;
    if (out->prev != NULL)
        out->prev->next = out->next;
    else
        all->first = out->next;
    v->outflow = NULL;
    free(out);
}

/* ---- a large item ---- */

/* The daemon's book of the head, whose value is in memory and stays there; NULL: not yet. */
static node_object_t *head_fix(node_outflow_t *out) {
    node_t *n = node_of(out);
    node_object_t *o = node_object_share(n, out->head);
    if (o != NULL && node_object_is_away(n, o)) node_restore_own(n, o);
    if (o == NULL || o->moving || node_object_is_away(n, o)) {
        node_look_again(n, AGAIN_MS);
        return NULL;
    }
    return o;
}

/* It goes no further than this node: the reader's daemon is this one, and moves it. */
static mob_status_t large_show(node_outflow_t *out, frame_value_t *ret_value) {
    if (head_fix(out) == NULL) return MOB_ELIMIT;
    uint64_t meta = slot_of(out, out->head)->meta;
    *ret_value = (frame_value_t){.at = node_proxy_id(node_of(out), out->head),
                                 .format = (uint8_t)store_meta_format(meta),
                                 .error = (uint8_t)store_meta_error(meta)};
    return MOB_OK;
}

/* MOB_ELIMIT: when it has a name. */
static mob_status_t large_ask(node_outflow_t *out) {
    node_flow_letter_t l = {.kind = FLOW_NAME, .flow = out->flow, .index = out->index};
    node_object_t *o = out->is_asked ? NULL : head_fix(out);
    if (o == NULL) return MOB_ELIMIT;
    mob_status_t status = node_flowpost_send(node_of(out)->cluster, out->to, &l);
    if (status != MOB_OK) return status;
    out->is_asked = o->moving = true;
    return MOB_ELIMIT;
}

static mob_status_t large_describe(const node_outflow_t *out, frame_value_t *ret_value) {
    const node_object_t *o = node_object_known(node_of(out), out->lies);
    *ret_value = out->stays;
    return o == NULL || o->contents.count == 0 ? MOB_OK
                                               : node_value_refs(node_of(out), o, ret_value);
}

/* An error takes its place. */
static void head_lose(const node_outflow_t *out) {
    node_slot_write_error(node_of(out), out->head, MOB_ELOST,
                          "the value that the worker gave makes no sense", NULL);
}

static bool is_waiting_for_name(const node_outflow_t *out, uint64_t index) {
    return out->is_asked && out->index == index && out->lies.slot == 0 && !out->is_closed;
}

mob_status_t node_outflow_named(node_cluster_t *c, const node_flow_letter_t *l) {
    node_t *n = c->node;
    flow_key_t key = key_of(l->flow);
    node_outflow_t *out = base_map_get(&c->outflows.by_flow, &key);
    if (out == NULL || !is_waiting_for_name(out, l->index)) return MOB_OK;
    if (l->id.home != out->to) return MOB_EPROTO;
    uint64_t meta = slot_of(out, out->head)->meta;
    frame_value_t stays = {.format = (uint8_t)store_meta_format(meta),
                           .error = (uint8_t)store_meta_error(meta),
                           .stayed_bytes = store_meta_size(meta)};
    bool is_kept = node_guest_keep(out->visit, l->id, out->head, &stays);
    mob_ref_t lies = node_proxy_find(n, l->id);
    node_object_t *o = node_object_known(n, lies), *head = node_object_known(n, out->head);
    if (is_kept && o != NULL && !frame_id_is_none(stays.at)) {
        node_object_use(o);
        out->lies = lies;
        out->stays = stays;
        return MOB_OK;
    }
    out->is_asked = false; /* without memory it is asked again */
    if (head != NULL) head->moving = false;
    if (is_kept) head_lose(out);
    return MOB_OK;
}

/* ---- the head ---- */

/* The worker names the file that it lies in after it has sealed it: the daemon may have yet to read
 * that. */
static bool is_told(const node_outflow_t *out, const node_object_t *o) {
    return !store_meta_in_file(slot_of(out, out->head)->meta) || (o != NULL && o->large != NULL) ||
           node_visit_task(out->visit) == NULL;
}

/* `refs` of the value are to be freed. MOB_ELIMIT: not yet. */
static mob_status_t value_make(node_outflow_t *out, frame_value_t *ret_value) {
    node_t *n = node_of(out);
    if (out->lies.slot != 0) return large_describe(out, ret_value);
    /* What is inside is held from now on. The worker holds it, too, until it has told of that. */
    if (!is_told(out, node_object_find(n, out->head))) return MOB_ELIMIT;
    mob_status_t status = node_value_frame(n, out->head, ret_value);
    if (status == MOB_ELOST) {
        head_lose(out);
        status = node_value_frame(n, out->head, ret_value);
    }
    if (status != MOB_ELIMIT) return status;
    return out->to == n->incarnation ? large_show(out, ret_value) : large_ask(out);
}

static mob_status_t value_send(node_outflow_t *out, frame_value_t *v) {
    frame_done_t done = {.end = FRAME_RESULTS, .values = v, .num_values = 1};
    node_flow_letter_t l = {.kind = FLOW_ITEM, .flow = out->flow, .index = out->index};
    uint8_t *bytes;
    mob_status_t status = frame_done_write(&done, &bytes, &l.value_size);
    if (status != MOB_OK) return status;
    l.value = bytes;
    status = node_flowpost_send(node_of(out)->cluster, out->to, &l);
    free(bytes);
    return status;
}

/* False: not now. */
static bool head_send(node_outflow_t *out) {
    node_t *n = node_of(out);
    frame_value_t v = {0};
    if (out->is_closed || out->index < out->come) return true;
    bool has_room = out->to == n->incarnation || node_post_has_room(n->cluster, out->to);
    if (!has_room || out->index - out->come >= FLOW_WINDOW) return false;
    mob_status_t status = value_make(out, &v);
    if (status == MOB_OK) status = value_send(out, &v);
    free(v.refs);
    if (status == MOB_ENOMEM) node_look_again(n, AGAIN_MS);
    /* the dead want none */
    return status == MOB_OK || status == MOB_ECLOSED;
}

/* The reader lets go of it. */
static void head_release(node_outflow_t *out) {
    node_t *n = node_of(out);
    node_object_t *o = node_object_known(n, out->head);
    store_slot_see(slot_of(out, out->head)); /* an error is told there, to whoever wants the item */
    if (o != NULL) o->moving = false;
    if (o == NULL)
        node_slot_release(n, out->head.slot);
    else if (out->index == 0)
        node_object_unuse_ref(n, out->head);
    else
        node_object_unhold(n, o, out->reader);
    if (out->lies.slot != 0) node_object_unuse_ref(n, out->lies);
    out->lies = (mob_ref_t){0};
    out->is_asked = false;
}

/* What the head names, unless that makes no sense: then nothing more is read. */
static mob_ref_t following(const node_outflow_t *out) {
    node_t *n = node_of(out);
    uint64_t link = slot_of(out, out->head)->value.item.next;
    mob_ref_t next = {0};
    if (store_link_slot(link) >= n->grants.slots.granted || !store_link_ref(n->slots, link, &next))
        return (mob_ref_t){0};
    return next;
}

/* ---- its maker ---- */

static void maker_wake(const node_outflow_t *out, const store_flow_t *flow) {
    node_t *n = node_of(out);
    if (!(atomic_load(&flow->made) & STORE_WAITS)) return;
    uint64_t word = atomic_load(&n->records[out->visit->here.record].word);
    /* by now it may be another worker's: then this is a ring for nothing */
    shm_bell_ring(&n->shared->bells[wire_word_worker(word)]);
}

/* What the origin says, as far as this run has come. */
static void maker_tell(const node_outflow_t *out) {
    if ((word_of(out, out->link) & STORE_STATE) != STORE_PENDING) return;
    store_flow_t *flow = &slot_of(out, out->link)->value.flow;
    uint64_t made = store_flow_made(flow), old = atomic_load(&flow->taken);
    uint64_t taken = out->taken < made ? out->taken : made;
    if (out->is_closed) taken |= STORE_CLOSED;
    if (taken == old) return;
    atomic_store(&flow->taken, taken);
    maker_wake(out, flow);
}

/* ---- its course ---- */

/* Whether there is a head, and it is made. The maker says so, if not. */
static bool is_made(const node_outflow_t *out) {
    return out->head.slot != 0 && !store_slot_watch(slot_of(out, out->head));
}

static void outflow_settle(node_outflow_t *out) {
    if (out->link.slot == 0) return;
    for (int i = 0; is_made(out); i++) {
        if (i == TURN) {
            node_of(out)->again = true;
            break;
        }
        bool is_end = store_meta_is_end(slot_of(out, out->head)->meta);
        if (!is_end && !head_send(out)) break;
        mob_ref_t next = is_end ? (mob_ref_t){0} : following(out);
        head_release(out);
        out->head = next;
        out->index++;
    }
    maker_tell(out);
}

void node_outflows_settle(node_cluster_t *c) {
    for (node_outflow_t *out = c->outflows.first; out != NULL; out = out->next) outflow_settle(out);
}

mob_status_t node_outflow_room(node_cluster_t *c, const node_flow_letter_t *l) {
    flow_key_t key = key_of(l->flow);
    node_outflow_t *out = base_map_get(&c->outflows.by_flow, &key);
    if (out == NULL) return MOB_OK; /* it is over, or has yet to come */
    out->come = l->index;
    out->taken = l->taken;
    out->is_closed |= l->is_closed;
    c->node->again = true;
    return MOB_OK;
}

void node_outflows_died(node_cluster_t *c, uint64_t peer) {
    for (node_outflow_t *out = c->outflows.first; out != NULL; out = out->next)
        out->is_closed |= out->to == peer;
}

void node_outflows_start(node_cluster_t *c) { base_map_init(&c->outflows.by_flow, MOB_ID_SIZE); }

void node_outflows_end(node_cluster_t *c) { base_map_fini(&c->outflows.by_flow); }
