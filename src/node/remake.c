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
 * forgotten it. The value may have another size, and other references inside, than the lost one:
 * nobody has seen both, for who read the lost one has kept it pinned, and then it was not lost.
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
}

static void object_lose(node_t *n, node_object_t *o, const char *why) {
    char text[1024];
    snprintf(text, sizeof text, "%s. It can't be made again: %s",
             o->lost != NULL ? o->lost : "the object's value is not kept any more", why);
    node_object_contents_release(n, o);
    node_slot_write_error(n, ref_of(o), MOB_ELOST, text, NULL);
    object_return(n, o);
}

/* Gives the lost object the value of the fresh one, which has none afterwards. */
static void value_move(node_t *n, node_object_t *o, mob_ref_t from) {
    store_slot_t *slot = &n->slots[o->slot], *fresh = &n->slots[from.slot];
    node_object_t *book = node_object_known(n, from);
    node_object_contents_release(n, o);
    if (store_meta_inline(fresh->meta)) {
        memcpy(slot->value.small, fresh->value.small, sizeof slot->value.small);
    } else {
        uint64_t data = fresh->value.large.block,
                 old = shm_block_used(shm_tag(false, from.slot, from.generation));
        shm_block_t *block = (shm_block_t *)(n->arena.base + data - sizeof(shm_block_t));
        atomic_compare_exchange_strong(&block->word, &old,
                                       shm_block_used(shm_tag(false, o->slot, o->generation)));
        slot->value.large.block = data;
        slot->value.large.ref_count = fresh->value.large.ref_count;
        atomic_store_explicit(&slot->value.large.used_ms, base_clock_coarse_ms(),
                              memory_order_relaxed);
    }
    slot->meta = fresh->meta;
    /* what is inside it is held once, by one book or the other */
    if (book != NULL && book->contents_held) node_object_contents_move(book, o);
}

/* Whether the fresh slot has a value that can be moved: its worker wrote where it lies. */
static bool is_movable(node_t *n, mob_ref_t fresh) {
    const store_slot_t *slot = &n->slots[fresh.slot];
    uint64_t meta = slot->meta, extent, tag = shm_tag(false, fresh.slot, fresh.generation);
    uint32_t units;
    if (store_meta_in_file(meta)) return false;
    return store_meta_inline(meta) ||
           node_survey_block(n, slot->value.large.block, tag,
                             store_block_size(store_meta_size(meta), slot->value.large.ref_count),
                             &extent, &units);
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
    }
    return true;
}

/* A book for the run; NULL: the record can't be filled. */
static node_task_t *task_make(node_t *n, node_remake_t *r) {
    node_lineage_t *l = r->lineage;
    frame_t frame;
    mob_ref_t actor;
    if (!fresh_use(n, r) || frame_read(l->frame, l->frame_size, &frame) != MOB_OK) return NULL;
    wire_record_t *record = &n->records[r->record];
    uint64_t generation =
        wire_word_generation(atomic_load_explicit(&record->word, memory_order_relaxed)) + 1;
    frame.max_retries = l->retries;
    mob_status_t status = node_frame_fill(l->job, &frame, r->fresh, r->record, generation);
    frame_fini(&frame);
    if (status != MOB_OK) return NULL;
    uint32_t shape = record->shape, held = record->held_shape;
    node_task_t *t = node_task_open(l->job, 0, r->record, generation, &actor);
    sched_shape_drop(l->job->sched, shape); /* the book has its own holds */
    sched_shape_drop(l->job->sched, held);
    if (t == NULL) {
        if (record->block != 0)
            shm_heap_free(&n->heap, record->block, shm_tag(true, r->record, generation));
        return NULL;
    }
    t->remake = r;
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
        return "an argument of its task is gone, and ray.put or an actor had made that";
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

void node_remake_end(node_t *n, node_remake_t *r, int32_t retries) {
    node_lineage_t *l = r->lineage;
    l->retries = retries;
    for (uint32_t i = 0; i < l->num_returns; i++) {
        mob_ref_t fresh = r->fresh[i];
        node_object_t *o = node_object_known(n, l->returns[i]);
        if (o != NULL && o->remaking && is_movable(n, fresh)) {
            value_move(n, o, fresh);
            object_return(n, o);
        } else {
            if (o != NULL && o->remaking)
                object_lose(n, o, "its task gave another kind of value this time");
            node_slot_unwrite(n, fresh);
        }
    }
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
