/*
 * What a node that joins is told by the one that it asks: lines of text, the first of which says
 * that they are such.
 *
 *     mobula cluster 1
 *     id <32 hex digits>
 *     redis HOST:PORT            or    sentinels NAME@HOST:PORT,...
 *
 * or, from a node that nobody can join,
 *
 *     mobula cluster 1
 *     refused <why, and what to do>
 *
 * The password of Redis is never among them: both sides have it from the token, or from their
 * users.
 */
#ifndef NODE_CLUSTER_JOIN_H
#define NODE_CLUSTER_JOIN_H

#include "node/types.h"
#include "redis/keeper.h"

/* 32 hex digits. MOB_EINVAL, with words. */
mob_status_t node_join_id_read(const char *text, uint64_t ret_id[2]);
/* IP:PORT. MOB_EINVAL, with words that name `what`. */
mob_status_t node_join_address_read(const char *what, const char *text, char *ret_host,
                                    size_t capacity, uint16_t *ret_port);
/* What this node tells those that join. */
void node_join_welcome_write(node_cluster_t *cluster);
/* Asks the node that the configuration names. node_cluster_go_on follows, or node_cluster_fail.
 * MOB_EINVAL, MOB_ENOMEM. */
mob_status_t node_join_ask(node_cluster_t *cluster);

#endif
