/*
 * Strangers, lines that are not up yet, stand in a list, the oldest first. A timer runs as long as
 * there are any. If too many of them were accepted, the oldest goes: an honest one needs some
 * milliseconds, so it is not among the oldest unless somebody connects very often, and then it
 * tries again.
 *
 * Whoever connects while there is no memory for a line waits, and all after him in the kernel's
 * queue: libuv listens no more until he is accepted. The timer tries again.
 */
#include "net/port.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/line.h"

enum { LOOK_MS = 1000, BACKLOG = 128 };

/* ---- lists ---- */

static void list_add(line_list_t *list, net_line_t *line) {
    line->previous = list->last;
    line->next = NULL;
    *(list->last != NULL ? &list->last->next : &list->first) = line;
    list->last = line;
    list->count++;
}

static void list_remove(line_list_t *list, net_line_t *line) {
    *(line->previous != NULL ? &line->previous->next : &list->first) = line->next;
    *(line->next != NULL ? &line->next->previous : &list->last) = line->previous;
    list->count--;
}

void net_port_line_remove(net_line_t *line) {
    net_port_t *port = line->port;
    list_remove(line->state == LINE_UP ? &port->lines : &port->strangers, line);
    net_line_t **link = &port->dirty;
    while (line->is_dirty && *link != line) link = &(*link)->next_dirty;
    if (line->is_dirty) *link = line->next_dirty;
    line->is_dirty = false;
    if (port->strangers.count == 0 && !port->is_knocked) uv_timer_stop(&port->limit);
}

void net_port_line_up(net_line_t *line) {
    net_port_line_remove(line);
    line->state = LINE_UP;
    list_add(&line->port->lines, line);
}

/* ---- what was written in a turn goes at its end ---- */

static void on_turn(uv_prepare_t *prepare) {
    net_port_t *port = prepare->data;
    while (port->dirty != NULL) {
        net_line_t *line = port->dirty;
        port->dirty = line->next_dirty;
        line->is_dirty = false;
        net_line_flush(line);
    }
    uv_prepare_stop(prepare);
}

void net_port_dirty_add(net_line_t *line) {
    net_port_t *port = line->port;
    if (line->is_dirty) return;
    if (port->dirty == NULL) uv_prepare_start(&port->flush, on_turn);
    line->is_dirty = true;
    line->next_dirty = port->dirty;
    port->dirty = line;
}

/* ---- strangers ---- */

static void knock_take(net_port_t *port);

static void on_limit(uv_timer_t *timer) {
    net_port_t *port = timer->data;
    if (port->is_knocked) knock_take(port);
    uint64_t now = uv_now(timer->loop);
    while (port->strangers.first != NULL &&
           now - port->strangers.first->began_ms >= NET_STRANGER_MS) {
        net_line_t *line = port->strangers.first;
        net_line_fail(line, base_fail(MOB_ETIMEOUT, "%s did not say who it is within %d s",
                                      line->address, NET_STRANGER_MS / 1000));
    }
}

static net_line_t *oldest_accepted(const net_port_t *port) {
    net_line_t *line = port->strangers.first;
    while (line != NULL && line->is_dialled) line = line->next;
    return line;
}

static void limit_start(net_port_t *port) {
    if (!uv_is_active((uv_handle_t *)&port->limit))
        uv_timer_start(&port->limit, on_limit, LOOK_MS, LOOK_MS);
}

static void stranger_add(net_port_t *port, net_line_t *line) {
    if (port->strangers.count >= NET_STRANGERS_MAX && oldest_accepted(port) != NULL)
        net_line_fail(
            oldest_accepted(port),
            base_fail(MOB_ELIMIT, "more than %d strangers are connected", NET_STRANGERS_MAX));
    list_add(&port->strangers, line);
    limit_start(port);
}

static void address_note(net_line_t *line, const struct sockaddr_storage *about) {
    char text[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *four = (const struct sockaddr_in *)about;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)about;
    bool is_six = about->ss_family == AF_INET6;
    inet_ntop(about->ss_family, is_six ? (const void *)&six->sin6_addr : &four->sin_addr, text,
              sizeof text);
    snprintf(line->address, sizeof line->address, is_six ? "[%s]:%u" : "%s:%u", text,
             ntohs(is_six ? six->sin6_port : four->sin_port));
}

/* Somebody has connected. */
static void knock_take(net_port_t *port) {
    net_line_t *line;
    struct sockaddr_storage about = {0};
    int size = sizeof about;
    port->is_knocked = net_line_new(port, false, &line) != MOB_OK;
    if (port->is_knocked) {
        limit_start(port);
        return;
    }
    line->state = LINE_SHAKING;
    stranger_add(port, line);
    int error = uv_accept((uv_stream_t *)&port->listener, (uv_stream_t *)&line->tcp);
    uv_tcp_getpeername(&line->tcp, (struct sockaddr *)&about, &size);
    address_note(line, &about);
    mob_status_t status =
        error == 0 ? net_line_shake(line) : base_fail(MOB_ESYS, "accept: %s", uv_strerror(error));
    if (status != MOB_OK) net_line_fail(line, status);
}

static void on_knock(uv_stream_t *listener, int error) {
    if (error == 0) knock_take(listener->data);
}

/* ---- dialling ---- */

static mob_status_t address_read(const char *address, uint16_t number,
                                 struct sockaddr_storage *ret_about) {
    if (uv_ip4_addr(address, number, (struct sockaddr_in *)ret_about) == 0 ||
        uv_ip6_addr(address, number, (struct sockaddr_in6 *)ret_about) == 0)
        return MOB_OK;
    return base_fail(MOB_EINVAL, "%s is no address in digits", address);
}

static void on_connected(uv_connect_t *request, int error) {
    net_line_t *line = request->data;
    if (line->state == LINE_ENDED) return;
    mob_status_t status = error == 0 ? net_line_shake(line)
                                     : base_fail(MOB_ESYS, "%s can't be reached: %s", line->address,
                                                 uv_strerror(error));
    if (status != MOB_OK) net_line_fail(line, status);
}

mob_status_t net_port_dial(net_port_t *port, const char *address, uint16_t number, uint64_t wanted,
                           net_purpose_t purpose, void *user, net_line_t **ret_line) {
    struct sockaddr_storage about = {0};
    net_line_t *line;
    mob_status_t status = address_read(address, number, &about);
    if (status == MOB_OK) status = net_line_new(port, true, &line);
    if (status != MOB_OK) return status;
    address_note(line, &about);
    line->user = user;
    line->wanted = wanted;
    line->purpose = purpose;
    line->connect.data = line;
    stranger_add(port, line);
    int error = uv_tcp_connect(&line->connect, &line->tcp, (struct sockaddr *)&about, on_connected);
    if (error != 0) {
        net_line_end(line);
        return base_fail(MOB_ESYS, "%s: %s", address, uv_strerror(error));
    }
    *ret_line = line;
    return MOB_OK;
}

/* ---- opening and closing ---- */

static void on_handle_closed(uv_handle_t *handle) { net_port_handle_closed(handle->data); }

void net_port_handle_closed(net_port_t *port) {
    if (--port->handles > 0 || !port->is_closed) return;
    explicit_bzero(port, sizeof *port);
    free(port);
}

static mob_status_t listen_there(net_port_t *port, const char *address, uint16_t number) {
    struct sockaddr_storage about = {0};
    int size = sizeof about;
    mob_status_t status = address_read(address, number, &about);
    if (status != MOB_OK) return status;
    int error = uv_tcp_bind(&port->listener, (struct sockaddr *)&about, 0);
    if (error == 0) error = uv_listen((uv_stream_t *)&port->listener, BACKLOG, on_knock);
    if (error == 0) error = uv_tcp_getsockname(&port->listener, (struct sockaddr *)&about, &size);
    if (error != 0)
        return base_fail(MOB_ESYS, "can't listen on %s port %u: %s", address, number,
                         uv_strerror(error));
    port->own.port = ntohs(about.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&about)->sin6_port
                                                       : ((struct sockaddr_in *)&about)->sin_port);
    return MOB_OK;
}

mob_status_t net_port_open(uv_loop_t *loop, const char *address, uint16_t number,
                           const net_secret_t *secret, net_credentials_t *credentials,
                           const net_identity_t *own, const net_port_ops_t *ops, void *context,
                           net_port_t **ret_port) {
    net_port_t *port = calloc(1, sizeof *port);
    if (port == NULL) return MOB_ENOMEM;
    *port = (net_port_t){
        .secret = *secret, .credentials = credentials, .own = *own, .ops = ops, .context = context};
    port->listener.data = port->limit.data = port->flush.data = port;
    uv_timer_init(loop, &port->limit);
    uv_prepare_init(loop, &port->flush);
    uv_tcp_init(loop, &port->listener);
    port->handles = 3;
    mob_status_t status = listen_there(port, address, number);
    if (status != MOB_OK) {
        net_port_close(port);
        return status;
    }
    *ret_port = port;
    return MOB_OK;
}

uint16_t net_port_number(const net_port_t *port) { return port->own.port; }
void net_port_cluster_set(net_port_t *port, uint64_t cluster) { port->own.cluster = cluster; }

void net_port_close(net_port_t *port) {
    while (port->strangers.first != NULL) net_line_end(port->strangers.first);
    while (port->lines.first != NULL) net_line_end(port->lines.first);
    port->is_closed = true;
    uv_close((uv_handle_t *)&port->listener, on_handle_closed);
    uv_close((uv_handle_t *)&port->limit, on_handle_closed);
    uv_close((uv_handle_t *)&port->flush, on_handle_closed);
}
