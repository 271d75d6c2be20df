/*
 * A node of the simulator, as the rooms of the cluster's protocols see it: peers that join and die,
 * ordered messages to them, and the control state. The daemon gives them the same.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "sim/machine.h"
#include "sim/redis.h"

typedef struct cluster cluster_t; /* all nodes of a world, and Redis */
typedef struct host host_t;       /* one incarnation of one */

typedef enum { HOST_REFS, HOST_ACTOR, HOST_GROUP, HOST_PULL, HOST_PLACE, HOST_ROOMS } host_room_t;

/* What a node tells a room. All but `receive` may be NULL. */
typedef struct host_room_ops {
    /* A message of the same room of a peer. Those of one peer come in the order in which they were
     * sent, each once. `sequence` counts all messages from that peer to this node, from 1. */
    void (*receive)(void *room, uint64_t from, uint64_t sequence, const void *bytes, size_t size);
    void (*joined)(void *room, uint64_t peer);
    /* The peer's tombstone, in the order of their numbers. What had come of its messages has been
     * received, and nothing will any more. */
    void (*died)(void *room, uint64_t peer, uint64_t number);
    /* Tombstones up to this number are closed everywhere (cluster.md C6, K). */
    void (*struck)(void *room, uint64_t number);
    /* This node must not begin what runs at most once: it paused, or goes on. */
    void (*paused)(void *room, bool paused);
    /* Who leads, 0: nobody is known; and with which fencing number. */
    void (*leads)(void *room, uint64_t leader, uint64_t fence);
    /* Nothing was heard of the peer for 2.5 s, or it is heard again. Silence is no death. */
    void (*silent)(void *room, uint64_t peer, bool silent);
    /* The control state has a new master, which may lack the last writes; said before any answer of
     * it. The room says its facts to it, then host_said. */
    void (*master)(void *room, uint64_t master);
    /* Every live node has said its facts to this master: what the first one wins may be decided by
     * it again. */
    void (*settled)(void *room, uint64_t master);
} host_room_ops_t;

cluster_t *cluster_new(world_t *world);
void cluster_free(cluster_t *cluster);
redis_t *cluster_redis(cluster_t *cluster);
size_t cluster_count(const cluster_t *cluster); /* of nodes that there ever were */
host_t *cluster_at(const cluster_t *cluster, size_t index);
host_t *cluster_find(const cluster_t *cluster, uint64_t incarnation);

/* A node joins. Peers hear of it later, at different times; a message of it may be the first that
 * they hear, and then `joined` comes before. */
host_t *host_new(cluster_t *cluster);
uint64_t host_incarnation(const host_t *host);
machine_t *host_machine(const host_t *host);
void host_room(host_t *host, host_room_t which, const host_room_ops_t *ops, void *room);

/* To a peer. Returns the message's sequence number there, 0 if the peer is known to be dead.
 * Answers are sent even if the link is full. */
uint64_t host_send(host_t *host, host_room_t room, uint64_t to, const void *bytes, size_t size,
                   bool is_answer);
/* The sequence number that the next message to that peer will have; 0 as host_send. */
uint64_t host_next(const host_t *host, uint64_t to);
/* The sequence number of the newest message from that peer that was received here. */
uint64_t host_received(const host_t *host, uint64_t from);
/* Asks the control state; see redis_ask. Asked again until there is an answer, as long as the node
 * is there. */
void host_ask(host_t *host, script_fn script, const void *arguments, size_t size,
              redis_reply_fn reply, void *context);
/* The room has closed tombstones up to this number: what followed from them is answered. */
void host_closed(host_t *host, host_room_t room, uint64_t number);

/* The room has said its facts to this master, and was answered. */
void host_said(host_t *host, host_room_t room, uint64_t master);
/* Whether this node knows the peer's tombstone. */
bool host_knows_dead(const host_t *host, uint64_t peer);
/* Whether it has a tombstone, for the checks: it may run on for a while, and not know. */
bool host_is_buried(const host_t *host);

/* How many tombstones it has heard of; one that joins knows those that there are. */
uint64_t host_tombstones(const host_t *host);

/* Ends its machine: a crash. The tombstone follows, later. So it does for a node that is stopped,
 * or does not hear Redis, for 4 s while others do; it ends when it hears of it. */
void host_kill(host_t *host);
/* No message passes between the two, until it is healed. What was sent waits. */
void host_cut(host_t *a, host_t *b);
void host_heal(host_t *a, host_t *b);

#endif
