/*
 * A model of the scheduler that keeps no books: it knows the list of tasks and leases and adds
 * everything up again each time. What it has to remember is whose turn was when and who became a
 * patient when.
 */
#ifndef UNIT_SCHED_MODEL_H
#define UNIT_SCHED_MODEL_H

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
    JOBS = 3,
    SLOTS = 96
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
enum { DEMANDS = sizeof demands / sizeof *demands, POSSIBLE = DEMANDS - 2 };

typedef struct slot {
    sched_task_t task;
    sched_lease_t lease;
    bool waiting, running; /* neither: unused */
    int job;
    uint64_t order, since;
    int demand; /* of the task, then of what it holds */
    bool blocked, lasting;
    uint64_t gpus;
    uint64_t ends;
} slot_t;

typedef struct model_job {
    sched_job_t *job;
    uint32_t shapes[DEMANDS];
    bool served;
    uint64_t turn;
    uint64_t patient, patient_from; /* order numbers; 0: none */
    unsigned passed;
    bool lacked[RESOURCES];
} model_job_t;

typedef struct model {
    sched_t *sched;
    model_job_t jobs[JOBS];
    slot_t slots[SLOTS];
    uint64_t random, now, orders;
} model_t;

static inline uint32_t model_random(model_t *model, uint32_t below) {
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return (uint32_t)((model->random >> 32) % below);
}

static inline void model_job_start(model_t *model, int j) {
    sched_amount_t amounts[RESOURCES];
    model->jobs[j] = (model_job_t){0};
    assert_int_equal(sched_job_new(model->sched, &model->jobs[j].job), MOB_OK);
    for (int d = 0; d < DEMANDS; d++) {
        for (int r = 0; r < RESOURCES; r++)
            amounts[r] = (sched_amount_t){names[r], (uint64_t)demands[d][r]};
        assert_int_equal(
            sched_shape_intern(model->jobs[j].job, amounts, RESOURCES, &model->jobs[j].shapes[d]),
            MOB_OK);
    }
}

static inline void model_start(model_t *model, uint64_t seed) {
    sched_amount_t amounts[RESOURCES];
    *model = (model_t){.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    for (int r = 0; r < OFFERED; r++) amounts[r] = (sched_amount_t){names[r], (uint64_t)total[r]};
    assert_int_equal(sched_new(amounts, OFFERED, &model->sched), MOB_OK);
    for (int j = 0; j < JOBS; j++) model_job_start(model, j);
}

/* ---- Arithmetic ---------------------------------------------------------- */

typedef struct sums {
    int64_t left[RESOURCES];
    int64_t gpu[GPUS];
} sums_t;

static inline sums_t model_sums(const model_t *model, bool later) {
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

static inline uint64_t sums_gpus(const sums_t *sums, int64_t amount) {
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

static inline bool sums_have(const sums_t *sums, const int64_t *demand, int resource) {
    if (!demand[resource]) return true;
    return resource == GPU ? sums_gpus(sums, demand[GPU]) != 0
                           : sums->left[resource] >= demand[resource];
}

static inline bool sums_fit(const sums_t *sums, int demand) {
    for (int r = 0; r < RESOURCES; r++) {
        if (!sums_have(sums, demands[demand], r)) return false;
    }
    return true;
}

/* What a job's leases hold of a resource: now, or only what its tasks' ends will bring back. */
static inline int64_t model_held(const model_t *model, int j, int resource, bool running) {
    int64_t held = 0;
    for (const slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (!slot->running || slot->job != j) continue;
        if (running ? slot->blocked || slot->lasting : slot->blocked && resource == CPU) continue;
        held += demands[slot->demand][resource];
    }
    return held;
}

static inline bool model_waits(const model_t *model, int j) {
    for (const slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++)
        if (slot->waiting && slot->job == j && slot->demand < POSSIBLE) return true;
    return false;
}

/* ---- Whose turn it is ---------------------------------------------------- */

static inline bool demand_barred(int demand, const bool *closed) {
    for (int r = 0; r < RESOURCES; r++)
        if (closed[r] && demands[demand][r]) return true;
    return false;
}

static inline slot_t *model_oldest(model_t *model, int j, const sums_t *sums, const bool *closed) {
    slot_t *oldest = NULL;
    for (slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (!slot->waiting || slot->job != j || !sums_fit(sums, slot->demand) ||
            (oldest && oldest->order < slot->order))
            continue;
        if (!closed || !demand_barred(slot->demand, closed)) oldest = slot;
    }
    return oldest;
}

static inline bool model_runs_lacked(const model_t *model, int j) {
    for (int r = 0; r < RESOURCES; r++)
        if (model->jobs[j].lacked[r] && model_held(model, j, r, true)) return true;
    return false;
}

typedef struct pick {
    sums_t now, later;
    bool closed[RESOURCES];
    bool ahead[JOBS], asked[JOBS];
    bool more;
} pick_t;

static inline bool pick_may(const pick_t *pick, const slot_t *slot) {
    return sums_fit(&pick->now, slot->demand) && !demand_barred(slot->demand, pick->closed);
}

static inline void pick_note(model_t *model, pick_t *pick, const slot_t *first) {
    model_job_t *job = &model->jobs[first->job];
    const int64_t *demand = demands[first->demand];
    bool lacks[RESOURCES] = {0}, only_cpus = true;
    if (job->patient != first->order) {
        memset(job->lacked, 0, sizeof job->lacked);
        job->patient = first->order;
        job->patient_from = ++model->orders;
        job->passed = 0;
        pick->more = true;
    }
    for (int r = CPU + 1; r < RESOURCES; r++) {
        lacks[r] = demand[r] && (pick->closed[r] || !sums_have(&pick->now, demand, r));
        only_cpus &= !lacks[r];
    }
    for (int r = 0; r < RESOURCES; r++) {
        lacks[r] |= only_cpus && demand[r];
        pick->more |= lacks[r] && !job->lacked[r];
        job->lacked[r] |= lacks[r];
        pick->closed[r] |= job->lacked[r];
    }
}

/* The job that is asked next, or -1: of the patients, or by turns. */
static inline int pick_job(const model_t *model, const pick_t *pick, bool patients) {
    int best = -1;
    for (int j = 0; j < JOBS; j++) {
        const model_job_t *job = &model->jobs[j], *other = best < 0 ? NULL : &model->jobs[best];
        if (pick->asked[j] || (patients ? !job->patient : !model_waits(model, j))) continue;
        int64_t more =
            other ? model_held(model, j, CPU, false) - model_held(model, best, CPU, false) : 0;
        if (!other || (patients ? job->patient_from < other->patient_from
                                : more < 0 || (more == 0 && job->turn < other->turn)))
            best = j;
    }
    return best;
}

static inline slot_t *pick_ahead(model_t *model, pick_t *pick) {
    unsigned waiting = 0;
    for (int j = 0; j < JOBS; j++) waiting += model_waits(model, j);
    for (int j; (j = pick_job(model, pick, true)) >= 0;) {
        pick->asked[j] = true;
        slot_t *first = model_oldest(model, j, &pick->later, NULL);
        if (!first || first->order != model->jobs[j].patient || model_runs_lacked(model, j) ||
            model->jobs[j].passed < waiting)
            continue;
        pick->ahead[j] = true;
        if (pick_may(pick, first)) return first;
        pick_note(model, pick, first);
    }
    return NULL;
}

static inline slot_t *pick_turns(model_t *model, pick_t *pick) {
    memset(pick->asked, 0, sizeof pick->asked);
    for (int j; (j = pick_job(model, pick, false)) >= 0;) {
        pick->asked[j] = true;
        slot_t *first = model_oldest(model, j, &pick->later, NULL);
        if (!first) continue;
        if (!pick->ahead[j]) {
            if (pick_may(pick, first)) return first;
            if (model->now - first->since >= SCHED_PATIENCE_NS) pick_note(model, pick, first);
        }
        slot_t *slot = model_oldest(model, j, &pick->now, pick->closed);
        if (slot) return slot;
    }
    return NULL;
}

/* Which task should be next. */
static inline slot_t *model_expect(model_t *model) {
    slot_t *slot;
    bool more;
    do {
        pick_t pick = {.now = model_sums(model, false), .later = model_sums(model, true)};
        slot = pick_ahead(model, &pick);
        if (!slot) slot = pick_turns(model, &pick);
        more = pick.more;
    } while (!slot && more);
    return slot;
}

/* Call it when a task is out of its queue. */
static inline void model_settle(model_t *model, int j) {
    model_job_t *job = &model->jobs[j];
    if (model_waits(model, j)) return;
    job->patient = job->passed = 0;
    memset(job->lacked, 0, sizeof job->lacked);
}

/* What the oldest task that lacks CPUs and nothing else lacks of them, of those that `holder` (-1:
 * everybody) has to give way to. */
static inline int64_t model_cpu_lacking(model_t *model, int holder, uint64_t *ret_since) {
    sums_t now = model_sums(model, false), later = model_sums(model, true);
    int64_t held[JOBS];
    const slot_t *patients[JOBS] = {0}, *oldest = NULL;
    for (int j = 0; j < JOBS; j++) {
        held[j] = model_held(model, j, CPU, false);
        const slot_t *first = model_oldest(model, j, &later, NULL);
        if (first && first->order == model->jobs[j].patient && !model_runs_lacked(model, j))
            patients[j] = first;
    }
    for (const slot_t *slot = model->slots; slot < model->slots + SLOTS; slot++) {
        if (!slot->waiting || !sums_fit(&later, slot->demand) ||
            (oldest && oldest->order < slot->order))
            continue;
        if (holder >= 0 && slot->job != holder && held[slot->job] >= held[holder] &&
            slot != patients[slot->job])
            continue;
        bool only_cpus = !sums_have(&now, demands[slot->demand], CPU);
        for (int r = CPU + 1; r < RESOURCES; r++)
            only_cpus &= sums_have(&now, demands[slot->demand], r);
        if (only_cpus) oldest = slot;
    }
    *ret_since = oldest ? oldest->since : 0;
    return oldest ? demands[oldest->demand][CPU] - now.left[CPU] : 0;
}

#endif
