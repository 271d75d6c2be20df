/*
 * A message begins with who sent it to whom, as which, and whether it is a request; the rest is a
 * pattern. A peer answers requests one after the other, in its own time, and only then has
 * processed them. Now and then it has no memory for a message.
 */
#include "sim/peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { WORD_SIZE = 25, REQUEST = 1, ANSWER = 2 };

/* The hello of a connection, as far as it came. */
typedef struct {
    uint8_t bytes[LINK_HELLO_SIZE];
    size_t size;
} door_t;

static uint64_t now_of(const peer_t *peer) { return machine_clock_ns(peer->machine); }
static world_t *world_of(const tie_t *tie) { return tie->owner->all->world; }
static void work(void *context, uint64_t argument);

/* A line of the story, of one peer about another. */
static void tell(const tie_t *tie, const char *what, uint64_t number) {
    world_tell(world_of(tie), "%zu of %zu: %s %llu", tie->owner->address, tie->other->address, what,
               (unsigned long long)number);
}

/* ---- messages ---- */

static uint8_t pattern(uint64_t number, size_t i) { return (uint8_t)(number * 31 + i * 7); }

static link_message_t *message_make(tie_t *tie, uint8_t kind, size_t size) {
    if (size < WORD_SIZE) size = WORD_SIZE;
    link_message_t *message;
    if (link_message_new(size, &message) != MOB_OK) abort();
    uint8_t *bytes = link_message_bytes(message);
    base_writer_t w = {bytes, 0};
    base_put_number(&w, tie->owner->incarnation, 8);
    base_put_number(&w, tie->other->incarnation, 8);
    base_put_number(&w, tie->sent + 1, 8);
    base_put_number(&w, kind, 1);
    for (size_t i = WORD_SIZE; i < size; i++) bytes[i] = pattern(tie->sent + 1, i);
    return message;
}

static bool message_send(tie_t *tie, uint8_t kind, size_t size) {
    link_message_t *message = message_make(tie, kind, size);
    uint64_t sequence = 0;
    if (link_send(tie->link, message, kind == ANSWER, &sequence) != MOB_OK) {
        link_message_free(message);
        return false;
    }
    if (sequence != ++tie->sent) world_fail(world_of(tie), "a message was given a wrong number");
    return true;
}

void tie_request(tie_t *tie, size_t size) {
    if (tie->leaves || tie->is_closed || !machine_is_up(tie->owner->machine)) return;
    if (size < WORD_SIZE) size = WORD_SIZE;
    bool has_room = link_has_room(tie->link), is_sent = message_send(tie, REQUEST, size);
    if (has_room != is_sent) world_fail(world_of(tie), "there was room, and a request was refused");
    tie->wants_room = !is_sent;
    if (is_sent) {
        tie->unanswered++;
        tie->requests_cost += size + LINK_MESSAGE_COST;
    }
    link_flush(tie->link, now_of(tie->owner));
}

void tie_leave(tie_t *tie) {
    if (tie->leaves || tie->is_closed) return;
    tie->leaves = true;
    link_leave(tie->link);
    tie->sent++;
    link_flush(tie->link, now_of(tie->owner));
}

static void work_later(tie_t *tie) {
    if (tie->works || tie->inbox.count == 0) return;
    tie->works = true;
    peers_t *all = tie->owner->all;
    machine_later(tie->owner->machine, world_between(all->world, 0, all->work_ns), 0, work, tie, 0);
}

/* Answers the oldest request. One that it can't answer now waits, and all behind it. */
static void work(void *context, uint64_t argument) {
    (void)argument;
    tie_t *tie = context;
    tie->works = false;
    if (tie->is_closed || tie->inbox.count == 0) return;
    size_t size = tie->inbox.items[0];
    bool is_large = base_random_chance(world_random(world_of(tie)), 1, 10);
    size_t most = is_large ? tie->owner->all->message_max : 200;
    size_t answer = (size_t)world_between(world_of(tie), 0, most);
    if (tie->leaves || message_send(tie, ANSWER, answer)) {
        link_processed(tie->link, size);
        tie->done_cost += size + LINK_MESSAGE_COST;
        tie->inbox.count--;
        memmove(tie->inbox.items, tie->inbox.items + 1, tie->inbox.count * sizeof size);
        link_flush(tie->link, now_of(tie->owner));
    }
    work_later(tie);
}

static void message_check(tie_t *tie, uint64_t sequence, const uint8_t *bytes, size_t size,
                          uint8_t *ret_kind) {
    world_t *world = world_of(tie);
    base_reader_t r = {bytes, size, false};
    uint64_t from = base_take_number(&r, 8), to = base_take_number(&r, 8);
    uint64_t number = base_take_number(&r, 8);
    *ret_kind = (uint8_t)base_take_number(&r, 1);
    if (from != tie->other->incarnation || to != tie->owner->incarnation)
        world_fail(world, "a message came to another incarnation than it was for");
    else if (number != tie->seen + 1 || sequence != number)
        world_fail(world, "message %llu came as %llu after %llu", (unsigned long long)number,
                   (unsigned long long)sequence, (unsigned long long)tie->seen);
    for (size_t i = WORD_SIZE; i < size; i++)
        if (bytes[i] != pattern(number, i)) {
            world_fail(world, "a message is not what was sent");
            return;
        }
}

/* ---- what a link says ---- */

static bool on_receive(void *context, uint64_t sequence, const void *bytes, size_t size) {
    tie_t *tie = context;
    world_t *world = world_of(tie);
    if (tie->is_closed) world_fail(world, "a message of a dead node was received");
    if (tie->has_left) world_fail(world, "a message came after the goodbye");
    if (tie->reading != tie->newest)
        world_fail(world, "a message was read from a connection after the next one was greeted");
    if (!tie->owner->all->is_calm && base_random_chance(world_random(world), 1, 300)) return false;
    uint8_t kind = 0;
    message_check(tie, sequence, bytes, size, &kind);
    tie->seen++;
    if (kind == ANSWER) {
        tie->unanswered--;
        link_processed(tie->link, size);
        return true;
    }
    if (!vec_push(&tie->inbox, size)) abort();
    work_later(tie);
    return true;
}

static void on_goodbye(void *context) {
    tie_t *tie = context;
    tie->seen++;
    tie_t *back = peer_tie(tie->other, tie->owner);
    if (!back->leaves || tie->seen != back->sent || tie->has_left)
        world_fail(world_of(tie), "a goodbye came that was not the last message");
    tie->has_left = true;
}

static void on_room(void *context) {
    tie_t *tie = context;
    if (!link_has_room(tie->link)) world_fail(world_of(tie), "there is no room, but it was told");
    tie->wants_room = false;
}

/* A stop that was too short to be noticed excuses nobody. */
static uint64_t looked_since(const tie_t *tie) {
    uint64_t since = tie->read_ns > tie->made_ns ? tie->read_ns : tie->made_ns;
    const peer_t *owner = tie->owner;
    bool was_long = owner->woke_ns - owner->stopped_ns > LINK_LATE_NS + LINK_LATE_NS / 100;
    return was_long && owner->woke_ns > since ? owner->woke_ns : since;
}

static void on_silent(void *context, bool silent) {
    tie_t *tie = context;
    world_t *world = world_of(tie);
    if (silent == tie->is_silent) world_fail(world, "what was known of its silence was told again");
    tie->is_silent = silent;
    tell(tie, "silent", silent);
    tie->silent_ns = world_now_ns(world);
    uint64_t looked_ns = tie->silent_ns - looked_since(tie);
    if (silent && looked_ns < LINK_SILENCE_NS - LINK_SILENCE_NS / 500)
        world_fail(world, "a peer is silent after %.3f s", (double)looked_ns / 1e9);
}

static void on_beat(void *context, uint64_t age_ms) {
    tie_t *tie = context;
    if (age_ms != tie->other->incarnation % 1000)
        world_fail(world_of(tie), "a heartbeat says something else");
    tie->beat_ns = world_now_ns(world_of(tie));
}

static void on_refused(void *context) {
    tie_t *tie = context;
    if (!tie->owner->is_buried) world_fail(world_of(tie), "a node was told to be dead that is not");
}

/* ---- what a link asks for ---- */

static void connection_add(tie_t *tie, uint64_t end) {
    if (!base_map_put(&tie->owner->ends, &end, tie)) abort();
    tie->newest = end;
}

static void connection_remove(tie_t *tie, uint64_t end) {
    base_map_remove(&tie->owner->ends, &end);
}

static uint64_t op_dial(void *context) {
    tie_t *tie = context;
    if (tie->is_closed) return 0;
    if (!vec_push(&tie->dials, world_now_ns(world_of(tie)))) abort();
    uint64_t end = net_dial(tie->owner->all->net, tie->owner->address, tie->other->address);
    connection_add(tie, end);
    tell(tie, "dials", end);
    return end;
}

static size_t op_write(void *context, uint64_t end, const link_piece_t *pieces, size_t count) {
    tie_t *tie = context;
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = net_write(tie->owner->all->net, end, pieces[i].bytes, pieces[i].size);
        taken += size;
        if (size < pieces[i].size) break;
    }
    return taken;
}

static void op_end(void *context, uint64_t end) {
    tie_t *tie = context;
    tell(tie, "ends", end);
    connection_remove(tie, end);
    net_end(tie->owner->all->net, end);
}

static const link_ops_t link_ops = {.dial = op_dial,
                                    .write = op_write,
                                    .end = op_end,
                                    .receive = on_receive,
                                    .room = on_room,
                                    .silent = on_silent,
                                    .beat = on_beat,
                                    .goodbye = on_goodbye,
                                    .refused = on_refused};

/* ---- what the net says ---- */

static void net_accepted(void *context, uint64_t end) {
    peer_t *peer = context;
    if (!base_map_put(&peer->doors, &end, world_alloc(peer->all->world, sizeof(door_t)))) abort();
}

static void door_close(peer_t *peer, uint64_t end) {
    world_release(peer->all->world, base_map_remove(&peer->doors, &end));
}

/* The hello is there: it goes to the link that it is for, or the connection is ended. */
static void door_open(peer_t *peer, uint64_t end, const door_t *door) {
    link_hello_t hello;
    if (link_hello_read(door->bytes, &hello) != MOB_OK) {
        world_fail(peer->all->world, "a hello was not understood");
        return;
    }
    tie_t *tie = base_map_get(&peer->ties, &hello.from);
    mob_status_t status = MOB_ESTALE;
    if (tie != NULL) status = link_accept(tie->link, end, &hello, now_of(peer));
    if (tie != NULL) tell(tie, status == MOB_OK ? "accepts" : "refuses", end);
    if (status == MOB_EPROTO) world_fail(peer->all->world, "a hello asks for what can't be");
    if (status == MOB_OK || status == MOB_EEXISTS) tie->read_ns = world_now_ns(peer->all->world);
    if (status == MOB_ECLOSED) {
        uint8_t refusal[LINK_REFUSAL_SIZE];
        link_refusal_write(&hello, refusal);
        net_write(peer->all->net, end, refusal, sizeof refusal);
    }
    if (status != MOB_OK) {
        net_end(peer->all->net, end);
        return;
    }
    connection_add(tie, end);
}

static void net_received(void *context, uint64_t end, const void *bytes, size_t size) {
    peer_t *peer = context;
    door_t *door = base_map_get(&peer->doors, &end);
    const uint8_t *at = bytes;
    if (door != NULL) {
        size_t n = LINK_HELLO_SIZE - door->size;
        if (n > size) n = size;
        memcpy(door->bytes + door->size, at, n);
        door->size += n;
        if (door->size < LINK_HELLO_SIZE) return;
        door_open(peer, end, door);
        door_close(peer, end);
        at += n;
        size -= n;
    }
    tie_t *tie = base_map_get(&peer->ends, &end);
    if (tie == NULL || size == 0) return;
    tie->read_ns = world_now_ns(peer->all->world);
    tie->reading = end;
    if (link_received(tie->link, end, at, size, now_of(peer)) == MOB_EPROTO)
        world_fail(peer->all->world, "a peer that keeps to the protocol is said not to");
}

static void net_connected(void *context, uint64_t end) {
    peer_t *peer = context;
    tie_t *tie = base_map_get(&peer->ends, &end);
    if (tie == NULL) return;
    tell(tie, "is connected by", end);
    link_connected(tie->link, end, now_of(peer));
}

static void net_writable(void *context, uint64_t end) {
    peer_t *peer = context;
    tie_t *tie = base_map_get(&peer->ends, &end);
    if (tie != NULL) link_writable(tie->link, end);
}

static void net_ended(void *context, uint64_t end) {
    peer_t *peer = context;
    door_close(peer, end);
    tie_t *tie = base_map_get(&peer->ends, &end);
    if (tie == NULL) return;
    tell(tie, "is told of the end of", end);
    connection_remove(tie, end);
    link_ended(tie->link, end, now_of(peer));
}

static const net_ops_t net_ops = {.accepted = net_accepted,
                                  .connected = net_connected,
                                  .received = net_received,
                                  .writable = net_writable,
                                  .ended = net_ended};

/* ---- its life ---- */

static void tick(void *context, uint64_t argument) {
    (void)argument;
    peer_t *peer = context;
    for (size_t i = 0; i < peer->tie_list.count; i++)
        link_tick(peer->tie_list.items[i]->link, now_of(peer), peer->incarnation % 1000);
    machine_later(peer->machine, LINK_TICK_NS, 0, tick, peer, 0);
}

static void wake(void *context) {
    peer_t *peer = context;
    peer->woke_ns = world_now_ns(peer->all->world);
}

peer_t *peer_new(peers_t *all, size_t address) {
    peer_t *peer = world_alloc(all->world, sizeof *peer);
    peer->all = all;
    peer->machine = machine_new(all->world);
    peer->incarnation = base_random_next(world_random(all->world)) | 1;
    peer->address = address;
    base_map_init(&peer->ties, sizeof(uint64_t));
    base_map_init(&peer->doors, sizeof(uint64_t));
    base_map_init(&peer->ends, sizeof(uint64_t));
    machine_on_wake(peer->machine, wake, peer);
    net_listen(all->net, address, peer->machine, &net_ops, peer);
    machine_later(peer->machine, world_between(all->world, 0, LINK_TICK_NS), 0, tick, peer, 0);
    return peer;
}

void peer_free(peer_t *peer) {
    for (size_t i = 0; i < peer->tie_list.count; i++) {
        tie_t *tie = peer->tie_list.items[i];
        link_free(tie->link);
        vec_free(&tie->inbox);
        vec_free(&tie->dials);
    }
    vec_free(&peer->tie_list);
    base_map_fini(&peer->ties);
    base_map_fini(&peer->doors);
    base_map_fini(&peer->ends);
    machine_free(peer->machine);
}

tie_t *peer_tie(const peer_t *peer, const peer_t *other) {
    return base_map_get(&peer->ties, &other->incarnation);
}

tie_t *peer_meet(peer_t *peer, peer_t *other) {
    tie_t *tie = peer_tie(peer, other);
    if (tie != NULL) return tie;
    tie = world_alloc(peer->all->world, sizeof *tie);
    tie->owner = peer;
    tie->other = other;
    tie->made_ns = world_now_ns(peer->all->world);
    if (link_new(&link_ops, tie, peer->incarnation, other->incarnation, peer->all->room_bytes,
                 now_of(peer), &tie->link) != MOB_OK)
        abort();
    if (!base_map_put(&peer->ties, &other->incarnation, tie)) abort();
    if (!vec_push(&peer->tie_list, tie)) abort();
    return tie;
}

void tie_close(tie_t *tie) {
    if (tie->is_closed) return;
    tie->is_closed = true;
    link_close(tie->link);
}

void peer_stop(peer_t *peer) {
    if (!machine_is_up(peer->machine)) return;
    peer->stopped_ns = world_now_ns(peer->all->world);
    machine_stop(peer->machine);
}

void peer_go_on(peer_t *peer) { machine_go_on(peer->machine); }

void peer_kill(peer_t *peer) {
    if (machine_is_dead(peer->machine)) return;
    machine_kill(peer->machine);
    net_crash(peer->all->net, peer->address);
}
