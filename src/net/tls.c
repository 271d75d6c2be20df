/*
 * mbed TLS, which reads from one buffer and writes to another. What is written before the handshake
 * is over waits in a third: mbed TLS would have the same bytes given again.
 *
 * A node is known by the authority of its certificate, not by a name in it: nodes come and go with
 * their addresses, and whoever is not of the cluster has no certificate of that authority.
 */
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mbedtls/error.h>
#include <mbedtls/ssl.h>

#include "base/status.h"
#include "base/vec.h"
#include "net/secret.h"

typedef VEC(uint8_t) bytes_t;

struct net_credentials {
    mbedtls_x509_crt own, authority;
    mbedtls_pk_context key;
    mbedtls_ssl_config configs[2]; /* of one who accepts, of one who dials */
};

struct net_tls {
    mbedtls_ssl_context ssl;
    bytes_t in, out, early;
    size_t in_at; /* up to where `in` was read */
    bool is_short;
};

/* ---- credentials ---- */

static int random_fill(void *context, unsigned char *bytes, size_t size) {
    (void)context;
    net_secret_random(bytes, size);
    return 0;
}

static mob_status_t file_fail(const char *what, const char *path, int error) {
    char words[128];
    mbedtls_strerror(error, words, sizeof words);
    return base_fail(MOB_EINVAL, "the %s %s can't be used: %s", what, path, words);
}

static mob_status_t files_read(net_credentials_t *c, const char *certificate, const char *key,
                               const char *authority) {
    int error = mbedtls_x509_crt_parse_file(&c->own, certificate);
    if (error != 0) return file_fail("certificate", certificate, error);
    error = mbedtls_pk_parse_keyfile(&c->key, key, NULL);
    if (error != 0) return file_fail("key", key, error);
    error = mbedtls_x509_crt_parse_file(&c->authority, authority);
    if (error != 0) return file_fail("authority's certificate", authority, error);
    error = mbedtls_pk_check_pair(&c->own.pk, &c->key);
    return error == 0 ? MOB_OK : file_fail("key", key, error);
}

static mob_status_t config_set(net_credentials_t *c, int end) {
    mbedtls_ssl_config *config = &c->configs[end];
    int error = mbedtls_ssl_config_defaults(config, end, MBEDTLS_SSL_TRANSPORT_STREAM,
                                            MBEDTLS_SSL_PRESET_DEFAULT);
    if (error != 0) return MOB_ENOMEM;
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(config, &c->authority, NULL);
    mbedtls_ssl_conf_rng(config, random_fill, NULL);
    return mbedtls_ssl_conf_own_cert(config, &c->own, &c->key) == 0 ? MOB_OK : MOB_ENOMEM;
}

mob_status_t net_credentials_new(const char *certificate, const char *key, const char *authority,
                                 net_credentials_t **ret_credentials) {
    net_credentials_t *c = calloc(1, sizeof *c);
    if (c == NULL) return MOB_ENOMEM;
    mbedtls_x509_crt_init(&c->own);
    mbedtls_x509_crt_init(&c->authority);
    mbedtls_pk_init(&c->key);
    for (int end = 0; end < 2; end++) mbedtls_ssl_config_init(&c->configs[end]);
    mob_status_t status = files_read(c, certificate, key, authority);
    if (status == MOB_OK) status = config_set(c, MBEDTLS_SSL_IS_CLIENT);
    if (status == MOB_OK) status = config_set(c, MBEDTLS_SSL_IS_SERVER);
    if (status != MOB_OK) {
        net_credentials_free(c);
        return status;
    }
    *ret_credentials = c;
    return MOB_OK;
}

void net_credentials_free(net_credentials_t *c) {
    if (c == NULL) return;
    for (int end = 0; end < 2; end++) mbedtls_ssl_config_free(&c->configs[end]);
    mbedtls_pk_free(&c->key);
    mbedtls_x509_crt_free(&c->own);
    mbedtls_x509_crt_free(&c->authority);
    free(c);
}

/* ---- buffers ---- */

static bool bytes_add(bytes_t *bytes, const void *more, size_t size) {
    if (!vec_reserve(bytes, size)) return false;
    if (size > 0) memcpy(bytes->items + bytes->count, more, size);
    bytes->count += size;
    return true;
}

static int bytes_send(void *context, const unsigned char *bytes, size_t size) {
    net_tls_t *tls = context;
    if (bytes_add(&tls->out, bytes, size)) return (int)size;
    tls->is_short = true;
    return MBEDTLS_ERR_SSL_ALLOC_FAILED;
}

static int bytes_take(void *context, unsigned char *bytes, size_t size) {
    net_tls_t *tls = context;
    size_t left = tls->in.count - tls->in_at;
    if (left == 0) return MBEDTLS_ERR_SSL_WANT_READ;
    if (size > left) size = left;
    memcpy(bytes, tls->in.items + tls->in_at, size);
    tls->in_at += size;
    if (tls->in_at == tls->in.count) {
        tls->in_at = 0;
        vec_free(&tls->in);
    }
    return (int)size;
}

/* ---- a line's ---- */

mob_status_t net_tls_new(net_credentials_t *credentials, bool is_dialler, net_tls_t **ret_tls) {
    net_tls_t *tls = calloc(1, sizeof *tls);
    if (tls == NULL) return MOB_ENOMEM;
    int end = is_dialler ? MBEDTLS_SSL_IS_CLIENT : MBEDTLS_SSL_IS_SERVER;
    mbedtls_ssl_init(&tls->ssl);
    if (mbedtls_ssl_setup(&tls->ssl, &credentials->configs[end]) != 0) {
        net_tls_free(tls);
        return MOB_ENOMEM;
    }
    mbedtls_ssl_set_bio(&tls->ssl, tls, bytes_send, bytes_take, NULL);
    *ret_tls = tls;
    return MOB_OK;
}

void net_tls_free(net_tls_t *tls) {
    if (tls == NULL) return;
    mbedtls_ssl_free(&tls->ssl);
    vec_free(&tls->in);
    vec_free(&tls->out);
    vec_free(&tls->early);
    free(tls);
}

static bool waits(int result) {
    return result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE;
}

static mob_status_t fail(const net_tls_t *tls, int error) {
    if (tls->is_short || error == MBEDTLS_ERR_SSL_ALLOC_FAILED) return MOB_ENOMEM;
    if (error == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || error == 0)
        return base_fail(MOB_ECLOSED, "the other node has ended the connection");
    bool is_certificate = error == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED ||
                          error == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE ||
                          error == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE;
    if (is_certificate)
        return base_fail(MOB_EPERM,
                         "one of the two nodes does not take the other's certificate: all of "
                         "them must be of the authority that --tls-ca names");
    char words[128];
    mbedtls_strerror(error, words, sizeof words);
    return base_fail(MOB_EPROTO,
                     "the other side does not speak TLS as nodes of this cluster do: %s", words);
}

static bool is_ready(const net_tls_t *tls) { return tls->ssl.state == MBEDTLS_SSL_HANDSHAKE_OVER; }

static mob_status_t write_now(net_tls_t *tls, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        int n = mbedtls_ssl_write(&tls->ssl, bytes, size);
        if (n <= 0) return fail(tls, n);
        bytes += n;
        size -= (size_t)n;
    }
    return MOB_OK;
}

static mob_status_t shake(net_tls_t *tls) {
    int error = mbedtls_ssl_handshake(&tls->ssl);
    if (waits(error)) return MOB_OK;
    if (error != 0) return fail(tls, error);
    mob_status_t status = write_now(tls, tls->early.items, tls->early.count);
    vec_free(&tls->early);
    return status;
}

mob_status_t net_tls_received(net_tls_t *tls, const void *bytes, size_t size) {
    if (!bytes_add(&tls->in, bytes, size)) return MOB_ENOMEM;
    return is_ready(tls) ? MOB_OK : shake(tls);
}

mob_status_t net_tls_read(net_tls_t *tls, void *bytes, size_t size, size_t *ret_size) {
    *ret_size = 0;
    if (!is_ready(tls) || size == 0) return MOB_OK;
    int n = mbedtls_ssl_read(&tls->ssl, bytes, size);
    if (waits(n)) return MOB_OK;
    if (n <= 0) return fail(tls, n);
    *ret_size = (size_t)n;
    return MOB_OK;
}

mob_status_t net_tls_write(net_tls_t *tls, const void *bytes, size_t size) {
    if (is_ready(tls)) return write_now(tls, bytes, size);
    if (!bytes_add(&tls->early, bytes, size)) return MOB_ENOMEM;
    return shake(tls);
}

uint8_t *net_tls_out(net_tls_t *tls, size_t *ret_size) {
    uint8_t *bytes = tls->out.items;
    *ret_size = tls->out.count;
    tls->out.items = NULL;
    tls->out.count = tls->out.capacity = 0;
    if (*ret_size > 0) return bytes;
    free(bytes);
    return NULL;
}
