/*
 * A chunk on a connection: a head and its bytes, and the tag by which the receiver knows that both
 * are the peer's, whole, and in their place. No I/O; for one thread.
 */
#ifndef BULK_CHUNK_H
#define BULK_CHUNK_H

#include "bulk/bulk.h"

enum { CHUNK_SAID = 56, CHUNK_HEAD = CHUNK_SAID + NET_PROOF, CHUNK_HASH = 16, CHUNK_SECRET = 192 };

/* What one direction of a connection has: two keys and a counter. */
typedef struct chunk_key {
    net_secret_t tag;
    uint8_t hash[CHUNK_SECRET];
    uint64_t count; /* of chunks so far */
} chunk_key_t;

/* A hash that is being made, by the key's secret. */
typedef struct chunk_hash chunk_hash_t;

/* `key`: of the handshake. MOB_ENOMEM. */
mob_status_t chunk_key_init(chunk_key_t *key, const uint8_t handshake_key[NET_KEY]);

chunk_hash_t *chunk_hash_new(void); /* NULL: no memory */
void chunk_hash_free(chunk_hash_t *hash);
/* Begins a chunk. The key must stay. */
void chunk_hash_begin(chunk_hash_t *hash, const chunk_key_t *key);
void chunk_hash_add(chunk_hash_t *hash, const void *bytes, size_t size);

/* Writes the head of the next chunk, whose bytes are in `hash`. MOB_ENOMEM. */
mob_status_t chunk_head_write(chunk_key_t *key, const bulk_chunk_t *chunk, size_t size,
                              const chunk_hash_t *hash, uint8_t ret_head[CHUNK_HEAD]);
/* What a head says; nothing of it is certain before its chunk was checked. False: no head says
 * that. */
bool chunk_head_read(const uint8_t head[CHUNK_HEAD], bulk_chunk_t *ret_chunk, size_t *ret_size);
/* Whether head and bytes are the next chunk. MOB_EPERM: they are not, and nothing after them can
 * be; MOB_ENOMEM. */
mob_status_t chunk_check(chunk_key_t *key, const uint8_t head[CHUNK_HEAD],
                         const chunk_hash_t *hash);

#endif
