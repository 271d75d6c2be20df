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

enum { ROOM = SHM_UP_MESSAGES / 4 }; /* places that client_room_await keeps for other messages */

/* Rings the daemon, which has thousands of our messages to read, and waits a little. */
static mob_status_t reading_await(mob_client_t *c, client_quiet_t *quiet, int tries) {
    client_notify(c);
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return tries % 64 == 0 ? client_quiet_look(c, quiet) : MOB_OK;
}

/* If the ring is full, this waits: the daemon never waits for a client. If the daemon is stopped,
 * calls that could fail have failed before (client_room_await), and this message can't be left out:
 * for a driver the session is over then, as if the daemon were gone. A worker waits until the
 * daemon goes on, or for its own end. */
static void message_push(mob_client_t *c, const wire_message_t *message) {
    client_quiet_t quiet = {0};
    for (int tries = 1; !shm_ring_push(c->up, SHM_UP_MESSAGES, message); tries++) {
        mob_status_t status = reading_await(c, &quiet, tries);
        if (status == MOB_ESTOPPED && c->role == WIRE_DRIVER) atomic_store(&c->dead, true);
        if (atomic_load_explicit(&c->dead, memory_order_relaxed)) return;
    }
}

mob_status_t client_room_await(mob_client_t *c) {
    client_quiet_t quiet = {0};
    mob_status_t status = MOB_OK;
    for (int tries = 1; status == MOB_OK && shm_ring_count(c->up) > SHM_UP_MESSAGES - ROOM; tries++)
        status = reading_await(c, &quiet, tries);
    return status;
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
        case WIRE_CANCEL_RUN:
            client_cancel_told(c, m.record.record, m.record.generation);
            break;
        case WIRE_DEADLOCK:
            c->deadlocked = m;
            break;
        case WIRE_EXIT:
            c->told_to_exit = true;
            c->run_unclaimable |= m.exit.job_ends != 0;
            break;
        default:
            if (client_owed_settle(c, &m)) break;
            c->answer = m;
            c->answered = true;
        }
    }
    if (count >= SHM_DOWN_MESSAGES / 2)
        client_notify(c); /* the daemon may have more, which had no space */
}

/* Whether the answer is there; kind 0: that to the question whose call has ended. */
static bool has_answer(const mob_client_t *c, uint32_t kind) {
    return kind == 0 ? c->owed.request.kind == 0 : c->answered && c->answer.kind == kind;
}

static mob_status_t answer_await(mob_client_t *c, uint32_t kind) {
    client_quiet_t quiet = {0};
    for (;;) {
        uint32_t seen = shm_bell_listen(&c->node->bells[c->number]);
        client_listen(c);
        if (has_answer(c, kind)) return MOB_OK;
        if (atomic_load_explicit(&c->dead, memory_order_relaxed)) return client_daemon_gone();
        client_sleep(c, seen, CLIENT_LOOK_UP_NS);
        if (shm_ring_has_more(c->down)) continue;
        mob_status_t status = client_quiet_look(c, &quiet);
        if (status != MOB_OK) return status;
    }
}

mob_status_t client_ask(mob_client_t *c, const wire_message_t *request, uint32_t answer_kind,
                        wire_message_t *ret_answer) {
    mob_status_t status = client_pulse_check(c);
    if (status == MOB_OK && c->owed.request.kind != 0) status = answer_await(c, 0);
    if (status != MOB_OK) return status;
    c->answered = false;
    client_push(c, *request);
    status = answer_await(c, answer_kind);
    if (status == MOB_OK)
        *ret_answer = c->answer;
    else if (status == MOB_ESTOPPED)
        client_owed_note(c, request);
    return status;
}

uint64_t client_report(mob_client_t *c, const wire_message_t *request) {
    mob_status_t status = MOB_OK;
    while (c->owed.request.kind != 0 && status != MOB_ECLOSED) status = answer_await(c, 0);
    c->answered = false;
    client_push(c, *request);
    do status = answer_await(c, WIRE_ANSWER);
    while (status == MOB_ESTOPPED);
    return status == MOB_OK ? c->answer.answer.value : 0;
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
