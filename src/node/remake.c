/*
 * Lost objects, made again.
 *
 *   gone       SEALED and AWAY, without a copy on disk or on another node: its file failed, its
 * node is dead, or it was hollowed (lineage.c) wanted     a process or a task needs it; `remaking`
 * is set, who asks waits in `askers`, tasks in `waiting` running    a record of the daemon's own,
 * filled from the frame, goes the way of any task. Its results go into fresh slots: nothing is ever
 * unsealed there      the value moves from its fresh slot into the one that is AWAY, and AWAY goes
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
 * A run is here, where the task was submitted, and goes to no other node: so what only another node
 * can run is not made again.
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
#include "node/state.h"
#include "node/value.h"

bool node_object_is_gone(node_t *n, const node_object_t *o) {
    return o->copy == NULL && o->elsewhere == NULL && node_object_is_away(n, o);
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

/* ---- a run ---- */

/* Nothing is in its slots. */
static void remake_free(node_t *n, node_remake_t *r) {
    node_run_fini(n, &r->run);
    free(r);
}

/* A book for a run of the lineage; NULL: there can be none. */
static node_task_t *task_make(node_t *n, node_lineage_t *l) {
    frame_t frame;
    node_task_t *t;
    node_remake_t *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    if (frame_read(l->frame, l->frame_size, &frame) != MOB_OK) {
        free(r);
        return NULL;
    }
    frame.max_retries = l->retries;
    mob_status_t status = node_run_init(l->job, &n->grants.own, &frame, &r->run, &t);
    frame_fini(&frame);
    if (status != MOB_OK) {
        free(r);
        return NULL;
    }
    r->lineage = l;
    t->remake = r;
    return t;
}

/* Whether every argument that was there is, or can be made again. */
static bool arguments_are_known(node_t *n, const node_lineage_t *l) {
    for (uint32_t i = 0; i < l->num_kept; i++)
        if (l->kept[i].ref.slot != 0 && node_object_known(n, l->kept[i].ref) == NULL) return false;
    return true;
}

/* Whether the run could never begin: its task may have run where there is what this node lacks. */
static bool is_for_others(const node_task_t *t) {
    return sched_shape_where(t->job->sched, t->shape)->group == NULL &&
           !sched_shape_fits_ever(t->job->sched, t->shape);
}

/* NULL: it has begun; else why not. */
static const char *lineage_run(node_t *n, node_lineage_t *l) {
    if (l->retries == 0) return "its task has run as often as its max_retries allows";
    if (!arguments_are_known(n, l))
        return "an argument of its task is gone, and was not kept: ray.put or an actor had made "
               "it, "
               "or it has references inside";
    if (l->retries > 0) l->retries--;
    node_task_t *t = task_make(n, l);
    if (t == NULL) return "the node has no memory for another task";
    l->running = true;
    if (is_for_others(t))
        node_task_fail(n, t, MOB_EPLACE, "this node lacks what the task needs");
    else if (t->missing == 0)
        node_task_ready(t, n);
    return NULL;
}

/* One of the lost objects gets what the run made of it. */
static void result_settle(node_t *n, node_object_t *o, mob_ref_t fresh) {
    node_value_t found = {0};
    bool there = node_value_read(n, fresh, &found) && !store_meta_in_file(found.meta);
    mob_status_t error = there ? store_meta_error(found.meta) : MOB_OK;
    bool wanted = o != NULL && o->remaking;
    if (wanted && there && (error == MOB_OK || error == MOB_ETASK) &&
        node_value_move(n, fresh, &found, ref_of(o))) {
        if (!store_meta_inline(found.meta))
            atomic_store_explicit(&n->slots[o->slot].value.large.used_ms, base_clock_coarse_ms(),
                                  memory_order_relaxed);
        object_return(n, o);
        return;
    }
    if (there) node_value_free(n, fresh, &found);
    if (wanted)
        object_lose(n, o,
                    error != MOB_OK ? mob_status_text(error)
                                    : "its task gave another kind of value this time");
}

void node_remake_end(node_t *n, node_remake_t *r, int32_t retries) {
    node_lineage_t *l = r->lineage;
    l->retries = retries;
    for (uint32_t i = 0; i < l->num_returns; i++)
        result_settle(n, node_object_known(n, l->returns[i]), r->run.fresh[i]);
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
