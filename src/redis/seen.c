/*
 * Both kinds of knowledge lie in one map, by a hash of 128 bits of what they are about. What is
 * known of an order belongs to a generation of its beginning: a key that comes or goes moves all
 * beginnings of its own on to the next, and what was known of them is not found any more.
 */
#include "redis/seen.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { TEXTS_MAX = 1 << 16, VALUE = 1, FIRST = 2, ORDER = 3 };

typedef struct {
    uint64_t generation;
} first_t;

void redis_seen_init(redis_seen_t *seen) {
    base_map_init(&seen->texts, sizeof(redis_hash_t));
    base_map_init(&seen->firsts, sizeof(redis_hash_t));
}

static void map_free(base_map_t *map) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(map, &cursor, &key, &value)) free(value);
    base_map_fini(map);
}

void redis_seen_fini(redis_seen_t *seen) {
    map_free(&seen->texts);
    map_free(&seen->firsts);
}

void redis_seen_clear(redis_seen_t *seen) {
    redis_seen_fini(seen);
    redis_seen_init(seen);
}

void redis_seen_trim(redis_seen_t *seen) {
    if (seen->texts.count + seen->firsts.count > TEXTS_MAX) redis_seen_clear(seen);
}

static redis_hash_t hash_of(const void *bytes, size_t size, uint64_t kind) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, size, kind);
    return (redis_hash_t){{hash.low64, hash.high64}};
}

redis_hash_t redis_hash(const char *a, const char *b, uint64_t kind) {
    redis_hash_t parts[2] = {hash_of(a, strlen(a), kind), hash_of(b, strlen(b), kind)};
    return hash_of(parts, sizeof parts, kind);
}

static redis_hash_t value_hash(const char *key) { return hash_of(key, strlen(key), VALUE); }

static redis_hash_t first_hash(const char *first, size_t size) {
    return hash_of(first, size, FIRST);
}

static redis_hash_t next_hash(const char *first, const char *after, uint64_t generation) {
    return redis_hash(first, after, ORDER + generation);
}

static mob_status_t text_put(redis_seen_t *seen, redis_hash_t hash, const char *bytes,
                             size_t size) {
    redis_text_t *text = malloc(sizeof *text + size + 1);
    if (text != NULL) {
        text->size = size;
        memcpy(text->bytes, bytes, size);
        text->bytes[size] = 0;
    }
    free(base_map_remove(&seen->texts, &hash));
    if (text != NULL && base_map_put(&seen->texts, &hash, text)) return MOB_OK;
    free(text);
    return MOB_ENOMEM;
}

const redis_text_t *redis_seen_value(const redis_seen_t *seen, const char *key) {
    redis_hash_t hash = value_hash(key);
    return base_map_get(&seen->texts, &hash);
}

mob_status_t redis_seen_value_set(redis_seen_t *seen, const char *key, const char *found,
                                  size_t size) {
    return text_put(seen, value_hash(key), found, size);
}

const char *redis_seen_next(const redis_seen_t *seen, const char *first, const char *after) {
    redis_hash_t hash = first_hash(first, strlen(first));
    const first_t *known = base_map_get(&seen->firsts, &hash);
    if (known == NULL) return NULL;
    hash = next_hash(first, after, known->generation);
    const redis_text_t *text = base_map_get(&seen->texts, &hash);
    return text != NULL ? text->bytes : NULL;
}

mob_status_t redis_seen_next_set(redis_seen_t *seen, const char *first, const char *after,
                                 const char *next) {
    redis_hash_t hash = first_hash(first, strlen(first));
    first_t *known = base_map_get(&seen->firsts, &hash);
    if (known == NULL) {
        known = calloc(1, sizeof *known);
        if (known == NULL || !base_map_put(&seen->firsts, &hash, known)) {
            free(known);
            return MOB_ENOMEM;
        }
    }
    return text_put(seen, next_hash(first, after, known->generation), next, strlen(next));
}

void redis_seen_moved(redis_seen_t *seen, const char *key) {
    for (size_t size = 0; size <= strlen(key); size++) {
        redis_hash_t hash = first_hash(key, size);
        first_t *known = base_map_get(&seen->firsts, &hash);
        if (known != NULL) known->generation++;
    }
}
