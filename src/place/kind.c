/* A kind waits at one index: of the node or the labels that it must have, else of the rarest
 * resource that it asks for. One that would rather have a node or labels looks there first. */
#include "place/kind.h"

#include <stdlib.h>

/* The index of the rarest resource that is asked for. */
static bool kind_index_choose(leader_t *leader, kind_t *kind, const message_demand_t *d) {
    for (size_t i = 0; i < d->demand.count; i++) {
        kind->needs[i] =
            (views_need_t){place_views_index(&leader->views, d->demand.amounts[i].name),
                           d->demand.amounts[i].amount};
        kind->count = i + 1;
        if (kind->needs[i].index == NULL) return false;
        if (kind->index != NULL && kind->index->count <= kind->needs[i].index->count) continue;
        kind->index = kind->needs[i].index;
        kind->least = kind->needs[i].amount;
    }
    if (kind->index == NULL) kind->index = place_views_index(&leader->views, NULL);
    return kind->index != NULL;
}

/* Labels and nodes that are asked for stand before amounts; a soft one only comes first. */
static bool kind_place_choose(leader_t *leader, kind_t *kind, const message_demand_t *d) {
    const place_demand_t *demand = &d->demand;
    index_t *index = NULL;
    bool has_labels = demand->selector[0] != 0;
    if (demand->strategy != PLACE_NODE && !has_labels) return true;
    index = demand->strategy == PLACE_NODE
                ? place_views_index_node(&leader->views, demand->node)
                : place_views_index_labels(&leader->views, demand->selector);
    if (index == NULL) return false;
    view_t *view =
        demand->strategy == PLACE_NODE ? place_views_find(&leader->views, demand->node) : NULL;
    bool is_there = view != NULL && place_view_fits_ever(view, kind->needs, kind->count);
    if (demand->is_soft && !is_there) {
        kind->prefer = index;
        return true;
    }
    if (demand->is_soft) {
        kind->else_index = kind->index;
        kind->else_least = kind->least;
    }
    kind->index = index;
    kind->least = 0;
    return true;
}

/* Its node is dead, and another one will do. */
void place_kind_move(leader_t *leader, kind_t *kind) {
    kind->index = kind->else_index;
    kind->least = kind->else_least;
    kind->else_index = NULL;
    ring_push(&kind->index->waiting, &kind->waiting);
    for (ring_t *at = kind->questions.next; at != &kind->questions; at = at->next)
        ring_add(&leader->fresh, &RING_OF(at, question_t, in_kind)->fresh);
}

static kind_t *kind_new(leader_t *leader, const message_demand_t *d, uint64_t hash) {
    kind_t *kind = calloc(1, sizeof *kind + d->shape_size);
    if (kind == NULL) return NULL;
    kind->hash = hash;
    kind->chain = base_map_get(&leader->kinds, &hash);
    kind->strategy = d->demand.strategy;
    kind->shape_size = d->shape_size;
    memcpy(kind->shape, d->shape, d->shape_size);
    ring_init(&kind->questions);
    if (kind_index_choose(leader, kind, d) && kind_place_choose(leader, kind, d) &&
        base_map_put(&leader->kinds, &hash, kind)) {
        ring_push(&kind->index->waiting, &kind->waiting);
        return kind;
    }
    free(kind);
    return NULL;
}

kind_t *place_kind_get(leader_t *leader, const message_demand_t *d) {
    uint64_t hash = place_views_hash(d->shape, d->shape_size);
    kind_t *kind = base_map_get(&leader->kinds, &hash);
    while (kind != NULL &&
           (kind->shape_size != d->shape_size || memcmp(kind->shape, d->shape, d->shape_size) != 0))
        kind = kind->chain;
    return kind != NULL ? kind : kind_new(leader, d, hash);
}

void place_kind_release(leader_t *leader, kind_t *kind) {
    if (kind->question_count > 0) return;
    kind_t *first = base_map_get(&leader->kinds, &kind->hash);
    if (first != kind) {
        while (first->chain != kind) first = first->chain;
        first->chain = kind->chain;
    } else if (kind->chain != NULL) {
        base_map_put(&leader->kinds, &kind->hash, kind->chain);
    } else {
        base_map_remove(&leader->kinds, &kind->hash);
    }
    ring_remove(&kind->waiting);
    free(kind);
}
