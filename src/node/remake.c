/*
 * Lost objects, made again.
 *
 *   gone       SEALED and AWAY, without a copy: its file failed, or it was hollowed (lineage.c)
 *   wanted     a process or a task needs it; `remaking` is set, who asks waits in `askers`, tasks
 *              in `waiting`
 *   running    a record of the daemon's own, filled from the frame, goes the way of any task. Its
 *              results go into fresh slots: nothing is ever unsealed
 *   there      the value moves from its fresh slot into the one that is AWAY, and AWAY goes
 *
 * Arguments that are gone are made again first: the run waits for them like any task for its
 * arguments. Each is wanted in its turn, from a list, so that a chain of a million does not recur.
 *
 * Why the move is safe: a slot that is AWAY is read by nobody. Who pinned it asks, and reads meta
 * and block after AWAY has gone (release here, acquire in client/get.c). The block's tag is changed
 * by the daemon, while no other process can name the fresh slot: its worker has sealed it, and has
 * forgotten it. The value may have another size, and other references inside, than the lost one. No
 * process reads both: while one reads the old value in place it is pinned, and so not lost.
 *
 * A run counts as a retry. Without one left, without a lineage, or if an argument is gone for good,
 * the object is lost, and its value is the error that says so. An error of the run is the object's
 * value, as it would have been the first time.
 */
#include "node/remake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/space/restore.h"
#include "node/space/survey.h"
#include "node/state.h"

bool node_object_is_gone(node_t *n, const node_object_t *o) {
    return o->copy == NULL && node_object_is_away(n, o);
}

static mob_ref_t ref_of(const node_object_t *o) {
    return (mob_ref_t){.slot = o->slot, .generation = o->generation};
}

/* ---- its value ---- */

/* The slot has its value: whoever waits goes on. */
static void object_return(node_t *n, node_object_t *o) {
    o->remaking = false;
    store_slot_return(&n->slots[o->slot]);
    node_restore_tell(n, o, MOB_OK);
    node_object_sealed(n, ref_of(o));
    node_object_settle(n, o); /* its last holder may have gone meanwhile */
}

static void object_lose(node_t *n, node_object_t *o, const char *why) {
    char text[1024];
    snprintf(text, sizeof text, "%s. It can't be made again: %s",
             o->lost != NULL ? o->lost : "the object's value is not kept any more", why);
    node_object_contents_release(n, o);
    node_slot_write_error(n, ref_of(o), MOB_ELOST, text, NULL);
    object_return(n, o);
}

/* What a fresh slot has, read once: its worker wrote it, and may go on writing. */
typedef struct {
    uint64_t meta, block;
    uint32_t ref_count;
    uint8_t small[STORE_INLINE];
} fresh_t;

/* False: it has nothing that can be moved. */
static bool fresh_read(node_t *n, mob_ref_t ref, fresh_t *ret_fresh) {
    const store_slot_t *slot = &n->slots[ref.slot];
    uint64_t extent, tag = shm_tag(false, ref.slot, ref.generation);
    uint32_t units;
    if ((atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) != STORE_SEALED)
        return false;
    *ret_fresh = (fresh_t){.meta = slot->meta};
    memcpy(ret_fresh->small, slot->value.small, sizeof ret_fresh->small);
    if (store_meta_in_file(ret_fresh->meta)) return false;
    if (store_meta_inline(ret_fresh->meta)) return true;
    ret_fresh->block = slot->value.large.block;
    ret_fresh->ref_count = slot->value.large.ref_count;
    uint64_t size = store_meta_size(ret_fresh->meta);
    return size <= n->config.store_bytes &&
           node_survey_block(n, ret_fresh->block, tag, store_block_size(size, ret_fresh->ref_count),
                             &extent, &units);
}

/* Gives the lost object the value of the fresh one, which has none afterwards. False: somebody has
 * freed it. */
static bool value_move(node_t *n, node_object_t *o, mob_ref_t from, const fresh_t *fresh) {
    store_slot_t *slot = &n->slots[o->slot];
    node_object_t *book = node_object_known(n, from);
    if (store_meta_inline(fresh->meta)) {
        memcpy(slot->value.small, fresh->small, sizeof slot->value.small);
    } else {
        uint64_t old = shm_block_used(shm_tag(false, from.slot, from.generation));
        shm_block_t *block = (shm_block_t *)(n->arena.base + fresh->block - sizeof(shm_block_t));
        if (!atomic_compare_exchange_strong(&block->word, &old,
                                            shm_block_used(shm_tag(false, o->slot, o->generation))))
            return false;
        slot->value.large.block = fresh->block;
        slot->value.large.ref_count = fresh->ref_count;
        atomic_store_explicit(&slot->value.large.used_ms, base_clock_coarse_ms(),
                              memory_order_relaxed);
    }
    slot->meta = fresh->meta;
    node_object_contents_release(n, o);
    /* what is inside it is held once, by one book or the other */
    if (book != NULL && book->contents_held) node_object_contents_move(book, o);
    return true;
}

/* ---- a run ---- */

static void fresh_free(node_t *n, mob_ref_t fresh) {
    if (fresh.slot == 0) return;
    node_object_forget(n, fresh);
    store_slot_close(&n->slots[fresh.slot]);
    node_grant_own_slot_back(n, fresh.slot);
}

/* Nothing is in its slots. */
static void remake_free(node_t *n, node_remake_t *r) {
    for (uint32_t i = 0; r->fresh != NULL && i < r->lineage->num_returns; i++)
        fresh_free(n, r->fresh[i]);
    if (r->record != UINT32_MAX) node_grant_own_record_back(n, r->record);
    free(r->fresh);
    free(r);
}

/* Slots and a record for the run. NULL: there are none. */
static node_remake_t *remake_new(node_t *n, node_lineage_t *l) {
    node_remake_t *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    r->lineage = l;
    r->fresh = calloc(l->num_returns, sizeof *r->fresh);
    bool whole = r->fresh != NULL && node_grant_own_record(n, &r->record);
    if (!whole) r->record = UINT32_MAX;
    for (uint32_t i = 0; whole && i < l->num_returns; i++) {
        whole = node_grant_own_slot(n, &r->fresh[i].slot);
        if (whole) r->fresh[i].generation = store_slot_open(&n->slots[r->fresh[i].slot]);
    }
    if (whole) return r;
    remake_free(n, r);
    return NULL;
}

/* A use of its own for each fresh slot: its worker may say that the value has references inside,
 * and the daemon frees what nothing holds. */
static bool fresh_use(node_t *n, const node_remake_t *r) {
    for (uint32_t i = 0; i < r->lineage->num_returns; i++) {
        store_slot_t *slot = &n->slots[r->fresh[i].slot];
        slot->value.maker = r->record;
        atomic_fetch_or_explicit(&slot->word, STORE_ESCAPED, memory_order_relaxed);
        node_object_t *o = node_object_find(n, r->fresh[i]);
        if (o == NULL) return false;
        node_object_use(o);
        o->moving = true; /* so that nobody moves it to disk before it is where it belongs */
    }
    return true;
}

/* Whether the book says what the frame says: every client can write to the record. */
static bool is_as_framed(const node_task_t *t, const frame_t *f, const node_remake_t *r) {
    return t->kind == MOB_TASK && t->num_returns == f->num_returns && t->num_deps == f->num_deps &&
           t->num_refs == f->num_refs &&
           memcmp(t->refs, r->fresh, f->num_returns * sizeof *t->refs) == 0;
}

/* A book for the run; NULL: there can be none. */
static node_task_t *task_make(node_t *n, node_remake_t *r) {
    node_lineage_t *l = r->lineage;
    frame_t frame;
    node_filled_t filled;
    mob_ref_t actor;
    if (!fresh_use(n, r) || frame_read(l->frame, l->frame_size, &frame) != MOB_OK) return NULL;
    wire_record_t *record = &n->records[r->record];
    uint64_t generation =
        wire_word_generation(atomic_load_explicit(&record->word, memory_order_relaxed)) + 1;
    frame.max_retries = l->retries;
    node_task_t *t = NULL;
    if (node_frame_fill(l->job, &frame, r->fresh, r->record, generation, &filled) == MOB_OK) {
        t = node_task_open(l->job, 0, r->record, generation, false, &actor);
        sched_shape_drop(l->job->sched, filled.shape); /* the book has its own holds */
        sched_shape_drop(l->job->sched, filled.held_shape);
        if (t != NULL && !is_as_framed(t, &frame, r)) {
            node_task_forget(n, t);
            t = NULL;
        }
        if (t == NULL && filled.block != 0)
            shm_heap_free(&n->heap, filled.block, shm_tag(true, r->record, generation));
    }
    frame_fini(&frame);
    if (t == NULL) return NULL;
    t->remake = r;
    t->retries = l->retries;
    atomic_store_explicit(&record->word, wire_word(generation, 0, WIRE_READY_STATE | WIRE_KNOWN),
                          memory_order_release);
    return t;
}

/* Whether every argument that was there is, or can be made again. */
static bool arguments_are_known(node_t *n, const node_lineage_t *l) {
    for (uint32_t i = 0; i < l->num_kept; i++)
        if (l->kept[i].ref.slot != 0 && node_object_known(n, l->kept[i].ref) == NULL) return false;
    return true;
}

/* NULL: it has begun; else why not. */
static const char *lineage_run(node_t *n, node_lineage_t *l) {
    if (l->retries == 0) return "its task has run as often as its max_retries allows";
    if (!arguments_are_known(n, l))
        return "an argument of its task is gone, and was not kept: ray.put or an actor had made "
               "it, "
               "or it has references inside";
    node_remake_t *r = remake_new(n, l);
    if (r == NULL) return "the node has no memory for another task";
    if (l->retries > 0) l->retries--;
    node_task_t *t = task_make(n, r);
    if (t == NULL) {
        for (uint32_t i = 0; i < l->num_returns; i++) store_slot_close(&n->slots[r->fresh[i].slot]);
        remake_free(n, r);
        return "the node has no memory for another task";
    }
    l->running = true;
    if (t->missing == 0) node_task_ready(t, n);
    return NULL;
}

/* One of the lost objects gets what the run made of it. */
static void result_settle(node_t *n, node_object_t *o, mob_ref_t fresh) {
    fresh_t found = {0};
    bool there = fresh_read(n, fresh, &found);
    mob_status_t error = there ? store_meta_error(found.meta) : MOB_OK;
    bool wanted = o != NULL && o->remaking;
    if (wanted && there && (error == MOB_OK || error == MOB_ETASK) &&
        value_move(n, o, fresh, &found)) {
        object_return(n, o);
        return;
    }
    if (there && !store_meta_inline(found.meta))
        shm_block_release(n->arena.base, n->extents, found.block,
                          shm_tag(false, fresh.slot, fresh.generation));
    if (wanted)
        object_lose(n, o,
                    error != MOB_OK ? mob_status_text(error)
                                    : "its task gave another kind of value this time");
}

void node_remake_end(node_t *n, node_remake_t *r, int32_t retries) {
    node_lineage_t *l = r->lineage;
    l->retries = retries;
    for (uint32_t i = 0; i < l->num_returns; i++)
        result_settle(n, node_object_known(n, l->returns[i]), r->fresh[i]);
    remake_free(n, r);
    node_lineage_settle(n, l);
}

/* ---- what is wanted ---- */

void node_remake_want(node_t *n, node_object_t *o) {
    if (o->remaking) return;
    o->remaking = true;
    n->again = true;
    if (!vec_push(&n->remakes.wanted, ref_of(o))) object_lose(n, o, "the node has no memory left");
}

bool node_remake_if_gone(node_t *n, node_object_t *o) {
    if (!node_object_is_gone(n, o)) return false;
    node_remake_want(n, o);
    return node_object_is_gone(n, o);
}

static void wanted_begin(node_t *n, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL || !o->remaking) return; /* freed since, or there */
    node_lineage_t *l = o->lineage;
    if (l != NULL && l->running) return; /* another result of the same task was wanted before */
    const char *why = l != NULL ? lineage_run(n, l)
                                : "ray.put or an actor had made it, or its task could not be kept "
                                  "(its max_retries is 0, or see RAY_max_lineage_bytes)";
    if (why != NULL) object_lose(n, o, why);
}

void node_remakes_settle(node_t *n) {
    while (n->remakes.wanted.count > 0) wanted_begin(n, vec_pop(&n->remakes.wanted));
}
