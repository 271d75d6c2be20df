/*
 * Names. The control state decides who has one (control/control.h); its answers come later, so each
 * request has a note of who asked, and is checked again when its answer comes.
 *
 * - A creation with a name: its book is opened at once, and calls of the actor wait as always, but
 *   it is not scheduled (`held`) before the name is the actor's. If the name is another's, the
 *   creation fails, and the maker is told.
 * - A maker that died: its actor goes on; or its job has ended and the creation is gone, and then
 *   the name is given back.
 * - An actor that died, or is told to end because its last handle went: its name is dropped, and so
 *   nobody finds an actor that will not stay. The drop is carried out before any later request that
 *   this daemon makes.
 *
 * In a cluster a name that is free here is asked for there, too (cluster/actor_name.h), and one
 * that nobody has here is looked for there. listing.h has the lists.
 *
 * Whoever asks something that only the cluster knows is told to ask again: its process goes on
 * meanwhile, however long that takes.
 *
 * A detached actor is a job of its own, with its maker's setup, and ends with it: the maker's end
 * does not reach it. The daemon uses the actor's object, so it has a holder for as long as it
 * lives.
 */
#include "node/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/cluster/actor_name.h"
#include "node/cluster/actor_will.h"
#include "node/cluster/keep.h"
#include "node/state.h"

/* Who asked, for a request under way. */
typedef struct {
    node_t *node;
    uint32_t client, epoch;
    uint32_t record; /* of a creation */
    uint64_t generation;
    mob_ref_t actor;
    node_named_t *named; /* of a creation: the actor's, if it gets it; or what is looked for */
    bool is_kept;        /* of a creation: the cluster was asked, too */
    uint64_t wait;       /* the number that the client asks again by; 0: it waits */
} note_t;

/* The cluster, if there is one that knows of names; NULL. */
static node_cluster_t *cluster_of(const node_t *n) {
    return n->cluster != NULL && !n->cluster->is_alone && n->cluster->acting.room != NULL
               ? n->cluster
               : NULL;
}

static void name_drop(node_t *n, const node_named_t *named, mob_ref_t actor, bool is_kept) {
    /* first the count: whoever gets the name next must not meet what was noted of this one */
    atomic_fetch_add(&n->shared->names_dropped, 1);
    control_name_drop(n->control, CONTROL_NAME_ACTOR, named->name_space, named->name, actor);
    if (is_kept && cluster_of(n) != NULL)
        node_actor_name_drop(n->cluster, named, node_proxy_id(n, actor));
}

static note_t *note_new(node_client_t *c) {
    note_t *note = calloc(1, sizeof *note);
    if (note != NULL) *note = (note_t){.node = c->node, .client = c->number, .epoch = c->epoch};
    return note;
}

/* Who asked; NULL: it is gone. */
static node_client_t *note_client(const note_t *note) {
    node_client_t *c = note->node->clients[note->client];
    return c != NULL && c->epoch == note->epoch && c->state == NODE_LIVE ? c : NULL;
}

static node_name_wait_t *wait_find(node_t *n, uint64_t number) {
    for (size_t i = 0; i < n->name_waits.items.count; i++)
        if (n->name_waits.items.items[i].number == number) return &n->name_waits.items.items[i];
    return NULL;
}

/* The client is told to ask again. Without memory it waits. */
static void note_defer(note_t *note) {
    node_t *n = note->node;
    node_client_t *c = note_client(note);
    node_name_wait_t wait = {
        .number = n->name_waits.made + 1, .client = note->client, .epoch = note->epoch};
    if (c == NULL || !vec_push(&n->name_waits.items, wait)) return;
    note->wait = ++n->name_waits.made;
    node_client_tell(c, wire_answer(MOB_OK, note->wait));
}

/* `found`: NULL, or two references that the client holds. */
static void note_answer(const note_t *note, mob_status_t status, const mob_ref_t *found) {
    node_client_t *c = note_client(note);
    node_name_wait_t *wait = note->wait != 0 ? wait_find(note->node, note->wait) : NULL;
    if (wait != NULL) {
        wait->is_over = true;
        wait->status = status;
        if (found != NULL) memcpy(wait->found, found, sizeof wait->found);
    } else if (c != NULL && note->wait == 0) {
        if (found != NULL) memcpy(c->segment.base + SHM_CLIENT_SCRATCH, found, 2 * sizeof *found);
        node_client_tell(c, wire_answer(status, 0));
    }
}

void node_name_waited(node_client_t *c, const wire_message_t *m) {
    node_name_waits_t *waits = &c->node->name_waits;
    node_name_wait_t *wait = wait_find(c->node, m->wait.number);
    if (wait == NULL || wait->client != c->number || wait->epoch != c->epoch) {
        node_client_fault(c, "asked what became of a name that it has not asked for");
        return;
    }
    if (!wait->is_over) {
        node_client_tell(c, wire_answer(MOB_OK, wait->number));
        return;
    }
    memcpy(c->segment.base + SHM_CLIENT_SCRATCH, wait->found, sizeof wait->found);
    node_client_tell(c, wire_answer(wait->status, 0));
    vec_swap_remove(&waits->items, (size_t)(wait - waits->items.items));
}

void node_name_waits_forget(node_client_t *c) {
    node_name_waits_t *waits = &c->node->name_waits;
    for (size_t i = waits->items.count; i-- > 0;)
        if (waits->items.items[i].client == c->number) vec_swap_remove(&waits->items, i);
}

/* Copies a name out of the client's scratch page and checks it. */
bool node_name_read(node_client_t *c, uint64_t size, node_named_t *ret_named) {
    char copy[sizeof(wire_name_t) + 2 * (MOB_NAME_MAX + 1)];
    wire_name_t head;
    if (size < sizeof head || size > sizeof copy) return false;
    memcpy(copy, c->segment.base + SHM_CLIENT_SCRATCH, size);
    memcpy(&head, copy, sizeof head);
    const char *space = copy + sizeof head, *name = space + head.space_size;
    if (head.space_size == 0 || head.space_size > MOB_NAME_MAX + 1 || head.name_size == 0 ||
        head.name_size > MOB_NAME_MAX + 1 ||
        sizeof head + (uint64_t)head.space_size + head.name_size != size ||
        space[head.space_size - 1] != 0 || name[head.name_size - 1] != 0)
        return false;
    *ret_named = (node_named_t){.info = {.slot = head.slot, .generation = head.generation},
                                .detached = head.flags & WIRE_NAME_DETACHED,
                                .is_group = head.flags & WIRE_NAME_GROUP};
    memcpy(ret_named->name_space, space, head.space_size);
    memcpy(ret_named->name, name, head.name_size);
    return true;
}

/* ---- a creation ---- */

static void named_free(node_t *n, node_named_t *named) {
    if (named == NULL) return;
    node_object_unuse_ref(n, named->info);
    free(named->spec);
    free(named);
}

/* The demand of one job in another's numbers. */
static bool shape_move(const node_job_t *from, node_job_t *to, uint32_t shape, uint32_t *ret) {
    sched_amount_t demand[SCHED_NEEDS_MAX];
    size_t count = sched_shape_demand(from->sched, shape, demand, SCHED_NEEDS_MAX);
    sched_where_t where = *sched_shape_where(from->sched, shape);
    where.tag = 0; /* its environment is the other job's own setup */
    return sched_shape_intern_at(to->sched, demand, count, &where, ret) == MOB_OK;
}

/* The creation, which nobody has begun, becomes that of a job of the actor's own. The worker reads
 * the shapes in the record, so they are written there too: in READY the record is the daemon's. */
static bool actor_detach(node_t *n, node_actor_t *a, node_task_t *t) {
    node_job_t *job, *maker = t->job;
    uint32_t shape, held;
    node_pool_t *pool = node_pool_of(maker, t->shape);
    if (node_environment_open(pool) != MOB_OK ||
        node_job_new(n, node_setup_hold(pool->setup), &job) != MOB_OK)
        return false;
    job->actor = a;
    job->is_detached = true;
    job->maker = maker->maker != NULL ? maker->maker : maker;
    job->pid = maker->pid;
    job->shown = maker->shown;
    node_object_t *o = node_object_find(n, a->id);
    if (o == NULL || !shape_move(maker, job, t->shape, &shape) ||
        !shape_move(maker, job, t->held_shape, &held)) {
        job->actor = NULL;
        node_job_leave(job, false); /* it is freed by the round's end */
        return false;
    }
    node_object_use(o);
    node_task_disown(t);
    t->job = a->job = job;
    t->shape = n->records[t->record].shape = shape;
    t->held_shape = n->records[t->record].held_shape = held;
    node_job_note(job, false);
    return true;
}

/* The creation of a note; NULL: it is gone. */
static node_task_t *note_creation(const note_t *note) {
    node_task_t *t = note->node->tasks[note->record];
    return t != NULL && t->generation == note->generation && t->held ? t : NULL;
}

static void creation_go_on(node_t *n, node_task_t *t) {
    t->held = false;
    if (t->missing == 0) node_task_ready(t, n);
}

/* Its maker is told why, and nobody else. */
static void creation_refuse(node_t *n, node_task_t *t) {
    t->held = false;
    node_slot_quiet(n, t->refs[0]);
    node_actor_orphan(n, t->actor);
}

static void on_taken(void *context, const control_reply_t *reply);

/* The cluster's answer, for a name that is the actor's on this node. */
static void on_kept(void *context, mob_status_t status) {
    note_t *note = context;
    if (status != MOB_OK) name_drop(note->node, note->named, note->actor, false);
    on_taken(note, &(control_reply_t){.status = status});
}

/* True: it answers. */
static bool cluster_asks(note_t *note, const control_reply_t *reply) {
    node_cluster_t *c = cluster_of(note->node);
    if (reply->status != MOB_OK || note->named->name[0] == 0 || note->is_kept || c == NULL)
        return false;
    note->is_kept = true;
    if (node_actor_name_take(c, note->named, note->actor, on_kept, note) != MOB_OK) return false;
    note_defer(note);
    return true;
}

static void on_taken(void *context, const control_reply_t *reply) {
    note_t *note = context;
    node_t *n = note->node;
    if (cluster_asks(note, reply)) return;
    node_task_t *t = note_creation(note);
    node_named_t *named = note->named;
    bool has_name = reply->status == MOB_OK && named->name[0] != 0;
    mob_status_t status = t == NULL ? MOB_ECANCELLED : reply->status;
    if (status == MOB_OK && named->detached && !actor_detach(n, t->actor, t)) status = MOB_ELIMIT;
    if (status == MOB_OK && named->detached && cluster_of(n) != NULL)
        node_will_write(n->cluster, t, named);
    if (status == MOB_OK) {
        t->actor->named = named;
        note->named = NULL;
        node_actor_note(n, t->actor);
        creation_go_on(n, t);
    } else {
        if (has_name) name_drop(n, named, note->actor, note->is_kept);
        if (t != NULL) creation_refuse(n, t);
    }
    note_answer(note, status, NULL);
    named_free(n, note->named);
    free(note);
    n->again = true;
}

/* The actor's creation is `held`: asks for its name. Takes both. */
static void name_ask(node_t *n, note_t *note, node_named_t *named, const node_task_t *t) {
    node_object_t *info = named->info.slot != 0 ? node_object_find(n, named->info) : NULL;
    if (info != NULL)
        node_object_use(info);
    else
        named->info = (mob_ref_t){0};
    note->record = t->record;
    note->generation = t->generation;
    note->actor = t->actor->id;
    note->named = named;
    control_name_t key = {.actor = t->actor->id, .info = named->info};
    memcpy(key.name_space, named->name_space, sizeof key.name_space);
    memcpy(key.name, named->name, sizeof key.name);
    n->again = true;
    /* a detached actor without a name has nobody to ask */
    mob_status_t status = MOB_OK;
    if (key.name[0] != 0) status = control_name_take(n->control, &key, on_taken, note);
    if (key.name[0] == 0 || status != MOB_OK) on_taken(note, &(control_reply_t){.status = status});
}

static void actor_create(node_client_t *c, const wire_message_t *m, const node_named_t *read) {
    node_named_t *named = malloc(sizeof *named);
    note_t *note = note_new(c);
    node_task_t *t = node_task_submit_held(c, m->failure.record, m->failure.generation);
    if (t != NULL && t->actor != NULL && named != NULL && note != NULL) {
        *named = *read;
        name_ask(c->node, note, named, t);
        return;
    }
    if (t != NULL)
        node_task_fail(c->node, t, MOB_ENOMEM, "the daemon has no memory for this actor");
    node_client_tell(c, wire_answer(MOB_ENOMEM, 0));
    free(named);
    free(note);
}

void node_name_create(node_client_t *c, const wire_message_t *m) {
    node_named_t read;
    if (!node_name_read(c, m->failure.size, &read))
        node_client_fault(c, "gave a name that makes no sense");
    else if (read.is_group)
        node_group_create(c, m->failure.record, m->failure.generation, &read);
    else
        actor_create(c, m, &read);
}

/* What it would have left. */
static void will_drop(node_t *n, const node_named_t *named, mob_ref_t actor) {
    node_will_about_t about;
    if (cluster_of(n) != NULL && node_will_about(named->spec, named->spec_size, &about))
        node_keep_drop(n->cluster, node_proxy_id(n, actor), about.will_size);
}

void node_name_end(node_t *n, node_actor_t *a) {
    node_named_t *named = a->named;
    if (named == NULL) return;
    a->named = NULL;
    /* a detached actor that ends with this node goes on elsewhere, under its name */
    bool stays = named->spec != NULL && a->orphaned;
    if (named->name[0] != 0) name_drop(n, named, a->id, !stays);
    if (named->spec != NULL && !stays) will_drop(n, named, a->id);
    if (named->detached) node_object_unuse_ref(n, a->id);
    named_free(n, named);
    n->again = true;
}

/* ---- finding ---- */

static void found_tell(void *context, mob_status_t status, mob_ref_t actor, mob_ref_t info) {
    note_t *note = context;
    node_t *n = note->node;
    node_client_t *c = note_client(note);
    node_object_t *o = status == MOB_OK ? node_object_find(n, actor) : NULL;
    if (c != NULL && o != NULL) {
        mob_ref_t found[2] = {actor, info};
        node_object_t *described = info.slot != 0 ? node_object_find(n, info) : NULL;
        /* this node does not hear when another one drops a name: what is noted of it is void */
        if (o->proxy != NULL) atomic_fetch_add(&n->shared->names_dropped, 1);
        /* before the answer: the maker may let go of it meanwhile */
        node_object_hold(n, o, c->number, false);
        if (described != NULL) node_object_hold(n, described, c->number, false);
        note_answer(note, MOB_OK, found);
    } else {
        note_answer(note, status == MOB_OK ? MOB_ENONAME : status, NULL);
    }
    free(note->named);
    free(note);
}

/* Whether it is there; an actor that gave its name back meanwhile is about to end. */
static bool has_name(node_t *n, const control_reply_t *reply) {
    const node_object_t *o =
        reply->status == MOB_OK ? node_object_find(n, reply->names[0].actor) : NULL;
    return o != NULL && (o->group != NULL || (o->actor != NULL && o->actor->named));
}

static void on_found(void *context, const control_reply_t *reply) {
    note_t *note = context;
    node_t *n = note->node;
    node_cluster_t *c = cluster_of(n);
    if (has_name(n, reply))
        found_tell(note, MOB_OK, reply->names[0].actor, reply->names[0].info);
    else if (c == NULL || note->named == NULL || note->named->is_group ||
             node_actor_name_find(c, note->named, found_tell, note) != MOB_OK)
        found_tell(note, MOB_ENONAME, (mob_ref_t){0}, (mob_ref_t){0});
    else
        note_defer(note);
}

/* For another node. */
typedef struct {
    node_t *node;
    node_name_found_fn found;
    void *context;
} look_t;

static void on_looked(void *context, const control_reply_t *reply) {
    look_t look = *(look_t *)context;
    free(context);
    if (has_name(look.node, reply))
        look.found(look.context, MOB_OK, reply->names[0].actor, reply->names[0].info);
    else
        look.found(look.context, MOB_ENONAME, (mob_ref_t){0}, (mob_ref_t){0});
}

mob_status_t node_name_look(node_t *n, const node_named_t *named, node_name_found_fn found,
                            void *context) {
    look_t *look = malloc(sizeof *look);
    if (look == NULL) return MOB_ENOMEM;
    *look = (look_t){n, found, context};
    mob_status_t status = control_name_find(n->control, CONTROL_NAME_ACTOR, named->name_space,
                                            named->name, on_looked, look);
    if (status != MOB_OK) free(look);
    n->again = true;
    return status;
}

void node_name_find(node_client_t *c, const wire_message_t *m) {
    node_named_t named;
    if (!node_name_read(c, m->named.size, &named)) {
        node_client_fault(c, "asked for a name that makes no sense");
        return;
    }
    note_t *note = note_new(c);
    c->node->again = true;
    if (note != NULL && (note->named = malloc(sizeof named)) != NULL) *note->named = named;
    if (note == NULL || control_name_find(c->node->control,
                                          named.is_group ? CONTROL_NAME_GROUP : CONTROL_NAME_ACTOR,
                                          named.name_space, named.name, on_found, note) != MOB_OK) {
        if (note != NULL) free(note->named);
        free(note);
        node_client_tell(c, wire_answer(MOB_ENOMEM, 0));
    }
}
