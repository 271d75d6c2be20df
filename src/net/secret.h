/*
 * What a cluster's token comes to: a key, from which proofs and the keys of each connection are
 * made. Any thread.
 */
#ifndef NET_SECRET_H
#define NET_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

enum { NET_KEY = 32, NET_PROOF = 32, NET_NONCE = 32 };

typedef struct net_secret {
    uint8_t key[NET_KEY];
} net_secret_t;

/* Bytes that a proof is about, one piece after the other. */
typedef struct net_piece {
    const void *bytes;
    size_t size;
} net_piece_t;

/* MOB_ENOMEM is the only failure of these. */
mob_status_t net_secret_of(const void *token, size_t size, net_secret_t *ret_secret);
/* A proof by whoever knows the secret, of the pieces, under a label. */
mob_status_t net_secret_prove(const net_secret_t *secret, const char *label,
                              const net_piece_t *pieces, size_t count,
                              uint8_t ret_proof[NET_PROOF]);
/* A key of its own for one purpose, from the secret and what both sides of a connection said. */
mob_status_t net_secret_derive(const net_secret_t *secret, const char *label, const void *salt,
                               size_t salt_size, uint8_t ret_key[NET_KEY]);
/* Takes as long for bytes that differ in the first place as in the last. */
bool net_secret_is_equal(const void *a, const void *b, size_t size);
/* Bytes that nobody can guess. */
void net_secret_random(void *bytes, size_t size);

#endif
