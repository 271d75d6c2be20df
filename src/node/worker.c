/*
 * Workers and the zygote that forks them.
 *
 * A task that the scheduler has given its resources goes to an idle worker, the one that became
 * idle last; without one it waits, in order, while a worker is forked. More workers than CPUs exist
 * only because others are blocked: when idle for a while they are sent home.
 *
 * The zygote is asked for a worker by a packet with a token and the ends of two pipes for its
 * output; the worker connects by itself and shows the token. A worker that dies before that is
 * noticed by the end of its output. If the zygote dies, another is started and asked for as many as
 * are still needed; a worker of the old one that comes late finds its token unknown and goes.
 *
 * Handing out ahead: when more small tasks wait than can start, a busy worker is given a few behind
 * the one that it runs, so that it goes on without asking us. They have no resources of their own:
 * each takes over the lease of the one before it. Only tasks of one CPU and nothing else, and only
 * while nothing else waits, so nobody is passed over. What was not begun is taken back as soon as
 * it could start elsewhere, when the worker's task waits for others, or when more CPUs are used
 * than there are, since tasks that had waited went on: a lease that is always taken over would
 * never be given back.
 *
 * So is one that waits for nothing but the results of the last one that a worker has: by the time
 * its turn comes, they are there. A chain of tasks then runs in one worker without waiting for us
 * at each link. If the one before it has to run again, the worker finds an argument missing and
 * gives it back (WIRE_UNREADY).
 *
 * With modules to preload, the first zygote serves at once, and forks a second one that loads them
 * and then takes its place.
 *
 * Spares: a fork takes milliseconds, so there is a worker a CPU before anybody asks: from when the
 * zygote has loaded what it will load, and again when some have become actors. They are started
 * when nobody waits for a worker. One that dies is not replaced until a task needs it: whatever
 * ended it may end the next.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/state.h"

extern char **environ;

static const uint64_t PATIENCE_NS = 4000000000, /* an error comes within 5 s */
    FORGET_NS = 30000000000;

enum {
    MAX_PAUSE_MS = 50,
    MAX_STARTING = 16,
    MAX_SPARE = 16,
    MAX_FAILURES = 3,
    MAX_USELESS = 10,
    IDLE_MS = 2000,
    MAX_AHEAD = 16
};

/* ---- the zygote ---- */

mob_status_t node_zygote_start(node_t *n) {
    char variable[512], token[64];
    snprintf(variable, sizeof variable, "MOBULA_SOCKET=%s", n->socket_path);
    snprintf(token, sizeof token, "MOBULA_TOKEN=%llu", (unsigned long long)n->incarnation);
    VEC(char *) env = {0};
    for (char **e = environ; *e != NULL; e++)
        if (!vec_push(&env, *e)) return MOB_ENOMEM;
    if (!vec_push(&env, variable) || !vec_push(&env, token) || !vec_push(&env, NULL))
        return MOB_ENOMEM;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(&n->zygote_pid, n->zygote_argv[0], NULL, &attributes, n->zygote_argv,
                             env.items);
    posix_spawnattr_destroy(&attributes);
    vec_free(&env);
    return error == 0 ? MOB_OK
                      : base_fail(MOB_ESYS, "starting %s: %s", n->zygote_argv[0], strerror(error));
}

static bool worker_ask(node_client_t *w);
static void waiting_fail(node_t *n, const char *text);

static void preload_ask(node_t *n) {
    char packet[WIRE_PACKET_MAX / 4];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_PRELOAD};
    size_t size = sizeof head;
    memcpy(packet, &head, sizeof head);
    for (size_t i = 0; i < n->preload.count; i++) {
        size_t length = strlen(n->preload.items[i]) + 1;
        if (size + length > sizeof packet) break;
        memcpy(packet + size, n->preload.items[i], length);
        size += length;
    }
    node_client_send(n->zygote, packet, size, NULL, 0);
}

void node_zygote_packet(node_client_t *c, uint32_t kind) {
    node_t *n = c->node;
    if (kind == WIRE_STUCK && c == n->zygote) {
        /* a module that it loaded has started threads: the next one goes without */
        node_client_close(c);
        n->preload.count = 0;
        return;
    }
    if (kind != WIRE_READY || c != n->next_zygote) return;
    node_client_t *old = n->zygote;
    bool first = !n->zygote_ready;
    n->zygote = c;
    n->next_zygote = NULL;
    n->zygote_ready = true;
    n->zygote_failures = 0;
    n->zygote_pid = c->pid;
    n->spares_wanted = old != NULL || n->preload.count == 0;
    if (old != NULL) {
        node_client_close(old); /* it ends when its socket does */
    } else {
        if (n->preload.count > 0) preload_ask(n);
        for (size_t i = n->starting.count; i-- > 0;) worker_ask(n->starting.items[i]);
        node_schedule(n);
    }
    if (first && n->setup != NULL && n->driver != NULL && n->driver->state == NODE_GREETING)
        node_client_welcome(n->driver);
}

void node_zygote_died(node_t *n) {
    if (n->ending || n->leaving) return;
    if (n->zygote_pid > 0) kill(n->zygote_pid, SIGKILL);
    n->zygote_pid = 0;
    /* asked for again of the next one */
    while (n->starting.count > 0) node_client_close(vec_pop(&n->starting));
    if (++n->zygote_failures <= MAX_FAILURES && node_zygote_start(n) == MOB_OK) return;
    const char *text =
        "the Python process that workers are forked from can't be started. What it said before it "
        "ended "
        "tells why; try it by hand, in the same folder: python -c 'import ray._private.zygote'";
    if (n->driver != NULL && n->driver->state == NODE_GREETING) {
        node_client_refuse(n->driver, MOB_ESYS, text);
    } else {
        n->zygote_failures = 0; /* the next task tries again */
        waiting_fail(n, text);
    }
}

/* ---- starting a worker ---- */

static void starting_remove(node_client_t *w) {
    node_t *n = w->node;
    for (size_t i = 0; i < n->starting.count; i++) {
        if (n->starting.items[i] != w) continue;
        vec_swap_remove(&n->starting, i);
        return;
    }
}

/* It has no pipes, and so it is gone; later there may be some. */
static void worker_give_up(node_client_t *w, const char *why) {
    node_t *n = w->node;
    char text[192];
    snprintf(text, sizeof text, "the daemon could not make its pipes: %s", why);
    starting_remove(w);
    node_client_close(w);
    node_worker_useless(n, text, true);
    node_look_again(n, 1000);
}

/* Asks the zygote for it. False: there are no descriptors left, or they can't be watched; it is
 * gone then. */
static bool worker_ask(node_client_t *w) {
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        const char *why = strerror(errno);
        if (out[0] >= 0) close(out[0]), close(out[1]);
        worker_give_up(w, why);
        return false;
    }
    /* Both are its from here on, whatever comes. */
    mob_status_t out_status = node_stream_open(w, &w->out, out[0], MOB_MESSAGE_OUT),
                 err_status = node_stream_open(w, &w->err, err[0], MOB_MESSAGE_ERR);
    bool opened = out_status == MOB_OK && err_status == MOB_OK;
    wire_fork_t packet = {.packet = {.magic = WIRE_MAGIC, .kind = WIRE_FORK}, .token = w->token};
    int fds[2] = {out[1], err[1]};
    if (opened) node_client_send(w->node->zygote, &packet, sizeof packet, fds, 2);
    close(out[1]);
    close(err[1]);
    if (!opened) worker_give_up(w, mob_last_error());
    return opened;
}

static bool worker_start(node_t *n) {
    node_client_t *w = node_client_new(n);
    if (w == NULL) return false;
    w->state = NODE_STARTING;
    w->role = WIRE_WORKER;
    w->token = ++n->next_token;
    w->started_ns = base_clock_mono_ns();
    if (!vec_push(&n->starting, w)) {
        node_client_close(w);
        return false;
    }
    return n->zygote == NULL || worker_ask(w);
}

/* It has run something; of what it takes by itself we see only the notes. */
static bool has_worked(const node_client_t *w) {
    return w->has_worked || (w->events != NULL && atomic_load(&w->events->tail) > 0);
}

/* Whether one that was started after the first that ended at once is of use. What older ones do
 * says nothing about those that can't begin. */
static bool newer_one_works(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w != NULL && w->role == WIRE_WORKER && w->started_ns > n->first_failure_ns &&
            has_worked(w))
            return true;
    }
    return false;
}

/* One has ended before it ran anything: the next one waits a little. */
static void useless_note(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    /* not in a row */
    if (now - n->last_failure_ns > FORGET_NS || newer_one_works(n)) n->start_failures = 0;
    n->last_failure_ns = now;
    if (n->start_failures++ == 0) n->first_failure_ns = now;
}

/* Whether it is so many by now that who waits for one is to hear of it. */
static void useless_tell(node_t *n, const char *how, bool by_itself) {
    /* Workers that somebody else kills say nothing about the next one, unless it goes on and on. */
    if (n->start_failures < MAX_USELESS ||
        (!by_itself && n->last_failure_ns - n->first_failure_ns < PATIENCE_NS))
        return;
    char text[512];
    snprintf(text, sizeof text,
             "%d workers in a row ended before they ran anything (the last one: %s). What they "
             "printed tells why",
             n->start_failures, how);
    n->start_failures = 0; /* the next task tries again */
    waiting_fail(n, text);
}

void node_worker_useless(node_t *n, const char *how, bool by_itself) {
    useless_note(n);
    useless_tell(n, how, by_itself);
}

/* A pause after each that ended at once, the longer the more there were: or the machine would do
 * nothing but start them. */
static bool start_is_held(node_t *n) {
    if (n->start_failures == 0) return false;
    uint64_t pause_ms =
        (uint64_t)(n->start_failures < MAX_PAUSE_MS ? n->start_failures : MAX_PAUSE_MS);
    if (base_clock_mono_ns() >= n->last_failure_ns + pause_ms * 1000000) return false;
    node_look_again(n, pause_ms);
    return true;
}

void node_worker_start_failed(node_client_t *w) {
    node_t *n = w->node;
    starting_remove(w);
    node_client_close(w);
    if (n->zygote != NULL) node_worker_useless(n, "it did not connect", false);
    node_schedule(n);
}

/* A worker has connected: it becomes the one that was asked for under its token. */
void node_worker_hello(node_client_t *connection, uint64_t token) {
    node_t *n = connection->node;
    node_client_t *w = NULL;
    for (size_t i = 0; i < n->starting.count && w == NULL; i++)
        if (n->starting.items[i]->token == token) w = n->starting.items[i];
    if (w == NULL || n->leaving) {
        node_client_refuse(connection, MOB_EPROTO, "nobody asked for this worker");
        return;
    }
    /* It may be dead already, and reaped: then nothing would ever tell us of its end. */
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

/* ---- the pool ---- */

static void idle_remove(node_client_t *w) {
    node_t *n = w->node;
    if (!w->idle) return;
    w->idle = false;
    for (size_t i = 0; i < n->idle.count; i++) {
        if (n->idle.items[i] != w) continue;
        memmove(n->idle.items + i, n->idle.items + i + 1,
                (n->idle.count - i - 1) * sizeof *n->idle.items);
        n->idle.count--;
        return;
    }
}

static node_task_t *wait_pop(node_t *n) {
    node_task_t *t = n->wait_head;
    if (t == NULL) return NULL;
    n->wait_head = t->next;
    if (n->wait_head == NULL) n->wait_tail = NULL;
    n->waiting_for_worker--;
    t->waiting_for_worker = false;
    return t;
}

static void wait_push(node_t *n, node_task_t *t) {
    t->next = NULL;
    if (n->wait_tail)
        n->wait_tail->next = t;
    else
        n->wait_head = t;
    n->wait_tail = t;
    n->waiting_for_worker++;
    t->waiting_for_worker = true;
}

static void waiting_fail(node_t *n, const char *text) {
    node_lease_abandon(n);
    node_queues_fail(n, text);
    for (node_task_t *t; (t = wait_pop(n)) != NULL;) {
        if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL)
            node_actor_died(n, t->actor, text); /* fails the creation too */
        else
            node_task_fail(n, t, MOB_ESYS, text);
    }
}

static void on_look_timer(uv_timer_t *timer) { node_schedule(timer->data); }

void node_look_again(node_t *n, uint64_t ms) {
    /* One timer for all: it goes off for the earliest, and whoever still waits then sets it
     * again. */
    bool sooner =
        uv_is_active((uv_handle_t *)&n->look_timer) && uv_timer_get_due_in(&n->look_timer) <= ms;
    if (!sooner) uv_timer_start(&n->look_timer, on_look_timer, ms, 0);
}

/* How many workers there are beside those that are actors. */
static size_t pool_size(node_t *n) {
    size_t alive = n->idle.count;
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
    if (!n->spares_wanted || n->zygote == NULL || n->waiting_for_worker > 0 ||
        n->starting.count > 0)
        return;
    /* a worker keeps what it is welcomed with: the driver's hello comes first */
    if (n->setup == NULL) return;
    n->spares_wanted = false;
    size_t wanted = pool_wanted(n) < MAX_SPARE ? pool_wanted(n) : MAX_SPARE;
    for (size_t there = pool_size(n); there < wanted && worker_start(n); there++) {
    }
}

bool node_worker_retire(node_client_t *w) {
    if (node_client_has_tasks(w)) return false;
    idle_remove(w);
    w->retiring = true;
    node_client_tell(w, WIRE_EXIT, 0, 0, 0, 0);
    return true;
}

/* Sends home what is idle beyond the number of CPUs, oldest first; looks again later if some have
 * not been idle for long enough. */
static void idle_trim(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    size_t wanted = pool_wanted(n), alive = pool_size(n);
    for (size_t i = 0; i < n->idle.count && alive > wanted;) {
        node_client_t *w = n->idle.items[i];
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

void node_worker_free(node_client_t *w) {
    node_t *n = w->node;
    if (w->state != NODE_LIVE || w->idle || w->leased || w->runs != NULL) return;
    if (w->retiring) {
        node_client_tell(w, WIRE_EXIT, 0, 0, 0, 0);
        return;
    }
    node_task_t *t = wait_pop(n);
    if (t != NULL) {
        node_task_run_on(n, t, w);
        return;
    }
    if (node_lease_claim(w)) return;
    w->idle_since_ns = base_clock_mono_ns();
    w->idle = vec_push(&n->idle, w);
}

/* ---- handing out ahead ---- */

/* Whether what it runs is such a task, whose lease another one can take over. */
static bool lease_can_pass(const node_client_t *w) {
    return w != NULL && w->role == WIRE_WORKER && w->state == NODE_LIVE && !w->retiring &&
           !w->leased && w->actor == NULL && w->runs != NULL && w->runs->kind == MOB_TASK &&
           w->runs->shape == w->node->cpu_shape && w->runs->max_calls == 0 &&
           w->runs->lease.state == SCHED_LEASE_HELD;
}

static bool may_have_more(const node_client_t *w) {
    return lease_can_pass(w) && w->run_count <= MAX_AHEAD;
}

/* Gives the busy workers one more each in turn, until the queue is short or they have enough. */
static void ahead_give(node_t *n) {
    for (bool given = true; given;) {
        given = false;
        for (uint32_t i = 1; i < n->client_next; i++) {
            node_client_t *w = n->clients[i];
            if (!may_have_more(w)) continue;
            sched_task_t *q = sched_task_ahead(n->sched, n->cpu_shape);
            if (q == NULL) return;
            node_task_t *t = (node_task_t *)q;
            if (node_lane_of_request(n, q) >= 0 || t->kind != MOB_TASK || t->max_calls != 0) {
                sched_task_readd(n->sched, q);
                return;
            }
            node_task_run_on(n, t, w);
            given = true;
        }
    }
}

/* Chains: gives busy workers what follows the last one that they have. Not while others wait for a
 * CPU, which would be passed over. */
static void followers_give(node_t *n) {
    uint64_t since;
    if (n->missing_arguments == 0 || sched_cpu_lacking(n->sched, NULL, &since) > 0) return;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        for (node_task_t *t; may_have_more(w) && (t = node_task_follower(n, w->runs_tail)) != NULL;)
            node_task_run_on(n, t, w);
    }
}

static void ahead_take_all(node_client_t *w) {
    while (w->run_count > 1 && node_task_take_back(w->node, w->runs_tail)) {
    }
}

/* More CPUs are used than there are. As many are to come back when what runs now ends: that many
 * workers keep nothing to go on with. */
static void ahead_settle(node_t *n, int64_t over) {
    for (int taking = 0; taking <= 1; taking++)
        for (uint32_t i = 1; i < n->client_next && over > 0; i++) {
            node_client_t *w = n->clients[i];
            if (!lease_can_pass(w) || (w->run_count > 1) != taking) continue;
            if (taking) ahead_take_all(w);
            if (w->run_count == 1) over -= SCHED_UNIT;
        }
}

/* Whether something that it has not begun could start elsewhere. */
static bool ahead_has_ready(const node_client_t *w) {
    for (const node_task_t *t = w->runs ? w->runs->run_next : NULL; t != NULL; t = t->run_next)
        if (t->missing == 0) return true;
    return false;
}

bool node_ahead_waits(node_t *n, uint64_t *ret_since_ns) {
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || w->role != WIRE_WORKER || w->actor != NULL || w->leased ||
            !ahead_has_ready(w))
            continue;
        *ret_since_ns = w->runs->run_next->queue.since_ns;
        return true;
    }
    return false;
}

/* Takes the newest one back that could start elsewhere, and what follows it, from the worker that
 * has most. */
static bool ahead_take_one(node_t *n) {
    node_client_t *most = NULL;
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w != NULL && w->role == WIRE_WORKER && w->actor == NULL && !w->leased &&
            w->run_count > 1 && (most == NULL || w->run_count > most->run_count) &&
            ahead_has_ready(w))
            most = w;
    }
    while (most != NULL && most->runs_tail->missing > 0)
        if (!node_task_take_back(n, most->runs_tail)) return false;
    return most != NULL && node_task_take_back(n, most->runs_tail);
}

int64_t node_cpus_free(node_t *n) {
    const char *name;
    uint64_t total;
    int64_t available;
    if (sched_resource_count(n->sched) == 0) return 0;
    sched_resource_at(n->sched, 0, &name, &total, &available); /* CPU comes first */
    return strcmp(name, "CPU") == 0 ? available : 0;
}

node_client_t *node_worker_idle(node_t *n) {
    if (n->idle.count == 0) return NULL;
    node_client_t *w =
        n->idle.items[n->idle.count - 1]; /* the one that became idle last: it is the warmest */
    idle_remove(w);
    return w;
}

void node_worker_blocked(node_client_t *w) {
    if (w->runs == NULL) return;
    ahead_take_all(w);
    /* It has begun the next one: this message is late, its task had gone on and ended before we
     * read it. Nothing is to be lent. */
    if (w->run_count > 1) return;
    sched_lease_block(w->node->sched, &w->runs->lease);
}

void node_workers_hold_back(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->actor == NULL) ahead_take_all(n->clients[i]);
}

static void tasks_start(node_t *n) {
    sched_lease_t lease;
    uint64_t now = base_clock_mono_ns();
    for (sched_task_t *q;
         !node_is_paused(n) && (q = sched_task_next(n->sched, now, &lease)) != NULL;) {
        int lane = node_lane_of_request(n, q);
        if (lane >= 0) {
            node_lease_granted(n, (uint32_t)lane, &lease);
            continue;
        }
        node_task_t *t = (node_task_t *)q;
        t->lease = lease;
        node_client_t *w = node_worker_idle(n);
        if (w != NULL)
            node_task_run_on(n, t, w);
        else
            wait_push(n, t);
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

void node_schedule(node_t *n) {
    if (n->ending || n->leaving) return;
    if (n->fast) node_lease_request(n);
    tasks_start(n);
    /* Bounded: what is taken for a task of several CPUs may go to a queue again, and is recalled
     * then. */
    for (uint32_t i = n->leases + 1; i > 0 && n->fast && node_leases_yield(n); i--) {
        node_lease_request(n);
        tasks_start(n);
    }
    while (node_cpus_free(n) >= SCHED_UNIT && sched_queued(n->sched, n->cpu_shape) == 0 &&
           ahead_take_one(n))
        tasks_start(n);
    if (node_cpus_free(n) < 0) {
        ahead_settle(n, -node_cpus_free(n));
    } else if (!n->paused) {
        if (n->idle.count == 0) ahead_give(n);
        followers_give(n);
    }
    if (n->zygote_argv == NULL) return;
    if (n->waiting_for_worker > 0 && n->zygote == NULL && n->next_zygote == NULL &&
        n->zygote_pid == 0 && node_zygote_start(n) != MOB_OK)
        waiting_fail(n, mob_last_error());
    /* A worker whose results are published is about to say so, and is free then. */
    size_t soon = n->starting.count < n->waiting_for_worker ? node_workers_due(n, false) : 0;
    bool held = n->starting.count + soon < n->waiting_for_worker && start_is_held(n);
    while (!held && n->starting.count + soon < n->waiting_for_worker &&
           n->starting.count < MAX_STARTING && worker_start(n)) {
    }
    spares_start(n);
    if (n->idle.count > 1) idle_trim(n);
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
    node_events_read(w);
    node_lease_forget(w);
    node_tasks_find_taken(w);
    w->has_worked = has_worked(w);
    for (node_task_t *t = w->runs; t != NULL; t = t->run_next)
        w->has_worked |=
            wire_word_state(atomic_load_explicit(&n->records[t->record].word,
                                                 memory_order_acquire)) != WIRE_READY_STATE;
    if (w->has_worked && w->started_ns > n->first_failure_ns) n->start_failures = 0;
    bool useless = !w->has_worked && !w->retiring;
    while (w->runs != NULL) {
        node_task_t *t = w->runs;
        node_task_lost(n, t);
        if (w->runs == t) break; /* can't be: a lost task is never still handed out */
    }
    if (useless && n->idle.count == 0) {
        useless_note(n);
        node_schedule(n); /* what it was to run waits for the next one */
        useless_tell(n, how, !(WIFSIGNALED(w->exit_status) && WTERMSIG(w->exit_status) == SIGKILL));
    }
    if (actor != NULL) {
        sched_lease_release(n->sched, &w->lease);
        node_actor_died(n, actor, actor->released ? "nobody has a handle to it any more" : how);
    }
}

/* Our children, from the kernel: each at most once, up to `capacity`. */
size_t node_children_list(pid_t *ret_children, size_t capacity) {
    char path[64], line[65536];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    size_t size = fread(line, 1, sizeof line - 1, f), count = 0;
    fclose(f);
    line[size] = 0;
    char *rest = line;
    for (char *word; count < capacity && (word = strtok_r(rest, " \n", &rest)) != NULL;)
        ret_children[count++] = (pid_t)atoi(word);
    return count;
}

/* Ends what dead workers started: those processes carry the worker's session, and are or become our
 * children. A session is forgotten when no child has it any more. */
static void descendants_kill(node_t *n) {
    pid_t children[8192];
    size_t count = n->dead_sessions.count > 0
                       ? node_children_list(children, sizeof children / sizeof *children)
                       : 0;
    for (size_t s = n->dead_sessions.count; s-- > 0;) {
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            if (getsid(children[i]) != n->dead_sessions.items[s]) continue;
            found = true;
            kill(children[i], SIGKILL);
        }
        if (!found) vec_swap_remove(&n->dead_sessions, s);
    }
}

void node_children_reap(node_t *n) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        node_client_t *dead = NULL;
        for (size_t i = 0; i < n->connections.count && dead == NULL; i++) {
            node_client_t *c = n->connections.items[i];
            bool ours = c->role == WIRE_WORKER ||
                        c->role == WIRE_ZYGOTE; /* a worker may look on as an observer too */
            if (c->pid == pid && ours && c->state != NODE_GREETING) dead = c;
        }
        if (dead != NULL && dead->role == WIRE_WORKER) (void)vec_push(&n->dead_sessions, pid);
        descendants_kill(n);
        if (dead == NULL) {
            if (pid == n->zygote_pid && n->zygote == NULL) {
                n->zygote_pid = 0;
                node_zygote_died(n);
            }
            continue;
        }
        dead->exit_status = status;
        dead->exited = true;
        if (dead->role == WIRE_ZYGOTE) {
            node_client_close(dead);
            /* killed before it was ready */
            if (pid == n->zygote_pid && n->zygote == NULL) node_zygote_died(n);
        } else if (n->leaving) {
            node_farewell_gone(dead);
        } else {
            node_client_died(dead);
        }
        if (n->ending) return;
    }
}
