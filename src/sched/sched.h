/*
 * One node's resources, the jobs that share them, and the tasks that wait for them: who may start,
 * and what it holds from then on.
 *
 * Of what comes free, the job gets its turn that holds the fewest CPUs; among equals the one that
 * was given nothing for the longest time. Within a job the oldest task that fits starts, of those
 * with the highest priority (priority.h).
 *
 * Bundles are parts of the node that are set aside for a group, each with a small scheduler inside
 * for what runs in it.
 *
 * Decisions only. Time comes as an argument, nothing here reads a clock, blocks, or does I/O.
 * Memory is allocated by sched_new, sched_job_new, sched_group_new and sched_shape_intern alone, so
 * nothing else can fail. For one thread. Orders, queues and GPU indices depend only on the sequence
 * of calls, so that a simulator can replay it.
 *
 * Amounts are whole numbers of 1/SCHED_UNIT: half a CPU is 5000, a GB of memory is 10^9 *
 * SCHED_UNIT.
 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

#define SCHED_UNIT 10000

/* How long the oldest task lets younger ones pass before they may no longer take what it waits
 * for. */
#define SCHED_PATIENCE_NS UINT64_C(250000000)

enum {
    SCHED_PLACE_BITS = 20, /* of a shape's number; the others are its generation */
    SCHED_SHAPES_MAX =
        (1 << SCHED_PLACE_BITS) - 1, /* of one job at once; all ones is no shape's number */
    SCHED_NAMES_MAX = 1024,          /* different resource names, asked for or offered at once */
    SCHED_NEEDS_MAX = MOB_MAX_RESOURCES, /* names in one demand */
    SCHED_GPUS_MAX = 64,                 /* of one node: gpu_mask has a bit each */
    SCHED_BUNDLES_MAX = 65536,           /* of one group */
};
/* Bounds that keep every sum in 64 bits. CPUs have a lower one because unblocked leases may add up
 * beyond the total. */
#define SCHED_AMOUNT_MAX (UINT64_C(1) << 60)
#define SCHED_CPU_MAX    (UINT64_C(1) << 40)

typedef struct sched sched_t;
typedef struct sched_job sched_job_t;
typedef struct sched_group sched_group_t;

typedef struct sched_amount {
    const char *name; /* "CPU", "GPU", "memory" or a name of the user's own */
    uint64_t amount;
} sched_amount_t;

/* Where a demand is to be met, and with what else it is told apart from the same amounts. */
typedef struct sched_where {
    sched_group_t *group; /* in a bundle of this group; NULL: on the node itself */
    int32_t bundle;       /* of the group; -1: in any */
    uint32_t tag, flags;  /* the caller's own: demands that differ in them are different ones */
    const char *selector; /* labels that the node must have (selector.h); NULL: any node will do */
    int32_t priority;     /* among what waits of its job; the higher is first (priority.h) */
} sched_where_t;

/* Embedded in the caller's task, which must stay where it is while `queued`. Zero it before its
 * first use; then only `job`, `queued` and `shape` are the caller's to read. */
typedef struct sched_task {
    struct sched_task *prev, *next;
    sched_job_t *job;
    uint64_t since_ns;
    uint64_t order;
    uint32_t shape;
    bool queued;
} sched_task_t;

typedef enum sched_lease_state {
    SCHED_LEASE_NONE = 0, /* holds nothing */
    SCHED_LEASE_HELD,     /* holds all of its shape */
    SCHED_LEASE_BLOCKED,  /* holds all of its shape but the CPUs */
} sched_lease_state_t;

/* What a running task or an actor holds. The caller's memory; all zero is a lease of nothing. The
 * caller reads it and changes it by the calls below only. It may be moved or copied as long as one
 * copy goes on being used. */
typedef struct sched_lease {
    sched_job_t *job; /* NULL: it holds nothing. In a bundle: the job's part inside */
    uint32_t shape;   /* of that job */
    uint8_t state;    /* sched_lease_state_t */
    bool lasting; /* held until its owner dies rather than until a task ends: see sched_lease_shrink
                   */
    uint64_t gpu_mask; /* bit i: it has GPU i, or a part of it */
} sched_lease_t;

/* ---- The node ------------------------------------------------------------ */

/* A node with these totals; names are copied, zero amounts left out. MOB_EINVAL: a name is missing,
 * empty or there twice, an amount is out of bounds, the GPUs are not whole. MOB_ELIMIT: too many
 * names or GPUs. MOB_ENOMEM. */
mob_status_t sched_new(const sched_amount_t *total, size_t count, sched_t **ret_sched);
/* Gives the node its labels, "key=value,key=value": before the first shape that asks for some.
 * MOB_EINVAL, MOB_ENOMEM. */
mob_status_t sched_labels_set(sched_t *sched, const char *labels);
/* Ends its jobs too. Groups are freed before. Tasks that are still queued and leases are the
 * caller's memory and are not touched. NULL is fine. */
void sched_free(sched_t *sched);

/* The node's resources, in the order CPU, GPU, then as given to sched_new; those with a total of 0
 * are left out. The name is borrowed for the scheduler's life. ret_available can be negative for
 * CPU only, after sched_lease_unblock. */
size_t sched_resource_count(const sched_t *sched);
void sched_resource_at(const sched_t *sched, size_t index, const char **ret_name,
                       uint64_t *ret_total, int64_t *ret_available);

/* ---- Jobs ---------------------------------------------------------------- */

/* A job that holds nothing and has shape 0 only. MOB_ENOMEM. */
mob_status_t sched_job_new(sched_t *sched, sched_job_t **ret_job);
/* Forgets a job and the shapes that it still has. None of its tasks may be queued and none of its
 * leases held. NULL is fine. */
void sched_job_free(sched_job_t *job);
/* The CPUs that its leases hold now: blocked ones hold none; the sum over all jobs can be more than
 * there are, after sched_lease_unblock. */
int64_t sched_job_cpus(const sched_job_t *job);

/* ---- Shapes: demands with a number --------------------------------------- */

/*
 * Every job has numbers of its own: 0 is nothing at all, the first demand that it asks for is 1.
 *
 * A demand lives as long as it is held. The caller holds it, once for each sched_shape_intern and
 * sched_shape_hold, until as many calls of sched_shape_drop. Every lease of it holds it too, by
 * itself. A queued task does not: its owner holds the demand until the task is out of its queue. A
 * number is not given to another demand for a long time after its own has gone, and until then it
 * is known to be none.
 */

/* The number of a demand in this job: the same for the same amounts in any order, zeros left out; 0
 * for nothing at all, which stays. MOB_EINVAL as for sched_new, but a part of one GPU is fine and
 * only more than one must be whole. MOB_ELIMIT, MOB_ENOMEM. */
mob_status_t sched_shape_intern(sched_job_t *job, const sched_amount_t *demand, size_t count,
                                uint32_t *ret_shape);
/* The same, with where it is to be met. The group must not have been removed: MOB_ESTALE.
 * MOB_EINVAL also if there is no such bundle, or the selector makes no sense. */
mob_status_t sched_shape_intern_at(sched_job_t *job, const sched_amount_t *demand, size_t count,
                                   const sched_where_t *where, uint32_t *ret_shape);
/* Where the demand is to be met; borrowed as long as the shape is held. */
const sched_where_t *sched_shape_where(const sched_job_t *job, uint32_t shape);
void sched_shape_hold(sched_job_t *job, uint32_t shape);
void sched_shape_drop(sched_job_t *job, uint32_t shape);
/* Whether a demand has this number. The other calls take only such. */
bool sched_shape_valid(const sched_job_t *job, uint32_t shape);
/* Where it lies in a table of shapes: below SCHED_SHAPES_MAX, and no higher than as many as there
 * were at once need. */
static inline uint32_t sched_shape_place(uint32_t shape) {
    return shape & ((1u << SCHED_PLACE_BITS) - 1);
}
/* Whether a node with nothing running could take it; one in a group: whether a bundle could. */
bool sched_shape_fits_ever(const sched_job_t *job, uint32_t shape);
/* What it asks for that such a node has too little of, and what there is of each in all: writes up
 * to `capacity` lines, returns how many there are. Names are borrowed as long as the shape is held.
 */
size_t sched_shape_lacks(const sched_job_t *job, uint32_t shape, sched_amount_t *ret_missing,
                         uint64_t *ret_totals, size_t capacity);
/* Whether the node's labels are as the demand asks. */
bool sched_shape_matches(const sched_job_t *job, uint32_t shape);
/* Whether everything that `part` asks for is in `whole` too, at least as much of it, and at the
 * same place. */
bool sched_shape_covers(const sched_job_t *job, uint32_t whole, uint32_t part);
/* What a shape asks for: writes up to `capacity` lines, returns how many there are. Names are
 * borrowed as long as it is held. */
size_t sched_shape_demand(const sched_job_t *job, uint32_t shape, sched_amount_t *ret_demand,
                          size_t capacity);
/* How many tasks of this shape wait. */
size_t sched_queued(const sched_job_t *job, uint32_t shape);

/* ---- Waiting tasks ------------------------------------------------------- */

/* Puts a task that is not queued behind all others of its job and priority. */
void sched_task_add(sched_job_t *job, sched_task_t *task, uint32_t shape, uint64_t now_ns);
/* Puts one that sched_task_next gave out back where it was, with the time it has waited. Release
 * its lease apart. */
void sched_task_readd(sched_t *sched, sched_task_t *task);
/* Takes a task out of its queue; harmless if it is in none. */
void sched_task_remove(sched_t *sched, sched_task_t *task);
/* The task whose turn it is of those that may start now, out of its queue and with its resources
 * taken; NULL (ret_lease untouched) if there is none. Call it until NULL after every add, readd and
 * remove and every change of a lease. Time alone makes no task startable, so no timer is needed. */
sched_task_t *sched_task_next(sched_t *sched, uint64_t now_ns, sched_lease_t *ret_lease);

/* For whom `holder` has to give way: how much CPU the longest waiting task lacks, of those that
 * lack nothing else and could have it if the running ones ended; 0: there is none. ret_since_ns:
 * since when it waits. What counts are the tasks of `holder` itself other than `except`, unless
 * they have a lower priority than that; those of jobs that hold fewer CPUs than it does (not as
 * many: two jobs would take them from each other without end); and the patient of a job (sched.c)
 * if that job has nothing running which holds what it lacks. NULL for holder: all tasks of all jobs
 * but `except`, which may be NULL. */
int64_t sched_cpu_lacking(const sched_t *sched, const sched_task_t *except,
                          const sched_job_t *holder, uint64_t *ret_since_ns);

/* Whether a job that holds fewer CPUs has a task that lacks only CPUs, and could have them if the
 * running ones ended. */
bool sched_job_gives_way(const sched_job_t *holder);

/* Whether a task was ever added with another priority than 0. */
bool sched_has_priorities(const sched_t *sched);
/* Whether a task of the job waits, and could start if the running ones ended, that has a higher
 * priority than this shape. */
bool sched_job_waits_above(const sched_job_t *job, uint32_t shape);

/* Whether it asks for one CPU and no GPU, in no group: then a lease of it can pass from one task of
 * the shape to the next. */
bool sched_shape_passes(const sched_job_t *job, uint32_t shape);
/* Whether what it asks for is free now. */
bool sched_shape_fits_now(const sched_job_t *job, uint32_t shape);
/* The oldest task of this shape out of its queue, without resources, if no task of another
 * shape or another job waits that could ever start; else NULL. For one that will take over the
 * lease of another of the same shape; sched_task_readd puts it back. */
sched_task_t *sched_task_ahead(sched_job_t *job, uint32_t shape);

/* The waiting tasks of a shape, oldest first: the one behind `after`, which waits there; NULL for
 * `after`: the oldest. NULL: there are no more. */
sched_task_t *sched_task_behind(const sched_job_t *job, uint32_t shape, const sched_task_t *after);

/* ---- Leases -------------------------------------------------------------- */

/* Gives back what it still holds; it is a lease of nothing afterwards. Harmless on one. */
void sched_lease_release(sched_t *sched, sched_lease_t *lease);
/* From now on it holds only the amounts of `shape`, of the job for which it was granted, none above
 * what it had and at the same place, for as long as its owner lives: an actor after its creation
 * (call it then even if the shape stays the same, so that nobody is made to wait for the actor's
 * end). Of its GPUs it keeps those with the lowest indices. Nothing happens to a lease of
 * nothing. */
void sched_lease_shrink(sched_job_t *job, sched_lease_t *lease, uint32_t shape);
/* Its owner waits for others: the CPUs are given back, all else stays. Only a held lease
 * changes. */
void sched_lease_block(sched_t *sched, sched_lease_t *lease);
/* Its owner goes on: it takes its CPUs at once, even where that takes more than there are. Nothing
 * that needs a CPU is granted until the sum fits again. Only a blocked lease changes. */
void sched_lease_unblock(sched_t *sched, sched_lease_t *lease);
/* What the lease is of: the node, or the inside of a bundle. For sched_cpu_lacking and
 * sched_cpus_free; with lease->job for the holder. NULL for a lease of nothing. */
sched_t *sched_lease_place(const sched_lease_t *lease);
/* The group that it is in a bundle of; NULL: of none. */
sched_group_t *sched_lease_group(const sched_lease_t *lease, uint32_t *ret_bundle);
/* Of the node or the inside of a bundle; negative after sched_lease_unblock. */
int64_t sched_cpus_free(const sched_t *sched);

/* ---- Groups -------------------------------------------------------------- */

/*
 * Bundles that are set aside together or not at all. A group waits for them as a task does that
 * needs them all at once: the caller adds its request by sched_task_add with sched_group_shape, and
 * calls sched_group_place when sched_task_next gives the request out. group.c has its states. Where
 * its bundles are on several nodes, each has such a group, of all bundles, and sets its own aside
 * one by one: who sees to it that all are or none is outside of this room.
 *
 * Each bundle is then a lasting lease of its job, and has a scheduler inside for what is asked for
 * in it: jobs have their turns there as on the node, and a task that waits lends its CPUs there. A
 * task that may run in any bundle stands in the lines of all, and starts in the first that lets it.
 */

typedef struct sched_bundle_want {
    const sched_amount_t *demand;
    size_t count;
    const char *selector; /* labels that its node must have (selector.h); NULL: any will do */
} sched_bundle_want_t;

/* The node's labels; NULL: it has none. */
const char *sched_labels(const sched_t *sched);
/* `apart`: no two bundles may be on one node, so that more than one never fits here. The job must
 * stay until sched_group_is_over. MOB_EINVAL and MOB_ELIMIT as for a shape, MOB_ENOMEM. */
mob_status_t sched_group_new(sched_job_t *job, const sched_bundle_want_t *bundles, size_t count,
                             bool apart, sched_group_t **ret_group);
/* What it needs to start, in its job's numbers: held by the group until it is over. */
uint32_t sched_group_shape(const sched_group_t *group);
bool sched_group_fits_ever(const sched_group_t *group);
/* Whether the node has the labels that each bundle asks for. */
bool sched_group_matches(const sched_group_t *group);
/* Whether any demand in it is held. */
bool sched_group_is_used(const sched_group_t *group);
/* The request's lease becomes the bundles', and what waits for the group may start. */
void sched_group_place(sched_group_t *group, sched_lease_t *lease);
bool sched_group_is_placed(const sched_group_t *group);
/*
 * Bundle by bundle, where the others are on other nodes. Such a group is never placed as a whole,
 * and its request is in no queue.
 */
/* Sets the bundle aside, if the node has that free now; false: it has not, or something runs there
 * from before it was closed. */
bool sched_bundle_reserve(sched_group_t *group, uint32_t bundle);
/* What waits for a bundle that was set aside may start. */
void sched_bundle_open(sched_group_t *group, uint32_t bundle);
/* Nothing starts in it any more. It goes back once nothing is held inside. */
void sched_bundle_close(sched_group_t *group, uint32_t bundle);
/* Whether it is set aside here; also while it is to go back. */
bool sched_bundle_is_held(const sched_group_t *group, uint32_t bundle);
/* Whether what waits for it may start there. */
bool sched_bundle_is_open(const sched_group_t *group, uint32_t bundle);
/* Whether a task of the shape, which is to be met in a group, would start at once: there is room
 * for it in a bundle, and none of its shape waits. */
bool sched_shape_starts_inside(const sched_job_t *job, uint32_t shape);
/* How many tasks of a shape, which is to be met in this group, an empty bundle could run at once;
 * 0: it can't run any, or the shape asks for another bundle. */
uint32_t sched_bundle_capacity(const sched_job_t *job, uint32_t shape, uint32_t bundle);
/* Nothing starts in it any more. Bundles go back once nothing is held inside. Take its request out
 * of its queue before. */
void sched_group_remove(sched_group_t *group);
bool sched_group_is_removed(const sched_group_t *group);
/* Removed, and it holds nothing of the node. */
bool sched_group_is_over(const sched_group_t *group);
/* The caller needs a group no more that is over. Demands in it, and tasks that wait for them, are
 * still the caller's to drop. */
void sched_group_free(sched_group_t *group);
/* Whatever the caller keeps with it. */
void sched_group_user_set(sched_group_t *group, void *user);
void *sched_group_user(const sched_group_t *group);
size_t sched_group_bundles(const sched_group_t *group);
/* What a bundle has in all: lines as sched_shape_demand, names borrowed until the group is over.
 * ret_gpus, which may be NULL: which GPUs it has, once it is placed. */
size_t sched_bundle_demand(const sched_group_t *group, uint32_t bundle, sched_amount_t *ret_demand,
                           size_t capacity, uint64_t *ret_gpus);

#endif
