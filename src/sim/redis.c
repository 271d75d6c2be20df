/*
 * One copy of the keys is the master's. Each write is confirmed by a replica a little later. A
 * fail-over goes back to the newest state that was confirmed: so what stood there before is kept,
 * for each write that is not confirmed yet.
 *
 * While two masters are there, the old one has a copy of its own. Most replicas follow one of the
 * two: only that one's answers count, for its writes alone are confirmed by enough of them.
 */
#include "sim/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum { ANSWER_LIMIT_MS = 1000, SLOW_MS = 5000 };

typedef struct {
    char key[SCRIPT_KEY_MAX];
    uint8_t *value;
    size_t size;
    uint64_t expires_ms; /* 0: never */
} entry_t;

/* In the order of the keys. */
typedef VEC(entry_t) entries_t;

/* What was written and is not confirmed: undone at a fail-over. */
typedef struct {
    char key[SCRIPT_KEY_MAX];
    bool was_there;
    entry_t before;
    uint64_t confirmed_ns;
} undo_t;

typedef struct {
    world_t *world;
    entries_t entries;
    uint64_t master;
    int64_t skew_ms;       /* of its clock */
    VEC(undo_t) undo;      /* oldest first */
    uint64_t confirmed_ns; /* of the newest script's writes */
} copy_t;

struct redis {
    world_t *world;
    copy_t now, old; /* `old` while there are two masters */
    bool away, is_split, is_old_backed, is_unreliable, is_lagging;
    VEC(machine_t *) cut;
    VEC(machine_t *) on_old; /* machines that still talk to the old master */
    VEC(machine_t *) slow;   /* whose requests are long on their way */
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

/* ---- keys ---- */

static uint64_t now_ms(const copy_t *c) {
    return UINT64_C(1700000000000) + world_now_ns(c->world) / 1000000 + (uint64_t)c->skew_ms;
}

/* The first entry whose key is not before this one. */
static size_t place_of(const copy_t *c, const char *key) {
    size_t low = 0, high = c->entries.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(c->entries.items[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const copy_t *c, size_t place, const char *key) {
    return place < c->entries.count && strcmp(c->entries.items[place].key, key) == 0;
}

static bool is_over(const copy_t *c, const entry_t *entry) {
    return entry->expires_ms != 0 && entry->expires_ms <= now_ms(c);
}

static uint8_t *copy_of(const void *bytes, size_t size) {
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, bytes, size);
    return copy;
}

static void entry_put(copy_t *c, entry_t entry) {
    size_t place = place_of(c, entry.key);
    if (is_at(c, place, entry.key)) {
        free(c->entries.items[place].value);
    } else {
        if (!vec_reserve(&c->entries, 1)) abort();
        memmove(c->entries.items + place + 1, c->entries.items + place,
                (c->entries.count++ - place) * sizeof entry);
    }
    c->entries.items[place] = entry;
}

static void entry_remove(copy_t *c, const char *key) {
    size_t place = place_of(c, key);
    if (!is_at(c, place, key)) return;
    free(c->entries.items[place].value);
    memmove(c->entries.items + place, c->entries.items + place + 1,
            (--c->entries.count - place) * sizeof *c->entries.items);
}

static void undo_forget(copy_t *c, size_t count) {
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) free(c->undo.items[i].before.value);
    c->undo.count -= count;
    memmove(c->undo.items, c->undo.items + count, c->undo.count * sizeof *c->undo.items);
}

static bool is_confirmed(const copy_t *c, const undo_t *undo) {
    return undo->confirmed_ns <= world_now_ns(c->world);
}

/* Before a write: what stood there, until a replica has the write. */
static void undo_note(copy_t *c, const char *key) {
    size_t settled = 0;
    while (settled < c->undo.count && is_confirmed(c, &c->undo.items[settled])) settled++;
    undo_forget(c, settled);
    size_t place = place_of(c, key);
    undo_t undo = {.was_there = is_at(c, place, key)};
    snprintf(undo.key, sizeof undo.key, "%s", key);
    if (undo.was_there) {
        undo.before = c->entries.items[place];
        undo.before.value = copy_of(undo.before.value, undo.before.size);
    }
    undo.confirmed_ns = c->confirmed_ns;
    if (!vec_push(&c->undo, undo)) abort();
}

/* A script's writes reach a replica together, and after those of the scripts before. */
static void script_begin(copy_t *c) {
    uint64_t confirmed = world_now_ns(c->world) + world_between(c->world, 0, 20 * WORLD_MS);
    if (confirmed > c->confirmed_ns) c->confirmed_ns = confirmed;
}

static const void *key_get(void *context, const char *key, size_t *ret_size) {
    copy_t *c = context;
    size_t place = place_of(c, key);
    if (!is_at(c, place, key) || is_over(c, &c->entries.items[place])) return NULL;
    *ret_size = c->entries.items[place].size;
    return c->entries.items[place].value;
}

static void key_set(void *context, const char *key, const void *value, size_t size,
                    uint64_t ttl_ms) {
    copy_t *c = context;
    undo_note(c, key);
    entry_t entry = {.value = copy_of(value, size),
                     .size = size,
                     .expires_ms = ttl_ms > 0 ? now_ms(c) + ttl_ms : 0};
    snprintf(entry.key, sizeof entry.key, "%s", key);
    entry_put(c, entry);
}

static void key_del(void *context, const char *key) {
    copy_t *c = context;
    undo_note(c, key);
    entry_remove(c, key);
}

static const char *key_next(void *context, const char *prefix, const char *after) {
    copy_t *c = context;
    size_t place = place_of(c, after != NULL && strcmp(after, prefix) > 0 ? after : prefix);
    for (; place < c->entries.count; place++) {
        const entry_t *entry = &c->entries.items[place];
        if (strncmp(entry->key, prefix, strlen(prefix)) != 0) return NULL;
        if ((after == NULL || strcmp(entry->key, after) > 0) && !is_over(c, entry))
            return entry->key;
    }
    return NULL;
}

/* ---- copies ---- */

/* Without the writes that no replica had confirmed. */
static void copy_shorten(copy_t *c) {
    while (c->undo.count > 0 && !is_confirmed(c, &c->undo.items[c->undo.count - 1])) {
        undo_t undo = vec_pop(&c->undo);
        if (undo.was_there)
            entry_put(c, undo.before);
        else
            entry_remove(c, undo.key);
    }
    undo_forget(c, c->undo.count);
}

static void copy_clear(copy_t *c) {
    for (size_t i = 0; i < c->entries.count; i++) free(c->entries.items[i].value);
    c->entries.count = 0;
    undo_forget(c, c->undo.count);
}

static void copy_fini(copy_t *c) {
    copy_clear(c);
    vec_free(&c->entries);
    vec_free(&c->undo);
}

static void copy_clone(copy_t *to, const copy_t *from) {
    *to = (copy_t){.world = from->world, .master = from->master, .skew_ms = from->skew_ms};
    if (!vec_reserve(&to->entries, from->entries.count)) abort();
    for (size_t i = 0; i < from->entries.count; i++) {
        entry_t entry = from->entries.items[i];
        entry.value = copy_of(entry.value, entry.size);
        to->entries.items[to->entries.count++] = entry;
    }
}

redis_t *redis_new(world_t *world) {
    redis_t *r = world_alloc(world, sizeof *r);
    r->world = world;
    r->now = (copy_t){.world = world, .master = 1};
    return r;
}

void redis_free(redis_t *r) {
    if (r == NULL) return;
    copy_fini(&r->now);
    copy_fini(&r->old);
    vec_free(&r->cut);
    vec_free(&r->on_old);
    vec_free(&r->slow);
    world_release(r->world, r);
}

/* ---- requests ---- */

static bool is_in(machine_t *const *machines, size_t count, const machine_t *machine) {
    for (size_t i = 0; i < count; i++)
        if (machines[i] == machine) return true;
    return false;
}

static bool is_on_old(const redis_t *r, const machine_t *machine) {
    return is_in(r->on_old.items, r->on_old.count, machine);
}

static bool is_reached(const redis_t *r, const machine_t *machine) {
    return !r->away && !is_in(r->cut.items, r->cut.count, machine);
}

bool redis_is_heard(const redis_t *r, const machine_t *machine) {
    return is_reached(r, machine) && is_on_old(r, machine) == r->is_old_backed;
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
    bool is_broken = r->is_unreliable && r->now.master != q->master &&
                     base_random_chance(world_random(r->world), 1, 2);
    if (is_broken || !redis_is_heard(r, q->from) ||
        (r->is_unreliable && base_random_chance(world_random(r->world), 1, 100)))
        request_let_go(q);
    else
        request_end(q, q->master, q->answer, q->answer_size);
}

static void leave_old(redis_t *r, const machine_t *machine) {
    for (size_t i = r->on_old.count; i-- > 0;)
        if (r->on_old.items[i] == machine) vec_swap_remove(&r->on_old, i);
}

/* Its connection is dropped, and it asks who the master is. */
static void request_given_up(void *context, uint64_t argument) {
    (void)argument;
    request_t *q = context;
    if (!q->is_over && base_random_chance(world_random(q->redis->world), 1, 2))
        leave_old(q->redis, q->from);
    request_end(q, 0, NULL, 0);
}

static void request_run(void *context, uint64_t argument) {
    (void)argument;
    request_t *q = context;
    redis_t *r = q->redis;
    if (!is_reached(r, q->from)) {
        request_let_go(q);
        return;
    }
    copy_t *c = is_on_old(r, q->from) ? &r->old : &r->now;
    script_begin(c);
    script_keys_t keys = {c, now_ms(c), c->master, key_get, key_set, key_del, key_next};
    q->answer_size = q->script(&keys, q->arguments, q->size, q->answer);
    q->master = c->master;
    if (!redis_is_heard(r, q->from)) { /* too few replicas confirm it */
        request_let_go(q);
        return;
    }
    bool is_late =
        r->is_unreliable && base_random_chance(world_random(r->world), 1, r->is_lagging ? 3 : 20);
    machine_later(q->from, world_between(r->world, 50 * WORLD_US, (is_late ? 200 : 2) * WORLD_MS),
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
    uint64_t delay = world_between(r->world, 50 * WORLD_US, 2 * WORLD_MS);
    if (is_in(r->slow.items, r->slow.count, from) &&
        base_random_chance(world_random(r->world), 1, 3))
        delay = world_between(r->world, 0, SLOW_MS * WORLD_MS);
    /* one that was given up may run after newer ones, which have a new connection */
    uint64_t line = delay < ANSWER_LIMIT_MS * WORLD_MS ? (uint64_t)(uintptr_t)from ^ 1 : 0;
    world_later(r->world, delay, line, request_run, q, 0);
    machine_later(from, ANSWER_LIMIT_MS * WORLD_MS, 0, request_given_up, q, 0);
}

/* ---- what goes wrong ---- */

void redis_unreliable(redis_t *r) { r->is_unreliable = true; }
void redis_lag(redis_t *r) { r->is_lagging = true; }
void redis_leave(redis_t *r) { r->away = true; }
void redis_come_back(redis_t *r) { r->away = false; }
bool redis_is_away(const redis_t *r) { return r->away; }
uint64_t redis_master(const redis_t *r) { return r->now.master; }

void redis_cut(redis_t *r, machine_t *machine) {
    if (!vec_push(&r->cut, machine)) abort();
}

void redis_heal(redis_t *r, machine_t *machine) {
    for (size_t i = r->cut.count; i-- > 0;)
        if (r->cut.items[i] == machine) vec_swap_remove(&r->cut, i);
}

void redis_slow(redis_t *r, machine_t *machine, bool is_slow) {
    for (size_t i = r->slow.count; i-- > 0;)
        if (r->slow.items[i] == machine) vec_swap_remove(&r->slow, i);
    if (is_slow && !vec_push(&r->slow, machine)) abort();
}

void redis_fail_over(redis_t *r) {
    redis_demote(r);
    copy_shorten(&r->now);
    r->now.master++;
}

void redis_split(redis_t *r) {
    redis_demote(r);
    copy_clone(&r->old, &r->now);
    copy_shorten(&r->now);
    r->now.master++;
    r->is_split = r->is_old_backed = true;
}

void redis_stay(redis_t *r, machine_t *machine) {
    if (r->is_split && !is_on_old(r, machine) && !vec_push(&r->on_old, machine)) abort();
}

void redis_back(redis_t *r) { r->is_old_backed = false; }

void redis_demote(redis_t *r) {
    copy_fini(&r->old);
    r->on_old.count = 0;
    r->is_split = r->is_old_backed = false;
}

void redis_wipe(redis_t *r) { copy_clear(&r->now); }
void redis_skew(redis_t *r, int64_t ms) { r->now.skew_ms = ms; }

const void *redis_look(redis_t *r, const char *key, size_t *ret_size) {
    return key_get(r->is_old_backed ? &r->old : &r->now, key, ret_size);
}

const char *redis_look_next(redis_t *r, const char *prefix, const char *after) {
    return key_next(r->is_old_backed ? &r->old : &r->now, prefix, after);
}
