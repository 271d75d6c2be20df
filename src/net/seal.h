/*
 * Records: bytes that travel with a tag, by the key that one direction of a connection has. The tag
 * is over the number of the record in that direction, its size and its bytes. For one thread; one
 * for each direction.
 */
#ifndef NET_SEAL_H
#define NET_SEAL_H

#include <mbedtls/chachapoly.h>

#include "net/secret.h"

enum { NET_TAG = 16, NET_RECORD_HEAD = 4 + NET_TAG, NET_RECORD_MAX = 64 * 1024 };

typedef struct net_seal {
    mbedtls_chachapoly_context context;
    uint64_t count; /* of records so far */
} net_seal_t;

mob_status_t net_seal_init(net_seal_t *seal, const uint8_t key[NET_KEY]);
/* Takes one that was never initialised too, if it is all zero. */
void net_seal_fini(net_seal_t *seal);

/* Writes the head of the next record, of these bytes: at least 1, at most NET_RECORD_MAX. */
mob_status_t net_seal_write(net_seal_t *seal, const void *bytes, size_t size,
                            uint8_t ret_head[NET_RECORD_HEAD]);
/* The size that a head says. MOB_EPROTO: there is no such record. */
mob_status_t net_seal_size(const uint8_t head[NET_RECORD_HEAD], size_t *ret_size);
/* Whether these are the next record. MOB_EPERM: they are not, and nothing after them can be. */
mob_status_t net_seal_check(net_seal_t *seal, const uint8_t head[NET_RECORD_HEAD],
                            const void *bytes, size_t size);

#endif
