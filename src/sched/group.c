/*
 * Groups.
 *
 *   group     bundles' leases            tickets          moved on by
 *   WAITS     none                       none             place -> PLACED; remove -> OVER
 *   PLACED    held                       of what waits    remove -> DRAINS or OVER
 *   DRAINS    those that are not empty   none             the last lease inside ends -> OVER
 *   OVER      none                       none             free, once no shape names it
 *
 * The request asks for the sum of all bundles at once, so a group never holds some of them while it
 * waits for the others. GPUs are no sum: two bundles of 0.6 need two devices. So the bundles are
 * packed onto as few devices as a first fit finds, and the request asks for that many whole ones,
 * or for the part of one if one is enough. Placed, each bundle takes exactly its own, and the rest
 * of these devices goes back in the same call.
 *
 * The inside of a bundle is a scheduler of its own, with the names and the order numbers of its
 * node: so among the tasks of one job the oldest starts there too. It is made when somebody first
 * asks for something in the bundle. What is free in it is written when the group is placed; until
 * then nothing waits there, so nobody looks.
 *
 * Where bundles are on several nodes, each of them moves by itself, and the group stays in WAITS:
 *
 *   bundle    lease                      tickets          moved on by
 *   AWAY      none                       none             reserve -> HELD
 *   HELD      held                       none             open -> OPEN; close -> AWAY
 *   OPEN      held                       of what waits    close -> CLOSED or AWAY
 *   CLOSED    held                       none             the last lease inside ends -> AWAY
 *
 * A job has a part inside each bundle that it asks in, for as long as it has a ticket or a lease
 * there. A bundle's lease goes back when the group was removed and nothing is held inside: what a
 * dying worker had is given to nobody before that worker is certainly dead.
 *
 * Rejected: bundles as names of resources (CPU_group_...): they use the names up, and each needs
 * its GPUs, its patience and its turns done again. One scheduler a group with a pool for each
 * bundle: every pick would ask each pool, also where all tasks name their bundle. Tasks that may
 * run anywhere bound to a bundle when they come: they would wait there while another is empty.
 */
#include "sched/group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sched/books.h"
#include "sched/lease.h"
#include "sched/selector.h"

struct sched_group {
    sched_job_t *job; /* NULL: it is over */
    uint32_t whole;   /* the request's shape */
    void *user;
    bool apart, matches, placed, removed;
    uint32_t users; /* the caller, and each shape in it */
    sched_entry_t *entries;
    uint32_t count;
    sched_bundle_t bundles[];
};

static bool has_many_apart(const sched_group_t *group) { return group->apart && group->count > 1; }

static const sched_shape_t *bundle_shape(const sched_bundle_t *bundle) {
    return sched_job_shape(bundle->group->job, bundle->shape);
}

/* ---- Making one ---------------------------------------------------------- */

/* Packs the bundles onto devices; how many there are. Those beyond SCHED_GPUS_MAX are only
 * counted: such a group fits nowhere. */
static int64_t devices_pack(sched_group_t *group, int64_t *ret_sum) {
    int64_t left[SCHED_GPUS_MAX], count = 0;
    *ret_sum = 0;
    for (uint32_t b = 0; b < group->count; b++) {
        sched_bundle_t *bundle = &group->bundles[b];
        int64_t amount = sched_shape_amount(bundle_shape(bundle), SCHED_GPU);
        int64_t part = amount < SCHED_UNIT ? amount : SCHED_UNIT, at = count;
        if (amount > SCHED_GPUS_MAX * SCHED_UNIT || count > SCHED_GPUS_MAX) {
            count = SCHED_GPUS_MAX + 1;
            continue;
        }
        *ret_sum += amount;
        if (part < SCHED_UNIT)
            for (at = 0; at < count && (at >= SCHED_GPUS_MAX || left[at] < part);) at++;
        for (; amount > 0; amount -= part, at++) {
            if (at == count && count++ < SCHED_GPUS_MAX) left[at] = SCHED_UNIT;
            if (at >= SCHED_GPUS_MAX) continue;
            left[at] -= part;
            bundle->devices |= UINT64_C(1) << at;
        }
    }
    return count;
}

/* Adds one line to a sum; false: there are too many names. */
static bool sum_add(sched_need_t *sum, uint32_t *count, const sched_need_t *need) {
    uint32_t i = 0;
    while (i < *count && sum[i].resource != need->resource) i++;
    if (i == SCHED_NEEDS_MAX) return false;
    if (i == *count) sum[(*count)++] = (sched_need_t){.resource = need->resource};
    int64_t most = (int64_t)(need->resource == SCHED_CPU ? SCHED_CPU_MAX : SCHED_AMOUNT_MAX);
    sum[i].amount = need->amount < most - sum[i].amount ? sum[i].amount + need->amount : most;
    return true;
}

/* What all bundles need at once. */
static mob_status_t whole_intern(sched_group_t *group) {
    sched_need_t sum[SCHED_NEEDS_MAX];
    sched_amount_t demand[SCHED_NEEDS_MAX];
    uint32_t count = 0;
    for (uint32_t b = 0; b < group->count; b++) {
        const sched_shape_t *shape = bundle_shape(&group->bundles[b]);
        for (uint32_t i = 0; i < shape->count; i++)
            if (!sum_add(sum, &count, &shape->needs[i]))
                return base_fail(MOB_ELIMIT, "one group can name at most %d resources",
                                 SCHED_NEEDS_MAX);
    }
    int64_t gpus, devices = devices_pack(group, &gpus);
    for (uint32_t i = 0; i < count; i++) {
        if (sum[i].resource == SCHED_GPU && devices > 1) sum[i].amount = devices * SCHED_UNIT;
        demand[i] = (sched_amount_t){.name = group->job->sched->names->names[sum[i].resource],
                                     .amount = (uint64_t)sum[i].amount};
    }
    return sched_shape_intern(group->job, demand, count, &group->whole);
}

/* Lets go of what it holds of its job. */
static void group_end(sched_group_t *group) {
    for (uint32_t b = 0; b < group->count; b++)
        if (group->bundles[b].shape) sched_shape_drop(group->job, group->bundles[b].shape);
    if (group->whole) sched_shape_drop(group->job, group->whole);
    group->job = NULL;
}

mob_status_t sched_group_new(sched_job_t *job, const sched_bundle_want_t *bundles, size_t count,
                             bool apart, sched_group_t **ret_group) {
    if (count > SCHED_BUNDLES_MAX)
        return base_fail(MOB_ELIMIT, "a group can have at most %d bundles, not %zu",
                         SCHED_BUNDLES_MAX, count);
    sched_group_t *group = calloc(1, sizeof *group + count * sizeof *group->bundles);
    if (!group) return MOB_ENOMEM;
    group->job = job;
    group->apart = apart;
    group->matches = true;
    group->users = 1;
    group->count = (uint32_t)count;
    mob_status_t status = MOB_OK;
    for (size_t b = 0; !status && b < count; b++) {
        group->bundles[b].group = group;
        if (bundles[b].selector && !sched_selector_check(bundles[b].selector))
            status = base_fail(MOB_EINVAL, "'%s' is no selector of labels", bundles[b].selector);
        if (status) break;
        group->matches &= sched_selector_matches(bundles[b].selector, job->sched->labels);
        status =
            sched_shape_intern(job, bundles[b].demand, bundles[b].count, &group->bundles[b].shape);
    }
    if (!status) status = whole_intern(group);
    if (status) {
        group_end(group);
        free(group);
        return status;
    }
    *ret_group = group;
    return MOB_OK;
}

uint32_t sched_group_shape(const sched_group_t *group) { return group->whole; }

bool sched_group_fits_ever(const sched_group_t *group) {
    return group->matches && !has_many_apart(group) &&
           sched_shape_fits_ever(group->job, group->whole);
}

bool sched_group_matches(const sched_group_t *group) { return group->matches; }
bool sched_group_is_used(const sched_group_t *group) { return group->users > 1; }

bool sched_group_is_placed(const sched_group_t *group) { return group->placed; }
bool sched_group_is_removed(const sched_group_t *group) { return group->removed; }
bool sched_group_is_over(const sched_group_t *group) { return !group->job; }
void sched_group_user_set(sched_group_t *group, void *user) { group->user = user; }
void *sched_group_user(const sched_group_t *group) { return group->user; }
size_t sched_group_bundles(const sched_group_t *group) { return group->count; }

size_t sched_bundle_demand(const sched_group_t *group, uint32_t bundle, sched_amount_t *ret_demand,
                           size_t capacity, uint64_t *ret_gpus) {
    assert(bundle < group->count && group->job);
    if (ret_gpus) *ret_gpus = group->bundles[bundle].lease.gpu_mask;
    return sched_shape_demand(group->job, group->bundles[bundle].shape, ret_demand, capacity);
}

static void group_leave(sched_group_t *group) {
    if (--group->users > 0) return;
    for (uint32_t b = 0; b < group->count; b++) sched_free(group->bundles[b].inside);
    free(group);
}

void sched_group_free(sched_group_t *group) {
    assert(!group->job);
    group_leave(group);
}

/* ---- Bundles ------------------------------------------------------------- */

/* What there is in it, with nothing running. */
static void inside_fill(sched_bundle_t *bundle, uint64_t gpu_mask) {
    sched_t *inside = bundle->inside;
    const sched_shape_t *shape = bundle_shape(bundle);
    inside->total.gpu_count = SCHED_GPUS_MAX;
    memset(inside->total.gpu_free, 0, sizeof inside->total.gpu_free);
    for (uint32_t i = 0; i < shape->count; i++) {
        const sched_need_t *need = &shape->needs[i];
        inside->total.free[need->resource] = need->amount;
        if (need->resource != SCHED_GPU) continue;
        for (uint32_t g = 0; g < SCHED_GPUS_MAX; g++)
            if (gpu_mask >> g & 1)
                inside->total.gpu_free[g] = need->amount < SCHED_UNIT ? need->amount : SCHED_UNIT;
    }
    inside->now = inside->later = inside->total;
}

static mob_status_t inside_open(sched_bundle_t *bundle) {
    if (bundle->inside) return MOB_OK;
    sched_t *inside = calloc(1, sizeof *inside), *node = bundle->group->job->sched;
    if (!inside) return MOB_ENOMEM;
    inside->node = node;
    inside->names = node->names;
    inside->bundle = bundle;
    bundle->inside = inside;
    /* which GPUs it gets makes no difference to what fits */
    inside_fill(bundle, bundle->lease.job ? bundle->lease.gpu_mask : bundle->devices);
    return MOB_OK;
}

/* The lowest devices of a mask, as many as there are bits in `wanted`, by their places. */
static uint64_t mask_choose(uint64_t mask, uint64_t wanted) {
    uint64_t chosen = 0;
    for (; mask && wanted; mask &= mask - 1, wanted >>= 1)
        if (wanted & 1) chosen |= mask & -mask;
    return chosen;
}

static void entries_renew(const sched_group_t *group) {
    for (sched_entry_t *entry = group->entries; entry; entry = entry->next)
        sched_entry_renew(entry);
}

void sched_group_place(sched_group_t *group, sched_lease_t *lease) {
    assert(!group->placed && !group->removed && lease->job == group->job);
    uint64_t mask = lease->gpu_mask;
    sched_lease_release(group->job->sched, lease);
    for (uint32_t b = 0; b < group->count; b++) {
        sched_bundle_t *bundle = &group->bundles[b];
        sched_lease_set(&bundle->lease,
                        (sched_lease_t){.job = group->job,
                                        .shape = bundle->shape,
                                        .state = SCHED_LEASE_HELD,
                                        .lasting = true,
                                        .gpu_mask = mask_choose(mask, bundle->devices)});
        if (bundle->inside) inside_fill(bundle, bundle->lease.gpu_mask);
        bundle->open = true;
    }
    group->placed = true;
    entries_renew(group);
}

bool sched_bundle_is_held(const sched_group_t *group, uint32_t bundle) {
    return group->bundles[bundle].lease.job;
}

bool sched_bundle_is_open(const sched_group_t *group, uint32_t bundle) {
    return group->bundles[bundle].open;
}

bool sched_bundle_reserve(sched_group_t *group, uint32_t b) {
    sched_bundle_t *bundle = &group->bundles[b];
    if (group->removed || bundle->lease.job) return false;
    const sched_pool_t *now = &group->job->sched->now;
    const sched_shape_t *shape = bundle_shape(bundle);
    int64_t gpus = sched_shape_amount(shape, SCHED_GPU);
    if (sched_shape_missing(shape, now)) return false;
    sched_lease_set(&bundle->lease,
                    (sched_lease_t){.job = group->job,
                                    .shape = bundle->shape,
                                    .state = SCHED_LEASE_HELD,
                                    .lasting = true,
                                    .gpu_mask = gpus ? sched_pool_gpus_choose(now, gpus) : 0});
    return true;
}

void sched_bundle_open(sched_group_t *group, uint32_t b) {
    sched_bundle_t *bundle = &group->bundles[b];
    assert(!group->removed && bundle->lease.job && !bundle->open);
    if (bundle->inside) inside_fill(bundle, bundle->lease.gpu_mask);
    bundle->open = true;
    entries_renew(group);
}

/* One that is closed goes back when nothing is held inside. */
static void bundle_settle(sched_bundle_t *bundle) {
    if (bundle->open || (bundle->inside && bundle->inside->leases)) return;
    sched_lease_release(bundle->group->job->sched, &bundle->lease);
}

void sched_bundle_close(sched_group_t *group, uint32_t b) {
    if (group->removed) return; /* all of it goes back */
    group->bundles[b].open = false;
    entries_renew(group);
    bundle_settle(&group->bundles[b]);
}

/* A removed group's bundle goes back when nothing is held inside; the last one ends the group. */
static void bundles_settle(sched_group_t *group) {
    bool held = false;
    for (uint32_t b = 0; b < group->count; b++) {
        sched_bundle_t *bundle = &group->bundles[b];
        if (bundle->inside && bundle->inside->leases)
            held = true;
        else
            sched_lease_release(group->job->sched, &bundle->lease);
    }
    if (!held) group_end(group);
}

void sched_group_remove(sched_group_t *group) {
    assert(!group->removed);
    group->removed = true;
    entries_renew(group);
    bundles_settle(group);
}

/* ---- Jobs inside --------------------------------------------------------- */

/* A job's part in a bundle, with one user more. */
static mob_status_t part_use(sched_bundle_t *bundle, sched_job_t *job, sched_job_t **ret_part) {
    sched_t *inside = bundle->inside;
    sched_job_t *part = NULL;
    for (size_t i = 0; !part && i < inside->jobs.count; i++)
        if (inside->jobs.items[i]->outer == job) part = inside->jobs.items[i];
    mob_status_t status = part ? MOB_OK : sched_job_new(inside, &part);
    if (status) return status;
    part->outer = job;
    part->tickets++;
    *ret_part = part;
    return MOB_OK;
}

static void part_settle(sched_job_t *part) {
    if (!part->tickets && !part->leases) sched_job_free(part);
}

void sched_bundle_changed(sched_job_t *part, int leases) {
    sched_t *inside = part->sched;
    sched_bundle_t *bundle = inside->bundle;
    inside->leases += (size_t)leases;
    if (leases < 0) part_settle(part);
    if (bundle->group->removed)
        bundles_settle(bundle->group);
    else if (bundle->open)
        sched_stir(inside);
    else
        bundle_settle(bundle);
}

/* ---- Entries ------------------------------------------------------------- */

/* How often the demand fits into it. */
static int64_t bundle_capacity(const sched_bundle_t *bundle, const sched_shape_t *shape) {
    const sched_shape_t *has = bundle_shape(bundle);
    int64_t most = INT32_MAX;
    for (uint32_t i = 0; i < shape->count; i++) {
        int64_t times = sched_shape_amount(has, shape->needs[i].resource) / shape->needs[i].amount;
        if (times < most) most = times;
    }
    return most;
}

bool sched_shape_starts_inside(const sched_job_t *job, uint32_t id) {
    const sched_shape_t *shape = sched_job_shape(job, id);
    if (shape->queue.head || shape->where.group->removed) return false;
    for (uint32_t i = 0; i < shape->entry->count; i++) {
        const sched_bundle_t *bundle =
            &shape->where.group->bundles[shape->entry->tickets[i].bundle];
        if (bundle->open && !sched_shape_missing(shape, &bundle->inside->now)) return true;
    }
    return false;
}

uint32_t sched_bundle_capacity(const sched_job_t *job, uint32_t shape, uint32_t b) {
    const sched_shape_t *asked = sched_job_shape(job, shape);
    const sched_group_t *group = asked->where.group;
    bool is_meant = asked->where.bundle < 0 || (uint32_t)asked->where.bundle == b;
    if (!is_meant || !group->job) return 0;
    return (uint32_t)bundle_capacity(&group->bundles[b], asked);
}

static void ticket_return(const sched_ticket_t *ticket) {
    sched_job_t *part = ticket->task.job;
    sched_shape_drop(part, ticket->task.shape);
    part->tickets--;
    part_settle(part);
}

static mob_status_t ticket_get(sched_entry_t *entry, uint32_t b) {
    sched_bundle_t *bundle = &entry->group->bundles[b];
    sched_ticket_t *ticket = &entry->tickets[entry->count];
    mob_status_t status = inside_open(bundle);
    if (!status) status = part_use(bundle, entry->job, &ticket->task.job);
    if (status) return status;
    status = sched_shapes_hold(&ticket->task.job->shapes, entry->shape->needs, entry->shape->count,
                               &ticket->task.shape);
    if (status) {
        ticket->task.job->tickets--;
        part_settle(ticket->task.job);
        return status;
    }
    ticket->entry = entry;
    ticket->bundle = b;
    entry->count++;
    return MOB_OK;
}

mob_status_t sched_entry_new(sched_job_t *job, sched_shape_t *shape) {
    sched_group_t *group = shape->where.group;
    uint32_t first = shape->where.bundle < 0 ? 0 : (uint32_t)shape->where.bundle,
             end = shape->where.bundle < 0 ? group->count : first + 1;
    sched_entry_t *entry =
        calloc(1, sizeof *entry + (size_t)(end - first) * sizeof *entry->tickets);
    if (!entry) return MOB_ENOMEM;
    *entry = (sched_entry_t){.group = group, .shape = shape, .job = job, .next = group->entries};
    if (group->entries) group->entries->prev = entry;
    group->entries = entry;
    group->users++;
    shape->entry = entry;
    for (uint32_t b = first; b < end; b++) {
        if (bundle_capacity(&group->bundles[b], shape) == 0) continue;
        mob_status_t status = ticket_get(entry, b);
        if (status) return status; /* the shape's end frees the entry */
    }
    return MOB_OK;
}

void sched_entry_free(sched_entry_t *entry) {
    if (!entry) return;
    for (uint32_t i = 0; i < entry->count; i++) {
        sched_task_remove(entry->job->sched, &entry->tickets[i].task);
        ticket_return(&entry->tickets[i]);
    }
    sched_group_t *group = entry->group;
    *(entry->prev ? &entry->prev->next : &group->entries) = entry->next;
    if (entry->next) entry->next->prev = entry->prev;
    free(entry);
    group_leave(group);
}

void sched_entry_renew(sched_entry_t *entry) {
    const sched_task_t *head = entry->shape->queue.head;
    for (uint32_t i = 0; i < entry->count; i++) {
        sched_task_t *ticket = &entry->tickets[i].task;
        const sched_bundle_t *bundle = &entry->group->bundles[entry->tickets[i].bundle];
        bool waits = head && bundle->open && !entry->group->removed;
        if (ticket->queued && waits && ticket->order == head->order) continue;
        sched_task_remove(ticket->job->sched, ticket);
        if (!waits) continue;
        ticket->order = head->order;
        ticket->since_ns = head->since_ns;
        sched_task_readd(ticket->job->sched, ticket);
    }
}

sched_task_t *sched_ticket_redeem(sched_ticket_t *ticket) {
    sched_task_t *task = ticket->entry->shape->queue.head;
    sched_task_remove(ticket->entry->job->sched, task);
    return task;
}

const sched_task_t *sched_ticket_of(const sched_bundle_t *bundle, const sched_task_t *task) {
    const sched_shape_t *shape = sched_job_shape(task->job, task->shape);
    const sched_entry_t *entry = task->queued && shape ? shape->entry : NULL;
    if (!entry || shape->queue.head != task || task->next) return NULL;
    for (uint32_t i = 0; i < entry->count; i++)
        if (&entry->group->bundles[entry->tickets[i].bundle] == bundle)
            return &entry->tickets[i].task;
    return NULL;
}

uint32_t sched_entry_shape(const sched_entry_t *entry, const sched_bundle_t *bundle) {
    for (uint32_t i = 0; i < entry->count; i++)
        if (&entry->group->bundles[entry->tickets[i].bundle] == bundle)
            return entry->tickets[i].task.shape;
    assert(!"a lease in a bundle is of a demand that the bundle meets");
    return 0;
}

sched_group_t *sched_lease_group(const sched_lease_t *lease, uint32_t *ret_bundle) {
    const sched_bundle_t *bundle = lease->job ? lease->job->sched->bundle : NULL;
    if (!bundle) return NULL;
    *ret_bundle = (uint32_t)(bundle - bundle->group->bundles);
    return bundle->group;
}
