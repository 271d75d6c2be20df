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

/* Blocks of one table, and what of them is free. */
typedef struct {
    node_spans_t spans;
    VEC(uint32_t) free;
} node_stock_t;

/* What the daemon takes slots and records from for what it runs itself, for its own sake or in a
 * peer's name. */
typedef struct {
    uint32_t submitter; /* a peer's number; 0: the daemon itself */
    node_stock_t slots, records;
} node_own_t;

typedef struct {
    node_table_t slots, records;
    node_own_t own; /* the daemon's */
} node_grants_t;

/* The client asks for that many; it is answered with what it gets, which may be none. */
void node_grant_slots(node_client_t *client, uint32_t wanted);
void node_grant_records(node_client_t *client, uint32_t wanted);
/* Whether the index, which need not make sense, is in a block of that owner's. */
bool node_grant_slot_is(node_t *node, uint32_t slot, uint32_t owner);
bool node_grant_record_is(node_t *node, uint32_t record, uint32_t owner);
/* The owner that the tables name for these. No process has that number. */
uint32_t node_own_owner(const node_own_t *own);
/* A slot or a record, until it is given back: FREE then, and nobody names it. False: there is
 * none. */
bool node_own_slot(node_t *node, node_own_t *own, uint32_t *ret_slot);
bool node_own_record(node_t *node, node_own_t *own, uint32_t *ret_record);
/* The same of a stock whose slots are freed by others, who say nothing: none is given back. */
bool node_own_slot_swept(node_t *node, node_own_t *own, uint32_t *ret_slot);
void node_own_slot_back(node_own_t *own, uint32_t slot);
void node_own_record_back(node_own_t *own, uint32_t record);
/* The client is certainly dead: its blocks are nobody's once nothing names what lies there. */
void node_grants_forget(node_client_t *client);

#endif
