/*
 * Frames that the daemon runs itself: what is lost is made again (remake.c), and a peer's tasks are
 * guests here (visit.c). Both go the way of any task from then on.
 *
 * The results go into fresh slots, which count as escaped from the start, with a use of their own:
 * a worker may say that a value has references inside, and the daemon frees what nothing holds.
 * They are `moving`, so that nobody writes them to disk before they are where they belong.
 *
 * Results of another node's tasks have ids of that node, and its slots here are proxies: then the
 * worker writes into those, and who waits for them here goes on at once. Only if such a proxy has a
 * value (it is made again, say) or is being made by another run, the result gets a fresh slot.
 */
#include "node/run.h"

#include <stdlib.h>
#include <string.h>

#include "node/cluster/proxy.h"
#include "node/state.h"
#include "node/value.h"

void node_run_slot_free(node_t *n, node_own_t *own, mob_ref_t fresh) {
    node_object_t *o = node_object_known(n, fresh);
    node_value_t found;
    if (o != NULL && o->proxy != NULL) {
        o->moving = false;
        node_proxy_result_end(n, o);
        node_object_unuse_ref(n, fresh);
        return;
    }
    /* a value that was moved is not under this slot's tag */
    if (node_value_read(n, fresh, &found)) node_value_free(n, fresh, &found);
    node_object_forget(n, fresh);
    store_slot_close(&n->slots[fresh.slot]);
    node_own_slot_back(own, fresh.slot);
}

void node_run_fini(node_t *n, node_run_t *r) {
    for (uint32_t i = 0; r->fresh != NULL && i < r->num_returns; i++)
        if (r->fresh[i].slot != 0) node_run_slot_free(n, r->own, r->fresh[i]);
    if (r->record != UINT32_MAX) node_own_record_back(r->own, r->record);
    free(r->fresh);
    *r = (node_run_t){.record = UINT32_MAX};
}

/* A slot of the daemon's own, or (0) none. */
static mob_ref_t slot_fresh(node_t *n, const node_run_t *r) {
    mob_ref_t fresh;
    if (!node_own_slot(n, r->own, &fresh.slot)) return (mob_ref_t){0};
    fresh.generation = store_slot_open(&n->slots[fresh.slot]);
    atomic_fetch_or_explicit(&n->slots[fresh.slot].word, STORE_ESCAPED, memory_order_relaxed);
    return fresh;
}

/* `id`: the result's, in its task's frame. Another node's is a proxy, unless that has a value. */
static bool slot_open(node_t *n, const node_run_t *r, frame_id_t id, mob_ref_t *fresh) {
    *fresh = node_proxy_result(n, id);
    if (fresh->slot == 0) *fresh = slot_fresh(n, r);
    if (fresh->slot == 0) return false;
    n->slots[fresh->slot].value.maker = r->record;
    node_object_t *o = node_object_find(n, *fresh);
    if (o == NULL) return false;
    node_object_use(o);
    o->moving = true;
    return true;
}

/* A record, and a slot for each result. */
static bool run_equip(node_t *n, const frame_t *f, node_run_t *r) {
    r->fresh = calloc((size_t)r->num_returns + 1, sizeof *r->fresh);
    if (r->fresh == NULL || !node_own_record(n, r->own, &r->record)) return false;
    for (uint32_t i = 0; i < r->num_returns; i++)
        if (!slot_open(n, r, f->ids[i], &r->fresh[i])) return false;
    return true;
}

/* Whether the book says what the frame says: every client can write to the record. */
static bool is_as_framed(const node_task_t *t, const frame_t *f, const node_run_t *r) {
    return t->kind == f->kind && t->num_returns == f->num_returns && t->num_deps == f->num_deps &&
           t->num_refs == f->num_refs && t->flows == f->flows &&
           memcmp(t->refs, r->fresh, f->num_returns * sizeof *t->refs) == 0;
}

static mob_status_t book_open(node_job_t *job, const frame_t *f, node_run_t *r,
                              node_task_t **ret_task) {
    node_t *n = job->node;
    node_filled_t filled;
    mob_ref_t actor;
    wire_record_t *record = &n->records[r->record];
    uint64_t generation =
        wire_word_generation(atomic_load_explicit(&record->word, memory_order_relaxed)) + 1;
    mob_status_t status = node_frame_fill(job, f, r->fresh, r->record, generation, &filled);
    if (status != MOB_OK) return status;
    node_task_t *t = node_task_open(job, r->own->submitter, r->record, generation, false, &actor);
    sched_shape_drop(job->sched, filled.shape); /* the book has its own holds */
    sched_shape_drop(job->sched, filled.held_shape);
    if (t != NULL && !is_as_framed(t, f, r)) {
        node_task_forget(n, t);
        t = NULL;
    }
    if (t == NULL) {
        if (filled.block != 0)
            shm_heap_free(&n->heap, filled.block, shm_tag(true, r->record, generation));
        return MOB_EPROTO;
    }
    t->retries = f->max_retries;
    atomic_store_explicit(&record->word, wire_word(generation, 0, WIRE_READY_STATE | WIRE_KNOWN),
                          memory_order_release);
    *ret_task = t;
    return MOB_OK;
}

mob_status_t node_run_init(node_job_t *job, node_own_t *own, const frame_t *f, node_run_t *ret_run,
                           node_task_t **ret_task) {
    node_t *n = job->node;
    node_run_t r = {.own = own, .record = UINT32_MAX, .num_returns = f->num_returns};
    mob_status_t status = run_equip(n, f, &r)
                              ? book_open(job, f, &r, ret_task)
                              : base_fail(MOB_ENOMEM, "the node has no memory for another task");
    if (status != MOB_OK)
        node_run_fini(n, &r);
    else
        *ret_run = r;
    return status;
}
