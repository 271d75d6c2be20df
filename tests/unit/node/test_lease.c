/* Leases from the daemon's side: the test plays the submitters, which push into their queues, and the workers, which move their leases' words. */
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

static node_client_t *client_new(uint32_t role) {
    node_client_t *c = fixture_client_new(n, role);
    c->events = (shm_events_t *)(c->segment.base + SHM_CLIENT_EVENTS);
    c->pid = 0; /* nobody's: a kill would find no process */
    atomic_store(&n->shared->numbers, n->client_next);
    return c;
}

static submitter_t submitter_of(node_client_t *client) {
    submitter_t s = {.client = client};
    node_memory_slots(client, STORE_SLOT_BLOCK);
    s.next_slot = fixture_heard(client).a;
    node_memory_records(client, WIRE_RECORD_BLOCK);
    s.next_record = fixture_heard(client).a;
    return s;
}

static node_client_t *worker_new(void) {
    node_client_t *w = client_new(WIRE_WORKER);
    node_worker_free(w);
    return w;
}

static int setup(void **state) {
    (void)state;
    n = fixture_node_new(64 * SHM_GRANULE);
    n->fast = true;
    atomic_store(&n->shared->fast, 1);
    n->driver = client_new(WIRE_DRIVER);
    driver = submitter_of(n->driver);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    n->driver = NULL;
    vec_free(&n->done_early);
    fixture_node_free(n);
    return 0;
}

static int64_t cpus_free(void) { return node_cpus_free(n) / SCHED_UNIT; }
static store_slot_t *slot_of(mob_ref_t ref) { return &n->slots[ref.slot]; }
static uint64_t word_of(mob_ref_t ref) { return atomic_load(&slot_of(ref)->word); }
static mob_status_t error_of(mob_ref_t ref) { return store_meta_error(slot_of(ref)->meta); }
static uint64_t record_word(uint32_t record) { return atomic_load(&n->records[record].word); }
static uint64_t generation_of(uint32_t record) { return wire_word_generation(record_word(record)); }
static shm_lease_t *lease_of(const node_client_t *w) { return &n->shared->leases[w->number]; }
static uint32_t lease_word(const node_client_t *w) { return atomic_load(&lease_of(w)->word); }

/* ---- a submitter's part ---- */

static const mob_ref_t NONE = {0};

static mob_ref_t slot_open(submitter_t *s) {
    mob_ref_t ref = {.slot = s->next_slot++};
    ref.generation = store_slot_open(slot_of(ref));
    return ref;
}

static void slot_seal(mob_ref_t ref) {
    slot_of(ref)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    store_slot_seal(slot_of(ref), false);
}

/* Fills a record for one return and at most one argument, as a client does, and publishes it. */
static uint32_t record_fill(submitter_t *s, mob_ref_t result, mob_ref_t dep, int32_t max_retries, bool known) {
    uint32_t index = s->next_record++;
    wire_record_t *r = &n->records[index];
    uint64_t generation = generation_of(index) + 1;
    *r = (wire_record_t){
        .kind = MOB_TASK, .shape = n->cpu_shape, .max_retries = max_retries, .num_returns = 1, .name_size = 4};
    r->num_deps = dep.slot != 0;
    memcpy(r->body, &result, sizeof result);
    memcpy(r->body + sizeof result, &dep, sizeof dep);
    memcpy(r->body + (1 + r->num_deps) * sizeof result, "work", 4);
    r->body_size = wire_body_size(1, r->num_deps, 0, 4, 0);
    if (dep.slot != 0) atomic_fetch_or(&slot_of(dep)->word, STORE_ESCAPED);
    atomic_store(&r->word, wire_word(generation, 0, WIRE_READY_STATE | (known ? WIRE_KNOWN : 0)));
    return index;
}

static void queue_push(submitter_t *s, uint32_t record) {
    uint32_t number = s->client->number;
    assert_true(shm_queue_push(&n->queues[number], wire_entry(record, generation_of(record))));
    atomic_fetch_or(&n->shared->queued[number / 64], shm_node_bit(number));
}

/* Pushes a task; if no worker looks, the daemon is told, and then it does this. */
static uint32_t push(submitter_t *s, mob_ref_t result, int32_t max_retries) {
    uint32_t record = record_fill(s, result, NONE, max_retries, false);
    queue_push(s, record);
    node_schedule(n);
    return record;
}

/* A task that goes through the daemon, of as many CPUs. */
static uint32_t submit(uint64_t cpus) {
    uint32_t record = record_fill(&driver, slot_open(&driver), NONE, 0, true);
    sched_amount_t demand = {.name = "CPU", .amount = cpus * SCHED_UNIT};
    assert_int_equal(sched_shape_intern(n->sched, &demand, 1, &n->records[record].shape), MOB_OK);
    fixture_say(n->driver, WIRE_SUBMIT, record, generation_of(record));
    assert_non_null(n->tasks[record]);
    node_schedule(n);
    return record;
}

/* ---- a worker's part ---- */

/* Takes the first entry of a queue that can be had; its record. */
static uint32_t take(node_client_t *w, submitter_t *s) {
    if (lease_word(w) == SHM_LEASE_FREE) assert_true(shm_lease_move(lease_of(w), SHM_LEASE_FREE, SHM_LEASE_BUSY));
    assert_int_equal(lease_word(w) & SHM_LEASE_STATE, SHM_LEASE_BUSY);
    shm_queue_t *q = &n->queues[s->client->number];
    for (uint64_t position = 0, entry = 0; shm_queue_peek(q, &position, &entry);) {
        uint32_t record = wire_entry_index(entry);
        uint64_t word = record_word(record), generation = wire_word_generation(word);
        bool claimed = wire_entry_names(entry, word) &&
                       wire_record_move(&n->records[record], wire_word(generation, 0, WIRE_READY_STATE),
                                        wire_word(generation, w->number, WIRE_TAKEN), NULL);
        shm_queue_pass(q, position);
        if (!claimed) continue;
        atomic_store(&lease_of(w)->job, record + 1);
        return record;
    }
    fail_msg("nothing is in the queue");
    return 0;
}

/* TAKEN to DONE, whoever told the worker to run it; whether the daemon keeps a book on it. */
static bool commit(node_client_t *w, uint32_t record) {
    uint64_t generation = generation_of(record);
    bool known = false;
    assert_true(wire_record_move(&n->records[record], wire_word(generation, w->number, WIRE_TAKEN),
                                 wire_word(generation, w->number, WIRE_DONE_STATE), &known));
    return known;
}

/* The end of a task that was taken from a queue. */
static void finish(node_client_t *w, uint32_t record, mob_ref_t result) {
    uint64_t generation = generation_of(record);
    bool known = commit(w, record);
    if (result.slot != 0) slot_seal(result);
    if (known)
        fixture_say(w, WIRE_DONE, record, generation);
    else
        atomic_store(&n->records[record].word, wire_word(generation, 0, WIRE_FREE));
    atomic_store(&lease_of(w)->job, 0);
}

static void rest(node_client_t *w) { assert_true(shm_lease_move(lease_of(w), SHM_LEASE_BUSY, SHM_LEASE_FREE)); }

/* BUSY|RECALL to NONE, between two tasks. */
static void give_back(node_client_t *w) {
    assert_int_equal(lease_word(w), SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    atomic_store(&lease_of(w)->word, SHM_LEASE_NONE);
    fixture_say(w, WIRE_LEASE, 0, 0);
    node_schedule(n);
}

static bool told_to_run(node_client_t *w, uint32_t record) {
    shm_message_t run = fixture_heard(w);
    return run.kind == WIRE_RUN && run.a == record && run.b == generation_of(record);
}

/* Runs what it was told to, to the end. */
static void run(node_client_t *w, uint32_t record, mob_ref_t result) {
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
static node_client_t *busy_worker(int32_t max_retries, uint32_t *ret_record, mob_ref_t *ret_result) {
    node_client_t *w = worker_new();
    mob_ref_t result = slot_open(&driver);
    uint32_t record = push(&driver, result, max_retries);
    assert_true(w->leased);
    assert_int_equal(take(w, &driver), record);
    if (ret_record != NULL) *ret_record = record;
    if (ret_result != NULL) *ret_result = result;
    return w;
}

static void busy_workers(node_client_t **ret_workers, uint32_t *ret_records) {
    for (int i = 0; i < CPUS; i++) ret_workers[i] = busy_worker(0, &ret_records[i], NULL);
    assert_int_equal(n->leases, CPUS);
    assert_int_equal(cpus_free(), 0);
}

static size_t recalled(node_client_t *const *workers, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) found += (lease_word(workers[i]) & SHM_LEASE_RECALL) != 0;
    return found;
}

/* ---- giving ---- */

static void test_a_push_gives_an_idle_worker_a_lease(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    uint32_t seen = shm_bell_listen(&n->shared->bells[w->number]);
    node_schedule(n);
    assert_false(w->leased); /* not before there is something to do */
    assert_int_equal(atomic_load(&n->shared->more), 1);
    mob_ref_t result = slot_open(&driver);
    uint32_t record = push(&driver, result, 0);
    assert_true(w->leased);
    assert_int_equal(lease_word(w), SHM_LEASE_FREE);
    assert_int_not_equal(shm_bell_listen(&n->shared->bells[w->number]), seen);
    assert_int_equal(fixture_heard(w).kind, 0); /* it finds the task by itself */
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_int_equal(n->idle.count, 0);
    /* All of this without us; the lease stays. */
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    rest(w);
    node_schedule(n);
    assert_int_equal(n->leases, 1);
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_null(n->tasks[record]);
    assert_int_equal(atomic_load(&n->shared->more), 1);
}

static void test_as_many_leases_as_tasks(void **state) {
    (void)state;
    node_client_t *workers[] = {worker_new(), worker_new(), worker_new()};
    uint32_t first = push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases, 1);
    node_schedule(n);
    assert_int_equal(n->leases, 1); /* one looks, and one is there */
    uint32_t second = push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases, 2);
    assert_int_equal(cpus_free(), CPUS - 2);
    for (int i = 0; i < 3; i++) {
        if (!workers[i]->leased) continue;
        uint32_t record = take(workers[i], &driver);
        assert_true(record == first || record == second);
    }
    node_schedule(n);
    assert_int_equal(n->leases, 2); /* nothing is left in the queue */
}

static void test_all_queues_count(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER); /* it runs something else, and submits */
    submitter_t other = submitter_of(client);
    worker_new();
    worker_new();
    push(&driver, slot_open(&driver), 0);
    push(&other, slot_open(&other), 0);
    assert_int_equal(n->leases, 2);
}

static void test_no_more_leases_than_cpus(void **state) {
    (void)state;
    node_client_t *workers[CPUS + 2];
    for (int i = 0; i < CPUS + 2; i++) workers[i] = worker_new();
    for (int i = 0; i < 10; i++) push(&driver, slot_open(&driver), 0);
    size_t leased = 0;
    for (int i = 0; i < CPUS + 2; i++) leased += lease_word(workers[i]) == SHM_LEASE_FREE;
    assert_int_equal(leased, CPUS);
    assert_int_equal(n->leases, CPUS);
    assert_int_equal(cpus_free(), 0);
    assert_int_equal(n->idle.count, 2);
    assert_true(n->request.queued);
    assert_int_equal(atomic_load(&n->shared->more), 0); /* nobody need tell us of more */
    assert_int_equal(atomic_load(&n->shared->wanted), 1);
    /* The request waits its turn and gets the next CPU: that of a worker that dies. */
    for (int i = 0; i < CPUS + 2; i++) {
        if (!workers[i]->leased) continue;
        node_client_died(workers[i]);
        break;
    }
    assert_int_equal(n->leases, CPUS);
    assert_int_equal(n->idle.count, 1);
}

static void test_a_lease_waits_for_a_worker(void **state) {
    (void)state;
    push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases, 0);
    assert_int_equal(n->waiting_for_worker, 1); /* so one is started */
    assert_int_equal(cpus_free(), CPUS - 1);
    node_client_t *w = worker_new();
    assert_true(w->leased);
    assert_int_equal(lease_word(w), SHM_LEASE_FREE);
    assert_int_equal(n->waiting_for_worker, 0);
    assert_int_equal(cpus_free(), CPUS - 1);
}

static void test_without_any_worker_the_queue_fails(void **state) {
    (void)state;
    mob_ref_t results[] = {slot_open(&driver), slot_open(&driver)};
    uint32_t records[] = {push(&driver, results[0], 3), push(&driver, results[1], 0)};
    for (int i = 0; i < 10; i++) node_worker_useless(n, "a test", true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(error_of(results[i]), MOB_ESYS);
        assert_int_equal(wire_word_state(record_word(records[i])), WIRE_FREE);
        assert_null(n->tasks[records[i]]);
    }
    assert_int_equal(shm_queue_count(&n->queues[n->driver->number]), 0);
    assert_int_equal(n->waiting_for_worker, 0);
    assert_int_equal(cpus_free(), CPUS);
    /* the next task tries again */
    node_client_t *w = worker_new();
    uint32_t record = push(&driver, slot_open(&driver), 0);
    assert_int_equal(take(w, &driver), record);
}

static void test_without_the_fast_path_nobody_has_a_lease(void **state) {
    (void)state;
    n->fast = false;
    node_client_t *w = worker_new();
    queue_push(&driver, record_fill(&driver, slot_open(&driver), NONE, 0, false));
    node_schedule(n);
    assert_false(w->leased);
    assert_int_equal(cpus_free(), CPUS);
}

/* ---- taking back ---- */

static void test_a_free_lease_is_taken_at_once(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    for (int i = 0; i < CPUS; i++) {
        finish(workers[i], records[i], NONE);
        rest(workers[i]);
    }
    uint32_t record = submit(1);
    size_t ran = 0;
    for (int i = 0; i < CPUS; i++) {
        if (!told_to_run(workers[i], record)) continue;
        ran++;
        assert_int_equal(lease_word(workers[i]), SHM_LEASE_NONE);
        assert_false(workers[i]->leased);
    }
    assert_int_equal(ran, 1);
    assert_int_equal(n->leases, CPUS - 1);
    assert_int_equal(cpus_free(), 0);
    assert_int_equal(recalled(workers, CPUS), 0);
}

static void test_a_task_of_three_cpus_takes_as_many_as_it_lacks(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    for (int i = 0; i < CPUS; i++) {
        finish(workers[i], records[i], NONE);
        rest(workers[i]);
    }
    uint32_t record = submit(3);
    size_t ran = 0;
    for (int i = 0; i < CPUS; i++) ran += told_to_run(workers[i], record);
    assert_int_equal(ran, 1);
    assert_int_equal(n->leases, 1);
    assert_int_equal(cpus_free(), 0);
}

static void test_a_lost_race_for_a_free_lease(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    push(&driver, slot_open(&driver), 0);
    take(w, &driver); /* before we look: FREE to BUSY */
    node_leases_take_free(n);
    assert_int_equal(lease_word(w), SHM_LEASE_BUSY);
    assert_int_equal(n->leases, 1);
}

/* Its worker has not looked yet, which may take a while on a busy machine: it must get to what the lease was given for. */
static void test_a_lease_that_was_just_given_is_left_to_its_worker(void **state) {
    (void)state;
    for (int i = 0; i < CPUS; i++) worker_new();
    uint64_t begin = base_clock_mono_ns();
    for (int i = 0; i < CPUS; i++) push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases, CPUS);
    submit(1);
    node_schedule(n);
    size_t early = n->leases;
    if (base_clock_mono_ns() - begin < RECALL_MS * 1000000ull) assert_int_equal(early, CPUS);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n); /* it had its chance */
    assert_true(n->leases < CPUS);
}

static void test_busy_leases_are_recalled_after_some_time(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    uint64_t begin = base_clock_mono_ns();
    uint32_t record = submit(1);
    size_t early = recalled(workers, CPUS);
    if (base_clock_mono_ns() - begin < RECALL_MS * 1000000ull) assert_int_equal(early, 0);
    assert_int_equal(atomic_load(&n->shared->wanted), 1);
    assert_true(uv_is_active((uv_handle_t *)&n->look_timer)); /* nobody else wakes us */
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    assert_true(recalled(workers, CPUS) > 0);
    assert_int_equal(n->leases, CPUS); /* until its task is done */
    for (int i = 0; i < CPUS; i++) {
        if (!(lease_word(workers[i]) & SHM_LEASE_RECALL)) continue;
        finish(workers[i], records[i], NONE);
        give_back(workers[i]);
        run(workers[i], record, NONE);
        assert_false(workers[i]->leased);
        assert_true(workers[i]->idle);
        break;
    }
    assert_int_equal(n->leases, CPUS - 1);
    assert_int_equal(cpus_free(), 1);
    assert_int_equal(atomic_load(&n->shared->wanted), 0);
}

/* One waits for one CPU: the others go on as they are, however often we look before it is given back. */
static void test_one_task_recalls_one_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    submit(1);
    usleep((RECALL_MS + 5) * 1000);
    for (int i = 0; i < 3; i++) node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 1);
}

static void test_a_backlog_alone_recalls_nothing(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    for (int i = 0; i < 5; i++) push(&driver, slot_open(&driver), 0);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 0);
}

/* Nor does one that no ended lease would help. */
static void test_a_task_that_lacks_something_else_recalls_nothing(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    submit(CPUS + 1);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 0);
}

static void test_a_given_back_lease_goes_on_to_the_queue(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    uint32_t record = submit(1), next = push(&driver, slot_open(&driver), 0);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    int i = 0;
    while (i < CPUS - 1 && !(lease_word(workers[i]) & SHM_LEASE_RECALL)) i++;
    finish(workers[i], records[i], NONE);
    give_back(workers[i]);
    run(workers[i], record, NONE);
    assert_true(workers[i]->leased); /* it asked for its turn while the other waited */
    assert_int_equal(take(workers[i], &driver), next);
    assert_int_equal(cpus_free(), 0);
}

/* ---- blocked ---- */

static void test_a_blocked_lease_is_lent_when_somebody_waits(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    assert_true(shm_lease_move(lease_of(workers[1]), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    node_schedule(n);
    assert_int_equal(lease_word(workers[1]), SHM_LEASE_BLOCKED);
    assert_int_equal(atomic_load(&n->shared->wanted), 0); /* so it told nobody */
    assert_int_equal(cpus_free(), 0);
    node_client_t *idle = worker_new();
    uint32_t record = submit(1);
    assert_int_equal(lease_word(workers[1]), SHM_LEASE_LENT);
    assert_true(workers[1]->leased);
    assert_true(told_to_run(idle, record));
    assert_int_equal(cpus_free(), 0);
}

static void test_a_blocked_lease_is_lent_to_the_queue(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    node_client_t *idle = worker_new();
    uint32_t nested = push(&driver, slot_open(&driver), 0); /* what it is about to wait for */
    assert_int_equal(atomic_load(&n->shared->wanted), 1);   /* so it tells us when it blocks */
    assert_true(shm_lease_move(lease_of(workers[0]), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    node_schedule(n);
    assert_int_equal(lease_word(workers[0]), SHM_LEASE_LENT);
    assert_int_equal(n->leases, CPUS + 1);
    assert_int_equal(take(idle, &driver), nested);
    assert_int_equal(cpus_free(), 0);
}

static void test_one_that_goes_on_by_itself_was_not_lent(void **state) {
    (void)state;
    node_client_t *w = busy_worker(0, NULL, NULL);
    assert_true(shm_lease_move(lease_of(w), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    assert_true(shm_lease_move(lease_of(w), SHM_LEASE_BLOCKED, SHM_LEASE_BUSY));
    node_schedule(n);
    assert_int_equal(cpus_free(), CPUS - 1);
    fixture_say(w, WIRE_UNBLOCK, 0, 0); /* nor does a word too many cost a CPU */
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_int_equal(w->state, NODE_LIVE);
}

/* All CPUs are used, one of them was lent, and then its owner goes on. */
static void lend_and_go_on(node_client_t **workers, uint32_t *records) {
    busy_workers(workers, records);
    assert_true(shm_lease_move(lease_of(workers[2]), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    node_client_t *other = worker_new();
    uint32_t record = submit(1);
    assert_true(told_to_run(other, record));
    assert_true(shm_lease_move(lease_of(workers[2]), SHM_LEASE_LENT, SHM_LEASE_BUSY));
    fixture_say(workers[2], WIRE_UNBLOCK, 0, 0);
    assert_int_equal(cpus_free(), -1);
}

static void test_too_many_cpus_in_use_recall_a_busy_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    for (int i = 0; i < 3; i++) node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 1); /* one is enough, however often we look */
    for (int i = 0; i < CPUS; i++) {
        if (!(lease_word(workers[i]) & SHM_LEASE_RECALL)) continue;
        finish(workers[i], records[i], NONE);
        give_back(workers[i]);
        break;
    }
    assert_int_equal(cpus_free(), 0);
    assert_int_equal(n->leases, CPUS - 1);
    assert_int_equal(recalled(workers, CPUS), 0);
}

static void test_too_many_cpus_in_use_take_a_free_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    finish(workers[0], records[0], NONE);
    rest(workers[0]);
    node_schedule(n);
    assert_int_equal(lease_word(workers[0]), SHM_LEASE_NONE);
    assert_false(workers[0]->leased);
    assert_int_equal(recalled(workers, CPUS), 0);
    assert_int_equal(cpus_free(), 0);
}

/* Nothing is granted while more CPUs are used than there are. */
static void test_too_many_cpus_in_use_give_no_new_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    node_client_t *idle = worker_new();
    push(&driver, slot_open(&driver), 0);
    assert_false(idle->leased);
    assert_true(cpus_free() <= 0);
}

/* ---- workers that die ---- */

static void test_a_dead_workers_lease_in_every_state(void **state) {
    (void)state;
    const uint32_t words[] = {
        SHM_LEASE_FREE,
        SHM_LEASE_BUSY,
        SHM_LEASE_BUSY | SHM_LEASE_RECALL,
        SHM_LEASE_BLOCKED,
        SHM_LEASE_BLOCKED | SHM_LEASE_RECALL,
        SHM_LEASE_LENT,
        SHM_LEASE_LENT | SHM_LEASE_RECALL,
        SHM_LEASE_NONE,         /* given back, and dead before it said so */
        SHM_LEASE_STATE | 4096, /* what no worker writes */
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint32_t record;
        node_client_t *w = busy_worker(0, &record, NULL);
        finish(w, record, NONE);
        assert_int_equal(cpus_free(), CPUS - 1);
        if ((words[i] & SHM_LEASE_STATE) == SHM_LEASE_LENT) sched_lease_block(n->sched, &w->lease);
        atomic_store(&lease_of(w)->word, words[i]);
        uint32_t number = w->number;
        uint64_t bit = shm_node_bit(number);
        atomic_fetch_or(&n->shared->workers[number / 64].idle, bit);
        atomic_fetch_or(&n->shared->workers[number / 64].looking, bit);
        node_client_died(w);
        assert_int_equal(cpus_free(), CPUS);
        assert_int_equal(n->leases, 0);
        assert_int_equal(atomic_load(&n->shared->leases[number].word), SHM_LEASE_NONE);
        /* nobody relies on it any more */
        assert_int_equal(atomic_load(&n->shared->workers[number / 64].idle) & bit, 0);
        assert_int_equal(atomic_load(&n->shared->workers[number / 64].looking) & bit, 0);
    }
}

static void test_a_dead_workers_unread_unblock(void **state) {
    (void)state;
    node_client_t *w = busy_worker(0, NULL, NULL);
    sched_lease_block(n->sched, &w->lease);
    atomic_store(&lease_of(w)->word, SHM_LEASE_BUSY);
    shm_message_t m = {.kind = WIRE_UNBLOCK};
    assert_true(shm_ring_push(w->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, w->number);
    node_client_died(w);
    assert_int_equal(cpus_free(), CPUS);
}

static void test_what_a_dead_worker_had_taken_is_tried_again(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result), *next = worker_new();
    uint64_t generation = generation_of(record);
    node_client_died(w);
    assert_non_null(n->tasks[record]);
    assert_int_equal(n->tasks[record]->retries, 2);
    assert_int_equal(record_word(record), wire_word(generation + 1, 0, WIRE_READY_STATE | WIRE_KNOWN));
    assert_false(next->leased);
    assert_int_equal(word_of(result) & STORE_STATE, STORE_PENDING);
    run(next, record, result); /* it comes by the scheduler now */
    assert_null(n->tasks[record]);
    assert_int_equal(error_of(result), MOB_OK);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(cpus_free(), CPUS);
}

static void test_what_may_not_be_tried_again_fails(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_died(busy_worker(0, &record, &result));
    assert_int_equal(word_of(result) & STORE_STATE, STORE_SEALED);
    assert_int_equal(error_of(result), MOB_ECRASHED);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(n->open_tasks[n->driver->number], 0);
    assert_int_equal(cpus_free(), CPUS);
}

static void test_what_a_dead_worker_had_done_is_completed(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    slot_of(result)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    assert_false(commit(w, record));
    node_client_died(w); /* before it sealed */
    assert_int_equal(word_of(result), STORE_SEALED);
    assert_int_equal(error_of(result), MOB_OK);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(control_event_count(n->control), 1);
    assert_int_equal(cpus_free(), CPUS);
}

/* It had sealed the result, whose reference then went: the slot is another object's by now, and that one's value is not there. */
static void test_a_result_that_was_given_to_another_is_not_sealed(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    commit(w, record);
    slot_seal(result);
    store_slot_close(slot_of(result));
    store_slot_open(slot_of(result));
    node_client_died(w);
    assert_int_equal(word_of(result), STORE_PENDING);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
}

static void test_a_dead_worker_that_had_a_task_of_a_dead_submitter(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER), *w = worker_new();
    submitter_t other = submitter_of(client);
    uint32_t record = push(&other, slot_open(&other), 0);
    assert_int_equal(take(w, &other), record);
    node_client_died(client);
    assert_non_null(n->tasks[record]);
    node_client_died(w);
    fixture_settle(n);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(cpus_free(), CPUS);
}

/* ---- submitters that die ---- */

static void test_a_dead_submitters_queue_is_cancelled(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER), *w = worker_new();
    submitter_t other = submitter_of(client);
    mob_ref_t results[4];
    uint32_t records[4];
    for (int i = 0; i < 4; i++) {
        results[i] = slot_open(&other);
        records[i] = push(&other, results[i], 3);
    }
    assert_int_equal(take(w, &other), records[0]);
    uint32_t number = client->number;
    /* Somebody else has a reference to the last one's result. */
    atomic_fetch_or(&slot_of(results[3])->word, STORE_ESCAPED);
    fixture_say(n->driver, WIRE_HOLD, results[3].slot, results[3].generation);
    node_client_died(client);
    for (int i = 1; i < 3; i++) {
        assert_null(n->tasks[records[i]]);
        assert_int_equal(wire_word_state(record_word(records[i])), WIRE_FREE);
    }
    assert_int_equal(shm_queue_count(&n->queues[number]), 0);
    assert_int_equal(atomic_load(&n->shared->queued[number / 64]) & shm_node_bit(number), 0);
    /* What was begun runs out. */
    assert_true(record_word(records[0]) & WIRE_KNOWN);
    finish(w, records[0], results[0]);
    assert_null(n->tasks[records[0]]);
    assert_int_equal(w->state, NODE_LIVE);
    rest(w);
    /* And what another waits for is run, by the scheduler. */
    node_schedule(n);
    if (w->leased) node_leases_take_free(n);
    node_schedule(n);
    run(w, records[3], results[3]);
    assert_int_equal(error_of(results[3]), MOB_OK);
    fixture_settle(n);
    for (int i = 0; i < 3; i++) assert_int_equal(word_of(results[i]), STORE_FREE);
    assert_int_equal(word_of(results[3]) & STORE_STATE, STORE_SEALED);
    assert_int_equal(n->open_tasks[number], 0);
}

/* An entry that a worker saw before its submitter died names nothing any more. */
static void test_a_late_claim_of_a_cancelled_task_fails(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER);
    submitter_t other = submitter_of(client);
    uint32_t record = record_fill(&other, slot_open(&other), NONE, 0, false);
    queue_push(&other, record);
    uint64_t position = 0, entry = 0;
    assert_true(shm_queue_peek(&n->queues[client->number], &position, &entry));
    assert_true(wire_entry_names(entry, record_word(record)));
    node_client_died(client);
    assert_false(wire_entry_names(entry, record_word(record)));
    /* also when the record lives again: its generation is another */
    atomic_store(&n->records[record].word, wire_word(generation_of(record) + 1, 0, WIRE_READY_STATE));
    assert_false(wire_entry_names(entry, record_word(record)));
}

static void test_a_worker_with_tasks_in_its_queue_is_not_sent_home(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    submitter_t own = submitter_of(w);
    assert_false(node_client_has_tasks(w));
    uint32_t record = record_fill(&own, slot_open(&own), NONE, 0, false);
    queue_push(&own, record);
    assert_true(node_client_has_tasks(w));
    atomic_store(&n->records[record].word, wire_word(generation_of(record), 0, WIRE_FREE));
    assert_false(node_client_has_tasks(w));
}

/* ---- tasks with arguments ---- */

static uint32_t push_with_argument(mob_ref_t *ret_argument, mob_ref_t *ret_result) {
    *ret_argument = slot_open(&driver);
    slot_seal(*ret_argument);
    *ret_result = slot_open(&driver);
    uint32_t record = record_fill(&driver, *ret_result, *ret_argument, 3, true);
    queue_push(&driver, record);
    node_schedule(n);
    return record;
}

static void assert_over(uint32_t record, mob_ref_t argument) {
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(n->done_early.count, 0);
    assert_int_equal(n->open_tasks[n->driver->number], 0);
    assert_int_equal(n->objects[argument.slot]->uses, 0);
    assert_int_equal(control_event_count(n->control), 1);
    fixture_say(n->driver, WIRE_DROP, argument.slot, argument.generation);
    fixture_settle(n);
    assert_int_equal(word_of(argument), STORE_FREE);
}

static void test_arguments_are_held_until_the_task_is_done(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    fixture_say(n->driver, WIRE_ARGUMENTS, record, generation);
    assert_non_null(n->tasks[record]);
    assert_true(n->tasks[record]->queued);
    assert_int_equal(sched_queued(n->sched, n->cpu_shape), 0); /* workers take it, not we */
    fixture_say(n->driver, WIRE_DROP, argument.slot, argument.generation);
    fixture_settle(n);
    assert_int_equal(word_of(argument) & STORE_STATE, STORE_SEALED);
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    assert_null(n->tasks[record]);
    assert_int_equal(wire_word_state(record_word(record)), WIRE_FREE);
    assert_int_equal(control_event_count(n->control), 1);
    fixture_settle(n);
    assert_int_equal(word_of(argument), STORE_FREE);
    assert_true(w->leased);
    assert_int_equal(cpus_free(), CPUS - 1);
}

static void test_arguments_that_are_heard_of_after_the_task_is_done(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    assert_int_equal(w->state, NODE_LIVE); /* no fault of its */
    assert_int_equal(wire_word_state(record_word(record)), WIRE_DONE_STATE);
    fixture_say(n->driver, WIRE_ARGUMENTS, record, generation);
    assert_null(n->driver->fault);
    assert_over(record, argument);
}

static void test_arguments_of_a_task_that_is_taken(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    assert_int_equal(take(w, &driver), record);
    fixture_say(n->driver, WIRE_ARGUMENTS, record, generation_of(record));
    assert_int_equal(n->objects[argument.slot]->uses, 1);
    finish(w, record, result);
    assert_over(record, argument);
}

static void test_arguments_that_are_heard_of_after_the_worker_died(void **state) {
    (void)state;
    node_client_t *w = worker_new(), *next;
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    assert_int_equal(take(w, &driver), record);
    node_client_died(w);
    fixture_say(n->driver, WIRE_ARGUMENTS, record, generation);
    assert_null(n->driver->fault);
    next = worker_new();
    run(next, record, result);
    assert_over(record, argument);
}

static void test_arguments_that_are_heard_of_after_the_worker_was_done_and_died(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    node_client_died(w);
    fixture_say(n->driver, WIRE_ARGUMENTS, record, generation);
    assert_null(n->driver->fault);
    assert_over(record, argument);
}

static void test_a_leased_worker_may_ask_for_a_retry(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t result = slot_open(&driver);
    uint32_t record = record_fill(&driver, result, NONE, 1, false);
    n->records[record].flags = WIRE_RETRY_EXCEPTIONS;
    queue_push(&driver, record);
    node_schedule(n);
    assert_int_equal(take(w, &driver), record);
    uint64_t generation = generation_of(record);
    assert_true(wire_record_make_known(&n->records[record], record_word(record)));
    atomic_store(&lease_of(w)->job, 0);
    fixture_say(w, WIRE_RETRY, record, generation);
    assert_int_equal(w->state, NODE_LIVE);
    assert_true(w->leased);
    assert_int_equal(record_word(record), wire_word(generation + 1, 0, WIRE_READY_STATE | WIRE_KNOWN));
    assert_int_equal(n->tasks[record]->retries, 0);
    node_client_t *other = worker_new();
    node_schedule(n);
    run(other, record, result);
    assert_int_equal(error_of(result), MOB_OK);
    assert_int_equal(cpus_free(), CPUS - 1); /* the lease */
}

/* ---- questions ---- */

/* What a client says, and the daemon has not read yet. */
static void say_unread(node_client_t *c, shm_message_t m) {
    assert_true(shm_ring_push(c->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, c->number);
}

static void ask_for_resources(void) {
    say_unread(n->driver, (shm_message_t){.kind = WIRE_QUERY, .a = MOB_QUERY_RESOURCES, .d = SHM_SCRATCH_BYTES});
    node_inbox_read(n);
    n->round++; /* every ring is read once more */
    node_inbox_read(n);
    node_questions_answer(n);
}

/* Asks, and goes round as the loop does until there is an answer: how long it is. It lies in the scratch page. */
static uint64_t answer_to(uint32_t what) {
    say_unread(n->driver, (shm_message_t){.kind = WIRE_QUERY, .a = what, .d = SHM_SCRATCH_BYTES});
    for (int i = 0; i < 1000; i++) {
        n->round++;
        node_inbox_read(n);
        node_questions_answer(n);
        node_schedule(n);
        shm_message_t m = fixture_heard(n->driver);
        if (m.kind == WIRE_ANSWER) return m.b;
        usleep(1000);
    }
    fail_msg("there is no answer");
    return 0;
}

static void test_what_nobody_uses_is_available(void **state) {
    (void)state;
    uint32_t records[2];
    node_client_t *free_one = busy_worker(0, &records[0], NULL), *busy_one = busy_worker(0, &records[1], NULL);
    finish(free_one, records[0], NONE);
    rest(free_one);
    assert_int_equal(cpus_free(), CPUS - 2);
    ask_for_resources();
    assert_int_equal(fixture_heard(n->driver).kind, WIRE_ANSWER); /* its task is not done: nothing to wait for */
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_int_equal(lease_word(free_one), SHM_LEASE_NONE);
    assert_int_equal(lease_word(busy_one), SHM_LEASE_BUSY);
    assert_true(free_one->idle);
    finish(busy_one, records[1], NONE);
    rest(busy_one);
    node_leases_take_free(n);
    assert_int_equal(cpus_free(), CPUS);
    assert_int_equal(n->leases, 0);
    assert_int_equal(n->idle.count, 2);
}

/* Who asks may have seen the result: so a worker between two tasks is waited for, for a moment. */
static void test_a_question_waits_for_who_is_between_two_tasks(void **state) {
    (void)state;
    uint32_t record;
    uint64_t begin = base_clock_mono_ns();
    node_client_t *w = busy_worker(0, &record, NULL);
    finish(w, record, NONE);
    assert_int_equal(node_leases_due(n), 1);
    ask_for_resources();
    /* it gives up after half a second, which may pass on a busy machine */
    if (base_clock_mono_ns() - begin < 300000000) assert_int_equal(fixture_heard(n->driver).kind, 0);
    rest(w);
    assert_int_equal(node_leases_due(n), 0);
    node_questions_answer(n);
    assert_int_equal(cpus_free(), CPUS);
    assert_int_equal(n->questions.count, 0);
}

/* The asker has seen the result; the worker's words about it may lie in a ring that is read after the asker's. */
static void test_a_question_is_answered_after_what_was_said_before_it(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    say_unread(n->driver, (shm_message_t){.kind = WIRE_ARGUMENTS, .a = record, .b = generation});
    assert_int_equal(take(w, &driver), record);
    assert_true(commit(w, record));
    slot_seal(result);
    say_unread(w, (shm_message_t){.kind = WIRE_DONE, .a = record, .b = generation});
    atomic_store(&lease_of(w)->job, 0);
    rest(w);
    uint64_t size = answer_to(MOB_QUERY_EVENTS);
    assert_non_null(memmem(n->driver->segment.base + SHM_CLIENT_SCRATCH, size, "work", 4));
}

static void test_a_lease_that_was_given_back_just_before_is_available(void **state) {
    (void)state;
    uint32_t record;
    node_client_t *w = busy_worker(0, &record, NULL);
    atomic_store(&lease_of(w)->word, SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    finish(w, record, NONE);
    atomic_store(&lease_of(w)->word, SHM_LEASE_NONE);
    say_unread(w, (shm_message_t){.kind = WIRE_LEASE});
    uint8_t *scratch = n->driver->segment.base + SHM_CLIENT_SCRATCH, before[SHM_SCRATCH_BYTES];
    uint64_t size = answer_to(MOB_QUERY_RESOURCES);
    memcpy(before, scratch, size);
    assert_false(w->leased);
    /* with everything read, it is the same */
    assert_int_equal(answer_to(MOB_QUERY_RESOURCES), size);
    assert_memory_equal(before, scratch, size);
}

static void test_runs_are_read(void **state) {
    (void)state;
    uint32_t record;
    node_client_t *w = busy_worker(0, &record, NULL);
    for (uint64_t i = 0; i < SHM_EVENTS; i++) {
        shm_event_t *e = shm_events_next(w->events);
        assert_non_null(e);
        *e = (shm_event_t){.start_ns = i, .end_ns = i + 1, .kind = MOB_TASK, .name_size = 4, .name = "work"};
        /* we are told once, at the half */
        assert_int_equal(shm_events_publish(w->events), i + 1 == SHM_EVENTS_TELL);
    }
    assert_null(shm_events_next(w->events));
    fixture_say(w, WIRE_EVENTS, 0, 0);
    assert_non_null(shm_events_next(w->events));
    assert_int_equal(control_event_count(n->control), SHM_EVENTS);
    for (uint64_t i = 0; i < SHM_EVENTS; i += 100) {
        assert_int_equal(control_event_at(n->control, i)->start_ns, i);
        assert_int_equal(control_event_at(n->control, i)->worker, w->number);
        assert_string_equal(control_event_at(n->control, i)->name, "work");
    }
    /* What it leaves at its end counts too. */
    shm_event_t *e = shm_events_next(w->events);
    *e = (shm_event_t){.start_ns = 5000, .end_ns = 5001, .kind = MOB_TASK, .name_size = 255, .name = "last"};
    (void)shm_events_publish(w->events);
    finish(w, record, NONE);
    node_client_died(w);
    assert_int_equal(control_event_count(n->control), SHM_EVENTS + 1);
    assert_string_equal(control_event_at(n->control, SHM_EVENTS)->name, "last");
}

/* ---- what no client does ---- */

static void test_words_about_leases_that_are_not_true(void **state) {
    (void)state;
    node_client_t *idle = worker_new();
    fixture_say(idle, WIRE_LEASE, 0, 0); /* has none */
    assert_int_equal(n->idle.count, 1);
    node_client_t *w = busy_worker(0, NULL, NULL);
    assert_true(w == idle || w->leased);
    fixture_say(w, WIRE_LEASE, 0, 0); /* did not give it back */
    assert_true(w->leased);
    assert_int_equal(cpus_free(), CPUS - 1);
    for (int i = 0; i < 3; i++) fixture_say(w, WIRE_UNBLOCK, 0, 0);
    assert_int_equal(cpus_free(), CPUS - 1);
    atomic_store(&lease_of(w)->job, UINT32_MAX);
    (void)node_leases_due(n);
}

static void test_a_queue_of_nonsense(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    shm_queue_t *queue = &n->queues[n->driver->number];
    atomic_store(&queue->tail, UINT64_MAX / 2);
    atomic_store(&n->shared->queued[0], UINT64_MAX); /* also of clients that do not exist */
    for (int i = 0; i < 3; i++) node_schedule(n);
    assert_true(cpus_free() >= 0);
    assert_int_equal(w->state, NODE_LIVE);
    atomic_store(&queue->tail, 0);
    node_leases_take_free(n);
    assert_int_equal(n->leases, 0);
}

static void test_arguments_of_records_of_others(void **state) {
    (void)state;
    node_client_t *liar = worker_new();
    uint32_t record = record_fill(&driver, slot_open(&driver), NONE, 0, true);
    fixture_say(liar, WIRE_ARGUMENTS, record, generation_of(record));
    assert_non_null(liar->fault);
    assert_int_equal(liar->state, NODE_DYING);
    assert_null(n->tasks[record]);
    node_client_died(liar);
    const uint32_t indices[] = {WIRE_MAX_RECORDS - 1, WIRE_MAX_RECORDS, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        liar = worker_new();
        fixture_say(liar, WIRE_ARGUMENTS, indices[i], 1);
        assert_non_null(liar->fault);
        node_client_died(liar);
    }
}

/* A record that was filled with nonsense does not become a task when its worker dies. */
static void test_a_dead_workers_record_that_makes_no_sense(void **state) {
    (void)state;
    uint32_t record;
    node_client_t *w = busy_worker(3, &record, NULL);
    n->records[record].num_returns = UINT32_MAX;
    n->records[record].block = UINT64_MAX;
    node_client_died(w);
    assert_null(n->tasks[record]);
    assert_int_equal(cpus_free(), CPUS);
    assert_false(n->ending);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_push_gives_an_idle_worker_a_lease),
        TEST(test_as_many_leases_as_tasks),
        TEST(test_all_queues_count),
        TEST(test_no_more_leases_than_cpus),
        TEST(test_a_lease_waits_for_a_worker),
        TEST(test_without_any_worker_the_queue_fails),
        TEST(test_without_the_fast_path_nobody_has_a_lease),
        TEST(test_a_free_lease_is_taken_at_once),
        TEST(test_a_task_of_three_cpus_takes_as_many_as_it_lacks),
        TEST(test_a_lost_race_for_a_free_lease),
        TEST(test_a_lease_that_was_just_given_is_left_to_its_worker),
        TEST(test_busy_leases_are_recalled_after_some_time),
        TEST(test_one_task_recalls_one_lease),
        TEST(test_a_backlog_alone_recalls_nothing),
        TEST(test_a_task_that_lacks_something_else_recalls_nothing),
        TEST(test_a_given_back_lease_goes_on_to_the_queue),
        TEST(test_a_blocked_lease_is_lent_when_somebody_waits),
        TEST(test_a_blocked_lease_is_lent_to_the_queue),
        TEST(test_one_that_goes_on_by_itself_was_not_lent),
        TEST(test_too_many_cpus_in_use_recall_a_busy_lease),
        TEST(test_too_many_cpus_in_use_take_a_free_lease),
        TEST(test_too_many_cpus_in_use_give_no_new_lease),
        TEST(test_a_dead_workers_lease_in_every_state),
        TEST(test_a_dead_workers_unread_unblock),
        TEST(test_what_a_dead_worker_had_taken_is_tried_again),
        TEST(test_what_may_not_be_tried_again_fails),
        TEST(test_what_a_dead_worker_had_done_is_completed),
        TEST(test_a_result_that_was_given_to_another_is_not_sealed),
        TEST(test_a_dead_worker_that_had_a_task_of_a_dead_submitter),
        TEST(test_a_dead_submitters_queue_is_cancelled),
        TEST(test_a_late_claim_of_a_cancelled_task_fails),
        TEST(test_a_worker_with_tasks_in_its_queue_is_not_sent_home),
        TEST(test_arguments_are_held_until_the_task_is_done),
        TEST(test_arguments_that_are_heard_of_after_the_task_is_done),
        TEST(test_arguments_of_a_task_that_is_taken),
        TEST(test_arguments_that_are_heard_of_after_the_worker_died),
        TEST(test_arguments_that_are_heard_of_after_the_worker_was_done_and_died),
        TEST(test_a_leased_worker_may_ask_for_a_retry),
        TEST(test_what_nobody_uses_is_available),
        TEST(test_a_question_waits_for_who_is_between_two_tasks),
        TEST(test_a_question_is_answered_after_what_was_said_before_it),
        TEST(test_a_lease_that_was_given_back_just_before_is_available),
        TEST(test_runs_are_read),
        TEST(test_words_about_leases_that_are_not_true),
        TEST(test_a_queue_of_nonsense),
        TEST(test_arguments_of_records_of_others),
        TEST(test_a_dead_workers_record_that_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
