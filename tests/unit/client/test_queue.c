/* The queues that workers take tasks from: who gets an entry, in which turn, and who is woken. */
#include "worker.h"

static uint64_t claimed[16];
static size_t claims;
static uint64_t refused; /* an entry that can't be claimed */

static bool claim(mob_client_t *c, uint64_t entry) {
    (void)c;
    if (entry == refused) return false;
    claimed[claims++ % 16] = entry;
    return true;
}

static bool claim_fails(mob_client_t *c, uint64_t entry) {
    (void)entry;
    c->run_unclaimable = true;
    return false;
}

static int setup(void **state) {
    claims = 0;
    refused = 0;
    return worker_make(state);
}

/* As client `number` would push it. */
static void push_as(uint32_t number, uint32_t lane, uint32_t record) {
    submitter->number = number;
    client_queue_push(submitter, lane, record, 1);
    submitter->number = SUBMITTER;
}

static bool is_queued(mob_client_t *c, uint32_t number) {
    return atomic_load(&c->node->lanes[LANE].queued[number / 64]) & shm_node_bit(number);
}

static void idle_set(mob_client_t *c, uint32_t number) {
    atomic_fetch_or(&bits(c, LANE, number)->idle, shm_node_bit(number));
}

static void expect_taken(mob_client_t *c, uint32_t record) {
    claims = 0;
    assert_true(client_queue_take(c, LANE, claim));
    assert_int_equal(claims, 1);
    assert_int_equal(wire_entry_index(claimed[0]), record);
}

static void test_each_entry_is_taken_once_in_order(void **state) {
    mob_client_t *c = *state;
    assert_false(client_queues_have(c, LANE));
    for (uint32_t i = 1; i <= 5; i++) push_as(SUBMITTER, LANE, i);
    assert_true(client_queues_have(c, LANE));
    for (uint32_t i = 1; i <= 5; i++) expect_taken(c, i);
    assert_false(client_queues_have(c, LANE));
    assert_false(client_queue_take(c, LANE, claim));
}

static void test_what_cannot_be_claimed_is_passed(void **state) {
    mob_client_t *c = *state;
    push_as(SUBMITTER, LANE, 1);
    push_as(SUBMITTER, LANE, 2);
    refused = wire_entry(1, 1); /* somebody else has it, or it was taken back */
    expect_taken(c, 2);
    assert_false(client_queue_take(c, LANE, claim));
}

static void test_what_this_worker_cannot_run_stays_for_others(void **state) {
    mob_client_t *c = *state;
    push_as(SUBMITTER, LANE, 1);
    assert_false(client_queue_take(c, LANE, claim_fails));
    assert_true(client_queues_have(c, LANE));
    assert_false(client_queue_take(c, LANE, claim)); /* it tries no more */
    c->run_unclaimable = false;
    expect_taken(c, 1);
}

static void test_submitters_have_their_turns(void **state) {
    static const uint32_t numbers[] = {SUBMITTER, 63, 64, 130};
    mob_client_t *c = *state;
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < 4; i++) push_as(numbers[i], LANE, 10 * round + i + 1);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < 4; i++) expect_taken(c, 10 * round + i + 1);
    assert_false(client_queue_take(c, LANE, claim));
}

static void test_lanes_are_apart(void **state) {
    mob_client_t *c = *state;
    push_as(SUBMITTER, LANE + 1, 1);
    assert_false(client_queues_have(c, LANE));
    assert_false(client_queue_take(c, LANE, claim));
    assert_true(client_queues_have(c, LANE + 1));
    assert_true(client_queue_take(c, LANE + 1, claim));
}

static void test_only_empty_queues_are_forgotten(void **state) {
    mob_client_t *c = *state;
    push_as(SUBMITTER, LANE, 1);
    push_as(130, LANE, 2);
    expect_taken(c, 1);
    assert_true(is_queued(c, SUBMITTER)); /* until somebody is about to sleep */
    client_queues_clear(c, LANE);
    assert_false(is_queued(c, SUBMITTER));
    assert_true(is_queued(c, 130));
    push_as(SUBMITTER, LANE, 3);
    assert_true(is_queued(c, SUBMITTER));
}

static void test_a_push_wakes_one_that_sleeps(void **state) {
    mob_client_t *c = *state;
    idle_set(c, NUMBER);
    idle_set(c, 100);
    push_as(SUBMITTER, LANE, 1);
    assert_false(is_idle(c, NUMBER));
    assert_int_equal(rings(c, NUMBER), 1);
    assert_true(is_idle(c, 100));
    assert_int_equal(rings(c, 100), 0);
    push_as(SUBMITTER, LANE, 2);
    assert_false(is_idle(c, 100));
    assert_int_equal(rings(c, 100), 1);
    push_as(SUBMITTER, LANE, 3); /* nobody is left, and the daemon did not ask */
    assert_int_equal(rings(c, NUMBER), 1);
    assert_false(daemon_is_told(c, SUBMITTER));
}

static void test_a_push_wakes_nobody_while_one_looks(void **state) {
    mob_client_t *c = *state;
    idle_set(c, NUMBER);
    atomic_store(&c->node->lanes[LANE].more, 1);
    atomic_fetch_or(&bits(c, LANE, 100)->looking, shm_node_bit(100));
    push_as(SUBMITTER, LANE, 1);
    assert_true(is_idle(c, NUMBER));
    assert_int_equal(rings(c, NUMBER), 0);
    assert_false(daemon_is_told(c, SUBMITTER));
}

static void test_the_daemon_is_told_where_it_can_grant_more(void **state) {
    mob_client_t *c = *state;
    atomic_store(&c->node->lanes[LANE].more, 1);
    idle_set(c, NUMBER);
    push_as(SUBMITTER, LANE, 1);
    assert_false(daemon_is_told(c, SUBMITTER)); /* one was there */
    push_as(SUBMITTER, LANE, 2);
    assert_true(daemon_is_told(c, SUBMITTER));
}

static void test_who_takes_one_and_sees_more_wakes_the_next(void **state) {
    mob_client_t *c = *state;
    push_as(SUBMITTER, LANE, 1);
    push_as(130, LANE, 2);
    idle_set(c, 100);
    expect_taken(c, 1);
    assert_false(is_idle(c, 100));
    assert_int_equal(rings(c, 100), 1);
    idle_set(c, 100);
    expect_taken(c, 2); /* the last one: there is nothing to wake it for */
    assert_true(is_idle(c, 100));
}

static void test_a_full_queue_leaves_the_rest_to_the_daemon(void **state) {
    mob_client_t *c = *state;
    shm_queue_t *q = &c->queues[shm_lane_queue(LANE, SUBMITTER)];
    atomic_store(&q->tail, SHM_QUEUE_ENTRIES);
    task_t task = pushed();
    assert_int_equal(shm_queue_count(q), SHM_QUEUE_ENTRIES);
    assert_true(record_word(task) & WIRE_KNOWN);
    uint32_t kind = 0, next;
    while ((next = daemon_hears(submitter).kind) != 0) kind = next;
    assert_int_equal(kind, WIRE_SUBMIT);
}

#undef WORKER_TEST
#define WORKER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, worker_unmake)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_each_entry_is_taken_once_in_order),
        WORKER_TEST(test_what_cannot_be_claimed_is_passed),
        WORKER_TEST(test_what_this_worker_cannot_run_stays_for_others),
        WORKER_TEST(test_submitters_have_their_turns),
        WORKER_TEST(test_lanes_are_apart),
        WORKER_TEST(test_only_empty_queues_are_forgotten),
        WORKER_TEST(test_a_push_wakes_one_that_sleeps),
        WORKER_TEST(test_a_push_wakes_nobody_while_one_looks),
        WORKER_TEST(test_the_daemon_is_told_where_it_can_grant_more),
        WORKER_TEST(test_who_takes_one_and_sees_more_wakes_the_next),
        WORKER_TEST(test_a_full_queue_leaves_the_rest_to_the_daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
