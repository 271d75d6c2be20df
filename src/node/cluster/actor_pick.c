/*
 * One that has the labels, with the most CPUs free of those that have room now, as their heartbeats
 * say. What was sent there since the last heartbeat is counted. Actors that are to be spread go to
 * those that have room in turn. So do those in a placement group, to the nodes of its bundles:
 * these say themselves if there is no room.
 */
#include "node/cluster/actor_pick.h"

#include <string.h>

#include "node/cluster/cluster.h"
#include "node/cluster/group_over.h"
#include "node/cluster/guest.h"
#include "node/state.h"
#include "sched/selector.h"

/* Without the mark of what must hold, or need not. */
static const char *terms_of(const char *selector) {
    bool is_marked = selector != NULL && (selector[0] == '!' || selector[0] == '~');
    return is_marked ? selector + 1 : selector;
}

static bool row_has(const node_row_t *row, const sched_amount_t *need, bool now) {
    for (size_t i = 0; i < row->count; i++)
        if (strcmp(row->totals[i].name, need->name) == 0)
            return (now ? row->free[i] : (int64_t)row->totals[i].amount) >= (int64_t)need->amount;
    return false;
}

static int64_t cpus_of(const node_row_t *row) {
    for (size_t i = 0; i < row->count; i++)
        if (strcmp(row->totals[i].name, "CPU") == 0) return row->free[i];
    return 0;
}

/* What is asked for, and where. */
typedef struct {
    sched_amount_t needs[SCHED_NEEDS_MAX];
    size_t count;
    const char *terms;
    bool is_soft; /* a node with other labels will do */
    bool spreads;
} want_t;

static void want_read(const node_task_t *t, want_t *ret_want) {
    ret_want->count = sched_shape_demand(t->job->sched, t->shape, ret_want->needs, SCHED_NEEDS_MAX);
    const sched_where_t *where = sched_shape_where(t->job->sched, t->shape);
    ret_want->terms = terms_of(where->selector);
    ret_want->is_soft = where->selector != NULL && where->selector[0] == '~';
    ret_want->spreads = where->flags & MOB_WHERE_SPREAD;
}

static bool row_fits(const node_row_t *row, const want_t *want, bool now) {
    if (row->until_ms != 0 || row->is_silent || !sched_selector_matches(want->terms, row->labels))
        return false;
    for (size_t i = 0; i < want->count; i++)
        if (!row_has(row, &want->needs[i], now)) return false;
    return true;
}

/* Another node; NULL: none is like that. */
static node_row_t *row_pick(node_cluster_t *c, const want_t *want, bool now) {
    node_row_t *best = NULL;
    for (size_t i = 0; i < c->roster.order.count; i++) {
        node_row_t *row = c->roster.order.items[i];
        if (row->incarnation == c->node->incarnation || !row_fits(row, want, now)) continue;
        if (best == NULL || cpus_of(row) > cpus_of(best)) best = row;
    }
    return best;
}

/* Until its next heartbeat says so itself. */
static void row_take(node_row_t *row, const want_t *want) {
    for (size_t k = 0; k < want->count; k++)
        for (size_t i = 0; i < row->count; i++)
            if (strcmp(row->totals[i].name, want->needs[k].name) == 0)
                row->free[i] -= (int64_t)want->needs[k].amount;
}

static bool fits_here_now(node_cluster_t *c, const node_task_t *t, const want_t *want) {
    frame_amount_t amounts[SCHED_NEEDS_MAX];
    for (size_t i = 0; i < want->count; i++)
        amounts[i] = (frame_amount_t){want->needs[i].name, want->needs[i].amount};
    return sched_shape_fits_ever(t->job->sched, t->shape) &&
           sched_shape_matches(t->job->sched, t->shape) &&
           node_guest_fits(c, amounts, want->count, 1) > 0;
}

uint64_t node_actor_pick(node_cluster_t *c, const node_task_t *t, bool may_stay) {
    want_t want;
    node_group_t *group = node_group_over_of(t);
    if (group != NULL) return node_group_pick(group, t->job->sched, t->shape, may_stay);
    if (sched_shape_where(t->job->sched, t->shape)->group != NULL) return 0; /* it was removed */
    want_read(t, &want);
    node_row_t *row = row_pick(c, &want, true);
    if (row == NULL && want.is_soft) {
        want.terms = NULL;
        row = row_pick(c, &want, true);
    }
    if (row == NULL) return may_stay && fits_here_now(c, t, &want) ? c->node->incarnation : 0;
    row_take(row, &want);
    return row->incarnation;
}

uint64_t node_actor_pick_frame(node_cluster_t *c, const frame_t *f) {
    want_t want = {.terms = terms_of(f->where.selector), .is_soft = f->where.selector[0] == '~'};
    for (; want.count < f->demand.count && want.count < SCHED_NEEDS_MAX; want.count++)
        want.needs[want.count] = (sched_amount_t){.name = f->demand.items[want.count].name,
                                                  .amount = f->demand.items[want.count].amount};
    const char *labels = sched_labels(c->node->sched);
    for (int tries = 0; tries < 2; tries++) {
        node_row_t *row = row_pick(c, &want, true);
        if (row != NULL) row_take(row, &want);
        if (row != NULL) return row->incarnation;
        if (sched_selector_matches(want.terms, labels != NULL ? labels : "") &&
            node_guest_fits(c, f->demand.items, f->demand.count, 1) > 0)
            return c->node->incarnation;
        if (!want.is_soft) break;
        want.terms = NULL;
    }
    return 0;
}

/* The next one in turn of those that have room now, this one among them; 0: none has. */
static uint64_t spread_pick(node_cluster_t *c, const node_task_t *t, const want_t *want) {
    size_t count = fits_here_now(c, t, want) ? 1 : 0, own = count;
    for (size_t i = 0; i < c->roster.order.count; i++)
        count += c->roster.order.items[i]->incarnation != c->node->incarnation &&
                 row_fits(c->roster.order.items[i], want, true);
    if (count == 0) return 0;
    size_t turn = c->acting.spread++ % count;
    if (turn < own) return c->node->incarnation;
    for (size_t i = 0, at = own; i < c->roster.order.count; i++) {
        node_row_t *row = c->roster.order.items[i];
        if (row->incarnation == c->node->incarnation || !row_fits(row, want, true)) continue;
        if (at++ < turn) continue;
        row_take(row, want);
        return row->incarnation;
    }
    return 0;
}

uint64_t node_actor_wish(node_cluster_t *c, const node_task_t *t) {
    want_t want;
    want_read(t, &want);
    node_row_t *row = want.is_soft ? row_pick(c, &want, true) : NULL;
    if (row != NULL) row_take(row, &want);
    if (row != NULL) return row->incarnation;
    uint64_t pick = want.spreads ? spread_pick(c, t, &want) : 0;
    return pick != c->node->incarnation ? pick : 0;
}

uint64_t node_actor_try(node_cluster_t *c, const node_task_t *t) {
    want_t want;
    if (sched_shape_where(t->job->sched, t->shape)->group != NULL) return 0;
    want_read(t, &want);
    const node_row_t *row = row_pick(c, &want, false);
    return row != NULL ? row->incarnation : 0;
}

bool node_actor_may_ever(node_cluster_t *c, const char *selector) {
    const char *terms = terms_of(selector), *labels = sched_labels(c->node->sched);
    if (selector == NULL || selector[0] != '!') return true;
    bool may = sched_selector_matches(terms, labels != NULL ? labels : "");
    for (size_t i = 0; !may && i < c->roster.order.count; i++) {
        const node_row_t *row = c->roster.order.items[i];
        may = row->until_ms == 0 && sched_selector_matches(terms, row->labels);
    }
    return may;
}

bool node_actor_fits_elsewhere(node_cluster_t *c, const node_task_t *t) {
    want_t want;
    want_read(t, &want);
    if (want.is_soft) want.terms = NULL;
    return row_pick(c, &want, false) != NULL;
}
