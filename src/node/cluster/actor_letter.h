/* Messages of the room actor, with what goes along. actor_letter.c has their layout. */
#ifndef NODE_CLUSTER_ACTOR_LETTER_H
#define NODE_CLUSTER_ACTOR_LETTER_H

#include "mobula.h"
#include "node/types.h"

/* actor_ops_t's `send`. */
void node_actor_letter_send(void *context, uint64_t to, const void *head, size_t head_size,
                            const void *body, size_t body_size, bool is_answer);
/* A message of `from`, which may be this node. `may_wait`: one about an actor of which this node
 * has yet to read comes again (node_acting_wait). MOB_EPROTO, MOB_ENOMEM. */
mob_status_t node_actor_letter_come(node_cluster_t *cluster, uint64_t from, const void *bytes,
                                    size_t size, bool may_wait);

#endif
