/*
 * The bytes are hashed with XXH3 (128 bits) by a secret of the connection, at the speed of memory.
 * That hash is no proof by itself: who sees hashes may learn the secret. So it is not sent. What is
 * sent is an HMAC-SHA256 of it, of the head, and of the chunk's number on this connection, which
 * costs 2 us a chunk. So a chunk that was changed, left out, repeated or moved does not fit.
 *
 * Rejected: ChaCha20-Poly1305 over all bytes, as frames have it (0.9 GB/s here, and XXH3 10).
 */
#define XXH_INLINE_ALL
#include "bulk/chunk.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/status.h"
#include "frame/id.h"

struct chunk_hash {
    XXH3_state_t state; /* has to be aligned */
};

static const char *const HASH = "mobula: bytes of a chunk", *const TAG = "mobula: a chunk";

mob_status_t chunk_key_init(chunk_key_t *key, const uint8_t handshake_key[NET_KEY]) {
    uint8_t seed[NET_KEY];
    net_secret_t secret;
    memcpy(secret.key, handshake_key, NET_KEY);
    *key = (chunk_key_t){.count = 0};
    mob_status_t status = net_secret_derive(&secret, TAG, NULL, 0, key->tag.key);
    if (status == MOB_OK) status = net_secret_derive(&secret, HASH, NULL, 0, seed);
    if (status == MOB_OK && XXH3_generateSecret(key->hash, CHUNK_SECRET, seed, NET_KEY) != XXH_OK)
        status = MOB_ENOMEM;
    explicit_bzero(&secret, sizeof secret);
    explicit_bzero(seed, sizeof seed);
    return status;
}

chunk_hash_t *chunk_hash_new(void) { return (chunk_hash_t *)XXH3_createState(); }
void chunk_hash_free(chunk_hash_t *hash) { XXH3_freeState((XXH3_state_t *)hash); }

void chunk_hash_begin(chunk_hash_t *hash, const chunk_key_t *key) {
    XXH3_128bits_reset_withSecret(&hash->state, key->hash, CHUNK_SECRET);
}

void chunk_hash_add(chunk_hash_t *hash, const void *bytes, size_t size) {
    XXH3_128bits_update(&hash->state, bytes, size);
}

/* Of the next chunk, whichever that is. */
static mob_status_t tag_make(chunk_key_t *key, const uint8_t *said, const chunk_hash_t *hash,
                             uint8_t *ret_tag) {
    uint8_t number[8];
    base_writer_t w = {.bytes = number};
    base_put_number(&w, key->count++, 8);
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(&hash->state));
    net_piece_t pieces[] = {{number, sizeof number}, {said, CHUNK_SAID}, {sum.digest, CHUNK_HASH}};
    return net_secret_prove(&key->tag, TAG, pieces, 3, ret_tag);
}

mob_status_t chunk_head_write(chunk_key_t *key, const bulk_chunk_t *chunk, size_t size,
                              const chunk_hash_t *hash, uint8_t ret_head[CHUNK_HEAD]) {
    base_writer_t w = {.bytes = ret_head};
    base_put_number(&w, size, 4);
    base_put_number(&w, chunk->chunk, 4);
    base_put_number(&w, chunk->version, 4);
    base_put_number(&w, chunk->ticket, 8);
    frame_id_put(&w, chunk->id);
    base_put_number(&w, chunk->about[0], 8);
    base_put_number(&w, chunk->about[1], 8);
    return tag_make(key, ret_head, hash, ret_head + CHUNK_SAID);
}

bool chunk_head_read(const uint8_t head[CHUNK_HEAD], bulk_chunk_t *ret_chunk, size_t *ret_size) {
    base_reader_t r = {.at = head, .left = CHUNK_SAID};
    *ret_size = (size_t)base_take_number(&r, 4);
    *ret_chunk = (bulk_chunk_t){.chunk = (uint32_t)base_take_number(&r, 4)};
    ret_chunk->version = (uint32_t)base_take_number(&r, 4);
    ret_chunk->ticket = base_take_number(&r, 8);
    ret_chunk->id = frame_id_take(&r);
    ret_chunk->about[0] = base_take_number(&r, 8);
    ret_chunk->about[1] = base_take_number(&r, 8);
    return *ret_size <= BULK_CHUNK;
}

mob_status_t chunk_check(chunk_key_t *key, const uint8_t head[CHUNK_HEAD],
                         const chunk_hash_t *hash) {
    uint8_t tag[NET_PROOF];
    mob_status_t status = tag_make(key, head, hash, tag);
    if (status != MOB_OK) return status;
    if (net_secret_is_equal(tag, head + CHUNK_SAID, NET_PROOF)) return MOB_OK;
    return base_fail(MOB_EPERM, "a chunk of the peer was changed on its way");
}
