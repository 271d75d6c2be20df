/*
 * Reading: bytes gather in a buffer that holds the largest record. Whatever is whole is taken, and
 * the buffer is given back as soon as it is empty: a quiet line has none.
 *
 * Writing: bytes gather in records with room for their heads in front. When the port's turn ends
 * the heads are written and all of it goes to the kernel in one call. A record's tag is made then,
 * so small writes share one.
 *
 * With TLS what comes goes through it before it gathers, and what goes does so before it is sent.
 * Everything else is the same, tags included: a second way would save little and could be wrong.
 */
#include "net/line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

enum { IN_CAPACITY = NET_RECORD_HEAD + NET_RECORD_MAX, OUT_FIRST = 4096 };

typedef struct {
    uv_write_t request;
    net_line_t *line;
    uint8_t *bytes;
    size_t size;
} sending_t;

/* ---- beginning and end ---- */

mob_status_t net_line_new(net_port_t *port, bool is_dialled, net_line_t **ret_line) {
    net_line_t *line = calloc(1, sizeof *line);
    if (line == NULL) return MOB_ENOMEM;
    line->handshake = calloc(1, sizeof *line->handshake);
    bool has_tls = port->credentials == NULL ||
                   net_tls_new(port->credentials, is_dialled, &line->tls) == MOB_OK;
    if (line->handshake == NULL || !has_tls || uv_tcp_init(port->listener.loop, &line->tcp) != 0) {
        free(line->handshake);
        net_tls_free(line->tls);
        free(line);
        return MOB_ENOMEM;
    }
    line->port = port;
    line->is_dialled = is_dialled;
    line->tcp.data = line;
    line->began_ms = uv_now(port->listener.loop);
    port->handles++;
    *ret_line = line;
    return MOB_OK;
}

static void handshake_free(net_line_t *line) {
    if (line->handshake == NULL) return;
    net_handshake_fini(line->handshake);
    free(line->handshake);
    line->handshake = NULL;
}

static void on_closed(uv_handle_t *handle) {
    net_line_t *line = handle->data;
    net_port_t *port = line->port;
    handshake_free(line);
    net_seal_fini(&line->in_seal);
    net_seal_fini(&line->out_seal);
    net_tls_free(line->tls);
    free(line->in);
    free(line->out);
    free(line);
    net_port_handle_closed(port);
}

void net_line_end(net_line_t *line) {
    if (line->state == LINE_ENDED) return;
    net_port_line_remove(line);
    line->state = LINE_ENDED;
    uv_close((uv_handle_t *)&line->tcp, on_closed);
}

void net_line_fail(net_line_t *line, mob_status_t status) {
    if (line->state == LINE_ENDED) return;
    net_port_t *port = line->port;
    bool is_stranger = line->state != LINE_UP && !line->is_dialled;
    net_line_end(line);
    if (is_stranger)
        port->ops->refused(port->context, line->address, status);
    else
        port->ops->down(port->context, line, status);
}

/* ---- writing ---- */

static void on_sent(uv_write_t *request, int error) {
    sending_t *sending = (sending_t *)request;
    net_line_t *line = sending->line;
    line->pending -= sending->size;
    free(sending->bytes);
    free(sending);
    const net_port_ops_t *ops = line->port->ops;
    if (error == 0 && line->state == LINE_UP && net_line_pending(line) == 0 && ops->drained != NULL)
        ops->drained(line->port->context, line);
    if (error == 0 || error == UV_ECANCELED) return;
    net_line_fail(line, base_fail(MOB_ESYS, "%s: %s", line->address, uv_strerror(error)));
}

/* To the kernel. Takes the bytes. */
static mob_status_t wire_send(net_line_t *line, uint8_t *bytes, size_t size) {
    sending_t *sending = malloc(sizeof *sending);
    if (sending == NULL) {
        free(bytes);
        return MOB_ENOMEM;
    }
    *sending = (sending_t){.line = line, .bytes = bytes, .size = size};
    line->pending += size;
    uv_buf_t buffer = uv_buf_init((char *)bytes, (unsigned)size);
    int error = uv_write(&sending->request, (uv_stream_t *)&line->tcp, &buffer, 1, on_sent);
    if (error == 0) return MOB_OK;
    line->pending -= size;
    free(bytes);
    free(sending);
    return base_fail(MOB_ESYS, "%s: %s", line->address, uv_strerror(error));
}

/* What TLS has to say, of its own and of ours. */
static mob_status_t tls_send(net_line_t *line) {
    size_t size;
    uint8_t *bytes = net_tls_out(line->tls, &size);
    return bytes != NULL ? wire_send(line, bytes, size) : MOB_OK;
}

/* Takes the bytes. */
static mob_status_t send_bytes(net_line_t *line, uint8_t *bytes, size_t size) {
    if (line->tls == NULL) return wire_send(line, bytes, size);
    mob_status_t status = net_tls_write(line->tls, bytes, size);
    free(bytes);
    mob_status_t sent = tls_send(line);
    return status != MOB_OK ? status : sent;
}

static bool out_reserve(net_line_t *line, size_t more) {
    size_t needed = line->out_size + more, capacity = line->out_capacity;
    if (needed <= capacity) return true;
    if (capacity == 0) capacity = OUT_FIRST;
    while (capacity < needed) capacity *= 2;
    uint8_t *grown = realloc(line->out, capacity);
    if (grown == NULL) return false;
    line->out = grown;
    line->out_capacity = capacity;
    return true;
}

static size_t record_left(const net_line_t *line) {
    if (line->out_size == 0) return 0;
    return NET_RECORD_MAX - (line->out_size - line->record_at - NET_RECORD_HEAD);
}

mob_status_t net_line_write(net_line_t *line, const void *bytes, size_t size) {
    if (line->state != LINE_UP) return MOB_EINVAL;
    /* all or nothing: half of a message must never go */
    size_t heads = size / NET_RECORD_MAX + 2;
    if (!out_reserve(line, size + heads * NET_RECORD_HEAD)) return MOB_ENOMEM;
    for (const uint8_t *at = bytes; size > 0;) {
        if (record_left(line) == 0) {
            line->record_at = line->out_size;
            line->out_size += NET_RECORD_HEAD;
        }
        size_t part = record_left(line) < size ? record_left(line) : size;
        memcpy(line->out + line->out_size, at, part);
        line->out_size += part;
        at += part;
        size -= part;
    }
    net_port_dirty_add(line);
    return MOB_OK;
}

static mob_status_t records_seal(net_line_t *line) {
    for (size_t at = 0; at < line->out_size;) {
        size_t left = line->out_size - at - NET_RECORD_HEAD;
        size_t size = left < NET_RECORD_MAX ? left : NET_RECORD_MAX;
        uint8_t *head = line->out + at;
        mob_status_t status = net_seal_write(&line->out_seal, head + NET_RECORD_HEAD, size, head);
        if (status != MOB_OK) return status;
        at += NET_RECORD_HEAD + size;
    }
    return MOB_OK;
}

void net_line_flush(net_line_t *line) {
    if (line->state != LINE_UP || line->out_size == 0) return;
    mob_status_t status = records_seal(line);
    uint8_t *bytes = line->out;
    size_t size = line->out_size;
    line->out = NULL;
    line->out_size = line->out_capacity = 0;
    if (status == MOB_OK)
        status = send_bytes(line, bytes, size);
    else
        free(bytes);
    if (status != MOB_OK) net_line_fail(line, status);
}

size_t net_line_pending(const net_line_t *line) { return line->out_size + line->pending; }

/* ---- the handshake ---- */

static mob_status_t shake_send(net_line_t *line) {
    size_t size;
    const uint8_t *bytes = net_handshake_out(line->handshake, &size);
    if (size == 0) return MOB_OK;
    uint8_t *copy = malloc(size);
    if (copy == NULL) return MOB_ENOMEM;
    memcpy(copy, bytes, size);
    return send_bytes(line, copy, size);
}

static net_verdict_t verdict_on(const net_port_t *port, const net_identity_t *peer) {
    const net_identity_t *own = &port->own;
    if (strcmp(peer->version, own->version) != 0 || peer->python_major != own->python_major ||
        peer->python_minor != own->python_minor || peer->purpose < NET_FRAMES ||
        peer->purpose >= NET_PURPOSES)
        return NET_WRONG_VERSION;
    if (peer->cluster != 0 && peer->cluster != own->cluster) return NET_WRONG_CLUSTER;
    if (peer->wanted != 0 && peer->wanted != own->incarnation) return NET_WRONG_NODE;
    if (peer->purpose == NET_BULK && port->ops->bulk == NULL) return NET_BUSY;
    return port->ops->admit(port->context, peer);
}

static const char *words_on(net_verdict_t verdict) {
    switch (verdict) {
    case NET_WRONG_CLUSTER:
        return "it belongs to another cluster";
    case NET_WRONG_VERSION:
        return "it has another version of Mobula or of Python";
    case NET_WRONG_NODE:
        return "it wants another node than this";
    case NET_DEAD:
        return "it was declared dead";
    default:
        return "there is no room for it";
    }
}

/* The dialler too looks whom it has reached. */
static mob_status_t peer_check(const net_handshake_t *h) {
    if (!h->is_dialler || h->own.wanted == 0 || h->peer.incarnation == h->own.wanted) return MOB_OK;
    return base_fail(MOB_EINVAL, "another node is there now: %016llx",
                     (unsigned long long)h->peer.incarnation);
}

void net_handover_fini(net_handover_t *h) {
    if (h->fd >= 0) close(h->fd);
    net_tls_free(h->tls);
    explicit_bzero(h, sizeof *h);
    h->fd = -1;
}

/* The socket goes to whoever moves bulk data, and the line ends without a word. The dialler says
 * nothing before it has our answer, which the kernel has by now: so nothing of it was read here. */
static mob_status_t hand_over(net_line_t *line) {
    uv_os_fd_t fd;
    net_handover_t given = {.peer = line->handshake->peer, .tls = line->tls};
    if (uv_stream_get_write_queue_size((uv_stream_t *)&line->tcp) > 0 ||
        uv_fileno((uv_handle_t *)&line->tcp, &fd) != 0)
        return base_fail(MOB_ESYS, "%s takes no bytes", line->address);
    given.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (given.fd < 0) return base_fail(MOB_ESYS, "%s: %s", line->address, strerror(errno));
    memcpy(given.keys, line->handshake->keys, sizeof given.keys);
    memcpy(given.address, line->address, sizeof given.address);
    line->tls = NULL;
    net_line_end(line);
    line->port->ops->bulk(line->port->context, &given);
    return MOB_OK;
}

static mob_status_t shake_finish(net_line_t *line) {
    net_handshake_t *h = line->handshake;
    if (!line->is_dialled && h->peer.purpose == NET_BULK) return hand_over(line);
    mob_status_t status = peer_check(h);
    if (status == MOB_OK)
        status = net_seal_init(&line->out_seal, h->keys[line->is_dialled ? 0 : 1]);
    if (status == MOB_OK) status = net_seal_init(&line->in_seal, h->keys[line->is_dialled ? 1 : 0]);
    if (status != MOB_OK) return status;
    net_identity_t peer = h->peer;
    handshake_free(line);
    net_port_line_up(line);
    line->port->ops->up(line->port->context, line, &peer);
    return MOB_OK;
}

static mob_status_t shake_step(net_line_t *line, const uint8_t *bytes) {
    net_handshake_t *h = line->handshake;
    mob_status_t status = net_handshake_take(h, bytes);
    net_verdict_t verdict = NET_WELCOME;
    if (h->state == NET_STATE_DECIDE) {
        verdict = verdict_on(line->port, &h->peer);
        status = net_handshake_answer(h, verdict);
    }
    mob_status_t sent = shake_send(line);
    if (status == MOB_OK) status = sent;
    if (status != MOB_OK) return status;
    if (verdict != NET_WELCOME) return base_fail(MOB_EINVAL, "%s", words_on(verdict));
    return h->state == NET_STATE_DONE ? shake_finish(line) : MOB_OK;
}

/* ---- reading ---- */

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer) {
    (void)suggested;
    net_line_t *line = handle->data;
    if (line->tls != NULL) {
        static char sealed[IN_CAPACITY]; /* it is taken at once, before anything else is read */
        *ret_buffer = uv_buf_init(sealed, sizeof sealed);
        return;
    }
    if (line->in == NULL) line->in = malloc(IN_CAPACITY);
    *ret_buffer = line->in == NULL ? uv_buf_init(NULL, 0)
                                   : uv_buf_init((char *)line->in + line->in_size,
                                                 (unsigned)(IN_CAPACITY - line->in_size));
}

/* One whole message of the handshake, or one record, from `at` on. Its size; 0: it is not whole. */
static mob_status_t one_take(net_line_t *line, size_t at, size_t *ret_size) {
    size_t left = line->in_size - at, size;
    const uint8_t *bytes = line->in + at;
    *ret_size = 0;
    if (line->state == LINE_SHAKING) {
        size_t needs = net_handshake_needs(line->handshake);
        if (left < needs) return MOB_OK;
        *ret_size = needs;
        return shake_step(line, bytes);
    }
    if (left < NET_RECORD_HEAD) return MOB_OK;
    mob_status_t status = net_seal_size(bytes, &size);
    if (status != MOB_OK || left < NET_RECORD_HEAD + size) return status;
    status = net_seal_check(&line->in_seal, bytes, bytes + NET_RECORD_HEAD, size);
    if (status != MOB_OK) return status;
    *ret_size = NET_RECORD_HEAD + size;
    line->port->ops->bytes(line->port->context, line, bytes + NET_RECORD_HEAD, size);
    return MOB_OK;
}

static void in_take(net_line_t *line) {
    size_t at = 0, size;
    do {
        mob_status_t status = one_take(line, at, &size);
        if (status != MOB_OK) {
            net_line_fail(line, status);
            return;
        }
        at += size;
    } while (size > 0 && at < line->in_size && line->state != LINE_ENDED);
    if (line->state == LINE_ENDED) return;
    line->in_size -= at;
    if (line->in_size > 0 && at > 0) memmove(line->in, line->in + at, line->in_size);
    if (line->in_size > 0) return;
    free(line->in);
    line->in = NULL;
}

/* Through TLS: as much as there is room for, until there is no more. */
static mob_status_t tls_take(net_line_t *line, const void *bytes, size_t size) {
    size_t n;
    mob_status_t status = net_tls_received(line->tls, bytes, size);
    mob_status_t sent = tls_send(line);
    if (status == MOB_OK) status = sent;
    while (status == MOB_OK && line->state != LINE_ENDED) {
        if (line->in == NULL) line->in = malloc(IN_CAPACITY);
        if (line->in == NULL) return MOB_ENOMEM;
        status = net_tls_read(line->tls, line->in + line->in_size, IN_CAPACITY - line->in_size, &n);
        if (status != MOB_OK || n == 0) break;
        line->in_size += n;
        in_take(line);
    }
    return status;
}

static void on_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
    net_line_t *line = stream->data;
    if (line->state == LINE_ENDED || n == 0) return;
    if (n > 0 && line->tls != NULL) {
        mob_status_t status = tls_take(line, buffer->base, (size_t)n);
        if (status != MOB_OK) net_line_fail(line, status);
    } else if (n > 0) {
        line->in_size += (size_t)n;
        in_take(line);
    } else if (n == UV_EOF) {
        net_line_fail(line, base_fail(MOB_ECLOSED, "%s has closed the connection", line->address));
    } else {
        net_line_fail(line, base_fail(MOB_ESYS, "%s: %s", line->address, uv_strerror((int)n)));
    }
}

mob_status_t net_line_shake(net_line_t *line) {
    uint8_t nonce[NET_NONCE];
    net_identity_t own = line->port->own;
    own.wanted = line->wanted;
    own.purpose = (uint8_t)line->purpose;
    net_secret_random(nonce, sizeof nonce);
    net_handshake_init(line->handshake, line->is_dialled, &line->port->secret, &own, nonce);
    line->state = LINE_SHAKING;
    uv_tcp_nodelay(&line->tcp, 1);
    int error = uv_read_start((uv_stream_t *)&line->tcp, on_buffer, on_bytes);
    if (error != 0) return base_fail(MOB_ESYS, "%s: %s", line->address, uv_strerror(error));
    return shake_send(line);
}

void *net_line_user(const net_line_t *line) { return line->user; }
void net_line_user_set(net_line_t *line, void *user) { line->user = user; }
bool net_line_is_dialled(const net_line_t *line) { return line->is_dialled; }
