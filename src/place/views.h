/*
 * The views of all nodes, as the leader has them: what each has and what of it is free, less what
 * was granted since it said so. Nodes are found by what they have free of a resource, by their
 * labels, or by their name, without a look at the others.
 */
#ifndef PLACE_VIEWS_H
#define PLACE_VIEWS_H

#include "place/books.h"

enum { VIEWS_TIERS = 2, VIEWS_BUCKETS = 64, VIEWS_INDEXES_MAX = 65536 };

typedef struct view view_t;

/* Nodes that have something in common: a resource (in buckets by the power of two of what is free
 * of it), labels, or a name (in one bucket). Tier 1: nodes with GPUs, for those that need none. */
typedef struct index {
    struct index *chain;
    ring_t selectors; /* among the indexes by labels, if it is one */
    ring_t buckets[VIEWS_TIERS][VIEWS_BUCKETS];
    uint64_t filled[VIEWS_TIERS]; /* a bit for each bucket that is not empty */
    uint32_t count;
    ring_t waiting; /* the leader's: kinds of questions that wait for such a node */
    bool is_flat;
    size_t key_size;
    char key[];
} index_t;

typedef struct member {
    view_t *view;
    index_t *index;
    struct member *next; /* of the same view, for those that are no resources */
    ring_t link;
    uint8_t tier, bucket;
} member_t;

typedef struct view_item {
    uint64_t total, free;
    member_t member;
} view_item_t;

struct view {
    uint64_t id, version;
    uint64_t probe_ns;
    char *labels;
    member_t *flat;
    ring_t link, improved, probe; /* all; the leader's */
    bool has_gpu;
    uint32_t count;
    view_item_t items[];
};

typedef struct views {
    place_t *place;
    base_map_t by_id, indexes; /* indexes: by hash, chained */
    ring_t all, selectors;
    size_t index_count;
} views_t;

typedef struct views_need {
    index_t *index;
    uint64_t amount;
} views_need_t;

uint64_t place_views_hash(const void *bytes, size_t size);
void place_views_init(views_t *views, place_t *place);
void place_views_fini(views_t *views);
/* A node says what it has. MOB_EPROTO, MOB_ENOMEM, MOB_ELIMIT: its view stays as it was. */
mob_status_t place_views_read(views_t *views, uint64_t id, base_reader_t *r, view_t **ret_view);
view_t *place_views_find(const views_t *views, uint64_t id);
void place_views_remove(views_t *views, uint64_t id);

/* Of a resource (NULL or "": any node); of a selector; of a node. NULL: no memory, too many. The
 * first question for a selector looks at all nodes once. */
index_t *place_views_index(views_t *views, const char *resource);
index_t *place_views_index_labels(views_t *views, const char *selector);
index_t *place_views_index_node(views_t *views, uint64_t id);

/* How many times the needs fit into what is free, or into all that there is. */
uint32_t place_view_fits(const view_t *view, const views_need_t *needs, size_t count,
                         uint32_t most);
bool place_view_fits_ever(const view_t *view, const views_need_t *needs, size_t count);
/* What was granted is free no more. */
void place_view_take(view_t *view, const views_need_t *needs, size_t count, uint32_t times);
/* Behind the others that are alike: the next choice is another. */
void place_view_rotate(view_t *view, index_t *index);

/* The first of the index that `accepts` takes, of those with at least `least` of the resource
 * free: GPUs last, then the freest first. */
view_t *place_views_pick(const index_t *index, uint64_t least,
                         bool (*accepts)(void *context, const view_t *view), void *context);

#endif
