/*
 * Which server is the master: what the first sentinel says that answers. On the daemon's loop, for
 * its thread.
 */
#ifndef REDIS_MASTER_H
#define REDIS_MASTER_H

#include <uv.h>

#include "mobula.h"

enum { REDIS_SENTINELS_MAX = 16, REDIS_HOST_MAX = 63 };

typedef struct redis_address {
    char host[REDIS_HOST_MAX + 1]; /* in digits */
    uint16_t port;
} redis_address_t;

typedef struct redis_sentinels {
    char name[64];      /* that the sentinels know the master by */
    char password[512]; /* of Redis: a sentinel wants the same one, or none */
    redis_address_t at[REDIS_SENTINELS_MAX];
    size_t count;
} redis_sentinels_t;

/* "NAME@HOST:PORT,HOST:PORT,...", hosts in digits. MOB_EINVAL, with words. */
mob_status_t redis_sentinels_read(const char *text, redis_sentinels_t *ret_sentinels);

typedef struct redis_master redis_master_t;

/* Where it is, and how many replicas it should have; NULL: no sentinel knows, and the words are
 * mob_last_error's. The question is over then. */
typedef void (*redis_master_fn)(void *context, const redis_address_t *address, size_t replicas);

/* Asks all of them in turn, beginning with number `first`. The sentinels are borrowed until there
 * is an answer, which comes in a later turn. MOB_ENOMEM. */
mob_status_t redis_master_ask(uv_loop_t *loop, const redis_sentinels_t *sentinels, size_t first,
                              redis_master_fn found, void *context, redis_master_t **ret_master);
/* No answer is wanted any more. */
void redis_master_cancel(redis_master_t *master);

#endif
