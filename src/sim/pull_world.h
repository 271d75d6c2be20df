/*
 * The scenario of the room pull: nodes with memory and bulk threads, objects with versions, and
 * wants. Every chunk has a content of its own, so what is assembled of wrong ones is seen.
 */
#ifndef SIM_PULL_WORLD_H
#define SIM_PULL_WORLD_H

#include "base/map.h"
#include "base/vec.h"
#include "pull/pull.h"
#include "sim/host.h"

enum { PULL_OBJECTS = 24, PULL_WANT_MAX = 4 };

typedef struct pull_run pull_run_t;
typedef struct pull_node pull_node_t;

/* Memory for one copy. Pages of a node are used again as soon as they are free. */
typedef struct extent {
    uint64_t **pages; /* a chunk each */
    uint32_t count;
    bool is_made; /* its pages are its own */
} extent_t;

/* One value that exists, or is to be made. */
typedef struct {
    frame_id_t id;
    size_t home, maker;       /* nodes */
    int needs;                /* the object that the task which makes it has as its argument; -1 */
    uint32_t version, chunks; /* of the newest run */
    enum { UNMADE, MAKING, MADE, LOST, FREED } state;
    size_t wanted;    /* wants that name it */
    uint64_t attempt; /* to make it */
} thing_t;

/* A want of a node, until it is answered and over. */
typedef struct pull_call {
    pull_node_t *node;
    pull_want_t *want;
    pull_class_t class;
    int things[PULL_WANT_MAX];
    size_t count;
    thing_t *makes; /* a task's result */
    bool is_answered, is_over;
    uint64_t number;    /* they are counted */
    pull_state_t state; /* after the last event */
    uint64_t turn;      /* the same */
    uint64_t waits_ns;  /* since when it waits for room */
} pull_call_t;

/* What the bulk thread of a receiver waits for. */
typedef struct {
    uint64_t *page;
    uint64_t source;
} expected_t;

struct pull_node {
    pull_run_t *run;
    host_t *host;
    size_t index;
    pull_t *pull;
    uint64_t capacity, used; /* pages */
    uint64_t *memory;
    bool *taken;
    base_map_t extents;  /* by object number */
    base_map_t expected; /* by ticket and chunk */
    uint64_t out_free_ns, in_free_ns;
    uint64_t troubled_ns; /* when it was last stopped, or went on */
    uint64_t progress_ns[PULL_OBJECTS], complete_ns[PULL_OBJECTS];
    uint64_t last_ticket[PULL_OBJECTS], last_source[PULL_OBJECTS];
};

struct pull_run {
    world_t *world;
    cluster_t *cluster;
    VEC(pull_node_t *) nodes;
    thing_t things[PULL_OBJECTS];
    size_t thing_count;
    VEC(pull_call_t *) calls;
    uint64_t call_count;
    size_t unanswered;
    VEC(uint64_t) cuts; /* pairs: lower index << 32 | higher; when it was last changed, in cut_ns */
    base_map_t cut_ns;
    uint64_t chunk_ns;
    uint64_t redis_ns; /* when Redis was last troubled */
    bool is_watched;   /* by the judge */
    bool is_calm;      /* nothing is stopped or cut: unless one dies every holder has one reader */
    bool is_slow;      /* what goes wrong stays so for long */
    size_t deaths;
    bool is_ending; /* no new work */
    int dirty;      /* the object that the last event was about; -1 */
};

/* ---- pull_node.c ---- */

pull_node_t *pull_node_new(pull_run_t *run, uint64_t capacity);
void pull_node_free(pull_node_t *node);
bool pull_node_is_up(const pull_node_t *node);
bool pull_node_is_dead(const pull_node_t *node);
pull_node_t *pull_node_find(const pull_run_t *run, uint64_t incarnation);
uint64_t pull_node_clock(const pull_node_t *node);
/* What the chunk's bytes are. */
uint64_t pull_content(const thing_t *thing, uint32_t version, uint32_t chunk);
extent_t *pull_extent(const pull_node_t *node, const frame_id_t *id);
bool pull_pair_is_cut(const pull_run_t *run, const pull_node_t *a, const pull_node_t *b);
void pull_pair_cut(pull_run_t *run, pull_node_t *a, pull_node_t *b, bool is_cut);
void pull_node_trouble(pull_node_t *node);
/* Unless too many are dead already. */
void pull_node_kill(pull_node_t *node);
/* Moves a copy to the node's disk, if nobody has it. */
void pull_node_spill(pull_node_t *node, thing_t *thing);

/* ---- pull_work.c ---- */

/* Of another room, by which the home hears what was made. */
extern const host_room_ops_t pull_done_ops;
void pull_work_init(pull_run_t *run);
/* The thing begins to be made, for the first time or again. */
void pull_thing_make(pull_run_t *run, thing_t *thing);
void pull_call_new(pull_node_t *node, pull_class_t class, const int *things, size_t count,
                   thing_t *makes);
void pull_call_ready(pull_call_t *call);
void pull_call_failed(pull_call_t *call, const frame_id_t *id, mob_status_t why);
void pull_work_random(pull_run_t *run);

/* ---- pull_check.c ---- */

void pull_check_event(void *run);
void pull_check_bytes(const pull_call_t *call, const char *when);
void pull_check_lost(const pull_call_t *call, const frame_id_t *id);
void pull_check_stalls(pull_run_t *run);
void pull_check_end(pull_run_t *run);

#endif
