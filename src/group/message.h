/*
 * What the rooms of two nodes say to each other. A message is a fence (0: its sender does not lead)
 * and items, one after the other. It is read to its end before anything of it is done.
 */
#ifndef GROUP_MESSAGE_H
#define GROUP_MESSAGE_H

#include "base/bytes.h"
#include "group/group.h"

typedef struct {
    uint8_t bytes[20]; /* home 8, number 4, generation 8 */
} group_id_t;

typedef struct {
    uint32_t first, count; /* of bundles */
} group_range_t;

typedef enum {
    /* to the leader */
    GROUP_ITEM_WATCH = 1, /* tell me of it, now and when it changes; flag: I was told READY */
    GROUP_ITEM_ENDED,     /* its record is REMOVED, as this master knows or was told */
    GROUP_ITEM_RESERVED,  /* attempt; flag: whether */
    GROUP_ITEM_HELD,      /* fence, attempt; flag: whether it is held for good */
    GROUP_ITEM_RELEASED,  /* nothing of it is here any more */
    GROUP_ITEM_SEEN,      /* its home will not ask for it any more */
    GROUP_ITEM_VIEW,      /* what is free */
    /* from the leader; ignored if there is a newer one */
    GROUP_ITEM_RESERVE, /* attempt, spec, ranges */
    GROUP_ITEM_COMMIT,  /* fence, attempt: they are committed, by this master */
    GROUP_ITEM_ABORT,   /* attempt: it will never be committed */
    GROUP_ITEM_RELEASE, /* all of it: its record is REMOVED */
    GROUP_ITEM_STATE,   /* flag: group_state_t, as this master knows or was told; nodes */
    GROUP_ITEM_WANT,    /* a view, when there is more free than in the last */
    /* to a group's home, and from it */
    GROUP_ITEM_ASK,    /* tell me of it */
    GROUP_ITEM_REMOVE, /* it */
    GROUP_ITEM_LOCAL,  /* flag: group_state_t. Only this node knows it */
    GROUP_ITEM_SHARED, /* the leader knows it */
    GROUP_ITEM_LAST = GROUP_ITEM_SHARED,
} group_item_kind_t;

/* What lies in lists is borrowed. */
typedef struct {
    group_item_kind_t kind;
    group_id_t id;
    uint64_t fence, attempt, master;
    uint8_t flag;
    const uint8_t *spec;
    size_t spec_size;
    const uint8_t *list; /* ranges of 4 + 4 bytes, nodes of 8, or amounts of 8 + 8 */
    size_t count;
    const char *labels;
} group_item_t;

void group_item_put(base_writer_t *writer, const group_item_t *item);
/* False: this is no item. */
bool group_item_take(base_reader_t *reader, group_item_t *ret_item);
group_range_t group_item_range(const group_item_t *item, size_t index);
uint64_t group_item_node(const group_item_t *item, size_t index);

#endif
