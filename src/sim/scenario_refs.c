/*
 * References across nodes. Processes of all nodes make objects, give references to each other in
 * frames, along chains and inside of values, keep functions loaded, and drop everything again,
 * while links are cut and nodes stop, die, lose Redis, and join. refs_node has the nodes, and the
 * checks of every step; here is what happens to them, and how they must end.
 */
#include <stdlib.h>

#include "sim/refs_node.h"
#include "sim/scenario.h"

enum { STEPS = 160, WATCHED_MAX = 64 };

/* ---- work ---- */

static uint32_t hand_any(refs_node_t *node) {
    return node->hands.items[world_between(node->run->world, 0, node->hands.count - 1)];
}

static void make(refs_node_t *node) {
    refs_run_t *run = node->run;
    refs_object_t o = {.home = node->index, .is_function = refs_run_chance(run, 1, 4)};
    o.id = (frame_id_t){host_incarnation(node->host), (uint32_t)run->objects.count, 7};
    for (size_t i = 0; i < REFS_CONTENTS_MAX && node->hands.count > 0 && refs_run_chance(run, 1, 2);
         i++) {
        o.contents[o.count] = hand_any(node);
        refs_node_hold(node, o.contents[o.count++]);
    }
    if (!vec_push(&run->objects, o)) abort();
    refs_node_take(node, o.id.number);
}

static void give(refs_node_t *node) {
    refs_run_t *run = node->run;
    refs_flight_t flight = {.kind = REFS_GIVE, .to = refs_run_node_any(run)->index, .count = 1};
    while (flight.count < REFS_GIVEN_MAX && refs_run_chance(run, 1, 4)) flight.count++;
    for (size_t i = 0; i < flight.count; i++) flight.objects[i] = hand_any(node);
    while (refs_run_chance(run, 2, 3)) flight.hops++;
    refs_node_send(node, &flight);
    if (refs_run_chance(run, 1, 2))
        refs_node_drop(node, world_between(run->world, 0, node->hands.count - 1));
}

static void work(refs_run_t *run) {
    refs_node_t *node = refs_run_node_any(run);
    if (!machine_is_up(host_machine(node->host))) return;
    uint64_t what = world_between(run->world, 0, 9);
    if (node->hands.count == 0 || what < 2)
        make(node);
    else if (what < 6)
        give(node);
    else if (what < 7)
        refs_node_pull(node, hand_any(node));
    else
        refs_node_drop(node, world_between(run->world, 0, node->hands.count - 1));
    refs_node_turn(node);
}

/* ---- misfortune ---- */

static void isolate(refs_run_t *run, host_t *host) {
    for (size_t i = 0; i < run->nodes.count; i++)
        if (run->nodes.items[i]->host != host && refs_run_chance(run, 1, 2))
            host_cut(host, run->nodes.items[i]->host);
}

static void heal_all(refs_run_t *run, host_t *host) {
    for (size_t i = 0; i < run->nodes.count; i++)
        if (run->nodes.items[i]->host != host) host_heal(host, run->nodes.items[i]->host);
}

static void die(void *context, uint64_t argument) {
    (void)argument;
    host_kill(context);
}

/* A node does not hear half of the others, who give each other what they have, and of whom some die
 * at once, one after the other. */
static void disaster(refs_run_t *run, host_t *host) {
    isolate(run, host);
    for (size_t i = 0; i < run->nodes.count; i++) {
        refs_node_t *node = run->nodes.items[i];
        if (node->hands.count > 0 && machine_is_up(host_machine(node->host))) give(node);
    }
    for (uint64_t i = world_between(run->world, 1, 3); i > 0; i--)
        world_later(run->world, world_between(run->world, 0, 10 * WORLD_MS), 0, die,
                    refs_run_node_any(run)->host, 0);
}

static void misfortune(refs_run_t *run) {
    host_t *a = refs_run_node_any(run)->host, *b = refs_run_node_any(run)->host;
    switch (world_between(run->world, 0, 29)) {
    case 0:
    case 1:
        if (a != b) host_cut(a, b);
        break;
    case 2:
        if (a != b) host_heal(a, b);
        break;
    case 3:
        isolate(run, a);
        break;
    case 4:
        heal_all(run, a);
        break;
    case 5:
        machine_stop(host_machine(a));
        break;
    case 6:
    case 7:
        machine_go_on(host_machine(a));
        break;
    case 8:
        if (refs_run_chance(run, 1, 2)) host_kill(a);
        break;
    case 9:
        redis_cut(cluster_redis(run->cluster), host_machine(a));
        break;
    case 10:
        redis_heal(cluster_redis(run->cluster), host_machine(a));
        break;
    case 11:
        if (refs_run_chance(run, 1, 4)) refs_node_add(run);
        break;
    case 12:
        if (refs_run_chance(run, 1, 4)) disaster(run, a);
        break;
    default:
        break;
    }
}

/* ---- the end ---- */

static void all_heal(refs_run_t *run) {
    for (size_t i = 0; i < run->nodes.count; i++) {
        host_t *host = run->nodes.items[i]->host;
        machine_go_on(host_machine(host));
        redis_heal(cluster_redis(run->cluster), host_machine(host));
        for (size_t j = 0; j < i; j++) host_heal(host, run->nodes.items[j]->host);
    }
}

static void all_drop(refs_run_t *run) {
    run->is_ending = true;
    for (size_t i = 0; i < run->nodes.count; i++) {
        refs_node_t *node = run->nodes.items[i];
        if (machine_is_dead(host_machine(node->host))) continue;
        while (node->hands.count > 0) refs_node_drop(node, node->hands.count - 1);
        refs_node_turn(node);
    }
}

static void node_check(refs_run_t *run, const refs_node_t *node, uint64_t tombstones) {
    refs_counts_t left = refs_count(node->refs);
    if (left.own + left.holders + left.away + left.sent + left.came + left.dead > 0)
        world_fail(
            run->world,
            "node %zu has left: %zu own, %zu holders, %zu away, %zu sent, %zu came, %zu dead",
            node->index, left.own, left.holders, left.away, left.sent, left.came, left.dead);
    if (node->waits > 0)
        world_fail(run->world, "node %zu: %zu frames were never kept", node->index, node->waits);
    if (node->closed != tombstones)
        world_fail(run->world, "node %zu has closed %llu tombstones of %llu", node->index,
                   (unsigned long long)node->closed, (unsigned long long)tombstones);
}

static void end_check(refs_run_t *run) {
    uint64_t tombstones = 0;
    for (size_t i = 0; i < run->nodes.count; i++)
        tombstones += host_is_buried(run->nodes.items[i]->host);
    for (size_t i = 0; i < run->nodes.count; i++)
        if (refs_node_is_live(run->nodes.items[i]))
            node_check(run, run->nodes.items[i], tombstones);
    for (uint32_t i = 0; i < run->objects.count; i++)
        if (refs_node_is_live(run->nodes.items[run->objects.items[i].home]) &&
            !run->objects.items[i].is_freed)
            world_fail(run->world, "object %u of node %zu was never freed", i,
                       run->objects.items[i].home);
}

static void refs_run(world_t *world, size_t hosts) {
    refs_run_t *run = world_alloc(world, sizeof *run);
    run->world = world;
    run->cluster = cluster_new(world);
    refs_link_init(&run->flights);
    size_t count = hosts > 0 ? hosts : world_between(world, 2, 6);
    run->is_watched = count <= WATCHED_MAX;
    run->objects_max = run->is_watched ? STEPS : 4 * count; /* one a step, at the most */
    for (size_t i = 0; i < count; i++) refs_node_add(run);
    for (size_t step = 0; step < run->objects_max && world_failure(world) == NULL; step++) {
        work(run);
        misfortune(run);
        uint64_t longest = refs_run_chance(run, 1, 20) ? 3 * WORLD_S : 20 * WORLD_MS;
        world_run(world, world_now_ns(world) + world_between(world, 0, longest));
    }
    all_heal(run);
    world_run(world, world_now_ns(world) + 10 * WORLD_S);
    all_drop(run);
    if (world_run(world, world_now_ns(world) + 10 * WORLD_S)) end_check(run);
    for (size_t i = 0; i < run->nodes.count; i++) {
        refs_node_fini(run->nodes.items[i]);
    }
    vec_free(&run->nodes);
    vec_free(&run->objects);
    cluster_free(run->cluster);
}

const scenario_t scenario_refs = {
    .name = "refs",
    .checks = "nothing is freed that is held or on its way, and in the end everything is",
    .run = refs_run,
};
