/*
 * A turn of a node ends a moment after something was done, so that what is done meanwhile goes into
 * the same messages. Frames carry a pointer to what they say: the simulator's nodes share memory,
 * and only the room under test must not know.
 */
#include "sim/refs_node.h"

#include <stdlib.h>
#include <string.h>

bool refs_run_chance(refs_run_t *run, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(run->world), part, whole);
}

bool refs_node_is_live(const refs_node_t *node) {
    return !machine_is_dead(host_machine(node->host)) && !host_is_buried(node->host);
}

refs_node_t *refs_run_node_any(refs_run_t *run) {
    return run->nodes.items[world_between(run->world, 0, run->nodes.count - 1)];
}

static bool is_home_live(const refs_run_t *run, uint32_t object) {
    return refs_node_is_live(run->nodes.items[run->objects.items[object].home]);
}

/* ---- turns ---- */

static void flush_now(void *context, uint64_t argument) {
    (void)argument;
    refs_node_t *node = context;
    node->is_flushing = false;
    if (refs_flush(node->refs) != MOB_OK) refs_node_turn(node);
}

void refs_node_turn(refs_node_t *node) {
    if (node->is_flushing) return;
    node->is_flushing = true;
    uint64_t delay =
        refs_run_chance(node->run, 1, 2) ? 0 : world_between(node->run->world, 0, WORLD_MS);
    machine_later(host_machine(node->host), delay, 0, flush_now, node, 0);
}

/* ---- what a node counts ---- */

static void object_free(refs_node_t *node, uint32_t object);

void refs_node_hold(refs_node_t *node, uint32_t object) {
    node->is_cached[object] = false;
    if (node->holds[object]++ > 0) return;
    refs_held(node->refs, node->run->objects.items[object].id);
}

static void unhold(refs_node_t *node, uint32_t object);

static void contents_unhold(refs_node_t *node, uint32_t object) {
    for (size_t i = 0; i < node->run->objects.items[object].count; i++)
        unhold(node, node->run->objects.items[object].contents[i]);
}

static void let_go(refs_node_t *node, uint32_t object) {
    node->is_cached[object] = false;
    if (node->is_copied[object]) {
        node->is_copied[object] = false;
        contents_unhold(node, object);
    }
    if (refs_unheld(node->refs, node->run->objects.items[object].id)) object_free(node, object);
}

static void unhold(refs_node_t *node, uint32_t object) {
    const refs_object_t *o = &node->run->objects.items[object];
    if (--node->holds[object] > 0) return;
    bool is_kept = o->is_function && o->home != node->index &&
                   !host_knows_dead(node->host, o->id.home) && refs_run_chance(node->run, 2, 3);
    if (is_kept) {
        node->is_cached[object] = true;
        refs_cached(node->refs, o->id);
    } else {
        let_go(node, object);
    }
}

void refs_node_take(refs_node_t *node, uint32_t object) {
    refs_node_hold(node, object);
    if (!vec_push(&node->hands, object)) abort();
}

void refs_node_drop(refs_node_t *node, size_t hand) {
    uint32_t object = node->hands.items[hand];
    (void)vec_swap_remove(&node->hands, hand);
    unhold(node, object);
}

/* ---- checks ---- */

/* It may yet be received by a live node. */
static bool is_coming(const refs_run_t *run, const refs_flight_t *flight) {
    const refs_node_t *from = run->nodes.items[flight->from], *to = run->nodes.items[flight->to];
    return refs_node_is_live(to) && !host_knows_dead(to->host, host_incarnation(from->host));
}

static bool flight_names(const refs_flight_t *flight, uint32_t object) {
    if (flight->kind == REFS_LIST && flight->container == object) return true;
    for (size_t i = 0; i < flight->count; i++)
        if (flight->objects[i] == object) return true;
    return false;
}

static void free_check(refs_run_t *run, uint32_t object) {
    for (size_t i = 0; i < run->nodes.count; i++) {
        refs_node_t *node = run->nodes.items[i];
        if (refs_node_is_live(node) && (node->holds[object] > 0 || node->is_cached[object]))
            world_fail(run->world, "object %u of node %zu was freed while node %zu %s it", object,
                       run->objects.items[object].home, i,
                       node->holds[object] > 0 ? "held" : "had loaded");
    }
    for (refs_link_t *link = run->flights.next; link != &run->flights; link = link->next) {
        const refs_flight_t *flight = REFS_OF(link, const refs_flight_t, all);
        if (is_coming(run, flight) && flight_names(flight, object))
            world_fail(run->world, "object %u was freed on its way from node %zu to node %zu",
                       object, flight->from, flight->to);
    }
}

static void object_free(refs_node_t *node, uint32_t object) {
    refs_run_t *run = node->run;
    world_tell(run->world, "node %zu frees %u", node->index, object);
    if (run->objects.items[object].is_freed)
        world_fail(run->world, "object %u was freed twice", object);
    if (run->objects.items[object].home != node->index)
        world_fail(run->world, "object %u was freed by another node", object);
    run->objects.items[object].is_freed = true;
    if (refs_node_is_live(node)) free_check(run, object);
    contents_unhold(node, object);
}

/* ---- what the room asks of its node ---- */

static mob_status_t ops_send(void *context, uint64_t peer, const void *bytes, size_t size) {
    refs_node_t *node = context;
    if (refs_run_chance(node->run, 1, 30)) return MOB_ENOMEM;
    return host_send(node->host, HOST_REFS, peer, bytes, size, true) != 0 ? MOB_OK : MOB_ECLOSED;
}

static bool ops_is_dead(void *context, uint64_t peer) {
    return host_knows_dead(((refs_node_t *)context)->host, peer);
}

static void ops_free(void *context, frame_id_t id) { object_free(context, id.number); }

static void ops_gone(void *context, frame_id_t id, refs_reason_t reason) {
    refs_node_t *node = context;
    world_tell(node->run->world, "node %zu: %u is gone", node->index, id.number);
    if (refs_node_is_live(node) && is_home_live(node->run, id.number))
        world_fail(node->run->world, "object %u was lost to node %zu (%s)", id.number, node->index,
                   reason == REFS_LOST ? "freed" : "its home is said to be dead");
    if (node->is_cached[id.number]) let_go(node, id.number); /* nobody will say FORGET */
}

static void unload(void *context, uint64_t object) {
    refs_node_t *node = context;
    if (!node->is_cached[object]) return;
    let_go(node, (uint32_t)object);
    refs_node_turn(node);
}

static void ops_forget(void *context, frame_id_t id) {
    refs_node_t *node = context;
    if (!node->is_cached[id.number])
        world_fail(node->run->world, "node %zu has not loaded %u", node->index, id.number);
    if (refs_run_chance(node->run, 1, 2))
        unload(node, id.number);
    else
        machine_later(host_machine(node->host), world_between(node->run->world, 0, 50 * WORLD_MS),
                      0, unload, node, id.number);
}

static void ops_kept(void *context, uint64_t peer, uint64_t sequence) {
    (void)peer, (void)sequence;
    ((refs_node_t *)context)->waits--;
}

static void ops_closed(void *context, uint64_t number) {
    refs_node_t *node = context;
    if (number <= node->closed || number > host_tombstones(node->host))
        world_fail(node->run->world, "node %zu closed %llu after %llu", node->index,
                   (unsigned long long)number, (unsigned long long)node->closed);
    node->closed = number;
    host_closed(node->host, HOST_REFS, number);
}

static const refs_ops_t refs_ops = {
    .send = ops_send,
    .is_dead = ops_is_dead,
    .free = ops_free,
    .gone = ops_gone,
    .forget = ops_forget,
    .kept = ops_kept,
    .closed = ops_closed,
};

/* ---- frames ---- */

static void flight_end(refs_run_t *run, refs_flight_t *flight) {
    refs_link_remove(&flight->all);
    world_release(run->world, flight);
}

/* Sends a copy of the flight; tells the room first. */
void refs_node_send(refs_node_t *node, const refs_flight_t *plan) {
    refs_run_t *run = node->run;
    uint64_t peer = host_incarnation(run->nodes.items[plan->to]->host);
    uint64_t sequence = host_next(node->host, peer);
    frame_id_t ids[REFS_GIVEN_MAX];
    for (size_t i = 0; i < plan->count; i++) ids[i] = run->objects.items[plan->objects[i]].id;
    if (sequence == 0 || plan->to == node->index) return;
    mob_status_t status = MOB_OK;
    if (plan->kind == REFS_LIST)
        status = refs_list_send(node->refs, peer, sequence, run->objects.items[plan->container].id,
                                ids, plan->count);
    else if (plan->kind == REFS_GIVE)
        status = refs_frame_send(node->refs, peer, sequence, ids, plan->count);
    if (status != MOB_OK) world_fail(run->world, "a frame was refused");
    refs_flight_t *flight = world_alloc(run->world, sizeof *flight);
    *flight = *plan;
    flight->from = node->index;
    refs_link_init(&flight->all);
    refs_link_move(&flight->all, &run->flights);
    world_tell(run->world, "node %zu to %zu, %s of %zu: %u", node->index, plan->to,
               plan->kind == REFS_GIVE   ? "frame"
               : plan->kind == REFS_PULL ? "pull"
                                         : "list",
               plan->count, plan->kind == REFS_GIVE ? plan->objects[0] : plan->container);
    if (host_send(node->host, HOST_PLACE, peer, &flight, sizeof flight, false) != sequence)
        world_fail(run->world, "a frame has another number");
    refs_node_turn(node);
}

void refs_node_pull(refs_node_t *node, uint32_t object) {
    const refs_object_t *o = &node->run->objects.items[object];
    if (o->count == 0 || o->home == node->index || node->is_copied[object]) return;
    refs_node_send(node, &(refs_flight_t){.kind = REFS_PULL, .to = o->home, .container = object});
}

/* A node looks up its own objects. They are there, unless others know that it is dead before it
 * does itself. */
static bool is_there(const refs_node_t *node, uint32_t object) {
    const refs_object_t *o = &node->run->objects.items[object];
    if (o->home != node->index || !o->is_freed) return true;
    if (refs_node_is_live(node))
        world_fail(node->run->world, "object %u came home after its end", object);
    return false;
}

/* The frame's references go to a process, or to nobody, and perhaps on to another node. */
static void give_came(refs_node_t *node, const refs_flight_t *flight) {
    refs_run_t *run = node->run;
    refs_flight_t on = *flight;
    on.to = refs_run_node_any(run)->index;
    on.hops = flight->hops > 0 ? flight->hops - 1 : 0;
    on.count = 0;
    for (size_t i = 0; i < flight->count; i++)
        if (is_there(node, flight->objects[i])) on.objects[on.count++] = flight->objects[i];
    for (size_t i = 0; i < on.count; i++) refs_node_hold(node, on.objects[i]);
    if (flight->hops > 0) refs_node_send(node, &on);
    for (size_t i = 0; i < on.count; i++) {
        if (!run->is_ending && refs_run_chance(run, 1, 2)) {
            refs_node_take(node, on.objects[i]);
            refs_node_pull(node, on.objects[i]);
        }
        unhold(node, on.objects[i]);
    }
}

static void pull_came(refs_node_t *node, const refs_flight_t *flight) {
    const refs_object_t *o = &node->run->objects.items[flight->container];
    if (o->is_freed) return; /* the other has dropped it since */
    refs_flight_t list = {.kind = REFS_LIST, .to = flight->from, .container = flight->container};
    list.count = o->count;
    memcpy(list.objects, o->contents, o->count * sizeof *o->contents);
    refs_node_send(node, &list);
}

/* A process unpacks the value, and may drop the container at once. */
static void unpack(refs_node_t *node, const refs_flight_t *flight) {
    for (size_t i = 0; i < flight->count; i++) refs_node_take(node, flight->objects[i]);
    for (size_t i = node->hands.count; i > 0; i--)
        if (node->hands.items[i - 1] == flight->container) refs_node_drop(node, i - 1);
}

static void list_came(refs_node_t *node, const refs_flight_t *flight) {
    if (node->holds[flight->container] == 0 || node->is_copied[flight->container]) return;
    for (size_t i = 0; i < flight->count; i++)
        if (!is_there(node, flight->objects[i])) return;
    node->is_copied[flight->container] = true;
    for (size_t i = 0; i < flight->count; i++) refs_node_hold(node, flight->objects[i]);
    if (!node->run->is_ending && refs_run_chance(node->run, 1, 2)) unpack(node, flight);
}

static mob_status_t refs_came(refs_node_t *node, const refs_flight_t *flight, uint64_t from,
                              uint64_t sequence, bool *ret_waits) {
    refs_run_t *run = node->run;
    frame_id_t ids[REFS_GIVEN_MAX];
    for (size_t i = 0; i < flight->count; i++) ids[i] = run->objects.items[flight->objects[i]].id;
    if (flight->kind == REFS_GIVE)
        return refs_frame_came(node->refs, from, sequence, ids, flight->count, ret_waits);
    return refs_list_came(node->refs, from, sequence, run->objects.items[flight->container].id, ids,
                          flight->count, ret_waits);
}

static void frame_receive(void *room, uint64_t from, uint64_t sequence, const void *bytes,
                          size_t size) {
    refs_node_t *node = room;
    refs_flight_t *flight;
    memcpy(&flight, bytes, size);
    bool waits = false;
    if (flight->kind != REFS_PULL && refs_came(node, flight, from, sequence, &waits) != MOB_OK)
        world_fail(node->run->world, "a frame was refused by its receiver");
    node->waits += waits;
    if (flight->kind == REFS_GIVE)
        give_came(node, flight);
    else if (flight->kind == REFS_PULL)
        pull_came(node, flight);
    else
        list_came(node, flight);
    flight_end(node->run, flight);
    refs_node_turn(node);
}

static void message_receive(void *room, uint64_t from, uint64_t sequence, const void *bytes,
                            size_t size) {
    (void)sequence;
    refs_node_t *node = room;
    mob_status_t status;
    do status = refs_message(node->refs, from, bytes, size);
    while (status == MOB_ENOMEM);
    if (status != MOB_OK) world_fail(node->run->world, "a message was refused");
    refs_node_turn(node);
}

static void died(void *room, uint64_t peer, uint64_t number) {
    refs_node_t *node = room;
    refs_died(node->refs, peer, number);
    refs_node_turn(node);
}

static void struck(void *room, uint64_t number) {
    refs_node_t *node = room;
    refs_struck(node->refs, number);
    refs_node_turn(node);
}

static void paused(void *room, bool is_paused) { (void)room, (void)is_paused; }

static const host_room_ops_t message_ops = {
    .receive = message_receive, .died = died, .struck = struck};
static const host_room_ops_t frame_ops = {.receive = frame_receive};
static const host_room_ops_t watched_ops = {.receive = frame_receive, .paused = paused};

/* ---- the node ---- */

void refs_node_add(refs_run_t *run) {
    refs_node_t *node = world_alloc(run->world, sizeof *node);
    node->run = run;
    node->index = run->nodes.count;
    node->holds = world_alloc(run->world, run->objects_max * sizeof *node->holds);
    node->is_copied = world_alloc(run->world, run->objects_max);
    node->is_cached = world_alloc(run->world, run->objects_max);
    node->host = host_new(run->cluster);
    node->closed = host_tombstones(node->host);
    if (!vec_push(&run->nodes, node) ||
        refs_new(&refs_ops, node, host_incarnation(node->host), node->closed, &node->refs))
        abort();
    host_room(node->host, HOST_REFS, &message_ops, node);
    host_room(node->host, HOST_PLACE, run->is_watched ? &watched_ops : &frame_ops, node);
}

void refs_node_fini(refs_node_t *node) {
    refs_free(node->refs);
    vec_free(&node->hands);
}
