/*
 * Leases.
 *
 *   lease     from now       from later        moved on by
 *   NONE      -              -                 sched_task_next -> HELD
 *   HELD      all            all, if lasting   block -> BLOCKED; shrink -> lasting; release -> NONE
 *   BLOCKED   all but CPUs   all but CPUs      unblock -> HELD; shrink -> lasting; release -> NONE
 *
 * What a lease has taken follows from its own fields, so every change is the same: give all of it
 * back, change the fields, take again. Its job's books change with the pools: the CPUs that it has
 * taken from `now`, and what it has taken from `now` but not from `later`, which is `running`.
 */
#include "sched/lease.h"

#include <assert.h>

#include "sched/books.h"
#include "sched/group.h"

static unsigned lease_parts_now(const sched_lease_t *lease) {
    if (lease->state == SCHED_LEASE_NONE) return 0;
    return lease->state == SCHED_LEASE_HELD ? SCHED_PART_ALL : SCHED_PART_REST;
}

static unsigned lease_parts_later(const sched_lease_t *lease) {
    return lease->state == SCHED_LEASE_HELD && !lease->lasting ? 0 : lease_parts_now(lease);
}

typedef void pool_change_t(sched_pool_t *pool, const sched_need_t *need, uint64_t gpu_mask,
                           unsigned parts);

static void lease_apply(const sched_lease_t *lease, pool_change_t *change, int sign) {
    sched_job_t *job = lease->job;
    const sched_shape_t *shape = sched_job_shape(job, lease->shape);
    unsigned now = lease_parts_now(lease), later = lease_parts_later(lease);
    for (uint32_t i = 0; i < shape->count; i++) {
        const sched_need_t *need = &shape->needs[i];
        change(&job->sched->now, need, lease->gpu_mask, now);
        change(&job->sched->later, need, lease->gpu_mask, later);
        if (need->resource == SCHED_CPU && now & SCHED_PART_CPU) job->cpus += sign * need->amount;
        if (now && !later) job->running[need->resource] += sign * need->amount;
    }
}

void sched_lease_set(sched_lease_t *lease, sched_lease_t next) {
    sched_lease_t old = *lease;
    sched_job_t *job = old.job ? old.job : next.job;
    if (!job) return;
    if (old.job) lease_apply(&old, sched_pool_give, -1);
    *lease = next;
    if (next.job) lease_apply(&next, sched_pool_take, 1);
    if (next.job) sched_job_shape(job, next.shape)->holds++;
    if (old.job) sched_shapes_drop(&job->shapes, sched_job_shape(job, old.shape));
    int more = (next.job != NULL) - (old.job != NULL);
    job->leases += (size_t)more;
    sched_job_moved(job);
    if (job->sched->bundle) sched_bundle_changed(job, more);
}

void sched_lease_release(sched_t *sched, sched_lease_t *lease) {
    assert(!lease->job || lease->job->sched->node == sched);
    (void)sched;
    sched_lease_set(lease, (sched_lease_t){0});
}

static uint64_t mask_lowest(uint64_t mask, int64_t count) {
    uint64_t kept = 0;
    for (; count > 0; count--) {
        kept |= mask & -mask;
        mask &= mask - 1;
    }
    return kept;
}

void sched_lease_shrink(sched_job_t *job, sched_lease_t *lease, uint32_t shape) {
    if (lease->state == SCHED_LEASE_NONE) return;
    const sched_shape_t *old = sched_job_shape(lease->job, lease->shape);
    const sched_shape_t *new = sched_job_shape(job, shape);
    assert(new && (new->entry != NULL) == (lease->job->sched->bundle != NULL));
    for (uint32_t i = 0; i < new->count; i++) {
        assert(new->needs[i].amount <= sched_shape_amount(old, new->needs[i].resource));
    }
    int64_t gpus = (sched_shape_amount(new, SCHED_GPU) + SCHED_UNIT - 1) / SCHED_UNIT;
    sched_lease_t next = *lease;
    next.shape = new->entry ? sched_entry_shape(new->entry, lease->job->sched->bundle) : shape;
    next.lasting = true;
    next.gpu_mask = mask_lowest(lease->gpu_mask, gpus);
    sched_lease_set(lease, next);
}

sched_t *sched_lease_place(const sched_lease_t *lease) {
    return lease->job ? lease->job->sched : NULL;
}

int64_t sched_cpus_free(const sched_t *sched) { return sched->now.free[SCHED_CPU]; }

static void lease_move(sched_lease_t *lease, sched_lease_state_t from, sched_lease_state_t to) {
    if (lease->state != from) return;
    sched_lease_t next = *lease;
    next.state = (uint8_t)to;
    sched_lease_set(lease, next);
}

void sched_lease_block(sched_t *sched, sched_lease_t *lease) {
    (void)sched;
    lease_move(lease, SCHED_LEASE_HELD, SCHED_LEASE_BLOCKED);
}

void sched_lease_unblock(sched_t *sched, sched_lease_t *lease) {
    (void)sched;
    lease_move(lease, SCHED_LEASE_BLOCKED, SCHED_LEASE_HELD);
}
