/*
 * Which task starts. The scheduler (src/sched) decides by resources and order; here its answers
 * become tasks on workers and leases. Whatever may have changed an answer calls node_schedule,
 * which is cheap when nothing has.
 */
#include <string.h>

#include "base/clock.h"
#include "node/ahead.h"
#include "node/state.h"

static void on_look_timer(uv_timer_t *timer) { node_schedule(timer->data); }

void node_look_again(node_t *n, uint64_t ms) {
    /* One timer for all: it goes off for the earliest, and a caller that still waits then sets it
     * again. */
    bool sooner = uv_is_active((uv_handle_t *)&n->schedule.timer) &&
                  uv_timer_get_due_in(&n->schedule.timer) <= ms;
    if (!sooner) uv_timer_start(&n->schedule.timer, on_look_timer, ms, 0);
}

int64_t node_cpus_free(node_t *n) {
    const char *name;
    uint64_t total;
    int64_t available;
    if (sched_resource_count(n->sched) == 0) return 0;
    sched_resource_at(n->sched, 0, &name, &total, &available); /* CPU comes first */
    return strcmp(name, "CPU") == 0 ? available : 0;
}

void node_worker_blocked(node_client_t *w) {
    if (w->runs == NULL) return;
    node_ahead_take_all(w);
    /* The worker has begun the next task: this message is late, its task had gone on and ended
     * before the daemon read it. Nothing is to be lent. */
    if (w->run_count > 1) return;
    sched_lease_block(w->node->sched, &w->runs->lease);
    if (w->runs->visit != NULL) node_placing_blocked(w->runs->visit, true);
}

void node_worker_unblocked(node_client_t *w) {
    sched_lease_unblock(w->node->sched, &w->runs->lease);
    if (w->runs->visit != NULL) node_placing_blocked(w->runs->visit, false);
}

static void tasks_start(node_t *n) {
    sched_lease_t lease;
    uint64_t now = base_clock_mono_ns();
    for (sched_task_t *q;
         !node_is_paused(n) && (q = sched_task_next(n->sched, now, &lease)) != NULL;) {
        uint32_t lane;
        if (((node_ask_t *)q)->group != NULL) {
            node_group_place(((node_ask_t *)q)->group, &lease);
            continue;
        }
        node_job_t *asks = node_lane_asks(q, &lane);
        if (asks != NULL) {
            node_lease_granted(asks, lane, &lease);
            continue;
        }
        node_task_t *t = (node_task_t *)q;
        if (node_term_hold(n, t)) {
            sched_lease_release(n->sched, &lease);
            continue;
        }
        t->lease = lease;
        if (t->visit != NULL) node_placing_begun(t->visit);
        node_client_t *w = node_worker_idle(node_pool_of(t->job, t->shape));
        if (w != NULL)
            node_task_run_on(n, t, w);
        else
            node_pool_wait(t);
    }
}

static void leases_request(node_t *n) {
    if (!n->config.fast) return;
    NODE_EACH_JOB(n, job) node_lease_request(job);
}

/* How many tasks of one CPU wait. */
static size_t small_queued(node_t *n) {
    size_t count = 0;
    NODE_EACH_JOB(n, job) count += sched_queued(job->sched, MOB_SHAPE_ONE_CPU);
    return count;
}

void node_schedule(node_t *n) {
    if (n->ending) return;
    node_actors_resume(n);
    leases_request(n);
    tasks_start(n);
    /* Bounded: a CPU that is taken for a task of several may go to a queue again, and is recalled
     * then. */
    for (uint32_t i = n->leases.given + 1; i > 0 && n->config.fast && node_leases_yield(n); i--) {
        leases_request(n);
        tasks_start(n);
    }
    node_ahead_give_way(n);
    while (small_queued(n) == 0 && node_ahead_take_one(n)) tasks_start(n);
    if (node_cpus_free(n) < 0) {
        node_ahead_settle(n, -node_cpus_free(n));
    } else if (!n->pressure.paused) {
        node_ahead_give(n);
        node_ahead_follow(n);
    }
    NODE_EACH_JOB(n, job)
    NODE_EACH_POOL(job, pool) node_pool_fill(pool);
    node_zygotes_watch(n);
}
