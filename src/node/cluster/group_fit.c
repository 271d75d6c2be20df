/* By what the nodes have in all, which they said when they came. */
#include "node/cluster/group_fit.h"

#include <string.h>

#include "node/cluster/cluster.h"
#include "node/cluster/group_over.h"
#include "node/group_spec.h"
#include "node/state.h"
#include "sched/selector.h"

/* A living node; borrowed. */
typedef struct {
    const frame_amount_t *totals;
    size_t count;
    const char *labels;
} host_t;

static uint64_t total_of(const host_t *host, const char *name) {
    for (size_t i = 0; i < host->count; i++)
        if (strcmp(host->totals[i].name, name) == 0) return host->totals[i].amount;
    return 0;
}

static bool fits(const host_t *host, const sched_bundle_want_t *want) {
    if (want->selector != NULL && !sched_selector_matches(want->selector, host->labels))
        return false;
    for (size_t k = 0; k < want->count; k++)
        if (total_of(host, want->demand[k].name) < want->demand[k].amount) return false;
    return true;
}

/* Whether the node could hold all bundles at once. */
static bool fits_all(const host_t *host, const node_group_wants_t *wants) {
    uint64_t used[PLACE_NAMES_MAX] = {0};
    for (uint32_t b = 0; b < wants->head.bundles; b++) {
        const sched_bundle_want_t *want = &wants->bundles[b];
        if (!fits(host, want)) return false;
        for (size_t k = 0; k < want->count; k++)
            for (size_t i = 0; i < host->count && i < PLACE_NAMES_MAX; i++) {
                if (strcmp(host->totals[i].name, want->demand[k].name) != 0) continue;
                used[i] += want->demand[k].amount;
                if (used[i] > host->totals[i].amount) return false;
            }
    }
    return true;
}

static bool hosts_fit(const host_t *hosts, size_t count, const node_group_wants_t *wants) {
    size_t i = 0;
    if (wants->head.strategy == MOB_STRICT_PACK) {
        while (i < count && !fits_all(&hosts[i], wants)) i++;
        return i < count;
    }
    if (wants->head.strategy == MOB_STRICT_SPREAD && wants->head.bundles > count) return false;
    for (uint32_t b = 0; b < wants->head.bundles; b++) {
        for (i = 0; i < count && !fits(&hosts[i], &wants->bundles[b]);) i++;
        if (i == count) return false;
    }
    return true;
}

/* This node, which is not in the roster. */
static host_t own_host(const node_t *n, frame_amount_t *totals) {
    host_t host = {.totals = totals, .labels = sched_labels(n->sched)};
    for (; host.count < sched_resource_count(n->sched) && host.count < PLACE_NAMES_MAX;
         host.count++) {
        int64_t available;
        frame_amount_t *total = &totals[host.count];
        sched_resource_at(n->sched, host.count, &total->name, &total->amount, &available);
    }
    return host;
}

bool node_group_is_possible(const node_group_t *g) {
    if (g->over == NULL || !g->over->is_shared) return sched_group_fits_ever(g->sched);
    const node_t *n = g->node;
    const node_roster_t *roster = &n->cluster->roster;
    frame_amount_t own[PLACE_NAMES_MAX];
    VEC(host_t) hosts = {0};
    node_group_wants_t wants;
    (void)vec_push(&hosts, own_host(n, own));
    for (size_t i = 0; i < roster->order.count; i++) {
        const node_row_t *row = roster->order.items[i];
        host_t host = {row->totals, row->count, row->labels};
        if (row->until_ms == 0) (void)vec_push(&hosts, host);
    }
    bool is_possible = node_group_wants_read(g->spec, g->spec_size, &wants) == MOB_OK;
    if (is_possible) {
        is_possible = hosts_fit(hosts.items, hosts.count, &wants);
        node_group_wants_free(&wants);
    }
    vec_free(&hosts);
    return is_possible;
}
