/*
 * Looking at a session from outside: a question by the daemon's socket, without taking part. Works in any process of the user, also in a driver or a worker, and needs no room in the store.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"

enum { PATIENCE_MS = 20000, ANSWER_MAX = 1 << 30 };

/* One frame; its size, or -1 with the words set. */
static ssize_t frame_receive(int sock, void *frame, size_t capacity) {
    ssize_t n;
    int ready;
    do ready = poll(&(struct pollfd){.fd = sock, .events = POLLIN}, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready == 0) {
        base_fail(MOB_ETIMEOUT, "the daemon mobulad did not answer in %d s", PATIENCE_MS / 1000);
        return -1;
    }
    do n = recv(sock, frame, capacity, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0) return n;
    client_daemon_gone();
    return -1;
}

static mob_status_t answer_receive(int sock, void **ret_answer, size_t *ret_size) {
    wire_answer_t head;
    ssize_t n = frame_receive(sock, &head, sizeof head);
    if (n < 0) return MOB_ECLOSED;
    if ((size_t)n < sizeof head || head.frame.magic != WIRE_MAGIC || head.frame.kind != WIRE_ANSWERED ||
        head.size > ANSWER_MAX)
        return base_fail(MOB_EPROTO, "the daemon does not answer such questions: it is of another version");
    if (head.status != MOB_OK)
        return base_fail((mob_status_t)head.status, "the daemon could not answer: %s",
                         mob_status_text((mob_status_t)head.status));
    unsigned char *data = malloc(head.size + 1);
    if (data == NULL) return MOB_ENOMEM;
    for (uint64_t at = 0; at < head.size; at += (uint64_t)n) {
        n = frame_receive(sock, data + at, head.size - at);
        if (n >= 0) continue;
        free(data);
        return MOB_ECLOSED;
    }
    *ret_answer = data;
    *ret_size = head.size;
    return MOB_OK;
}

mob_status_t mob_observe(const char *socket_path, mob_query_t query, uint64_t argument, void **ret_answer,
                         size_t *ret_size) {
    int sock;
    mob_status_t status = client_socket_connect(socket_path, &sock);
    if (status != MOB_OK) return status;
    wire_hello_t hello = {
        .frame = {.magic = WIRE_MAGIC, .kind = WIRE_HELLO}, .version = WIRE_VERSION, .role = WIRE_OBSERVER};
    wire_ask_t ask = {.frame = {.magic = WIRE_MAGIC, .kind = WIRE_ASK}, .query = (uint32_t)query, .argument = argument};
    if (send(sock, &hello, sizeof hello, MSG_NOSIGNAL) < 0 || send(sock, &ask, sizeof ask, MSG_NOSIGNAL) < 0)
        status = base_fail(MOB_ECLOSED, "asking the daemon: %s", strerror(errno));
    else
        status = answer_receive(sock, ret_answer, ret_size);
    close(sock);
    return status;
}
