/*
 * The simulator's world: time, chance, and what happens next. Everything that happens is an event
 * at a time. The same seed gives the same run, event for event.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

#define WORLD_US UINT64_C(1000)
#define WORLD_MS UINT64_C(1000000)
#define WORLD_S  UINT64_C(1000000000)

typedef struct world world_t;
typedef void (*world_fn)(void *context, uint64_t argument);

/* Memory that the simulator can't have ends it: it is nobody's daemon. */
world_t *world_new(uint64_t seed);
void world_free(world_t *world);

/* Memory, all zero, that goes with the world unless it is released before: so nobody has to find
 * what is named by events that never come. */
void *world_alloc(world_t *world, size_t size);
void world_release(world_t *world, void *memory);

uint64_t world_now_ns(const world_t *world);
base_random_t *world_random(world_t *world);
/* A time from `least` to `most`, evenly. */
uint64_t world_between(world_t *world, uint64_t least_ns, uint64_t most_ns);

/* Calls fn then. Events at the same time come in an order by chance, except where they are of the
 * same `line`, which is not 0: these come in the order in which they were asked for. */
void world_later(world_t *world, uint64_t delay_ns, uint64_t line, world_fn fn, void *context,
                 uint64_t argument);
/* Called after every event: the checks. */
void world_check(world_t *world, void (*check)(void *context), void *context);

/* Something that must never be. The first one is kept, with the time; the world stops. */
__attribute__((format(printf, 2, 3))) void world_fail(world_t *world, const char *format, ...);
/* What world_fail said first, or NULL. */
const char *world_failure(const world_t *world);

/* The next event. False: there is none, or something has failed. */
bool world_step(world_t *world);
/* Steps until that time, at which the world's clock then stands. False: something has failed. */
bool world_run(world_t *world, uint64_t until_ns);
uint64_t world_events(const world_t *world); /* that there were */

/* A line of the run's story, if the world was asked to tell it (--tell). */
void world_tell_all(world_t *world);
bool world_tells(const world_t *world);
__attribute__((format(printf, 2, 3))) void world_tell(world_t *world, const char *format, ...);

#endif
