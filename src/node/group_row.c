/* Placement groups for people: one row each, of those that are there and the last that were
 * removed. */
#include <stdio.h>
#include <string.h>

#include "node/cluster/group_fit.h"
#include "node/cluster/group_over.h"
#include "node/group_spec.h"
#include "node/state.h"

static const char *const STRATEGIES[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
static const char *const STATES[] = {"PENDING", "CREATED", "RESCHEDULING", "REMOVED"};

static void text_write(wire_writer_t *w, const char *text) {
    wire_write_str(w, text, strlen(text));
}

static void bundles_write(const node_group_t *g, wire_writer_t *w) {
    node_group_spec_t spec;
    sched_amount_t amounts[SCHED_NEEDS_MAX];
    sched_bundle_want_t want;
    (void)node_group_spec_begin(g->spec, g->spec_size, &spec);
    wire_write_tuple(w, spec.head.bundles);
    for (uint32_t b = 0; b < spec.head.bundles; b++) {
        (void)node_group_spec_bundle(&spec, amounts, &want);
        wire_write_tuple(w, (uint32_t)want.count);
        for (size_t i = 0; i < want.count; i++) {
            wire_write_tuple(w, 2);
            text_write(w, amounts[i].name);
            wire_write_float(w, (double)amounts[i].amount / SCHED_UNIT);
        }
    }
}

/* The node of each bundle, "" where it has none. */
static void places_write(const node_group_t *g, uint32_t bundles, wire_writer_t *w) {
    char text[20];
    wire_write_tuple(w, bundles);
    for (uint32_t b = 0; b < bundles; b++) {
        uint64_t node = g->state == NODE_GROUP_CREATED ? node_group_place_of(g, b) : 0;
        snprintf(text, sizeof text, "%016llx", (unsigned long long)node);
        text_write(w, node != 0 ? text : "");
    }
}

static void group_write(const node_group_t *g, wire_writer_t *w) {
    mob_group_t head;
    char id[2 * MOB_ID_SIZE + 1];
    memcpy(&head, g->spec, sizeof head);
    node_group_id_text(g, id);
    bool possible = g->sched != NULL && g->state == NODE_GROUP_PENDING && node_group_is_possible(g);
    wire_write_tuple(w, 12);
    text_write(w, id);
    text_write(w, g->name);
    text_write(w, g->name_space);
    text_write(w, STRATEGIES[head.strategy]);
    text_write(w, STATES[g->state]);
    wire_write_bool(w, possible);
    wire_write_bool(w, head.detached != 0);
    wire_write_int(w, g->job_number);
    wire_write_int(w, (int64_t)g->made_ns);
    wire_write_int(w, (int64_t)g->placed_ns);
    bundles_write(g, w);
    places_write(g, head.bundles, w);
}

typedef struct {
    node_group_t *const *items;
    size_t count;
} list_t;

/* Not of those that nobody here has asked for. */
void node_groups_write(node_t *n, uint64_t slot, wire_writer_t *w) {
    const node_groups_t *groups = &n->groups;
    const list_t lists[] = {{groups->removed.items, groups->removed.count},
                            {groups->draining.items, groups->draining.count},
                            {groups->items.items, groups->items.count}};
    uint32_t count = 0;
    for (int writes = 0; writes <= 1; writes++) {
        if (writes) wire_write_tuple(w, count);
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
            for (size_t i = 0; i < lists[l].count; i++) {
                const node_group_t *g = lists[l].items[i];
                if (g->id.slot == 0 || (slot != 0 && g->id.slot != slot)) continue;
                if (writes)
                    group_write(g, w);
                else
                    count++;
            }
    }
}
