/* Lists through the things that are in them: a ring with its head. A link that is in no list points
 * to itself. No memory, every step in O(1). */
#ifndef REFS_LIST_H
#define REFS_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct refs_link {
    struct refs_link *prev, *next;
} refs_link_t;

/* The thing that has this link as its `field`. */
#define REFS_OF(link, type, field) ((type *)(void *)((char *)(link)-offsetof(type, field)))

static inline void refs_link_init(refs_link_t *link) { link->prev = link->next = link; }

/* A list without anything in it, a link in no list. */
static inline bool refs_link_is_alone(const refs_link_t *link) { return link->next == link; }

static inline void refs_link_remove(refs_link_t *link) {
    link->prev->next = link->next;
    link->next->prev = link->prev;
    refs_link_init(link);
}

/* To the end of the list, out of the one in which it is. */
static inline void refs_link_move(refs_link_t *link, refs_link_t *list) {
    refs_link_remove(link);
    link->prev = list->prev;
    link->next = list;
    link->prev->next = link->next->prev = link;
}

/* The first one, taken out; NULL: there is none. */
static inline refs_link_t *refs_link_pop(refs_link_t *list) {
    if (refs_link_is_alone(list)) return NULL;
    refs_link_t *first = list->next;
    refs_link_remove(first);
    return first;
}

#endif
