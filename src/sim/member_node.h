/* Nodes of the scenario `member`: the room on machines, heartbeats between them, and the checks
 * that look at all of them. */
#ifndef SIM_MEMBER_NODE_H
#define SIM_MEMBER_NODE_H

#include "base/map.h"
#include "base/vec.h"
#include "member/member.h"
#include "sim/redis.h"

typedef struct town town_t;

typedef struct {
    uint64_t number, incarnation;
} heard_t;

typedef struct node {
    town_t *town;
    size_t index;
    machine_t *machine;
    member_t *member;
    uint64_t incarnation;
    /* what it was told */
    uint64_t number, end_ns, fence, leader, master, settled, struck;
    bool is_over, is_paused;
    member_end_t why;
    VEC(heard_t) died;
    uint64_t answered_ns, unbroken_ns; /* answered last, and since when by this master, no gaps */
    uint64_t last_end_ns;              /* what end_ns was before */
    uint64_t held;                     /* the last fence that it was given */
    /* what its rooms did */
    uint64_t closed, said;
    uint64_t stops_ns;   /* it stops for so long when it next asks something */
    uint64_t falters_ns; /* the same, when it asks for a tombstone, which is slow to come */
    bool is_deaf;        /* hears no answer, though its questions run */
    uint64_t tick_ns, beat_ns;
    uint64_t killed_ns, buried_ns; /* by the world's clock */
    uint64_t tombstone;            /* that was written, and may be lost again */
    VEC(size_t) neighbours;
} node_t;

/* One direction of a link. */
typedef struct {
    node_t *from, *to;
    bool is_cut;
    uint64_t heard_ns; /* by the receiver's clock */
    bool is_silent;
    uint64_t lag_ns, lag_max_ns; /* how long pulses are on their way; it grows up to that */
    VEC(uint8_t *) waiting;      /* pulses, while it is cut */
} link_t;

struct town {
    world_t *world;
    redis_t *redis;
    VEC(node_t *) nodes;
    base_map_t by_incarnation; /* to node_t */
    base_map_t links;          /* (from, to) to link_t */
    base_map_t fences;         /* to the node_t that decided with it */
    uint64_t cluster[2];
    uint64_t seen;        /* the last tombstone that was checked */
    uint64_t era, era_ns; /* the highest that anybody was told of, and when */
    bool has_lost;        /* the state has lost writes in this run */
    bool has_skew;        /* and its clock was wrong */
    bool must_not_pause;  /* what goes wrong in this run is no reason to */
    size_t neighbours_max;
};

town_t *town_new(world_t *world);
void town_free(town_t *town);
node_t *town_find(const town_t *town, uint64_t incarnation);
/* A node joins. `before`: its machine's last incarnation, which is dead, or NULL. */
node_t *node_new(town_t *town, const node_t *before);
/* Leaves in peace, when its machine runs. It may stop for a while before it reads the answer. */
void node_leave(node_t *node, uint64_t stops_ns);
link_t *link_of(node_t *from, node_t *to);
void link_cut(link_t *link);
void link_heal(link_t *link);
/* Not dead, not over. It may be stopped. */
bool node_is_there(const node_t *node);
/* Workers of it would begin what runs at most once. */
bool node_goes_on(const node_t *node);
/* Whether, since it was last asked, a script decided for one who did not lead when it ran. */
bool town_was_stale(void);
uint64_t town_number(town_t *town, const char *key); /* a value of one word, or 0 */
uint64_t town_tombstone(town_t *town, const node_t *node);

/* member_check.c: what must hold when a node is told something. */
void check_stones(void *town); /* after every event */
void check_died(node_t *node, uint64_t peer, uint64_t number);
void check_struck(node_t *node, uint64_t number);
void check_goes_on(node_t *node);
void check_over(node_t *node);
void check_settled(node_t *node, uint64_t master);
void check_leads(node_t *node, uint64_t leader, uint64_t fence);
void check_decided(node_t *node, uint64_t fence);
/* Everything is as it should be, with nothing wrong any more; else why not. */
const char *check_well(town_t *town);

#endif
