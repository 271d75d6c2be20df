/* To a peer, by the handshake that its port accepts (net/handshake.h), without a port: the thread
 * has the socket from the beginning. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bulk/state.h"

static int socket_open(const peer_t *peer) {
    struct sockaddr_storage about = {0};
    socklen_t size = sizeof(struct sockaddr_in);
    if (uv_ip4_addr(peer->address, peer->port, (struct sockaddr_in *)&about) != 0) {
        size = sizeof(struct sockaddr_in6);
        if (uv_ip6_addr(peer->address, peer->port, (struct sockaddr_in6 *)&about) != 0) {
            errno = EINVAL;
            return -1;
        }
    }
    int fd = socket(about.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (connect(fd, (struct sockaddr *)&about, size) == 0 || errno == EINPROGRESS) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static mob_status_t handshake_new(pipe_t *pipe) {
    uint8_t nonce[NET_NONCE];
    bulk_t *bulk = pipe->bulk;
    net_identity_t self = bulk->self;
    self.wanted = pipe->peer;
    self.purpose = NET_BULK;
    pipe->handshake = calloc(1, sizeof *pipe->handshake);
    if (pipe->handshake == NULL) return MOB_ENOMEM;
    net_secret_random(nonce, sizeof nonce);
    net_handshake_init(pipe->handshake, true, &bulk->secret, &self, nonce);
    return bulk->credentials == NULL ? MOB_OK : net_tls_new(bulk->credentials, true, &pipe->tls);
}

pipe_t *bulk_dial(bulk_t *bulk, const peer_t *peer) {
    int fd = socket_open(peer);
    if (fd < 0) {
        (void)base_fail(MOB_ESYS, "%s can't be reached: %s", peer->address, strerror(errno));
        return NULL;
    }
    pipe_t *pipe = bulk_pipe_new(bulk, fd, true, peer->node, peer->address);
    if (pipe == NULL) {
        (void)base_fail(MOB_ENOMEM, "there is no memory for a connection");
        return NULL;
    }
    if (handshake_new(pipe) == MOB_OK) bulk_pipe_watch(pipe, true);
    if (pipe->events != 0) {
        bulk_pipe_touch(pipe);
        return pipe;
    }
    (void)base_fail(MOB_ENOMEM, "there is no memory for a connection");
    bulk_pipe_end(pipe, MOB_OK);
    return NULL;
}

static mob_status_t shake_say(pipe_t *pipe) {
    size_t size;
    const uint8_t *bytes = net_handshake_out(pipe->handshake, &size);
    return size > 0 ? bulk_pipe_say(pipe, bytes, size) : MOB_OK;
}

static mob_status_t connected(pipe_t *pipe) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(pipe->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
        return base_fail(MOB_ESYS, "%s can't be reached: %s", pipe->address, strerror(error));
    pipe->state = PIPE_SHAKING;
    return shake_say(pipe);
}

static mob_status_t shake_finish(pipe_t *pipe) {
    net_handshake_t *h = pipe->handshake;
    if (h->peer.incarnation != pipe->peer)
        return base_fail(MOB_EINVAL, "another node is at %s now", pipe->address);
    mob_status_t status = chunk_key_init(&pipe->key, h->keys[0]);
    net_handshake_fini(h);
    free(h);
    pipe->handshake = NULL;
    pipe->head_size = 0;
    pipe->state = PIPE_UP;
    return status;
}

/* What the acceptor has said, as far as it is there. */
static mob_status_t shake_go_on(pipe_t *pipe) {
    net_handshake_t *h = pipe->handshake;
    mob_status_t status = MOB_OK;
    while (status == MOB_OK && pipe->state == PIPE_SHAKING) {
        size_t needs = net_handshake_needs(h);
        size_t n = bulk_pipe_read(pipe, pipe->head + pipe->head_size, needs - pipe->head_size);
        if (n == 0) return MOB_OK;
        pipe->head_size += n;
        if (pipe->head_size < needs) continue;
        pipe->head_size = 0;
        status = net_handshake_take(h, pipe->head);
        if (status == MOB_OK) status = shake_say(pipe);
        if (status == MOB_OK && h->state == NET_STATE_DONE) return shake_finish(pipe);
    }
    return status;
}

void bulk_dial_event(pipe_t *pipe) {
    pipe->taken = 0;
    mob_status_t status = pipe->state == PIPE_DIALLING ? connected(pipe) : MOB_OK;
    if (status == MOB_OK) status = shake_go_on(pipe);
    if (status != MOB_OK) bulk_pipe_end(pipe, status);
    if (pipe->state == PIPE_UP)
        bulk_out_go(pipe);
    else if (pipe->state != PIPE_ENDED)
        bulk_pipe_watch(pipe, !bulk_pipe_flush(pipe));
}
