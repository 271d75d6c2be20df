/* Values that nodes pull from each other, while all goes wrong; and one value that all want at
 * once, while nothing does. */
#include <stdlib.h>

#include "sim/pull_world.h"
#include "sim/scenario.h"

enum {
    STEPS = 150,
    NODES_MAX = 8,
    SETTLE_S = 60,
    BROADCAST_CHUNKS = 60,
    BROADCAST_CHUNK_MS = 20,
    BROADCAST_HOP_MS = 25, /* three messages, of which one in ten is slow */
};

static bool chance(pull_run_t *run, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(run->world), part, whole);
}

static pull_node_t *any_node(pull_run_t *run) {
    return run->nodes.items[base_random_below(world_random(run->world), run->nodes.count)];
}

/* ---- misfortune ---- */

static void redis_trouble(pull_run_t *run) {
    redis_t *redis = cluster_redis(run->cluster);
    run->redis_ns = world_now_ns(run->world);
    switch (world_between(run->world, 0, 3)) {
    case 0:
        redis_leave(redis);
        break;
    case 1:
        if (run->is_watched) redis_fail_over(redis);
        break;
    default:
        redis_come_back(redis);
        break;
    }
}

static uint64_t capacity_by_chance(pull_run_t *run) { return world_between(run->world, 12, 80); }

static void stop(pull_node_t *node, bool is_stopped) {
    (is_stopped ? machine_stop : machine_go_on)(host_machine(node->host));
    pull_node_trouble(node);
}

static void misfortune(pull_run_t *run) {
    pull_node_t *a = any_node(run), *b = any_node(run);
    uint64_t which = world_between(run->world, 0, 23);
    if ((run->is_calm && which > 2) || (run->is_slow && chance(run, 3, 4))) return;
    switch (which) {
    case 0:
        if (chance(run, 1, 3)) pull_node_kill(a);
        break;
    case 1:
        if (run->nodes.count < NODES_MAX && chance(run, 1, 3))
            pull_node_new(run, capacity_by_chance(run));
        break;
    case 2:
        redis_trouble(run);
        break;
    case 3:
    case 4:
        if (a != b) pull_pair_cut(run, a, b, true);
        break;
    case 5:
    case 6:
    case 7:
        if (a != b) pull_pair_cut(run, a, b, false);
        break;
    case 8:
    case 9:
        stop(a, true);
        break;
    case 10:
    case 11:
        stop(a, false);
        break;
    case 12:
        if (pull_node_is_up(a))
            pull_memory_set(a->pull, world_between(run->world, 1, a->capacity) * PULL_CHUNK,
                            pull_node_clock(a));
        break;
    default:
        break;
    }
}

static void heal(pull_run_t *run) {
    redis_come_back(cluster_redis(run->cluster));
    for (size_t i = 0; i < run->nodes.count; i++) {
        pull_node_t *node = run->nodes.items[i];
        stop(node, false);
        pull_check_event(run);
        for (size_t j = 0; j < i; j++) pull_pair_cut(run, node, run->nodes.items[j], false);
    }
    for (size_t i = 0; i < run->nodes.count; i++) {
        pull_node_t *node = run->nodes.items[i];
        if (!pull_node_is_dead(node))
            pull_memory_set(node->pull, node->capacity * PULL_CHUNK, pull_node_clock(node));
        pull_check_event(run);
    }
}

/* ---- the run with all of that ---- */

static void stalls_watch(void *context, uint64_t argument) {
    pull_check_stalls(context);
    world_later(((pull_run_t *)context)->world, WORLD_S / 2, 0, stalls_watch, context, argument);
}

/* What is done here is no event of the world. So it is checked by itself: with the next event it
 * would seem to be one. */
static void work(pull_run_t *run) {
    for (int step = 0;
         step < (run->is_slow ? STEPS / 2 : STEPS) && world_failure(run->world) == NULL; step++) {
        pull_work_random(run);
        pull_check_event(run);
        if (chance(run, 1, 3)) pull_work_random(run);
        pull_check_event(run);
        misfortune(run);
        pull_check_event(run);
        uint64_t most = chance(run, 1, run->is_slow ? 10 : 30) ? 15 * WORLD_S : 60 * WORLD_MS;
        world_run(run->world, world_now_ns(run->world) + world_between(run->world, 0, most));
    }
}

/* Everything that waits for room or bytes is answered. */
static bool is_settled(const pull_run_t *run) {
    for (size_t i = 0; i < run->calls.count; i++)
        if (!pull_node_is_dead(run->calls.items[i]->node)) return false;
    for (size_t i = 0; i < run->thing_count; i++)
        if (!pull_node_is_dead(run->nodes.items[run->things[i].home]) &&
            run->things[i].state != MADE && run->things[i].state != FREED)
            return false;
    return true;
}

static void settle(pull_run_t *run) {
    heal(run);
    run->is_ending = true;
    for (size_t i = 0; i < run->thing_count; i++)
        if (run->things[i].state == UNMADE) pull_thing_make(run, &run->things[i]);
    uint64_t until = world_now_ns(run->world) + SETTLE_S * WORLD_S;
    do world_run(run->world, world_now_ns(run->world) + WORLD_S);
    while (!is_settled(run) && world_now_ns(run->world) < until &&
           world_failure(run->world) == NULL);
    /* Deaths are heard of, owners drop what they own. */
    world_run(run->world, world_now_ns(run->world) + 8 * WORLD_S);
}

static void trouble_run(pull_run_t *run, size_t hosts) {
    run->is_calm = chance(run, 1, 4);
    run->is_watched = !run->is_calm && chance(run, 1, 3);
    run->is_slow = !run->is_calm && chance(run, 1, 2);
    run->chunk_ns = world_between(run->world, WORLD_MS, 8 * WORLD_MS);
    for (size_t i = 0; i < hosts; i++) pull_node_new(run, capacity_by_chance(run));
    pull_work_init(run);
    world_check(run->world, pull_check_event, run);
    world_later(run->world, 0, 0, stalls_watch, run, 0);
    work(run);
    if (world_failure(run->world) == NULL) settle(run);
    if (world_failure(run->world) == NULL) pull_check_end(run);
}

/* ---- one to many ---- */

static void broadcast_run(pull_run_t *run, size_t hosts) {
    uint64_t receivers = hosts - 1;
    run->is_calm = true;
    run->chunk_ns = BROADCAST_CHUNK_MS * WORLD_MS;
    for (size_t i = 0; i < hosts; i++) pull_node_new(run, BROADCAST_CHUNKS);
    run->thing_count = 1;
    run->things[0] =
        (thing_t){.id = {.home = host_incarnation(run->nodes.items[0]->host), .generation = 1},
                  .chunks = BROADCAST_CHUNKS,
                  .needs = -1};
    pull_thing_make(run, &run->things[0]);
    world_run(run->world, world_now_ns(run->world) + WORLD_S);
    uint64_t began = world_now_ns(run->world);
    for (size_t i = 1; i < hosts; i++)
        pull_call_new(run->nodes.items[i], PULL_GET, &(int){0}, 1, NULL);
    uint64_t bound = (BROADCAST_CHUNKS + receivers) * BROADCAST_CHUNK_MS * 3 / 2 +
                     receivers * BROADCAST_HOP_MS + 1000;
    while (run->unanswered > 0 && world_failure(run->world) == NULL &&
           world_now_ns(run->world) < began + bound * WORLD_MS)
        world_run(run->world, world_now_ns(run->world) + 10 * WORLD_MS);
    world_tell(run->world, "%llu receivers of %d chunks: %.2f s; one copy is %.2f s",
               (unsigned long long)receivers, BROADCAST_CHUNKS,
               (double)(world_now_ns(run->world) - began) / 1e9,
               BROADCAST_CHUNKS * BROADCAST_CHUNK_MS / 1e3);
    if (run->unanswered > 0)
        world_fail(run->world, "%zu of %llu receivers have nothing after %llu ms", run->unanswered,
                   (unsigned long long)receivers, (unsigned long long)bound);
}

static void pull_run(world_t *world, size_t hosts) {
    pull_run_t *run = world_alloc(world, sizeof *run);
    run->world = world;
    run->cluster = cluster_new(world);
    redis_unreliable(cluster_redis(run->cluster));
    run->dirty = -1;
    base_map_init(&run->cut_ns, sizeof(uint64_t));
    bool is_broadcast = hosts > NODES_MAX || chance(run, 1, 50);
    if (is_broadcast)
        broadcast_run(run, hosts > 1 ? hosts : 9);
    else
        trouble_run(run, hosts > 1 ? hosts : world_between(world, 2, 6));
    for (size_t i = 0; i < run->nodes.count; i++) pull_node_free(run->nodes.items[i]);
    vec_free(&run->nodes);
    vec_free(&run->calls);
    vec_free(&run->cuts);
    base_map_fini(&run->cut_ns);
    cluster_free(run->cluster);
}

const scenario_t scenario_pull = {
    .name = "pull",
    .checks = "chunks of one version in memory that is there; no circle of readers; every want has "
              "an end",
    .run = pull_run,
};
