/* What the tests of this room begin with: a node, and a job on it. */
#ifndef UNIT_SCHED_NODE_H
#define UNIT_SCHED_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/sched.h"

#define MS(n) (UINT64_C(1000000) * (n))

static sched_job_t *job; /* the first of the node that was made last */

static inline sched_job_t *job_new(sched_t *sched) {
    sched_job_t *made = NULL;
    assert_int_equal(sched_job_new(sched, &made), MOB_OK);
    return made;
}

static inline sched_t *node(size_t count, const sched_amount_t *total) {
    sched_t *sched = NULL;
    assert_int_equal(sched_new(total, count, &sched), MOB_OK);
    job = job_new(sched);
    return sched;
}

/* AMOUNTS({"CPU", 1}, {"GPU", 0.5}): a count and an array, amounts as people write them. */
typedef struct amount {
    const char *name;
    double value;
} amount_t;

static inline const sched_amount_t *units(const amount_t *amounts, size_t count) {
    static sched_amount_t out[8];
    for (size_t i = 0; i < count; i++) {
        out[i] = (sched_amount_t){amounts[i].name, (uint64_t)(amounts[i].value * SCHED_UNIT + 0.5)};
    }
    return out;
}
#define AMOUNTS(...)                                      \
    sizeof((amount_t[]){__VA_ARGS__}) / sizeof(amount_t), \
        units((amount_t[]){__VA_ARGS__}, sizeof((amount_t[]){__VA_ARGS__}) / sizeof(amount_t))

static inline uint32_t shape(sched_job_t *of, size_t count, const sched_amount_t *demand) {
    uint32_t id = UINT32_MAX;
    assert_int_equal(sched_shape_intern(of, demand, count, &id), MOB_OK);
    return id;
}

#endif
