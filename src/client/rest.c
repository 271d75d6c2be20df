/*
 * Waiting. Waking a process costs tens of microseconds, a look at a word of another that is awake a
 * fraction of one: so a waiter looks for a while before it sleeps. It does so only while every
 * process that is awake can have a CPU of its own. Else it would take the CPU from the process that
 * it waits for.
 *
 * Nor does a thread spin that has just woken the process that it waits for: a call to a sleeping
 * worker took 84 us with spinning, and takes 20 to 30 us since the caller goes to sleep at once.
 * (Waking a process on the same CPU takes 3 us here, on another 28: a waker that sleeps leaves its
 * CPU.)
 *
 * The waiter learns how long to look. If the result was not there after SPIN_NS but came within
 * SOON_NS, a longer look would have cost less than the wake-up: from then on the waiter looks for
 * up to LONG_SPIN_NS, until a result takes longer. Else a program that does a little between two
 * calls finds the worker asleep each time, and each call costs two wake-ups across CPUs, 90 to 110
 * us; and two processes that once slept go on sleeping, because a wake-up takes longer than the
 * other looks. LONG is twice SOON, for the waiter takes the time when it is awake again: with one
 * limit for both, it missed calls at that distance by turns.
 *
 * After POLITE_NS the waiter calls sched_yield after each look: half a microsecond if no other
 * process wants this CPU. The process that it waits for may want it: the kernel likes to put a
 * woken process beside its waker, and does not move it for hundreds of microseconds though another
 * CPU is idle (a call every 150 us took 85 us for that, and takes 10 to 28).
 */
#include <sched.h>

#include "base/clock.h"
#include "client/client.h"

static const uint64_t SPIN_NS = 25000, LONG_SPIN_NS = 400000, SOON_NS = 200000, POLITE_NS = 5000;
enum { LOOKS = 16 };

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Processes that are awake. */
static uint32_t awake_count(mob_client_t *c) {
    uint32_t awake = atomic_load_explicit(&c->node->daemon_sleeps, memory_order_relaxed) == 0;
    for (uint32_t w = 0; w < shm_node_words(c->node); w++)
        awake += (uint32_t)__builtin_popcountll(
            atomic_load_explicit(&c->node->awake[w], memory_order_relaxed));
    return awake;
}

static uint32_t cpu_count(mob_client_t *c) {
    return atomic_load_explicit(&c->node->cpus, memory_order_relaxed);
}

/* `beside`: threads of this process that spin already. */
static bool may_spin(mob_client_t *c, uint32_t beside) {
    uint32_t cpus = cpu_count(c);
    return cpus > 1 && awake_count(c) + beside <= cpus;
}

bool client_may_spin(mob_client_t *c) { return may_spin(c, 0); }

unsigned client_idle_cpus(mob_client_t *c) {
    uint32_t cpus = cpu_count(c), awake = awake_count(c);
    return awake < cpus ? cpus - awake : 0;
}

bool client_spin(mob_client_t *c, client_patience_t *patience, client_look_fn there,
                 void *context) {
    uint64_t now = base_clock_mono_ns(),
             learnt = atomic_load_explicit(&patience->spin_ns, memory_order_relaxed);
    uint64_t end = now + (learnt > 0 ? learnt : SPIN_NS);
    atomic_store_explicit(&patience->since_ns, now, memory_order_relaxed);
    if (there(c, context)) return true;
    bool found = false;
    uint32_t beside = atomic_fetch_add_explicit(&c->spinners, 1, memory_order_relaxed);
    uint64_t polite = now + POLITE_NS;
    while (!found && now < end && may_spin(c, beside)) {
        if (now >= polite) sched_yield();
        for (int i = 0; i < LOOKS && !found; i++) {
            pause_cpu();
            found = there(c, context);
        }
        now = base_clock_mono_ns();
    }
    atomic_fetch_sub_explicit(&c->spinners, 1, memory_order_relaxed);
    return found;
}

void client_patience_learn(client_patience_t *patience, bool there) {
    bool soon = there && base_clock_mono_ns() -
                                 atomic_load_explicit(&patience->since_ns, memory_order_relaxed) <
                             SOON_NS;
    atomic_store_explicit(&patience->spin_ns, soon ? LONG_SPIN_NS : SPIN_NS, memory_order_relaxed);
}

void client_awake_set(mob_client_t *c, bool awake) {
    _Atomic uint64_t *word = &c->node->awake[c->number / 64];
    /* relaxed: other processes only guess by it */
    if (awake)
        atomic_fetch_or_explicit(word, shm_node_bit(c->number), memory_order_relaxed);
    else
        atomic_fetch_and_explicit(word, ~shm_node_bit(c->number), memory_order_relaxed);
}

bool client_sleep(mob_client_t *c, uint32_t seen, int64_t timeout_ns) {
    client_awake_set(c, false);
    bool woken = shm_bell_sleep(&c->node->bells[c->number], seen, timeout_ns);
    client_awake_set(c, true);
    return woken;
}

/* ---- for a limited time ---- */

int64_t client_wait_slice(uint64_t deadline_ns) {
    if (deadline_ns == UINT64_MAX) return CLIENT_LOOK_UP_NS;
    uint64_t now = base_clock_mono_ns();
    if (now >= deadline_ns) return 0;
    return deadline_ns - now < (uint64_t)CLIENT_LOOK_UP_NS ? (int64_t)(deadline_ns - now)
                                                           : CLIENT_LOOK_UP_NS;
}

uint64_t client_wait_deadline(int64_t timeout_ms) {
    return timeout_ms < 0 ? UINT64_MAX : base_clock_mono_ns() + (uint64_t)timeout_ms * 1000000u;
}

mob_status_t client_wait_check(mob_client_t *c) {
    if (!client_is_unloading()) return client_pulse_check(c);
    return base_fail(
        MOB_ELIMIT,
        "a result that is not there yet can't be waited for while a worker unloads a function "
        "that nobody refers to any more (in a __del__, most likely): leave it to a task");
}
