/* The patience of a task that needs much, within a job and across them. */
#include "sim.h"

static void test_patience(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"x", 1}));
    uint32_t small = shape(job, AMOUNTS({"CPU", 1})), large = shape(job, AMOUNTS({"CPU", 2}));
    uint32_t other = shape(job, AMOUNTS({"x", 1}));
    sched_task_t task[5] = {0}, big = {0};
    sched_lease_t lease[5] = {0}, big_lease = {0};
    sched_task_add(job, &task[0], small, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[0]), &task[0]);
    sched_task_add(job, &big, large, 0);
    sched_task_add(job, &task[1], small, 0);
    sched_task_add(job, &task[2], small, 0);
    assert_ptr_equal(sched_task_next(sched, MS(249), &lease[1]), &task[1]);
    sched_lease_release(sched, &lease[0]);
    /* Now the younger one has to wait for it, but not what needs something else. */
    assert_null(sched_task_next(sched, MS(250), &lease[2]));
    sched_task_add(job, &task[3], other, MS(250));
    sched_task_add(job, &task[4], 0, MS(250));
    assert_ptr_equal(sched_task_next(sched, MS(250), &lease[3]), &task[3]);
    assert_ptr_equal(sched_task_next(sched, MS(250), &lease[4]), &task[4]);
    assert_null(sched_task_next(sched, MS(900), &lease[2]));
    sched_lease_release(sched, &lease[1]);
    assert_ptr_equal(sched_task_next(sched, MS(900), &big_lease), &big);
    assert_null(sched_task_next(sched, MS(900), &lease[2]));
    sched_lease_release(sched, &big_lease);
    assert_ptr_equal(sched_task_next(sched, MS(900), &lease[2]), &task[2]);
    sched_free(sched);
}

static void test_patience_ends_with_removal(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}));
    uint32_t small = shape(job, AMOUNTS({"CPU", 1})), large = shape(job, AMOUNTS({"CPU", 2}));
    sched_task_t a = {0}, b = {0}, big = {0};
    sched_lease_t lease;
    sched_task_add(job, &a, small, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &a);
    sched_task_add(job, &big, large, 0);
    sched_task_add(job, &b, small, 0);
    assert_null(sched_task_next(sched, MS(300), &lease));
    sched_task_remove(sched, &big);
    assert_ptr_equal(sched_task_next(sched, MS(300), &lease), &b);
    sched_free(sched);
}

/* A task that needs two things, each of which is free only while the other is not. */
static void test_patience_with_two_needs(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"x", 1}, {"y", 1}));
    uint32_t x = shape(job, AMOUNTS({"x", 1})), y = shape(job, AMOUNTS({"y", 1}));
    uint32_t both = shape(job, AMOUNTS({"x", 1}, {"y", 1}));
    sched_task_t xs[8] = {0}, ys[8] = {0}, big = {0};
    sched_lease_t held = {0}, next = {0};
    sched_task_add(job, &xs[0], x, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &held), &xs[0]);
    sched_task_add(job, &big, both, 0);
    uint64_t now = MS(300);
    int passed = 0;
    for (int i = 1; i < 8 && big.queued; i++) {
        sched_task_add(job, &xs[i], x, now);
        sched_task_add(job, &ys[i], y, now);
        sched_task_t *task = sched_task_next(sched, now, &next);
        sched_lease_release(sched, &held);
        if (!task) task = sched_task_next(sched, now, &next);
        assert_non_null(task);
        passed += task != &big;
        held = next;
        now += MS(10);
    }
    assert_false(big.queued);
    assert_int_equal(passed, 1);
    sched_free(sched);
}

/* While somebody waits for a GPU, the CPUs go on working; once there is one, it gets a CPU, and
 * nobody takes the GPU. */
static void test_patience_leaves_cpus_open(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 1}, {"GPU", 1}));
    uint32_t gpu = shape(job, AMOUNTS({"GPU", 1})), cpu = shape(job, AMOUNTS({"CPU", 1}));
    uint32_t both = shape(job, AMOUNTS({"CPU", 1}, {"GPU", 1}));
    sched_task_t holder = {0}, big = {0}, later = {0}, small[8] = {0};
    sched_lease_t held = {0}, lease = {0}, none = {0};
    sched_task_add(job, &holder, gpu, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &held), &holder);
    sched_task_add(job, &big, both, 0);
    for (int i = 0; i < 8; i++) {
        uint64_t now = MS(300 + i);
        sched_task_add(job, &small[i], cpu, now);
        assert_ptr_equal(sched_task_next(sched, now, &lease), &small[i]);
        assert_null(sched_task_next(sched, now, &none));
        if (i < 7) sched_lease_release(sched, &lease);
    }
    sched_lease_release(sched, &held);
    sched_task_add(job, &later, gpu, MS(310));
    assert_null(sched_task_next(sched, MS(310), &none));
    sched_lease_release(sched, &lease);
    assert_ptr_equal(sched_task_next(sched, MS(311), &lease), &big);
    sched_free(sched);
}

/* An actor's GPU does not come back by waiting, so the other GPU is not kept free for one that
 * wants both. */
static void test_no_waiting_for_actors(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"GPU", 2}));
    uint32_t one = shape(job, AMOUNTS({"GPU", 1})), two = shape(job, AMOUNTS({"GPU", 2}));
    sched_task_t actor = {0}, big = {0}, small[2] = {0};
    sched_lease_t actor_lease = {0}, lease = {0};
    sched_task_add(job, &actor, one, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &actor_lease), &actor);
    sched_lease_shrink(job, &actor_lease, one);
    sched_task_add(job, &big, two, 0);
    sched_task_add(job, &small[0], one, 0);
    sched_task_add(job, &small[1], one, 0);
    assert_ptr_equal(sched_task_next(sched, MS(1000), &lease), &small[0]);
    sched_lease_release(sched, &actor_lease);
    assert_null(sched_task_next(sched, MS(1000), &actor_lease));
    sched_lease_release(sched, &lease);
    assert_ptr_equal(sched_task_next(sched, MS(1000), &lease), &big);
    sched_free(sched);
}

/* A task that holds a GPU and waits in get for a child that needs the other one. */
static void test_no_waiting_for_blocked(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"GPU", 2}));
    uint32_t one = shape(job, AMOUNTS({"CPU", 1}, {"GPU", 1})),
             two = shape(job, AMOUNTS({"GPU", 2}));
    sched_task_t parent = {0}, big = {0}, child = {0};
    sched_lease_t parent_lease = {0}, child_lease = {0}, big_lease = {0};
    sched_task_add(job, &parent, one, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &parent_lease), &parent);
    sched_task_add(job, &big, two, 0);
    sched_task_add(job, &child, one, 0);
    assert_null(sched_task_next(sched, MS(1000), &child_lease));
    sched_lease_block(sched, &parent_lease);
    assert_ptr_equal(sched_task_next(sched, MS(1000), &child_lease), &child);
    sched_lease_release(sched, &child_lease);
    sched_lease_unblock(sched, &parent_lease);
    sched_lease_release(sched, &parent_lease);
    assert_ptr_equal(sched_task_next(sched, MS(1000), &big_lease), &big);
    sched_free(sched);
}

/* ---- Across jobs --------------------------------------------------------- */

/* A task of the first group's that needs much starts although the second has no end of small ones,
 * whichever of them was there first. */
static void test_large_starts_across_jobs(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        sim_t sim = {.sched = node(AMOUNTS({"CPU", 4})), .spread_ms = 6};
        sched_job_t *jobs[2] = {job, job_new(sim.sched)};
        sched_job_t *a = jobs[first], *b = jobs[1 - first];
        group_t *small = sim_group(&sim, b, shape(b, AMOUNTS({"CPU", 1})), 10, 100);
        sim_run(&sim, 1000);
        group_t *large = sim_group(&sim, a, shape(a, AMOUNTS({"CPU", 4})), 10, 1);
        sim_run(&sim, 245);
        assert_int_equal(large->started, 0);
        sim_run(&sim, 5 + 2 * 16);
        assert_int_equal(large->started, 1);
        sim_run(&sim, 10000);
        assert_true(large->started >= 30 && small->started > 1000);
        sim_free(&sim);
    }
}

/* Nor does a job with a large backlog of large ones shut out the other. */
static void test_a_million_large_ones(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 4}))};
    sched_job_t *other = job_new(sim.sched);
    group_t *large = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 4})), 10, 1000000);
    sim_run(&sim, 1000);
    group_t *small = sim_group(&sim, other, shape(other, AMOUNTS({"CPU", 1})), 10, 1);
    sim_run(&sim, 1000);
    assert_int_equal(small->started, 50);
    assert_int_equal(large->started, 50);
    sim_free(&sim);
}

static void actor_start(sched_t *sched, sched_job_t *of, uint32_t id, sched_lease_t *ret_lease) {
    sched_task_t task = {0};
    sched_task_add(of, &task, id, 0);
    assert_ptr_equal(sched_task_next(sched, 0, ret_lease), &task);
    sched_lease_shrink(of, ret_lease, id);
}

/* By turns alone the other job, which has no actor, would come first each time it holds nothing. */
static void test_large_starts_beside_an_actor(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 4})), .spread_ms = 6};
    sched_job_t *other = job_new(sim.sched);
    sched_lease_t actor;
    actor_start(sim.sched, job, shape(job, AMOUNTS({"CPU", 1})), &actor);
    sim_group(&sim, other, shape(other, AMOUNTS({"CPU", 1})), 10, 100);
    group_t *large = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 3})), 10, 1);
    sim_run(&sim, 10000);
    assert_true(large->started > 20);
    sim_free(&sim);
}

/* And small ones too, where actors hold more than the other job ever does. The other keeps its
 * CPU: no more than one goes ahead. */
static void test_small_starts_beside_actors(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 4}))};
    sched_job_t *other = job_new(sim.sched);
    sched_lease_t actor;
    actor_start(sim.sched, job, shape(job, AMOUNTS({"CPU", 2})), &actor);
    group_t *theirs = sim_group(&sim, other, shape(other, AMOUNTS({"CPU", 1})), 10, 100);
    group_t *mine = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 1})), 1000, 100);
    for (int window = 0; window < 5; window++) {
        sim_run(&sim, 2000);
        assert_in_range(mine->started, 1, 2);
        assert_in_range(mine->held, 5000, 6000);
        assert_true(theirs->held >= 2000);
    }
    sim_free(&sim);
}

/* A holder of as many CPUs gives way to a patient that would otherwise not come to its turn. */
static void test_giving_way_to_a_patient(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}));
    sched_job_t *other = job_new(sched);
    sched_lease_t actor, lease = {0};
    sched_task_t holder = {0}, waits = {0};
    uint64_t since = 0;
    actor_start(sched, job, shape(job, AMOUNTS({"CPU", 1})), &actor);
    sched_task_add(other, &holder, shape(other, AMOUNTS({"CPU", 1})), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &holder);
    sched_task_add(job, &waits, shape(job, AMOUNTS({"CPU", 1})), MS(1));
    assert_null(sched_task_next(sched, MS(100), &lease));
    assert_int_equal(sched_cpu_lacking(sched, NULL, other, &since), 0);
    assert_null(sched_task_next(sched, MS(251), &lease));
    assert_int_equal(sched_cpu_lacking(sched, NULL, other, &since), SCHED_UNIT);
    assert_int_equal(since, MS(1));
    sched_free(sched);
}

/* The same for a resource that others take without a CPU, while the job goes on with CPUs. */
static void test_large_need_beside_cpus(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 2}, {"x", 2}))};
    sched_job_t *b = job_new(sim.sched), *c = job_new(sim.sched);
    group_t *large = sim_group(&sim, job, shape(job, AMOUNTS({"x", 2})), 10, 1);
    group_t *cpus = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 1})), 7, 100);
    group_t *ones = sim_group(&sim, b, shape(b, AMOUNTS({"x", 1})), 10, 100);
    sim_run(&sim, 15);
    sim_group(&sim, c, shape(c, AMOUNTS({"x", 1})), 17, 100);
    sim_run(&sim, 10000);
    assert_true(large->started > 20);
    assert_true(cpus->started > 2800); /* never closed */
    assert_true(ones->started > 300);
    sim_free(&sim);
}

/* One CPU is free all the time, and always kept for one of the two that need two. */
static void test_small_behind_patients(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 5}))};
    sched_job_t *b = job_new(sim.sched), *c = job_new(sim.sched);
    sched_lease_t actor;
    actor_start(sim.sched, job, shape(job, AMOUNTS({"CPU", 2})), &actor);
    sim_group(&sim, b, shape(b, AMOUNTS({"CPU", 2})), 10, 100);
    sim_group(&sim, c, shape(c, AMOUNTS({"CPU", 2})), 10, 100);
    sim_run(&sim, 305);
    group_t *small = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 1})), 10, 1);
    sim_run(&sim, 10000);
    assert_true(small->started > 20);
    sim_free(&sim);
}

/* What it lacks is closed to the other job, and nothing else is. */
static void test_closed_to_the_other_job(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"x", 2}));
    sched_job_t *other = job_new(sched);
    uint32_t cpu = shape(other, AMOUNTS({"CPU", 1})), x = shape(other, AMOUNTS({"x", 1}));
    sched_task_t running = {0}, large = {0}, small = {0}, free_one = {0}, younger = {0};
    sched_lease_t lease = {0}, other_lease = {0};
    sched_task_add(other, &running, cpu, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &running);
    sched_task_add(job, &large, shape(job, AMOUNTS({"CPU", 2})), 0);
    assert_null(sched_task_next(sched, MS(250), &other_lease));
    sched_task_add(other, &small, cpu, MS(250));
    sched_task_add(job, &younger, shape(job, AMOUNTS({"CPU", 1})), MS(250));
    assert_null(sched_task_next(sched, MS(250), &other_lease));
    sched_task_add(other, &free_one, x, MS(250));
    assert_ptr_equal(sched_task_next(sched, MS(250), &other_lease), &free_one);
    sched_lease_release(sched, &lease);
    assert_ptr_equal(sched_task_next(sched, MS(251), &lease), &large);
    sched_lease_release(sched, &lease);
    assert_ptr_equal(sched_task_next(sched, MS(252), &lease), &small);
    assert_ptr_equal(sched_task_next(sched, MS(252), &lease), &younger);
    sched_free(sched);
}

/* Another job's actor is not waited for either. */
static void test_no_waiting_for_others_actors(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"GPU", 2}));
    sched_job_t *other = job_new(sched);
    uint32_t one = shape(other, AMOUNTS({"GPU", 1}));
    sched_task_t large = {0}, small = {0};
    sched_lease_t actor, lease;
    actor_start(sched, other, one, &actor);
    sched_task_add(job, &large, shape(job, AMOUNTS({"GPU", 2})), 0);
    sched_task_add(other, &small, one, 0);
    assert_ptr_equal(sched_task_next(sched, MS(1000), &lease), &small);
    sched_free(sched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_patience_ends_with_removal),
        cmocka_unit_test(test_patience_with_two_needs),
        cmocka_unit_test(test_patience_leaves_cpus_open),
        cmocka_unit_test(test_no_waiting_for_actors),
        cmocka_unit_test(test_no_waiting_for_blocked),
        cmocka_unit_test(test_large_starts_across_jobs),
        cmocka_unit_test(test_a_million_large_ones),
        cmocka_unit_test(test_large_starts_beside_an_actor),
        cmocka_unit_test(test_small_starts_beside_actors),
        cmocka_unit_test(test_giving_way_to_a_patient),
        cmocka_unit_test(test_large_need_beside_cpus),
        cmocka_unit_test(test_small_behind_patients),
        cmocka_unit_test(test_closed_to_the_other_job),
        cmocka_unit_test(test_no_waiting_for_others_actors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
