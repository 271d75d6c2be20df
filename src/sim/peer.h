/*
 * A daemon with links, as far as links go: it dials, accepts and reads connections of net.h for
 * real links, and works. It sends requests, answers those of others, and checks everything that it
 * is given: each message once, in order, whole, and none of the dead.
 */
#ifndef SIM_PEER_H
#define SIM_PEER_H

#include "base/map.h"
#include "base/vec.h"
#include "link/link.h"
#include "sim/net.h"

typedef struct peer peer_t;

/* What all of them share. */
typedef struct {
    world_t *world;
    net_t *net;
    size_t room_bytes;
    size_t message_max;
    uint64_t work_ns; /* for a request, at the most */
    bool is_calm;     /* nothing goes wrong any more */
} peers_t;

/* What a peer knows of another one, and what the checks do. Times are the world's. */
typedef struct tie {
    peer_t *owner, *other;
    link_t *link;
    uint64_t sent;                     /* messages to it */
    uint64_t seen;                     /* messages from it */
    uint64_t unanswered;               /* requests to it */
    VEC(size_t) inbox;                 /* sizes of requests from it that wait to be answered */
    uint64_t requests_cost, done_cost; /* of requests to it, and of those from it that are done */
    uint64_t newest, reading;    /* the connection that came last; the one that bytes came on */
    VEC(uint64_t) dials;         /* when */
    uint64_t made_ns, read_ns;   /* the newest byte that was read */
    uint64_t beat_ns, silent_ns; /* the newest heartbeat; since when it is told to be silent */
    bool is_silent, is_closed, works, wants_room;
    bool leaves, has_left; /* the owner; the other, which said goodbye */
} tie_t;

struct peer {
    peers_t *all;
    machine_t *machine;
    uint64_t incarnation;
    size_t address;
    base_map_t ties; /* by incarnation */
    VEC(tie_t *) tie_list;
    base_map_t doors; /* ends that were accepted and have not said hello yet */
    base_map_t ends;  /* to tie_t */
    uint64_t stopped_ns, woke_ns;
    bool is_buried; /* has a tombstone */
};

/* Starts at that address, where nobody else is. */
peer_t *peer_new(peers_t *all, size_t address);
void peer_free(peer_t *peer);
/* It hears of another one. NULL: it knows already that it is dead. */
tie_t *peer_meet(peer_t *peer, peer_t *other);
tie_t *peer_tie(const peer_t *peer, const peer_t *other);
/* Sends a request, if there is room for it. */
void tie_request(tie_t *tie, size_t size);
void tie_leave(tie_t *tie);
/* It hears of the other's tombstone. */
void tie_close(tie_t *tie);
void peer_stop(peer_t *peer);
void peer_go_on(peer_t *peer);
void peer_kill(peer_t *peer);

#endif
