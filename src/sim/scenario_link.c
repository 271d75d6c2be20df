/* Links between peers: each message comes once and in order over connections that break, cross and
 * hang; silence is told in time and truly; memory is bounded; two full links go on. */
#include "sim/peer.h"
#include "sim/scenario.h"

#include <stdlib.h>

enum { STEPS = 150, FAR = 4 }; /* peers whose addresses are further apart do not talk */

#define WATCH_NS  (100 * WORLD_MS)
#define SETTLE_NS (12 * WORLD_S) /* after the last misfortune everything has come by then */
#define BUSY_NS   (7 * LINK_BEAT_NS)
#define REDIAL_NS (2 * WORLD_S) /* one break of a connection that was well is mended by then */

typedef struct {
    world_t *world;
    peers_t all;
    VEC(peer_t *) peers; /* all that there ever were */
    VEC(peer_t *) here;  /* by address: the newest one */
    uint64_t calm_ns;    /* since then; 0: not yet */
} run_t;

typedef struct {
    run_t *run;
    peer_t *peer, *other;
} pair_t;

static uint64_t soon(run_t *run) { return world_between(run->world, 0, 50 * WORLD_MS); }

static bool by_chance(run_t *run, uint64_t part, uint64_t whole) {
    return base_random_chance(world_random(run->world), part, whole);
}

static bool are_near(const run_t *run, size_t a, size_t b) {
    size_t count = run->here.count, apart = a < b ? b - a : a - b;
    return a != b && (apart <= FAR || count - apart <= FAR);
}

static bool is_working(const peer_t *peer) {
    return machine_is_up(peer->machine) && !peer->is_buried;
}

/* ---- joining and dying ---- */

static void pair_later(run_t *run, machine_t *machine, peer_t *peer, peer_t *other, world_fn fn) {
    pair_t *pair = world_alloc(run->world, sizeof *pair);
    *pair = (pair_t){run, peer, other};
    machine_later(machine, soon(run), 0, fn, pair, 0);
}

static void meet(void *context, uint64_t argument) {
    (void)argument;
    pair_t *pair = context;
    if (!pair->other->is_buried && !pair->peer->is_buried) peer_meet(pair->peer, pair->other);
}

static peer_t *join(run_t *run, size_t address) {
    peer_t *peer = peer_new(&run->all, address);
    if (!vec_push(&run->peers, peer)) abort();
    for (size_t i = 0; i < run->here.count; i++) {
        peer_t *other = run->here.items[i];
        if (!are_near(run, i, address) || other == NULL || other->is_buried) continue;
        pair_later(run, peer->machine, peer, other, meet);
        pair_later(run, other->machine, other, peer, meet);
    }
    return run->here.items[address] = peer;
}

static void hear_of_death(void *context, uint64_t argument) {
    (void)argument;
    pair_t *pair = context;
    tie_t *tie = peer_tie(pair->peer, pair->other);
    if (tie != NULL) tie_close(tie);
}

static void bury(run_t *run, peer_t *dead) {
    if (dead->is_buried) return;
    dead->is_buried = true;
    for (size_t i = 0; i < run->here.count; i++)
        if (are_near(run, i, dead->address))
            pair_later(run, run->here.items[i]->machine, run->here.items[i], dead, hear_of_death);
}

static void bury_later(void *context, uint64_t argument) {
    (void)argument;
    pair_t *pair = context;
    bury(pair->run, pair->peer);
}

static void start_again(void *context, uint64_t argument) {
    (void)argument;
    pair_t *pair = context;
    join(pair->run, pair->peer->address);
}

static void kill(run_t *run, peer_t *peer) {
    if (machine_is_dead(peer->machine)) return;
    peer_kill(peer);
    pair_t *pair = world_alloc(run->world, sizeof *pair);
    *pair = (pair_t){run, peer, NULL};
    world_later(run->world, world_between(run->world, 0, 5 * WORLD_S), 0, bury_later, pair, 0);
    if (by_chance(run, 1, 2))
        world_later(run->world, world_between(run->world, 0, 3 * WORLD_S), 0, start_again, pair, 0);
}

static void kill_itself(void *context, uint64_t argument) {
    (void)argument;
    pair_t *pair = context;
    kill(pair->run, pair->peer);
}

/* Until it hears of its own tombstone, it goes on. */
static void go_on(run_t *run, peer_t *peer) {
    if (machine_is_up(peer->machine) || machine_is_dead(peer->machine)) return;
    peer_go_on(peer);
    if (!peer->is_buried) return;
    pair_t *pair = world_alloc(run->world, sizeof *pair);
    *pair = (pair_t){run, peer, NULL};
    machine_later(peer->machine, world_between(run->world, 0, WORLD_S), 0, kill_itself, pair, 0);
}

static void leave(run_t *run, peer_t *peer) {
    if (!is_working(peer)) return;
    for (size_t i = 0; i < peer->tie_list.count; i++) tie_leave(peer->tie_list.items[i]);
    pair_t *pair = world_alloc(run->world, sizeof *pair);
    *pair = (pair_t){run, peer, NULL};
    machine_later(peer->machine, world_between(run->world, 0, 2 * WORLD_S), 0, kill_itself, pair,
                  0);
}

/* ---- misfortune ---- */

static void group_cut(run_t *run) {
    size_t border = world_between(run->world, 0, run->here.count - 1);
    for (size_t i = 0; i < border; i++)
        for (size_t j = border; j < run->here.count; j++)
            if (are_near(run, i, j)) net_cut(run->all.net, i, j);
}

static void heal_all(run_t *run) {
    for (size_t i = 0; i < run->here.count; i++)
        for (size_t j = 0; j < i; j++)
            if (are_near(run, i, j)) net_heal(run->all.net, i, j);
}

static void end_one(run_t *run, peer_t *peer) {
    switch (world_between(run->world, 0, 2)) {
    case 0:
        kill(run, peer);
        break;
    case 1:
        leave(run, peer);
        break;
    default:
        peer_stop(peer);
        bury(run, peer);
        break;
    }
}

static void misfortune(run_t *run, size_t a, size_t b) {
    peer_t *peer = run->here.items[a];
    switch (world_between(run->world, 0, 23)) {
    case 0:
        net_cut(run->all.net, a, b);
        break;
    case 1:
    case 2:
        net_heal(run->all.net, a, b);
        break;
    case 3:
        peer_stop(peer);
        break;
    case 4:
    case 5:
    case 6:
        go_on(run, peer);
        break;
    case 7:
    case 8:
    case 9:
        net_break(run->all.net, a, b);
        break;
    case 10:
        if (by_chance(run, 1, 4)) group_cut(run);
        break;
    case 11:
        if (by_chance(run, 1, 2)) heal_all(run);
        break;
    case 12:
        if (by_chance(run, 1, 6)) end_one(run, peer);
        break;
    default:
        break;
    }
}

/* Only a request makes it more. */
static void memory_check(run_t *run, const tie_t *tie) {
    const tie_t *back = peer_tie(tie->other, tie->owner);
    uint64_t held = tie->requests_cost - (back != NULL ? back->done_cost : 0);
    if (held > run->all.room_bytes + run->all.message_max + 200 + LINK_MESSAGE_COST)
        world_fail(run->world, "%llu bytes of requests wait for a peer", (unsigned long long)held);
}

static void burst(run_t *run, size_t a, size_t b) {
    tie_t *tie = peer_tie(run->here.items[a], run->here.items[b]);
    if (tie == NULL || !is_working(tie->owner)) return;
    for (uint64_t i = world_between(run->world, 0, 8); i > 0; i--) {
        bool is_large = by_chance(run, 1, 10);
        tie_request(tie, world_between(run->world, 0, is_large ? run->all.message_max : 200));
        memory_check(run, tie);
    }
}

/* ---- checks ---- */

static void silence_check(run_t *run, const tie_t *tie) {
    uint64_t now = world_now_ns(run->world), since = tie->made_ns;
    if (since < tie->read_ns) since = tie->read_ns;
    if (since < tie->owner->woke_ns) since = tie->owner->woke_ns;
    if (!tie->is_silent && now - since > LINK_SILENCE_NS + 3 * LINK_TICK_NS)
        world_fail(run->world, "a silence of %.3f s was not told", (double)(now - since) / 1e9);
    if (tie->is_silent && tie->read_ns > tie->silent_ns)
        world_fail(run->world, "a peer was heard again, and that was not told");
}

static void dials_check(run_t *run, const tie_t *tie) {
    enum { MOST = 40 };
    uint64_t now = world_now_ns(run->world);
    if (tie->dials.count > MOST && tie->dials.items[tie->dials.count - MOST] + 10 * WORLD_S > now)
        world_fail(run->world, "a peer was dialled %d times in 10 s", MOST);
}

/* Both are there to stay. */
static bool is_lasting(const tie_t *tie) {
    return is_working(tie->owner) && is_working(tie->other) && !tie->leaves && !tie->has_left &&
           !tie->is_closed;
}

static uint64_t latest(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Once all is well, heartbeats come, and nobody is dialled any more. */
static void calm_check(run_t *run, const tie_t *tie) {
    const tie_t *back = peer_tie(tie->other, tie->owner);
    if (run->calm_ns == 0 || back == NULL || !is_lasting(tie)) return;
    uint64_t now = world_now_ns(run->world), made = latest(tie->made_ns, back->made_ns);
    uint64_t since = now - latest(run->calm_ns, made), beat = now - tie->beat_ns;
    if (since > 5 * LINK_BEAT_NS && beat > 5 * LINK_BEAT_NS)
        world_fail(run->world, "no heartbeat of %zu came to %zu for %.3f s", tie->other->address,
                   tie->owner->address, (double)beat / 1e9);
    bool dials = tie->dials.count > 0 && tie->dials.items[tie->dials.count - 1] > run->calm_ns;
    if (dials && made < run->calm_ns)
        world_fail(run->world, "%zu dials %zu without a reason", tie->owner->address,
                   tie->other->address);
}

static void watch(void *context, uint64_t argument) {
    (void)argument;
    run_t *run = context;
    for (size_t i = 0; i < run->here.count; i++) {
        const peer_t *peer = run->here.items[i];
        for (size_t j = 0; j < peer->tie_list.count && is_working(peer); j++) {
            const tie_t *tie = peer->tie_list.items[j];
            if (tie->is_closed) continue;
            silence_check(run, tie);
            dials_check(run, tie);
            calm_check(run, tie);
        }
    }
    world_later(run->world, WATCH_NS, 0, watch, run, 0);
}

/* What is still to be done between the two; NULL: nothing. */
static const char *tie_lacks(const tie_t *tie) {
    const tie_t *back = peer_tie(tie->other, tie->owner);
    if (back == NULL || !is_lasting(tie)) return NULL;
    if (!link_is_open(tie->link)) return "a link has no connection";
    if (tie->is_silent) return "a peer is held for silent that is there";
    if (tie->seen != back->sent) return "messages have not come";
    if (tie->unanswered > 0 || tie->inbox.count > 0) return "requests are not answered";
    if (link_held_bytes(tie->link) > 0) return "messages are not acknowledged";
    if (tie->wants_room) return "there is room again, and that was not told";
    return link_is_idle(tie->link) ? NULL : "a link is not idle";
}

static const char *run_lacks(const run_t *run) {
    const char *lacks = NULL;
    for (size_t i = 0; i < run->here.count && lacks == NULL; i++) {
        const peer_t *peer = run->here.items[i];
        for (size_t j = 0; j < peer->tie_list.count && lacks == NULL; j++)
            lacks = tie_lacks(peer->tie_list.items[j]);
    }
    return lacks;
}

/* ---- a run ---- */

static void settle(run_t *run, uint64_t limit_ns) {
    uint64_t until = world_now_ns(run->world) + limit_ns;
    const char *lacks = run_lacks(run);
    while (lacks != NULL && world_now_ns(run->world) < until &&
           world_run(run->world, world_now_ns(run->world) + 50 * WORLD_MS))
        lacks = run_lacks(run);
    if (lacks != NULL) world_fail(run->world, "%s", lacks);
}

static void step(run_t *run, bool is_calm) {
    size_t count = run->here.count, a = world_between(run->world, 0, count - 1);
    size_t far = count - 1 < FAR ? count - 1 : FAR;
    size_t b = (a + world_between(run->world, 1, far)) % count;
    if (by_chance(run, 1, 2)) {
        size_t swap = a;
        a = b;
        b = swap;
    }
    burst(run, a, b);
    if (by_chance(run, 1, 2)) burst(run, b, a);
    if (!is_calm) misfortune(run, a, b);
}

static void open_check(run_t *run, const tie_t *tie) {
    const tie_t *back = peer_tie(tie->other, tie->owner);
    uint64_t since = world_now_ns(run->world) - REDIAL_NS;
    if (back == NULL || !is_lasting(tie) || tie->made_ns > since || back->made_ns > since) return;
    if (!link_is_open(tie->link)) world_fail(run->world, "a peer was not dialled again in time");
}

static void calm(run_t *run) {
    world_tell(run->world, "nothing goes wrong any more");
    run->all.is_calm = true;
    run->all.work_ns = WORLD_MS;
    heal_all(run);
    net_calm(run->all.net);
    for (size_t i = 0; i < run->here.count; i++) go_on(run, run->here.items[i]);
}

static void run_begin(run_t *run, size_t hosts) {
    static const size_t sizes[] = {200, 200, 2000, 30000};
    run->all.world = run->world;
    run->all.net = net_new(run->world);
    run->all.message_max = sizes[world_between(run->world, 0, 3)];
    run->all.room_bytes = (size_t)world_between(run->world, 500, 20000);
    run->all.work_ns = by_chance(run, 1, 2) ? WORLD_MS : 40 * WORLD_MS;
    for (size_t i = 0; i < hosts; i++) {
        net_address_new(run->all.net);
        if (!vec_push(&run->here, NULL)) abort();
    }
    for (size_t i = 1; i < hosts; i++) {
        bool is_up = by_chance(run, 1, 2);
        if (by_chance(run, 1, 6)) net_wall(run->all.net, is_up ? i : i - 1, is_up ? i - 1 : i);
    }
    for (size_t i = 0; i < hosts; i++) join(run, i);
    world_later(run->world, WATCH_NS, 0, watch, run, 0);
}

static void run_end(run_t *run) {
    for (size_t i = 0; i < run->peers.count; i++) peer_free(run->peers.items[i]);
    vec_free(&run->peers);
    vec_free(&run->here);
    net_free(run->all.net);
}

/* All is well, and they talk. */
static void busy(run_t *run) {
    run->calm_ns = world_now_ns(run->world);
    for (uint64_t until = run->calm_ns + BUSY_NS;
         world_now_ns(run->world) < until && world_failure(run->world) == NULL;) {
        step(run, true);
        world_run(run->world,
                  world_now_ns(run->world) + world_between(run->world, 0, 100 * WORLD_MS));
    }
    settle(run, SETTLE_NS);
}

/* Connections that were well break, and there is something to say. */
static void mend(run_t *run) {
    run->calm_ns = 0;
    for (size_t a = 0; a < run->here.count; a++)
        for (size_t b = 0; b < a; b++)
            if (are_near(run, a, b)) {
                net_break(run->all.net, a, b);
                burst(run, a, b);
            }
    world_run(run->world, world_now_ns(run->world) + REDIAL_NS);
    for (size_t i = 0; i < run->here.count; i++)
        for (size_t j = 0; j < run->here.items[i]->tie_list.count; j++)
            open_check(run, run->here.items[i]->tie_list.items[j]);
    settle(run, SETTLE_NS);
}

static void link_run(world_t *world, size_t hosts) {
    run_t *run = world_alloc(world, sizeof *run);
    run->world = world;
    if (hosts == 0) hosts = world_between(world, 2, 4);
    run_begin(run, hosts < 2 ? 2 : hosts);
    size_t steps = STEPS + (hosts > 8 ? 20 * hosts : 0);
    for (size_t i = 0; i < steps && world_failure(world) == NULL; i++) {
        step(run, false);
        uint64_t most = by_chance(run, 1, 20) ? 3 * WORLD_S : 20 * WORLD_MS;
        world_run(world, world_now_ns(world) + world_between(world, 0, most * STEPS / steps));
    }
    calm(run);
    /* A connection that is dead without a word looks well until then. */
    world_run(world, world_now_ns(world) + LINK_SILENCE_NS + 3 * LINK_TICK_NS);
    settle(run, SETTLE_NS);
    busy(run);
    mend(run);
    run_end(run);
}

const scenario_t scenario_link = {
    .name = "link",
    .checks = "messages come once and in order over connections that break; silence is told",
    .run = link_run,
};
