/*
 * Flows. While both ends live, the daemon has no part in them: store/flow.h has the rules, and what
 * is to be done when an end dies. The words are the clients' to write, so each is bounded, and
 * nothing follows from them but what becomes of slots that they name.
 */
#include "node/flow.h"

#include "node/cluster/inflow.h"
#include "node/cluster/proxy.h"
#include "node/forward.h"
#include "node/state.h"
#include "store/flow.h"

uint32_t node_slot_keeper(node_t *n, uint32_t slot, uint64_t word) {
    uint32_t owner = n->grants.slots.owner[slot / STORE_SLOT_BLOCK];
    if (!(word & STORE_GIVEN) || (word & STORE_STATE) != STORE_SEALED) return owner;
    uint32_t reader = store_word_reader(word);
    return n->clients[reader] != NULL ? reader : NODE_ORPHAN;
}

static store_flow_t *flow_of(node_t *n, const node_task_t *t) {
    return &n->slots[t->refs[1].slot].value.flow;
}

/* What a link names, if there is such a slot. */
static bool link_ref(node_t *n, uint64_t link, mob_ref_t *ret_ref) {
    return store_link_slot(link) < n->grants.slots.granted &&
           store_link_ref(n->slots, link, ret_ref);
}

static uint64_t word_of(node_t *n, mob_ref_t ref) {
    return atomic_load_explicit(&n->slots[ref.slot].word, memory_order_acquire);
}

/* PENDING, and no newer object: the generation is read after the word. */
static bool is_pending(node_t *n, mob_ref_t ref) {
    return (word_of(n, ref) & STORE_STATE) == STORE_PENDING &&
           atomic_load_explicit(&n->slots[ref.slot].generation, memory_order_relaxed) ==
               ref.generation;
}

mob_ref_t node_flow_tail(node_t *n, mob_ref_t flow) {
    mob_ref_t tail = {0};
    if (flow.slot == 0 || flow.slot >= n->grants.slots.granted || !is_pending(n, flow)) return tail;
    const store_flow_t *f = &n->slots[flow.slot].value.flow;
    return link_ref(n, f->links[store_flow_made(f) % 2], &tail) ? tail : (mob_ref_t){0};
}

/* Publishes item `index`, which is written, if its maker has not. */
static void item_seal(node_t *n, const store_flow_t *f, mob_ref_t item, uint64_t index) {
    store_slot_t *slot = &n->slots[item.slot];
    if (!is_pending(n, item)) return;
    uint64_t meta = slot->meta;
    bool escaped =
        store_meta_in_file(meta) || (!store_meta_inline(meta) && slot->value.large.ref_count > 0);
    if (index == 0)
        (void)store_slot_seal(slot, escaped);
    else
        (void)store_slot_seal_given(slot, escaped, store_flow_reader(f));
    node_object_t *o = escaped ? node_object_find(n, item) : NULL;
    if (o != NULL) node_object_contents_hold(n, o);
}

void node_flow_mend(node_t *n, const node_task_t *t) {
    store_flow_t *f = flow_of(n, t);
    uint64_t made = store_flow_made(f);
    mob_ref_t tail, last;
    /* nobody waits any more, and no other node makes items */
    atomic_fetch_and(&f->made, ~(STORE_WAITS | STORE_FAR));
    if (made == 0 || !link_ref(n, f->links[made % 2], &tail) ||
        !link_ref(n, f->links[(made - 1) % 2], &last) ||
        n->slots[last.slot].value.item.next != store_link(tail))
        return;
    item_seal(n, f, last, made - 1);
    uint64_t word = word_of(n, last);
    if ((word & (STORE_STATE | STORE_DROPPED)) != (STORE_SEALED | STORE_DROPPED)) return;
    /* The reader has closed the flow, and the maker died before it had drawn the consequence. */
    (void)store_slot_abandon(&n->slots[tail.slot]);
    node_object_sealed(n, last);
}

/* The tail is published: frees it if the flow is closed. */
static void tail_settle(node_t *n, mob_ref_t tail) {
    if (word_of(n, tail) & STORE_DROPPED) node_object_sealed(n, tail);
}

void node_flow_end(node_t *n, const node_task_t *t) {
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    if (tail.slot == 0) return;
    node_flow_mend(n, t);
    item_seal(n, flow_of(n, t), tail, store_flow_made(flow_of(n, t)));
    tail_settle(n, tail);
}

void node_flow_stop(node_t *n, const node_task_t *t) {
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    if (tail.slot == 0) return;
    node_flow_mend(n, t);
    if (!is_pending(n, tail)) return;
    store_slot_t *slot = &n->slots[tail.slot];
    slot->value.item.next = 0;
    slot->meta = store_meta(0, (mob_format_t)STORE_FORMAT_END, MOB_OK, true);
    item_seal(n, flow_of(n, t), tail, store_flow_made(flow_of(n, t)));
    tail_settle(n, tail);
}

void node_flow_fail(node_t *n, const node_task_t *t, mob_status_t status, const char *text,
                    const node_actor_t *actor) {
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    if (tail.slot == 0) return;
    node_flow_mend(n, t);
    if (!is_pending(n, tail)) return;
    node_slot_write_error(n, tail, status, text, actor);
    n->slots[tail.slot].value.item.next = 0;
    item_seal(n, flow_of(n, t), tail, store_flow_made(flow_of(n, t)));
    tail_settle(n, tail);
}

void node_flow_quiet(node_t *n, const node_task_t *t) {
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    if (tail.slot != 0) node_slot_quiet(n, tail);
}

uint32_t node_flow_limit(node_t *n, mob_ref_t flow) {
    return is_pending(n, flow) ? store_flow_limit(&n->slots[flow.slot].value.flow) : 0;
}

/* ---- the daemon as the maker ---- */

void node_flow_far(node_t *n, const node_task_t *t) {
    if (is_pending(n, t->refs[1])) atomic_fetch_or(&flow_of(n, t)->made, STORE_FAR);
}

bool node_flow_look(node_t *n, const node_task_t *t, uint64_t *ret_made, uint64_t *ret_taken,
                    bool *ret_closed) {
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    if (tail.slot == 0 || !is_pending(n, tail)) return false;
    const store_flow_t *f = flow_of(n, t);
    uint64_t taken = atomic_load(&f->taken);
    *ret_made = store_flow_made(f);
    *ret_taken = taken & ~STORE_CLOSED;
    *ret_closed = (taken & STORE_CLOSED) ||
                  (atomic_load_explicit(&f->made, memory_order_relaxed) & STORE_RAISED);
    return true;
}

/* The reader holds what the daemon counts, unless it has let go of it before. The worker whose slot
 * it is, if a run on this node has opened it, does not. */
static void reader_hold(node_t *n, node_object_t *o, uint32_t reader, uint64_t word) {
    const node_client_t *c = n->clients[reader];
    if (o == NULL) return;
    uint32_t owner = n->grants.slots.owner[o->slot / STORE_SLOT_BLOCK];
    if (!(word & STORE_DROPPED) && c != NULL) node_object_hold(n, o, reader, false);
    if (owner != reader && !node_proxy_owns(n, owner)) node_object_unhold(n, o, owner);
}

void node_flow_publish(node_t *n, const node_task_t *t, mob_ref_t next, bool is_away, bool raised) {
    store_flow_t *f = flow_of(n, t);
    mob_ref_t tail = node_flow_tail(n, t->refs[1]);
    store_slot_t *slot = &n->slots[tail.slot];
    uint64_t made = store_flow_made(f), word;
    uint32_t reader = store_flow_reader(f);
    bool escaped = node_object_known(n, tail) != NULL;
    slot->value.item.next = store_link(next);
    f->links[(made + 1) % 2] = store_link(next);
    atomic_store(&f->made, (made + 1) | STORE_FAR | (raised ? STORE_RAISED : 0));
    if (made == 0)
        word = is_away ? store_slot_seal_away(slot) : store_slot_seal(slot, escaped);
    else
        word = is_away ? store_slot_seal_away_given(slot, reader)
                       : store_slot_seal_given(slot, escaped, reader);
    if (made > 0) reader_hold(n, node_object_known(n, tail), reader, word);
    /* the next one first: see store/flow.h */
    if (word & STORE_DROPPED) (void)store_slot_abandon(&n->slots[next.slot]);
    node_slot_wake(n, word);
    node_object_sealed(n, tail);
    if (raised) node_bells_ring(n);
}

void node_flow_named(node_t *n, const node_task_t *t, node_object_t *tail) {
    const store_flow_t *f = flow_of(n, t);
    uint64_t word = atomic_load_explicit(&n->slots[tail->slot].word, memory_order_acquire);
    if (store_flow_made(f) > 0) reader_hold(n, tail, store_flow_reader(f), word);
}

void node_flows_mark(node_t *n, uint8_t *marks) {
    for (uint32_t r = 0; n->flows > 0 && r < n->grants.records.granted; r++) {
        if (n->tasks[r] == NULL || !n->tasks[r]->flows) continue;
        marks[node_flow_tail(n, n->tasks[r]->refs[1]).slot] = NODE_TAIL;
    }
}

bool node_flow_spares(node_client_t *client, uint32_t slot, uint64_t word) {
    node_t *n = client->node;
    if ((word & (STORE_STATE | STORE_GIVEN | STORE_DROPPED)) != (STORE_SEALED | STORE_GIVEN))
        return false;
    uint32_t keeper = node_slot_keeper(n, slot, word);
    if (keeper == NODE_ORPHAN || keeper == client->number) return false;
    if (!(word & STORE_ESCAPED)) return true;
    /* its maker may have died before it told what is inside */
    mob_ref_t ref = {.slot = slot,
                     .generation =
                         atomic_load_explicit(&n->slots[slot].generation, memory_order_relaxed)};
    node_object_t *o = node_object_find(n, ref);
    if (o != NULL) node_object_contents_hold(n, o);
    return true;
}

/* ---- the reader's end ---- */

/* In its place: from now on whatever is made is freed by its maker. */
static void flow_close(node_t *n, const node_task_t *t) {
    enum { TRIES = 1000 }; /* a maker that does not look at CLOSED is none of ours */
    store_flow_t *f = flow_of(n, t);
    if (!is_pending(n, t->refs[1])) return;
    atomic_fetch_or(&f->taken, STORE_CLOSED);
    if (node_forward_is(t)) node_inflow_note(t);
    for (int i = 0; i < TRIES; i++) {
        mob_ref_t tail = node_flow_tail(n, t->refs[1]);
        if (tail.slot == 0 || store_slot_abandon(&n->slots[tail.slot])) return;
    }
}

static void given_release(node_t *n, uint32_t reader) {
    for (uint32_t i = STORE_SLOT_BLOCK; i < n->grants.slots.granted; i++) {
        uint64_t word = atomic_load_explicit(&n->slots[i].word, memory_order_acquire);
        if ((word & (STORE_STATE | STORE_GIVEN)) != (STORE_SEALED | STORE_GIVEN) ||
            store_word_reader(word) != reader || n->objects[i] != NULL)
            continue;
        node_slot_release(n, i);
    }
}

void node_flows_forget(node_client_t *client) {
    node_t *n = client->node;
    if (!client->reads) return;
    for (size_t s = 0; s < client->records.count; s++) {
        uint32_t first = client->records.items[s].first,
                 end = first + client->records.items[s].count;
        for (uint32_t r = first; r < end; r++)
            if (n->tasks[r] != NULL && n->tasks[r]->flows &&
                n->tasks[r]->submitter == client->number)
                flow_close(n, n->tasks[r]);
    }
    given_release(n, client->number);
}
