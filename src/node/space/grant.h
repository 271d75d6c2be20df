/* Blocks of slots and of records: which client was granted which. */
#ifndef NODE_SPACE_GRANT_H
#define NODE_SPACE_GRANT_H

#include "node/types.h"

/* One of the two tables that clients share. */
typedef struct {
    uint16_t *owner;  /* by block; 0: nobody's */
    uint32_t granted; /* high-water mark */
    node_spans_t free;
    node_spans_t orphans; /* blocks of the dead with something alive in them */
} node_table_t;

typedef struct {
    node_table_t slots, records;
} node_grants_t;

/* The client asks for that many; it is answered with what it gets, which may be none. */
void node_grant_slots(node_client_t *client, uint32_t wanted);
void node_grant_records(node_client_t *client, uint32_t wanted);
/* Whether the index, which need not make sense, is in a block of that owner's. */
bool node_grant_slot_is(node_t *node, uint32_t slot, uint32_t owner);
bool node_grant_record_is(node_t *node, uint32_t record, uint32_t owner);
/* The client is certainly dead: its blocks are nobody's once nothing names what lies there. */
void node_grants_forget(node_client_t *client);

#endif
