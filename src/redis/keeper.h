/*
 * The control state of a cluster in Redis, as the daemon of one node asks it: scripts
 * (control/script.h), in their order. On the daemon's loop, for its thread.
 */
#ifndef REDIS_KEEPER_H
#define REDIS_KEEPER_H

#include <uv.h>

#include "control/script.h"
#include "mobula.h"
#include "redis/master.h"

typedef struct redis_keeper redis_keeper_t;

typedef struct redis_settings {
    redis_address_t at;          /* of the one server, or */
    redis_sentinels_t sentinels; /* who know it, if their count is not 0 */
    const char *password;        /* NULL: none */
    uint64_t cluster;            /* its id: every key begins with it */
} redis_settings_t;

/* An answer. `master` grows with every change of master: what an older one answered may be gone.
 * NULL: there was none within the time limit; the script may have run, may yet run, or never. */
typedef void (*redis_reply_fn)(void *context, uint64_t master, const void *answer, size_t size);

typedef struct redis_keeper_ops {
    /* Whether it is there; the words are mob_last_error's if it is not. Told the first time, and
     * when it changes. */
    void (*changed)(void *context, bool is_there, mob_status_t status);
} redis_keeper_ops_t;

/* Begins to connect, and never gives up. MOB_ENOMEM. The settings are copied. */
mob_status_t redis_keeper_open(uv_loop_t *loop, const redis_settings_t *settings,
                               const redis_keeper_ops_t *ops, void *context,
                               redis_keeper_t **ret_keeper);
/* Open questions are not answered any more. Not in a reply's call. Its memory goes in a later turn
 * of the loop. */
void redis_keeper_close(redis_keeper_t *keeper);

/* Asks; the reply comes later, in the order of the questions. MOB_ENOMEM: there will be none. */
mob_status_t redis_keeper_ask(redis_keeper_t *keeper, script_fn script, const void *arguments,
                              size_t size, redis_reply_fn reply, void *context);

#endif
