/* A try costs bundles times nodes, at the most. */
#include "group/choose.h"

#include <stdlib.h>

typedef struct {
    const group_spec_t *spec;
    group_views_t *views;
    group_matches_fn matches;
    void *context;
    uint64_t *nodes;
    group_view_t **taken; /* of the bundles that were placed now */
} choice_t;

static group_amount_t *amount_of(group_view_t *view, uint64_t name) {
    for (size_t i = 0; i < view->free.count; i++)
        if (view->free.items[i].name == name) return &view->free.items[i];
    return NULL;
}

void group_amount_add(group_view_t *view, const frame_demand_t *demand, int64_t times) {
    for (size_t i = 0; i < demand->count; i++) {
        group_amount_t *amount = amount_of(view, group_hash_text(demand->items[i].name));
        if (amount != NULL) amount->amount += times * (int64_t)demand->items[i].amount;
    }
}

static bool fits(group_view_t *view, const group_run_t *run, int64_t times) {
    for (size_t i = 0; i < run->demand.count; i++) {
        const frame_amount_t *need = &run->demand.items[i];
        if (need->amount == 0) continue;
        const group_amount_t *there = amount_of(view, group_hash_text(need->name));
        if (there == NULL || there->amount / times < (int64_t)need->amount) return false;
    }
    return true;
}

static bool takes(const choice_t *c, group_view_t *view, const group_run_t *run) {
    return (*run->selector == 0 || c->matches(c->context, run->selector, view->labels)) &&
           fits(view, run, 1);
}

/* How much is free of what the bundle needs: to tell full nodes from empty ones. */
static int64_t room_of(group_view_t *view, const group_run_t *run) {
    int64_t sum = 0;
    for (size_t i = 0; i < run->demand.count; i++) {
        const group_amount_t *there = amount_of(view, group_hash_text(run->demand.items[i].name));
        int64_t need = (int64_t)run->demand.items[i].amount;
        if (there != NULL && need > 0) sum += there->amount / (need / 16 + 1);
    }
    return sum;
}

/* Whether `a` is to be preferred to `b`. */
static bool is_better(const choice_t *c, group_view_t *a, group_view_t *b, const group_run_t *run) {
    switch (c->spec->strategy) {
    case MOB_SPREAD:
        if (a->mark != b->mark) return a->mark < b->mark;
        return room_of(a, run) > room_of(b, run);
    case MOB_PACK:
        if ((a->mark > 0) != (b->mark > 0)) return a->mark > 0;
        return room_of(a, run) < room_of(b, run);
    default:
        return room_of(a, run) < room_of(b, run);
    }
}

static bool place(choice_t *c, uint32_t bundle) {
    const group_run_t *run = group_spec_run(c->spec, bundle);
    group_view_t *best = NULL;
    for (size_t i = 0; i < c->views->count; i++) {
        group_view_t *view = c->views->items[i];
        if (c->spec->strategy == MOB_STRICT_SPREAD && view->mark > 0) continue;
        if (takes(c, view, run) && (best == NULL || is_better(c, view, best, run))) best = view;
    }
    if (best == NULL) return false;
    group_amount_add(best, &run->demand, -1);
    best->mark++;
    c->nodes[bundle] = best->node;
    c->taken[bundle] = best;
    return true;
}

static void undo(choice_t *c) {
    for (uint32_t b = 0; b < c->spec->count; b++) {
        if (c->taken[b] == NULL) continue;
        group_amount_add(c->taken[b], &group_spec_run(c->spec, b)->demand, 1);
        c->taken[b]->mark--;
        c->taken[b] = NULL;
        c->nodes[b] = 0;
    }
}

/* All that is missing on this one. */
static bool place_all_on(choice_t *c, group_view_t *view) {
    for (uint32_t b = 0; b < c->spec->count; b++) {
        const group_run_t *run = group_spec_run(c->spec, b);
        if (c->nodes[b] != 0 && c->nodes[b] != view->node) break;
        if (c->nodes[b] != 0) continue;
        if (!takes(c, view, run)) break;
        group_amount_add(view, &run->demand, -1);
        view->mark++;
        c->nodes[b] = view->node;
        c->taken[b] = view;
    }
    for (uint32_t b = 0; b < c->spec->count; b++) {
        if (c->nodes[b] == view->node) continue;
        undo(c);
        return false;
    }
    return true;
}

/* On the fullest node that takes them all. */
static bool place_together(choice_t *c) {
    group_view_t *best = NULL;
    const group_run_t *first = &c->spec->runs[0];
    for (size_t i = 0; i < c->views->count; i++) {
        group_view_t *view = c->views->items[i];
        if (!place_all_on(c, view)) continue;
        undo(c);
        if (best == NULL || room_of(view, first) < room_of(best, first)) best = view;
    }
    return best != NULL && place_all_on(c, best);
}

typedef struct {
    uint32_t bundle;
    bool has_selector;
    uint64_t sum;
} order_t;

static int by_need(const void *left, const void *right) {
    const order_t *a = left, *b = right;
    if (a->has_selector != b->has_selector) return a->has_selector ? -1 : 1;
    if (a->sum != b->sum) return a->sum > b->sum ? -1 : 1;
    return a->bundle < b->bundle ? -1 : 1;
}

static bool place_each(choice_t *c, order_t *order) {
    size_t count = 0;
    for (uint32_t b = 0; b < c->spec->count; b++) {
        if (c->nodes[b] != 0) continue;
        const group_run_t *run = group_spec_run(c->spec, b);
        order_t *o = &order[count++];
        *o = (order_t){.bundle = b, .has_selector = *run->selector != 0};
        for (size_t i = 0; i < run->demand.count; i++) o->sum += run->demand.items[i].amount;
    }
    qsort(order, count, sizeof *order, by_need);
    for (size_t i = 0; i < count; i++) {
        if (place(c, order[i].bundle)) continue;
        undo(c);
        return false;
    }
    return true;
}

static void marks_set(choice_t *c) {
    for (size_t i = 0; i < c->views->count; i++) {
        group_view_t *view = c->views->items[i];
        view->mark = 0;
        for (uint32_t b = 0; b < c->spec->count; b++) view->mark += c->nodes[b] == view->node;
    }
}

bool group_choose(const group_spec_t *spec, group_views_t *views, group_matches_fn matches,
                  void *context, uint64_t *nodes, bool *ret_short) {
    choice_t c = {spec, views, matches, context, nodes, calloc(spec->count, sizeof *c.taken)};
    order_t *order = calloc(spec->count, sizeof *order);
    bool is_placed = false;
    *ret_short = c.taken == NULL || order == NULL;
    if (!*ret_short) {
        marks_set(&c);
        bool packs = spec->strategy == MOB_PACK || spec->strategy == MOB_STRICT_PACK;
        is_placed = packs && place_together(&c);
        if (!is_placed && spec->strategy != MOB_STRICT_PACK) is_placed = place_each(&c, order);
    }
    free(c.taken);
    free(order);
    return is_placed;
}
