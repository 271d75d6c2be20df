/*
 * The primary copy of another node's object, which nothing here needs any more: it stays because
 * its home says so. But a proxy that stayed for it would count as a holder at the home, and then
 * the home would never let go of either. So the value moves out of the proxy's slot, into one of
 * the daemon's own, a shelf, which no other node knows of; and the proxy goes.
 *
 * When somebody here needs the object again there is a new proxy, which is AWAY, and the value
 * moves into its slot. Only names change: the bytes stay where they are, also for readers of other
 * nodes. A value on the shelf goes to disk as any other does, and comes back before it is moved.
 */
#include "base/clock.h"
#include "node/cluster/cluster.h"
#include "node/cluster/pulled.h"
#include "node/space/restore.h"
#include "node/state.h"
#include "node/value.h"

static mob_ref_t ref_of(const node_object_t *o) {
    return (mob_ref_t){.slot = o->slot, .generation = o->generation};
}

static bool is_at(const node_pulled_t *e, const node_object_t *o) {
    return e->ref.slot == o->slot && e->ref.generation == o->generation;
}

/* A slot of the daemon's own with a book; slot 0: there is none. */
static mob_ref_t slot_open(node_t *n) {
    mob_ref_t ref;
    if (!node_own_slot(n, &n->grants.own, &ref.slot)) return (mob_ref_t){0};
    ref.generation = store_slot_open(&n->slots[ref.slot]);
    atomic_fetch_or_explicit(&n->slots[ref.slot].word, STORE_ESCAPED | STORE_SEEN,
                             memory_order_relaxed);
    node_object_t *o = node_object_find(n, ref);
    if (o != NULL) {
        node_object_use(o); /* for as long as it is a shelf */
        return ref;
    }
    store_slot_close(&n->slots[ref.slot]);
    node_own_slot_back(&n->grants.own, ref.slot);
    return (mob_ref_t){0};
}

/* The value goes from one slot to the other. False: not now. */
static bool value_move(node_t *n, node_object_t *from, mob_ref_t to) {
    node_value_t value;
    mob_ref_t ref = ref_of(from);
    if (node_object_is_away(n, from)) node_restore_own(n, from);
    if (from->moving || node_object_is_away(n, from) || !node_value_read(n, ref, &value) ||
        !node_value_move(n, ref, &value, to))
        return false;
    atomic_store_explicit(&n->slots[to.slot].value.large.used_ms, base_clock_coarse_ms(),
                          memory_order_relaxed);
    n->slots[ref.slot].meta = store_meta(0, store_meta_format(value.meta), MOB_OK, true);
    return true;
}

bool node_shelf_put(node_pulling_t *p, node_pulled_t *e, node_object_t *o) {
    node_t *n = p->node;
    mob_ref_t shelf = slot_open(n);
    uint64_t key = store_link(shelf);
    if (shelf.slot == 0) return false;
    if (!base_map_put(&p->shelves, &key, e) || !value_move(n, o, shelf)) {
        (void)base_map_remove(&p->shelves, &key);
        node_run_slot_free(n, &n->grants.own, shelf);
        return false;
    }
    (void)store_slot_seal(&n->slots[shelf.slot], true);
    if (e->is_used) node_object_unuse_ref(n, e->ref);
    e->is_used = false;
    e->is_shelved = true;
    e->ref = shelf;
    return true;
}

static void shelf_free(node_pulling_t *p, node_pulled_t *e) {
    uint64_t key = store_link(e->ref);
    (void)base_map_remove(&p->shelves, &key);
    node_run_slot_free(p->node, &p->node->grants.own, e->ref);
    e->is_shelved = e->is_used = false;
}

bool node_shelf_take(node_pulling_t *p, node_pulled_t *e) {
    node_t *n = p->node;
    mob_ref_t to = node_proxy_find(n, e->id);
    node_object_t *o = node_object_known(n, to), *shelf = node_object_known(n, e->ref);
    if (o == NULL || shelf == NULL || !node_proxy_is_elsewhere(n, o) || !value_move(n, shelf, to))
        return false;
    shelf_free(p, e);
    e->ref = to;
    store_slot_return(&n->slots[to.slot]);
    node_restore_tell(n, o, MOB_OK);
    node_object_sealed(n, to);
    node_object_settle(n, o);
    return true;
}

void node_shelf_free(node_pulling_t *p, node_pulled_t *e) {
    shelf_free(p, e);
    e->ref = node_proxy_find(p->node, e->id);
}

bool node_pulling_keeps(node_t *n, node_object_t *o) {
    node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    node_pulled_t *e = p != NULL && o->proxy != NULL ? node_pulled_find(p, o->proxy->id) : NULL;
    pull_copy_view_t view;
    if (e == NULL || !is_at(e, o) || e->is_owned || e->state == PULLED_NONE ||
        !pull_copy_look(p->pull, &e->id, &view) || !view.is_primary)
        return false;
    if (node_shelf_put(p, e, o)) return false;
    e->is_kept = true; /* until it can be moved */
    node_pulled_update(p, e);
    node_pulling_wake(p, false);
    return true;
}

bool node_shelf_is_due(const node_pulling_t *p, const node_pulled_t *e) {
    const node_object_t *o = node_object_known(p->node, e->ref);
    return e->is_kept && o != NULL && o->holders.count == 0 && o->uses <= 1;
}
