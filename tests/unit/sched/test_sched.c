/* The scheduler's rules, one by one. test_property.c tries them all together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

#define MS(n) (UINT64_C(1000000) * (n))

static sched_t *node(size_t count, const sched_amount_t *total) {
    sched_t *sched = NULL;
    assert_int_equal(sched_new(total, count, &sched), MOB_OK);
    return sched;
}

/* AMOUNTS({"CPU", 1}, {"GPU", 0.5}): a count and an array, amounts as people write them. */
typedef struct amount {
    const char *name;
    double value;
} amount_t;

static const sched_amount_t *units(const amount_t *amounts, size_t count) {
    static sched_amount_t out[8];
    for (size_t i = 0; i < count; i++) {
        out[i] = (sched_amount_t){amounts[i].name, (uint64_t)(amounts[i].value * SCHED_UNIT + 0.5)};
    }
    return out;
}
#define AMOUNTS(...)                                      \
    sizeof((amount_t[]){__VA_ARGS__}) / sizeof(amount_t), \
        units((amount_t[]){__VA_ARGS__}, sizeof((amount_t[]){__VA_ARGS__}) / sizeof(amount_t))

static uint32_t shape(sched_t *sched, size_t count, const sched_amount_t *demand) {
    uint32_t id = UINT32_MAX;
    assert_int_equal(sched_shape_intern(sched, demand, count, &id), MOB_OK);
    return id;
}

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
    shape(sched, AMOUNTS({"unheard", 1}));
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

static void test_shapes_are_canonical(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    assert_int_equal(sched_shape_intern(sched, NULL, 0, &(uint32_t){1}), MOB_OK);
    assert_int_equal(shape(sched, AMOUNTS({"CPU", 0}, {"x", 0})), 0);
    uint32_t one = shape(sched, AMOUNTS({"CPU", 1}, {"x", 2}));
    assert_int_not_equal(one, 0);
    assert_int_equal(shape(sched, AMOUNTS({"x", 2}, {"y", 0}, {"CPU", 1})), one);
    assert_int_not_equal(shape(sched, AMOUNTS({"x", 2}, {"CPU", 1.0001})), one);
    assert_true(sched_shape_valid(sched, one));
    assert_false(sched_shape_valid(sched, 3));
    sched_free(sched);
}

static void test_bad_demands(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"GPU", 4}));
    uint32_t id = 77;
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"GPU", 15000}}, 1, &id),
                     MOB_EINVAL);
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"", 1}}, 1, &id), MOB_EINVAL);
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"a", 1}, {"a", 2}}, 2, &id),
                     MOB_EINVAL);
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"a", UINT64_MAX}}, 1, &id),
                     MOB_EINVAL);
    sched_amount_t many[SCHED_NEEDS_MAX + 1] = {0};
    assert_int_equal(sched_shape_intern(sched, many, SCHED_NEEDS_MAX + 1, &id), MOB_ELIMIT);
    assert_int_equal(id, 77);
    sched_free(sched);
}

static void test_names_are_limited(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    uint32_t id;
    char name[32];
    for (int i = 0; i < SCHED_NAMES_MAX - 2; i++) {
        snprintf(name, sizeof name, "name%d", i);
        assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{name, 1}}, 1, &id), MOB_OK);
    }
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"more", 1}}, 1, &id),
                     MOB_ELIMIT);
    assert_non_null(strstr(mob_last_error(), "1024 different names"));
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"name7", 1}}, 1, &id), MOB_OK);
    assert_int_equal(id, 8);
    sched_free(sched);
}

static void test_shapes_are_limited(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    uint32_t id, last = 0;
    for (uint64_t i = 1; i < SCHED_SHAPES_MAX; i++) {
        if (sched_shape_intern(sched, (sched_amount_t[]){{"CPU", i}}, 1, &last) != MOB_OK) fail();
    }
    assert_int_equal(last, SCHED_SHAPES_MAX - 1);
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"GPU", 1}}, 1, &id), MOB_ELIMIT);
    assert_non_null(strstr(mob_last_error(), "different demands"));
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"CPU", 7}}, 1, &id), MOB_OK);
    assert_int_equal(id, 7);
    /* One goes, another can come. */
    sched_shape_drop(sched, last);
    assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"GPU", 1}}, 1, &id), MOB_OK);
    assert_int_equal(sched_shape_place(id), sched_shape_place(last));
    sched_free(sched);
}

/* One is known while somebody holds it: who asked, as often as that was, and leases. */
static void test_shapes_are_given_back(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    uint32_t first = shape(sched, AMOUNTS({"CPU", 2}));
    assert_int_equal(shape(sched, AMOUNTS({"CPU", 2})), first);
    sched_shape_drop(sched, first);
    assert_true(sched_shape_valid(sched, first));
    sched_task_t task = {0};
    sched_lease_t lease, other = {0};
    sched_task_add(sched, &task, first, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task);
    sched_shape_drop(sched, first);
    sched_lease_block(sched, &lease);
    sched_lease_unblock(sched, &lease);
    assert_true(sched_shape_valid(sched, first));
    uint32_t less = shape(sched, AMOUNTS({"CPU", 1}));
    sched_lease_shrink(sched, &lease, less);
    assert_false(sched_shape_valid(sched, first));
    sched_shape_drop(sched, less);
    assert_true(sched_shape_valid(sched, less));
    sched_lease_release(sched, &lease);
    assert_false(sched_shape_valid(sched, less));
    sched_lease_release(sched, &other); /* holds nothing, and gives nothing back */
    assert_int_not_equal(shape(sched, AMOUNTS({"CPU", 2})), first);
    assert_true(sched_shape_valid(sched, 0));
    sched_free(sched);
}

/* However many follow each other, the table stays small, and no number comes again soon. */
static void test_different_shapes_one_after_the_other(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"memory", 100000}));
    uint32_t old = shape(sched, AMOUNTS({"memory", 1000})), id;
    sched_shape_drop(sched, old);
    for (uint64_t i = 1; i <= 1000000; i++) {
        assert_int_equal(sched_shape_intern(sched, (sched_amount_t[]){{"memory", i}}, 1, &id),
                         MOB_OK);
        if (id == old || sched_shape_place(id) > 2000) fail();
        sched_shape_drop(sched, id);
    }
    sched_free(sched);
}

static void test_never_fits(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"GPU", 1}));
    sched_amount_t missing[2] = {0};
    uint64_t totals[2] = {77, 77};
    uint32_t fits = shape(sched, AMOUNTS({"CPU", 4}, {"GPU", 0.5}));
    assert_true(sched_shape_fits_ever(sched, fits));
    assert_int_equal(sched_shape_lacks(sched, fits, missing, totals, 2), 0);
    assert_null(missing[0].name);
    uint32_t much = shape(sched, AMOUNTS({"CPU", 1}, {"GPU", 2}));
    assert_false(sched_shape_fits_ever(sched, much));
    assert_int_equal(sched_shape_lacks(sched, much, missing, totals, 2), 1);
    assert_string_equal(missing[0].name, "GPU");
    assert_int_equal(missing[0].amount, 2 * SCHED_UNIT);
    assert_int_equal(totals[0], SCHED_UNIT);
    uint32_t unheard = shape(sched, AMOUNTS({"CPU", 5}, {"tpu", 0.5}));
    assert_false(sched_shape_fits_ever(sched, unheard));
    assert_int_equal(sched_shape_lacks(sched, unheard, missing, totals, 2), 2);
    assert_string_equal(missing[0].name, "CPU");
    assert_string_equal(missing[1].name, "tpu");
    assert_int_equal(totals[1], 0);
    assert_int_equal(sched_shape_lacks(sched, unheard, missing, totals, 0), 2);

    /* It waits, and holds nobody up however long. */
    sched_task_t never = {0}, fine = {0};
    sched_lease_t lease = {0};
    sched_task_add(sched, &never, shape(sched, AMOUNTS({"CPU", 5})), 0);
    sched_task_add(sched, &fine, shape(sched, AMOUNTS({"CPU", 4})), 0);
    assert_ptr_equal(sched_task_next(sched, MS(10000), &lease), &fine);
    assert_null(sched_task_next(sched, MS(10000), &lease));
    assert_true(never.queued);
    sched_free(sched);
}

static void test_first_come_first_served(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"x", 1}));
    uint32_t cpu = shape(sched, AMOUNTS({"CPU", 1})), x = shape(sched, AMOUNTS({"x", 1}));
    sched_task_t task[5] = {0};
    sched_lease_t lease[5] = {0};
    sched_task_add(sched, &task[0], cpu, 0);
    sched_task_add(sched, &task[1], x, 0);
    sched_task_add(sched, &task[2], x, 0);
    sched_task_add(sched, &task[3], cpu, 0);
    sched_task_add(sched, &task[4], cpu, 0);
    assert_int_equal(sched_queued(sched, cpu), 3);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[0]), &task[0]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[1]), &task[1]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[3]), &task[3]);
    assert_null(sched_task_next(sched, 0, &lease[4]));
    assert_int_equal(sched_queued(sched, cpu), 1);
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
    uint32_t cpu = shape(sched, AMOUNTS({"CPU", 1}));
    sched_task_t task[4] = {0};
    sched_lease_t lease[4] = {0};
    for (int i = 0; i < 4; i++) sched_task_add(sched, &task[i], cpu, MS(1));
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
    uint32_t cpu = shape(sched, AMOUNTS({"CPU", 1}));
    sched_task_t task[3] = {0};
    sched_lease_t lease;
    for (int i = 0; i < 3; i++) sched_task_add(sched, &task[i], cpu, 0);
    sched_task_remove(sched, &task[1]);
    sched_task_remove(sched, &task[1]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task[0]);
    sched_task_remove(sched, &task[0]);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task[2]);
    assert_null(sched_task_next(sched, 0, &lease));
    sched_task_add(sched, &task[1], 0, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task[1]);
    sched_free(sched);
}

static void test_patience(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"x", 1}));
    uint32_t small = shape(sched, AMOUNTS({"CPU", 1})), large = shape(sched, AMOUNTS({"CPU", 2}));
    uint32_t other = shape(sched, AMOUNTS({"x", 1}));
    sched_task_t task[5] = {0}, big = {0};
    sched_lease_t lease[5] = {0}, big_lease = {0};
    sched_task_add(sched, &task[0], small, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[0]), &task[0]);
    sched_task_add(sched, &big, large, 0);
    sched_task_add(sched, &task[1], small, 0);
    sched_task_add(sched, &task[2], small, 0);
    assert_ptr_equal(sched_task_next(sched, MS(249), &lease[1]), &task[1]);
    sched_lease_release(sched, &lease[0]);
    /* Now the younger one has to wait for it, but not what needs something else. */
    assert_null(sched_task_next(sched, MS(250), &lease[2]));
    sched_task_add(sched, &task[3], other, MS(250));
    sched_task_add(sched, &task[4], 0, MS(250));
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
    uint32_t small = shape(sched, AMOUNTS({"CPU", 1})), large = shape(sched, AMOUNTS({"CPU", 2}));
    sched_task_t a = {0}, b = {0}, big = {0};
    sched_lease_t lease;
    sched_task_add(sched, &a, small, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &a);
    sched_task_add(sched, &big, large, 0);
    sched_task_add(sched, &b, small, 0);
    assert_null(sched_task_next(sched, MS(300), &lease));
    sched_task_remove(sched, &big);
    assert_ptr_equal(sched_task_next(sched, MS(300), &lease), &b);
    sched_free(sched);
}

/* A task that needs two things, each of which is free only while the other is not. */
static void test_patience_with_two_needs(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"x", 1}, {"y", 1}));
    uint32_t x = shape(sched, AMOUNTS({"x", 1})), y = shape(sched, AMOUNTS({"y", 1}));
    uint32_t both = shape(sched, AMOUNTS({"x", 1}, {"y", 1}));
    sched_task_t xs[8] = {0}, ys[8] = {0}, big = {0};
    sched_lease_t held = {0}, next = {0};
    sched_task_add(sched, &xs[0], x, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &held), &xs[0]);
    sched_task_add(sched, &big, both, 0);
    uint64_t now = MS(300);
    int passed = 0;
    for (int i = 1; i < 8 && big.queued; i++) {
        sched_task_add(sched, &xs[i], x, now);
        sched_task_add(sched, &ys[i], y, now);
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
    uint32_t gpu = shape(sched, AMOUNTS({"GPU", 1})), cpu = shape(sched, AMOUNTS({"CPU", 1}));
    uint32_t both = shape(sched, AMOUNTS({"CPU", 1}, {"GPU", 1}));
    sched_task_t holder = {0}, big = {0}, later = {0}, small[8] = {0};
    sched_lease_t held = {0}, lease = {0}, none = {0};
    sched_task_add(sched, &holder, gpu, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &held), &holder);
    sched_task_add(sched, &big, both, 0);
    for (int i = 0; i < 8; i++) {
        uint64_t now = MS(300 + i);
        sched_task_add(sched, &small[i], cpu, now);
        assert_ptr_equal(sched_task_next(sched, now, &lease), &small[i]);
        assert_null(sched_task_next(sched, now, &none));
        if (i < 7) sched_lease_release(sched, &lease);
    }
    sched_lease_release(sched, &held);
    sched_task_add(sched, &later, gpu, MS(310));
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
    uint32_t one = shape(sched, AMOUNTS({"GPU", 1})), two = shape(sched, AMOUNTS({"GPU", 2}));
    sched_task_t actor = {0}, big = {0}, small[2] = {0};
    sched_lease_t actor_lease = {0}, lease = {0};
    sched_task_add(sched, &actor, one, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &actor_lease), &actor);
    sched_lease_shrink(sched, &actor_lease, one);
    sched_task_add(sched, &big, two, 0);
    sched_task_add(sched, &small[0], one, 0);
    sched_task_add(sched, &small[1], one, 0);
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
    uint32_t one = shape(sched, AMOUNTS({"CPU", 1}, {"GPU", 1})),
             two = shape(sched, AMOUNTS({"GPU", 2}));
    sched_task_t parent = {0}, big = {0}, child = {0};
    sched_lease_t parent_lease = {0}, child_lease = {0}, big_lease = {0};
    sched_task_add(sched, &parent, one, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &parent_lease), &parent);
    sched_task_add(sched, &big, two, 0);
    sched_task_add(sched, &child, one, 0);
    assert_null(sched_task_next(sched, MS(1000), &child_lease));
    sched_lease_block(sched, &parent_lease);
    assert_ptr_equal(sched_task_next(sched, MS(1000), &child_lease), &child);
    sched_lease_release(sched, &child_lease);
    sched_lease_unblock(sched, &parent_lease);
    sched_lease_release(sched, &parent_lease);
    assert_ptr_equal(sched_task_next(sched, MS(1000), &big_lease), &big);
    sched_free(sched);
}

static void test_gpu_indices(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"GPU", 4}));
    uint32_t one = shape(sched, AMOUNTS({"GPU", 1})), two = shape(sched, AMOUNTS({"GPU", 2}));
    uint32_t half = shape(sched, AMOUNTS({"GPU", 0.5})),
             third = shape(sched, AMOUNTS({"GPU", 0.3}));
    sched_task_t task[8] = {0};
    sched_lease_t lease[8] = {0};
    uint32_t asked[] = {one, two, half, third};
    uint64_t got[] = {1, 6, 8, 8};
    for (int i = 0; i < 4; i++) {
        sched_task_add(sched, &task[i], asked[i], 0);
        assert_ptr_equal(sched_task_next(sched, 0, &lease[i]), &task[i]);
        assert_int_equal(lease[i].gpu_mask, got[i]);
    }
    sched_lease_release(sched, &lease[0]);
    /* 0 is entirely free, 3 has 0.2: half goes to 0, and then a third joins it rather than any
     * other. */
    sched_task_add(sched, &task[4], half, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[4]), &task[4]);
    assert_int_equal(lease[4].gpu_mask, 1);
    sched_lease_release(sched, &lease[1]);
    sched_task_add(sched, &task[5], third, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[5]), &task[5]);
    assert_int_equal(lease[5].gpu_mask, 1);
    /* 0.2 + 0.2 free on two devices are no 0.3; 1 and 2 are. */
    sched_task_add(sched, &task[6], two, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease[6]), &task[6]);
    assert_int_equal(lease[6].gpu_mask, 6);
    sched_task_add(sched, &task[7], third, 0);
    assert_null(sched_task_next(sched, 0, &lease[7]));
    sched_free(sched);
}

static void test_shrink(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}, {"GPU", 4}, {"x", 1}));
    uint32_t full = shape(sched, AMOUNTS({"CPU", 1}, {"GPU", 3}, {"x", 1}));
    sched_task_t first = {0}, actor = {0};
    sched_lease_t other = {0}, lease = {0};
    sched_task_add(sched, &first, shape(sched, AMOUNTS({"GPU", 1})), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &other), &first);
    sched_task_add(sched, &actor, full, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &actor);
    assert_int_equal(lease.gpu_mask, 14);
    sched_lease_shrink(sched, &lease, shape(sched, AMOUNTS({"GPU", 2}, {"x", 0.5})));
    assert_int_equal(lease.gpu_mask, 6);
    assert_true(available(sched, "CPU") == 2 && available(sched, "GPU") == 1 &&
                available(sched, "x") == 0.5);
    sched_lease_shrink(sched, &lease, shape(sched, AMOUNTS({"GPU", 0.25})));
    assert_int_equal(lease.gpu_mask, 2);
    assert_true(available(sched, "GPU") == 2.75);
    sched_lease_shrink(sched, &lease, 0);
    assert_int_equal(lease.gpu_mask, 0);
    sched_lease_release(sched, &lease);
    sched_lease_release(sched, &lease);
    sched_lease_shrink(sched, &lease, full);
    assert_true(available(sched, "CPU") == 2 && available(sched, "GPU") == 3 &&
                available(sched, "x") == 1);
    sched_free(sched);
}

static void test_block(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 1}, {"GPU", 1}, {"x", 1}));
    uint32_t all = shape(sched, AMOUNTS({"CPU", 1}, {"GPU", 0.5}, {"x", 1})),
             cpu = shape(sched, AMOUNTS({"CPU", 1}));
    sched_task_t a = {0}, b = {0}, c = {0}, none = {0};
    sched_lease_t la = {0}, lb = {0}, lc = {0}, ln = {0};
    sched_task_add(sched, &a, all, 0);
    sched_task_add(sched, &b, cpu, 0);
    sched_task_add(sched, &c, cpu, 0);
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
    sched_task_add(sched, &none, 0, 0);
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
    uint32_t cpu = shape(sched, AMOUNTS({"CPU", 1}));
    sched_task_t *tasks = calloc(MANY, sizeof *tasks);
    assert_non_null(tasks);
    for (size_t i = 0; i < MANY; i++) sched_task_add(sched, &tasks[i], cpu, 0);
    assert_int_equal(sched_queued(sched, cpu), MANY);
    for (size_t i = 0; i < MANY; i++) {
        sched_lease_t lease;
        if (sched_task_next(sched, 0, &lease) != &tasks[i]) fail();
        sched_lease_release(sched, &lease);
    }
    assert_int_equal(sched_queued(sched, cpu), 0);
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
        sched_task_add(sched, &tasks[i], shape(sched, AMOUNTS({"CPU", 1}, {"memory", 1.0 + i})), i);
    sched_lease_t lease, half;
    sched_task_add(sched, &rest, shape(sched, AMOUNTS({"memory", MANY / 2})), MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(sched_task_next(sched, 0, &lease), &tasks[i]);
        /* The one that needs no CPU can go beside the first; then memory is short for the larger
         * ones. */
        if (i == 0) assert_ptr_equal(sched_task_next(sched, 0, &half), &rest);
        if (sched_task_next(sched, 0, &(sched_lease_t){0})) fail();
        bool fits = i + 1 + i + 2 <= MANY / 2; /* it and the next */
        if (sched_cpu_lacking(sched, NULL, &since) != (fits ? SCHED_UNIT : 0) ||
            (fits && since != i + 1))
            fail();
        sched_shape_drop(sched, tasks[i].shape);
        sched_lease_release(sched, &lease);
        if (i + 1 == MANY / 2) sched_lease_release(sched, &half);
    }
    free(tasks);
    sched_free(sched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_checks),
        cmocka_unit_test(test_resources_are_listed),
        cmocka_unit_test(test_shapes_are_canonical),
        cmocka_unit_test(test_bad_demands),
        cmocka_unit_test(test_names_are_limited),
        cmocka_unit_test(test_shapes_are_limited),
        cmocka_unit_test(test_shapes_are_given_back),
        cmocka_unit_test(test_different_shapes_one_after_the_other),
        cmocka_unit_test(test_never_fits),
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_sent_back_keeps_its_place),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_patience_ends_with_removal),
        cmocka_unit_test(test_patience_with_two_needs),
        cmocka_unit_test(test_patience_leaves_cpus_open),
        cmocka_unit_test(test_no_waiting_for_actors),
        cmocka_unit_test(test_no_waiting_for_blocked),
        cmocka_unit_test(test_gpu_indices),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_many_of_one_shape),
        cmocka_unit_test(test_many_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
