/* The nodes of the cluster as this one knows them: what each said of itself when it registered,
 * what of it is free, and why it is gone. */
#ifndef NODE_CLUSTER_ROSTER_H
#define NODE_CLUSTER_ROSTER_H

#include "base/map.h"
#include "frame/frame.h"
#include "node/types.h"
#include "wire/direct.h"

typedef struct {
    uint64_t incarnation;
    uint64_t since_ms, until_ms; /* wall clock; until_ms 0: it lives, for all that is known */
    uint64_t met_ms;             /* when this node heard of it, by its loop's clock */
    char *host, *name, *hostname, *folder, *labels;
    uint16_t port;
    int32_t pid;
    bool is_head, is_silent;
    bool has_left; /* it has said goodbye */
    char *reason;  /* why it is gone; NULL */
    frame_amount_t *totals;
    int64_t *free; /* by the same numbers, as it said last */
    size_t count;
} node_row_t;

enum { NODE_ROSTER_WORDS = 400 }; /* enough for most */

typedef struct {
    base_map_t rows;         /* by incarnation */
    VEC(node_row_t *) order; /* by their coming; the dead are bounded */
} node_roster_t;

void node_roster_init(node_roster_t *roster);
void node_roster_fini(node_roster_t *roster);

/* What this node says of itself, to be freed: at most `most` bytes. MOB_ELIMIT: its resources and
 * labels need more than that; MOB_ENOMEM. */
mob_status_t node_roster_card(node_t *node, size_t most, uint8_t **ret_bytes, size_t *ret_size);
/* A node and its card, which may be anything: MOB_EPROTO. MOB_ENOMEM. */
mob_status_t node_roster_add(node_roster_t *roster, uint64_t incarnation, const void *card,
                             size_t size);
node_row_t *node_roster_find(const node_roster_t *roster, uint64_t incarnation); /* NULL: none */
void node_roster_bury(node_roster_t *roster, uint64_t incarnation, const char *reason);

/* A node for people: its name, address and id, and why it is dead, if it is. Cut to `capacity`. */
void node_roster_words(const node_roster_t *roster, uint64_t incarnation, char *ret_words,
                       size_t capacity);

/* What this node has free, for its pulse; how many bytes that is. */
size_t node_roster_usage_write(node_t *node, uint8_t *bytes, size_t capacity);
/* MOB_EPROTO. */
mob_status_t node_roster_usage_read(node_row_t *row, const void *bytes, size_t size);

/* All rows, this node's own first, in the direct encoding. A node that is alone is one row. */
void node_roster_write(node_t *node, wire_writer_t *writer);

#endif
