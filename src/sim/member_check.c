/* The checks of the scenario `member`. They look at all nodes at once. */
#include <stdlib.h>

#include "member/state.h"
#include "member/times.h"
#include "sim/member_node.h"

#define LLU(number) ((unsigned long long)(number))

/* ---- tombstones ---- */

/* The moment a tombstone is written, its node does not go on. */
static void stone_is_new(town_t *town, uint64_t number) {
    node_t *node = town_find(town, town_number(town, state_key("m/t/", number).text));
    town->seen = number;
    if (node == NULL) {
        world_fail(town->world, "tombstone %llu is nobody's", LLU(number));
        return;
    }
    node->buried_ns = world_now_ns(town->world);
    node->tombstone = number;
    world_tell(town->world, "tombstone %llu of node %zu", LLU(number), node->index);
    if (node_goes_on(node))
        world_fail(town->world, "node %zu goes on, and has a tombstone", node->index);
}

void check_stones(void *context) {
    town_t *town = context;
    uint64_t tail = town_number(town, "m/tail");
    if (town_was_stale()) world_fail(town->world, "one who does not lead has decided something");
    if (tail < town->seen) town->seen = tail; /* the state went back */
    while (town->seen < tail) {
        const char *key = redis_look_next(town->redis, "m/t/", state_key("m/t/", town->seen).text);
        if (key == NULL) break;
        stone_is_new(town, state_key_number("m/t/", key));
    }
}

static uint64_t last_heard(const node_t *node) {
    return node->died.count > 0 ? node->died.items[node->died.count - 1].number : 0;
}

static bool has_heard(const node_t *node, uint64_t number, uint64_t peer) {
    for (size_t i = node->died.count; i-- > 0;)
        if (node->died.items[i].number == number) return node->died.items[i].incarnation == peer;
    return false;
}

void check_died(node_t *node, uint64_t peer, uint64_t number) {
    town_t *town = node->town;
    node_t *dead = town_find(town, peer);
    if (number <= last_heard(node))
        world_fail(town->world, "node %zu hears tombstone %llu out of order", node->index,
                   LLU(number));
    if (dead != NULL && node_goes_on(dead))
        world_fail(town->world, "node %zu goes on, and node %zu was told of its tombstone",
                   dead->index, node->index);
    for (size_t i = 0; i < town->nodes.count && node_goes_on(node); i++) {
        node_t *other = town->nodes.items[i];
        if (other == node || !node_goes_on(other) || other->number == 0) continue;
        if (other->number < number && last_heard(other) >= number &&
            !has_heard(other, number, peer))
            world_fail(town->world, "node %zu heard tombstone %llu, and node %zu passed it by",
                       node->index, LLU(number), other->index);
    }
}

/* A node that goes on is dead to nobody who does. */
void check_goes_on(node_t *node) {
    town_t *town = node->town;
    if (town_number(town, state_key("m/d/", node->incarnation).text) != 0)
        world_fail(town->world, "node %zu goes on after its tombstone", node->index);
    if (!town->has_lost) return; /* nobody knows what is not in the state */
    for (size_t i = 0; i < town->nodes.count; i++) {
        node_t *other = town->nodes.items[i];
        if (other == node || !node_goes_on(other)) continue;
        if (member_tombstone(other->member, node->incarnation) != 0)
            world_fail(town->world, "node %zu goes on, and is dead to node %zu", node->index,
                       other->index);
    }
}

/* ---- K ---- */

/* Neither the state nor anybody who is there knows it: it joined, and that was lost. */
static bool is_forgotten(town_t *town, const node_t *node) {
    for (size_t i = 0; i < town->nodes.count; i++)
        if (node_is_there(town->nodes.items[i]) &&
            member_knows(town->nodes.items[i]->member, node->incarnation))
            return false;
    size_t size;
    return redis_look(town->redis, state_key("m/n/", node->incarnation).text, &size) == NULL;
}

/* The first death that this node strikes off with K, and the other one has not closed; 0: none. */
static uint64_t struck_early(const node_t *node, uint64_t number, const node_t *other) {
    for (size_t i = 0; i < node->died.count; i++) {
        heard_t heard = node->died.items[i];
        if (heard.number > other->closed && heard.number <= number &&
            heard.incarnation != other->incarnation)
            return heard.number;
    }
    return 0;
}

void check_struck(node_t *node, uint64_t number) {
    town_t *town = node->town;
    for (size_t i = 0; i < town->nodes.count; i++) {
        node_t *other = town->nodes.items[i];
        if (other->number == 0 || struck_early(node, number, other) == 0) continue;
        uint64_t tombstone = town_tombstone(town, other);
        if (tombstone == 0) tombstone = other->tombstone;
        bool is_right = tombstone != 0 ? tombstone <= number : is_forgotten(town, other);
        if (is_right) continue;
        world_fail(town->world, "%llu are struck off at node %zu; node %zu has closed %llu",
                   LLU(number), node->index, other->index, LLU(other->closed));
    }
}

/* ---- masters and leaders ---- */

/* The state has lost everything while it was cut off, and nobody who has spoken to the state since
 * knows of it: README.md of the room names this. It hears of it when it comes back. */
static bool is_unheard_of(town_t *town, const node_t *node, uint64_t master) {
    size_t size;
    for (size_t i = 0; i < town->nodes.count; i++) {
        const node_t *other = town->nodes.items[i];
        if (node_is_there(other) && other->said >= master &&
            member_knows(other->member, node->incarnation))
            return false;
    }
    return redis_look(town->redis, state_key("m/n/", node->incarnation).text, &size) == NULL;
}

void check_settled(node_t *node, uint64_t master) {
    town_t *town = node->town;
    uint64_t age_ns = world_now_ns(town->world) - town->era_ns;
    if (town->era == master && town->has_lost && age_ns < 5900 * WORLD_MS)
        world_fail(town->world, "%llu is settled after %.3f s", LLU(master), (double)age_ns / 1e9);
    for (size_t i = 0; i < town->nodes.count; i++) {
        node_t *other = town->nodes.items[i];
        if (other->number == 0 || !node_is_there(other) || other->said >= master) continue;
        if (other->tombstone == 0 && !is_unheard_of(town, other, master))
            world_fail(town->world, "node %zu has not said its facts, and %llu is settled",
                       other->index, LLU(master));
    }
}

/* Nobody decides anything in an era that is so young: so whoever goes on can still say what he has
 * heard. Whoever was answered for some time has said it; one that joined when nobody was there, and
 * has not gone on yet, may have missed what others say then. */
void check_over(node_t *node) {
    town_t *town = node->town;
    uint64_t now = world_now_ns(town->world);
    bool is_young = now < town->era_ns + 2 * WORLD_S && town->has_lost;
    bool went_on = machine_clock_ns(node->machine) < node->last_end_ns;
    if (node->why != MEMBER_CONTRADICTED) return;
    if (is_young && went_on)
        world_fail(town->world, "node %zu went on, and was contradicted", node->index);
    if (node->settled != 0 && now > node->unbroken_ns + 5 * WORLD_S)
        world_fail(town->world, "node %zu was contradicted by a state that it spoke to",
                   node->index);
}

/* No two are given the same fencing number, as long as clocks are right. */
static void check_held(node_t *node, uint64_t fence) {
    town_t *town = node->town;
    for (size_t i = 0; i < town->nodes.count; i++) {
        node_t *other = town->nodes.items[i];
        if (other != node && other->held == fence && node_is_there(other))
            world_fail(town->world, "nodes %zu and %zu were both given %llu", other->index,
                       node->index, LLU(fence));
    }
    node->held = fence;
}

void check_leads(node_t *node, uint64_t leader, uint64_t fence) {
    town_t *town = node->town;
    if (leader != 0 && (fence < node->fence ||
                        (fence == node->fence && node->leader != leader && node->leader != 0)))
        world_fail(town->world, "node %zu follows %llu after %llu", node->index, LLU(fence),
                   LLU(node->fence));
    world_tell(town->world, "%zu: %llu leads with %llu", node->index, LLU(leader), LLU(fence));
    if (leader == node->incarnation && !town->has_skew) check_held(node, fence);
    if (leader != node->incarnation || town->has_lost) return;
    for (size_t i = 0; i < town->nodes.count; i++) {
        node_t *other = town->nodes.items[i];
        uint64_t held;
        if (other != node && node_is_there(other) &&
            member_is_leader(other->member, machine_clock_ns(other->machine), &held))
            world_fail(town->world, "nodes %zu and %zu lead", node->index, other->index);
    }
}

void check_decided(node_t *node, uint64_t fence) {
    town_t *town = node->town;
    node_t *other = base_map_get(&town->fences, &fence);
    if (other != NULL && other != node && node_is_there(other))
        world_fail(town->world, "nodes %zu and %zu decide with %llu", other->index, node->index,
                   LLU(fence));
    if (!base_map_put(&town->fences, &fence, node)) abort();
}

/* ---- at the end ---- */

static const char *node_well(town_t *town, const node_t *node, uint64_t era) {
    uint64_t tail = town_number(town, "m/tail");
    if (node->number == 0) return "has not joined";
    if (!node_goes_on(node)) return "has paused";
    if (node->master != era) return "has not met the master";
    if (node->settled != era) return "has not heard that the state has settled";
    if (last_heard(node) < tail && node->number < tail) return "has not heard all tombstones";
    if (node->struck < tail && tail > 0) return "has not struck off all tombstones";
    if (town_tombstone(town, node) != 0) return "is dead and does not know";
    node_t *leader = town_find(town, node->leader);
    if (leader == NULL || !node_is_there(leader)) return "follows nobody";
    return NULL;
}

/* Redis has lost everything, and whoever could have said it again is dead. */
static bool is_lost(town_t *town) {
    for (size_t i = 0; i < town->nodes.count; i++)
        if (town->nodes.items[i]->number != 0 && node_is_there(town->nodes.items[i])) return false;
    return town_number(town, "m/era") == 0;
}

const char *check_well(town_t *town) {
    uint64_t era = town_number(town, "m/era");
    if (is_lost(town)) return NULL;
    for (size_t i = 0; i < town->nodes.count; i++) {
        node_t *node = town->nodes.items[i];
        const char *why = node_is_there(node) ? node_well(town, node, era)
                          : town_tombstone(town, node) != 0 || is_forgotten(town, node)
                              ? NULL
                              : "is gone and was not buried";
        if (why == NULL) continue;
        world_tell(town->world, "not well: node %zu %s", i, why);
        return why;
    }
    return NULL;
}
