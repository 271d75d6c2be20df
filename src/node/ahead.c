/*
 * Handing out ahead: when more small tasks wait than can start, the daemon gives a busy worker a
 * few behind the one that it runs, so that the worker goes on without asking. They have no
 * resources of their own: each takes over the lease of the one before it, so they ask for the same.
 * The daemon does so only with tasks of one CPU and no GPU, and only while nothing else waits, so
 * no task is passed over. It takes a task back that the worker has not begun as soon as it could
 * start elsewhere, when the worker's task blocks, when a job that holds fewer CPUs waits for one,
 * or when more CPUs are used than there are because blocked tasks went on: a lease that is always
 * taken over would never be given back.
 *
 * A task that waits for nothing but the results of the last task that a worker has is given to that
 * worker too: by the time its turn comes, the results are there. A chain of tasks then runs in one
 * worker without waiting for the daemon at each link. If the task before it has to run again, the
 * worker finds an argument missing and gives the task back (WIRE_UNREADY).
 */
#include "node/ahead.h"

#include "node/state.h"

enum { MAX_AHEAD = 16 };

/* Whether the worker runs such a task, whose lease another can take over. */
static bool lease_can_pass(const node_client_t *w) {
    return w != NULL && w->role == WIRE_WORKER && w->state == NODE_LIVE && !w->retiring &&
           !w->job->farewell.leaving && !w->leased && w->actor == NULL && w->runs != NULL &&
           w->runs->kind == MOB_TASK && w->runs->max_calls == 0 &&
           w->runs->lease.state == SCHED_LEASE_HELD &&
           sched_shape_passes(w->job->sched, w->runs->shape);
}

static bool may_have_more(const node_client_t *w) {
    return lease_can_pass(w) && w->run_count <= MAX_AHEAD;
}

/* Gives the busy workers one more task of their job's each in turn, until the queue is short or
 * they have enough. Where a job has an idle worker, that one is for them. */
void node_ahead_give(node_t *n) {
    for (bool given = true; given;) {
        given = false;
        for (uint32_t i = 1; i < n->client_next; i++) {
            node_client_t *w = n->clients[i];
            if (!may_have_more(w) || w->pool->idle.count > 0) continue;
            sched_task_t *q = sched_task_ahead(w->job->sched, w->runs->shape);
            if (q == NULL) continue;
            node_task_t *t = (node_task_t *)q;
            if (node_lane_asks(q, &(uint32_t){0}) != NULL || t->ask.group != NULL ||
                t->kind != MOB_TASK || t->max_calls != 0) {
                sched_task_readd(n->sched, q);
                continue;
            }
            if (!node_term_hold(n, t)) node_task_run_on(n, t, w);
            given = true;
        }
    }
}

/* A task that waits for nothing but the results of this one; NULL: none. */
static node_task_t *follower(node_t *n, const node_task_t *t) {
    for (uint32_t i = 0; i < t->num_returns; i++) {
        const node_object_t *o = n->objects[t->refs[i].slot];
        for (size_t k = 0;
             o != NULL && o->generation == t->refs[i].generation && k < o->waiting.count; k++) {
            node_task_t *next = o->waiting.items[k];
            uint32_t mine = 0;
            for (uint32_t d = 0; d < next->num_deps; d++)
                for (uint32_t r = 0; r < t->num_returns; r++)
                    mine += (next->refs + next->num_returns)[d].slot == t->refs[r].slot;
            if (next->worker == NULL && next->kind == MOB_TASK && next->job == t->job &&
                next->max_calls == 0 && next->shape == t->shape && next->missing == mine)
                return next;
        }
    }
    return NULL;
}

/* Chains: gives a busy worker the tasks that follow the last one that it has. Not while other tasks
 * wait for a CPU: they would be passed over. */
void node_ahead_follow(node_t *n) {
    uint64_t since;
    if (n->missing_arguments == 0 || sched_cpu_lacking(n->sched, NULL, NULL, &since) > 0) return;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        for (node_task_t *t; may_have_more(w) && (t = follower(n, w->runs_tail)) != NULL;)
            node_task_run_on(n, t, w);
    }
}

void node_ahead_take_all(node_client_t *w) {
    while (w->run_count > 1 && node_task_take_back(w->node, w->runs_tail)) {
    }
}

void node_ahead_give_way(node_t *n) {
    bool alone = n->jobs.items.count < 2;
    if (alone && !sched_has_priorities(n->sched)) return;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (lease_can_pass(w) && w->run_count > 1 &&
            ((!alone && sched_job_gives_way(w->job->sched)) ||
             sched_job_waits_above(w->job->sched, w->runs->shape)))
            node_ahead_take_all(w);
    }
}

void node_ahead_hold_back(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->actor == NULL)
            node_ahead_take_all(n->clients[i]);
}

/* More CPUs are used than there are. So many are to come back when the tasks that run now end: that
 * many workers keep no task to go on with. */
void node_ahead_settle(node_t *n, int64_t over) {
    for (int taking = 0; taking <= 1; taking++)
        for (uint32_t i = 1; i < n->client_next && over > 0; i++) {
            node_client_t *w = n->clients[i];
            if (!lease_can_pass(w) || (w->run_count > 1) != taking) continue;
            if (taking) node_ahead_take_all(w);
            if (w->run_count == 1) over -= SCHED_UNIT;
        }
}

/* Whether a task that the worker has not begun could start elsewhere. */
static bool ahead_has_ready(const node_client_t *w) {
    for (const node_task_t *t = w->runs ? w->runs->run_next : NULL; t != NULL; t = t->run_next)
        if (t->missing == 0) return true;
    return false;
}

static bool gives_way(const node_job_t *holder, const node_job_t *job) {
    return holder == NULL || holder == job ||
           sched_job_cpus(job->sched) < sched_job_cpus(holder->sched);
}

bool node_ahead_waits(node_t *n, const node_job_t *holder, uint64_t *ret_since_ns) {
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || w->role != WIRE_WORKER || w->actor != NULL || w->leased ||
            !ahead_has_ready(w) || !gives_way(holder, w->job))
            continue;
        *ret_since_ns = w->runs->run_next->queue.since_ns;
        return true;
    }
    return false;
}

/* Whether a task that it has not begun could start elsewhere now, and no other waits for that. */
static bool has_to_give(const node_client_t *w) {
    return w != NULL && w->role == WIRE_WORKER && w->actor == NULL && !w->leased &&
           w->run_count > 1 && sched_shape_fits_now(w->job->sched, w->runs->shape) &&
           sched_queued(w->job->sched, w->runs->shape) == 0 && ahead_has_ready(w);
}

/* From the worker that has most tasks, takes back the newest that could start elsewhere, and those
 * behind it. */
bool node_ahead_take_one(node_t *n) {
    node_client_t *most = NULL;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (has_to_give(w) && (most == NULL || w->run_count > most->run_count)) most = w;
    }
    while (most != NULL && most->runs_tail->missing > 0)
        if (!node_task_take_back(n, most->runs_tail)) return false;
    return most != NULL && node_task_take_back(n, most->runs_tail);
}
