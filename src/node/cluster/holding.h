/*
 * The room refs in the daemon's books: which nodes hold own objects, and what the homes of proxies
 * are told. holding.c has the design.
 */
#ifndef NODE_CLUSTER_HOLDING_H
#define NODE_CLUSTER_HOLDING_H

#include "frame/frame.h"
#include "node/types.h"
#include "refs/refs.h"

typedef struct {
    refs_t *refs;
    uint64_t unheard, unheard_ns; /* a home that messages wait for, and since when */
    /* The HOLDs of this frame of the peer's are answered (refs_ops_t's `kept`); NULL: nobody wants
     * to know. */
    void (*kept)(node_cluster_t *cluster, uint64_t peer, uint64_t sequence);
} node_holding_t;

/* ---- for cluster.c, membership.c and post.c ---- */

/* The node is a member, registered with this number: proxies, references and watches begin.
 * MOB_ENOMEM. */
mob_status_t node_holding_start(node_cluster_t *cluster, uint64_t number);
/* The node takes part no more. Everything of another node is lost to it. */
void node_holding_end(node_cluster_t *cluster);
/* The end of a round: says what has come of it, then what is asked and answered about values. */
void node_holding_settle(node_cluster_t *cluster);
/* What to answer a message that names objects while there is no room refs: it has to come again if
 * this node is yet to be a member (MOB_ENOMEM), and is thrown away else (MOB_ECLOSED). MOB_OK:
 * there is one. */
mob_status_t node_holding_check(const node_cluster_t *cluster);
/* A message of POST_REFS. MOB_EPROTO, MOB_ECLOSED: it is thrown away; MOB_ENOMEM: it has to come
 * again. */
mob_status_t node_holding_receive(node_cluster_t *cluster, uint64_t peer, const void *bytes,
                                  size_t size);
/* The peer's tombstone, after everything that came of it. */
void node_holding_died(node_cluster_t *cluster, uint64_t peer, uint64_t number);
/* All tombstones up to this number are closed everywhere. */
void node_holding_struck(node_cluster_t *cluster, uint64_t number);

/* ---- references in frames ---- */

/* A message with these ids is about to be enqueued for the peer, with this number; see
 * refs_frame_send, and refs_list_send for the `container` (NULL: none). MOB_ENOMEM, MOB_ECLOSED,
 * MOB_EINVAL: it must not be. */
mob_status_t node_holding_frame_sends(node_cluster_t *cluster, uint64_t peer, uint64_t sequence,
                                      const frame_id_t *ids, size_t count,
                                      const frame_id_t *container);
/* A message with these ids came: to be called before anything else of it is looked at, within its
 * receipt, also if it is refused. MOB_ENOMEM: it has to come again, and nothing was done; also if
 * it names a home of which this node has yet to hear. MOB_EPROTO, MOB_ECLOSED: it is thrown
 * away. */
mob_status_t node_holding_frame_came(node_cluster_t *cluster, uint64_t peer, const frame_id_t *ids,
                                     size_t count);
/* The same for the references inside the value of `container`, which its home has sent. ret_waits:
 * `kept` follows, with node_post_sequence of now. */
mob_status_t node_holding_list_came(node_cluster_t *cluster, uint64_t peer, frame_id_t container,
                                    const frame_id_t *ids, size_t count, bool *ret_waits);

/* ---- for object.c and proxy.c ---- */

/* A proxy was made, or is used again. */
void node_holding_held(node_t *node, frame_id_t id);
/* It is freed. */
void node_holding_dropped(node_t *node, frame_id_t id);
/* Whether nothing holds the object but other nodes. */
bool node_holding_is_abroad(const node_t *node, const node_object_t *object);
/* Nothing on this node holds this own object, which others may, and all rings were read. It is put
 * at zero when no other node does, now or later. */
void node_holding_unheld(node_t *node, node_object_t *object);
/* An own object was named by another node: it is held again if this node had let go of it. */
void node_holding_named(node_t *node, mob_ref_t ref);
/* Nothing here holds the proxy but processes that keep it loaded. True: its home will say when they
 * need not. */
bool node_holding_cached(node_t *node, node_object_t *object);

#endif
