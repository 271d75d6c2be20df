/*
 * The link to the daemon. Up: this process's ring, and the eventfd if the daemon sleeps. Down: the
 * daemon's ring to this process, and its bell.
 *
 * A thread that waits for something reads the ring down. It keeps the messages that are not its
 * answer (tasks to run).
 */
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"

_Atomic bool client_forked;

mob_status_t client_daemon_gone(void) {
    return base_fail(
        MOB_ECLOSED,
        "the daemon mobulad is gone, and with it all objects and actors: end this session "
        "(ray.shutdown) and start another (ray.init)");
}

mob_status_t client_check(const mob_client_t *c) {
    if (atomic_load_explicit(&client_forked, memory_order_relaxed))
        return base_fail(MOB_EFORKED, "this process was forked from one that is connected to "
                                      "Mobula; start work from the parent, "
                                      "or run the child as a new program");
    if (atomic_load_explicit(&c->dead, memory_order_relaxed)) return client_daemon_gone();
    return MOB_OK;
}

bool client_daemon_alive(mob_client_t *c) {
    if (atomic_load_explicit(&c->dead, memory_order_relaxed)) return false;
    char byte;
    ssize_t n = recv(c->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) atomic_store(&c->dead, true);
    return !atomic_load(&c->dead);
}

void client_notify(mob_client_t *c) {
    if (!shm_node_notify(c->node, c->number)) return;
    uint64_t one = 1;
    while (write(c->daemon_event, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

_Static_assert(sizeof(wire_message_t) == sizeof(shm_message_t), "a ring carries these");

static void message_push(mob_client_t *c, const wire_message_t *message) {
    for (int tries = 1; !shm_ring_push(c->up, SHM_UP_MESSAGES, message); tries++) {
        /* Full: the daemon has thousands of our messages to read first. It never waits for a
         * client, so this ends. */
        client_notify(c);
        if (tries % 64 == 0 && !client_daemon_alive(c)) return;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

void client_push(mob_client_t *c, wire_message_t message) {
    message_push(c, &message);
    client_notify(c);
}

void client_push_quietly(mob_client_t *c, wire_message_t message) {
    message_push(c, &message);
    (void)shm_node_notify(c->node, c->number); /* the daemon reads it when it next wakes */
}

void client_listen(mob_client_t *c) {
    wire_message_t m;
    uint32_t count = 0;
    for (; shm_ring_pop(c->down, SHM_DOWN_MESSAGES, &m) == SHM_RING_MESSAGE; count++) {
        switch (m.kind) {
        case WIRE_RUN:
        case WIRE_CALLS:
        case WIRE_CALLS_END:
            /* no memory: this worker ends, and another one runs it */
            if (!vec_push(&c->orders, m)) c->told_to_exit = true;
            break;
        case WIRE_FORGET:
            (void)vec_push(&c->forgets,
                           ((mob_ref_t){.slot = m.object.slot, .generation = m.object.generation}));
            break;
        case WIRE_SPACE:
        case WIRE_RESTORED:
            client_space_told(c, &m);
            break;
        case WIRE_FILE:
            client_large_told(c, &m);
            break;
        case WIRE_EXIT:
            c->told_to_exit = true;
            c->run_unclaimable |= m.exit.session_ends != 0;
            break;
        default:
            c->answer = m;
            c->answered = true;
        }
    }
    if (count >= SHM_DOWN_MESSAGES / 2)
        client_notify(c); /* the daemon may have more, which had no space */
}

mob_status_t client_ask(mob_client_t *c, const wire_message_t *request, uint32_t answer_kind,
                        wire_message_t *ret_answer) {
    shm_bell_t *bell = &c->node->bells[c->number];
    c->answered = false;
    client_push(c, *request);
    for (;;) {
        uint32_t seen = shm_bell_listen(bell);
        client_listen(c);
        if (c->answered && c->answer.kind == answer_kind) break;
        if (atomic_load_explicit(&c->dead, memory_order_relaxed)) return client_daemon_gone();
        client_sleep(c, seen, CLIENT_LOOK_UP_NS);
        if (!shm_ring_has_more(c->down)) client_daemon_alive(c);
    }
    *ret_answer = c->answer;
    return MOB_OK;
}

bool client_wake(mob_client_t *c, uint64_t slot_word) {
    uint64_t bits = slot_word >> STORE_WAITER_SHIFT;
    while (bits != 0) {
        uint32_t number = (uint32_t)__builtin_ctzll(bits) + 1;
        bits &= bits - 1;
        /* this process's own too: another thread may wait for what this one sealed */
        shm_bell_ring(&c->node->bells[number]);
    }
    return slot_word & STORE_CROWD;
}
