/*
 * What waits for what, by the records: whatever was submitted and is not done has one that is READY
 * or TAKEN, whichever way it goes.
 *
 *   TAKEN   a run. It waits if its worker says so (shm/wait.h); else it goes on by itself. It goes
 *           on if any one of the objects comes that it gets, for that may be an error; of those
 *           that it waits for, as many as it wants
 *   READY   waits for its arguments, all of them. Then a task or creation waits for its resources,
 *           and a call for its actor: for the creation, and for one of as many places as the actor
 *           runs calls at once
 *
 * A task in a placement group needs the group, as if that were an argument; a group that is not
 * placed asks for all its bundles. In a bundle there is as much as the bundle has. One that may run
 * in any bundle goes on, at the latest, when all bundles together have enough: that much is asked.
 * What the bundles hold of the node counts as free, for a group may be removed at any time.
 *
 * A run holds its resources until its end, without the CPUs that it lends. An actor holds its own
 * until all of its runs have gone on; one without a run may end at any time. A place of an actor is
 * held by the run that has it.
 *
 * Whatever is not known goes on: an object without a record, a record that changes while it is
 * read, a demand that no node could meet (of which the driver is told elsewhere), a task that has
 * its resources and waits for a worker. So what is found tied is. Not found: calls of one caller
 * that stand behind another of its calls whose argument never comes; waits in event loops, in
 * threads that a task started itself, in drivers; waits with a time limit.
 *
 * The daemon does not keep books on most of these records, so it reads them all. Each is copied,
 * and counts if its word has not changed meanwhile.
 */
#include "node/tangle.h"

#include <stddef.h>
#include <string.h>

#include "node/forward.h"
#include "node/state.h"
#include "node/visit.h"

/* More take too long to read: 65,536 strands take some 40 ms. The others count as not known. */
enum { MOST_RECORDS = 1 << 20, MOST_STRANDS = 1 << 16 };

static int thread_compare(const void *a, const void *b) {
    uint32_t left = ((const node_thread_t *)a)->ref.slot,
             right = ((const node_thread_t *)b)->ref.slot;
    return (left > right) - (left < right);
}

const node_strand_t *node_tangle_producer(const node_tangle_t *g, mob_ref_t ref) {
    size_t low = 0, high = g->producers.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const node_thread_t *p = &g->producers.items[middle];
        if (p->ref.slot == ref.slot)
            return p->ref.generation == ref.generation ? &g->strands.items[p->strand] : NULL;
        if (p->ref.slot < ref.slot)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool node_tangle_tied(const node_tangle_t *g, const node_strand_t *s) {
    return knot_is_tied(g->knot, s->thing);
}

void node_tangle_fini(node_tangle_t *g) {
    knot_free(g->knot);
    vec_free(&g->waits);
    vec_free(&g->strands);
    vec_free(&g->producers);
    vec_free(&g->needs);
    vec_free(&g->pots);
}

/* ---- waits ---- */

static void waits_read(node_t *n, node_tangle_t *g) {
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || w->role != WIRE_WORKER || w->state != NODE_LIVE || w->up == NULL) continue;
        shm_wait_t *places = (shm_wait_t *)(w->segment.base + SHM_CLIENT_WAITS);
        for (int p = 0; p < SHM_WAITS; p++) {
            node_standing_t found = {.worker = w};
            if (shm_wait_read(&places[p], &found.wait) && found.wait.listed > 0 &&
                found.wait.listed <= SHM_WAIT_REFS)
                (void)vec_push(&g->waits, found);
        }
    }
}

/* The first wait of this worker, or of a later one: they are in the order of numbers. */
static size_t waits_from(const node_tangle_t *g, uint32_t worker) {
    size_t low = 0, high = g->waits.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->waits.items[middle].worker->number < worker)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_wait_of(const node_tangle_t *g, size_t i, uint32_t worker) {
    return i < g->waits.count && g->waits.items[i].worker->number == worker;
}

static int32_t wait_find(const node_tangle_t *g, uint32_t worker, uint32_t record,
                         uint64_t generation) {
    for (size_t i = waits_from(g, worker); is_wait_of(g, i, worker); i++)
        if (g->waits.items[i].wait.record == record &&
            g->waits.items[i].wait.generation == generation)
            return (int32_t)i;
    return -1;
}

static bool is_pending(node_t *n, mob_ref_t ref) {
    if (ref.slot == 0 || ref.slot >= n->grants.slots.granted) return false;
    store_slot_t *slot = &n->slots[ref.slot];
    return (atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) ==
               STORE_PENDING &&
           atomic_load_explicit(&slot->generation, memory_order_relaxed) == ref.generation;
}

/* ---- resources ---- */

typedef void (*claim_fn)(knot_t *, uint32_t thing, uint32_t resource, int64_t amount);

/* What a bundle, or with -1 the whole group, has of it. */
static int64_t pot_total(const sched_group_t *group, int32_t bundle, const char *name) {
    sched_amount_t lines[SCHED_NEEDS_MAX];
    int64_t total = 0;
    uint32_t first = bundle < 0 ? 0 : (uint32_t)bundle,
             end = bundle < 0 ? (uint32_t)sched_group_bundles(group) : first + 1;
    for (uint32_t b = first; b < end; b++) {
        size_t count = sched_bundle_demand(group, b, lines, SCHED_NEEDS_MAX, NULL);
        for (size_t i = 0; i < count && i < SCHED_NEEDS_MAX; i++)
            if (strcmp(lines[i].name, name) == 0) total += (int64_t)lines[i].amount;
    }
    return total;
}

static bool pot_find(node_tangle_t *g, const sched_group_t *group, int32_t bundle, const char *name,
                     uint32_t *ret_resource) {
    for (size_t i = 0; i < g->pots.count; i++) {
        const node_pot_t *pot = &g->pots.items[i];
        if (pot->group != group || pot->bundle != bundle || strcmp(pot->name, name) != 0) continue;
        *ret_resource = pot->resource;
        return true;
    }
    if (!vec_reserve(&g->pots, 1)) return false;
    *ret_resource = knot_resource_add(g->knot, pot_total(group, bundle, name));
    g->pots.items[g->pots.count++] = (node_pot_t){group, bundle, name, *ret_resource};
    return true;
}

static void bundle_claim(node_tangle_t *g, uint32_t thing, const sched_job_t *job, uint32_t shape,
                         const sched_group_t *group, int32_t bundle, bool cpus, claim_fn claim) {
    sched_amount_t demand[SCHED_NEEDS_MAX];
    size_t count = sched_shape_demand(job, shape, demand, SCHED_NEEDS_MAX);
    for (size_t i = 0; i < count && i < SCHED_NEEDS_MAX; i++) {
        uint32_t resource;
        if (!cpus && strcmp(demand[i].name, "CPU") == 0) continue;
        if (pot_find(g, group, bundle, demand[i].name, &resource))
            claim(g->knot, thing, resource, (int64_t)demand[i].amount);
    }
}

/* The node's resources come first in the knot, in their order. */
static void shape_claim(node_t *n, node_tangle_t *g, uint32_t thing, const sched_job_t *job,
                        uint32_t shape, bool cpus, claim_fn claim) {
    sched_amount_t demand[SCHED_NEEDS_MAX];
    const sched_where_t *where = sched_shape_where(job, shape);
    if (where->group != NULL) {
        if (!sched_group_is_removed(where->group))
            bundle_claim(g, thing, job, shape, where->group, where->bundle, cpus, claim);
        return;
    }
    size_t count = sched_shape_demand(job, shape, demand, SCHED_NEEDS_MAX);
    for (size_t i = 0; i < count && i < SCHED_NEEDS_MAX; i++) {
        if (!cpus && strcmp(demand[i].name, "CPU") == 0) continue;
        for (size_t r = 0; r < sched_resource_count(n->sched); r++) {
            const char *name;
            uint64_t total;
            int64_t available;
            sched_resource_at(n->sched, r, &name, &total, &available);
            if (strcmp(name, demand[i].name) == 0)
                claim(g->knot, thing, (uint32_t)r, (int64_t)demand[i].amount);
        }
    }
}

static void resources_add(node_t *n, node_tangle_t *g) {
    for (size_t r = 0; r < sched_resource_count(n->sched); r++) {
        const char *name;
        uint64_t total;
        int64_t available;
        sched_resource_at(n->sched, r, &name, &total, &available);
        knot_resource_add(g->knot, (int64_t)total);
    }
}

static void lease_hold(node_t *n, node_tangle_t *g, uint32_t thing, const sched_lease_t *lease) {
    if (lease->state == SCHED_LEASE_NONE) return;
    uint32_t bundle;
    bool cpus = lease->state == SCHED_LEASE_HELD;
    const sched_group_t *group = sched_lease_group(lease, &bundle);
    if (group == NULL) {
        shape_claim(n, g, thing, lease->job, lease->shape, cpus, knot_hold);
    } else if (!sched_group_is_removed(group)) {
        bundle_claim(g, thing, lease->job, lease->shape, group, (int32_t)bundle, cpus, knot_hold);
        bundle_claim(g, thing, lease->job, lease->shape, group, -1, cpus, knot_hold);
    }
}

/* The actor's places for calls, as a resource. */
static uint32_t slots_of(node_t *n, node_tangle_t *g, node_actor_t *a) {
    if (a->look != n->deadlock.looks) {
        a->look = n->deadlock.looks;
        a->slots = knot_resource_add(g->knot, a->limit > 0 ? a->limit : 1);
    }
    return a->slots;
}

/* ---- records ---- */

static node_task_t *book_of(node_t *n, const node_strand_t *s) {
    node_task_t *t = n->tasks[s->record];
    return t != NULL && t->generation == s->generation ? t : NULL;
}

static node_actor_t *actor_of(node_t *n, mob_ref_t id) {
    node_object_t *o = node_object_find(n, id);
    return o != NULL ? o->actor : NULL;
}

static bool body_find(node_t *n, uint32_t index, const wire_record_t *copy, wire_body_t *ret_body) {
    uint32_t owner = n->grants.records.owner[index / WIRE_RECORD_BLOCK];
    return node_record_split(n, owner, copy, ret_body);
}

/* How many of the things that it needs must go on. */
static uint32_t needed_by(const node_tangle_t *g, const node_strand_t *s, uint32_t missing) {
    if (s->worker == 0) return missing;
    if (s->wait < 0) return 0;
    const shm_wait_t *w = &g->waits.items[s->wait].wait;
    return w->needed >= w->count ? 1 : w->needed;
}

static void run_claims(node_t *n, node_tangle_t *g, const node_strand_t *s) {
    node_task_t *t = book_of(n, s);
    if (s->kind == MOB_ACTOR_CALL && s->actor != NULL)
        knot_hold(g->knot, s->thing, slots_of(n, g, s->actor), 1);
    else if (t != NULL)
        lease_hold(n, g, s->thing, &t->lease);
}

static void ready_claims(node_t *n, node_tangle_t *g, node_strand_t *s) {
    node_task_t *t = book_of(n, s);
    if (s->kind == MOB_ACTOR_CALL) {
        if (s->actor != NULL && s->actor->life.state != ACTOR_DEAD)
            knot_ask(g->knot, s->thing, slots_of(n, g, s->actor), 1);
        return;
    }
    bool placed = t != NULL && (t->lease.state != SCHED_LEASE_NONE || t->worker != NULL ||
                                t->waiting_for_worker);
    s->asks = !placed && s->job != NULL && sched_shape_valid(s->job, s->shape) &&
              sched_shape_fits_ever(s->job, s->shape);
    if (s->asks) shape_claim(n, g, s->thing, s->job, s->shape, true, knot_ask);
}

/* The group that the task is to run in, if that is not placed yet; slot 0: there is none. */
static mob_ref_t group_missing(node_t *n, const sched_job_t *job, uint32_t shape) {
    const sched_where_t *where =
        job != NULL && sched_shape_valid(job, shape) ? sched_shape_where(job, shape) : NULL;
    const node_group_t *group =
        where != NULL && where->group != NULL ? sched_group_user(where->group) : NULL;
    return group != NULL && is_pending(n, group->id) ? group->id : (mob_ref_t){0};
}

/* Notes its arguments that are not there; how many. */
static uint32_t needs_note(node_t *n, node_tangle_t *g, const wire_record_t *copy,
                           const wire_body_t *body, const sched_job_t *job) {
    uint32_t missing = 0, strand = (uint32_t)g->strands.count;
    for (uint32_t i = 0; i < copy->num_deps; i++) {
        mob_ref_t ref = body->deps[i];
        if (is_pending(n, ref) && vec_push(&g->needs, ((node_thread_t){ref, strand}))) missing++;
    }
    bool calls = copy->kind == MOB_ACTOR_CALL && is_pending(n, copy->actor);
    if (calls && vec_push(&g->needs, ((node_thread_t){copy->actor, strand}))) missing++;
    mob_ref_t group =
        copy->kind != MOB_ACTOR_CALL ? group_missing(n, job, copy->shape) : (mob_ref_t){0};
    if (group.slot != 0 && vec_push(&g->needs, ((node_thread_t){group, strand}))) missing++;
    return missing;
}

/* Whose shapes the record names: its book's, or its owner's. */
static const sched_job_t *job_of(node_t *n, uint32_t index) {
    uint32_t owner = n->grants.records.owner[index / WIRE_RECORD_BLOCK];
    const node_job_t *job = NULL;
    if (n->tasks[index] != NULL)
        job = n->tasks[index]->job;
    else if (owner < SHM_MAX_CLIENTS && n->clients[owner] != NULL)
        job = n->clients[owner]->job;
    return job != NULL ? job->sched : NULL;
}

/* A visit makes the results of the task that its peer has sent. In loopback that is of this node;
 * between two nodes such a wait goes on, as far as one of them can tell. */
static void visit_producers(node_t *n, node_tangle_t *g, uint32_t index) {
    const node_visit_t *v = n->tasks[index] != NULL ? n->tasks[index]->visit : NULL;
    const node_task_t *t = v != NULL ? node_forward_find(v->peer, v->run) : NULL;
    for (uint32_t i = 0; t != NULL && i < t->num_returns; i++)
        (void)vec_push(&g->producers, ((node_thread_t){t->refs[i], (uint32_t)g->strands.count}));
}

static void record_read(node_t *n, node_tangle_t *g, uint32_t index) {
    wire_record_t copy;
    wire_body_t body;
    uint64_t word = atomic_load_explicit(&n->records[index].word, memory_order_acquire);
    unsigned state = wire_word_state(word);
    if (state != WIRE_READY_STATE && state != WIRE_TAKEN) return;
    if (state == WIRE_TAKEN && node_peer_is(n->clients[wire_word_worker(word)])) return;
    memcpy(&copy, &n->records[index], sizeof copy);
    if (!body_find(n, index, &copy, &body)) return;
    node_strand_t s = {.record = index,
                       .shape = copy.shape,
                       .job = job_of(n, index),
                       .generation = wire_word_generation(word),
                       .worker = state == WIRE_TAKEN ? wire_word_worker(word) : 0,
                       .kind = copy.kind,
                       .wait = -1,
                       .actor = copy.kind == MOB_ACTOR_CALL ? actor_of(n, copy.actor) : NULL};
    if (s.worker != 0) s.wait = wait_find(g, s.worker, index, s.generation);
    size_t producers = g->producers.count, needs = g->needs.count;
    for (uint32_t i = 0; i < copy.num_returns; i++)
        (void)vec_push(&g->producers,
                       ((node_thread_t){body.returns[i], (uint32_t)g->strands.count}));
    visit_producers(n, g, index);
    mob_ref_t tail = copy.flags & WIRE_FLOWS && copy.num_returns == 2
                         ? node_flow_tail(n, body.returns[1])
                         : (mob_ref_t){0};
    if (tail.slot != 0)
        (void)vec_push(&g->producers, ((node_thread_t){tail, (uint32_t)g->strands.count}));
    uint32_t missing = s.worker == 0 ? needs_note(n, g, &copy, &body, s.job) : 0;
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&n->records[index].word, memory_order_relaxed) != word ||
        !vec_reserve(&g->strands, 1)) {
        g->producers.count = producers;
        g->needs.count = needs;
        return;
    }
    s.thing = knot_thing_add(g->knot, needed_by(g, &s, missing));
    if (s.worker != 0)
        run_claims(n, g, &s);
    else
        ready_claims(n, g, &s);
    g->strands.items[g->strands.count++] = s;
}

/* Groups that wait for their bundles. Those that never fit go on: the driver was told of them. */
static void groups_read(node_t *n, node_tangle_t *g) {
    for (size_t i = 0; i < n->groups.items.count; i++) {
        const node_group_t *group = n->groups.items.items[i];
        if (!group->request.queued || !vec_reserve(&g->strands, 1)) continue;
        node_strand_t s = {.shape = sched_group_shape(group->sched),
                           .job = group->request.job,
                           .thing = knot_thing_add(g->knot, 0),
                           .wait = -1,
                           .kind = MOB_GROUP,
                           .asks = true,
                           .group = group};
        shape_claim(n, g, s.thing, s.job, s.shape, true, knot_ask);
        if (vec_push(&g->producers, ((node_thread_t){group->id, (uint32_t)g->strands.count})))
            g->strands.items[g->strands.count++] = s;
    }
}

/* ---- what needs what ---- */

static void need_add(node_tangle_t *g, const node_strand_t *s, mob_ref_t ref) {
    const node_strand_t *producer = node_tangle_producer(g, ref);
    knot_need(g->knot, s->thing, producer != NULL ? producer->thing : g->world);
}

static void wait_needs(node_t *n, node_tangle_t *g, const node_strand_t *s) {
    const shm_wait_t *w = &g->waits.items[s->wait].wait;
    for (uint32_t i = 0; i < w->listed; i++) {
        mob_ref_t ref = {.slot = w->slots[i], .generation = w->generations[i]};
        if (is_pending(n, ref))
            need_add(g, s, ref);
        else
            knot_need(g->knot, s->thing, g->world); /* it is there by now */
    }
    /* Of many that it gets, it waits for those that are not listed too. But of many it may want
     * any. */
    bool any = w->needed < w->count;
    for (uint32_t i = 0; any && w->listed < w->count && i < w->needed; i++)
        knot_need(g->knot, s->thing, g->world);
}

/* An actor gives its resources back when all of its runs have gone on. */
static void actor_holds(node_t *n, node_tangle_t *g) {
    uint32_t runs[SHM_MAX_CLIENTS] = {0}, things[SHM_MAX_CLIENTS] = {0}; /* 0: the world's */
    for (size_t k = 0; k < g->strands.count; k++) runs[g->strands.items[k].worker]++;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || w->actor == NULL || !is_wait_of(g, waits_from(g, i), i)) continue;
        things[i] = knot_thing_add(g->knot, runs[i]);
        lease_hold(n, g, things[i], &w->lease);
    }
    for (size_t k = 0; k < g->strands.count; k++) {
        const node_strand_t *s = &g->strands.items[k];
        if (s->worker != 0 && things[s->worker] != 0)
            knot_need(g->knot, things[s->worker], s->thing);
    }
}

bool node_tangle_take(node_t *n, node_tangle_t *g) {
    *g = (node_tangle_t){0};
    waits_read(n, g);
    if (g->waits.count == 0 || (g->knot = knot_new()) == NULL) return false;
    n->deadlock.looks++;
    resources_add(n, g);
    g->world = knot_thing_add(g->knot, 0);
    uint32_t end =
        n->grants.records.granted < MOST_RECORDS ? n->grants.records.granted : MOST_RECORDS;
    for (uint32_t r = 0; r < end && g->strands.count < MOST_STRANDS; r++) record_read(n, g, r);
    groups_read(n, g);
    if (g->producers.count > 1)
        qsort(g->producers.items, g->producers.count, sizeof *g->producers.items, thread_compare);
    for (size_t i = 0; i < g->needs.count; i++)
        need_add(g, &g->strands.items[g->needs.items[i].strand], g->needs.items[i].ref);
    for (size_t i = 0; i < g->strands.count; i++)
        if (g->strands.items[i].wait >= 0) wait_needs(n, g, &g->strands.items[i]);
    actor_holds(n, g);
    (void)knot_tie(g->knot);
    return true;
}
