/*
 * Jobs.
 *
 *   RUNNING    its tasks are scheduled beside those of other jobs (sched/sched.h)
 *   LEAVING    its end has begun: nothing of it is begun any more. What waited is cancelled, its
 *              workers end by themselves in a limited time (farewell.c), and are killed then
 *   over       no worker of it is left. The driver gets what they printed, if it waits for that
 *   gone       no connection names it: it is freed, and its place goes to another job
 *
 *   from      to        by
 *   RUNNING   LEAVING   the driver says so (WIRE_MESSAGES_END, WIRE_LEAVE), hangs up or dies; the
 *                       job's detached actor is dead
 *   LEAVING   over      its last worker was reaped
 *   over      gone      the driver has left, though it may still read values in place, or is
 *                       certainly dead. A driver that has hung up and is not certainly dead may
 *                       still write into its queues, so the place waits
 *
 * A daemon that its driver started ends when that driver's job is over.
 *
 * Whatever a process of the job held is struck off with that process (node_client_died), as at any
 * other death. So the end of a job is the end of its processes, and the cancelling of what it had
 * waiting. Objects that other jobs hold, and calls that lie in the queues of other jobs' actors,
 * stay.
 *
 * Invariant: a worker runs only tasks of its own job, and calls of its own actor. Lanes are a job's
 * own, idle workers are taken from the task's job, and a task that is handed ahead goes to a worker
 * of its job.
 */
#include "node/job.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "node/cluster/actor_stub.h"
#include "node/state.h"

/* ---- beginning ---- */

static bool place_take(node_jobs_t *jobs, uint32_t *ret_place) {
    for (uint32_t w = 0; w < SHM_JOBS / 64; w++) {
        if (jobs->places[w] == UINT64_MAX) continue;
        uint32_t bit = (uint32_t)__builtin_ctzll(~jobs->places[w]);
        jobs->places[w] |= (uint64_t)1 << bit;
        *ret_place = w * 64 + bit;
        return true;
    }
    return false;
}

static void job_free(node_job_t *job) {
    node_jobs_t *jobs = &job->node->jobs;
    jobs->places[job->place / 64] &= ~((uint64_t)1 << job->place % 64);
    node_offers_forget(job);
    sched_job_free(job->sched);
    vec_free(&job->shapes.warned);
    vec_free(&job->told);
    NODE_EACH_POOL(job, pool) node_pool_free(pool);
    vec_free(&job->pools);
    free(job);
}

static mob_status_t job_equip(node_job_t *job) {
    node_t *n = job->node;
    mob_status_t status = sched_job_new(n->sched, &job->sched);
    if (status != MOB_OK) return status;
    uint32_t shape;
    status = sched_shape_intern(job->sched, &(sched_amount_t){.name = "CPU", .amount = SCHED_UNIT},
                                1, &shape);
    if (status != MOB_OK) return status;
    assert(shape == MOB_SHAPE_ONE_CPU); /* the first one that is asked for */
    if (!vec_push(&n->jobs.items, job)) return MOB_ENOMEM;
    node_lane_open(job, MOB_SHAPE_ONE_CPU);
    return MOB_OK;
}

mob_status_t node_job_new(node_t *n, node_setup_t *setup, node_job_t **ret_job) {
    node_job_t *job = calloc(1, sizeof *job);
    if (job == NULL || !place_take(&n->jobs, &job->place)) {
        mob_status_t status = job == NULL ? MOB_ENOMEM : MOB_ELIMIT;
        free(job);
        node_setup_drop(setup);
        return status == MOB_ENOMEM ? status
                                    : base_fail(status,
                                                "the node has %d jobs, and no place for "
                                                "another",
                                                SHM_JOBS);
    }
    job->node = n;
    job->setup = setup;
    mob_status_t status = node_pool_new(job, setup);
    if (status == MOB_OK) status = job_equip(job);
    if (status != MOB_OK) {
        job_free(job);
        return status;
    }
    job->number = job->shown = ++n->jobs.made;
    job->start_ms = base_clock_wall_ns() / 1000000;
    *ret_job = job;
    return MOB_OK;
}

void node_job_join(node_job_t *job, node_client_t *c) {
    c->job = job;
    job->clients++;
}

node_client_t *node_job_listener(const node_job_t *job) {
    const node_job_t *told = job->maker != NULL ? job->maker : job;
    return told->driver != NULL && told->driver->state == NODE_LIVE ? told->driver : NULL;
}

void node_job_note(const node_job_t *job, bool ended) {
    if (job->is_guest) return; /* its home does */
    const wire_setup_t *given = &job->setup->given;
    control_job_t note = {.number = job->number,
                          .pid = job->pid,
                          .start_ms = job->start_ms,
                          .end_ms = ended ? base_clock_wall_ns() / 1000000 : 0,
                          .is_detached = job->is_detached,
                          .failed = job->lost};
    snprintf(note.name_space, sizeof note.name_space, "%s", given->name_space);
    snprintf(note.entrypoint, sizeof note.entrypoint, "%s", given->entrypoint);
    control_job_put(job->node->control, &note);
}

/* ---- ending ---- */

/* What waits, and no worker has: it is cancelled. Calls of other jobs' actors go on, for those
 * actors do. An actor that is being made has a worker, and must not be made again when that dies.
 */
static void tasks_cancel(node_job_t *job) {
    node_t *n = job->node;
    job->cancelling = true; /* a task that becomes ready by another's end is reached by the loop */
    for (uint32_t r = 0; r < n->grants.records.granted; r++) {
        node_task_t *t = n->tasks[r];
        if (t == NULL || t->job != job || t->queued) continue;
        if (t->kind == MOB_ACTOR_CALL) continue; /* its actor's end fails it */
        if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL)
            node_actor_orphan(n, t->actor);
        else if (t->worker == NULL && !t->waiting_for_worker)
            node_task_fail(n, t, MOB_ECANCELLED, "its job has ended");
    }
    job->cancelling = false;
}

static void actors_end(node_job_t *job) {
    node_t *n = job->node;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w != NULL && w->job == job && w->actor != NULL) node_actor_orphan(n, w->actor);
    }
    node_far_job_ends(job);
}

void node_job_leave(node_job_t *job, bool driver_waits) {
    bool begins = !job->farewell.leaving;
    job->farewell.leaving = true; /* so that nothing of it is scheduled */
    if (!job->node->config.stays && !job->is_detached) job->node->closing = true;
    if (begins) {
        node_guestjob_ended(job);
        if (job->node->cluster != NULL)
            (void)node_placing_job_ended(job->node->cluster, node_guestjob_id(job));
        NODE_EACH_POOL(job, pool) node_pool_fail(pool, MOB_ECANCELLED, "its job has ended");
        tasks_cancel(job);
        node_lineage_job_ends(job);
        actors_end(job);
        node_lanes_close(job);
        node_groups_end(job);
        NODE_EACH_POOL(job, pool)
        while (pool->starting.count > 0) node_client_close(vec_pop(&pool->starting));
    }
    /* a daemon that ends with its driver takes the jobs of detached actors along */
    if (begins && job->node->closing && !job->is_detached)
        NODE_EACH_JOB(job->node, other) if (other->is_detached) node_job_leave(other, false);
    node_farewell(job, begins, driver_waits);
}

/* Nothing is left that the job could be asked for. */
static void job_end(node_job_t *job) {
    node_t *n = job->node;
    for (size_t i = n->jobs.items.count; i-- > 0;) { /* backwards: the last takes its place */
        node_job_t *other = n->jobs.items.items[i];
        if (other->maker == job) other->maker = NULL;
        if (other == job) vec_swap_remove(&n->jobs.items, i);
    }
    tasks_cancel(job); /* what was taken back from its workers */
    /* calls of other jobs' actors outlive it */
    for (uint32_t r = 0; r < n->grants.records.granted; r++)
        if (n->tasks[r] != NULL && n->tasks[r]->job == job) node_task_disown(n->tasks[r]);
    node_lanes_end(job);
    node_guestjob_freed(job);
    node_job_note(job, true);
    control_kv_drop_job(job->node->control, job->is_guest ? job->shown : job->number);
    job->node->again = true;
    job_free(job);
}

bool node_jobs_are_over(node_t *n) {
    NODE_EACH_JOB(n, job)
    if (!job->farewell.over) return false;
    return true;
}

static void job_settle(node_job_t *job) {
    if (job->farewell.over && job->clients == 0 && job->groups == 0 && !job->node->closing)
        job_end(job);
}

void node_jobs_settle(node_t *n) {
    NODE_EACH_JOB(n, job) job_settle(job);
    if (n->cluster != NULL) node_guestjobs_settle(n->cluster);
}

void node_job_unjoin(node_client_t *c) {
    node_job_t *job = c->job;
    if (job == NULL) return;
    c->job = NULL;
    job->clients--;
    if (c->pool != NULL && --c->pool->workers == 0 && c->pool->number > 0)
        node_look_again(job->node, 1); /* its environment rests from now on */
    c->pool = NULL;
    if (job->driver == c) {
        job->driver = NULL;
        /* refused, or its end: such a daemon has no other driver to be here for */
        if (!job->node->config.stays) node_end(job->node);
        if (!job->farewell.leaving) node_job_leave(job, false);
    }
    if (job->farewell.leaving) node_farewell_gone(job);
    job_settle(job);
}
