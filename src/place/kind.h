/* What the leader is asked, in kinds: questions with the same needs, which wait for the same nodes.
 */
#ifndef PLACE_KIND_H
#define PLACE_KIND_H

#include "place/views.h"

typedef struct kind {
    struct kind *chain;
    uint64_t hash;
    place_strategy_t strategy;
    index_t *index;             /* where it waits */
    index_t *prefer;            /* looked at before; NULL: none */
    index_t *else_index;        /* where it waits if its node dies; NULL: nowhere else */
    uint64_t least, else_least; /* of the index's resource */
    ring_t questions, waiting;
    size_t question_count, count;
    views_need_t needs[PLACE_NAMES_MAX];
    size_t shape_size;
    uint8_t shape[];
} kind_t;

typedef struct {
    uint64_t origin, lane;
} question_key_t;

typedef struct question {
    question_key_t key;
    kind_t *kind;
    uint32_t serial, want;
    uint64_t hint, since_ns, starved_ns;
    bool is_local;
    message_avoid_t avoid[MESSAGE_AVOID_MAX];
    size_t avoid_count;
    ring_t in_kind, fresh, starving;
} question_t;

struct leader {
    place_t *place;
    views_t views;
    base_map_t questions, kinds; /* kinds: by hash, chained */
    ring_t fresh, starving, improved, probed;
};

/* NULL: no memory. It goes with its last question. */
kind_t *place_kind_get(leader_t *leader, const message_demand_t *d);
void place_kind_release(leader_t *leader, kind_t *kind);
/* Its node is dead, and another one will do. */
void place_kind_move(leader_t *leader, kind_t *kind);

#endif
