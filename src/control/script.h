/*
 * Scripts: what is decided in one step in the control state, by one of many nodes that ask at the
 * same time. A script is a function of the keys, its arguments and the keeper's clock, and of
 * nothing else. It reads and writes keys; nothing comes between.
 *
 * Where the state lies in this process, and in the simulator, scripts run where the keys are. Where
 * it lies in Redis they run here, over what was last seen, and what they read is checked in one
 * step with what they write (src/redis): so a script may run several times before it counts, and
 * has no effect but its writes and its answer. A value is a few numbers and bytes of a fixed
 * layout.
 *
 * Every script is safe to repeat: an answer may be lost, and whoever asked asks again. A script
 * that mints a number therefore keeps the request's id.
 */
#ifndef CONTROL_SCRIPT_H
#define CONTROL_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCRIPT_KEY_MAX = 96, SCRIPT_VALUE_MAX = 4096, SCRIPT_ANSWER_MAX = 4096 };

/* Where the keys are. Their order is that of their bytes. */
typedef struct script_keys {
    void *context;
    uint64_t now_ms; /* of the keeper's clock, which is not the asker's */
    uint64_t master; /* which copy this is: another one may lack the last writes */
    /* The value, borrowed until the next call, and its size; NULL: there is none (any more). */
    const void *(*get)(void *context, const char *key, size_t *ret_size);
    /* ttl_ms 0: until it is deleted. */
    void (*set)(void *context, const char *key, const void *value, size_t size, uint64_t ttl_ms);
    void (*del)(void *context, const char *key);
    /* The first key after `after` that begins with `prefix`, borrowed until the next call; NULL. */
    const char *(*next)(void *context, const char *prefix, const char *after);
} script_keys_t;

/* Writes its answer, of at most SCRIPT_ANSWER_MAX bytes, and returns its size. Arguments come from
 * this daemon: they make sense. Values come from Redis, and may not: a script answers with an error
 * of its own for those. */
typedef size_t (*script_fn)(const script_keys_t *keys, const void *arguments, size_t size,
                            void *answer);

#endif
