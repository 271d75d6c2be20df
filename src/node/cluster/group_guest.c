/*
 * The book on a group of another node.
 *
 *   holds     made when the room sets a first bundle aside here, from what it says is asked for
 *   told      its home was asked, for a process here has its id, and has told. The book has the
 *             object that names it, and is told of each change
 *
 * Both may be so, in any order. It ends when its home says that it is gone, or dies; when the room
 * gives back a bundle that could be used; or when no bundle is here and it is not told.
 *
 * What processes here are given for a group that is gone is a name that nothing has: what they
 * submit into it fails, as into any group that was removed.
 */
#include "node/cluster/group_guest.h"

#include <stdlib.h>
#include <string.h>

#include "frame/id.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_orphan.h"
#include "node/cluster/cluster.h"
#include "node/cluster/group_over.h"
#include "node/cluster/holding.h"
#include "node/cluster/proxy.h"
#include "node/group_spec.h"
#include "node/state.h"

static const mob_ref_t GONE = {.slot = 1, .generation = 0};

/* ---- its book ---- */

/* What a maker would have said of it, but for its value. */
static void spec_write(const group_spec_t *spec, base_writer_t *w) {
    mob_group_t head = {.strategy = spec->strategy,
                        .detached = spec->detached,
                        .bundles = spec->count,
                        .id_at = UINT32_MAX};
    base_put_bytes(w, &head, sizeof head);
    for (size_t r = 0; r < spec->run_count; r++) {
        const group_run_t *run = &spec->runs[r];
        mob_bundle_t bundle = {.resources = (uint32_t)run->demand.count,
                               .size = (uint32_t)strlen(run->selector) + 1};
        for (size_t k = 0; k < run->demand.count; k++)
            bundle.size += (uint32_t)(sizeof(uint64_t) + strlen(run->demand.items[k].name) + 1);
        for (uint32_t b = 0; b < run->count; b++) {
            base_put_bytes(w, &bundle, sizeof bundle);
            for (size_t k = 0; k < run->demand.count; k++) {
                const frame_amount_t *need = &run->demand.items[k];
                base_put_bytes(w, &need->amount, sizeof need->amount);
                base_put_bytes(w, need->name, strlen(need->name) + 1);
            }
            base_put_bytes(w, run->selector, strlen(run->selector) + 1);
        }
    }
}

/* Takes the spec. */
static node_group_t *guest_new(node_cluster_t *c, frame_id_t id, uint8_t *spec, size_t size) {
    node_acting_key_t key = node_acting_key(id);
    node_group_t *g = node_group_guest_new(c->node, id, spec, size);
    if (g == NULL || base_map_put(&c->grouping.guests, &key, g)) return g;
    node_group_end(g, "no memory");
    return NULL;
}

node_group_t *node_group_guest_get(node_cluster_t *c, frame_id_t id, const group_spec_t *spec) {
    node_group_t *g = node_group_known(c->node, id);
    if (g != NULL) return g;
    base_writer_t count = {0};
    spec_write(spec, &count);
    base_writer_t w = {.bytes = malloc(count.size)};
    if (w.bytes == NULL) return NULL;
    spec_write(spec, &w);
    return guest_new(c, id, w.bytes, w.size);
}

void node_group_guest_try_end(node_group_t *g) {
    if (node_group_is_guest(g) && !g->over->is_told && !node_group_has_bundles(g))
        node_group_end(g, "nothing of it is here");
}

void node_group_guest_ended(node_group_t *g) {
    node_acting_key_t key = node_acting_key(g->over->id);
    base_map_t *guests = &g->node->cluster->grouping.guests;
    if (base_map_get(guests, &key) == g) (void)base_map_remove(guests, &key);
}

void node_group_guest_remove(node_group_t *g) {
    node_grouping_say(g->node->cluster, g->over->id.home, GROUPING_REMOVE, g->over->id);
}

/* ---- who asks ---- */

static void ref_tell(node_client_t *c, mob_ref_t ref) {
    memcpy(c->segment.base + SHM_CLIENT_SCRATCH, &ref, sizeof ref);
    node_client_tell(c, wire_answer(MOB_OK, sizeof ref));
}

static bool ids_equal(frame_id_t a, frame_id_t b) {
    return a.home == b.home && a.number == b.number && a.generation == b.generation;
}

void node_group_of_id(node_client_t *client, const wire_message_t *m) {
    node_t *n = client->node;
    node_cluster_t *c = n->cluster;
    frame_id_t id = {.home = m->id.home, .number = m->id.number, .generation = m->id.generation};
    const node_group_t *g = node_group_known(n, id);
    if (g != NULL && g->id.slot != 0) {
        ref_tell(client, g->id);
        return;
    }
    if (c == NULL || c->grouping.room == NULL || node_placing_peer(c, id.home) == NULL) {
        ref_tell(client, GONE);
        return;
    }
    bool is_asked = false;
    for (size_t i = 0; i < c->grouping.askers.count; i++)
        is_asked |= ids_equal(c->grouping.askers.items[i].id, id);
    node_grouping_asker_t asker = {client->number, client->epoch, id};
    if (!vec_push(&c->grouping.askers, asker)) {
        node_client_tell(client, wire_answer(MOB_ENOMEM, 0));
        return;
    }
    if (!is_asked) node_grouping_say(c, id.home, GROUPING_ASK, id);
}

static void askers_answer(node_cluster_t *c, frame_id_t id, mob_ref_t ref) {
    for (size_t i = c->grouping.askers.count; i-- > 0;) {
        node_grouping_asker_t asker = c->grouping.askers.items[i];
        if (!ids_equal(asker.id, id)) continue;
        vec_swap_remove(&c->grouping.askers, i);
        node_client_t *client = c->node->clients[asker.client];
        if (client != NULL && client->epoch == asker.epoch && client->state == NODE_LIVE)
            ref_tell(client, ref);
    }
}

/* ---- what its home says ---- */

typedef struct {
    frame_id_t id;
    bool is_first;
    uint32_t state, job, count;
    uint64_t made_ns, placed_ns;
    const uint8_t *nodes;
    const char *name, *name_space;
    const uint8_t *spec;
    size_t spec_size;
} told_t;

static bool told_read(base_reader_t *r, told_t *t) {
    *t = (told_t){.id = frame_id_take(r)};
    t->is_first = base_take_number(r, 1) != 0;
    t->state = (uint32_t)base_take_number(r, 1);
    t->job = (uint32_t)base_take_number(r, 4);
    t->made_ns = base_take_number(r, 8);
    t->placed_ns = base_take_number(r, 8);
    t->count = (uint32_t)base_take_number(r, 4);
    t->nodes = base_take_bytes(r, (size_t)t->count * 8);
    t->name = group_take_text(r);
    t->name_space = t->name != NULL ? group_take_text(r) : NULL;
    t->spec_size = r->left;
    t->spec = base_take_bytes(r, r->left);
    node_group_wants_t wants;
    if (r->short_of || t->name_space == NULL || t->state >= NODE_GROUP_REMOVED ||
        node_group_wants_read(t->spec, t->spec_size, &wants) != MOB_OK)
        return false;
    bool is_fit = t->count <= 1 || t->count == wants.head.bundles;
    node_group_wants_free(&wants);
    return is_fit;
}

static node_group_t *told_book(node_cluster_t *c, const told_t *t) {
    node_group_t *g = node_group_known(c->node, t->id);
    if (g != NULL) return g;
    uint8_t *spec = malloc(t->spec_size);
    if (spec == NULL) return NULL;
    memcpy(spec, t->spec, t->spec_size);
    return guest_new(c, t->id, spec, t->spec_size);
}

static void words_set(char **text, const char *words) {
    char *copy = strdup(words);
    if (copy == NULL) return;
    free(*text);
    *text = copy;
}

static void told_write(node_group_t *g, const told_t *t) {
    uint64_t *nodes = malloc(((size_t)t->count + 1) * sizeof *nodes);
    base_reader_t r = {.at = t->nodes, .left = (size_t)t->count * 8};
    for (uint32_t i = 0; nodes != NULL && i < t->count; i++) nodes[i] = base_take_number(&r, 8);
    words_set(&g->name, t->name);
    words_set(&g->name_space, t->name_space);
    g->state = (node_group_state_t)t->state;
    g->job_number = t->job;
    g->made_ns = t->made_ns;
    g->placed_ns = t->placed_ns;
    if (t->count > 0 && (nodes == NULL || !node_group_places_set(g, nodes, t->count)))
        node_cluster_trouble(
            g->node->cluster,
            "the places of a placement group make no sense, or there is no memory for them");
    free(nodes);
}

mob_status_t node_group_guest_told(node_cluster_t *c, uint64_t peer, base_reader_t *r) {
    told_t told;
    if (!told_read(r, &told) || told.id.home != peer)
        return base_fail(MOB_EPROTO, "what was said of a placement group makes no sense");
    mob_status_t status = told.is_first ? node_holding_frame_came(c, peer, &told.id, 1) : MOB_OK;
    if (status != MOB_OK) return status;
    mob_ref_t ref = told.is_first ? node_proxy_get(c->node, told.id) : (mob_ref_t){0};
    node_group_t *g = told.is_first || node_group_known(c->node, told.id) != NULL
                          ? told_book(c, &told)
                          : NULL; /* it has ended here, and its home is told so, or was */
    if (g != NULL && told.is_first) node_group_guest_bind(g, ref);
    if (g != NULL && g->id.slot != 0) {
        g->over->is_told = true;
        told_write(g, &told);
    }
    if (told.is_first) askers_answer(c, told.id, g != NULL && g->id.slot != 0 ? g->id : GONE);
    c->node->again = true;
    return MOB_OK;
}

void node_group_guest_gone(node_cluster_t *c, frame_id_t id) {
    node_group_t *g = node_group_known(c->node, id);
    if (g != NULL) node_group_end(g, "by ray.util.remove_placement_group");
    node_orphans_ungroup(c, id);
    askers_answer(c, id, GONE);
}

void node_group_guests_died(node_cluster_t *c, uint64_t home) {
    node_groups_t *groups = &c->node->groups;
    for (size_t i = groups->items.count; i-- > 0;) {
        node_group_t *g = i < groups->items.count ? groups->items.items[i] : NULL;
        if (g != NULL && node_group_is_guest(g) && g->over->id.home == home)
            node_group_end(g, "the node where it was made has died");
    }
    while (c->grouping.askers.count > 0) {
        size_t i = 0;
        while (i < c->grouping.askers.count && c->grouping.askers.items[i].id.home != home) i++;
        if (i == c->grouping.askers.count) return;
        askers_answer(c, c->grouping.askers.items[i].id, GONE);
    }
}
