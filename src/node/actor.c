/*
 * Actors: one worker each, calls of one caller and concurrency group in order; or, if the actor was
 * made so, as their arguments come.
 *
 *   PENDING      its creation waits or runs; calls queue up
 *   ALIVE        calls go to the worker as soon as their arguments are there, the callers in turn
 *   RESTARTING   as PENDING, after its worker's death; see restart.c
 *   DEAD         every call, old or new, fails with the cause
 *
 * actor/life.c decides which of them follows.
 *
 * An actor is an object whose references are its handles. When the last handle goes, the actor ends
 * after the calls that it has. The daemon forgets an actor that is dead and has no handle.
 *
 * Early messages: a handle may reach another process, and a call by that process the daemon, before
 * the daemon has read the actor's creation, which lies in another ring. The creator pushed the
 * creation before it gave the handle away, so the daemon has read it once it has read every ring
 * once more. Until then it puts the call, or the kill, aside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "node/cluster/actor_seat.h"
#include "node/cluster/actor_stub.h"
#include "node/cluster/proxy.h"
#include "node/runname.h"
#include "node/state.h"

/* Its home is another node, which has it in its list. */
static bool is_elsewheres(const node_t *n, const node_actor_t *a) {
    return n->cluster != NULL &&
           node_proxy_owns(n, n->grants.slots.owner[a->id.slot / STORE_SLOT_BLOCK]);
}

void node_actor_note(node_t *n, const node_actor_t *a) {
    const char *host;
    if (is_elsewheres(n, a)) return;
    static const control_actor_state_t states[] = {[ACTOR_PENDING] = CONTROL_ACTOR_PENDING,
                                                   [ACTOR_ALIVE] = CONTROL_ACTOR_ALIVE,
                                                   [ACTOR_RESTARTING] = CONTROL_ACTOR_RESTARTING,
                                                   [ACTOR_DEAD] = CONTROL_ACTOR_DEAD};
    control_actor_t note = {.id = a->id,
                            .state = states[a->life.state],
                            .restarts = a->life.restarts,
                            .node = node_far_where(n, a, &host)};
    if (a->worker != NULL || a->far != NULL) note.pid = a->worker != NULL ? a->worker->pid : a->pid;
    snprintf(note.name, sizeof note.name, "%s", a->name);
    size_t size = base_utf8_whole(a->cause, strnlen(a->cause, sizeof note.cause - 1));
    if (a->life.state == ACTOR_DEAD) memcpy(note.cause, a->cause, size);
    control_actor_put(n->control, &note);
}

/* Whether the daemon hears of this actor before it has read its creation. */
static bool is_early(node_t *n, const node_object_t *o) {
    return o != NULL && o->actor == NULL && o->proxy == NULL &&
           (atomic_load_explicit(&n->slots[o->slot].word, memory_order_acquire) & STORE_STATE) ==
               STORE_PENDING;
}

void node_actor_early(node_t *n, mob_ref_t id) {
    size_t kept = 0, count = n->actors.early.count;
    for (size_t i = 0; i < count; i++) {
        node_early_t e = n->actors.early.items[i];
        if (e.actor.slot != id.slot || e.actor.generation != id.generation)
            n->actors.early.items[kept++] = e;
        else if (e.call != NULL)
            node_actor_call(n, e.call, id);
        else
            node_actor_kill(n, id, false);
    }
    n->actors.early.count = kept;
}

void node_actors_settle(node_t *n) {
    size_t kept = 0;
    for (size_t i = 0; i < n->actors.early.count; i++) {
        node_early_t e = n->actors.early.items[i];
        if (e.round == n->round)
            n->actors.early.items[kept++] = e;
        else if (e.call != NULL)
            node_task_fail(n, e.call, MOB_EACTOR, "there is no such actor");
    }
    n->actors.early.count = kept;
    if (kept > 0) n->again = true;
}

void node_actor_create(node_t *n, node_task_t *t) {
    node_object_t *o = node_object_find(n, t->refs[0]);
    node_actor_t *a = calloc(1, sizeof *a);
    /* without memory for it: its calls then fail like those of an actor that is gone */
    if (o == NULL || a == NULL) {
        free(a);
        return;
    }
    a->id = t->refs[0];
    a->job = t->job;
    a->creation = t;
    actor_life_init(&a->life, t->retries);
    a->limit = n->records[t->record].max_concurrency;
    a->out_of_order = n->records[t->record].flags & WIRE_OUT_OF_ORDER;
    node_task_name(n, t, a->name, sizeof a->name);
    o->actor = a;
    t->actor = a;
    node_actor_note(n, a);
}

/* The driver is not told of the actor's calls one by one, nor of the actor's own error. */
static void actor_quiet(node_t *n, node_actor_t *a) {
    a->quiet = true;
    node_slot_quiet(n, a->id);
}

/* The constructor raised. Its words are the actor's value, or in `words`; calls get a copy. */
static void creation_refused(node_t *n, node_actor_t *a, node_client_t *worker) {
    a->creation = NULL; /* its caller frees it */
    a->init_failed = true;
    if (!a->life.killed) node_failure_creation(n, a, worker->pid);
    actor_quiet(n, a);
    worker->retiring = true;
    a->end = ACTOR_REFUSED;
    if (!actor_life_ended(&a->life, ACTOR_REFUSED, true))
        node_actor_bury(n, a, "the actor died because its creation failed");
}

/* From now on the actor holds only what was asked for explicitly: the lease moves from the task to
 * the actor's worker. */
static void worker_become(node_client_t *worker, node_actor_t *a, node_task_t *t) {
    sched_lease_shrink(t->job->sched, &t->lease, t->held_shape);
    worker->actor_ns = base_clock_wall_ns();
    a->runs = worker->events ? atomic_load(&worker->events->tail) : 0;
    node_pressure_spare(worker);
    worker->actor = a;
    /* a lease in a bundle holds what its shape is inside, and the worker may ask about it */
    node_shape_hold(worker, t->held_shape);
    worker->lease = t->lease;
    t->lease = (sched_lease_t){0};
    a->worker = worker;
    worker->pool->spares_wanted = true;
}

/* If the worker is dying by now, the rest follows when its end is certain. */
bool node_actor_created(node_t *n, node_task_t *t) {
    node_actor_t *a = t->actor;
    node_client_t *worker = t->worker;
    if (a == NULL || worker == NULL) return false;
    a->pid = worker->pid;
    if (a->life.made ? a->words != NULL : store_meta_error(n->slots[a->id.slot].meta) != MOB_OK) {
        creation_refused(n, a, worker);
        return false;
    }
    actor_life_made(&a->life);
    worker_become(worker, a, t);
    bool keeps = actor_life_may_restart(&a->life);
    if (keeps)
        node_task_park(n, t);
    else
        a->creation = NULL;
    node_actor_first_give(n, a); /* before the worker hears of its queues */
    if (!a->life.killed) node_calls_begin(n, a);
    node_actor_note(n, a);
    node_far_begun(n, a);
    /* killed while it waited for its worker; at its job's end the worker was told to end */
    if (a->life.killed && !a->orphaned) node_client_kill(worker);
    if (a->seat != NULL)
        node_seat_made(n, a);
    else if (a->named != NULL && a->named->spec != NULL)
        (void)node_seat_adopt(n->cluster, node_proxy_id(n, a->id)); /* its leader is to know it */
    node_actor_pump(n, a);
    node_actor_try_end(n, a);
    return keeps;
}

void node_actor_id_text(const node_t *n, const node_actor_t *a,
                        char ret_text[2 * MOB_ID_SIZE + 1]) {
    frame_id_t id = {n->incarnation, a->id.slot, a->id.generation};
    if (a->far != NULL) id = a->far->id;
    if (a->seat != NULL) id = a->seat->id;
    snprintf(ret_text, 2 * MOB_ID_SIZE + 1, "%016llx%08x%016llx", (unsigned long long)id.home,
             id.number, (unsigned long long)id.generation);
}

/* The driver is not told how the call failed. */
static void call_quiet(node_t *n, const node_task_t *t) {
    for (uint32_t i = 0; i < t->num_returns; i++) node_slot_quiet(n, t->refs[i]);
    if (t->flows) node_flow_quiet(n, t);
}

void node_actor_call_fail(node_t *n, node_task_t *t, mob_status_t status, const char *why) {
    const node_actor_t *a = t->actor;
    const char *host;
    uint64_t node = node_far_where(n, a, &host);
    char text[1600], id[2 * MOB_ID_SIZE + 1], pid[32] = "";
    node_actor_id_text(n, a, id);
    if (a->pid != 0) snprintf(pid, sizeof pid, "\n\tpid: %d", (int)a->pid);
    snprintf(text, sizeof text,
             "The actor died unexpectedly before finishing this task.\n\tclass_name: "
             "%s\n\tactor_id: %s%s\n\tnode_id: %016llx\n\tip: %s\nThe actor %s is dead: %s",
             a->name, id, pid, (unsigned long long)node, host, a->name, why);
    if (a->quiet) call_quiet(n, t);
    node_task_fail(n, t, status, text);
}

void node_actor_call_die(node_t *n, node_task_t *t, const char *why) {
    node_actor_t *a = t->actor;
    if (node_seat_call_drop(n, t)) return;
    if (a->words != NULL) {
        call_quiet(n, t);
        node_task_fail(n, t, MOB_EACTOR, a->words);
        return;
    }
    const store_slot_t *slot = &n->slots[a->id.slot];
    uint64_t meta = slot->meta, size = store_meta_size(meta), block = slot->value.large.block;
    const char *words;
    if (a->init_failed && store_meta_format(meta) == MOB_FORMAT_DIRECT &&
        !store_meta_inline(meta) && !store_meta_in_file(meta) && size < 65536 &&
        block < n->config.store_bytes - size &&
        wire_error_words(n->arena.base + block, size, &words, &size)) {
        char *text = strndup(words, size);
        call_quiet(n, t);
        node_task_fail(n, t, MOB_EACTOR, text ? text : "the actor died");
        free(text);
        return;
    }
    if (a->end_cause != NULL && !a->life.made) {
        call_quiet(n, t);
        node_task_fail(n, t, a->end_status, a->end_cause);
        return;
    }
    node_actor_call_fail(n, t, MOB_EACTOR, why);
}

static void call_fail(node_t *n, node_actor_t *a, node_task_t *t) {
    node_actor_call_die(n, t, a->cause);
}

static node_calls_t *calls_of(node_actor_t *a, uint32_t caller, uint8_t group) {
    for (size_t i = 0; i < a->callers.count; i++)
        if (a->callers.items[i].caller == caller && a->callers.items[i].group == group)
            return &a->callers.items[i];
    if (!vec_push(&a->callers, ((node_calls_t){.caller = caller, .group = group}))) return NULL;
    return &a->callers.items[a->callers.count - 1];
}

static void calls_append(node_calls_t *calls, node_task_t *t) {
    t->next = NULL;
    if (calls->tail)
        calls->tail->next = t;
    else
        calls->head = t;
    calls->tail = t;
}

/* Of an actor out of order: a call that waits for an argument stands beside the rows. */
static void aside_add(node_actor_t *a, node_task_t *t) {
    t->aside = true;
    t->prev = NULL;
    t->next = a->aside;
    if (t->next != NULL) t->next->prev = t;
    a->aside = t;
}

bool node_actor_aside_remove(node_actor_t *a, node_task_t *t) {
    if (!t->aside) return false;
    t->aside = false;
    if (t->next != NULL) t->next->prev = t->prev;
    if (t->prev != NULL)
        t->prev->next = t->next;
    else
        a->aside = t->next;
    t->next = t->prev = NULL;
    return true;
}

static void call_queue(node_t *n, node_actor_t *a, node_task_t *t) {
    node_calls_t *calls = calls_of(a, t->submitter, n->records[t->record].group);
    if (calls == NULL) {
        node_task_fail(n, t, MOB_ENOMEM, "the daemon has no memory for this call");
        return;
    }
    calls_append(calls, t);
    node_actor_pump(n, a);
}

void node_actor_call(node_t *n, node_task_t *t, mob_ref_t id) {
    node_object_t *o = node_object_find(n, id);
    node_actor_t *a = o != NULL ? o->actor : NULL;
    if (is_early(n, o) &&
        vec_push(&n->actors.early, ((node_early_t){.actor = id, .call = t, .round = n->round})))
        return;
    if (a == NULL && o != NULL) a = node_far_open(n, o);
    if (a == NULL) {
        node_task_fail(n, t, MOB_EACTOR, "there is no such actor any more");
        return;
    }
    t->actor = a;
    if (a->life.state == ACTOR_DEAD) {
        call_fail(n, a, t);
        return;
    }
    if (a->out_of_order && t->missing > 0)
        aside_add(a, t);
    else
        call_queue(n, a, t);
}

void node_actor_call_ready(node_t *n, node_task_t *t) {
    node_actor_t *a = t->actor;
    if (a == NULL && t->visit != NULL) node_seat_call_ready(n, t);
    if (a == NULL) return;
    if (node_actor_aside_remove(a, t))
        call_queue(n, a, t);
    else
        node_actor_pump(n, a);
}

void node_actor_pump(node_t *n, node_actor_t *a) {
    if (a->far != NULL) {
        node_far_pump(n, a);
        return;
    }
    if (a->life.state != ACTOR_ALIVE) return;
    for (size_t i = 0; i < a->callers.count;) {
        node_calls_t *calls = &a->callers.items[i];
        if (node_calls_open(
                n, a, calls->caller)) { /* what the caller pushed into its queue comes first */
            i++;
            continue;
        }
        while (calls->head != NULL && calls->head->missing == 0) {
            node_task_t *t = calls->head;
            calls->head = t->next;
            a->in_flight++;
            node_task_run_on(n, t, a->worker);
        }
        if (calls->head == NULL) {
            vec_swap_remove(&a->callers, i);
        } else {
            i++;
        }
    }
}

/* A caller may have told the daemon of a call's arguments, and not have put the call into its queue
 * yet: the book on it must not name the actor any more. */
static void books_forget(node_t *n, const node_actor_t *a) {
    for (uint32_t r = 0; a->in_flight > 0 && r < n->grants.records.granted; r++)
        if (n->tasks[r] != NULL && n->tasks[r]->actor == a) n->tasks[r]->actor = NULL;
}

static void actor_free(node_t *n, node_actor_t *a) {
    node_object_t *o = n->objects[a->id.slot];
    books_forget(n, a);
    if (a->far != NULL) node_far_free(n, a);
    if (o != NULL && o->actor == a) {
        o->actor = NULL;
        if (o->holders.count == 0 && o->uses == 0 && !o->at_zero)
            o->at_zero = vec_push(&n->zero, o);
    }
    node_calls_forget(n, a);
    vec_free(&a->callers);
    vec_free(&a->queues);
    free(a->words);
    free(a->end_cause);
    free(a);
    n->again = true;
}

void node_actor_died(node_t *n, node_actor_t *a, const char *cause) {
    if (a->life.state == ACTOR_DEAD || actor_life_ended(&a->life, ACTOR_IMPOSSIBLE, true)) return;
    a->end = ACTOR_IMPOSSIBLE;
    node_actor_bury(n, a, cause);
}

static void calls_fail(node_t *n, node_actor_t *a, node_task_t *t) {
    while (t != NULL) {
        node_task_t *next = t->next;
        call_fail(n, a, t);
        t = next;
    }
}

/* Its creation is not run any more. */
static void creation_end(node_t *n, node_actor_t *a) {
    node_task_t *t = a->creation;
    a->creation = NULL;
    if (t->waiting_for_worker) node_pool_unwait(t);
    if (a->life.made) {
        node_task_dismiss(n, t); /* the actor's handles have their value */
        return;
    }
    if (a->life.killed) actor_quiet(n, a);
    node_task_fail(n, t, a->end_cause != NULL ? a->end_status : MOB_EACTOR,
                   a->end_cause != NULL ? a->end_cause : a->cause);
}

void node_actor_bury(node_t *n, node_actor_t *a, const char *cause) {
    snprintf(a->cause, sizeof a->cause, "%s",
             a->orphaned      ? "its job has ended"
             : a->end_cause   ? a->end_cause
             : a->life.killed ? "it was killed by ray.kill"
                              : cause);
    a->quiet |= a->life.killed;
    if (a->worker != NULL) a->worker->actor = NULL;
    a->worker = NULL;
    node_actor_note(n, a);
    if (a->due_ns != 0) node_actor_unhold(n, a);
    if (a->creation != NULL) creation_end(n, a);
    node_task_t *first = a->first;
    a->first = NULL;
    calls_fail(n, a, first);
    while (a->aside != NULL) {
        node_task_t *t = a->aside;
        (void)node_actor_aside_remove(a, t);
        call_fail(n, a, t);
    }
    for (size_t i = 0; i < a->callers.count; i++) {
        node_task_t *head = a->callers.items[i].head;
        a->callers.items[i].head = NULL;
        calls_fail(n, a, head);
    }
    a->callers.count = 0;
    node_calls_give_up(n, a);
    if (a->far != NULL) node_far_buried(n, a);
    if (a->seat != NULL) node_seat_ended(n, a);
    node_job_t *job = a->job;
    a->job = NULL;
    node_name_end(n, a);
    if (job != NULL && job->actor == a) { /* a detached actor's job ends with it */
        job->actor = NULL;
        node_job_leave(job, false);
    }
    if (a->released) actor_free(n, a);
}

void node_actor_orphan(node_t *n, node_actor_t *a) {
    if (a->life.state == ACTOR_DEAD) return;
    a->orphaned = true;
    actor_life_kill(&a->life);
    node_calls_close(n, a);
    bool has_process = a->worker != NULL || (a->creation != NULL && a->creation->worker != NULL);
    if (!has_process) node_actor_died(n, a, "");
}

void node_actor_end(node_t *n, node_actor_t *a, mob_status_t status, const char *cause) {
    if (a->life.state == ACTOR_DEAD) return;
    if (a->end_cause == NULL) {
        a->end_status = status;
        a->end_cause = strdup(cause); /* NULL: it says less */
    }
    actor_life_kill(&a->life);
    node_calls_close(n, a);
    node_client_t *worker = a->worker ? a->worker : a->creation ? a->creation->worker : NULL;
    if (worker != NULL)
        node_client_kill(worker); /* the rest when its end is certain */
    else
        node_actor_died(n, a, "");
}

void node_actor_kill(node_t *n, mob_ref_t id, bool may_restart) {
    node_object_t *o = node_object_find(n, id);
    node_actor_t *a = o != NULL ? o->actor : NULL;
    if (a == NULL && o != NULL && o->proxy != NULL) a = node_far_open(n, o);
    if (a != NULL && a->far != NULL) {
        if (a->life.state != ACTOR_DEAD) node_far_kill(n, a, may_restart);
        return;
    }
    /* one that is not made yet has no process that could be killed */
    if (is_early(n, o) && !may_restart)
        (void)vec_push(&n->actors.early, ((node_early_t){.actor = id, .round = n->round}));
    if (a == NULL || a->life.state == ACTOR_DEAD) return;
    node_client_t *worker = a->worker ? a->worker : a->creation ? a->creation->worker : NULL;
    if (may_restart) {
        a->shot |= worker != NULL;
    } else {
        actor_life_kill(&a->life);
        node_calls_close(n, a);
    }
    if (worker != NULL)
        node_client_kill(worker); /* the rest when its end is certain */
    else if (!may_restart)
        node_actor_died(n, a, "");
}

void node_actor_release(node_t *n, node_actor_t *a) {
    a->released = true;
    if (a->life.state == ACTOR_DEAD)
        actor_free(n, a);
    else
        node_actor_try_end(n, a);
}

void node_actor_try_end(node_t *n, node_actor_t *a) {
    node_object_t *o = n->objects[a->id.slot];
    if (a->released && o != NULL && (o->holders.count > 0 || o->uses > 0))
        a->released = false; /* a handle came back in a message */
    if (!a->released || a->in_flight > 0 || a->callers.count > 0 || a->aside != NULL ||
        a->first != NULL)
        return;
    if (a->far != NULL) {
        if (node_far_is_over(n, a)) actor_free(n, a);
        return;
    }
    if (a->life.state != ACTOR_ALIVE || a->worker == NULL) return;
    if (a->worker->retiring) return;
    a->worker->retiring = true;
    node_name_end(n, a); /* whoever finds it by name now would lose it */
    node_client_tell(a->worker, wire_plain(WIRE_EXIT));
}
