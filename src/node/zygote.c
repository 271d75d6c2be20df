/*
 * The zygote: a process with everything loaded that a worker needs, which forks workers. A setup
 * has one, and with it every job of that setup.
 *
 * The daemon asks it for a worker by a packet with a token and the ends of two pipes for the
 * worker's output. The worker connects by itself and shows the token. If a worker dies before that,
 * the daemon notices by the end of its output. If the zygote dies, the daemon starts another and
 * asks it for as many workers as are still needed. A worker of the old zygote that comes late finds
 * its token unknown and goes.
 *
 * A zygote is started by its command, or forked from a mother's (mother.h). Then the daemon learns
 * its process from the mother, or by its hello, whichever comes first; a mother that ends before
 * has forked nothing that counts, and the zygote is started by its command. A mother that does not
 * answer for PATIENCE_NS stands still: it is killed.
 *
 * A zygote leads a session: what it starts to set up an environment (an installer) carries it, and
 * ends with it.
 *
 * With modules to preload, the first zygote serves at once, and forks a second one that loads them
 * and then takes its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/cluster/package.h"
#include "node/mother.h"
#include "node/state.h"

enum { MAX_FAILURES = 3, SETUP_FD = 3 };

static const uint64_t PATIENCE_NS = 10000000000;

/* Each pool of the setup. A job's own comes last: what is done with it may be the job's end. */
#define EACH_POOL_OF(s, pool)                                                            \
    NODE_EACH_JOB((s)->node, job_)                                                       \
    for (size_t pool_at_ = job_->pools.count; pool_at_-- > 0;)                           \
        for (node_pool_t *pool = job_->pools.items[pool_at_]; pool != NULL; pool = NULL) \
            if (pool->setup == (s))

/* The new process, until it is another program. It shares the daemon's memory while the daemon
 * stands still (vfork). Returns only if that can't be: with errno. */
static int program_become(const node_setup_t *s, char *const *env, const char *folder,
                          pid_t daemon) {
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
    if (getppid() != daemon) _exit(1);
    bool given = s->fd == SETUP_FD ? fcntl(SETUP_FD, F_SETFD, 0) == 0 : dup2(s->fd, SETUP_FD) >= 0;
    if (!given || (folder[0] != 0 && chdir(folder) != 0)) return errno;
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(s->given.argv[0], (char *const *)s->given.argv, env);
    return errno;
}

/* Not posix_spawn: the process must end with the daemon from its first instruction on, and until
 * its program asks for that itself an interpreter has to start, which may take long. */
static int spawn(node_setup_t *s, char *const *env, const char *folder) {
    sigset_t all, usual;
    volatile int error = 0;
    pid_t daemon = getpid();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &usual); /* no handler of the daemon's may run in the child */
    volatile pid_t pid = vfork();
    if (pid == 0) {
        error = program_become(s, env, folder, daemon);
        _exit(1);
    }
    if (pid < 0) error = errno;
    sigprocmask(SIG_SETMASK, &usual, NULL);
    if (pid > 0 && error != 0) (void)waitpid(pid, NULL, 0);
    s->zygote.pid = error == 0 ? pid : 0;
    return error;
}

/* Starts the setup's command. */
static mob_status_t zygote_spawn(node_setup_t *s) {
    char variable[512], token[64], setup[32], daemon[32];
    snprintf(variable, sizeof variable, "MOBULA_SOCKET=%s", s->node->session.socket_path);
    snprintf(token, sizeof token, "MOBULA_TOKEN=%llu", (unsigned long long)s->token);
    snprintf(setup, sizeof setup, "MOBULA_SETUP=%d", SETUP_FD);
    snprintf(daemon, sizeof daemon, "MOBULA_DAEMON=%d", (int)getpid());
    VEC(char *) env = {0};
    bool whole = true;
    for (const char *const *e = s->given.env; *e != NULL && whole; e++)
        whole = vec_push(&env, (char *)*e);
    whole = whole && vec_push(&env, variable) && vec_push(&env, token) && vec_push(&env, setup) &&
            vec_push(&env, daemon) &&
            (!s->is_mother || vec_push(&env, (char *)"MOBULA_MOTHER=1")) && vec_push(&env, NULL);
    int error = whole ? spawn(s, env.items, s->given.folder) : ENOMEM;
    /* The driver's folder may be gone by now: a worker begins elsewhere then. */
    if (error == ENOENT && s->given.folder[0] != 0 && access(s->given.folder, F_OK) != 0)
        error = spawn(s, env.items, "/");
    vec_free(&env);
    return error == 0 ? MOB_OK
                      : base_fail(MOB_ESYS, "starting %s: %s", s->given.argv[0], strerror(error));
}

static void patience_begin(node_setup_t *s) {
    s->zygote.asked_ns = s->zygote.mother->used_ns = base_clock_mono_ns();
    node_look_again(s->node, PATIENCE_NS / 1000000 + 1);
}

static void adoption_ask(node_setup_t *s) {
    wire_fork_t packet = {.packet = {.magic = WIRE_MAGIC, .kind = WIRE_ADOPT}, .token = s->token};
    s->zygote.asked = true;
    patience_begin(s);
    node_client_send(s->zygote.mother->zygote.client, &packet, sizeof packet, &s->fd, 1);
}

mob_status_t node_zygote_start(node_setup_t *s) {
    node_setup_t *mother = s->zygote.failures == 0 && !s->is_mother ? node_mother_of(s) : NULL;
    if (mother == NULL) return zygote_spawn(s);
    s->zygote.mother = mother;
    s->zygote.asked = false;
    patience_begin(s);
    if (mother->zygote.client != NULL) adoption_ask(s);
    return MOB_OK;
}

bool node_zygote_is_missing(const node_setup_t *s) {
    const node_zygote_t *z = &s->zygote;
    return z->client == NULL && z->next == NULL && z->pid == 0 && z->mother == NULL;
}

/* Each setup whose zygote is to be forked by this one's. */
#define EACH_CHILD_OF(m, s)                                                                       \
    for (size_t at_ = (m)->node->setups.items.count; at_-- > 0;)                                  \
        for (node_setup_t *s =                                                                    \
                 at_ < (m)->node->setups.items.count ? (m)->node->setups.items.items[at_] : NULL; \
             s != NULL; s = NULL)                                                                 \
            if (s->zygote.mother == (m))

/* Whether it is the daemon's, and its end has not been noted yet. */
static bool is_child(pid_t pid) {
    siginfo_t info;
    return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void zygote_kill(node_t *n, pid_t pid) {
    if (pid <= 0) return;
    (void)vec_push(&n->children.dead_sessions, pid);
    kill(pid, SIGKILL); /* the daemon's child: not reaped yet, or the number is 0 */
}

/* The mother has forked, or tried to. */
static void adoption_note(node_setup_t *mother, const wire_adopted_t *adopted) {
    node_setup_t *s = node_setup_by_token(mother->node, adopted->token);
    if (s == NULL && is_child(adopted->pid)) /* it may be about to install something for nobody */
        zygote_kill(mother->node, adopted->pid);
    if (s == NULL || s->zygote.mother != mother) return; /* it has said hello */
    s->zygote.mother = NULL;
    s->zygote.pid = adopted->pid;
    /* one that has ended already was reaped as a stranger */
    if (!is_child(adopted->pid)) {
        s->zygote.pid = 0;
        node_zygote_died(s);
    }
}

void node_zygotes_watch(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    for (size_t i = n->setups.items.count; i-- > 0;) {
        node_setup_t *s = i < n->setups.items.count ? n->setups.items.items[i] : NULL;
        if (s == NULL || s->zygote.mother == NULL) continue;
        if (now - s->zygote.asked_ns < PATIENCE_NS) {
            node_look_again(n, (PATIENCE_NS - (now - s->zygote.asked_ns)) / 1000000 + 1);
        } else {
            node_setup_t *mother = s->zygote.mother;
            if (mother->zygote.client != NULL)
                node_client_close(mother->zygote.client); /* and it is killed */
            else
                node_zygote_died(mother);
        }
    }
}

/* What tasks fail with that have no worker. */
static mob_status_t failure_of(const node_setup_t *s) {
    return s->base != NULL ? MOB_ESETUP : MOB_ESYS;
}

/* No zygote can be had: what waits for one fails. The next task tries again. */
static void zygote_fail(node_setup_t *s, mob_status_t status, const char *text) {
    s->zygote.failures = 0;
    node_setup_hold(s); /* the jobs may go */
    EACH_POOL_OF(s, pool) {
        while (pool->starting.count > 0) node_client_close(vec_pop(&pool->starting));
        if (pool->job->driver != NULL && pool->job->driver->state == NODE_GREETING)
            node_client_refuse(pool->job->driver, status, text);
        else
            node_pool_fail(pool, status, text);
    }
    node_setup_drop(s);
}

/* The mother is gone: those that it was to fork are started by themselves. */
static void children_spawn(node_setup_t *mother) {
    EACH_CHILD_OF(mother, s) {
        s->zygote.mother = NULL;
        if (zygote_spawn(s) != MOB_OK) zygote_fail(s, failure_of(s), mob_last_error());
    }
}

static void preload_ask(node_setup_t *s) {
    char packet[WIRE_PACKET_MAX / 4];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_PRELOAD};
    size_t size = sizeof head;
    memcpy(packet, &head, sizeof head);
    for (const char *const *name = s->given.preload; *name != NULL; name++) {
        size_t length = strlen(*name) + 1;
        if (size + length > sizeof packet) break;
        memcpy(packet + size, *name, length);
        size += length;
    }
    node_client_send(s->zygote.client, packet, size, NULL, 0);
}

/* Asks the zygote for the worker. False: there are no descriptors left, or they can't be watched;
 * the worker is gone then. */
bool node_zygote_fork(node_client_t *w) {
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        const char *why = strerror(errno);
        if (out[0] >= 0) close(out[0]), close(out[1]);
        node_worker_give_up(w, why);
        return false;
    }
    /* Both pipes are the worker's from here on, whatever comes. */
    mob_status_t out_status = node_stream_open(w, &w->out, out[0], MOB_MESSAGE_OUT),
                 err_status = node_stream_open(w, &w->err, err[0], MOB_MESSAGE_ERR);
    bool opened = out_status == MOB_OK && err_status == MOB_OK;
    wire_fork_t packet = {.packet = {.magic = WIRE_MAGIC, .kind = WIRE_FORK}, .token = w->token};
    int fds[2] = {out[1], err[1]};
    if (opened) node_client_send(w->pool->setup->zygote.client, &packet, sizeof packet, fds, 2);
    close(out[1]);
    close(err[1]);
    if (!opened) node_worker_give_up(w, mob_last_error());
    return opened;
}

void node_zygote_hello(node_client_t *c, node_setup_t *s) {
    /* One that a mother forked may be dead by now, and reaped: nothing would tell of its end. */
    if (s->zygote.pid == 0 && !is_child(c->pid)) {
        node_client_refuse(c, MOB_EPROTO, "nobody asked for this process");
        return;
    }
    if (s->zygote.next != NULL) { /* of a zygote that is gone: it has loaded modules for nobody */
        s->zygote.next->setup = NULL;
        node_client_close(s->zygote.next);
    }
    c->state = NODE_LIVE;
    c->setup = s;
    s->zygote.next = c;
    s->zygote.mother = NULL;
    if (s->zygote.pid == 0) s->zygote.pid = c->pid;
}

/* The workers that were asked for before there was a zygote; and drivers that wait for it. */
static void jobs_serve(node_setup_t *s, bool first) {
    EACH_POOL_OF(s, pool) {
        node_job_t *job = pool->job;
        for (size_t i = pool->starting.count; i-- > 0;) node_zygote_fork(pool->starting.items[i]);
        if (first && job->driver != NULL && job->driver->state == NODE_GREETING)
            node_client_welcome(job->driver);
    }
    node_schedule(s->node);
}

/* It can't get ready, and another would not either: what waits for it fails. */
static void zygote_unfit(node_client_t *c, const char *text) {
    node_setup_t *s = c->setup;
    c->setup = NULL;
    s->zygote.next = NULL;
    s->zygote.pid = 0;
    node_client_close(c);
    if (s->is_mother)
        node_zygote_died(s);
    else
        zygote_fail(s, MOB_ESETUP, text);
}

/* It has threads. If a module that it loaded has started them, the next zygote goes without. If
 * they were there before, the next would have them too. */
static void zygote_stuck(node_client_t *c) {
    node_setup_t *s = c->setup;
    bool hopeless = !s->preloads;
    s->preloads = false;
    if (s->is_mother) s->zygote.failures = MAX_FAILURES; /* its children can do without */
    if (!hopeless || s->is_mother) {
        node_client_close(c);
        return;
    }
    c->setup = NULL;
    s->zygote.client = NULL;
    zygote_kill(s->node, s->zygote.pid);
    s->zygote.pid = 0;
    node_client_close(c);
    zygote_fail(
        s, failure_of(s),
        "the Python process that workers are forked from has a second thread from its start, "
        "and can't be forked: a .pth file, sitecustomize or usercustomize of this "
        "environment starts one. Take it out, or start the thread when it is needed");
}

void node_zygote_packet(node_client_t *c, const void *packet, size_t size) {
    node_setup_t *s = c->setup;
    if (s == NULL) return;
    node_zygote_t *z = &s->zygote;
    uint32_t kind = ((const wire_packet_t *)packet)->kind;
    if (kind == WIRE_UNFIT && c == z->next && z->client == NULL) {
        char text[8192];
        snprintf(text, sizeof text, "%.*s", (int)(size - sizeof(wire_packet_t)),
                 (const char *)packet + sizeof(wire_packet_t));
        zygote_unfit(c, text);
        return;
    }
    if (kind == WIRE_WANTED && c == z->next) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(size - sizeof(wire_packet_t)),
                 (const char *)packet + sizeof(wire_packet_t));
        node_package_want(s, name);
        return;
    }
    if (kind == WIRE_ADOPTED && size == sizeof(wire_adopted_t)) {
        wire_adopted_t adopted;
        memcpy(&adopted, packet, sizeof adopted);
        adoption_note(s, &adopted);
        return;
    }
    if (kind == WIRE_STUCK && c == z->client) {
        zygote_stuck(c);
        return;
    }
    if (kind != WIRE_READY || c != z->next) return;
    node_client_t *old = z->client;
    bool first = !z->ready;
    z->client = c;
    z->next = NULL;
    z->ready = true;
    z->failures = 0;
    z->pid = c->pid;
    EACH_POOL_OF(s, pool) pool->spares_wanted = old != NULL || !s->preloads;
    if (old != NULL) {
        node_client_close(old); /* it ends when its socket does */
    } else {
        if (s->preloads) preload_ask(s);
        if (s->is_mother) EACH_CHILD_OF(s, child) if (!child->zygote.asked) adoption_ask(child);
        jobs_serve(s, first);
    }
}

void node_zygote_closed(node_client_t *c) {
    node_setup_t *s = c->setup;
    if (s == NULL) return;
    c->setup = NULL;
    if (s->zygote.next == c) s->zygote.next = NULL;
    if (s->zygote.client != c) return;
    s->zygote.client = NULL;
    node_zygote_died(s);
}

static bool is_needed(node_setup_t *s) {
    if (s->is_mother) return true;
    EACH_POOL_OF(s, pool) if (!pool->job->farewell.leaving) return true;
    return false;
}

void node_zygote_died(node_setup_t *s) {
    node_t *n = s->node;
    if (n->ending || !is_needed(s)) return;
    zygote_kill(n, s->zygote.pid);
    s->zygote.pid = 0;
    s->zygote.mother = NULL;
    children_spawn(s);
    /* the next zygote is asked for them again */
    EACH_POOL_OF(s, pool)
    while (pool->starting.count > 0) node_client_close(vec_pop(&pool->starting));
    if (++s->zygote.failures <= MAX_FAILURES && node_zygote_start(s) == MOB_OK) return;
    char text[1024];
    if (s->base != NULL)
        snprintf(
            text, sizeof text,
            "Failed to set up runtime environment.\nIts interpreter, %.600s, ended before "
            "workers could be forked from it. Try it by hand, with the same variables: it must "
            "be able to import ray, as the driver's can",
            s->given.argv[0]);
    else
        snprintf(text, sizeof text,
                 "the Python process that workers are forked from can't be started. What it said "
                 "before it ended tells why; try it by hand, in the same folder: python -c 'from "
                 "ray._private import zygote; zygote.load()'");
    zygote_fail(s, failure_of(s), text);
    if (s->is_mother) node_setup_drop(s);
}

void node_zygote_end(node_setup_t *s) {
    node_zygote_t *z = &s->zygote;
    node_client_t *clients[] = {z->client, z->next};
    pid_t pid = z->pid;
    EACH_CHILD_OF(s, child) child->zygote.mother = NULL;
    z->mother = NULL;
    z->client = z->next = NULL;
    z->pid = 0;
    for (size_t i = 0; i < 2; i++) {
        if (clients[i] == NULL) continue;
        clients[i]->setup = NULL;
        node_client_close(clients[i]);
    }
    zygote_kill(s->node, pid);
}
