/*
 * POST_FLOW: items of flows (store/flow.h) between the node that makes them and the one whose
 * process reads them. outflow.h has the first of these, inflow.h the second.
 *
 *   ITEM    to the reader's node: this item is made. Its value is in the layout of a run's end
 *           (frame/done.h), with the item's id as `at` if it stays where it was made
 *   NAME    to the reader's node: this item is too large to travel: how is it called?
 *   NAMED   to the maker's node: so. The id is the receiver's too from then on
 *   ROOM    to the maker's node: so many items have come, so many of these were taken, and whether
 *           more are wanted
 *
 * A flow is named by the id of its task's first result, `done`, in all runs of the task. ITEM and
 * NAME are said in the order of the items, and before the run's end: the link keeps that order. All
 * but ITEM say how things are, not what has changed, so the newest is enough, and one that comes
 * too late says nothing new. All are sent as answers: their number is bounded by FLOW_WINDOW.
 */
#ifndef NODE_CLUSTER_FLOWPOST_H
#define NODE_CLUSTER_FLOWPOST_H

#include "frame/done.h"
#include "mobula.h"
#include "node/types.h"

enum { FLOW_WINDOW = 128 }; /* items that are sent, and not said to have come */

typedef enum { FLOW_ITEM = 1, FLOW_NAME, FLOW_NAMED, FLOW_ROOM } node_flow_kind_t;

/* One message; what its kind has no use for is 0. */
typedef struct {
    node_flow_kind_t kind;
    frame_id_t flow;
    uint64_t index;       /* of ITEM, NAME, NAMED; of ROOM: how many items have come */
    uint64_t taken;       /* of ROOM */
    bool is_closed;       /* of ROOM */
    frame_id_t id;        /* of NAMED */
    const uint8_t *value; /* of ITEM, in bytes */
    size_t value_size;
    const frame_value_t *item; /* of ITEM that has come: what these say */
} node_flow_letter_t;

/* Sends it to a node, which may be this one: then it is received at once. MOB_ECLOSED: that node is
 * dead; MOB_ENOMEM. */
mob_status_t node_flowpost_send(node_cluster_t *cluster, uint64_t to,
                                const node_flow_letter_t *letter);
/* A message of POST_FLOW. MOB_EPROTO, MOB_ECLOSED: it is thrown away; MOB_ENOMEM: it has to come
 * again. */
mob_status_t node_flowpost_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                   size_t size);

#endif
