/* What the daemon tells a driver: packets on the socket. The driver's one background thread reads
 * them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "client/client.h"

mob_status_t mob_message_read(mob_client_t *c, mob_message_t *ret_message) {
    while (!c->messages_ended) {
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
        if ((uint64_t)head.name_size + head.text_size + sizeof head != (uint64_t)n ||
            head.name_size == 0)
            continue;
        ret_message->kind = (mob_message_kind_t)head.stream;
        ret_message->pid = head.pid;
        ret_message->name = c->packet + sizeof head; /* ends with its zero */
        ret_message->text = c->packet + sizeof head + head.name_size;
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
