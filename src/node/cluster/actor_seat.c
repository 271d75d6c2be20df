/*
 * Actors that live here and are called from elsewhere.
 *
 * One that was sent here is made by the frame of its creation, which runs as any creation of its
 * guest job, into a slot of the daemon's own; the book on it is on that slot. It is never made
 * again here by the books: the room at its home decides that. It is refused if it does not fit
 * now: another node may have room.
 *
 * One of this home that lives here becomes a seat when another node asks where it is. Its end is
 * the seat's, its restarts are not.
 *
 * A seat ends in two steps, since the room may be calling: the book goes with the process, the
 * rest when the room has heard of it.
 */
#include "node/cluster/actor_seat.h"

#include <stdlib.h>
#include <string.h>

#include "actor/actor.h"
#include "base/bytes.h"
#include "frame/done.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_orphan.h"
#include "node/cluster/actor_will.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/proxy.h"
#include "node/state.h"
#include "node/value.h"

/* A creation that has come. */
typedef struct {
    frame_id_t id;
    size_t size;
    uint8_t *bytes;
} creation_t;

static node_seat_t *seat_find(const node_cluster_t *c, frame_id_t id) {
    node_acting_key_t key = node_acting_key(id);
    return base_map_get(&c->acting.seats, &key);
}

static node_seat_t *seat_new(node_cluster_t *c, frame_id_t id, uint64_t epoch, const void *spec,
                             size_t size) {
    node_acting_key_t key = node_acting_key(id);
    node_seat_t *s = calloc(1, sizeof *s);
    if (s != NULL && size > 0) s->spec = malloc(size);
    if (s == NULL || (size > 0 && s->spec == NULL) || !base_map_put(&c->acting.seats, &key, s)) {
        if (s != NULL) free(s->spec);
        free(s);
        return NULL;
    }
    if (size > 0) memcpy(s->spec, spec, size);
    s->spec_size = size;
    s->id = id;
    s->epoch = epoch;
    s->here.record = UINT32_MAX;
    return s;
}

static void tell(node_cluster_t *c, const node_seat_t *s, node_acting_what_t what, uint32_t value) {
    node_acting_tell(c, (node_acting_word_t){what, s->id, s->epoch, value}, NULL, 0);
}

/* ---- creations that come ---- */

static creation_t *creation_take(node_cluster_t *c, frame_id_t id) {
    node_acting_key_t key = node_acting_key(id);
    return base_map_remove(&c->acting.frames, &key);
}

static void creation_free(creation_t *creation) {
    if (creation == NULL) return;
    free(creation->bytes);
    free(creation);
}

void node_seat_creation_came(node_cluster_t *c, frame_id_t id, uint8_t *bytes, size_t size) {
    node_acting_key_t key = node_acting_key(id);
    creation_t *creation = calloc(1, sizeof *creation);
    creation_free(creation_take(c, id));
    if (creation != NULL) *creation = (creation_t){id, size, bytes};
    if (creation != NULL && base_map_put(&c->acting.frames, &key, creation)) return;
    free(creation);
    free(bytes);
}

void node_seat_creations_tick(node_cluster_t *c) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&c->acting.frames, &cursor, &key, &value)) {
        frame_id_t id = ((creation_t *)value)->id;
        if (actor_seat_awaits(c->acting.room, id)) continue;
        creation_free(creation_take(c, id));
        cursor = 0; /* the map has changed */
    }
}

/* ---- an actor of this home ---- */

bool node_seat_adopt(node_cluster_t *c, frame_id_t id) {
    node_t *n = c->node;
    mob_ref_t ref = node_proxy_find(n, id);
    const node_object_t *o = node_object_known(n, ref);
    const node_actor_t *a = o != NULL ? o->actor : NULL;
    if (a == NULL) return o == NULL;
    if (a->far != NULL || a->seat != NULL || a->life.state == ACTOR_DEAD) return true;
    bool may_leave = !a->life.made && a->creation != NULL;
    actor_spec_t spec = {.max_restarts = may_leave ? a->creation->retries : 0,
                         .limit = a->limit > 0 ? a->limit : 1};
    if (a->named != NULL && a->named->spec != NULL) {
        spec.flags = ACTOR_DETACHED;
        spec.max_restarts = a->life.restarts_left;
        spec.bytes = a->named->spec;
        spec.size = a->named->spec_size;
    }
    (void)actor_create(c->acting.room, id, &spec); /* known: it is on its way already */
    return true;
}

static void adopted_make(node_cluster_t *c, node_actor_t *a, node_seat_t *s) {
    s->is_adopted = s->is_final = true;
    s->actor = a;
    a->seat = s;
    if (a->life.state == ACTOR_DEAD)
        node_seat_ended(c->node, a);
    else if (a->life.made)
        tell(c, s, NODE_ACTING_MADE, 0);
}

/* ---- one that was sent here ---- */

/* Any bundle of its group would do, and those that are here have no room now: others may have. */
static bool waits_in_vain(const node_task_t *t) {
    const sched_where_t *where = sched_shape_where(t->job->sched, t->shape);
    return where->group != NULL && where->bundle < 0 && !sched_group_is_removed(where->group) &&
           !sched_shape_starts_inside(t->job->sched, t->shape);
}

/* The slot is the daemon's own, not a proxy of the actor's id. */
static mob_status_t run_begin(node_job_t *job, node_seat_t *s, frame_t *f, uint32_t restarts) {
    node_t *n = job->node;
    node_cluster_t *c = n->cluster;
    node_task_t *t;
    if (f->kind != MOB_ACTOR_CREATE || f->num_returns != 1) return MOB_EPROTO;
    s->is_final = f->max_retries == 0;
    f->max_retries = 0;
    f->ids[0] = (frame_id_t){0};
    mob_status_t status = node_run_init(job, &c->proxies.own, f, &s->here, &t);
    if (status != MOB_OK) return status;
    if (waits_in_vain(t)) {
        node_task_dismiss(n, t);
        return MOB_EFULL;
    }
    t->stays = true;
    node_actor_create(n, t);
    if (t->actor == NULL) {
        node_task_dismiss(n, t);
        return MOB_ENOMEM;
    }
    t->actor->life.restarts = restarts;
    t->actor->seat = s;
    s->actor = t->actor;
    /* its process is told the id that others know it by */
    atomic_fetch_or_explicit(&n->slots[t->actor->id.slot].word, STORE_FOREIGN,
                             memory_order_relaxed);
    if (t->missing == 0) node_task_ready(t, n);
    return MOB_OK;
}

static mob_status_t guest_begin(node_cluster_t *c, node_seat_t *s, frame_t *f, uint32_t restarts) {
    bool has_ended;
    node_job_t *job = node_guestjob_find(c->node, f->job, &has_ended);
    bool in_group = f->where.group.home != 0;
    if (job == NULL) return MOB_ECANCELLED;
    if (!in_group && node_guest_fits(c, f->demand.items, f->demand.count, 1) == 0) return MOB_EFULL;
    return run_begin(job, s, f, restarts);
}

static mob_status_t will_begin(node_cluster_t *c, node_seat_t *s, const node_will_t *will,
                               frame_t *f, uint32_t restarts) {
    node_job_t *job;
    bool in_group = f->where.group.home != 0;
    if (!in_group && node_guest_fits(c, f->demand.items, f->demand.count, 1) == 0) return MOB_EFULL;
    mob_status_t status = node_orphan_job(c->node, will->setup, will->setup_size, &job);
    if (status != MOB_OK) return status;
    status = run_begin(job, s, f, restarts);
    if (s->actor != NULL)
        job->actor = s->actor;
    else /* it was refused, or has ended: its group is gone */
        node_job_leave(job, false);
    return status;
}

/* Its home is dead: it is made by what it has left, in a job of this node's own. */
static mob_status_t orphan_make(node_cluster_t *c, node_seat_t *s, const base_reader_t *r,
                                uint32_t restarts) {
    node_will_t will;
    mob_ref_t *objects = NULL;
    uint8_t *bytes = NULL;
    frame_t f;
    mob_status_t status = MOB_EPROTO;
    if (node_will_read(r->at, r->left, &will)) status = node_will_objects(c->node, &will, &objects);
    if (status == MOB_OK) status = node_will_frame(c->node, &will, objects, &f, &bytes);
    if (status == MOB_OK) {
        status = will_begin(c, s, &will, &f, restarts);
        frame_fini(&f);
    }
    free(bytes);
    free(objects);
    node_will_fini(&will);
    return status;
}

static mob_status_t sent_make(node_cluster_t *c, node_seat_t *s) {
    creation_t *creation = creation_take(c, s->id);
    if (creation == NULL || creation->size < NODE_GUEST_HEAD) {
        creation_free(creation);
        return MOB_EPROTO;
    }
    base_reader_t r = {.at = creation->bytes, .left = creation->size};
    uint64_t head = base_take_number(&r, NODE_GUEST_HEAD);
    frame_t f;
    mob_status_t status;
    if (head & NODE_ORPHAN_CREATION) {
        status = orphan_make(c, s, &r, (uint32_t)head);
    } else if ((status = frame_read(r.at, r.left, &f)) == MOB_OK) {
        status = guest_begin(c, s, &f, (uint32_t)head);
        frame_fini(&f);
    }
    creation_free(creation);
    return status;
}

bool node_seat_has(node_cluster_t *c, frame_id_t id, uint64_t epoch) {
    const node_seat_t *s = seat_find(c, id);
    return s != NULL && s->epoch >= epoch;
}

void node_seat_make(node_cluster_t *c, frame_id_t id, uint64_t epoch, const void *spec,
                    size_t size) {
    node_actor_t *own = id.home == c->node->incarnation ? node_acting_actor(c->node, id) : NULL;
    if (seat_find(c, id) != NULL) node_seat_gone(c, id); /* it has ended, or there were no other */
    node_seat_t *s = seat_new(c, id, epoch, spec, size);
    if (s == NULL) {
        node_acting_tell(c, (node_acting_word_t){NODE_ACTING_REFUSED, id, epoch, 0}, NULL, 0);
    } else if (own != NULL && own->far == NULL) {
        adopted_make(c, own, s);
    } else {
        mob_status_t status = sent_make(c, s);
        if (status == MOB_OK) return;
        if (status != MOB_EFULL)
            node_cluster_trouble(c, "an actor of node %016llx can't be made here: %s",
                                 (unsigned long long)id.home,
                                 *mob_last_error() ? mob_last_error() : mob_status_text(status));
        tell(c, s, NODE_ACTING_REFUSED, 0);
    }
}

/* ---- what it has to say ---- */

static void done_keep(node_seat_t *s, const frame_done_t *done) {
    free(s->done);
    s->done = NULL;
    s->done_size = 0;
    if (frame_done_write(done, &s->done, &s->done_size) != MOB_OK) s->done = NULL;
}

/* The value of its slot, if that is small and names nothing else. */
static bool value_keep(node_t *n, node_seat_t *s, const node_actor_t *a) {
    frame_value_t value;
    if (node_value_frame(n, a->id, &value) != MOB_OK) return false;
    frame_done_t done = {.end = FRAME_RESULTS, .values = &value, .num_values = 1, .pid = a->pid};
    bool is_fit = value.num_refs == 0;
    if (is_fit) done_keep(s, &done);
    free(value.refs);
    return is_fit;
}

void node_seat_made(node_t *n, node_actor_t *a) {
    node_seat_t *s = a->seat;
    if (!s->is_adopted && !value_keep(n, s, a)) {
        node_actor_end(n, a, MOB_EACTOR, "what its constructor left can't be sent to its node");
        return;
    }
    tell(n->cluster, s, NODE_ACTING_MADE, 0);
}

void node_seat_words(node_cluster_t *c, frame_id_t id, node_freight_t *f) {
    const node_seat_t *s = seat_find(c, id);
    if (s == NULL || s->done == NULL || (f->bytes = malloc(s->done_size)) == NULL) return;
    memcpy(f->bytes, s->done, s->done_size);
    f->size = s->done_size;
}

/* ---- its own handle ---- */

frame_id_t node_seat_id(node_t *n, const node_actor_t *a) {
    frame_id_t id = a->seat->id;
    if (id.home != n->incarnation && node_proxy_find(n, id).slot == 0)
        (void)node_proxy_get(n, id); /* without memory: its home refuses the reference */
    return id;
}

mob_ref_t node_seat_find(const node_client_t *client, frame_id_t id) {
    const node_actor_t *a = client->actor;
    bool is_it = a != NULL && a->seat != NULL && actor_id_equal(a->seat->id, id);
    return is_it ? a->id : (mob_ref_t){0};
}

/* ---- its end ---- */

static bool is_pending(const node_t *n, mob_ref_t ref) {
    return (atomic_load_explicit(&n->slots[ref.slot].word, memory_order_acquire) & STORE_STATE) ==
           STORE_PENDING;
}

void node_seat_ended(node_t *n, node_actor_t *a) {
    node_seat_t *s = a->seat;
    bool raised = !s->is_adopted && a->init_failed && !is_pending(n, a->id) && value_keep(n, s, a);
    frame_done_t died = {.end = FRAME_DIED,
                         .begun = true,
                         .status = a->end == ACTOR_LEFT ? MOB_ECANCELLED : MOB_OK,
                         .pid = a->pid,
                         .text = a->cause,
                         .text_size = strlen(a->cause)};
    if (!raised) done_keep(s, &died);
    a->seat = NULL;
    s->actor = NULL;
    a->released |= !s->is_adopted; /* nobody else looks at its book */
    if (!s->is_adopted)
        tell(n->cluster, s, NODE_ACTING_GONE, a->init_failed ? ACTOR_REFUSED : a->end);
    else if (s->spec == NULL || !a->orphaned) /* else this node ends, and the actor goes on */
        tell(n->cluster, s, NODE_ACTING_GONE, a->init_failed ? ACTOR_REFUSED : ACTOR_LEFT);
}

void node_seat_gone(node_cluster_t *c, frame_id_t id) {
    node_seat_t *s = seat_find(c, id);
    if (s == NULL) return;
    if (s->actor != NULL) { /* adopted; it is refused */
        s->actor->seat = NULL;
        s->actor = NULL;
    }
    node_acting_key_t key = node_acting_key(id);
    (void)base_map_remove(&c->acting.seats, &key);
    if (!s->is_adopted && s->here.fresh != NULL) node_run_fini(c->node, &s->here);
    free(s->done);
    free(s->spec);
    free(s);
}

void node_seat_stop(node_cluster_t *c, frame_id_t id, uint64_t epoch) {
    node_seat_t *s = seat_find(c, id);
    if (s == NULL || s->actor == NULL || s->epoch != epoch) return;
    bool is_wanted =
        id.home == c->node->incarnation || s->spec != NULL || member_knows(c->member, id.home);
    node_actor_end(c->node, s->actor, MOB_EACTOR,
                   is_wanted ? "it was killed by ray.kill" : "the node of its owner died");
}
