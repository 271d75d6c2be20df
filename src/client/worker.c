/*
 * A worker: where its runs come from. The daemon tells it to run a record. Or, while it has a
 * lease, it takes a record from its submitter's queue. Or it takes a call of its actor from the
 * caller's queue. The daemon never hears of a record that was taken unless it is KNOWN: the worker
 * frees the record itself, and leaves a line about the run where the daemon will read it.
 */
#include <string.h>

#include "client/client.h"
#include "shm/term.h"

/* The daemon may hand over a task behind another whose result it needs, and that one may have to
 * run again. */
static bool arguments_are_there(mob_client_t *c, const client_order_t *order) {
    const wire_record_t *record = &c->records[order->record];
    wire_body_t parts;
    if (!client_record_split(c, record, &parts)) return true;
    for (uint32_t i = 0; i < record->num_deps; i++)
        if (client_slot_valid(parts.deps[i].slot) && client_is_pending(c, parts.deps[i]))
            return false;
    return true;
}

/* What is the actor's alone waits at its worker when the node's term is over. The daemon may have
 * taken it back. */
static bool order_waits(mob_client_t *c, const wire_message_t *message) {
    const wire_record_t *record = &c->records[message->run.record % WIRE_MAX_RECORDS];
    uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire);
    return record->kind != MOB_TASK &&
           wire_word_is(word, message->run.generation, WIRE_READY_STATE) && shm_term_await(c->node);
}

/* A task that is not run again goes back to the daemon when the node's term is over. */
static bool order_returns(mob_client_t *c, const client_order_t *order) {
    return !order->may_retry && c->records[order->record].kind == MOB_TASK &&
           shm_term_is_over(c->node);
}

static bool order_claim(mob_client_t *c, const wire_message_t *message) {
    client_order_t order = {.record =
                                message->run.record < WIRE_MAX_RECORDS ? message->run.record : 0,
                            .generation = message->run.generation,
                            .gpu_mask = message->run.gpu_mask,
                            .may_retry = message->run.flags & WIRE_RUN_MAY_RETRY,
                            .restarted = message->run.flags & WIRE_RUN_RESTARTED,
                            .made = message->run.flags & WIRE_RUN_MADE};
    uint64_t word = atomic_load_explicit(&c->records[order.record].word, memory_order_acquire);
    if (!wire_word_is(word, order.generation, WIRE_READY_STATE)) return false; /* taken back */
    if (order_returns(c, &order) || !arguments_are_there(c, &order)) {
        client_push(c, wire_about_record(WIRE_UNREADY, order.record, order.generation));
        return false;
    }
    return client_run_claim(c, &order);
}

static bool entry_claim(mob_client_t *c, uint64_t entry, bool leased) {
    const wire_record_t *record = &c->records[wire_entry_index(entry)];
    uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire);
    if (!wire_entry_names(entry, word)) return false;
    client_order_t order = {.record = wire_entry_index(entry),
                            .generation = wire_word_generation(word),
                            .may_retry = record->max_retries != 0,
                            .taken = true,
                            .leased = leased};
    return client_run_claim(c, &order);
}

/* A task that is not run again leaves its queue when the node's term is over, so that others behind
 * it can go on: the daemon has it from then on. */
static bool task_claim(mob_client_t *c, uint64_t entry) {
    const wire_record_t *record = &c->records[wire_entry_index(entry)];
    if (record->max_retries != 0 || !shm_term_is_over(c->node)) return entry_claim(c, entry, true);
    uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire);
    if (wire_entry_names(entry, word))
        client_push(c, wire_about_record(WIRE_POSTPONE, wire_entry_index(entry),
                                         wire_word_generation(word)));
    return false;
}

static bool call_claim(mob_client_t *c, uint64_t entry) { return entry_claim(c, entry, false); }

/* The next record that the daemon told this worker to run. Notes what it said of queues of calls in
 * between: those are this thread's alone. */
static bool order_take(mob_client_t *c, wire_message_t *ret_order) {
    client_listen(c);
    if (client_group_next(c, ret_order)) return true;
    while (c->order_next < c->orders.count) {
        *ret_order = c->orders.items[c->order_next++];
        if (c->order_next >= 1024) { /* a worker that is never idle would let it grow for ever */
            memmove(c->orders.items, c->orders.items + c->order_next,
                    (c->orders.count - c->order_next) * sizeof *c->orders.items);
            c->orders.count -= c->order_next;
            c->order_next = 0;
        }
        if (ret_order->kind == WIRE_RUN && client_group_hold(c, ret_order, false)) continue;
        if (ret_order->kind == WIRE_RUN) return true;
        if (ret_order->kind == WIRE_CALLS)
            client_calls_add(c, ret_order->queue.queue);
        else
            client_calls_end(c, ret_order->queue.queue);
    }
    c->orders.count = c->order_next = 0;
    return false;
}

/* Before all others. */
static void order_put_first(mob_client_t *c, const wire_message_t *order) {
    if (client_group_hold(c, order, true)) {
        /* its turn comes when its group has room */
    } else if (c->order_next > 0) {
        c->orders.items[--c->order_next] = *order;
    } else if (vec_push(&c->orders, *order)) {
        memmove(c->orders.items + 1, c->orders.items, (c->orders.count - 1) * sizeof *order);
        c->orders.items[0] = *order;
    } else {
        c->told_to_exit = true; /* no memory: this worker ends, and the call is not lost */
    }
}

void client_order_again(mob_client_t *c, uint32_t record, uint64_t generation, bool may_retry) {
    wire_message_t order = {.run = {WIRE_RUN, .record = record, .generation = generation,
                                    .flags = may_retry ? WIRE_RUN_MAY_RETRY : 0}};
    order_put_first(c, &order);
    shm_bell_ring(&c->node->bells[c->number]); /* the taker may sleep */
}

enum { MOST_FORGETS = 64 };

/* This thread unloads a function, and so runs what that leaves to be run (finalizers). It takes no
 * runs while it does. To the daemon and all submitters it looks idle: it holds no CPU, and a task
 * that it waits for may be handed to itself. */
static _Thread_local bool forgets;

bool client_is_unloading(void) { return forgets; }

static mob_status_t forget_take(mob_client_t *c, mob_run_t **ret_run) {
    forgets = true;
    client_looking_end(c);
    if (c->running == 0) client_lease_run(c, SHM_LEASE_FORGETS);
    c->forget = (mob_run_t){.kind = MOB_FORGET, .function = vec_pop(&c->forgets)};
    *ret_run = &c->forget;
    return MOB_OK;
}

/* Whether this worker begins what the daemon told it to run. After WIRE_EXIT others run that; but
 * an actor's calls are nobody else's. */
static bool may_begin(const mob_client_t *c) {
    return !c->told_to_exit || (c->actor.slot != 0 && !c->run_unclaimable);
}

/* Carries out what the daemon told this worker to run, up to the first that can begin. */
static bool orders_claim(mob_client_t *c) {
    wire_message_t order;
    while (order_take(c, &order)) {
        if (!may_begin(c)) continue;
        if (order_waits(c, &order)) {
            order_put_first(c, &order);
            return false;
        }
        if (order_claim(c, &order)) return true;
    }
    return false;
}

/* Takes a run that can begin now. MOB_ETIMEOUT: there is none. MOB_ELIMIT: none may begin. */
static mob_status_t run_take(mob_client_t *c, mob_run_t **ret_run) {
    bool claimed = false, full = c->running >= c->limit;
    if (forgets && c->running == 0) client_lease_run(c, 0);
    forgets = false;
    /* Not only when there is nothing else to do: a submitter that always has more tasks would fill
     * this worker's memory with old functions. */
    if (c->forgets.count >= MOST_FORGETS) return forget_take(c, ret_run);
    if (!full) {
        claimed = orders_claim(c);
        if (!claimed && !c->run_unclaimable) claimed = client_call_take(c, call_claim);
        if (!claimed && !c->told_to_exit && client_lease_begin(c))
            claimed = client_queue_take(c, client_lane(c), task_claim);
    } else {
        client_listen(c);
    }
    /* now, however much else there is to do: what the caller of such a queue sends next waits for
     * this */
    client_calls_finish(c);
    if (claimed) {
        *ret_run = c->claimed;
        return MOB_OK;
    }
    /* With the lease still BUSY, if there is one: no submitter is to rely on this worker while it
     * unloads. */
    if (c->forgets.count > 0) return forget_take(c, ret_run);
    if (!full) client_lease_rest(c);
    c->ended_ns = 0;
    /* An actor that no process can call any more ends after the calls that it has. */
    bool over = c->told_to_exit && c->running == 0 && (c->run_unclaimable || !client_calls_wait(c));
    if (over || atomic_load(&c->dead)) return MOB_ECLOSED;
    return full || client_groups_hold(c) || client_calls_crowded(c) ? MOB_ELIMIT : MOB_ETIMEOUT;
}

mob_status_t mob_run_try(mob_client_t *c, mob_run_t **ret_run) {
    pthread_mutex_lock(&c->mutex);
    mob_status_t status = run_take(c, ret_run);
    pthread_mutex_unlock(&c->mutex);
    return status;
}

uint32_t mob_run_count(mob_client_t *c) {
    pthread_mutex_lock(&c->mutex);
    uint32_t count = c->running;
    pthread_mutex_unlock(&c->mutex);
    return count;
}

bool mob_worker_ends(mob_client_t *c) {
    if (client_check(c) != MOB_OK) return true;
    pthread_mutex_lock(&c->mutex);
    client_listen(c);
    client_push(c, wire_plain(WIRE_ENDING));
    bool job_ends = c->run_unclaimable;
    pthread_mutex_unlock(&c->mutex);
    return job_ends;
}

void mob_worker_unfit(mob_client_t *c, const char *why) {
    if (client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    wire_message_t request = {.failure = {WIRE_WORKER_UNFIT,
                                          .size = strnlen(why, SHM_SCRATCH_BYTES)}},
                   answer;
    memcpy(c->own_segment.base + SHM_CLIENT_SCRATCH, why, request.failure.size);
    (void)client_ask(c, &request, WIRE_ANSWER, &answer);
    pthread_mutex_unlock(&c->mutex);
}

mob_status_t mob_run_next(mob_client_t *c, mob_run_t **ret_run) {
    for (bool slept = false;;) {
        uint32_t seen = shm_bell_listen(&c->node->bells[c->number]);
        pthread_mutex_lock(&c->mutex);
        mob_status_t status = run_take(c, ret_run);
        bool crowded = status == MOB_ELIMIT, none = crowded || status == MOB_ETIMEOUT;
        bool full = c->running >= c->limit; /* else there may be calls of other groups */
        c->awaits_end =
            none && (crowded || c->told_to_exit); /* the thread that finishes a run then rings */
        bool rests = c->running == 0;
        pthread_mutex_unlock(&c->mutex);
        if (slept) client_patience_learn(&c->run_patience, !none);
        if (!none) return status;
        full &= crowded;
        slept = !full && !client_lease_look(c, seen);
        if (!full && !slept) continue;
        if (rests) client_title_rest(c);
        /* No limit: the daemon's death ends its workers by signal, so there is nothing to look up
         * for. */
        if (!(full ? client_sleep(c, seen, -1) : client_lease_sleep(c, seen))) return MOB_EINTR;
    }
}
