/*
 * The node, and picking: whose turn it is, and which of its tasks.
 *
 * Three pools answer every question. `total` is the node with nothing running. `now` is what is
 * free. `later` is what will be free when the tasks that are running have ended: all but what
 * actors hold until they die and what blocked tasks hold until somebody else has run. A shape that
 * does not fit in `total` never starts; one that does not fit in `now` waits; one that does not fit
 * in `later` waits for something that no patience brings. now <= later <= total for every resource
 * and every GPU.
 *
 * Order. Each shape has one queue, and only its head is ever looked at: those behind it need the
 * same and are younger. Shapes of a job that name the same resources are of one kind, and a pick
 * asks each kind for its oldest head that fits (kind.h). What is kept closed is closed to kinds as
 * a whole.
 *
 * Turns. The jobs that wait are asked one after the other, first the one that holds the fewest
 * CPUs, among equals the one that was given nothing for longest. The first that has a task which
 * may start gets it. CPUs held are all that counts: not how many tasks wait, nor how long they run.
 * So two jobs hold as much as each other whatever their tasks are like, as soon as enough of them
 * have ended. Nothing is taken from a running task; who shortens leases asks sched_cpu_lacking.
 *
 * Patience. A task that needs much would wait for ever while small ones keep taking what comes
 * free. So the oldest task of a job that fits in `later`, its patient, after SCHED_PATIENCE_NS
 * stops those that are asked after it from taking what it lacks, until it has started: the younger
 * ones of its job, and the jobs behind. What it lacked once stays closed: otherwise a task that
 * needs two things could see each of them taken while it waits for the other. Things that it does
 * not lack stay open, so the rest of the node goes on working. And CPUs stay open until it lacks
 * nothing else: nearly every task needs them, so a node whose GPU is busy for an hour would stand
 * still for as long. Then all that it needs is closed at once, so what is there stays there while
 * CPUs come free. A patient lacks what running tasks hold, and what a patient before it keeps.
 *
 * Patients ahead. The turns alone would let a patient starve. A job whose actors hold a CPU comes
 * after one that runs a single small task at a time, each time that task ends. A job that needs a
 * resource other than CPUs comes after one that takes it without a CPU, for as long as it runs
 * anything at all. So a patient is `passed` when something that it lacks is given to another job
 * while no running task of its own job holds any of that. Passed as often as there are jobs that
 * wait, it goes ahead of all turns; those ahead go in the order in which they became patients. The
 * condition keeps the shares: a job with tasks running has its share or will come to its turn when
 * they end, and one that goes ahead has one task more than its actors, not more. The count keeps
 * the turns: others have had theirs, so a job that has just come gets the next CPU although
 * another's backlog has waited for longer.
 *
 * Why everything that fits in `later` starts. (1) What a patient lacks is closed to the younger of
 * its job, so the running tasks of its job that hold it end, and no others follow. Each need is
 * added to what it lacks at most once, so that takes as many task lengths as it has needs. (2) From
 * then on every task length brings its start, or the start of a patient that keeps something from
 * it, or it is passed: else all that it lacks would be free and nobody would take it. (3) Passed
 * often enough, it has before it only those that became patients earlier, one a job: when one of
 * them starts, the next of its job goes to the end of the line. The first of the line closes what
 * it lacks to everybody, so it starts when the running tasks have ended that hold it, after as many
 * task lengths as it has needs. All of these are bounded by needs and by jobs that wait, not by how
 * many tasks there are. In a node with one job only (3) is left, and that is task lengths times
 * needs. A task that is not the oldest of its job becomes that.
 *
 * Why `later` and not `total`: waiting for an actor's GPU, or for one that a task holds while it
 * waits in get for a child which needs the other GPU, would close that other GPU to the very task
 * that is to bring the end. A reservation that only running tasks stand in the way of always comes
 * true; any other can be a deadlock, and is not made. A patient that waits for another patient
 * waits in the end for running tasks, because they stand in one line.
 *
 * A patient that is ahead can come to lack one thing more, which running tasks of its own job hold.
 * Then it is ahead no longer, and what it kept may be open. So a pick that finds nothing but has
 * noted that looks again. What is noted only grows as long as nobody starts, so that ends.
 *
 * Rejected: reserving for every waiting task in order (needs estimates of run times to be of use);
 * a closed node for an over-committed CPU sum (a task without CPUs, such as the creation of an
 * actor that others look for, can be what lets the over-committed ones end); one line of patients
 * by age for all jobs (a job with a million large tasks would close the node to the others until
 * the last of them has run); turns by CPU time used (a job would pay for hours in which nobody else
 * wanted the node); going ahead after a second patience instead of a count (long tasks outlast it,
 * and then the turns are worth nothing).
 */
#include "sched/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sched/books.h"
#include "sched/group.h"
#include "sched/kind.h"
#include "sched/lease.h"
#include "sched/priority.h"
#include "sched/queue.h"
#include "sched/selector.h"

/* ---- Insides of bundles ---------------------------------------------------- */

void sched_stir(sched_t *inside) {
    if (inside->is_stirred) return;
    inside->is_stirred = true;
    inside->stirred_next = inside->node->stirred;
    inside->node->stirred = inside;
}

static void unstir(sched_t *inside) {
    sched_t **at = &inside->node->stirred;
    while (*at != inside) at = &(*at)->stirred_next;
    *at = inside->stirred_next;
    inside->is_stirred = false;
}

/* ---- The node ------------------------------------------------------------ */

static mob_status_t total_add(sched_t *sched, const sched_amount_t *total) {
    uint32_t resource;
    if (!total->amount) return MOB_OK;
    mob_status_t status = sched_names_use(sched->names, total->name, &resource);
    if (status) return status;
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
    sched->node = sched;
    sched->names = calloc(1, sizeof *sched->names);
    if (!sched->names) return MOB_ENOMEM;
    mob_status_t status = sched_names_check(total, count);
    if (!status) status = sched_names_init(sched->names);
    for (size_t i = 0; !status && i < count; i++) status = total_add(sched, &total[i]);
    sched->now = sched->later = sched->total;
    return status;
}

mob_status_t sched_new(const sched_amount_t *total, size_t count, sched_t **ret_sched) {
    if (count > SCHED_NAMES_MAX)
        return base_fail(MOB_ELIMIT,
                         "a node can have at most %d different names of resources, not %zu",
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
    if (sched->is_stirred) unstir(sched);
    for (size_t i = 0; i < sched->jobs.count; i++) {
        sched_shapes_fini(&sched->jobs.items[i]->shapes);
        free(sched->jobs.items[i]);
    }
    vec_free(&sched->jobs);
    vec_free(&sched->turns);
    vec_free(&sched->patients);
    if (!sched->bundle && sched->names) sched_names_fini(sched->names);
    if (!sched->bundle) free(sched->names);
    free(sched->labels);
    free(sched);
}

mob_status_t sched_labels_set(sched_t *sched, const char *labels) {
    if (!sched_labels_check(labels))
        return base_fail(MOB_EINVAL, "'%s' are no labels: write key=value,key=value", labels);
    char *copy = strdup(labels);
    if (!copy) return MOB_ENOMEM;
    free(sched->labels);
    sched->labels = copy;
    return MOB_OK;
}

const char *sched_labels(const sched_t *sched) { return sched->labels; }

size_t sched_resource_count(const sched_t *sched) { return sched->offered; }

void sched_resource_at(const sched_t *sched, size_t index, const char **ret_name,
                       uint64_t *ret_total, int64_t *ret_available) {
    assert(index < sched->offered);
    uint32_t resource = 0;
    for (;; resource++) {
        if (sched->total.free[resource] && index-- == 0) break;
    }
    *ret_name = sched->names->names[resource];
    *ret_total = (uint64_t)sched->total.free[resource];
    *ret_available = sched->now.free[resource];
}

/* ---- Waiting tasks ------------------------------------------------------- */

static void task_enqueue(sched_task_t *task) {
    sched_job_t *job = task->job;
    sched_shape_t *shape = sched_job_shape(job, task->shape);
    assert(shape);
    bool first = !shape->queue.head;
    sched_queue_insert(&shape->queue, task);
    job->queued++;
    if (job->sched->bundle) sched_stir(job->sched);
    if (shape->entry && shape->queue.head == task) sched_entry_renew(shape->entry);
    if (!shape->possible) return;
    if (shape->queue.head == task) sched_kind_note(shape);
    if (first) sched_job_wait(job, sched_order_number(task->order));
}

static void task_dequeue(sched_task_t *task) {
    sched_job_t *job = task->job;
    sched_shape_t *shape = sched_job_shape(job, task->shape);
    bool first = shape->queue.head == task;
    sched_queue_remove(&shape->queue, task);
    job->queued--;
    if (job->sched->bundle) sched_stir(job->sched);
    if (shape->entry && first) sched_entry_renew(shape->entry);
    if (!shape->possible) return;
    if (first) sched_kind_note(shape);
    if (!shape->queue.head) sched_job_unwait(job);
}

void sched_task_add(sched_job_t *job, sched_task_t *task, uint32_t shape, uint64_t now_ns) {
    task->job = job;
    task->shape = shape;
    task->since_ns = now_ns;
    int32_t priority = sched_job_shape(job, shape)->where.priority;
    task->order = sched_order(++job->sched->node->last_order, priority);
    job->sched->node->has_priorities |= priority != 0;
    task_enqueue(task);
}

void sched_task_readd(sched_t *sched, sched_task_t *task) {
    assert(task->job->sched == sched);
    (void)sched;
    task_enqueue(task);
}

void sched_task_remove(sched_t *sched, sched_task_t *task) {
    (void)sched;
    if (task->queued) task_dequeue(task);
}

/* ---- Picking ------------------------------------------------------------- */

static bool kind_closed(const sched_kind_t *kind, const sched_set_t *closed) {
    for (uint32_t i = 0; i < kind->count; i++)
        if (sched_set_has(closed, kind->resources[i])) return true;
    return false;
}

/* The oldest task of a job, of those that are looked for and need nothing that is closed, if it is
 * older than `best`; else `best`. */
static sched_task_t *job_oldest(const sched_job_t *job, const sched_search_t *search,
                                const sched_set_t *closed, sched_task_t *best) {
    for (size_t i = 0; i < job->shapes.kinds.count; i++) {
        const sched_kind_t *kind = job->shapes.kinds.items[i];
        if (!kind_closed(kind, closed)) best = sched_kind_oldest(kind, search, best);
    }
    return best;
}

static const sched_set_t nothing;

/* The one that has the patience, or will have it. What fits now fits later, so if this one can
 * start, it is also the oldest that can. */
static sched_task_t *job_first(const sched_job_t *job) {
    const sched_search_t later = {.fits = &job->sched->later};
    return job_oldest(job, &later, &nothing, NULL);
}

static bool task_may_start(const sched_task_t *task, const sched_set_t *closed) {
    const sched_shape_t *shape = sched_job_shape(task->job, task->shape);
    return !sched_shape_missing(shape, &task->job->sched->now) && !kind_closed(shape->kind, closed);
}

/* Notes what a job's patient lacks now and closes it; whether that is more than before. */
static bool patient_note(sched_task_t *task, sched_set_t *closed) {
    sched_job_t *job = task->job;
    const sched_shape_t *shape = sched_job_shape(job, task->shape);
    bool more = false, only_cpus = true;
    if (job->patient != task->order) sched_job_patient_set(job, task->order);
    for (uint32_t i = 0; i < shape->count; i++) {
        const sched_need_t *need = &shape->needs[i];
        if (need->resource == SCHED_CPU ||
            (sched_pool_has(&job->sched->now, need) && !sched_set_has(closed, need->resource)))
            continue;
        more |= sched_set_add(&job->lacked, need->resource);
        only_cpus = false;
    }
    for (uint32_t i = 0; only_cpus && i < shape->count; i++)
        more |= sched_set_add(&job->lacked, shape->needs[i].resource);
    sched_set_add_all(closed, &job->lacked);
    return more;
}

static bool task_has_patience(const sched_task_t *task, uint64_t now_ns) {
    return now_ns >= task->since_ns && now_ns - task->since_ns >= SCHED_PATIENCE_NS;
}

/* Whether running tasks of a job hold something that its patient lacks. */
static bool job_runs_lacked(const sched_job_t *job) {
    for (uint32_t word = 0; word < SCHED_NAMES_MAX / 64; word++) {
        for (uint64_t bits = job->lacked.words[word]; bits; bits &= bits - 1)
            if (job->running[word * 64 + (uint32_t)__builtin_ctzll(bits)]) return true;
    }
    return false;
}

/* The patient of a job if none of its own stands in its way; else NULL. */
static sched_task_t *job_patient(const sched_job_t *job) {
    sched_task_t *first = job->patient && !job_runs_lacked(job) ? job_first(job) : NULL;
    return first && first->order == job->patient ? first : NULL;
}

/* The patients that are ahead: the first of them that may start, else NULL and what they lack is
 * closed. */
static sched_task_t *pick_ahead(sched_t *sched, sched_set_t *closed, bool *more) {
    for (size_t i = 0; i < sched->patients.count; i++) {
        sched_job_t *job = sched->patients.items[i];
        sched_task_t *patient = job->passed >= sched->turns.count ? job_patient(job) : NULL;
        job->ahead = patient != NULL;
        if (!patient) continue;
        if (task_may_start(patient, closed)) return patient;
        *more |= patient_note(patient, closed);
    }
    return NULL;
}

/* One job's turn. */
static sched_task_t *pick_of_job(sched_job_t *job, uint64_t now_ns, sched_set_t *closed) {
    if (!job->ahead) {
        sched_task_t *first = job_first(job);
        if (!first || task_may_start(first, closed)) return first;
        if (task_has_patience(first, now_ns)) patient_note(first, closed);
    }
    const sched_search_t now = {.fits = &job->sched->now};
    return job_oldest(job, &now, closed, NULL);
}

static sched_task_t *pick(sched_t *sched, uint64_t now_ns, bool *more) {
    sched_set_t closed = {0};
    sched_task_t *task = pick_ahead(sched, &closed, more);
    for (size_t i = 0; !task && i < sched->turns.count; i++)
        task = pick_of_job(sched->turns.items[i], now_ns, &closed);
    return task;
}

/* Counts for the patients of other jobs that this kind is given some of what they lack. */
static void patients_pass(const sched_job_t *job, const sched_kind_t *kind) {
    for (size_t i = 0; i < job->sched->patients.count; i++) {
        sched_job_t *other = job->sched->patients.items[i];
        if (other != job && kind_closed(kind, &other->lacked) && !job_runs_lacked(other))
            other->passed++;
    }
}

static void task_grant(sched_task_t *task, sched_lease_t *ret_lease) {
    sched_job_t *job = task->job;
    const sched_shape_t *shape = sched_job_shape(job, task->shape);
    int64_t gpus = sched_shape_amount(shape, SCHED_GPU);
    sched_lease_t lease = {.job = job, .shape = task->shape, .state = SCHED_LEASE_HELD};
    if (gpus) lease.gpu_mask = sched_pool_gpus_choose(&job->sched->now, gpus);
    patients_pass(job, shape->kind);
    task_dequeue(task);
    job->turn = ++job->sched->node->last_order;
    job->served = true;
    *ret_lease = (sched_lease_t){0};
    sched_lease_set(ret_lease, lease);
}

/* The first of a shape's tasks has waited for too long: it has the highest priority from now on. */
static void starving_raise(sched_shape_t *shape, uint64_t now_ns) {
    sched_task_t *head = shape->queue.head;
    if (sched_order_priority(head->order) == SCHED_STARVING || now_ns < head->since_ns ||
        now_ns - head->since_ns < SCHED_STARVING_NS)
        return;
    head->order = sched_order(sched_order_number(head->order), SCHED_STARVING);
    sched_kind_note(shape);
}

static void starving_look(sched_t *sched, uint64_t now_ns) {
    for (size_t j = 0; j < sched->turns.count; j++) {
        const sched_kinds_t *kinds = &sched->turns.items[j]->shapes.kinds;
        for (size_t k = 0; k < kinds->count; k++)
            for (uint32_t i = 0; i < kinds->items[k]->waiting; i++)
                starving_raise(kinds->items[k]->leaves[i], now_ns);
    }
}

static sched_task_t *task_next(sched_t *sched, uint64_t now_ns, sched_lease_t *ret_lease) {
    sched_task_t *task;
    bool more;
    /* inside a bundle a ticket has the place of the task that it is for */
    if (sched->has_priorities) starving_look(sched, now_ns);
    do {
        more = false;
        task = pick(sched, now_ns, &more);
    } while (!task && more);
    if (task) task_grant(task, ret_lease);
    return task;
}

/* Bundles have nothing to do with each other, nor with the rest of the node: so in which order they
 * are looked at makes no difference to anybody. */
sched_task_t *sched_task_next(sched_t *sched, uint64_t now_ns, sched_lease_t *ret_lease) {
    sched_task_t *task = task_next(sched, now_ns, ret_lease);
    while (!task && sched->stirred) {
        sched_t *inside = sched->stirred;
        sched_task_t *ticket = task_next(inside, now_ns, ret_lease);
        if (ticket)
            task = sched_ticket_redeem((sched_ticket_t *)ticket);
        else
            unstir(inside);
    }
    return task;
}

/* Whether the task has a lower priority than the demand that `than`, of its own job, is for. */
static bool is_below(const sched_task_t *task, const sched_task_t *than) {
    const sched_shape_t *shape =
        task && than && than->job == task->job ? sched_job_shape(than->job, than->shape) : NULL;
    return shape && sched_order_priority(task->order) < shape->where.priority;
}

int64_t sched_cpu_lacking(const sched_t *sched, const sched_task_t *except,
                          const sched_job_t *holder, uint64_t *ret_since_ns) {
    sched_search_t search = {.fits = &sched->later, .lacks = &sched->now, .except = except};
    sched_task_t *oldest = NULL;
    if (except && sched->bundle) search.except = sched_ticket_of(sched->bundle, except);
    for (size_t i = 0; i < sched->turns.count; i++) {
        const sched_job_t *job = sched->turns.items[i];
        bool whole = !holder || job == holder || job->cpus < holder->cpus;
        sched_task_t *task = job_oldest(job, &search, &nothing, whole ? oldest : NULL);
        if (job == holder && task != oldest && is_below(task, except)) continue;
        if (whole)
            oldest = task;
        else if (task && task == job_patient(job) && (!oldest || task->order < oldest->order))
            oldest = task;
    }
    if (!oldest) return 0;
    *ret_since_ns = oldest->since_ns;
    return sched_shape_amount(sched_job_shape(oldest->job, oldest->shape), SCHED_CPU) -
           sched->now.free[SCHED_CPU];
}

bool sched_job_gives_way(const sched_job_t *holder) {
    const sched_t *sched = holder->sched;
    const sched_search_t search = {.fits = &sched->later, .lacks = &sched->now};
    for (size_t i = 0; i < sched->turns.count; i++) {
        const sched_job_t *job = sched->turns.items[i];
        if (job->cpus >= holder->cpus) return false; /* and so it is with those behind */
        if (job_oldest(job, &search, &nothing, NULL)) return true;
    }
    return false;
}

bool sched_has_priorities(const sched_t *sched) { return sched->has_priorities; }

bool sched_job_waits_above(const sched_job_t *job, uint32_t shape) {
    const sched_task_t *first = job->sched->has_priorities ? job_first(job) : NULL;
    return first &&
           sched_order_priority(first->order) > sched_job_shape(job, shape)->where.priority;
}

sched_task_t *sched_task_ahead(sched_job_t *job, uint32_t shape) {
    const sched_shape_t *mine = sched_job_shape(job, shape);
    assert(mine);
    sched_task_t *task = mine->queue.head;
    uint32_t others = job->waiting - (task && mine->possible);
    if (!task || others > 0 || job->sched->turns.count > (size_t)(job->waiting > 0)) return NULL;
    task_dequeue(task);
    return task;
}

sched_task_t *sched_task_behind(const sched_job_t *job, uint32_t shape, const sched_task_t *after) {
    assert(after == NULL || (after->queued && after->shape == shape));
    return after ? after->next : sched_job_shape(job, shape)->queue.head;
}
