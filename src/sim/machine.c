/* What comes to a stopped machine is kept in the order in which it came, and comes in that order
 * when it goes on, all at once. */
#include "sim/machine.h"

#include <stdlib.h>

#include "base/vec.h"

typedef struct {
    machine_t *machine;
    world_fn fn;
    void *context;
    uint64_t argument;
} call_t;

struct machine {
    world_t *world;
    enum { UP, STOPPED, DEAD } state;
    uint64_t clock_began_ns;
    int64_t drift; /* in a million */
    VEC(call_t *) kept;
    void (*wake)(void *context);
    void *wake_context;
};

machine_t *machine_new(world_t *world) {
    machine_t *m = world_alloc(world, sizeof *m);
    m->world = world;
    m->clock_began_ns = world_between(world, 0, 1000 * WORLD_S);
    m->drift = (int64_t)world_between(world, 0, 2000) - 1000;
    return m;
}

void machine_free(machine_t *m) {
    if (m == NULL) return;
    vec_free(&m->kept);
    world_release(m->world, m);
}

world_t *machine_world(const machine_t *m) { return m->world; }
bool machine_is_up(const machine_t *m) { return m->state == UP; }
bool machine_is_dead(const machine_t *m) { return m->state == DEAD; }

uint64_t machine_clock_ns(const machine_t *m) {
    uint64_t now = world_now_ns(m->world);
    return m->clock_began_ns + now + (uint64_t)((int64_t)(now / 1000000) * m->drift);
}

static void call_now(void *context, uint64_t argument) {
    (void)argument;
    call_t *call = context;
    machine_t *m = call->machine;
    if (m->state == STOPPED || m->kept.count > 0) { /* behind those that are kept */
        if (!vec_push(&m->kept, call)) abort();
        return;
    }
    if (m->state == UP) call->fn(call->context, call->argument);
    world_release(m->world, call);
}

void machine_later(machine_t *m, uint64_t delay, uint64_t line, world_fn fn, void *context,
                   uint64_t argument) {
    call_t *call = world_alloc(m->world, sizeof *call);
    *call = (call_t){m, fn, context, argument};
    world_later(m->world, delay, line, call_now, call, 0);
}

void machine_stop(machine_t *m) {
    if (m->state == UP) m->state = STOPPED;
}

static void kept_call(void *context, uint64_t argument) {
    (void)argument;
    machine_t *m = context;
    if (m->state != UP || m->kept.count == 0) return;
    call_t *call = m->kept.items[0];
    m->kept.count--;
    for (size_t i = 0; i < m->kept.count; i++) m->kept.items[i] = m->kept.items[i + 1];
    call->fn(call->context, call->argument);
    world_release(m->world, call);
    if (m->state == UP && m->kept.count > 0) world_later(m->world, 0, 0, kept_call, m, 0);
}

void machine_go_on(machine_t *m) {
    if (m->state != STOPPED) return;
    m->state = UP;
    if (m->wake != NULL) m->wake(m->wake_context);
    kept_call(m, 0);
}

void machine_on_wake(machine_t *m, void (*wake)(void *context), void *context) {
    m->wake = wake;
    m->wake_context = context;
}

void machine_kill(machine_t *m) { m->state = DEAD; }
