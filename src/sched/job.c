/*
 * Jobs, their shapes, and the two lines they stand in.
 *
 * The line of turns is sorted by CPUs held, then by the time since something was given: an order
 * number, which no two jobs share. A job moves in it by as many places as it passes, one with each
 * change of what it holds. The line of patients is in the order in which they became that, so a new
 * one goes to its end.
 *
 *   job         in turns   in patients                     moved on by
 *   idle        no         no                              wait -> waiting
 *   waiting     yes        no                              patient_set -> patient; unwait -> idle
 *   patient     yes        yes, until it waits no more     patient_set -> the end of the line;
 *                                                          unwait -> idle
 *
 * Rejected: a heap of turns (a pick walks on when the first job can use nothing, and there are as
 * many jobs as people and programs at one machine).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sched/books.h"
#include "sched/group.h"
#include "sched/priority.h"
#include "sched/sched.h"
#include "sched/selector.h"

/* ---- Lines --------------------------------------------------------------- */

static void line_remove(sched_line_t *line, const sched_job_t *job) {
    size_t at = 0;
    while (line->items[at] != job) at++;
    line->count--;
    memmove(&line->items[at], &line->items[at + 1], (line->count - at) * sizeof *line->items);
}

static bool turn_before(const sched_job_t *a, const sched_job_t *b) {
    return a->cpus != b->cpus ? a->cpus < b->cpus : a->turn < b->turn;
}

static void turns_insert(sched_line_t *turns, sched_job_t *job) {
    size_t at = turns->count++;
    for (; at > 0 && turn_before(job, turns->items[at - 1]); at--)
        turns->items[at] = turns->items[at - 1];
    turns->items[at] = job;
}

void sched_job_moved(sched_job_t *job) {
    if (!job->waiting) return;
    line_remove(&job->sched->turns, job);
    turns_insert(&job->sched->turns, job);
}

void sched_job_wait(sched_job_t *job, uint64_t order) {
    if (job->waiting++ > 0) return;
    if (!job->served) job->turn = order;
    turns_insert(&job->sched->turns, job);
}

static void patient_clear(sched_job_t *job) {
    if (job->patient) line_remove(&job->sched->patients, job);
    job->patient = 0;
    job->passed = 0;
    job->ahead = false;
    job->lacked = (sched_set_t){0};
}

void sched_job_unwait(sched_job_t *job) {
    if (--job->waiting > 0) return;
    line_remove(&job->sched->turns, job);
    patient_clear(job);
}

void sched_job_patient_set(sched_job_t *job, uint64_t order) {
    sched_line_t *patients = &job->sched->patients;
    patient_clear(job);
    job->patient = order;
    patients->items[patients->count++] = job;
}

/* ---- Jobs ---------------------------------------------------------------- */

static bool lines_reserve(sched_t *sched) {
    sched_line_t *jobs = &sched->jobs, *turns = &sched->turns, *patients = &sched->patients;
    size_t all = jobs->count + 1;
    return vec_reserve(jobs, 1) && vec_reserve(turns, all - turns->count) &&
           vec_reserve(patients, all - patients->count);
}

mob_status_t sched_job_new(sched_t *sched, sched_job_t **ret_job) {
    sched_job_t *job = lines_reserve(sched) ? calloc(1, sizeof *job) : NULL;
    if (!job) return MOB_ENOMEM;
    job->sched = sched;
    mob_status_t status =
        sched_shapes_init(&job->shapes, sched->names, &sched->total, &sched->labels);
    if (status) {
        sched_shapes_fini(&job->shapes);
        free(job);
        return status;
    }
    sched->jobs.items[sched->jobs.count++] = job;
    *ret_job = job;
    return MOB_OK;
}

void sched_job_free(sched_job_t *job) {
    if (!job) return;
    assert(!job->queued && !job->leases);
    line_remove(&job->sched->jobs, job);
    sched_shapes_fini(&job->shapes);
    free(job);
}

int64_t sched_job_cpus(const sched_job_t *job) { return job->cpus; }

/* ---- Shapes -------------------------------------------------------------- */

static sched_shape_t *shape_get(const sched_job_t *job, uint32_t shape) {
    sched_shape_t *found = sched_job_shape(job, shape);
    assert(found);
    return found;
}

mob_status_t sched_shape_intern(sched_job_t *job, const sched_amount_t *demand, size_t count,
                                uint32_t *ret_shape) {
    return sched_shapes_intern(&job->shapes, demand, count, &(sched_where_t){.bundle = -1},
                               ret_shape);
}

static mob_status_t where_check(const sched_where_t *where) {
    if (where->priority < -SCHED_PRIORITY_MOST || where->priority > SCHED_PRIORITY_MOST)
        return base_fail(MOB_EINVAL, "a priority is %d to %d, not %d", -SCHED_PRIORITY_MOST,
                         SCHED_PRIORITY_MOST, where->priority);
    if (where->selector && !sched_selector_check(where->selector))
        return base_fail(MOB_EINVAL, "'%s' is no selector of labels", where->selector);
    if (!where->group) return MOB_OK;
    int64_t bundles = (int64_t)sched_group_bundles(where->group);
    if (where->bundle < -1 || where->bundle >= bundles)
        return base_fail(MOB_EINVAL, "the placement group has %lld bundles, and none of number %d",
                         (long long)bundles, where->bundle);
    return MOB_OK;
}

mob_status_t sched_shape_intern_at(sched_job_t *job, const sched_amount_t *demand, size_t count,
                                   const sched_where_t *where, uint32_t *ret_shape) {
    uint32_t id;
    mob_status_t status = where_check(where);
    if (!status && where->group && sched_group_is_removed(where->group)) status = MOB_ESTALE;
    if (!status) status = sched_shapes_intern(&job->shapes, demand, count, where, &id);
    if (status) return status;
    sched_shape_t *shape = shape_get(job, id);
    if (where->group && !shape->entry) status = sched_entry_new(job, shape);
    if (status)
        sched_shapes_drop(&job->shapes, shape);
    else
        *ret_shape = id;
    return status;
}

const sched_where_t *sched_shape_where(const sched_job_t *job, uint32_t shape) {
    return &shape_get(job, shape)->where;
}

bool sched_shape_matches(const sched_job_t *job, uint32_t shape) {
    return sched_selector_matches(shape_get(job, shape)->where.selector, job->sched->labels);
}

void sched_shape_hold(sched_job_t *job, uint32_t shape) { shape_get(job, shape)->holds++; }

void sched_shape_drop(sched_job_t *job, uint32_t shape) {
    sched_shapes_drop(&job->shapes, shape_get(job, shape));
}

bool sched_shape_valid(const sched_job_t *job, uint32_t shape) {
    return sched_job_shape(job, shape);
}

bool sched_shape_fits_ever(const sched_job_t *job, uint32_t shape) {
    const sched_shape_t *asked = shape_get(job, shape);
    return asked->entry ? asked->entry->count > 0 : asked->possible;
}

bool sched_shape_passes(const sched_job_t *job, uint32_t shape) {
    const sched_shape_t *asked = shape_get(job, shape);
    return asked->entry == NULL && sched_shape_amount(asked, SCHED_CPU) == SCHED_UNIT &&
           sched_shape_amount(asked, SCHED_GPU) == 0;
}

bool sched_shape_fits_now(const sched_job_t *job, uint32_t shape) {
    return sched_shape_missing(shape_get(job, shape), &job->sched->now) == NULL;
}

static sched_amount_t need_named(const sched_job_t *job, const sched_need_t *need) {
    return (sched_amount_t){.name = job->sched->names->names[need->resource],
                            .amount = (uint64_t)need->amount};
}

size_t sched_shape_lacks(const sched_job_t *job, uint32_t shape, sched_amount_t *ret_missing,
                         uint64_t *ret_totals, size_t capacity) {
    const sched_shape_t *asked = shape_get(job, shape);
    const sched_pool_t *total = &job->sched->total;
    size_t count = 0;
    for (uint32_t i = 0; i < asked->count; i++) {
        const sched_need_t *need = &asked->needs[i];
        if (sched_pool_has(total, need)) continue;
        if (count < capacity) {
            ret_missing[count] = need_named(job, need);
            ret_totals[count] = (uint64_t)total->free[need->resource];
        }
        count++;
    }
    return count;
}

bool sched_shape_covers(const sched_job_t *job, uint32_t whole, uint32_t part) {
    const sched_shape_t *w = shape_get(job, whole), *p = shape_get(job, part);
    if (w->where.group != p->where.group || w->where.bundle != p->where.bundle) return false;
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->needs[i].amount > sched_shape_amount(w, p->needs[i].resource)) return false;
    }
    return true;
}

size_t sched_shape_demand(const sched_job_t *job, uint32_t shape, sched_amount_t *ret_demand,
                          size_t capacity) {
    const sched_shape_t *s = shape_get(job, shape);
    for (uint32_t i = 0; i < s->count && i < capacity; i++)
        ret_demand[i] = need_named(job, &s->needs[i]);
    return s->count;
}

size_t sched_queued(const sched_job_t *job, uint32_t shape) {
    return shape_get(job, shape)->queue.count;
}
