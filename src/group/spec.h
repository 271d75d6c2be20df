/*
 * What is asked for with a group, in bytes: as it is kept in the control state and sent to nodes.
 * Neighbours that are equal are one run. All texts in it end with a zero.
 */
#ifndef GROUP_SPEC_H
#define GROUP_SPEC_H

#include "base/bytes.h"
#include "group/group.h"

typedef struct {
    uint32_t first, count; /* of its bundles */
    frame_demand_t demand;
    const char *selector;
} group_run_t;

typedef struct group_spec {
    frame_job_t job;
    mob_strategy_t strategy;
    bool detached;
    const char *name_space, *name;
    uint32_t count;      /* of bundles */
    uint64_t class_hash; /* the same for the same strategy and bundles */
    group_run_t *runs;
    size_t run_count;
    frame_amount_t *amounts; /* of all runs */
    size_t size;
    uint8_t *bytes; /* behind it */
} group_spec_t;

/* MOB_EINVAL, MOB_ELIMIT, MOB_ENOMEM. */
mob_status_t group_spec_write(const group_want_t *want, group_spec_t **ret_spec);
/* MOB_EPROTO: the bytes are no spec; MOB_ENOMEM. */
mob_status_t group_spec_read(const void *bytes, size_t size, group_spec_t **ret_spec);
/* Whether the bytes are one. */
bool group_spec_check(const void *bytes, size_t size, uint32_t *ret_count);
void group_spec_free(group_spec_t *spec); /* NULL is fine */
/* The run that has the bundle. */
const group_run_t *group_spec_run(const group_spec_t *spec, uint32_t bundle);

/* A number for some bytes, the same on all nodes. */
uint64_t group_hash(uint64_t seed, const void *bytes, size_t size);
static inline uint64_t group_hash_text(const char *text) {
    return group_hash(0, text, strlen(text));
}
/* A text with its zero, borrowed; NULL: there is none. */
const char *group_take_text(base_reader_t *reader);

#endif
