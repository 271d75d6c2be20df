/*
 * Who holds what. Only objects that more than their owner may know of are here; all others live and
 * die in their owner's process.
 *
 * An object comes here when it is first named: as argument of a task, inside a value, as an actor.
 * Its owner then counts as a holder without having said so, because an owner whose slot has escaped
 * always says when its last reference goes (or dies, and is struck off).
 *
 * Holders: processes. Uses: records (arguments until the task is done) and containers (references
 * inside a value). At zero of both the daemon puts the object aside. It frees the object only after
 * it has read every ring once more up to where that ended then, since a message that holds the
 * object again may lie in one.
 *
 * Other nodes that hold an own object are one holder, a client without a process. What only that
 * one holds is at zero, too: the room refs knows whether they still do (cluster/holding.c).
 *
 * A third reason to stay is lineage.c's: an object without holders and uses that may be needed to
 * make another one again keeps its slot, not its value.
 *
 * Invariant: as long as any process can name an object, the object has a holder or a use. Each
 * message that adds one lies in its sender's ring before the message that gives up what the sender
 * knew the object through.
 */
#include <stdlib.h>
#include <string.h>

#include "node/cluster/holding.h"
#include "node/cluster/proxy.h"
#include "node/cluster/pulling.h"
#include "node/cluster/value.h"
#include "node/space/survey.h"
#include "wire/direct.h"

static bool slot_is_current(node_t *n, mob_ref_t ref) {
    if (ref.slot == 0 || ref.slot >= STORE_MAX_SLOTS ||
        n->grants.slots.owner[ref.slot / STORE_SLOT_BLOCK] == 0)
        return false;
    const store_slot_t *slot = &n->slots[ref.slot];
    return (atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) != STORE_FREE &&
           atomic_load_explicit(&slot->generation, memory_order_relaxed) == ref.generation;
}

void node_object_unload(node_t *n, node_object_t *o) {
    o->forget_told = true;
    for (size_t i = 0; i < o->holders.count; i++) {
        node_client_t *c = n->clients[o->holders.items[i] & ~NODE_CACHED];
        if (c != NULL && o->holders.items[i] & NODE_CACHED)
            node_client_tell(c, wire_about_object(WIRE_FORGET, o->slot, o->generation));
    }
}

/* A function that only workers hold, because they have it loaded, is not needed any more, unless it
 * is another node's, which will say so. Other nodes that hold it load it from their own copies. */
static void function_forget(node_t *n, node_object_t *o) {
    size_t cached = 0;
    for (size_t i = 0; i < o->holders.count; i++)
        if (o->holders.items[i] & NODE_CACHED)
            cached++;
        else if (!node_proxy_owns(n, o->holders.items[i]))
            return;
    if (cached == 0 || (o->proxy != NULL && node_holding_cached(n, o))) return;
    node_object_unload(n, o);
}

/* Whether anything on this node holds it; other nodes may. */
static bool is_held_here(node_t *n, const node_object_t *o) {
    return o->uses > 0 || (o->holders.count > 0 && !node_holding_is_abroad(n, o));
}

static void object_check_zero(node_t *n, node_object_t *o) {
    if (o->uses == 0 && o->holders.count > 0 && !o->forget_told) function_forget(n, o);
    if (is_held_here(n, o) || o->at_zero || o->released) return;
    o->at_zero = vec_push(&n->zero, o);
}

/* Forgets an object whose slot its owner has freed and opened again: a client named the object
 * before it escaped. */
static void object_discard(node_t *n, node_object_t *o);

static node_object_t *object_make(node_t *n, mob_ref_t ref) {
    node_object_t *o = calloc(1, sizeof *o);
    if (o == NULL) return NULL;
    o->slot = ref.slot;
    o->generation = ref.generation;
    n->objects[ref.slot] = o;
    uint64_t word = atomic_load_explicit(&n->slots[ref.slot].word, memory_order_acquire);
    uint32_t keeper = node_slot_keeper(n, ref.slot, word);
    if (keeper != NODE_ORPHAN && !node_proxy_owns(n, keeper) && !(word & STORE_DROPPED))
        node_object_hold(n, o, keeper, false);
    return o;
}

node_object_t *node_object_known(node_t *n, mob_ref_t ref) {
    node_object_t *o = ref.slot != 0 && ref.slot < STORE_MAX_SLOTS ? n->objects[ref.slot] : NULL;
    return o != NULL && o->generation == ref.generation ? o : NULL;
}

bool node_object_is_away(node_t *n, const node_object_t *o) {
    return atomic_load_explicit(&n->slots[o->slot].word, memory_order_acquire) & STORE_AWAY;
}

node_object_t *node_object_find(node_t *n, mob_ref_t ref) {
    if (ref.slot == 0 || ref.slot >= STORE_MAX_SLOTS) return NULL;
    node_object_t *known = node_object_known(n, ref), *o = n->objects[ref.slot];
    if (known != NULL) return known;
    if (!slot_is_current(n, ref) ||
        !(atomic_load_explicit(&n->slots[ref.slot].word, memory_order_acquire) & STORE_ESCAPED))
        return NULL;
    if (o != NULL) object_discard(n, o);
    return object_make(n, ref);
}

/* False: somebody is about to free it. */
static bool slot_escape(store_slot_t *slot) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    while ((word & STORE_STATE) == STORE_PENDING)
        if (word & STORE_ESCAPED ||
            atomic_compare_exchange_weak_explicit(&slot->word, &word, word | STORE_ESCAPED,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    return store_slot_escape(slot);
}

node_object_t *node_object_share(node_t *n, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    if (o != NULL) return o;
    return slot_is_current(n, ref) && slot_escape(&n->slots[ref.slot]) ? node_object_find(n, ref)
                                                                       : NULL;
}

void node_object_escape(node_t *n, mob_ref_t ref) {
    if (ref.slot == 0 || ref.slot >= STORE_MAX_SLOTS || !slot_is_current(n, ref)) return;
    /* The owner asks the daemon from now on, also if this run of the task dies before it seals. */
    atomic_fetch_or_explicit(&n->slots[ref.slot].word, STORE_ESCAPED, memory_order_acq_rel);
    node_object_t *o = node_object_find(n, ref);
    if (o == NULL) return;
    node_object_contents_release(n, o); /* of a result that was stored before and replaced */
    node_object_contents_hold(n, o);
    object_check_zero(n, o); /* it may have been dropped before the daemon knew of it */
}

void node_object_hold(node_t *n, node_object_t *o, uint32_t client, bool cached) {
    for (size_t i = 0; i < o->holders.count; i++) {
        if ((o->holders.items[i] & ~NODE_CACHED) != client) continue;
        if (!cached) o->holders.items[i] = (uint16_t)client;
        return;
    }
    if (vec_push(&o->holders, (uint16_t)(client | (cached ? NODE_CACHED : 0))) &&
        n->clients[client] != NULL)
        n->clients[client]->held++;
    if (!cached) return;
    o->forget_told = false;
    object_check_zero(n, o); /* the other holders may have dropped it before the daemon read this */
}

void node_object_unhold(node_t *n, node_object_t *o, uint32_t client) {
    for (size_t i = 0; i < o->holders.count; i++) {
        if ((o->holders.items[i] & ~NODE_CACHED) != client) continue;
        vec_swap_remove(&o->holders, i);
        if (n->clients[client] != NULL) n->clients[client]->held--;
        if (o->actor != NULL) node_calls_unheld(n, o->actor, client);
        break;
    }
    object_check_zero(n, o);
}

void node_object_use(node_object_t *o) { o->uses++; }

static void object_unuse(node_t *n, node_object_t *o) {
    if (o->uses > 0) o->uses--;
    object_check_zero(n, o);
}

void node_object_unuse_ref(node_t *n, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    if (o != NULL) object_unuse(n, o);
}

void node_object_unkeep_ref(node_t *n, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    /* a book that was opened anew, by a client's fault, has not been kept */
    if (o == NULL || o->kept == 0) return;
    o->kept--;
    object_check_zero(n, o);
}

void node_object_settle(node_t *n, node_object_t *o) { object_check_zero(n, o); }

/* Copies the list of references inside a value out of shared memory. The list has to lie in a block
 * that names this slot, so that one list does not count for many slots. */
static void contents_copy(node_t *n, node_object_t *o) {
    const store_slot_t *slot = &n->slots[o->slot];
    uint64_t meta = slot->meta, block = slot->value.large.block;
    /* bytes before the references in their block: none if the value lies in a file */
    uint64_t size = store_meta_in_file(meta) ? 0 : store_meta_size(meta);
    uint64_t extent, tag = shm_tag(false, o->slot, o->generation);
    uint32_t units, count = slot->value.large.ref_count;
    if (store_meta_inline(meta) || count == 0 || size > n->config.store_bytes ||
        !node_survey_block(n, block, tag, store_block_size(size, count), &extent, &units) ||
        !vec_reserve(&o->contents, count))
        return;
    memcpy(o->contents.items, n->arena.base + block + store_refs_offset(size),
           (uint64_t)count * sizeof(mob_ref_t));
    o->contents.count = count;
}

/* The value holds what is inside it, once, from when it is known until it is freed. */
void node_object_contents_hold(node_t *n, node_object_t *o) {
    if (o->contents_held) return;
    o->contents_held = true;
    contents_copy(n, o);
    for (size_t i = 0; i < o->contents.count; i++) {
        /* Not its own slot: a newer object there would take the place of this one. */
        mob_ref_t ref = o->contents.items[i];
        node_object_t *inner = ref.slot != o->slot ? node_object_find(n, ref) : NULL;
        if (inner != NULL)
            node_object_use(inner);
        else
            o->contents.items[i].slot = 0;
    }
}

void node_object_contents_release(node_t *n, node_object_t *o) {
    for (size_t i = 0; i < o->contents.count; i++) node_object_unuse_ref(n, o->contents.items[i]);
    o->contents.count = 0;
    o->contents_held = false;
}

void node_object_contents_move(node_object_t *from, node_object_t *to) {
    vec_free(&to->contents);
    memcpy(&to->contents, &from->contents, sizeof to->contents);
    memset(&from->contents, 0, sizeof from->contents);
    to->contents_held = true;
    from->contents_held = false;
}

static void block_free(node_t *n, mob_ref_t ref) {
    const store_slot_t *slot = &n->slots[ref.slot];
    uint64_t block = slot->value.large.block;
    if (!store_meta_inline(slot->meta) && block >= SHM_BLOCK_UNIT && block % SHM_BLOCK_UNIT == 0 &&
        block < n->config.store_bytes)
        shm_block_release(n->arena.base, n->extents, block,
                          shm_tag(false, ref.slot, ref.generation));
}

static void slot_release(node_t *n, uint32_t index, uint64_t generation) {
    store_slot_t *slot = &n->slots[index];
    mob_ref_t ref = {.slot = index, .generation = generation};
    if (store_slot_drop(slot, true) != STORE_DROP_FREE) return;
    if (store_meta_error(slot->meta) != MOB_OK) node_failure_freed(n, ref);
    block_free(n, ref);
    store_slot_close(slot);
}

void node_slot_release(node_t *n, uint32_t slot) {
    slot_release(n, slot, atomic_load_explicit(&n->slots[slot].generation, memory_order_relaxed));
}

static void object_discard(node_t *n, node_object_t *o) {
    n->objects[o->slot] = NULL;
    for (size_t i = 0; o->at_zero && i < n->zero.count; i++)
        if (n->zero.items[i] == o)
            n->zero.items[i] =
                NULL; /* the others stay in their places: a sweep counts the first ones */
    while (o->holders.count > 0) {
        node_client_t *holder = n->clients[vec_pop(&o->holders) & ~NODE_CACHED];
        if (holder != NULL) holder->held--;
    }
    node_object_contents_release(n, o);
    if (o->lineage != NULL) node_lineage_unname(n, o);
    if (o->copy != NULL) node_copy_drop(n, o);
    while (o->askers.count > 0) node_number_unname(n, vec_pop(&o->askers));
    if (o->large != NULL) node_large_free(n, o->large);
    vec_free(&o->holders);
    vec_free(&o->contents);
    vec_free(&o->waiting);
    vec_free(&o->askers);
    node_spare_free(n, o);
    if (o->watchers != NULL) node_watch_freed(n, o);
    free(o->elsewhere);
    free(o->lost);
    free(o);
}

static void object_free(node_t *n, node_object_t *o) {
    uint32_t slot = o->slot;
    uint64_t generation = o->generation;
    node_proxy_t *proxy = o->proxy;
    node_pulling_freed(n, o);
    object_discard(n, o);
    if (proxy != NULL)
        node_proxy_free(n, slot, proxy);
    else
        slot_release(n, slot, generation);
}

void node_object_forget(node_t *n, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    if (o != NULL) object_discard(n, o);
}

/* Only lineages need it: its value goes, and is made again if one of them is run. */
static void object_hollow(node_t *n, node_object_t *o) {
    store_slot_t *slot = &n->slots[o->slot];
    /* An error stays, and so does a value in the slot itself: it costs nothing. */
    if (store_meta_inline(slot->meta) || store_meta_error(slot->meta) != MOB_OK || o->moving ||
        node_object_is_gone(n, o) || o->large != NULL)
        return;
    /* Nobody has a reference, so nobody has pinned it. */
    if (!node_object_is_away(n, o) && !store_slot_leave(slot)) return;
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    node_object_contents_release(n, o);
    if (o->copy != NULL) node_copy_drop(n, o);
    node_pulling_freed(n, o);
    block_free(n, ref);
    slot->value.large.block = 0;
    free(o->elsewhere);
    o->elsewhere = NULL;
}

void node_objects_sweep(node_t *n, size_t count) {
    if (count == 0) {
        n->again |= n->zero.count > 0;
        return;
    }
    /* Taken off first: freeing a container puts more aside, which wait for the next reading. */
    VEC(node_object_t *) settled = {0};
    if (!vec_reserve(&settled, count)) return;
    memcpy(settled.items, n->zero.items, count * sizeof *settled.items);
    memmove(n->zero.items, n->zero.items + count, (n->zero.count - count) * sizeof *n->zero.items);
    n->zero.count -= count;
    for (size_t i = 0; i < count; i++)
        if (settled.items[i] != NULL) settled.items[i]->at_zero = false;
    for (size_t i = 0; i < count; i++) {
        node_object_t *o = settled.items[i];
        /* discarded since; or put aside again when an object before it was freed */
        if (o == NULL || o->at_zero) continue;
        if (is_held_here(n, o)) continue;
        if (o->holders.count > 0) {
            node_holding_unheld(n, o);
            continue;
        }
        if (o->actor != NULL) {
            node_actor_release(n, o->actor);
            continue;
        }
        if (o->kept > 0 && o->lineage != NULL)
            object_hollow(n, o);
        else if (!node_pulling_keeps(n, o))
            object_free(n, o);
    }
    vec_free(&settled);
    if (n->zero.count > 0) n->again = true;
}

/* One after the other, the first one first: a task that becomes ready may come back here, or may
 * end others of them, in a job that ends. */
static void waiting_go_on(node_t *n, node_object_t *o) {
    for (size_t i = 0, k = o->waiting.count; i + 1 < k; i++) {
        node_task_t *first = o->waiting.items[i];
        o->waiting.items[i] = o->waiting.items[--k];
        o->waiting.items[k] = first;
    }
    while (o->waiting.count > 0) {
        node_task_t *t = vec_pop(&o->waiting);
        if (--t->missing > 0) continue;
        n->missing_arguments--;
        /* else it was handed out ahead, or a worker took it by itself */
        if (t->worker == NULL && !(t->queued && t->kind == MOB_TASK)) node_task_ready(t, n);
    }
    vec_free(&o->waiting);
}

void node_object_sealed(node_t *n, mob_ref_t ref) {
    node_object_t *o = n->objects[ref.slot];
    if (o != NULL && o->generation != ref.generation) o = NULL;
    if (o != NULL) waiting_go_on(n, o);
    if (o != NULL && o->watchers != NULL) node_watch_sealed(n, o);
    uint64_t word = atomic_load_explicit(&n->slots[ref.slot].word, memory_order_acquire);
    if (!(word & STORE_DROPPED) || !slot_is_current(n, ref)) return;
    /* Its last reference went while the task ran. */
    if (o != NULL) {
        node_object_unhold(n, o, node_slot_keeper(n, ref.slot, word));
    } else {
        slot_release(n, ref.slot, ref.generation);
    }
}

void node_slot_wake(node_t *n, uint64_t word) {
    for (uint64_t bits = word >> STORE_WAITER_SHIFT; bits != 0; bits &= bits - 1)
        shm_bell_ring(&n->shared->bells[__builtin_ctzll(bits) + 1]);
    if (word & STORE_CROWD) node_bells_ring(n);
}

/* A str; about an actor a tuple: the words, the actor's id, and whether it could not be made. */
static void error_write(wire_writer_t *w, node_t *n, const char *text, const node_actor_t *actor) {
    if (actor != NULL) wire_write_tuple(w, 3);
    wire_write_str(w, text, strlen(text));
    if (actor == NULL) return;
    char id[2 * MOB_ID_SIZE + 1];
    node_actor_id_text(n, actor, id);
    wire_write_str(w, id, 2 * MOB_ID_SIZE);
    wire_write_bool(w, actor->init_failed);
}

void node_slot_write_error(node_t *n, mob_ref_t ref, mob_status_t status, const char *text,
                           const node_actor_t *actor) {
    store_slot_t *slot = &n->slots[ref.slot];
    wire_writer_t count = {0};
    error_write(&count, n, text, actor);
    uint64_t block = 0;
    /* it may be an item of a flow, which has a link behind that */
    wire_writer_t writer = {.data = slot->value.small, .capacity = STORE_ITEM_INLINE};
    if (count.size > STORE_ITEM_INLINE) {
        if (shm_heap_alloc(&n->heap, count.size, shm_tag(false, ref.slot, ref.generation),
                           &block) == MOB_OK) {
            writer = (wire_writer_t){.data = n->arena.base + block, .capacity = count.size};
        } else {
            /* for the words; the status still tells what happened */
            text = "(no room in the store)";
            actor = NULL;
        }
    }
    error_write(&writer, n, text, actor);
    if (block != 0) {
        slot->value.large.block = block;
        slot->value.large.ref_count = 0;
    }
    slot->meta = store_meta(writer.size, MOB_FORMAT_DIRECT, status, block == 0);
}

/* Gives a slot an error of the daemon's own as its value, if it has none yet. */
void node_slot_fail(node_t *n, mob_ref_t ref, mob_status_t status, const char *text,
                    const node_actor_t *actor) {
    if (!slot_is_current(n, ref)) return;
    store_slot_t *slot = &n->slots[ref.slot];
    if ((atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) != STORE_PENDING)
        return;
    node_slot_write_error(n, ref, status, text, actor);
    store_slot_seal(slot, false); /* the caller rings every bell afterwards */
}

void node_slot_quiet(node_t *n, mob_ref_t ref) {
    if (slot_is_current(n, ref)) store_slot_see(&n->slots[ref.slot]);
}

/* A dead client's references and the slots it owned. */
void node_objects_forget(node_client_t *client) {
    node_t *n = client->node;
    for (uint32_t i = 0; client->held > 0 && i < n->grants.slots.granted; i++)
        if (n->objects[i] != NULL) node_object_unhold(n, n->objects[i], client->number);
    client->held = 0;
    node_flows_forget(client);
    /* Results of tasks that are still to be completed: by their worker, which may be about to free
     * such a slot, or by the daemon when the worker says so. */
    uint8_t *awaited = calloc(n->grants.slots.granted, 1);
    for (size_t s = 0; awaited != NULL && s < client->records.count; s++) {
        uint32_t first = client->records.items[s].first,
                 end = first + client->records.items[s].count;
        for (uint32_t r = first; r < end; r++)
            for (uint32_t k = 0; n->tasks[r] != NULL && k < n->tasks[r]->num_returns; k++)
                awaited[n->tasks[r]->refs[k].slot] = 1;
    }
    if (awaited != NULL) node_flows_mark(n, awaited);
    for (size_t s = 0; awaited != NULL && s < client->slots.count; s++) {
        uint32_t first = client->slots.items[s].first, end = first + client->slots.items[s].count;
        for (uint32_t i = first; i < end; i++) {
            uint64_t word = atomic_load_explicit(&n->slots[i].word, memory_order_acquire);
            if ((word & STORE_STATE) == STORE_FREE || n->objects[i] != NULL) continue;
            if (awaited[i] && (word & STORE_DROPPED)) continue;
            if (awaited[i] == NODE_TAIL || node_flow_spares(client, i, word)) continue;
            slot_release(n, i, atomic_load_explicit(&n->slots[i].generation, memory_order_relaxed));
            /* Still PENDING and nobody's: the client died while it made a task or a value. */
            word = atomic_load_explicit(&n->slots[i].word, memory_order_acquire);
            if ((word & STORE_STATE) == STORE_PENDING && !awaited[i])
                store_slot_close(&n->slots[i]);
        }
    }
    free(awaited);
}
