/*
 * A node's connections to all others: a link for each peer, over lines of the node's one port. On
 * the daemon's loop, for its thread; nothing blocks.
 */
#ifndef MESH_MESH_H
#define MESH_MESH_H

#include "net/port.h"

typedef struct mesh mesh_t;

typedef struct mesh_ops {
    /* A message of that peer, borrowed. `sequence` counts its messages from 1. False: there is no
     * memory for it now; it comes again. Once it is dealt with: mesh_processed. */
    bool (*receive)(void *context, uint64_t peer, uint64_t sequence, const void *bytes,
                    size_t size);
    /* There is room for messages to the peer again. */
    void (*room)(void *context, uint64_t peer);
    /* Nothing was heard of the peer for 2.5 s, or it is heard again. */
    void (*silent)(void *context, uint64_t peer, bool silent);
    /* The peer leaves: that was its last message. */
    void (*goodbye)(void *context, uint64_t peer);
    /* A peer says that this node is dead. */
    void (*buried)(void *context, uint64_t by);
    /* How long ago this node sent its last renewal in the control state that was answered. */
    uint64_t (*renewal_age_ms)(void *context);
    /* A node dials that is no peer: it may have joined just now. It is not let in, and dials
     * again. */
    void (*stranger)(void *context, uint64_t incarnation);
    /* A peer's connection for bulk data: the callee takes what is in it. NULL: there are none. */
    void (*bulk)(void *context, net_handover_t *handover);
    /* Somebody could not come in, or could not be reached: mob_last_error has the words. */
    void (*trouble)(void *context, const char *address, mob_status_t status);
    /* What a node is told that knows the token and wants to join: borrowed for the time of the
     * call. */
    const void *(*welcome)(void *context, size_t *ret_size);
} mesh_ops_t;

typedef struct mesh_config {
    const char *address; /* in digits */
    uint16_t port;       /* 0: any */
    const net_secret_t *secret;
    net_credentials_t *credentials; /* NULL: no TLS; borrowed */
    const net_identity_t *self;
    size_t room_bytes; /* of a link: see link_new; the same on all nodes */
} mesh_config_t;

/* The answer of a node that was asked to let this one join; borrowed for the time of the call. Any
 * other status than MOB_OK: there was none, and mob_last_error has the words. */
typedef void (*mesh_welcomed_fn)(void *context, mob_status_t status, const void *welcome,
                                 size_t size);

/* A message to a peer, in two pieces: borrowed for the time of the call. */
typedef struct mesh_letter {
    const void *head, *body;
    size_t head_size, body_size;
    bool is_answer; /* it is taken even if there is no room */
    /* Called with the message's number when nothing but this can keep it from being sent. What it
     * returns that is not MOB_OK is mesh_send's status, and the message is not sent. NULL: none. */
    mob_status_t (*note)(void *context, uint64_t sequence);
    void *context;
} mesh_letter_t;

enum { MESH_WELCOME_MAX = 4096 };

/* MOB_ESYS: it can't listen there. MOB_ENOMEM, MOB_EINVAL. */
mob_status_t mesh_open(uv_loop_t *loop, const mesh_config_t *config, const mesh_ops_t *ops,
                       void *context, mesh_t **ret_mesh);
/* Ends everything, without a word. Its memory goes in a later turn. Not in a callback. */
void mesh_close(mesh_t *mesh);
uint16_t mesh_port(const mesh_t *mesh);
/* Asks the node there to let this one join: `welcomed` follows, once, in a later turn, unless the
 * mesh is closed before. MOB_EINVAL: no address in digits; MOB_ENOMEM. */
mob_status_t mesh_join(mesh_t *mesh, const char *address, uint16_t port, mesh_welcomed_fn welcomed,
                       void *context);
/* The cluster's id is known now: whoever names another one is refused. */
void mesh_cluster_set(mesh_t *mesh, uint64_t cluster);

/* A peer to talk to, and where it listens. MOB_EEXISTS: it is one already, or was. MOB_ENOMEM. */
mob_status_t mesh_peer_add(mesh_t *mesh, uint64_t peer, const char *address, uint16_t port);
/* The peer's tombstone: nothing is heard of it any more, and whoever dials in its name is told. */
void mesh_peer_close(mesh_t *mesh, uint64_t peer);

/* Sends a message: the bytes are copied. MOB_ELIMIT: there is no room, and ops.room follows.
 * MOB_ECLOSED: the peer is dead, or unknown, or this node leaves. MOB_ENOMEM. `ret_sequence`: NULL,
 * or what number it got. */
mob_status_t mesh_send(mesh_t *mesh, uint64_t peer, const mesh_letter_t *letter,
                       uint64_t *ret_sequence);
/* Sends what waits for the end of the turn: for a caller that works before the loop sleeps, after
 * the mesh's own turn. */
void mesh_flush(mesh_t *mesh);
/* Whether a message to the peer that is no answer would be taken. If not, ops.room follows. */
bool mesh_has_room(mesh_t *mesh, uint64_t peer);
/* Whether there is a connection to the peer now. */
bool mesh_is_open(const mesh_t *mesh, uint64_t peer);
/* The node has dealt with a message of this size of that peer. */
void mesh_processed(mesh_t *mesh, uint64_t peer, size_t size);
/* Says goodbye to all. */
void mesh_leave(mesh_t *mesh);
/* Whether that peer, or with 0 every one, has everything that was sent to it. */
bool mesh_is_idle(const mesh_t *mesh, uint64_t peer);

#endif
