/*
 * Runtime environments: what a job's tasks and actors have beyond their job's setup. Each has a
 * pool of workers of its own (pool.h), and a setup while it is used: the job's, with variables
 * changed, perhaps another command, and more words for the workers (wire/setup.h). What these words
 * mean is the language's business; the zygote that is started for the setup makes it true, and says
 * so if it can't (WIRE_UNFIT).
 *
 *   known    its bytes lie in its pool; it has no setup and no process
 *   open     it has a setup, of which a zygote is there or on its way, or was
 *
 *   from     to       by
 *   known    open     a task waits for a worker of it
 *   open     known    it has had no worker, and nothing waited for one, for REST_NS; or
 *                     MOST_RESTING others that have none had one later
 *
 * A job's tasks name an environment by the number of its pool, which stays as long as the job does.
 */
#ifndef NODE_ENVIRONMENT_H
#define NODE_ENVIRONMENT_H

#include "node/types.h"
#include "wire/message.h"

/* A client asks for the number of an environment, which it describes. */
void node_environment(node_client_t *client, const wire_message_t *message);
/* The number of the environment that is described by these bytes, and has this name; the job gets
 * it if it has none. MOB_EPROTO, MOB_ELIMIT, MOB_ENOMEM, with words. */
mob_status_t node_environment_add(node_job_t *job, const void *bytes, size_t size,
                                  const uint8_t *name, uint32_t *ret_number);
/* Its pool gets a setup, if it has none. MOB_ENOMEM, MOB_ELIMIT, MOB_ESYS, with words. */
mob_status_t node_environment_open(node_pool_t *pool);
/* Lets the setup go if nobody has needed it for long; once a round of scheduling. */
void node_environment_rest(node_pool_t *pool);
enum { NODE_ENVIRONMENT_NAME = 16 };
/* The name of the environment that is described by these bytes. */
void node_environment_name(const void *bytes, size_t size, uint8_t *ret_name);
/* The environment of this job with that name, for frames: the pool's number; 0: there is none. */
uint32_t node_environment_find(const node_job_t *job, const uint8_t *name);

#endif
