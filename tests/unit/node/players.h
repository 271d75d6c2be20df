/* Submitters and workers played by hand, against the node's real state: pushes, takes, leases. */
#ifndef NODE_PLAYERS_H
#define NODE_PLAYERS_H

#include "fixture.h"

#include <unistd.h>

#include "base/clock.h"

enum { CPUS = 4, RECALL_MS = 10 };

/* A process that submits: what it was granted. */
typedef struct {
    node_client_t *client;
    uint32_t next_slot, next_record;
} submitter_t;

static node_t *n;
static submitter_t driver;

static inline node_client_t *client_new(uint32_t role) {
    node_client_t *c = fixture_client_new(n, role);
    c->events = (shm_events_t *)(c->segment.base + SHM_CLIENT_EVENTS);
    c->pid = 0; /* nobody's: a kill would find no process */
    return c;
}

static inline submitter_t submitter_of(node_client_t *client) {
    submitter_t s = {.client = client};
    node_grant_slots(client, STORE_SLOT_BLOCK);
    s.next_slot = fixture_heard(client).grant.first;
    node_grant_records(client, WIRE_RECORD_BLOCK);
    s.next_record = fixture_heard(client).grant.first;
    return s;
}

static inline node_client_t *worker_new(void) {
    node_client_t *w = client_new(WIRE_WORKER);
    node_worker_free(w);
    return w;
}

static inline int setup(void **state) {
    (void)state;
    n = fixture_node_new(64 * SHM_GRANULE);
    n->config.fast = true;
    atomic_store(&n->shared->fast, 1);
    node_lane_open(JOB(n), MOB_SHAPE_ONE_CPU);
    JOB(n)->driver = client_new(WIRE_DRIVER);
    driver = submitter_of(JOB(n)->driver);
    return 0;
}

static inline int teardown(void **state) {
    (void)state;
    JOB(n)->driver = NULL;
    vec_free(&n->queued.done_early);
    vec_free(&n->actors.held);
    fixture_node_free(n);
    return 0;
}

static inline int64_t cpus_free(void) { return node_cpus_free(n) / SCHED_UNIT; }
static inline store_slot_t *slot_of(mob_ref_t ref) { return &n->slots[ref.slot]; }
static inline uint64_t word_of(mob_ref_t ref) { return atomic_load(&slot_of(ref)->word); }
static inline mob_status_t error_of(mob_ref_t ref) { return store_meta_error(slot_of(ref)->meta); }
static inline uint64_t record_word(uint32_t record) {
    return atomic_load(&n->records[record].word);
}
static inline uint64_t generation_of(uint32_t record) {
    return wire_word_generation(record_word(record));
}
static inline shm_lease_t *lease_of(const node_client_t *w) {
    return &n->shared->leases[w->number];
}
static inline uint32_t lease_word(const node_client_t *w) {
    return atomic_load(&lease_of(w)->word);
}

/* ---- a submitter's part ---- */

static const mob_ref_t NONE = {0};

static inline mob_ref_t slot_open(submitter_t *s) {
    mob_ref_t ref = {.slot = s->next_slot++};
    ref.generation = store_slot_open(slot_of(ref));
    return ref;
}

static inline void slot_seal(mob_ref_t ref) {
    slot_of(ref)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    store_slot_seal(slot_of(ref), false);
}

/* A task's record, published. */
static inline uint32_t record_fill(submitter_t *s, mob_ref_t result, mob_ref_t dep,
                                   int32_t max_retries, bool known) {
    uint32_t index = s->next_record++;
    fixture_record_publish(fixture_record_fill(n, index, MOB_TASK, result, dep, max_retries),
                           known);
    return index;
}

static inline void queue_push(submitter_t *s, uint32_t record) {
    uint32_t number = s->client->number;
    assert_true(shm_queue_push(&n->queues[number], wire_entry(record, generation_of(record))));
    atomic_fetch_or(&n->shared->lanes[0].queued[number / 64], shm_node_bit(number));
}

/* Pushes a task; if no worker looks, the daemon is told, and then it does this. */
static inline uint32_t push(submitter_t *s, mob_ref_t result, int32_t max_retries) {
    uint32_t record = record_fill(s, result, NONE, max_retries, false);
    queue_push(s, record);
    node_schedule(n);
    return record;
}

/* The same for a task of as many CPUs, in their lane. */
static inline uint32_t push_cpus(submitter_t *s, uint64_t cpus, uint32_t *ret_lane) {
    uint32_t record = record_fill(s, slot_open(s), NONE, 0, false), number = s->client->number,
             shape;
    sched_amount_t demand = {.name = "CPU", .amount = cpus * SCHED_UNIT};
    assert_int_equal(sched_shape_intern(JOB(n)->sched, &demand, 1, &shape), MOB_OK);
    node_lane_open(JOB(n), shape);
    *ret_lane = 0;
    while (*ret_lane < SHM_LANES && atomic_load(&n->shared->lanes[*ret_lane].shape) != shape + 1)
        (*ret_lane)++;
    assert_true(*ret_lane < SHM_LANES);
    n->records[record].shape = shape;
    assert_true(shm_queue_push(&n->queues[shm_lane_queue(*ret_lane, number)],
                               wire_entry(record, generation_of(record))));
    atomic_fetch_or(&n->shared->lanes[*ret_lane].queued[number / 64], shm_node_bit(number));
    node_schedule(n);
    return record;
}

/* A task that goes through the daemon, of as many CPUs. */
static inline uint32_t submit(uint64_t cpus) {
    uint32_t record = record_fill(&driver, slot_open(&driver), NONE, 0, true);
    sched_amount_t demand = {.name = "CPU", .amount = cpus * SCHED_UNIT};
    assert_int_equal(sched_shape_intern(JOB(n)->sched, &demand, 1, &n->records[record].shape),
                     MOB_OK);
    fixture_say(JOB(n)->driver, WIRE_SUBMIT, record, generation_of(record));
    assert_non_null(n->tasks[record]);
    node_schedule(n);
    return record;
}

static inline uint32_t push_with_argument(mob_ref_t *ret_argument, mob_ref_t *ret_result) {
    *ret_argument = slot_open(&driver);
    slot_seal(*ret_argument);
    *ret_result = slot_open(&driver);
    uint32_t record = record_fill(&driver, *ret_result, *ret_argument, 3, true);
    queue_push(&driver, record);
    node_schedule(n);
    return record;
}

/* ---- a worker's part ---- */

/* Takes the first entry of a queue that can be had; its record. */
static inline uint32_t take(node_client_t *w, submitter_t *s) {
    if (lease_word(w) == SHM_LEASE_FREE)
        assert_true(shm_lease_move(lease_of(w), SHM_LEASE_FREE, SHM_LEASE_BUSY));
    assert_int_equal(lease_word(w) & SHM_LEASE_STATE, SHM_LEASE_BUSY);
    shm_queue_t *q = &n->queues[s->client->number];
    for (uint64_t position = 0, entry = 0; shm_queue_peek(q, &position, &entry);) {
        uint32_t record = wire_entry_index(entry);
        uint64_t word = record_word(record), generation = wire_word_generation(word);
        bool claimed =
            wire_entry_names(entry, word) &&
            wire_record_move(&n->records[record], wire_word(generation, 0, WIRE_READY_STATE),
                             wire_word(generation, w->number, WIRE_TAKEN), NULL);
        shm_queue_pass(q, position);
        if (!claimed) continue;
        atomic_store(&lease_of(w)->run, record + 1);
        return record;
    }
    fail_msg("nothing is in the queue");
    return 0;
}

/* TAKEN to DONE, whoever told the worker to run it; whether the daemon keeps a book on it. */
static inline bool commit(node_client_t *w, uint32_t record) {
    uint64_t generation = generation_of(record);
    bool known = false;
    assert_true(wire_record_move(&n->records[record], wire_word(generation, w->number, WIRE_TAKEN),
                                 wire_word(generation, w->number, WIRE_DONE_STATE), &known));
    return known;
}

/* The end of a task that was taken from a queue. */
static inline void finish(node_client_t *w, uint32_t record, mob_ref_t result) {
    uint64_t generation = generation_of(record);
    bool known = commit(w, record);
    if (result.slot != 0) slot_seal(result);
    if (known)
        fixture_say(w, WIRE_DONE, record, generation);
    else
        atomic_store(&n->records[record].word, wire_word(generation, 0, WIRE_FREE));
    atomic_store(&lease_of(w)->run, 0);
}

static inline void rest(node_client_t *w) {
    assert_true(shm_lease_move(lease_of(w), SHM_LEASE_BUSY, SHM_LEASE_FREE));
}

/* BUSY|RECALL to NONE, between two tasks. */
static inline void give_back(node_client_t *w) {
    assert_int_equal(lease_word(w), SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    atomic_store(&lease_of(w)->word, SHM_LEASE_NONE);
    fixture_say(w, WIRE_LEASE, 0, 0);
    node_schedule(n);
}

static inline bool told_to_run(node_client_t *w, uint32_t record) {
    wire_message_t run = fixture_heard(w);
    return run.kind == WIRE_RUN && run.run.record == record &&
           run.run.generation == generation_of(record);
}

/* Runs what it was told to, to the end. */
static inline void run(node_client_t *w, uint32_t record, mob_ref_t result) {
    uint64_t generation = generation_of(record);
    assert_true(told_to_run(w, record));
    assert_true(wire_record_move(&n->records[record], wire_word(generation, 0, WIRE_READY_STATE),
                                 wire_word(generation, w->number, WIRE_TAKEN), NULL));
    commit(w, record);
    if (result.slot != 0) slot_seal(result);
    fixture_say(w, WIRE_DONE, record, generation);
    node_schedule(n);
}

/* A worker with a lease that has taken a task; ret_result may be NULL. */
static inline node_client_t *busy_worker(int32_t max_retries, uint32_t *ret_record,
                                         mob_ref_t *ret_result) {
    node_client_t *w = worker_new();
    mob_ref_t result = slot_open(&driver);
    uint32_t record = push(&driver, result, max_retries);
    assert_true(w->leased);
    assert_int_equal(take(w, &driver), record);
    if (ret_record != NULL) *ret_record = record;
    if (ret_result != NULL) *ret_result = result;
    return w;
}

static inline void busy_workers(node_client_t **ret_workers, uint32_t *ret_records) {
    for (int i = 0; i < CPUS; i++) ret_workers[i] = busy_worker(0, &ret_records[i], NULL);
    assert_int_equal(n->leases.given, CPUS);
    assert_int_equal(cpus_free(), 0);
}

static inline size_t recalled(node_client_t *const *workers, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) found += (lease_word(workers[i]) & SHM_LEASE_RECALL) != 0;
    return found;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
