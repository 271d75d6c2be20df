/*
 * Random work from fixed seeds, of several jobs. One test compares every decision and every sum
 * with a model (model.h). The other keeps a node overloaded and measures how long the oldest task
 * of each job is made to wait.
 */
#include "model.h"

enum { STEPS = 100000 };

static void model_compare(model_t *model) {
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
    for (int j = 0; j < JOBS; j++)
        assert_int_equal(sched_job_cpus(model->jobs[j].job), model_held(model, j, CPU, false));
    int holder = (int)(model->orders % (JOBS + 1)) - 1;
    uint64_t expected, since = 0;
    assert_int_equal(
        model_cpu_lacking(model, holder, &expected),
        sched_cpu_lacking(model->sched, NULL, holder < 0 ? NULL : model->jobs[holder].job, &since));
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

static slot_t *step_add(model_t *model, int j, int demand) {
    slot_t *slot = model_pick(model, false, false);
    model_job_t *job = &model->jobs[j];
    if (!slot) return NULL;
    uint64_t order = ++model->orders;
    if (!job->served && demand < POSSIBLE && !model_waits(model, j)) job->turn = order;
    *slot =
        (slot_t){.waiting = true, .job = j, .demand = demand, .order = order, .since = model->now};
    sched_task_add(job->job, &slot->task, job->shapes[demand], model->now);
    return slot;
}

/* What a start means for the others. */
static void started_note(model_t *model, const slot_t *slot) {
    model_job_t *job = &model->jobs[slot->job];
    for (int j = 0; j < JOBS; j++) {
        if (j != slot->job && model->jobs[j].patient &&
            demand_barred(slot->demand, model->jobs[j].lacked) && !model_runs_lacked(model, j))
            model->jobs[j].passed++;
    }
    job->served = true;
    job->turn = ++model->orders;
    model_settle(model, slot->job);
}

/* Where nobody is patient, nothing waits that would fit. */
static void nothing_left(model_t *model, const sums_t *now) {
    for (int j = 0; j < JOBS; j++)
        if (model->jobs[j].patient) return;
    for (int j = 0; j < JOBS; j++) assert_null(model_oldest(model, j, now, NULL));
}

/* Starts what may start, against the model. */
static slot_t *step_next(model_t *model) {
    sums_t now = model_sums(model, false);
    slot_t *expected = model_expect(model);
    sched_lease_t lease = {0};
    sched_task_t *task = sched_task_next(model->sched, model->now, &lease);
    assert_ptr_equal(task, expected ? &expected->task : NULL);
    if (!expected) {
        nothing_left(model, &now);
        assert_null(sched_task_next(model->sched, model->now, &lease));
        return NULL;
    }
    assert_false(task->queued);
    assert_ptr_equal(lease.job, model->jobs[expected->job].job);
    assert_int_equal(lease.gpu_mask, demands[expected->demand][GPU]
                                         ? sums_gpus(&now, demands[expected->demand][GPU])
                                         : 0);
    expected->waiting = false;
    started_note(model, expected);
    expected->lease = lease;
    expected->gpus = lease.gpu_mask;
    expected->blocked = expected->lasting = false;
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
    sched_lease_shrink(model->jobs[slot->job].job, &slot->lease,
                       model->jobs[slot->job].shapes[demand]);
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
    model_settle(model, slot->job);
}

static void step_job_end(model_t *model, int j) {
    for (slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (slot->job != j) continue;
        if (slot->running) step_release(model, slot);
        if (slot->waiting) step_remove(model, slot);
    }
    sched_job_free(model->jobs[j].job);
    model_job_start(model, j);
}

static void step_any(model_t *model) {
    uint32_t choice = model_random(model, 100);
    slot_t *running = model_pick(model, false, true), *waiting = model_pick(model, true, false),
           *started;
    if (choice < 30) {
        step_add(model, (int)model_random(model, JOBS), (int)model_random(model, DEMANDS));
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
    } else if (choice == 96 && model_random(model, 20) == 0) {
        step_job_end(model, (int)model_random(model, JOBS));
    } else {
        while (step_next(model)) continue;
        model->now += model_random(model, 100) * UINT64_C(1000000);
        assert_null(step_next(model)); /* time alone starts nothing */
    }
}

static void model_finish(model_t *model) {
    for (slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (slot->running) step_release(model, slot);
        if (slot->waiting) step_remove(model, slot);
    }
    model_compare(model);
    for (int j = 0; j < JOBS; j++) {
        for (int d = 0; d < DEMANDS; d++)
            assert_int_equal(sched_queued(model->jobs[j].job, model->jobs[j].shapes[d]), 0);
    }
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

/* Ends what has run for long enough, and blocks and unblocks some that need nothing but CPUs:
 * blocked, these hold nothing that a patient could be waiting for. */
static void load_end(model_t *model) {
    for (slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (!slot->running || slot->lasting) continue;
        bool cpu_only = slot->demand >= 1 && slot->demand <= 5;
        if (slot->ends <= model->now) {
            step_release(model, slot);
        } else if (cpu_only && model_random(model, 10) == 0) {
            step_block(model, slot, !slot->blocked);
        }
    }
}

/* Small ones mostly, so that the large ones are passed. None that never fit, also beside the actor:
 * they would fill the slots. No job fills them for the others. */
static void load_add(model_t *model) {
    int count[JOBS] = {0};
    for (const slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++)
        if (slot->waiting || slot->running) count[slot->job]++;
    for (int i = 0; i < 4; i++) {
        int demand = (int)model_random(model, model_random(model, 8) ? 10 : POSSIBLE);
        int j = (int)model_random(model, JOBS);
        if (demand != 5 && count[j]++ < SLOTS / JOBS) step_add(model, j, demand);
    }
}

typedef struct oldest {
    uint64_t order, from;
} oldest_t;

/*
 * Always more work than fits, and every task ends within `longest` of its start. Then the oldest
 * task of a job, once it is that and has waited for its patience, starts within a time that depends
 * on needs and jobs alone. One job has an actor, so that it holds a CPU more than the others do.
 */
static void test_nobody_starves(void **state) {
    (void)state;
    const uint64_t tick = 1000000, longest = 40 * tick;
    const uint64_t lengths = 4 + JOBS * (4 + 1) + JOBS * 4;
    size_t large[JOBS] = {0};
    for (uint64_t seed = 11; seed <= 13; seed++) {
        model_t model;
        oldest_t oldest[JOBS] = {0};
        model_start(&model, seed);
        step_add(&model, 0, 1);
        slot_t *actor = step_next(&model);
        sched_lease_shrink(model.jobs[0].job, &actor->lease, model.jobs[0].shapes[1]);
        actor->lasting = true;
        sums_t empty = model_sums(&model, false);
        for (int step = 0; step < STEPS / 4; step++, model.now += tick) {
            load_end(&model);
            load_add(&model);
            for (slot_t *slot; (slot = step_next(&model));) {
                slot->ends = model.now + (1 + model_random(&model, 40)) * tick;
                large[slot->job] += slot->demand == 10 || slot->demand == 15;
            }
            for (int j = 0; j < JOBS; j++) {
                slot_t *first = model_oldest(&model, j, &empty, NULL);
                if (!first) continue;
                if (first->order != oldest[j].order)
                    oldest[j] = (oldest_t){.order = first->order, .from = model.now};
                uint64_t patient_from = first->since + SCHED_PATIENCE_NS;
                if (patient_from < oldest[j].from) patient_from = oldest[j].from;
                assert_true(model.now <= patient_from + lengths * (longest + 2 * tick));
            }
        }
        model_finish(&model);
    }
    for (int j = 0; j < JOBS; j++) assert_true(large[j] > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_nobody_starves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
