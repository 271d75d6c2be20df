/*
 * The zygote: a process with everything loaded that a worker needs, which forks workers.
 *
 * The daemon asks it for a worker by a packet with a token and the ends of two pipes for the
 * worker's output. The worker connects by itself and shows the token. If a worker dies before that,
 * the daemon notices by the end of its output. If the zygote dies, the daemon starts another and
 * asks it for as many workers as are still needed. A worker of the old zygote that comes late finds
 * its token unknown and goes.
 *
 * With modules to preload, the first zygote serves at once, and forks a second one that loads them
 * and then takes its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/state.h"

extern char **environ;

enum { MAX_FAILURES = 3 };

mob_status_t node_zygote_start(node_t *n) {
    char variable[512], token[64];
    snprintf(variable, sizeof variable, "MOBULA_SOCKET=%s", n->session.socket_path);
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
    int error = posix_spawnp(&n->zygote.pid, n->config.zygote_argv[0], NULL, &attributes,
                             n->config.zygote_argv, env.items);
    posix_spawnattr_destroy(&attributes);
    vec_free(&env);
    return error == 0
               ? MOB_OK
               : base_fail(MOB_ESYS, "starting %s: %s", n->config.zygote_argv[0], strerror(error));
}

static void preload_ask(node_t *n) {
    char packet[WIRE_PACKET_MAX / 4];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_PRELOAD};
    size_t size = sizeof head;
    memcpy(packet, &head, sizeof head);
    for (size_t i = 0; i < n->config.preload.count; i++) {
        size_t length = strlen(n->config.preload.items[i]) + 1;
        if (size + length > sizeof packet) break;
        memcpy(packet + size, n->config.preload.items[i], length);
        size += length;
    }
    node_client_send(n->zygote.client, packet, size, NULL, 0);
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
    if (opened) node_client_send(w->node->zygote.client, &packet, sizeof packet, fds, 2);
    close(out[1]);
    close(err[1]);
    if (!opened) node_worker_give_up(w, mob_last_error());
    return opened;
}

void node_zygote_packet(node_client_t *c, uint32_t kind) {
    node_t *n = c->node;
    if (kind == WIRE_STUCK && c == n->zygote.client) {
        /* a module that it loaded has started threads: the next zygote goes without */
        node_client_close(c);
        n->config.preload.count = 0;
        return;
    }
    if (kind != WIRE_READY || c != n->zygote.next) return;
    node_client_t *old = n->zygote.client;
    bool first = !n->zygote.ready;
    n->zygote.client = c;
    n->zygote.next = NULL;
    n->zygote.ready = true;
    n->zygote.failures = 0;
    n->zygote.pid = c->pid;
    n->pool.spares_wanted = old != NULL || n->config.preload.count == 0;
    if (old != NULL) {
        node_client_close(old); /* it ends when its socket does */
    } else {
        if (n->config.preload.count > 0) preload_ask(n);
        for (size_t i = n->pool.starting.count; i-- > 0;)
            node_zygote_fork(n->pool.starting.items[i]);
        node_schedule(n);
    }
    if (first && n->setup.given && n->driver != NULL && n->driver->state == NODE_GREETING)
        node_client_welcome(n->driver);
}

void node_zygote_died(node_t *n) {
    if (n->ending || n->farewell.leaving) return;
    if (n->zygote.pid > 0) kill(n->zygote.pid, SIGKILL);
    n->zygote.pid = 0;
    /* the next zygote is asked for them again */
    while (n->pool.starting.count > 0) node_client_close(vec_pop(&n->pool.starting));
    if (++n->zygote.failures <= MAX_FAILURES && node_zygote_start(n) == MOB_OK) return;
    const char *text =
        "the Python process that workers are forked from can't be started. What it said before it "
        "ended "
        "tells why; try it by hand, in the same folder: python -c 'import ray._private.zygote'";
    if (n->driver != NULL && n->driver->state == NODE_GREETING) {
        node_client_refuse(n->driver, MOB_ESYS, text);
    } else {
        n->zygote.failures = 0; /* the next task tries again */
        node_pool_fail(n, text);
    }
}
