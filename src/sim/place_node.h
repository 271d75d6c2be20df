/*
 * A node of the scenario `place`: a small exact scheduler, workers, and the room between them and
 * the other nodes. It counts and checks what happens to each task, wherever that is.
 */
#ifndef SIM_PLACE_NODE_H
#define SIM_PLACE_NODE_H

#include "base/vec.h"
#include "place/place.h"
#include "sim/host.h"

enum { RESOURCES = 2, JOBS = 3, SENDS_MAX = 24 };

typedef enum {
    SHAPE_ONE,    /* a CPU */
    SHAPE_TWO,    /* two of them */
    SHAPE_X,      /* a CPU and an X, which few nodes have */
    SHAPE_SPREAD, /* a CPU, spread */
    SHAPE_NODE,   /* a CPU of a certain node */
    SHAPE_SOFT,   /* ... or of another, if that is gone */
    SHAPE_ZONE,   /* a CPU in zone a */
    SHAPE_HINT,   /* a CPU, best at a certain node */
    SHAPES
} shape_t;

typedef struct task task_t;
typedef struct node node_t;
typedef struct run run_t;

/* The truth about a task, which nobody sees but the checks. */
struct task {
    run_t *run;
    uint64_t id;
    node_t *origin;
    int job, max_retries, retries; /* retries: left, as the origin counts */
    shape_t shape;
    uint64_t target, length_ns;
    uint64_t submitted_ns, begun_ns; /* begun for the first time; 0: never */
    task_t *child;                   /* it waits for this, once it has begun */
    bool has_child, child_is_here;   /* it will have one: of its node, or else of its origin */
    uint32_t record;
    uint8_t moves;
    int begun, sends;
    bool is_sent, is_cancelled, has_ended, ended_with_job;
    place_outcome_t outcome;
};

/* A task at a node: in its queue, or with a worker. */
typedef struct work {
    node_t *node;
    task_t *task;
    struct lane *lane;    /* of its node; NULL: a guest */
    place_guest_t *guest; /* NULL: it is the node's own, or given back while it ran */
    bool is_guest, may_start, is_running, is_blocked, is_over;
    place_outcome_t outcome; /* it will have */
} work_t;

typedef struct lane {
    int job;
    shape_t shape;
    uint64_t target;
    place_lane_t *lane;
    bool is_local;
    uint32_t waiting; /* as last counted */
} lane_t;

struct node {
    run_t *run;
    host_t *host;
    place_t *place;
    int64_t total[RESOURCES], free[RESOURCES];
    int64_t job_cpus[JOBS];
    bool is_zone_a, is_paused, is_sick; /* sick: refuses guests that need an X */
    bool has_ended[JOBS];               /* jobs, as it has heard */
    VEC(work_t *) works;                /* in the order in which they came */
    VEC(task_t *) records;              /* by record; NULL: free */
    VEC(lane_t *) lanes;
    VEC(uint64_t) silent;
    uint64_t timer_ns;
    uint64_t accounted, received; /* frames that were refused or ended here; that came */
    bool is_settling;
};

struct run {
    world_t *world;
    cluster_t *cluster;
    VEC(node_t *) nodes;
    VEC(task_t *) tasks;
    frame_job_t jobs[JOBS];
    bool has_ended[JOBS];
    bool is_calm; /* nothing goes wrong: no crashes */
};

node_t *place_node_new(run_t *run, int64_t cpus, int64_t xs, bool is_zone_a);
void place_node_free(node_t *node);
bool place_node_is_alive(const node_t *node);
/* The node's queue and its room, until both are at rest. */
void place_node_settle(node_t *node);
/* A task of this node's own begins to wait. */
void place_node_submit(node_t *node, task_t *task);
void place_node_cancel(node_t *node, task_t *task);
void place_node_job_end(node_t *node, int job);
void place_node_lanes_free(node_t *node);
/* Whether this node could ever run it. */
bool place_node_suits(const node_t *node, const task_t *task);
uint64_t place_node_now_ns(const node_t *node); /* by its own clock */

/* Tasks and works: place_work.c. */
task_t *place_task_new(run_t *run, node_t *origin, int job, shape_t shape);
int64_t place_need_of(const task_t *task, int resource);
void place_task_end(task_t *task, place_outcome_t outcome); /* as seen by its origin */
work_t *place_work_new(node_t *node, task_t *task, bool may_start);
work_t *place_own_new(node_t *node, task_t *task, bool may_start); /* of its own node */
void place_work_remove(work_t *work);                              /* events may still name it */
void place_work_stop(work_t *work);
bool place_is_of(const lane_t *lane, const work_t *work); /* the room may send it away */
bool place_schedule_one(node_t *node); /* starts one work; false: none can start */

#endif
