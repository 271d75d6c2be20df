/*
 * Connections: from accept to the certain end of the process behind them.
 *
 *   GREETING   connected; its user id is checked; nothing is believed yet
 *   LIVE       said hello, has a number, its segment and its rings
 *   LEFT       a driver that has left, and reads values in place: it holds those, and nothing else
 *   DYING      gone wrong or hung up: killed, and not spoken to any more. Its tasks still count as
 *              running. A driver is not ours to kill: it may live on for as long as it likes
 *   DEAD       its end is certain (reaped, or its pidfd says so): now its tasks, references and
 *              memory are dealt with
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/packet.h"
#include "node/inbox.h"
#include "node/space/pins.h"
#include "node/state.h"
#include "node/watch.h"

enum {
    OUTBOX_LIMIT = 4 << 20,
    MOST_NEWS = 4096, /* in a backlog: more than a client has threads that wait */
    ANSWER_SPACE = 8, /* places on the ring down that only answers use; a client asks for one thing
                        at a time */
};

static void on_socket(uv_poll_t *poll, int status, int events);

node_client_t *node_client_new(node_t *n) {
    node_client_t *c = calloc(1, sizeof *c);
    if (c == NULL || !vec_push(&n->connections, c)) {
        free(c);
        return NULL;
    }
    c->node = n;
    c->sock = c->pidfd = c->out.fd = c->err.fd = -1;
    c->segment = SHM_SEGMENT_NONE;
    return c;
}

static int poll_start(node_client_t *c) {
    int events = UV_READABLE | (c->outbox.count > 0 ? UV_WRITABLE : 0);
    return c->sock_polled ? uv_poll_start(&c->sock_poll, events, on_socket) : 0;
}

mob_status_t node_client_accept(node_t *n, int sock, node_client_t **ret_client) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
        close(sock);
        return MOB_EPERM;
    }
    node_client_t *c = node_client_new(n);
    if (c == NULL) {
        close(sock);
        return MOB_ENOMEM;
    }
    c->state = NODE_GREETING;
    c->pid = peer.pid;
    mob_status_t status = node_client_attach(c, sock);
    if (status != MOB_OK) {
        node_client_refuse(c, status, mob_last_error());
        return status;
    }
    *ret_client = c;
    return MOB_OK;
}

mob_status_t node_client_attach(node_client_t *c, int sock) {
    c->sock = sock;
    /* fails if the user may watch no more, say */
    static const char what[] = "watching a connection";
    mob_status_t status = node_watch(uv_poll_init(&c->node->loop, &c->sock_poll, sock), what);
    if (status != MOB_OK) return status;
    c->sock_poll.data = c;
    c->sock_polled = true;
    return node_watch(poll_start(c), what);
}

/* ---- sending ---- */

/* Packets with descriptors are few and are sent while the socket is empty; only texts ever wait in
 * the outbox. */
void node_client_send(node_client_t *c, const void *packet, size_t size, const int *fds,
                      int fd_count) {
    if (c->sock < 0) return;
    if (c->outbox.count == 0 || fd_count > 0) {
        ssize_t sent = base_packet_send(c->sock, packet, size, fds, fd_count, MSG_DONTWAIT);
        if (sent >= 0) return;
        if (errno != EAGAIN || fd_count > 0) return; /* its end is noticed by the reader */
    }
    char *copy = malloc(size);
    if (copy == NULL || !vec_push(&c->outbox, ((node_parcel_t){.data = copy, .size = size}))) {
        free(copy);
        return;
    }
    memcpy(copy, packet, size);
    c->outbox_bytes += size;
    poll_start(c);
}

static void outbox_flush(node_client_t *c) {
    size_t sent = 0;
    while (sent < c->outbox.count &&
           base_packet_send(c->sock, c->outbox.items[sent].data, c->outbox.items[sent].size, NULL,
                            0, MSG_DONTWAIT) >= 0) {
        c->outbox_bytes -= c->outbox.items[sent].size;
        free(c->outbox.items[sent++].data);
    }
    memmove(c->outbox.items, c->outbox.items + sent,
            (c->outbox.count - sent) * sizeof *c->outbox.items);
    c->outbox.count -= sent;
    if (c->outbox.count == 0) poll_start(c);
    if (c->role == WIRE_DRIVER && c->outbox_bytes < OUTBOX_LIMIT / 2) node_streams_resume(c);
}

/* What the daemon tells a client only because it asked, and as often as it asked. So these messages
 * are bounded, unless the client asks and never reads. */
static bool is_news(uint32_t kind) {
    return kind == WIRE_SPACE || kind == WIRE_RESTORED || kind == WIRE_FILE;
}

void node_client_flush(node_client_t *c) {
    if (c->backlog.count == 0 || c->state != NODE_LIVE) return;
    size_t sent = 0;
    while (sent < c->backlog.count && shm_ring_count(c->down) < SHM_DOWN_MESSAGES - ANSWER_SPACE &&
           shm_ring_push(c->down, SHM_DOWN_MESSAGES, &c->backlog.items[sent])) {
        c->backlog_news -= is_news(c->backlog.items[sent].kind);
        sent++;
    }
    memmove(c->backlog.items, c->backlog.items + sent,
            (c->backlog.count - sent) * sizeof *c->backlog.items);
    c->backlog.count -= sent;
    if (sent > 0) shm_bell_ring(&c->node->shared->bells[c->number]);
}

/* Answers have places of their own on the ring, since the client waits for them. All other messages
 * go in order, and wait for space in the backlog. */
static bool is_answer(uint32_t kind) {
    return kind == WIRE_SLOTS || kind == WIRE_RECORDS || kind == WIRE_EXTENT ||
           kind == WIRE_ANSWER || kind == WIRE_CALLS_ARE;
}

_Static_assert(sizeof(wire_message_t) == sizeof(shm_message_t), "a ring carries these");

void node_client_tell(node_client_t *c, wire_message_t message) {
    uint32_t kind = message.kind;
    if (c->state != NODE_LIVE) return;
    bool waits = !is_answer(kind) && (c->backlog.count > 0 ||
                                      shm_ring_count(c->down) >= SHM_DOWN_MESSAGES - ANSWER_SPACE);
    if (waits || !shm_ring_push(c->down, SHM_DOWN_MESSAGES, &message)) {
        /* The client makes space by reading, and says so when it has read much. The backlog goes on
         * then, or with the client's next message. */
        c->backlog_news += is_news(kind);
        if (is_answer(kind) || c->backlog_news > MOST_NEWS || !vec_push(&c->backlog, message)) {
            node_client_fault(c, "asks, and does not read the answers");
            return;
        }
        node_client_flush(c);
        return;
    }
    shm_bell_ring(&c->node->shared->bells[c->number]);
}

void node_bells_ring(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->state == NODE_LIVE)
            shm_bell_ring(&n->shared->bells[i]);
}

/* ---- hearing ---- */

/* By the daemon's will, or because the client has hung up: `killed` tells which. */
static void client_end(node_client_t *c) {
    if (c->state == NODE_LIVE) c->state = NODE_DYING;
    if (c->sock_polled) uv_poll_stop(&c->sock_poll);
    if (c->role == WIRE_WORKER && c->pid > 0 && !c->exited)
        kill(c->pid, SIGKILL); /* the daemon's unreaped child: the pid is its */
}

/* The driver's job ends. In a daemon that stays, the books on the driver are closed when its death
 * is certain; without a pidfd, now. */
static void driver_hung_up(node_client_t *c) {
    if (c->sock_polled) uv_poll_stop(&c->sock_poll);
    c->sock_polled = false;
    bool left = c->state == NODE_LEFT;
    if (!left) {
        c->state = NODE_DYING;
        c->job->lost = !c->job->farewell.leaving;
        node_job_leave(c->job, false);
    }
    if (c->node->config.stays && (left || c->pidfd < 0)) node_client_died(c);
}

static void on_socket(uv_poll_t *poll, int status, int events) {
    node_client_t *c = poll->data;
    int fd = -1;
    static char packet[WIRE_PACKET_MAX];
    if (events & UV_WRITABLE) outbox_flush(c);
    if (status >= 0 && !(events & UV_READABLE)) return;
    /* only a hello may bring a descriptor */
    ssize_t size = base_packet_receive(c->sock, packet, sizeof packet, MSG_DONTWAIT, &fd,
                                       c->state == NODE_GREETING, NULL);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        if (c->role == WIRE_DRIVER && c->state != NODE_GREETING) {
            driver_hung_up(c);
        } else if (c->role == WIRE_WORKER && c->state == NODE_LIVE) {
            client_end(c); /* hung up; its end is certain only when it is reaped */
        } else {
            node_client_close(c);
        }
        return;
    }
    if (c->state == NODE_GREETING) {
        node_greet(c, packet, (size_t)size, fd);
    } else if (c->role == WIRE_ZYGOTE && size >= (ssize_t)sizeof(wire_packet_t)) {
        wire_packet_t head;
        memcpy(&head, packet, sizeof head);
        if (head.magic == WIRE_MAGIC) node_zygote_packet(c, packet, (size_t)size);
    } else if (c->role == WIRE_OBSERVER) {
        node_observer_packet(c, packet, (size_t)size);
    } else {
        node_client_fault(c, "sent something on its socket after its hello");
    }
}

/* ---- ending ---- */

void node_client_kill(node_client_t *c) {
    c->killed = true;
    client_end(c);
}

void node_client_fault(node_client_t *c, const char *what) {
    if (c->state == NODE_DYING || c->state == NODE_DEAD) return;
    c->fault = what;
    if (c->job != NULL)
        node_job_warn(c->job, "The process %d %s; it was disconnected.", (int)c->pid, what);
    if (c->role == WIRE_WORKER && c->state == NODE_LIVE) {
        node_client_kill(c);
    } else if (c->role == WIRE_DRIVER && c->state == NODE_LIVE) {
        driver_hung_up(c);
        if (!c->node->config.stays) node_end(c->node);
    } else if (c->state == NODE_LEFT) {
        node_client_died(c); /* what it reads is not kept for it any longer */
    } else {
        node_client_close(c);
    }
}

static void client_unref(node_client_t *c) {
    if (--c->closing > 0) return;
    if (c->sock >= 0) close(c->sock);
    if (c->pidfd >= 0) close(c->pidfd);
    if (c->out.fd >= 0) close(c->out.fd);
    if (c->err.fd >= 0) close(c->err.fd);
    shm_segment_fini(&c->segment);
    for (size_t i = 0; i < c->outbox.count; i++) free(c->outbox.items[i].data);
    vec_free(&c->outbox);
    vec_free(&c->backlog);
    vec_free(&c->slots);
    vec_free(&c->records);
    vec_free(&c->pinned);
    free(c->unfit);
    free(c);
}

static void on_handle_closed(uv_handle_t *handle) { client_unref(handle->data); }

static void handle_close(node_client_t *c, uv_poll_t *poll) {
    if (poll->data == NULL) return; /* never opened */
    c->closing++;
    uv_close((uv_handle_t *)poll, on_handle_closed);
}

void node_client_close(node_client_t *c) {
    node_t *n = c->node;
    if (c->state == NODE_DEAD) return;
    c->state = NODE_DEAD;
    for (size_t i = 0; i < n->connections.count; i++) {
        if (n->connections.items[i] != c) continue;
        vec_swap_remove(&n->connections, i);
        break;
    }
    if (c->number != 0) node_number_leave(c);
    if (c == n->starter) {
        n->starter = NULL;
        if (!n->config.stays) node_end(n); /* refused: it has no driver to be here for */
    }
    node_zygote_closed(c);
    c->closing = 1; /* until all handles have been asked to close */
    node_stream_close(&c->out);
    node_stream_close(&c->err);
    node_job_unjoin(c);
    handle_close(c, &c->sock_poll);
    handle_close(c, &c->pid_poll);
    handle_close(c, &c->out.poll);
    handle_close(c, &c->err.poll);
    client_unref(c);
}

/* What a process had, and will not use any more. */
static void client_strike(node_client_t *c) {
    node_t *n = c->node;
    c->struck = true;
    node_streams_read(c);
    node_inbox_read(n); /* what it sent before it died still counts */
    if (c->role == WIRE_WORKER) node_worker_forget(c);
    node_name_waits_forget(c);
    node_questions_forget(c);
    node_space_forget(c);
    node_tasks_cancel(c);
    node_objects_forget(c);
    node_large_forget(c);
    node_extents_forget(c);
    node_grants_forget(c);
    node_shapes_forget(c);
    node_queues_note(n);
    node_bells_ring(n); /* it may have published something and died before it rang */
}

void node_client_died(node_client_t *c) {
    node_t *n = c->node;
    if (c->state == NODE_DEAD) return;
    if (c->role == WIRE_DRIVER && c->job != NULL && c->state != NODE_LEFT) {
        c->state = NODE_DYING;
        node_job_leave(c->job, false);
        if (!n->config.stays) return;
    }
    if (c->state == NODE_LEFT)
        node_pinned_drop(c);
    else if (c->number != 0) {
        c->state = NODE_DYING;
        client_strike(c);
    }
    node_client_close(c);
    node_schedule(n);
}

void node_client_leave(node_client_t *c) {
    node_t *n = c->node;
    /* It may be read while the client is struck off, which reads all rings. */
    if (c->role != WIRE_DRIVER || c->struck) return;
    bool hung_up = !c->sock_polled;
    c->state = NODE_DYING; /* nothing is told to it any more */
    c->job->lost = false;  /* the end of its socket may have come first */
    node_job_leave(c->job, false);
    if (!n->config.stays) return;
    node_pinned_hold(c);
    client_strike(c);
    c->state = NODE_LEFT;
    node_job_unjoin(c); /* what it still reads is not the job's any more */
    if (hung_up) node_client_died(c);
    n->again = true;
}
