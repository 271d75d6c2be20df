/* How jobs share a node: turns, what a job holds, and a job's end. */
#include "sim.h"

#include <string.h>

/* How much a job waits with makes no difference. */
static void test_a_million_against_a_few(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 4}))};
    sched_job_t *few = job_new(sim.sched);
    uint32_t one = shape(job, AMOUNTS({"CPU", 1}));
    group_t *million = sim_group(&sim, job, one, 10, 1000000);
    sim_run(&sim, 5);
    assert_int_equal(million->held, 4 * 5);
    /* One waits and two run, so that there is always one to take its turn. */
    group_t *three = sim_group(&sim, few, shape(few, AMOUNTS({"CPU", 1})), 10, 3);
    sim_run(&sim, 5);
    for (int window = 0; window < 100; window++) {
        sim_run(&sim, 20);
        assert_int_equal(million->held, 2 * 20);
        assert_int_equal(three->held, 2 * 20);
        assert_int_equal(million->started, 4);
        assert_int_equal(three->started, 4);
    }
    sim_free(&sim);
}

/* A job with one task at a time waits for one end of another's, not for its backlog. */
static void test_one_against_a_million(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 1}))};
    sched_job_t *other = job_new(sim.sched);
    group_t *million = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 1})), 10, 1000000);
    sim_run(&sim, 1000);
    group_t *one = sim_group(&sim, other, shape(other, AMOUNTS({"CPU", 1})), 10, 1);
    sim_run(&sim, 1000);
    assert_int_equal(one->started, 50);
    assert_int_equal(million->started, 50);
    sim_free(&sim);
}

static void test_three_jobs_on_two_cpus(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 2}))};
    group_t *groups[3];
    for (int j = 0; j < 3; j++) {
        sched_job_t *mine = j == 0 ? job : job_new(sim.sched);
        groups[j] = sim_group(&sim, mine, shape(mine, AMOUNTS({"CPU", 1})), 10, 100);
    }
    for (int window = 0; window < 100; window++) {
        sim_run(&sim, 30);
        for (int j = 0; j < 3; j++) {
            assert_int_equal(groups[j]->started, 2);
            assert_int_equal(groups[j]->held, 20);
        }
    }
    sim_free(&sim);
}

/* The CPUs that it holds are a job's share, however long its tasks are. */
static void test_lengths_make_no_difference(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 4}))};
    sched_job_t *other = job_new(sim.sched);
    group_t *brief = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 1})), 1, 100);
    group_t *lengthy = sim_group(&sim, other, shape(other, AMOUNTS({"CPU", 1})), 1000, 100);
    for (int window = 0; window < 10; window++) {
        sim_run(&sim, 1000);
        assert_int_equal(brief->held, 2000);
        assert_int_equal(lengthy->held, 2000);
        assert_int_equal(brief->started, 2000);
        assert_int_equal(lengthy->started, 2);
    }
    sim_free(&sim);
}

/* Nor how much each needs, as long as several go into a share. A patient does not go ahead of the
 * turns while its job has its share. */
static void test_sizes_make_no_difference(void **state) {
    (void)state;
    sim_t sim = {.sched = node(AMOUNTS({"CPU", 4}))};
    sched_job_t *other = job_new(sim.sched);
    group_t *small = sim_group(&sim, job, shape(job, AMOUNTS({"CPU", 1})), 1, 100);
    group_t *large = sim_group(&sim, other, shape(other, AMOUNTS({"CPU", 2})), 1000, 100);
    sim_run(&sim, 1);
    for (int window = 0; window < 10; window++) {
        sim_run(&sim, 1000);
        assert_in_range(small->held, 1990, 2010);
        assert_in_range(large->held, 1990, 2010);
    }
    sim_free(&sim);
}

static void test_the_next_cpu_goes_to_who_came(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}));
    sched_job_t *late = job_new(sched);
    uint32_t mine = shape(job, AMOUNTS({"CPU", 1})), its = shape(late, AMOUNTS({"CPU", 1}));
    sched_task_t task[5] = {0}, other[2] = {0};
    sched_lease_t lease[5] = {0}, other_lease = {0};
    for (int i = 0; i < 5; i++) sched_task_add(job, &task[i], mine, 0);
    for (int i = 0; i < 2; i++) assert_ptr_equal(sched_task_next(sched, 0, &lease[i]), &task[i]);
    for (int i = 0; i < 2; i++) sched_task_add(late, &other[i], its, MS(1));
    assert_null(sched_task_next(sched, MS(1), &other_lease));
    sched_lease_release(sched, &lease[0]);
    assert_ptr_equal(sched_task_next(sched, MS(2), &other_lease), &other[0]);
    assert_ptr_equal(other_lease.job, late);
    assert_null(sched_task_next(sched, MS(2), &lease[2]));
    /* Both have one, and then the one that ends has none. */
    sched_lease_release(sched, &lease[1]);
    assert_ptr_equal(sched_task_next(sched, MS(3), &lease[2]), &task[2]);
    sched_lease_release(sched, &other_lease);
    assert_ptr_equal(sched_task_next(sched, MS(4), &other_lease), &other[1]);
    sched_free(sched);
}

/* Among jobs that hold the same, the one that was given nothing for longest; one that was never
 * given anything, since it began to wait. */
static void test_equals_take_turns(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"x", 1}));
    sched_job_t *jobs[4] = {job, job_new(sched), job_new(sched), job_new(sched)};
    sched_task_t tasks[4][4] = {0};
    int waits[] = {2, 0, 1, 2, 0, 1, 1, 0, 2};
    int gets[] = {2, 0, 1, 2, 0, 1, 3, 2, 0, 1, 3};
    int used[4] = {0};
    sched_lease_t lease = {0};
    uint32_t x[4];
    for (int j = 0; j < 4; j++) x[j] = shape(jobs[j], AMOUNTS({"x", 1}));
    for (int i = 0; i < 9; i++)
        sched_task_add(jobs[waits[i]], &tasks[waits[i]][used[waits[i]]++], x[waits[i]], 0);
    memset(used, 0, sizeof used);
    for (int i = 0; i < 11; i++) {
        /* One that comes late waits behind those that were served before it came. */
        if (i == 3) {
            sched_task_add(jobs[3], &tasks[3][0], x[3], 0);
            sched_task_add(jobs[3], &tasks[3][1], x[3], 0);
        }
        assert_ptr_equal(sched_task_next(sched, 0, &lease), &tasks[gets[i]][used[gets[i]]++]);
        sched_lease_release(sched, &lease);
    }
    assert_null(sched_task_next(sched, 0, &lease));
    sched_free(sched);
}

static void test_what_a_job_holds(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"x", 1}));
    sched_job_t *other = job_new(sched);
    uint32_t two = shape(job, AMOUNTS({"CPU", 2}, {"x", 1})), one = shape(job, AMOUNTS({"CPU", 1}));
    sched_task_t a = {0}, b = {0};
    sched_lease_t la = {0}, lb = {0};
    sched_task_add(job, &a, two, 0);
    assert_int_equal(sched_job_cpus(job), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &la), &a);
    assert_int_equal(sched_job_cpus(job), 2 * SCHED_UNIT);
    sched_lease_block(sched, &la);
    assert_int_equal(sched_job_cpus(job), 0);
    sched_task_add(other, &b, shape(other, AMOUNTS({"CPU", 2})), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lb), &b);
    sched_lease_unblock(sched, &la);
    assert_int_equal(sched_job_cpus(job), 2 * SCHED_UNIT);
    assert_int_equal(sched_job_cpus(other), 2 * SCHED_UNIT);
    sched_lease_shrink(job, &la, one);
    assert_int_equal(sched_job_cpus(job), SCHED_UNIT);
    sched_lease_release(sched, &la);
    assert_int_equal(sched_job_cpus(job), 0);
    assert_null(la.job);
    sched_free(sched);
}

/* A holder gives way to its own, and to jobs that hold less: not to its equals. */
static void test_who_gives_way_to_whom(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 3}));
    sched_job_t *b = job_new(sched), *c = job_new(sched);
    sched_job_t *jobs[3] = {job, b, c};
    uint32_t one[3];
    uint64_t since = 0;
    sched_task_t task[3][3] = {0};
    sched_lease_t lease[3];
    for (int j = 0; j < 3; j++) one[j] = shape(jobs[j], AMOUNTS({"CPU", 1}));
    /* a holds 2 and b holds 1. */
    for (int i = 0; i < 2; i++) sched_task_add(job, &task[0][i], one[0], 0);
    sched_task_add(b, &task[1][0], one[1], 0);
    for (int i = 0; i < 3; i++) assert_non_null(sched_task_next(sched, 0, &lease[i]));
    assert_int_equal(sched_cpu_lacking(sched, NULL, NULL, &since), 0);
    assert_false(sched_job_gives_way(job));
    sched_task_add(b, &task[1][1], shape(b, AMOUNTS({"CPU", 2})), MS(1));
    assert_true(sched_job_gives_way(job));
    assert_false(sched_job_gives_way(b));
    assert_int_equal(sched_cpu_lacking(sched, NULL, job, &since), 2 * SCHED_UNIT);
    assert_int_equal(since, MS(1));
    assert_int_equal(sched_cpu_lacking(sched, NULL, b, &since), 2 * SCHED_UNIT);
    assert_int_equal(sched_cpu_lacking(sched, &task[1][1], b, &since), 0);
    assert_int_equal(sched_cpu_lacking(sched, NULL, c, &since), 0);
    sched_task_remove(sched, &task[1][1]);
    sched_task_add(job, &task[0][2], one[0], MS(2));
    assert_int_equal(sched_cpu_lacking(sched, NULL, b, &since), 0);
    assert_false(sched_job_gives_way(job)); /* to its own tasks */
    assert_int_equal(sched_cpu_lacking(sched, NULL, job, &since), SCHED_UNIT);
    assert_int_equal(since, MS(2));
    sched_task_add(c, &task[2][0], one[2], MS(3));
    assert_int_equal(sched_cpu_lacking(sched, NULL, b, &since), SCHED_UNIT);
    assert_true(sched_job_gives_way(job) && sched_job_gives_way(b) && !sched_job_gives_way(c));
    assert_int_equal(since, MS(3));
    assert_int_equal(sched_cpu_lacking(sched, NULL, NULL, &since), SCHED_UNIT);
    assert_int_equal(since, MS(2));
    sched_free(sched);
}

/* A task that takes over a lease may not pass anybody. */
static void test_ahead_only_where_nobody_else_waits(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 1}));
    sched_job_t *other = job_new(sched);
    uint32_t one = shape(job, AMOUNTS({"CPU", 1})), its = shape(other, AMOUNTS({"CPU", 1}));
    sched_task_t task[3] = {0}, theirs = {0}, never = {0};
    assert_null(sched_task_ahead(job, one));
    for (int i = 0; i < 3; i++) sched_task_add(job, &task[i], one, 0);
    sched_task_add(other, &never, shape(other, AMOUNTS({"CPU", 2})), 0);
    assert_ptr_equal(sched_task_ahead(job, one), &task[0]);
    assert_false(task[0].queued);
    sched_task_add(other, &theirs, its, 0);
    assert_null(sched_task_ahead(job, one));
    assert_null(sched_task_ahead(other, its));
    sched_task_remove(sched, &theirs);
    sched_task_readd(sched, &task[0]);
    assert_ptr_equal(sched_task_ahead(job, one), &task[0]);
    sched_task_add(job, &theirs, 0, 0);
    assert_null(sched_task_ahead(job, one));
    sched_free(sched);
}

/* It leaves nothing behind, and the others go on. */
static void test_a_jobs_end(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}));
    sched_task_t mine = {0}, its[3] = {0};
    sched_lease_t my_lease = {0}, its_lease[2] = {0};
    uint32_t one = shape(job, AMOUNTS({"CPU", 1}));
    sched_job_free(NULL);
    for (int round = 0; round < 2000; round++) {
        sched_job_t *brief = job_new(sched);
        uint32_t id = shape(brief, AMOUNTS({"CPU", 1}));
        shape(brief, AMOUNTS({"CPU", 1}, {"never given back", 1}));
        assert_int_equal(id, 1);
        sched_task_add(job, &mine, one, 0);
        for (int i = 0; i < 3; i++) sched_task_add(brief, &its[i], id, 0);
        assert_ptr_equal(sched_task_next(sched, MS(300), &my_lease), &mine);
        assert_ptr_equal(sched_task_next(sched, MS(300), &its_lease[0]), &its[0]);
        assert_null(sched_task_next(sched, MS(300), &its_lease[1]));
        sched_lease_release(sched, &my_lease);
        assert_ptr_equal(sched_task_next(sched, MS(300), &its_lease[1]), &its[1]);
        sched_task_remove(sched, &its[2]);
        sched_lease_release(sched, &its_lease[0]);
        sched_lease_release(sched, &its_lease[1]);
        sched_job_free(brief);
        assert_null(sched_task_next(sched, MS(300), &my_lease));
    }
    sched_free(sched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_million_against_a_few),
        cmocka_unit_test(test_one_against_a_million),
        cmocka_unit_test(test_three_jobs_on_two_cpus),
        cmocka_unit_test(test_lengths_make_no_difference),
        cmocka_unit_test(test_sizes_make_no_difference),
        cmocka_unit_test(test_the_next_cpu_goes_to_who_came),
        cmocka_unit_test(test_equals_take_turns),
        cmocka_unit_test(test_what_a_job_holds),
        cmocka_unit_test(test_who_gives_way_to_whom),
        cmocka_unit_test(test_ahead_only_where_nobody_else_waits),
        cmocka_unit_test(test_a_jobs_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
