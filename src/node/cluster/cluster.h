/*
 * This node's part in a cluster: its port, its connection to the control state, its membership.
 * README.md has the map of this folder.
 *
 * NULL in node_t: the node is alone, as sessions that ray.init starts always are. Everything else
 * of the folder is called with a cluster that is there.
 *
 *     OPENING    the port listens; one that joins asks a node for the cluster's id and its Redis
 *     JOINING    the control state is asked to register this incarnation
 *     MEMBER     registered; all members and tombstones are known
 *     LEAVING    asked for its own tombstone, with its workers ended
 *     OVER       nothing is asked or answered any more
 */
#ifndef NODE_CLUSTER_CLUSTER_H
#define NODE_CLUSTER_CLUSTER_H

#include "member/member.h"
#include "mesh/mesh.h"
#include "node/cluster/holding.h"
#include "node/cluster/proxy.h"
#include "node/cluster/roster.h"
#include "node/cluster/value.h"
#include "node/types.h"
#include "redis/keeper.h"

typedef enum {
    CLUSTER_OPENING,
    CLUSTER_JOINING,
    CLUSTER_MEMBER,
    CLUSTER_LEAVING,
    CLUSTER_OVER,
} node_cluster_state_t;

/* How the daemon was told to take part. */
typedef struct {
    const char *address;   /* IP:PORT of its own port; PORT 0: any */
    const char *join;      /* HOST:PORT of a node to ask; NULL: it founds the cluster */
    const char *redis;     /* HOST:PORT; NULL with `join`, `sentinels`, or without any Redis */
    const char *sentinels; /* NAME@HOST:PORT,... */
    const char *founded;   /* 32 hex digits: the id of the cluster that it founds or finds again */
    const char *name;      /* of the node; NULL: its address */
    const char *certificate, *key, *authority; /* files; all or none */
} node_cluster_config_t;

struct node_cluster {
    node_t *node;
    node_cluster_state_t state;
    char host[64]; /* of its own address */
    uint64_t id[2];
    net_secret_t secret;
    net_credentials_t *credentials;
    mesh_t *mesh;
    redis_keeper_t *keeper;
    redis_settings_t settings;
    char *welcome; /* what joiners are told: see join.c */
    member_t *member;
    uint64_t number; /* of its registration */
    node_roster_t roster;
    node_proxies_t proxies;
    node_holding_t holding;
    node_watches_t watches;
    char trouble[512]; /* the newest reason why it gets nowhere */
    uv_timer_t tick, pulse, limit;
    uint64_t leave_ns; /* when it began to leave */
};

/* Takes part as the configuration says; `ret_address` is where it listens then. The starter is
 * answered later: by node_starter_ready or node_starter_fail (greeting.h). MOB_ESYS and others,
 * with words. */
mob_status_t node_cluster_start(node_t *node, char *ret_address, size_t capacity);
/* Once a round: sends what came of it. */
void node_cluster_settle(node_t *node);
/* Whether the node may tell its starter that it is ready. */
bool node_cluster_is_ready(const node_t *node);
/* All jobs have ended: leaves the cluster, then ends the daemon. */
void node_cluster_leave(node_t *node);

/* ---- for the other files of this folder ---- */

/* CLOCK_BOOTTIME, which membership counts by. */
uint64_t node_cluster_now_ns(void);
/* Whether that incarnation is a member, not known to be dead. */
bool node_cluster_knows(const node_cluster_t *cluster, uint64_t peer);
/* Asks the control state; see redis_keeper_ask. The reply is not called if there is no keeper any
 * more. MOB_ENOMEM, MOB_ECLOSED. */
mob_status_t node_cluster_ask(node_cluster_t *cluster, script_fn script, const void *arguments,
                              size_t size, redis_reply_fn reply, void *context);

#endif
