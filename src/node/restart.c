/*
 * Restarts of actors. actor/life.c decides; this file carries it out.
 *
 * The creation's record and its book stay (node_task_park) as long as the actor may be made again,
 * and with them its arguments and its class. A restart runs that record again under a new
 * generation, through the scheduler like any creation, in the place that the first one had. The
 * actor's slot is SEALED by then, so the worker is told (WIRE_RUN_MADE) to publish nothing; the
 * words of a constructor that raises come as WIRE_FAILED, before its WIRE_DONE.
 *
 * Calls. The record's word decides as always, once the worker's death is certain:
 *
 *   READY, in a queue      stays there, and the next worker takes it
 *   READY, handed out      waits in `first`
 *   TAKEN                  begun: waits in `first` if it has a retry left, else it fails
 *   DONE                   is completed (task.c)
 *
 * A call in `first` has a new generation, so its entry in a queue, if the dead worker had not
 * passed it, is void: it can't be taken twice. One that failed has a record that is free or has
 * another generation, the same.
 *
 * The order of one caller holds: what the dead worker had begun or was handed comes before
 * everything that lies in the caller's queue, or waits in the daemon. So the daemon hands over
 * `first` before it names the queues (WIRE_CALLS) and before it lets other calls through. The ring
 * keeps that order, and the worker begins with what it was handed. Within `first` the times at
 * which the runs began tell the order: a worker has several calls at once only if its actor may,
 * and it begins them one after the other. A call that was handed out and not begun has no time, and
 * comes last; so does the one that was just claimed when the worker died, which is later than all
 * that have a time.
 *
 * Callers notice nothing: their queues stay open, without a taker in between.
 */
#include "node/restart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "node/cluster/actor_seat.h"
#include "node/runname.h"
#include "node/state.h"

/* ---- deciding ---- */

/* Whether a process would miss the actor: a handle is left, or a call that is yet to be run. */
static bool is_wanted(node_t *n, node_actor_t *a, const node_client_t *w) {
    const node_object_t *o = n->objects[a->id.slot];
    if (a->released && o != NULL && (o->holders.count > 0 || o->uses > 0))
        a->released = false; /* a handle came back in a message */
    if (!a->released || a->first != NULL || a->callers.count > 0 || a->aside != NULL ||
        node_calls_wait(n, a))
        return true;
    for (const node_task_t *t = w->runs; t != NULL; t = t->run_next) {
        uint64_t word = atomic_load_explicit(&n->records[t->record].word, memory_order_acquire);
        unsigned state = wire_word_state(word);
        if (t->kind == MOB_ACTOR_CALL &&
            (state == WIRE_READY_STATE || (state == WIRE_TAKEN && t->retries != 0)))
            return true;
    }
    return false;
}

/* On purpose: it told the daemon that it ends, and did not end with an error of its own. */
static actor_end_t end_of(const node_actor_t *a, const node_client_t *w) {
    bool failed = w->exited && WIFEXITED(w->exit_status) && WEXITSTATUS(w->exit_status) != 0;
    if (a->shot) return ACTOR_SHOT;
    return w->ending_ns != 0 && !failed ? ACTOR_LEFT : ACTOR_CRASHED;
}

static void how_text(const node_actor_t *a, const node_client_t *w, char *ret_how, size_t size) {
    if (a->life.killed || a->shot)
        snprintf(ret_how, size, "%s",
                 a->end_cause != NULL ? a->end_cause : "it was killed by ray.kill");
    else
        node_worker_exit_text(w, ret_how, size);
}

/* The worker takes calls by itself: its events tell of them. */
static void answers_note(node_actor_t *a, const node_client_t *w) {
    if (w->events != NULL && atomic_load(&w->events->tail) != a->runs)
        actor_life_answered(&a->life);
}

void node_actor_lost(node_t *n, node_actor_t *a, node_client_t *w) {
    if (a->life.state != ACTOR_ALIVE) return;
    actor_end_t end = end_of(a, w);
    a->pid = w->pid;
    a->end = end;
    answers_note(a, w);
    if (actor_life_ended(&a->life, end, is_wanted(n, a, w))) return;
    /* The errors of its calls are no news if its end was wanted: by ray.kill, for want of handles,
     * or by an exit of its own. */
    a->quiet |= a->life.killed || a->released || end == ACTOR_SHOT ||
                (w->exited && WIFEXITED(w->exit_status) && WEXITSTATUS(w->exit_status) == 0);
}

/* ---- carrying it out ---- */

static void restart_tell(node_actor_t *a, const node_client_t *w) {
    char how[256];
    how_text(a, w, how, sizeof how);
    /* who killed it knows, and the driver was told when it was ended for want of memory */
    if (!a->shot && w->oom[0] == 0) node_failure_restart(a, how);
    a->shot = false;
}

/* Why it is dead, and that its restarts are used up, if they are. */
static void cause_text(const node_actor_t *a, const node_client_t *w, char *ret_cause,
                       size_t size) {
    char how[256];
    how_text(a, w, how, sizeof how);
    if (a->released)
        snprintf(ret_cause, size, "nobody has a handle to it any more");
    else if (a->life.restarts > 0 && a->life.restarts_left == 0 && end_of(a, w) != ACTOR_LEFT)
        snprintf(ret_cause, size, "%s. It was restarted %u times, as often as max_restarts allows",
                 how, a->life.restarts);
    else
        snprintf(ret_cause, size, "%s", how);
}

/* Its creation goes to the scheduler, in the place that it had. */
static void creation_queue(node_t *n, node_actor_t *a) {
    sched_task_readd(n->sched, &a->creation->queue);
    node_far_again(n, a);
}

/* Runs the creation again, at once or after a pause. */
static void creation_again(node_t *n, node_actor_t *a) {
    uint32_t pause_ms = actor_life_pause_ms(&a->life);
    node_task_reset(n, a->creation);
    if (pause_ms == 0 || !vec_push(&n->actors.held, a)) {
        creation_queue(n, a);
    } else {
        a->due_ns = base_clock_mono_ns() + (uint64_t)pause_ms * 1000000;
        node_look_again(n, pause_ms);
    }
    node_actor_note(n, a);
}

void node_actor_unhold(node_t *n, node_actor_t *a) {
    a->due_ns = 0;
    for (size_t i = n->actors.held.count; i-- > 0;)
        if (n->actors.held.items[i] == a) vec_swap_remove(&n->actors.held, i);
}

void node_actors_resume(node_t *n) {
    uint64_t now = n->actors.held.count > 0 ? base_clock_mono_ns() : 0;
    for (size_t i = n->actors.held.count; i-- > 0;) {
        node_actor_t *a = n->actors.held.items[i];
        if (a->due_ns > now) {
            node_look_again(n, (a->due_ns - now) / 1000000 + 1);
            continue;
        }
        node_actor_unhold(n, a);
        creation_queue(n, a);
    }
}

void node_actor_go_on(node_t *n, node_actor_t *a, node_client_t *w) {
    char cause[400];
    sched_lease_release(n->sched, &w->lease);
    node_actor_lost(n, a, w); /* unless that was done before */
    if (a->life.state == ACTOR_DEAD) {
        cause_text(a, w, cause, sizeof cause);
        node_actor_bury(n, a, cause);
        return;
    }
    w->actor = NULL;
    a->worker = NULL;
    restart_tell(a, w);
    node_calls_pause(n, a);
    creation_again(n, a);
}

void node_actor_creation_lost(node_t *n, node_task_t *t, bool begun) {
    char how[256], text[700];
    node_actor_t *a = t->actor;
    node_client_t *w = t->worker;
    mob_status_t status = begun && w->oom[0] != 0 ? MOB_EOOM : MOB_EACTOR;
    node_worker_exit_text(w, how, sizeof how);
    snprintf(text, sizeof text, "The actor %s died while it was being created: %s",
             a ? a->name : "", how);
    if (a == NULL) {
        node_task_fail(n, t, status, text);
        return;
    }
    a->pid = w->pid;
    actor_end_t end = !begun ? ACTOR_UNBEGUN : a->shot ? ACTOR_SHOT : ACTOR_CRASHED;
    a->end = end;
    if (actor_life_ended(&a->life, end, is_wanted(n, a, w))) {
        if (begun) restart_tell(a, w);
        creation_again(n, a);
        return;
    }
    a->creation = NULL;
    if (a->life.made) {
        node_task_dismiss(n, t);
        cause_text(a, w, how, sizeof how);
        snprintf(text, sizeof text, "it died while it was being restarted: %s", how);
        node_actor_bury(n, a, text);
        return;
    }
    a->init_failed = a->end_cause == NULL;
    /* also if its handles are gone: the object stays until the next sweep */
    a->quiet = true;
    node_slot_quiet(n, a->id);
    if (a->end_cause != NULL)
        node_task_fail(n, t, a->end_status, a->end_cause);
    else
        node_task_fail(n, t, status, text);
    if (!a->life.killed) node_failure_creation(n, a, a->pid);
    node_actor_bury(n, a, text);
}

void node_actor_refused(node_actor_t *a, const char *words, size_t size) {
    free(a->words);
    a->words = strndup(words, size);
    if (a->words == NULL) a->words = strdup("the actor's constructor failed");
}

/* ---- calls ---- */

/* When its run began; those that have not begun, or have just, come last. */
static uint64_t began_ns(node_t *n, const node_task_t *t) {
    uint64_t start_ns = n->records[t->record].start_ns;
    return start_ns != 0 ? start_ns : UINT64_MAX;
}

static void first_add(node_t *n, node_actor_t *a, node_task_t *t) {
    node_task_t **at = &a->first;
    while (*at != NULL && began_ns(n, *at) <= began_ns(n, t)) at = &(*at)->next;
    t->next = *at;
    *at = t;
}

static void call_unavailable(node_t *n, node_task_t *t, mob_status_t status, const char *name,
                             const char *how) {
    const node_actor_t *a = t->actor;
    char text[1200], id[2 * MOB_ID_SIZE + 1];
    node_actor_id_text(n, a, id);
    snprintf(text, sizeof text,
             "The actor %s is unavailable: the process of %s (pid %d, node %016llx) died while it "
             "ran %s: %s. The actor is restarted. The task may or may not have been executed on "
             "the actor.",
             id, a->name, (int)a->pid, (unsigned long long)n->incarnation, name, how);
    node_task_fail(n, t, status, text);
}

void node_actor_call_lost(node_t *n, node_task_t *t, bool begun) {
    node_actor_t *a = t->actor;
    node_client_t *w = t->worker;
    char how[256], name[256], text[640];
    bool oom = begun && w->oom[0] != 0 && !a->life.killed;
    node_actor_lost(n, a, w);
    how_text(a, w, how, sizeof how);
    node_task_name(n, t, name, sizeof name);
    a->in_flight--;
    if (node_seat_call_drop(n, t)) return;
    if (begun && t->cancelled != 0) { /* it is not run again, however often it might be */
        node_cancel_fail(n, t);
        return;
    }
    switch (actor_call_fate(&a->life, begun, &t->retries)) {
    case ACTOR_CALL_WAITS:
        node_task_reset(n, t);
        first_add(n, a, t);
        return;
    case ACTOR_CALL_UNAVAILABLE:
        call_unavailable(n, t, oom ? MOB_EOOM : MOB_EUNAVAILABLE, name, how);
        return;
    case ACTOR_CALL_DIES:
        snprintf(text, sizeof text, "it died while or before it ran %s: %s", name, how);
        node_actor_call_fail(n, t, oom ? MOB_EOOM : MOB_EACTOR, text);
    }
}

void node_actor_first_give(node_t *n, node_actor_t *a) {
    while (a->first != NULL) {
        node_task_t *t = a->first;
        a->first = t->next;
        a->in_flight++;
        node_task_run_on(n, t, a->worker);
    }
}

void node_actor_call_again(node_client_t *w, node_task_t *t) {
    (void)actor_call_again(&t->retries);
    node_task_reset(w->node, t);
    node_task_link(t, w);
    node_client_tell(w, wire_answer(MOB_OK, wire_again(t->generation, t->retries != 0)));
}
