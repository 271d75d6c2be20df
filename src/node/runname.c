/*
 * What a worker runs, by its name, for people to read.
 *
 * An actor's worker: the actor. A task that the daemon handed out: the books name its record, and
 * the record's word says whether the worker has begun it. A task that the worker took from a queue:
 * the worker's lease names the record. A record that is not in the daemon's books is its
 * submitter's to write at any time, so it is copied, the copy is checked, and the word is read
 * again: the copy counts only if the worker ran the record all the while.
 *
 * Between two runs the last one counts: the daemon often reads only after a run's end what the
 * process printed before it. The timeline has that run.
 */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "node/runname.h"
#include "node/state.h"

enum { MOST_EVENTS = 1024 };

size_t node_task_name(node_t *n, const node_task_t *t, char *ret_name, size_t capacity) {
    const wire_record_t *record = &n->records[t->record];
    size_t size = record->name_size,
           skip = ((size_t)t->num_returns + t->num_deps + t->num_refs) * sizeof(mob_ref_t);
    const char *from = t->block ? (const char *)n->arena.base + t->block + skip
                                : (const char *)record->body + skip;
    if (t->block == 0 && skip + size > WIRE_RECORD_BODY) size = 0;
    if (t->block != 0 && t->block + skip + size > n->config.store_bytes) size = 0;
    size = strnlen(from, size); /* a method may stand behind: see mob_task_t */
    if (size >= capacity) size = base_utf8_whole(from, capacity - 1);
    memcpy(ret_name, from, size);
    ret_name[size] = 0;
    return size;
}

void node_event_name(control_event_t *e, const node_actor_t *a, const char *method, size_t size) {
    enum { HALF = sizeof e->name / 2 - 1 };
    int class_size = (int)base_utf8_whole(a->name, strnlen(a->name, HALF));
    int method_size = (int)base_utf8_whole(method, size < HALF ? size : HALF);
    snprintf(e->name, sizeof e->name, "%.*s.%.*s", class_size, a->name, method_size, method);
}

/* Whether the worker runs the record now. */
static bool is_run_by(uint64_t word, const node_client_t *w) {
    return wire_word_state(word) == WIRE_TAKEN && wire_word_worker(word) == w->number;
}

/* Of the tasks that were handed out: the one that is begun, or else the last one that is done. */
static node_task_t *handed_out(node_t *n, const node_client_t *w) {
    node_task_t *done = NULL;
    for (node_task_t *t = w->runs; t != NULL; t = t->run_next) {
        uint64_t word = atomic_load_explicit(&n->records[t->record].word, memory_order_acquire);
        if (t->kind == MOB_ACTOR_CALL || wire_word_generation(word) != t->generation) continue;
        if (is_run_by(word, w)) return t;
        if (wire_word_state(word) == WIRE_DONE_STATE) done = t;
    }
    return done;
}

/* The name in a copy of a record whose body lies in the arena. False: the body is not its owner's.
 */
static bool block_name(node_t *n, uint32_t index, const wire_record_t *copy, char *ret_name) {
    uint64_t skip =
        ((uint64_t)copy->num_returns + copy->num_deps + copy->num_refs) * sizeof(mob_ref_t);
    uint32_t owner = n->grants.records.owner[index / WIRE_RECORD_BLOCK];
    if (skip + copy->name_size > copy->body_size || !node_record_block_is(n, owner, copy))
        return false;
    memcpy(ret_name, n->arena.base + copy->block + skip, copy->name_size);
    ret_name[copy->name_size] = 0;
    return true;
}

static bool taken_name(node_t *n, const node_client_t *w, char *ret_name) {
    uint32_t index = atomic_load(&n->shared->leases[w->number].run) - 1; /* 0: none */
    if (!w->leased || index >= n->grants.records.granted) return false;
    wire_record_t *record = &n->records[index], copy;
    uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire);
    if (!is_run_by(word, w)) return false;
    memcpy(&copy, record, sizeof copy);
    bool found = copy.block != 0 ? block_name(n, index, &copy, ret_name)
                                 : node_record_name(n, index, ret_name, NODE_NAME_BYTES);
    atomic_thread_fence(memory_order_acquire); /* the word is read after what was copied */
    return found &&
           wire_word_generation(atomic_load_explicit(&record->word, memory_order_relaxed)) ==
               wire_word_generation(word);
}

/* The worker's newest run in the timeline; of a call, Class.method, the class. */
static bool last_name(node_t *n, node_client_t *w, char *ret_name) {
    node_events_read(w);
    size_t count = control_event_count(n->control);
    for (size_t back = 1; back <= count && back <= MOST_EVENTS; back++) {
        const control_event_t *e = control_event_at(n->control, count - back);
        if (e->worker != w->epoch || e->pid != w->pid) continue;
        size_t size = strnlen(e->name, sizeof e->name);
        const char *dot = e->kind == MOB_ACTOR_CALL ? memchr(e->name, '.', size) : NULL;
        snprintf(ret_name, NODE_NAME_BYTES, "%.*s", (int)(dot ? dot - e->name : (long)size),
                 e->name);
        return true;
    }
    return false;
}

void node_run_name(node_client_t *w, char *ret_name) {
    node_t *n = w->node;
    node_task_t *t = w->number != 0 ? handed_out(n, w) : NULL;
    ret_name[0] = 0;
    if (w->number == 0) return;
    if (w->actor != NULL)
        snprintf(ret_name, NODE_NAME_BYTES, "%s", w->actor->name);
    else if (t != NULL)
        node_task_name(n, t, ret_name, NODE_NAME_BYTES);
    else if (!taken_name(n, w, ret_name) && !last_name(n, w, ret_name))
        ret_name[0] = 0;
    ret_name[base_utf8_whole(ret_name, strlen(ret_name))] = 0;
    for (char *c = ret_name; *c != 0; c++)
        if (*c == '\n' || *c == '\r' || *c == 1) *c = ' ';
}
