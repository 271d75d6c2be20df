/*
 * Queues of calls: one for each pair of a caller and an actor, between those two processes; see
 * client/calls.c. The daemon gives them out, tells the actor's worker, closes them when the actor
 * is dead, and takes over the calls in them when one of the two dies.
 *
 *   OPEN     the caller pushes, the actor takes; also while the actor is made again: then nobody
 *            takes, and the next worker is told of the queue as the first was
 *   CLOSED   the actor is dead or killed, and the daemon fails what is pushed; or lives on another
 *            node, and the daemon sends it there. Free when the caller has no handle any more
 *   ENDING   the caller has no handle any more, or is dead: the actor takes what is left, then says
 *            so (WIRE_CALLS_ENDED), and the queue is free
 *
 * As long as a pair has a queue, none of its calls goes through the daemon: see node_calls_open.
 */
#include "node/state.h"

enum { OPEN = 1, CLOSED, ENDING };

static node_pair_t *pair_of(node_t *n, uint32_t number) {
    return number >= SHM_FIRST_CALLS && number < SHM_QUEUES
               ? &n->pairs.items[number - SHM_FIRST_CALLS]
               : NULL;
}
static shm_queue_t *queue_of(node_t *n, const node_pair_t *p) {
    return &n->queues[SHM_FIRST_CALLS + (p - n->pairs.items)];
}
static uint32_t number_of(node_t *n, const node_pair_t *p) {
    return SHM_FIRST_CALLS + (uint32_t)(p - n->pairs.items);
}

static node_pair_t *pair_find(node_t *n, const node_actor_t *a, uint32_t caller) {
    for (size_t i = 0; i < a->queues.count; i++) {
        node_pair_t *p = pair_of(n, a->queues.items[i]);
        if (p->caller == caller) return p;
    }
    return NULL;
}

bool node_calls_open(node_t *n, const node_actor_t *a, uint32_t caller) {
    return pair_find(n, a, caller) != NULL;
}

static void pair_free(node_t *n, node_pair_t *p) {
    uint32_t number = number_of(n, p);
    node_actor_t *a = p->actor;
    for (size_t i = 0; i < a->queues.count; i++) {
        if (a->queues.items[i] != number) continue;
        vec_swap_remove(&a->queues, i);
        break;
    }
    node_number_unname(n, p->caller);
    *p = (node_pair_t){0};
    (void)vec_push(&n->pairs.free, number);
}

/* Whether calls of this caller are on their way to the actor through the daemon. */
static bool calls_pending(const node_actor_t *a, uint32_t caller) {
    for (size_t i = 0; i < a->callers.count; i++)
        if (a->callers.items[i].caller == caller) return true;
    for (const node_task_t *t = a->first; t != NULL; t = t->next)
        if (t->submitter == caller) return true;
    for (const node_task_t *t = a->worker ? a->worker->runs : NULL; t != NULL; t = t->run_next)
        if (t->submitter == caller && t->kind == MOB_ACTOR_CALL && !t->queued) return true;
    return false;
}

static uint32_t pair_number_take(node_t *n) {
    if (n->pairs.free.count > 0) return vec_pop(&n->pairs.free);
    return n->pairs.used < SHM_CALL_QUEUES ? SHM_FIRST_CALLS + n->pairs.used++ : 0;
}

static uint32_t pair_open(node_client_t *caller, node_actor_t *a) {
    node_t *n = caller->node;
    uint32_t number = pair_number_take(n);
    if (number == 0) return 0;
    if (!vec_push(&a->queues, number)) {
        (void)vec_push(&n->pairs.free, number);
        return 0;
    }
    node_pair_t *p = pair_of(n, number);
    *p = (node_pair_t){.caller = caller->number, .actor = a, .state = OPEN};
    node_number_name(n, caller->number);
    shm_queue_t *q = queue_of(n, p);
    atomic_store(&q->head, atomic_load(&q->tail)); /* entries of an earlier pair */
    atomic_store(&q->closed, 0);
    atomic_store(&q->taker, a->worker ? a->worker->number : 0);
    if (a->worker != NULL) {
        a->worker->takes = true;
        node_client_tell(a->worker, wire_about_queue(WIRE_CALLS, number));
    }
    return number;
}

void node_calls_need(node_client_t *caller, mob_ref_t id) {
    node_t *n = caller->node;
    node_object_t *o = node_object_find(n, id);
    node_actor_t *a = o != NULL ? o->actor : NULL;
    node_pair_t *p = a != NULL ? pair_find(n, a, caller->number) : NULL;
    uint32_t number = 0;
    /* The caller may have a queue already: a handle that a task has as an argument comes and goes
     * without the daemon's knowing. */
    if (p != NULL)
        number = p->state == OPEN ? number_of(n, p) : 0;
    else if (n->config.fast && a != NULL && a->far == NULL && a->life.state != ACTOR_DEAD &&
             !a->life.killed && !a->released && !calls_pending(a, caller->number))
        number = pair_open(caller, a);
    node_client_tell(caller, wire_about_queue(WIRE_CALLS_ARE, number));
}

void node_calls_begin(node_t *n, node_actor_t *a) {
    for (size_t i = 0; i < a->queues.count; i++) {
        node_pair_t *p = pair_of(n, a->queues.items[i]);
        a->worker->takes = true;
        atomic_store(&queue_of(n, p)->taker, a->worker->number);
        node_client_tell(a->worker, wire_about_queue(WIRE_CALLS, a->queues.items[i]));
        if (p->state == ENDING)
            node_client_tell(a->worker, wire_about_queue(WIRE_CALLS_END, a->queues.items[i]));
    }
}

void node_calls_pause(node_t *n, node_actor_t *a) {
    for (size_t i = 0; i < a->queues.count; i++)
        atomic_store(&queue_of(n, pair_of(n, a->queues.items[i]))->taker, 0);
}

bool node_calls_wait(node_t *n, const node_actor_t *a) {
    for (size_t i = 0; i < a->queues.count; i++)
        if (shm_queue_count(&n->queues[a->queues.items[i]]) > 0) return true;
    return false;
}

/* The calls of this queue that the worker has not begun are the daemon's from now on, in their
 * order. */
static void queue_take_over(node_t *n, node_pair_t *p) {
    shm_queue_t *q = queue_of(n, p);
    uint64_t position, entry;
    /* Bounded: the client that pushes may write anything there. */
    for (uint64_t i = 0; i < SHM_QUEUE_ENTRIES && shm_queue_peek(q, &position, &entry); i++) {
        node_task_t *t = node_task_take_over(n, wire_entry_index(entry), entry, p->caller);
        shm_queue_pass(q, position);
        if (t != NULL) node_actor_call(n, t, p->actor->id);
    }
}

/* The caller died and the actor goes on: the calls stay in the queue, in their order, but the
 * daemon keeps books on them, since no other process does. */
static void queue_adopt(node_t *n, node_pair_t *p) {
    shm_queue_t *q = queue_of(n, p);
    /* Each index is read once, for the actor goes on: an entry that it takes meanwhile is void, and
     * the entries behind that one must not be left out. */
    uint64_t head = atomic_load(&q->head), tail = atomic_load(&q->tail);
    for (uint64_t i = 0; (int64_t)(tail - head - i) > 0 && i < SHM_QUEUE_ENTRIES; i++) {
        uint64_t entry =
            atomic_load_explicit(&q->entries[(head + i) % SHM_QUEUE_ENTRIES], memory_order_relaxed);
        node_task_adopt(n, wire_entry_index(entry), entry, p->caller);
    }
}

void node_calls_close(node_t *n, node_actor_t *a) {
    for (size_t i = 0; i < a->queues.count; i++)
        atomic_store(&queue_of(n, pair_of(n, a->queues.items[i]))->closed, 1);
}

void node_calls_give_up(node_t *n, node_actor_t *a) {
    node_calls_close(n, a);
    for (size_t i = a->queues.count; i-- > 0;) {
        node_pair_t *p = pair_of(n, a->queues.items[i]);
        atomic_store(&queue_of(n, p)->taker, 0);
        queue_take_over(n, p);
        bool ending = p->state == ENDING;
        p->state = CLOSED;
        if (ending) pair_free(n, p);
    }
}

void node_calls_forget(node_t *n, node_actor_t *a) {
    while (a->queues.count > 0) pair_free(n, pair_of(n, a->queues.items[a->queues.count - 1]));
}

void node_calls_closed(node_client_t *caller, uint32_t record, uint64_t generation) {
    node_t *n = caller->node;
    if (!node_grant_record_is(n, record, caller->number)) {
        node_client_fault(caller, "spoke of a record that is not its own");
        return;
    }
    node_queued_return(n, record, generation, caller->number); /* a task, if its lane was closed */
}

static void pair_end(node_t *n, node_pair_t *p) {
    if (p->state == CLOSED) {
        pair_free(n, p);
    } else if (p->state == OPEN) {
        p->state = ENDING;
        if (p->actor->worker != NULL)
            node_client_tell(p->actor->worker, wire_about_queue(WIRE_CALLS_END, number_of(n, p)));
    }
}

void node_calls_unheld(node_t *n, node_actor_t *a, uint32_t caller) {
    node_pair_t *p = pair_find(n, a, caller);
    if (p != NULL) pair_end(n, p);
}

void node_calls_ended(node_client_t *worker, uint32_t number) {
    node_t *n = worker->node;
    node_pair_t *p = pair_of(n, number);
    if (p == NULL || p->state != ENDING || p->actor != worker->actor || p->actor == NULL) return;
    node_actor_t *a = p->actor;
    pair_free(n, p);
    node_actor_pump(n, a); /* the caller's calls that came while the queue ended */
}

void node_calls_caller_died(node_client_t *caller) {
    node_t *n = caller->node;
    for (uint32_t i = 0; i < n->pairs.used; i++) {
        node_pair_t *p = &n->pairs.items[i];
        if (p->state == 0 || p->caller != caller->number) continue;
        if (p->state != CLOSED) queue_adopt(n, p);
        pair_end(n, p);
    }
}
