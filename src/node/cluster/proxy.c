/*
 * Proxies.
 *
 *   PENDING        this node knows of no value. The home was asked (is_asked), or a task that runs
 *                  here makes it (is_made)
 *   SEALED         with its value: it was small and came, or was made here. Or an error
 *   SEALED, AWAY   the value is on another node, and is pulled when somebody opens it
 *   gone           nothing here holds it: the sweep of objects at zero frees the slot
 *
 * The slot is one of `others`, a client without a process, and counts as escaped from the start.
 * `others` has no implicit hold on it as an owner would, or no proxy would ever go: so a new one is
 * at zero at once, and stays only if somebody holds it by the time that all rings were read.
 *
 * A PENDING proxy is written by the daemon, or by the worker that makes it, never by both: what the
 * home says while a run makes it is not listened to, and the home is asked again after a run that
 * made nothing. Its errors count as seen: the node that submitted the task tells of them.
 *
 * A value that is elsewhere is described by `elsewhere` in the book, of an own object as of a
 * proxy. It stays there when the value has come: the copy here may go again. Without it an object
 * that is AWAY and has no copy on disk is gone, and is made again (remake.h).
 */
#include "node/cluster/proxy.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/actor_seat.h"
#include "node/cluster/cluster.h"
#include "node/space/restore.h"
#include "node/state.h"
#include "node/value.h"

/* ---- the client that stands for others ---- */

mob_status_t node_proxies_start(node_cluster_t *cluster) {
    node_proxies_t *p = &cluster->proxies;
    node_client_t *c = node_client_new(cluster->node);
    if (c == NULL) return MOB_ENOMEM;
    if (!node_number_take_high(c)) {
        node_client_close(c);
        return MOB_ELIMIT;
    }
    c->role = NODE_PEER;
    c->state = NODE_REMOTE;
    p->others = c;
    p->own.submitter = p->swept.submitter = c->number;
    base_map_init(&p->by_id, MOB_ID_SIZE);
    atomic_store(&cluster->node->shared->clustered, 1);
    return MOB_OK;
}

void node_proxies_end(node_cluster_t *cluster) {
    base_map_fini(&cluster->proxies.by_id);
    vec_free(&cluster->proxies.own.slots.free);
    vec_free(&cluster->proxies.own.slots.spans);
    vec_free(&cluster->proxies.swept.slots.free);
    vec_free(&cluster->proxies.swept.slots.spans);
}

bool node_proxy_owns(const node_t *n, uint32_t client) {
    return n->cluster != NULL && n->cluster->proxies.others != NULL &&
           n->cluster->proxies.others->number == client;
}

/* ---- ids and references ---- */

typedef struct {
    uint8_t bytes[MOB_ID_SIZE];
} id_key_t;

static id_key_t key_of(frame_id_t id) {
    id_key_t key;
    base_writer_t w = {.bytes = key.bytes};
    frame_id_put(&w, id);
    return key;
}

static mob_ref_t ref_of(const node_object_t *o) {
    return (mob_ref_t){.slot = o->slot, .generation = o->generation};
}

static node_object_t *proxy_look(const node_t *n, frame_id_t id) {
    id_key_t key = key_of(id);
    return n->cluster != NULL ? base_map_get(&n->cluster->proxies.by_id, &key) : NULL;
}

frame_id_t node_proxy_id(node_t *n, mob_ref_t ref) {
    if (ref.slot == 0) return (frame_id_t){0};
    const node_object_t *o = node_object_known(n, ref);
    if (o != NULL && o->proxy != NULL) return o->proxy->id;
    if (o != NULL && o->actor != NULL && o->actor->seat != NULL) return node_seat_id(n, o->actor);
    return (frame_id_t){.home = n->incarnation, .number = ref.slot, .generation = ref.generation};
}

mob_ref_t node_proxy_find(node_t *n, frame_id_t id) {
    if (id.home == n->incarnation && id.number < STORE_MAX_SLOTS)
        return (mob_ref_t){.slot = id.number, .generation = id.generation};
    const node_object_t *o = proxy_look(n, id);
    return o != NULL ? ref_of(o) : (mob_ref_t){0};
}

/* ---- beginning and end ---- */

static uint64_t word_of(const node_t *n, uint32_t slot) {
    return atomic_load_explicit(&n->slots[slot].word, memory_order_acquire);
}

static bool is_pending(const node_t *n, uint32_t slot) {
    return (word_of(n, slot) & STORE_STATE) == STORE_PENDING;
}

/* A slot that is open, and its book; NULL: no memory, and nothing has changed. */
static node_object_t *slot_open(node_t *n) {
    node_proxies_t *p = &n->cluster->proxies;
    mob_ref_t ref;
    if (!node_own_slot(n, &p->own, &ref.slot)) return NULL;
    store_slot_t *slot = &n->slots[ref.slot];
    ref.generation = store_slot_open(slot);
    slot->value.maker = UINT32_MAX;
    atomic_fetch_or_explicit(&slot->word, STORE_ESCAPED | STORE_SEEN | STORE_FOREIGN,
                             memory_order_relaxed);
    node_object_t *o = node_object_find(n, ref);
    if (o != NULL) return o;
    store_slot_close(slot);
    node_own_slot_back(&p->own, ref.slot);
    return NULL;
}

static node_object_t *proxy_make(node_t *n, frame_id_t id) {
    id_key_t key = key_of(id);
    node_proxy_t *proxy = calloc(1, sizeof *proxy);
    node_object_t *o = proxy != NULL ? slot_open(n) : NULL;
    if (o == NULL || !base_map_put(&n->cluster->proxies.by_id, &key, o)) {
        free(proxy);
        if (o != NULL) node_run_slot_free(n, &n->cluster->proxies.own, ref_of(o));
        return NULL;
    }
    proxy->id = id;
    o->proxy = proxy;
    node_object_settle(n, o); /* at zero, until somebody holds it */
    return o;
}

void node_proxy_free(node_t *n, uint32_t slot, node_proxy_t *proxy) {
    node_proxies_t *p = &n->cluster->proxies;
    id_key_t key = key_of(proxy->id);
    (void)base_map_remove(&p->by_id, &key);
    node_holding_dropped(n, proxy->id);
    if (is_pending(n, slot))
        store_slot_close(&n->slots[slot]); /* nobody makes it, and nobody can name it */
    else
        node_slot_release(n, slot);
    node_own_slot_back(&p->own, slot);
    free(proxy);
}

/* ---- whether there is a value ---- */

static void owner_died(node_t *n, const node_object_t *o) {
    char words[512];
    const node_row_t *row = node_roster_find(&n->cluster->roster, o->proxy->id.home);
    bool has_reason = row != NULL && row->reason != NULL;
    snprintf(words, sizeof words,
             "the node %s is dead%s%s. Its processes had put this object or submitted its task, "
             "and no value of it is here: submit the task again on a node that lives",
             row != NULL && row->name != NULL ? row->name : "that it came from",
             has_reason ? ": " : "", has_reason ? row->reason : "");
    node_proxy_fail(n, ref_of(o), MOB_EOWNER, words);
}

/* Its value comes from the home, unless that is dead. */
static void proxy_ask(node_t *n, node_object_t *o) {
    node_proxy_t *proxy = o->proxy;
    if (proxy->is_asked || proxy->is_made || !is_pending(n, o->slot)) return;
    if (!member_knows(n->cluster->member, proxy->id.home))
        owner_died(n, o);
    else if (proxy->is_lost)
        node_proxy_fail(n, ref_of(o), MOB_ELOST, "its node does not have this object any more");
    else
        proxy->is_asked = node_watch_ask(n->cluster, proxy->id);
    if (!proxy->is_asked && is_pending(n, o->slot)) n->cluster->proxies.unasked = true;
}

/* The one that there is, or a new one, which the room refs is told of. */
static node_object_t *proxy_get(node_t *n, frame_id_t id) {
    if (n->cluster == NULL || n->cluster->proxies.others == NULL || id.home == 0 ||
        id.home == n->incarnation)
        return NULL;
    node_object_t *o = proxy_look(n, id);
    if (o == NULL) o = proxy_make(n, id);
    if (o == NULL) return NULL;
    o->proxy->is_cached = false;
    o->proxy->is_lost = !member_knows(n->cluster->member, id.home);
    node_holding_held(n, id);
    return o;
}

mob_ref_t node_proxy_get(node_t *n, frame_id_t id) {
    node_object_t *o = proxy_get(n, id);
    if (o == NULL) return (mob_ref_t){0};
    proxy_ask(n, o);
    return ref_of(o);
}

mob_ref_t node_proxy_result(node_t *n, frame_id_t id) {
    node_object_t *o = proxy_get(n, id);
    if (o == NULL || o->proxy->is_made || !is_pending(n, o->slot)) return (mob_ref_t){0};
    o->proxy->is_made = true;
    return ref_of(o);
}

void node_proxy_result_end(node_t *n, node_object_t *o) {
    o->proxy->is_made = false;
    o->proxy->is_asked = false; /* what was answered meanwhile was not listened to */
    if (o->holders.count > 0 || o->uses > 1) proxy_ask(n, o); /* one use is the run's */
}

static void proxy_lost(node_t *n, node_object_t *o) {
    o->proxy->is_lost = true;
    o->proxy->is_asked = false;
    proxy_ask(n, o);
    node_object_settle(n, o); /* a function: nobody will say that it may be unloaded */
}

void node_proxy_gone(node_t *n, frame_id_t id) {
    node_object_t *o = proxy_look(n, id);
    if (o != NULL) proxy_lost(n, o);
}

/* Calls `f` for all proxies of this home, or with 0 of all homes. What waits for one of them may
 * make and free others. False: no memory. */
static bool proxies_each(node_cluster_t *cluster, uint64_t home,
                         void (*f)(node_t *, node_object_t *)) {
    node_t *n = cluster->node;
    VEC(mob_ref_t) found = {0};
    size_t cursor = 0;
    const void *key;
    void *value;
    if (!vec_reserve(&found, cluster->proxies.by_id.count)) return false;
    while (base_map_each(&cluster->proxies.by_id, &cursor, &key, &value)) {
        const node_object_t *o = value;
        if (home == 0 || o->proxy->id.home == home) found.items[found.count++] = ref_of(o);
    }
    for (size_t i = 0; i < found.count; i++) {
        node_object_t *o = node_object_known(n, found.items[i]);
        if (o != NULL) f(n, o);
    }
    vec_free(&found);
    return true;
}

void node_proxies_ask(node_cluster_t *cluster) {
    if (!cluster->proxies.unasked) return;
    cluster->proxies.unasked = false;
    if (!proxies_each(cluster, 0, proxy_ask)) cluster->proxies.unasked = true;
}

void node_proxies_died(node_cluster_t *cluster, uint64_t home) {
    (void)proxies_each(cluster, home, proxy_lost); /* refs says the same of those that it counts */
}

/* ---- values ---- */

static void slot_sealed(node_t *n, mob_ref_t ref, uint64_t word) {
    node_slot_wake(n, word);
    node_object_sealed(n, ref);
}

mob_status_t node_proxy_seal(node_t *n, mob_ref_t ref, mob_format_t format, mob_status_t error,
                             const uint8_t *bytes, uint64_t size, const mob_ref_t *refs,
                             uint32_t count) {
    store_slot_t *slot = &n->slots[ref.slot];
    if (node_object_known(n, ref) == NULL || !is_pending(n, ref.slot)) return MOB_OK;
    mob_status_t status = node_value_write(n, ref, format, error, bytes, size, refs, count);
    if (status != MOB_OK) return status;
    if (!store_meta_inline(slot->meta))
        atomic_store_explicit(&slot->value.large.used_ms, base_clock_coarse_ms(),
                              memory_order_relaxed);
    slot_sealed(n, ref, store_slot_seal(slot, true));
    if (error != MOB_OK) node_bells_ring(n);
    return MOB_OK;
}

void node_proxy_fail(node_t *n, mob_ref_t ref, mob_status_t status, const char *words) {
    if (node_object_known(n, ref) == NULL || !is_pending(n, ref.slot)) return;
    node_slot_fail(n, ref, status, words, NULL);
    node_object_sealed(n, ref);
    node_bells_ring(n);
}

bool node_proxy_is_elsewhere(node_t *n, const node_object_t *o) {
    return o->elsewhere != NULL && node_object_is_away(n, o);
}

void node_proxy_describe(node_t *n, const node_object_t *o, node_elsewhere_t *ret_what) {
    const store_slot_t *slot = &n->slots[o->slot];
    if (o->elsewhere != NULL) {
        *ret_what = *o->elsewhere;
        return;
    }
    uint64_t meta = slot->meta;
    *ret_what = (node_elsewhere_t){.bytes = store_meta_size(meta),
                                   .format = store_meta_format(meta),
                                   .error = store_meta_error(meta),
                                   .ref_count = slot->value.large.ref_count};
    ret_what->pulled_bytes = store_block_size(ret_what->bytes, ret_what->ref_count);
}

mob_status_t node_proxy_put_elsewhere(node_t *n, mob_ref_t ref, const node_elsewhere_t *what) {
    store_slot_t *slot = &n->slots[ref.slot];
    atomic_fetch_or_explicit(&slot->word, STORE_ESCAPED, memory_order_acq_rel);
    node_object_t *o = node_object_find(n, ref);
    node_elsewhere_t *elsewhere = o != NULL ? malloc(sizeof *elsewhere) : NULL;
    if (elsewhere == NULL) return MOB_ENOMEM;
    *elsewhere = *what;
    free(o->elsewhere);
    o->elsewhere = elsewhere;
    slot->value.large.block = 0; /* nobody reads it while it is AWAY */
    slot->value.large.ref_count = what->ref_count;
    slot->meta = store_meta(what->bytes, what->format, what->error, false);
    return MOB_OK;
}

mob_status_t node_proxy_seal_elsewhere(node_t *n, mob_ref_t ref, const node_elsewhere_t *what) {
    if (!is_pending(n, ref.slot)) return MOB_OK;
    mob_status_t status = node_proxy_put_elsewhere(n, ref, what);
    if (status != MOB_OK) return status;
    slot_sealed(n, ref, store_slot_seal_away(&n->slots[ref.slot]));
    if (what->error != MOB_OK) node_bells_ring(n);
    return MOB_OK;
}

/* The slot, which was AWAY, has its value: whoever waits goes on. */
static void object_return(node_t *n, node_object_t *o) {
    store_slot_return(&n->slots[o->slot]);
    node_restore_tell(n, o, MOB_OK);
    node_object_sealed(n, ref_of(o));
    node_object_settle(n, o); /* its last holder may have gone meanwhile */
}

mob_status_t node_proxy_adopt(node_t *n, frame_id_t id, mob_ref_t from, mob_ref_t *ret_ref) {
    node_value_t found;
    node_object_t *o = proxy_get(n, id);
    if (o == NULL) return MOB_ENOMEM;
    bool pending = is_pending(n, o->slot);
    *ret_ref = ref_of(o);
    if (o->proxy->is_made || (!pending && !node_object_is_away(n, o))) return MOB_EEXISTS;
    if (!node_value_read(n, from, &found) || !node_value_move(n, from, &found, *ret_ref))
        return MOB_ELOST;
    if (pending)
        slot_sealed(n, *ret_ref, store_slot_seal(&n->slots[o->slot], true));
    else
        object_return(n, o);
    return MOB_OK;
}

void node_proxy_fill(node_t *n, node_object_t *o, uint64_t block) {
    store_slot_t *slot = &n->slots[o->slot];
    const node_elsewhere_t *what = o->elsewhere;
    /* as the home has said: every client can write to a slot */
    slot->meta = store_meta(what->bytes, what->format, what->error, false);
    slot->value.large.ref_count = what->ref_count;
    slot->value.large.block = block;
    atomic_store_explicit(&slot->value.large.used_ms, base_clock_coarse_ms(), memory_order_relaxed);
    node_object_contents_hold(n, o);
    object_return(n, o);
}

void node_proxy_lose(node_t *n, node_object_t *o, mob_status_t status, const char *words) {
    bool away = node_object_is_away(n, o);
    free(o->elsewhere);
    o->elsewhere = NULL;
    if (!away) return; /* the copy here is one that is left */
    if (o->proxy == NULL) {
        free(o->lost);
        o->lost = strdup(words);
        node_remake_want(n, o);
        return;
    }
    node_object_contents_release(n, o);
    node_slot_write_error(n, ref_of(o), status, words, NULL);
    object_return(n, o);
    node_bells_ring(n);
}
