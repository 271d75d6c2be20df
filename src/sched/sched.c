/*
 * Three pools answer every question. `total` is the node with nothing running. `now` is what is
 * free. `later` is what will be free when the tasks that are running have ended: all but what
 * actors hold until they die and what blocked tasks hold until somebody else has run. A shape that
 * does not fit in `total` never starts; one that does not fit in `now` waits; one that does not fit
 * in `later` waits for something that no patience brings. now <= later <= total for every resource
 * and every GPU.
 *
 *   lease     from now       from later        moved on by
 *   NONE      -              -                 sched_task_next -> HELD
 *   HELD      all            all, if lasting   block -> BLOCKED; shrink -> lasting; release -> NONE
 *   BLOCKED   all but CPUs   all but CPUs      unblock -> HELD; shrink -> lasting; release -> NONE
 *
 * What a lease has taken follows from its own fields, so every change is the same: give all of it
 * back, change the fields, take again.
 *
 * Order. Each shape has one queue, and only its head is ever looked at: those behind it need the
 * same and are younger. Shapes that name the same resources are of one kind, and a pick asks each
 * kind for its oldest head that fits (kind.h). What the patient keeps closed is closed to kinds as
 * a whole.
 *
 * Patience. A task that needs much would wait for ever while small ones keep taking what comes
 * free. So the oldest task that fits in `later`, the patient, after SCHED_PATIENCE_NS stops younger
 * ones from taking what it lacks, until it has started. What it lacked once stays closed: otherwise
 * a task that needs two things could see each of them taken while it waits for the other. So each
 * of its needs can be lost to a younger task at most once more, and it starts after as many task
 * lengths as it has needs, at the latest. Things that it does not lack stay open, so the rest of
 * the node goes on working. And CPUs stay open until it lacks nothing else: nearly every task needs
 * them, so a node whose GPU is busy for an hour would stand still for as long. Then all that it
 * needs is closed at once, so what is there stays there while CPUs come free.
 *
 * Why `later` and not `total`: waiting for an actor's GPU, or for one that a task holds while it
 * waits in get for a child which needs the other GPU, would close that other GPU to the very task
 * that is to bring the end. A reservation that only running tasks stand in the way of always comes
 * true; any other can be a deadlock, and is not made.
 *
 * Rejected: reserving for every waiting task in order (needs estimates of run times to be of use);
 * a closed node for an over-committed CPU sum (a task without CPUs, such as the creation of an
 * actor that others look for, can be what lets the over-committed ones end).
 */
#include "sched/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sched/kind.h"
#include "sched/queue.h"
#include "sched/resources.h"
#include "sched/shape.h"

struct sched {
    sched_names_t names;
    size_t offered; /* resources with a total */
    sched_pool_t total, now, later;
    sched_shapes_t shapes;
    uint64_t last_order;
    uint64_t patient; /* order number of the task that younger ones may not rob; 0: none */
    bool lacked[SCHED_NEEDS_MAX]; /* the patient lacked this need of its shape at some time since,
                                     or only CPUs */
};

/* ---- The node ------------------------------------------------------------ */

static mob_status_t total_add(sched_t *sched, const sched_amount_t *total) {
    uint32_t resource;
    if (!total->amount) return MOB_OK;
    if (!sched_names_find(&sched->names, total->name, &resource)) {
        mob_status_t status = sched_names_add(&sched->names, total->name, &resource);
        if (status) return status;
    }
    if (resource == SCHED_GPU) {
        double gpus = (double)total->amount / SCHED_UNIT;
        if (total->amount % SCHED_UNIT)
            return base_fail(MOB_EINVAL, "a node has whole GPUs, not %g", gpus);
        if (gpus > SCHED_GPUS_MAX)
            return base_fail(MOB_ELIMIT, "a node can have at most %d GPUs, not %g", SCHED_GPUS_MAX,
                             gpus);
        sched_pool_gpus_init(&sched->total, (uint32_t)(total->amount / SCHED_UNIT));
    }
    sched->total.free[resource] = (int64_t)total->amount;
    sched->offered++;
    return MOB_OK;
}

static mob_status_t sched_fill(sched_t *sched, const sched_amount_t *total, size_t count) {
    mob_status_t status = sched_names_check(total, count);
    if (!status) status = sched_names_init(&sched->names);
    if (!status) status = sched_shapes_init(&sched->shapes);
    for (size_t i = 0; !status && i < count; i++) status = total_add(sched, &total[i]);
    sched->now = sched->later = sched->total;
    return status;
}

mob_status_t sched_new(const sched_amount_t *total, size_t count, sched_t **ret_sched) {
    if (count > SCHED_NAMES_MAX)
        return base_fail(MOB_ELIMIT,
                         "a session can have at most %d different names of resources, not %zu",
                         SCHED_NAMES_MAX, count);
    sched_t *sched = calloc(1, sizeof *sched);
    if (!sched) return MOB_ENOMEM;
    mob_status_t status = sched_fill(sched, total, count);
    if (status) {
        sched_free(sched);
        return status;
    }
    *ret_sched = sched;
    return MOB_OK;
}

void sched_free(sched_t *sched) {
    if (!sched) return;
    sched_shapes_fini(&sched->shapes);
    sched_names_fini(&sched->names);
    free(sched);
}

size_t sched_resource_count(const sched_t *sched) { return sched->offered; }

void sched_resource_at(const sched_t *sched, size_t index, const char **ret_name,
                       uint64_t *ret_total, int64_t *ret_available) {
    assert(index < sched->offered);
    uint32_t resource = 0;
    for (;; resource++) {
        if (sched->total.free[resource] && index-- == 0) break;
    }
    *ret_name = sched->names.names[resource];
    *ret_total = (uint64_t)sched->total.free[resource];
    *ret_available = sched->now.free[resource];
}

/* ---- Shapes -------------------------------------------------------------- */

static sched_shape_t *shape_get(const sched_t *sched, uint32_t shape) {
    sched_shape_t *found = sched_shapes_find(&sched->shapes, shape);
    assert(found);
    return found;
}

mob_status_t sched_shape_intern(sched_t *sched, const sched_amount_t *demand, size_t count,
                                uint32_t *ret_shape) {
    return sched_shapes_intern(&sched->shapes, &sched->names, &sched->total, demand, count,
                               ret_shape);
}

void sched_shape_hold(sched_t *sched, uint32_t shape) { shape_get(sched, shape)->holds++; }

void sched_shape_drop(sched_t *sched, uint32_t shape) {
    sched_shapes_drop(&sched->shapes, shape_get(sched, shape));
}

bool sched_shape_valid(const sched_t *sched, uint32_t shape) {
    return sched_shapes_find(&sched->shapes, shape);
}

bool sched_shape_fits_ever(const sched_t *sched, uint32_t shape) {
    return shape_get(sched, shape)->possible;
}

size_t sched_shape_lacks(const sched_t *sched, uint32_t shape, sched_amount_t *ret_missing,
                         uint64_t *ret_totals, size_t capacity) {
    const sched_shape_t *asked = shape_get(sched, shape);
    size_t count = 0;
    for (uint32_t i = 0; i < asked->count; i++) {
        const sched_need_t *need = &asked->needs[i];
        if (sched_pool_has(&sched->total, need)) continue;
        if (count < capacity) {
            ret_missing[count] = (sched_amount_t){.name = sched->names.names[need->resource],
                                                  .amount = (uint64_t)need->amount};
            ret_totals[count] = (uint64_t)sched->total.free[need->resource];
        }
        count++;
    }
    return count;
}

bool sched_shape_covers(const sched_t *sched, uint32_t whole, uint32_t part) {
    const sched_shape_t *w = shape_get(sched, whole), *p = shape_get(sched, part);
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->needs[i].amount > sched_shape_amount(w, p->needs[i].resource)) return false;
    }
    return true;
}

size_t sched_shape_demand(const sched_t *sched, uint32_t shape, sched_amount_t *ret_demand,
                          size_t capacity) {
    const sched_shape_t *s = shape_get(sched, shape);
    for (uint32_t i = 0; i < s->count && i < capacity; i++) {
        ret_demand[i].name = sched->names.names[s->needs[i].resource];
        ret_demand[i].amount = (uint64_t)s->needs[i].amount;
    }
    return s->count;
}

size_t sched_queued(const sched_t *sched, uint32_t shape) {
    return shape_get(sched, shape)->queue.count;
}

/* ---- Leases -------------------------------------------------------------- */

static unsigned lease_parts_now(const sched_lease_t *lease) {
    if (lease->state == SCHED_LEASE_NONE) return 0;
    return lease->state == SCHED_LEASE_HELD ? SCHED_PART_ALL : SCHED_PART_REST;
}

static unsigned lease_parts_later(const sched_lease_t *lease) {
    return lease->state == SCHED_LEASE_HELD && !lease->lasting ? 0 : lease_parts_now(lease);
}

static void lease_set(sched_t *sched, sched_lease_t *lease, sched_lease_t next) {
    sched_shape_t *old = shape_get(sched, lease->shape), *new = shape_get(sched, next.shape);
    bool held = lease->state != SCHED_LEASE_NONE;
    for (uint32_t i = 0; i < old->count; i++) {
        sched_pool_give(&sched->now, &old->needs[i], lease->gpu_mask, lease_parts_now(lease));
        sched_pool_give(&sched->later, &old->needs[i], lease->gpu_mask, lease_parts_later(lease));
    }
    *lease = next;
    for (uint32_t i = 0; i < new->count; i++) {
        sched_pool_take(&sched->now, &new->needs[i], lease->gpu_mask, lease_parts_now(lease));
        sched_pool_take(&sched->later, &new->needs[i], lease->gpu_mask, lease_parts_later(lease));
    }
    new->holds += lease->state != SCHED_LEASE_NONE;
    if (held) sched_shapes_drop(&sched->shapes, old);
}

void sched_lease_release(sched_t *sched, sched_lease_t *lease) {
    lease_set(sched, lease, (sched_lease_t){0});
}

static uint64_t mask_lowest(uint64_t mask, int64_t count) {
    uint64_t kept = 0;
    for (; count > 0; count--) {
        kept |= mask & -mask;
        mask &= mask - 1;
    }
    return kept;
}

void sched_lease_shrink(sched_t *sched, sched_lease_t *lease, uint32_t shape) {
    if (lease->state == SCHED_LEASE_NONE) return;
    const sched_shape_t *old = shape_get(sched, lease->shape), *new = shape_get(sched, shape);
    for (uint32_t i = 0; i < new->count; i++) {
        assert(new->needs[i].amount <= sched_shape_amount(old, new->needs[i].resource));
    }
    int64_t gpus = (sched_shape_amount(new, SCHED_GPU) + SCHED_UNIT - 1) / SCHED_UNIT;
    sched_lease_t next = *lease;
    next.shape = shape;
    next.lasting = true;
    next.gpu_mask = mask_lowest(lease->gpu_mask, gpus);
    lease_set(sched, lease, next);
}

static void lease_move(sched_t *sched, sched_lease_t *lease, sched_lease_state_t from,
                       sched_lease_state_t to) {
    if (lease->state != from) return;
    sched_lease_t next = *lease;
    next.state = (uint8_t)to;
    lease_set(sched, lease, next);
}

void sched_lease_block(sched_t *sched, sched_lease_t *lease) {
    lease_move(sched, lease, SCHED_LEASE_HELD, SCHED_LEASE_BLOCKED);
}

void sched_lease_unblock(sched_t *sched, sched_lease_t *lease) {
    lease_move(sched, lease, SCHED_LEASE_BLOCKED, SCHED_LEASE_HELD);
}

/* ---- Waiting tasks ------------------------------------------------------- */

static void task_enqueue(sched_t *sched, sched_task_t *task) {
    sched_shape_t *shape = shape_get(sched, task->shape);
    sched_queue_insert(&shape->queue, task);
    if (shape->possible && shape->queue.head == task) sched_kind_note(shape);
}

static void task_dequeue(sched_t *sched, sched_task_t *task) {
    sched_shape_t *shape = shape_get(sched, task->shape);
    bool first = shape->queue.head == task;
    sched_queue_remove(&shape->queue, task);
    if (shape->possible && first) sched_kind_note(shape);
}

void sched_task_add(sched_t *sched, sched_task_t *task, uint32_t shape, uint64_t now_ns) {
    task->shape = shape;
    task->since_ns = now_ns;
    task->order = ++sched->last_order;
    task_enqueue(sched, task);
}

void sched_task_readd(sched_t *sched, sched_task_t *task) {
    assert(task->order > 0);
    task_enqueue(sched, task);
}

void sched_task_remove(sched_t *sched, sched_task_t *task) {
    if (task->queued) task_dequeue(sched, task);
}

/* Whether a kind needs something that is kept for the patient. Both lists rise by resource
 * number. */
static bool kind_closed(const sched_t *sched, const sched_kind_t *kind,
                        const sched_kind_t *patient) {
    for (uint32_t i = 0, j = 0; i < kind->count && j < patient->count;) {
        uint32_t mine = kind->resources[i], theirs = patient->resources[j];
        if (mine == theirs && sched->lacked[j]) return true;
        i += mine <= theirs;
        j += theirs <= mine;
    }
    return false;
}

/* The oldest task of those that are looked for and, if there is a patient, leave it what it
 * lacks. */
static sched_task_t *waiting_oldest(const sched_t *sched, const sched_search_t *search,
                                    const sched_kind_t *patient) {
    sched_task_t *oldest = NULL;
    for (size_t i = 0; i < sched->shapes.kinds.count; i++) {
        const sched_kind_t *kind = sched->shapes.kinds.items[i];
        if (!patient || !kind_closed(sched, kind, patient))
            oldest = sched_kind_oldest(kind, search, oldest);
    }
    return oldest;
}

/* Notes what the oldest task lacks now; whether it has waited long enough for that to count. */
static bool patient_note(sched_t *sched, const sched_task_t *task, const sched_shape_t *shape,
                         uint64_t now_ns) {
    if (now_ns < task->since_ns || now_ns - task->since_ns < SCHED_PATIENCE_NS) return false;
    if (sched->patient != task->order) {
        sched->patient = task->order;
        memset(sched->lacked, 0, sizeof sched->lacked);
    }
    bool only_cpus = true;
    for (uint32_t i = 0; i < shape->count; i++) {
        if (shape->needs[i].resource == SCHED_CPU || sched_pool_has(&sched->now, &shape->needs[i]))
            continue;
        sched->lacked[i] = true;
        only_cpus = false;
    }
    for (uint32_t i = 0; only_cpus && i < shape->count; i++) sched->lacked[i] = true;
    return true;
}

static sched_task_t *task_grant(sched_t *sched, sched_task_t *task, sched_lease_t *ret_lease) {
    int64_t gpus = sched_shape_amount(shape_get(sched, task->shape), SCHED_GPU);
    sched_lease_t next = {.shape = task->shape, .state = SCHED_LEASE_HELD};
    if (gpus) next.gpu_mask = sched_pool_gpus_choose(&sched->now, gpus);
    task_dequeue(sched, task);
    *ret_lease = (sched_lease_t){0};
    lease_set(sched, ret_lease, next);
    return task;
}

sched_task_t *sched_task_next(sched_t *sched, uint64_t now_ns, sched_lease_t *ret_lease) {
    const sched_search_t later = {.fits = &sched->later}, now = {.fits = &sched->now};
    /* What fits now fits later, so if the first of these can start, it is also the oldest that
     * can. */
    sched_task_t *first = waiting_oldest(sched, &later, NULL);
    if (!first) return NULL;
    const sched_shape_t *shape = shape_get(sched, first->shape);
    if (!sched_shape_missing(shape, &sched->now)) return task_grant(sched, first, ret_lease);
    bool closed = patient_note(sched, first, shape, now_ns);
    sched_task_t *pick = waiting_oldest(sched, &now, closed ? shape->kind : NULL);
    return pick ? task_grant(sched, pick, ret_lease) : NULL;
}

int64_t sched_cpu_lacking(const sched_t *sched, const sched_task_t *except,
                          uint64_t *ret_since_ns) {
    const sched_search_t search = {.fits = &sched->later, .lacks = &sched->now, .except = except};
    const sched_task_t *task = waiting_oldest(sched, &search, NULL);
    if (!task) return 0;
    *ret_since_ns = task->since_ns;
    return sched_shape_amount(shape_get(sched, task->shape), SCHED_CPU) -
           sched->now.free[SCHED_CPU];
}

sched_task_t *sched_task_ahead(sched_t *sched, uint32_t shape) {
    sched_shape_t *mine = shape_get(sched, shape);
    sched_task_t *task = mine->queue.head;
    uint32_t others = 0;
    if (!task) return NULL;
    for (size_t i = 0; i < sched->shapes.kinds.count; i++)
        others += sched->shapes.kinds.items[i]->waiting;
    if (others > mine->possible) return NULL;
    task_dequeue(sched, task);
    return task;
}
