/* Demands that wait: tasks in the scheduler, by job and shape, and tasks in the queues of lanes. */
#include "node/demand.h"

#include <string.h>

#include "node/state.h"

typedef struct {
    const node_job_t *job;
    uint32_t shape;
    uint64_t count;
} demand_t;
typedef VEC(demand_t) demands_t;

static void demand_add(demands_t *demands, const node_job_t *job, uint32_t shape, uint64_t count) {
    if (count == 0) return;
    for (size_t i = 0; i < demands->count; i++) {
        if (demands->items[i].job != job || demands->items[i].shape != shape) continue;
        demands->items[i].count += count;
        return;
    }
    (void)vec_push(demands, ((demand_t){.job = job, .shape = shape, .count = count}));
}

static void demands_find(node_t *n, demands_t *demands) {
    for (uint32_t r = 0; r < n->grants.records.granted; r++) {
        const node_task_t *t = n->tasks[r];
        if (t != NULL && t->job != NULL &&
            (t->queue.queued || t->held_by != NULL || t->awaits_term))
            demand_add(demands, t->job, t->shape, 1);
    }
    NODE_EACH_JOB(n, job)
    for (uint32_t l = 0; l < SHM_LANES; l++)
        if (job->lanes[l].shape != 0)
            demand_add(demands, job, job->lanes[l].shape, node_lane_queued(job, l));
}

static void demand_write(const demand_t *d, wire_writer_t *w) {
    sched_amount_t needs[SCHED_NEEDS_MAX];
    size_t count = sched_shape_demand(d->job->sched, d->shape, needs, SCHED_NEEDS_MAX);
    wire_write_tuple(w, 2);
    wire_write_tuple(w, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        wire_write_tuple(w, 2);
        wire_write_str(w, needs[i].name, strlen(needs[i].name));
        wire_write_float(w, (double)needs[i].amount / SCHED_UNIT);
    }
    wire_write_int(w, (int64_t)d->count);
}

void node_demands_write(node_t *n, wire_writer_t *w) {
    demands_t demands = {0};
    demands_find(n, &demands);
    wire_write_tuple(w, (uint32_t)demands.count);
    for (size_t i = 0; i < demands.count; i++) demand_write(&demands.items[i], w);
    vec_free(&demands);
}
