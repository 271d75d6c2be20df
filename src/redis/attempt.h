/*
 * One attempt to run scripts (control/script.h) on keys that lie elsewhere: README.md says how. No
 * I/O; for one thread.
 *
 *     redis_attempt_begin(attempt, now_ms, master);
 *     redis_attempt_run(attempt, script, arguments, size, &answer);     // one, or several
 *     ... send redis_attempt_words to the server, whose `commit` looks and writes ...
 *     redis_attempt_done(attempt)  or  redis_attempt_differs(attempt, ...), and begin again
 */
#ifndef REDIS_ATTEMPT_H
#define REDIS_ATTEMPT_H

#include "control/script.h"
#include "mobula.h"

typedef struct redis_attempt redis_attempt_t;

/* A piece of what is sent. */
typedef struct redis_word {
    const char *bytes;
    size_t size;
} redis_word_t;

/* MOB_ENOMEM. */
mob_status_t redis_attempt_new(redis_attempt_t **ret_attempt);
void redis_attempt_free(redis_attempt_t *attempt);

/* Begins anew: nothing read, nothing written. What was seen of keys stays. */
void redis_attempt_begin(redis_attempt_t *attempt, uint64_t now_ms, uint64_t master);
/* Runs a script, over what those before it wrote. `answer` has room for SCRIPT_ANSWER_MAX bytes.
 * MOB_ENOMEM: the attempt can only begin anew. */
mob_status_t redis_attempt_run(redis_attempt_t *attempt, script_fn script, const void *arguments,
                               size_t size, void *answer, size_t *ret_size);
/* What `commit` is to be called with, after the key of the index and the prefix; borrowed until the
 * next call. MOB_ENOMEM. */
mob_status_t redis_attempt_words(redis_attempt_t *attempt, const redis_word_t **ret_words,
                                 size_t *ret_count);
bool redis_attempt_writes(const redis_attempt_t *attempt);

/* It was written: that is what is seen from now on. */
void redis_attempt_done(redis_attempt_t *attempt);
/* What `commit` found instead, as it sent it. MOB_EPROTO: it makes no sense. */
mob_status_t redis_attempt_differs(redis_attempt_t *attempt, const redis_word_t *words,
                                   size_t count);
/* Nothing that was seen counts any more: there is another master. */
void redis_attempt_forget(redis_attempt_t *attempt);

#endif
