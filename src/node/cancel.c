/*
 * Cancelling tasks.
 *
 * The message names an object. Its slot says which record makes it, for as long as it is PENDING
 * and no result was written: a hint by the submitter, so the record must name the object too. Then
 * the record's word decides:
 *
 *   READY(g)        no worker has begun it. The daemon moves it to READY(g + 1), against a worker's
 *                   claim, fails the results and frees the record
 *   TAKEN(g, w)     it runs. From now on the task has a book, which says that it was cancelled: it
 *                   is not run again, however the run ends
 *     interrupt     the daemon tells worker w (WIRE_CANCEL_RUN), then sends it a signal, and again
 *                   now and then, until the worker says that it breaks the run off
 *                   (WIRE_INTERRUPTED), or the word has changed. The worker compares record and
 *                   generation with what it runs, so a signal that comes late does nothing
 *     tell          a call of an actor: the message alone
 *     force         the daemon moves the word to TAKEN(g + 1, w), against the worker's DONE, then
 *                   kills w. A worker whose DONE fails takes no other run, so no other task dies
 *                   with it. The results fail when w is certainly dead (node_task_lost): until then
 *                   it may write to them
 *   DONE, FREE      it is over: nothing happens
 *
 * KNOWN without a book: the submitter's message about the record is still in its ring. The cancel
 * is put aside until every ring was read once more.
 *
 * Recursive: a record says which run submitted it. Its children are among the records of the worker
 * that runs it. They are looked for twice: when the run is cancelled, and when its worker has
 * broken it off, for it submits until then.
 *
 * The bells are rung once for all that failed in a round.
 */
#include "node/cancel.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/cancel.h"
#include "node/cluster/proxy.h"
#include "node/cluster/value.h"
#include "node/forward.h"
#include "node/runname.h"
#include "node/state.h"
#include "node/visit.h"
#include "node/watch.h"

enum { MOST_TRIES = 8, MOST_ASIDE = 64 };

/* ---- which task it is ---- */

static bool is_among(mob_ref_t ref, const mob_ref_t *refs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (refs[i].slot == ref.slot && refs[i].generation == ref.generation) return true;
    return false;
}

/* Whether a record without a book makes this object. Its owner may be writing it. */
static bool record_makes(node_t *n, uint32_t index, mob_ref_t ref) {
    uint32_t owner = n->grants.records.owner[index / WIRE_RECORD_BLOCK];
    wire_record_t copy;
    wire_body_t body;
    if (!node_grant_slot_is(n, ref.slot, owner)) return false;
    memcpy(&copy, &n->records[index], sizeof copy);
    return node_record_split(n, owner, &copy, &body) &&
           is_among(ref, body.returns, copy.num_returns);
}

static bool target_find(node_t *n, mob_ref_t ref, node_target_t *ret_target) {
    if (ref.slot == 0 || ref.slot >= n->grants.slots.granted) return false;
    const store_slot_t *slot = &n->slots[ref.slot];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    if ((word & STORE_STATE) != STORE_PENDING ||
        atomic_load_explicit(&slot->generation, memory_order_relaxed) != ref.generation)
        return false;
    uint32_t index = *(const volatile uint32_t *)&slot->value.maker;
    if (index >= n->grants.records.granted) return false;
    const node_task_t *t = n->tasks[index];
    word = atomic_load_explicit(&n->records[index].word, memory_order_acquire);
    if (t != NULL ? !is_among(ref, t->refs, t->num_returns) : !record_makes(n, index, ref))
        return false;
    ret_target->record = index;
    ret_target->generation = t != NULL ? t->generation : wire_word_generation(word);
    return true;
}

static void todo_add(node_t *n, node_target_t target) {
    (void)vec_push(&n->cancels.todo, target); /* without memory: it is not cancelled */
}

/* What the run that `parent` names has submitted, of all that its worker has. */
static void children_add(node_client_t *w, uint64_t parent, bool force) {
    node_t *n = w->node;
    for (size_t s = 0; s < w->records.count; s++) {
        uint32_t first = w->records.items[s].first, end = first + w->records.items[s].count;
        for (uint32_t r = first; r < end; r++) {
            uint64_t word = atomic_load_explicit(&n->records[r].word, memory_order_acquire);
            unsigned state = wire_word_state(word);
            if ((state != WIRE_READY_STATE && state != WIRE_TAKEN) ||
                n->records[r].parent != parent)
                continue;
            /* As Ray: by force where that can be. */
            bool by_force = force && n->records[r].kind == MOB_TASK;
            todo_add(n, (node_target_t){.record = r,
                                        .generation = wire_word_generation(word),
                                        .force = by_force,
                                        .recursive = true});
        }
    }
}

/* ---- one that waits ---- */

/* A call that goes through the daemon leaves its caller's row. */
static void call_unlink(node_t *n, node_task_t *t) {
    for (size_t i = 0; i < n->actors.early.count; i++)
        if (n->actors.early.items[i].call == t) vec_swap_remove(&n->actors.early, i--);
    if (t->actor != NULL && node_actor_aside_remove(t->actor, t)) return;
    for (size_t i = 0; t->actor != NULL && i < t->actor->callers.count; i++) {
        node_calls_t *calls = &t->actor->callers.items[i];
        node_task_t **at = &calls->head, *before = NULL;
        while (calls->caller == t->submitter && *at != NULL && *at != t)
            before = *at, at = &(*at)->next;
        if (calls->caller != t->submitter || *at == NULL) continue;
        *at = t->next;
        if (calls->tail == t) calls->tail = before;
        if (calls->head == NULL) vec_swap_remove(&t->actor->callers, i);
        return;
    }
}

/* The task is the daemon's from now on, and nowhere else. NULL: a worker has begun it. *ret_worker:
 * it was handed to this one; NULL: to none. */
static node_task_t *waiting_take(node_t *n, const node_target_t *g, node_client_t **ret_worker) {
    node_task_t *t = n->tasks[g->record];
    *ret_worker = NULL;
    if (t == NULL || t->queued) {
        uint32_t owner =
            t != NULL ? t->submitter : n->grants.records.owner[g->record / WIRE_RECORD_BLOCK];
        return node_task_take_over(n, g->record, wire_entry(g->record, g->generation), owner);
    }
    if (t->worker != NULL) {
        *ret_worker = t->worker;
        if (!node_task_take_back(n, t)) return NULL;
        if (t->actor != NULL) t->actor->in_flight--;
        return t;
    }
    if (t->waiting_for_worker) node_pool_unwait(t);
    node_term_unhold(n, t);
    if (t->kind == MOB_ACTOR_CALL) call_unlink(n, t);
    return t;
}

bool node_cancel_take(node_t *n, node_task_t *t) {
    node_client_t *worker;
    node_target_t g = {.record = t->record, .generation = t->generation};
    if (!wire_word_is(atomic_load_explicit(&n->records[t->record].word, memory_order_acquire),
                      t->generation, WIRE_READY_STATE) ||
        waiting_take(n, &g, &worker) == NULL)
        return false;
    if (worker != NULL) node_worker_free(worker);
    return true;
}

/* False: a worker has begun it. */
static bool waiting_fail(node_t *n, const node_target_t *g) {
    const node_task_t *before = n->tasks[g->record];
    node_actor_t *actor = before != NULL && before->kind == MOB_ACTOR_CALL ? before->actor : NULL;
    node_client_t *worker;
    node_task_t *t = waiting_take(n, g, &worker);
    if (t == NULL) return false;
    t->cancelled = g->generation;
    node_cancel_fail(n, t);
    if (worker != NULL && worker->actor == NULL) node_worker_free(worker);
    if (actor == NULL) return true;
    node_actor_pump(n, actor); /* calls behind it */
    node_actor_try_end(n, actor);
    return true;
}

void node_cancel_fail(node_t *n, node_task_t *t) {
    char name[256], text[512];
    bool ran = wire_word_state(atomic_load_explicit(&n->records[t->record].word,
                                                    memory_order_acquire)) != WIRE_READY_STATE;
    if (t->visit != NULL) {
        node_visit_cancelled(n, t, ran);
        return;
    }
    node_task_name(n, t, name, sizeof name);
    /* A task's ids are not those of objects: the first bit of the slot is set. */
    snprintf(text, sizeof text, "Task: TaskID(%016llx%08x%016llx) was cancelled. %s %s",
             (unsigned long long)n->incarnation, t->record | 1u << 31,
             (unsigned long long)t->cancelled, name,
             ran ? "was running, and was not run again" : "had not begun");
    node_task_end(n, t, MOB_ECANCELLED, text);
    n->cancels.ring = true;
}

/* ---- one that runs ---- */

static bool is_live(const node_client_t *w) {
    return w != NULL && w->role == WIRE_WORKER && w->state == NODE_LIVE;
}

/* Whether it is there, and runs such: an actor runs calls only, and a word may say anything. */
static bool may_run(const node_client_t *w, mob_kind_t kind) {
    return is_live(w) && (w->actor != NULL) == (kind == MOB_ACTOR_CALL);
}

static void signal_send(const node_client_t *w) {
    /* the daemon's unreaped child: the pid is its. The first thread is the one that runs tasks */
    if (w->pid > 0 && !w->exited) tgkill(w->pid, w->pid, WIRE_CANCEL_SIGNAL);
}

/* Without a ring of its bell: see client/cancel.c. */
static void worker_tell(node_client_t *w, const node_target_t *g) {
    wire_message_t m = wire_about_record(WIRE_CANCEL_RUN, g->record, g->generation);
    if (w->backlog.count > 0 || shm_ring_count(w->down) >= SHM_DOWN_MESSAGES / 2 ||
        !shm_ring_push(w->down, SHM_DOWN_MESSAGES, &m))
        node_client_tell(w, m);
}

/* Whether the worker that the entry names still runs that. */
static node_client_t *interrupt_worker(node_t *n, const node_interrupt_t *i) {
    node_client_t *w = n->clients[i->worker];
    uint64_t word = atomic_load_explicit(&n->records[i->record].word, memory_order_acquire);
    bool runs =
        wire_word_is(word, i->generation, WIRE_TAKEN) && wire_word_worker(word) == i->worker;
    return runs && is_live(w) && w->epoch == i->epoch ? w : NULL;
}

static void on_timer(uv_timer_t *timer) {
    node_t *n = timer->data;
    uint64_t now = base_clock_mono_ns(), next = UINT64_MAX;
    for (size_t k = 0; k < n->cancels.interrupts.count;) {
        node_interrupt_t *i = &n->cancels.interrupts.items[k];
        node_client_t *w = interrupt_worker(n, i);
        uint64_t pause = 0;
        if (w != NULL && now >= i->due_ns) {
            signal_send(w);
            pause = control_cancel_pause_ns(++i->sent);
            i->due_ns = now + pause;
        } else if (w != NULL) {
            pause = i->due_ns - now;
        }
        if (pause == 0) {
            vec_swap_remove(&n->cancels.interrupts, k);
            continue;
        }
        if (pause < next) next = pause;
        k++;
    }
    if (next != UINT64_MAX) uv_timer_start(timer, on_timer, next / 1000000 + 1, 0);
}

static void interrupt_begin(node_client_t *w, const node_target_t *g) {
    node_t *n = w->node;
    for (size_t k = 0; k < n->cancels.interrupts.count; k++)
        if (n->cancels.interrupts.items[k].record == g->record &&
            n->cancels.interrupts.items[k].generation == g->generation)
            return; /* under way */
    worker_tell(w, g);
    signal_send(w);
    node_interrupt_t i = {.record = g->record,
                          .generation = g->generation,
                          .worker = w->number,
                          .epoch = w->epoch,
                          .sent = 1,
                          .due_ns = base_clock_mono_ns() + control_cancel_pause_ns(1)};
    if (vec_push(&n->cancels.interrupts, i)) on_timer(&n->cancels.timer);
}

/* The task runs on a worker: it has a book from now on. False: the word has changed. */
static bool running_stop(node_t *n, const node_target_t *g, uint64_t word, control_cancel_t how) {
    node_task_t *t = n->tasks[g->record];
    node_client_t *w = n->clients[wire_word_worker(word)];
    if (t == NULL && !wire_record_make_known(&n->records[g->record], word)) return false;
    if (t == NULL && (t = node_queued_open(n, g->record, g->generation)) == NULL) return true;
    if (node_forward_is(t)) {
        t->cancelled = g->generation;
        node_forward_cancel(n, t, g->force, g->recursive);
        return true;
    }
    bool live = may_run(w, (mob_kind_t)t->kind);
    if (how == CONTROL_CANCEL_KILL && live) {
        if (!wire_record_move(&n->records[g->record],
                              wire_word(g->generation, w->number, WIRE_TAKEN),
                              wire_word(g->generation + 1, w->number, WIRE_TAKEN), NULL))
            return false;
        node_task_renew(n, t);
    }
    if (t->cancelled == 0) t->cancelled = g->generation;
    t->cancel_force |= g->force;
    t->cancel_children |= g->recursive;
    if (!live) return true; /* its end says the rest */
    if (g->recursive && t->cancel_walk != n->cancels.serial) {
        t->cancel_walk = n->cancels.serial;
        children_add(w, wire_entry(g->record, g->generation), g->force);
    }
    if (how == CONTROL_CANCEL_KILL)
        node_client_kill(w);
    else if (how == CONTROL_CANCEL_TELL)
        node_client_tell(w, wire_about_record(WIRE_CANCEL_RUN, g->record, g->generation));
    else if (!t->interrupted)
        interrupt_begin(w, g);
    return true;
}

/* ---- all of it ---- */

static control_stage_t stage_of(uint64_t word, uint64_t generation) {
    if (wire_word_is(word, generation, WIRE_READY_STATE)) return CONTROL_TASK_WAITS;
    return wire_word_is(word, generation, WIRE_TAKEN) ? CONTROL_TASK_RUNS : CONTROL_TASK_OVER;
}

/* MOB_EINVAL: it is refused. */
static mob_status_t target_cancel(node_t *n, node_target_t *g) {
    /* A worker can begin it meanwhile, and finish it: that is all. */
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        uint64_t word = atomic_load_explicit(&n->records[g->record].word, memory_order_acquire);
        const node_task_t *t = n->tasks[g->record];
        control_stage_t stage = stage_of(word, g->generation);
        mob_kind_t kind = (mob_kind_t)(t != NULL ? t->kind : n->records[g->record].kind);
        control_cancel_t how = control_cancel_decide(kind, stage, g->force);
        if (how == CONTROL_CANCEL_NOTHING) return MOB_OK;
        if (how == CONTROL_CANCEL_REFUSE) return MOB_EINVAL;
        if (t == NULL && (word & WIRE_KNOWN)) {
            /* Every ring was read so often: its submitter never tells of it. */
            if (++g->aside > MOST_ASIDE) return MOB_OK;
            g->round = n->round + 1;
            (void)vec_push(&n->cancels.early, *g);
            n->again = true;
            return MOB_OK;
        }
        if (how == CONTROL_CANCEL_FAIL ? waiting_fail(n, g) : running_stop(n, g, word, how))
            return MOB_OK;
    }
    return MOB_OK;
}

static void todo_run(node_t *n) {
    while (n->cancels.todo.count > 0) {
        node_target_t g = vec_pop(&n->cancels.todo);
        (void)target_cancel(n, &g);
    }
}

mob_status_t node_cancel_ref(node_t *n, mob_ref_t ref, bool force, bool recursive) {
    node_target_t g = {.force = force, .recursive = recursive};
    mob_status_t status = MOB_OK;
    n->cancels.serial++;
    if (target_find(n, ref, &g)) status = target_cancel(n, &g);
    todo_run(n);
    return status;
}

void node_cancel(node_client_t *client, const wire_message_t *m) {
    node_t *n = client->node;
    bool force = m->cancel.how & WIRE_CANCEL_FORCE,
         recursive = m->cancel.how & WIRE_CANCEL_RECURSIVE;
    mob_ref_t ref = {.slot = m->cancel.slot, .generation = m->cancel.generation};
    const node_object_t *o = node_object_known(n, ref);
    mob_status_t status = MOB_OK;
    if (o != NULL && o->proxy != NULL) /* its home has the task's book, and knows where it runs */
        node_watch_cancel(n, o->proxy->id, force, recursive);
    else
        status = node_cancel_ref(n, ref, force, recursive);
    if (force) node_client_tell(client, wire_answer(status, 0));
}

void node_cancel_record(node_t *n, uint32_t record, uint64_t generation, bool force,
                        bool recursive) {
    node_target_t g = {
        .record = record, .generation = generation, .force = force, .recursive = recursive};
    n->cancels.serial++;
    (void)target_cancel(n, &g);
    todo_run(n);
}

void node_cancel_interrupted(node_client_t *worker, uint32_t record, uint64_t generation) {
    node_t *n = worker->node;
    node_task_t *t = record < n->grants.records.granted ? n->tasks[record] : NULL;
    if (t == NULL || t->generation != generation || t->cancelled == 0) return; /* it is over */
    t->interrupted = true;
    for (size_t k = 0; k < n->cancels.interrupts.count; k++)
        if (n->cancels.interrupts.items[k].record == record &&
            n->cancels.interrupts.items[k].generation == generation)
            vec_swap_remove(&n->cancels.interrupts, k--);
    n->cancels.serial++;
    t->cancel_walk = n->cancels.serial;
    if (t->cancel_children) children_add(worker, wire_entry(record, generation), t->cancel_force);
    todo_run(n);
}

void node_cancels_settle(node_t *n) {
    size_t kept = 0;
    n->cancels.serial++;
    for (size_t i = 0; i < n->cancels.early.count; i++) {
        node_target_t g = n->cancels.early.items[i];
        if (g.round > n->round)
            n->cancels.early.items[kept++] = g;
        else
            todo_add(n, g);
    }
    n->cancels.early.count = kept;
    todo_run(n);
    n->again |= n->cancels.early.count > 0;
    if (n->cancels.ring) node_bells_ring(n);
    n->cancels.ring = false;
}

mob_status_t node_cancels_start(node_t *n) {
    n->cancels.timer.data = n;
    return node_watch(uv_timer_init(&n->loop, &n->cancels.timer), "making a timer");
}
