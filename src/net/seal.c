/* ChaCha20-Poly1305 with nothing to encrypt: the bytes are its "additional data". Its nonce is the
 * number of the record, which is never used twice with a key: a key lives as long as a connection,
 * and belongs to one direction. */
#include "net/seal.h"

#include <string.h>

#include "base/bytes.h"
#include "base/status.h"

mob_status_t net_seal_init(net_seal_t *seal, const uint8_t key[NET_KEY]) {
    seal->count = 0;
    mbedtls_chachapoly_init(&seal->context);
    return mbedtls_chachapoly_setkey(&seal->context, key) == 0 ? MOB_OK : MOB_ENOMEM;
}

void net_seal_fini(net_seal_t *seal) {
    mbedtls_chachapoly_free(&seal->context);
    memset(seal, 0, sizeof *seal);
}

static mob_status_t tag_make(net_seal_t *seal, const uint8_t *size_bytes, const void *bytes,
                             size_t size, uint8_t *ret_tag) {
    uint8_t nonce[12] = {0};
    base_writer_t w = {.bytes = nonce};
    base_put_number(&w, seal->count, 8);
    mbedtls_chachapoly_context *c = &seal->context;
    int failed = mbedtls_chachapoly_starts(c, nonce, MBEDTLS_CHACHAPOLY_ENCRYPT);
    if (!failed) failed = mbedtls_chachapoly_update_aad(c, size_bytes, 4);
    if (!failed) failed = mbedtls_chachapoly_update_aad(c, bytes, size);
    if (!failed) failed = mbedtls_chachapoly_finish(c, ret_tag);
    return failed ? MOB_ENOMEM : MOB_OK;
}

mob_status_t net_seal_write(net_seal_t *seal, const void *bytes, size_t size,
                            uint8_t ret_head[NET_RECORD_HEAD]) {
    base_writer_t w = {.bytes = ret_head};
    base_put_number(&w, size, 4);
    mob_status_t status = tag_make(seal, ret_head, bytes, size, ret_head + 4);
    if (status == MOB_OK) seal->count++;
    return status;
}

mob_status_t net_seal_size(const uint8_t head[NET_RECORD_HEAD], size_t *ret_size) {
    base_reader_t r = {.at = head, .left = 4};
    uint64_t size = base_take_number(&r, 4);
    if (size == 0 || size > NET_RECORD_MAX)
        return base_fail(MOB_EPROTO, "the peer sent a record of %llu bytes, and the most is %d",
                         (unsigned long long)size, NET_RECORD_MAX);
    *ret_size = (size_t)size;
    return MOB_OK;
}

mob_status_t net_seal_check(net_seal_t *seal, const uint8_t head[NET_RECORD_HEAD],
                            const void *bytes, size_t size) {
    uint8_t tag[NET_TAG];
    mob_status_t status = tag_make(seal, head, bytes, size, tag);
    if (status != MOB_OK) return status;
    if (!net_secret_is_equal(tag, head + 4, NET_TAG))
        return base_fail(MOB_EPERM, "a record of the peer was changed on its way");
    seal->count++;
    return MOB_OK;
}
