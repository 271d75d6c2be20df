/*
 * Hello and welcome.
 *
 * A process that connects says who it is: a driver, a worker or a zygote that the daemon asked for
 * (it shows the token of that), an observer, which only asks, a fetcher of one descriptor, or the
 * starter of a daemon that stays. The daemon answers a driver and a worker with their number and
 * the descriptors of what they share with it.
 *
 * A driver gets a job. It brings the job's setup as a descriptor of sealed bytes, and is welcomed
 * when the setup's zygote can fork. Only a daemon that stays takes any driver; another one takes
 * the driver that started it.
 */
#include "node/greeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/mother.h"
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
        if (c->role == WIRE_WORKER) node_worker_useless(c->pool, why, true);
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
    bool gets_setup = c->role == WIRE_WORKER;
    node_setup_t *setup = gets_setup ? c->pool->setup : c->job->setup;
    size_t dir_size = strlen(n->session.dir) + 1;
    wire_welcome_t head = {
        .packet = {.magic = WIRE_MAGIC, .kind = WIRE_WELCOME},
        .number = c->number,
        .epoch = c->epoch,
        .incarnation = n->incarnation,
        .arena_size = n->config.store_bytes,
        .dir_size = (uint32_t)dir_size,
        .setup_size = gets_setup ? (uint32_t)setup->size : 0,
        .job = c->job->shown,
        .lanes = node_lane_number(c->job, 0),
        .environment = c->pool != NULL ? c->pool->number : 0,
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
                              setup->fd};
    c->state = NODE_LIVE;
    node_client_send(c, packet, sizeof head + dir_size, fds,
                     gets_setup ? WIRE_MOST_FDS : WIRE_WELCOME_FDS);
    free(packet);
    if (c->role == WIRE_DRIVER) process_watch(c);
}

/* ---- who it is ---- */

/* A driver's first packet: its job begins. Takes the descriptor. */
static void driver_greet(node_client_t *c, int fd) {
    node_t *n = c->node;
    if (n->stopping) {
        if (fd >= 0) close(fd);
        node_client_refuse(c, MOB_ECLOSED, "this node is about to end (`ray stop`)");
        return;
    }
    node_setup_t *setup = NULL;
    node_job_t *job = NULL;
    mob_status_t status = node_setup_new(n, fd, &setup);
    if (status == MOB_OK) status = node_job_new(n, setup, &job);
    if (status != MOB_OK) {
        node_client_refuse(c, status,
                           *mob_last_error() ? mob_last_error() : mob_status_text(status));
        return;
    }
    job->driver = c;
    job->pid = c->pid;
    node_job_join(job, c);
    node_job_note(job, false);
    if (setup->given.argv[0] == NULL) { /* it has no workers */
        node_client_welcome(c);
    } else if (node_zygote_start(setup) != MOB_OK) {
        node_client_refuse(c, MOB_ESYS, mob_last_error());
    } /* else it is welcomed when the zygote can fork */
}

void node_starter_ready(node_t *n) {
    node_client_t *c = n->starter;
    if (c == NULL || c->role != WIRE_STARTER || c->state != NODE_GREETING) return;
    const char *dir = n->session.dir;
    char packet[sizeof(wire_packet_t) + 4096];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_STARTED};
    size_t size = strnlen(dir, sizeof packet - sizeof head);
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, dir, size);
    c->state = NODE_LIVE;
    node_client_send(c, packet, sizeof head + size, NULL, 0);
}

void node_starter_fail(node_t *n, mob_status_t status, const char *why) {
    node_client_t *c = n->starter;
    if (c != NULL && c->state == NODE_GREETING) node_client_refuse(c, status, why);
    node_end(n);
}

/* The process that waits until a daemon which stays is ready. Takes the descriptor of the setup
 * that drivers are expected to have; without it they wait a little longer. */
static void starter_greet(node_client_t *c, int fd) {
    if (fd >= 0) (void)node_mother_new(c->node, fd);
    if (node_cluster_is_ready(c->node)) node_starter_ready(c->node);
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

static bool release_is_ours(const wire_hello_t *hello) {
    return strncmp(hello->release, MOBULA_VERSION, sizeof hello->release) == 0;
}

static void version_refuse(node_client_t *c, const wire_hello_t *hello) {
    char text[512];
    snprintf(text, sizeof text,
             "the daemon (pid %d) is of Mobula %s, and this program of %.*s: use one of the two "
             "for both, or start another node with this one",
             (int)getpid(), MOBULA_VERSION, WIRE_RELEASE_BYTES, hello->release);
    node_client_refuse(c, MOB_EPROTO, text);
}

/* False: it is no hello, and the client was refused or closed. */
static bool hello_check(node_client_t *c, const void *packet, size_t size,
                        wire_hello_t *ret_hello) {
    if (size >= sizeof *ret_hello) memcpy(ret_hello, packet, sizeof *ret_hello);
    if (size < sizeof *ret_hello || ret_hello->packet.magic != WIRE_MAGIC ||
        ret_hello->packet.kind != WIRE_HELLO)
        node_client_close(c);
    else if (ret_hello->version != WIRE_VERSION || !release_is_ours(ret_hello))
        version_refuse(c, ret_hello);
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
         drives = known && hello.role == WIRE_DRIVER && (n->config.stays || c == n->starter) &&
                  c->job == NULL,
         starts = known && hello.role == WIRE_STARTER && c == n->starter;
    if (fd >= 0 && !drives && !starts) close(fd);
    if (!known) return;
    node_setup_t *setup = hello.role == WIRE_ZYGOTE ? node_setup_by_token(n, hello.token) : NULL;
    c->role = hello.role;
    if (drives) {
        driver_greet(c, fd);
    } else if (hello.role == WIRE_DRIVER) {
        node_client_refuse(c, MOB_EPERM,
                           "this session is its driver's own, and nobody else can join it; a node "
                           "that others can join is started by `ray start --head`");
    } else if (hello.role == WIRE_WORKER) {
        node_worker_hello(c, hello.token);
    } else if (hello.role == WIRE_OBSERVER) {
        observer_greet(c);
    } else if (hello.role == WIRE_FETCHER) {
        node_large_fetch(c, (const char *)packet + sizeof hello, size - sizeof hello);
    } else if (setup != NULL) {
        node_zygote_hello(c, setup);
    } else if (starts) {
        starter_greet(c, fd);
    } else {
        node_client_refuse(c, MOB_EPROTO, "nobody asked for this process");
    }
}
