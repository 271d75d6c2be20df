/* What the daemon tells a driver: packets on the socket. The driver's one background thread reads
 * them. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "client/client.h"

/* Whether there is something to be read, an end too, within the time. */
static bool comes_within(int sock, int64_t timeout_ms) {
    uint64_t until = base_clock_mono_ns() + (uint64_t)timeout_ms * 1000000;
    struct pollfd poll_fd = {.fd = sock, .events = POLLIN};
    for (;;) {
        uint64_t now = base_clock_mono_ns();
        uint64_t left_ms = now < until ? (until - now + 999999) / 1000000 : 0;
        int n = poll(&poll_fd, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
        if (n > 0) return true;
        if (n == 0 || errno != EINTR) return n != 0; /* recv tells the error */
    }
}

mob_status_t mob_message_read(mob_client_t *c, int64_t timeout_ms, mob_message_t *ret_message) {
    while (!c->messages_ended) {
        if (timeout_ms >= 0 && !comes_within(c->sock, timeout_ms)) return MOB_ETIMEOUT;
        ssize_t n = recv(c->sock, c->packet, WIRE_PACKET_MAX, 0);
        if (n < 0 && errno == EINTR) continue;
        wire_text_t head;
        if (n < (ssize_t)sizeof head.packet) {
            if (!atomic_exchange(&c->dead, true) && c->number != 0)
                shm_bell_ring(&c->node->bells[c->number]);
            if (c->role == WIRE_DRIVER && !c->joined) client_folders_remove(c);
            break;
        }
        memcpy(&head.packet, c->packet, sizeof head.packet);
        if (head.packet.kind == WIRE_TEXT_END) break;
        if (head.packet.kind != WIRE_TEXT || n < (ssize_t)sizeof head) continue;
        memcpy(&head, c->packet, sizeof head);
        if ((uint64_t)head.name_size + head.address_size + head.text_size + sizeof head !=
                (uint64_t)n ||
            head.name_size == 0 || head.address_size == 0)
            continue;
        ret_message->kind = (mob_message_kind_t)head.stream;
        ret_message->pid = head.pid;
        ret_message->name = c->packet + sizeof head; /* ends with its zero */
        ret_message->address = ret_message->name + head.name_size;
        ret_message->text = ret_message->address + head.address_size;
        ret_message->text_size = head.text_size;
        ret_message->unfinished = head.unfinished != 0;
        return MOB_OK;
    }
    c->messages_ended = true;
    return MOB_ECLOSED;
}

mob_status_t mob_message_finish(mob_client_t *c) {
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = client_pulse_check(c);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    client_push(c, wire_plain(WIRE_MESSAGES_END));
    pthread_mutex_unlock(&c->mutex);
    return MOB_OK;
}
