/* Lists through the things themselves: a ring with a head. A link of all zeros is in no list. */
#ifndef PLACE_RING_H
#define PLACE_RING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ring {
    struct ring *prev, *next;
} ring_t;

#define RING_OF(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void ring_init(ring_t *head) { head->prev = head->next = head; }
static inline bool ring_is_empty(const ring_t *head) { return head->next == head; }
static inline bool ring_is_in(const ring_t *link) { return link->next != NULL; }
static inline ring_t *ring_first(const ring_t *head) {
    return head->next == head ? NULL : head->next;
}
/* The one after it, NULL at the end. */
static inline ring_t *ring_after(const ring_t *head, const ring_t *link) {
    return link->next == head ? NULL : link->next;
}

static inline void ring_remove(ring_t *link) {
    if (link->next == NULL) return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/* Behind all others; out of the list that it was in. */
static inline void ring_push(ring_t *head, ring_t *link) {
    ring_remove(link);
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* Behind all others, unless it is in a list. */
static inline void ring_add(ring_t *head, ring_t *link) {
    if (!ring_is_in(link)) ring_push(head, link);
}

#endif
