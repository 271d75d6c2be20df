/* Lists of what all nodes of a cluster have: names of actors, and actors. listing.c has how one
 * comes about. */
#ifndef NODE_LISTING_H
#define NODE_LISTING_H

#include "frame/frame.h"
#include "mobula.h"
#include "node/types.h"
#include "wire/direct.h"
#include "wire/message.h"

typedef enum { NODE_LIST_NAMES = 1, NODE_LIST_ACTORS } node_list_t;

/* Rows, one after the other, in the layout of listing.c. */
typedef struct {
    uint8_t *bytes;
    size_t size, capacity;
    uint32_t count;
} node_rows_t;

/* MOB_QUERY_NAMES (`argument` 0: of the client's namespace, 1: all) and MOB_QUERY_ACTORS, which
 * are answered. */
void node_listing_ask(node_client_t *client, const wire_message_t *message);
/* This node's own actors, in the direct encoding. */
void node_listing_write(node_t *node, wire_writer_t *writer);

/* ---- for cluster/gather.c ---- */

/* `rows` are borrowed, and are what there is of them if the status is not MOB_OK. */
typedef void (*node_listed_fn)(void *context, mob_status_t status, const node_rows_t *rows);

/* What this node has; of names those of `name_space`, or with "" all. MOB_OK: `listed` follows,
 * perhaps at once; MOB_ENOMEM: it does not. */
mob_status_t node_listing_own(node_t *node, node_list_t what, const char *name_space,
                              node_listed_fn listed, void *context);
/* Adds what another node has sent: whole rows. MOB_EPROTO: they make no sense; MOB_ENOMEM. */
mob_status_t node_rows_add(node_rows_t *rows, const void *bytes, size_t size, uint32_t count);
/* Adds one name. False: no memory. */
bool node_rows_add_name(node_rows_t *rows, frame_id_t id, const char *name_space, const char *name);
/* How many of the rows from `at` on fit into `most` bytes, at least one; their bytes. */
uint32_t node_rows_piece(const node_rows_t *rows, size_t at, size_t most, size_t *ret_size);
void node_rows_fini(node_rows_t *rows);

#endif
