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
 * It runs at its home. Only if that can never run it, it is offered to other nodes as any task is;
 * if none of them can, the object is lost, at once. Its frame names the lost objects, not the fresh
 * slots. A small result comes into its fresh slot, and moves. A large one stays at the node that
 * made it, under a version that no copy of the object had before, and the object lies there from
 * then on: AWAY still, with `elsewhere`.
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
#include "node/cluster/offer.h"
#include "node/cluster/proxy.h"
#include "node/cluster/pulling.h"
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

static bool results_are_known(node_t *n, const node_lineage_t *l) {
    for (uint32_t i = 0; i < l->num_returns; i++)
        if (node_object_known(n, l->returns[i]) == NULL) return false;
    return true;
}

/* Where it runs, if this node can't ever. True: nowhere; then its results say so at once. */
static bool remake_refuse(node_t *n, node_task_t *t) {
    char needs[300];
    const node_job_t *job = t->job;
    node_remake_t *r = t->remake;
    if (n->cluster == NULL || sched_shape_where(job->sched, t->shape)->group != NULL ||
        sched_shape_fits_ever(job->sched, t->shape))
        return false;
    bool is_whole = results_are_known(n, r->lineage);
    r->goes = is_whole && node_offer_fits_elsewhere(job, t->shape);
    if (r->goes) return false;
    if (!node_lacks_text(job->sched, t->shape, needs, sizeof needs))
        snprintf(needs, sizeof needs, "another node than this one");
    snprintf(r->words, sizeof r->words, "its task needs %s, %s", needs,
             is_whole ? "and no node has that"
                      : "and is not sent there, for another result of it is not there any more");
    node_task_fail(n, t, MOB_EPLACE, t->remake->words);
    return true;
}

/* NULL: it has begun, or has ended; else why not. */
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
    if (!remake_refuse(n, t) && t->missing == 0) node_task_ready(t, n);
    return NULL;
}

/* One of the lost objects gets what the run made of it. */
static void result_settle(node_t *n, const node_remake_t *r, node_object_t *o, mob_ref_t fresh) {
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
                    r->words[0] != 0  ? r->words
                    : error != MOB_OK ? mob_status_text(error)
                                      : "its task gave another kind of value this time");
}

void node_remake_end(node_t *n, node_remake_t *r, int32_t retries) {
    node_lineage_t *l = r->lineage;
    l->retries = retries;
    for (uint32_t i = 0; i < l->num_returns; i++)
        result_settle(n, r, node_object_known(n, l->returns[i]), r->run.fresh[i]);
    remake_free(n, r);
    node_lineage_settle(n, l);
}

/* ---- at another node ---- */

mob_ref_t node_remake_result(const node_task_t *t, uint32_t i) {
    return t->remake != NULL ? t->remake->lineage->returns[i] : t->refs[i];
}

bool node_remake_send(node_t *n, node_remake_t *r) {
    const node_lineage_t *l = r->lineage;
    if (!results_are_known(n, l)) return false;
    r->version = 1;
    for (uint32_t i = 0; i < l->num_returns; i++) {
        uint32_t version = node_pulling_version(n, l->returns[i]);
        if (version >= r->version) r->version = version + 1;
    }
    return true;
}

/* AWAY as before, but there is somebody to ask. */
static mob_status_t object_found(node_t *n, node_object_t *o, const node_elsewhere_t *what) {
    store_slot_t *slot = &n->slots[o->slot];
    node_elsewhere_t *elsewhere = malloc(sizeof *elsewhere);
    if (elsewhere == NULL) return MOB_ENOMEM;
    *elsewhere = *what;
    free(o->elsewhere);
    o->elsewhere = elsewhere;
    slot->value.large.block = 0; /* nobody reads it while it is AWAY */
    slot->value.large.ref_count = what->ref_count;
    slot->meta = store_meta(what->bytes, what->format, what->error, false);
    return MOB_OK;
}

mob_status_t node_remake_elsewhere(node_t *n, const node_task_t *t, mob_ref_t fresh,
                                   const node_elsewhere_t *what) {
    uint32_t i = 0;
    while (i < t->num_returns && t->refs[i].slot != fresh.slot) i++;
    node_object_t *o = node_object_known(n, node_remake_result(t, i));
    if (o != NULL && o->remaking) {
        mob_status_t status = object_found(n, o, what);
        if (status != MOB_OK) return status;
        o->remaking = false;
        if (o->askers.count > 0) (void)node_pulling_want(n, o, true);
        node_object_sealed(n, ref_of(o));
        node_object_settle(n, o); /* its last holder may have gone meanwhile */
    }
    node_slot_write_error(n, fresh, MOB_ELOST, "the value stayed on the node that made it", NULL);
    return MOB_OK;
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
