/*
 * Lineage: what the daemon keeps of a task that is done, so that a result of it can be made again.
 *
 * Which tasks: those that may be run again (max_retries) and have a result of WIRE_LINEAGE_LEAST
 * bytes or more in the arena, which may be moved to disk, where its file can go. Smaller ones may
 * be moved too, and are not made again: the daemon would have to hear of every task. Its worker
 * makes the record KNOWN and says so (WIRE_KEEP) before it seals the results; the daemon writes the
 * frame then, while body and arguments are there. The results count as escaped from then on, so
 * that the daemon hears when they go. Who sees a result and drops it does so after WIRE_KEEP lies
 * in the worker's ring, and the daemon frees nothing before it has read all rings once more: so a
 * result that another lineage needs has its own before it is freed.
 *
 * What is kept: the frame; the function and each argument that is small and has no references
 * inside, by a use, and by a copy in the daemon's own memory (`spare`), for they may be moved to
 * disk and lost like any other value; of any other argument its slot and its own lineage, not its
 * value, for `x = f.remote(x)` would keep every x. So an object without holders, with `kept` and
 * with a lineage is not freed but hollowed: its value goes, its slot stays AWAY, and the chain can
 * be run from its beginning. One without a lineage (ray.put made it) is freed, and what was made
 * from it can't be made again then.
 *
 * A lineage goes with the last of its results, with its job, or as the oldest when all together
 * have more than RAY_max_lineage_bytes. Then a loss is a loss, with an error that says so. Nothing
 * here recurs: an object whose last use this was is put aside, and freed by the next sweep.
 */
#include "node/lineage.h"

#include <stdlib.h>
#include <string.h>

#include "node/space/survey.h"
#include "node/state.h"

enum { FUNCTION_MOST = 4 << 20 };

/* ---- spare copies ---- */

/* A copy of a value in the arena, which its client may still write to: it is the client's own. */
static void spare_make(node_t *n, node_object_t *o, uint64_t most) {
    const store_slot_t *slot = &n->slots[o->slot];
    uint64_t meta = slot->meta, block = slot->value.large.block, extent,
             tag = shm_tag(false, o->slot, o->generation);
    uint32_t units, count = slot->value.large.ref_count;
    if (store_meta_inline(meta) || store_meta_in_file(meta) || store_meta_size(meta) > most ||
        node_object_is_away(n, o))
        return;
    uint64_t bytes = store_block_size(store_meta_size(meta), count);
    if (n->lineages.bytes + bytes > n->lineages.most || bytes > 2 * most ||
        !node_survey_block(n, block, tag, bytes, &extent, &units))
        return;
    o->spare = malloc(bytes);
    if (o->spare == NULL) return;
    memcpy(o->spare, n->arena.base + block, bytes);
    o->spare_bytes = bytes;
    n->lineages.bytes += bytes;
}

bool node_spare_read(const node_object_t *o, void *value, uint64_t bytes) {
    if (o->spare == NULL || o->spare_bytes != bytes) return false;
    memcpy(value, o->spare, bytes);
    return true;
}

void node_spare_free(node_t *n, node_object_t *o) {
    if (o->spare != NULL) n->lineages.bytes -= o->spare_bytes;
    free(o->spare);
    o->spare = NULL;
}

static void value_keep(node_t *n, node_object_t *o, uint64_t most) {
    node_object_use(o);
    o->spares++;
    if (o->spare == NULL) spare_make(n, o, most);
}

static void value_unkeep(node_t *n, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    if (o != NULL && o->spares > 0 && --o->spares == 0) node_spare_free(n, o);
    node_object_unuse_ref(n, ref);
}

/* ---- its end ---- */

static void list_remove(node_t *n, node_lineage_t *l) {
    node_lineages_t *all = &n->lineages;
    *(l->older != NULL ? &l->older->newer : &all->oldest) = l->newer;
    *(l->newer != NULL ? &l->newer->older : &all->newest) = l->older;
    all->bytes -= l->bytes;
}

static void lineage_free(node_t *n, node_lineage_t *l) {
    list_remove(n, l);
    for (uint32_t i = 0; i < l->num_kept; i++) {
        if (l->kept[i].how == NODE_VALUE_KEPT) value_unkeep(n, l->kept[i].ref);
        if (l->kept[i].how == NODE_SLOT_KEPT) node_object_unkeep_ref(n, l->kept[i].ref);
    }
    value_unkeep(n, l->function);
    free(l->returns);
    free(l->kept);
    free(l->frame);
    free(l);
}

void node_lineage_unname(node_t *n, node_object_t *o) {
    node_lineage_t *l = o->lineage;
    o->lineage = NULL;
    if (--l->live == 0 && !l->running) lineage_free(n, l);
}

void node_lineage_settle(node_t *n, node_lineage_t *l) {
    l->running = false;
    if (l->live == 0) lineage_free(n, l);
}

/* Its results can't be made again from now on. */
static void lineage_forget(node_t *n, node_lineage_t *l) {
    for (uint32_t i = 0; i < l->num_returns; i++) {
        node_object_t *o = node_object_known(n, l->returns[i]);
        if (o == NULL || o->lineage != l) continue;
        l->live--;
        o->lineage = NULL;
        node_object_settle(n, o); /* if it is hollow, there is no need for it now */
    }
    if (!l->running) lineage_free(n, l);
}

void node_lineage_job_ends(node_job_t *job) {
    node_lineage_t *l = job->node->lineages.oldest;
    while (l != NULL) {
        node_lineage_t *newer = l->newer;
        if (l->job == job && l->live > 0) lineage_forget(job->node, l);
        l = newer;
    }
}

static void oldest_forget(node_t *n) {
    node_lineage_t *l = n->lineages.oldest;
    while (l != NULL && n->lineages.bytes > n->lineages.most) {
        node_lineage_t *newer = l->newer;
        if (!l->running) lineage_forget(n, l);
        l = newer;
    }
}

/* ---- its beginning ---- */

/* Only the daemon frees the value from now on. False: its owner has let it go. */
static bool slot_escape(store_slot_t *slot) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    while ((word & (STORE_STATE | STORE_DROPPED)) == STORE_PENDING)
        if (atomic_compare_exchange_weak_explicit(&slot->word, &word, word | STORE_ESCAPED,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    return store_slot_escape(slot);
}

/* The object of a result that is worth it. Its worker has written what it is, and may have sealed
 * it. NULL: it is not, or its owner was faster. */
static node_object_t *result_claim(node_t *n, mob_ref_t ref) {
    store_slot_t *slot = &n->slots[ref.slot];
    uint64_t meta = slot->meta;
    if (store_meta_inline(meta) || store_meta_in_file(meta) || store_meta_error(meta) != MOB_OK ||
        store_meta_size(meta) < WIRE_LINEAGE_LEAST)
        return NULL;
    /* If the slot was freed and opened anew meanwhile, the new object counts as escaped without
     * need, and node_object_find finds none of this generation. */
    if (atomic_load_explicit(&slot->generation, memory_order_relaxed) != ref.generation ||
        !slot_escape(slot))
        return NULL;
    return node_object_find(n, ref);
}

static node_keeping_t keeping_of(node_t *n, const node_object_t *o) {
    const store_slot_t *slot = &n->slots[o->slot];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    if (o->actor != NULL) return NODE_NOT_KEPT;
    /* One with references inside would keep the values that it names. */
    if ((word & STORE_STATE) != STORE_SEALED || store_meta_in_file(slot->meta) ||
        o->contents.count > 0 || store_meta_size(slot->meta) >= WIRE_LINEAGE_LEAST)
        return NODE_SLOT_KEPT;
    return NODE_VALUE_KEPT;
}

static void arguments_keep(node_t *n, const node_task_t *t, node_lineage_t *l) {
    for (uint32_t i = 0; i < l->num_kept; i++) {
        mob_ref_t ref = t->refs[t->num_returns + i];
        node_object_t *o = node_object_known(n, ref);
        if (o == NULL) continue;
        l->kept[i] = (node_kept_t){.ref = ref, .how = keeping_of(n, o)};
        if (l->kept[i].how == NODE_SLOT_KEPT) o->kept++;
        if (l->kept[i].how == NODE_VALUE_KEPT) value_keep(n, o, WIRE_LINEAGE_LEAST);
    }
}

static void lineage_add(node_t *n, node_lineage_t *l) {
    node_lineages_t *all = &n->lineages;
    l->older = all->newest;
    *(l->older != NULL ? &l->older->newer : &all->oldest) = l;
    all->newest = l;
    all->bytes += l->bytes;
}

static node_lineage_t *lineage_new(node_t *n, node_task_t *t) {
    node_lineage_t *l = calloc(1, sizeof *l);
    if (l == NULL) return NULL;
    l->job = t->job;
    l->retries = t->retries;
    l->num_returns = t->num_returns;
    l->num_kept = t->num_deps + t->num_refs;
    l->returns = malloc(l->num_returns * sizeof *l->returns);
    l->kept = calloc(l->num_kept + 1, sizeof *l->kept);
    if (l->returns == NULL || l->kept == NULL ||
        node_frame_write(n, t, &l->frame, &l->frame_size) != MOB_OK) {
        free(l->returns);
        free(l->kept);
        free(l);
        return NULL;
    }
    memcpy(l->returns, t->refs, l->num_returns * sizeof *l->returns);
    l->function = t->function;
    /* a slot and a book for each argument, which may be kept for nothing else */
    l->bytes = sizeof *l + l->frame_size + l->num_returns * sizeof *l->returns +
               l->num_kept * (sizeof *l->kept + sizeof(store_slot_t) + sizeof(node_object_t));
    lineage_add(n, l);
    l->running = true; /* until it is whole: a slot that a client names twice can't free it */
    return l;
}

void node_lineage_keep(node_t *n, node_task_t *t) {
    node_lineage_t *l = NULL;
    node_object_t *function = node_object_known(n, t->function);
    if (t->retries == 0 || t->job == NULL || t->job->farewell.leaving || function == NULL) return;
    for (uint32_t i = 0; i < t->num_returns; i++) {
        node_object_t *o = result_claim(n, t->refs[i]);
        if (o != NULL && o->lineage != NULL) o->lineage->retries = t->retries; /* it ran before */
        if (o == NULL || o->lineage != NULL) continue;
        if (l == NULL && (l = lineage_new(n, t)) == NULL) return; /* a loss will be a loss */
        o->lineage = l;
        l->live++;
    }
    if (l == NULL) return;
    value_keep(n, function, FUNCTION_MOST);
    arguments_keep(n, t, l);
    node_lineage_settle(n, l);
    oldest_forget(n);
}
