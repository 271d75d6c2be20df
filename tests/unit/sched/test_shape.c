/* Demands with a number, and the names of resources in them. */
#include "node.h"

#include <stdio.h>
#include <string.h>

static void test_shapes_are_canonical(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    assert_int_equal(sched_shape_intern(job, NULL, 0, &(uint32_t){1}), MOB_OK);
    assert_int_equal(shape(job, AMOUNTS({"CPU", 0}, {"x", 0})), 0);
    uint32_t one = shape(job, AMOUNTS({"CPU", 1}, {"x", 2}));
    assert_int_not_equal(one, 0);
    assert_int_equal(shape(job, AMOUNTS({"x", 2}, {"y", 0}, {"CPU", 1})), one);
    assert_int_not_equal(shape(job, AMOUNTS({"x", 2}, {"CPU", 1.0001})), one);
    assert_true(sched_shape_valid(job, one));
    assert_false(sched_shape_valid(job, 3));
    sched_free(sched);
}

static void test_bad_demands(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"GPU", 4}));
    uint32_t id = 77;
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"GPU", 15000}}, 1, &id),
                     MOB_EINVAL);
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"", 1}}, 1, &id), MOB_EINVAL);
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"a", 1}, {"a", 2}}, 2, &id),
                     MOB_EINVAL);
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"a", UINT64_MAX}}, 1, &id),
                     MOB_EINVAL);
    sched_amount_t many[SCHED_NEEDS_MAX + 1] = {0};
    assert_int_equal(sched_shape_intern(job, many, SCHED_NEEDS_MAX + 1, &id), MOB_ELIMIT);
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
        assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{name, 1}}, 1, &id), MOB_OK);
    }
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"more", 1}}, 1, &id), MOB_ELIMIT);
    assert_non_null(strstr(mob_last_error(), "1024 different names"));
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"name7", 1}}, 1, &id), MOB_OK);
    assert_int_equal(id, 8);
    sched_free(sched);
}

static void test_shapes_are_limited(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    uint32_t id, last = 0;
    for (uint64_t i = 1; i < SCHED_SHAPES_MAX; i++) {
        if (sched_shape_intern(job, (sched_amount_t[]){{"CPU", i}}, 1, &last) != MOB_OK) fail();
    }
    assert_int_equal(last, SCHED_SHAPES_MAX - 1);
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"GPU", 1}}, 1, &id), MOB_ELIMIT);
    assert_non_null(strstr(mob_last_error(), "different demands"));
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"CPU", 7}}, 1, &id), MOB_OK);
    assert_int_equal(id, 7);
    /* One goes, another can come. */
    sched_shape_drop(job, last);
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"GPU", 1}}, 1, &id), MOB_OK);
    assert_int_equal(sched_shape_place(id), sched_shape_place(last));
    sched_free(sched);
}

/* One is known while somebody holds it: who asked, as often as that was, and leases. */
static void test_shapes_are_given_back(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    uint32_t first = shape(job, AMOUNTS({"CPU", 2}));
    assert_int_equal(shape(job, AMOUNTS({"CPU", 2})), first);
    sched_shape_drop(job, first);
    assert_true(sched_shape_valid(job, first));
    sched_task_t task = {0};
    sched_lease_t lease, other = {0};
    sched_task_add(job, &task, first, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task);
    sched_shape_drop(job, first);
    sched_lease_block(sched, &lease);
    sched_lease_unblock(sched, &lease);
    assert_true(sched_shape_valid(job, first));
    uint32_t less = shape(job, AMOUNTS({"CPU", 1}));
    sched_lease_shrink(job, &lease, less);
    assert_false(sched_shape_valid(job, first));
    sched_shape_drop(job, less);
    assert_true(sched_shape_valid(job, less));
    sched_lease_release(sched, &lease);
    assert_false(sched_shape_valid(job, less));
    sched_lease_release(sched, &other); /* holds nothing, and gives nothing back */
    assert_int_not_equal(shape(job, AMOUNTS({"CPU", 2})), first);
    assert_true(sched_shape_valid(job, 0));
    sched_free(sched);
}

/* However many follow each other, the table stays small, and no number comes again soon. */
static void test_different_shapes_one_after_the_other(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"memory", 100000}));
    uint32_t old = shape(job, AMOUNTS({"memory", 1000})), id;
    sched_shape_drop(job, old);
    for (uint64_t i = 1; i <= 1000000; i++) {
        assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{"memory", i}}, 1, &id),
                         MOB_OK);
        if (id == old || sched_shape_place(id) > 2000) fail();
        sched_shape_drop(job, id);
    }
    sched_free(sched);
}

static void test_never_fits(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"GPU", 1}));
    sched_amount_t missing[2] = {0};
    uint64_t totals[2] = {77, 77};
    uint32_t fits = shape(job, AMOUNTS({"CPU", 4}, {"GPU", 0.5}));
    assert_true(sched_shape_fits_ever(job, fits));
    assert_int_equal(sched_shape_lacks(job, fits, missing, totals, 2), 0);
    assert_null(missing[0].name);
    uint32_t much = shape(job, AMOUNTS({"CPU", 1}, {"GPU", 2}));
    assert_false(sched_shape_fits_ever(job, much));
    assert_int_equal(sched_shape_lacks(job, much, missing, totals, 2), 1);
    assert_string_equal(missing[0].name, "GPU");
    assert_int_equal(missing[0].amount, 2 * SCHED_UNIT);
    assert_int_equal(totals[0], SCHED_UNIT);
    uint32_t unheard = shape(job, AMOUNTS({"CPU", 5}, {"tpu", 0.5}));
    assert_false(sched_shape_fits_ever(job, unheard));
    assert_int_equal(sched_shape_lacks(job, unheard, missing, totals, 2), 2);
    assert_string_equal(missing[0].name, "CPU");
    assert_string_equal(missing[1].name, "tpu");
    assert_int_equal(totals[1], 0);
    assert_int_equal(sched_shape_lacks(job, unheard, missing, totals, 0), 2);

    /* It waits, and holds nobody up however long. */
    sched_task_t never = {0}, fine = {0};
    sched_lease_t lease = {0};
    sched_task_add(job, &never, shape(job, AMOUNTS({"CPU", 5})), 0);
    sched_task_add(job, &fine, shape(job, AMOUNTS({"CPU", 4})), 0);
    assert_ptr_equal(sched_task_next(sched, MS(10000), &lease), &fine);
    assert_null(sched_task_next(sched, MS(10000), &lease));
    assert_true(never.queued);
    sched_free(sched);
}

/* Each job counts for itself. */
static void test_numbers_are_a_jobs_own(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    sched_job_t *other = job_new(sched);
    assert_int_equal(shape(job, AMOUNTS({"CPU", 1})), MOB_SHAPE_ONE_CPU);
    assert_int_equal(shape(job, AMOUNTS({"CPU", 2})), 2);
    assert_true(sched_shape_valid(other, 0));
    assert_false(sched_shape_valid(other, 1));
    assert_int_equal(shape(other, AMOUNTS({"CPU", 2})), 1);
    sched_amount_t demand;
    assert_int_equal(sched_shape_demand(other, 1, &demand, 1), 1);
    assert_int_equal(demand.amount, 2 * SCHED_UNIT);
    sched_free(sched);
}

/* A name without a shape or a total that has it is forgotten, and its number used again. */
static void test_names_are_forgotten(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"disk", 1}));
    sched_job_t *other = job_new(sched);
    uint32_t kept = shape(job, AMOUNTS({"disk", 1}, {"kept", 1})), id;
    sched_amount_t names[250], demand[2];
    char texts[250][32];
    uint64_t totals[2];
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 250; i++) {
            snprintf(texts[i], sizeof texts[i], "name%d.%d", round, i);
            names[i] = (sched_amount_t){texts[i], 1};
        }
        sched_job_t *brief = job_new(sched), *of = round % 2 ? other : brief;
        assert_int_equal(sched_shape_intern(of, names, 250, &id), MOB_OK);
        assert_int_equal(sched_shape_intern(of, names, 250, &id), MOB_OK);
        if (of == other) sched_shape_drop(other, id);
        assert_int_equal(sched_shape_lacks(of, id, demand, totals, 2), 250);
        assert_string_equal(demand[0].name, texts[0]);
        if (of == other) sched_shape_drop(other, id);
        sched_job_free(brief);
    }
    assert_int_equal(sched_shape_demand(job, kept, demand, 2), 2);
    assert_string_equal(demand[0].name, "disk");
    assert_string_equal(demand[1].name, "kept");
    assert_true(sched_shape_valid(job, kept));
    /* Those of a node's totals stay without a shape. */
    sched_shape_drop(job, kept);
    assert_false(sched_shape_fits_ever(job, shape(job, AMOUNTS({"kept", 1}))));
    assert_true(sched_shape_fits_ever(job, shape(job, AMOUNTS({"disk", 1}, {"CPU", 4}))));
    sched_free(sched);
}

/* A demand that is refused uses no names up. */
static void test_refusals_keep_no_names(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    char name[32];
    uint32_t id;
    for (int i = 0; i < 2 * SCHED_NAMES_MAX; i++) {
        snprintf(name, sizeof name, "name%d", i);
        sched_amount_t demand[] = {{name, 1}, {"GPU", 15000}};
        assert_int_equal(sched_shape_intern(job, demand, 2, &id), MOB_EINVAL);
    }
    assert_int_equal(sched_shape_intern(job, (sched_amount_t[]){{name, 1}}, 1, &id), MOB_OK);
    sched_free(sched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_are_canonical),
        cmocka_unit_test(test_bad_demands),
        cmocka_unit_test(test_names_are_limited),
        cmocka_unit_test(test_shapes_are_limited),
        cmocka_unit_test(test_shapes_are_given_back),
        cmocka_unit_test(test_different_shapes_one_after_the_other),
        cmocka_unit_test(test_never_fits),
        cmocka_unit_test(test_numbers_are_a_jobs_own),
        cmocka_unit_test(test_names_are_forgotten),
        cmocka_unit_test(test_refusals_keep_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
