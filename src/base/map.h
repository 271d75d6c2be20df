/*
 * A hash map from keys of a fixed size to pointers. The values are the caller's. Not for several
 * threads. The order of base_map_each depends on the sequence of calls only.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BASE_MAP_KEY_MAX = 64 };

typedef struct base_map {
    uint8_t *keys;
    void **values; /* NULL: the place is free */
    size_t key_size, count, capacity;
} base_map_t;

/* An empty map, which has no memory yet. Keys have this size, at most BASE_MAP_KEY_MAX; bytes of
 * padding in them must be zero. */
void base_map_init(base_map_t *map, size_t key_size);
void base_map_fini(base_map_t *map);
/* The key's value, or NULL. */
void *base_map_get(const base_map_t *map, const void *key);
/* Gives the key this value, which is not NULL, in place of the one it had. False, and nothing
 * changed, without memory: never for a key that is there. */
bool base_map_put(base_map_t *map, const void *key, void *value);
/* Takes the key out and returns its value, or NULL. */
void *base_map_remove(base_map_t *map, const void *key);
/* Walks over the map: `cursor` begins with 0. False: that was all. The map must not change
 * meanwhile. */
bool base_map_each(const base_map_t *map, size_t *cursor, const void **ret_key, void **ret_value);

#endif
