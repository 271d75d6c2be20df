/*
 * A machine of the simulator: what runs on it at its own pace, by its own clock. It can be stopped,
 * as by SIGSTOP or a machine that hangs: then nothing of it runs, and what came meanwhile comes
 * when it goes on. It can be killed: then nothing of it ever runs again.
 */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include "sim/world.h"

typedef struct machine machine_t;

machine_t *machine_new(world_t *world);
/* Only at the world's end: events may still name it. */
void machine_free(machine_t *machine);
world_t *machine_world(const machine_t *machine);

/* Calls fn then, if the machine is up; when it goes on, if it is stopped; never, if it is dead.
 * Lines are as world_later's. */
void machine_later(machine_t *machine, uint64_t delay_ns, uint64_t line, world_fn fn, void *context,
                   uint64_t argument);

/* Its clock, which keeps going while it is stopped. It began anywhere, and goes wrong by up to
 * 1/1000. */
uint64_t machine_clock_ns(const machine_t *machine);

/* Called when it goes on, before everything that was kept. */
void machine_on_wake(machine_t *machine, void (*wake)(void *context), void *context);

void machine_stop(machine_t *machine);
void machine_go_on(machine_t *machine);
void machine_kill(machine_t *machine);
bool machine_is_up(const machine_t *machine);
bool machine_is_dead(const machine_t *machine);

#endif
