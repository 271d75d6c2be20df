/* A node of the scenario `actor`: the room, carried by a host, and what a daemon would do for it:
 * processes that take their time, arguments that come late, runs that last. */
#include "sim/actor_model.h"

#include "actor/script.h"

#include <stdlib.h>
#include <string.h>

static uint64_t between(const node_t *node, uint64_t least, uint64_t most) {
    return world_between(node->model->world, least, most);
}

static bool chance(const node_t *node, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(node->model->world), part, whole);
}

static void later(node_t *node, uint64_t delay, world_fn fn, void *context, uint64_t argument) {
    machine_later(host_machine(node->host), delay, 0, fn, context, argument);
}

/* ---- messages and the control state ---- */

static void node_send(void *context, uint64_t to, const void *head, size_t head_size,
                      const void *body, size_t body_size, bool is_answer) {
    node_t *node = context;
    uint8_t *bytes = world_alloc(node->model->world, head_size + body_size);
    memcpy(bytes, head, head_size);
    if (body_size > 0) memcpy(bytes + head_size, body, body_size);
    host_send(node->host, HOST_ACTOR, to, bytes, head_size + body_size, is_answer);
    bool is_creation = bytes[0] == 1 && to != host_incarnation(node->host);
    host_t *peer = cluster_find(node->model->cluster, to);
    if (is_creation && node->model->is_late && !node->model->is_calm && chance(node, 1, 6))
        host_cut(node->host, peer); /* behind it */
    world_release(node->model->world, bytes);
}

typedef struct {
    node_t *node;
    uint64_t question;
} question_t;

static void node_replied(void *context, uint64_t master, const void *answer, size_t size) {
    question_t *q = context;
    actor_answered(q->node->room, q->question, master, answer, size);
    world_release(q->node->model->world, q);
}

static void fail_over(void *context, uint64_t argument) {
    (void)argument;
    node_t *node = context;
    if (!node->model->is_calm) model_fail_over(node->model, node);
}

static void deafen(void *context, uint64_t argument) {
    (void)argument;
    node_t *node = context;
    if (!node->model->is_calm) model_deafen(node);
}

/* What is bad just now: a fail-over; or that a home does not hear that it has a name. */
static void trouble(node_t *node, script_fn script) {
    world_t *world = node->model->world;
    if (node->model->is_rough && chance(node, 1, 100))
        world_later(world, between(node, 0, 20 * WORLD_MS), 0, fail_over, node, 0);
    if (node->model->is_late && script == actor_script_take && chance(node, 1, 6))
        world_later(world, between(node, 0, 2 * WORLD_MS), 0, deafen, node, 0);
}

static void node_ask(void *context, script_fn script, const void *arguments, size_t size,
                     uint64_t question) {
    node_t *node = context;
    question_t *q = world_alloc(node->model->world, sizeof *q);
    *q = (question_t){node, question};
    trouble(node, script);
    host_ask(node->host, script, arguments, size, node_replied, q);
}

static void node_said(void *context, uint64_t master) {
    host_said(((node_t *)context)->host, HOST_ACTOR, master);
}

static bool node_is_dead(void *context, uint64_t peer) {
    return host_knows_dead(((node_t *)context)->host, peer);
}

/* ---- the authority's ---- */

/* Somewhere that the asker does not know to be dead; it may be. */
static void place_now(void *context, uint64_t actor) {
    node_t *node = context;
    model_t *m = node->model;
    uint64_t at = 0;
    for (int i = 0; i < 8 && at == 0; i++) {
        node_t *other = m->nodes.items[between(node, 0, m->nodes.count - 1)];
        uint64_t incarnation = host_incarnation(other->host);
        if (host_knows_dead(node->host, incarnation)) continue;
        at = incarnation;
        m->actors.items[actor]->placed = other;
        if (other->is_at_risk) m->actors.items[actor]->is_doomed = true;
    }
    actor_placed(node->room, m->actors.items[actor]->id, at);
}

static void node_place(void *context, frame_id_t id) {
    node_t *node = context;
    later(node, between(node, WORLD_US, 3 * WORLD_MS), place_now, node,
          model_actor_of(node->model, id));
}

/* It wants an actor of this name, as get_if_exists does. */
static void name_again(void *context, uint64_t name) {
    node_t *node = context;
    if (!node->model->is_calm) model_create(node, (int)name);
}

/* Some node makes the next actor of a name as soon as it is free. */
static void name_next(node_t *node, int name) {
    model_t *m = node->model;
    node_t *next = m->nodes.items[between(node, 0, m->nodes.count - 1)];
    later(next, between(node, 0, 5 * WORLD_MS), name_again, next, (uint64_t)name);
}

static void node_created(void *context, frame_id_t id, mob_status_t status) {
    node_t *node = context;
    size_t actor = model_actor_of(node->model, id);
    model_actor_t *a = node->model->actors.items[actor];
    world_tell(node->model->world, "actor %zu is created: %s", actor, mob_status_name(status));
    model_check_created(node, actor, status);
    if (status == MOB_OK && !host_is_buried(node->host))
        a->taken_ns = world_now_ns(node->model->world);
    else if (status != MOB_OK)
        a->ended_ns = world_now_ns(node->model->world);
    if (status == MOB_OK && node->model->is_rough && chance(node, 1, 8)) /* and the end before */
        world_later(node->model->world, between(node, 0, 5 * WORLD_MS), 0, fail_over, node, 0);
    if (status != MOB_OK && chance(node, 2, 3))
        later(node, between(node, 0, 300 * WORLD_MS), name_again, node, (uint64_t)a->name);
}

static void node_ended(void *context, frame_id_t id) {
    node_t *node = context;
    size_t actor = model_actor_of(node->model, id);
    model_actor_t *a = node->model->actors.items[actor];
    world_tell(node->model->world, "actor %zu is dead, says node %zu", actor, node->index);
    model_check_ended(node, actor);
    if (a->ended_ns == 0) a->ended_ns = world_now_ns(node->model->world);
    if (a->name >= 0 && node->model->is_rough) name_next(node, a->name);
}

/* ---- the seat's ---- */

static void process_end(process_t *p, actor_end_t end) {
    if (p->state == PROCESS_GONE) return;
    model_actor_t *a = p->node->model->actors.items[p->actor];
    world_tell(p->node->model->world, "epoch %llu of actor %zu ends at node %zu (%d)",
               (unsigned long long)p->epoch, p->actor, p->node->index, end);
    p->state = PROCESS_GONE;
    if (a->max_restarts >= 0 || end == ACTOR_LEFT || end == ACTOR_REFUSED) a->is_doomed = true;
    actor_process_ended(p->node->room, a->id, p->epoch, end);
}

static void process_ends(void *context, uint64_t end) { process_end(context, (actor_end_t)end); }

static void process_goes_on(void *context, uint64_t argument) {
    (void)argument;
    process_t *p = context;
    model_actor_t *a = p->node->model->actors.items[p->actor];
    if (p->state != PROCESS_MAKES) return;
    bool is_calm = p->node->model->is_calm;
    if (!is_calm && chance(p->node, 1, 10)) {
        p->state = PROCESS_GONE;
        actor_process_refused(p->node->room, a->id, p->epoch);
    } else if (!is_calm && chance(p->node, 1, 20)) {
        process_end(p, chance(p->node, 1, 3)
                           ? ACTOR_REFUSED
                           : (chance(p->node, 1, 2) ? ACTOR_UNBEGUN : ACTOR_CRASHED));
    } else {
        p->state = PROCESS_ALIVE;
        p->made_ns = world_now_ns(p->node->model->world);
        actor_process_made(p->node->room, a->id, p->epoch);
    }
}

static void node_make(void *context, frame_id_t id, uint64_t epoch, const void *spec, size_t size) {
    node_t *node = context;
    model_t *m = node->model;
    size_t actor = model_actor_of(m, id);
    uint32_t said = 0;
    if (size == sizeof said) memcpy(&said, spec, size);
    if (said != actor) world_fail(m->world, "actor %zu is made as actor %u", actor, said);
    world_tell(m->world, "epoch %llu of actor %zu is made at node %zu", (unsigned long long)epoch,
               actor, node->index);
    model_check_make(node, actor, epoch);
    process_t *p = world_alloc(m->world, sizeof *p);
    *p = (process_t){.actor = actor, .epoch = epoch, .node = node, .state = PROCESS_MAKES};
    if (!vec_push(&m->processes, p)) abort();
    bool is_slow = chance(node, 1, 10);
    later(node, between(node, 0, is_slow ? 2 * WORLD_S : 20 * WORLD_MS), process_goes_on, p, 0);
}

static void node_stop(void *context, frame_id_t id, uint64_t epoch) {
    node_t *node = context;
    process_t *p = model_process(node->model, model_actor_of(node->model, id), epoch, node);
    if (p != NULL) later(node, between(node, 0, 20 * WORLD_MS), process_ends, p, ACTOR_CRASHED);
}

typedef struct {
    node_t *node;
    uint64_t number; /* the room's */
    size_t call;
    process_t *process;
    bool is_done;
} run_t;

static void run_look(void *context, uint64_t argument) {
    (void)argument;
    run_t *run = context;
    model_t *m = run->node->model;
    int64_t needs = m->calls.items[run->call].needs;
    if (needs >= 0 && !m->calls.items[needs].is_answered)
        later(run->node, 20 * WORLD_MS, run_look, run, 0);
    else
        actor_call_ready(run->node->room, run->number);
}

static void node_fetch(void *context, uint64_t number, frame_id_t id, uint64_t epoch,
                       const void *bytes, size_t size) {
    node_t *node = context;
    model_t *m = node->model;
    uint32_t call = 0;
    if (size != sizeof call) {
        world_fail(m->world, "a call of %zu bytes", size);
        return;
    }
    memcpy(&call, bytes, size);
    run_t *run = world_alloc(m->world, sizeof *run);
    *run = (run_t){.node = node,
                   .number = number,
                   .call = call,
                   .process = model_process(m, model_actor_of(m, id), epoch, node)};
    uint64_t key[2] = {node->index, number};
    if (!base_map_put(&m->running, key, run)) abort();
    bool is_slow = chance(node, 1, 10);
    later(node, between(node, 0, is_slow ? 200 * WORLD_MS : WORLD_MS), run_look, run, 0);
}

static void run_done(void *context, uint64_t argument) {
    (void)argument;
    run_t *run = context;
    if (run->process->state != PROCESS_ALIVE || run->is_done) return;
    run->is_done = true;
    actor_call_done(run->node->room, run->number, MOB_OK, NULL, 0);
}

static void node_run(void *context, uint64_t number, bool begins) {
    node_t *node = context;
    uint64_t key[2] = {node->index, number};
    run_t *run = base_map_get(&node->model->running, key);
    if (run == NULL) {
        world_fail(node->model->world, "a call is begun that never came");
        return;
    }
    if (!begins) return;
    world_tell(node->model->world, "call %zu is begun at node %zu", run->call, node->index);
    model_check_run(node, run->call, run->process);
    if (run->process == NULL) return;
    bool is_long = chance(node, 1, 8) && !node->model->is_calm;
    later(node, between(node, 0, is_long ? 3 * WORLD_S : 30 * WORLD_MS), run_done, run, 0);
}

/* It is broken off, or ends as it would. */
static void node_cancel(void *context, uint64_t number, bool recursive) {
    node_t *node = context;
    uint64_t key[2] = {node->index, number};
    run_t *run = base_map_get(&node->model->running, key);
    (void)recursive;
    if (run == NULL || node->model->calls.items[run->call].cancelled_ns == 0)
        world_fail(node->model->world, "a call is broken off that was not cancelled");
    else if (chance(node, 1, 2))
        later(node, between(node, 0, WORLD_MS), run_done, run, 0);
}

/* ---- the stub's ---- */

static void node_answer(void *context, uint64_t token, mob_status_t status, const void *bytes,
                        size_t size) {
    (void)bytes, (void)size;
    node_t *node = context;
    world_tell(node->model->world, "call %llu is answered: %s", (unsigned long long)token,
               mob_status_name(status));
    model_check_answer(node, token, status);
}

static void node_released(void *context, frame_id_t id) {
    node_t *node = context;
    size_t actor = model_actor_of(node->model, id);
    node->model->actors.items[actor]->handles.items[node->index] = HANDLE_NONE;
    model_handles_look(node->model, actor);
}

typedef struct {
    int name;
    uint64_t asked_ns;
} find_t;

static void node_found(void *context, uint64_t token, mob_status_t status, frame_id_t id,
                       uint8_t flags) {
    (void)flags;
    node_t *node = context;
    find_t *find = base_map_remove(&node->model->finds, &token);
    if (status != MOB_ECLOSED) model_check_found(node, find->name, find->asked_ns, status, id);
}

const actor_ops_t node_ops = {
    .send = node_send,
    .ask = node_ask,
    .said = node_said,
    .is_dead = node_is_dead,
    .place = node_place,
    .created = node_created,
    .ended = node_ended,
    .make = node_make,
    .stop = node_stop,
    .fetch = node_fetch,
    .run = node_run,
    .cancel = node_cancel,
    .answer = node_answer,
    .released = node_released,
    .found = node_found,
};

void model_find(node_t *node) {
    model_t *m = node->model;
    find_t *find = world_alloc(m->world, sizeof *find);
    *find = (find_t){(int)between(node, 0, MODEL_NAMES - 1), world_now_ns(m->world)};
    uint64_t token = ++m->numbers;
    if (!base_map_put(&m->finds, &token, find)) abort();
    uint8_t name[ACTOR_NAME_SIZE];
    model_name(find->name, name);
    if (actor_name_find(node->room, name, token) != MOB_OK) abort();
}

/* ---- what the host says ---- */

static void on_receive(void *room, uint64_t from, uint64_t sequence, const void *bytes,
                       size_t size) {
    (void)sequence;
    node_t *node = room;
    if (actor_receive(node->room, from, bytes, size) != MOB_OK)
        world_fail(node->model->world, "node %zu does not understand a message", node->index);
}

static void on_died(void *room, uint64_t peer, uint64_t number) {
    node_t *node = room;
    (void)number;
    base_map_remove(&node->silent, &peer);
    actor_peer_died(node->room, peer);
}

static void on_paused(void *room, bool paused) { actor_pause(((node_t *)room)->room, paused); }

static void on_leads(void *room, uint64_t leader, uint64_t fence) {
    (void)fence;
    actor_leader(((node_t *)room)->room, leader);
}

static void on_silent(void *room, uint64_t peer, bool silent) {
    node_t *node = room;
    if (!silent)
        base_map_remove(&node->silent, &peer);
    else if (!base_map_put(&node->silent, &peer,
                           (void *)(uintptr_t)world_now_ns(node->model->world)))
        abort();
    actor_peer_silent(node->room, peer, silent);
}

static void on_master(void *room, uint64_t master) { actor_master(((node_t *)room)->room, master); }

static void on_settled(void *room, uint64_t master) {
    actor_settled(((node_t *)room)->room, master);
}

const host_room_ops_t node_room_ops = {
    .receive = on_receive,
    .died = on_died,
    .paused = on_paused,
    .leads = on_leads,
    .silent = on_silent,
    .master = on_master,
    .settled = on_settled,
};
