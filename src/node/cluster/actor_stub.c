/*
 * Actors that live elsewhere.
 *
 * At its home such an actor is a book on its own slot, as any actor's, with a creation that no
 * worker has:
 *
 *   leaves      it can't run here, or has waited here while another node has room; before it was
 *               made, or after its process died. The room's record is made, and asks for a node
 *               (PLACE), each time that it is to be made
 *   is sent     its frame is written from its record, which stays READY
 *   is made     the constructor has ended there (MADE): its value is the slot's. The creation is
 *               kept if it may be made again, else it is done
 *   is over     the room says so (ENDED): buried as any actor
 *
 * Elsewhere it is a book on the proxy of its id, from the first call or kill by a process there
 * until no process has a handle and no call is left. It has no life of its own: what becomes of
 * its calls the room says.
 */
#include "node/cluster/actor_stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actor/actor.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_orphan.h"
#include "node/cluster/actor_pick.h"
#include "node/cluster/cluster.h"
#include "node/cluster/group_over.h"
#include "node/cluster/guest.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/proxy.h"
#include "node/state.h"
#include "wire/direct.h"

enum { WORDS_FINAL = 1, WORDS_DETACHED = 2 };
enum { STUB_LIMIT = 1 << 20 }; /* of calls at once, of an actor of which only its home knows more */

static const uint64_t LEAVES_NS = 250000000;

static bool is_home(const node_t *n, const node_actor_t *a) {
    return a->far->id.home == n->incarnation;
}

static actor_t *room_of(const node_t *n) {
    return n->cluster != NULL ? n->cluster->acting.room : NULL;
}

static node_actor_t *far_find(node_cluster_t *c, frame_id_t id) {
    node_actor_t *a = node_acting_actor(c->node, id);
    return a != NULL && a->far != NULL ? a : NULL;
}

uint64_t node_far_where(const node_t *n, const node_actor_t *a, const char **ret_host) {
    uint64_t node = a->far != NULL ? a->far->node : n->incarnation;
    const node_row_t *row =
        n->cluster != NULL && a->far != NULL ? node_roster_find(&n->cluster->roster, node) : NULL;
    *ret_host = row != NULL ? row->host : n->cluster != NULL ? n->cluster->host : "127.0.0.1";
    return node;
}

bool node_far_is_final(const node_t *n, const node_actor_t *a) {
    return is_home(n, a) ? a->life.restarts_left == 0 : a->far->is_final;
}

/* ---- its book ---- */

static bool far_set(node_t *n, node_actor_t *a, frame_id_t id) {
    node_far_t *far = calloc(1, sizeof *far);
    if (far == NULL || !vec_push(&n->cluster->acting.fars, a)) {
        free(far);
        return false;
    }
    far->id = id;
    a->far = far;
    /* of an actor whose home is dead only the control state knows */
    bool is_orphan = id.home != n->incarnation && !member_knows(n->cluster->member, id.home);
    if (actor_handle_open(room_of(n), id, is_orphan ? ACTOR_DETACHED : 0) == MOB_OK) return true;
    n->cluster->acting.fars.count--;
    a->far = NULL;
    free(far);
    return false;
}

node_actor_t *node_far_open(node_t *n, node_object_t *o) {
    if (room_of(n) == NULL || o->proxy == NULL) return NULL;
    node_actor_t *a = calloc(1, sizeof *a);
    if (a == NULL) return NULL;
    a->id = (mob_ref_t){.slot = o->slot, .generation = o->generation};
    a->limit = STUB_LIMIT;
    actor_life_init(&a->life, 0);
    actor_life_made(&a->life);
    snprintf(a->name, sizeof a->name, "%s", "actor");
    if (!far_set(n, a, o->proxy->id)) {
        free(a);
        return NULL;
    }
    o->actor = a;
    return a;
}

void node_far_free(node_t *n, node_actor_t *a) {
    node_acting_t *acting = &n->cluster->acting;
    for (size_t i = acting->fars.count; i-- > 0;)
        if (acting->fars.items[i] == a) vec_swap_remove(&acting->fars, i);
    if (acting->room != NULL) actor_handle_close(acting->room, a->far->id);
    free(a->far);
    a->far = NULL;
}

/* ---- leaving ---- */

static bool has_no_process(const node_actor_t *a) {
    bool is_restarting = a->life.state == ACTOR_RESTARTING && a->worker == NULL;
    return !a->life.killed && (!a->life.made || is_restarting);
}

/* In a group it stays, unless other nodes have bundles of that. */
static bool may_leave(node_t *n, const node_task_t *t) {
    const sched_where_t *where = sched_shape_where(t->job->sched, t->shape);
    return room_of(n) != NULL && t->kind == MOB_ACTOR_CREATE && t->actor != NULL &&
           t->actor->far == NULL && t->actor->seat == NULL && has_no_process(t->actor) &&
           (where->group == NULL || (node_group_over_of(t) != NULL && !t->actor->life.made)) &&
           !(where->flags & NODE_WHERE_REMOVED);
}

/* Its creation has no worker yet, and may leave. */
static bool is_to_begin(const node_actor_t *a) {
    return !a->life.made && a->life.state != ACTOR_DEAD && a->creation != NULL &&
           a->creation->worker == NULL;
}

static bool sought_take(node_cluster_t *c, mob_ref_t id) {
    for (size_t i = 0; i < c->acting.sought.count; i++) {
        mob_ref_t at = c->acting.sought.items[i];
        if (at.slot != id.slot || at.generation != id.generation) continue;
        vec_swap_remove(&c->acting.sought, i);
        return true;
    }
    return false;
}

/* The room wants to know where they are: here, once they have begun here. */
static void sought_look(node_cluster_t *c) {
    node_t *n = c->node;
    for (size_t i = c->acting.sought.count; i-- > 0;) {
        mob_ref_t id = c->acting.sought.items[i];
        const node_object_t *o = node_object_known(n, id);
        if (o != NULL && o->actor != NULL && is_to_begin(o->actor)) continue;
        vec_swap_remove(&c->acting.sought, i);
        if (o != NULL && o->actor != NULL)
            actor_placed(c->acting.room, node_proxy_id(n, id), n->incarnation);
        else
            (void)actor_kill(c->acting.room, node_proxy_id(n, id), ACTOR_DETACHED, true);
    }
}

void node_far_begun(node_t *n, const node_actor_t *a) {
    if (room_of(n) != NULL && sought_take(n->cluster, a->id))
        actor_placed(room_of(n), node_proxy_id(n, a->id), n->incarnation);
}

/* Its task is READY, and in no queue. `pick`: 0, or where to. False: no memory, and it is as it
 * was. */
static bool creation_leave(node_t *n, node_task_t *t, uint64_t pick) {
    node_actor_t *a = t->actor;
    frame_id_t id = node_proxy_id(n, a->id);
    actor_spec_t spec = {.max_restarts = a->life.made ? a->life.restarts_left : t->retries,
                         .limit = a->limit > 0 ? a->limit : 1};
    if (a->named != NULL && a->named->spec != NULL) {
        spec.flags = ACTOR_DETACHED;
        spec.bytes = a->named->spec;
        spec.size = a->named->spec_size;
    }
    mob_status_t status = actor_create(room_of(n), id, &spec);
    bool is_known = status == MOB_EINVAL && !a->life.made; /* it was looked for: see `sought` */
    if (status != MOB_OK && !is_known) return false;
    if (!far_set(n, a, id)) {
        if (!is_known) actor_unwanted(room_of(n), id);
        return false;
    }
    a->far->is_placing = is_known && sought_take(n->cluster, a->id);
    a->far->pick = pick;
    node_far_first(n, a);
    node_calls_give_up(n, a);
    node_far_pump(n, a);
    return true;
}

static void waiting_add(node_t *n, const node_actor_t *a) {
    node_acting_waiting_t waiting = {a->id, base_clock_mono_ns()};
    (void)vec_push(&n->cluster->acting.waiting, waiting); /* without memory it stays */
}

/* It leaves if no bundle of it is here, or if those have no room while others may. */
static bool group_takes(node_t *n, node_task_t *t, node_group_t *g) {
    const sched_job_t *job = t->job->sched;
    bool runs_here = node_group_capacity(g, job, t->shape, n->incarnation) > 0;
    uint64_t pick = runs_here && sched_shape_starts_inside(job, t->shape)
                        ? 0
                        : node_group_pick(g, job, t->shape, false);
    if ((pick != 0 || !runs_here) && creation_leave(n, t, pick)) return true;
    waiting_add(n, t->actor);
    return false;
}

bool node_far_takes(node_t *n, node_task_t *t) {
    if (!may_leave(n, t)) return false;
    node_group_t *group = node_group_over_of(t);
    if (group != NULL) return group_takes(n, t, group);
    bool runs_here = sched_shape_fits_ever(t->job->sched, t->shape) &&
                     sched_shape_matches(t->job->sched, t->shape);
    uint64_t wish = node_actor_wish(n->cluster, t);
    if (wish != 0 && creation_leave(n, t, wish)) return true;
    if (!runs_here && node_actor_fits_elsewhere(n->cluster, t))
        return creation_leave(n, t, node_actor_pick(n->cluster, t, false));
    waiting_add(n, t->actor);
    return false;
}

void node_far_again(node_t *n, node_actor_t *a) {
    if (room_of(n) != NULL && may_leave(n, a->creation)) waiting_add(n, a);
}

/* True: it need not be looked at again. */
static bool waiting_look(node_cluster_t *c, const node_acting_waiting_t *waiting, uint64_t now) {
    node_t *n = c->node;
    const node_object_t *o = node_object_known(n, waiting->id);
    node_task_t *t = o != NULL && o->actor != NULL ? o->actor->creation : NULL;
    if (t == NULL || !t->queue.queued || t->job == NULL || t->job->farewell.leaving ||
        !may_leave(n, t))
        return true;
    if (now - waiting->since_ns < LEAVES_NS) return false;
    uint64_t pick = node_actor_pick(c, t, false);
    if (pick == 0) return false;
    sched_task_remove(n->sched, &t->queue);
    if (creation_leave(n, t, pick)) return true;
    sched_task_readd(n->sched, &t->queue);
    return false;
}

static bool is_in_group(const node_task_t *t) {
    return t != NULL && t->job != NULL && node_group_over_of(t) != NULL;
}

/* It asks for a node that is gone, and so for ever. The actor may be gone afterwards. */
static void place_give_up(node_cluster_t *c, node_actor_t *a) {
    const node_task_t *t = a->creation;
    const char *words = NULL, *selector = sched_shape_where(t->job->sched, t->shape)->selector;
    mob_status_t status = node_actor_may_ever(c, selector) ? MOB_OK : node_task_doom(t, &words);
    if (status != MOB_OK) node_actor_end(c->node, a, status, words);
}

static void place_try(node_cluster_t *c, node_actor_t *a) {
    node_far_t *far = a->far;
    if (!far->is_placing || a->creation == NULL || a->creation->job == NULL) return;
    uint64_t node = far->pick != 0 ? far->pick : node_actor_pick(c, a->creation, true);
    far->pick = 0;
    if (node == 0 && !far->is_tried) { /* heartbeats are old: it says so if it has no room */
        far->is_tried = true;
        node = node_actor_try(c, a->creation);
    }
    if (node == 0) {
        place_give_up(c, a);
        return;
    }
    far->is_tried |= is_in_group(a->creation);
    far->is_placing = false;
    actor_placed(c->acting.room, far->id, node);
}

/* It is made again: the room asks for a node. */
static void restarting_note(node_t *n, node_actor_t *a) {
    a->life.state = ACTOR_RESTARTING;
    a->far->is_tried = false;
    a->life.restarts++;
    if (a->life.restarts_left > 0) a->life.restarts_left--;
    if (a->job != NULL) node_failure_restart(a, a->far->how);
    node_actor_note(n, a);
}

void node_far_place(node_cluster_t *c, frame_id_t id) {
    if (id.home != c->node->incarnation) {
        node_orphan_place(c, id);
        return;
    }
    node_actor_t *a = node_acting_actor(c->node, id);
    if (a != NULL && a->far == NULL && is_to_begin(a) && vec_push(&c->acting.sought, a->id)) {
        return;
    } else if (a != NULL && a->far == NULL) {
        actor_placed(c->acting.room, id, c->node->incarnation); /* it is here already */
    } else if (a != NULL) {
        if (a->life.state == ACTOR_ALIVE) restarting_note(c->node, a);
        bool is_refused = a->far->is_tried && is_in_group(a->creation);
        a->far->is_placing = true;
        if (!is_refused) place_try(c, a); /* else at the next tick: all may be full for long */
    }
}

void node_far_tick(node_cluster_t *c) {
    node_acting_t *acting = &c->acting;
    uint64_t now = base_clock_mono_ns();
    sought_look(c);
    for (size_t i = acting->waiting.count; i-- > 0;)
        if (waiting_look(c, &acting->waiting.items[i], now)) vec_swap_remove(&acting->waiting, i);
    for (size_t i = acting->fars.count; i-- > 0;)
        if (acting->fars.items[i]->far->is_placing) place_try(c, acting->fars.items[i]);
}

/* ---- its creation goes ---- */

mob_status_t node_far_creation(node_cluster_t *c, uint64_t to, frame_id_t id, uint64_t epoch,
                               node_freight_t *f) {
    node_actor_t *a = far_find(c, id);
    if (a == NULL) return MOB_OK; /* it is here already, and this node's message to itself */
    node_task_t *t = a->creation;
    uint8_t *frame;
    size_t size;
    if (t == NULL || t->job == NULL) return MOB_ESTALE;
    mob_status_t status = MOB_OK;
    if (to != c->node->incarnation)
        status = node_guestjob_send_pool(c, to, node_pool_of(t->job, t->shape));
    if (status == MOB_OK) status = node_frame_write(c->node, t, &frame, &size);
    if (status != MOB_OK) return status;
    base_writer_t w = {.bytes = f->bytes = malloc(NODE_GUEST_HEAD + size)};
    if (w.bytes != NULL) {
        base_put_number(&w, a->life.restarts, NODE_GUEST_HEAD);
        base_put_bytes(&w, frame, size);
        f->size = w.size;
    }
    free(frame);
    if (w.bytes == NULL) return MOB_ENOMEM;
    a->far->node = to;
    a->far->epoch = epoch;
    return node_guest_frame_ids(f->bytes, f->size, &f->ids, &f->count);
}

/* ---- what is heard of it ---- */

/* The value that the constructor left, or its error, which is the actor's. */
static void value_come(node_t *n, node_actor_t *a, const frame_value_t *v) {
    if (v->error != MOB_OK && a->life.made) {
        const char *words;
        uint64_t size = v->size;
        if (wire_error_words(v->bytes, v->size, &words, &size)) node_actor_refused(a, words, size);
        return;
    }
    a->init_failed |= v->error != MOB_OK;
    if (v->error != MOB_OK) node_slot_quiet(n, a->id);
    (void)node_proxy_seal(n, a->id, (mob_format_t)v->format, (mob_status_t)v->error, v->bytes,
                          v->size, NULL, 0); /* without space: its end says what it can */
}

static mob_status_t end_heard(node_cluster_t *c, uint64_t from, const actor_message_t *m,
                              const uint8_t *bytes, size_t size) {
    node_actor_t *a = far_find(c, m->id);
    frame_done_t done;
    if (a == NULL || !is_home(c->node, a) || a->far->node != from || a->far->epoch != m->epoch)
        return MOB_OK;
    mob_status_t status = frame_done_read(bytes, size, &done);
    if (status != MOB_OK) return status;
    if (done.end == FRAME_RESULTS && done.num_values == 1 && done.values[0].num_refs == 0)
        value_come(c->node, a, &done.values[0]);
    if (done.pid > 0) a->pid = done.pid;
    if (done.end == FRAME_DIED && done.status == MOB_ECANCELLED)
        a->life.restarts_left = 0; /* it is not made again */
    if (done.end == FRAME_DIED)
        snprintf(a->far->how, sizeof a->far->how, "%.*s", (int)done.text_size,
                 done.text_size > 0 ? done.text : "");
    frame_done_fini(&done);
    return MOB_OK;
}

/* What callers elsewhere are to know: whether it is made again, its name, how it ended. */
void node_far_words(node_cluster_t *c, const actor_message_t *m, node_freight_t *f) {
    const node_actor_t *a = node_acting_actor(c->node, m->id);
    if (a == NULL || m->id.home != c->node->incarnation) return;
    const char *how = a->life.state == ACTOR_DEAD ? a->cause : a->far != NULL ? a->far->how : "";
    size_t name_size = strlen(a->name), how_size = strlen(how);
    base_writer_t w = {.bytes = f->bytes = malloc(3 + name_size + how_size)};
    if (w.bytes == NULL) return;
    bool is_detached = a->named != NULL && a->named->spec != NULL;
    bool is_final =
        a->far != NULL ? node_far_is_final(c->node, a) : !is_detached || a->life.restarts_left == 0;
    base_put_number(&w, (is_final ? WORDS_FINAL : 0) | (is_detached ? WORDS_DETACHED : 0), 1);
    base_put_number(&w, name_size, 1);
    base_put_bytes(&w, a->name, name_size);
    base_put_bytes(&w, how, how_size);
    f->size = w.size;
}

static mob_status_t words_heard(node_cluster_t *c, uint64_t from, const actor_message_t *m,
                                const uint8_t *bytes, size_t size) {
    node_actor_t *a = far_find(c, m->id);
    base_reader_t r = {.at = bytes, .left = size};
    uint64_t flags = base_take_number(&r, 1);
    size_t name_size = base_take_number(&r, 1);
    const char *name = base_take_bytes(&r, name_size);
    if (r.short_of) return MOB_EPROTO;
    if (a == NULL || is_home(c->node, a) || from != m->id.home) return MOB_OK;
    a->far->is_final = flags & WORDS_FINAL;
    if (flags & WORDS_DETACHED) {
        a->far->is_detached = true;
        actor_handle_detached(c->acting.room, m->id);
    }
    snprintf(a->name, sizeof a->name, "%.*s", (int)name_size, name_size > 0 ? name : "");
    if (r.left > 0)
        snprintf(a->far->how, sizeof a->far->how, "%.*s", (int)r.left, (const char *)r.at);
    return MOB_OK;
}

mob_status_t node_far_heard(node_cluster_t *c, uint64_t from, const actor_message_t *m,
                            const uint8_t *bytes, size_t size) {
    switch (m->kind) {
    case MESSAGE_MADE:
    case MESSAGE_ENDED:
        return end_heard(c, from, m, bytes, size);
    case MESSAGE_ALIVE:
    case MESSAGE_DEAD:
        return words_heard(c, from, m, bytes, size);
    default:
        return MOB_EPROTO;
    }
}

void node_far_made(node_cluster_t *c, uint64_t from, const actor_message_t *m) {
    node_t *n = c->node;
    node_actor_t *a = far_find(c, m->id);
    if (a == NULL || !is_home(n, a) || a->far->node != from || a->far->epoch != m->epoch ||
        a->life.state == ACTOR_DEAD || a->life.state == ACTOR_ALIVE)
        return;
    node_task_t *t = a->creation;
    actor_life_made(&a->life);
    a->far->how[0] = 0;
    if (node_far_is_final(n, a) && t != NULL) {
        a->creation = NULL;
        node_task_dismiss(n, t);
    } else if (t != NULL && t->submitter != 0) {
        node_task_park(n, t);
    }
    node_actor_note(n, a);
    node_actor_try_end(n, a);
}

/* ---- its end ---- */

void node_far_ended(node_cluster_t *c, frame_id_t id) {
    node_actor_t *a = far_find(c, id);
    char cause[sizeof a->far->how];
    if (id.home != c->node->incarnation) node_orphan_ended(c, id);
    if (a == NULL || !is_home(c->node, a) || a->life.state == ACTOR_DEAD) return;
    snprintf(cause, sizeof cause, "%s",
             a->released           ? "nobody has a handle to it any more"
             : a->far->how[0] != 0 ? a->far->how
                                   : "its process ended");
    a->quiet |= a->released || a->init_failed;
    bool killed = a->life.killed;
    actor_life_kill(&a->life);
    (void)actor_life_ended(&a->life, ACTOR_IMPOSSIBLE, false);
    a->life.killed = killed;
    node_actor_bury(c->node, a, cause);
}

/* A detached one is wanted without a handle, too: the room would make it again. */
void node_far_buried(node_t *n, node_actor_t *a) {
    if (room_of(n) == NULL || !is_home(n, a)) return;
    if (a->named == NULL || a->named->spec == NULL)
        actor_unwanted(room_of(n), a->far->id);
    else if (!a->orphaned) /* else this node ends, and the actor goes on */
        (void)actor_kill(room_of(n), a->far->id, ACTOR_DETACHED, true);
}

bool node_far_is_over(node_t *n, node_actor_t *a) {
    if (!is_home(n, a)) return true;
    if (a->life.state == ACTOR_ALIVE && !a->far->is_unwanted && room_of(n) != NULL) {
        a->far->is_unwanted = true;
        node_name_end(n, a); /* whoever finds it by name now would lose it */
        actor_unwanted(room_of(n), a->far->id);
    }
    return false;
}

void node_far_kill(node_t *n, node_actor_t *a, bool may_restart) {
    if (room_of(n) == NULL) return;
    if (!may_restart && is_home(n, a)) actor_life_kill(&a->life);
    if (!may_restart) a->quiet = true;
    snprintf(a->far->how, sizeof a->far->how, "it was killed by ray.kill");
    bool is_orphan = !is_home(n, a) && !member_knows(n->cluster->member, a->far->id.home);
    bool is_detached = a->far->is_detached || is_orphan ||
                       (is_home(n, a) && a->named != NULL && a->named->spec != NULL);
    (void)actor_kill(room_of(n), a->far->id, is_detached ? ACTOR_DETACHED : 0, !may_restart);
    n->again = true;
}

void node_far_job_ends(node_job_t *job) {
    if (room_of(job->node) == NULL) return;
    node_acting_t *acting = &job->node->cluster->acting;
    for (size_t i = acting->fars.count; i-- > 0;) {
        if (i >= acting->fars.count) continue; /* others went with it */
        node_actor_t *a = acting->fars.items[i];
        if (a->job == job) node_actor_orphan(job->node, a);
    }
}

void node_far_node_died(node_cluster_t *c, uint64_t peer) {
    char words[NODE_ROSTER_WORDS];
    node_roster_words(&c->roster, peer, words, sizeof words);
    for (size_t i = c->acting.fars.count; i-- > 0;) {
        node_actor_t *a = c->acting.fars.items[i];
        bool was_there =
            a->far->node == peer || actor_stub_node(c->acting.room, a->far->id) == peer;
        if (!was_there && (a->far->id.home != peer || a->far->is_detached)) continue;
        if (was_there && !is_home(c->node, a)) a->far->node = peer;
        snprintf(a->far->how, sizeof a->far->how, "%s died: %s",
                 was_there ? "its node" : "the node of its owner", words);
    }
}
