/*
 * Random work from fixed seeds. One test compares every decision and every sum with a model that
 * keeps no books: it knows the list of tasks and leases and adds everything up again each time. The
 * other keeps a node overloaded and measures how long the oldest task is made to wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sched/sched.h"

enum {
    CPU,
    GPU,
    MEMORY,
    CUSTOM,
    UNHEARD,
    RESOURCES,
    OFFERED = UNHEARD,
    GPUS = 3,
    SLOTS = 96,
    STEPS = 100000
};

static const char *const names[RESOURCES] = {"CPU", "GPU", "memory", "custom", "unheard"};
static const int64_t total[RESOURCES] = {40000, GPUS *SCHED_UNIT, 1000000, 25000, 0};

/* Small and large, alone and together, two that never fit. */
static const int64_t demands[][RESOURCES] = {
    {0},
    {10000},
    {10000},
    {5000},
    {20000},
    {40000},
    {10000, 10000},
    {0, 10000},
    {2500, 5000},
    {0, 3000},
    {10000, 30000, 0, 10000},
    {10000, 20000},
    {10000, 0, 600000},
    {0, 0, 400000, 10000},
    {20000, 7000, 100000, 20000},
    {0, 0, 0, 25000},
    {50000},
    {10000, 0, 0, 0, 1},
};
enum { DEMANDS = sizeof demands / sizeof *demands };

typedef struct slot {
    sched_task_t task;
    sched_lease_t lease;
    bool waiting, running; /* neither: unused */
    uint64_t order, since;
    int demand; /* of the task, then of what it holds */
    bool blocked, lasting;
    uint64_t gpus;
    uint64_t ends;
} slot_t;

typedef struct model {
    sched_t *sched;
    uint32_t shapes[DEMANDS];
    slot_t slots[SLOTS];
    uint64_t random, now, orders;
    uint64_t patient;
    bool lacked[RESOURCES];
} model_t;

static uint32_t model_random(model_t *model, uint32_t below) {
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return (uint32_t)((model->random >> 32) % below);
}

static void model_start(model_t *model, uint64_t seed) {
    sched_amount_t amounts[RESOURCES];
    *model = (model_t){.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    for (int r = 0; r < OFFERED; r++) amounts[r] = (sched_amount_t){names[r], (uint64_t)total[r]};
    assert_int_equal(sched_new(amounts, OFFERED, &model->sched), MOB_OK);
    for (int d = 0; d < DEMANDS; d++) {
        for (int r = 0; r < RESOURCES; r++)
            amounts[r] = (sched_amount_t){names[r], (uint64_t)demands[d][r]};
        assert_int_equal(sched_shape_intern(model->sched, amounts, RESOURCES, &model->shapes[d]),
                         MOB_OK);
    }
}

/* ---- The model's arithmetic ---------------------------------------------- */

typedef struct sums {
    int64_t left[RESOURCES];
    int64_t gpu[GPUS];
} sums_t;

static sums_t model_sums(const model_t *model, bool later) {
    sums_t sums = {.gpu = {SCHED_UNIT, SCHED_UNIT, SCHED_UNIT}};
    memcpy(sums.left, total, sizeof total);
    for (const slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (!slot->running || (later && !slot->blocked && !slot->lasting)) continue;
        const int64_t *demand = demands[slot->demand];
        for (int r = 0; r < RESOURCES; r++)
            sums.left[r] -= r == CPU && slot->blocked ? 0 : demand[r];
        for (int g = 0; g < GPUS; g++) {
            if (slot->gpus >> g & 1)
                sums.gpu[g] -= demand[GPU] < SCHED_UNIT ? demand[GPU] : SCHED_UNIT;
        }
    }
    return sums;
}

static uint64_t sums_gpus(const sums_t *sums, int64_t amount) {
    uint64_t mask = 0;
    if (amount >= SCHED_UNIT) {
        for (int g = 0; g < GPUS && amount > 0; g++) {
            if (sums->gpu[g] < SCHED_UNIT) continue;
            mask |= UINT64_C(1) << g;
            amount -= SCHED_UNIT;
        }
        return amount ? 0 : mask;
    }
    int best = -1;
    for (int g = GPUS - 1; g >= 0; g--) {
        if (sums->gpu[g] >= amount && (best < 0 || sums->gpu[g] <= sums->gpu[best])) best = g;
    }
    return best < 0 ? 0 : UINT64_C(1) << best;
}

static bool sums_have(const sums_t *sums, const int64_t *demand, int resource) {
    if (!demand[resource]) return true;
    return resource == GPU ? sums_gpus(sums, demand[GPU]) != 0
                           : sums->left[resource] >= demand[resource];
}

static bool sums_fit(const sums_t *sums, int demand) {
    for (int r = 0; r < RESOURCES; r++) {
        if (!sums_have(sums, demands[demand], r)) return false;
    }
    return true;
}

static slot_t *model_oldest(model_t *model, const sums_t *sums, const bool *closed) {
    slot_t *oldest = NULL;
    for (slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (!slot->waiting || !sums_fit(sums, slot->demand) ||
            (oldest && oldest->order < slot->order))
            continue;
        bool barred = false;
        for (int r = 0; closed && r < RESOURCES; r++)
            barred |= closed[r] && demands[slot->demand][r];
        if (!barred) oldest = slot;
    }
    return oldest;
}

/* Which task should be next. */
static slot_t *model_expect(model_t *model, const sums_t *now) {
    sums_t later = model_sums(model, true);
    slot_t *first = model_oldest(model, &later, NULL);
    if (!first || sums_fit(now, first->demand)) return first;
    if (model->now - first->since < SCHED_PATIENCE_NS) return model_oldest(model, now, NULL);
    if (model->patient != first->order) memset(model->lacked, 0, sizeof model->lacked);
    model->patient = first->order;
    bool only_cpus = true;
    for (int r = CPU + 1; r < RESOURCES; r++) {
        model->lacked[r] |= !sums_have(now, demands[first->demand], r);
        only_cpus &= sums_have(now, demands[first->demand], r);
    }
    for (int r = 0; only_cpus && r < RESOURCES; r++)
        model->lacked[r] |= demands[first->demand][r] > 0;
    return model_oldest(model, now, model->lacked);
}

/* What the oldest task that lacks CPUs and nothing else lacks of them. */
static int64_t model_cpu_lacking(const model_t *model, uint64_t *ret_since) {
    sums_t now = model_sums(model, false), later = model_sums(model, true);
    const slot_t *oldest = NULL;
    for (const slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (!slot->waiting || !sums_fit(&later, slot->demand) ||
            (oldest && oldest->order < slot->order))
            continue;
        bool only_cpus = !sums_have(&now, demands[slot->demand], CPU);
        for (int r = CPU + 1; r < RESOURCES; r++)
            only_cpus &= sums_have(&now, demands[slot->demand], r);
        if (only_cpus) oldest = slot;
    }
    *ret_since = oldest ? oldest->since : 0;
    return oldest ? demands[oldest->demand][CPU] - now.left[CPU] : 0;
}

static void model_compare(const model_t *model) {
    sums_t now = model_sums(model, false);
    assert_int_equal(sched_resource_count(model->sched), OFFERED);
    for (size_t r = 0; r < OFFERED; r++) {
        const char *name;
        uint64_t all;
        int64_t left;
        sched_resource_at(model->sched, r, &name, &all, &left);
        assert_string_equal(name, names[r]);
        assert_int_equal(all, total[r]);
        assert_int_equal(left, now.left[r]);
        assert_true(left <= total[r] && (r == CPU || left >= 0));
    }
    for (int g = 0; g < GPUS; g++) assert_in_range(now.gpu[g], 0, SCHED_UNIT);
    uint64_t expected, since = 0;
    assert_int_equal(model_cpu_lacking(model, &expected),
                     sched_cpu_lacking(model->sched, NULL, &since));
    assert_int_equal(expected, since);
}

/* ---- Steps --------------------------------------------------------------- */

static slot_t *model_pick(model_t *model, bool waiting, bool running) {
    uint32_t start = model_random(model, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        slot_t *slot = &model->slots[(start + i) % SLOTS];
        if (slot->waiting == waiting && slot->running == running) return slot;
    }
    return NULL;
}

static void step_add(model_t *model, int demand) {
    slot_t *slot = model_pick(model, false, false);
    if (!slot) return;
    *slot =
        (slot_t){.waiting = true, .demand = demand, .order = ++model->orders, .since = model->now};
    sched_task_add(model->sched, &slot->task, model->shapes[demand], model->now);
}

/* Starts what may start, against the model. */
static slot_t *step_next(model_t *model) {
    sums_t now = model_sums(model, false);
    slot_t *expected = model_expect(model, &now);
    sched_lease_t lease = {0};
    sched_task_t *task = sched_task_next(model->sched, model->now, &lease);
    assert_ptr_equal(task, expected ? &expected->task : NULL);
    if (!expected) return NULL;
    assert_false(task->queued);
    assert_int_equal(lease.gpu_mask, demands[expected->demand][GPU]
                                         ? sums_gpus(&now, demands[expected->demand][GPU])
                                         : 0);
    expected->lease = lease;
    expected->gpus = lease.gpu_mask;
    expected->waiting = expected->blocked = expected->lasting = false;
    expected->running = true;
    for (int r = 0; r < RESOURCES; r++) {
        assert_true(!demands[expected->demand][r] || demands[expected->demand][r] <= now.left[r]);
    }
    return expected;
}

static void step_release(model_t *model, slot_t *slot) {
    sched_lease_release(model->sched, &slot->lease);
    assert_int_equal(slot->lease.state, SCHED_LEASE_NONE);
    slot->running = false;
}

static void step_readd(model_t *model, slot_t *slot) {
    step_release(model, slot);
    sched_task_readd(model->sched, &slot->task);
    slot->waiting = true;
}

static void step_block(model_t *model, slot_t *slot, bool block) {
    (block ? sched_lease_block : sched_lease_unblock)(model->sched, &slot->lease);
    slot->blocked = block;
    assert_int_equal(slot->lease.state, block ? SCHED_LEASE_BLOCKED : SCHED_LEASE_HELD);
}

/* To any demand that is not above the present one; the GPUs kept are the lowest. */
static void step_shrink(model_t *model, slot_t *slot) {
    int demand = (int)model_random(model, DEMANDS);
    for (int r = 0; r < RESOURCES; r++) {
        if (demands[demand][r] > demands[slot->demand][r]) demand = slot->demand;
    }
    sched_lease_shrink(model->sched, &slot->lease, model->shapes[demand]);
    slot->demand = demand;
    slot->lasting = true;
    int64_t keep = demands[demand][GPU];
    for (int g = 0; g < GPUS; g++) {
        if (keep <= 0) slot->gpus &= ~(UINT64_C(1) << g);
        if (slot->gpus >> g & 1) keep -= SCHED_UNIT;
    }
    assert_int_equal(slot->lease.gpu_mask, slot->gpus);
}

static void step_remove(model_t *model, slot_t *slot) {
    sched_task_remove(model->sched, &slot->task);
    slot->waiting = false;
}

static void step_any(model_t *model) {
    uint32_t choice = model_random(model, 100);
    slot_t *running = model_pick(model, false, true), *waiting = model_pick(model, true, false),
           *started;
    if (choice < 30) {
        step_add(model, (int)model_random(model, DEMANDS));
    } else if (choice < 50) {
        while ((started = step_next(model))) {
            if (model_random(model, 16) == 0) {
                step_readd(model, started);
                break;
            }
        }
    } else if (choice < 75 && running) {
        step_release(model, running);
    } else if (choice < 90 && running) {
        step_block(model, running, !running->blocked);
    } else if (choice < 93 && running) {
        step_shrink(model, running);
    } else if (choice < 96 && waiting) {
        step_remove(model, waiting);
    } else {
        model->now += model_random(model, 100) * UINT64_C(1000000);
    }
}

static void model_finish(model_t *model) {
    for (slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (slot->running) step_release(model, slot);
        if (slot->waiting) step_remove(model, slot);
    }
    model_compare(model);
    for (int d = 0; d < DEMANDS; d++)
        assert_int_equal(sched_queued(model->sched, model->shapes[d]), 0);
    for (size_t r = 0; r < OFFERED; r++) {
        const char *name;
        uint64_t all;
        int64_t left;
        sched_resource_at(model->sched, r, &name, &all, &left);
        assert_int_equal(left, all);
    }
    sched_free(model->sched);
}

static void test_against_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        model_t model;
        model_start(&model, seed);
        for (int step = 0; step < STEPS; step++) {
            step_any(&model);
            model_compare(&model);
        }
        model_finish(&model);
    }
}

/* ---- Starvation ---------------------------------------------------------- */

/*
 * Always more work than fits, and every task ends within `longest` of its start, blocked for a
 * while or not. Then the oldest task, once it is that and has waited for its patience, starts after
 * at most one such time for each of its needs.
 */
static void test_nobody_starves(void **state) {
    (void)state;
    const uint64_t tick = 1000000, longest = 40 * tick;
    size_t large = 0;
    for (uint64_t seed = 11; seed <= 13; seed++) {
        model_t model;
        model_start(&model, seed);
        sums_t empty = model_sums(&model, false);
        uint64_t oldest = 0, oldest_from = 0;
        for (int step = 0; step < STEPS / 4; step++, model.now += tick) {
            for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++) {
                if (!slot->running) continue;
                /* Blocked, these hold nothing that the oldest could be waiting for. */
                bool cpu_only = slot->demand >= 1 && slot->demand <= 5;
                if (slot->ends <= model.now) {
                    step_release(&model, slot);
                } else if (cpu_only && model_random(&model, 10) == 0) {
                    step_block(&model, slot, !slot->blocked);
                }
            }
            /* Small ones mostly, so that the large ones are passed. None that never fit: they would
             * fill the slots. */
            for (int i = 0; i < 4; i++)
                step_add(&model,
                         (int)model_random(&model, model_random(&model, 8) ? 10 : DEMANDS - 2));
            for (slot_t *slot; (slot = step_next(&model));) {
                slot->ends = model.now + (1 + model_random(&model, 40)) * tick;
                large += slot->demand == 5 || slot->demand == 10;
            }
            slot_t *first = model_oldest(&model, &empty, NULL);
            if (!first) continue;
            if (first->order != oldest) oldest_from = model.now;
            oldest = first->order;
            uint64_t patient_from = first->since + SCHED_PATIENCE_NS;
            if (patient_from < oldest_from) patient_from = oldest_from;
            uint64_t needs = 0;
            for (int r = 0; r < RESOURCES; r++) needs += demands[first->demand][r] > 0;
            assert_true(model.now <= patient_from + needs * (longest + 2 * tick));
        }
        model_finish(&model);
    }
    assert_true(large > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_nobody_starves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
