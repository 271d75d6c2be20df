/* What waits in the daemon while the node's term is over: it holds no resources, keeps its order,
 * and can end meanwhile. */
#include "fixture.h"

#include "base/clock.h"

static const uint64_t LONG_NS = UINT64_C(1000000000) * 3600;

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

static uint64_t record_word(uint32_t record) { return atomic_load(&n->records[record].word); }

static uint32_t record_fill(int32_t max_retries) {
    mob_ref_t result = {.slot = next_slot++}, none = {0};
    uint32_t index = next_record++;
    result.generation = store_slot_open(&n->slots[result.slot]);
    fixture_record_publish(fixture_record_fill(n, index, MOB_TASK, result, none, max_retries),
                           false);
    return index;
}

static uint32_t submit(int32_t max_retries) {
    uint32_t index = record_fill(max_retries);
    fixture_say(driver, WIRE_SUBMIT, index, wire_word_generation(record_word(index)));
    node_schedule(n);
    return index;
}

static void term_go_on(void) {
    node_term_set(n, base_clock_boot_ns() + LONG_NS);
    node_schedule(n);
}

static int64_t cpus_free(void) {
    const char *name;
    uint64_t total;
    int64_t available;
    sched_resource_at(n->sched, 0, &name, &total, &available);
    return available / SCHED_UNIT;
}

static void expect_order(uint32_t record) {
    wire_message_t run = fixture_heard(worker);
    assert_int_equal(run.kind, WIRE_RUN);
    assert_int_equal(run.run.record, record);
    assert_int_equal(run.run.generation, wire_word_generation(record_word(record)));
}

static void test_tasks_that_are_not_run_again_wait(void **state) {
    (void)state;
    int64_t cpus = cpus_free();
    node_term_set(n, 0);
    uint32_t once = submit(0);
    assert_int_equal(fixture_heard(worker).kind, 0);
    assert_int_equal(cpus_free(), cpus);
    assert_true(n->tasks[once]->awaits_term);
    node_task_ready(n->tasks[once], n); /* whoever looks for tasks that do not stand anywhere */
    node_schedule(n);
    assert_int_equal(fixture_heard(worker).kind, 0);
    uint32_t again = submit(1);
    expect_order(again);
    term_go_on();
    assert_false(n->tasks[once]->awaits_term);
    assert_int_equal(cpus_free(), cpus - 2 < 0 ? 0 : cpus - 2);
}

static void test_they_keep_their_order_and_one_may_end(void **state) {
    (void)state;
    node_term_set(n, 0);
    uint32_t tasks[4];
    for (int i = 0; i < 4; i++) tasks[i] = submit(0);
    node_task_fail(n, n->tasks[tasks[1]], MOB_ECANCELLED, "");
    node_task_fail(n, n->tasks[tasks[3]], MOB_ECANCELLED, "");
    term_go_on();
    expect_order(tasks[0]);
    assert_non_null(n->tasks[tasks[2]]);
    node_task_fail(n, n->tasks[tasks[2]], MOB_ECANCELLED, "");
    assert_null(n->term.first);
}

/* As a guest that goes back to its room. */
static void test_one_that_is_taken_away_waits_no_more(void **state) {
    (void)state;
    node_term_set(n, 0);
    node_task_t *t = n->tasks[submit(0)];
    assert_true(node_cancel_take(n, t));
    assert_false(t->awaits_term);
    term_go_on();
    assert_int_equal(fixture_heard(worker).kind, 0);
    node_task_fail(n, t, MOB_ECANCELLED, "");
}

static void test_a_worker_gives_one_back(void **state) {
    (void)state;
    int64_t cpus = cpus_free();
    uint32_t once = submit(0);
    wire_message_t run = fixture_heard(worker);
    node_term_set(n, 0);
    fixture_say(worker, WIRE_UNREADY, once, run.run.generation);
    node_schedule(n);
    assert_int_equal(fixture_heard(worker).kind, 0);
    assert_int_equal(cpus_free(), cpus);
    term_go_on();
    expect_order(once);
}

static void test_a_worker_found_one_in_a_queue(void **state) {
    (void)state;
    uint32_t once = record_fill(0);
    uint64_t generation = wire_word_generation(record_word(once));
    node_term_set(n, 0);
    fixture_say(worker, WIRE_POSTPONE, once, generation);
    fixture_say(worker, WIRE_POSTPONE, once, generation); /* so did another one */
    node_schedule(n);
    assert_int_equal(fixture_heard(worker).kind, 0);
    assert_true(n->tasks[once]->awaits_term);
    term_go_on();
    expect_order(once);
    assert_int_equal(fixture_heard(worker).kind, 0);
}

static void test_words_about_no_such_record_do_no_harm(void **state) {
    (void)state;
    fixture_say(worker, WIRE_POSTPONE, UINT32_MAX, 1);
    fixture_say(worker, WIRE_POSTPONE, next_record, 1);
    fixture_say(worker, WIRE_POSTPONE, 0, 0);
    assert_null(worker->fault);
}

#define TERM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TERM_TEST(test_tasks_that_are_not_run_again_wait),
        TERM_TEST(test_they_keep_their_order_and_one_may_end),
        TERM_TEST(test_one_that_is_taken_away_waits_no_more),
        TERM_TEST(test_a_worker_gives_one_back),
        TERM_TEST(test_a_worker_found_one_in_a_queue),
        TERM_TEST(test_words_about_no_such_record_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
