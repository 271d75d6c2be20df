/*
 * The port opens before anything else: its number is part of what the node says of itself. Then one
 * that founds a cluster goes on by itself, and one that joins asks first (join.c).
 *
 * Redis's password comes in the environment, as RAY_REDIS_PASSWORD, and is taken out of it at once:
 * nothing that this daemon starts is to have it.
 *
 * A node that can't take part ends: a starter that waits is told why. One whose incarnation is over
 * ends, too: its work was, or will be, taken for dead by the others.
 */
#include "node/cluster/cluster.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/token.h"
#include "node/cluster/inflow.h"
#include "node/cluster/join.h"
#include "node/cluster/membership.h"
#include "node/cluster/post.h"
#include "node/cluster/pulling.h"
#include "node/state.h"
#include "node/watch.h"

static const char FULL[] = "this file is full: nothing more is written here\n";
enum { ROOM_BYTES = 16 << 20, JOIN_MS = 10000, LOG_MAX = 1 << 20 };

uint64_t node_cluster_now_ns(void) { return base_clock_boot_ns(); }

/* ---- what goes wrong ---- */

void node_cluster_trouble(node_cluster_t *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->trouble, sizeof c->trouble, format, args);
    va_end(args);
    char line[600], when[32];
    time_t now = time(NULL);
    struct tm parts;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", gmtime_r(&now, &parts));
    int size = snprintf(line, sizeof line, "%s %s\n", when, c->trouble);
    if (c->log_fd < 0 || size < 0 || c->log_bytes > LOG_MAX) return;
    c->log_bytes += (size_t)size;
    (void)!write(c->log_fd, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
    if (c->log_bytes > LOG_MAX) (void)!write(c->log_fd, FULL, sizeof FULL - 1);
}

void node_cluster_fail(node_cluster_t *c, mob_status_t status, const char *why) {
    c->state = CLUSTER_OVER;
    node_membership_end(c);
    node_starter_fail(c->node, status, why);
}

void node_cluster_over(node_cluster_t *c, bool has_left, const char *why) {
    node_membership_end(c);
    c->is_put_out = !has_left;
    if (!has_left) {
        node_cluster_trouble(c, "this node is no member any more: %s", why);
        node_warn(c->node,
                  "This node is no member of its cluster any more: %s. It ends, with all that runs "
                  "on it; start it again by `ray start`.",
                  why);
    }
    node_end(c->node);
}

bool node_cluster_is_put_out(const node_t *n) {
    return n->cluster != NULL && n->cluster->is_put_out;
}

/* ---- the mesh ---- */

static bool on_receive(void *context, uint64_t peer, uint64_t sequence, const void *bytes,
                       size_t size) {
    return node_post_receive(context, peer, sequence, bytes, size);
}

static void on_room(void *context, uint64_t peer) {
    (void)peer;
    node_cluster_t *c = context;
    c->node->again = true;
}

static void on_silent(void *context, uint64_t peer, bool is_silent) {
    node_membership_silent(context, peer, is_silent);
}

static void on_goodbye(void *context, uint64_t peer) {
    node_cluster_t *c = context;
    node_row_t *row = node_roster_find(&c->roster, peer);
    if (row != NULL) row->has_left = true;
}

/* Membership hears of it from the control state, and decides. */
static void on_buried(void *context, uint64_t by) {
    node_cluster_trouble(context, "node %016llx says that this node is dead",
                         (unsigned long long)by);
}

static uint64_t renewal_age_ms(void *context) {
    (void)context;
    return 0; /* what witnesses need comes with membership's own heartbeats */
}

static void on_trouble(void *context, const char *address, mob_status_t status) {
    const char *words = mob_last_error();
    node_cluster_trouble(context, "%s%s%s", address, *address ? ": " : "",
                         *words ? words : mob_status_text(status));
}

static void on_stranger(void *context, uint64_t incarnation) {
    (void)incarnation;
    node_membership_stranger(context);
}

static const void *on_welcome(void *context, size_t *ret_size) {
    node_cluster_t *c = context;
    *ret_size = strlen(c->welcome);
    return c->welcome;
}

static void on_bulk(void *context, net_handover_t *handover) {
    node_pulling_accept(context, handover);
}

static const mesh_ops_t mesh_ops = {.receive = on_receive,
                                    .room = on_room,
                                    .silent = on_silent,
                                    .goodbye = on_goodbye,
                                    .buried = on_buried,
                                    .renewal_age_ms = renewal_age_ms,
                                    .trouble = on_trouble,
                                    .stranger = on_stranger,
                                    .welcome = on_welcome,
                                    .bulk = on_bulk};

static mob_status_t secret_find(node_cluster_t *c) {
    net_token_t token = {0};
    bool joins = c->node->config.cluster.join != NULL;
    mob_status_t status = joins ? net_token_find(&token) : net_token_make(&token);
    if (status == MOB_OK) status = net_secret_of(token.text, token.size, &c->secret);
    net_token_fini(&token);
    return status;
}

static mob_status_t credentials_read(node_cluster_t *c) {
    const node_cluster_config_t *config = &c->node->config.cluster;
    int given = (config->certificate != NULL) + (config->key != NULL) + (config->authority != NULL);
    if (given == 0) return MOB_OK;
    if (given < 3)
        return base_fail(MOB_EINVAL, "TLS needs three files: --tls-cert, --tls-key and --tls-ca");
    return net_credentials_new(config->certificate, config->key, config->authority,
                               &c->credentials);
}

static mob_status_t port_open(node_cluster_t *c) {
    node_t *n = c->node;
    uint16_t port;
    net_identity_t self = {.cluster = c->id[0], .incarnation = n->incarnation};
    snprintf(self.version, sizeof self.version, "%s", MOBULA_VERSION);
    if (n->config.cluster.python != NULL)
        sscanf(n->config.cluster.python, "%hhu.%hhu", &self.python_major, &self.python_minor);
    mob_status_t status = node_join_address_read("the node's own address", n->config.address,
                                                 c->host, sizeof c->host, &port);
    if (status != MOB_OK) return status;
    mesh_config_t config = {.address = c->host,
                            .port = port,
                            .secret = &c->secret,
                            .credentials = c->credentials,
                            .self = &self,
                            .room_bytes = ROOM_BYTES};
    status = mesh_open(&n->loop, &config, &mesh_ops, c, &c->mesh);
    if (status != MOB_ESYS) return status;
    char words[200];
    snprintf(words, sizeof words, "%s", mob_last_error());
    return base_fail(MOB_ESYS,
                     "%s. Maybe another program has the port, or another node: see `ray status`, "
                     "end it by `ray stop`, or give --port another number (0: any that is free)",
                     words);
}

/* ---- the control state ---- */

static void keeper_changed(void *context, bool is_there, mob_status_t status) {
    node_cluster_t *c = context;
    const char *words = *mob_last_error() ? mob_last_error() : mob_status_text(status);
    c->has_redis = is_there;
    if (is_there)
        node_cluster_trouble(c, "Redis answers");
    else
        node_cluster_trouble(c, "Redis: %s", words);
    if (!is_there && status == MOB_EPERM && c->state == CLUSTER_JOINING)
        node_cluster_fail(c, status, c->trouble); /* it will not take the password later either */
}

static const redis_keeper_ops_t keeper_ops = {.changed = keeper_changed};

static mob_status_t settings_read(node_cluster_t *c) {
    const node_cluster_config_t *config = &c->node->config.cluster;
    c->settings.cluster = c->id[0];
    c->settings.password = getenv("RAY_REDIS_PASSWORD");
    if (config->sentinels != NULL)
        return redis_sentinels_read(config->sentinels, &c->settings.sentinels);
    return node_join_address_read("the address of Redis", config->redis, c->settings.at.host,
                                  sizeof c->settings.at.host, &c->settings.at.port);
}

mob_status_t node_cluster_ask(node_cluster_t *c, script_fn script, const void *arguments,
                              size_t size, redis_reply_fn reply, void *context) {
    if (c->keeper == NULL || c->state == CLUSTER_OVER) return MOB_ECLOSED;
    return redis_keeper_ask(c->keeper, script, arguments, size, reply, context);
}

mob_status_t node_cluster_go_on(node_cluster_t *c) {
    mesh_cluster_set(c->mesh, c->id[0]);
    mob_status_t status = settings_read(c);
    if (status == MOB_OK)
        status = redis_keeper_open(&c->node->loop, &c->settings, &keeper_ops, c, &c->keeper);
    unsetenv("RAY_REDIS_PASSWORD"); /* the keeper has a copy */
    c->settings.password = NULL;
    if (status == MOB_OK) status = node_membership_start(c);
    if (status == MOB_OK) node_join_welcome_write(c);
    return status;
}

/* ---- beginning ---- */

static void on_join_limit(uv_timer_t *timer) {
    node_cluster_t *c = timer->data;
    char why[700];
    snprintf(why, sizeof why, "the node could not join its cluster within %d s: %s", JOIN_MS / 1000,
             c->has_redis ? "Redis answers, but has lost something, and the cluster's nodes "
                            "have to agree on it first, which takes 90 s if one of them is "
                            "dead. Try again"
             : c->trouble[0] != 0 ? c->trouble
                                  : "Redis does not answer");
    node_cluster_fail(c, MOB_ETIMEOUT, why);
}

static mob_status_t timers_init(node_cluster_t *c) {
    uv_timer_t *timers[] = {&c->tick, &c->pulse, &c->limit};
    int error = 0;
    for (size_t i = 0; i < sizeof timers / sizeof *timers && error == 0; i++) {
        error = uv_timer_init(&c->node->loop, timers[i]);
        timers[i]->data = c;
    }
    mob_status_t status = node_watch(error, "making a cluster's timers");
    return status == MOB_OK ? node_pause_start(c) : status;
}

static void log_open(node_cluster_t *c) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cluster.log", c->node->session.dir);
    c->log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Alone without Redis, as the first node of a cluster, or as one more. */
static mob_status_t part_take(node_cluster_t *c) {
    const node_cluster_config_t *config = &c->node->config.cluster;
    uv_timer_start(&c->limit, on_join_limit, JOIN_MS, 0);
    if (config->join != NULL) {
        node_join_welcome_write(c); /* for whoever asks this node too early */
        return node_join_ask(c);
    }
    c->founds = true;
    c->is_alone = config->redis == NULL && config->sentinels == NULL;
    if (!c->is_alone) return node_cluster_go_on(c);
    unsetenv("RAY_REDIS_PASSWORD");
    c->state = CLUSTER_MEMBER;
    node_join_welcome_write(c);
    node_cluster_began(c);
    return MOB_OK;
}

mob_status_t node_cluster_start(node_t *n) {
    node_cluster_t *c = calloc(1, sizeof *c);
    if (c == NULL) return MOB_ENOMEM;
    *c = (node_cluster_t){.node = n, .log_fd = -1};
    n->cluster = c;
    node_roster_init(&c->roster);
    node_guestjobs_start(c);
    node_outflows_start(c);
    log_open(c);
    mob_status_t status = timers_init(c);
    if (status == MOB_OK && n->config.cluster.founded != NULL)
        status = node_join_id_read(n->config.cluster.founded, c->id);
    if (status == MOB_OK) status = secret_find(c);
    if (status == MOB_OK) status = credentials_read(c);
    if (status == MOB_OK) status = port_open(c);
    return status == MOB_OK ? part_take(c) : status;
}

/* Tasks come last but for references: what they name is said by then. */
void node_cluster_settle(node_cluster_t *c) {
    node_guestjobs_settle(c);
    node_pulling_settle(c);
    node_grouping_settle(c);
    node_outflows_settle(c); /* before the ends of the tasks that make them */
    node_inflows_settle(c);
    node_acting_settle(c);
    node_placing_settle(c);
    node_holding_settle(c);
    if (c->mesh != NULL) mesh_flush(c->mesh); /* or it would wait until something wakes the loop */
}

bool node_cluster_is_ready(const node_t *n) {
    return n->cluster == NULL || n->cluster->is_alone || n->cluster->has_begun;
}

void node_cluster_began(node_cluster_t *c) {
    char address[80];
    uv_timer_stop(&c->limit);
    snprintf(address, sizeof address, "%s:%u", c->host, (unsigned)mesh_port(c->mesh));
    mob_status_t status = node_session_announce(c->node, address);
    if (status == MOB_OK)
        node_starter_ready(c->node);
    else
        node_cluster_fail(c, status, mob_last_error());
}

/* ---- the end ---- */

void node_cluster_leave(node_t *n) {
    node_cluster_t *c = n->cluster;
    if (c != NULL && c->state == CLUSTER_LEAVING) return;
    if (c == NULL || c->is_alone || c->state != CLUSTER_MEMBER)
        node_end(n);
    else
        node_membership_leave(c);
}
