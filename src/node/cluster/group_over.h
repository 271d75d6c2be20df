/*
 * What a book on a placement group has beyond one node: at its home, where it was made, and as a
 * *guest* at any other node that holds bundles of it or where somebody has asked for it. The book's
 * scheduler has all bundles; those that are here are set aside in it, one by one.
 *
 * group_over.c has where bundles are; group_home.h what its home does, group_guest.h the others.
 * All may be called where there is no cluster.
 */
#ifndef NODE_CLUSTER_GROUP_OVER_H
#define NODE_CLUSTER_GROUP_OVER_H

#include "frame/frame.h"
#include "group/group.h"
#include "node/types.h"
#include "sched/sched.h"

/* By which attempt a bundle was set aside here. */
typedef struct {
    uint64_t fence, attempt;
    bool is_here;
} node_bundle_turn_t;

typedef struct node_group_over {
    frame_id_t id;             /* by which all nodes know it */
    bool is_shared;            /* of its home: the room group has it */
    bool is_told;              /* of a guest: its home says what becomes of it */
    uint64_t *nodes;           /* where its bundles are; NULL: not placed yet, or not told */
    uint64_t turn;             /* how often a node was picked */
    VEC(uint64_t) others;      /* of these, other nodes, each once */
    VEC(uint64_t) watchers;    /* of its home: peers that are told */
    node_bundle_turn_t *turns; /* by bundle; NULL: none was ever set aside one by one */
} node_group_over_t;

/* Makes the part of a book that has none; NULL: no memory. */
node_group_over_t *node_group_over_new(node_group_t *group, frame_id_t id);
void node_group_over_free(node_group_t *group);

/* The id by which all nodes know it. */
frame_id_t node_group_id(const node_group_t *group);
void node_group_id_text(const node_group_t *group, char ret_text[2 * MOB_ID_SIZE + 1]);
bool node_group_is_guest(const node_group_t *group);
/* The group of this id, whoever has made it; NULL: none is known here. */
node_group_t *node_group_known(node_t *node, frame_id_t id);

/* ---- where its bundles are ---- */

/* One node for each bundle, or one for all. False: no memory, or it is neither; nothing has
 * changed.
 */
bool node_group_places_set(node_group_t *group, const uint64_t *nodes, size_t count);
/* The bundle's node; 0: it has none, as far as is known. */
uint64_t node_group_place_of(const node_group_t *group, uint32_t bundle);
/* How many tasks of this shape the bundles that the node has could run at once. */
uint32_t node_group_capacity(const node_group_t *group, const sched_job_t *job, uint32_t shape,
                             uint64_t node);
/* A living node that could run one task of this shape, this one perhaps, if `may_stay`: another one
 * at each call, if there are several. 0: none is known. */
uint64_t node_group_pick(node_group_t *group, const sched_job_t *job, uint32_t shape,
                         bool may_stay);
/* A living node that has the bundle; below 0: any one, another one at each call. 0: none is known.
 */
uint64_t node_group_bundle_node(node_group_t *group, int32_t bundle);
/* The group that the task runs in, if its bundles may be on other nodes; NULL: it is none of those.
 */
node_group_t *node_group_over_of(const node_task_t *task);
/* Whether the task can't go where its bundle is: it stays where it is, and the bundle is on another
 * node. */
bool node_group_bars(const node_task_t *task, const char **ret_words);

/* ---- bundles that are set aside here, as the room group says ---- */

bool node_bundle_reserve(node_group_t *group, const group_key_t *key, const char *selector);
void node_bundle_commit(node_group_t *group, const group_key_t *key);
/* True: it could be used, so that the group is over. */
bool node_bundle_release(node_group_t *group, const group_key_t *key);
/* Whether any is. */
bool node_group_has_bundles(const node_group_t *group);

/* ---- what the book tells ---- */

/* Its state has changed. */
void node_group_over_tell(node_group_t *group);
/* It has ended here. */
void node_group_over_end(node_group_t *group);

#endif
