/* Names of tasks and runs, for people. */
#ifndef NODE_RUNNAME_H
#define NODE_RUNNAME_H

#include "control/control.h"
#include "node/types.h"

/* The task or actor that the worker runs, or ran last; "" if none is known. NODE_NAME_BYTES are
 * written at most. */
void node_run_name(node_client_t *worker, char *ret_name);
/* Returns its length; cut where it is too long, and always ended by 0. */
size_t node_task_name(node_t *node, const node_task_t *task, char *ret_name, size_t capacity);
/* The name of a call in the timeline: A.m, each half cut where it is too long. */
void node_event_name(control_event_t *event, const node_actor_t *actor, const char *method,
                     size_t size);

#endif
