/*
 * Open addressing with linear probing. A removal moves later entries of the run back, so there are
 * no marks for removed ones. At most half of the places are taken.
 */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const uint8_t *key, size_t size) {
    uint64_t hash = size * UINT64_C(0x9e3779b97f4a7c15);
    while (size > 0) {
        uint64_t word = 0;
        size_t part = size < sizeof word ? size : sizeof word;
        memcpy(&word, key, part);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
        key += part;
        size -= part;
    }
    return hash * UINT64_C(0xc4ceb9fe1a85ec53);
}

static size_t home_of(const base_map_t *map, const void *key) {
    return (hash_of(key, map->key_size) >> 20) & (map->capacity - 1);
}

static uint8_t *key_at(const base_map_t *map, size_t place) {
    return map->keys + place * map->key_size;
}

/* Where the key is, or the free place where it would be. */
static size_t place_of(const base_map_t *map, const void *key) {
    size_t place = home_of(map, key);
    while (map->values[place] != NULL && memcmp(key_at(map, place), key, map->key_size) != 0)
        place = (place + 1) & (map->capacity - 1);
    return place;
}

void base_map_init(base_map_t *map, size_t key_size) {
    assert(key_size > 0 && key_size <= BASE_MAP_KEY_MAX);
    *map = (base_map_t){.key_size = key_size};
}

void base_map_fini(base_map_t *map) {
    free(map->keys);
    free(map->values);
    map->keys = NULL;
    map->values = NULL;
    map->count = map->capacity = 0;
}

void *base_map_get(const base_map_t *map, const void *key) {
    return map->count > 0 ? map->values[place_of(map, key)] : NULL;
}

static bool map_grow(base_map_t *map) {
    base_map_t larger = {.key_size = map->key_size,
                         .count = map->count,
                         .capacity = map->capacity > 0 ? 2 * map->capacity : 8};
    larger.keys = malloc(larger.capacity * larger.key_size);
    larger.values = calloc(larger.capacity, sizeof *larger.values);
    if (larger.keys == NULL || larger.values == NULL) {
        base_map_fini(&larger);
        return false;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->values[i] == NULL) continue;
        size_t place = place_of(&larger, key_at(map, i));
        memcpy(key_at(&larger, place), key_at(map, i), map->key_size);
        larger.values[place] = map->values[i];
    }
    base_map_fini(map);
    *map = larger;
    return true;
}

bool base_map_put(base_map_t *map, const void *key, void *value) {
    assert(value != NULL);
    size_t place = map->capacity > 0 ? place_of(map, key) : 0;
    if (map->capacity > 0 && map->values[place] != NULL) {
        map->values[place] = value;
        return true;
    }
    if (2 * (map->count + 1) > map->capacity) {
        if (!map_grow(map)) return false;
        place = place_of(map, key);
    }
    memcpy(key_at(map, place), key, map->key_size);
    map->values[place] = value;
    map->count++;
    return true;
}

/* Whether `place` lies in the run from `home` to `from`, all of them going round. */
static bool is_between(size_t home, size_t place, size_t from) {
    return home <= from ? home <= place && place <= from : place >= home || place <= from;
}

void *base_map_remove(base_map_t *map, const void *key) {
    if (map->count == 0) return NULL;
    size_t hole = place_of(map, key), mask = map->capacity - 1;
    void *value = map->values[hole];
    if (value == NULL) return NULL;
    for (size_t next = (hole + 1) & mask; map->values[next] != NULL; next = (next + 1) & mask) {
        if (!is_between(home_of(map, key_at(map, next)), hole, next)) continue;
        memcpy(key_at(map, hole), key_at(map, next), map->key_size);
        map->values[hole] = map->values[next];
        hole = next;
    }
    map->values[hole] = NULL;
    map->count--;
    return value;
}

bool base_map_each(const base_map_t *map, size_t *cursor, const void **ret_key, void **ret_value) {
    while (*cursor < map->capacity && map->values[*cursor] == NULL) ++*cursor;
    if (*cursor >= map->capacity) return false;
    *ret_key = key_at(map, *cursor);
    *ret_value = map->values[(*cursor)++];
    return true;
}
