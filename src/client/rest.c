/*
 * Waiting. Waking a process costs tens of microseconds, a look at a word of another that is awake a fraction of one: so a waiter looks for a while before it sleeps. It does
 * so only while every process that is awake can have a CPU of its own; else it would take the CPU from the one that it waits for.
 *
 * Nor does one spin that has just woken whom it waits for: a call to a sleeping worker took 84 us with spinning, and takes 20 to 30 us since the caller goes to sleep at once. (Waking a process
 * on the same CPU takes 3 us here, on another 28: a waker that sleeps leaves its CPU.)
 */
#include "base/clock.h"
#include "client/client.h"

static const uint64_t SPIN_NS = 25000;
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
        awake += (uint32_t)__builtin_popcountll(atomic_load_explicit(&c->node->awake[w], memory_order_relaxed));
    return awake;
}

static uint32_t cpu_count(mob_client_t *c) { return atomic_load_explicit(&c->node->cpus, memory_order_relaxed); }

bool client_may_spin(mob_client_t *c) {
    uint32_t cpus = cpu_count(c);
    return cpus > 1 && awake_count(c) <= cpus;
}

unsigned client_idle_cpus(mob_client_t *c) {
    uint32_t cpus = cpu_count(c), awake = awake_count(c);
    return awake < cpus ? cpus - awake : 0;
}

bool client_spin(mob_client_t *c, client_look_fn there, void *context) {
    if (!client_may_spin(c)) return there(c, context);
    uint64_t end = base_clock_mono_ns() + SPIN_NS;
    do {
        for (int i = 0; i < LOOKS; i++) {
            if (there(c, context)) return true;
            pause_cpu();
        }
    } while (base_clock_mono_ns() < end && client_may_spin(c));
    return false;
}

void client_awake(mob_client_t *c, bool awake) {
    _Atomic uint64_t *word = &c->node->awake[c->number / 64];
    /* relaxed: others only guess by it */
    if (awake)
        atomic_fetch_or_explicit(word, shm_node_bit(c->number), memory_order_relaxed);
    else
        atomic_fetch_and_explicit(word, ~shm_node_bit(c->number), memory_order_relaxed);
}

bool client_sleep(mob_client_t *c, uint32_t seen, int64_t timeout_ns) {
    client_awake(c, false);
    bool woken = shm_bell_sleep(&c->node->bells[c->number], seen, timeout_ns);
    client_awake(c, true);
    return woken;
}
