/* A node in simulated time. Groups of equal tasks are queued again as soon as they have ended, so
 * that there is always more to do than fits. */
#ifndef UNIT_SCHED_SIM_H
#define UNIT_SCHED_SIM_H

#include <stdlib.h>

#include "node.h"

enum { SIM_GROUPS = 4, SIM_RUNNING = 64 };

typedef struct group group_t;

typedef struct sim_task {
    sched_task_t task; /* first: the scheduler gives this back */
    sched_lease_t lease;
    group_t *group;
    uint64_t ends;
} sim_task_t;

struct group {
    sched_job_t *job;
    uint32_t shape;
    uint64_t length; /* of a task, in ms */
    sim_task_t *tasks;
    size_t started; /* since the window began */
    uint64_t held;  /* CPUs of its job, times ms, since then */
};

typedef struct sim {
    sched_t *sched;
    uint64_t now_ms;
    uint64_t spread_ms; /* tasks run for up to so much longer, one after the other, so that they do
                           not end together */
    uint64_t starts;
    group_t groups[SIM_GROUPS];
    size_t group_count;
    sim_task_t *running[SIM_RUNNING];
    size_t running_count;
} sim_t;

static inline group_t *sim_group(sim_t *sim, sched_job_t *of, uint32_t id, uint64_t length,
                                 size_t count) {
    group_t *group = &sim->groups[sim->group_count++];
    *group = (group_t){.job = of, .shape = id, .length = length};
    group->tasks = calloc(count, sizeof *group->tasks);
    assert_non_null(group->tasks);
    for (size_t i = 0; i < count; i++) {
        group->tasks[i].group = group;
        sched_task_add(of, &group->tasks[i].task, id, MS(sim->now_ms));
    }
    return group;
}

static inline void sim_end_tasks(sim_t *sim) {
    for (size_t i = 0; i < sim->running_count;) {
        sim_task_t *task = sim->running[i];
        if (task->ends > sim->now_ms) {
            i++;
            continue;
        }
        sched_lease_release(sim->sched, &task->lease);
        sched_task_add(task->group->job, &task->task, task->group->shape, MS(sim->now_ms));
        sim->running[i] = sim->running[--sim->running_count];
    }
}

static inline void sim_start_tasks(sim_t *sim) {
    sched_lease_t lease;
    sched_task_t *next;
    while ((next = sched_task_next(sim->sched, MS(sim->now_ms), &lease))) {
        sim_task_t *task = (sim_task_t *)next;
        task->lease = lease;
        task->ends = sim->now_ms + task->group->length + sim->starts++ % (sim->spread_ms + 1);
        task->group->started++;
        assert_true(sim->running_count < SIM_RUNNING);
        sim->running[sim->running_count++] = task;
    }
}

/* Goes on for so long, as a window of its own. */
static inline void sim_run(sim_t *sim, uint64_t ms) {
    for (size_t g = 0; g < sim->group_count; g++) sim->groups[g].started = sim->groups[g].held = 0;
    for (; ms > 0; ms--, sim->now_ms++) {
        sim_end_tasks(sim);
        sim_start_tasks(sim);
        for (size_t g = 0; g < sim->group_count; g++)
            sim->groups[g].held += (uint64_t)sched_job_cpus(sim->groups[g].job) / SCHED_UNIT;
    }
}

static inline void sim_free(sim_t *sim) {
    for (size_t g = 0; g < sim->group_count; g++) free(sim->groups[g].tasks);
    sched_free(sim->sched);
}

#endif
