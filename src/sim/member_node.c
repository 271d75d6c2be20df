/* Heartbeats of a way that is cut wait, and come when it is healed, as those of a connection do.
 * The rooms of a node close a death and say their facts a little after they hear of it. */
#include "sim/member_node.h"

#include <stdlib.h>
#include <string.h>

#include "member/script.h"
#include "member/state.h"

enum { SILENCE_MS = 2500, LAG_STEP_MS = 400, WAITING_MAX = 6, BLOB_SIZE = 12 };

/* ---- the town ---- */

town_t *town_new(world_t *world) {
    town_t *town = world_alloc(world, sizeof *town);
    town->world = world;
    town->redis = redis_new(world);
    base_map_init(&town->by_incarnation, sizeof(uint64_t));
    base_map_init(&town->links, 2 * sizeof(uint64_t));
    base_map_init(&town->fences, sizeof(uint64_t));
    town->cluster[0] = base_random_next(world_random(world));
    world_check(world, check_stones, town);
    return town;
}

void town_free(town_t *town) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&town->links, &cursor, &key, &value)) {
        link_t *link = value;
        vec_free(&link->waiting);
    }
    for (size_t i = 0; i < town->nodes.count; i++) {
        node_t *node = town->nodes.items[i];
        member_free(node->member);
        machine_free(node->machine);
        vec_free(&node->died);
        vec_free(&node->neighbours);
    }
    base_map_fini(&town->by_incarnation);
    base_map_fini(&town->links);
    base_map_fini(&town->fences);
    vec_free(&town->nodes);
    redis_free(town->redis);
}

node_t *town_find(const town_t *town, uint64_t incarnation) {
    return base_map_get(&town->by_incarnation, &incarnation);
}

uint64_t town_number(town_t *town, const char *key) {
    size_t size = 0;
    const uint8_t *value = redis_look(town->redis, key, &size);
    base_reader_t r = {value, value != NULL ? size : 0, false};
    return base_take_number(&r, 8);
}

uint64_t town_tombstone(town_t *town, const node_t *node) {
    return town_number(town, state_key("m/d/", node->incarnation).text);
}

bool node_is_there(const node_t *node) { return !machine_is_dead(node->machine) && !node->is_over; }

bool node_goes_on(const node_t *node) {
    return node_is_there(node) && machine_clock_ns(node->machine) < node->end_ns;
}

static uint64_t soon(world_t *world) {
    bool is_slow = base_random_chance(world_random(world), 1, 20);
    return world_between(world, 50 * WORLD_US, is_slow ? 60 * WORLD_MS : 2 * WORLD_MS);
}

/* ---- what a node is told ---- */

typedef struct {
    node_t *node;
    uint64_t request, fence;
    bool decides;
} question_t;

static void tick(void *context, uint64_t argument);

static void tick_at(node_t *node, uint64_t at_ns) {
    uint64_t now = machine_clock_ns(node->machine);
    node->tick_ns = at_ns;
    machine_later(node->machine, (at_ns > now ? at_ns - now : 0) + WORLD_MS, 0, tick, node, at_ns);
}

/* Only the newest of its ticks counts. */
static void tick(void *context, uint64_t argument) {
    node_t *node = context;
    if (argument != node->tick_ns || node->is_over) return;
    tick_at(node, member_tick(node->member, machine_clock_ns(node->machine)));
}

static void tick_now(node_t *node) {
    if (node->is_over) return;
    uint64_t at = member_tick(node->member, machine_clock_ns(node->machine));
    if (at < node->tick_ns) tick_at(node, at);
}

static void replied(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    question_t *q = context;
    node_t *node = q->node;
    if (node->is_deaf) answer = NULL;
    uint64_t now = world_now_ns(node->town->world);
    if (now > node->answered_ns + MEMBER_TERM_MS * WORLD_MS) node->unbroken_ns = now;
    if (answer != NULL) node->answered_ns = now;
    base_reader_t r = {answer, answer != NULL ? size : 0, false};
    if (base_take_number(&r, 8) == MEMBER_SAYS_OK && q->decides) check_decided(node, q->fence);
    if (member_answer(node->member, machine_clock_ns(node->machine), q->request, answer, size) !=
        MOB_OK)
        world_fail(node->town->world, "node %zu was answered nonsense", node->index);
    world_release(node->town->world, q);
    tick_now(node);
}

static void go_on(void *context, uint64_t argument) {
    (void)argument;
    machine_go_on(context);
}

static void stop_now(void *context, uint64_t argument) {
    (void)argument;
    node_t *node = context;
    if (node->stops_ns == 0) return;
    machine_stop(node->machine);
    world_later(node->town->world, node->stops_ns, 0, go_on, node->machine, 0);
    node->stops_ns = 0;
}

/* Set when a script decided for one who did not lead; looked at after the event. An answer that is
 * read late is no sign of that. */
static bool was_stale;

bool town_was_stale(void) {
    bool is_stale = was_stale;
    was_stale = false;
    return is_stale;
}

static size_t watched(script_fn script, const script_keys_t *keys, const void *arguments,
                      size_t size, void *answer) {
    size_t used = 0, answered = script(keys, arguments, size, answer);
    base_reader_t r = {answer, answered, false}, a = {arguments, size, false};
    const void *lead = keys->get(keys->context, "m/lead", &used);
    bool leads = lead != NULL && used == 16 && memcmp(lead, base_take_bytes(&a, 16), 16) == 0;
    was_stale |= base_take_number(&r, 8) == MEMBER_SAYS_OK && !leads;
    return answered;
}

static size_t watched_bury(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    return watched(member_script_bury, keys, arguments, size, answer);
}

static size_t watched_condemn(const script_keys_t *keys, const void *arguments, size_t size,
                              void *answer) {
    return watched(member_script_condemn, keys, arguments, size, answer);
}

static script_fn watched_script(script_fn script) {
    if (script == member_script_bury) return watched_bury;
    return script == member_script_condemn ? watched_condemn : script;
}

static void op_ask(void *context, uint64_t request, script_fn script, const void *arguments,
                   size_t size) {
    node_t *node = context;
    question_t *q = world_alloc(node->town->world, sizeof *q);
    base_reader_t r = {arguments, size, false};
    *q = (question_t){.node = node, .request = request};
    q->decides = script == member_script_bury || script == member_script_condemn;
    base_take_number(&r, 8);
    q->fence = base_take_number(&r, 8);
    redis_t *redis = node->town->redis;
    bool falters = node->falters_ns != 0 && script == member_script_bury;
    if (falters) {
        redis_slow(redis, node->machine, true);
        node->stops_ns = node->falters_ns;
        node->falters_ns = 0;
    }
    redis_ask(redis, node->machine, watched_script(script), arguments, size, replied, q);
    if (falters) redis_slow(redis, node->machine, false);
    if (node->stops_ns != 0) world_later(node->town->world, 0, 0, stop_now, node, 0);
}

typedef struct {
    node_t *from, *to;
    uint8_t bytes[MEMBER_PULSE_SIZE];
    size_t size;
} message_t;

static void message_come(void *context, uint64_t argument) {
    (void)argument;
    message_t *message = context;
    node_t *to = message->to;
    if (!link_of(message->from, to)->is_cut &&
        member_receive(to->member, machine_clock_ns(to->machine), message->from->incarnation,
                       message->bytes, message->size) != MOB_OK)
        world_fail(to->town->world, "node %zu was sent nonsense", to->index);
    world_release(to->town->world, message);
}

static void op_send(void *context, uint64_t peer, const void *bytes, size_t size) {
    node_t *node = context, *to = town_find(node->town, peer);
    message_t *message = world_alloc(node->town->world, sizeof *message);
    *message = (message_t){.from = node, .to = to, .size = size};
    memcpy(message->bytes, bytes, size);
    machine_later(to->machine, soon(node->town->world), 0, message_come, message, 0);
}

static void op_began(void *context, uint64_t number) {
    node_t *node = context;
    node->number = number;
    if (node->closed < number) node->closed = number;
    world_tell(node->town->world, "%zu: began with %llu", node->index, (unsigned long long)number);
}

static void op_joined(void *context, uint64_t peer, const void *blob, size_t size) {
    node_t *node = context, *other = town_find(node->town, peer);
    if (size != BLOB_SIZE || memcmp(blob, &peer, sizeof peer) != 0 || other == NULL)
        world_fail(node->town->world, "node %zu met somebody unknown", node->index);
}

static void close_death(void *context, uint64_t number) {
    node_t *node = context;
    if (node->is_over || number <= node->closed) return;
    node->closed = number;
    member_closed(node->member, number);
}

static void op_died(void *context, uint64_t peer, uint64_t number) {
    node_t *node = context;
    world_t *world = node->town->world;
    check_died(node, peer, number);
    if (!vec_push(&node->died, ((heard_t){number, peer}))) abort();
    bool is_slow = base_random_chance(world_random(world), 1, 8);
    machine_later(node->machine, world_between(world, 0, (is_slow ? 3000 : 50) * WORLD_MS),
                  (uint64_t)(uintptr_t)node ^ 5, close_death, node, number);
}

static void op_struck(void *context, uint64_t number) {
    node_t *node = context;
    check_struck(node, number);
    node->struck = number;
}

static void op_term(void *context, uint64_t end_ns) {
    node_t *node = context;
    node->last_end_ns = node->end_ns;
    node->end_ns = end_ns;
    if (node_goes_on(node)) check_goes_on(node);
}

static void op_paused(void *context, bool paused) {
    node_t *node = context;
    node->is_paused = paused;
    world_tell(node->town->world, "%zu: %s", node->index, paused ? "paused" : "goes on");
    if (paused && node->town->must_not_pause && !node->is_over)
        world_fail(node->town->world, "node %zu paused without a reason", node->index);
}

static void op_leads(void *context, uint64_t leader, uint64_t fence) {
    node_t *node = context;
    check_leads(node, leader, fence);
    node->leader = leader;
    node->fence = fence;
}

static void say_facts(void *context, uint64_t master) {
    node_t *node = context;
    if (node->is_over || master <= node->said) return;
    node->said = master;
    member_said(node->member, master);
}

static void op_master(void *context, uint64_t master) {
    node_t *node = context;
    town_t *town = node->town;
    if (master <= node->master)
        world_fail(town->world, "node %zu met an old master again", node->index);
    bool is_first = node->master == 0;
    node->master = master;
    node->unbroken_ns = world_now_ns(town->world);
    if (is_first) node->said = master;
    if (master > town->era) town->era_ns = world_now_ns(town->world);
    if (master > town->era) town->era = master;
    world_tell(town->world, "%zu: master %llu", node->index, (unsigned long long)master);
    bool is_slow = base_random_chance(world_random(town->world), 1, 8);
    machine_later(node->machine, world_between(town->world, 0, (is_slow ? 10000 : 1000) * WORLD_MS),
                  0, say_facts, node, master);
}

static void op_settled(void *context, uint64_t master) {
    node_t *node = context;
    check_settled(node, master);
    node->settled = master;
    world_tell(node->town->world, "%zu: settled %llu", node->index, (unsigned long long)master);
}

static void op_over(void *context, member_end_t why, uint64_t number) {
    node_t *node = context;
    node->is_over = true;
    node->why = why;
    check_over(node);
    if (node->killed_ns == 0) node->killed_ns = world_now_ns(node->town->world);
    world_tell(node->town->world, "%zu: over, %d, tombstone %llu", node->index, why,
               (unsigned long long)number);
}

static void op_poisoned(void *context, const char *key) {
    node_t *node = context;
    world_fail(node->town->world, "node %zu: the value of %s is poisoned", node->index, key);
}

static const member_ops_t ops = {.ask = op_ask,
                                 .send = op_send,
                                 .began = op_began,
                                 .joined = op_joined,
                                 .died = op_died,
                                 .struck = op_struck,
                                 .term = op_term,
                                 .paused = op_paused,
                                 .leads = op_leads,
                                 .master = op_master,
                                 .settled = op_settled,
                                 .over = op_over,
                                 .poisoned = op_poisoned};

/* ---- links ---- */

link_t *link_of(node_t *from, node_t *to) {
    town_t *town = from->town;
    uint64_t key[2] = {from->incarnation, to->incarnation};
    link_t *link = base_map_get(&town->links, key);
    if (link != NULL) return link;
    link = world_alloc(town->world, sizeof *link);
    link->from = from;
    link->to = to;
    link->heard_ns = machine_clock_ns(to->machine);
    if (!base_map_put(&town->links, key, link)) abort();
    return link;
}

static void pulse_hear(link_t *link, uint8_t *pulse) {
    node_t *to = link->to;
    uint64_t now = machine_clock_ns(to->machine);
    link->heard_ns = now;
    if (!to->is_over && member_pulse_read(to->member, now, link->from->incarnation, pulse,
                                          MEMBER_PULSE_SIZE) != MOB_OK)
        world_fail(to->town->world, "node %zu heard a bad pulse", to->index);
    world_release(to->town->world, pulse);
    tick_now(to);
}

typedef struct {
    link_t *link;
    uint8_t *pulse;
} flight_t;

static void pulse_come(void *context, uint64_t argument) {
    link_t *link = context;
    uint8_t *pulse = (uint8_t *)(uintptr_t)argument;
    if (!link->is_cut) {
        pulse_hear(link, pulse);
        return;
    }
    if (link->waiting.count < WAITING_MAX && vec_push(&link->waiting, pulse)) return;
    world_release(link->to->town->world, pulse);
}

void link_cut(link_t *link) { link->is_cut = true; }

void link_heal(link_t *link) {
    link->is_cut = false;
    for (size_t i = 0; i < link->waiting.count; i++)
        machine_later(link->to->machine, i + 1, (uint64_t)(uintptr_t)link, pulse_come, link,
                      (uintptr_t)link->waiting.items[i]);
    link->waiting.count = 0;
}

static void watch_silence(node_t *node, node_t *other, uint64_t now) {
    link_t *link = link_of(other, node);
    bool is_silent = now > link->heard_ns + SILENCE_MS * WORLD_MS;
    if (is_silent == link->is_silent) return;
    if (member_complain(node->member, other->incarnation, is_silent) != MOB_OK) return;
    link->is_silent = is_silent && member_knows(node->member, other->incarnation);
}

static void beat_to(node_t *node, node_t *other, uint64_t now, bool is_late) {
    if (!member_knows(node->member, other->incarnation) &&
        !(node->number != 0 && !machine_is_dead(other->machine)))
        return;
    if (is_late) link_of(other, node)->heard_ns = now; /* it suspects itself first */
    watch_silence(node, other, now);
    uint8_t *pulse = world_alloc(node->town->world, MEMBER_PULSE_SIZE);
    member_pulse_write(node->member, now, other->incarnation, pulse);
    link_t *link = link_of(node, other);
    link->lag_ns += LAG_STEP_MS * WORLD_MS;
    if (link->lag_ns > link->lag_max_ns) link->lag_ns = link->lag_max_ns;
    machine_later(other->machine, link->lag_ns + soon(node->town->world), (uint64_t)(uintptr_t)link,
                  pulse_come, link, (uintptr_t)pulse);
}

static void beat(void *context, uint64_t argument) {
    (void)argument;
    node_t *node = context;
    if (node->is_over) return;
    uint64_t now = machine_clock_ns(node->machine);
    bool is_late = now > node->beat_ns + 1000 * WORLD_MS;
    node->beat_ns = now;
    for (size_t i = 0; i < node->neighbours.count; i++) {
        node_t *other = node->town->nodes.items[node->neighbours.items[i]];
        if (!other->is_over) beat_to(node, other, now, is_late);
    }
    machine_later(node->machine, MEMBER_RENEW_MS * WORLD_MS, 0, beat, node, 0);
}

/* ---- a node ---- */

static void wake(void *context) {
    node_t *node = context;
    if (!node->is_over) tick_at(node, member_tick(node->member, machine_clock_ns(node->machine)));
}

static void leave_now(void *context, uint64_t argument) {
    node_t *node = context;
    if (node->is_over) return;
    node->stops_ns = argument;
    member_leave(node->member, machine_clock_ns(node->machine));
    tick_now(node);
}

void node_leave(node_t *node, uint64_t stops_ns) {
    machine_later(node->machine, 0, 0, leave_now, node, stops_ns);
}

static void neighbours_make(town_t *town, node_t *node) {
    size_t count = town->nodes.count;
    for (size_t back = 1; back < count && back <= town->neighbours_max / 2; back++) {
        node_t *other = town->nodes.items[count - 1 - back];
        if (!vec_push(&node->neighbours, other->index)) abort();
        if (!vec_push(&other->neighbours, node->index)) abort();
    }
}

node_t *node_new(town_t *town, const node_t *before) {
    node_t *node = world_alloc(town->world, sizeof *node);
    node->town = town;
    node->index = town->nodes.count;
    node->machine = machine_new(town->world);
    node->incarnation = base_random_next(world_random(town->world)) | 1;
    node->is_paused = true;
    uint8_t blob[BLOB_SIZE] = {0};
    memcpy(blob, &node->incarnation, sizeof node->incarnation);
    member_config_t config = {.self = node->incarnation,
                              .cluster = {town->cluster[0], town->cluster[1]},
                              .founds = town->nodes.count == 0,
                              .blob = blob,
                              .blob_size = sizeof blob,
                              .buries = before != NULL ? &before->incarnation : NULL,
                              .buries_count = before != NULL};
    if (member_new(&config, &ops, node, &node->member) != MOB_OK) abort();
    if (!base_map_put(&town->by_incarnation, &node->incarnation, node)) abort();
    if (!vec_push(&town->nodes, node)) abort();
    neighbours_make(town, node);
    machine_on_wake(node->machine, wake, node);
    tick_at(node, machine_clock_ns(node->machine));
    machine_later(node->machine, world_between(town->world, 0, MEMBER_RENEW_MS * WORLD_MS), 0, beat,
                  node, 0);
    return node;
}
