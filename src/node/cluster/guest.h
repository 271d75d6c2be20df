/* Tasks of other nodes here: what the room place asks of the node that runs them. */
#ifndef NODE_CLUSTER_GUEST_H
#define NODE_CLUSTER_GUEST_H

#include "node/visit.h"
#include "place/place.h"

/* Before each frame: the number of its run, which tells the values of one from those of another. */
enum { NODE_GUEST_HEAD = 8 };

/* place_ops_t's; the context is the cluster, a task is a node_visit_t. */
mob_status_t node_guest_admit(void *context, place_guest_t *guest, uint64_t origin,
                              const void *frame, size_t size, void **ret_task);
void node_guest_refuse(void *context, uint64_t origin, const void *frame, size_t size);
void node_guest_queue(void *context, void *task);
bool node_guest_unqueue(void *context, void *task);
void node_guest_drop(void *context, void *task);
void node_guest_stop(void *context, void *task, uint32_t how);
uint32_t node_guest_fits(void *context, const frame_amount_t *amounts, size_t count, uint32_t most);
void node_guest_free_amounts(void *context, int64_t *ret_free);

/* node_way_t's. */
bool node_guest_stay(node_visit_t *visit, uint32_t index, frame_value_t *ret_value);
bool node_guest_answer(node_visit_t *visit, const uint8_t *body, size_t size);
void node_guest_settle(node_visit_t *visit);

/* The large value of the visit's sealed slot `from` stays here under this id, its home's: what is
 * said of it, beside what is inside. It is the id's proxy's from now on. False: no memory. */
bool node_guest_keep(const node_visit_t *visit, frame_id_t id, mob_ref_t from,
                     frame_value_t *ret_value);
/* The version of the values that this run makes, from the number before its frame. */
uint32_t node_guest_version(uint64_t run);
/* The references in a frame, or in the answer to one, without those that are none; to be freed.
 * MOB_EPROTO, MOB_ENOMEM. */
mob_status_t node_guest_frame_ids(const void *bytes, size_t size, frame_id_t **ret_ids,
                                  size_t *ret_count);
mob_status_t node_guest_answer_ids(const void *bytes, size_t size, frame_id_t **ret_ids,
                                   size_t *ret_count);

#endif
