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
#include "node/cluster/acting.h"
#include "node/cluster/grouping.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/holding.h"
#include "node/cluster/outflow.h"
#include "node/cluster/package.h"
#include "node/cluster/pause.h"
#include "node/cluster/placing.h"
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
    const char *buries;    /* CLUSTER:INCARNATION,...: nodes of this machine that are dead for
                              certain, for the lock of their folders was free; NULL: none */
    const char *name;      /* of the node; NULL: its address */
    const char *python;    /* MAJOR.MINOR of its workers; NULL: they have none */
    const char *certificate, *key, *authority; /* files; all or none */
    uint64_t patience_ms, newcomer_ms; /* as member_config_t's; of one that joins: as the node says
                                          that it asks */
} node_cluster_config_t;

struct node_cluster {
    node_t *node;
    node_cluster_state_t state;
    char host[64]; /* of its own address */
    uint64_t id[2];
    bool founds;
    bool is_alone;   /* it has no Redis, and nobody can join */
    uint64_t number; /* of its registration */
    net_secret_t secret;
    net_credentials_t *credentials;
    mesh_t *mesh;
    uint64_t sequence; /* of the message that is being received; 0: none */
    redis_settings_t settings;
    redis_keeper_t *keeper;
    bool has_redis;     /* it answers, as far as is known */
    char welcome[1024]; /* what joiners are told, see join.h */
    member_t *member;
    uint64_t master;    /* of the control state, as the room member names it */
    uint64_t member_ns; /* since when it is registered */
    bool has_begun;     /* its starter was told */
    bool is_put_out;    /* it is over, and had not left */
    node_roster_t roster;
    node_guestjobs_t guestjobs;
    node_proxies_t proxies;
    node_holding_t holding;
    node_placing_t placing;
    node_watches_t watches;
    node_acting_t acting;
    node_grouping_t grouping;
    node_inflow_t *inflows; /* of this node's tasks; inflow.h */
    node_outflows_t outflows;
    struct node_pulling *pulling; /* NULL: not yet, or not any more */
    node_packages_t packages;
    node_pause_t pause;
    int log_fd; /* cluster.log in the session's folder; -1: none */
    size_t log_bytes;
    char trouble[512];      /* the newest line of it */
    uv_timer_t tick, pulse; /* membership's */
    uv_timer_t limit;       /* of joining, then of leaving */
};

/* Opens the port, and takes part as the configuration says. What comes of it the starter is told
 * later: node_starter_ready or node_starter_fail (greeting.h). MOB_ESYS and others, with words. */
mob_status_t node_cluster_start(node_t *node);
/* Once a round: what others are to know, and what follows for the books. */
void node_cluster_settle(node_cluster_t *cluster);
/* Whether the starter may be told that the node is ready. */
bool node_cluster_is_ready(const node_t *node);
/* Whether the daemon ends because its cluster goes on without it. */
bool node_cluster_is_put_out(const node_t *node);
/* All jobs have ended: leaves the cluster, if there is one, and then ends the daemon. */
void node_cluster_leave(node_t *node);

/* ---- for the other files of this folder ---- */

/* CLOCK_BOOTTIME, which membership counts by. */
uint64_t node_cluster_now_ns(void);
/* Asks the control state; see redis_keeper_ask. MOB_ENOMEM, MOB_ECLOSED: the reply is not called.
 */
mob_status_t node_cluster_ask(node_cluster_t *cluster, script_fn script, const void *arguments,
                              size_t size, redis_reply_fn reply, void *context);
/* Registered, or alone: drivers find the node from now on, and the starter is told. */
void node_cluster_began(node_cluster_t *cluster);
/* This incarnation is over: the daemon ends. Its drivers are told why, and so is cluster.log,
 * unless it has left. */
void node_cluster_over(node_cluster_t *cluster, bool has_left, const char *why);
/* Something is not as it should be: a line in cluster.log. */
void node_cluster_trouble(node_cluster_t *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What keeps this node from taking part: the starter is told if it waits, and the daemon ends. */
void node_cluster_fail(node_cluster_t *cluster, mob_status_t status, const char *why);
/* The cluster's id and its Redis are known: asks to be registered. */
mob_status_t node_cluster_go_on(node_cluster_t *cluster);

#endif
