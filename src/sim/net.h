/*
 * Connections between machines, as TCP gives them: what was written comes in pieces of any size,
 * late, and in order; of a connection that breaks it is the beginning. One side may notice that
 * long before the other, or never.
 *
 * An address is a place where one machine after the other may listen. Each connection has two ends,
 * with a number each, never 0.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim/machine.h"

typedef struct net net_t;

/* What a machine is told, in its own time (machine_later). */
typedef struct net_ops {
    void (*accepted)(void *context, uint64_t end);
    void (*connected)(void *context, uint64_t end);
    void (*received)(void *context, uint64_t end, const void *bytes, size_t size);
    /* After net_write has not taken all. */
    void (*writable)(void *context, uint64_t end);
    /* The connection, or the dial, is over, and not by net_end of this end. */
    void (*ended)(void *context, uint64_t end);
} net_ops_t;

net_t *net_new(world_t *world);
void net_free(net_t *net);

size_t net_address_new(net_t *net);
/* From now on this machine is at that address. */
void net_listen(net_t *net, size_t address, machine_t *machine, const net_ops_t *ops,
                void *context);

/* From the machine at one address to whatever is at the other. */
uint64_t net_dial(net_t *net, size_t from, size_t to);
/* How many bytes it has taken. */
size_t net_write(net_t *net, uint64_t end, const void *bytes, size_t size);
/* A part of what was written, and then the end, comes to the other side: perhaps. */
void net_end(net_t *net, uint64_t end);

/* The machine at this address was killed. Those at the other ends may learn of it. */
void net_crash(net_t *net, size_t address);
/* Nothing passes between the two, and what was written waits. */
void net_cut(net_t *net, size_t a, size_t b);
void net_heal(net_t *net, size_t a, size_t b);
/* The second can't be dialled from the first, until the world's end. */
void net_wall(net_t *net, size_t from, size_t to);
/* Connections between the two break, each at a point of its own. */
void net_break(net_t *net, size_t a, size_t b);
/* From now on no connection is slow, and both sides soon hear of ends. */
void net_calm(net_t *net);

#endif
