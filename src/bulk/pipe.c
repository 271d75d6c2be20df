/*
 * A connection: a socket that the thread's loop watches, with TLS around it or without. What has to
 * go before anything else (the handshake, heads, whatever TLS has made) gathers in `out`.
 *
 * Every connection is read all the time, also the ones that only send: so an end is seen at once.
 * A peer whose machine is gone is found by the kernel (keepalive) or, where bytes are due, by the
 * limit of time.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bulk/state.h"

enum { KEEP_IDLE_S = 10, KEEP_PAUSE_S = 3, KEEP_COUNT = 3 };

static void option_set(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
}

static void on_event(uv_poll_t *poll, int error, int events) {
    pipe_t *pipe = poll->data;
    (void)events; /* each tries what it has to do, and the kernel says whether it can */
    if (pipe->state == PIPE_ENDED) return;
    if (error != 0) { /* libuv does not say which */
        socklen_t size = sizeof error;
        getsockopt(pipe->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        const char *what = pipe->state == PIPE_DIALLING ? " can't be reached" : "";
        bulk_pipe_end(pipe, base_fail(MOB_ESYS, "%s%s: %s", pipe->address, what, strerror(error)));
        return;
    }
    if (pipe->state != PIPE_UP)
        bulk_dial_event(pipe);
    else if (pipe->is_out)
        bulk_out_go(pipe);
    else
        bulk_in_go(pipe);
}

pipe_t *bulk_pipe_new(bulk_t *bulk, int fd, bool is_out, uint64_t peer, const char *address) {
    pipe_t *pipe = calloc(1, sizeof *pipe);
    if (pipe != NULL) pipe->hash = chunk_hash_new();
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (pipe == NULL || pipe->hash == NULL || uv_poll_init(&bulk->loop, &pipe->poll, fd) != 0) {
        if (pipe != NULL) chunk_hash_free(pipe->hash);
        free(pipe);
        close(fd);
        return NULL;
    }
    option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_PAUSE_S);
    option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    pipe->bulk = bulk;
    pipe->fd = fd;
    pipe->is_out = is_out;
    pipe->peer = peer;
    pipe->poll.data = pipe;
    snprintf(pipe->address, sizeof pipe->address, "%.63s", address);
    pipe->touched_ms = bulk_now_ms();
    pipe->next = bulk->pipes;
    if (pipe->next != NULL) pipe->next->previous = pipe;
    bulk->pipes = pipe;
    return pipe;
}

static void on_closed(uv_handle_t *handle) {
    pipe_t *pipe = handle->data;
    close(pipe->fd);
    if (pipe->handshake != NULL) net_handshake_fini(pipe->handshake);
    free(pipe->handshake);
    net_tls_free(pipe->tls);
    chunk_hash_free(pipe->hash);
    free(pipe->out);
    explicit_bzero(pipe, sizeof *pipe);
    free(pipe);
}

void bulk_pipe_end(pipe_t *pipe, mob_status_t status) {
    if (pipe->state == PIPE_ENDED) return;
    bulk_t *bulk = pipe->bulk;
    pipe->state = PIPE_ENDED;
    if (status != MOB_OK) bulk_trouble(bulk, pipe->peer, status);
    *(pipe->previous != NULL ? &pipe->previous->next : &bulk->pipes) = pipe->next;
    if (pipe->next != NULL) pipe->next->previous = pipe->previous;
    uv_poll_stop(&pipe->poll);
    if (pipe->is_out)
        bulk_out_ended(pipe);
    else
        bulk_in_ended(pipe);
    /* a thread that reads a file for it comes back first */
    if (!pipe->is_reading) uv_close((uv_handle_t *)&pipe->poll, on_closed);
}

void bulk_pipe_close(pipe_t *pipe) { uv_close((uv_handle_t *)&pipe->poll, on_closed); }

void bulk_pipe_watch(pipe_t *pipe, bool writable) {
    int events = UV_READABLE | (writable ? UV_WRITABLE : 0);
    if (pipe->state == PIPE_ENDED || pipe->events == events) return;
    pipe->events = events;
    int error = uv_poll_start(&pipe->poll, events, on_event);
    if (error != 0) bulk_pipe_end(pipe, base_fail(MOB_ESYS, "poll: %s", uv_strerror(error)));
}

void bulk_pipe_touch(pipe_t *pipe) {
    pipe->touched_ms = bulk_now_ms();
    bulk_limit_start(pipe->bulk);
}

/* ---- bytes that go ---- */

static mob_status_t out_add(pipe_t *pipe, const void *bytes, size_t size) {
    size_t left = pipe->out_size - pipe->out_at;
    uint8_t *grown = malloc(left + size);
    if (grown == NULL) return MOB_ENOMEM;
    if (left > 0) memcpy(grown, pipe->out + pipe->out_at, left);
    memcpy(grown + left, bytes, size);
    free(pipe->out);
    pipe->out = grown;
    pipe->out_size = left + size;
    pipe->out_at = 0;
    return MOB_OK;
}

/* What TLS has to say, of its own and of ours. */
static mob_status_t tls_gather(pipe_t *pipe) {
    size_t size;
    uint8_t *bytes = net_tls_out(pipe->tls, &size);
    if (bytes == NULL) return MOB_OK;
    mob_status_t status = MOB_OK;
    if (pipe->out_at < pipe->out_size) {
        status = out_add(pipe, bytes, size);
        free(bytes);
        return status;
    }
    free(pipe->out);
    pipe->out = bytes;
    pipe->out_size = size;
    pipe->out_at = 0;
    return MOB_OK;
}

mob_status_t bulk_pipe_say(pipe_t *pipe, const void *bytes, size_t size) {
    if (pipe->tls == NULL) return out_add(pipe, bytes, size);
    mob_status_t status = net_tls_write(pipe->tls, bytes, size);
    mob_status_t gathered = tls_gather(pipe);
    return status != MOB_OK ? status : gathered;
}

bool bulk_pipe_flush(pipe_t *pipe) {
    /* a head is followed by its bytes */
    bool has_more = pipe->serving != NULL && pipe->serving->from.size > 0 && pipe->tls == NULL;
    while (pipe->out_at < pipe->out_size) {
        int flags = MSG_NOSIGNAL | (has_more ? MSG_MORE : 0);
        ssize_t n = send(pipe->fd, pipe->out + pipe->out_at, pipe->out_size - pipe->out_at, flags);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) {
            bulk_pipe_end(pipe, base_fail(MOB_ESYS, "%s: %s", pipe->address, strerror(errno)));
            return false;
        }
        pipe->out_at += (size_t)n;
        bulk_pipe_touch(pipe);
    }
    free(pipe->out);
    pipe->out = NULL;
    pipe->out_size = pipe->out_at = 0;
    return true;
}

/* ---- bytes that come ---- */

/* From the socket. 0: no more now, or it has ended. */
static size_t take(pipe_t *pipe, uint8_t *to, size_t size) {
    for (;;) {
        ssize_t n = recv(pipe->fd, to, size, 0);
        if (n > 0) {
            pipe->taken += (size_t)n;
            bulk_pipe_touch(pipe);
            return (size_t)n;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return 0;
        bulk_pipe_end(pipe,
                      n == 0 ? base_fail(MOB_ECLOSED, "%s has closed the connection", pipe->address)
                             : base_fail(MOB_ESYS, "%s: %s", pipe->address, strerror(errno)));
        return 0;
    }
}

static size_t tls_take(pipe_t *pipe, uint8_t *to, size_t size) {
    uint8_t *sealed = pipe->bulk->scratch;
    for (;;) {
        size_t n;
        mob_status_t status = net_tls_read(pipe->tls, to, size, &n);
        if (status == MOB_OK && n > 0) return n;
        bool may = status == MOB_OK && pipe->taken < BULK_TURN;
        size_t got = may ? take(pipe, sealed, SCRATCH) : 0;
        if (got > 0) status = net_tls_received(pipe->tls, sealed, got);
        mob_status_t gathered = got > 0 ? tls_gather(pipe) : MOB_OK;
        if (status == MOB_OK) status = gathered;
        if (status != MOB_OK) bulk_pipe_end(pipe, status);
        if (pipe->state == PIPE_ENDED || got == 0) return 0;
        if (!bulk_pipe_flush(pipe)) bulk_pipe_watch(pipe, true);
        if (pipe->state == PIPE_ENDED) return 0;
    }
}

size_t bulk_pipe_read(pipe_t *pipe, uint8_t *to, size_t size) {
    if (pipe->state == PIPE_ENDED || size == 0) return 0;
    return pipe->tls != NULL ? tls_take(pipe, to, size) : take(pipe, to, size);
}
