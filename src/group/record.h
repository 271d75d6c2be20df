/* Records of groups in the control state, as scripts read and write them. record.c has the keys. */
#ifndef GROUP_RECORD_H
#define GROUP_RECORD_H

#include "group/group.h"
#include "group/script.h"

/* Tells attempts apart, and orders them. */
typedef struct {
    uint64_t fence, attempt;
} group_turn_t;

typedef struct {
    uint8_t state;
    uint64_t number;
    group_turn_t decided, committed;
    uint64_t late; /* grows when a place is written that no leader asked for */
    uint8_t name[GROUP_NAME_HASH];
    uint32_t count;
    size_t spec_size;
    uint8_t spec[GROUP_SPEC_MAX];
} group_record_value_t;

bool group_turn_is_after(group_turn_t a, group_turn_t b);
bool group_turn_is_equal(group_turn_t a, group_turn_t b);
group_turn_t group_turn_take(base_reader_t *reader);

bool group_record_get(const script_keys_t *keys, const uint8_t *id,
                      group_record_value_t *ret_record);
void group_record_set(const script_keys_t *keys, const uint8_t *id,
                      const group_record_value_t *record);
/* False: the bytes are no spec. */
bool group_record_fill(group_record_value_t *record, const uint8_t *name, const void *spec,
                       size_t size);
/* Makes it REMOVED, and its name free. */
void group_record_end(const script_keys_t *keys, const uint8_t *id, group_record_value_t *record);
void group_record_forget(const script_keys_t *keys, const uint8_t *id);

bool group_place_is(const script_keys_t *keys, const uint8_t *id, uint32_t bundle, uint64_t node,
                    group_turn_t turn);
void group_places_set(const script_keys_t *keys, const uint8_t *id, uint32_t first, uint32_t count,
                      uint64_t node, group_turn_t turn);
/* Ranges of one node, as a node knows them; and the record, which is late by that. */
void group_ranges_set(const script_keys_t *keys, const uint8_t *id, group_record_value_t *record,
                      base_reader_t ranges, uint64_t node, group_turn_t turn);

void group_name_key(const uint8_t *hash, char ret_key[SCRIPT_KEY_MAX]);
bool group_name_is_none(const uint8_t *hash);
void group_name_set(const script_keys_t *keys, const uint8_t *id,
                    const group_record_value_t *record);
/* The number of the group that has the name, 0: none has; and whether it is this one. */
uint64_t group_name_get(const script_keys_t *keys, const uint8_t *hash, const uint8_t *id,
                        bool *ret_is_its);

/* False: a newer leader has written here, or another with the same number. */
bool group_fence_pass(const script_keys_t *keys, uint64_t fence, uint64_t leader);
/* The newest that has written here, and its leader; zeros: none has. */
void group_fence_put(const script_keys_t *keys, base_writer_t *writer);
/* Whether this master has decided something already. */
bool group_settled_get(const script_keys_t *keys);
void group_settled_set(const script_keys_t *keys);
uint64_t group_last_get(const script_keys_t *keys);
void group_last_set(const script_keys_t *keys, uint64_t number);
/* A job has ended; 12 bytes. */
void group_ended_set(const script_keys_t *keys, const uint8_t *job);
bool group_ended_get(const script_keys_t *keys, const uint8_t *job);

#endif
