/*
 * The daemon's pulse: is it there, and does it run?
 *
 * Gone: the kernel has closed the other end of the socket. That is certain, and at once.
 *
 * Stopped (SIGSTOP, a debugger): everything that this process mapped is there, and nothing will
 * change. The kernel says so in /proc, which costs the daemon nothing: a waiter reads it at most
 * once a second. STRIKES such looks in a row make it so, if the daemon has read no ring meanwhile:
 * the first comes within a second of the stop, the last three seconds later. A daemon that goes on
 * before that was never stopped, as far as any call here knows. A process that was stopped itself,
 * or got no CPU, has not looked meanwhile, and begins to count anew.
 *
 * A call that asked and rang has a second sign: `rounds` changes with each reading of the rings,
 * however slow the machine is. If it does not for MOST_QUIET looks of a second each, the daemon is
 * stuck in some other way (a frozen control group), and the call ends too.
 *
 * A question whose call ended so is owed its answer. The answer comes when the daemon goes on, and
 * must not be taken for that of another question. So this process asks nothing more before it has
 * come. What was granted by it is kept (a range of slots, say), or given back. Until then the
 * question's memory, the scratch page or a block, is the daemon's to write to.
 */
#include "client/pulse.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "client/client.h"

static const uint64_t BETWEEN_NS = 900000000, APART_NS = 3000000000;
enum { STRIKES = 4, MOST_QUIET = 20 };

void client_pulse_init(mob_client_t *c) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    c->pulse.pid = c->daemon_pid;
    if (c->pulse.pid == 0 && getsockopt(c->sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        c->pulse.pid = peer.pid;
}

static mob_status_t daemon_stopped(const mob_client_t *c) {
    return base_fail(MOB_ESTOPPED,
                     "the daemon mobulad (process %d) is stopped, and has done nothing for "
                     "seconds: let it go on (kill -CONT %d) and call again, or end this session "
                     "(ray.shutdown) and start another (ray.init)",
                     c->pulse.pid, c->pulse.pid);
}

bool client_pulse_lost(const mob_client_t *c) {
    return atomic_load_explicit(&c->pulse.strikes, memory_order_relaxed) >= STRIKES;
}

/* One look at the kernel's word. Several threads may look at once: one of them counts. */
static void strike_count(mob_client_t *c) {
    client_pulse_t *p = &c->pulse;
    uint64_t now = base_clock_mono_ns(), last = atomic_load(&p->looked_ns);
    bool lost = client_pulse_lost(c);
    if (!lost && now - last < BETWEEN_NS) return;
    if (!atomic_compare_exchange_strong(&p->looked_ns, &last, now)) return;
    uint64_t rounds = atomic_load_explicit(&c->node->rounds, memory_order_relaxed);
    bool ran = atomic_exchange(&p->rounds, rounds) != rounds,
         stands = !ran && (lost || now - last < APART_NS);
    if (!base_process_stopped(p->pid))
        atomic_store(&p->strikes, 0);
    else if (!stands)
        atomic_store(&p->strikes, 1);
    else if (!lost)
        atomic_fetch_add(&p->strikes, 1);
}

mob_status_t client_daemon_look(mob_client_t *c) {
    if (!client_daemon_alive(c)) return client_daemon_gone();
    strike_count(c);
    return client_pulse_lost(c) ? daemon_stopped(c) : MOB_OK;
}

mob_status_t client_pulse_check(mob_client_t *c) {
    return client_pulse_lost(c) ? client_daemon_look(c) : MOB_OK;
}

mob_status_t client_quiet_look(mob_client_t *c, client_quiet_t *quiet) {
    uint64_t rounds = atomic_load_explicit(&c->node->rounds, memory_order_relaxed),
             now = base_clock_mono_ns();
    if (rounds != quiet->rounds || quiet->looked_ns == 0) {
        *quiet = (client_quiet_t){.rounds = rounds, .looked_ns = now};
    } else if (now - quiet->looked_ns >= BETWEEN_NS) {
        quiet->looked_ns = now;
        quiet->looks++;
    }
    mob_status_t status = client_daemon_look(c);
    if (status != MOB_OK || quiet->looks < MOST_QUIET) return status;
    return base_fail(MOB_ESTOPPED,
                     "the daemon mobulad (process %d) was asked and does not answer for %d s: it "
                     "is frozen or stuck. Call again when it goes on, or end this session "
                     "(ray.shutdown) and start another (ray.init)",
                     c->pulse.pid, MOST_QUIET);
}

/* ---- a question whose call has ended ---- */

void client_owed_note(mob_client_t *c, const wire_message_t *request) {
    c->owed = (client_owed_t){.request = *request};
}

bool client_owed_keeps(mob_client_t *c, uint64_t block, uint64_t tag) {
    if (block == 0 || c->owed.request.kind == 0 || c->owed.request.query.block != block)
        return false;
    c->owed.tag = tag;
    return true;
}

/* What the daemon granted to a call that has ended. */
static void grant_keep(mob_client_t *c, const wire_message_t *request, const wire_message_t *m) {
    switch (request->kind) {
    case WIRE_NEED_SLOTS:
    case WIRE_NEED_RECORDS:
        client_pool_add(c, request->kind == WIRE_NEED_SLOTS, m);
        break;
    case WIRE_NEED_EXTENT:
        if (m->extent.status == MOB_OK)
            shm_heap_adopt(&c->heap, m->extent.offset, m->extent.size, m->extent.serial);
        break;
    case WIRE_NEED_CALLS:
        client_calls_granted(
            c, (mob_ref_t){.slot = request->object.slot, .generation = request->object.generation},
            m);
        break;
    case WIRE_SHAPE:
        if (m->answer.status == MOB_OK && m->answer.value > MOB_SHAPE_ONE_CPU)
            client_push_quietly(
                c, (wire_message_t){.shape_drop = {WIRE_SHAPE_DROP, (uint32_t)m->answer.value}});
        break;
    default:
        break;
    }
}

bool client_owed_settle(mob_client_t *c, const wire_message_t *m) {
    client_owed_t owed = c->owed;
    if (owed.request.kind == 0) return false;
    c->owed.request.kind = 0;
    grant_keep(c, &owed.request, m);
    if (owed.tag != 0) shm_heap_free(&c->heap, owed.request.query.block, owed.tag);
    return true;
}
