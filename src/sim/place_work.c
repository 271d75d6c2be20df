/*
 * The scheduler: of what waits and fits, the job goes first that holds the fewest CPUs, then what
 * came first. A worker takes a task at once; the room hears of it a little later. A frame is the
 * task's number, and so is its value.
 */
#include "sim/place_node.h"

#include <stdlib.h>
#include <string.h>

uint64_t place_node_now_ns(const node_t *node) {
    return machine_clock_ns(host_machine(node->host));
}
bool place_node_is_alive(const node_t *node) { return !machine_is_dead(host_machine(node->host)); }

static void later(node_t *node, uint64_t most_ns, world_fn fn, void *context, uint64_t argument) {
    machine_later(host_machine(node->host), world_between(node->run->world, 1, most_ns), 0, fn,
                  context, argument);
}

/* ---- tasks ---- */

task_t *place_task_new(run_t *run, node_t *origin, int job, shape_t shape) {
    task_t *task = world_alloc(run->world, sizeof *task);
    *task = (task_t){.run = run,
                     .id = run->tasks.count + 1,
                     .origin = origin,
                     .job = job,
                     .shape = shape,
                     .submitted_ns = world_now_ns(run->world)};
    if (!vec_push(&run->tasks, task)) abort();
    return task;
}

int64_t place_need_of(const task_t *task, int resource) {
    if (resource == 0) return task->shape == SHAPE_TWO ? 2 : 1;
    return task->shape == SHAPE_X;
}

bool place_node_suits(const node_t *node, const task_t *task) {
    if (task->shape == SHAPE_NODE && host_incarnation(node->host) != task->target) return false;
    if (task->shape == SHAPE_ZONE && !node->is_zone_a) return false;
    return node->total[0] >= place_need_of(task, 0) && node->total[1] >= place_need_of(task, 1);
}

/* As seen by its origin. */
void place_task_end(task_t *task, place_outcome_t outcome) {
    run_t *run = task->run;
    node_t *origin = task->origin;
    if (task->has_ended)
        world_fail(run->world, "task %llu ended twice", (unsigned long long)task->id);
    if (outcome == PLACE_LOST && task->retries != 0)
        world_fail(run->world, "task %llu was lost, with retries left",
                   (unsigned long long)task->id);
    task->has_ended = true;
    task->is_sent = false;
    task->outcome = outcome;
    task->ended_with_job = origin->has_ended[task->job];
    origin->records.items[task->record] = NULL;
    world_tell(run->world, "task %llu ends: %d", (unsigned long long)task->id, outcome);
}

static void check_begin(const node_t *node, task_t *task) {
    run_t *run = task->run;
    unsigned long long id = task->id;
    task->begun++;
    if (task->begun_ns == 0) task->begun_ns = world_now_ns(run->world);
    if (task->max_retries >= 0 && task->begun > 1 + task->max_retries)
        world_fail(run->world, "task %llu with %d retries was begun %d times", id,
                   task->max_retries, task->begun);
    if (node->has_ended[task->job])
        world_fail(run->world, "task %llu was begun after its job's end was heard of", id);
    if (task->is_cancelled && node == task->origin)
        world_fail(run->world, "task %llu was begun at its origin after it was cancelled", id);
    bool is_known_dead = host_knows_dead(task->origin->host, host_incarnation(node->host));
    if (task->has_ended && !task->ended_with_job && place_node_is_alive(task->origin) &&
        (task->max_retries == 0 || !is_known_dead))
        world_fail(run->world, "task %llu with %d retries was begun after it had ended: %d", id,
                   task->max_retries, task->outcome);
}

/* ---- works ---- */

/* Whether it is one that the room may send away. */
bool place_is_of(const lane_t *lane, const work_t *work) {
    return work->lane == lane && !work->is_running && work->may_start == lane->is_local;
}

work_t *place_work_new(node_t *node, task_t *task, bool may_start) {
    work_t *work = world_alloc(node->run->world, sizeof *work);
    *work = (work_t){.node = node, .task = task, .may_start = may_start};
    if (!vec_push(&node->works, work)) abort();
    return work;
}

/* Out of the node's list. Events may still name it. */
void place_work_remove(work_t *work) {
    node_t *node = work->node;
    size_t i = 0;
    while (node->works.items[i] != work) i++;
    node->works.count--;
    memmove(&node->works.items[i], &node->works.items[i + 1],
            (node->works.count - i) * sizeof work);
    work->is_over = true;
}

static void work_take(work_t *work, int64_t sign, bool has_cpu, bool has_rest) {
    node_t *node = work->node;
    if (has_cpu) node->free[0] -= sign * place_need_of(work->task, 0);
    if (has_cpu) node->job_cpus[work->task->job] += sign * place_need_of(work->task, 0);
    if (has_rest) node->free[1] -= sign * place_need_of(work->task, 1);
    if (node->free[1] < 0 || node->free[0] > node->total[0] || node->free[1] > node->total[1])
        world_fail(node->run->world, "a node's resources are not as they can be");
    place_free_changed(node->place);
}

/* The origin's own run has ended: again, if its worker died and it may. */
static void own_done(node_t *node, task_t *task, place_outcome_t outcome) {
    if (outcome != PLACE_CRASHED || task->retries == 0 || task->is_cancelled ||
        node->has_ended[task->job]) {
        place_task_end(task,
                       outcome == PLACE_CRASHED && task->is_cancelled ? PLACE_CANCELLED : outcome);
        return;
    }
    if (task->retries > 0) task->retries--;
    place_own_new(node, task, true);
}

static void work_end(void *context, uint64_t argument) {
    work_t *work = context;
    node_t *node = work->node;
    if (work->is_over || (argument == 0 && work->is_blocked)) return;
    place_outcome_t outcome = argument == 0 ? work->outcome : PLACE_CANCELLED;
    work_take(work, -1, !work->is_blocked, true);
    place_work_remove(work);
    node->accounted += work->is_guest;
    if (work->guest != NULL)
        place_guest_done(node->place, work->guest, outcome, &work->task->id, sizeof work->task->id,
                         place_node_now_ns(node));
    else if (!work->is_guest)
        own_done(node, work->task, outcome);
    place_node_settle(node);
}

void place_work_stop(work_t *work) { later(work->node, 2 * WORLD_MS, work_end, work, 1); }

static void work_look(void *context, uint64_t argument) {
    (void)argument;
    work_t *work = context;
    node_t *node = work->node;
    const task_t *child = work->task->child;
    if (work->is_over) return;
    if (!child->has_ended && place_node_is_alive(child->origin) && !node->has_ended[child->job]) {
        later(node, 20 * WORLD_MS, work_look, work, 0);
        return;
    }
    work->is_blocked = false;
    work_take(work, 1, true, false);
    if (work->guest != NULL) place_guest_unblock(node->place, work->guest, place_node_now_ns(node));
    later(node, work->task->length_ns, work_end, work, 0);
    place_node_settle(node);
}

static void child_submit(void *context, uint64_t argument) {
    (void)argument;
    task_t *child = context;
    place_node_submit(child->origin, child);
}

/* It waits for a task that is submitted only now: at its own node, or at its origin. */
static void work_block(void *context, uint64_t argument) {
    (void)argument;
    work_t *work = context;
    task_t *task = work->task;
    node_t *node = work->node, *at = task->child_is_here ? node : task->origin;
    if (work->is_over) return;
    if (task->child == NULL) {
        task->child = place_task_new(task->run, at, task->job, task->shape);
        task->child->target = task->target;
        task->child->length_ns = task->length_ns;
        task->child->max_retries = task->child->retries = 3;
        later(at, 2 * WORLD_MS, child_submit, task->child, 0);
    }
    work->is_blocked = true;
    work_take(work, -1, true, false);
    if (work->guest != NULL) place_guest_block(node->place, work->guest, place_node_now_ns(node));
    later(node, 20 * WORLD_MS, work_look, work, 0);
    place_node_settle(node);
}

static void work_tell_begun(void *context, uint64_t argument) {
    (void)argument;
    work_t *work = context;
    if (work->is_over || work->guest == NULL) return;
    place_guest_begun(work->node->place, work->guest, place_node_now_ns(work->node));
    place_node_settle(work->node);
}

static void work_start(work_t *work) {
    node_t *node = work->node;
    task_t *task = work->task;
    run_t *run = node->run;
    world_tell(run->world, "task %llu begins at %llx", (unsigned long long)task->id,
               (unsigned long long)host_incarnation(node->host));
    check_begin(node, task);
    work->is_running = true;
    work_take(work, 1, true, true);
    bool crashes = !run->is_calm && base_random_chance(world_random(run->world), 1, 10);
    work->outcome = crashes ? PLACE_CRASHED : PLACE_OK;
    if (work->is_guest) later(node, WORLD_MS, work_tell_begun, work, 0);
    if (task->has_child)
        later(node, WORLD_MS, work_block, work, 0);
    else
        machine_later(host_machine(node->host), task->length_ns, 0, work_end, work, 0);
}

static bool can_start(const node_t *node, const work_t *work) {
    return work->may_start && !work->is_running && node->free[0] >= place_need_of(work->task, 0) &&
           node->free[1] >= place_need_of(work->task, 1) &&
           !(node->is_paused && !work->is_guest && work->task->retries == 0);
}

bool place_schedule_one(node_t *node) {
    work_t *best = NULL;
    if (node->free[0] <= 0) return false;
    for (size_t i = 0; i < node->works.count; i++) {
        work_t *work = node->works.items[i];
        if (can_start(node, work) &&
            (best == NULL || node->job_cpus[work->task->job] < node->job_cpus[best->task->job]))
            best = work;
    }
    if (best != NULL) work_start(best);
    return best != NULL;
}
