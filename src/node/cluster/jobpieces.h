/* Setups and environments in pieces, on their way to a peer, and from one: one at a time of each
 * peer. */
#ifndef NODE_CLUSTER_JOBPIECES_H
#define NODE_CLUSTER_JOBPIECES_H

#include "node/cluster/jobpost.h"

/* What a peer sends in pieces. */
typedef struct {
    bool is_environment;
    node_jobpiece_t about; /* the first piece, without its bytes */
    size_t size, last;     /* of what has come, and of the newest piece in it */
    uint8_t bytes[];
} node_jobpart_t;

/* Sends all of what begins at `whole.bytes` and has `whole.total` bytes, whatever room the link
 * has. MOB_ENOMEM, MOB_ECLOSED: the peer may have a part of it; it can be sent again. */
mob_status_t node_jobpieces_send(node_cluster_t *cluster, uint64_t peer, bool is_environment,
                                 const node_jobpiece_t *whole);
/* The piece of a message without its kind. `ret_part`: what it is a part of, which is
 * whole if it has about.total bytes. MOB_EPROTO; MOB_ENOMEM:
 * it is to come again. */
mob_status_t node_jobpieces_take(node_cluster_t *cluster, uint64_t peer, bool is_environment,
                                 base_reader_t *reader, node_jobpart_t **ret_part);
/* What the peer has begun to send is not needed any more, if it has. */
void node_jobpieces_drop(node_cluster_t *cluster, uint64_t peer);

#endif
