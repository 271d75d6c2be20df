#include "wire/record.h"

uint64_t wire_body_size(uint32_t num_returns, uint32_t num_deps, uint32_t num_refs,
                        size_t name_size, size_t args_size) {
    return ((uint64_t)num_returns + num_deps + num_refs) * sizeof(mob_ref_t) + name_size +
           args_size;
}

mob_status_t wire_body_split(const wire_record_t *record, const void *start, uint64_t size,
                             wire_body_t *ret_body) {
    if (record->num_returns > MOB_MAX_RETURNS || record->num_deps > MOB_MAX_DEPS ||
        record->num_refs > MOB_MAX_DEPS ||
        (record->kind > MOB_ACTOR_CALL && record->kind != MOB_GROUP))
        return MOB_EPROTO;
    uint64_t fixed = wire_body_size(record->num_returns, record->num_deps, record->num_refs,
                                    record->name_size, 0);
    if (fixed > size) return MOB_EPROTO;
    const mob_ref_t *refs = start;
    ret_body->returns = refs;
    ret_body->deps = refs + record->num_returns;
    ret_body->refs = ret_body->deps + record->num_deps;
    ret_body->name = (const char *)(ret_body->refs + record->num_refs);
    ret_body->args = (const uint8_t *)ret_body->name + record->name_size;
    ret_body->args_size = size - fixed;
    return MOB_OK;
}
