/*
 * Placement groups: nodes with a few CPUs each, made, watched and removed from everywhere, while
 * leaders change, nodes die, stop and are cut off, and Redis goes away, comes back and fails over.
 * group_model.c has what is checked on the way. Then everything is healed, and it is checked that
 * what fits is placed, that those who wait are told, and in the end that nothing is left.
 */
#include <stdlib.h>
#include <string.h>

#include "group/choose.h"
#include "group/script.h"
#include "sim/group_model.h"
#include "sim/scenario.h"

enum { STEPS = 120, CALM_S = 14, EQUALS = 5 };

static uint64_t below(group_model_t *m, uint64_t n) {
    return base_random_below(world_random(m->world), n);
}
static bool chance(group_model_t *m, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(m->world), part, whole);
}

static group_model_node_t *some_node(group_model_t *m) {
    size_t first = below(m, m->nodes.count);
    for (size_t i = 0; i < m->nodes.count; i++) {
        group_model_node_t *node = m->nodes.items[(first + i) % m->nodes.count];
        if (machine_is_up(host_machine(node->host))) return node;
    }
    return NULL;
}

static group_model_group_t *some_group(group_model_t *m) {
    if (m->groups.count == 0) return NULL;
    size_t recent = m->groups.count < 12 ? m->groups.count : 12;
    return m->groups.items[m->groups.count - 1 - below(m, recent)];
}

/* ---- work ---- */

static void create(group_model_t *m, group_model_node_t *node, group_model_group_t *g) {
    frame_amount_t amounts[MODEL_BUNDLES];
    group_bundle_t bundles[MODEL_BUNDLES];
    for (size_t b = 0; b < g->count; b++) {
        amounts[b] = (frame_amount_t){"CPU", g->amounts[b]};
        bundles[b] = (group_bundle_t){{&amounts[b], 1}, g->selectors[b]};
    }
    group_want_t want = {.id = g->id,
                         .job = g->job,
                         .strategy = g->strategy,
                         .detached = g->detached,
                         .name_space = "space",
                         .name = group_model_name(g->name),
                         .bundles = bundles,
                         .count = g->count};
    world_tell(m->world, "%llx makes group %u, of job %llx %u, of %zu, strategy %d%s%s",
               (unsigned long long)g->id.home >> 48, g->id.number,
               (unsigned long long)g->job.home >> 48, g->job.number, g->count, (int)g->strategy,
               g->detached ? ", detached" : "", g->name >= 0 ? ", named" : "");
    if (group_create(node->room, &want) != MOB_OK) world_fail(m->world, "a group is refused");
    group_model_turn(node);
}

static void create_any(group_model_t *m, group_model_node_t *node) {
    group_model_group_t *g = group_model_group_new(m, node);
    g->strategy = (mob_strategy_t)below(m, 4);
    g->count = 1 + below(m, MODEL_BUNDLES);
    g->detached = chance(m, 1, 3);
    if (chance(m, 1, 3)) g->name = (int)below(m, MODEL_NAMES);
    group_model_node_t *other = m->nodes.items[below(m, m->nodes.count)];
    if (chance(m, 1, 3)) g->job = (frame_job_t){host_incarnation(other->host), other->job};
    /* a task of a job that has ended, whose node has not heard of it yet */
    frame_job_t before = {g->job.home, g->job.number - 1};
    if (g->job.number > 0 && g->job.home != g->id.home && !group_model_has_heard(node, before))
        g->job = before;
    bool has_selector = chance(m, 1, 5);
    for (size_t b = 0; b < g->count; b++) {
        g->amounts[b] = 1 + (below(m, 3) == 0);
        g->selectors[b] = has_selector && chance(m, 1, 2) ? "zone=a" : "";
    }
    create(m, node, g);
}

static void remove_group(group_model_t *m, group_model_node_t *node, group_model_group_t *g) {
    world_tell(m->world, "%llx removes group %u",
               (unsigned long long)host_incarnation(node->host) >> 48, g->id.number);
    g->is_unwanted = true;
    if (!vec_push(&g->removers, node)) abort();
    if (group_remove(node->room, &g->id) != MOB_OK) abort();
    group_model_turn(node);
}

static void busy_change(group_model_t *m, group_model_node_t *node) {
    uint64_t available = group_model_free_now(node) + node->busy;
    uint64_t busy = below(m, available + 1) / 2;
    bool is_freed = busy < node->busy;
    node->busy = busy;
    if (is_freed) group_freed(node->room);
    group_model_turn(node);
}

static void pass(group_model_t *m, uint64_t least_ms, uint64_t most_ms) {
    world_run(m->world, world_now_ns(m->world) +
                            world_between(m->world, least_ms * WORLD_MS, most_ms * WORLD_MS));
}

/* Never the last but one: somebody is to see what follows. */
static void kill_one(group_model_t *m, group_model_node_t *node) {
    size_t alive = 0;
    for (size_t i = 0; i < m->nodes.count; i++) alive += group_model_is_alive(m, m->nodes.items[i]);
    if (alive > 2) host_kill(node->host);
}

/* Judges look each 100 ms: nodes may hear of the new master before the old one's last answers. */
static void fail_over(group_model_t *m, group_model_node_t *node) {
    uint64_t look = 100 * WORLD_MS, now = world_now_ns(m->world);
    if (chance(m, 1, 3)) world_run(m->world, (now / look + 1) * look - below(m, 2 * WORLD_MS));
    world_tell(m->world, "Redis fails over");
    redis_come_back(cluster_redis(m->cluster));
    group_model_fail_over(m);
    if (chance(m, 1, 8)) kill_one(m, node);
}

static void create_one(group_model_t *m, group_model_node_t *node, frame_job_t job, int name) {
    group_model_group_t *g = group_model_group_new(m, node);
    g->job = job;
    g->count = 1;
    g->name = name;
    g->detached = name >= 0;
    g->amounts[0] = 1;
    g->selectors[0] = "";
    create(m, node, g);
}

/* A job ends while another node makes a group of it, which may die before it hears of that. */
static void job_end(group_model_t *m, group_model_node_t *home) {
    group_model_node_t *other = some_node(m);
    frame_job_t job = {host_incarnation(home->host), home->job};
    bool is_before = chance(m, 1, 2),
         is_there = other != home && !group_model_has_heard(other, job);
    if (is_there && is_before) create_one(m, other, job, -1);
    pass(m, 0, 4);
    if (!machine_is_up(host_machine(home->host))) return;
    group_model_job_end(m, home);
    pass(m, 1, 6);
    if (chance(m, 1, 3)) fail_over(m, home);
    if (!is_there || !machine_is_up(host_machine(other->host))) return;
    if (!is_before && !group_model_has_heard(other, job)) create_one(m, other, job, -1);
    pass(m, 1, 5);
    if (chance(m, 1, 2)) kill_one(m, other);
}

/* A name goes from one group to another. */
static void name_pass_on(group_model_t *m, group_model_node_t *node, group_model_group_t *g) {
    remove_group(m, node, g);
    pass(m, 0, 8);
    group_model_node_t *other = some_node(m);
    if (other == NULL) return;
    create_one(m, other, (frame_job_t){host_incarnation(other->host), other->job}, g->name);
    pass(m, 0, 8);
    if (chance(m, 1, 2)) fail_over(m, node);
}

static void work(group_model_t *m) {
    group_model_node_t *node = some_node(m);
    group_model_group_t *g = some_group(m);
    if (node == NULL) return;
    uint64_t what = below(m, 100);
    if (what < 40)
        create_any(m, node);
    else if (what < 65 && g != NULL)
        remove_group(m, node, g);
    else if (what < 75 && g != NULL)
        (void)group_watch(node->room, &g->id);
    else if (what < 80)
        (void)group_find(node->room, "space", group_model_name((int)below(m, MODEL_NAMES)), 99);
    else if (what < 92)
        busy_change(m, node);
    else if (what < 94 && group_model_is_alive(m, node))
        job_end(m, node);
    else if (what < 97 && g != NULL && g->name >= 0)
        name_pass_on(m, node, g);
    group_model_turn(node);
}

/* ---- misfortune ---- */

static void cut_group(group_model_t *m, bool is_cut) {
    uint64_t side = base_random_next(world_random(m->world));
    for (size_t i = 0; i < m->nodes.count && m->nodes.count <= 64; i++)
        for (size_t j = 0; j < i; j++) {
            if ((side >> i & 1) == (side >> j & 1)) continue;
            if (is_cut)
                host_cut(m->nodes.items[i]->host, m->nodes.items[j]->host);
            else
                host_heal(m->nodes.items[i]->host, m->nodes.items[j]->host);
        }
}

static void redis_misfortune(group_model_t *m, group_model_node_t *node) {
    redis_t *redis = cluster_redis(m->cluster);
    switch (below(m, 8)) {
    case 0:
        redis_leave(redis);
        break;
    case 1:
        redis_cut(redis, host_machine(node->host));
        break;
    case 2:
        redis_heal(redis, host_machine(node->host));
        break;
    case 3:
    case 4:
        fail_over(m, node);
        break;
    default:
        redis_come_back(redis);
    }
}

static void misfortune(group_model_t *m) {
    group_model_node_t *a = m->nodes.items[below(m, m->nodes.count)],
                       *b = m->nodes.items[below(m, m->nodes.count)];
    uint64_t what = below(m, 100);
    if (what < 8 && a != b)
        host_cut(a->host, b->host);
    else if (what < 18 && a != b)
        host_heal(a->host, b->host);
    else if (what < 22)
        cut_group(m, what < 20);
    else if (what < 30)
        machine_stop(host_machine(a->host));
    else if (what < 46)
        machine_go_on(host_machine(a->host));
    else if (what < 48 && m->nodes.count > 2 && chance(m, 1, 2))
        host_kill(a->host);
    else if (what < 50 && chance(m, 1, 2))
        (void)group_model_node_new(m);
    else if (what < 70)
        redis_misfortune(m, a);
}

static void heal(group_model_t *m) {
    redis_come_back(cluster_redis(m->cluster));
    for (size_t i = 0; i < m->nodes.count; i++) {
        redis_heal(cluster_redis(m->cluster), host_machine(m->nodes.items[i]->host));
        machine_go_on(host_machine(m->nodes.items[i]->host));
        m->nodes.items[i]->busy = 0;
        group_freed(m->nodes.items[i]->room);
        for (size_t j = 0; j < i; j++) host_heal(m->nodes.items[i]->host, m->nodes.items[j]->host);
    }
}

/* ---- after it ---- */

static bool is_matching(void *context, const char *selector, const char *labels) {
    (void)context;
    return strcmp(selector, labels) == 0;
}

/* Whether the group would fit now, by what is truly free. */
static bool fits(group_model_t *m, const group_model_group_t *g) {
    frame_amount_t amounts[MODEL_BUNDLES];
    group_bundle_t bundles[MODEL_BUNDLES];
    for (size_t b = 0; b < g->count; b++) {
        amounts[b] = (frame_amount_t){"CPU", g->amounts[b]};
        bundles[b] = (group_bundle_t){{&amounts[b], 1}, g->selectors[b]};
    }
    group_want_t want = {.strategy = g->strategy,
                         .name_space = "",
                         .name = "",
                         .bundles = bundles,
                         .count = g->count};
    group_spec_t *spec;
    if (group_spec_write(&want, &spec) != MOB_OK) abort();
    group_views_t views = {0};
    uint64_t nodes[MODEL_BUNDLES] = {0};
    group_view_t *memory = calloc(m->nodes.count, sizeof *memory);
    for (size_t i = 0; i < m->nodes.count; i++) {
        group_model_node_t *node = m->nodes.items[i];
        if (!group_model_is_alive(m, node)) continue;
        memory[i].node = host_incarnation(node->host);
        memory[i].labels = (char *)(uintptr_t)node->labels;
        group_amount_t amount = {group_hash_text("CPU"), (int64_t)group_model_free_now(node)};
        if (!vec_push(&memory[i].free, amount) || !vec_push(&views, &memory[i])) abort();
    }
    bool is_short, is_fitting = group_choose(spec, &views, is_matching, NULL, nodes, &is_short);
    for (size_t i = 0; i < m->nodes.count; i++) vec_free(&memory[i].free);
    free(memory);
    vec_free(&views);
    group_spec_free(spec);
    return is_fitting;
}

static bool is_partly_placed(const group_model_t *m, const group_model_group_t *g) {
    for (size_t i = 0; i < m->nodes.count; i++)
        for (size_t h = 0; h < m->nodes.items[i]->holds.count; h++) {
            const group_key_t *key = &m->nodes.items[i]->holds.items[h].key;
            if (key->id.home == g->id.home && key->id.number == g->id.number) return true;
        }
    return false;
}

static void placed_check(group_model_t *m, const group_model_group_t *g) {
    bool is_placed = group_model_is_placed(m, g),
         is_home = group_model_is_alive(m, group_model_node(m, g->id.home));
    if (group_model_is_ending(m, g) || !g->is_made) return;
    if (is_placed && is_home && g->told != GROUP_READY)
        world_fail(m->world, "group %u is placed, and its home was not told", g->id.number);
    if (!is_placed && is_home && g->told == GROUP_READY)
        world_fail(m->world, "group %u lacks bundles, and its home was not told", g->id.number);
    if (!is_placed && !is_partly_placed(m, g) && fits(m, g))
        world_fail(m->world, "group %u fits, and is not placed", g->id.number);
}

static void ending_check(group_model_t *m, const group_model_group_t *g) {
    if (!group_model_is_ended(m, g) || group_model_is_ghost(m, g)) return;
    const uint8_t *record = group_model_record(m, g);
    if (record != NULL)
        world_fail(m->world, "group %u is to be gone, and its record is there, %s", g->id.number,
                   *record == GROUP_RECORD_REMOVED ? "REMOVED" : "not removed");
    for (size_t i = 0; i < m->nodes.count; i++)
        for (size_t h = 0; h < m->nodes.items[i]->holds.count; h++) {
            const group_key_t *held = &m->nodes.items[i]->holds.items[h].key;
            if (held->id.home == g->id.home && held->id.number == g->id.number &&
                group_model_is_alive(m, m->nodes.items[i]))
                world_fail(m->world, "group %u is to be gone, and bundle %u is held", g->id.number,
                           held->bundle);
        }
    if (group_model_is_alive(m, group_model_node(m, g->id.home)) && g->told != GROUP_REMOVED &&
        g->told != GROUP_NAME_TAKEN)
        world_fail(m->world, "group %u is gone, and its home was not told", g->id.number);
}

/* Whoever looks for a name finds the group that has it. */
static void names_check(group_model_t *m) {
    group_model_node_t *node = some_node(m);
    if (node == NULL) return;
    for (int name = 0; name < MODEL_NAMES; name++)
        (void)group_find(node->room, "space", group_model_name(name), (uint64_t)name);
    world_run(m->world, world_now_ns(m->world) + 3 * WORLD_S);
    for (int name = 0; name < MODEL_NAMES; name++) {
        const group_model_group_t *owner = NULL;
        bool is_open = false; /* one that may be gone may have it */
        for (size_t i = 0; i < m->groups.count; i++) {
            const group_model_group_t *g = m->groups.items[i];
            if (g->name != name || group_model_is_ended(m, g)) continue;
            if (g->is_made && !group_model_is_ending(m, g)) owner = g;
            is_open |= group_model_is_ending(m, g) || !g->is_made;
        }
        uint32_t number = owner != NULL ? owner->id.number : 0;
        if (m->found[name].number != number && !is_open)
            world_fail(m->world, "the name %s is that of group %u, and %u is found",
                       group_model_name(name), number, m->found[name].number);
    }
}

static void check_all(group_model_t *m) {
    if (some_node(m) == NULL) return; /* there is nobody to tidy up */
    for (size_t i = 0; i < m->groups.count && world_failure(m->world) == NULL; i++) {
        placed_check(m, m->groups.items[i]);
        ending_check(m, m->groups.items[i]);
    }
}

static void remove_all(group_model_t *m) {
    for (size_t i = 0; i < m->groups.count; i++) {
        group_model_node_t *node = some_node(m);
        bool is_there = group_model_is_ghost(m, m->groups.items[i]);
        if (node != NULL && (is_there || !group_model_is_ended(m, m->groups.items[i])))
            remove_group(m, node, m->groups.items[i]);
    }
}

/* None of the equal ones waits while a younger one has its place. */
static void order_check(group_model_t *m) {
    bool has_waiting = false;
    for (size_t i = m->groups.count - EQUALS; i < m->groups.count; i++) {
        const group_model_group_t *g = m->groups.items[i];
        if (group_model_is_ending(m, g)) continue;
        bool is_placed = group_model_is_placed(m, g);
        if (is_placed && has_waiting)
            world_fail(m->world, "group %u has its place, and one as large and older waits",
                       g->id.number);
        has_waiting |= !is_placed;
    }
}

/* Until the first node hears of another leader, or for a while. */
static void leader_await(group_model_t *m) {
    uint64_t fence = m->fence;
    for (int i = 0; i < 5000 && m->fence == fence; i++)
        world_run(m->world, world_now_ns(m->world) + WORLD_MS);
}

/* Equal groups, of which few fit at a time: those before are removed, and the next ones come. */
static void order_run(group_model_t *m) {
    for (size_t i = 1; i <= EQUALS; i++) {
        group_model_node_t *node = some_node(m);
        if (node == NULL) return;
        group_model_group_t *g = group_model_group_new(m, node);
        g->strategy = MOB_STRICT_SPREAD;
        g->count = 2;
        g->detached = true;
        g->amounts[0] = g->amounts[1] = 2;
        g->selectors[0] = g->selectors[1] = "";
        create(m, node, g);
        world_run(m->world, world_now_ns(m->world) + 2 * WORLD_S);
    }
    for (size_t i = 0; i < EQUALS && world_failure(m->world) == NULL; i++) {
        group_model_group_t *g = m->groups.items[m->groups.count - EQUALS + i];
        if (chance(m, 1, 3)) leader_await(m);
        group_model_node_t *node = some_node(m);
        if (node != NULL) remove_group(m, node, g);
        world_run(m->world, world_now_ns(m->world) + 3 * WORLD_S);
        order_check(m);
        ending_check(m, g);
    }
}

static bool is_idle(const group_model_t *m) {
    for (size_t i = 0; i < m->nodes.count; i++)
        if (group_model_is_alive(m, m->nodes.items[i]) && !group_is_idle(m->nodes.items[i]->room))
            return false;
    return true;
}

/* A leader that has just begun reads for a moment. */
static void idle_check(group_model_t *m) {
    for (int i = 0; i < 20 && !is_idle(m); i++)
        world_run(m->world, world_now_ns(m->world) + 100 * WORLD_MS);
    if (!is_idle(m)) world_fail(m->world, "a node keeps something, and there are no groups");
}

static void group_run(world_t *world, size_t hosts) {
    cluster_t *cluster = cluster_new(world);
    group_model_t *m = group_model_new(world, cluster);
    size_t count = hosts > 0 ? hosts : world_between(world, 2, 6);
    for (size_t i = 0; i < count; i++) (void)group_model_node_new(m);
    uint64_t pace = world_between(world, 2, 40) * WORLD_MS, trouble = below(m, 3);
    for (int step = 0; step < STEPS && world_failure(world) == NULL; step++) {
        work(m);
        if (below(m, 3) < trouble) misfortune(m);
        world_run(world, world_now_ns(world) + world_between(world, 0, 2 * pace));
    }
    heal(m);
    world_run(world, world_now_ns(world) + CALM_S * WORLD_S);
    check_all(m);
    if (world_failure(world) == NULL) names_check(m);
    if (world_failure(world) == NULL) remove_all(m);
    world_run(world, world_now_ns(world) + CALM_S * WORLD_S);
    if (world_failure(world) == NULL) check_all(m);
    if (world_failure(world) == NULL && chance(m, 1, 4)) order_run(m);
    world_run(world, world_now_ns(world) + 4 * WORLD_S);
    if (world_failure(world) == NULL) check_all(m);
    if (world_failure(world) == NULL) idle_check(m);
    group_model_free(m);
    cluster_free(cluster);
}

const scenario_t scenario_group = {
    .name = "group",
    .checks = "bundles are held on all nodes or none, once; what fits is placed; nothing is left",
    .run = group_run,
};
