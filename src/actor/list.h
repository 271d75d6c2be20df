/* Rings that run through what they hold, so that a place in one costs no memory and leaving one
 * costs no search. A link that is all zero, or a ring of its own, is in no list. */
#ifndef ACTOR_LIST_H
#define ACTOR_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct actor_link {
    struct actor_link *prev, *next;
} actor_link_t;

/* What the link lies in. */
#define actor_list_item(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))
/* Walks over a list whose walker may take the item at hand out of it. */
#define actor_list_each(list, at)                                                             \
    for (actor_link_t *at = (list)->next, *at##_next; at != (list) && (at##_next = at->next); \
         at = at##_next)

static inline void actor_list_init(actor_link_t *list) { list->prev = list->next = list; }
static inline bool actor_list_is_empty(const actor_link_t *list) { return list->next == list; }
static inline bool actor_link_is_in(const actor_link_t *link) {
    return link->next != NULL && link->next != link;
}

static inline void actor_list_remove(actor_link_t *link) {
    if (link->next == NULL) return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/* At the end; it leaves the list in which it was. */
static inline void actor_list_add(actor_link_t *list, actor_link_t *link) {
    actor_list_remove(link);
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

#endif
