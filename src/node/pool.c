/*
 * Workers: from being asked for to their end. Each job has its own, in pools.
 *
 * A task that the scheduler has given its resources goes to an idle worker of its pool, the one
 * that became idle last; without one the task waits, in order, while a worker is forked. There are
 * more workers than CPUs only because some were blocked: the daemon sends those home that are idle
 * for a while.
 *
 * Spares: a fork takes milliseconds, so the daemon has a worker a CPU before a task asks: from when
 * the zygote has loaded what it will load, and again when workers have become actors. It starts
 * spares when no task waits for a worker. It does not replace a spare that dies until a task needs
 * it: whatever ended it may end the next.
 *
 * If workers end before they ran anything, the daemon starts others after pauses that grow. After
 * MAX_USELESS in a row it fails the tasks that wait for one, with what is known.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "node/state.h"

static const uint64_t PATIENCE_NS = 4000000000, /* an error comes within 5 s */
    FORGET_NS = 30000000000;

enum {
    MAX_PAUSE_MS = 50,
    MAX_STARTING = 16,
    MAX_SPARE = 16,
    MAX_USELESS = 10,
    IDLE_MS = 2000,
    ENVIRONMENT_IDLE_MS = 10000
};

/* ---- pools ---- */

mob_status_t node_pool_new(node_job_t *job, node_setup_t *setup) {
    node_pool_t *pool = calloc(1, sizeof *pool);
    if (pool == NULL || !vec_push(&job->pools, pool)) {
        free(pool);
        node_setup_drop(setup);
        return MOB_ENOMEM;
    }
    pool->job = job;
    pool->setup = setup;
    pool->number = (uint32_t)job->pools.count - 1;
    pool->spares_wanted = setup != NULL && setup->zygote.client != NULL;
    return MOB_OK;
}

void node_pool_free(node_pool_t *pool) {
    vec_free(&pool->starting);
    vec_free(&pool->idle);
    vec_free(&pool->told);
    node_setup_drop(pool->setup);
    free(pool->environment);
    free(pool);
}

node_pool_t *node_pool_of(const node_job_t *job, uint32_t shape) {
    return job->pools.items[sched_shape_where(job->sched, shape)->tag];
}

node_pool_t *node_pool_first(const node_job_t *job) { return job->pools.items[0]; }

/* ---- tasks that wait for a worker ---- */

static node_task_t *wait_pop(node_pool_t *pool) {
    node_task_t *t = pool->wait_head;
    if (t == NULL) return NULL;
    pool->wait_head = t->next;
    if (pool->wait_head == NULL) pool->wait_tail = NULL;
    pool->waiting--;
    t->waiting_for_worker = false;
    return t;
}

void node_pool_wait(node_task_t *t) {
    node_pool_t *pool = node_pool_of(t->job, t->shape);
    t->next = NULL;
    if (pool->wait_tail)
        pool->wait_tail->next = t;
    else
        pool->wait_head = t;
    pool->wait_tail = t;
    pool->waiting++;
    t->waiting_for_worker = true;
}

void node_pool_unwait(node_task_t *t) {
    node_pool_t *pool = node_pool_of(t->job, t->shape);
    node_task_t **at = &pool->wait_head, *before = NULL;
    while (*at != NULL && *at != t) before = *at, at = &(*at)->next;
    if (*at == NULL) return;
    *at = t->next;
    if (pool->wait_tail == t) pool->wait_tail = before;
    pool->waiting--;
    t->waiting_for_worker = false;
}

void node_pool_fail(node_pool_t *pool, mob_status_t status, const char *text) {
    node_t *n = pool->job->node;
    if (pool->job->farewell.leaving) status = MOB_ECANCELLED;
    node_lease_abandon(pool);
    node_queues_fail(pool, status, text);
    for (node_task_t *t; (t = wait_pop(pool)) != NULL;) {
        if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL && status == MOB_ESETUP)
            node_actor_end(n, t->actor, status, text);
        else if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL)
            node_actor_died(n, t->actor, text); /* fails the creation too */
        else
            node_task_fail(n, t, status, text);
    }
}

/* ---- workers that are of no use ---- */

/* Whether the worker has run anything; of what it takes by itself the daemon sees only the
 * events. */
static bool has_worked(const node_client_t *w) {
    return w->has_worked || (w->events != NULL && atomic_load(&w->events->tail) > 0);
}

/* Whether a worker that was started after the first that ended at once is of use. What older
 * workers do says nothing about new ones that can't begin. */
static bool newer_one_works(node_pool_t *pool) {
    node_t *n = pool->job->node;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w != NULL && w->pool == pool && w->started_ns > pool->first_failure_ns && has_worked(w))
            return true;
    }
    return false;
}

/* Whether it has begun something, or did before. */
static bool is_at_work(node_client_t *w) {
    uint32_t lease = atomic_load(&w->node->shared->leases[w->number].word) & SHM_LEASE_STATE;
    uint64_t word = w->runs != NULL ? atomic_load(&w->node->records[w->runs->record].word) : 0;
    return w->actor != NULL || has_worked(w) ||
           (lease != SHM_LEASE_NONE && lease != SHM_LEASE_FREE) ||
           (w->runs != NULL && wire_word_state(word) != WIRE_READY_STATE);
}

void node_worker_unfit(node_client_t *w, const wire_message_t *m) {
    if (w->role != WIRE_WORKER || m->failure.size > SHM_SCRATCH_BYTES || is_at_work(w)) {
        node_client_fault(w, "said that it can't work, which makes no sense");
        return;
    }
    node_t *n = w->node;
    free(w->unfit);
    w->unfit = strndup((const char *)w->segment.base + SHM_CLIENT_SCRATCH, m->failure.size);
    const char *why = w->unfit != NULL ? w->unfit : "the worker's setup hook failed";
    w->retiring = true;
    node_client_tell(w, wire_answer(MOB_OK, 0));
    /* what it was given before it said so; the rest fails when its end is certain */
    node_task_t *t = w->runs;
    if (t != NULL && t->kind == MOB_ACTOR_CREATE && t->actor != NULL)
        node_actor_end(n, t->actor, MOB_ESETUP, why);
    node_pool_fail(w->pool, MOB_ESETUP, why);
}

/* A worker has ended before it ran anything: the next start waits a little. */
static void useless_note(node_pool_t *pool) {
    uint64_t now = base_clock_mono_ns();
    /* not in a row */
    if (now - pool->last_failure_ns > FORGET_NS || newer_one_works(pool)) pool->failures = 0;
    pool->last_failure_ns = now;
    if (pool->failures++ == 0) pool->first_failure_ns = now;
}

/* Fails the tasks that wait for a worker, if that many have ended by now. */
static void useless_tell(node_pool_t *pool, const char *how, bool by_itself) {
    /* Workers that another process kills say nothing about the next one, unless that goes on and
     * on. */
    if (pool->failures < MAX_USELESS ||
        (!by_itself && pool->last_failure_ns - pool->first_failure_ns < PATIENCE_NS))
        return;
    char text[512];
    snprintf(text, sizeof text,
             "%d workers in a row ended before they ran anything (the last one: %s). What they "
             "printed tells why",
             pool->failures, how);
    pool->failures = 0; /* the next task tries again */
    node_pool_fail(pool, MOB_ESYS, text);
}

void node_worker_useless(node_pool_t *pool, const char *how, bool by_itself) {
    useless_note(pool);
    useless_tell(pool, how, by_itself);
}

/* A pause after each worker that ended at once, the longer the more there were: else the machine
 * would do nothing but start workers. */
static bool start_is_held(const node_pool_t *pool) {
    if (pool->failures == 0) return false;
    uint64_t pause_ms = (uint64_t)(pool->failures < MAX_PAUSE_MS ? pool->failures : MAX_PAUSE_MS);
    if (base_clock_mono_ns() >= pool->last_failure_ns + pause_ms * 1000000) return false;
    node_look_again(pool->job->node, pause_ms);
    return true;
}

/* ---- starting ---- */

static void starting_remove(node_client_t *w) {
    node_pool_t *pool = w->pool;
    for (size_t i = 0; i < pool->starting.count; i++) {
        if (pool->starting.items[i] != w) continue;
        vec_swap_remove(&pool->starting, i);
        return;
    }
}

/* Without its pipes the worker is given up; later there may be pipes. */
void node_worker_give_up(node_client_t *w, const char *why) {
    node_pool_t *pool = w->pool;
    char text[192];
    snprintf(text, sizeof text, "the daemon could not make its pipes: %s", why);
    starting_remove(w);
    node_client_close(w);
    node_worker_useless(pool, text, true);
    node_look_again(pool->job->node, 1000);
}

static bool worker_start(node_pool_t *pool) {
    node_t *n = pool->job->node;
    node_client_t *w = node_client_new(n);
    if (w == NULL) return false;
    w->state = NODE_STARTING;
    w->role = WIRE_WORKER;
    w->token = ++n->next_token;
    w->started_ns = base_clock_mono_ns();
    w->pool = pool;
    pool->workers++;
    node_job_join(pool->job, w);
    if (!vec_push(&pool->starting, w)) {
        node_client_close(w);
        return false;
    }
    return pool->setup->zygote.client == NULL || node_zygote_fork(w);
}

void node_worker_start_failed(node_client_t *w) {
    node_t *n = w->node;
    node_pool_t *pool = w->pool;
    starting_remove(w);
    if (pool->setup->zygote.client != NULL) node_worker_useless(pool, "it did not connect", false);
    node_client_close(w);
    node_schedule(n);
}

/* The worker that was asked for under this token; NULL: none. */
static node_client_t *starting_find(node_t *n, uint64_t token) {
    NODE_EACH_JOB(n, job)
    NODE_EACH_POOL(job, pool)
    for (size_t i = 0; i < pool->starting.count; i++)
        if (pool->starting.items[i]->token == token) return pool->starting.items[i];
    return NULL;
}

/* A worker has connected: it becomes the worker that was asked for under its token. */
void node_worker_hello(node_client_t *connection, uint64_t token) {
    node_client_t *w = starting_find(connection->node, token);
    if (w == NULL || w->job->farewell.leaving) {
        node_client_refuse(connection, MOB_EPROTO, "nobody asked for this worker");
        return;
    }
    /* The worker may be dead already, and reaped: then nothing would ever tell the daemon of its
     * end. */
    if (waitpid(connection->pid, &(int){0}, WNOHANG) != 0) {
        node_client_close(connection);
        node_worker_start_failed(w);
        return;
    }
    starting_remove(w);
    /* The connection's socket moves over; its own struct goes. */
    int sock = fcntl(connection->sock, F_DUPFD_CLOEXEC, 0);
    w->pid = connection->pid;
    node_client_close(connection);
    if (sock < 0 || node_client_attach(w, sock) != MOB_OK) {
        node_worker_start_failed(w);
        return;
    }
    node_client_welcome(w);
    if (w->state == NODE_LIVE) node_worker_free(w);
}

/* ---- workers that have nothing to do ---- */

static void idle_remove(node_client_t *w) {
    if (!w->idle) return;
    node_pool_t *pool = w->pool;
    w->idle = false;
    for (size_t i = 0; i < pool->idle.count; i++) {
        if (pool->idle.items[i] != w) continue;
        memmove(pool->idle.items + i, pool->idle.items + i + 1,
                (pool->idle.count - i - 1) * sizeof *pool->idle.items);
        pool->idle.count--;
        return;
    }
}

node_client_t *node_worker_idle(node_pool_t *pool) {
    if (pool->idle.count == 0) return NULL;
    /* the one that became idle last: it is the warmest */
    node_client_t *w = pool->idle.items[pool->idle.count - 1];
    idle_remove(w);
    return w;
}

bool node_worker_retire(node_client_t *w) {
    if (node_client_has_tasks(w)) return false;
    idle_remove(w);
    w->retiring = true;
    node_client_tell(w, wire_plain(WIRE_EXIT));
    return true;
}

void node_worker_free(node_client_t *w) {
    if (w->state != NODE_LIVE || w->idle || w->leased || w->runs != NULL) return;
    if (w->job->farewell.leaving) return; /* it was told to end */
    if (w->retiring) {
        node_client_tell(w, wire_plain(WIRE_EXIT));
        return;
    }
    node_task_t *t = wait_pop(w->pool);
    if (t != NULL) {
        node_task_run_on(w->node, t, w);
        return;
    }
    if (node_lease_claim(w)) return;
    w->idle_since_ns = base_clock_mono_ns();
    w->idle = vec_push(&w->pool->idle, w);
}

/* ---- how many there are ---- */

/* How many workers there are beside those that are actors. */
static size_t pool_size(node_pool_t *pool) {
    node_t *n = pool->job->node;
    size_t alive = pool->idle.count;
    for (uint32_t i = 1; i < n->client_next; i++) {
        const node_client_t *w = n->clients[i];
        alive += w != NULL && w->pool == pool && w->actor == NULL && (w->runs != NULL || w->leased);
    }
    return alive;
}

/* How many are kept: one a CPU. A detached actor's job has the others when it needs them. */
static size_t pool_wanted(const node_pool_t *pool) {
    const node_job_t *job = pool->job;
    const node_t *n = job->node;
    if (pool->number > 0) return 0;
    if (job->is_detached) /* a spare for a restart */
        return job->actor != NULL && actor_life_may_restart(&job->actor->life);
    uint64_t total = 0;
    int64_t available = 0;
    const char *name = "";
    if (sched_resource_count(n->sched) > 0)
        sched_resource_at(n->sched, 0, &name, &total, &available);
    /* CPU comes first */
    return strcmp(name, "CPU") == 0 ? (size_t)(total + SCHED_UNIT - 1) / SCHED_UNIT : 1;
}

static void spares_start(node_pool_t *pool) {
    if (!pool->spares_wanted || pool->setup->zygote.client == NULL || pool->waiting > 0 ||
        pool->starting.count > 0)
        return;
    pool->spares_wanted = false;
    size_t wanted = pool_wanted(pool) < MAX_SPARE ? pool_wanted(pool) : MAX_SPARE;
    for (size_t there = pool_size(pool); there < wanted && worker_start(pool); there++) {
    }
}

/* How long a worker may be idle that is not kept. Those of environments may be needed again soon,
 * and others can't do their work; but a job with very many environments has few such workers. A
 * guest job may be of a driver that has long found enough room at home. */
static uint64_t idle_patience(const node_pool_t *pool) {
    if (pool->number == 0) return pool->job->is_guest ? ENVIRONMENT_IDLE_MS : IDLE_MS;
    size_t idle = 0;
    NODE_EACH_POOL(pool->job, other) idle += other->number > 0 ? other->idle.count : 0;
    return idle > 2 * pool_wanted(node_pool_first(pool->job)) ? 0 : ENVIRONMENT_IDLE_MS;
}

/* Sends idle workers home beyond those that are kept, oldest first; looks again later if some have
 * not been idle for long enough. */
static void idle_trim(node_pool_t *pool) {
    uint64_t now = base_clock_mono_ns(), patience_ms = idle_patience(pool);
    size_t wanted = pool->job->is_guest ? 0 : pool_wanted(pool), alive = pool_size(pool);
    for (size_t i = 0; i < pool->idle.count && alive > wanted;) {
        node_client_t *w = pool->idle.items[i];
        if (now - w->idle_since_ns < patience_ms * 1000000) {
            node_look_again(pool->job->node, patience_ms);
            return;
        }
        if (node_worker_retire(w))
            alive--;
        else
            i++;
    }
}

size_t node_workers_due(node_t *n, bool actors_too) {
    size_t count = 0;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_task_t *t = n->clients[i] ? n->clients[i]->runs : NULL;
        if (t == NULL || (t->kind == MOB_ACTOR_CALL && !actors_too)) continue;
        uint64_t word = atomic_load_explicit(&n->records[t->record].word, memory_order_acquire);
        count += wire_word_state(word) == WIRE_DONE_STATE;
    }
    return count;
}

void node_pool_fill(node_pool_t *pool) {
    node_job_t *job = pool->job;
    if (job->setup->given.argv[0] == NULL || job->farewell.leaving) return;
    if (pool->waiting > 0 && node_environment_open(pool) != MOB_OK)
        node_pool_fail(pool, MOB_ESETUP, mob_last_error());
    node_setup_t *setup = pool->setup;
    if (setup == NULL) return;
    if (pool->waiting > 0 && node_zygote_is_missing(setup) && node_zygote_start(setup) != MOB_OK)
        node_pool_fail(pool, pool->number > 0 ? MOB_ESETUP : MOB_ESYS, mob_last_error());
    /* A worker whose results are published is about to say so, and is free then. */
    size_t soon = pool->starting.count < pool->waiting ? node_workers_due(job->node, false) : 0;
    bool held = pool->starting.count + soon < pool->waiting && start_is_held(pool);
    while (!held && pool->starting.count + soon < pool->waiting &&
           pool->starting.count < MAX_STARTING && worker_start(pool)) {
    }
    spares_start(pool);
    bool keeps_one = !job->is_detached && !job->is_guest && pool->number == 0;
    if (pool->idle.count > (keeps_one ? 1 : 0)) idle_trim(pool);
    node_environment_rest(pool);
}

/* ---- a worker's end ---- */

void node_worker_exit_text(const node_client_t *w, char *ret_text, size_t size) {
    if (w->oom[0] != 0)
        snprintf(ret_text, size, "%s", w->oom);
    else if (w->fault != NULL)
        snprintf(ret_text, size, "it was killed because it %s", w->fault);
    else if (!w->exited)
        snprintf(ret_text, size, "it was killed");
    else if (WIFSIGNALED(w->exit_status))
        snprintf(ret_text, size, "killed by signal %d (%s)", WTERMSIG(w->exit_status),
                 sigdescr_np(WTERMSIG(w->exit_status)));
    else
        snprintf(ret_text, size, "it exited with code %d%s", WEXITSTATUS(w->exit_status),
                 w->actor != NULL && WEXITSTATUS(w->exit_status) == 0
                     ? ": it ended itself by exit_actor() or sys.exit(0)"
                     : "");
}

void node_worker_forget(node_client_t *w) {
    node_t *n = w->node;
    idle_remove(w);
    char how[256];
    node_pressure_died(w);
    node_worker_exit_text(w, how, sizeof how);
    node_events_read(w);
    node_lease_forget(w);
    node_tasks_find_taken(w);
    if (w->actor != NULL) node_actor_lost(n, w->actor, w); /* decides about its calls too */
    w->has_worked = has_worked(w);
    for (node_task_t *t = w->runs; t != NULL; t = t->run_next)
        w->has_worked |=
            wire_word_state(atomic_load_explicit(&n->records[t->record].word,
                                                 memory_order_acquire)) != WIRE_READY_STATE;
    node_pool_t *pool = w->pool;
    if (w->has_worked && w->started_ns > pool->first_failure_ns) pool->failures = 0;
    bool useless = !w->has_worked && !w->retiring && !pool->job->farewell.leaving;
    while (w->runs != NULL) {
        node_task_t *t = w->runs;
        node_task_lost(n, t);
        if (w->runs == t) break; /* can't be: a lost task is never still handed out */
    }
    if (useless && pool->idle.count == 0) {
        useless_note(pool);
        node_schedule(n); /* its tasks wait for the next worker */
        useless_tell(pool, how,
                     !(WIFSIGNALED(w->exit_status) && WTERMSIG(w->exit_status) == SIGKILL));
    }
    if (w->actor != NULL) node_actor_go_on(n, w->actor, w);
}
