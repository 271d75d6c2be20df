/* What the maker of a placement group says: a mob_group_t, its bundles, and the value of its
 * handle. It comes from a client or another node, and may be anything until it was checked. */
#ifndef NODE_GROUP_SPEC_H
#define NODE_GROUP_SPEC_H

#include "mobula.h"
#include "sched/sched.h"

enum { NODE_GROUP_BUNDLES_MAX = 10000 };

/* A walk over it; the bytes are borrowed. */
typedef struct {
    mob_group_t head;
    const uint8_t *at, *end;
} node_group_spec_t;

/* False: it makes no sense. */
bool node_group_spec_begin(const uint8_t *bytes, size_t size, node_group_spec_t *ret_spec);
/* The next bundle; `amounts` has space for SCHED_NEEDS_MAX, and its names lie in the spec. False:
 * it makes no sense. */
bool node_group_spec_bundle(node_group_spec_t *spec, sched_amount_t *amounts,
                            sched_bundle_want_t *ret_want);
/* All bundles at once, which are to be freed by node_group_wants_free. MOB_EPROTO: it makes no
 * sense; MOB_ENOMEM. */
typedef struct {
    mob_group_t head;
    sched_bundle_want_t *bundles;
    sched_amount_t *amounts; /* of all of them */
} node_group_wants_t;
mob_status_t node_group_wants_read(const uint8_t *bytes, size_t size,
                                   node_group_wants_t *ret_wants);
void node_group_wants_free(node_group_wants_t *wants);
/* The scheduler's group. MOB_EPROTO, and as sched_group_new. */
mob_status_t node_group_spec_sched(const uint8_t *bytes, size_t size, sched_job_t *job,
                                   sched_group_t **ret_group);

#endif
