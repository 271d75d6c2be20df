/*
 * Which node for which bundle: the strategies, over a view of what is free on nodes.
 *
 * Bundles with a selector are placed first, then those that need more; so a set that fits is found
 * where amounts are multiples of each other, and mostly elsewhere. PACK and STRICT_PACK take the
 * fullest node that will do, SPREAD the emptiest, STRICT_SPREAD the fullest of those that have
 * none.
 */
#ifndef GROUP_CHOOSE_H
#define GROUP_CHOOSE_H

#include "base/vec.h"
#include "group/spec.h"

typedef struct {
    uint64_t name; /* group_hash_text of it */
    int64_t amount;
} group_amount_t;

/* What the leader knows of a node. */
typedef struct group_view {
    uint64_t node;
    VEC(group_amount_t) free;    /* as the node said last, less what it was asked to set aside */
    VEC(group_amount_t) pending; /* what it was asked for, and has not answered */
    char *labels;
    bool is_wanted; /* it was asked to say when it has more */
    bool is_known;  /* it was told that its view has come */
    uint32_t mark;  /* bundles of the group that is being placed */
} group_view_t;

typedef VEC(group_view_t *) group_views_t;

void group_amount_add(group_view_t *view, const frame_demand_t *demand, int64_t times);

typedef bool (*group_matches_fn)(void *context, const char *selector, const char *labels);

/* Where bundles are: `nodes[b]` 0: it is to be placed; else it is there already. Fills in all, and
 * takes what they need from the views; false: they do not fit, and nothing has changed. MOB_ENOMEM
 * is a false too, with *ret_short. */
bool group_choose(const group_spec_t *spec, group_views_t *views, group_matches_fn matches,
                  void *context, uint64_t *nodes, bool *ret_short);

#endif
