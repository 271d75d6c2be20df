/* Objects whose value is gone, made again by running their task (lineage.h). */
#ifndef NODE_REMAKE_H
#define NODE_REMAKE_H

#include "mobula.h"
#include "node/run.h"
#include "node/types.h"

struct node_elsewhere;

/* A run that makes objects again. Its results go into slots of the daemon's own first. */
struct node_remake {
    node_lineage_t *lineage;
    node_run_t run;
    bool goes;        /* this node can't run it: it is offered to others */
    uint32_t version; /* of values that stay at the node that runs it */
    char words[400];  /* why it is not run; "": it is */
};

typedef struct {
    VEC(mob_ref_t) wanted; /* objects to begin with */
} node_remakes_t;

/* Whether the object's value is neither in memory nor on disk nor on another node. */
bool node_object_is_gone(node_t *node, const node_object_t *object);
/* The value of the object, which is gone, is to be made again. If it can't be, the object's value
 * is an error from then on. Who waits for it is told either way, this round or later. */
void node_remake_want(node_t *node, node_object_t *object);
/* The same if it is gone. False: it is not. */
bool node_remake_if_gone(node_t *node, node_object_t *object);
/* Begins what is wanted; once a round. */
void node_remakes_settle(node_t *node);
/* What the task's result is for others than its worker: the object that it makes again, or the
 * result itself. */
mob_ref_t node_remake_result(const node_task_t *task, uint32_t index);
/* The run is about to be sent to another node. False: an object that it makes again is gone. */
bool node_remake_send(node_t *node, node_remake_t *remake);
/* The object that the PENDING result `fresh` is for has its value again, at another node. The
 * result gets none. MOB_ENOMEM. */
mob_status_t node_remake_elsewhere(node_t *node, const node_task_t *task, mob_ref_t fresh,
                                   const struct node_elsewhere *what);
/* The run's task is over: its results are sealed, its record is free. Takes `remake`. `retries`:
 * that are left of the task's. */
void node_remake_end(node_t *node, node_remake_t *remake, int32_t retries);

#endif
