/*
 * Actors of all kinds on a few hosts, called from everywhere, while hosts, links, processes and the
 * control state fail. Then everything is healed; calls must be answered. Then every handle is
 * closed and every detached actor killed; nothing may be left.
 */
#include "sim/actor_model.h"
#include "sim/scenario.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 120, CALLS_MOST = 400, MANY = 100 };

static uint64_t between(model_t *m, uint64_t least, uint64_t most) {
    return world_between(m->world, least, most);
}

static bool chance(model_t *m, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(m->world), part, whole);
}

/* ---- the model ---- */

model_t *model_new(world_t *world) {
    model_t *m = world_alloc(world, sizeof *m);
    m->world = world;
    m->cluster = cluster_new(world);
    redis_unreliable(cluster_redis(m->cluster));
    base_map_init(&m->running, 2 * sizeof(uint64_t));
    base_map_init(&m->order, 4 * sizeof(uint64_t));
    base_map_init(&m->made, 2 * sizeof(uint64_t));
    base_map_init(&m->by_host, sizeof(uint64_t));
    base_map_init(&m->finds, sizeof(uint64_t));
    return m;
}

void model_free(model_t *m) {
    for (size_t i = 0; i < m->nodes.count; i++) {
        actor_free(m->nodes.items[i]->room);
        base_map_fini(&m->nodes.items[i]->silent);
    }
    for (size_t i = 0; i < m->actors.count; i++) vec_free(&m->actors.items[i]->handles);
    base_map_t *maps[] = {&m->running, &m->order, &m->made, &m->by_host, &m->finds};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) base_map_fini(maps[i]);
    vec_free(&m->nodes);
    vec_free(&m->actors);
    vec_free(&m->calls);
    vec_free(&m->processes);
    cluster_free(m->cluster);
}

static void tick(void *context, uint64_t argument) {
    (void)argument;
    node_t *node = context;
    machine_t *machine = host_machine(node->host);
    actor_tick(node->room, machine_clock_ns(machine) / WORLD_MS);
    machine_later(machine, ACTOR_TICK_MS * WORLD_MS, 0, tick, node, 0);
}

node_t *model_join(model_t *m) {
    node_t *node = world_alloc(m->world, sizeof *node);
    node->model = m;
    node->index = m->nodes.count;
    node->host = host_new(m->cluster);
    base_map_init(&node->silent, sizeof(uint64_t));
    uint64_t self = host_incarnation(node->host), master = redis_master(cluster_redis(m->cluster));
    uint64_t now_ms = machine_clock_ns(host_machine(node->host)) / WORLD_MS;
    if (actor_new(&node_ops, node, self, master, now_ms, &node->room) != MOB_OK) abort();
    if (!vec_push(&m->nodes, node) || !base_map_put(&m->by_host, &self, node)) abort();
    for (size_t i = 0; i < m->actors.count; i++)
        if (!vec_push(&m->actors.items[i]->handles, HANDLE_NONE)) abort();
    host_room(node->host, HOST_ACTOR, &node_room_ops, node);
    machine_later(host_machine(node->host), between(m, 0, ACTOR_TICK_MS * WORLD_MS), 0, tick, node,
                  0);
    return node;
}

static node_t *some_node(model_t *m) { return m->nodes.items[between(m, 0, m->nodes.count - 1)]; }

/* ---- work ---- */

static void handle_open(node_t *node, size_t actor) {
    model_actor_t *a = node->model->actors.items[actor];
    if (a->handles.items[node->index] == HANDLE_OPEN) return;
    a->handles.items[node->index] = HANDLE_OPEN;
    if (actor_handle_open(node->room, a->id, a->flags) != MOB_OK) abort();
}

static void handle_close(node_t *node, size_t actor) {
    model_actor_t *a = node->model->actors.items[actor];
    if (a->handles.items[node->index] != HANDLE_OPEN) return;
    a->handles.items[node->index] = HANDLE_CLOSED;
    actor_handle_close(node->room, a->id);
}

void model_create(node_t *node, int name) {
    model_t *m = node->model;
    model_actor_t *a = world_alloc(m->world, sizeof *a);
    uint32_t actor = (uint32_t)m->actors.count;
    *a = (model_actor_t){.id = {host_incarnation(node->host), actor, 1},
                         .home = node,
                         .name = name,
                         .asked_ns = world_now_ns(m->world)};
    a->max_restarts = chance(m, 1, 2) ? (int32_t)between(m, 0, 3) - 1 : 0;
    if (a->name >= 0) a->flags |= ACTOR_NAMED;
    if (chance(m, 1, 2)) a->flags |= ACTOR_DETACHED;
    if (!vec_push(&m->actors, a)) abort();
    for (size_t i = 0; i < m->nodes.count; i++)
        if (!vec_push(&a->handles, HANDLE_NONE)) abort();
    actor_spec_t spec = {.flags = a->flags,
                         .max_restarts = a->max_restarts,
                         .limit = (uint32_t)between(m, 1, 3),
                         .bytes = &actor,
                         .size = sizeof actor};
    if (a->name >= 0) model_name(a->name, spec.name);
    if (actor_create(node->room, a->id, &spec) != MOB_OK) abort();
    world_tell(m->world, "node %zu wants actor %u, flags %d, name %d", node->index, actor, a->flags,
               a->name);
    handle_open(node, actor);
}

/* An actor of which this node has a handle, or SIZE_MAX. */
static size_t held_actor(node_t *node) {
    model_t *m = node->model;
    for (int i = 0; i < 4 && m->actors.count > 0; i++) {
        size_t actor = between(m, 0, m->actors.count - 1);
        if (m->actors.items[actor]->handles.items[node->index] == HANDLE_OPEN) return actor;
    }
    return SIZE_MAX;
}

static size_t call_one(node_t *node, size_t actor, uint64_t caller) {
    model_t *m = node->model;
    uint32_t call = (uint32_t)m->calls.count;
    model_call_t c = {.actor = actor,
                      .node = node->index,
                      .caller = caller,
                      .sequence = ++m->numbers,
                      .retries = chance(m, 1, 3) ? (int32_t)between(m, 0, 3) - 1 : 0,
                      .needs = -1};
    if (!vec_push(&m->calls, c)) abort();
    if (actor_call(node->room, m->actors.items[actor]->id, caller, call, c.retries, &call,
                   sizeof call) != MOB_OK)
        abort();
    return call;
}

void model_call(node_t *node) {
    model_t *m = node->model;
    size_t actor = held_actor(node);
    if (actor == SIZE_MAX || m->calls.count > CALLS_MOST) return;
    uint64_t count = between(m, 1, 4);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t caller = between(m, 0, MODEL_CALLERS - 1);
        size_t call = call_one(node, actor, caller);
        if (!chance(m, 1, 8)) continue;
        m->calls.items[call].needs = (int64_t)m->calls.count; /* another caller's, made after it */
        call_one(node, actor, (caller + 1) % MODEL_CALLERS);
    }
}

/* One of the last calls, if it is this node's. */
void model_cancel(node_t *node) {
    model_t *m = node->model;
    size_t count = m->calls.count, back = between(m, 1, 8);
    model_call_t *c = count >= back ? &m->calls.items[count - back] : NULL;
    if (c == NULL || c->node != node->index || c->is_answered) return;
    world_tell(m->world, "call %zu is cancelled", count - back);
    c->cancelled_ns = world_now_ns(m->world);
    actor_cancel(node->room, count - back, chance(m, 1, 2));
}

static void tell_unwanted(void *context, uint64_t actor) {
    node_t *node = context;
    actor_unwanted(node->room, node->model->actors.items[actor]->id);
}

void model_handles_look(model_t *m, size_t actor) {
    model_actor_t *a = m->actors.items[actor];
    for (size_t i = 0; i < m->nodes.count; i++)
        if (a->handles.items[i] != HANDLE_NONE && !host_is_buried(m->nodes.items[i]->host)) return;
    a->is_unwanted = true;
    if ((a->flags & ACTOR_DETACHED) != 0) return;
    a->is_doomed = true;
    machine_later(host_machine(a->home->host), between(m, WORLD_MS, 10 * WORLD_MS), 0,
                  tell_unwanted, a->home, actor);
}

/* A handle goes to this node, or one here is closed. */
void model_handle(node_t *node) {
    model_t *m = node->model;
    if (m->actors.count == 0) return;
    size_t actor = between(m, 0, m->actors.count - 1);
    model_actor_t *a = m->actors.items[actor];
    if (a->handles.items[node->index] == HANDLE_NONE && !a->is_unwanted)
        handle_open(node, actor);
    else if (a->handles.items[node->index] == HANDLE_OPEN && chance(m, 1, 6))
        handle_close(node, actor);
}

void model_kill(node_t *node) {
    size_t actor = held_actor(node);
    if (actor == SIZE_MAX) return;
    model_actor_t *a = node->model->actors.items[actor];
    bool no_restart = chance(node->model, 1, 2);
    world_tell(node->model->world, "node %zu kills actor %zu%s", node->index, actor,
               no_restart ? " for good" : "");
    a->is_doomed = true;
    if (actor_kill(node->room, a->id, a->flags, no_restart) != MOB_OK) abort();
    if (no_restart && a->ended_ns == 0) a->killer = node;
}

static void crash(void *context, uint64_t end) {
    process_t *p = context;
    if (p->state == PROCESS_GONE) return;
    model_actor_t *a = p->node->model->actors.items[p->actor];
    p->state = PROCESS_GONE;
    if (a->max_restarts >= 0 || end == ACTOR_LEFT) a->is_doomed = true;
    world_tell(p->node->model->world, "epoch %llu of actor %zu crashes at node %zu",
               (unsigned long long)p->epoch, p->actor, p->node->index);
    actor_process_ended(p->node->room, a->id, p->epoch, (actor_end_t)end);
}

void model_crash(model_t *m) {
    if (m->processes.count == 0) return;
    process_t *p = m->processes.items[between(m, 0, m->processes.count - 1)];
    machine_later(host_machine(p->node->host), 0, 0, crash, p,
                  chance(m, 1, 8) ? ACTOR_LEFT : ACTOR_CRASHED);
}

static void create_any(node_t *node) {
    model_t *m = node->model;
    model_create(node, chance(m, 1, 2) ? (int)between(m, 0, MODEL_NAMES - 1) : -1);
}

static void work(model_t *m) {
    node_t *node = some_node(m);
    if (!node_is_up(node)) return;
    switch (between(m, 0, 15)) {
    case 0:
    case 1:
        create_any(node);
        break;
    case 2:
    case 3:
        model_handle(node);
        break;
    case 4:
        model_find(node);
        break;
    case 5:
        if (chance(m, 1, 3)) model_kill(node);
        break;
    case 6:
        model_crash(m);
        break;
    case 7:
        model_cancel(node);
        break;
    default:
        model_call(node);
        if (chance(m, 1, 4)) model_cancel(node);
        break;
    }
}

/* ---- misfortune ---- */

static void kill_node(model_t *m, node_t *node) {
    size_t up = 0;
    for (size_t i = 0; i < m->nodes.count; i++) up += node_is_up(m->nodes.items[i]);
    if (up < 2) return;
    world_tell(m->world, "node %zu is killed", node->index);
    model_doom(m, node);
    host_kill(node->host);
}

static void stop_node(model_t *m, node_t *node) {
    world_tell(m->world, "node %zu is stopped", node->index);
    model_doom(m, node); /* it may be buried */
    machine_stop(host_machine(node->host));
}

static void risk_look(model_t *m, node_t *node) {
    node->is_at_risk = !node_is_up(node) || host_is_buried(node->host) ||
                       !redis_is_heard(cluster_redis(m->cluster), host_machine(node->host));
}

static void hear_again(void *context, uint64_t argument) {
    (void)argument;
    node_t *node = context;
    redis_heal(cluster_redis(node->model->cluster), host_machine(node->host));
    risk_look(node->model, node);
}

void model_deafen(node_t *node) {
    model_t *m = node->model;
    model_doom(m, node);
    redis_cut(cluster_redis(m->cluster), host_machine(node->host));
    world_later(m->world, between(m, 0, 7 * WORLD_S), 0, hear_again, node, 0);
}

static void wake_node(model_t *m, node_t *node) {
    if (node_is_up(node)) return;
    world_tell(m->world, "node %zu goes on", node->index);
    node->woken_ns = world_now_ns(m->world);
    machine_go_on(host_machine(node->host));
    risk_look(m, node);
}

static void split(model_t *m) {
    size_t at = between(m, 1, m->nodes.count);
    for (size_t i = 0; i < at; i++)
        for (size_t j = at; j < m->nodes.count; j++)
            host_cut(m->nodes.items[i]->host, m->nodes.items[j]->host);
}

static void heal_links(model_t *m) {
    for (size_t i = 0; i < m->nodes.count; i++)
        for (size_t j = 0; j < i; j++) host_heal(m->nodes.items[i]->host, m->nodes.items[j]->host);
}

void model_fail_over(model_t *m, node_t *node) {
    world_tell(m->world, "the control state fails over");
    redis_fail_over(cluster_redis(m->cluster));
    if (chance(m, 1, 3)) kill_node(m, chance(m, 1, 2) ? node : some_node(m));
}

static void misfortune(model_t *m) {
    redis_t *redis = cluster_redis(m->cluster);
    node_t *a = some_node(m), *b = some_node(m);
    machine_t *machine = host_machine(a->host);
    switch (between(m, 0, 39)) {
    case 0:
    case 1:
        if (a != b && m->nodes.count < MANY) host_cut(a->host, b->host);
        break;
    case 2:
    case 3:
        if (!m->is_late) host_heal(a->host, b->host);
        break;
    case 4:
        if (m->nodes.count < MANY && !m->is_late && chance(m, 1, 2)) split(m);
        break;
    case 5:
        if (m->nodes.count < MANY && !m->is_late) heal_links(m);
        break;
    case 6:
    case 7:
        stop_node(m, a);
        break;
    case 8:
    case 9:
    case 10:
        wake_node(m, a);
        break;
    case 11:
        if (chance(m, 1, 3)) kill_node(m, a);
        break;
    case 12:
        redis_leave(redis);
        break;
    case 13:
    case 14:
        redis_come_back(redis);
        break;
    case 15:
        model_fail_over(m, a);
        break;
    case 16:
        model_doom(m, a);
        redis_cut(redis, machine);
        break;
    case 17:
    case 18:
        redis_heal(redis, machine);
        risk_look(m, a);
        break;
    case 19:
        if (m->nodes.count < 64 && chance(m, 1, 2)) model_join(m);
        break;
    default:
        break;
    }
}

static void heal(model_t *m) {
    redis_t *redis = cluster_redis(m->cluster);
    m->is_calm = true;
    redis_come_back(redis);
    for (size_t i = 0; i < m->nodes.count; i++) {
        wake_node(m, m->nodes.items[i]);
        redis_heal(redis, host_machine(m->nodes.items[i]->host));
    }
    if (m->nodes.count < MANY) heal_links(m);
}

/* ---- the run ---- */

static void close_all(model_t *m) {
    node_t *killer = NULL;
    for (size_t i = 0; i < m->nodes.count; i++) {
        node_t *node = m->nodes.items[i];
        if (!node_is_up(node)) continue;
        killer = node;
        for (size_t j = 0; j < m->actors.count; j++) handle_close(node, j);
    }
    for (size_t j = 0; j < m->actors.count; j++) {
        model_actor_t *a = m->actors.items[j];
        a->is_doomed = true;
        if (killer != NULL && (a->flags & ACTOR_DETACHED) != 0 &&
            actor_kill(killer->room, a->id, a->flags, true) != MOB_OK)
            abort();
        if (!a->is_unwanted) model_handles_look(m, j);
    }
}

static void actor_run(world_t *world, size_t hosts) {
    model_t *m = model_new(world);
    size_t count = hosts > 0 ? hosts : between(m, 2, 5);
    for (size_t i = 0; i < count; i++) model_join(m);
    uint64_t most = (chance(m, 1, 2) ? 300 : chance(m, 1, 2) ? 30 : 800) * WORLD_MS;
    m->is_rough = chance(m, 1, 3);
    if (m->is_rough) redis_lag(cluster_redis(m->cluster));
    m->is_late = chance(m, 1, 4);
    if (m->is_late) most = 800 * WORLD_MS;
    if (count >= MANY) most = 30 * WORLD_MS;
    m->is_late &= count < MANY;
    for (size_t step = 0; step < STEPS && world_failure(world) == NULL; step++) {
        work(m);
        misfortune(m);
        world_run(world, world_now_ns(world) + between(m, 0, most));
        model_check_bounds(m);
    }
    heal(m);
    world_run(world, world_now_ns(world) + (count < MANY ? 30 : 8) * WORLD_S);
    if (world_failure(world) == NULL) model_check_answered(m);
    if (world_failure(world) == NULL) close_all(m);
    world_run(world, world_now_ns(world) + (count < MANY ? 40 : 16) * WORLD_S);
    if (world_failure(world) == NULL) model_check_empty(m);
    model_free(m);
}

const scenario_t scenario_actor = {
    .name = "actor",
    .checks = "no call runs twice or out of order, an epoch is made once, a name has one owner, "
              "every wait ends, nothing is left",
    .run = actor_run,
};
