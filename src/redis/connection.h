/*
 * One connection to one server that speaks Redis's protocol, on the daemon's loop. Commands are
 * answered in their order. One that is not answered within a second ends the connection.
 */
#ifndef REDIS_CONNECTION_H
#define REDIS_CONNECTION_H

#include <hiredis.h>
#include <uv.h>

#include "mobula.h"
#include "redis/attempt.h"

enum { REDIS_LIMIT_MS = 1000 };

typedef struct redis_connection redis_connection_t;

typedef struct redis_connection_ops {
    /* It is there, and the password was right. */
    void (*up)(void *context);
    /* It has ended, or never came up; the words are mob_last_error's. Everything that was asked
     * has been answered with NULL before. It is gone after the call. */
    void (*down)(void *context, mob_status_t status);
} redis_connection_ops_t;

/* NULL: the connection ended before there was an answer. Borrowed for the time of the call. */
typedef void (*redis_answer_fn)(void *context, const redisReply *reply);

/* Begins; up or down follows, in a later turn. `host`: an address in digits; `password`: NULL for
 * none. MOB_ESYS, MOB_ENOMEM. */
mob_status_t redis_connection_open(uv_loop_t *loop, const char *host, uint16_t port,
                                   const char *password, const redis_connection_ops_t *ops,
                                   void *context, redis_connection_t **ret_connection);
/* Sends a command; the bytes are copied. MOB_ESYS, MOB_ENOMEM: it is not sent. */
mob_status_t redis_connection_send(redis_connection_t *connection, const redis_word_t *words,
                                   size_t count, redis_answer_fn answer, void *context);
/* Ends it without a word: neither `down` nor an answer comes any more. */
void redis_connection_close(redis_connection_t *connection);

#endif
