/* The control state of these tests: some keys in the order of their bytes, without an allocation.
 */
#ifndef TEST_GROUP_KEYS_H
#define TEST_GROUP_KEYS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/script.h"

enum { KEYS_MOST = 64 };

typedef struct {
    size_t count;
    struct {
        char key[SCRIPT_KEY_MAX];
        size_t size;
        uint8_t value[SCRIPT_VALUE_MAX];
    } all[KEYS_MOST];
} keys_t;

static size_t keys_place(const keys_t *keys, const char *key) {
    size_t at = 0;
    while (at < keys->count && strcmp(keys->all[at].key, key) < 0) at++;
    return at;
}

static bool keys_has(const keys_t *keys, size_t at, const char *key) {
    return at < keys->count && strcmp(keys->all[at].key, key) == 0;
}

static const void *keys_get(void *context, const char *key, size_t *ret_size) {
    keys_t *keys = context;
    size_t at = keys_place(keys, key);
    if (!keys_has(keys, at, key)) return NULL;
    *ret_size = keys->all[at].size;
    return keys->all[at].value;
}

static void keys_set(void *context, const char *key, const void *value, size_t size, uint64_t ttl) {
    (void)ttl;
    keys_t *keys = context;
    size_t at = keys_place(keys, key);
    if (!keys_has(keys, at, key)) {
        if (keys->count == KEYS_MOST) abort();
        memmove(&keys->all[at + 1], &keys->all[at], (keys->count++ - at) * sizeof *keys->all);
        snprintf(keys->all[at].key, SCRIPT_KEY_MAX, "%s", key);
    }
    keys->all[at].size = size;
    if (size > 0) memmove(keys->all[at].value, value, size);
}

static void keys_del(void *context, const char *key) {
    keys_t *keys = context;
    size_t at = keys_place(keys, key);
    if (!keys_has(keys, at, key)) return;
    memmove(&keys->all[at], &keys->all[at + 1], (--keys->count - at) * sizeof *keys->all);
}

static const char *keys_next(void *context, const char *prefix, const char *after) {
    keys_t *keys = context;
    for (size_t at = 0; at < keys->count; at++)
        if (strncmp(keys->all[at].key, prefix, strlen(prefix)) == 0 &&
            (after == NULL || strcmp(keys->all[at].key, after) > 0))
            return keys->all[at].key;
    return NULL;
}

static script_keys_t keys_of(keys_t *keys) {
    return (script_keys_t){keys, 1000, 1, keys_get, keys_set, keys_del, keys_next};
}

#endif
