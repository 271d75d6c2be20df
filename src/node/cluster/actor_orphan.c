/*
 * At the leader: the room adopts the actor, and asks for a node (PLACE). Its will is read then, and
 * kept here as long as this node leads and the actor lives. The creation that goes out has the will
 * instead of a frame, for there is no home that could answer for what a frame names: whoever makes
 * the actor makes a job, and the class's object, of its own.
 *
 * Where it lives when its home dies, nothing changes for its process: the guest job that it runs in
 * becomes a job of that node's. What it has submitted elsewhere under the old job's id ends with
 * the home; what it submits from then on has the new id.
 *
 * Who looks for it by name gets a proxy of its id, as from its home, and an object of its own with
 * what describes it. Calls then go by a stub, which asks the control state where the actor is.
 */
#include "node/cluster/actor_orphan.h"

#include <stdlib.h>
#include <string.h>

#include "actor/actor.h"
#include "base/bytes.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_pick.h"
#include "node/cluster/actor_will.h"
#include "node/cluster/cluster.h"
#include "node/cluster/group_over.h"
#include "node/cluster/grouping.h"
#include "node/cluster/guest.h"
#include "node/cluster/guestsetup.h"
#include "node/cluster/keep.h"
#include "node/state.h"

/* ---- the leader ---- */

static node_orphan_t *orphan_find(node_cluster_t *c, frame_id_t id) {
    for (size_t i = 0; i < c->acting.orphans.count; i++)
        if (actor_id_equal(c->acting.orphans.items[i].id, id)) return &c->acting.orphans.items[i];
    return NULL;
}

/* It can't be made again, so that is its end. */
static void orphan_give_up(node_cluster_t *c, node_orphan_t *o, const char *why) {
    o->is_placing = false;
    node_cluster_trouble(c,
                         "a detached actor of node %016llx, which is dead, is not made again: %s",
                         (unsigned long long)o->id.home, why);
    (void)actor_kill(c->acting.room, o->id, ACTOR_DETACHED, true); /* else at the next walk */
}

/* The node of its bundle; 0: it is not known yet. Where there is no such group any more, any node
 * will do: it is told so there. */
static uint64_t bundle_pick(node_cluster_t *c, node_orphan_t *o, const frame_where_t *where) {
    node_group_t *g = node_group_known(c->node, where->group);
    o->group = where->group;
    if (g != NULL && g->id.slot != 0) return node_group_bundle_node(g, where->bundle);
    if (o->is_ungrouped || node_placing_peer(c, where->group.home) == NULL)
        return c->node->incarnation;
    if (!o->asks_group) node_grouping_say(c, where->group.home, GROUPING_ASK, where->group);
    o->asks_group = true;
    return 0;
}

void node_orphans_ungroup(node_cluster_t *c, frame_id_t group) {
    for (size_t i = 0; i < c->acting.orphans.count; i++)
        if (actor_id_equal(c->acting.orphans.items[i].group, group))
            c->acting.orphans.items[i].is_ungrouped = true;
}

static uint64_t node_pick(node_cluster_t *c, node_orphan_t *o, const frame_t *f) {
    return f->where.group.home != 0 ? bundle_pick(c, o, &f->where) : node_actor_pick_frame(c, f);
}

static void place_try(node_cluster_t *c, node_orphan_t *o) {
    node_will_t will;
    frame_t f;
    if (!o->is_placing || o->will == NULL) return;
    bool ok = node_will_read(o->will, o->size, &will) && will.frame_size > 0 &&
              frame_read(will.frame, will.frame_size, &f) == MOB_OK;
    node_will_fini(&will);
    if (!ok) {
        orphan_give_up(c, o,
                       "what its constructor needs was not on its home, or is too large "
                       "to be kept");
        return;
    }
    uint64_t node = node_pick(c, o, &f);
    bool may_ever = node_actor_may_ever(c, f.where.selector);
    frame_fini(&f);
    if (node == 0 && !may_ever) orphan_give_up(c, o, "it may be on one node only, which is gone");
    if (node == 0) return;
    o->is_tried = true;
    o->is_placing = false;
    actor_placed(c->acting.room, o->id, node);
}

typedef struct {
    node_cluster_t *cluster;
    frame_id_t id;
} reader_t;

static void on_will(void *context, mob_status_t status, const uint8_t *bytes, size_t size) {
    reader_t reader = *(reader_t *)context;
    node_orphan_t *o = orphan_find(reader.cluster, reader.id);
    free(context);
    if (o == NULL || reader.cluster->acting.room == NULL) return;
    o->is_reading = false;
    if (status == MOB_ELOST) {
        orphan_give_up(reader.cluster, o, "its home died before all was kept of it");
        return;
    }
    free(o->will); /* that was read for a reign before, and came now */
    o->will = NULL;
    if (status != MOB_OK || (o->will = malloc(size)) == NULL) return; /* at the next tick */
    memcpy(o->will, bytes, size);
    o->size = size;
    place_try(reader.cluster, o);
}

static void will_fetch(node_cluster_t *c, node_orphan_t *o) {
    node_will_about_t about;
    size_t size;
    const void *spec = actor_spec_of(c->acting.room, o->id, &size);
    if (!node_will_about(spec, size, &about)) {
        orphan_give_up(c, o, "what is kept of it makes no sense");
        return;
    }
    reader_t *reader = malloc(sizeof *reader);
    if (reader == NULL) return;
    *reader = (reader_t){c, o->id};
    o->is_reading = true;
    if (node_keep_read(c, o->id, about.will_size, on_will, reader) == MOB_OK) return;
    o->is_reading = false;
    free(reader);
}

static void orphan_go_on(node_cluster_t *c, node_orphan_t *o) {
    if (!o->is_placing || o->is_reading) return;
    if (o->will == NULL)
        will_fetch(c, o);
    else
        place_try(c, o);
}

void node_orphan_place(node_cluster_t *c, frame_id_t id) {
    node_orphan_t *o = orphan_find(c, id);
    if (o == NULL && vec_push(&c->acting.orphans, ((node_orphan_t){.id = id})))
        o = &c->acting.orphans.items[c->acting.orphans.count - 1];
    if (o == NULL) {
        node_cluster_trouble(c, "no memory to look after an actor whose home is dead");
        actor_placed(c->acting.room, id, 0); /* it is asked for again */
        return;
    }
    o->is_placing = true;
    if (!o->is_tried) orphan_go_on(c, o); /* else at the next tick: it may be refused for long */
}

mob_status_t node_orphan_creation(node_cluster_t *c, frame_id_t id, const void *facts_bytes,
                                  size_t size, node_freight_t *f) {
    const node_orphan_t *o = orphan_find(c, id);
    base_reader_t r = {.at = facts_bytes, .left = size};
    actor_facts_t facts;
    if (o == NULL || o->will == NULL || !actor_facts_take(&r, &facts))
        return MOB_OK; /* a question */
    base_writer_t w = {.bytes = f->bytes = malloc(NODE_GUEST_HEAD + o->size)};
    if (w.bytes == NULL) return MOB_ENOMEM;
    base_put_number(&w, NODE_ORPHAN_CREATION | facts.restarts, NODE_GUEST_HEAD);
    base_put_bytes(&w, o->will, o->size);
    f->size = w.size;
    return MOB_OK;
}

void node_orphan_ended(node_cluster_t *c, frame_id_t id) {
    node_will_about_t about;
    size_t size;
    const void *spec = actor_spec_of(c->acting.room, id, &size);
    node_orphan_t *o = orphan_find(c, id);
    if (node_will_about(spec, size, &about)) {
        node_named_t named = {.spec = NULL};
        memcpy(named.name_space, about.name_space, sizeof named.name_space);
        memcpy(named.name, about.name, sizeof named.name);
        node_keep_drop(c, id, about.will_size);
        if (named.name[0] != 0) node_actor_name_drop(c, &named, id);
    }
    if (o == NULL) return;
    free(o->will);
    vec_swap_remove(&c->acting.orphans, (size_t)(o - c->acting.orphans.items));
}

void node_orphans_tick(node_cluster_t *c) {
    for (size_t i = c->acting.orphans.count; i-- > 0;) orphan_go_on(c, &c->acting.orphans.items[i]);
}

void node_orphans_forget(node_cluster_t *c) {
    while (c->acting.orphans.count > 0) free(vec_pop(&c->acting.orphans).will);
}

/* ---- where one lives ---- */

mob_status_t node_orphan_job(node_t *n, const void *bytes, size_t size, node_job_t **ret_job) {
    node_setup_t *setup;
    char *word = NULL;
    mob_status_t status = node_guestsetup_new(n, bytes, size, &setup, &word);
    if (status == MOB_OK) status = node_job_new(n, setup, ret_job);
    if (status == MOB_OK) {
        (*ret_job)->is_detached = true;
        if (word != NULL) node_job_warn(*ret_job, "%s", word);
        node_job_note(*ret_job, false);
    }
    free(word);
    return status;
}

static const node_seat_t *seat_of_job(node_cluster_t *c, const node_job_t *job) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&c->acting.seats, &cursor, &key, &value)) {
        const node_seat_t *s = value;
        if (s->actor != NULL && s->actor->job == job && s->spec != NULL) return s;
    }
    return NULL;
}

bool node_orphan_takes_job(node_cluster_t *c, node_job_t *job) {
    const node_seat_t *s = seat_of_job(c, job);
    if (s == NULL || job->farewell.leaving) return false;
    job->is_guest = false;
    job->is_detached = true;
    job->actor = s->actor;
    vec_free(&job->told); /* under the old id */
    NODE_EACH_POOL(job, pool) vec_free(&pool->told);
    node_job_note(job, false);
    return true;
}

bool node_orphans_list(node_t *n, const char *space, node_rows_t *rows) {
    size_t cursor = 0;
    const void *key;
    void *value;
    bool ok = true;
    node_cluster_t *c = n->cluster;
    if (c == NULL || c->acting.room == NULL) return true;
    while (ok && base_map_each(&c->acting.seats, &cursor, &key, &value)) {
        const node_seat_t *s = value;
        node_will_about_t about;
        if (s->actor == NULL || s->id.home == n->incarnation ||
            member_knows(c->member, s->id.home) ||
            !node_will_about(s->spec, s->spec_size, &about) || about.name[0] == 0 ||
            (space[0] != 0 && strcmp(space, about.name_space) != 0))
            continue;
        ok = node_rows_add_name(rows, s->id, about.name_space, about.name);
    }
    return ok;
}

/* ---- who looks for one ---- */

typedef struct {
    node_cluster_t *cluster;
    frame_id_t id;
    node_name_found_fn found;
    void *context;
} finder_t;

static void not_found(node_name_found_fn found, void *context, mob_status_t status) {
    found(context, status, (mob_ref_t){0}, (mob_ref_t){0});
}

static void on_found_will(void *context, mob_status_t status, const uint8_t *bytes, size_t size) {
    finder_t finder = *(finder_t *)context;
    node_t *n = finder.cluster->node;
    node_will_t will = {.setup = NULL};
    mob_ref_t info = {0}, *objects = NULL;
    free(context);
    if (status == MOB_OK && (!node_will_read(bytes, size, &will) || will.info == NODE_WILL_NONE))
        status = MOB_ELOST;
    if (status == MOB_OK) status = node_will_objects(n, &will, &objects);
    if (status == MOB_OK) info = objects[will.info];
    free(objects);
    node_will_fini(&will);
    mob_ref_t actor = status == MOB_OK ? node_proxy_get(n, finder.id) : (mob_ref_t){0};
    if (status == MOB_OK && actor.slot == 0) status = MOB_ENOMEM;
    if (status == MOB_OK)
        finder.found(finder.context, MOB_OK, actor, info);
    else
        not_found(finder.found, finder.context, status == MOB_ELOST ? MOB_ENONAME : status);
}

void node_orphan_find(node_cluster_t *c, const node_named_t *named, const void *bytes, size_t size,
                      node_name_found_fn found, void *context) {
    base_reader_t r = {.at = bytes, .left = size};
    actor_facts_t facts;
    node_will_about_t about;
    bool is_it =
        actor_facts_take(&r, &facts) && node_will_about(facts.spec, facts.spec_size, &about) &&
        strcmp(about.name, named->name) == 0 && strcmp(about.name_space, named->name_space) == 0;
    finder_t *finder = is_it ? malloc(sizeof *finder) : NULL;
    if (finder != NULL) *finder = (finder_t){c, facts.id, found, context};
    if (finder != NULL &&
        node_keep_read(c, facts.id, about.will_size, on_found_will, finder) == MOB_OK)
        return;
    free(finder);
    not_found(found, context, is_it ? MOB_ENOMEM : MOB_ENONAME);
}
