/* Every walk checks anew: the bytes are small, and walked when a group is made, told or shown. */
#include "node/group_spec.h"

#include <stdlib.h>
#include <string.h>

bool node_group_spec_begin(const uint8_t *bytes, size_t size, node_group_spec_t *spec) {
    if (size < sizeof spec->head) return false;
    memcpy(&spec->head, bytes, sizeof spec->head);
    spec->at = bytes + sizeof spec->head;
    spec->end = bytes + size;
    return spec->head.strategy <= MOB_STRICT_SPREAD && spec->head.bundles >= 1 &&
           spec->head.bundles <= NODE_GROUP_BUNDLES_MAX && spec->head.value_size <= size;
}

/* A text with its zero; NULL: there is none. */
static const char *text_take(const uint8_t **at, const uint8_t *end) {
    const char *text = (const char *)*at;
    const uint8_t *zero = memchr(*at, 0, (size_t)(end - *at));
    if (zero == NULL) return NULL;
    *at = zero + 1;
    return text;
}

bool node_group_spec_bundle(node_group_spec_t *spec, sched_amount_t *amounts,
                            sched_bundle_want_t *want) {
    mob_bundle_t head;
    if ((size_t)(spec->end - spec->at) < sizeof head) return false;
    memcpy(&head, spec->at, sizeof head);
    const uint8_t *at = spec->at + sizeof head;
    if (head.resources > SCHED_NEEDS_MAX || head.size > (size_t)(spec->end - at)) return false;
    const uint8_t *end = spec->at = at + head.size;
    for (uint32_t i = 0; i < head.resources; i++) {
        if ((size_t)(end - at) < sizeof(uint64_t)) return false;
        memcpy(&amounts[i].amount, at, sizeof(uint64_t));
        at += sizeof(uint64_t);
        amounts[i].name = text_take(&at, end);
        if (amounts[i].name == NULL) return false;
    }
    const char *selector = text_take(&at, end);
    *want = (sched_bundle_want_t){.demand = amounts,
                                  .count = head.resources,
                                  .selector = selector && *selector ? selector : NULL};
    return selector != NULL && at == end;
}

mob_status_t node_group_wants_read(const uint8_t *bytes, size_t size, node_group_wants_t *wants) {
    node_group_spec_t spec;
    if (!node_group_spec_begin(bytes, size, &spec)) return MOB_EPROTO;
    uint32_t count = spec.head.bundles;
    size_t lines = size / (sizeof(uint64_t) + 1) + 1, used = 0;
    *wants =
        (node_group_wants_t){.head = spec.head,
                             .bundles = calloc(count, sizeof *wants->bundles),
                             .amounts = calloc(lines + SCHED_NEEDS_MAX, sizeof *wants->amounts)};
    mob_status_t status = wants->bundles != NULL && wants->amounts != NULL ? MOB_OK : MOB_ENOMEM;
    for (uint32_t b = 0; status == MOB_OK && b < count; b++) {
        if (node_group_spec_bundle(&spec, wants->amounts + used, &wants->bundles[b]))
            used += wants->bundles[b].count;
        else
            status = MOB_EPROTO;
    }
    if (status == MOB_OK && (size_t)(spec.end - spec.at) != spec.head.value_size)
        status = MOB_EPROTO;
    if (status != MOB_OK) node_group_wants_free(wants);
    return status;
}

void node_group_wants_free(node_group_wants_t *wants) {
    free(wants->bundles);
    free(wants->amounts);
}

mob_status_t node_group_spec_sched(const uint8_t *bytes, size_t size, sched_job_t *job,
                                   sched_group_t **ret_group) {
    node_group_wants_t wants;
    mob_status_t status = node_group_wants_read(bytes, size, &wants);
    if (status != MOB_OK) return status;
    status = sched_group_new(job, wants.bundles, wants.head.bundles,
                             wants.head.strategy == MOB_STRICT_SPREAD, ret_group);
    node_group_wants_free(&wants);
    return status;
}
