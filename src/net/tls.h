/*
 * TLS around a line: what is to be sent goes in as it is and comes out sealed, and the other way
 * round. Both sides show a certificate of the cluster's own authority. No I/O; for one thread.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

typedef struct net_credentials net_credentials_t; /* of a node; for all its lines */
typedef struct net_tls net_tls_t;                 /* of one line */

/* Files in PEM: this node's certificate and key, and the authority that all nodes' certificates are
 * from. MOB_EINVAL names the one that can't be read; MOB_ENOMEM. */
mob_status_t net_credentials_new(const char *certificate, const char *key, const char *authority,
                                 net_credentials_t **ret_credentials);
/* Not before all lines that have it are gone. NULL is fine. */
void net_credentials_free(net_credentials_t *credentials);

mob_status_t net_tls_new(net_credentials_t *credentials, bool is_dialler, net_tls_t **ret_tls);
void net_tls_free(net_tls_t *tls); /* NULL is fine */

/* Bytes of the peer, as they came. MOB_EPERM: it has no certificate of ours. MOB_EPROTO: it does
 * not speak TLS, or not rightly. MOB_ENOMEM. */
mob_status_t net_tls_received(net_tls_t *tls, const void *bytes, size_t size);
/* What the peer has said, up to `size` bytes; 0: nothing more yet. MOB_EPROTO, MOB_ECLOSED: it has
 * said that it ends. */
mob_status_t net_tls_read(net_tls_t *tls, void *bytes, size_t size, size_t *ret_size);
/* Something to say to the peer, which keeps a copy until both have shown their certificates. */
mob_status_t net_tls_write(net_tls_t *tls, const void *bytes, size_t size);
/* What is to be sent: the caller frees it. NULL: nothing. */
uint8_t *net_tls_out(net_tls_t *tls, size_t *ret_size);

#endif
