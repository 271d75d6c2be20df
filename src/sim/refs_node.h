/*
 * A node of the scenario `refs`: what the daemon does around src/refs. It counts what its processes
 * and its values hold, and tells the room of the first and the last hold; it sends frames and takes
 * them in. All nodes are compared with each other when anything is freed or said to be lost, which
 * is when a wrong count shows.
 */
#ifndef SIM_REFS_NODE_H
#define SIM_REFS_NODE_H

#include "base/vec.h"
#include "refs/list.h"
#include "refs/refs.h"
#include "sim/host.h"

enum { REFS_CONTENTS_MAX = 2, REFS_GIVEN_MAX = 3 };

typedef struct {
    frame_id_t id; /* its number is the object's index */
    size_t home;   /* index of a node */
    bool is_freed, is_function;
    uint32_t contents[REFS_CONTENTS_MAX];
    size_t count;
} refs_object_t;

typedef struct refs_run refs_run_t;

typedef struct {
    refs_run_t *run;
    size_t index;
    host_t *host;
    refs_t *refs;
    uint32_t *holds;     /* of each object: by processes, and by values that contain it */
    uint8_t *is_copied;  /* of each object: its value was pulled, which holds its contents */
    uint8_t *is_cached;  /* of each function: it is loaded, and nothing holds it */
    VEC(uint32_t) hands; /* what processes hold, one each */
    size_t waits;        /* frames that are not kept yet */
    uint64_t closed;
    bool is_flushing;
} refs_node_t;

typedef enum { REFS_GIVE, REFS_PULL, REFS_LIST } refs_kind_t;

/* A frame on its way. */
typedef struct {
    refs_link_t all;
    refs_kind_t kind;
    size_t from, to;    /* indices of nodes */
    size_t hops;        /* how often it is to be sent on */
    uint32_t container; /* of a pull and its list */
    uint32_t objects[REFS_GIVEN_MAX];
    size_t count;
} refs_flight_t;

struct refs_run {
    world_t *world;
    cluster_t *cluster;
    VEC(refs_node_t *) nodes;
    VEC(refs_object_t) objects;
    size_t objects_max;
    refs_link_t flights;
    bool is_watched; /* nodes that stop, or lose Redis, are buried */
    bool is_ending;  /* processes take nothing any more */
};

bool refs_run_chance(refs_run_t *run, uint64_t part, uint64_t whole);
refs_node_t *refs_run_node_any(refs_run_t *run);

/* A node joins. */
void refs_node_add(refs_run_t *run);
void refs_node_fini(refs_node_t *node);
/* Whether it counts: it is there, and has no tombstone. */
bool refs_node_is_live(const refs_node_t *node);
/* Something was done: the turn ends soon. */
void refs_node_turn(refs_node_t *node);
/* A process of the node takes a reference that the node has; one of its hands is emptied. */
void refs_node_take(refs_node_t *node, uint32_t object);
void refs_node_drop(refs_node_t *node, size_t hand);
/* A value on this node contains the object. */
void refs_node_hold(refs_node_t *node, uint32_t object);
/* Sends a copy of the frame, if the peer is not known to be dead. */
void refs_node_send(refs_node_t *node, const refs_flight_t *plan);
/* Asks for the value of a foreign container. */
void refs_node_pull(refs_node_t *node, uint32_t object);

#endif
