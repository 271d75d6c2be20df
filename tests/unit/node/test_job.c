/* A job that ends in a daemon that stays: nothing of it is begun again, nothing of it is left. */
#include "players.h"

/* A second job stays, so that the node has one when the first is gone. */
static int job_setup(void **state) {
    setup(state);
    n->config.stays = true;
    fixture_job_new(n, NULL);
    return 0;
}

static void taken(node_client_t *w, uint32_t record) {
    uint64_t generation = generation_of(record);
    assert_true(told_to_run(w, record));
    assert_true(wire_record_move(&n->records[record], wire_word(generation, 0, WIRE_READY_STATE),
                                 wire_word(generation, w->number, WIRE_TAKEN), NULL));
}

/* Both are certain; the driver is told of last. */
static void all_die(node_client_t *w) {
    JOB(n)->setup->zygote.pid = 0;
    node_client_died(w);
    node_client_died(driver.client);
    assert_int_equal(n->jobs.items.count, 1);
    assert_int_equal(cpus_free(), CPUS);
}

static uint32_t actor_submit(int32_t restarts) {
    uint32_t record = record_fill(&driver, slot_open(&driver), NONE, restarts, true);
    n->records[record].kind = MOB_ACTOR_CREATE;
    n->records[record].held_shape = 0;
    atomic_fetch_or(&n->slots[driver.next_slot - 1].word, STORE_ESCAPED);
    fixture_say(driver.client, WIRE_SUBMIT, record, generation_of(record));
    node_schedule(n);
    return record;
}

/* Its constructor was running: it may be restarted, but not after its job's end. */
static void test_an_actor_that_is_being_made(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    taken(w, actor_submit(-1));
    node_job_leave(JOB(n), false);
    all_die(w);
}

/* The worker waits for something, so what it has ahead comes back, when nobody may begin it. */
static void test_a_task_that_comes_back(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    uint32_t first = submit(1);
    taken(w, first);
    for (int i = 0; i < CPUS; i++) submit(1);
    node_job_leave(JOB(n), false);
    assert_int_equal(w->run_count, 2);
    fixture_say(w, WIRE_BLOCK, 0, 0);
    node_schedule(n);
    all_die(w);
}

/* Jobs of detached actors that it has made go on, and have nobody to tell. */
static void test_the_maker_of_others(void **state) {
    (void)state;
    node_job_t *maker = JOB(n), *others[] = {n->jobs.items.items[1], fixture_job_new(n, NULL)};
    for (int i = 0; i < 2; i++) others[i]->maker = maker;
    node_job_leave(maker, false);
    maker->setup->zygote.pid = 0;
    node_client_died(driver.client);
    assert_int_equal(n->jobs.items.count, 2);
    for (int i = 0; i < 2; i++) assert_null(others[i]->maker);
}

/* It said that it leaves, and its process ended before that was read. */
static void test_a_driver_that_leaves_and_dies(void **state) {
    (void)state;
    wire_message_t leave = wire_plain(WIRE_LEAVE);
    node_client_t *c = driver.client;
    JOB(n)->setup->zygote.pid = 0;
    for (int i = 0; i < 2; i++) assert_true(shm_ring_push(c->up, SHM_UP_MESSAGES, &leave));
    shm_node_notify(n->shared, c->number);
    node_client_died(c);
    assert_int_equal(n->jobs.items.count, 1);
    assert_int_equal(cpus_free(), CPUS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_actor_that_is_being_made, job_setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_task_that_comes_back, job_setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_maker_of_others, job_setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_driver_that_leaves_and_dies, job_setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
