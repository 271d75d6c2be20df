/* A line of a port, for the two files of them. What others may do with one is in port.h. */
#ifndef NET_LINE_H
#define NET_LINE_H

#include "net/port.h"
#include "net/seal.h"

/*
 *   DIALLING -> SHAKING -> UP -> ENDED, and from each to ENDED. An accepted one begins SHAKING.
 * Until it is UP it is a stranger, and has a limited time.
 */
typedef enum { LINE_DIALLING, LINE_SHAKING, LINE_UP, LINE_ENDED } line_state_t;

struct net_line {
    uv_tcp_t tcp;
    uv_connect_t connect;
    net_port_t *port;
    net_line_t *previous, *next; /* among the strangers, or among those that are up */
    net_line_t *next_dirty;
    void *user;
    line_state_t state;
    bool is_dialled, is_dirty;
    uint64_t wanted; /* the dialler's: see net_identity_t */
    net_purpose_t purpose;
    uint64_t began_ms;
    net_handshake_t *handshake; /* until it is UP */
    net_tls_t *tls;             /* NULL: without */
    net_seal_t in_seal, out_seal;
    uint8_t *in; /* what has come and is no whole record yet; NULL: nothing */
    size_t in_size;
    uint8_t *out; /* records that are being filled; their heads are written when they go */
    size_t out_size, out_capacity, record_at;
    size_t pending;
    char address[64];
};

typedef struct line_list {
    net_line_t *first, *last;
    size_t count;
} line_list_t;

struct net_port {
    uv_tcp_t listener;
    uv_timer_t limit;   /* runs while there are strangers, or `is_knocked` */
    uv_prepare_t flush; /* runs while there are dirty lines */
    net_secret_t secret;
    net_credentials_t *credentials; /* NULL: lines are without TLS */
    net_identity_t own;
    const net_port_ops_t *ops;
    void *context;
    line_list_t strangers, lines;
    net_line_t *dirty;
    size_t handles; /* that are not closed yet: the port's memory stays until then */
    bool is_closed;
    bool is_knocked; /* somebody has connected for whom there was no memory */
};

/* line.c, for port.c. */
mob_status_t net_line_new(net_port_t *port, bool is_dialled, net_line_t **ret_line);
/* The connection is there: greets, or waits for a greeting. */
mob_status_t net_line_shake(net_line_t *line);
/* Ends the line and tells the port's owner why: the words are base_fail's. */
void net_line_fail(net_line_t *line, mob_status_t status);

/* port.c, for line.c. */
void net_port_dirty_add(net_line_t *line);
void net_port_line_up(net_line_t *line);
void net_port_line_remove(net_line_t *line);
void net_port_handle_closed(net_port_t *port);

#endif
