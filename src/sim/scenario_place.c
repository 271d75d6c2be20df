/*
 * Tasks of all shapes, submitted anywhere, some of which wait for others; cancels, ends of jobs,
 * and everything that can happen to nodes and links. Then all is mended, and everything that fits a
 * node that is left must end. Some seeds have no misfortune, and measure instead: how well a long
 * backlog spreads, whether a node that is always busy lets others in, whether short tasks get past
 * a long one, and how soon tasks end that wait for others.
 */
#include "sim/place_node.h"
#include "sim/scenario.h"

#include <stdlib.h>

enum { STEPS = 120, TASKS_BACKLOG = 1000 };

static bool chance(run_t *run, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(run->world), part, whole);
}

static node_t *any_node(run_t *run) {
    return run->nodes.items[world_between(run->world, 0, run->nodes.count - 1)];
}

static void hear_job_end(void *context, uint64_t job) { place_node_job_end(context, (int)job); }

/* One that joins is told which jobs have ended. */
static void node_random(run_t *run) {
    node_t *node = place_node_new(run, (int64_t)world_between(run->world, 1, 4), chance(run, 1, 2),
                                  chance(run, 1, 2));
    for (uint64_t job = 0; job < JOBS; job++)
        if (run->has_ended[job])
            machine_later(host_machine(node->host), world_between(run->world, 1, WORLD_S), 0,
                          hear_job_end, node, job);
}

static void submit_random(run_t *run) {
    node_t *node = any_node(run);
    int job = (int)world_between(run->world, 0, JOBS - 1);
    if (!machine_is_up(host_machine(node->host)) || node->has_ended[job]) return;
    shape_t shape = (shape_t)world_between(run->world, 0, SHAPES - 1);
    uint64_t most = chance(run, 1, 4) ? 8 : 1;
    uint64_t target = host_incarnation(any_node(run)->host);
    for (uint64_t i = 0; i < most; i++) {
        task_t *task = place_task_new(run, node, job, shape);
        if (shape == SHAPE_NODE || shape == SHAPE_SOFT || shape == SHAPE_HINT)
            task->target = target;
        task->length_ns = world_between(run->world, WORLD_MS / 10,
                                        chance(run, 1, 2) ? 5 * WORLD_MS : WORLD_S / 5);
        static const int retries[] = {0, 0, 1, 3, -1};
        task->max_retries = task->retries = retries[world_between(run->world, 0, 4)];
        task->has_child = shape != SHAPE_X && chance(run, 1, 6);
        task->child_is_here = chance(run, 1, 2);
        place_node_submit(node, task);
    }
}

static void job_end(run_t *run, int job, uint64_t most_ns) {
    run->has_ended[job] = true;
    for (size_t i = 0; i < run->nodes.count; i++)
        machine_later(host_machine(run->nodes.items[i]->host),
                      world_between(run->world, 1, most_ns), 0, hear_job_end, run->nodes.items[i],
                      (uint64_t)job);
}

static void cut_group(run_t *run) {
    for (size_t i = 0; i < run->nodes.count; i++)
        for (size_t j = 0; j < i; j++)
            if ((i ^ j) & 1) host_cut(run->nodes.items[i]->host, run->nodes.items[j]->host);
}

static void heal_all(run_t *run) {
    for (size_t i = 0; i < run->nodes.count; i++) {
        host_t *host = run->nodes.items[i]->host;
        redis_heal(cluster_redis(run->cluster), host_machine(host));
        machine_go_on(host_machine(host));
        for (size_t j = 0; j < i; j++) host_heal(host, run->nodes.items[j]->host);
    }
}

static void misfortune(run_t *run) {
    node_t *a = any_node(run), *b = any_node(run);
    redis_t *redis = cluster_redis(run->cluster);
    switch (world_between(run->world, 0, 39)) {
    case 0:
        if (a != b) host_cut(a->host, b->host);
        break;
    case 1:
        cut_group(run);
        break;
    case 2:
    case 3:
        if (a != b) host_heal(a->host, b->host);
        break;
    case 4:
        machine_stop(host_machine(a->host));
        break;
    case 5:
        machine_go_on(host_machine(a->host));
        break;
    case 6:
        if (chance(run, 1, 3)) host_kill(a->host);
        break;
    case 7:
        if (run->nodes.count < 8) node_random(run);
        break;
    case 8:
        redis_cut(redis, host_machine(a->host));
        break;
    case 9:
        redis_heal(redis, host_machine(a->host));
        break;
    case 10:
        if (chance(run, 1, 6)) job_end(run, (int)world_between(run->world, 0, 1), WORLD_S);
        break;
    case 11:
        if (chance(run, 1, 3)) heal_all(run);
        break;
    case 12:
    case 13:
    case 14:
    case 15: {
        if (run->tasks.count == 0) break;
        size_t i = run->tasks.count - 1 - world_between(run->world, 0, run->tasks.count - 1) / 4;
        place_node_cancel(run->tasks.items[i]->origin, run->tasks.items[i]);
        break;
    }
    default:
        break;
    }
}

/* ---- the checks ---- */

static bool fits_somewhere(const run_t *run, const task_t *task) {
    for (size_t i = 0; i < run->nodes.count; i++)
        if (place_node_is_alive(run->nodes.items[i]) && place_node_suits(run->nodes.items[i], task))
            return true;
    return false;
}

/* The first task that should have ended by now. */
static const task_t *unended(const run_t *run) {
    for (size_t i = 0; i < run->tasks.count; i++) {
        const task_t *task = run->tasks.items[i];
        if (!task->has_ended && place_node_is_alive(task->origin) && fits_somewhere(run, task))
            return task;
    }
    return NULL;
}

static void wait_for_all(run_t *run, uint64_t most_ns) {
    uint64_t until = world_now_ns(run->world) + most_ns;
    const task_t *task;
    while ((task = unended(run)) != NULL && world_failure(run->world) == NULL) {
        if (world_now_ns(run->world) >= until)
            world_fail(run->world,
                       "task %llu of shape %d from %llx for %llx has not ended; %s, sent %d times",
                       (unsigned long long)task->id, (int)task->shape,
                       (unsigned long long)host_incarnation(task->origin->host),
                       (unsigned long long)task->target, task->is_sent ? "is sent" : "waits",
                       task->sends);
        else
            world_run(run->world, world_now_ns(run->world) + WORLD_S / 5);
    }
}

/* The jobs end; nothing may be left of them anywhere. */
static void check_end(run_t *run) {
    for (int job = 0; job < JOBS; job++) job_end(run, job, 10 * WORLD_MS);
    world_run(run->world, world_now_ns(run->world) + 6 * WORLD_S); /* with tombstones */
    for (size_t i = 0; i < run->nodes.count; i++)
        if (place_node_is_alive(run->nodes.items[i])) place_node_lanes_free(run->nodes.items[i]);
    world_run(run->world, world_now_ns(run->world) + WORLD_S);
    for (size_t i = 0; i < run->nodes.count; i++) {
        node_t *node = run->nodes.items[i];
        place_counts_t counts;
        if (!place_node_is_alive(node)) continue;
        place_counts(node->place, &counts);
        if (counts.leases + counts.sent + counts.guests + counts.guest_leases + counts.questions >
            0)
            world_fail(run->world,
                       "left at the end: %zu leases, %zu sent, %zu guests with %zu leases, "
                       "%zu questions",
                       counts.leases, counts.sent, counts.guests, counts.guest_leases,
                       counts.questions);
        if (node->received != node->accounted)
            world_fail(run->world, "%llu frames came, %llu are accounted for",
                       (unsigned long long)node->received, (unsigned long long)node->accounted);
        if (node->free[0] != node->total[0] || node->free[1] != node->total[1])
            world_fail(run->world, "a node has not all of its resources at the end");
    }
}

static uint64_t messages(const run_t *run) {
    uint64_t sum = 0;
    for (size_t i = 0; i < run->nodes.count; i++) {
        place_counts_t counts;
        place_counts(run->nodes.items[i]->place, &counts);
        sum += counts.messages;
    }
    return sum;
}

/* ---- the runs ---- */

static void run_wild(run_t *run, size_t hosts) {
    size_t count = hosts > 0 ? hosts : world_between(run->world, 2, 5);
    for (size_t i = 0; i < count; i++) node_random(run);
    if (count > 1) run->nodes.items[0]->is_sick = chance(run, 1, 3);
    for (int step = 0; step < STEPS && world_failure(run->world) == NULL; step++) {
        if (chance(run, 1, 3)) submit_random(run);
        misfortune(run);
        world_run(run->world, world_now_ns(run->world) +
                                  world_between(run->world, 0,
                                                chance(run, 1, 20) ? 2 * WORLD_S : 20 * WORLD_MS));
    }
    heal_all(run);
    run->is_calm = true;
    for (size_t i = 0; i < run->nodes.count; i++) {
        if (!place_node_is_alive(run->nodes.items[i])) continue;
        run->nodes.items[i]->is_sick = false;
        place_free_changed(run->nodes.items[i]->place);
        place_node_settle(run->nodes.items[i]);
    }
    wait_for_all(run, 40 * WORLD_S);
}

/* A thousand tasks of one node, on four nodes. */
static void run_backlog(run_t *run, size_t hosts) {
    size_t count = hosts > 0 ? hosts : 4;
    uint64_t length_ns = world_between(run->world, 10 * WORLD_MS, 40 * WORLD_MS);
    for (size_t i = 0; i < count; i++) place_node_new(run, 4, 0, true);
    world_run(run->world, world_now_ns(run->world) + WORLD_S);
    uint64_t begun = world_now_ns(run->world), said = messages(run);
    size_t tasks = count <= 4 ? TASKS_BACKLOG : 10 * count;
    for (size_t i = 0; i < tasks; i++) {
        task_t *task = place_task_new(run, run->nodes.items[0], 0, SHAPE_ONE);
        task->length_ns = length_ns;
        place_node_submit(task->origin, task);
    }
    uint64_t ideal_ns = length_ns * tasks / (4 * count);
    while (unended(run) != NULL && world_failure(run->world) == NULL &&
           world_now_ns(run->world) < begun + 10 * ideal_ns + WORLD_S)
        world_run(run->world, world_now_ns(run->world) + 5 * WORLD_MS);
    uint64_t took_ns = world_now_ns(run->world) - begun;
    world_tell(run->world, "%zu tasks of %.1f ms: %.3f s, ideal %.3f s, %llu messages", tasks,
               (double)length_ns / 1e6, (double)took_ns / 1e9, (double)ideal_ns / 1e9,
               (unsigned long long)(messages(run) - said));
    uint64_t ways_ns =
        (count > 4 ? 5 : 2) * 100 * WORLD_MS; /* slow ones: to ask, to open, to run */
    if (took_ns > ideal_ns * 3 / 2 + ways_ns)
        world_fail(run->world, "a backlog took %.3f s instead of %.3f s", (double)took_ns / 1e9,
                   (double)ideal_ns / 1e9);
}

/* The only node with an X is always busy with tasks of its own; another job wants the X. */
static void run_busy(run_t *run) {
    node_t *busy = place_node_new(run, 2, 1, true), *other = place_node_new(run, 1, 0, true);
    world_run(run->world, world_now_ns(run->world) + WORLD_S / 2);
    task_t *guest = NULL;
    for (int step = 0; step < 400 && world_failure(run->world) == NULL; step++) {
        for (int i = 0; i < 4; i++) {
            task_t *task = place_task_new(run, busy, 0, SHAPE_NODE);
            task->target = host_incarnation(busy->host);
            task->length_ns = 10 * WORLD_MS;
            place_node_submit(busy, task);
        }
        if (step == 20) {
            guest = place_task_new(run, other, 1, SHAPE_X);
            guest->length_ns = WORLD_MS;
            place_node_submit(other, guest);
        }
        if (guest != NULL && guest->has_ended) break;
        world_run(run->world, world_now_ns(run->world) + 10 * WORLD_MS);
    }
    if (guest != NULL && !guest->has_ended)
        world_fail(run->world, "a task waited for 4 s for a node that is busy with its own");
    wait_for_all(run, 60 * WORLD_S);
}

static task_t *submit_one(run_t *run, node_t *node, shape_t shape, uint64_t length_ns) {
    task_t *task = place_task_new(run, node, 0, shape);
    task->length_ns = length_ns;
    place_node_submit(node, task);
    return task;
}

/* The node with the most X's refuses all, for a reason that its sums do not show. */
static void run_sick(run_t *run) {
    node_t *sick = place_node_new(run, 4, 4, true);
    place_node_new(run, 1, 1, true);
    node_t *origin = place_node_new(run, 1, 0, true);
    sick->is_sick = true;
    world_run(run->world, world_now_ns(run->world) + WORLD_S / 2);
    submit_one(run, origin, SHAPE_X, WORLD_MS);
    wait_for_all(run, 5 * WORLD_S);
}

/* All X's are taken for a long time; one more task wants one. It may not travel all the time. */
static void run_full(run_t *run) {
    node_t *a = place_node_new(run, 2, 1, true), *b = place_node_new(run, 2, 1, true);
    node_t *origin = place_node_new(run, 1, 0, true);
    world_run(run->world, world_now_ns(run->world) + WORLD_S / 2);
    submit_one(run, a, SHAPE_X, 20 * WORLD_S);
    submit_one(run, b, SHAPE_X, 20 * WORLD_S);
    submit_one(run, origin, SHAPE_X, WORLD_MS);
    for (int i = 0; i < 200; i++) { /* what is free there changes all the time */
        submit_one(run, i % 2 == 0 ? a : b, SHAPE_ONE, WORLD_MS);
        world_run(run->world, world_now_ns(run->world) + WORLD_S / 10);
    }
    wait_for_all(run, 60 * WORLD_S);
}

/* Many short ones, then a long one with short ones behind it, and another node that could run
 * these. */
static void run_mixed(run_t *run) {
    node_t *origin = place_node_new(run, 1, 0, true);
    place_node_new(run, 1, 4, true);
    world_run(run->world, world_now_ns(run->world) + WORLD_S / 2);
    for (int i = 0; i < 100; i++) submit_one(run, origin, SHAPE_X, WORLD_MS / 10);
    wait_for_all(run, 10 * WORLD_S);
    task_t *slow = submit_one(run, origin, SHAPE_X, 30 * WORLD_S), *last = NULL;
    for (int i = 0; i < 100; i++) last = submit_one(run, origin, SHAPE_X, WORLD_MS / 10);
    place_node_new(run, 1, 4, true);
    world_run(run->world, world_now_ns(run->world) + 10 * WORLD_S);
    for (task_t **t = run->tasks.items; *t != last; t++)
        if (*t != slow && !(*t)->has_ended) {
            world_fail(run->world, "a short task waited for 10 s behind a long one, sent %d times",
                       (*t)->sends);
            break;
        }
    wait_for_all(run, 60 * WORLD_S);
}

/* Tasks that wait for tasks of their origin's, which only the same node can run. */
static void run_nested(run_t *run) {
    node_t *origin = place_node_new(run, 1, 0, true);
    place_node_new(run, 1, 500, true);
    world_run(run->world, world_now_ns(run->world) + WORLD_S / 2);
    uint64_t begun = world_now_ns(run->world);
    for (int i = 0; i < 200; i++) {
        task_t *task = place_task_new(run, origin, 0, SHAPE_X);
        task->length_ns = WORLD_MS / 10;
        task->has_child = true;
        place_node_submit(origin, task);
    }
    wait_for_all(run, 60 * WORLD_S);
    double took_s = (double)(world_now_ns(run->world) - begun) / 1e9;
    world_tell(run->world, "it took %.3f s", took_s);
    if (took_s > 7.5) /* links that are slow make it 7 at times */
        world_fail(run->world, "200 tasks that wait for one each took %.3f s", took_s);
}

static void place_run(world_t *world, size_t hosts) {
    run_t *run = world_alloc(world, sizeof *run);
    run->world = world;
    run->cluster = cluster_new(world);
    for (int job = 0; job < JOBS; job++) run->jobs[job] = (frame_job_t){7, (uint32_t)job + 1};
    uint64_t kind = world_between(world, 0, 63);
    run->is_calm = kind < 7 || hosts > 64;
    if (hosts > 64 || kind == 0)
        run_backlog(run, hosts);
    else if (kind == 1)
        run_busy(run);
    else if (kind == 2)
        run_sick(run);
    else if (kind == 3)
        run_full(run);
    else if (kind == 4)
        run_mixed(run);
    else if (kind == 5)
        run_nested(run);
    else
        run_wild(run, hosts);
    if (world_failure(world) == NULL) check_end(run);
    for (size_t i = 0; i < run->nodes.count; i++) place_node_free(run->nodes.items[i]);
    vec_free(&run->nodes);
    vec_free(&run->tasks);
    cluster_free(run->cluster);
}

const scenario_t scenario_place = {
    .name = "place",
    .checks = "tasks run where they fit, not too often, not after their end; nothing is left over",
    .run = place_run,
};
