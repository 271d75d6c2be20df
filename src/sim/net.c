/*
 * Each end has a pipe to the other one: the bytes on their way. One event at a time carries a piece
 * of it, on the machine that receives it: so pieces keep their order, and those for a stopped
 * machine wait in the pipe, which is bounded.
 *
 * A pipe that is broken has a beginning of its bytes left; then, at a time of its own, the receiver
 * is told of the end. What is written to it later is swallowed.
 */
#include "sim/net.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#define NEVER UINT64_MAX

enum { PIPE_MAX = 8192 };

typedef struct end {
    struct connection *connection;
    struct end *other;
    uint64_t number;
    size_t address;
    machine_t *machine;
    const net_ops_t *ops;
    void *context;
    bool is_open; /* for its machine */
    /* What it has written. */
    VEC(uint8_t) pipe;
    size_t swallowed;
    uint64_t end_ns; /* when the other is told that it was the end; NEVER */
    bool is_carried, is_broken, is_blocked;
} end_t;

typedef struct connection {
    net_t *net;
    end_t ends[2]; /* the first has dialled */
    bool is_slow;
} connection_t;

typedef struct {
    machine_t *machine;
    const net_ops_t *ops;
    void *context;
} place_t;

struct net {
    world_t *world;
    VEC(place_t) places;
    VEC(connection_t *) connections;
    base_map_t ends, cuts, walls;
    uint64_t even_ns; /* how long everything takes; 0: as it comes */
    size_t pipe_max;
    bool is_calm;
};

static void carry(void *context, uint64_t argument);

static bool by_chance(net_t *net, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(net->world), part, whole);
}

net_t *net_new(world_t *world) {
    net_t *net = world_alloc(world, sizeof *net);
    net->world = world;
    base_map_init(&net->ends, sizeof(uint64_t));
    base_map_init(&net->cuts, 2 * sizeof(uint64_t));
    base_map_init(&net->walls, 2 * sizeof(uint64_t));
    uint64_t manner = world_between(world, 0, 7);
    if (manner == 0) net->even_ns = world_between(world, 60 * WORLD_MS, 150 * WORLD_MS);
    if (manner == 1 || manner == 2)
        net->even_ns = world_between(world, 100 * WORLD_US, 5 * WORLD_MS);
    net->pipe_max = (size_t)world_between(world, 100, PIPE_MAX);
    return net;
}

void net_free(net_t *net) {
    for (size_t i = 0; i < net->connections.count; i++)
        for (int side = 0; side < 2; side++) vec_free(&net->connections.items[i]->ends[side].pipe);
    vec_free(&net->connections);
    vec_free(&net->places);
    base_map_fini(&net->ends);
    base_map_fini(&net->cuts);
    base_map_fini(&net->walls);
    world_release(net->world, net);
}

size_t net_address_new(net_t *net) {
    if (!vec_push(&net->places, ((place_t){0}))) abort();
    return net->places.count - 1;
}

void net_listen(net_t *net, size_t address, machine_t *machine, const net_ops_t *ops,
                void *context) {
    net->places.items[address] = (place_t){machine, ops, context};
}

static uint64_t delay(net_t *net) {
    if (net->even_ns > 0) return net->even_ns;
    return world_between(net->world, 50 * WORLD_US,
                         by_chance(net, 1, 10) ? 50 * WORLD_MS : 2 * WORLD_MS);
}

static bool is_cut(const net_t *net, size_t a, size_t b) {
    uint64_t key[2] = {a < b ? a : b, a < b ? b : a};
    return base_map_get(&net->cuts, key) != NULL;
}

void net_cut(net_t *net, size_t a, size_t b) {
    uint64_t key[2] = {a < b ? a : b, a < b ? b : a};
    if (!base_map_put(&net->cuts, key, net)) abort();
}

void net_heal(net_t *net, size_t a, size_t b) {
    uint64_t key[2] = {a < b ? a : b, a < b ? b : a};
    base_map_remove(&net->cuts, key);
}

void net_wall(net_t *net, size_t from, size_t to) {
    uint64_t key[2] = {from, to};
    if (!base_map_put(&net->walls, key, net)) abort();
}

/* ---- bytes ---- */

/* `end` has something for the other one. */
static void carry_later(end_t *end, uint64_t delay_ns) {
    if (end->is_carried || end->other->machine == NULL) return;
    end->is_carried = true;
    machine_later(end->other->machine, delay_ns, 0, carry, end, 0);
}

static void tell_writable(void *context, uint64_t argument) {
    (void)argument;
    end_t *end = context;
    if (!end->is_open || !end->is_blocked) return;
    end->is_blocked = false;
    end->ops->writable(end->context, end->number);
}

/* How many bytes come at once. */
static size_t piece_size(const end_t *end) {
    net_t *net = end->connection->net;
    size_t size = end->pipe.count;
    if (end->connection->is_slow && !net->is_calm && size > 150) size = 150;
    return by_chance(net, 1, 4) ? (size_t)world_between(net->world, 1, size) : size;
}

static void piece_carry(end_t *end) {
    net_t *net = end->connection->net;
    end_t *other = end->other;
    size_t size = piece_size(end);
    uint8_t *piece = world_alloc(net->world, size);
    memcpy(piece, end->pipe.items, size);
    end->pipe.count -= size;
    memmove(end->pipe.items, end->pipe.items + size, end->pipe.count);
    if (end->is_blocked && !end->is_broken)
        machine_later(end->machine, delay(net), 0, tell_writable, end, 0);
    if (other->is_open) other->ops->received(other->context, other->number, piece, size);
    world_release(net->world, piece);
}

static void end_carry(end_t *end) {
    uint64_t now = world_now_ns(end->connection->net->world);
    end_t *other = end->other;
    if (end->end_ns == NEVER || !other->is_open) return;
    if (now < end->end_ns) {
        carry_later(end, end->end_ns - now);
        return;
    }
    end->end_ns = NEVER;
    other->is_open = false;
    other->ops->ended(other->context, other->number);
}

static void carry(void *context, uint64_t argument) {
    (void)argument;
    end_t *end = context;
    net_t *net = end->connection->net;
    end->is_carried = false;
    if (is_cut(net, end->address, end->other->address)) {
        carry_later(end, world_between(net->world, 20 * WORLD_MS, 200 * WORLD_MS));
        return;
    }
    if (end->pipe.count > 0) piece_carry(end);
    uint64_t pause = end->connection->is_slow && !net->is_calm ? 40 * WORLD_MS : 0;
    if (end->pipe.count > 0)
        carry_later(end, delay(net) + pause);
    else if (end->is_broken)
        end_carry(end);
}

static end_t *end_of(net_t *net, uint64_t number) { return base_map_get(&net->ends, &number); }

size_t net_write(net_t *net, uint64_t number, const void *bytes, size_t size) {
    end_t *end = end_of(net, number);
    size_t taken = end->pipe.count + end->swallowed,
           left = taken < net->pipe_max ? net->pipe_max - taken : 0;
    if (size > left) {
        end->is_blocked = true;
        size = left;
    }
    if (end->is_broken) {
        end->swallowed += size;
        return size;
    }
    if (size == 0) return 0;
    if (!vec_reserve(&end->pipe, size)) abort();
    memcpy(end->pipe.items + end->pipe.count, bytes, size);
    end->pipe.count += size;
    carry_later(end, delay(net));
    return size;
}

/* ---- ends ---- */

/* The other side gets the beginning of what is in the pipe, and is told at some time. */
static void pipe_break(end_t *end) {
    net_t *net = end->connection->net;
    if (end->is_broken) return;
    end->is_broken = true;
    if (by_chance(net, 1, 2)) end->pipe.count = world_between(net->world, 0, end->pipe.count);
    uint64_t now = world_now_ns(net->world), manner = world_between(net->world, 0, 9);
    if (manner < 7 || net->is_calm)
        end->end_ns = now + delay(net);
    else
        end->end_ns = manner < 9 ? now + world_between(net->world, 0, 10 * WORLD_S) : NEVER;
    carry_later(end, delay(net));
}

void net_end(net_t *net, uint64_t number) {
    end_t *end = end_of(net, number);
    if (!end->is_open) return;
    end->is_open = false;
    pipe_break(end);
    end->other->is_broken = true; /* nobody reads it */
    end->other->pipe.count = 0;
}

static bool is_between(const connection_t *c, size_t a, size_t b) {
    size_t x = c->ends[0].address, y = c->ends[1].address;
    return (x == a && y == b) || (x == b && y == a);
}

static bool is_over(const connection_t *c) { return !c->ends[0].is_open && !c->ends[1].is_open; }

void net_break(net_t *net, size_t a, size_t b) {
    for (size_t i = 0; i < net->connections.count; i++) {
        connection_t *c = net->connections.items[i];
        if (is_over(c) || !is_between(c, a, b)) continue;
        pipe_break(&c->ends[0]);
        pipe_break(&c->ends[1]);
    }
}

void net_crash(net_t *net, size_t address) {
    net->places.items[address].machine = NULL;
    for (size_t i = 0; i < net->connections.count; i++)
        for (int side = 0; side < 2; side++) {
            end_t *end = &net->connections.items[i]->ends[side];
            if (end->address == address && end->is_open) net_end(net, end->number);
        }
}

/* A cable that was cut and mended is no reason to tell of every end: those that nobody was told of
 * stay untold. */
void net_calm(net_t *net) {
    net->is_calm = true;
    net->pipe_max = PIPE_MAX;
}

/* ---- dials ---- */

static void tell_accepted(void *context, uint64_t argument) {
    (void)argument;
    end_t *end = context;
    if (end->is_open) end->ops->accepted(end->context, end->number);
}

static void tell_connected(void *context, uint64_t argument) {
    (void)argument;
    end_t *end = context;
    if (end->is_open) end->ops->connected(end->context, end->number);
}

static void tell_refused(void *context, uint64_t argument) {
    (void)argument;
    end_t *end = context;
    if (!end->is_open) return;
    end->is_open = false;
    end->ops->ended(end->context, end->number);
}

/* The dial comes to its address. A stopped machine's kernel takes it, too. */
static void arrive(void *context, uint64_t argument) {
    (void)argument;
    connection_t *c = context;
    net_t *net = c->net;
    end_t *from = &c->ends[0], *to = &c->ends[1];
    uint64_t key[2] = {from->address, to->address};
    if (!from->is_open || base_map_get(&net->walls, key) != NULL) return;
    if (is_cut(net, from->address, to->address)) {
        world_later(net->world, world_between(net->world, 20 * WORLD_MS, 200 * WORLD_MS), 0, arrive,
                    c, 0);
        return;
    }
    place_t *place = &net->places.items[to->address];
    if (place->machine == NULL) {
        machine_later(from->machine, delay(net), 0, tell_refused, from, 0);
        return;
    }
    to->machine = place->machine;
    to->ops = place->ops;
    to->context = place->context;
    to->is_open = true;
    machine_later(to->machine, 0, 0, tell_accepted, to, 0);
    machine_later(from->machine, delay(net), 0, tell_connected, from, 0);
}

uint64_t net_dial(net_t *net, size_t from, size_t to) {
    connection_t *c = world_alloc(net->world, sizeof *c);
    c->net = net;
    c->is_slow = by_chance(net, 1, 12);
    if (!vec_push(&net->connections, c)) abort();
    for (int side = 0; side < 2; side++) {
        end_t *end = &c->ends[side];
        end->connection = c;
        end->other = &c->ends[1 - side];
        end->number = 2 * net->connections.count + (uint64_t)side;
        end->address = side == 0 ? from : to;
        end->end_ns = NEVER;
        if (!base_map_put(&net->ends, &end->number, end)) abort();
    }
    const place_t *place = &net->places.items[from];
    c->ends[0].machine = place->machine;
    c->ends[0].ops = place->ops;
    c->ends[0].context = place->context;
    c->ends[0].is_open = true;
    world_later(net->world, delay(net), 0, arrive, c, 0);
    return c->ends[0].number;
}
