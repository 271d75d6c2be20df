/*
 * A model of Redis: one master and its replicas, whose writes reach them later. It can be away,
 * come back, and fail over to a replica that lacks the last writes. While two masters are there,
 * each node talks to one of them, and one of the two has most replicas: the other's answers are
 * none, for too few confirm its writes.
 *
 * Scripts run on it as control/script.h says.
 */
#ifndef SIM_REDIS_H
#define SIM_REDIS_H

#include "control/script.h"
#include "sim/machine.h"

typedef struct redis redis_t;
/* The answer to a request. `master` grows with every change of master: what was answered by an
 * older one may be gone. size 0 and answer NULL: nothing was heard within the time limit; the
 * script may have run, may yet run, or may never run. */
typedef void (*redis_reply_fn)(void *context, uint64_t master, const void *answer, size_t size);

redis_t *redis_new(world_t *world);
void redis_free(redis_t *redis);

/* Asks, from a machine: the reply comes to it as machine_later's calls do. Requests of one machine
 * are run in the order in which they were asked. */
void redis_ask(redis_t *redis, machine_t *from, script_fn script, const void *arguments,
               size_t size, redis_reply_fn reply, void *context);

/* From now on answers get lost and come late, for no other reason. */
void redis_unreliable(redis_t *redis);
/* Of an unreliable one: many answers come late, perhaps after news of the next master. */
void redis_lag(redis_t *redis);
/* Nobody hears it any more; everybody does again. */
void redis_leave(redis_t *redis);
void redis_come_back(redis_t *redis);
/* This machine does not hear it any more, or does again. */
void redis_cut(redis_t *redis, machine_t *machine);
void redis_heal(redis_t *redis, machine_t *machine);
/* This machine's requests may be on their way for seconds: one that was given up may run later, and
 * after newer ones. */
void redis_slow(redis_t *redis, machine_t *machine, bool is_slow);
/* A replica becomes the master, without the writes that no replica had confirmed. */
void redis_fail_over(redis_t *redis);
/* A second master, as by a fail-over, while the old one goes on. All machines talk to the new one
 * but those that stay; one of these leaves it when an answer does not come. The old one has most
 * replicas until redis_back. When it is demoted, what was written to it since is lost. */
void redis_split(redis_t *redis);
void redis_stay(redis_t *redis, machine_t *machine);
void redis_back(redis_t *redis);
void redis_demote(redis_t *redis);
/* The master loses all that it has; nobody is told. */
void redis_wipe(redis_t *redis);
/* Its clock is wrong by this, from now on. */
void redis_skew(redis_t *redis, int64_t ms);
uint64_t redis_master(const redis_t *redis);
bool redis_is_away(const redis_t *redis);
/* Whether this machine would be answered now. */
bool redis_is_heard(const redis_t *redis, const machine_t *machine);
/* Look at keys of the master that counts, without a delay, for the checks: as script_keys_t's get
 * and next. */
const void *redis_look(redis_t *redis, const char *key, size_t *ret_size);
const char *redis_look_next(redis_t *redis, const char *prefix, const char *after);

#endif
