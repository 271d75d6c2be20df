/* The simulator itself: messages between hosts come in order and once, whatever is cut or stopped,
 * and everybody hears of every death in the same order. */
#include "sim/host.h"
#include "sim/scenario.h"

#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 64, STEPS = 200 };

typedef struct {
    host_t *host;
    uint64_t last[HOSTS_MAX]; /* what came from each */
    uint64_t sent[HOSTS_MAX];
    uint64_t deaths;
} peer_t;

typedef struct {
    world_t *world;
    cluster_t *cluster;
    size_t count;
    peer_t peers[HOSTS_MAX];
} run_t;

typedef struct {
    run_t *run;
    size_t index;
} place_t;

typedef struct {
    uint64_t from, number;
} word_t;

static void receive(void *room, uint64_t from, uint64_t sequence, const void *bytes, size_t size) {
    place_t *place = room;
    peer_t *me = &place->run->peers[place->index];
    word_t word;
    if (size != sizeof word) {
        world_fail(place->run->world, "a message of %zu bytes", size);
        return;
    }
    memcpy(&word, bytes, sizeof word);
    if (word.number != me->last[word.from] + 1 || sequence != word.number ||
        host_incarnation(place->run->peers[word.from].host) != from)
        world_fail(place->run->world, "message %llu of %llu came after %llu",
                   (unsigned long long)word.number, (unsigned long long)word.from,
                   (unsigned long long)me->last[word.from]);
    me->last[word.from] = word.number;
}

static void died(void *room, uint64_t peer, uint64_t number) {
    (void)peer;
    place_t *place = room;
    if (number != ++place->run->peers[place->index].deaths)
        world_fail(place->run->world, "tombstone %llu came out of order",
                   (unsigned long long)number);
    host_closed(place->run->peers[place->index].host, HOST_REFS, number);
}

static void struck(void *room, uint64_t number) {
    place_t *place = room;
    if (number > place->run->peers[place->index].deaths)
        world_fail(place->run->world, "struck off before it was closed");
}

static const host_room_ops_t ops = {.receive = receive, .died = died, .struck = struck};

static void misfortune(run_t *run, peer_t *a, peer_t *b) {
    switch (world_between(run->world, 0, 9)) {
    case 0:
        host_cut(a->host, b->host);
        break;
    case 1:
    case 2:
        host_heal(a->host, b->host);
        break;
    case 3:
        machine_stop(host_machine(a->host));
        break;
    case 4:
    case 5:
        machine_go_on(host_machine(a->host));
        break;
    case 6:
        if (base_random_chance(world_random(run->world), 1, 8)) host_kill(a->host);
        break;
    default:
        break;
    }
}

static void send(run_t *run, size_t from, size_t to) {
    peer_t *a = &run->peers[from];
    if (!machine_is_up(host_machine(a->host))) return;
    word_t word = {from, a->sent[to] + 1};
    if (host_send(a->host, HOST_REFS, host_incarnation(run->peers[to].host), &word, sizeof word,
                  false) != 0)
        a->sent[to]++;
}

static void host_run(world_t *world, size_t hosts) {
    run_t *run = world_alloc(world, sizeof *run);
    run->world = world;
    run->cluster = cluster_new(world);
    run->count = hosts > 0 ? hosts : world_between(world, 2, 6);
    if (run->count > HOSTS_MAX) run->count = HOSTS_MAX;
    place_t *places = world_alloc(world, run->count * sizeof *places);
    for (size_t i = 0; i < run->count; i++) {
        places[i] = (place_t){run, i};
        run->peers[i].host = host_new(run->cluster);
        host_room(run->peers[i].host, HOST_REFS, &ops, &places[i]);
    }
    for (int step = 0; step < STEPS && world_failure(world) == NULL; step++) {
        size_t a = world_between(world, 0, run->count - 1);
        size_t b = (a + world_between(world, 1, run->count - 1)) % run->count;
        send(run, a, b);
        misfortune(run, &run->peers[a], &run->peers[b]);
        world_run(world, world_now_ns(world) + world_between(world, 0, 20 * WORLD_MS));
    }
    for (size_t i = 0; i < run->count; i++) {
        machine_go_on(host_machine(run->peers[i].host));
        for (size_t j = 0; j < i; j++) host_heal(run->peers[i].host, run->peers[j].host);
    }
    world_run(world, world_now_ns(world) + 10 * WORLD_S);
    for (size_t i = 0; i < run->count; i++)
        for (size_t j = 0; j < run->count; j++)
            if (!machine_is_dead(host_machine(run->peers[i].host)) &&
                !machine_is_dead(host_machine(run->peers[j].host)) &&
                run->peers[i].last[j] != run->peers[j].sent[i])
                world_fail(world, "messages from %zu to %zu were lost", j, i);
    cluster_free(run->cluster);
}

const scenario_t scenario_host = {
    .name = "host",
    .checks = "messages come in order, each once; tombstones come in the same order everywhere",
    .run = host_run,
};
