/*
 * Memory short on the machine, or in the control group: what is done before the kernel does it.
 *
 * While something runs, a timer looks how much is used. Above the threshold
 * (RAY_memory_usage_threshold of the limit), in this order (or when it would be reached in AHEAD_NS
 * if it went on like this, so long may the end of a process take):
 *
 *   1. Nothing new is started: leases are recalled, what was given to workers ahead is taken back.
 *      Tasks wait, and are let through one after the other, for else nothing would ever end.
 *   2. The store gives back what it does not use, and moves objects to disk. Idle workers that kept
 *      much of what their last task used are sent home.
 *   3. Still short after PATIENCE_NS and the store has no more to give, or about to reach the limit
 *      itself: one process is ended, and the driver is told, with the largest ones. It is the
 *      newest task that may be run again; else the newest task; else the newest actor that may be
 *      made again; else the newest actor. A leap of
 *      what is used may look like the limit; so while the store still gives, that counts only after
 *      PATIENCE_NS too (if it was no leap, the kernel ends the same worker).
 *
 * A task that was ended so is run again later, without using up its retries; one that can't be, or
 * that ran alone while the store had nothing to give and so needs more than there is, fails with
 * MOB_EOOM; one that has less than what is too much goes on alone. The next one is ended only after
 * this one's memory had time to come back. Daemon and driver are never chosen. If the kernel is
 * faster, it finds workers marked as the ones to take (oom_score_adj), and we tell by the group's
 * count of kills.
 *
 * Nothing polls while nothing runs: then `watched` is 0, and whoever wakes to work tells us
 * (shm/node.h). The timer stops when it finds all at rest.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"
#include "node/ahead.h"
#include "node/runname.h"
#include "node/state.h"
#include "node/watch.h"

static const uint64_t BLIND_NS = 5000000000u, PATIENCE_NS = 400000000, KILL_PAUSE_NS = 1000000000,
                      KERNEL_NS = 2000000000u, RELIEF_NS = 50000000, RELIEF_MOST_NS = 2000000000u,
                      GIVING_NS = 5000000000u;
static const double AHEAD_NS = 1e8;
enum {
    LEAST_MS = 20,
    LARGEST = 5,
    IDLE_BYTES = 32 << 20,
    FAST = 2 << 20 /* bytes that few processes add in 1 ms */
};

/* What a worker is busy with. */
typedef struct {
    node_client_t *worker;
    uint32_t
        record; /* of its task; UINT32_MAX: an actor between calls, or one that we don't know of */
    bool is_actor, retries;
    uint64_t start_ns;
} busy_t;

/* ---- who works ---- */

static const wire_record_t *record_of(node_t *n, node_client_t *w, uint32_t *ret_index) {
    uint32_t index = UINT32_MAX;
    if (w->runs != NULL)
        index = w->runs->record;
    else if (w->leased)
        index = atomic_load(&n->shared->leases[w->number].run) - 1; /* 0: none */
    if (index >= WIRE_MAX_RECORDS) return NULL;
    *ret_index = index;
    return &n->records[index];
}

/* Its memory does not grow: it sleeps until somebody wakes it, and then says so. Sequentially
 * consistent, against `watched`. */
static bool is_at_rest(node_t *n, node_client_t *w) {
    const shm_lease_t *lease = &n->shared->leases[w->number];
    if (w->role != WIRE_WORKER || w->state != NODE_LIVE) return true;
    if (w->runs != NULL) return false;
    if (w->actor != NULL)
        return atomic_load(&lease->calls) == 0 &&
               (w->actor->queues.count == 0 || atomic_load(&lease->rests) != 0);
    if (!w->leased) return true;
    return atomic_load(&lease->word) == SHM_LEASE_FREE &&
           (atomic_load(
                &n->shared->lanes[node_lane_number(w->job, w->lane)].workers[w->number / 64].idle) &
            shm_node_bit(w->number)) != 0;
}

static bool all_rest(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && !is_at_rest(n, n->clients[i])) return false;
    return true;
}

/* It has a task, or is an actor. False: nothing of it is worth ending. */
static bool busy_with(node_t *n, node_client_t *w, busy_t *ret_busy) {
    if (w->role != WIRE_WORKER || w->state != NODE_LIVE) return false;
    *ret_busy = (busy_t){.worker = w,
                         .record = UINT32_MAX,
                         .is_actor = w->actor != NULL,
                         .start_ns = w->actor ? w->actor_ns : 0};
    if (w->actor != NULL) ret_busy->retries = actor_life_may_restart(&w->actor->life);
    const wire_record_t *record = record_of(n, w, &ret_busy->record);
    if (record == NULL) return w->actor != NULL;
    if (!ret_busy->is_actor)
        ret_busy->start_ns = record->start_ns;
    else
        return true;
    ret_busy->retries =
        record->kind == MOB_TASK && (w->runs != NULL ? w->runs->retries : record->max_retries) != 0;
    return true;
}

/* Its task waits for others. */
static bool is_blocked(node_t *n, const node_client_t *w) {
    uint32_t state = atomic_load(&n->shared->leases[w->number].word) & SHM_LEASE_STATE;
    if (w->leased) return state == SHM_LEASE_BLOCKED || state == SHM_LEASE_LENT;
    return w->runs != NULL && w->runs->lease.state == SCHED_LEASE_BLOCKED;
}

/* Tasks that run beside `apart`, or did until just now. */
static uint32_t tasks_running(node_t *n, const node_client_t *apart) {
    uint32_t count = 0;
    busy_t b;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || w == apart) continue;
        count += w->state == NODE_DYING ? w->oom[0] != 0
                                        : busy_with(n, w, &b) && !b.is_actor && !is_blocked(n, w);
    }
    return count;
}

/* Somebody was ended whose memory is not back yet. */
static bool one_is_dying(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->state == NODE_DYING &&
            n->clients[i]->oom[0] != 0)
            return true;
    return false;
}

/* ---- words ---- */

/* What a worker has, and the processes that its task started. The driver's children are not its
 * own: we are among them. */
static uint64_t bytes_of(const node_client_t *c) {
    return base_process_bytes(c->pid) +
           (c->role == WIRE_DRIVER ? 0 : base_process_children_bytes(c->pid));
}

static void name_of(node_t *n, const busy_t *b, char *ret_name, size_t capacity) {
    if (b->is_actor) {
        snprintf(ret_name, capacity, "the actor %s", b->worker->actor->name);
        return;
    }
    char name[256] = "";
    if (b->worker->runs != NULL)
        node_task_name(n, b->worker->runs, name, sizeof name);
    else if (b->record != UINT32_MAX)
        (void)node_record_name(n, b->record, name, sizeof name);
    snprintf(ret_name, capacity, "the task %s", name);
}

void node_worker_name(node_client_t *w, char *ret_name, size_t capacity) {
    busy_t b;
    if (!busy_with(w->node, w, &b)) {
        snprintf(ret_name, capacity, "A worker");
        return;
    }
    name_of(w->node, &b, ret_name, capacity);
    ret_name[0] = 'T';
}

typedef struct {
    uint64_t bytes;
    node_client_t *client;
} sized_t;

static int sized_compare(const void *a, const void *b) {
    uint64_t x = ((const sized_t *)a)->bytes, y = ((const sized_t *)b)->bytes;
    return x > y ? -1 : x < y;
}

/* "worker 12 (f) 300 MiB, driver 10 50 MiB" */
static void largest_text(node_t *n, char *text, size_t capacity) {
    static sized_t all[SHM_MAX_CLIENTS];
    size_t count = 0, at = 0;
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->state == NODE_LIVE)
            all[count++] = (sized_t){.bytes = bytes_of(n->clients[i]), .client = n->clients[i]};
    qsort(all, count, sizeof *all, sized_compare);
    text[0] = 0;
    for (size_t i = 0; i < count && i < LARGEST && at < capacity; i++) {
        char name[300] = "";
        busy_t b;
        if (busy_with(n, all[i].client, &b)) name_of(n, &b, name, sizeof name);
        at += (size_t)snprintf(
            text + at, capacity - at, "%s%s %d%s%s%s %llu MiB", i > 0 ? ", " : "",
            all[i].client->role == WIRE_DRIVER ? "driver" : "worker", (int)all[i].client->pid,
            *name ? " (" : "", name, *name ? ")" : "", (unsigned long long)(all[i].bytes >> 20));
    }
}

/* ---- ending one ---- */

/* Whether `a` is rather to be ended than `b`. */
static bool is_rather(const busy_t *a, const busy_t *b) {
    if (a->is_actor != b->is_actor) return b->is_actor;
    if (a->retries != b->retries) return a->retries;
    return a->start_ns > b->start_ns;
}

static bool store_gives(const node_t *n);

static void worker_end(node_t *n, const busy_t *b, bool again, const char *why) {
    char name[320], largest[900];
    name_of(n, b, name, sizeof name);
    largest_text(n, largest, sizeof largest);
    snprintf(b->worker->oom, sizeof b->worker->oom, "%s", why);
    b->worker->oom_again = again;
    node_job_warn(b->worker->job, "%s: %s (pid %d) was ended%s. Largest processes: %s.", why, name,
                  (int)b->worker->pid, again ? ", and will be run again when there is memory" : "",
                  largest);
    node_client_kill(b->worker);
    n->pressure.last_kill_ns = base_clock_mono_ns();
}

static void one_end(node_t *n, uint64_t used, uint64_t soon, uint64_t allowed, uint64_t limit) {
    busy_t chosen = {0}, b;
    if (one_is_dying(n)) return;
    for (uint32_t i = 1; i < n->client_next; i++) {
        if (n->clients[i] == NULL || !busy_with(n, n->clients[i], &b)) continue;
        if (chosen.worker == NULL || is_rather(&b, &chosen)) chosen = b;
    }
    if (chosen.worker == NULL) return;
    bool alone = tasks_running(n, chosen.worker) == 0;
    /* Somebody else has the memory, the driver or who is none of ours: ending a small task would
     * not help, and it would fail for good. */
    if (alone && !chosen.is_actor && bytes_of(chosen.worker) < soon - allowed) return;
    char why[200];
    char growth[80] = "";
    if (soon >= limit && soon > used)
        snprintf(growth, sizeof growth, " and %llu MiB more are expected soon",
                 (unsigned long long)(soon - used) >> 20);
    snprintf(why, sizeof why, "Memory is short, %.1f %% of %llu MiB are used%s",
             100.0 * (double)used / (double)limit, (unsigned long long)(limit >> 20), growth);
    worker_end(n, &chosen, chosen.retries && (chosen.is_actor || !alone || store_gives(n)), why);
}

/* Tasks that use more than the memory= that they asked for, if that is to be enforced. */
static void greedy_end(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++) {
        busy_t b;
        sched_amount_t demand[SCHED_NEEDS_MAX];
        if (n->clients[i] == NULL || !busy_with(n, n->clients[i], &b)) continue;
        if (!b.is_actor && b.record == UINT32_MAX) continue;
        uint32_t shape = b.is_actor ? b.worker->lease.shape : n->records[b.record].shape;
        size_t count =
            sched_shape_valid(b.worker->job->sched, shape)
                ? sched_shape_demand(b.worker->job->sched, shape, demand, SCHED_NEEDS_MAX)
                : 0;
        for (size_t k = 0; k < count; k++) {
            if (strcmp(demand[k].name, "memory") != 0) continue;
            uint64_t asked = demand[k].amount / SCHED_UNIT, has = bytes_of(b.worker),
                     born = b.worker->born_bytes;
            has = has > born ? has - born : 0;
            if (has <= asked) continue;
            char why[200];
            snprintf(why, sizeof why, "It asked for memory=%llu and uses %llu bytes",
                     (unsigned long long)asked, (unsigned long long)has);
            worker_end(n, &b, b.is_actor && b.retries, why);
            break;
        }
    }
}

void node_pressure_begins(node_client_t *w) {
    if (w->node->pressure.enforce) w->born_bytes = bytes_of(w);
}

/* Kills of the kernel whose victims we have not seen; those of other processes are forgotten after
 * a while. */
static void kernel_kills_note(node_t *n) {
    uint64_t kills = base_memory_kills(""), now = base_clock_mono_ns();
    if (kills == n->pressure.kernel_kills) return;
    if (now - n->pressure.kernel_kill_ns > KERNEL_NS) n->pressure.kernel_owes = 0;
    n->pressure.kernel_owes += kills - n->pressure.kernel_kills;
    n->pressure.kernel_kills = kills;
    n->pressure.kernel_kill_ns = now;
}

void node_pressure_died(node_client_t *w) {
    node_t *n = w->node;
    if (w->killed || !w->exited || !WIFSIGNALED(w->exit_status) ||
        WTERMSIG(w->exit_status) != SIGKILL)
        return;
    kernel_kills_note(n);
    /* somebody's kill -9 */
    if (n->pressure.kernel_owes == 0 ||
        base_clock_mono_ns() - n->pressure.kernel_kill_ns > KERNEL_NS)
        return;
    n->pressure.kernel_owes--;
    snprintf(w->oom, sizeof w->oom,
             "The kernel ended it, for memory is used up: the machine's, or its control group's");
    w->oom_again = tasks_running(n, w) > 0 || store_gives(n);
    node_job_warn(w->job, "The worker %d: %s.", (int)w->pid, w->oom);
}

void node_pressure_spare(node_client_t *w) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)w->pid);
    FILE *file = fopen(path, "we");
    if (file == NULL) return;
    fputs("500", file);
    fclose(file);
}

/* ---- the watch ---- */

static void on_timer(uv_timer_t *timer);

static void timer_set(node_t *n, uint64_t ms) {
    uv_timer_start(&n->pressure.timer, on_timer, ms, 0);
}

/* Until the next look: so that what is left can't be used up meanwhile by what grows fast. */
static uint64_t look_pause(const node_t *n, uint64_t used, uint64_t limit) {
    uint64_t ms = (used < limit ? limit - used : 0) / FAST;
    if (ms < LEAST_MS) ms = LEAST_MS;
    return ms < n->pressure.refresh_ms ? ms : n->pressure.refresh_ms;
}

static void watch_stop(node_t *n) {
    /* First the word, then the look: who wakes after our look reads the word after that. */
    atomic_store(&n->shared->watched, 0);
    n->pressure.last_used = 0;
    if (all_rest(n)) return;
    atomic_store(&n->shared->watched, 1);
    timer_set(n, n->pressure.look_ms);
}

/* The store's part; with pauses that grow as long as there is nothing to be had. */
static void store_relieve(node_t *n, uint64_t bytes) {
    uint64_t now = base_clock_mono_ns(), free_before = n->books.free_bytes;
    if (node_folders_are_written(n) || now < n->pressure.relief_ns) return;
    node_spill_idlest(n, bytes);
    node_extents_give_back(n); /* what was free, and what had a copy on disk and so went at once */
    bool moved = node_folders_are_written(n) || n->books.free_bytes != free_before;
    n->pressure.relief_pause_ns = moved ? RELIEF_NS
                                  : n->pressure.relief_pause_ns < RELIEF_MOST_NS
                                      ? 2 * n->pressure.relief_pause_ns + RELIEF_NS
                                      : RELIEF_MOST_NS;
    n->pressure.relief_ns = now + n->pressure.relief_pause_ns;
}

/* It is giving memory back, or was when it was last asked to. */
static bool store_gives(const node_t *n) {
    return node_folders_are_written(n) || n->pressure.relief_pause_ns == RELIEF_NS;
}

/* Nobody misses a worker without a task, and it may have kept much of what its last one used:
 * beyond what it was born with, which it shares with the zygote. */
static void idle_end(const node_pool_t *pool) {
    uint64_t most =
        (pool->idle.count > 0 ? base_process_bytes(pool->setup->zygote.pid) : 0) + IDLE_BYTES;
    for (size_t i = pool->idle.count; i-- > 0;) {
        node_client_t *w = pool->idle.items[i];
        if (base_process_bytes(w->pid) < most || !node_worker_retire(w)) continue;
        /* nobody else is ended before this one is gone */
        snprintf(w->oom, sizeof w->oom, "Memory is short");
        node_client_kill(w);
    }
}

static void pressure_relieve(node_t *n, uint64_t used, uint64_t soon, uint64_t limit) {
    uint64_t now = base_clock_mono_ns(),
             allowed = (uint64_t)(n->pressure.threshold * (double)limit);
    if (n->pressure.short_since_ns == 0) n->pressure.short_since_ns = now;
    n->pressure.paused = true;
    node_leases_recall(n);
    node_ahead_hold_back(n);
    store_relieve(n, (soon > allowed ? soon - allowed : 0) + limit / 20);
    NODE_EACH_JOB(n, job)
    NODE_EACH_POOL(job, pool) idle_end(pool);
    uint64_t since = now - n->pressure.short_since_ns;
    bool gives = store_gives(n), patient = since < PATIENCE_NS,
         at_once = soon >= limit && !(gives && patient);
    if (at_once ? now - n->pressure.last_kill_ns > KILL_PAUSE_NS / 10
                : used > allowed && !patient && !(gives && since < GIVING_NS) &&
                      now - n->pressure.last_kill_ns > KILL_PAUSE_NS)
        one_end(n, used, soon, allowed, limit);
}

/* Nothing new is held back any more. */
static void pressure_over(node_t *n) {
    n->pressure.short_since_ns = 0;
    n->pressure.paused = false;
    node_schedule(n);
}

static void on_timer(uv_timer_t *timer) {
    node_t *n = timer->data;
    uint64_t used, limit, now = base_clock_mono_ns();
    if (n->ending) return;
    if (base_memory_usage("", &used, &limit) != MOB_OK) {
        /* Nothing can be said: not for want of descriptors or memory that may be back soon. */
        if (n->pressure.paused && now - n->pressure.looked_ns > BLIND_NS) pressure_over(n);
        timer_set(n, n->pressure.refresh_ms);
        return;
    }
    uint64_t since = now - n->pressure.looked_ns;
    n->pressure.looked_ns = now;
    kernel_kills_note(n);
    /* Growth is that of one and the same group; the first look tells nothing about it. */
    bool same = n->pressure.last_limit == limit && n->pressure.last_used != 0;
    double passed = (double)(since + 1),
           growth = same ? (double)used - (double)n->pressure.last_used : 0;
    n->pressure.growth += (growth / passed - n->pressure.growth) * passed / (passed + AHEAD_NS);
    if (n->pressure.growth < 0 || !same) n->pressure.growth = 0;
    uint64_t soon = used + (uint64_t)(n->pressure.growth * AHEAD_NS);
    n->pressure.look_ms = look_pause(n, used, limit);
    n->pressure.last_used = used;
    n->pressure.last_limit = limit;
    if (n->pressure.enforce) greedy_end(n);
    if ((double)soon > n->pressure.threshold * (double)limit) {
        pressure_relieve(n, used, soon, limit);
    } else if (n->pressure.short_since_ns != 0 && now - n->pressure.last_kill_ns > KILL_PAUSE_NS) {
        pressure_over(n);
    }
    if (all_rest(n) && !node_folders_are_written(n)) {
        /* Whoever holds the memory, it is none of ours that works. What waits is begun, or nothing
         * would ever change. */
        if (n->pressure.paused) pressure_over(n);
        watch_stop(n);
    } else {
        timer_set(n, n->pressure.look_ms);
    }
}

/* Before the loop sleeps: somebody may have begun to work. */
void node_pressure_watch(node_t *n) {
    if (n->pressure.refresh_ms == 0 ||
        atomic_load_explicit(&n->shared->watched, memory_order_relaxed) != 0 || all_rest(n))
        return;
    atomic_store(&n->shared->watched, 1);
    /* others may have used much meanwhile */
    timer_set(n, LEAST_MS < n->pressure.refresh_ms ? LEAST_MS : n->pressure.refresh_ms);
}

/* A task runs, or is about to: who has a lease will take one, or gives it up when we look next.
 * Actors are not asked, and who waits for others does nothing by itself. */
static bool one_runs(node_t *n) {
    NODE_EACH_JOB(n, job)
    NODE_EACH_POOL(job, pool)
    if (pool->waiting > 0) return true;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || w->role != WIRE_WORKER || w->actor != NULL) continue;
        if (w->state == NODE_DYING
                ? w->oom[0] != 0
                : w->state == NODE_LIVE && (w->runs != NULL || w->leased) && !is_blocked(n, w))
            return true;
    }
    return false;
}

/* Nothing new is to be started now. If nothing runs, one has to be, or nothing would ever
 * change. */
bool node_is_paused(node_t *n) { return n->pressure.paused && one_runs(n); }

mob_status_t node_pressure_start(node_t *n) {
    n->pressure.look_ms = look_pause(n, 0, 0);
    n->pressure.kernel_kills = base_memory_kills("");
    n->pressure.timer.data = n;
    atomic_store(&n->shared->watched,
                 n->pressure.refresh_ms == 0); /* 1 for ever: nobody need tell */
    return node_watch(uv_timer_init(&n->loop, &n->pressure.timer), "making a timer");
}
