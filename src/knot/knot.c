/*
 * The greatest set of things of which none can go on is what is left when everything has gone on
 * that can. Going on only gives: a thing that has gone on is needed by nobody any more, and what it
 * held is free. So the order does not matter, and each thing, need and demand is looked at once. A
 * thing that got what it asked for gives it back too when it has gone on: so demands take nothing.
 *
 * Those that ask for a resource stand in a row, the smallest demand first. What becomes free serves
 * them from the front.
 */
#include "knot/knot.h"

#include <stdlib.h>

#include "base/vec.h"

typedef struct {
    uint32_t needed, asks; /* what is still to come */
    bool gone_on;
} thing_t;

/* These two begin with the thing that they are looked up by: the one that is needed, the one that
 * holds. */
typedef struct {
    uint32_t other, thing;
} need_t;

typedef struct {
    uint32_t thing, resource;
    int64_t amount;
} claim_t;

typedef struct {
    int64_t free;
    size_t next, end; /* the claims that are not served, in `asks` */
} resource_t;

struct knot {
    VEC(thing_t) things;
    VEC(need_t) needs;
    VEC(claim_t) asks, holds;
    VEC(resource_t) resources;
    VEC(uint32_t) going; /* can go on, and have not yet */
    bool failed;         /* no memory */
};

knot_t *knot_new(void) { return calloc(1, sizeof(knot_t)); }

void knot_free(knot_t *k) {
    if (k == NULL) return;
    vec_free(&k->things);
    vec_free(&k->needs);
    vec_free(&k->asks);
    vec_free(&k->holds);
    vec_free(&k->resources);
    vec_free(&k->going);
    free(k);
}

uint32_t knot_resource_add(knot_t *k, int64_t total) {
    if (!vec_push(&k->resources, ((resource_t){.free = total}))) k->failed = true;
    return (uint32_t)k->resources.count - 1;
}

uint32_t knot_thing_add(knot_t *k, uint32_t needed) {
    if (!vec_push(&k->things, ((thing_t){.needed = needed}))) k->failed = true;
    return (uint32_t)k->things.count - 1;
}

void knot_need(knot_t *k, uint32_t thing, uint32_t other) {
    if (!k->failed && !vec_push(&k->needs, ((need_t){.thing = thing, .other = other})))
        k->failed = true;
}

void knot_ask(knot_t *k, uint32_t thing, uint32_t resource, int64_t amount) {
    if (k->failed || !vec_push(&k->asks, ((claim_t){thing, resource, amount})))
        k->failed = true;
    else
        k->things.items[thing].asks++;
}

void knot_hold(knot_t *k, uint32_t thing, uint32_t resource, int64_t amount) {
    if (k->failed || !vec_push(&k->holds, ((claim_t){thing, resource, amount})))
        k->failed = true;
    else
        k->resources.items[resource].free -= amount;
}

static uint32_t key_of(const void *item) { return *(const uint32_t *)item; }

static int key_compare(const void *a, const void *b) {
    return (key_of(a) > key_of(b)) - (key_of(a) < key_of(b));
}

static int ask_compare(const void *a, const void *b) {
    const claim_t *left = a, *right = b;
    if (left->resource != right->resource) return left->resource < right->resource ? -1 : 1;
    return (left->amount > right->amount) - (left->amount < right->amount);
}

static void sort(void *items, size_t count, size_t size,
                 int (*compare)(const void *, const void *)) {
    if (count > 1) qsort(items, count, size, compare);
}

/* `going` has space for every thing, and each comes once. */
static void thing_try(knot_t *k, uint32_t thing) {
    thing_t *t = &k->things.items[thing];
    if (t->gone_on || t->needed > 0 || t->asks > 0) return;
    t->gone_on = true;
    k->going.items[k->going.count++] = thing;
}

static void resource_serve(knot_t *k, resource_t *r) {
    for (; r->next < r->end && k->asks.items[r->next].amount <= r->free; r->next++) {
        k->things.items[k->asks.items[r->next].thing].asks--;
        thing_try(k, k->asks.items[r->next].thing);
    }
}

/* The first item of this key, in a row that is sorted by it. */
static size_t first_of(const void *items, size_t count, size_t size, uint32_t key) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (key_of((const char *)items + middle * size) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
#define FIRST_OF(v, key) first_of((v)->items, (v)->count, sizeof *(v)->items, key)

static void thing_goes_on(knot_t *k, uint32_t thing) {
    for (size_t i = FIRST_OF(&k->needs, thing);
         i < k->needs.count && k->needs.items[i].other == thing; i++) {
        thing_t *waiting = &k->things.items[k->needs.items[i].thing];
        if (waiting->needed > 0) waiting->needed--;
        thing_try(k, k->needs.items[i].thing);
    }
    for (size_t i = FIRST_OF(&k->holds, thing);
         i < k->holds.count && k->holds.items[i].thing == thing; i++) {
        resource_t *r = &k->resources.items[k->holds.items[i].resource];
        r->free += k->holds.items[i].amount;
        resource_serve(k, r);
    }
}

static void rows_make(knot_t *k) {
    sort(k->needs.items, k->needs.count, sizeof *k->needs.items, key_compare);
    sort(k->asks.items, k->asks.count, sizeof *k->asks.items, ask_compare);
    sort(k->holds.items, k->holds.count, sizeof *k->holds.items, key_compare);
    for (size_t i = 0; i < k->asks.count; i++) {
        resource_t *r = &k->resources.items[k->asks.items[i].resource];
        if (r->end == 0) r->next = i;
        r->end = i + 1;
    }
}

size_t knot_tie(knot_t *k) {
    size_t count = k->things.count, gone = 0;
    if (k->failed || !vec_reserve(&k->going, count)) {
        k->failed = true;
        return 0;
    }
    rows_make(k);
    for (size_t i = 0; i < k->resources.count; i++) resource_serve(k, &k->resources.items[i]);
    for (uint32_t i = 0; i < count; i++) thing_try(k, i);
    for (; gone < k->going.count; gone++) thing_goes_on(k, k->going.items[gone]);
    return count - gone;
}

bool knot_is_tied(const knot_t *k, uint32_t thing) {
    return !k->failed && !k->things.items[thing].gone_on;
}
