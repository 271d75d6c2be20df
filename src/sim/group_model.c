/*
 * What is checked when a room acts, and so after every event in which anything could have changed:
 *
 * - a node gives out no more than it has, and no reservation twice;
 * - an attempt is never both committed and aborted, unless its group ends;
 * - a bundle is committed on one living node only;
 * - STRICT_PACK and STRICT_SPREAD hold among the committed bundles;
 * - what is committed is not given back, unless its group ends;
 * - READY is said only if every bundle's node holds it for good, or has died since and is not known
 *   to be dead where it is said;
 * - REMOVED is said only of groups that end; no two groups have a name.
 */
#include "sim/group_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group/script.h"
#include "group/spec.h"

static const char *const names[MODEL_NAMES] = {"red", "green", "blue"};
const char *group_model_name(int name) { return name < 0 ? "" : names[name]; }

group_model_node_t *group_model_node(const group_model_t *m, uint64_t incarnation) {
    return base_map_get(&m->by_incarnation, &incarnation);
}

typedef struct {
    uint64_t home, number;
} pair_t;

group_model_group_t *group_model_group(const group_model_t *m, const frame_id_t *id) {
    pair_t pair = {id->home, id->number};
    return base_map_get(&m->by_id, &pair);
}

bool group_model_is_alive(const group_model_t *m, const group_model_node_t *node) {
    (void)m;
    return !machine_is_dead(host_machine(node->host)) && node->buried_ms == 0;
}

/* The master lost that it was made, and its home died before it could say so again: nobody else
 * can. */
static bool is_lost(const group_model_t *m, const group_model_group_t *g) {
    if (!g->is_lost || group_model_is_alive(m, group_model_node(m, g->id.home))) return false;
    const uint8_t *record = group_model_record(m, g);
    return record == NULL || *record != GROUP_RECORD_LIVE;
}

bool group_model_is_ending(const group_model_t *m, const group_model_group_t *g) {
    pair_t job = {g->job.home, g->job.number};
    if (g->is_unwanted || g->is_refused || is_lost(m, g)) return true;
    if (g->detached) return false;
    return base_map_get(&m->ended, &job) != NULL ||
           !group_model_is_alive(m, group_model_node(m, g->job.home));
}

bool group_model_is_ended(const group_model_t *m, const group_model_group_t *g) {
    group_model_group_t wanted = *g;
    wanted.is_unwanted = false;
    if (group_model_is_ending(m, &wanted)) return true;
    for (size_t i = 0; i < g->removers.count; i++)
        if (group_model_is_alive(m, g->removers.items[i])) return true;
    return false;
}

uint64_t group_model_free_now(const group_model_node_t *node) {
    uint64_t held = node->busy;
    for (size_t i = 0; i < node->holds.count; i++) held += node->holds.items[i].amount;
    if (held > node->total)
        world_fail(node->model->world, "a node has %llu and gave out %llu",
                   (unsigned long long)node->total, (unsigned long long)held);
    return node->total - held;
}

static group_model_hold_t *hold_find(const group_model_node_t *node, const group_key_t *key) {
    for (size_t i = 0; i < node->holds.count; i++) {
        group_model_hold_t *hold = &node->holds.items[i];
        if (hold->key.id.home == key->id.home && hold->key.id.number == key->id.number &&
            hold->key.bundle == key->bundle && hold->key.fence == key->fence &&
            hold->key.attempt == key->attempt)
            return hold;
    }
    return NULL;
}

/* A committed hold of the bundle on this node; NULL. */
static group_model_hold_t *bundle_find(const group_model_node_t *node, const group_model_group_t *g,
                                       size_t bundle) {
    for (size_t i = 0; i < node->holds.count; i++) {
        group_model_hold_t *hold = &node->holds.items[i];
        if (hold->is_committed && hold->key.id.home == g->id.home &&
            hold->key.id.number == g->id.number && hold->key.bundle == bundle)
            return hold;
    }
    return NULL;
}

static group_model_attempt_t *attempt_of(group_model_group_t *g, const group_key_t *key) {
    for (size_t i = 0; i < g->attempts.count; i++)
        if (g->attempts.items[i].fence == key->fence &&
            g->attempts.items[i].attempt == key->attempt)
            return &g->attempts.items[i];
    group_model_attempt_t attempt = {.fence = key->fence, .attempt = key->attempt};
    if (!vec_push(&g->attempts, attempt)) abort();
    return &g->attempts.items[g->attempts.count - 1];
}

static void attempt_check(const group_model_t *m, group_model_group_t *g,
                          const group_model_attempt_t *attempt) {
    if (attempt->is_committed && attempt->is_aborted && !group_model_is_ending(m, g))
        world_fail(m->world, "group %u: attempt %llu of leader %llu is COMMITTED and ABORTED",
                   g->id.number, (unsigned long long)attempt->attempt,
                   (unsigned long long)attempt->fence);
}

bool group_model_is_placed(const group_model_t *m, const group_model_group_t *g) {
    for (size_t b = 0; b < g->count; b++) {
        bool is_there = false;
        for (size_t i = 0; i < m->nodes.count && !is_there; i++)
            is_there = bundle_find(m->nodes.items[i], g, b) != NULL &&
                       group_model_is_alive(m, m->nodes.items[i]);
        if (!is_there) return false;
    }
    return true;
}

/* ---- what the room asks of its node ---- */

static void op_send(void *context, uint64_t to, const void *bytes, size_t size) {
    group_model_node_t *node = context;
    (void)host_send(node->host, HOST_GROUP, to, bytes, size, false);
}

static void op_ask(void *context, script_fn script, const void *arguments, size_t size,
                   void (*reply)(void *, uint64_t, const void *, size_t), void *ask) {
    group_model_node_t *node = context;
    host_ask(node->host, script, arguments, size, reply, ask);
}

static void op_said(void *context, uint64_t master) {
    host_said(((group_model_node_t *)context)->host, HOST_GROUP, master);
}

static bool op_is_dead(void *context, uint64_t peer) {
    return host_knows_dead(((group_model_node_t *)context)->host, peer);
}

static bool op_matches(void *context, const char *selector, const char *labels) {
    (void)context;
    return *selector == 0 || strcmp(selector, labels) == 0;
}

static bool op_reserve(void *context, const group_key_t *key, const group_spec_t *spec) {
    group_model_node_t *node = context;
    const group_run_t *run = group_spec_run(spec, key->bundle);
    group_model_hold_t hold = {.key = *key, .amount = run->demand.items[0].amount};
    if (hold_find(node, key) != NULL)
        world_fail(node->model->world, "group %u: a bundle is reserved twice", key->id.number);
    if (!op_matches(node, run->selector, node->labels) || group_model_free_now(node) < hold.amount)
        return false;
    if (!vec_push(&node->holds, hold)) abort();
    (void)group_model_free_now(node);
    return true;
}

/* The strategy, among what is committed on living nodes. */
static void strategy_check(const group_model_node_t *node, const group_model_group_t *g,
                           size_t bundle) {
    const group_model_t *m = node->model;
    for (size_t i = 0; i < m->nodes.count; i++) {
        const group_model_node_t *other = m->nodes.items[i];
        for (size_t b = 0; b < g->count; b++) {
            if (bundle_find(other, g, b) == NULL || (other == node && b == bundle)) continue;
            bool is_wrong = b == bundle || (g->strategy == MOB_STRICT_SPREAD && other == node) ||
                            (g->strategy == MOB_STRICT_PACK && other != node);
            if (is_wrong && group_model_is_alive(m, other) && group_model_is_alive(m, node) &&
                !group_model_is_ending(m, g))
                world_fail(m->world, "group %u: bundle %zu here and bundle %zu %s", g->id.number,
                           bundle, b, other == node ? "here too" : "on another node");
        }
    }
}

static void op_commit(void *context, const group_key_t *key) {
    group_model_node_t *node = context;
    group_model_hold_t *hold = hold_find(node, key);
    group_model_group_t *g = group_model_group(node->model, &key->id);
    if (hold == NULL || hold->is_committed) {
        world_fail(node->model->world, "group %u: committed what is not reserved", key->id.number);
        return;
    }
    hold->is_committed = true;
    world_tell(node->model->world, "%llx commits group %u, bundle %u, attempt %llu",
               (unsigned long long)host_incarnation(node->host) >> 48, key->id.number, key->bundle,
               (unsigned long long)key->attempt);
    group_model_attempt_t *attempt = attempt_of(g, key);
    attempt->is_committed = true;
    attempt_check(node->model, g, attempt);
    strategy_check(node, g, key->bundle);
}

static void op_release(void *context, const group_key_t *key) {
    group_model_node_t *node = context;
    group_model_hold_t *hold = hold_find(node, key);
    group_model_group_t *g = group_model_group(node->model, &key->id);
    if (hold == NULL) {
        world_fail(node->model->world, "group %u: gave back what it has not", key->id.number);
        return;
    }
    world_tell(node->model->world, "%llx gives back group %u, bundle %u, attempt %llu",
               (unsigned long long)host_incarnation(node->host) >> 48, key->id.number, key->bundle,
               (unsigned long long)key->attempt);
    if (hold->is_committed && !group_model_is_ending(node->model, g))
        world_fail(node->model->world, "group %u: a committed bundle was given back",
                   key->id.number);
    if (!hold->is_committed && key->fence != 0) {
        group_model_attempt_t *attempt = attempt_of(g, key);
        attempt->is_aborted = true;
        attempt_check(node->model, g, attempt);
    }
    vec_swap_remove(&node->holds, hold - node->holds.items);
    group_freed(node->room);
}

static frame_demand_t op_view(void *context, const char **ret_labels) {
    group_model_node_t *node = context;
    node->view = (frame_amount_t){"CPU", group_model_free_now(node)};
    *ret_labels = node->labels;
    return (frame_demand_t){&node->view, 1};
}

/* ---- what is told ---- */

static void ready_check(const group_model_node_t *node, const group_model_group_t *g,
                        const uint64_t *nodes, size_t count) {
    const group_model_t *m = node->model;
    for (size_t b = 0; b < g->count; b++) {
        uint64_t at = nodes[count == 1 ? 0 : b];
        group_model_node_t *holder = group_model_node(m, at);
        if (host_knows_dead(node->host, at) && holder != node)
            world_fail(m->world, "group %u: READY with a node that is known to be dead",
                       g->id.number);
        if (group_model_is_alive(m, holder) && bundle_find(holder, g, b) == NULL)
            world_fail(m->world, "group %u: READY, but bundle %zu is not held", g->id.number, b);
    }
}

static void name_check(const group_model_t *m, const group_model_group_t *g) {
    if (group_model_is_ending(m, g)) return; /* it may have had the name before */
    for (size_t i = 0; g->name >= 0 && i < m->groups.count; i++) {
        const group_model_group_t *other = m->groups.items[i];
        if (other != g && other->name == g->name && other->is_made &&
            !group_model_is_ending(m, other))
            world_fail(m->world, "groups %u and %u are both called %s", other->id.number,
                       g->id.number, group_model_name(g->name));
    }
}

static void op_told(void *context, const frame_id_t *id, group_state_t state, const uint64_t *nodes,
                    size_t count) {
    static const char *const words[] = {"", "WAITING", "READY", "RESCHEDULING", "REMOVED", "TAKEN"};
    group_model_node_t *node = context;
    group_model_t *m = node->model;
    group_model_group_t *g = group_model_group(m, id);
    world_tell(m->world, "%llx is told: group %u is %s",
               (unsigned long long)host_incarnation(node->host) >> 48, id->number, words[state]);
    if (host_incarnation(node->host) == id->home) g->told = state;
    if (state == GROUP_WAITING || state == GROUP_READY) {
        if (!g->is_made) name_check(m, g);
        g->is_made = true;
    }
    if (state == GROUP_READY && !group_model_is_ending(m, g)) ready_check(node, g, nodes, count);
    g->is_refused |= state == GROUP_NAME_TAKEN;
    /* a group whose home dies while it asks for it may never have been */
    bool was_never = !g->is_made && !group_model_is_alive(m, group_model_node(m, id->home));
    if (state == GROUP_REMOVED && !group_model_is_ending(m, g) && !was_never)
        world_fail(m->world, "group %u is REMOVED, and nobody has asked for that", id->number);
    if (state == GROUP_REMOVED && !vec_push(&g->removers, node)) abort();
}

static void op_found(void *context, uint64_t request, mob_status_t status, const frame_id_t *id) {
    group_model_node_t *node = context;
    if (request < MODEL_NAMES)
        node->model->found[request] = status == MOB_OK ? *id : (frame_id_t){0};
}

static void job_ended(void *context, uint64_t home);

/* Each node hears of it at a time of its own. */
static void op_job_written(void *context, frame_job_t job) {
    group_model_node_t *node = context;
    group_model_t *m = node->model;
    pair_t pair = {job.home, job.number};
    if (!base_map_put(&m->written, &pair, m)) abort();
    for (size_t i = 0; i < m->nodes.count; i++)
        machine_later(host_machine(m->nodes.items[i]->host),
                      world_between(m->world, WORLD_MS, WORLD_S), 0, job_ended, m->nodes.items[i],
                      job.home);
}

static const group_ops_t ops = {.send = op_send,
                                .ask = op_ask,
                                .said = op_said,
                                .is_dead = op_is_dead,
                                .reserve = op_reserve,
                                .commit = op_commit,
                                .release = op_release,
                                .view = op_view,
                                .matches = op_matches,
                                .told = op_told,
                                .found = op_found,
                                .job_written = op_job_written};

/* ---- what the node tells its room ---- */

static void turn(void *context, uint64_t argument) {
    (void)argument;
    group_model_node_t *node = context;
    node->is_due = false;
    group_turn(node->room, machine_clock_ns(host_machine(node->host)) / 1000000);
}

void group_model_turn(group_model_node_t *node) {
    if (node->is_due) return;
    node->is_due = true;
    machine_later(host_machine(node->host), world_between(node->model->world, 0, 200 * WORLD_US), 0,
                  turn, node, 0);
}

static void tick(void *context, uint64_t argument) {
    (void)argument;
    group_model_node_t *node = context;
    turn(node, 0);
    machine_later(host_machine(node->host), 100 * WORLD_MS, 0, tick, node, 0);
}

static void receive(void *room, uint64_t from, uint64_t sequence, const void *bytes, size_t size) {
    (void)sequence;
    group_model_node_t *node = room;
    if (group_receive(node->room, from, bytes, size) != MOB_OK)
        world_fail(node->model->world, "a message makes no sense");
    group_model_turn(node);
}

static void died(void *room, uint64_t peer, uint64_t number) {
    world_tell(((group_model_node_t *)room)->model->world, "%llx hears that %llx is dead, %llu",
               (unsigned long long)host_incarnation(((group_model_node_t *)room)->host) >> 48,
               (unsigned long long)peer >> 48, (unsigned long long)number);
    group_model_node_t *dead = group_model_node(((group_model_node_t *)room)->model, peer);
    if (dead->buried_ms == 0) dead->buried_ms = world_now_ns(dead->model->world) / WORLD_MS;
    group_died(((group_model_node_t *)room)->room, peer);
    group_model_turn(room);
}

static void leads(void *room, uint64_t leader, uint64_t fence) {
    world_tell(((group_model_node_t *)room)->model->world, "%llx hears that %llx leads, %llu",
               (unsigned long long)host_incarnation(((group_model_node_t *)room)->host) >> 48,
               (unsigned long long)leader >> 48, (unsigned long long)fence);
    if (fence > ((group_model_node_t *)room)->model->fence)
        ((group_model_node_t *)room)->model->fence = fence;
    group_leads(((group_model_node_t *)room)->room, leader, fence);
    group_model_turn(room);
}

static void master(void *room, uint64_t number) {
    world_tell(((group_model_node_t *)room)->model->world, "%llx hears of master %llu",
               (unsigned long long)host_incarnation(((group_model_node_t *)room)->host) >> 48,
               (unsigned long long)number);
    group_master(((group_model_node_t *)room)->room, number);
}

static void settled(void *room, uint64_t number) {
    world_tell(((group_model_node_t *)room)->model->world,
               "%llx hears that master %llu has settled",
               (unsigned long long)host_incarnation(((group_model_node_t *)room)->host) >> 48,
               (unsigned long long)number);
    group_settled(((group_model_node_t *)room)->room, number);
    group_model_turn(room);
}

static const host_room_ops_t host_ops = {
    .receive = receive, .died = died, .leads = leads, .master = master, .settled = settled};

bool group_model_has_heard(const group_model_node_t *node, frame_job_t job) {
    pair_t pair = {job.home, job.number};
    return base_map_get(&node->heard, &pair) != NULL;
}

static void job_ended(void *context, uint64_t home) {
    group_model_node_t *node = context;
    group_model_t *m = node->model;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&m->written, &cursor, &key, &value)) {
        pair_t job;
        memcpy(&job, key, sizeof job);
        if (job.home != home) continue;
        if (!base_map_put(&node->heard, &job, node)) abort();
        world_tell(m->world, "%llx hears that job %llx %llu has ended",
                   (unsigned long long)host_incarnation(node->host) >> 48,
                   (unsigned long long)home >> 48, (unsigned long long)job.number);
        group_job_ended(node->room, (frame_job_t){home, (uint32_t)job.number});
    }
    group_model_turn(node);
}

void group_model_job_end(group_model_t *m, group_model_node_t *home) {
    uint64_t incarnation = host_incarnation(home->host);
    pair_t job = {incarnation, home->job};
    if (!base_map_put(&m->ended, &job, m)) abort();
    if (group_job_end(home->room, (frame_job_t){incarnation, home->job}) != MOB_OK) abort();
    home->job++;
    group_job_ended(home->room, (frame_job_t){incarnation, home->job - 1});
    group_model_turn(home);
}

/* ---- making and freeing ---- */

group_model_t *group_model_new(world_t *world, cluster_t *cluster) {
    group_model_t *m = world_alloc(world, sizeof *m);
    m->world = world;
    m->cluster = cluster;
    base_map_init(&m->by_incarnation, sizeof(uint64_t));
    base_map_init(&m->by_id, sizeof(pair_t));
    base_map_init(&m->ended, sizeof(pair_t));
    base_map_init(&m->written, sizeof(pair_t));
    return m;
}

void group_model_free(group_model_t *m) {
    for (size_t i = 0; i < m->nodes.count; i++) {
        group_free(m->nodes.items[i]->room);
        vec_free(&m->nodes.items[i]->holds);
        base_map_fini(&m->nodes.items[i]->heard);
    }
    for (size_t i = 0; i < m->groups.count; i++) {
        vec_free(&m->groups.items[i]->attempts);
        vec_free(&m->groups.items[i]->removers);
    }
    vec_free(&m->nodes);
    vec_free(&m->groups);
    base_map_fini(&m->by_incarnation);
    base_map_fini(&m->by_id);
    base_map_fini(&m->ended);
    base_map_fini(&m->written);
}

group_model_node_t *group_model_node_new(group_model_t *m) {
    group_model_node_t *node = world_alloc(m->world, sizeof *node);
    node->model = m;
    node->host = host_new(m->cluster);
    base_map_init(&node->heard, sizeof(pair_t));
    node->total = world_between(m->world, 2, 6);
    node->labels = base_random_chance(world_random(m->world), 1, 2) ? "zone=a" : "zone=b";
    uint64_t incarnation = host_incarnation(node->host);
    if (group_new(&ops, node, incarnation, &node->room) != MOB_OK) abort();
    if (!vec_push(&m->nodes, node) || !base_map_put(&m->by_incarnation, &incarnation, node))
        abort();
    host_room(node->host, HOST_GROUP, &host_ops, node);
    machine_later(host_machine(node->host), world_between(m->world, 0, 100 * WORLD_MS), 0, tick,
                  node, 0);
    for (size_t i = 0; i < m->nodes.count; i++) /* it hears of jobs that ended before it came */
        machine_later(host_machine(node->host), world_between(m->world, WORLD_MS, WORLD_S), 0,
                      job_ended, node, host_incarnation(m->nodes.items[i]->host));
    return node;
}

group_model_group_t *group_model_group_new(group_model_t *m, group_model_node_t *node) {
    group_model_group_t *g = world_alloc(m->world, sizeof *g);
    g->id = (frame_id_t){host_incarnation(node->host), (uint32_t)m->groups.count + 1, 1};
    g->job = (frame_job_t){g->id.home, node->job};
    g->name = -1;
    pair_t pair = {g->id.home, g->id.number};
    if (!vec_push(&m->groups, g) || !base_map_put(&m->by_id, &pair, g)) abort();
    return g;
}
