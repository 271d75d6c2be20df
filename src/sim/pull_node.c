/* A node of the scenario: the room's ops, its memory, and its bulk thread, which sends and receives
 * a chunk at a time each. */
#include <stdlib.h>
#include <string.h>

#include "pull/message.h"
#include "pull/script.h"
#include "sim/pull_world.h"

enum { DEATHS_MAX = 3 };
#define POISON UINT64_C(0xdeaddeaddeaddead)

uint64_t pull_node_clock(const pull_node_t *node) {
    return machine_clock_ns(host_machine(node->host));
}

bool pull_node_is_up(const pull_node_t *node) { return machine_is_up(host_machine(node->host)); }
bool pull_node_is_dead(const pull_node_t *node) {
    return machine_is_dead(host_machine(node->host));
}

pull_node_t *pull_node_find(const pull_run_t *run, uint64_t incarnation) {
    for (size_t i = 0; i < run->nodes.count; i++)
        if (host_incarnation(run->nodes.items[i]->host) == incarnation) return run->nodes.items[i];
    return NULL;
}

void pull_node_trouble(pull_node_t *node) { node->troubled_ns = world_now_ns(node->run->world); }

uint64_t pull_content(const thing_t *thing, uint32_t version, uint32_t chunk) {
    return (uint64_t)thing->id.number << 40 | (uint64_t)version << 20 | (chunk + 1);
}

void pull_node_kill(pull_node_t *node) {
    pull_run_t *run = node->run;
    if (pull_node_is_dead(node) || run->deaths >= DEATHS_MAX ||
        run->deaths + 2 > run->nodes.count || run->is_ending)
        return;
    run->deaths++;
    host_kill(node->host);
}

/* ---- cuts ---- */

static uint64_t pair_of(const pull_node_t *a, const pull_node_t *b) {
    return a->index < b->index ? (uint64_t)a->index << 32 | b->index
                               : (uint64_t)b->index << 32 | a->index;
}

bool pull_pair_is_cut(const pull_run_t *run, const pull_node_t *a, const pull_node_t *b) {
    uint64_t pair = pair_of(a, b);
    for (size_t i = 0; i < run->cuts.count; i++)
        if (run->cuts.items[i] == pair) return true;
    return false;
}

void pull_pair_cut(pull_run_t *run, pull_node_t *a, pull_node_t *b, bool is_cut) {
    uint64_t pair = pair_of(a, b);
    for (size_t i = run->cuts.count; i-- > 0;)
        if (run->cuts.items[i] == pair) vec_swap_remove(&run->cuts, i);
    if (is_cut && !vec_push(&run->cuts, pair)) abort();
    uint64_t now = world_now_ns(run->world) + 1;
    if (!base_map_put(&run->cut_ns, &pair, (void *)(uintptr_t)now)) abort();
    (is_cut ? host_cut : host_heal)(a->host, b->host);
}

/* ---- memory ---- */

extent_t *pull_extent(const pull_node_t *node, const frame_id_t *id) {
    return base_map_get(&node->extents, &id->number);
}

static bool on_extent_new(void *context, const frame_id_t *id, uint64_t size) {
    pull_node_t *node = context;
    pull_run_t *run = node->run;
    uint32_t count = (uint32_t)(size / PULL_CHUNK);
    if (pull_extent(node, id) != NULL) world_fail(run->world, "two extents of one object");
    if (node->used + count > node->capacity) {
        world_fail(run->world, "node %zu has %llu pages of %llu and lets %u more in", node->index,
                   (unsigned long long)node->used, (unsigned long long)node->capacity, count);
        return false;
    }
    if (!run->is_calm && base_random_chance(world_random(run->world), 1, 50)) return false;
    extent_t *extent = world_alloc(run->world, sizeof *extent);
    *extent =
        (extent_t){.count = count, .pages = world_alloc(run->world, count * sizeof *extent->pages)};
    size_t page = 0;
    for (uint32_t i = 0; i < count; i++, page++) {
        while (node->taken[page]) page++;
        node->taken[page] = true;
        extent->pages[i] = &node->memory[page];
    }
    node->used += count;
    node->progress_ns[id->number] = world_now_ns(run->world);
    if (!base_map_put(&node->extents, &id->number, extent)) abort();
    return true;
}

static void on_extent_free(void *context, const frame_id_t *id) {
    pull_node_t *node = context;
    extent_t *extent = base_map_remove(&node->extents, &id->number);
    if (extent == NULL) return; /* on disk it had none */
    for (uint32_t i = 0; i < extent->count; i++) {
        *extent->pages[i] = POISON;
        if (!extent->is_made) node->taken[extent->pages[i] - node->memory] = false;
    }
    if (!extent->is_made) node->used -= extent->count;
}

void pull_node_spill(pull_node_t *node, thing_t *thing) {
    extent_t *extent = pull_extent(node, &thing->id);
    mob_status_t status = pull_copy_spilled(node->pull, &thing->id, pull_node_clock(node));
    if (status != MOB_OK || extent->is_made) return;
    uint64_t *pages = world_alloc(node->run->world, extent->count * sizeof *pages);
    for (uint32_t i = 0; i < extent->count; i++) {
        pages[i] = *extent->pages[i];
        *extent->pages[i] = POISON;
        node->taken[extent->pages[i] - node->memory] = false;
        extent->pages[i] = &pages[i];
    }
    node->used -= extent->count;
    extent->is_made = true;
}

/* ---- the bulk threads ---- */

typedef struct {
    pull_node_t *from, *to;
    uint64_t ticket;
    frame_id_t id;
    uint32_t chunk;
    uint64_t *page;
    bool is_whole;
} parcel_t;

typedef struct {
    uint64_t ticket, chunk;
} expected_key_t;

static void on_fetch(void *context, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                     uint64_t source) {
    pull_node_t *node = context;
    expected_t *expected = world_alloc(node->run->world, sizeof *expected);
    extent_t *extent = pull_extent(node, id);
    if (extent == NULL || chunk >= extent->count) {
        world_fail(node->run->world, "a chunk is fetched into no memory");
        return;
    }
    *expected = (expected_t){extent->pages[chunk], source};
    expected_key_t key = {ticket, chunk};
    if (!base_map_put(&node->expected, &key, expected)) abort();
    node->last_ticket[id->number] = ticket;
    node->last_source[id->number] = source;
    node->run->dirty = (int)id->number;
}

static void chunk_came(void *context, uint64_t argument) {
    (void)argument;
    parcel_t *parcel = context;
    pull_node_t *node = parcel->to;
    node->run->dirty = (int)parcel->id.number;
    if (parcel->is_whole) node->progress_ns[parcel->id.number] = world_now_ns(node->run->world);
    pull_chunk_came(node->pull, parcel->ticket, &parcel->id, parcel->chunk, parcel->is_whole,
                    pull_node_clock(node));
    world_release(node->run->world, parcel);
}

static void served(void *context, uint64_t ticket) {
    parcel_t *parcel = context;
    (void)ticket;
    pull_served(parcel->from->pull, host_incarnation(parcel->to->host), parcel->ticket,
                pull_node_clock(parcel->from));
    world_release(parcel->from->run->world, parcel);
}

/* At the receiver: its bulk thread writes, unless it has let go. */
static void parcel_write(void *context, uint64_t argument) {
    (void)argument;
    parcel_t *parcel = context;
    pull_node_t *to = parcel->to;
    world_t *world = to->run->world;
    expected_key_t key = {parcel->ticket, parcel->chunk};
    expected_t *expected = base_map_remove(&to->expected, &key);
    if (expected == NULL) return;
    uint64_t bytes = *parcel->page; /* read only now: sendfile had returned long before */
    parcel->is_whole = !base_random_chance(world_random(world), 1, 100);
    *expected->page = parcel->is_whole ? bytes : POISON;
    parcel_t *copy = world_alloc(world, sizeof *copy);
    *copy = *parcel;
    machine_later(host_machine(to->host), world_between(world, 0, WORLD_MS), 0, chunk_came, copy,
                  0);
}

static void parcel_come(void *context, uint64_t argument) {
    (void)argument;
    parcel_t *parcel = context;
    pull_run_t *run = parcel->from->run;
    bool is_lost = pull_node_is_dead(parcel->from);
    bool is_over = pull_node_is_dead(parcel->to);
    if (!is_lost && !is_over && pull_pair_is_cut(run, parcel->from, parcel->to)) {
        world_later(run->world, 20 * WORLD_MS, 0, parcel_come, parcel, 0);
        return;
    }
    if (is_over && !host_knows_dead(parcel->from->host, host_incarnation(parcel->to->host))) {
        world_later(run->world, 20 * WORLD_MS, 0, parcel_come, parcel, 0);
        return;
    }
    if (is_lost) return;
    if (!is_over && pull_node_is_up(parcel->to)) parcel_write(parcel, 0);
    if (!is_over && !pull_node_is_up(parcel->to)) { /* in its socket until it goes on */
        world_later(run->world, 20 * WORLD_MS, 0, parcel_come, parcel, 0);
        return;
    }
    machine_later(host_machine(parcel->from->host), 0, 0, served, parcel, parcel->ticket);
}

static void on_serve(void *context, uint64_t reader, uint64_t ticket, const frame_id_t *id,
                     uint32_t chunk) {
    pull_node_t *from = context, *to = pull_node_find(from->run, reader);
    world_t *world = from->run->world;
    extent_t *extent = pull_extent(from, id);
    if (extent == NULL || chunk >= extent->count) {
        world_fail(world, "node %zu serves a chunk that it does not have", from->index);
        return;
    }
    parcel_t *parcel = world_alloc(world, sizeof *parcel);
    *parcel = (parcel_t){from, to, ticket, *id, chunk, extent->pages[chunk], true};
    uint64_t now = world_now_ns(world);
    uint64_t start = now > from->out_free_ns ? now : from->out_free_ns;
    if (start < to->in_free_ns) start = to->in_free_ns;
    from->out_free_ns = to->in_free_ns = start + from->run->chunk_ns;
    world_later(world, start + from->run->chunk_ns - now, 0, parcel_come, parcel, 0);
}

static void let_go(void *context, uint64_t argument) {
    (void)argument;
    parcel_t *parcel = context;
    pull_node_t *node = parcel->to;
    for (uint32_t i = 0; i < 64; i++) {
        expected_key_t key = {parcel->ticket, parcel->chunk + i};
        base_map_remove(&node->expected, &key);
    }
    node->run->dirty = (int)parcel->id.number;
    pull_let_go(node->pull, parcel->ticket, &parcel->id, pull_node_clock(node));
    world_release(node->run->world, parcel);
}

static void on_let_go(void *context, uint64_t ticket, const frame_id_t *id) {
    pull_node_t *node = context;
    world_t *world = node->run->world;
    parcel_t *parcel = world_alloc(world, sizeof *parcel);
    *parcel = (parcel_t){.to = node, .ticket = ticket, .id = *id};
    machine_later(host_machine(node->host), world_between(world, 0, 200 * WORLD_MS), 0, let_go,
                  parcel, 0);
}

/* ---- what else the room asks of its node ---- */

static void sealed(void *context, uint64_t number) {
    pull_node_t *node = context;
    const frame_id_t *id = &node->run->things[number].id;
    pull_node_t *source = pull_node_find(node->run, node->last_source[number]);
    uint64_t self = host_incarnation(node->host);
    if (source != NULL && !pull_node_is_dead(source) && !host_knows_dead(source->host, self) &&
        !pull_is_read_by(source->pull, id, host_incarnation(node->host), node->last_ticket[number]))
        world_fail(node->run->world,
                   "node %zu let go of object %llu before node %zu held what is "
                   "in it",
                   source->index, (unsigned long long)number, node->index);
    node->complete_ns[number] = world_now_ns(node->run->world);
    node->run->dirty = (int)number;
    pull_sealed(node->pull, id, MOB_OK, pull_node_clock(node));
}

static void on_seal(void *context, const frame_id_t *id) {
    pull_node_t *node = context;
    bool is_slow = base_random_chance(world_random(node->run->world), 1, 10);
    machine_later(host_machine(node->host),
                  world_between(node->run->world, 0, (is_slow ? 300 : 5) * WORLD_MS), 0, sealed,
                  node, id->number);
}

static void on_send(void *context, uint64_t peer, const void *bytes, size_t size, bool is_answer) {
    pull_node_t *node = context;
    host_send(node->host, HOST_PULL, peer, bytes, size, is_answer);
}

typedef struct {
    pull_node_t *node;
    pull_question_t question;
} asked_t;

static void answered(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    asked_t *asked = context;
    asked->node->run->dirty = -1;
    pull_answered(asked->node->pull, &asked->question, answer, size, pull_node_clock(asked->node));
    world_release(asked->node->run->world, asked);
}

/* The master goes before its replicas have what was just written, and then perhaps the home. */
static void fail_over(void *context, uint64_t home) {
    pull_run_t *run = context;
    if (run->is_ending) return;
    redis_fail_over(cluster_redis(run->cluster));
    run->redis_ns = world_now_ns(run->world);
    pull_node_t *node = pull_node_find(run, home);
    if (node != NULL && base_random_chance(world_random(run->world), 1, 2)) pull_node_kill(node);
}

static void on_ask(void *context, const pull_question_t *question, script_fn script,
                   const void *arguments, size_t size) {
    pull_node_t *node = context;
    asked_t *asked = world_alloc(node->run->world, sizeof *asked);
    *asked = (asked_t){node, *question};
    pull_note_t note;
    pull_run_t *run = node->run;
    if (question->kind == PULL_WRITE && run->is_watched && pull_note_read(arguments, size, &note) &&
        base_random_chance(world_random(run->world), 1, 10))
        world_later(run->world, world_between(run->world, 0, 15 * WORLD_MS), 0, fail_over, run,
                    note.id.home);
    host_ask(node->host, script, arguments, size, answered, asked);
}

static void on_said(void *context, uint64_t master) {
    host_said(((pull_node_t *)context)->host, HOST_PULL, master);
}

static mob_status_t on_object_state(void *context, const frame_id_t *id) {
    pull_node_t *node = context;
    if (id->number >= node->run->thing_count) return MOB_ELOST;
    return node->run->things[id->number].state == FREED ? MOB_ELOST : MOB_OK;
}

static void make_again(void *context, uint64_t number) {
    pull_node_t *node = context;
    thing_t *thing = &node->run->things[number];
    if (thing->state == LOST) pull_thing_make(node->run, thing);
}

static void on_lost(void *context, const frame_id_t *id) {
    pull_node_t *node = context;
    thing_t *thing = &node->run->things[id->number];
    if (thing->state == MAKING) return; /* it is being made again */
    thing->state = LOST;
    machine_later(host_machine(node->host), world_between(node->run->world, 0, 50 * WORLD_MS), 0,
                  make_again, node, id->number);
}

static void owned(void *context, uint64_t number) {
    pull_node_t *node = context;
    pull_copy_drop(node->pull, &node->run->things[number].id, pull_node_clock(node));
}

/* Its last holder goes, some time later. */
static void on_owned(void *context, const frame_id_t *id) {
    pull_node_t *node = context;
    machine_later(host_machine(node->host),
                  world_between(node->run->world, 5 * WORLD_S, 25 * WORLD_S), 0, owned, node,
                  id->number);
}

static void on_ready(void *context, void *user) {
    (void)context;
    pull_call_ready(user);
}

static void on_failed(void *context, void *user, const frame_id_t *id, mob_status_t why) {
    (void)context;
    pull_call_failed(user, id, why);
}

static void spill(void *context, uint64_t number) {
    pull_node_t *node = context;
    pull_node_spill(node, &node->run->things[number]);
}

static void on_spill(void *context, const frame_id_t *id) {
    pull_node_t *node = context;
    machine_later(host_machine(node->host), world_between(node->run->world, 0, 50 * WORLD_MS), 0,
                  spill, node, id->number);
}

static const pull_ops_t ops = {
    .send = on_send,
    .ask = on_ask,
    .said = on_said,
    .object_state = on_object_state,
    .lost = on_lost,
    .owned = on_owned,
    .extent_new = on_extent_new,
    .extent_free = on_extent_free,
    .spill = on_spill,
    .fetch = on_fetch,
    .let_go = on_let_go,
    .serve = on_serve,
    .seal = on_seal,
    .ready = on_ready,
    .failed = on_failed,
};

/* ---- the host's word ---- */

static void message_tell(const pull_node_t *node, uint64_t from, const void *bytes, size_t size) {
    static const char *const kinds[PULL_KINDS] = {
        "DESCRIBE", "DESCRIBED", "ASK",      "SOURCE", "UNMADE", "GONE", "PROGRESS",
        "GAVE_UP",  "FETCH",     "NOT_HERE", "CLOSE",  "KEEP",   "KEPT", "RELEASE"};
    pull_message_t m;
    if (!world_tells(node->run->world) || !pull_message_read(bytes, size, &m)) return;
    const pull_node_t *source = pull_node_find(node->run, m.node);
    world_tell(node->run->world,
               "node %zu from %zu: %s object %u ticket %llu birth %llu version %u chunk %u flag %u "
               "node %d",
               node->index, pull_node_find(node->run, from)->index, kinds[m.kind], m.id.number,
               (unsigned long long)m.ticket, (unsigned long long)m.birth, m.version, m.chunk,
               m.flag, source != NULL ? (int)source->index : -1);
}

static void receive(void *room, uint64_t from, uint64_t sequence, const void *bytes, size_t size) {
    (void)sequence;
    pull_node_t *node = room;
    uint32_t number;
    memcpy(&number, (const uint8_t *)bytes + 9, sizeof number);
    node->run->dirty = (int)number;
    message_tell(node, from, bytes, size);
    if (pull_receive(node->pull, from, bytes, size, pull_node_clock(node)) != MOB_OK)
        world_fail(node->run->world, "a message was refused");
}

static void died(void *room, uint64_t peer, uint64_t number) {
    (void)number;
    pull_node_t *node = room;
    node->run->dirty = -1;
    if (pull_died(node->pull, peer, pull_node_clock(node)) != MOB_OK) abort();
}

static void master(void *room, uint64_t number) {
    pull_node_t *node = room;
    pull_master(node->pull, number, pull_node_clock(node));
}

static void silent(void *room, uint64_t peer, bool is_silent) {
    (void)room;
    (void)peer;
    (void)is_silent; /* silence is no death: the links bring everything later */
}

static const host_room_ops_t room_ops = {.receive = receive, .died = died, .master = master};
/* The same under the eyes of the judge, who tells of new masters, and buries who is stopped. */
static const host_room_ops_t watched_ops = {
    .receive = receive, .died = died, .master = master, .silent = silent};

static void tick(void *context, uint64_t argument) {
    pull_node_t *node = context;
    node->run->dirty = -1;
    pull_tick(node->pull, pull_node_clock(node));
    machine_later(host_machine(node->host), PULL_TICK_NS, 0, tick, node, argument);
}

pull_node_t *pull_node_new(pull_run_t *run, uint64_t capacity) {
    pull_node_t *node = world_alloc(run->world, sizeof *node);
    node->run = run;
    node->index = run->nodes.count;
    node->capacity = capacity;
    node->memory = world_alloc(run->world, capacity * sizeof *node->memory);
    node->taken = world_alloc(run->world, capacity * sizeof *node->taken);
    node->host = host_new(run->cluster);
    base_map_init(&node->extents, sizeof(uint32_t));
    base_map_init(&node->expected, sizeof(expected_key_t));
    if (pull_new(&ops, node, host_incarnation(node->host), &node->pull) != MOB_OK) abort();
    pull_memory_set(node->pull, capacity * PULL_CHUNK, pull_node_clock(node));
    host_room(node->host, HOST_PULL, run->is_watched ? &watched_ops : &room_ops, node);
    host_room(node->host, HOST_PLACE, &pull_done_ops, node);
    /* One that joins has read the tombstones that there are. */
    for (size_t i = 0; i < run->nodes.count; i++) {
        uint64_t peer = host_incarnation(run->nodes.items[i]->host);
        if (host_knows_dead(node->host, peer)) died(node, peer, 0);
    }
    if (!vec_push(&run->nodes, node)) abort();
    machine_later(host_machine(node->host), world_between(run->world, 0, PULL_TICK_NS), 0, tick,
                  node, 0);
    pull_node_trouble(node);
    return node;
}

void pull_node_free(pull_node_t *node) {
    pull_free(node->pull);
    base_map_fini(&node->extents);
    base_map_fini(&node->expected);
}
