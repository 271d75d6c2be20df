/* What the scenario `actor` knows of all nodes at once: actors, their processes, calls and names,
 * and what must never be. The rooms see nothing of it. */
#ifndef SIM_ACTOR_MODEL_H
#define SIM_ACTOR_MODEL_H

#include "actor/actor.h"
#include "base/map.h"
#include "base/vec.h"
#include "sim/host.h"

enum { MODEL_NAMES = 3, MODEL_CALLERS = 3 };

typedef struct model model_t;

typedef struct {
    model_t *model;
    size_t index;
    host_t *host;
    actor_t *room;
    uint64_t woken_ns;
    bool is_at_risk;   /* it is stopped, or does not hear Redis: it may be buried */
    base_map_t silent; /* peer to the time since which it is, plus 1 */
} node_t;

/* Of an actor on a node; a closed one is in use as long as calls wait. */
typedef enum { HANDLE_NONE, HANDLE_OPEN, HANDLE_CLOSED } handle_t;

typedef struct process {
    size_t actor;
    uint64_t epoch;
    node_t *node;
    enum { PROCESS_MAKES, PROCESS_ALIVE, PROCESS_GONE } state;
    uint64_t made_ns; /* its constructor has ended */
} process_t;

typedef struct {
    frame_id_t id;
    node_t *home;
    uint8_t flags;
    int name; /* -1: none */
    int32_t max_restarts;
    node_t *killer; /* for good */
    node_t *placed; /* where it is to be made, or was last */
    bool is_unwanted;
    uint64_t asked_ns, taken_ns, ended_ns; /* 0: not yet */
    bool is_doomed;                        /* something happened to it that may have ended it */
    uint64_t newest_made, newest_called;   /* epoch */
    VEC(uint8_t) handles;                  /* by node: handle_t */
} model_actor_t;

typedef struct {
    size_t actor, node;
    uint64_t caller, sequence;
    int32_t retries;
    uint32_t runs;
    int64_t needs; /* a call that must be over before this one's argument is there; -1 */
    uint64_t target, target_ns; /* where it is sent to, since when */
    uint64_t cancelled_ns;      /* 0: it was not */
    bool is_answered;
    mob_status_t status;
} model_call_t;

struct model {
    world_t *world;
    cluster_t *cluster;
    VEC(node_t *) nodes;
    VEC(model_actor_t *) actors;
    VEC(model_call_t) calls;
    VEC(process_t *) processes;
    base_map_t running; /* (node, the room's number of a call) to its index, plus 1 */
    base_map_t order;   /* (actor, epoch, node, caller) to the last sequence begun, plus 1 */
    base_map_t made;    /* (actor, epoch) */
    base_map_t by_host; /* incarnation to node */
    base_map_t finds;   /* token to find_t */
    uint64_t numbers;
    bool is_calm;  /* nothing goes wrong any more */
    bool is_late;  /* links stay cut, with what is on its way */
    bool is_rough; /* the control state likes to fail over when it is asked */
};

model_t *model_new(world_t *world);
void model_free(model_t *model);
node_t *model_join(model_t *model); /* a new node with its room */
bool node_is_up(const node_t *node);

/* Random work of one node. */
void model_create(node_t *node, int name); /* -1: without */
void model_call(node_t *node);
void model_cancel(node_t *node);
void model_handle(node_t *node);
void model_kill(node_t *node);
void model_find(node_t *node);
void model_crash(model_t *model); /* of a process */
/* The node does not hear the control state for a while, perhaps until it is buried. */
void model_deafen(node_t *node);
/* Of the control state; sometimes with the death of this node, or of any. */
void model_fail_over(model_t *model, node_t *node);

process_t *model_process(model_t *model, size_t actor, uint64_t epoch, const node_t *node);
size_t model_actor_of(model_t *model, frame_id_t id);
/* The room's word for this actor's name, and the name's key in the control state. */
void model_name(int name, uint8_t ret_name[ACTOR_NAME_SIZE]);

/* Events, as they are: each fails the world if it must not be. */
void model_check_make(node_t *node, size_t actor, uint64_t epoch);
void model_check_run(node_t *node, size_t call, const process_t *process);
void model_check_answer(node_t *node, size_t call, mob_status_t status);
void model_check_created(node_t *node, size_t actor, mob_status_t status);
void model_check_ended(node_t *node, size_t actor);
void model_check_found(node_t *node, int name, uint64_t asked_ns, mob_status_t status,
                       frame_id_t id);
/* Every wait on a silent node is over in time. */
void model_check_bounds(model_t *model);
/* After a calm time: every call is answered, what was killed is gone. */
void model_check_answered(model_t *model);
/* After everything was closed and killed: nothing is left. */
void model_check_empty(model_t *model);
/* Its home, or a node that it was on, died, or it was killed: what it owns may be gone. */
void model_doom(model_t *model, node_t *node);
/* All handles are gone: its home is told. */
void model_handles_look(model_t *model, size_t actor);

extern const actor_ops_t node_ops;
extern const host_room_ops_t node_room_ops;

#endif
