/*
 * Tasks in queues. The daemon does not know of them, unless they have references among their
 * arguments (WIRE_ARGUMENTS) or something goes wrong: their worker dies, asks for a retry or
 * has made a large result, or their submitter dies. They are `queued` then: in the books while
 * workers still take them by themselves. A task that has to be run again goes the way of task.c.
 *
 * A worker may tell of a record before its submitter does, for they write into different rings. The
 * daemon puts a DONE that comes early aside until it hears the submitter, or the submitter has
 * died. Not so if the record has no references and its worker asks for its frame to be kept
 * (WIRE_RAISED): then the submitter need not say anything, and if it does (it drops
 * the function), its reference to the function is still counted.
 */
#include "node/queued.h"

#include "node/forward.h"
#include "node/state.h"

node_task_t *node_queued_open(node_t *n, uint32_t index, uint64_t generation) {
    uint32_t owner = n->grants.records.owner[index / WIRE_RECORD_BLOCK];
    node_client_t *submitter = owner > 0 && owner < SHM_MAX_CLIENTS ? n->clients[owner] : NULL;
    mob_ref_t actor;
    node_task_t *t = submitter != NULL && submitter->job != NULL
                         ? node_task_open(submitter->job, owner, index, generation, true, &actor)
                         : NULL;
    if (t == NULL) return NULL;
    if (t->kind == MOB_ACTOR_CALL) {
        node_object_t *o = node_object_find(n, actor);
        t->actor = o ? o->actor : NULL;
        if (t->actor != NULL) t->actor->in_flight++;
    }
    return t;
}

/* The worker has freed the record while the daemon opened the book: all is told and done. */
static void queued_forget(node_t *n, node_task_t *t) {
    if (t->actor != NULL) t->actor->in_flight--;
    node_task_forget(n, t);
}

/* The worker may have said that the task is done before the daemon knew of it. */
static void done_early_complete(node_t *n, node_task_t *t, uint64_t word) {
    for (size_t i = 0; i < n->queued.done_early.count; i++) {
        if (n->queued.done_early.items[i].slot != t->record ||
            n->queued.done_early.items[i].generation != t->generation)
            continue;
        vec_swap_remove(&n->queued.done_early, i);
        node_client_t *worker = n->clients[wire_word_worker(word)];
        if (wire_word_state(word) != WIRE_DONE_STATE || worker == NULL) return;
        node_task_link(t, worker);
        node_task_complete(n, t);
        return;
    }
}

void node_task_arguments(node_client_t *client, uint32_t index, uint64_t generation) {
    node_t *n = client->node;
    if (!node_grant_record_is(n, index, client->number)) {
        node_client_fault(client, "spoke of a record that is not its own");
        return;
    }
    uint64_t word = atomic_load_explicit(&n->records[index].word, memory_order_acquire);
    /* In the books already, or over: the worker died or asked for a retry before the daemon read
     * this. */
    if (n->tasks[index] != NULL || wire_word_generation(word) != generation ||
        wire_word_state(word) == WIRE_FREE)
        return;
    node_task_t *t = node_queued_open(n, index, generation);
    if (t == NULL) {
        node_client_fault(client, "submitted a record that makes no sense");
        return;
    }
    done_early_complete(n, t, word);
}

/* Its worker made it KNOWN, and its submitter may never speak of it: it has no references. */
static bool is_for_keeping(const wire_record_t *record) {
    return (record->flags & WIRE_RAISED) && record->num_deps == 0 && record->num_refs == 0;
}

bool node_queued_told(node_client_t *worker, uint32_t record, uint64_t generation, unsigned state) {
    node_t *n = worker->node;
    node_task_t *t = n->tasks[record];
    if (t == NULL && state == WIRE_DONE_STATE && !is_for_keeping(&n->records[record])) {
        mob_ref_t early = {.slot = record, .generation = generation};
        (void)vec_push(&n->queued.done_early, early);
        return false;
    }
    if (t == NULL) t = node_queued_open(n, record, generation);
    if (t != NULL && t->queued && t->worker == NULL) node_task_link(t, worker);
    return true;
}

void node_tasks_find_taken(node_client_t *worker) {
    node_t *n = worker->node;
    for (uint32_t r = 0; worker->takes && r < n->grants.records.granted; r++) {
        uint64_t word = atomic_load_explicit(&n->records[r].word, memory_order_acquire);
        unsigned state = wire_word_state(word);
        if (wire_word_worker(word) != worker->number ||
            (state != WIRE_TAKEN && state != WIRE_DONE_STATE))
            continue;
        node_task_t *t =
            n->tasks[r] ? n->tasks[r] : node_queued_open(n, r, wire_word_generation(word));
        if (t == NULL || !t->queued || t->worker != NULL ||
            t->generation != wire_word_generation(word))
            continue;
        node_task_link(t, worker);
    }
    /* the walk has found their books, whichever worker they are of */
    for (size_t i = n->queued.done_early.count; i-- > 0;)
        if (n->tasks[n->queued.done_early.items[i].slot] != NULL)
            vec_swap_remove(&n->queued.done_early, i);
}

static bool is_open(uint64_t word, uint64_t generation) {
    return wire_word_generation(word) == generation && wire_word_state(word) != WIRE_FREE;
}

node_task_t *node_task_take_over(node_t *n, uint32_t index, uint64_t entry, uint32_t owner) {
    /* A dead owner's record has a book. */
    if (n->tasks[index] ? n->tasks[index]->submitter != owner
                        : !node_grant_record_is(n, index, owner))
        return NULL;
    wire_record_t *record = &n->records[index];
    uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire),
             generation = wire_word_generation(word);
    if (!wire_entry_names(entry, word)) return NULL;
    node_task_t *t = n->tasks[index] ? n->tasks[index] : node_queued_open(n, index, generation);
    if (t == NULL || !t->queued || t->generation != generation) return NULL;
    if (!wire_record_move(record, wire_word(generation, 0, WIRE_READY_STATE),
                          wire_word(generation + 1, 0, WIRE_READY_STATE), NULL)) {
        /* Begun meanwhile: its worker is to tell the daemon, which has a book on it now. */
        do word = atomic_load_explicit(&record->word, memory_order_acquire);
        while (is_open(word, generation) && !(word & WIRE_KNOWN) &&
               !wire_record_make_known(record, word));
        if (!is_open(word, generation)) queued_forget(n, t);
        return NULL;
    }
    node_task_renew(n, t);
    t->queued = false;
    if (t->actor != NULL) t->actor->in_flight--;
    t->actor = NULL;
    return t;
}

void node_queued_return(node_t *n, uint32_t index, uint64_t generation, uint32_t owner) {
    mob_ref_t actor = n->records[index].actor;
    node_task_t *t = node_task_take_over(n, index, wire_entry(index, generation), owner);
    if (t != NULL && t->kind == MOB_ACTOR_CALL)
        node_actor_call(n, t, actor);
    else if (t != NULL && t->missing == 0)
        node_task_ready(t, n);
}

/* The submitter may have died since, and the record be another's. */
void node_queued_postpone(node_t *n, uint32_t index, uint64_t generation) {
    if (index >= n->grants.records.granted) return;
    uint32_t owner = n->grants.records.owner[index / WIRE_RECORD_BLOCK];
    bool is_there = owner > 0 && owner < SHM_MAX_CLIENTS && n->clients[owner] != NULL;
    if (is_there) node_queued_return(n, index, generation, owner);
}

void node_task_adopt(node_t *n, uint32_t index, uint64_t entry, uint32_t owner) {
    if (!node_grant_record_is(n, index, owner)) return;
    for (;;) {
        uint64_t word = atomic_load_explicit(&n->records[index].word, memory_order_acquire);
        if (!wire_entry_names(entry, word)) return; /* begun: found among its owner's records */
        if (!(word & WIRE_KNOWN) && !wire_record_make_known(&n->records[index], word)) continue;
        node_task_t *t = n->tasks[index] ? n->tasks[index]
                                         : node_queued_open(n, index, wire_word_generation(word));
        if (t != NULL) t->adopted = true;
        return;
    }
}

/* ---- what a client submitted ---- */

#define EACH_RECORD_OF(client, r)                                   \
    for (size_t s_ = 0; s_ < (client)->records.count; s_++)         \
        for (uint32_t r = (client)->records.items[s_].first,        \
                      end_ = r + (client)->records.items[s_].count; \
             r < end_; r++)

bool node_client_has_tasks(node_client_t *client) {
    node_t *n = client->node;
    if (n->open_tasks[client->number] > 0) return true;
    EACH_RECORD_OF (client, r) {
        unsigned state =
            wire_word_state(atomic_load_explicit(&n->records[r].word, memory_order_acquire));
        if (state == WIRE_READY_STATE || state == WIRE_TAKEN) return true;
    }
    return false;
}

/* Takes every task that the client has in its queues, or that was taken from there, into the books.
 * A task that no worker has begun is not `queued` any more afterwards: it is the daemon's to
 * run. */
static void queue_take_over(node_client_t *client) {
    node_t *n = client->node;
    EACH_RECORD_OF (client, r) {
        node_task_t *t = n->tasks[r];
        /* Calls that were seen in their queues stay there. A call that has a book by its arguments
         * need not be in a queue: its caller may have died before it pushed the call. */
        if (t != NULL && (!t->queued || t->adopted)) continue;
        /* Until the record is the daemon's, or over: workers go on meanwhile. */
        for (;;) {
            uint64_t word = atomic_load_explicit(&n->records[r].word, memory_order_acquire);
            mob_ref_t actor = n->records[r].actor;
            unsigned state = wire_word_state(word);
            if (state == WIRE_FREE) break;
            /* Killed before the daemon could hear of its creation: nobody knows that actor. */
            if (t == NULL && n->records[r].kind != MOB_TASK && n->records[r].kind != MOB_ACTOR_CALL)
                break;
            if (state == WIRE_READY_STATE) {
                t = node_task_take_over(n, r, wire_entry(r, wire_word_generation(word)),
                                        client->number);
                if (t != NULL && t->kind == MOB_ACTOR_CALL) node_actor_call(n, t, actor);
                break;
            }
            if (!(word & WIRE_KNOWN) && !wire_record_make_known(&n->records[r], word)) continue;
            if (t == NULL) t = node_queued_open(n, r, wire_word_generation(word));
            if (t != NULL) done_early_complete(n, t, word); /* else its worker tells the daemon */
            break;
        }
    }
    for (uint32_t l = 0; l < SHM_LANES; l++) {
        shm_queue_t *queue = &n->queues[shm_lane_queue(l, client->number)];
        atomic_store(&queue->head, atomic_load(&queue->tail));
        atomic_fetch_and(
            &n->shared->lanes[node_lane_number(client->job, l)].queued[client->number / 64],
            ~shm_node_bit(client->number));
    }
}

void node_tasks_cancel(node_client_t *client) {
    node_t *n = client->node;
    node_calls_caller_died(client); /* calls first, for they have an order */
    queue_take_over(client);
    EACH_RECORD_OF (client, r) {
        node_task_t *t = n->tasks[r];
        if (t == NULL || t->waiting_for_worker || t->queued || t->kind != MOB_TASK) continue;
        bool known = false;
        for (uint32_t i = 0; i < t->num_returns && !client->job->farewell.leaving; i++)
            known |= n->objects[t->refs[i].slot] != NULL;
        if (node_forward_is(t)) {
            if (!known) node_forward_recall(n, t);
            continue;
        }
        if (t->worker != NULL && (known || t == t->worker->runs || !node_task_take_back(n, t)))
            continue;
        if (!known)
            node_task_fail(n, t, MOB_ECANCELLED,
                           "the process that submitted this task died before it began");
        else if (t->missing == 0 && !t->queue.queued)
            node_task_ready(t, n);
    }
}

static void queue_fail(node_t *n, uint32_t number, uint32_t client, mob_status_t status,
                       const char *text) {
    shm_queue_t *queue = &n->queues[number];
    uint64_t position, entry;
    /* Entry by entry, for the client is alive and goes on pushing; bounded, for the same reason. */
    for (uint64_t k = shm_queue_count(queue); k > 0 && n->clients[client] != NULL; k--) {
        if (!shm_queue_peek(queue, &position, &entry)) break;
        node_task_t *t = node_task_take_over(n, wire_entry_index(entry), entry, client);
        shm_queue_pass(queue, position);
        if (t != NULL) node_task_fail(n, t, status, text);
    }
}

void node_lane_fail(node_job_t *job, uint32_t lane, mob_status_t status, const char *text) {
    node_t *n = job->node;
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->job == job)
            queue_fail(n, shm_lane_queue(lane, i), i, status, text);
}

void node_queues_fail(node_pool_t *pool, mob_status_t status, const char *text) {
    node_job_t *job = pool->job;
    node_t *n = job->node;
    for (uint32_t i = 1; i < n->client_next; i++)
        for (uint32_t l = 0; l < SHM_LANES; l++)
            if (n->clients[i] != NULL && n->clients[i]->job == job && job->lanes[l].shape != 0 &&
                node_pool_of(job, job->lanes[l].shape) == pool)
                queue_fail(n, shm_lane_queue(l, i), i, status, text);
}
