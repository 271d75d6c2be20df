/*
 * One copy of the keys is the master's. Each write is confirmed by a replica a little later. A
 * fail-over goes back to the newest state that was confirmed: so copies of the state are kept, one
 * for each write that is not confirmed yet.
 */
#include "sim/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum { ANSWER_LIMIT_MS = 1000 };

typedef struct {
    char key[SCRIPT_KEY_MAX];
    uint8_t *value;
    size_t size;
    uint64_t expires_ms; /* 0: never */
} entry_t;

/* In the order of the keys. */
typedef VEC(entry_t) entries_t;

struct redis {
    world_t *world;
    entries_t entries;
    uint64_t master;
    bool away;
    VEC(machine_t *) cut;
    /* undone at a fail-over: what was written and is not confirmed, oldest first */
    struct undo {
        char key[SCRIPT_KEY_MAX];
        bool was_there;
        entry_t before;
        uint64_t confirmed_ns;
    } * undo;
    size_t undo_count, undo_capacity;
    uint64_t confirmed_ns; /* when a replica has what the script at hand writes */
};

typedef struct {
    redis_t *redis;
    machine_t *from;
    script_fn script;
    redis_reply_fn reply;
    void *context;
    bool is_over; /* answered, or given up */
    int events;   /* that still name it */
    uint64_t master;
    size_t size, answer_size;
    uint8_t answer[SCRIPT_ANSWER_MAX];
    uint8_t arguments[];
} request_t;

redis_t *redis_new(world_t *world) {
    redis_t *r = world_alloc(world, sizeof *r);
    r->world = world;
    r->master = 1;
    return r;
}

static void entries_free(entries_t *entries) {
    for (size_t i = 0; i < entries->count; i++) free(entries->items[i].value);
    vec_free(entries);
}

static void undo_forget(redis_t *r, size_t count) {
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) free(r->undo[i].before.value);
    r->undo_count -= count;
    memmove(r->undo, r->undo + count, r->undo_count * sizeof *r->undo);
}

void redis_free(redis_t *r) {
    if (r == NULL) return;
    undo_forget(r, r->undo_count);
    free(r->undo);
    entries_free(&r->entries);
    vec_free(&r->cut);
    world_release(r->world, r);
}

/* ---- keys ---- */

static uint64_t now_ms(const redis_t *r) {
    return UINT64_C(1700000000000) + world_now_ns(r->world) / 1000000;
}

/* The first entry whose key is not before this one. */
static size_t place_of(const redis_t *r, const char *key) {
    size_t low = 0, high = r->entries.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(r->entries.items[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const redis_t *r, size_t place, const char *key) {
    return place < r->entries.count && strcmp(r->entries.items[place].key, key) == 0;
}

static bool is_over(const redis_t *r, const entry_t *entry) {
    return entry->expires_ms != 0 && entry->expires_ms <= now_ms(r);
}

static uint8_t *copy_of(const void *bytes, size_t size) {
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, bytes, size);
    return copy;
}

static void entry_put(redis_t *r, entry_t entry) {
    size_t place = place_of(r, entry.key);
    if (is_at(r, place, entry.key)) {
        free(r->entries.items[place].value);
    } else {
        if (!vec_reserve(&r->entries, 1)) abort();
        memmove(r->entries.items + place + 1, r->entries.items + place,
                (r->entries.count++ - place) * sizeof entry);
    }
    r->entries.items[place] = entry;
}

static void entry_remove(redis_t *r, const char *key) {
    size_t place = place_of(r, key);
    if (!is_at(r, place, key)) return;
    free(r->entries.items[place].value);
    memmove(r->entries.items + place, r->entries.items + place + 1,
            (--r->entries.count - place) * sizeof *r->entries.items);
}

/* Before a write: what stood there, until a replica has the write. */
static void undo_note(redis_t *r, const char *key) {
    size_t settled = 0;
    while (settled < r->undo_count && r->undo[settled].confirmed_ns <= world_now_ns(r->world))
        settled++;
    undo_forget(r, settled);
    if (!base_vec_grow((void **)&r->undo, r->undo_count + 1, &r->undo_capacity, sizeof *r->undo))
        abort();
    struct undo *undo = &r->undo[r->undo_count];
    size_t place = place_of(r, key);
    *undo = (struct undo){.was_there = is_at(r, place, key)};
    snprintf(undo->key, sizeof undo->key, "%s", key);
    if (undo->was_there) {
        undo->before = r->entries.items[place];
        undo->before.value = copy_of(undo->before.value, undo->before.size);
    }
    undo->confirmed_ns = r->confirmed_ns;
    r->undo_count++;
}

static const void *key_get(void *context, const char *key, size_t *ret_size) {
    redis_t *r = context;
    size_t place = place_of(r, key);
    if (!is_at(r, place, key) || is_over(r, &r->entries.items[place])) return NULL;
    *ret_size = r->entries.items[place].size;
    return r->entries.items[place].value;
}

static void key_set(void *context, const char *key, const void *value, size_t size,
                    uint64_t ttl_ms) {
    redis_t *r = context;
    undo_note(r, key);
    entry_t entry = {.value = copy_of(value, size),
                     .size = size,
                     .expires_ms = ttl_ms > 0 ? now_ms(r) + ttl_ms : 0};
    snprintf(entry.key, sizeof entry.key, "%s", key);
    entry_put(r, entry);
}

static void key_del(void *context, const char *key) {
    redis_t *r = context;
    undo_note(r, key);
    entry_remove(r, key);
}

static const char *key_next(void *context, const char *prefix, const char *after) {
    redis_t *r = context;
    size_t place = place_of(r, after != NULL && strcmp(after, prefix) > 0 ? after : prefix);
    for (; place < r->entries.count; place++) {
        const entry_t *entry = &r->entries.items[place];
        if (strncmp(entry->key, prefix, strlen(prefix)) != 0) return NULL;
        if ((after == NULL || strcmp(entry->key, after) > 0) && !is_over(r, entry))
            return entry->key;
    }
    return NULL;
}

/* ---- requests ---- */

bool redis_is_heard(const redis_t *r, const machine_t *machine) {
    if (r->away) return false;
    for (size_t i = 0; i < r->cut.count; i++)
        if (r->cut.items[i] == machine) return false;
    return true;
}

static void request_let_go(request_t *q) {
    if (--q->events == 0) world_release(q->redis->world, q);
}

static void request_end(request_t *q, uint64_t master, const void *answer, size_t size) {
    if (!q->is_over) {
        q->is_over = true;
        q->reply(q->context, master, answer, size);
    }
    request_let_go(q);
}

static void request_answered(void *context, uint64_t argument) {
    (void)argument;
    request_t *q = context;
    redis_t *r = q->redis;
    /* a connection that breaks takes the answer with it */
    bool is_broken = r->master != q->master && base_random_chance(world_random(r->world), 1, 2);
    if (is_broken || !redis_is_heard(r, q->from) ||
        base_random_chance(world_random(r->world), 1, 100))
        request_let_go(q);
    else
        request_end(q, q->master, q->answer, q->answer_size);
}

static void request_given_up(void *context, uint64_t argument) {
    (void)argument;
    request_end(context, 0, NULL, 0);
}

static void request_run(void *context, uint64_t argument) {
    (void)argument;
    request_t *q = context;
    redis_t *r = q->redis;
    if (!redis_is_heard(r, q->from)) {
        request_let_go(q);
        return;
    }
    /* replicas confirm in order, and a script's writes together or not at all */
    uint64_t confirmed = world_now_ns(r->world) + world_between(r->world, 0, 20 * WORLD_MS);
    if (confirmed > r->confirmed_ns) r->confirmed_ns = confirmed;
    script_keys_t keys = {r, now_ms(r), r->master, key_get, key_set, key_del, key_next};
    q->answer_size = q->script(&keys, q->arguments, q->size, q->answer);
    q->master = r->master;
    bool is_slow = base_random_chance(world_random(r->world), 1, 20);
    machine_later(q->from, world_between(r->world, 50 * WORLD_US, (is_slow ? 200 : 2) * WORLD_MS),
                  (uint64_t)(uintptr_t)q->from ^ 2, request_answered, q, 0);
}

void redis_ask(redis_t *r, machine_t *from, script_fn script, const void *arguments, size_t size,
               redis_reply_fn reply, void *context) {
    request_t *q = world_alloc(r->world, sizeof *q + size);
    *q = (request_t){.redis = r,
                     .from = from,
                     .script = script,
                     .reply = reply,
                     .context = context,
                     .events = 2,
                     .size = size};
    if (size > 0) memcpy(q->arguments, arguments, size);
    world_later(r->world, world_between(r->world, 50 * WORLD_US, 2 * WORLD_MS),
                (uint64_t)(uintptr_t)from ^ 1, request_run, q, 0);
    machine_later(from, ANSWER_LIMIT_MS * WORLD_MS, 0, request_given_up, q, 0);
}

/* ---- what goes wrong ---- */

void redis_leave(redis_t *r) { r->away = true; }
void redis_come_back(redis_t *r) { r->away = false; }
bool redis_is_away(const redis_t *r) { return r->away; }
uint64_t redis_master(const redis_t *r) { return r->master; }

void redis_cut(redis_t *r, machine_t *machine) {
    if (!vec_push(&r->cut, machine)) abort();
}

void redis_heal(redis_t *r, machine_t *machine) {
    for (size_t i = r->cut.count; i-- > 0;)
        if (r->cut.items[i] == machine) vec_swap_remove(&r->cut, i);
}

void redis_fail_over(redis_t *r) {
    while (r->undo_count > 0 && r->undo[r->undo_count - 1].confirmed_ns > world_now_ns(r->world)) {
        struct undo *undo = &r->undo[--r->undo_count];
        if (undo->was_there)
            entry_put(r, undo->before);
        else
            entry_remove(r, undo->key);
    }
    undo_forget(r, r->undo_count);
    r->master++;
}

const void *redis_look(redis_t *r, const char *key, size_t *ret_size) {
    return key_get(r, key, ret_size);
}
