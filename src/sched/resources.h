/* Resource names as small numbers, and pools: an amount of each, with GPUs told apart by index. */
#ifndef SCHED_RESOURCES_H
#define SCHED_RESOURCES_H

#include "sched/sched.h"

/* Numbers that every node knows, whether it has any or not. Others get the lowest that is free when
 * they are first named. */
enum { SCHED_CPU = 0, SCHED_GPU = 1 };

/* A name is known as long as it has users: the node's totals and the shapes of all jobs. */
typedef struct sched_names {
    char *names[SCHED_NAMES_MAX]; /* NULL: the number is free */
    uint64_t users[SCHED_NAMES_MAX];
} sched_names_t;

/* Adds CPU and GPU to zeroed names. MOB_ENOMEM: fini it all the same. */
mob_status_t sched_names_init(sched_names_t *names);
void sched_names_fini(sched_names_t *names);
/* The number of a name, with one user more; a new name is copied. MOB_ELIMIT, MOB_ENOMEM. */
mob_status_t sched_names_use(sched_names_t *names, const char *name, uint32_t *ret_resource);
/* One user less: the last one forgets the name. */
void sched_names_leave(sched_names_t *names, uint32_t resource);
/* MOB_EINVAL if a list of amounts has a missing, empty or repeated name or an amount out of
 * bounds. */
mob_status_t sched_names_check(const sched_amount_t *amounts, size_t count);

/* One line of a demand. */
typedef struct sched_need {
    uint32_t resource;
    int64_t amount; /* > 0 */
} sched_need_t;

/* Some of the resources: a bit each. */
typedef struct sched_set {
    uint64_t words[SCHED_NAMES_MAX / 64];
} sched_set_t;

bool sched_set_has(const sched_set_t *set, uint32_t resource);
/* Whether it was not in there yet. */
bool sched_set_add(sched_set_t *set, uint32_t resource);
void sched_set_add_all(sched_set_t *set, const sched_set_t *more);

typedef struct sched_pool {
    int64_t free[SCHED_NAMES_MAX];
    int64_t gpu_free[SCHED_GPUS_MAX];
    uint32_t gpu_count;
} sched_pool_t;

/* Fills a zeroed pool's GPUs: `count` whole ones. */
void sched_pool_gpus_init(sched_pool_t *pool, uint32_t count);
/* The GPUs that a demand of `amount` would get; 0 if there is no space. */
uint64_t sched_pool_gpus_choose(const sched_pool_t *pool, int64_t amount);
bool sched_pool_has(const sched_pool_t *pool, const sched_need_t *need);

/* The parts of a demand that can be moved apart. */
enum { SCHED_PART_CPU = 1, SCHED_PART_REST = 2, SCHED_PART_ALL = 3 };
/* Takes (or gives back) one line of a demand if it belongs to `parts`; gpu_mask says which GPUs.
 * Does not ask whether it fits: only CPUs may become negative. */
void sched_pool_take(sched_pool_t *pool, const sched_need_t *need, uint64_t gpu_mask,
                     unsigned parts);
void sched_pool_give(sched_pool_t *pool, const sched_need_t *need, uint64_t gpu_mask,
                     unsigned parts);

#endif
