/* Groups: bundles that are set aside together, and what runs inside them. */
#include <string.h>

#include "../random.h"
#include "node.h"

/* BUNDLES(n): the first n of these, set by bundle(). */
static sched_amount_t lines[64][4];
static sched_bundle_want_t wants[64];

static void bundle(size_t at, size_t count, const sched_amount_t *demand) {
    for (size_t i = 0; i < count; i++) lines[at][i] = demand[i];
    wants[at] = (sched_bundle_want_t){.demand = lines[at], .count = count};
}

static sched_group_t *group_new(sched_job_t *of, size_t count) {
    sched_group_t *group = NULL;
    assert_int_equal(sched_group_new(of, wants, count, false, &group), MOB_OK);
    return group;
}

static sched_group_t *group_placed(sched_t *sched, sched_job_t *of, size_t count) {
    sched_group_t *group = group_new(of, count);
    sched_task_t request = {0};
    sched_lease_t lease = {0};
    sched_task_add(of, &request, sched_group_shape(group), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &request);
    sched_group_place(group, &lease);
    assert_int_equal(lease.state, SCHED_LEASE_NONE);
    return group;
}

static uint32_t shape_in(sched_job_t *of, sched_group_t *group, int32_t at, size_t count,
                         const sched_amount_t *demand) {
    uint32_t id = 0;
    sched_where_t where = {.group = group, .bundle = at};
    assert_int_equal(sched_shape_intern_at(of, demand, count, &where, &id), MOB_OK);
    return id;
}

static double available(sched_t *sched, const char *wanted) {
    for (size_t i = 0; i < sched_resource_count(sched); i++) {
        const char *name;
        uint64_t total;
        int64_t left;
        sched_resource_at(sched, i, &name, &total, &left);
        if (strcmp(name, wanted) == 0) return (double)left / SCHED_UNIT;
    }
    return 0;
}

static void group_done(sched_group_t *group) {
    if (!sched_group_is_removed(group)) sched_group_remove(group);
    assert_true(sched_group_is_over(group));
    sched_group_free(group);
}

/* ---- a group ---- */

static void all_or_nothing(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    sched_task_t small = {0}, request = {0};
    sched_lease_t one = {0}, lease = {0};
    sched_task_add(job, &small, shape(job, AMOUNTS({"CPU", 1})), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &one), &small);
    bundle(0, AMOUNTS({"CPU", 2}));
    bundle(1, AMOUNTS({"CPU", 2}));
    sched_group_t *group = group_new(job, 2);
    assert_true(sched_group_fits_ever(group));
    sched_task_add(job, &request, sched_group_shape(group), 0);
    assert_null(sched_task_next(sched, 0, &lease));
    assert_true(available(sched, "CPU") == 3); /* it holds nothing while it waits */
    sched_lease_release(sched, &one);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &request);
    sched_group_place(group, &lease);
    assert_true(available(sched, "CPU") == 0);
    assert_int_equal(sched_job_cpus(job), 4 * SCHED_UNIT);
    group_done(group);
    assert_true(available(sched, "CPU") == 4);
    sched_free(sched);
}

/* The others are on other nodes. */
static void bundles_come_and_go_one_by_one(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 3}, {"GPU", 2}));
    bundle(0, AMOUNTS({"CPU", 2}, {"GPU", 1}));
    bundle(1, AMOUNTS({"CPU", 2}));
    bundle(2, AMOUNTS({"CPU", 1}, {"GPU", 1}));
    sched_group_t *group = group_new(job, 3);
    sched_task_t any = {0}, there = {0}, other = {0};
    sched_lease_t lease = {0}, second = {0};
    uint32_t small = shape_in(job, group, -1, AMOUNTS({"CPU", 1}));
    uint32_t last = shape_in(job, group, 2, AMOUNTS({"GPU", 1}));
    assert_int_equal(sched_bundle_capacity(job, small, 0), 2);
    assert_int_equal(sched_bundle_capacity(job, last, 0), 0);
    assert_int_equal(sched_bundle_capacity(job, last, 2), 1);
    sched_task_add(job, &any, small, 0);
    sched_task_add(job, &there, last, 0);

    assert_true(sched_bundle_reserve(group, 0));
    assert_false(sched_bundle_reserve(group, 0));
    assert_false(sched_bundle_reserve(group, 1)); /* one CPU is left */
    assert_true(sched_bundle_reserve(group, 2));
    assert_true(available(sched, "CPU") == 0 && available(sched, "GPU") == 0);
    assert_null(sched_task_next(sched, 0, &lease)); /* it is not said yet that they stay */
    sched_bundle_close(group, 2);
    assert_false(sched_bundle_is_held(group, 2));
    assert_true(available(sched, "CPU") == 1);

    sched_bundle_open(group, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &any);
    assert_null(sched_task_next(sched, 0, &second)); /* its bundle is elsewhere */
    sched_task_add(job, &other, small, 0);
    sched_bundle_close(group, 0);
    assert_null(sched_task_next(sched, 0, &second)); /* nothing starts there any more */
    assert_true(sched_bundle_is_held(group, 0) && available(sched, "CPU") == 1);
    assert_false(sched_bundle_reserve(group, 0));
    sched_lease_release(sched, &lease);
    assert_false(sched_bundle_is_held(group, 0));
    assert_true(available(sched, "CPU") == 3);

    assert_true(sched_bundle_reserve(group, 0) && sched_bundle_reserve(group, 2));
    sched_bundle_open(group, 0);
    sched_bundle_open(group, 2);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &there);
    assert_ptr_equal(sched_task_next(sched, 0, &second), &other);
    sched_group_remove(group);
    sched_lease_release(sched, &lease);
    sched_lease_release(sched, &second);
    assert_true(available(sched, "CPU") == 3 && available(sched, "GPU") == 2);
    sched_shape_drop(job, small);
    sched_shape_drop(job, last);
    group_done(group);
    sched_free(sched);
}

static void apart_never_fits(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    bundle(0, AMOUNTS({"CPU", 1}));
    bundle(1, AMOUNTS({"CPU", 1}));
    sched_group_t *two = NULL, *one = NULL;
    assert_int_equal(sched_group_new(job, wants, 2, true, &two), MOB_OK);
    assert_int_equal(sched_group_new(job, wants, 1, true, &one), MOB_OK);
    assert_false(sched_group_fits_ever(two));
    assert_true(sched_group_fits_ever(one));
    group_done(two);
    group_done(one);
    bundle(0, AMOUNTS({"CPU", 5}));
    sched_group_t *large = group_new(job, 1);
    assert_false(sched_group_fits_ever(large));
    group_done(large);
    sched_free(sched);
}

static void gpus_are_packed(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}, {"GPU", 4}));
    bundle(0, AMOUNTS({"GPU", 0.6}));
    bundle(1, AMOUNTS({"GPU", 2}));
    bundle(2, AMOUNTS({"GPU", 0.6}));
    bundle(3, AMOUNTS({"GPU", 0.4}));
    sched_group_t *group = group_placed(sched, job, 4);
    static const uint64_t expected[] = {1, 6, 8, 1};
    for (uint32_t b = 0; b < 4; b++) {
        uint64_t gpus;
        sched_amount_t demand[2];
        assert_int_equal(sched_bundle_demand(group, b, demand, 2, &gpus), 1);
        assert_int_equal(gpus, expected[b]);
    }
    assert_int_equal((int)(available(sched, "GPU") * 10 + 0.5), 4); /* of the last device */
    /* what runs in a bundle gets its bundle's */
    sched_task_t task = {0};
    sched_lease_t lease = {0};
    sched_task_add(job, &task, shape_in(job, group, 1, AMOUNTS({"GPU", 1})), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task);
    assert_int_equal(lease.gpu_mask, 2);
    sched_lease_release(sched, &lease);
    sched_task_add(job, &task, shape_in(job, group, 2, AMOUNTS({"GPU", 0.5})), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &task);
    assert_int_equal(lease.gpu_mask, 8);
    sched_lease_release(sched, &lease);
    group_done(group);
    assert_true(available(sched, "GPU") == 4);
    sched_free(sched);
}

/* ---- what runs inside ---- */

static void a_bundle_is_a_small_node(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    bundle(0, AMOUNTS({"CPU", 2}));
    sched_group_t *group = group_placed(sched, job, 1), *found;
    uint32_t one = shape_in(job, group, 0, AMOUNTS({"CPU", 1})), at = 7;
    sched_task_t tasks[3] = {0};
    sched_lease_t leases[3] = {0};
    for (int i = 0; i < 3; i++) sched_task_add(job, &tasks[i], one, 0);
    assert_int_equal(sched_queued(job, one), 3);
    for (int i = 0; i < 2; i++) assert_ptr_equal(sched_task_next(sched, 0, &leases[i]), &tasks[i]);
    assert_null(sched_task_next(sched, 0, &leases[2])); /* though the node has two CPUs more */
    assert_true(available(sched, "CPU") == 2);
    found = sched_lease_group(&leases[0], &at);
    assert_ptr_equal(found, group);
    assert_int_equal(at, 0);
    uint64_t since;
    assert_int_equal(sched_cpu_lacking(sched, NULL, NULL, &since), 0);
    sched_t *inside = sched_lease_place(&leases[0]);
    assert_int_equal(sched_cpu_lacking(inside, NULL, leases[0].job, &since), SCHED_UNIT);
    assert_int_equal(sched_cpu_lacking(inside, &tasks[2], leases[0].job, &since), 0);
    /* a task that waits lends its CPU to the bundle, and to nobody else */
    sched_lease_block(sched, &leases[0]);
    assert_true(available(sched, "CPU") == 2);
    assert_ptr_equal(sched_task_next(sched, 0, &leases[2]), &tasks[2]);
    sched_lease_unblock(sched, &leases[0]);
    assert_int_equal(sched_cpus_free(inside), -SCHED_UNIT);
    assert_int_equal(sched_cpus_free(sched), 2 * SCHED_UNIT);
    for (int i = 0; i < 3; i++) sched_lease_release(sched, &leases[i]);
    sched_shape_drop(job, one);
    group_done(group);
    sched_free(sched);
}

static void any_bundle_takes_the_first(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 8}));
    for (size_t b = 0; b < 3; b++) bundle(b, AMOUNTS({"CPU", (double)b + 1}));
    sched_group_t *group = group_placed(sched, job, 3);
    uint32_t any = shape_in(job, group, -1, AMOUNTS({"CPU", 2})),
             none = shape_in(job, group, -1, AMOUNTS({"CPU", 4}));
    assert_true(sched_shape_fits_ever(job, any));
    assert_false(sched_shape_fits_ever(job, none));
    sched_task_t tasks[3] = {0};
    sched_lease_t leases[3] = {0};
    uint32_t in[3];
    for (int i = 0; i < 3; i++) sched_task_add(job, &tasks[i], any, 0);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(sched_task_next(sched, 0, &leases[i]), &tasks[i]);
        assert_ptr_equal(sched_lease_group(&leases[i], &in[i]), group);
    }
    assert_int_equal(in[0] + in[1], 3); /* one in each of the two that could */
    assert_null(sched_task_next(sched, 0, &leases[2]));
    sched_lease_release(sched, &leases[1]);
    assert_ptr_equal(sched_task_next(sched, 0, &leases[2]), &tasks[2]);
    assert_ptr_equal(sched_lease_group(&leases[2], &in[2]), group);
    assert_int_equal(in[2], in[1]);
    sched_lease_release(sched, &leases[0]);
    sched_lease_release(sched, &leases[2]);
    group_done(group);
    sched_free(sched);
}

static void tasks_wait_for_their_group(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}));
    bundle(0, AMOUNTS({"CPU", 1}));
    sched_group_t *group = group_new(job, 1);
    sched_task_t old = {0}, young = {0}, request = {0}, nothing = {0};
    sched_lease_t lease = {0};
    sched_task_add(job, &old, shape_in(job, group, 0, AMOUNTS({"CPU", 1})), 0);
    sched_task_add(job, &young, shape_in(job, group, -1, AMOUNTS({"CPU", 0.5})), 0);
    uint32_t zero = shape_in(job, group, 0, 0, NULL);
    assert_int_not_equal(zero, 0); /* nothing in a group is not nothing at all */
    sched_task_add(job, &nothing, zero, 0);
    assert_null(sched_task_next(sched, 0, &lease));
    sched_task_add(job, &request, sched_group_shape(group), 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &request);
    sched_group_place(group, &lease);
    sched_lease_t leases[3] = {0};
    assert_ptr_equal(sched_task_next(sched, 0, &leases[0]), &old); /* the oldest, of two shapes */
    assert_ptr_equal(sched_task_next(sched, 0, &leases[1]), &nothing);
    assert_null(sched_task_next(sched, 0, &lease));
    sched_lease_release(sched, &leases[0]);
    assert_ptr_equal(sched_task_next(sched, 0, &leases[2]), &young);
    for (int i = 1; i < 3; i++) sched_lease_release(sched, &leases[i]);
    group_done(group);
    sched_free(sched);
}

static void actors_keep_less(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}));
    bundle(0, AMOUNTS({"CPU", 1}));
    bundle(1, AMOUNTS({"CPU", 1}));
    sched_group_t *group = group_placed(sched, job, 2);
    uint32_t makes = shape_in(job, group, -1, AMOUNTS({"CPU", 1})),
             holds = shape_in(job, group, -1, 0, NULL);
    assert_true(sched_shape_covers(job, makes, holds));
    assert_false(sched_shape_covers(job, makes, 0));
    sched_task_t tasks[8] = {0};
    sched_lease_t leases[8] = {0};
    for (int i = 0; i < 8; i++) {
        sched_task_add(job, &tasks[i], makes, 0);
        assert_ptr_equal(sched_task_next(sched, 0, &leases[i]), &tasks[i]);
        sched_lease_shrink(job, &leases[i], holds);
    }
    for (int i = 0; i < 8; i++) sched_lease_release(sched, &leases[i]);
    group_done(group);
    sched_free(sched);
}

static void jobs_share_a_group(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 2}));
    sched_job_t *other = job_new(sched);
    bundle(0, AMOUNTS({"CPU", 2}));
    sched_group_t *group = group_placed(sched, job, 1);
    uint32_t mine = shape_in(job, group, 0, AMOUNTS({"CPU", 1})),
             theirs = shape_in(other, group, 0, AMOUNTS({"CPU", 1}));
    sched_task_t tasks[3] = {0}, task = {0};
    sched_lease_t first = {0}, second = {0};
    for (int i = 0; i < 3; i++) sched_task_add(job, &tasks[i], mine, 0);
    sched_task_add(other, &task, theirs, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &first), &tasks[0]);
    assert_ptr_equal(sched_task_next(sched, 0, &second), &task); /* it holds fewer CPUs there */
    sched_lease_release(sched, &first);
    sched_lease_release(sched, &second);
    for (int i = 1; i < 3; i++) sched_task_remove(sched, &tasks[i]);
    sched_job_free(other); /* with what it has asked for in the group */
    group_done(group);
    sched_free(sched);
}

/* ---- its end ---- */

static void a_removed_group_drains(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    bundle(0, AMOUNTS({"CPU", 1}));
    bundle(1, AMOUNTS({"CPU", 3}));
    sched_group_t *group = group_placed(sched, job, 2);
    uint32_t one = shape_in(job, group, 0, AMOUNTS({"CPU", 1})), id;
    sched_task_t runs = {0}, waits = {0};
    sched_lease_t lease = {0}, none = {0};
    sched_task_add(job, &runs, one, 0);
    assert_ptr_equal(sched_task_next(sched, 0, &lease), &runs);
    sched_task_add(job, &waits, one, 0);
    sched_group_remove(group);
    assert_true(available(sched, "CPU") == 3); /* the bundle that nothing runs in went back */
    assert_false(sched_group_is_over(group));
    assert_int_equal(sched_shape_intern_at(job, NULL, 0, &(sched_where_t){.group = group}, &id),
                     MOB_ESTALE);
    sched_lease_release(sched, &lease);
    assert_true(available(sched, "CPU") == 4);
    assert_true(sched_group_is_over(group));
    assert_null(sched_task_next(sched, 0, &none));
    sched_group_free(group);
    assert_true(sched_shape_valid(job, one)); /* the shape outlives it */
    sched_task_remove(sched, &waits);
    sched_shape_drop(job, one);
    sched_free(sched);
}

static void bad_input(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    sched_group_t *group = NULL;
    uint32_t id;
    bundle(0, AMOUNTS({"GPU", 1.5}));
    assert_int_equal(sched_group_new(job, wants, 1, false, &group), MOB_EINVAL);
    bundle(0, AMOUNTS({"CPU", 1}));
    group = group_new(job, 1);
    for (int32_t at = -2; at <= 1; at += 3)
        assert_int_equal(sched_shape_intern_at(job, NULL, 0,
                                               &(sched_where_t){.group = group, .bundle = at}, &id),
                         MOB_EINVAL);
    group_done(group);
    sched_free(sched);
}

/* ---- labels ---- */

static bool fits(sched_t *sched, const char *selector) {
    uint32_t id = UINT32_MAX;
    (void)sched;
    sched_where_t where = {.bundle = -1, .selector = selector};
    assert_int_equal(sched_shape_intern_at(job, NULL, 0, &where, &id), MOB_OK);
    return sched_shape_fits_ever(job, id);
}

static void labels_are_matched(void **state) {
    (void)state;
    sched_t *sched = node(AMOUNTS({"CPU", 4}));
    assert_int_equal(sched_labels_set(sched, "region=us-west4,ray.io/node-id=ab12,empty="), MOB_OK);
    static const char *const good[] = {
        "region=us-west4",  "region=eu;us-west4",
        "region!=eu",       "other!=eu",
        "+region",          "-other",
        "region=eu|+empty", "empty=",
        "region!=eu&-none", "!ray.io/node-id=ab12",
    };
    static const char *const bad[] = {
        "region=us-west", "region!=us-west4", "+other",     "-region",
        "other=eu",       "region=eu|-empty", "!region=eu", "region=us-west4&+other",
    };
    static const char *const wrong[] = {"", "region", "=a", "a=b c", "+", "a=b||", "a=b&&c=d", "!"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(fits(sched, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(fits(sched, bad[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint32_t id;
        sched_where_t where = {.bundle = -1, .selector = wrong[i]};
        if (sched_shape_intern_at(job, NULL, 0, &where, &id) != MOB_EINVAL)
            fail_msg("%s", wrong[i]);
    }
    static const char *const no_labels[] = {"a", "=b", "a=b c", "a=b,,"};
    for (size_t i = 0; i < sizeof no_labels / sizeof *no_labels; i++)
        assert_int_equal(sched_labels_set(sched, no_labels[i]), MOB_EINVAL);
    sched_free(sched);
}

/* ---- random work ---- */

enum { JOBS = 3, GROUPS = 5, TASKS = 40, CPUS = 12, GPUS = 4 };

typedef struct {
    sched_group_t *group; /* NULL: there is none */
    sched_task_t request;
    size_t bundles;
    double cpus[4], gpus[4];
    bool asked;
    int job;
} model_group_t;

typedef struct {
    sched_task_t task;
    sched_lease_t lease;
    uint32_t shape;
    int job, group; /* group -1: on the node */
    double cpus, gpus;
    uint32_t bundle; /* that it runs in */
    bool used, running, blocked;
} model_task_t;

typedef struct {
    sched_t *sched;
    sched_job_t *jobs[JOBS];
    model_group_t groups[GROUPS];
    model_task_t tasks[TASKS];
} model_t;

static int64_t to_units(double amount) { return (int64_t)(amount * SCHED_UNIT + 0.5); }

/* Nothing is given twice, and the node's sum is exact. */
static void model_check(model_t *m) {
    int64_t cpus = CPUS * SCHED_UNIT, gpus = GPUS * SCHED_UNIT, devices[GPUS] = {0};
    int64_t inside[GROUPS][4][2] = {0};
    for (int i = 0; i < TASKS; i++) {
        const model_task_t *t = &m->tasks[i];
        if (!t->running) continue;
        int64_t c = t->blocked ? 0 : to_units(t->cpus), g = to_units(t->gpus);
        if (t->group < 0) {
            cpus -= c;
            gpus -= g;
            for (int d = 0; d < GPUS; d++)
                if (t->lease.gpu_mask >> d & 1) devices[d] += g < SCHED_UNIT ? g : SCHED_UNIT;
        } else {
            inside[t->group][t->bundle][0] += c;
            inside[t->group][t->bundle][1] += g;
            uint64_t own;
            sched_amount_t demand[4];
            sched_bundle_demand(m->groups[t->group].group, t->bundle, demand, 4, &own);
            assert_int_equal(t->lease.gpu_mask & ~own, 0);
        }
    }
    for (int i = 0; i < GROUPS; i++) {
        model_group_t *g = &m->groups[i];
        bool over = !g->group || sched_group_is_over(g->group);
        for (uint32_t b = 0; !over && sched_group_is_placed(g->group) && b < g->bundles; b++) {
            uint64_t own;
            sched_amount_t demand[4];
            sched_bundle_demand(g->group, b, demand, 4, &own);
            bool empty = !inside[i][b][0] && !inside[i][b][1];
            assert_true(inside[i][b][1] <= to_units(g->gpus[b]));
            if (sched_group_is_removed(g->group) && empty) continue; /* perhaps; see below */
            cpus -= to_units(g->cpus[b]);
            gpus -= to_units(g->gpus[b]);
            int64_t part = to_units(g->gpus[b]) < SCHED_UNIT ? to_units(g->gpus[b]) : SCHED_UNIT;
            for (int d = 0; d < GPUS; d++)
                if (own >> d & 1) devices[d] += part;
        }
    }
    for (int d = 0; d < GPUS; d++) assert_in_range(devices[d], 0, SCHED_UNIT);
    bool draining = false; /* zero demands and lent CPUs keep a bundle, too */
    for (int i = 0; i < GROUPS; i++)
        draining |= m->groups[i].group && sched_group_is_removed(m->groups[i].group) &&
                    !sched_group_is_over(m->groups[i].group);
    if (draining) return;
    assert_int_equal(to_units(available(m->sched, "CPU") + 1000), cpus + 1000 * SCHED_UNIT);
    assert_int_equal(to_units(available(m->sched, "GPU")), gpus);
}

static void step_start(model_t *m) {
    sched_lease_t lease = {0};
    for (sched_task_t *q; (q = sched_task_next(m->sched, 0, &lease)) != NULL;) {
        bool known = false;
        for (int i = 0; i < GROUPS && !known; i++) {
            if (q != &m->groups[i].request) continue;
            sched_group_place(m->groups[i].group, &lease);
            known = true;
        }
        for (int i = 0; i < TASKS && !known; i++) {
            model_task_t *t = &m->tasks[i];
            if (q != &t->task) continue;
            t->lease = lease;
            t->running = known = true;
            sched_group_t *group = sched_lease_group(&lease, &t->bundle);
            assert_ptr_equal(group, t->group < 0 ? NULL : m->groups[t->group].group);
        }
        assert_true(known);
        lease = (sched_lease_t){0};
    }
}

static void task_end(model_t *m, model_task_t *t) {
    if (!t->used) return;
    sched_task_remove(m->sched, &t->task);
    sched_lease_release(m->sched, &t->lease);
    sched_shape_drop(m->jobs[t->job], t->shape);
    *t = (model_task_t){0};
}

static void step_group(model_t *m, int i) {
    model_group_t *g = &m->groups[i];
    if (!g->group) {
        *g = (model_group_t){.bundles = 1 + next_random() % 4, .job = (int)(next_random() % JOBS)};
        for (size_t b = 0; b < g->bundles; b++) {
            static const double gpus[] = {0, 0, 0.3, 0.5, 1, 2};
            g->cpus[b] = (double)(next_random() % 4);
            g->gpus[b] = gpus[next_random() % 6];
            bundle(b, AMOUNTS({"CPU", g->cpus[b]}, {"GPU", g->gpus[b]}));
        }
        g->group = group_new(m->jobs[g->job], g->bundles);
        sched_task_add(m->jobs[g->job], &g->request, sched_group_shape(g->group), 0);
    } else if (!sched_group_is_removed(g->group)) {
        sched_task_remove(m->sched, &g->request);
        sched_group_remove(g->group);
    }
    if (sched_group_is_removed(g->group)) {
        /* some of what runs inside dies at once, some later */
        for (int k = 0; k < TASKS; k++)
            if (m->tasks[k].used && m->tasks[k].group == i && next_random() % 2)
                task_end(m, &m->tasks[k]);
    }
    if (sched_group_is_removed(g->group) && sched_group_is_over(g->group)) {
        for (int k = 0; k < TASKS; k++)
            if (m->tasks[k].used && m->tasks[k].group == i) task_end(m, &m->tasks[k]);
        sched_group_free(g->group);
        g->group = NULL;
    }
}

static void step_task(model_t *m, model_task_t *t) {
    static const double gpus[] = {0, 0, 0, 0.25, 1};
    if (t->used) {
        if (t->running && next_random() % 3 == 0) {
            (t->blocked ? sched_lease_unblock : sched_lease_block)(m->sched, &t->lease);
            t->blocked = !t->blocked;
        } else if (t->running || next_random() % 8 == 0) {
            task_end(m, t);
        }
        return;
    }
    *t = (model_task_t){.used = true,
                        .job = (int)(next_random() % JOBS),
                        .group = (int)(next_random() % (GROUPS + 1)) - 1,
                        .cpus = (double)(next_random() % 5) / 2,
                        .gpus = gpus[next_random() % 5]};
    sched_group_t *group = t->group < 0 ? NULL : m->groups[t->group].group;
    if (!group || sched_group_is_removed(group)) {
        group = NULL;
        t->group = -1;
    }
    int32_t at = group ? (int32_t)(next_random() % (sched_group_bundles(group) + 1)) - 1 : -1;
    t->shape = shape_in(m->jobs[t->job], group, at, AMOUNTS({"CPU", t->cpus}, {"GPU", t->gpus}));
    sched_task_add(m->jobs[t->job], &t->task, t->shape, 0);
}

static void everything_returns(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 20; round++) {
        seed = round * 7919;
        model_t m = {.sched = node(AMOUNTS({"CPU", CPUS}, {"GPU", GPUS}))};
        m.jobs[0] = job;
        for (int j = 1; j < JOBS; j++) m.jobs[j] = job_new(m.sched);
        for (int i = 0; i < 4000; i++) {
            if (next_random() % 10 == 0)
                step_group(&m, (int)(next_random() % GROUPS));
            else
                step_task(&m, &m.tasks[next_random() % TASKS]);
            step_start(&m);
            model_check(&m);
        }
        for (int i = 0; i < TASKS; i++) task_end(&m, &m.tasks[i]);
        for (int i = 0; i < GROUPS; i++) {
            model_group_t *g = &m.groups[i];
            if (!g->group) continue;
            sched_task_remove(m.sched, &g->request);
            group_done(g->group);
        }
        assert_true(available(m.sched, "CPU") == CPUS && available(m.sched, "GPU") == GPUS);
        for (int j = 0; j < JOBS; j++) assert_int_equal(sched_job_cpus(m.jobs[j]), 0);
        for (int j = 1; j < JOBS; j++) sched_job_free(m.jobs[j]);
        sched_free(m.sched);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_or_nothing),
        cmocka_unit_test(apart_never_fits),
        cmocka_unit_test(bundles_come_and_go_one_by_one),
        cmocka_unit_test(gpus_are_packed),
        cmocka_unit_test(a_bundle_is_a_small_node),
        cmocka_unit_test(any_bundle_takes_the_first),
        cmocka_unit_test(tasks_wait_for_their_group),
        cmocka_unit_test(actors_keep_less),
        cmocka_unit_test(jobs_share_a_group),
        cmocka_unit_test(a_removed_group_drains),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(labels_are_matched),
        cmocka_unit_test(everything_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
