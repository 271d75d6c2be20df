/* Membership: nodes that stop, die, join and are cut off from each other and from Redis, which goes
 * away, comes back, fails over, is two, and loses everything. */
#include <stdlib.h>

#include "sim/member_node.h"
#include "sim/scenario.h"

enum { STEPS = 24, SMALL = 64, NEIGHBOURS = 16, WELL_S = 220 };

typedef struct {
    town_t *town;
    world_t *world;
    bool is_large;
} run_t;

static uint64_t ms(run_t *run, uint64_t least, uint64_t most) {
    return world_between(run->world, least * WORLD_MS, most * WORLD_MS);
}

static bool chance(run_t *run, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(run->world), part, whole);
}

static node_t *any(run_t *run) {
    return run->town->nodes.items[world_between(run->world, 0, run->town->nodes.count - 1)];
}

static size_t living(const run_t *run) {
    size_t count = 0;
    for (size_t i = 0; i < run->town->nodes.count; i++)
        count += node_is_there(run->town->nodes.items[i]);
    return count;
}

/* ---- what ends by itself ---- */

static void go_on(void *context, uint64_t argument) {
    (void)argument;
    machine_go_on(context);
}

static void stop(run_t *run, node_t *node, uint64_t for_ns) {
    world_tell(run->world, "stop %zu for %.1f s", node->index, (double)for_ns / 1e9);
    if (chance(run, 1, 2)) { /* between a question and its answer */
        node->stops_ns = for_ns;
        return;
    }
    machine_stop(node->machine);
    world_later(run->world, for_ns, 0, go_on, node->machine, 0);
}

static void redis_hears(void *context, uint64_t argument) {
    (void)argument;
    node_t *node = context;
    node->is_deaf = false;
    redis_heal(node->town->redis, node->machine);
    redis_slow(node->town->redis, node->machine, false);
}

static void cut_redis(run_t *run, node_t *node, uint64_t for_ns) {
    world_tell(run->world, "cut %zu from Redis for %.1f s", node->index, (double)for_ns / 1e9);
    if (chance(run, 1, 4))
        node->is_deaf = true;
    else
        redis_cut(run->town->redis, node->machine);
    world_later(run->world, for_ns, 0, redis_hears, node, 0);
}

static void slow_redis(run_t *run, node_t *node, uint64_t for_ns) {
    world_tell(run->world, "%zu is slow to reach Redis for %.1f s", node->index,
               (double)for_ns / 1e9);
    redis_slow(run->town->redis, node->machine, true);
    world_later(run->world, for_ns, 0, redis_hears, node, 0);
}

static void heal(void *context, uint64_t argument) {
    (void)argument;
    link_heal(context);
}

static void cut(run_t *run, node_t *from, node_t *to, uint64_t for_ns) {
    if (from == to) return;
    world_tell(run->world, "cut %zu to %zu for %.1f s", from->index, to->index,
               (double)for_ns / 1e9);
    link_cut(link_of(from, to));
    world_later(run->world, for_ns, 0, heal, link_of(from, to), 0);
}

static void come_back(void *context, uint64_t argument) {
    (void)argument;
    redis_come_back(context);
}

static void leave(run_t *run, uint64_t for_ns) {
    world_tell(run->world, "Redis is away for %.1f s", (double)for_ns / 1e9);
    redis_leave(run->town->redis);
    world_later(run->world, for_ns, 0, come_back, run->town->redis, 0);
}

static void back(void *context, uint64_t argument) {
    (void)argument;
    redis_back(context);
}

static void demote(void *context, uint64_t argument) {
    (void)argument;
    redis_demote(context);
}

/* ---- misfortunes ---- */

static void skew(run_t *run) {
    int64_t by = chance(run, 1, 2) ? 0 : (int64_t)world_between(run->world, 0, 12000) - 6000;
    run->town->has_skew |= by != 0;
    redis_skew(run->town->redis, by);
}

static void fail_over(run_t *run) {
    world_tell(run->world, "Redis fails over");
    run->town->has_lost = true;
    redis_fail_over(run->town->redis);
    skew(run);
}

static void split(run_t *run) {
    redis_t *redis = run->town->redis;
    world_tell(run->world, "Redis has two masters");
    run->town->has_lost = true;
    redis_split(redis);
    skew(run);
    for (size_t i = 0; i < run->town->nodes.count; i++)
        if (chance(run, 2, 3)) redis_stay(redis, run->town->nodes.items[i]->machine);
    uint64_t until = ms(run, 0, 5000);
    world_later(run->world, until, 0, back, redis, 0);
    world_later(run->world, until + ms(run, 0, 10000), 0, demote, redis, 0);
}

static void wipe(run_t *run) {
    if (living(run) < 2) return;
    world_tell(run->world, "Redis loses everything");
    run->town->has_lost = true;
    redis_wipe(run->town->redis);
}

static void kill(run_t *run, node_t *node) {
    if (!node_is_there(node) || living(run) < 3) return;
    world_tell(run->world, "kill %zu", node->index);
    node->killed_ns = world_now_ns(run->world);
    machine_kill(node->machine);
}

static void depart(run_t *run, node_t *node) {
    if (!node_is_there(node) || living(run) < 3) return;
    world_tell(run->world, "%zu leaves", node->index);
    node_leave(node, chance(run, 1, 3) ? ms(run, 500, 4000) : 0);
}

/* One that is gone comes again, as another, or somebody new does. */
static void join(run_t *run) {
    const node_t *before = any(run);
    node_new(run->town, node_is_there(before) ? NULL : before);
}

static void group(run_t *run) {
    uint64_t for_ns = ms(run, 200, 20000), kind = world_between(run->world, 0, 3);
    uint64_t members = base_random_next(world_random(run->world));
    for (size_t i = 0; i < run->town->nodes.count; i++) {
        node_t *a = run->town->nodes.items[i];
        bool is_in = members >> i % 64 & 1;
        if (is_in && kind != 0) cut_redis(run, a, for_ns + ms(run, 0, kind == 1 ? 0 : 3000));
        for (size_t j = 0; kind != 1 && !run->is_large && j < run->town->nodes.count; j++)
            if (is_in != (members >> j % 64 & 1)) cut(run, a, run->town->nodes.items[j], for_ns);
    }
}

static void misfortune(run_t *run) {
    node_t *a = any(run), *b = any(run);
    switch (world_between(run->world, 0, 20)) {
    case 0:
    case 1:
    case 2:
        stop(run, a, ms(run, 100, chance(run, 1, 2) ? 10000 : 2500));
        break;
    case 3:
    case 4:
    case 5:
        cut_redis(run, a, ms(run, 200, chance(run, 1, 2) ? 20000 : 4000));
        break;
    case 6:
        kill(run, a);
        break;
    case 7:
    case 8:
        cut(run, a, b, ms(run, 500, 20000));
        if (chance(run, 2, 3)) cut(run, b, a, ms(run, 500, 20000));
        break;
    case 9:
    case 10:
        group(run);
        break;
    case 11:
        leave(run, ms(run, 1000, chance(run, 1, 4) ? 100000 : 9000));
        break;
    case 12:
    case 13:
        fail_over(run);
        break;
    case 14:
        split(run);
        break;
    case 15:
        if (chance(run, 1, 4)) wipe(run);
        break;
    case 16:
        join(run);
        break;
    case 17:
        slow_redis(run, a, ms(run, 1000, 20000));
        break;
    case 18:
        depart(run, a);
        break;
    default:
        break;
    }
}

/* ---- runs ---- */

static void chaos(run_t *run) {
    for (int step = 0; step < STEPS && world_failure(run->world) == NULL; step++) {
        misfortune(run);
        world_run(run->world, world_now_ns(run->world) + ms(run, 0, 2500));
    }
}

static node_t *leader_of(run_t *run) {
    for (size_t i = 0; i < run->town->nodes.count; i++) {
        uint64_t fence;
        node_t *node = run->town->nodes.items[i];
        if (member_is_leader(node->member, machine_clock_ns(node->machine), &fence)) return node;
    }
    return run->town->nodes.items[0];
}

static void expect_buried(run_t *run, const node_t *node, uint64_t within_ns) {
    world_run(run->world, world_now_ns(run->world) + within_ns);
    if (node->buried_ns == 0)
        world_fail(run->world, "node %zu was not buried within %.1f s", node->index,
                   (double)within_ns / 1e9);
}

/* One death, and nothing else: a tombstone within 5 s. */
static void one_death(run_t *run) {
    node_t *node = chance(run, 1, 2) ? leader_of(run) : any(run);
    if (living(run) < 3) node_new(run->town, NULL);
    world_run(run->world, world_now_ns(run->world) + ms(run, 7000, 9000));
    kill(run, node);
    expect_buried(run, node, 5 * WORLD_S);
    world_tell(run->world, "buried after %.3f s",
               (double)(node->buried_ns - node->killed_ns) / 1e9);
}

/* One leaves in peace: it is buried at once, and all know. */
static void one_leave(run_t *run) {
    while (living(run) < 3) node_new(run->town, NULL);
    world_run(run->world, world_now_ns(run->world) + ms(run, 7000, 9000));
    node_t *node = chance(run, 1, 2) ? leader_of(run) : any(run);
    depart(run, node);
    expect_buried(run, node, WORLD_S);
    world_run(run->world, world_now_ns(run->world) + WORLD_S);
    for (size_t i = 0; i < run->town->nodes.count; i++) {
        const node_t *other = run->town->nodes.items[i];
        if (other != node && member_tombstone(other->member, node->incarnation) == 0)
            world_fail(run->world, "node %zu left, and node %zu does not know", node->index, i);
    }
}

/* The same around a fail-over: within 15 s. */
static void death_and_fail_over(run_t *run) {
    node_t *node = any(run);
    if (living(run) < 3) node_new(run->town, NULL);
    world_run(run->world, world_now_ns(run->world) + ms(run, 7000, 9000));
    kill(run, node);
    world_run(run->world, world_now_ns(run->world) + ms(run, 0, 5000));
    redis_fail_over(run->town->redis);
    run->town->has_lost = true;
    expect_buried(run, node, 15 * WORLD_S);
}

/* Redis is away, and that is all: nobody pauses, nobody is buried. */
static void redis_away(run_t *run) {
    world_run(run->world, world_now_ns(run->world) + ms(run, 3000, 5000));
    run->town->must_not_pause = true;
    leave(run, ms(run, 1000, 58000));
    world_run(run->world, world_now_ns(run->world) + 75 * WORLD_S);
    if (run->town->seen != 0) world_fail(run->world, "somebody was buried without a reason");
    run->town->must_not_pause = false;
}

/* One link is cut: one of its two ends is condemned, nobody else. */
static void one_cut(run_t *run) {
    node_t *a = run->town->nodes.items[0], *b = run->town->nodes.items[1];
    if (living(run) < 3) node_new(run->town, NULL);
    world_run(run->world, world_now_ns(run->world) + ms(run, 7000, 9000));
    cut(run, a, b, 40 * WORLD_S);
    cut(run, b, a, 40 * WORLD_S);
    world_run(run->world, world_now_ns(run->world) + 30 * WORLD_S);
    if ((a->buried_ns != 0) + (b->buried_ns != 0) != 1)
        world_fail(run->world, "of a link that is cut not one end was condemned");
    for (size_t i = 2; i < run->town->nodes.count; i++)
        if (run->town->nodes.items[i]->buried_ns != 0)
            world_fail(run->world, "node %zu was condemned for others", i);
}

/* Most nodes lose Redis together, and find it again one by one; links between them come and go. */
static void islands(run_t *run) {
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < run->town->nodes.count; i++)
            if (chance(run, 3, 4)) cut_redis(run, run->town->nodes.items[i], ms(run, 3000, 25000));
        for (int step = 0; step < 8; step++) {
            if (chance(run, 1, 2)) cut(run, any(run), any(run), ms(run, 500, 5000));
            world_run(run->world, world_now_ns(run->world) + ms(run, 0, 4000));
        }
    }
}

/* One node loses Redis again and again, for about a lease; the leader is slow. */
static void flapping(run_t *run) {
    node_t *node = any(run), *leader = leader_of(run);
    slow_redis(run, leader, 40 * WORLD_S);
    for (int round = 0; round < 10; round++) {
        if (chance(run, 1, 4)) { /* with a tombstone on its way */
            world_run(run->world, world_now_ns(run->world) + ms(run, 3000, 4500));
            stop(run, leader, ms(run, 4000, 6000));
        }
        if (chance(run, 1, 3))
            stop(run, node, ms(run, 2500, 5000));
        else
            cut_redis(run, node, ms(run, 2500, 5000));
        world_run(run->world, world_now_ns(run->world) + ms(run, 2800, 6000));
    }
}

/* The leader stops when it has asked for a tombstone, which is slow on its way. */
static void late_tombstone(run_t *run) {
    while (living(run) < 5) node_new(run->town, NULL);
    world_run(run->world, world_now_ns(run->world) + ms(run, 7000, 9000));
    node_t *leader = leader_of(run), *node = any(run);
    if (node == leader) return;
    leader->falters_ns = ms(run, 4000, 8000);
    kill(run, node);
    world_run(run->world, world_now_ns(run->world) + 15 * WORLD_S);
}

static void lag_set(run_t *run, node_t *to, uint64_t lag_ns) {
    for (size_t i = 0; i < run->town->nodes.count; i++)
        if (run->town->nodes.items[i] != to)
            link_of(run->town->nodes.items[i], to)->lag_max_ns = lag_ns;
}

/* What a node hears is seconds old. The others lose Redis for a while; when it hears of that, it
 * loses Redis itself. */
static void slow_links(run_t *run) {
    while (living(run) < 3) node_new(run->town, NULL);
    node_t *node = any(run);
    uint64_t lag_ns = ms(run, 5000, 10000), away_ns = ms(run, 2500, 5000);
    lag_set(run, node, lag_ns);
    world_run(run->world, world_now_ns(run->world) + ms(run, 15000, 16000));
    for (size_t i = 0; i < run->town->nodes.count; i++)
        if (run->town->nodes.items[i] != node)
            cut_redis(run, run->town->nodes.items[i], away_ns + ms(run, 0, 300));
    world_run(run->world, world_now_ns(run->world) + lag_ns - ms(run, 0, 1000));
    cut_redis(run, node, 20 * WORLD_S);
    world_run(run->world, world_now_ns(run->world) + 15 * WORLD_S);
    lag_set(run, node, 0);
}

/* Deaths while an old master is going to lose them. */
static void lost_stones(run_t *run) {
    for (int i = 0; i < 2; i++) node_new(run->town, NULL);
    world_run(run->world, world_now_ns(run->world) + ms(run, 7000, 8000));
    for (int round = 0; round < 2; round++) {
        kill(run, any(run));
        world_run(run->world, world_now_ns(run->world) + ms(run, 500, 4500));
        split(run);
        world_run(run->world, world_now_ns(run->world) + ms(run, 0, 5000));
        if (chance(run, 1, 2)) cut_redis(run, any(run), ms(run, 1000, 25000));
        if (chance(run, 1, 2)) cut_redis(run, any(run), ms(run, 1000, 25000));
        if (chance(run, 1, 2))
            depart(run, any(run));
        else
            kill(run, any(run));
        world_run(run->world, world_now_ns(run->world) + ms(run, 5000, 20000));
    }
}

/* A link is cut, and all but one of its ends die while that is, perhaps, condemned. */
static void last_one(run_t *run) {
    node_t *a = run->town->nodes.items[0], *b = run->town->nodes.items[1];
    world_run(run->world, world_now_ns(run->world) + ms(run, 3000, 7000));
    cut(run, a, b, 40 * WORLD_S);
    cut(run, b, a, 40 * WORLD_S);
    world_run(run->world, world_now_ns(run->world) + ms(run, 3000, 8000));
    for (size_t i = 0; i < run->town->nodes.count; i++)
        if (run->town->nodes.items[i] != b) machine_kill(run->town->nodes.items[i]->machine);
}

static void heal_all(run_t *run) {
    town_t *town = run->town;
    redis_come_back(town->redis);
    redis_demote(town->redis);
    size_t cursor = 0;
    const void *key;
    void *link;
    while (base_map_each(&town->links, &cursor, &key, &link)) link_heal(link);
    for (size_t i = 0; i < town->nodes.count; i++) {
        redis_hears(town->nodes.items[i], 0);
        machine_go_on(town->nodes.items[i]->machine);
    }
    if (living(run) == 0) node_new(town, any(run));
}

/* Whatever happened, all is well some time after it has ended. */
static void settle(run_t *run) {
    const char *why = "";
    heal_all(run);
    for (int s = 0; s < WELL_S && why != NULL && world_failure(run->world) == NULL; s++) {
        world_run(run->world, world_now_ns(run->world) + WORLD_S);
        why = check_well(run->town);
        if (living(run) == 0) node_new(run->town, any(run));
    }
    if (why != NULL) world_fail(run->world, "in the end a node %s", why);
}

static void member_run(world_t *world, size_t hosts) {
    run_t run = {.world = world, .town = town_new(world)};
    size_t count = hosts > 0 ? hosts : world_between(world, 2, 6);
    run.is_large = count > SMALL;
    run.town->neighbours_max = run.is_large ? NEIGHBOURS : 2 * SMALL;
    for (size_t i = 0; i < count; i++) {
        node_new(run.town, NULL);
        if (i == 0 || chance(&run, 1, 2)) world_run(world, world_now_ns(world) + ms(&run, 10, 50));
    }
    world_run(world, world_now_ns(world) + ms(&run, 1000, 9000));
    void (*const kinds[])(run_t *) = {
        one_death, death_and_fail_over, redis_away,     one_cut,   islands, flapping, lost_stones,
        last_one,  one_leave,           late_tombstone, slow_links};
    uint64_t kind = world_between(world, 0, 21);
    if (kind < sizeof kinds / sizeof *kinds && !run.is_large)
        kinds[kind](&run);
    else
        chaos(&run);
    settle(&run);
    town_free(run.town);
}

const scenario_t scenario_member = {
    .name = "member",
    .checks = "who has a tombstone has paused; tombstones come in one order, in time; K, leaders "
              "and masters are right; all is well in the end",
    .run = member_run,
};
