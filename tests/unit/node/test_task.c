/* The way of a task through the daemon, with workers that are played by the test; and records that
 * make no sense. */
#include "fixture.h"

static node_t *n;
static node_client_t *driver, *worker;
static uint32_t next_slot, next_record;

static int setup(void **state) {
    (void)state;
    n = fixture_node_new(64 * SHM_GRANULE);
    driver = fixture_client_new(n, WIRE_DRIVER);
    JOB(n)->driver = driver;
    worker = fixture_client_new(n, WIRE_WORKER);
    node_worker_free(worker);
    node_grant_slots(driver, STORE_SLOT_BLOCK);
    next_slot = fixture_heard(driver).grant.first;
    node_grant_records(driver, WIRE_RECORD_BLOCK);
    next_record = fixture_heard(driver).grant.first;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    JOB(n)->driver = NULL;
    fixture_node_free(n);
    return 0;
}

static store_slot_t *slot_of(mob_ref_t ref) { return &n->slots[ref.slot]; }
static uint64_t word_of(mob_ref_t ref) { return atomic_load(&slot_of(ref)->word); }
static uint64_t record_word(uint32_t record) { return atomic_load(&n->records[record].word); }
static unsigned record_state(uint32_t record) { return wire_word_state(record_word(record)); }

static mob_ref_t slot_open(void) {
    mob_ref_t ref = {.slot = next_slot++};
    ref.generation = store_slot_open(slot_of(ref));
    return ref;
}

static uint32_t record_fill(mob_kind_t kind, mob_ref_t result, mob_ref_t dep, int32_t max_retries) {
    uint32_t index = next_record++;
    fixture_record_publish(fixture_record_fill(n, index, kind, result, dep, max_retries), false);
    return index;
}

static uint32_t submit(mob_kind_t kind, mob_ref_t result, mob_ref_t dep, int32_t max_retries) {
    uint32_t index = record_fill(kind, result, dep, max_retries);
    fixture_say(driver, WIRE_SUBMIT, index, wire_word_generation(record_word(index)));
    assert_non_null(n->tasks[index]);
    node_schedule(n);
    return index;
}

static void taken(uint32_t record, node_client_t *by) {
    wire_message_t run = fixture_heard(by);
    assert_int_equal(run.kind, WIRE_RUN);
    assert_int_equal(run.run.record, record);
    assert_int_equal(run.run.generation, wire_word_generation(record_word(record)));
    assert_int_equal(record_state(record), WIRE_READY_STATE);
    atomic_store(&n->records[record].word, wire_word(run.run.generation, by->number, WIRE_TAKEN));
}

static void seal(mob_ref_t ref, mob_status_t error) {
    slot_of(ref)->meta = store_meta(0, MOB_FORMAT_DIRECT, error, true);
    store_slot_seal(slot_of(ref), false);
}

static void done(uint32_t record, node_client_t *by, mob_ref_t result) {
    uint64_t generation = wire_word_generation(record_word(record));
    atomic_store(&n->records[record].word, wire_word(generation, 0, WIRE_DONE_STATE));
    if (result.slot != 0) seal(result, MOB_OK);
    fixture_say(by, WIRE_DONE, record, generation);
    node_schedule(n);
}

static int64_t cpus_free(void) {
    const char *name;
    uint64_t total;
    int64_t available;
    sched_resource_at(n->sched, 0, &name, &total, &available);
    return available / SCHED_UNIT;
}

static const mob_ref_t NONE = {0};

static void test_from_submit_to_done(void **state) {
    (void)state;
    mob_ref_t result = slot_open();
    uint32_t record = submit(MOB_TASK, result, NONE, 0);
    assert_int_equal(cpus_free(), 3);
    taken(record, worker);
    done(record, worker, result);
    assert_null(n->tasks[record]);
    assert_int_equal(record_state(record), WIRE_FREE);
    assert_int_equal(cpus_free(), 4);
    assert_true(worker->idle);
    assert_int_equal(control_event_count(n->control), 1);
    assert_string_equal(control_event_at(n->control, 0)->name, "work");
    assert_int_equal(worker->state, NODE_LIVE);
}

static void test_waits_for_its_argument(void **state) {
    (void)state;
    mob_ref_t argument = slot_open(), result = slot_open();
    uint32_t first = submit(MOB_TASK, argument, NONE, 0),
             second = record_fill(MOB_TASK, result, argument, 0);
    n->records[second].max_calls = 2; /* such a one is not handed out ahead */
    fixture_say(driver, WIRE_SUBMIT, second, wire_word_generation(record_word(second)));
    node_schedule(n);
    taken(first, worker);
    assert_int_equal(fixture_heard(worker).kind, 0);
    done(first, worker, argument);
    taken(second, worker);
    done(second, worker, result);
    assert_int_equal(n->objects[argument.slot]->uses, 0);
    assert_int_equal(n->missing_arguments, 0);
}

/* Each is found wherever the ones before it have moved it. */
static void test_tasks_that_wait_end_in_any_order(void **state) {
    (void)state;
    enum { TASKS = 5 };
    static const int ORDERS[][TASKS] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 0, 3, 1}};
    for (size_t o = 0; o < sizeof ORDERS / sizeof *ORDERS; o++) {
        mob_ref_t argument = slot_open();
        uint32_t records[TASKS];
        for (int i = 0; i < TASKS; i++) records[i] = submit(MOB_TASK, slot_open(), argument, 0);
        const node_object_t *waited_for = n->objects[argument.slot];
        for (int i = 0; i < TASKS; i++) {
            node_task_t *t = n->tasks[records[ORDERS[o][i]]];
            node_task_fail(n, t, MOB_ECANCELLED, "");
            assert_int_equal(waited_for->waiting.count, TASKS - 1 - i);
            for (size_t k = 0; k < waited_for->waiting.count; k++)
                assert_ptr_not_equal(waited_for->waiting.items[k], t);
        }
        assert_int_equal(n->missing_arguments, 0);
    }
}

static void test_what_follows_is_handed_out_behind_it(void **state) {
    (void)state;
    mob_ref_t argument = slot_open(), result = slot_open(), last = slot_open();
    uint32_t first = submit(MOB_TASK, argument, NONE, 0),
             second = submit(MOB_TASK, result, argument, 0),
             third = submit(MOB_TASK, last, result, 0);
    taken(first, worker);
    done(first, worker, argument);
    taken(second, worker);
    assert_int_equal(cpus_free(), 3);
    done(second, worker, result);
    taken(third, worker);
    done(third, worker, last);
    assert_int_equal(cpus_free(), 4);
    assert_int_equal(n->missing_arguments, 0);
    assert_true(worker->idle);
}

static void test_what_follows_one_that_is_run_again_comes_back(void **state) {
    (void)state;
    mob_ref_t argument = slot_open(), result = slot_open();
    uint32_t first = record_fill(MOB_TASK, argument, NONE, 1);
    n->records[first].flags = WIRE_RETRY_EXCEPTIONS;
    fixture_say(driver, WIRE_SUBMIT, first, wire_word_generation(record_word(first)));
    uint32_t second = submit(MOB_TASK, result, argument, 0);
    taken(first, worker);
    fixture_say(worker, WIRE_RETRY, first, wire_word_generation(record_word(first)));
    wire_message_t run = fixture_heard(worker);
    assert_int_equal(run.run.record, second);
    assert_int_equal(fixture_heard(worker).kind, WIRE_ANSWER);     /* to the retry */
    fixture_say(worker, WIRE_UNREADY, second, run.run.generation); /* its argument is not there */
    node_schedule(n);
    assert_int_equal(wire_word_generation(record_word(second)), run.run.generation + 1);
    assert_int_equal(n->missing_arguments, 1);
    assert_int_equal(cpus_free(), 3);
    taken(first, worker);
    done(first, worker, argument);
    taken(second, worker);
    done(second, worker, result);
    assert_int_equal(n->missing_arguments, 0);
    assert_int_equal(cpus_free(), 4);
}

static node_client_t *worker_new(void) {
    node_client_t *w = fixture_client_new(n, WIRE_WORKER);
    node_worker_free(w);
    return w;
}

static void test_a_dead_workers_task_is_tried_again(void **state) {
    (void)state;
    mob_ref_t result = slot_open();
    uint32_t record = submit(MOB_TASK, result, NONE, 1);
    for (int i = 0; i < 2; i++) {
        taken(record, worker);
        uint64_t before = wire_word_generation(record_word(record));
        node_client_died(worker);
        worker = worker_new();
        if (i == 0) assert_int_equal(wire_word_generation(record_word(record)), before + 1);
        node_schedule(n);
    }
    /* one retry was allowed: the second death is the end */
    assert_null(n->tasks[record]);
    assert_int_equal(word_of(result) & STORE_STATE, STORE_SEALED);
    assert_int_equal(store_meta_error(slot_of(result)->meta), MOB_ECRASHED);
    assert_int_equal(cpus_free(), 4);
}

static void test_what_was_not_begun_is_tried_in_any_case(void **state) {
    (void)state;
    mob_ref_t result = slot_open();
    uint32_t record = submit(MOB_TASK, result, NONE, 0);
    node_client_died(worker); /* READY: it never took it */
    worker = worker_new();
    node_schedule(n);
    taken(record, worker);
    done(record, worker, result);
    assert_int_equal(store_meta_error(slot_of(result)->meta), MOB_OK);
}

static void test_done_is_completed_for_the_dead(void **state) {
    (void)state;
    mob_ref_t result = slot_open();
    uint32_t record = submit(MOB_TASK, result, NONE, 0);
    taken(record, worker);
    slot_of(result)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    atomic_store(&n->records[record].word,
                 wire_word(wire_word_generation(record_word(record)), 0, WIRE_DONE_STATE));
    node_client_died(worker); /* before it sealed, and before it told us */
    assert_null(n->tasks[record]);
    assert_int_equal(word_of(result), STORE_SEALED);
    assert_int_equal(store_meta_error(slot_of(result)->meta), MOB_OK);
}

static void test_a_dead_submitters_tasks(void **state) {
    (void)state;
    node_client_t *submitter = fixture_client_new(n, WIRE_WORKER), *usual = driver;
    node_grant_slots(submitter, 1);
    next_slot = fixture_heard(submitter).grant.first;
    node_grant_records(submitter, 1);
    next_record = fixture_heard(submitter).grant.first;
    driver = submitter;
    mob_ref_t begun = slot_open(), waiting = slot_open();
    uint32_t first = submit(MOB_TASK, begun, NONE, 0), second = submit(MOB_TASK, waiting, begun, 0);
    driver = usual;
    taken(first, worker);
    node_client_died(submitter);
    assert_null(n->tasks[second]); /* nobody had begun it, and nobody else knows of its result */
    assert_non_null(n->tasks[first]);
    done(first, worker, begun);
    fixture_settle(n);
    assert_null(n->tasks[first]);
    assert_int_equal(word_of(begun), STORE_FREE);
    assert_int_equal(word_of(waiting), STORE_FREE);
    assert_int_equal(worker->state, NODE_LIVE);
}

/* ---- actors ---- */

static uint32_t call(mob_ref_t actor, mob_ref_t result, mob_ref_t dep) {
    uint32_t index = record_fill(MOB_ACTOR_CALL, result, dep, 0);
    n->records[index].actor = actor;
    fixture_say(driver, WIRE_SUBMIT, index, wire_word_generation(record_word(index)));
    node_schedule(n);
    return index;
}

static void test_an_actor_runs_its_calls(void **state) {
    (void)state;
    mob_ref_t actor = slot_open(), result = slot_open();
    uint32_t creation = submit(MOB_ACTOR_CREATE, actor, NONE, 0), first = call(actor, result, NONE);
    taken(creation, worker);
    assert_int_equal(fixture_heard(worker).kind, 0); /* not before it is made */
    done(creation, worker, actor);
    taken(first, worker);
    done(first, worker, result);
    assert_int_equal(worker->state, NODE_LIVE);
    assert_int_equal(cpus_free(), 4); /* it holds nothing once it is made: held_shape 0 */
    node_client_died(worker);
    mob_ref_t late = slot_open();
    call(actor, late, NONE);
    assert_int_equal(store_meta_error(slot_of(late)->meta), MOB_EACTOR);
}

static void test_a_call_that_fails_while_its_argument_is_missing(void **state) {
    (void)state;
    mob_ref_t argument = slot_open(), result = slot_open(), nobody = slot_open();
    uint32_t record = submit(MOB_TASK, argument, NONE, 0);
    call(nobody, result, argument);
    assert_int_equal(store_meta_error(slot_of(result)->meta), MOB_EACTOR);
    taken(record, worker);
    done(record, worker, argument); /* must not find the call any more */
    assert_int_equal(worker->state, NODE_LIVE);
}

/* A handle that came by another process is used before the ring with its creation was read. */
static void test_a_call_that_is_read_before_its_actors_creation(void **state) {
    (void)state;
    mob_ref_t actor = slot_open(), result = slot_open(), nobody = slot_open(), lost = slot_open();
    atomic_fetch_or(&slot_of(actor)->word, STORE_ESCAPED);
    atomic_fetch_or(&slot_of(nobody)->word, STORE_ESCAPED);
    n->round++;
    uint32_t first = call(actor, result, NONE);
    call(nobody, lost, NONE);
    node_actors_settle(n);
    assert_int_equal(word_of(result) & STORE_STATE, STORE_PENDING);
    uint32_t creation = submit(MOB_ACTOR_CREATE, actor, NONE, 0);
    taken(creation, worker);
    done(creation, worker, actor);
    taken(first, worker);
    done(first, worker, result);
    assert_int_equal(word_of(lost) & STORE_STATE, STORE_PENDING);
    n->round++;
    node_actors_settle(n); /* every ring was read, and nothing made that one */
    assert_int_equal(store_meta_error(slot_of(lost)->meta), MOB_EACTOR);
}

static void test_an_actor_that_is_killed_before_its_creation_is_read(void **state) {
    (void)state;
    mob_ref_t actor = slot_open();
    atomic_fetch_or(&slot_of(actor)->word, STORE_ESCAPED);
    fixture_say(driver, WIRE_KILL, actor.slot, actor.generation);
    uint32_t creation = record_fill(MOB_ACTOR_CREATE, actor, NONE, 0);
    fixture_say(driver, WIRE_SUBMIT, creation, wire_word_generation(record_word(creation)));
    assert_null(n->tasks[creation]);
    assert_int_equal(store_meta_error(slot_of(actor)->meta), MOB_EACTOR);
}

static void test_an_actor_killed_while_its_argument_is_missing(void **state) {
    (void)state;
    mob_ref_t argument = slot_open(), actor = slot_open();
    uint32_t record = submit(MOB_TASK, argument, NONE, 0),
             creation = submit(MOB_ACTOR_CREATE, actor, argument, 0);
    fixture_say(driver, WIRE_KILL, actor.slot, actor.generation);
    assert_null(n->tasks[creation]);
    assert_int_equal(store_meta_error(slot_of(actor)->meta), MOB_EACTOR);
    taken(record, worker);
    done(record, worker, argument);
    assert_int_equal(fixture_heard(worker).kind, 0);
}

static void test_an_actor_killed_while_it_waits_for_a_worker(void **state) {
    (void)state;
    mob_ref_t busy = slot_open(), actor = slot_open();
    uint32_t record = submit(MOB_TASK, busy, NONE, 0),
             creation = submit(MOB_ACTOR_CREATE, actor, NONE, 0);
    taken(record, worker);
    fixture_say(driver, WIRE_KILL, actor.slot, actor.generation);
    node_client_t *late = worker_new();
    if (n->tasks[creation] != NULL) { /* it may be made first, but it does not live */
        taken(creation, late);
        done(creation, late, actor);
        assert_int_equal(late->state, NODE_DYING);
    }
}

/* ---- what no client does ---- */

/* The driver's fault ends the session: begins anew. */
static void fault_forgive(void) {
    assert_non_null(driver->fault);
    assert_true(n->ending);
    driver->fault = NULL;
    driver->state = NODE_LIVE;
    JOB(n)->farewell = (node_farewell_t){0};
    n->ending = false;
}

static void expect_fault(uint32_t index) {
    fixture_say(driver, WIRE_SUBMIT, index, wire_word_generation(record_word(index)));
    fault_forgive();
}

static void test_records_that_make_no_sense(void **state) {
    (void)state;
    mob_ref_t result = slot_open();
    uint32_t index;
    wire_record_t *r;

#define BAD(change)                                 \
    index = record_fill(MOB_TASK, result, NONE, 0); \
    r = &n->records[index];                         \
    change;                                         \
    expect_fault(index);                            \
    assert_null(n->tasks[index])

    BAD(r->num_returns = 100);
    BAD(r->num_returns = UINT32_MAX);
    BAD(r->num_deps = UINT32_MAX);
    BAD(r->num_refs = MOB_MAX_DEPS + 1);
    BAD(r->name_size = 255);
    BAD(r->body_size = WIRE_RECORD_BODY + 1);
    BAD(r->body_size = 0);
    BAD(r->kind = 3);
    BAD(r->shape = 12345);
    BAD(r->held_shape = UINT32_MAX);
    BAD(r->block = 64); /* memory that is not its own */
    BAD(r->block = UINT64_MAX);
    BAD(r->block = 64; r->body_size = UINT64_MAX);
    BAD(((mob_ref_t *)r->body)->slot = 0); /* results in slots that are not its own */
    BAD(((mob_ref_t *)r->body)->slot = STORE_MAX_SLOTS);
    BAD(((mob_ref_t *)r->body)->slot = result.slot + STORE_SLOT_BLOCK);
    BAD(atomic_store(&r->word, wire_word(1, 0, WIRE_FREE)));
    BAD(atomic_store(&r->word, wire_word(1, worker->number, WIRE_TAKEN)));
    /* would hold more than it had */
    BAD(r->kind = MOB_ACTOR_CREATE; r->shape = 0; r->held_shape = MOB_SHAPE_ONE_CPU);
    BAD(r->kind = MOB_ACTOR_CREATE; r->num_returns = 0);
#undef BAD
    assert_int_equal(cpus_free(), 4);
}

static void test_records_of_others(void **state) {
    (void)state;
    const uint32_t indices[] = {next_record + WIRE_RECORD_BLOCK, WIRE_MAX_RECORDS - 1,
                                WIRE_MAX_RECORDS, UINT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        fixture_say(driver, WIRE_SUBMIT, indices[i], 1);
        fault_forgive();
    }
}

static void test_submitting_twice(void **state) {
    (void)state;
    uint32_t record = submit(MOB_TASK, slot_open(), NONE, 0);
    expect_fault(record);
    assert_non_null(n->tasks[record]);
}

static void test_bodies_in_the_arena(void **state) {
    (void)state;
    node_extent_ask(driver, 2 * SHM_GRANULE, 2 * SHM_GRANULE, false);
    uint64_t offset = fixture_heard(driver).extent.offset;
    const uint64_t bad[] = {offset + 2 * SHM_GRANULE, offset + 2 * SHM_GRANULE - 64, offset + 65,
                            offset + 63 * 1024 + 8};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t index = record_fill(MOB_TASK, slot_open(), NONE, 0);
        n->records[index].block = bad[i];
        n->records[index].body_size = 1000;
        expect_fault(index);
    }
    mob_ref_t result = slot_open();
    uint32_t index = record_fill(MOB_TASK, result, NONE, 0);
    memcpy(n->arena.base + offset + 64, n->records[index].body, WIRE_RECORD_BODY);
    n->records[index].block = offset + 64;
    n->records[index].body_size = 2 * SHM_GRANULE - 64;
    fixture_say(driver, WIRE_SUBMIT, index, wire_word_generation(record_word(index)));
    node_schedule(n);
    taken(index, worker);
    done(index, worker, result);
    assert_string_equal(control_event_at(n->control, 0)->name, "work");
}

static void expect_worker_fault_at(uint32_t kind, uint32_t a, uint64_t b, uint64_t place,
                                   uint64_t size) {
    node_client_t *liar = fixture_client_new(n, WIRE_WORKER);
    wire_message_t m = {.query = {kind, a, b, place, size}};
    assert_true(shm_ring_push(liar->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, liar->number);
    node_inbox_read(n);
    assert_non_null(liar->fault);
    assert_int_equal(liar->state, NODE_DYING);
    fixture_say(liar, WIRE_HOLD, 1, 1); /* not listened to any more */
    node_client_died(liar);
}

static void expect_worker_fault(uint32_t kind, uint32_t a, uint64_t b) {
    expect_worker_fault_at(kind, a, b, 0, 0);
}

static void test_lies_about_records(void **state) {
    (void)state;
    mob_ref_t result = slot_open();
    uint32_t record = submit(MOB_TASK, result, NONE, 0);
    uint64_t generation = wire_word_generation(record_word(record));
    taken(record, worker);
    expect_worker_fault(WIRE_DONE, record, generation);
    expect_worker_fault(WIRE_RETRY, record, generation);
    expect_worker_fault(WIRE_DONE, WIRE_MAX_RECORDS, 1);
    expect_worker_fault(WIRE_DONE, UINT32_MAX, 1);
    expect_worker_fault(WIRE_RUN, record, generation);
    expect_worker_fault(0, 0, 0);
    expect_worker_fault(UINT32_MAX, 0, 0);
    expect_worker_fault(WIRE_NEED_EXTENT, 0, 0);
    expect_worker_fault_at(WIRE_QUERY, MOB_QUERY_RESOURCES, 0, 64, 4096);
    expect_worker_fault_at(WIRE_QUERY, MOB_QUERY_RESOURCES, 0, 0, SHM_SCRATCH_BYTES + 1);
    expect_worker_fault_at(WIRE_QUERY, MOB_QUERY_RESOURCES, 0, UINT64_MAX, UINT64_MAX);
    expect_worker_fault_at(WIRE_SHAPE, 1, 1, 64, 64);
    expect_worker_fault_at(WIRE_SHAPE, 1, SHM_SCRATCH_BYTES + 1, 0, SHM_SCRATCH_BYTES);
    expect_worker_fault_at(WIRE_SHAPE, UINT32_MAX, 8, 0, 64);
    done(record, worker, result);
    /* true, but not done yet, and not one that may be run again */
    mob_ref_t other = slot_open();
    record = submit(MOB_TASK, other, NONE, 5);
    taken(record, worker);
    fixture_say(worker, WIRE_RETRY, record, wire_word_generation(record_word(record)));
    assert_non_null(worker->fault);
}

static void test_an_impossible_ring(void **state) {
    (void)state;
    node_client_t *liar = fixture_client_new(n, WIRE_WORKER);
    atomic_store(&liar->up->tail, 1u << 30);
    shm_node_notify(n->shared, liar->number);
    node_inbox_read(n);
    assert_non_null(liar->fault);
    for (uint32_t w = 0; w < SHM_MAX_CLIENTS / 64; w++)
        atomic_store(&n->shared->pending[w], UINT64_MAX);
    node_inbox_read(n); /* bits of clients that do not exist */
    assert_int_equal(worker->state, NODE_LIVE);
}

static void test_blocking_is_taken_as_it_comes(void **state) {
    (void)state;
    mob_ref_t result = slot_open();
    fixture_say(worker, WIRE_BLOCK, 0, 0); /* with nothing to run */
    fixture_say(worker, WIRE_UNBLOCK, 0, 0);
    uint32_t record = submit(MOB_TASK, result, NONE, 0);
    taken(record, worker);
    for (int i = 0; i < 3; i++) fixture_say(worker, WIRE_BLOCK, 0, 0);
    assert_int_equal(cpus_free(), 4);
    for (int i = 0; i < 3; i++) fixture_say(worker, WIRE_UNBLOCK, 0, 0);
    assert_int_equal(cpus_free(), 3);
    done(record, worker, result);
    assert_int_equal(cpus_free(), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_from_submit_to_done, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_for_its_argument, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tasks_that_wait_end_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_follows_is_handed_out_behind_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_follows_one_that_is_run_again_comes_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_dead_workers_task_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_not_begun_is_tried_in_any_case, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_done_is_completed_for_the_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_dead_submitters_tasks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_actor_runs_its_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_call_that_is_read_before_its_actors_creation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_actor_that_is_killed_before_its_creation_is_read,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_call_that_fails_while_its_argument_is_missing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_actor_killed_while_its_argument_is_missing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_actor_killed_while_it_waits_for_a_worker, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_records_that_make_no_sense, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_submitting_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bodies_in_the_arena, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lies_about_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_impossible_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocking_is_taken_as_it_comes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
