/*
 * Offers: tasks of this node that wait and that others may run, as lanes of the room place; one for
 * each job, shape and node that would be best. offer.c has what is offered, and when.
 */
#ifndef NODE_CLUSTER_OFFER_H
#define NODE_CLUSTER_OFFER_H

#include "base/map.h"
#include "node/cluster/pace.h"
#include "node/types.h"
#include "place/place.h"

typedef struct node_offer {
    node_job_t *job;
    uint32_t shape;     /* held */
    uint64_t hint;      /* the node that has most of their arguments' bytes; 0: none. Of a demand
                           in a placement group: the node with bundles that it may be met in */
    bool in_group;      /* it is such a demand */
    uint32_t capacity;  /* tasks that run at once in these bundles */
    uint32_t extra;     /* so many more may be sent, for those there may wait for them */
    uint64_t full_ns;   /* since when as many are sent as may be; 0: they are not */
    place_lane_t *lane; /* NULL: the demand can't be told; its tasks stay here */
    bool is_local;      /* this node runs them too, as soon as they fit */
    bool holds;         /* ... no, the leader says where they run: they wait in this list */
    node_task_t *head, *tail;
    uint32_t held;
    uint32_t sent;    /* tasks that are at peers */
    node_pace_t pace; /* of its lane */
    uint64_t idle_ns; /* since when none waits and none is sent; 0: some do */
} node_offer_t;

typedef struct {
    base_map_t by_shape; /* by job's place, shape and hint */
    VEC(node_offer_t *) items;
    bool is_quick; /* tasks wait that are too short to be offered: the daemon looks again soon */
} node_offers_t;

void node_offers_start(node_offers_t *offers);
/* Forgets them. What was sent is forgotten with the room. */
void node_offers_end(node_offers_t *offers);
/* Says how many wait, to be called where that may have changed. */
void node_offers_settle(node_cluster_t *cluster);
/* The job is about to be freed: none of its tasks is left. */
void node_offers_forget(node_job_t *job);

/* Whether the leader says where tasks of this shape run: they are to be spread, or rather run on
 * another node than here. */
bool node_offer_holds(const node_job_t *job, uint32_t shape);
/* Keeps such a task until it is said where it runs. False: it is none, or nobody could say. */
bool node_offer_hold(node_task_t *task);
/* It waits there no longer; harmless if it does not. */
void node_offer_unhold(node_task_t *task);
/* Up to `count` of those that are held run here. */
void node_offer_keep(node_offer_t *offer, uint32_t count);
/* Nobody can say where what is held runs: it runs here. */
void node_offers_release(node_cluster_t *cluster);
/* The bundles of the group have other places. */
void node_offers_regroup(const node_group_t *group);
/* The task was put into the scheduler's queue: it may be for others. */
void node_offer_note(const node_task_t *task);
/* The oldest that may go, READY, and nowhere else from now on; node_task_ready puts it back. NULL:
 * there is none. */
node_task_t *node_offer_take(node_offer_t *offer);

/* Whether that node, which is another one, lives and could ever run what the shape asks for. */
bool node_offer_fits_at(const node_job_t *job, uint32_t shape, uint64_t node);
/* Whether another live node could ever run what the shape asks for. */
bool node_offer_fits_elsewhere(const node_job_t *job, uint32_t shape);

#endif
