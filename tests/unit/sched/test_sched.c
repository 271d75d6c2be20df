/* The scheduler's rules, one by one. test_property.c tries them all together. */
#include "node.h"

#include "sched/priority.h"
#include <stdlib.h>
#include <string.h>

static double available(const sched_t *sched, const char *name) {
    for (size_t i = 0; i < sched_resource_count(sched); i++) {
        const char *found;
        uint64_t total;
        int64_t left;
        sched_resource_at(sched, i, &found, &total, &left);
        if (strcmp(found, name) == 0) return (double)left / SCHED_UNIT;
    }
    fail();
    return 0;
}

static void test_new_checks(void **state) {
    (void)state;
    sched_t *sched = NULL;
    assert_int_equal(sched_new((sched_amount_t[]){{"GPU", 5000}}, 1, &sched), MOB_EINVAL);
    assert_int_equal(sched_new((sched_amount_t[]){{"GPU", 65 * SCHED_UNIT}}, 1, &sched),
                     MOB_ELIMIT);
    assert_int_equal(sched_new((sched_amount_t[]){{"", 1}}, 1, &sched), MOB_EINVAL);
    assert_int_equal(sched_new((sched_amount_t[]){{NULL, 1}}, 1, &sched), MOB_EINVAL);
    assert_int_equal(sched_new((sched_amount_t[]){{"a", 1}, {"a", 1}}, 2, &sched), MOB_EINVAL);
    assert_int_equal(sched_new((sched_amount_t[]){{"CPU", SCHED_CPU_MAX + 1}}, 1, &sched),
                     MOB_EINVAL);
    assert_int_equal(sched_new((sched_amount_t[]){{"x", SCHED_AMOUNT_MAX + 1}}, 1, &sched),
                     MOB_EINVAL);
    assert_null(sched);
    sched_free(NULL);
}

static void test_resources_are_listed(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"disk", 3}, {"GPU", 2}, {"none", 0}, {"CPU", 4}));
    shape(job, AMOUNTS({"unheard", 1}));
    const char *names[] = {"CPU", "GPU", "disk"};
    uint64_t totals[] = {4, 2, 3};
    assert_int_equal(sched_resource_count(sched), 3);
    for (size_t i = 0; i < 3; i++) {
        const char *name;
        uint64_t total;
        int64_t left;
        sched_resource_at(sched, i, &name, &total, &left);
        assert_string_equal(name, names[i]);
        assert_int_equal(total, totals[i] * SCHED_UNIT);
        assert_int_equal(left, totals[i] * SCHED_UNIT);
    }
    sched_free(sched);
}

static void test_what_waits_is_walked_oldest_first(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 1}));
    uint32_t large = shape(job, AMOUNTS({"CPU", 2})), cpu = shape(job, AMOUNTS({"CPU", 1}));
    sched_task_t task[3] = {0};
    assert_null(sched_task_behind(job, large, NULL));
    for (int i = 0; i < 3; i++) sched_task_add(job, &task[i], i == 1 ? cpu : large, 0);
    assert_ptr_equal(sched_task_behind(job, large, NULL), &task[0]);
    assert_ptr_equal(sched_task_behind(job, large, &task[0]), &task[2]);
    assert_null(sched_task_behind(job, large, &task[2]));
    sched_task_remove(sched, &task[0]);
    assert_ptr_equal(sched_task_behind(job, large, NULL), &task[2]);
    sched_free(sched);
}

static void test_first_come_first_served(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"x", 1}));
    uint32_t cpu = shape(job, AMOUNTS({"CPU", 1})), x = shape(job, AMOUNTS({"x", 1}));
    sched_task_t task[5] = {0};
    sched_lease_t lease[5] = {0};
    sched_task_add(job, &task[0], cpu, 0);
    sched_task_add(job, &task[1], x, 0);
    sched_task_add(job, &task[2], x, 0);
    sched_task_add(job, &task[3], cpu, 0);
    sched_task_add(job, &task[4], cpu, 0);
    assert_int_equal(sched_queued(job, cpu), 3);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[0]), &task[0]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[1]), &task[1]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[3]), &task[3]);
    assert_null(sched_task_next(sched, 0, &lease[4]));
    assert_int_equal(sched_queued(job, cpu), 1);
    assert_int_equal(lease[4].state, SCHED_LEASE_NONE);
    sched_lease_release(sched, &lease[0]);
    sched_lease_release(sched, &lease[1]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[2]), &task[2]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[4]), &task[4]);
    sched_free(sched);
}

static void test_sent_back_keeps_its_place(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 8}));
    uint32_t cpu = shape(job, AMOUNTS({"CPU", 1}));
    sched_task_t task[4] = {0};
    sched_lease_t lease[4] = {0};
    for (int i = 0; i < 4; i++) sched_task_add(job, &task[i], cpu, MS(1));
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(sched_task_next(sched, MS(2), &lease[i]), &task[i]);
    for (int i = 2; i >= 0; i--) {
        sched_lease_release(sched, &lease[i]);
        sched_task_readd(sched, &task[(i + 2) % 3]);
    }
    for (int i = 0; i < 4; i++)
        assert_ptr_equal(sched_task_next(sched, MS(3), &lease[i]), &task[i]);
    sched_free(sched);
}

static void test_removed(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 8}));
    uint32_t cpu = shape(job, AMOUNTS({"CPU", 1}));
    sched_task_t task[3] = {0};
    sched_lease_t lease;
    for (int i = 0; i < 3; i++) sched_task_add(job, &task[i], cpu, 0);
    sched_task_remove(sched, &task[1]);
    sched_task_remove(sched, &task[1]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task[0]);
    sched_task_remove(sched, &task[0]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task[2]);
    assert_null(sched_task_next(sched, 0, &lease));
    sched_task_add(job, &task[1], 0, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task[1]);
    sched_free(sched);
}

static void test_gpu_indices(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"GPU", 4}));
    uint32_t one = shape(job, AMOUNTS({"GPU", 1})), two = shape(job, AMOUNTS({"GPU", 2}));
    uint32_t half = shape(job, AMOUNTS({"GPU", 0.5})), third = shape(job, AMOUNTS({"GPU", 0.3}));
    sched_task_t task[8] = {0};
    sched_lease_t lease[8] = {0};
    uint32_t asked[] = {one, two, half, third};
    uint64_t got[] = {1, 6, 8, 8};
    for (int i = 0; i < 4; i++) {
        sched_task_add(job, &task[i], asked[i], 0);
        assert_ptr_equal(sched_task_next(sched, 0, &lease[i]), &task[i]);
        assert_int_equal(lease[i].gpu_mask, got[i]);
    }
    sched_lease_release(sched, &lease[0]);
    /* 0 is entirely free, 3 has 0.2: half goes to 0, and then a third joins it rather than any
     * other. */
    sched_task_add(job, &task[4], half, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[4]), &task[4]);
    assert_int_equal(lease[4].gpu_mask, 1);
    sched_lease_release(sched, &lease[1]);
    sched_task_add(job, &task[5], third, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[5]), &task[5]);
    assert_int_equal(lease[5].gpu_mask, 1);
    /* 0.2 + 0.2 free on two devices are no 0.3; 1 and 2 are. */
    sched_task_add(job, &task[6], two, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[6]), &task[6]);
    assert_int_equal(lease[6].gpu_mask, 6);
    sched_task_add(job, &task[7], third, 0);
    assert_null(sched_task_next(sched, 0, &lease[7]));
    sched_free(sched);
}

static void test_shrink(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"GPU", 4}, {"x", 1}));
    uint32_t full = shape(job, AMOUNTS({"CPU", 1}, {"GPU", 3}, {"x", 1}));
    sched_task_t first = {0}, actor = {0};
    sched_lease_t other = {0}, lease = {0};
    sched_task_add(job, &first, shape(job, AMOUNTS({"GPU", 1})), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &other), &first);
    sched_task_add(job, &actor, full, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &actor);
    assert_int_equal(lease.gpu_mask, 14);
    sched_lease_shrink(job, &lease, shape(job, AMOUNTS({"GPU", 2}, {"x", 0.5})));
    assert_int_equal(lease.gpu_mask, 6);
    assert_true(available(sched, "CPU") == 2 && available(sched, "GPU") == 1 &&
                available(sched, "x") == 0.5);
    sched_lease_shrink(job, &lease, shape(job, AMOUNTS({"GPU", 0.25})));
    assert_int_equal(lease.gpu_mask, 2);
    assert_true(available(sched, "GPU") == 2.75);
    sched_lease_shrink(job, &lease, 0);
    assert_int_equal(lease.gpu_mask, 0);
    sched_lease_release(sched, &lease);
    sched_lease_release(sched, &lease);
    sched_lease_shrink(job, &lease, full);
    assert_true(available(sched, "CPU") == 2 && available(sched, "GPU") == 3 &&
                available(sched, "x") == 1);
    sched_free(sched);
}

static void test_block(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 1}, {"GPU", 1}, {"x", 1}));
    uint32_t all = shape(job, AMOUNTS({"CPU", 1}, {"GPU", 0.5}, {"x", 1})),
             cpu = shape(job, AMOUNTS({"CPU", 1}));
    sched_task_t a = {0}, b = {0}, c = {0}, none = {0};
    sched_lease_t la = {0}, lb = {0}, lc = {0}, ln = {0};
    sched_task_add(job, &a, all, 0);
    sched_task_add(job, &b, cpu, 0);
    sched_task_add(job, &c, cpu, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &la), &a);
    assert_null(sched_task_next(sched, 0, &lb));
    sched_lease_block(sched, &la);
    sched_lease_block(sched, &la);
    assert_true(available(sched, "CPU") == 1 && available(sched, "GPU") == 0.5 &&
                available(sched, "x") == 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lb), &b);
    sched_lease_unblock(sched, &la);
    sched_lease_unblock(sched, &la);
    assert_true(available(sched, "CPU") == -1);
    assert_null(sched_task_next(sched, 0, &lc));
    sched_lease_release(sched, &lb);
    assert_null(sched_task_next(sched, 0, &lc));
    /* What needs no CPU is not concerned. */
    sched_task_add(job, &none, 0, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &ln), &none);
    sched_lease_block(sched, &la);
    assert_ptr_equal(sched_task_next(sched, 0, &lc), &c);
    sched_lease_release(sched, &la);
    sched_lease_release(sched, &lc);
    assert_true(available(sched, "CPU") == 1 && available(sched, "GPU") == 1 &&
                available(sched, "x") == 1);
    sched_free(sched);
}

/* A million waiting tasks of one shape are one head. */
static void test_many_of_one_shape(void **state) {
    (void)state;
    enum { MANY = 1000000 };
    sched_t *sched = node(AMOUNTS({"CPU", 1}));
    uint32_t cpu = shape(job, AMOUNTS({"CPU", 1}));
    sched_task_t *tasks = calloc(MANY, sizeof *tasks);
    assert_non_null(tasks);
    for (size_t i = 0; i < MANY; i++) sched_task_add(job, &tasks[i], cpu, 0);
    assert_int_equal(sched_queued(job, cpu), MANY);
    for (size_t i = 0; i < MANY; i++) {
        sched_lease_t lease;
        if (sched_task_next(sched, 0, &lease) != &tasks[i]) fail();
        sched_lease_release(sched, &lease);
    }
    assert_int_equal(sched_queued(job, cpu), 0);
    free(tasks);
    sched_free(sched);
}

/* As many different demands: a pick does not look at each of them, or this would take minutes. */
static void test_many_shapes(void **state) {
    (void)state;
    enum { MANY = 200000 };
    sched_t *sched = node(AMOUNTS({"CPU", 1}, {"memory", MANY}));
    sched_task_t *tasks = calloc(MANY, sizeof *tasks), rest = {0};
    assert_non_null(tasks);
    uint64_t since;
    for (uint32_t i = 0; i < MANY; i++)
        sched_task_add(job, &tasks[i], shape(job, AMOUNTS({"CPU", 1}, {"memory", 1.0 + i})), i);
    sched_lease_t lease, half;
    sched_task_add(job, &rest, shape(job, AMOUNTS({"memory", MANY / 2})), MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(sched_task_next(sched, 0, &lease), &tasks[i]);
        /* The one that needs no CPU can go beside the first; then memory is short for the larger
         * ones. */
        if (i == 0) assert_ptr_equal(sched_task_next(sched, 0, &half), &rest);
        if (sched_task_next(sched, 0, &(sched_lease_t){0})) fail();
        bool fits = i + 1 + i + 2 <= MANY / 2; /* it and the next */
        if (sched_cpu_lacking(sched, NULL, NULL, &since) != (fits ? SCHED_UNIT : 0) ||
            (fits && since != i + 1))
            fail();
        sched_shape_drop(job, tasks[i].shape);
        sched_lease_release(sched, &lease);
        if (i + 1 == MANY / 2) sched_lease_release(sched, &half);
    }
    free(tasks);
    sched_free(sched);
}

/* ---- priorities ---- */

static void test_order_numbers(void **state) {
    (void)state;
    assert_true(sched_order(5, 0) < sched_order(6, 0));
    assert_true(sched_order(1000000, 1) < sched_order(1, 0));
    assert_true(sched_order(SCHED_HEAD_START + 2, 1) > sched_order(1, 0)); /* it let enough go by */
    for (int32_t p = -SCHED_PRIORITY_MOST; p <= SCHED_STARVING; p++) {
        uint64_t order = sched_order(123456789, p);
        assert_int_equal(sched_order_priority(order), p);
        assert_int_equal(sched_order_number(order), 123456789);
    }
}

static uint32_t shape_above(sched_job_t *owner, int32_t priority) {
    const sched_amount_t cpu = {.name = "CPU", .amount = SCHED_UNIT};
    uint32_t shape;
    assert_int_equal(sched_shape_intern_at(owner, &cpu, 1,
                                           &(sched_where_t){.bundle = -1, .priority = priority},
                                           &shape),
                     MOB_OK);
    return shape;
}

static void test_the_higher_priority_goes_first(void **state) {
    (void)state;
    const sched_amount_t total = {.name = "CPU", .amount = SCHED_UNIT};
    sched_t *sched;
    sched_job_t *owner;
    assert_int_equal(sched_new(&total, 1, &sched), MOB_OK);
    assert_int_equal(sched_job_new(sched, &owner), MOB_OK);
    uint32_t plain = shape_above(owner, 0), high = shape_above(owner, 5),
             low = shape_above(owner, -5);
    assert_true(plain != high && plain != low && high != low);
    sched_task_t tasks[6] = {0},
                 *expected[] = {&tasks[4], &tasks[5], &tasks[0], &tasks[1], &tasks[2], &tasks[3]};
    uint32_t shapes[] = {plain, plain, low, low, high, high};
    for (size_t i = 0; i < 6; i++) sched_task_add(owner, &tasks[i], shapes[i], 1000);
    assert_true(sched_job_waits_above(owner, plain));
    assert_false(sched_job_waits_above(owner, high));
    sched_lease_t lease;
    for (size_t i = 0; i < 6; i++) {
        assert_ptr_equal(sched_task_next(sched, 2000, &lease), expected[i]);
        assert_null(sched_task_next(sched, 2000, &lease));
        sched_lease_release(sched, &lease);
    }
    sched_free(sched);
}

static void test_what_has_waited_for_long_goes_first(void **state) {
    (void)state;
    const sched_amount_t total = {.name = "CPU", .amount = SCHED_UNIT};
    sched_t *sched;
    sched_job_t *owner;
    assert_int_equal(sched_new(&total, 1, &sched), MOB_OK);
    assert_int_equal(sched_job_new(sched, &owner), MOB_OK);
    uint32_t high = shape_above(owner, 100), low = shape_above(owner, -100);
    sched_task_t starved = {0}, urgent[3] = {0};
    sched_task_add(owner, &starved, low, 0);
    for (size_t i = 0; i < 3; i++) sched_task_add(owner, &urgent[i], high, SCHED_STARVING_NS / 2);
    sched_lease_t lease;
    assert_ptr_equal(sched_task_next(sched, SCHED_STARVING_NS - 1, &lease), &urgent[0]);
    sched_lease_release(sched, &lease);
    assert_ptr_equal(sched_task_next(sched, SCHED_STARVING_NS, &lease), &starved);
    sched_lease_release(sched, &lease);
    assert_ptr_equal(sched_task_next(sched, SCHED_STARVING_NS, &lease), &urgent[1]);
    sched_lease_release(sched, &lease);
    sched_free(sched);
}

static void test_a_priority_out_of_bounds(void **state) {
    (void)state;
    const sched_amount_t total = {.name = "CPU", .amount = SCHED_UNIT};
    sched_t *sched;
    sched_job_t *owner;
    uint32_t shape;
    assert_int_equal(sched_new(&total, 1, &sched), MOB_OK);
    assert_int_equal(sched_job_new(sched, &owner), MOB_OK);
    assert_int_equal(sched_shape_intern_at(owner, &total, 1,
                                           &(sched_where_t){.bundle = -1, .priority = 101}, &shape),
                     MOB_EINVAL);
    sched_free(sched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_numbers),
        cmocka_unit_test(test_the_higher_priority_goes_first),
        cmocka_unit_test(test_what_has_waited_for_long_goes_first),
        cmocka_unit_test(test_a_priority_out_of_bounds),
        cmocka_unit_test(test_new_checks),
        cmocka_unit_test(test_resources_are_listed),
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_what_waits_is_walked_oldest_first),
        cmocka_unit_test(test_sent_back_keeps_its_place),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_gpu_indices),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_many_of_one_shape),
        cmocka_unit_test(test_many_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
