/*
 * The checks of the scenario `actor`. Each is made where the event happens, with all nodes in view:
 * an epoch is made once, and none after a newer one; a call is run as often as its retries allow;
 * one caller's calls are in order within an epoch; none is begun after a newer epoch has begun one,
 * or, if it was cancelled, in an epoch that was made since;
 * a name has one owner, as every asker sees it.
 *
 * An owner counts as certain from the answer to its creation until something happens that may have
 * ended it: a kill, a process's end, the death of a node that it needs.
 */
#include "sim/actor_model.h"

#include "actor/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ULL(number) ((unsigned long long)(number))

bool node_is_up(const node_t *node) { return machine_is_up(host_machine(node->host)); }

size_t model_actor_of(model_t *m, frame_id_t id) {
    for (size_t i = 0; i < m->actors.count; i++)
        if (actor_id_equal(m->actors.items[i]->id, id)) return i;
    return SIZE_MAX;
}

void model_name(int name, uint8_t ret_name[ACTOR_NAME_SIZE]) {
    memset(ret_name, 0, ACTOR_NAME_SIZE);
    ret_name[0] = (uint8_t)(name + 1);
}

process_t *model_process(model_t *m, size_t actor, uint64_t epoch, const node_t *node) {
    for (size_t i = m->processes.count; i-- > 0;) {
        process_t *p = m->processes.items[i];
        if (p->actor == actor && p->epoch == epoch && p->node == node && p->state != PROCESS_GONE)
            return p;
    }
    return NULL;
}

/* ---- processes and calls ---- */

void model_check_make(node_t *node, size_t actor, uint64_t epoch) {
    model_t *m = node->model;
    model_actor_t *a = m->actors.items[actor];
    uint64_t key[2] = {actor, epoch};
    if (base_map_get(&m->made, key) != NULL)
        world_fail(m->world, "epoch %llu of actor %zu is made twice", ULL(epoch), actor);
    if (!base_map_put(&m->made, key, m)) abort();
    if (epoch < a->newest_made)
        world_fail(m->world, "epoch %llu of actor %zu is made after %llu", ULL(epoch), actor,
                   ULL(a->newest_made));
    a->newest_made = epoch;
    for (size_t i = 0; i < m->processes.count; i++) {
        const process_t *p = m->processes.items[i];
        if (p->actor == actor && p->state != PROCESS_GONE && !host_is_buried(p->node->host) &&
            !machine_is_dead(host_machine(p->node->host)))
            world_fail(m->world, "epoch %llu of actor %zu is made while %llu is there", ULL(epoch),
                       actor, ULL(p->epoch));
    }
}

static void check_order(node_t *node, const model_call_t *c, uint64_t epoch) {
    model_t *m = node->model;
    uint64_t key[4] = {c->actor, epoch, c->node, c->caller};
    uint64_t last = (uint64_t)(uintptr_t)base_map_get(&m->order, key);
    if (last > c->sequence)
        world_fail(m->world, "call %llu of caller %llu of node %zu is begun after %llu",
                   ULL(c->sequence), ULL(c->caller), c->node, ULL(last - 1));
    if (!base_map_put(&m->order, key, (void *)(uintptr_t)(c->sequence + 1))) abort();
}

void model_check_run(node_t *node, size_t call, const process_t *p) {
    model_t *m = node->model;
    model_call_t *c = &m->calls.items[call];
    if (p == NULL || p->state != PROCESS_ALIVE) {
        world_fail(m->world, "call %zu is begun without a process", call);
        return;
    }
    model_actor_t *a = m->actors.items[c->actor];
    if (p->epoch < a->newest_called)
        world_fail(m->world, "epoch %llu of actor %zu begins a call after %llu has", ULL(p->epoch),
                   c->actor, ULL(a->newest_called));
    a->newest_called = p->epoch;
    c->runs++;
    if (c->retries >= 0 && c->runs > (uint32_t)c->retries + 1)
        world_fail(m->world, "call %zu is run %u times with %d retries", call, c->runs, c->retries);
    if (c->is_answered && c->status != MOB_EUNAVAILABLE)
        world_fail(m->world, "call %zu is begun after it was answered", call);
    if (c->cancelled_ns != 0 && p->made_ns > c->cancelled_ns)
        world_fail(m->world, "call %zu was cancelled, and is sent again", call);
    check_order(node, c, p->epoch);
}

void model_check_answer(node_t *node, size_t call, mob_status_t status) {
    model_call_t *c = &node->model->calls.items[call];
    if (c->is_answered) world_fail(node->model->world, "call %zu is answered twice", call);
    if (status == MOB_OK && c->runs == 0)
        world_fail(node->model->world, "call %zu has a result and never ran", call);
    if (status == MOB_ECANCELLED && c->cancelled_ns == 0)
        world_fail(node->model->world, "call %zu was not cancelled, and is answered so", call);
    c->is_answered = true;
    c->status = status;
}

/* ---- names ---- */

void model_doom(model_t *m, node_t *node) {
    node->is_at_risk = true;
    for (size_t i = 0; i < m->actors.count; i++)
        if (m->actors.items[i]->home == node || m->actors.items[i]->placed == node)
            m->actors.items[i]->is_doomed = true;
}

static bool has_process(const model_t *m, size_t actor) {
    for (size_t i = 0; i < m->processes.count; i++) {
        const process_t *p = m->processes.items[i];
        if (p->actor == actor && p->state != PROCESS_GONE && !host_is_buried(p->node->host) &&
            !machine_is_dead(host_machine(p->node->host)))
            return true;
    }
    return false;
}

static bool is_certain(const model_actor_t *a) {
    return a->taken_ns != 0 && a->ended_ns == 0 && !a->is_doomed && !a->home->is_at_risk;
}

/* Its end was decided before that. A fail-over may take it back, and if its home dies before it has
 * said so again, only the leader's sweep ends it. */
static bool is_certainly_over(const model_actor_t *a, uint64_t before_ns) {
    return a->ended_ns != 0 && a->ended_ns < before_ns && !a->home->is_at_risk;
}

void model_check_created(node_t *node, size_t actor, mob_status_t status) {
    model_t *m = node->model;
    model_actor_t *a = m->actors.items[actor];
    bool has_owner = false;
    if (host_is_buried(node->host)) return; /* it was asleep; nobody hears its word */
    for (size_t i = 0; i < m->actors.count; i++) {
        const model_actor_t *other = m->actors.items[i];
        if (i == actor || other->name != a->name) continue;
        bool is_home_there = (other->flags & ACTOR_DETACHED) != 0 ||
                             (!host_is_buried(other->home->host) &&
                              !machine_is_dead(host_machine(other->home->host)));
        if (status == MOB_OK && is_certain(other))
            world_fail(m->world, "actors %zu and %zu both have name %d", i, actor, a->name);
        if (status == MOB_OK && is_home_there && has_process(m, i))
            world_fail(m->world, "actor %zu lost name %d while it runs", i, a->name);
        has_owner |= !is_certainly_over(other, a->asked_ns);
    }
    if (status == MOB_EEXISTS && !has_owner)
        world_fail(m->world, "name %d was refused and nobody had it", a->name);
}

void model_check_ended(node_t *node, size_t actor) {
    const model_actor_t *a = node->model->actors.items[actor];
    if (!host_is_buried(node->host) && is_certain(a))
        world_fail(node->model->world, "actor %zu has ended, and nothing happened to it", actor);
}

void model_check_found(node_t *node, int name, uint64_t asked_ns, mob_status_t status,
                       frame_id_t id) {
    model_t *m = node->model;
    if (host_is_buried(node->host)) return;
    if (status == MOB_OK) {
        size_t actor = model_actor_of(m, id);
        const model_actor_t *a = actor != SIZE_MAX ? m->actors.items[actor] : NULL;
        if (a == NULL || a->name != name || is_certainly_over(a, asked_ns))
            world_fail(m->world, "name %d was found for actor %zd, which is dead", name, actor);
    }
    for (size_t i = 0; i < m->actors.count; i++) {
        const model_actor_t *a = m->actors.items[i];
        if (a->name != name || !is_certain(a) || a->taken_ns > asked_ns) continue;
        if (status == MOB_ENONAME || (status == MOB_OK && !actor_id_equal(id, a->id)))
            world_fail(m->world, "name %d of actor %zu was not found", name, i);
    }
}

/* ---- waits ---- */

/* The node's patience, its tick, and a stop's rest. */
#define BOUND_NS (ACTOR_PATIENCE_MS * WORLD_MS + ACTOR_TICK_MS * WORLD_MS * 2)

void model_check_bounds(model_t *m) {
    uint64_t now = world_now_ns(m->world);
    for (size_t i = 0; i < m->calls.count; i++) {
        model_call_t *c = &m->calls.items[i];
        const node_t *node = m->nodes.items[c->node];
        if (c->is_answered || !node_is_up(node) || now < node->woken_ns + BOUND_NS) continue;
        if (c->retries != 0) continue; /* it may wait for the tombstone */
        uint64_t peer = actor_stub_node(node->room, m->actors.items[c->actor]->id);
        if (c->target != peer) c->target_ns = now;
        c->target = peer;
        uint64_t since = (uint64_t)(uintptr_t)base_map_get(&node->silent, &peer);
        if (since != 0 && since + BOUND_NS < now && c->target_ns + BOUND_NS < now)
            world_fail(m->world, "call %zu waits for a node that is silent for %llu ms", i,
                       ULL((now - since) / WORLD_MS));
    }
}

void model_check_answered(model_t *m) {
    for (size_t i = 0; i < m->calls.count; i++) {
        const model_call_t *c = &m->calls.items[i];
        if (!c->is_answered && node_is_up(m->nodes.items[c->node]))
            world_fail(m->world, "call %zu to actor %zu is never answered", i, c->actor);
    }
    for (size_t i = 0; i < m->actors.count; i++)
        if (m->actors.items[i]->killer != NULL && node_is_up(m->actors.items[i]->killer) &&
            has_process(m, i))
            world_fail(m->world, "actor %zu was killed and lives on", i);
}

static const void *look(void *context, const char *key, size_t *ret_size) {
    return redis_look(context, key, ret_size);
}

/* As somebody who looks for it is told. */
static bool name_is_taken(model_t *m, int name) {
    redis_t *redis = cluster_redis(m->cluster);
    script_keys_t keys = {.context = redis, .master = redis_master(redis), .get = look};
    uint8_t arguments[8 + ACTOR_NAME_SIZE], answer[SCRIPT_ANSWER_MAX];
    base_writer_t w = {.bytes = arguments};
    base_put_number(&w, keys.master, 8);
    model_name(name, arguments + w.size);
    (void)actor_script_find(&keys, arguments, sizeof arguments, answer);
    return answer[0] != ACTOR_SAY_NONE;
}

void model_check_empty(model_t *m) {
    size_t up = 0;
    for (size_t i = 0; i < m->nodes.count; i++) {
        if (!node_is_up(m->nodes.items[i])) continue;
        up++;
        actor_counts_t n = actor_counts(m->nodes.items[i]->room);
        if (n.actors + n.seats + n.calls + n.stubs + n.errands > 0)
            world_fail(
                m->world,
                "node %zu still has %zu actors, %zu seats, %zu calls, %zu stubs, %zu errands", i,
                n.actors, n.seats, n.calls, n.stubs, n.errands);
    }
    if (up == 0) return; /* nobody is left to clear up */
    for (int name = 0; name < MODEL_NAMES; name++)
        if (name_is_taken(m, name)) world_fail(m->world, "name %d is still taken", name);
    for (size_t i = 0; i < m->actors.count; i++)
        if (has_process(m, i)) world_fail(m->world, "actor %zu still runs", i);
}
