/*
 * Looking at a session from outside: any process of the user, also a driver or a worker, asks by
 * the daemon's socket. It need not be a client, and needs no space in the store.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"

enum { ANSWER_MAX = 1 << 30 };

/* How long the whole answer may take. */
typedef struct patience {
    int64_t limit_ms; /* -1: for ever */
    uint64_t start_ns;
} patience_t;

/* What is left of it, as poll takes it. */
static int patience_left(const patience_t *p) {
    if (p->limit_ms < 0) return -1;
    int64_t passed = (int64_t)((base_clock_mono_ns() - p->start_ns) / 1000000);
    int64_t left = p->limit_ms > passed ? p->limit_ms - passed : 0;
    return left < INT_MAX ? (int)left : INT_MAX;
}

static mob_status_t packet_receive(int sock, const patience_t *patience, void *packet,
                                   size_t capacity, size_t *ret_size) {
    size_t size = 0;
    mob_status_t status = client_packet_receive(sock, patience_left(patience), packet, capacity,
                                                &size, NULL, 0, NULL);
    if (status == MOB_ETIMEOUT)
        return base_fail(status, "the daemon mobulad did not answer in %.3g s",
                         (double)patience->limit_ms / 1000);
    if (status != MOB_OK || size == 0) return client_daemon_gone();
    *ret_size = size;
    return MOB_OK;
}

static mob_status_t answer_receive(int sock, const patience_t *patience, void **ret_answer,
                                   size_t *ret_size) {
    wire_answer_t head;
    size_t n;
    mob_status_t status = packet_receive(sock, patience, &head, sizeof head, &n);
    if (status != MOB_OK) return status;
    if (n < sizeof head || head.packet.magic != WIRE_MAGIC || head.packet.kind != WIRE_ANSWERED ||
        head.size > ANSWER_MAX)
        return base_fail(MOB_EPROTO,
                         "the daemon does not answer such questions: it is of another version");
    if (head.status != MOB_OK)
        return base_fail((mob_status_t)head.status, "the daemon could not answer: %s",
                         mob_status_text((mob_status_t)head.status));
    unsigned char *data = malloc(head.size + 1);
    if (data == NULL) return MOB_ENOMEM;
    for (uint64_t at = 0; at < head.size; at += n) {
        status = packet_receive(sock, patience, data + at, head.size - at, &n);
        if (status == MOB_OK) continue;
        free(data);
        return status;
    }
    *ret_answer = data;
    *ret_size = head.size;
    return MOB_OK;
}

mob_status_t mob_observe(const char *socket_path, mob_query_t query, uint64_t argument,
                         int64_t timeout_ms, void **ret_answer, size_t *ret_size) {
    patience_t patience = {.limit_ms = timeout_ms, .start_ns = base_clock_mono_ns()};
    int sock;
    mob_status_t status = client_socket_connect(socket_path, &sock);
    if (status != MOB_OK) return status;
    wire_hello_t hello = wire_hello(WIRE_OBSERVER, 0);
    wire_ask_t ask = {.packet = {.magic = WIRE_MAGIC, .kind = WIRE_ASK},
                      .query = (uint32_t)query,
                      .argument = argument};
    if (send(sock, &hello, sizeof hello, MSG_NOSIGNAL) < 0 ||
        send(sock, &ask, sizeof ask, MSG_NOSIGNAL) < 0)
        status = base_fail(MOB_ECLOSED, "asking the daemon: %s", strerror(errno));
    else
        status = answer_receive(sock, &patience, ret_answer, ret_size);
    close(sock);
    return status;
}
