/*
 * Events lie in a heap, by time. Among those of the same time the one with the lower `turn` is
 * first: a random number. Those of one line keep their order because no two of them have the same
 * time: one that would not be after the line's newest is moved to a nanosecond after it.
 */
#include "sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"

typedef struct {
    uint64_t at_ns, turn;
    world_fn fn;
    void *context;
    uint64_t argument;
} event_t;

/* Before each piece of memory that is the world's. */
typedef struct piece {
    struct piece *previous, *next;
} piece_t;

struct world {
    piece_t pieces; /* a ring */
    base_random_t random;
    uint64_t now_ns, count;
    VEC(event_t) heap;
    base_map_t lines; /* to the first time that is free after its newest event */
    void (*check)(void *context);
    void *check_context;
    char failure[512];
    bool tells;
};

static void *checked(void *memory) {
    if (memory == NULL) {
        fputs("the simulator has no memory left\n", stderr);
        exit(3);
    }
    return memory;
}

world_t *world_new(uint64_t seed) {
    world_t *w = checked(calloc(1, sizeof *w));
    w->pieces = (piece_t){&w->pieces, &w->pieces};
    w->random.state = seed;
    base_map_init(&w->lines, sizeof(uint64_t));
    return w;
}

void world_free(world_t *w) {
    if (w == NULL) return;
    while (w->pieces.next != &w->pieces) world_release(w, w->pieces.next + 1);
    vec_free(&w->heap);
    base_map_fini(&w->lines);
    free(w);
}

void *world_alloc(world_t *w, size_t size) {
    piece_t *piece = checked(calloc(1, sizeof *piece + size));
    *piece = (piece_t){w->pieces.previous, &w->pieces};
    piece->previous->next = piece->next->previous = piece;
    return piece + 1;
}

void world_release(world_t *w, void *memory) {
    (void)w;
    if (memory == NULL) return;
    piece_t *piece = (piece_t *)memory - 1;
    piece->previous->next = piece->next;
    piece->next->previous = piece->previous;
    free(piece);
}

uint64_t world_now_ns(const world_t *w) { return w->now_ns; }
base_random_t *world_random(world_t *w) { return &w->random; }
uint64_t world_events(const world_t *w) { return w->count; }

uint64_t world_between(world_t *w, uint64_t least, uint64_t most) {
    return least + base_random_below(&w->random, most - least + 1);
}

void world_check(world_t *w, void (*check)(void *context), void *context) {
    w->check = check;
    w->check_context = context;
}

/* ---- the heap ---- */

static bool is_before(const event_t *a, const event_t *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->turn < b->turn;
}

static void heap_push(world_t *w, event_t event) {
    if (!vec_push(&w->heap, event)) checked(NULL);
    event_t *items = w->heap.items;
    size_t i = w->heap.count - 1;
    for (; i > 0 && is_before(&event, &items[(i - 1) / 2]); i = (i - 1) / 2)
        items[i] = items[(i - 1) / 2];
    items[i] = event;
}

static event_t heap_pop(world_t *w) {
    event_t *items = w->heap.items, first = items[0], last = vec_pop(&w->heap);
    size_t i = 0, count = w->heap.count;
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_before(&items[child + 1], &items[child])) child++;
        if (!is_before(&items[child], &last)) break;
        items[i] = items[child];
    }
    if (count > 0) items[i] = last;
    return first;
}

static uint64_t line_up(world_t *w, uint64_t line, uint64_t at) {
    uint64_t newest = (uint64_t)(uintptr_t)base_map_get(&w->lines, &line);
    if (at < newest) at = newest;
    if (!base_map_put(&w->lines, &line, (void *)(uintptr_t)(at + 1))) checked(NULL);
    return at;
}

void world_later(world_t *w, uint64_t delay, uint64_t line, world_fn fn, void *context,
                 uint64_t argument) {
    uint64_t at = w->now_ns + delay;
    if (line != 0) at = line_up(w, line, at);
    heap_push(w, (event_t){at, base_random_next(&w->random), fn, context, argument});
}

/* ---- its course ---- */

bool world_step(world_t *w) {
    if (w->failure[0] != 0 || w->heap.count == 0) return false;
    event_t event = heap_pop(w);
    w->now_ns = event.at_ns;
    w->count++;
    event.fn(event.context, event.argument);
    if (w->check != NULL && w->failure[0] == 0) w->check(w->check_context);
    return w->failure[0] == 0;
}

bool world_run(world_t *w, uint64_t until) {
    while (w->heap.count > 0 && w->heap.items[0].at_ns <= until)
        if (!world_step(w)) return false;
    if (w->now_ns < until) w->now_ns = until;
    return w->failure[0] == 0;
}

void world_fail(world_t *w, const char *format, ...) {
    if (w->failure[0] != 0) return;
    char words[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    snprintf(w->failure, sizeof w->failure, "at %.6f s, event %llu: %s", (double)w->now_ns / 1e9,
             (unsigned long long)w->count, words);
}

const char *world_failure(const world_t *w) { return w->failure[0] != 0 ? w->failure : NULL; }

void world_tell_all(world_t *w) { w->tells = true; }
bool world_tells(const world_t *w) { return w->tells; }

void world_tell(world_t *w, const char *format, ...) {
    if (!w->tells) return;
    printf("%12.6f  ", (double)w->now_ns / 1e9);
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}
