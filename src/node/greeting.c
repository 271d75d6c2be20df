/*
 * Hello and welcome.
 *
 * A process that connects says who it is: the driver that started the daemon, a worker or a zygote
 * that the daemon asked for (it shows the token of that), an observer, which only asks, or a
 * fetcher of one descriptor. The daemon answers a driver and a worker with their number and the
 * descriptors of what they share with it.
 *
 * The driver's setup is for every worker and may be long (a sys.path of thousands of folders),
 * longer than a packet can be: it comes and goes on as a descriptor of sealed bytes. The daemon
 * never looks inside.
 */
#include "node/greeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/state.h"
#include "shm/sealed.h"

enum { MOST_OBSERVERS = 64 };

/* ---- the answer ---- */

void node_client_refuse(node_client_t *c, mob_status_t status, const char *text) {
    char packet[sizeof(wire_packet_t) + 4 + 512];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_REFUSED};
    uint32_t code = status;
    size_t size = strnlen(text, 512);
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, &code, 4);
    memcpy(packet + sizeof head + 4, text, size);
    node_client_send(c, packet, sizeof head + 4 + size, NULL, 0);
    node_client_close(c);
}

/* Gives the client its number and the segment that it shares with the daemon; false: it was
 * refused. */
static bool client_equip(node_client_t *c) {
    if (!node_number_take(c)) {
        node_client_refuse(c, MOB_ELIMIT, "the node has as many processes as it can have");
        return false;
    }
    if (shm_segment_create("mobula-client", SHM_CLIENT_BYTES, &c->segment) != MOB_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", mob_last_error());
        if (c->role == WIRE_WORKER) node_worker_useless(c->node, why, true);
        node_client_refuse(c, MOB_ELIMIT, why);
        return false;
    }
    c->up = (shm_ring_t *)c->segment.base;
    c->down = (shm_ring_t *)(c->segment.base + SHM_CLIENT_DOWN);
    c->events = (shm_events_t *)(c->segment.base + SHM_CLIENT_EVENTS);
    return true;
}

static void on_process_end(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    node_client_t *c = poll->data;
    uv_poll_stop(poll);
    c->exited = true;
    node_client_died(c);
}

/* A worker is the daemon's child and is reaped. A driver's end is told by its pidfd, or else by its
 * socket. */
static void process_watch(node_client_t *c) {
    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (c->pidfd < 0 || uv_poll_init(&c->node->loop, &c->pid_poll, c->pidfd) != 0) return;
    c->pid_poll.data = c;
    /* if it fails, the socket's end has to do */
    (void)uv_poll_start(&c->pid_poll, UV_READABLE, on_process_end);
}

void node_client_welcome(node_client_t *c) {
    node_t *n = c->node;
    if (!client_equip(c)) return;
    size_t dir_size = strlen(n->session.dir) + 1;
    wire_welcome_t head = {
        .packet = {.magic = WIRE_MAGIC, .kind = WIRE_WELCOME},
        .number = c->number,
        .epoch = c->epoch,
        .incarnation = n->incarnation,
        .arena_size = n->config.store_bytes,
        .dir_size = (uint32_t)dir_size,
        .setup_size = (uint32_t)n->setup.size,
    };
    char *packet = malloc(sizeof head + dir_size);
    if (packet == NULL) {
        node_client_close(c);
        return;
    }
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, n->session.dir, dir_size);
    int fds[WIRE_MOST_FDS] = {n->segments.node.fd,
                              c->segment.fd,
                              n->segments.slots.fd,
                              n->segments.records.fd,
                              n->segments.extents.fd,
                              n->arena.fd,
                              n->segments.queues.fd,
                              n->event_fd,
                              n->setup.fd};
    c->state = NODE_LIVE;
    node_client_send(c, packet, sizeof head + dir_size, fds,
                     n->setup.size > 0 ? WIRE_MOST_FDS : WIRE_WELCOME_FDS);
    free(packet);
    if (c->role == WIRE_DRIVER) process_watch(c);
}

/* ---- who it is ---- */

/* Takes the descriptor; -1: the driver gives nothing. */
static mob_status_t setup_take(node_t *n, int fd) {
    size_t size = 0;
    mob_status_t status = fd >= 0 ? shm_sealed_check(fd, WIRE_SETUP_MAX, &size) : MOB_OK;
    if (status != MOB_OK || size == 0) {
        if (fd >= 0) close(fd);
        fd = -1;
    }
    if (status == MOB_OK) n->setup = (node_setup_t){.given = true, .fd = fd, .size = size};
    return status;
}

static void driver_greet(node_client_t *c, int fd) {
    node_t *n = c->node;
    mob_status_t status = setup_take(n, fd);
    if (status != MOB_OK) {
        node_client_refuse(c, status, mob_last_error());
        return;
    }
    /* welcomed when the zygote can fork */
    if (n->config.zygote_argv != NULL && !n->zygote.ready) return;
    node_client_welcome(c);
    if (c->state == NODE_LIVE) node_schedule(n); /* the spares have waited for the setup */
}

static void observer_greet(node_client_t *c) {
    node_t *n = c->node;
    size_t observers = 0;
    for (size_t i = 0; i < n->connections.count; i++)
        observers += n->connections.items[i]->role == WIRE_OBSERVER;
    if (observers > MOST_OBSERVERS)
        node_client_refuse(c, MOB_ELIMIT, "too many others look at this session");
    else
        c->state = NODE_LIVE;
}

/* False: it is no hello, and the client was refused or closed. */
static bool hello_check(node_client_t *c, const void *packet, size_t size,
                        wire_hello_t *ret_hello) {
    if (size >= sizeof *ret_hello) memcpy(ret_hello, packet, sizeof *ret_hello);
    if (size < sizeof *ret_hello || ret_hello->packet.magic != WIRE_MAGIC ||
        ret_hello->packet.kind != WIRE_HELLO)
        node_client_close(c);
    else if (ret_hello->version != WIRE_VERSION)
        node_client_refuse(c, MOB_EPROTO, "this daemon is of another version");
    else if (size > sizeof *ret_hello && ret_hello->role != WIRE_FETCHER)
        node_client_refuse(c, MOB_EPROTO, "a hello is followed by nothing");
    else
        return true;
    return false;
}

void node_greet(node_client_t *c, const void *packet, size_t size, int fd) {
    node_t *n = c->node;
    wire_hello_t hello;
    bool known = hello_check(c, packet, size, &hello),
         drives = known && hello.role == WIRE_DRIVER && c == n->driver && !n->setup.given;
    if (fd >= 0 && !drives) close(fd);
    if (!known) return;
    c->role = hello.role;
    if (drives) {
        driver_greet(c, fd);
    } else if (hello.role == WIRE_WORKER) {
        node_worker_hello(c, hello.token);
    } else if (hello.role == WIRE_OBSERVER) {
        observer_greet(c);
    } else if (hello.role == WIRE_FETCHER) {
        node_large_fetch(c, (const char *)packet + sizeof hello, size - sizeof hello);
    } else if (hello.role == WIRE_ZYGOTE && hello.token == n->incarnation) {
        c->state = NODE_LIVE;
        n->zygote.next = c;
    } else {
        node_client_refuse(c, MOB_EPROTO, "nobody asked for this process");
    }
}
