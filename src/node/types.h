/*
 * The names of the daemon's things, for headers that only pass them on. state.h has the daemon
 * itself; each thing has a header of its own.
 *
 * One rule for every header of this room: a function is called in the loop's thread and does not
 * block, unless its header says otherwise.
 */
#ifndef NODE_TYPES_H
#define NODE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"

typedef struct node node_t;
typedef struct node_client node_client_t;
typedef struct node_task node_task_t;
typedef struct node_object node_object_t;
typedef struct node_actor node_actor_t;
typedef struct node_group node_group_t;
typedef struct node_job node_job_t;
typedef struct node_setup node_setup_t;
typedef struct node_pool node_pool_t;
typedef struct node_lineage node_lineage_t;
typedef struct node_remake node_remake_t;
typedef struct node_peer node_peer_t;
typedef struct node_visit node_visit_t;
typedef struct node_inflow node_inflow_t;
typedef struct node_outflow node_outflow_t;
typedef struct node_cluster node_cluster_t;

/* Owner of what a dead client was granted and is still in use; no client has this number. */
enum { NODE_ORPHAN = UINT16_MAX };

/* Neighbouring entries of a table. */
typedef struct {
    uint32_t first, count;
} node_span_t;
typedef VEC(node_span_t) node_spans_t;

#endif
