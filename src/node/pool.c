/*
 * Workers: from being asked for to their end.
 *
 * A task that the scheduler has given its resources goes to an idle worker, the one that became
 * idle last; without one the task waits, in order, while a worker is forked. There are more workers
 * than CPUs only because some were blocked: the daemon sends those home that are idle for a while.
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
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "node/state.h"

static const uint64_t PATIENCE_NS = 4000000000, /* an error comes within 5 s */
    FORGET_NS = 30000000000;

enum { MAX_PAUSE_MS = 50, MAX_STARTING = 16, MAX_SPARE = 16, MAX_USELESS = 10, IDLE_MS = 2000 };

/* ---- tasks that wait for a worker ---- */

static node_task_t *wait_pop(node_t *n) {
    node_task_t *t = n->pool.wait_head;
    if (t == NULL) return NULL;
    n->pool.wait_head = t->next;
    if (n->pool.wait_head == NULL) n->pool.wait_tail = NULL;
    n->pool.waiting--;
    t->waiting_for_worker = false;
    return t;
}

void node_pool_wait(node_t *n, node_task_t *t) {
    t->next = NULL;
    if (n->pool.wait_tail)
        n->pool.wait_tail->next = t;
    else
        n->pool.wait_head = t;
    n->pool.wait_tail = t;
    n->pool.waiting++;
    t->waiting_for_worker = true;
}

void node_pool_fail(node_t *n, const char *text) {
    node_lease_abandon(n);
    node_queues_fail(n, text);
    for (node_task_t *t; (t = wait_pop(n)) != NULL;) {
        if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL)
            node_actor_died(n, t->actor, text); /* fails the creation too */
        else
            node_task_fail(n, t, MOB_ESYS, text);
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
static bool newer_one_works(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w != NULL && w->role == WIRE_WORKER && w->started_ns > n->pool.first_failure_ns &&
            has_worked(w))
            return true;
    }
    return false;
}

/* A worker has ended before it ran anything: the next start waits a little. */
static void useless_note(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    /* not in a row */
    if (now - n->pool.last_failure_ns > FORGET_NS || newer_one_works(n)) n->pool.failures = 0;
    n->pool.last_failure_ns = now;
    if (n->pool.failures++ == 0) n->pool.first_failure_ns = now;
}

/* Fails the tasks that wait for a worker, if that many have ended by now. */
static void useless_tell(node_t *n, const char *how, bool by_itself) {
    /* Workers that another process kills say nothing about the next one, unless that goes on and
     * on. */
    if (n->pool.failures < MAX_USELESS ||
        (!by_itself && n->pool.last_failure_ns - n->pool.first_failure_ns < PATIENCE_NS))
        return;
    char text[512];
    snprintf(text, sizeof text,
             "%d workers in a row ended before they ran anything (the last one: %s). What they "
             "printed tells why",
             n->pool.failures, how);
    n->pool.failures = 0; /* the next task tries again */
    node_pool_fail(n, text);
}

void node_worker_useless(node_t *n, const char *how, bool by_itself) {
    useless_note(n);
    useless_tell(n, how, by_itself);
}

/* A pause after each worker that ended at once, the longer the more there were: else the machine
 * would do nothing but start workers. */
static bool start_is_held(node_t *n) {
    if (n->pool.failures == 0) return false;
    uint64_t pause_ms =
        (uint64_t)(n->pool.failures < MAX_PAUSE_MS ? n->pool.failures : MAX_PAUSE_MS);
    if (base_clock_mono_ns() >= n->pool.last_failure_ns + pause_ms * 1000000) return false;
    node_look_again(n, pause_ms);
    return true;
}

/* ---- starting ---- */

static void starting_remove(node_client_t *w) {
    node_t *n = w->node;
    for (size_t i = 0; i < n->pool.starting.count; i++) {
        if (n->pool.starting.items[i] != w) continue;
        vec_swap_remove(&n->pool.starting, i);
        return;
    }
}

/* Without its pipes the worker is given up; later there may be pipes. */
void node_worker_give_up(node_client_t *w, const char *why) {
    node_t *n = w->node;
    char text[192];
    snprintf(text, sizeof text, "the daemon could not make its pipes: %s", why);
    starting_remove(w);
    node_client_close(w);
    node_worker_useless(n, text, true);
    node_look_again(n, 1000);
}

static bool worker_start(node_t *n) {
    node_client_t *w = node_client_new(n);
    if (w == NULL) return false;
    w->state = NODE_STARTING;
    w->role = WIRE_WORKER;
    w->token = ++n->pool.next_token;
    w->started_ns = base_clock_mono_ns();
    if (!vec_push(&n->pool.starting, w)) {
        node_client_close(w);
        return false;
    }
    return n->zygote.client == NULL || node_zygote_fork(w);
}

void node_worker_start_failed(node_client_t *w) {
    node_t *n = w->node;
    starting_remove(w);
    node_client_close(w);
    if (n->zygote.client != NULL) node_worker_useless(n, "it did not connect", false);
    node_schedule(n);
}

/* A worker has connected: it becomes the worker that was asked for under its token. */
void node_worker_hello(node_client_t *connection, uint64_t token) {
    node_t *n = connection->node;
    node_client_t *w = NULL;
    for (size_t i = 0; i < n->pool.starting.count && w == NULL; i++)
        if (n->pool.starting.items[i]->token == token) w = n->pool.starting.items[i];
    if (w == NULL || n->farewell.leaving) {
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
    node_t *n = w->node;
    if (!w->idle) return;
    w->idle = false;
    for (size_t i = 0; i < n->pool.idle.count; i++) {
        if (n->pool.idle.items[i] != w) continue;
        memmove(n->pool.idle.items + i, n->pool.idle.items + i + 1,
                (n->pool.idle.count - i - 1) * sizeof *n->pool.idle.items);
        n->pool.idle.count--;
        return;
    }
}

node_client_t *node_worker_idle(node_t *n) {
    if (n->pool.idle.count == 0) return NULL;
    node_client_t *w =
        n->pool.idle
            .items[n->pool.idle.count - 1]; /* the one that became idle last: it is the warmest */
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
    node_t *n = w->node;
    if (w->state != NODE_LIVE || w->idle || w->leased || w->runs != NULL) return;
    if (w->retiring) {
        node_client_tell(w, wire_plain(WIRE_EXIT));
        return;
    }
    node_task_t *t = wait_pop(n);
    if (t != NULL) {
        node_task_run_on(n, t, w);
        return;
    }
    if (node_lease_claim(w)) return;
    w->idle_since_ns = base_clock_mono_ns();
    w->idle = vec_push(&n->pool.idle, w);
}

/* ---- how many there are ---- */

/* How many workers there are beside those that are actors. */
static size_t pool_size(node_t *n) {
    size_t alive = n->pool.idle.count;
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->role == WIRE_WORKER &&
            n->clients[i]->actor == NULL && (n->clients[i]->runs != NULL || n->clients[i]->leased))
            alive++;
    return alive;
}

/* How many are kept: one a CPU. */
static size_t pool_wanted(node_t *n) {
    uint64_t total = 0;
    int64_t available = 0;
    const char *name = "";
    if (sched_resource_count(n->sched) > 0)
        sched_resource_at(n->sched, 0, &name, &total, &available);
    /* CPU comes first */
    return strcmp(name, "CPU") == 0 ? (size_t)(total + SCHED_UNIT - 1) / SCHED_UNIT : 1;
}

static void spares_start(node_t *n) {
    if (!n->pool.spares_wanted || n->zygote.client == NULL || n->pool.waiting > 0 ||
        n->pool.starting.count > 0)
        return;
    /* a worker keeps what it is welcomed with: the driver's hello comes first */
    if (!n->setup.given) return;
    n->pool.spares_wanted = false;
    size_t wanted = pool_wanted(n) < MAX_SPARE ? pool_wanted(n) : MAX_SPARE;
    for (size_t there = pool_size(n); there < wanted && worker_start(n); there++) {
    }
}

/* Sends idle workers home beyond the number of CPUs, oldest first; looks again later if some have
 * not been idle for long enough. */
static void idle_trim(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    size_t wanted = pool_wanted(n), alive = pool_size(n);
    for (size_t i = 0; i < n->pool.idle.count && alive > wanted;) {
        node_client_t *w = n->pool.idle.items[i];
        if (now - w->idle_since_ns < (uint64_t)IDLE_MS * 1000000) {
            node_look_again(n, IDLE_MS);
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

void node_pool_fill(node_t *n) {
    if (n->config.zygote_argv == NULL) return;
    if (n->pool.waiting > 0 && n->zygote.client == NULL && n->zygote.next == NULL &&
        n->zygote.pid == 0 && node_zygote_start(n) != MOB_OK)
        node_pool_fail(n, mob_last_error());
    /* A worker whose results are published is about to say so, and is free then. */
    size_t soon = n->pool.starting.count < n->pool.waiting ? node_workers_due(n, false) : 0;
    bool held = n->pool.starting.count + soon < n->pool.waiting && start_is_held(n);
    while (!held && n->pool.starting.count + soon < n->pool.waiting &&
           n->pool.starting.count < MAX_STARTING && worker_start(n)) {
    }
    spares_start(n);
    if (n->pool.idle.count > 1) idle_trim(n);
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
        snprintf(ret_text, size, "it exited with code %d", WEXITSTATUS(w->exit_status));
}

void node_worker_forget(node_client_t *w) {
    node_t *n = w->node;
    idle_remove(w);
    node_actor_t *actor = w->actor;
    char how[256];
    node_pressure_died(w);
    node_worker_exit_text(w, how, sizeof how);
    /* The errors of the actor's calls are no news if its end was wanted: by ray.kill, for want of
     * handles, or by an exit of its own. */
    if (actor != NULL)
        actor->quiet |=
            actor->killed || actor->released ||
            (w->exited && WIFEXITED(w->exit_status) && WEXITSTATUS(w->exit_status) == 0);
    node_events_read(w);
    node_lease_forget(w);
    node_tasks_find_taken(w);
    w->has_worked = has_worked(w);
    for (node_task_t *t = w->runs; t != NULL; t = t->run_next)
        w->has_worked |=
            wire_word_state(atomic_load_explicit(&n->records[t->record].word,
                                                 memory_order_acquire)) != WIRE_READY_STATE;
    if (w->has_worked && w->started_ns > n->pool.first_failure_ns) n->pool.failures = 0;
    bool useless = !w->has_worked && !w->retiring;
    while (w->runs != NULL) {
        node_task_t *t = w->runs;
        node_task_lost(n, t);
        if (w->runs == t) break; /* can't be: a lost task is never still handed out */
    }
    if (useless && n->pool.idle.count == 0) {
        useless_note(n);
        node_schedule(n); /* its tasks wait for the next worker */
        useless_tell(n, how, !(WIFSIGNALED(w->exit_status) && WTERMSIG(w->exit_status) == SIGKILL));
    }
    if (actor != NULL) {
        sched_lease_release(n->sched, &w->lease);
        node_actor_died(n, actor, actor->released ? "nobody has a handle to it any more" : how);
    }
}
