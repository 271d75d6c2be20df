/*
 * Messages of one host to another are a line of events, so they keep their order. While the two are
 * cut apart, the messages wait in a list. A kill is followed by a tombstone, of which each host
 * hears at a time of its own, in the order of their numbers; what was on its way from the dead one
 * and has not come by then never comes.
 *
 * Membership is a judge who sees everything (`watch`), and is as hard on the rooms as the real one
 * may be: it pauses a node at the last moment, and changes the leader without a reason.
 */
#include "sim/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/rule.h"
#include "base/vec.h"

typedef struct message {
    struct host *from, *to;
    host_room_t room;
    uint64_t sequence;
    size_t size;
    uint8_t bytes[];
} message_t;

/* One direction between two hosts. */
typedef struct {
    struct host *from, *to;
    uint64_t sent, received;
    bool is_cut, is_known, is_closed; /* at the receiver: joined; dead */
    bool is_silent;
    uint64_t silent_ms;
    VEC(message_t *) waiting;
} way_t;

struct host {
    cluster_t *cluster;
    machine_t *machine;
    uint64_t incarnation;
    size_t index;
    uint64_t number; /* of its tombstone; 0: none */
    uint64_t told;   /* tombstones that this host has heard of */
    uint64_t closed[HOST_ROOMS];
    uint64_t missed_ms;        /* without an answered renewal, while Redis is there */
    uint64_t master, settled;  /* that it was told of */
    uint64_t said[HOST_ROOMS]; /* master */
    uint64_t leader, fence;    /* that it was told of */
    bool is_paused;
    const host_room_ops_t *ops[HOST_ROOMS];
    void *rooms[HOST_ROOMS];
};

struct cluster {
    world_t *world;
    redis_t *redis;
    VEC(host_t *) hosts;
    VEC(host_t *) dead; /* by number of tombstone, from 1 */
    base_map_t ways;    /* (from, to) to way_t */
    base_map_t by_incarnation;
    uint64_t struck;
    uint64_t leader, fence; /* incarnation; 0: nobody */
    uint64_t settled;       /* master */
    bool is_watched;
    bool hears_silence; /* some room does */
};

static void watch(void *context, uint64_t argument);
static void host_wake(void *context);
static void meet_master(host_t *host, uint64_t master);

/* ---- the cluster ---- */

cluster_t *cluster_new(world_t *world) {
    cluster_t *c = world_alloc(world, sizeof *c);
    c->world = world;
    c->redis = redis_new(world);
    base_map_init(&c->ways, 2 * sizeof(uint64_t));
    base_map_init(&c->by_incarnation, sizeof(uint64_t));
    return c;
}

void cluster_free(cluster_t *c) {
    if (c == NULL) return;
    size_t cursor = 0;
    const void *key;
    void *way;
    while (base_map_each(&c->ways, &cursor, &key, &way)) vec_free(&((way_t *)way)->waiting);
    for (size_t i = 0; i < c->hosts.count; i++) machine_free(c->hosts.items[i]->machine);
    redis_free(c->redis);
    base_map_fini(&c->ways);
    base_map_fini(&c->by_incarnation);
    vec_free(&c->hosts);
    vec_free(&c->dead);
    world_release(c->world, c);
}

redis_t *cluster_redis(cluster_t *c) { return c->redis; }
size_t cluster_count(const cluster_t *c) { return c->hosts.count; }
host_t *cluster_at(const cluster_t *c, size_t index) { return c->hosts.items[index]; }
host_t *cluster_find(const cluster_t *c, uint64_t incarnation) {
    return base_map_get(&c->by_incarnation, &incarnation);
}

static way_t *way_of(host_t *from, host_t *to) {
    cluster_t *c = from->cluster;
    uint64_t key[2] = {from->incarnation, to->incarnation};
    way_t *way = base_map_get(&c->ways, key);
    if (way == NULL) {
        way = world_alloc(c->world, sizeof *way);
        way->from = from;
        way->to = to;
        if (!base_map_put(&c->ways, key, way)) abort();
    }
    return way;
}

/* ---- hosts ---- */

static void meet(host_t *host, host_t *peer) {
    way_t *way = way_of(peer, host);
    if (way->is_known || way->is_closed || host == peer) return;
    way->is_known = true;
    for (int room = 0; room < HOST_ROOMS; room++)
        if (host->ops[room] != NULL && host->ops[room]->joined != NULL)
            host->ops[room]->joined(host->rooms[room], peer->incarnation);
}

static void hear_of(void *context, uint64_t peer) {
    host_t *host = context;
    meet(host, cluster_find(host->cluster, peer));
}

static uint64_t soon(world_t *world) {
    bool is_slow = base_random_chance(world_random(world), 1, 10);
    return world_between(world, 50 * WORLD_US, is_slow ? 100 * WORLD_MS : 2 * WORLD_MS);
}

host_t *host_new(cluster_t *c) {
    host_t *host = world_alloc(c->world, sizeof *host);
    host->cluster = c;
    host->machine = machine_new(c->world);
    host->incarnation = base_random_next(world_random(c->world)) | 1;
    host->index = c->hosts.count;
    host->told = c->dead.count;
    host->master = redis_master(c->redis);
    for (int room = 0; room < HOST_ROOMS; room++) {
        host->closed[room] = c->dead.count;
        host->said[room] = host->master; /* it has no facts yet */
    }
    machine_on_wake(host->machine, host_wake, host);
    if (!base_map_put(&c->by_incarnation, &host->incarnation, host)) abort();
    if (!vec_push(&c->hosts, host)) abort();
    for (size_t i = 0; i < c->hosts.count - 1; i++) {
        host_t *other = c->hosts.items[i];
        if (other->number != 0) {
            way_of(other, host)->is_closed = true;
            continue;
        }
        machine_later(other->machine, soon(c->world), 0, hear_of, other, host->incarnation);
        machine_later(host->machine, 1, 0, hear_of, host, other->incarnation);
    }
    return host;
}

uint64_t host_incarnation(const host_t *host) { return host->incarnation; }
machine_t *host_machine(const host_t *host) { return host->machine; }

void host_room(host_t *host, host_room_t which, const host_room_ops_t *ops, void *room) {
    host->ops[which] = ops;
    host->rooms[which] = room;
    cluster_t *c = host->cluster;
    c->hears_silence |= ops->silent != NULL;
    if (c->is_watched || (ops->paused == NULL && ops->leads == NULL && ops->silent == NULL)) return;
    c->is_watched = true;
    world_later(c->world, 0, 0, watch, c, 0);
}

/* ---- messages ---- */

static void message_receive(message_t *message, way_t *way) {
    host_t *to = message->to;
    if (!way->is_closed) {
        meet(to, message->from);
        way->received = message->sequence;
        if (to->ops[message->room] != NULL)
            to->ops[message->room]->receive(to->rooms[message->room], message->from->incarnation,
                                            message->sequence, message->bytes, message->size);
    }
    world_release(to->cluster->world, message);
}

static void message_come(void *context, uint64_t argument) {
    (void)argument;
    message_t *message = context;
    way_t *way = way_of(message->from, message->to);
    if (!way->is_cut && way->waiting.count == 0)
        message_receive(message, way);
    else if (!vec_push(&way->waiting, message))
        abort();
}

/* What waited comes, one after the other, before all that comes later. */
static void waiting_come(void *context, uint64_t argument) {
    (void)argument;
    way_t *way = context;
    if (way->is_cut || way->waiting.count == 0) return;
    message_t *message = way->waiting.items[0];
    machine_t *machine = message->to->machine;
    way->waiting.count--;
    memmove(way->waiting.items, way->waiting.items + 1, way->waiting.count * sizeof message);
    message_receive(message, way);
    if (way->waiting.count > 0) machine_later(machine, 1, 0, waiting_come, way, 0);
}

uint64_t host_send(host_t *host, host_room_t room, uint64_t to, const void *bytes, size_t size,
                   bool is_answer) {
    (void)is_answer; /* a link is never full here */
    host_t *peer = cluster_find(host->cluster, to);
    if (peer == NULL || way_of(peer, host)->is_closed) return 0;
    way_t *way = way_of(host, peer);
    message_t *message = world_alloc(host->cluster->world, sizeof *message + size);
    *message = (message_t){host, peer, room, ++way->sent, size};
    memcpy(message->bytes, bytes, size);
    machine_later(peer->machine, soon(host->cluster->world), (uint64_t)(uintptr_t)way, message_come,
                  message, 0);
    return message->sequence;
}

uint64_t host_next(const host_t *host, uint64_t to) {
    if (host_knows_dead(host, to)) return 0;
    return way_of((host_t *)host, cluster_find(host->cluster, to))->sent + 1;
}

uint64_t host_received(const host_t *host, uint64_t from) {
    host_t *peer = cluster_find(host->cluster, from);
    return peer != NULL ? way_of(peer, (host_t *)host)->received : 0;
}

bool host_knows_dead(const host_t *host, uint64_t peer) {
    host_t *other = cluster_find(host->cluster, peer);
    return other == NULL || way_of(other, (host_t *)host)->is_closed;
}

uint64_t host_tombstones(const host_t *host) { return host->told; }
bool host_is_buried(const host_t *host) { return host->number != 0; }

static void way_set_cut(host_t *from, host_t *to, bool is_cut) {
    way_t *way = way_of(from, to);
    way->is_cut = is_cut;
    if (!is_cut) machine_later(to->machine, 1, 0, waiting_come, way, 0);
}

void host_cut(host_t *a, host_t *b) {
    way_set_cut(a, b, true);
    way_set_cut(b, a, true);
}

void host_heal(host_t *a, host_t *b) {
    way_set_cut(a, b, false);
    way_set_cut(b, a, false);
}

/* ---- the control state ---- */

typedef struct {
    host_t *host;
    script_fn script;
    redis_reply_fn reply;
    void *context;
    size_t size;
    uint8_t arguments[];
} question_t;

static void question_reply(void *context, uint64_t master, const void *answer, size_t size) {
    question_t *q = context;
    if (answer == NULL) {
        redis_ask(q->host->cluster->redis, q->host->machine, q->script, q->arguments, q->size,
                  question_reply, q);
        return;
    }
    meet_master(q->host, master);
    q->reply(q->context, master, answer, size);
    world_release(q->host->cluster->world, q);
}

void host_ask(host_t *host, script_fn script, const void *arguments, size_t size,
              redis_reply_fn reply, void *context) {
    question_t *q = world_alloc(host->cluster->world, sizeof *q + size);
    *q = (question_t){host, script, reply, context, size};
    if (size > 0) memcpy(q->arguments, arguments, size);
    question_reply(q, 0, NULL, 0); /* asks for the first time */
}

/* ---- deaths ---- */

/* Host `context` hears of the next tombstone. */
static void hear_death(void *context, uint64_t argument) {
    (void)argument;
    host_t *host = context;
    host_t *dead = host->cluster->dead.items[host->told++];
    way_of(dead, host)->is_closed = true;
    for (int room = 0; room < HOST_ROOMS; room++)
        if (host->ops[room] != NULL && host->ops[room]->died != NULL)
            host->ops[room]->died(host->rooms[room], dead->incarnation, dead->number);
}

static void bury(void *context, uint64_t argument) {
    (void)argument;
    host_t *dead = context;
    cluster_t *c = dead->cluster;
    if (dead->number != 0) return;
    if (!vec_push(&c->dead, dead)) abort();
    dead->number = c->dead.count;
    for (size_t i = 0; i < c->hosts.count; i++) {
        host_t *host = c->hosts.items[i];
        if (host->number == 0)
            machine_later(host->machine, soon(c->world), (uint64_t)(uintptr_t)host, hear_death,
                          host, 0);
    }
}

void host_kill(host_t *host) {
    if (machine_is_dead(host->machine)) return;
    machine_kill(host->machine);
    world_later(host->cluster->world, world_between(host->cluster->world, 3 * WORLD_S, 5 * WORLD_S),
                0, bury, host, 0);
}

static uint64_t closed_by(const host_t *host) {
    uint64_t least = host->told;
    for (int room = 0; room < HOST_ROOMS; room++)
        if (host->ops[room] != NULL && host->ops[room]->struck != NULL &&
            host->closed[room] < least)
            least = host->closed[room];
    return least;
}

static void tell_struck(void *context, uint64_t number) {
    host_t *host = context;
    for (int room = 0; room < HOST_ROOMS; room++)
        if (host->ops[room] != NULL && host->ops[room]->struck != NULL)
            host->ops[room]->struck(host->rooms[room], number);
}

/* The greatest K such that every live host has closed up to it, and every dead one that had closed
 * less has its own tombstone at or below it. */
static uint64_t struck_now(const cluster_t *c) {
    for (uint64_t k = c->dead.count; k > 0; k--) {
        bool holds = true;
        for (size_t i = 0; i < c->hosts.count && holds; i++) {
            const host_t *host = c->hosts.items[i];
            holds = closed_by(host) >= k || (host->number != 0 && host->number <= k) ||
                    (host->number != 0 && !BASE_RULE(REFS_DEAD_IN_TURN));
        }
        if (holds) return k;
    }
    return 0;
}

void host_closed(host_t *host, host_room_t room, uint64_t number) {
    cluster_t *c = host->cluster;
    if (number > host->closed[room]) host->closed[room] = number;
    uint64_t struck = struck_now(c);
    if (struck <= c->struck) return;
    c->struck = struck;
    for (size_t i = 0; i < c->hosts.count; i++)
        machine_later(c->hosts.items[i]->machine, soon(c->world),
                      (uint64_t)(uintptr_t)c->hosts.items[i], tell_struck, c->hosts.items[i],
                      struck);
}

/* ---- the judge: leases, leaders, silence, masters ---- */

enum { WATCH_MS = 100, TERM_MS = 1500, REIGN_MS = 2000, LEASE_MS = 4000, SILENCE_MS = 2500 };

#define TELL(host, op, ...)                                               \
    for (int room_ = 0; room_ < HOST_ROOMS; room_++)                      \
        if ((host)->ops[room_] != NULL && (host)->ops[room_]->op != NULL) \
    (host)->ops[room_]->op((host)->rooms[room_], __VA_ARGS__)

static void meet_master(host_t *host, uint64_t master) {
    if (master <= host->master) return;
    host->master = master;
    TELL(host, master, master);
}

static void hear_of_master(void *context, uint64_t master) { meet_master(context, master); }

static void hear_of_settled(void *context, uint64_t master) {
    TELL((host_t *)context, settled, master);
}

void host_said(host_t *host, host_room_t room, uint64_t master) {
    if (master > host->said[room]) host->said[room] = master;
}

static void pause_tell(host_t *host) {
    bool is_paused = host->missed_ms >= TERM_MS;
    if (host->is_paused == is_paused) return;
    host->is_paused = is_paused;
    TELL(host, paused, is_paused);
}

static void hear_of_leader(void *context, uint64_t fence) {
    host_t *host = context;
    cluster_t *c = host->cluster;
    if (fence != c->fence || host->fence == fence) return; /* there is a newer one, or none */
    host->fence = fence;
    host->leader = c->leader;
    TELL(host, leads, host->leader, fence);
}

/* A leader whose reign is over knows it by its own clock. */
static void reign_end(host_t *host) {
    if (host->leader != host->incarnation || host->missed_ms < REIGN_MS) return;
    host->leader = 0;
    TELL(host, leads, 0, host->fence);
}

/* Before all that was kept: a stopped node looks at its clock first. */
static void host_wake(void *context) {
    pause_tell(context);
    reign_end(context);
}

static void end_itself(void *context, uint64_t argument) {
    (void)argument;
    machine_kill(((host_t *)context)->machine);
}

static void watch_lease(host_t *host) {
    world_t *world = host->cluster->world;
    redis_t *redis = host->cluster->redis;
    if (redis_is_away(redis)) return; /* for everybody: no reason to pause */
    bool renews = machine_is_up(host->machine) && redis_is_heard(redis, host->machine);
    host->missed_ms = renews ? 0 : host->missed_ms + WATCH_MS;
    if (machine_is_up(host->machine)) host_wake(host);
    if (host->missed_ms < LEASE_MS || machine_is_dead(host->machine)) return;
    bury(host, 0);
    machine_later(host->machine, world_between(world, WORLD_MS, 3 * WORLD_S), 0, end_itself, host,
                  0);
}

static void watch_leader(cluster_t *c) {
    host_t *leader = cluster_find(c, c->leader);
    if (leader != NULL && (leader->number != 0 || leader->missed_ms >= LEASE_MS - REIGN_MS ||
                           base_random_chance(world_random(c->world), 1, 100)))
        c->leader = 0;
    if (c->leader != 0 || redis_is_away(c->redis)) return;
    host_t *next = c->hosts.items[base_random_below(world_random(c->world), c->hosts.count)];
    if (next->number != 0 || next->missed_ms > 0 || !machine_is_up(next->machine)) return;
    c->leader = next->incarnation;
    c->fence++;
}

static void watch_silence(cluster_t *c) {
    if (!c->hears_silence) return;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&c->ways, &cursor, &key, &value)) {
        way_t *way = value;
        host_t *from = way->from, *to = way->to;
        if (from == to || way->is_closed || !machine_is_up(to->machine)) continue;
        bool is_heard = !way->is_cut && machine_is_up(from->machine);
        way->silent_ms = is_heard ? 0 : way->silent_ms + WATCH_MS;
        if (way->is_silent == (way->silent_ms >= SILENCE_MS)) continue;
        way->is_silent = !way->is_silent;
        TELL(to, silent, from->incarnation, way->is_silent);
    }
}

/* All of its rooms have said their facts to the master, or it has none. */
static bool has_said(const host_t *host, uint64_t master) {
    for (int room = 0; room < HOST_ROOMS; room++)
        if (host->ops[room] != NULL && host->ops[room]->master != NULL && host->said[room] < master)
            return false;
    return true;
}

static void watch_master(cluster_t *c) {
    uint64_t master = redis_master(c->redis);
    bool is_settled = true;
    for (size_t i = 0; i < c->hosts.count; i++)
        is_settled &= c->hosts.items[i]->number != 0 || has_said(c->hosts.items[i], master);
    if (is_settled) c->settled = master;
    for (size_t i = 0; i < c->hosts.count; i++) {
        host_t *host = c->hosts.items[i];
        if (host->number != 0 || !redis_is_heard(c->redis, host->machine)) continue;
        if (host->master < master)
            machine_later(host->machine, soon(c->world), 0, hear_of_master, host, master);
        if (host->settled < c->settled)
            machine_later(host->machine, soon(c->world), 0, hear_of_settled, host,
                          host->settled = c->settled);
    }
}

static void watch(void *context, uint64_t argument) {
    (void)argument;
    cluster_t *c = context;
    for (size_t i = 0; i < c->hosts.count; i++)
        if (c->hosts.items[i]->number == 0) watch_lease(c->hosts.items[i]);
    watch_leader(c);
    for (size_t i = 0; i < c->hosts.count; i++) {
        host_t *host = c->hosts.items[i];
        if (c->leader != 0 && host->number == 0 && host->fence < c->fence)
            machine_later(host->machine, soon(c->world), (uint64_t)(uintptr_t)host ^ 4,
                          hear_of_leader, host, c->fence);
    }
    watch_silence(c);
    watch_master(c);
    world_later(c->world, WATCH_MS * WORLD_MS, 0, watch, c, 0);
}
