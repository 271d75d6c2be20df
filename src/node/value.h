/* Values in slots that the daemon reads or writes: from a task that it ran in its own name or in a
 * peer's, to where the value belongs. */
#ifndef NODE_VALUE_H
#define NODE_VALUE_H

#include "frame/done.h"
#include "mobula.h"
#include "node/types.h"
#include "store/slot.h"

/* What a slot has, read once: its worker wrote it, and may go on writing. */
typedef struct {
    uint64_t meta, block;
    uint32_t ref_count;
    uint8_t small[STORE_INLINE];
} node_value_t;

/* What the sealed slot has. False: nothing that makes sense. */
bool node_value_read(node_t *node, mob_ref_t ref, node_value_t *ret_value);
/* Where its bytes lie; not of one in a file. */
const uint8_t *node_value_bytes(const node_t *node, const node_value_t *value);
/* Gives the slot `to`, which is the daemon's to write (PENDING, or AWAY), the value of `from`,
 * which has none afterwards. Nothing is copied but what lies in the slot itself. False: somebody
 * has freed it, or no memory; `to` is as it was. */
bool node_value_move(node_t *node, mob_ref_t from, const node_value_t *value, mob_ref_t to);
/* Gives the PENDING slot `to` a value from elsewhere, with these references inside, which must be
 * there. MOB_ESPACE: there is no space for it now; MOB_ENOMEM. */
mob_status_t node_value_write(node_t *node, mob_ref_t to, mob_format_t format, mob_status_t error,
                              const uint8_t *bytes, uint64_t size, const mob_ref_t *refs,
                              uint32_t ref_count);
/* The same, of an item of a flow, behind whose bytes in its slot there is a link. */
mob_status_t node_value_write_item(node_t *node, mob_ref_t to, const frame_value_t *value,
                                   const mob_ref_t *refs);
/* What the sealed slot has, as it goes into a message: `bytes` are borrowed from the store for this
 * turn, `refs` are to be freed, `at` is none. Without a book nothing may be inside. MOB_ELIMIT: it
 * is too large for that, or not in memory; MOB_ELOST: it makes no sense; MOB_ENOMEM. */
mob_status_t node_value_frame(node_t *node, mob_ref_t ref, frame_value_t *ret_value);
/* What is inside the object, as ids; to be freed. MOB_ENOMEM. */
mob_status_t node_value_refs(node_t *node, const node_object_t *object, frame_value_t *ret_value);
/* The value's memory is free. */
void node_value_free(node_t *node, mob_ref_t ref, const node_value_t *value);

#endif
