/* What was last seen of keys: their values, and which key follows which. It may be wrong; whoever
 * uses it has it checked. For one thread. */
#ifndef REDIS_SEEN_H
#define REDIS_SEEN_H

#include "base/map.h"
#include "mobula.h"

typedef struct redis_seen {
    base_map_t texts;  /* what was seen, by a hash of what it is about */
    base_map_t firsts; /* beginnings of keys that somebody walked over, by their hash */
} redis_seen_t;

typedef struct redis_text {
    size_t size;
    char bytes[];
} redis_text_t;

/* A name for two texts together, with a kind of its own. */
typedef struct redis_hash {
    uint64_t words[2];
} redis_hash_t;

redis_hash_t redis_hash(const char *a, const char *b, uint64_t kind);

void redis_seen_init(redis_seen_t *seen);
void redis_seen_fini(redis_seen_t *seen);
/* Forgets everything. */
void redis_seen_clear(redis_seen_t *seen);
/* Forgets everything if it has become much. Between attempts only: it invalidates what was given
 * out. */
void redis_seen_trim(redis_seen_t *seen);

/* '-' for none, or '+' and the value. NULL: nothing is known. Borrowed until it is noted anew. */
const redis_text_t *redis_seen_value(const redis_seen_t *seen, const char *key);
/* The key behind `after` ("": the first) among those that begin with `first`; "": there is none;
 * NULL: nothing is known. */
const char *redis_seen_next(const redis_seen_t *seen, const char *first, const char *after);

/* MOB_ENOMEM: nothing is known of it then. */
mob_status_t redis_seen_value_set(redis_seen_t *seen, const char *key, const char *found,
                                  size_t size);
mob_status_t redis_seen_next_set(redis_seen_t *seen, const char *first, const char *after,
                                 const char *next);
/* The key is there now, or not any more: who follows whom around it is not known. */
void redis_seen_moved(redis_seen_t *seen, const char *key);

#endif
