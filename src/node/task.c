/*
 * The way of a task through the daemon.
 *
 *   submitted   copied and checked; its references are held
 *   waiting     for arguments that are not there yet (listed at their objects)
 *   queued      in the scheduler, or in its actor's queue
 *   placed      has its resources, waits for a worker to be started
 *   handed out  READY on a worker's ring, or TAKEN by it
 *   done        results sealed, references let go, record free
 *
 * Tasks in a client's queue do not come here, unless they have references among their arguments
 * (WIRE_ARGUMENTS) or something goes wrong (queued.c).
 *
 * If its worker dies: DONE is completed; TAKEN is tried again if max_retries allows, else it fails;
 * READY was not begun and is tried again in any case. A task that was cancelled is not tried again
 * (cancel.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "control/retry.h"
#include "node/cluster/actor_stub.h"
#include "node/cluster/group_over.h"
#include "node/cluster/inflow.h"
#include "node/forward.h"
#include "node/runname.h"
#include "node/state.h"
#include "node/visit.h"

static const mob_ref_t *task_deps(const node_task_t *t) { return t->refs + t->num_returns; }

bool node_record_block_is(node_t *n, uint32_t owner, const wire_record_t *copy) {
    return copy->block % SHM_BLOCK_UNIT == 0 &&
           (node_extent_owned(n, owner, copy->block, copy->body_size) ||
            node_extent_owned(n, 0, copy->block, copy->body_size));
}

bool node_record_split(node_t *n, uint32_t owner, const wire_record_t *copy,
                       wire_body_t *ret_body) {
    const void *body = copy->body;
    if (copy->block != 0) {
        if (!node_record_block_is(n, owner, copy)) return false;
        body = n->arena.base + copy->block;
    } else if (copy->body_size > WIRE_RECORD_BODY) {
        return false;
    }
    return wire_body_split(copy, body, copy->body_size, ret_body) == MOB_OK;
}

/* Whether the submitter may have results made in that slot: it was granted to it; or it is a proxy,
 * and the daemon wrote the record, in its own name or a peer's. */
static bool result_is_own(node_t *n, uint32_t submitter, uint32_t slot) {
    uint32_t owner = submitter != 0 ? submitter : NODE_ORPHAN; /* the daemon's own slots */
    if (node_grant_slot_is(n, slot, owner)) return true;
    bool framed = submitter == 0 || node_peer_is(n->clients[submitter]);
    return framed && slot < n->grants.slots.granted &&
           node_proxy_owns(n, n->grants.slots.owner[slot / STORE_SLOT_BLOCK]);
}

/* Copies the record and checks it. NULL: the submitter's fault, or no memory. */
static node_task_t *task_read(node_job_t *job, uint32_t submitter, uint32_t index,
                              uint64_t generation, mob_ref_t *ret_actor) {
    node_t *n = job->node;
    wire_record_t copy;
    memcpy(&copy, &n->records[index], sizeof copy);
    wire_body_t parts;
    if (!node_record_split(n, submitter, &copy, &parts)) return NULL;
    const sched_job_t *shapes = job->sched;
    if (!sched_shape_valid(shapes, copy.shape) || !sched_shape_valid(shapes, copy.held_shape))
        return NULL;
    if (copy.kind == MOB_ACTOR_CREATE &&
        (copy.num_returns != 1 || !sched_shape_covers(shapes, copy.shape, copy.held_shape)))
        return NULL;
    if ((copy.flags & WIRE_FLOWS) && (copy.num_returns != 2 || copy.kind == MOB_ACTOR_CREATE))
        return NULL;
    size_t refs = (size_t)copy.num_returns + copy.num_deps + copy.num_refs;
    node_task_t *t = malloc(sizeof *t + refs * sizeof(mob_ref_t));
    if (t == NULL) return NULL;
    memset(t, 0, sizeof *t);
    memcpy(t->refs, parts.returns, refs * sizeof(mob_ref_t));
    t->record = index;
    t->generation = generation;
    t->submitter = submitter;
    t->job = job;
    t->kind = copy.kind;
    t->shape = copy.shape;
    t->held_shape = copy.held_shape;
    t->max_calls = copy.kind == MOB_TASK ? copy.max_calls : 0;
    t->num_returns = copy.num_returns;
    t->num_deps = copy.num_deps;
    t->num_refs = copy.num_refs;
    t->retries = copy.max_retries;
    t->retries_exceptions = copy.flags & WIRE_RETRY_EXCEPTIONS;
    t->flows = copy.flags & WIRE_FLOWS;
    t->dynamic = copy.flags & WIRE_DYNAMIC;
    t->block = copy.block;
    t->function = copy.function;
    *ret_actor = copy.actor;
    for (uint32_t i = 0; i < t->num_returns; i++) {
        if (result_is_own(n, submitter, t->refs[i].slot)) continue;
        free(t);
        return NULL;
    }
    return t;
}

static void task_hold_refs(node_t *n, node_task_t *t) {
    for (uint32_t i = 0; i < t->num_deps + t->num_refs; i++) {
        node_object_t *o = node_object_find(n, t->refs[t->num_returns + i]);
        if (o == NULL) {
            t->refs[t->num_returns + i].slot = 0; /* nothing to let go later */
            continue;
        }
        node_object_use(o);
        if (i >= t->num_deps) continue;
        /* The process that seals it from now on tells the daemon: by WIRE_DONE, or because it is
         * watched. One that is made again is the daemon's to tell; but a worker that has taken the
         * task by itself waits for it by itself. */
        bool remade = node_remake_if_gone(n, o) && !t->queued;
        if ((store_slot_watch(&n->slots[o->slot]) || remade) && vec_push(&o->waiting, t))
            t->missing++;
    }
    node_object_t *function = t->function.slot ? node_object_find(n, t->function) : NULL;
    if (function != NULL)
        node_object_use(function);
    else
        t->function.slot = 0;
    /* Another node's is on its way, and a worker does not wait for it. */
    if (function != NULL && function->proxy != NULL && !t->queued &&
        store_slot_watch(&n->slots[function->slot]) && vec_push(&function->waiting, t))
        t->missing++;
    n->missing_arguments += t->missing > 0;
}

/* A new book. NULL if the record makes no sense. */
node_task_t *node_task_open(node_job_t *job, uint32_t submitter, uint32_t index,
                            uint64_t generation, bool queued, mob_ref_t *ret_actor) {
    node_t *n = job->node;
    node_task_t *t = task_read(job, submitter, index, generation, ret_actor);
    if (t == NULL) return NULL;
    t->queued = queued;
    n->tasks[index] = t;
    n->flows += t->flows;
    n->open_tasks[submitter]++;
    sched_shape_hold(t->job->sched, t->shape);
    sched_shape_hold(t->job->sched, t->held_shape);
    task_hold_refs(n, t);
    return t;
}

/* Closes a book whose references are let go already. */
void node_task_disown(node_task_t *t) {
    if (t->job == NULL) return;
    sched_shape_drop(t->job->sched, t->shape);
    sched_shape_drop(t->job->sched, t->held_shape);
    t->job = NULL;
}

static void task_close(node_t *n, node_task_t *t) {
    node_task_disown(t);
    n->open_tasks[t->submitter]--;
    n->tasks[t->record] = NULL;
    n->flows -= t->flows;
    if (t->inflow != NULL) node_inflow_end(n, t);
    free(t);
}

node_task_t *node_task_submit_open(node_client_t *client, uint32_t index, uint64_t generation,
                                   mob_ref_t *ret_actor) {
    node_t *n = client->node;
    if (!node_grant_record_is(n, index, client->number) || n->tasks[index] != NULL ||
        !wire_word_is(atomic_load_explicit(&n->records[index].word, memory_order_acquire),
                      generation, WIRE_READY_STATE)) {
        node_client_fault(client, "submitted a record that is not its own or not ready");
        return NULL;
    }
    node_task_t *t =
        node_task_open(client->job, client->number, index, generation, false, ret_actor);
    if (t == NULL) {
        node_client_fault(client, "submitted a record that makes no sense");
        return NULL;
    }
    /* what is not sent to a peer yet goes through a frame in place */
    bool loops = n->config.loopback && t->kind != MOB_GROUP && (t->kind != MOB_TASK || t->flows);
    mob_status_t status = loops ? node_frame_loop(n, t) : MOB_OK;
    if (status == MOB_OK) return t;
    node_task_fail(n, t, status, "the task could not be sent through a frame (MOBULA_LOOPBACK=1)");
    return NULL;
}

static void creation_submit(node_t *n, node_task_t *t) {
    mob_ref_t actor = t->refs[0];
    node_actor_create(n, t);
    if (t->missing == 0) node_task_ready(t, n);
    node_actor_early(n, actor);
}

node_task_t *node_task_submit_held(node_client_t *client, uint32_t index, uint64_t generation) {
    mob_ref_t actor;
    node_task_t *t = node_task_submit_open(client, index, generation, &actor);
    if (t == NULL) return NULL;
    if (t->kind != MOB_ACTOR_CREATE) {
        node_client_fault(client, "gave a name to what is no actor");
        return NULL;
    }
    t->held = true;
    creation_submit(client->node, t);
    return client->node->tasks[index]; /* a kill may have come before it */
}

void node_task_submit(node_client_t *client, uint32_t index, uint64_t generation) {
    node_t *n = client->node;
    mob_ref_t actor;
    if (index < n->grants.records.granted && n->records[index].kind == MOB_GROUP) {
        node_group_create(client, index, generation, NULL);
        return;
    }
    node_task_t *t = node_task_submit_open(client, index, generation, &actor);
    if (t == NULL) return;
    if (t->kind == MOB_ACTOR_CALL) {
        node_actor_call(n, t, actor);
    } else if (t->kind == MOB_ACTOR_CREATE) {
        creation_submit(n, t);
    } else {
        if (t->max_calls == 0) node_lane_open(t->job, t->shape); /* for the tasks that follow */
        if (t->missing == 0) node_task_ready(t, n);
    }
}

/* Of a job that ends. */
static void task_drop(node_t *n, node_task_t *t) {
    if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL)
        node_actor_orphan(n, t->actor); /* fails the creation too */
    else
        node_task_fail(n, t, MOB_ECANCELLED, "its job has ended");
}

static bool may_run_elsewhere(const node_task_t *t) {
    return node_forward_may(t) && node_offer_fits_elsewhere(t->job, t->shape);
}

mob_status_t node_task_doom(const node_task_t *t, const char **ret_words) {
    const sched_where_t *where = sched_shape_where(t->job->sched, t->shape);
    if (t->remake != NULL && t->remake->goes && !may_run_elsewhere(t)) {
        *ret_words = "no node is left that could make it again";
        return MOB_EPLACE;
    }
    bool makes_actor = t->kind == MOB_ACTOR_CREATE;
    if (where->flags & NODE_WHERE_REMOVED ||
        (where->group != NULL && sched_group_is_removed(where->group))) {
        *ret_words = makes_actor
                         ? "The placement group corresponding to this Actor has been removed."
                         : "The placement group corresponding to this task has been removed.";
        return makes_actor ? MOB_EACTORGROUP : MOB_EGROUP;
    }
    if (node_group_bars(t, ret_words)) return makes_actor ? MOB_EACTORPLACE : MOB_EPLACE;
    if (where->selector != NULL && where->selector[0] == '!' &&
        !sched_shape_matches(t->job->sched, t->shape) && !may_run_elsewhere(t)) {
        *ret_words =
            makes_actor ? "The actor is not schedulable: The node specified via "
                          "NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, "
                          "and soft=False was specified."
                        : "The task is not schedulable: The node specified via "
                          "NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, "
                          "and soft=False was specified.";
        return makes_actor ? MOB_EACTORPLACE : MOB_EPLACE;
    }
    return MOB_OK;
}

/* Whether it will never run: then it has failed. */
static bool task_fails(node_t *n, node_task_t *t) {
    const char *words;
    mob_status_t status = node_task_doom(t, &words);
    if (status == MOB_OK) return false;
    if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL)
        node_actor_end(n, t->actor, status, words);
    else
        node_task_fail(n, t, status, words);
    return true;
}

void node_task_ready(node_task_t *t, node_t *n) {
    if (t->kind == MOB_ACTOR_CALL) {
        node_actor_call_ready(n, t);
        return;
    }
    if (t->held || t->awaits_term || (t->visit != NULL && !node_visit_may_start(t))) return;
    if (t->job->farewell.leaving) { /* submitted before its job's end was known */
        if (!t->job->cancelling) task_drop(n, t);
        return;
    }
    if (node_forward(n, t) || node_far_takes(n, t) || task_fails(n, t) || node_offer_hold(t))
        return;
    char name[256];
    if (!sched_shape_fits_ever(t->job->sched, t->shape)) {
        node_task_name(n, t, name, sizeof name);
        if (!may_run_elsewhere(t)) node_warn_if_never(t->job, t->shape, (mob_kind_t)t->kind, name);
    }
    sched_task_add(t->job->sched, &t->queue, t->shape, base_clock_mono_ns());
    node_offer_note(t);
}

/* ---- on a worker ---- */

void node_task_link(node_task_t *t, node_client_t *worker) {
    t->worker = worker;
    t->run_next = NULL;
    t->run_prev = worker->runs_tail;
    if (worker->runs_tail)
        worker->runs_tail->run_next = t;
    else
        worker->runs = t;
    worker->runs_tail = t;
    worker->run_count++;
}

static uint64_t run_flags(const node_task_t *t) {
    if (t->kind != MOB_ACTOR_CREATE || t->actor == NULL)
        return t->retries != 0 ? WIRE_RUN_MAY_RETRY : 0;
    return (t->actor->life.restarts > 0 ? WIRE_RUN_RESTARTED : 0) |
           (t->actor->life.made ? WIRE_RUN_MADE : 0);
}

void node_task_run_on(node_t *n, node_task_t *t, node_client_t *worker) {
    (void)n;
    if (worker->runs == NULL && t->kind != MOB_ACTOR_CALL) node_pressure_begins(worker);
    node_task_link(t, worker);
    node_client_tell(
        worker, (wire_message_t){.run = {WIRE_RUN, .record = t->record, .generation = t->generation,
                                         .gpu_mask = t->lease.gpu_mask, .flags = run_flags(t)}});
}

static void run_unlink(node_task_t *t) {
    node_client_t *w = t->worker;
    if (w == NULL) return;
    if (t->run_prev)
        t->run_prev->run_next = t->run_next;
    else
        w->runs = t->run_next;
    if (t->run_next)
        t->run_next->run_prev = t->run_prev;
    else
        w->runs_tail = t->run_prev;
    w->run_count--;
    t->worker = NULL;
}

/* The task's lease goes to the task behind it on the same worker, which begins without asking; else
 * back to the scheduler. */
static void lease_pass_on(node_t *n, node_task_t *t, node_client_t *worker) {
    if (t->lease.state != SCHED_LEASE_NONE && worker != NULL && worker->state == NODE_LIVE &&
        worker->runs != NULL) {
        sched_lease_unblock(n->sched, &t->lease);
        worker->runs->lease = t->lease;
        t->lease = (sched_lease_t){0};
        if (worker->runs->visit != NULL) node_placing_begun(worker->runs->visit);
    }
    sched_lease_release(n->sched, &t->lease);
}

/* The record is READY under a new generation, so that a claim of the old one fails for good. */
void node_task_renew(node_t *n, node_task_t *t) {
    if (t->block != 0) {
        /* The body's block is tagged with the record's generation: it moves along. */
        shm_block_t *block = (shm_block_t *)(n->arena.base + t->block - sizeof(shm_block_t));
        uint64_t old = shm_block_used(shm_tag(true, t->record, t->generation));
        atomic_compare_exchange_strong(&block->word, &old,
                                       shm_block_used(shm_tag(true, t->record, t->generation + 1)));
    }
    t->generation++;
}

void node_task_reset(node_t *n, node_task_t *t) {
    node_client_t *worker = t->worker;
    run_unlink(t);
    lease_pass_on(n, t, worker);
    node_task_renew(n, t);
    /* Results that the first run had prepared and not published are void. */
    for (uint32_t i = 0; i < t->num_returns; i++) {
        node_object_t *o = n->objects[t->refs[i].slot];
        if (o != NULL && o->generation == t->refs[i].generation) node_object_contents_release(n, o);
        n->slots[t->refs[i].slot].value.maker = t->record;
    }
    if (t->flows) node_flow_mend(n, t);
    if (t->inflow != NULL) node_inflow_end(n, t);
    t->queued = false;
    n->records[t->record].flags &= (uint8_t) ~(WIRE_RAISED | WIRE_TOLD); /* of the last run */
    atomic_store_explicit(&n->records[t->record].word,
                          wire_word(t->generation, 0, WIRE_READY_STATE | WIRE_KNOWN),
                          memory_order_release);
}

static void task_again(node_t *n, node_task_t *t) {
    node_task_reset(n, t);
    if (t->missing == 0 && !t->job->farewell.leaving) node_task_ready(t, n);
}

void node_task_park(node_t *n, node_task_t *t) {
    run_unlink(t);
    n->open_tasks[t->submitter]--;
    t->submitter = 0; /* its maker may end, and its number be used again */
    n->open_tasks[0]++;
}

bool node_task_take_back(node_t *n, node_task_t *t) {
    uint64_t ready = wire_word(t->generation, 0, WIRE_READY_STATE);
    /* The worker's claim and this are compare-and-swaps of the same word: one of them wins. */
    if (!wire_record_move(&n->records[t->record], ready,
                          wire_word(t->generation + 1, 0, WIRE_READY_STATE), NULL))
        return false;
    node_client_t *worker = t->worker;
    run_unlink(t);
    lease_pass_on(n, t, worker);
    node_task_renew(n, t);
    if (t->kind != MOB_ACTOR_CALL && t->job->farewell.leaving)
        return true; /* the end of its job fails it */
    if (t->queue.order > 0)
        sched_task_readd(n->sched, &t->queue);
    else if (t->missing == 0) /* was handed out before its arguments were there */
        node_task_ready(t, n);
    return true;
}

void node_task_unready(node_client_t *client, uint32_t record, uint64_t generation) {
    node_task_t *t = record < WIRE_MAX_RECORDS ? client->node->tasks[record] : NULL;
    /* Else the daemon has taken it back meanwhile. */
    if (t == NULL || t->worker != client || t->generation != generation) return;
    node_task_take_back(client->node, t);
    node_worker_free(client);
}

/* ---- its end ---- */

/* Takes the task out of those that wait, once; the one that names the object twice is there twice.
 * Tasks that are cancelled in a row lie in a row: the search begins where the last one was, and
 * goes both ways, for the last of all has come to its place. */
static void waiting_remove(node_object_t *o, const node_task_t *t) {
    size_t count = o->waiting.count, from = o->waiting_look;
    if (from >= count) from = count > 0 ? count - 1 : 0;
    for (size_t step = 0; step <= from || from + step < count; step++) {
        size_t below = step <= from ? from - step : from, above = from + step;
        size_t at = above < count && o->waiting.items[above] == t ? above : below;
        if (at >= count || o->waiting.items[at] != t) continue;
        vec_swap_remove(&o->waiting, at);
        o->waiting_look = at;
        return;
    }
}

/* The objects that it waits for must not name it any more when they are sealed. */
static void waiting_unlink(node_t *n, node_task_t *t) {
    n->missing_arguments -= t->missing > 0;
    for (uint32_t i = 0; t->missing > 0 && i < t->num_deps; i++) {
        node_object_t *o = task_deps(t)[i].slot ? n->objects[task_deps(t)[i].slot] : NULL;
        if (o != NULL) waiting_remove(o, t);
    }
    node_object_t *function = t->missing > 0 ? node_object_known(n, t->function) : NULL;
    if (function != NULL) waiting_remove(function, t);
    t->missing = 0;
}

/* Lets go of what the task's arguments and its function name. */
static void refs_release(node_t *n, node_task_t *t) {
    for (uint32_t i = 0; i < t->num_deps + t->num_refs; i++)
        node_object_unuse_ref(n, t->refs[t->num_returns + i]);
    node_object_unuse_ref(n, t->function);
}

void node_task_forget(node_t *n, node_task_t *t) {
    waiting_unlink(n, t);
    refs_release(n, t);
    task_close(n, t);
}

void node_task_dismiss(node_t *n, node_task_t *t) {
    node_client_t *worker = t->worker;
    run_unlink(t);
    waiting_unlink(n, t);
    node_offer_unhold(t);
    node_term_unhold(n, t);
    sched_task_remove(n->sched, &t->queue);
    lease_pass_on(n, t, worker);
    refs_release(n, t);
    if (t->visit != NULL && t->flows) node_flow_stop(n, t); /* its origin decides what follows */
    if (t->block != 0)
        shm_block_release(n->arena.base, n->extents, t->block,
                          shm_tag(true, t->record, t->generation));
    wire_record_t *record = &n->records[t->record];
    uint64_t word = wire_word(t->generation, 0, WIRE_FREE);
    node_remake_t *remake = t->remake;
    node_visit_t *visit = t->visit;
    node_actor_t *far =
        t->actor != NULL && t->actor->far != NULL && node_peer_is(worker) ? t->actor : NULL;
    int32_t retries = t->retries;
    task_close(n, t);
    atomic_store_explicit(&record->word, word, memory_order_release);
    if (remake != NULL) node_remake_end(n, remake, retries);
    if (visit != NULL) node_visit_end(n, visit);
    if (far != NULL) node_far_answered(n, far);
}

static void note_event(node_t *n, const node_task_t *t, const node_client_t *worker) {
    if (n->records[t->record].flags & (WIRE_TOLD | WIRE_UNTOLD)) return;
    control_event_t e = {.kind = t->kind, .pid = worker->pid, .worker = worker->epoch};
    e.start_ns = n->records[t->record].start_ns;
    e.end_ns = n->records[t->record].end_ns;
    if (t->kind == MOB_ACTOR_CALL && t->actor != NULL) {
        char method[sizeof e.name];
        node_event_name(&e, t->actor, method, node_task_name(n, t, method, sizeof method));
    } else {
        node_task_name(n, t, e.name, sizeof e.name);
    }
    control_event_add(n->control, &e);
}

/* Seals the results that a worker that died after DONE did not seal itself. */
static void results_seal(node_t *n, node_task_t *t) {
    if (t->flows) node_flow_end(n, t);
    for (uint32_t i = 0; i < t->num_returns; i++) {
        store_slot_t *slot = &n->slots[t->refs[i].slot];
        /* A slot that it did seal may have been freed and opened again under another generation
         * since. The word is read first: a PENDING of the new object comes after its generation. So
         * a word that is PENDING and a generation that is the task's mean that only the daemon may
         * seal the slot. */
        bool pending = (atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) ==
                       STORE_PENDING;
        if (!pending ||
            atomic_load_explicit(&slot->generation, memory_order_relaxed) != t->refs[i].generation)
            continue;
        node_object_t *o = n->objects[t->refs[i].slot];
        /* containers had their WIRE_ESCAPE before DONE */
        store_slot_seal(slot, o != NULL && o->contents_held);
    }
}

void node_task_complete(node_t *n, node_task_t *t) {
    node_client_t *worker = t->worker;
    note_event(n, t, worker);
    bool made = t->kind == MOB_ACTOR_CREATE && t->actor != NULL && t->actor->life.made;
    for (uint32_t i = 0; i < t->num_returns && !made; i++) node_object_sealed(n, t->refs[i]);
    if (n->records[t->record].flags & WIRE_RAISED) node_replay_keep(n, t);
    if (t->kind == MOB_ACTOR_CREATE) {
        if (node_actor_created(n, t)) return;
    } else if (t->kind == MOB_ACTOR_CALL) {
        node_actor_t *actor = t->actor;
        node_task_dismiss(n, t);
        if (actor != NULL) {
            actor->in_flight--;
            actor_life_answered(&actor->life);
            node_actor_try_end(n, actor);
        }
        return;
    } else if (t->max_calls > 0 && ++worker->limited_calls >= t->max_calls) {
        worker->retiring = true;
    }
    node_task_dismiss(n, t);
    if (worker->state == NODE_LIVE && worker->actor == NULL) node_worker_free(worker);
}

void node_task_end(node_t *n, node_task_t *t, mob_status_t status, const char *text) {
    const node_actor_t *a = status == MOB_EACTOR || status == MOB_EUNAVAILABLE ? t->actor : NULL;
    if (t->flows) { /* the error is its last item; it is told once */
        node_flow_fail(n, t, status, text, a);
        for (uint32_t i = 0; i < t->num_returns; i++) node_slot_quiet(n, t->refs[i]);
    }
    for (uint32_t i = 0; i < t->num_returns; i++) node_slot_fail(n, t->refs[i], status, text, a);
    for (uint32_t i = 0; i < t->num_returns; i++) node_object_sealed(n, t->refs[i]);
    node_task_dismiss(n, t);
}

void node_task_fail(node_t *n, node_task_t *t, mob_status_t status, const char *text) {
    node_task_end(n, t, status, text);
    node_bells_ring(n);
}

/* The book on a record that this worker runs. NULL: the message is put aside; or the worker does
 * not run the record, which is its fault. */
static node_task_t *task_of(node_client_t *client, uint32_t record, uint64_t generation,
                            unsigned state) {
    node_t *n = client->node;
    uint64_t word = record < n->grants.records.granted
                        ? atomic_load_explicit(&n->records[record].word, memory_order_acquire)
                        : 0;
    bool says_so = wire_word_is(word, generation, state);
    if (says_so && client->takes && wire_word_worker(word) == client->number &&
        (word & WIRE_KNOWN) && !node_queued_told(client, record, generation, state))
        return NULL;
    node_task_t *t = record < WIRE_MAX_RECORDS ? n->tasks[record] : NULL;
    if (t == NULL || t->worker != client || t->generation != generation || !says_so) {
        node_client_fault(client, "spoke of a record that it does not run");
        return NULL;
    }
    return t;
}

void node_task_done(node_client_t *client, uint32_t record, uint64_t generation, bool crowd) {
    node_task_t *t = task_of(client, record, generation, WIRE_DONE_STATE);
    client->has_worked = true;
    if (t != NULL) node_task_complete(client->node, t);
    if (crowd) node_bells_ring(client->node);
}

void node_task_keep(node_client_t *client, uint32_t record, uint64_t generation) {
    node_t *n = client->node;
    if (record >= n->grants.records.granted) return;
    uint64_t word = atomic_load_explicit(&n->records[record].word, memory_order_acquire);
    bool runs = wire_word_is(word, generation, WIRE_TAKEN) ||
                wire_word_is(word, generation, WIRE_DONE_STATE);
    if (!runs || !(word & WIRE_KNOWN) || wire_word_worker(word) != client->number) return;
    /* The book is opened also if its submitter has yet to speak of it. */
    if (client->takes) (void)node_queued_told(client, record, generation, WIRE_TAKEN);
    node_task_t *t = n->tasks[record];
    if (t != NULL && t->worker == client && t->generation == generation && t->remake == NULL &&
        t->visit == NULL && t->kind == MOB_TASK && !t->flows)
        node_lineage_keep(n, t);
}

void node_task_retry(node_client_t *client, const wire_message_t *m) {
    node_task_t *t = task_of(client, m->failure.record, m->failure.generation, WIRE_TAKEN);
    if (t == NULL) return;
    if (t->cancelled != 0) {
        node_cancel_fail(client->node, t);
        node_client_tell(client, wire_answer(MOB_OK, 0));
        node_worker_free(client);
        return;
    }
    if (t->kind == MOB_ACTOR_CREATE || !t->retries_exceptions || t->retries == 0) {
        node_client_fault(client, "asked to retry what may not be");
        return;
    }
    size_t size = m->failure.size <= MOB_STORY_MAX ? (size_t)m->failure.size : MOB_STORY_MAX;
    const char *why = (const char *)client->segment.base + SHM_CLIENT_SCRATCH;
    if (t->visit != NULL && t->kind == MOB_TASK) {
        node_visit_raised(client->node, t, why, size);
        node_client_tell(client, wire_answer(MOB_OK, 0));
        node_worker_free(client);
        return;
    }
    node_failure_retry(t, t->retries, why, size);
    if (t->kind == MOB_ACTOR_CALL) {
        node_actor_call_again(client, t);
        return;
    }
    if (t->retries > 0) t->retries--;
    task_again(client->node, t);
    node_client_tell(client, wire_answer(MOB_OK, 0));
    node_worker_free(client);
}

/* One that died with its node has no number that is known. */
static void worker_text(const node_death_t *d, char *ret_text, size_t size) {
    ret_text[0] = 0;
    if (d->pid != 0) snprintf(ret_text, size, " (pid %d)", (int)d->pid);
}

/* Its results say how its worker died. */
static void task_crash(node_t *n, node_task_t *t, const node_death_t *d) {
    char name[256], hint[80], who[48], text[1100];
    node_task_name(n, t, name, sizeof name);
    node_replay_hint(t, hint, sizeof hint);
    worker_text(d, who, sizeof who);
    if (d->with_node)
        snprintf(text, sizeof text, "the node that ran %s is dead: %s. To run it again here: %s",
                 name, d->how, hint);
    else
        snprintf(text, sizeof text, "the worker%s that ran %s died: %s. To run it again here: %s",
                 who, name, d->how, hint);
    node_replay_keep(n, t);
    node_task_fail(n, t, d->oom ? MOB_EOOM : d->with_node ? MOB_ENODE : MOB_ECRASHED, text);
}

void node_task_died(node_t *n, node_task_t *t, const node_death_t *d) {
    char text[640];
    control_retry_t left = {.retries = t->retries, .oom_runs = t->oom_runs};
    control_death_t death = {.begun = d->begun,
                             .oom = d->oom,
                             .oom_again = d->oom_again,
                             .cancelled = t->cancelled != 0,
                             .job_ends = t->job == NULL || t->job->farewell.leaving};
    control_fate_t fate = control_retry_decide(&left, &death);
    if (fate == CONTROL_TASK_AGAIN || fate == CONTROL_TASK_FAILS)
        if (t->job != NULL && task_fails(n, t)) return; /* it was killed with its group */
    switch (fate) {
    case CONTROL_TASK_CANCELLED:
        node_cancel_fail(n, t);
        return;
    case CONTROL_TASK_DROPPED:
        node_task_fail(n, t, MOB_ECANCELLED, "its job has ended");
        return;
    case CONTROL_TASK_FAILS:
        task_crash(n, t, d);
        return;
    case CONTROL_TASK_AGAIN:
        /* the driver was told when a worker was ended for want of memory */
        if (d->begun && !d->oom) {
            char who[48];
            worker_text(d, who, sizeof who);
            int size = snprintf(text, sizeof text, "its %s%s died: %s",
                                d->with_node ? "node" : "worker", who, d->how);
            node_failure_retry(t, t->retries, text, (size_t)size);
        }
        t->retries = left.retries;
        t->oom_runs = left.oom_runs;
        task_again(n, t);
    }
}

/* A task that its dead worker has not finished. */
static void plain_lost(node_t *n, node_task_t *t, bool begun) {
    const node_client_t *worker = t->worker;
    char how[256];
    node_worker_exit_text(worker, how, sizeof how);
    node_death_t death = {.begun = begun,
                          .oom = begun && worker->oom[0] != 0,
                          .oom_again = worker->oom_again,
                          .pid = worker->pid,
                          .how = how};
    if (begun && t->visit != NULL)
        node_visit_died(n, t, &death); /* its peer decides */
    else
        node_task_died(n, t, &death);
}

void node_task_lost(node_t *n, node_task_t *t) {
    uint64_t word = atomic_load_explicit(&n->records[t->record].word, memory_order_acquire);
    bool begun = wire_word_state(word) == WIRE_TAKEN;
    if (wire_word_state(word) == WIRE_DONE_STATE) {
        results_seal(n, t);
        node_task_complete(n, t);
    } else if (t->kind == MOB_TASK && t->worker != NULL && t->worker->unfit != NULL && !begun) {
        node_task_fail(n, t, MOB_ESETUP, t->worker->unfit);
    } else if (t->kind == MOB_TASK) {
        plain_lost(n, t, begun);
    } else if (t->kind == MOB_ACTOR_CREATE) {
        node_actor_creation_lost(n, t, begun);
    } else if (t->actor != NULL) {
        node_actor_call_lost(n, t, begun);
    } else {
        node_task_fail(n, t, MOB_EACTOR, "its actor and the process that ran it are gone");
    }
}
