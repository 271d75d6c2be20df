/*
 * Names are looked up by comparing strings one after another: it happens once for each new demand,
 * not for each task, and a node knows a handful of names. The fixed limit keeps a program that
 * makes up names from growing the books without end, and lets a pool be one flat array, indexed by
 * a resource's number. Nothing is ever free or held of a name that the node has no total of, so a
 * number can go to another name without a look at the pools.
 *
 * GPUs are not a sum: two halves free on two devices are not one GPU. So a pool keeps what is free
 * of each index beside the sum, which is only for show, and asks the indices whether a demand fits.
 * A whole demand takes entirely free devices, lowest first. A fraction goes to the fullest device
 * that has space for it, so that devices stay entirely free for whole demands as long as possible.
 */
#include "sched/resources.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

mob_status_t sched_names_init(sched_names_t *names) {
    uint32_t number;
    mob_status_t status = sched_names_use(names, "CPU", &number);
    if (!status) status = sched_names_use(names, "GPU", &number);
    return status;
}

void sched_names_fini(sched_names_t *names) {
    for (uint32_t i = 0; i < SCHED_NAMES_MAX; i++) free(names->names[i]);
}

/* The number that a name has, else the one that it would get; SCHED_NAMES_MAX: none is free. */
static uint32_t names_place(const sched_names_t *names, const char *name) {
    uint32_t place = SCHED_NAMES_MAX;
    for (uint32_t i = 0; i < SCHED_NAMES_MAX; i++) {
        if (names->names[i] && strcmp(names->names[i], name) == 0) return i;
        if (!names->names[i] && place == SCHED_NAMES_MAX) place = i;
    }
    return place;
}

mob_status_t sched_names_use(sched_names_t *names, const char *name, uint32_t *ret_resource) {
    uint32_t place = names_place(names, name);
    if (place == SCHED_NAMES_MAX)
        return base_fail(MOB_ELIMIT,
                         "at most %d different names of resources can be in use at once, and %s is "
                         "one more",
                         SCHED_NAMES_MAX, name);
    if (!names->names[place]) names->names[place] = strdup(name);
    if (!names->names[place]) return MOB_ENOMEM;
    names->users[place]++;
    *ret_resource = place;
    return MOB_OK;
}

void sched_names_leave(sched_names_t *names, uint32_t resource) {
    assert(names->users[resource] > 0);
    if (--names->users[resource] > 0) return;
    free(names->names[resource]);
    names->names[resource] = NULL;
}

mob_status_t sched_names_check(const sched_amount_t *amounts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *name = amounts[i].name;
        if (!name || !name[0]) return base_fail(MOB_EINVAL, "a resource has no name");
        uint64_t most = strcmp(name, "CPU") == 0 ? SCHED_CPU_MAX : SCHED_AMOUNT_MAX;
        if (amounts[i].amount > most)
            return base_fail(MOB_EINVAL, "there can be at most %g of %s", (double)most / SCHED_UNIT,
                             name);
        for (size_t j = 0; j < i; j++)
            if (strcmp(name, amounts[j].name) == 0)
                return base_fail(MOB_EINVAL, "the resource %s is named twice", name);
    }
    return MOB_OK;
}

bool sched_set_has(const sched_set_t *set, uint32_t resource) {
    return set->words[resource / 64] >> resource % 64 & 1;
}

bool sched_set_add(sched_set_t *set, uint32_t resource) {
    bool fresh = !sched_set_has(set, resource);
    set->words[resource / 64] |= UINT64_C(1) << resource % 64;
    return fresh;
}

void sched_set_add_all(sched_set_t *set, const sched_set_t *more) {
    for (size_t i = 0; i < SCHED_NAMES_MAX / 64; i++) set->words[i] |= more->words[i];
}

void sched_pool_gpus_init(sched_pool_t *pool, uint32_t count) {
    assert(count <= SCHED_GPUS_MAX);
    pool->gpu_count = count;
    for (uint32_t i = 0; i < count; i++) pool->gpu_free[i] = SCHED_UNIT;
}

static uint64_t gpus_choose_whole(const sched_pool_t *pool, int64_t wanted) {
    uint64_t mask = 0;
    for (uint32_t i = 0; i < pool->gpu_count && wanted > 0; i++) {
        if (pool->gpu_free[i] != SCHED_UNIT) continue;
        mask |= UINT64_C(1) << i;
        wanted--;
    }
    return wanted ? 0 : mask;
}

static uint64_t gpus_choose_part(const sched_pool_t *pool, int64_t amount) {
    uint64_t mask = 0;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < pool->gpu_count; i++) {
        if (pool->gpu_free[i] < amount || pool->gpu_free[i] >= least) continue;
        least = pool->gpu_free[i];
        mask = UINT64_C(1) << i;
    }
    return mask;
}

uint64_t sched_pool_gpus_choose(const sched_pool_t *pool, int64_t amount) {
    if (amount < SCHED_UNIT) return gpus_choose_part(pool, amount);
    return gpus_choose_whole(pool, amount / SCHED_UNIT);
}

bool sched_pool_has(const sched_pool_t *pool, const sched_need_t *need) {
    if (need->resource == SCHED_GPU) return sched_pool_gpus_choose(pool, need->amount) != 0;
    return pool->free[need->resource] >= need->amount;
}

static void pool_move(sched_pool_t *pool, const sched_need_t *need, uint64_t gpu_mask,
                      int64_t sign) {
    int64_t *left = &pool->free[need->resource];
    *left += sign * need->amount;
    assert(*left >= 0 || need->resource == SCHED_CPU);
    if (need->resource != SCHED_GPU) return;
    int64_t each = need->amount < SCHED_UNIT ? need->amount : SCHED_UNIT;
    assert(each * __builtin_popcountll(gpu_mask) == need->amount);
    for (uint32_t i = 0; i < pool->gpu_count; i++) {
        if (!(gpu_mask >> i & 1)) continue;
        pool->gpu_free[i] += sign * each;
        assert(pool->gpu_free[i] >= 0 && pool->gpu_free[i] <= SCHED_UNIT);
    }
}

static bool need_in_parts(const sched_need_t *need, unsigned parts) {
    return parts & (need->resource == SCHED_CPU ? SCHED_PART_CPU : SCHED_PART_REST);
}

void sched_pool_take(sched_pool_t *pool, const sched_need_t *need, uint64_t gpu_mask,
                     unsigned parts) {
    if (need_in_parts(need, parts)) pool_move(pool, need, gpu_mask, -1);
}

void sched_pool_give(sched_pool_t *pool, const sched_need_t *need, uint64_t gpu_mask,
                     unsigned parts) {
    if (need_in_parts(need, parts)) pool_move(pool, need, gpu_mask, 1);
}
