/* The nodes of scenario_group: what each has, what it gives out, and what must never be. */
#ifndef SIM_GROUP_MODEL_H
#define SIM_GROUP_MODEL_H

#include "base/map.h"
#include "base/vec.h"
#include "group/group.h"
#include "sim/host.h"

enum { MODEL_BUNDLES = 4, MODEL_NAMES = 3 };

typedef struct model group_model_t;

/* A reservation on a node. */
typedef struct {
    group_key_t key;
    uint64_t amount;
    bool is_committed;
} group_model_hold_t;

typedef struct {
    group_model_t *model;
    host_t *host;
    group_t *room;
    uint64_t total, busy; /* CPUs; those that other work has */
    const char *labels;
    uint32_t made, job; /* numbers */
    bool is_due;        /* a turn */
    uint64_t buried_ms; /* when somebody first heard of its tombstone; 0: nobody has */
    frame_amount_t view;
    VEC(group_model_hold_t) holds;
    base_map_t heard; /* jobs that have ended, as far as it has heard */
} group_model_node_t;

/* What became of an attempt at a group. */
typedef struct {
    uint64_t fence, attempt;
    bool is_committed, is_aborted;
} group_model_attempt_t;

typedef struct {
    frame_id_t id;
    frame_job_t job;
    mob_strategy_t strategy;
    bool detached;
    int name; /* below 0: none */
    uint64_t amounts[MODEL_BUNDLES];
    const char *selectors[MODEL_BUNDLES];
    size_t count;
    bool is_made;       /* its maker was told that there will be one */
    bool is_unwanted;   /* somebody has asked for its removal */
    bool is_refused;    /* it never was: its name is another's */
    bool is_lost;       /* its record was, with a master */
    group_state_t told; /* its maker */
    VEC(group_model_attempt_t) attempts;
    VEC(group_model_node_t *) removers; /* who asked for its removal, or was told of it */
} group_model_group_t;

struct model {
    world_t *world;
    cluster_t *cluster;
    VEC(group_model_node_t *) nodes;
    base_map_t by_incarnation;
    VEC(group_model_group_t *) groups;
    base_map_t by_id;   /* home, number */
    base_map_t ended;   /* jobs: home, number */
    base_map_t written; /* those whose end is in the control state */
    frame_id_t found[MODEL_NAMES];
    uint64_t fence; /* the newest that anybody has heard of */
};

group_model_t *group_model_new(world_t *world, cluster_t *cluster);
void group_model_free(group_model_t *model);
group_model_node_t *group_model_node_new(group_model_t *model);
group_model_node_t *group_model_node(const group_model_t *model, uint64_t incarnation);
group_model_group_t *group_model_group_new(group_model_t *model, group_model_node_t *node);
group_model_group_t *group_model_group(const group_model_t *model, const frame_id_t *id);
const char *group_model_name(int name);

/* Its record; NULL: there is none. */
const uint8_t *group_model_record(const group_model_t *model, const group_model_group_t *group);
/* Whether its home made it after its own death: a node that still runs. */
bool group_model_is_ghost(const group_model_t *model, const group_model_group_t *group);
/* Redis fails over. */
void group_model_fail_over(group_model_t *model);
/* Whether the node runs, and has no tombstone. */
bool group_model_is_alive(const group_model_t *model, const group_model_node_t *node);
/* Whether the group may be gone. */
bool group_model_is_ending(const group_model_t *model, const group_model_group_t *group);
/* Whether it must: one who asked for its removal, or was told of it, lives. */
bool group_model_is_ended(const group_model_t *model, const group_model_group_t *group);
/* Whether all its bundles are held for good by living nodes. */
bool group_model_is_placed(const group_model_t *model, const group_model_group_t *group);
uint64_t group_model_free_now(const group_model_node_t *node);
/* After every call into a node's room: it has a turn, soon. */
void group_model_turn(group_model_node_t *node);
/* Whether the node has heard that the job has ended: then it makes no groups of it. */
bool group_model_has_heard(const group_model_node_t *node, frame_job_t job);
/* Hears that the job has ended, at each node at a time of its own. */
void group_model_job_end(group_model_t *model, group_model_node_t *home);

#endif
