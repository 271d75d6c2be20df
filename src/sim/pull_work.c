/* What the nodes of the scenario do: tasks make objects, gets and waits want them. */
#include <stdlib.h>
#include <string.h>

#include "sim/pull_world.h"

static bool chance(pull_run_t *run, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(run->world), part, whole);
}

static size_t below(pull_run_t *run, size_t n) {
    return (size_t)base_random_below(world_random(run->world), n);
}

static uint32_t chunks_by_chance(pull_run_t *run) {
    return (uint32_t)(chance(run, 1, 6) ? 1 + below(run, 60) : 1 + below(run, 10));
}

void pull_work_init(pull_run_t *run) {
    run->thing_count = 4 + below(run, PULL_OBJECTS - 4);
    for (size_t i = 0; i < run->thing_count; i++) {
        thing_t *thing = &run->things[i];
        thing->home = below(run, run->nodes.count);
        thing->maker = below(run, run->nodes.count);
        thing->needs = i > 0 && chance(run, 1, 4) ? (int)below(run, i) : -1;
        thing->chunks = chunks_by_chance(run);
        thing->id = (frame_id_t){.home = host_incarnation(run->nodes.items[thing->home]->host),
                                 .number = (uint32_t)i,
                                 .generation = 1};
    }
}

/* ---- making ---- */

typedef struct {
    pull_run_t *run;
    thing_t *thing;
    uint64_t attempt;
    size_t maker;
    uint32_t version, chunks;
} making_t;

static void extent_made(pull_node_t *node, const thing_t *thing, uint32_t version,
                        uint32_t chunks) {
    world_t *world = node->run->world;
    extent_t *extent = world_alloc(world, sizeof *extent);
    *extent = (extent_t){.count = chunks,
                         .is_made = true,
                         .pages = world_alloc(world, chunks * sizeof *extent->pages)};
    uint64_t *pages = world_alloc(world, chunks * sizeof *pages);
    for (uint32_t i = 0; i < chunks; i++) {
        pages[i] = pull_content(thing, version, i);
        extent->pages[i] = &pages[i];
    }
    if (!base_map_put(&node->extents, &thing->id.number, extent)) abort();
    node->complete_ns[thing->id.number] = world_now_ns(world);
}

/* The home hears that it is made, or that its maker had a copy already (version 0). */
static void made(void *context, uint64_t argument) {
    (void)argument;
    making_t *making = context;
    pull_run_t *run = making->run;
    thing_t *thing = making->thing;
    pull_node_t *home = run->nodes.items[thing->home], *maker = run->nodes.items[making->maker];
    if (thing->attempt != making->attempt || thing->state != MAKING) return;
    run->dirty = (int)thing->id.number;
    mob_status_t status = MOB_EEXISTS;
    if (making->version > 0)
        status = pull_object_add(home->pull, &thing->id, making->version,
                                 (uint64_t)making->chunks * PULL_CHUNK,
                                 host_incarnation(maker->host), pull_node_clock(home));
    if (status == MOB_OK && maker == home)
        extent_made(home, thing, making->version, making->chunks);
    pull_object_view_t view;
    bool is_there = pull_object_look(home->pull, &thing->id, &view) && !view.is_lost;
    if (status == MOB_ESPACE)
        machine_later(host_machine(home->host), 20 * WORLD_MS, 0, made, making, 0);
    else if (status == MOB_ESTALE || (making->version == 0 && !is_there))
        pull_thing_make(run, thing);
    else
        thing->state = MADE; /* or a copy was found: if not, the room says again that it is lost */
}

/* At the maker: the task has run. */
static void make(void *context, uint64_t argument) {
    making_t *making = context;
    pull_run_t *run = making->run;
    thing_t *thing = making->thing;
    if (thing->attempt != making->attempt || thing->state != MAKING) return;
    pull_node_t *maker = run->nodes.items[making->maker], *home = run->nodes.items[thing->home];
    making->version = ++thing->version;
    making->chunks =
        thing->version > 1 && chance(run, 1, 4) ? chunks_by_chance(run) : thing->chunks;
    thing->chunks = making->chunks;
    if (maker != home) {
        run->dirty = (int)thing->id.number;
        mob_status_t status =
            pull_copy_made(maker->pull, &thing->id, making->version,
                           (uint64_t)making->chunks * PULL_CHUNK, pull_node_clock(maker));
        if (status == MOB_OK) extent_made(maker, thing, making->version, making->chunks);
        if (status == MOB_EEXISTS) making->version = 0;
        if (status == MOB_ESPACE) {
            machine_later(host_machine(maker->host), 20 * WORLD_MS, 0, make, making, argument);
            return;
        }
    }
    if (maker == home)
        machine_later(host_machine(home->host), 0, 0, made, making, 0);
    else /* by the same link as the room's messages */
        host_send(maker->host, HOST_PLACE, thing->id.home, &making, sizeof making, true);
}

static void done_receive(void *room, uint64_t from, uint64_t sequence, const void *bytes,
                         size_t size) {
    (void)room;
    (void)from;
    (void)sequence;
    making_t *making;
    memcpy(&making, bytes, size);
    made(making, 0);
}

const host_room_ops_t pull_done_ops = {.receive = done_receive};

static void make_later(pull_node_t *maker, thing_t *thing) {
    making_t *making = world_alloc(maker->run->world, sizeof *making);
    *making = (making_t){
        .run = maker->run, .thing = thing, .attempt = thing->attempt, .maker = maker->index};
    machine_later(host_machine(maker->host), world_between(maker->run->world, 0, 20 * WORLD_MS), 0,
                  make, making, 0);
}

/* The home's node asks itself whether the maker is still there. */
static void make_watch(void *context, uint64_t attempt) {
    thing_t *thing = context;
    pull_run_t *run =
        (pull_run_t *)(void *)((char *)(thing - thing->id.number) - offsetof(pull_run_t, things));
    if (thing->attempt != attempt || thing->state != MAKING) return;
    pull_node_t *home = run->nodes.items[thing->home], *maker = run->nodes.items[thing->maker];
    if (host_knows_dead(home->host, host_incarnation(maker->host)) && maker != home) {
        pull_thing_make(run, thing);
        return;
    }
    machine_later(host_machine(home->host), WORLD_S / 2, 0, make_watch, thing, attempt);
}

static void task_begin(void *context, uint64_t attempt) {
    thing_t *thing = context;
    pull_run_t *run =
        (pull_run_t *)(void *)((char *)(thing - thing->id.number) - offsetof(pull_run_t, things));
    if (thing->attempt != attempt || thing->state != MAKING) return;
    pull_node_t *maker = run->nodes.items[thing->maker];
    if (thing->needs >= 0 && run->things[thing->needs].state != FREED)
        pull_call_new(maker, PULL_ARGUMENTS, &thing->needs, 1, thing);
    else
        make_later(maker, thing);
}

void pull_thing_make(pull_run_t *run, thing_t *thing) {
    pull_node_t *home = run->nodes.items[thing->home];
    thing->state = MAKING;
    thing->attempt++;
    for (int i = 0; i < 20; i++) {
        pull_node_t *maker = run->nodes.items[thing->maker];
        if (!host_knows_dead(home->host, host_incarnation(maker->host)) || maker == home) break;
        thing->maker = below(run, run->nodes.count);
    }
    pull_node_t *maker = run->nodes.items[thing->maker];
    machine_later(host_machine(maker->host), world_between(run->world, 0, 5 * WORLD_MS), 0,
                  task_begin, thing, thing->attempt);
    machine_later(host_machine(home->host), WORLD_S / 2, 0, make_watch, thing, thing->attempt);
}

/* ---- wants ---- */

static void call_end(void *context, uint64_t argument) {
    (void)argument;
    pull_call_t *call = context;
    pull_run_t *run = call->node->run;
    if (call->is_over) return;
    if (call->is_answered && call->state == PULL_READY) pull_check_bytes(call, "at its end");
    call->is_over = true;
    if (!call->is_answered) run->unanswered--;
    run->dirty = -1;
    pull_want_end(call->node->pull, call->want, pull_node_clock(call->node));
    for (size_t i = 0; i < call->count; i++) run->things[call->things[i]].wanted--;
    for (size_t i = 0; i < run->calls.count; i++)
        if (run->calls.items[i] == call) vec_swap_remove(&run->calls, i--);
}

void pull_call_new(pull_node_t *node, pull_class_t class, const int *things, size_t count,
                   thing_t *makes) {
    pull_run_t *run = node->run;
    pull_call_t *call = world_alloc(run->world, sizeof *call);
    *call = (pull_call_t){
        .node = node, .class = class, .count = count, .makes = makes, .number = ++run->call_count};
    frame_id_t ids[PULL_WANT_MAX];
    for (size_t i = 0; i < count; i++) {
        call->things[i] = things[i];
        ids[i] = run->things[things[i]].id;
        run->things[things[i]].wanted++;
        node->progress_ns[things[i]] = world_now_ns(run->world);
    }
    run->unanswered++;
    run->dirty = things[0];
    if (!vec_push(&run->calls, call)) abort();
    if (pull_want_new(node->pull, class, ids, count, call, pull_node_clock(node), &call->want) !=
        MOB_OK)
        abort();
}

static void call_answer(pull_call_t *call, uint64_t hold_ns) {
    pull_run_t *run = call->node->run;
    if (call->is_answered) world_fail(run->world, "a want was answered twice");
    call->is_answered = true;
    run->unanswered--;
    machine_later(host_machine(call->node->host), hold_ns, 0, call_end, call, 0);
}

static void call_work(void *context, uint64_t argument) {
    (void)argument;
    pull_call_t *call = context;
    if (!call->is_over) pull_check_bytes(call, "when it was ready");
    if (call->makes != NULL) make_later(call->node, call->makes);
}

void pull_call_ready(pull_call_t *call) {
    world_t *world = call->node->run->world;
    call_answer(call, world_between(world, WORLD_MS, 200 * WORLD_MS));
    machine_later(host_machine(call->node->host), 0, 0, call_work, call, 0);
}

static void call_again(void *context, uint64_t argument) {
    (void)argument;
    pull_call_t *call = context;
    if (call->makes->state == MAKING) task_begin(call->makes, call->makes->attempt);
}

static bool is_too_large(const pull_call_t *call) {
    uint64_t sum = 0, capacity = call->node->capacity;
    for (size_t i = 0; i < call->count; i++) {
        bool is_new = true;
        for (size_t j = 0; j < i; j++) is_new &= call->things[i] != call->things[j];
        const thing_t *thing = &call->node->run->things[call->things[i]];
        if (thing->version > 1) return true; /* an older one may have been larger */
        if (is_new) sum += thing->chunks;
    }
    return sum > capacity;
}

void pull_call_failed(pull_call_t *call, const frame_id_t *id, mob_status_t why) {
    pull_run_t *run = call->node->run;
    bool is_right = why == MOB_ESPACE  ? call->class == PULL_ARGUMENTS
                    : why == MOB_EFULL ? is_too_large(call) || !run->is_ending
                                       : why == MOB_ELOST;
    if (!is_right) world_fail(run->world, "a want fails with %d", (int)why);
    if (why == MOB_ELOST) pull_check_lost(call, id);
    call_answer(call, 0);
    if (call->makes == NULL) return;
    if (why == MOB_ESPACE)
        machine_later(host_machine(call->node->host), 100 * WORLD_MS, 0, call_again, call, 0);
    else
        make_later(call->node, call->makes);
}

/* ---- by chance ---- */

static void call_random(pull_run_t *run, pull_node_t *node) {
    int things[PULL_WANT_MAX];
    size_t count = 0, wanted = 1 + below(run, 3);
    while (count < wanted) {
        int thing = (int)below(run, run->thing_count);
        if (run->things[thing].state != FREED) things[count++] = thing;
        if (chance(run, 1, 20)) break;
    }
    pull_class_t class = (pull_class_t)below(run, PULL_CLASSES);
    if (count > 0) pull_call_new(node, class, things, class == PULL_WAIT ? 1 : count, NULL);
}

static void cancel_random(pull_run_t *run) {
    if (run->calls.count == 0) return;
    pull_call_t *call = run->calls.items[below(run, run->calls.count)];
    if (call->makes == NULL && pull_node_is_up(call->node)) call_end(call, 0);
}

static void free_random(pull_run_t *run, thing_t *thing) {
    pull_node_t *home = run->nodes.items[thing->home];
    if (thing->wanted > 0 || thing->state != MADE || !pull_node_is_up(home)) return;
    for (size_t i = 0; i < run->thing_count; i++)
        if (run->things[i].needs == (int)thing->id.number && run->things[i].state != MADE) return;
    thing->state = FREED;
    run->dirty = -1;
    pull_object_free(home->pull, &thing->id, pull_node_clock(home));
}

void pull_work_random(pull_run_t *run) {
    pull_node_t *node = run->nodes.items[below(run, run->nodes.count)];
    thing_t *thing = &run->things[below(run, run->thing_count)];
    pull_node_t *home = run->nodes.items[thing->home];
    if (!pull_node_is_up(node)) return;
    switch (below(run, 16)) {
    case 0:
    case 1:
        if (thing->state == UNMADE && pull_node_is_up(home)) pull_thing_make(run, thing);
        break;
    case 2:
    case 3:
        cancel_random(run);
        break;
    case 4:
        pull_copy_drop(node->pull, &thing->id, pull_node_clock(node));
        break;
    case 5:
        if (pull_node_is_up(home))
            pull_object_move(home->pull, &thing->id, host_incarnation(node->host),
                             pull_node_clock(home));
        break;
    case 6:
        if (chance(run, 1, 4)) free_random(run, thing);
        break;
    case 7:
        pull_node_spill(node, thing);
        break;
    default:
        call_random(run, node);
        break;
    }
}
