/* Lists through the things that they hold: a ring with a head. A link that is in no list is zero,
 * or names itself. */
#ifndef PULL_RING_H
#define PULL_RING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ring {
    struct ring *prev, *next;
} ring_t;

/* What the link lies in. */
#define RING_OF(link, type, field) ((type *)(void *)((char *)(link)-offsetof(type, field)))

/* Walks over a list whose current item may leave it meanwhile. */
#define RING_EACH(link, head)                                                                 \
    for (ring_t *link = (head)->next, *link##_next; link##_next = link->next, link != (head); \
         link = link##_next)

static inline void ring_init(ring_t *head) { head->prev = head->next = head; }

static inline bool ring_is_empty(const ring_t *head) { return head->next == head; }

static inline bool ring_is_in(const ring_t *link) {
    return link->next != NULL && link->next != link;
}

/* Harmless if it is in none. */
static inline void ring_remove(ring_t *link) {
    if (!ring_is_in(link)) return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/* Behind `before`, which is another, out of the list that it was in. */
static inline void ring_insert(ring_t *before, ring_t *link) {
    ring_remove(link);
    *link = (ring_t){before, before->next};
    before->next->prev = link;
    before->next = link;
}

/* The last one. */
static inline void ring_push(ring_t *head, ring_t *link) {
    ring_remove(link); /* it may be the last one already */
    ring_insert(head->prev, link);
}

#endif
