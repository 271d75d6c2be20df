/*
 * Packages: files with the folders of runtime environments (python/ray/_private/packages.py). They
 * lie in the folder of the session where the environment was made, and are brought from there when
 * workers of another node need them. package.c has the rules.
 */
#ifndef NODE_CLUSTER_PACKAGE_H
#define NODE_CLUSTER_PACKAGE_H

#include "base/bytes.h"
#include "node/types.h"

typedef struct node_package node_package_t;

typedef struct {
    VEC(node_package_t *) coming;
    uint32_t readings; /* pieces that are being read for other nodes */
} node_packages_t;

/* A zygote that gets ready for the setup lacks that file: it is told when that lies in this
 * session's folder, or why it can't (WIRE_BROUGHT). `name` may be anything. */
void node_package_want(node_setup_t *setup, const char *name);

/* Messages of POST_JOB, without their kind. MOB_EPROTO, MOB_ENOMEM as node_guestjob_receive. */
mob_status_t node_package_asked(node_cluster_t *cluster, uint64_t peer, base_reader_t *reader);
mob_status_t node_package_came(node_cluster_t *cluster, uint64_t peer, base_reader_t *reader);
/* The peer is dead: nothing comes from it any more. */
void node_packages_died(node_cluster_t *cluster, uint64_t peer);

#endif
