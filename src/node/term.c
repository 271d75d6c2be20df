#include "node/term.h"

#include "node/state.h"
#include "shm/term.h"

static bool is_at_most_once(const node_task_t *t) { return t->kind != MOB_TASK || t->retries == 0; }

bool node_term_hold(node_t *n, node_task_t *t) {
    if (!is_at_most_once(t) || !shm_term_is_over(n->shared)) return false;
    t->awaits_term = true;
    t->next = NULL;
    t->prev = n->term.last;
    *(n->term.last != NULL ? &n->term.last->next : &n->term.first) = t;
    n->term.last = t;
    return true;
}

void node_term_unhold(node_t *n, node_task_t *t) {
    if (!t->awaits_term) return;
    *(t->prev != NULL ? &t->prev->next : &n->term.first) = t->next;
    *(t->next != NULL ? &t->next->prev : &n->term.last) = t->prev;
    t->next = t->prev = NULL;
    t->awaits_term = false;
}

/* They go back to their places in the scheduler. */
static void release(node_t *n) {
    while (n->term.first != NULL) {
        node_task_t *t = n->term.first;
        node_term_unhold(n, t);
        sched_task_readd(n->sched, &t->queue);
        n->again = true;
    }
}

void node_term_set(node_t *n, uint64_t end_ns) {
    /* 0 is a term without an end; this one ended when the machine started */
    if (shm_term_set(n->shared, end_ns != 0 ? end_ns : 1)) node_bells_ring(n);
    if (!shm_term_is_over(n->shared)) release(n);
}
