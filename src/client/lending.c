/*
 * Lending: while all runs of a worker wait, other tasks may have the CPUs that it holds. A worker
 * has one run at a time, unless it is an actor that runs several calls at once.
 */
#include "client/client.h"

static void cpus_lend(mob_client_t *c) {
    if (c->leased)
        client_lease_block(c);
    else if (c->holds != MOB_SHAPE_NOTHING)
        client_push(c, wire_plain(WIRE_BLOCK));
}

static void cpus_take_back(mob_client_t *c) {
    if (c->leased)
        client_lease_unblock(c);
    else if (c->holds != MOB_SHAPE_NOTHING)
        client_push(c, wire_plain(WIRE_UNBLOCK));
}

/* A run is on, or an actor does what it does at its end. */
static bool is_at_work(const mob_client_t *c) { return c->running > 0 || c->told_to_exit; }

void client_lending_settle(mob_client_t *c) {
    bool lent = is_at_work(c) && c->waiting > 0 && c->waiting >= c->running;
    if (lent == c->lent) return;
    c->lent = lent;
    if (lent)
        cpus_lend(c);
    else
        cpus_take_back(c);
}

/* Runs that this thread has claimed and not finished: they all stand still while it waits. A thread
 * without any counts as a helper of one run. */
static _Thread_local uint32_t runs_here;
static _Thread_local mob_ref_t last_here; /* the one that was claimed last */

bool client_lending_run(const mob_client_t *c, mob_ref_t *ret_run) {
    *ret_run = last_here;
    return c->role == WIRE_WORKER && runs_here == 1 && !c->has_loop;
}

void client_lending_begin(mob_client_t *c, mob_ref_t run) {
    runs_here++;
    last_here = run;
    if (c->running++ == 0) c->period++;
}

void client_lending_end(mob_client_t *c) {
    if (runs_here > 0) runs_here--;
    if (--c->running == 0) c->waiting = 0; /* no run stands still for a thread that waits on */
}

void client_lending_give(void) {
    if (runs_here > 0) runs_here--;
}

void client_lending_accept(mob_ref_t run) {
    runs_here++;
    last_here = run;
}

client_wait_t client_waiting_begin(mob_client_t *c) {
    client_wait_t wait = {0};
    if (c->role != WIRE_WORKER || atomic_load_explicit(&client_forked, memory_order_relaxed))
        return wait;
    pthread_mutex_lock(&c->mutex);
    if (is_at_work(c)) {
        wait = (client_wait_t){.period = c->period,
                               .runs = runs_here > 0 ? runs_here : 1,
                               .lends = c->leased || c->holds != MOB_SHAPE_NOTHING};
        c->waiting += wait.runs;
        client_lending_settle(c);
    }
    pthread_mutex_unlock(&c->mutex);
    return wait;
}

void client_waiting_end(mob_client_t *c, client_wait_t wait) {
    if (wait.period == 0 || atomic_load_explicit(&client_forked, memory_order_relaxed)) return;
    pthread_mutex_lock(&c->mutex);
    if (is_at_work(c) && c->period == wait.period) {
        c->waiting -= wait.runs;
        client_lending_settle(c);
    }
    pthread_mutex_unlock(&c->mutex);
}
