/* HMAC-SHA256 and HKDF of mbed TLS; random bytes of the kernel. */
#include "net/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <mbedtls/hkdf.h>
#include <mbedtls/md.h>

static const mbedtls_md_info_t *sha256(void) {
    return mbedtls_md_info_from_type(MBEDTLS_MD_SHA256);
}

static mob_status_t derive(const void *from, size_t from_size, const char *label, const void *salt,
                           size_t salt_size, uint8_t *ret_key) {
    int failed = mbedtls_hkdf(sha256(), salt, salt_size, from, from_size,
                              (const unsigned char *)label, strlen(label), ret_key, NET_KEY);
    return failed ? MOB_ENOMEM : MOB_OK;
}

mob_status_t net_secret_of(const void *token, size_t size, net_secret_t *ret_secret) {
    return derive(token, size, "mobula: the secret of a cluster", NULL, 0, ret_secret->key);
}

mob_status_t net_secret_derive(const net_secret_t *secret, const char *label, const void *salt,
                               size_t salt_size, uint8_t ret_key[NET_KEY]) {
    return derive(secret->key, NET_KEY, label, salt, salt_size, ret_key);
}

mob_status_t net_secret_prove(const net_secret_t *secret, const char *label,
                              const net_piece_t *pieces, size_t count,
                              uint8_t ret_proof[NET_PROOF]) {
    mbedtls_md_context_t context;
    mbedtls_md_init(&context);
    int failed = mbedtls_md_setup(&context, sha256(), 1);
    if (!failed) failed = mbedtls_md_hmac_starts(&context, secret->key, NET_KEY);
    /* with its zero: no label is the beginning of another */
    if (!failed)
        failed = mbedtls_md_hmac_update(&context, (const unsigned char *)label, strlen(label) + 1);
    for (size_t i = 0; i < count && !failed; i++)
        failed = mbedtls_md_hmac_update(&context, pieces[i].bytes, pieces[i].size);
    if (!failed) failed = mbedtls_md_hmac_finish(&context, ret_proof);
    mbedtls_md_free(&context);
    return failed ? MOB_ENOMEM : MOB_OK;
}

bool net_secret_is_equal(const void *a, const void *b, size_t size) {
    const volatile uint8_t *x = a, *y = b;
    uint8_t differs = 0;
    for (size_t i = 0; i < size; i++) differs |= x[i] ^ y[i];
    return differs == 0;
}

void net_secret_random(void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = getrandom((char *)bytes + done, size - done, 0);
        if (n < 0 && errno != EINTR) abort(); /* a kernel without randomness: nothing is safe */
        if (n > 0) done += (size_t)n;
    }
}
