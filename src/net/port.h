/*
 * A node's one port: lines to other nodes that know the cluster's token (README.md). On the
 * daemon's loop, for its thread; nothing blocks. A callback may call everything here but
 * net_port_close. The process must ignore SIGPIPE.
 */
#ifndef NET_PORT_H
#define NET_PORT_H

#include <uv.h>

#include "net/handshake.h"
#include "net/tls.h"

typedef struct net_port net_port_t;
typedef struct net_line net_line_t;

enum { NET_STRANGERS_MAX = 256, NET_STRANGER_MS = 5000 };

/* A connection that somebody has dialled for bulk data, when both sides have proved who they are:
 * out of the port's hands. */
typedef struct net_handover {
    int fd; /* non-blocking */
    net_identity_t peer;
    uint8_t keys[2][NET_KEY]; /* of what the dialler says, of what the acceptor says */
    net_tls_t *tls;           /* NULL: without */
    char address[64];
} net_handover_t;

/* Closes the connection, and forgets its keys. */
void net_handover_fini(net_handover_t *handover);

typedef struct net_port_ops {
    /* A node that knows the token and fits in cluster and version has dialled: may it stay? */
    net_verdict_t (*admit)(void *context, const net_identity_t *peer);
    /* The line is there. */
    void (*up)(void *context, net_line_t *line, const net_identity_t *peer);
    /* Bytes of the peer, in order; borrowed for the time of the call. */
    void (*bytes)(void *context, net_line_t *line, const uint8_t *bytes, size_t size);
    /* The line has ended, or one that was dialled never came up; not told of one that the caller
     * has ended. mob_last_error has the words. The line is gone after the call. */
    void (*down)(void *context, net_line_t *line, mob_status_t status);
    /* Everything that was written has gone to the kernel. May be NULL. */
    void (*drained)(void *context, net_line_t *line);
    /* A node has dialled for bulk data (NET_BULK), and was admitted. The callee takes what is in
     * it. NULL: all such are sent away. */
    void (*bulk)(void *context, net_handover_t *handover);
    /* Somebody who dialled was sent away, with the words of mob_last_error. */
    void (*refused)(void *context, const char *address, mob_status_t status);
} net_port_ops_t;

/* Listens there: an address in digits; port 0: any that is free. MOB_ESYS, MOB_EINVAL, MOB_ENOMEM.
 * `own` is copied, and said to every peer, with the port that it has now. `credentials` is
 * borrowed; with them all lines are TLS, and without them, NULL, none is. */
mob_status_t net_port_open(uv_loop_t *loop, const char *address, uint16_t port,
                           const net_secret_t *secret, net_credentials_t *credentials,
                           const net_identity_t *own, const net_port_ops_t *ops, void *context,
                           net_port_t **ret_port);
uint16_t net_port_number(const net_port_t *port);
/* The cluster's id is known now. */
void net_port_cluster_set(net_port_t *port, uint64_t cluster);
/* Ends all lines, without a word to `down`. Its memory goes in a later turn of the loop. */
void net_port_close(net_port_t *port);

/* Begins a line to a node: up or down follows, in a later turn. */
mob_status_t net_port_dial(net_port_t *port, const char *address, uint16_t number, uint64_t wanted,
                           net_purpose_t purpose, void *user, net_line_t **ret_line);

void *net_line_user(const net_line_t *line);
void net_line_user_set(net_line_t *line, void *user);
bool net_line_is_dialled(const net_line_t *line);
/* Sends the bytes, of which it keeps a copy: at this turn's end, with all that was written in it.
 * The line must be up. MOB_ENOMEM: nothing of them will go, and the line should be ended. */
mob_status_t net_line_write(net_line_t *line, const void *bytes, size_t size);
/* Sends what was written now, not at this turn's end. It may end the line. */
void net_line_flush(net_line_t *line);
/* What was written and has not gone to the kernel yet. */
size_t net_line_pending(const net_line_t *line);
/* Ends it at once. What was written in earlier turns may have gone, or not. */
void net_line_end(net_line_t *line);

#endif
