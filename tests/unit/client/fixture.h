/* A client made by hand: its tables are plain memory, and the daemon is what the test puts on the
 * ring down. */
#ifndef CLIENT_FIXTURE_H
#define CLIENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"

enum { NUMBER = 3 };
static const uint64_t ARENA = 1 << 20;

static inline void *memory(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static inline mob_status_t no_grant(void *context, uint64_t size, uint64_t least,
                                    uint64_t *ret_offset, uint64_t *ret_size,
                                    uint64_t *ret_serial) {
    (void)context, (void)size, (void)least, (void)ret_offset, (void)ret_size, (void)ret_serial;
    return MOB_EFULL;
}

static int sockets[2];

/* What a client has for itself alone. */
static inline mob_client_t *client_new(uint32_t role, uint32_t number) {
    mob_client_t *c = calloc(1, sizeof *c);
    assert_non_null(c);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->events_cond, NULL);
    c->role = role;
    c->number = number;
    c->limit = 1;
    c->sock = sockets[0]; /* the daemon lives, and says nothing */
    c->own_segment.base = memory(SHM_CLIENT_BYTES);
    c->up = (shm_ring_t *)c->own_segment.base;
    c->down = (shm_ring_t *)(c->own_segment.base + SHM_CLIENT_DOWN);
    c->events = (shm_events_t *)(c->own_segment.base + SHM_CLIENT_EVENTS);
    c->pins = (_Atomic uint64_t *)(c->own_segment.base + SHM_CLIENT_PINS);
    c->local = memory((size_t)STORE_MAX_SLOTS * sizeof *c->local);
    return c;
}

static inline void client_delete(mob_client_t *c) {
    mob_events_end(c);
    shm_heap_fini(&c->heap);
    munmap(c->own_segment.base, SHM_CLIENT_BYTES);
    munmap(c->local, (size_t)STORE_MAX_SLOTS * sizeof *c->local);
    vec_free(&c->slot_pool.free);
    vec_free(&c->record_pool.free);
    vec_free(&c->orders);
    vec_free(&c->forgets);
    vec_free(&c->calls);
    free(c->slot_pool.ranges);
    free(c->record_pool.ranges);
    client_runs_free(c);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->events_cond);
    free(c);
}

static inline int client_make(void **state) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    mob_client_t *c = client_new(WIRE_DRIVER, NUMBER);
    c->incarnation = 0x0123456789abcdef;
    c->daemon_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->node = memory(sizeof *c->node);
    c->queues = memory((size_t)SHM_QUEUES * sizeof *c->queues);
    c->slots = memory((size_t)STORE_MAX_SLOTS * sizeof *c->slots);
    c->records = memory((size_t)WIRE_MAX_RECORDS * sizeof *c->records);
    c->arena.base = memory(ARENA);
    c->arena.read_only = c->arena.base;
    c->arena.size = ARENA;
    shm_extent_t *extents = memory((ARENA / SHM_GRANULE + 1) * sizeof *extents);
    c->extent_segment.base = (unsigned char *)extents;
    *state = c;
    return shm_heap_init(&c->heap, c->arena.base, ARENA, extents, no_grant, NULL);
}

static inline int client_unmake(void **state) {
    mob_client_t *c = *state, shared = *c;
    client_delete(c);
    munmap(shared.node, sizeof *shared.node);
    munmap(shared.queues, (size_t)SHM_QUEUES * sizeof *shared.queues);
    munmap(shared.slots, (size_t)STORE_MAX_SLOTS * sizeof *shared.slots);
    munmap(shared.records, (size_t)WIRE_MAX_RECORDS * sizeof *shared.records);
    munmap(shared.arena.base, ARENA);
    munmap(shared.extent_segment.base, (ARENA / SHM_GRANULE + 1) * sizeof(shm_extent_t));
    close(shared.daemon_event);
    close(sockets[0]);
    close(sockets[1]);
    return 0;
}

/* Another client of the same node. */
static inline mob_client_t *client_beside(const mob_client_t *c, uint32_t role, uint32_t number) {
    mob_client_t *other = client_new(role, number);
    other->incarnation = c->incarnation;
    other->daemon_event = c->daemon_event;
    other->node = c->node;
    other->queues = c->queues;
    other->slots = c->slots;
    other->records = c->records;
    other->arena = c->arena;
    other->extent_segment = c->extent_segment;
    shm_extent_t *extents = (shm_extent_t *)c->extent_segment.base;
    assert_int_equal(shm_heap_init(&other->heap, c->arena.base, ARENA, extents, no_grant, NULL),
                     MOB_OK);
    return other;
}

/* What the daemon would say next. */
static inline void daemon_says(mob_client_t *c, uint32_t kind, uint32_t a, uint64_t b) {
    wire_message_t m = wire_about_record(kind, a, b); /* what most of them are like */
    assert_true(shm_ring_push(c->down, SHM_DOWN_MESSAGES, &m));
}

/* The queue for calls of the actor, by a daemon that runs. */
static inline uint32_t calls_queue(mob_client_t *c, mob_ref_t actor) {
    uint32_t queue;
    assert_int_equal(client_calls_queue(c, actor, &queue), MOB_OK);
    return queue;
}

/* The next message that the daemon would read; kind 0 if there is none. */
static inline wire_message_t daemon_hears(mob_client_t *c) {
    wire_message_t m = {0};
    (void)shm_ring_pop(c->up, SHM_UP_MESSAGES, &m);
    return m;
}

static inline void daemon_hears_nothing(mob_client_t *c) {
    assert_int_equal(daemon_hears(c).kind, 0);
}

static inline void daemon_hears_only(mob_client_t *c, uint32_t kind, uint32_t a, uint64_t b) {
    wire_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, kind);
    assert_int_equal(m.record.record, a); /* an index and a generation, as most have */
    assert_int_equal(m.record.generation, b);
    daemon_hears_nothing(c);
}

static inline mob_ref_t opened(mob_client_t *c) {
    mob_ref_t ref = {0};
    if (c->slot_pool.total == 0) daemon_says(c, WIRE_SLOTS, 256, 256);
    assert_int_equal(client_slot_take(c, &ref.slot), MOB_OK);
    while (daemon_hears(c).kind != 0) {
    }
    ref.generation = store_slot_open(&c->slots[ref.slot]);
    client_local_begin(c, ref);
    return ref;
}

static inline mob_ref_t sealed(mob_client_t *c) {
    mob_ref_t ref = opened(c);
    c->slots[ref.slot].meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    store_slot_seal(&c->slots[ref.slot], false);
    return ref;
}

static inline uint64_t word_of(mob_client_t *c, mob_ref_t ref) {
    return atomic_load(&c->slots[ref.slot].word);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, client_make, client_unmake)

#endif
