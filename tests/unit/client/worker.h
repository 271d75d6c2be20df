/*
 * A worker made by hand beside a submitter that is a real client: its tasks are submitted by
 * mob_submit, so that they lie in records, slots and queues as they do in a session. The daemon is
 * what a test puts on the rings down.
 */
#ifndef CLIENT_WORKER_H
#define CLIENT_WORKER_H

#include "fixture.h"

#include <pthread.h>
#include <sched.h>

enum { SUBMITTER = 5, LANE = 0, CALLS = SHM_FIRST_CALLS + 7 };

/* The actor that the worker is, for calls. */
static mob_ref_t actor;
static mob_client_t *submitter;
static uint64_t granted; /* bytes of the arena, from its beginning */

/* The daemon's part, so far as the arena lasts. */
static inline mob_status_t grant(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                                 uint64_t *ret_size, uint64_t *ret_serial) {
    shm_extent_t *extent = (shm_extent_t *)context + granted / SHM_GRANULE;
    uint64_t bytes = shm_granule_round(granted + size > ARENA ? least : size);
    if (granted + bytes > ARENA) return MOB_EFULL;
    uint64_t serial = granted / SHM_GRANULE + 1;
    atomic_store(&extent->word, serial << 2 | SHM_EXTENT_OWNED);
    atomic_store(&extent->freed, shm_extent_count(serial, 0));
    atomic_store(&extent->used, shm_extent_count(serial, SHM_EXTENT_IN_HAND));
    *ret_offset = granted;
    *ret_size = bytes;
    *ret_serial = serial;
    granted += bytes;
    return MOB_OK;
}

static inline void memory_grant(mob_client_t *c) {
    c->heap.grant = grant;
    c->heap.context = c->extent_segment.base;
}

/* Whether the block with data at `data` is in use, for whatever. */
static inline bool block_is_used(mob_client_t *c, uint64_t data) {
    return atomic_load(&((shm_block_t *)(c->arena.base + data - sizeof(shm_block_t)))->word) != 0;
}

static inline shm_lease_t *lease(mob_client_t *c) { return &c->node->leases[c->number]; }
static inline uint32_t lease_word(mob_client_t *c) { return atomic_load(&lease(c)->word); }
static inline shm_worker_bits_t *bits(mob_client_t *c, uint32_t lane, uint32_t number) {
    return &c->node->lanes[lane].workers[number / 64];
}
static inline bool is_idle(mob_client_t *c, uint32_t number) {
    return atomic_load(&bits(c, LANE, number)->idle) & shm_node_bit(number);
}
static inline uint32_t rings(mob_client_t *c, uint32_t number) {
    return shm_bell_listen(&c->node->bells[number]);
}

/* Whether the daemon was asked to look, by client `number`, since this was asked last. */
static inline bool daemon_is_told(mob_client_t *c, uint32_t number) {
    uint64_t bit = shm_node_bit(number);
    return atomic_fetch_and(&c->node->pending[number / 64], ~bit) & bit;
}

static inline int worker_make(void **state) {
    client_make(state);
    mob_client_t *c = *state;
    c->role = WIRE_WORKER;
    c->actor = actor = (mob_ref_t){.slot = 300, .generation = 1};
    granted = 0;
    memory_grant(c);
    atomic_store(&c->node->daemon_sleeps, 1);
    atomic_store(&c->node->fast, 1);
    atomic_store(&c->node->watched, 1);
    atomic_store(&c->node->numbers, 200);
    atomic_store(&c->node->lanes[LANE].shape, MOB_SHAPE_ONE_CPU + 1);
    submitter = client_beside(c, WIRE_DRIVER, SUBMITTER);
    memory_grant(submitter);
    uint32_t index;
    daemon_says(submitter, WIRE_SLOTS, 9000, 8192);
    assert_int_equal(client_slot_take(submitter, &index), MOB_OK);
    client_slot_give(submitter, index);
    daemon_says(submitter, WIRE_RECORDS, 128, 4096);
    assert_int_equal(client_record_take(submitter, &index), MOB_OK);
    client_record_give(submitter, index);
    while (daemon_hears(submitter).kind != 0) {
    }
    (void)daemon_is_told(c, SUBMITTER);
    return 0;
}

/* ---- the submitter's part ---- */

/* A task or call that was submitted: its record and its result. */
typedef struct {
    uint32_t record;
    uint64_t generation;
    mob_ref_t result;
} task_t;

static inline wire_record_t *record_of(task_t task) { return &submitter->records[task.record]; }
static inline uint64_t record_word(task_t task) { return atomic_load(&record_of(task)->word); }
static inline uint64_t entry_of(task_t task) { return wire_entry(task.record, task.generation); }

/* Submitted, whatever `task` says; the rest of it is filled in. */
static inline task_t submitted(mob_task_t task) {
    task_t made;
    task.name = "work";
    task.name_size = 4;
    task.num_returns = 1;
    /* the record that the pool gives out next */
    assert_int_equal(client_record_take(submitter, &made.record), MOB_OK);
    client_record_give(submitter, made.record);
    made.generation = wire_word_generation(record_word(made)) + 1;
    assert_int_equal(mob_submit(submitter, &task, &made.result), MOB_OK);
    assert_int_equal(wire_word_generation(record_word(made)), made.generation);
    return made;
}

/* Into the submitter's queue. */
static inline task_t pushed(void) {
    return submitted((mob_task_t){.kind = MOB_TASK, .shape = MOB_SHAPE_ONE_CPU});
}

/* To the daemon, for it has a demand that no lane is for. */
static inline task_t sent(mob_task_t task) {
    task.shape = 77;
    task_t made = submitted(task);
    while (daemon_hears(submitter).kind != 0) {
    }
    return made;
}

static inline void daemon_tells_to_run(mob_client_t *c, task_t task) {
    daemon_says(c, WIRE_RUN, task.record, task.generation);
}

/* A call into the queue CALLS. */
static inline task_t called(const mob_ref_t *dep) {
    submitter->local[actor.slot] =
        (client_local_t){.count = 1, .generation = (uint32_t)actor.generation, .queue = CALLS};
    return submitted((mob_task_t){
        .kind = MOB_ACTOR_CALL, .actor = actor, .deps = dep, .dep_count = dep != NULL});
}

/* A call of a concurrency group. */
static inline task_t called_in(uint8_t group, const mob_ref_t *dep) {
    submitter->local[actor.slot] =
        (client_local_t){.count = 1, .generation = (uint32_t)actor.generation, .queue = CALLS};
    return submitted((mob_task_t){.kind = MOB_ACTOR_CALL,
                                  .actor = actor,
                                  .group = group,
                                  .deps = dep,
                                  .dep_count = dep != NULL});
}

/* As the daemon takes a task back, out of a queue or from a worker. */
static inline void taken_back(task_t task) {
    assert_true(wire_record_move(record_of(task), wire_word(task.generation, 0, WIRE_READY_STATE),
                                 wire_word(task.generation + 1, 0, WIRE_READY_STATE), NULL));
}

/* ---- the worker's part ---- */

static inline void lease_give(mob_client_t *c) {
    atomic_store(&lease(c)->lane, LANE);
    atomic_store(&lease(c)->word, SHM_LEASE_FREE);
}

static inline mob_run_t *taken(mob_client_t *c) {
    mob_run_t *run = NULL;
    assert_int_equal(mob_run_try(c, &run), MOB_OK);
    return run;
}

static inline void takes_nothing(mob_client_t *c, mob_status_t expected) {
    mob_run_t *run = NULL;
    assert_int_equal(mob_run_try(c, &run), expected);
    assert_null(run);
}

/* Whether it is this task's. */
static inline bool runs(const mob_run_t *run, task_t task) {
    return run->task_id.slot == task.record && run->task_id.generation == task.generation;
}

/* Stores a result of so many bytes. */
static inline void result_store(mob_client_t *c, mob_run_t *run, size_t size, mob_status_t error) {
    mob_buffer_t buffer;
    assert_int_equal(mob_run_result_begin(c, run, 0, size, 0, &buffer), MOB_OK);
    memset(buffer.data, 'r', size);
    mob_run_result_commit(c, run, 0, &buffer, MOB_FORMAT_DIRECT, error, NULL);
}

static inline void finished(mob_client_t *c, mob_run_t *run) {
    result_store(c, run, 1, MOB_OK);
    mob_run_finish(c, run);
}

/* A thread of the worker that sleeps. */
static inline pthread_t sleeper_start(mob_client_t *c, void *(*run)(void *), void *context) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, context), 0);
    while (atomic_load(&c->node->bells[c->number].sleepers) == 0) sched_yield();
    return thread;
}

/* What a test has left is finished: this thread counts its runs, and the next test begins without
 * any. */
static inline int worker_unmake(void **state) {
    mob_client_t *c = *state;
    for (client_run_t *run = c->runs; run != NULL; run = run->next) {
        const client_run_t *unused = c->free_runs;
        while (unused != NULL && unused != run) unused = unused->next_free;
        if (unused == NULL) mob_run_finish(c, &run->run);
    }
    assert_int_equal(c->running, 0);
    client_delete(submitter);
    return client_unmake(state);
}

#define WORKER_TEST(name) cmocka_unit_test_setup_teardown(name, worker_make, worker_unmake)

#endif
