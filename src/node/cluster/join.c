/* Joining: what is asked of a node of the cluster before anything of the cluster is known. */
#include "node/cluster/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/cluster/cluster.h"
#include "node/state.h"

static const char FIRST[] = "mobula cluster 1\n";

mob_status_t node_join_id_read(const char *text, uint64_t ret_id[2]) {
    unsigned long long high, low;
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32 ||
        sscanf(text, "%16llx%16llx", &high, &low) != 2 || high == 0)
        return base_fail(MOB_EINVAL, "%s is no cluster's id, which has 32 hex digits", text);
    ret_id[0] = high;
    ret_id[1] = low;
    return MOB_OK;
}

mob_status_t node_join_address_read(const char *what, const char *text, char *ret_host,
                                    size_t capacity, uint16_t *ret_port) {
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
    if (colon == NULL || colon == text || (size_t)(colon - text) >= capacity || *end != 0 ||
        colon[1] == 0 || port > UINT16_MAX)
        return base_fail(MOB_EINVAL, "%s is to be IP:PORT, not %s", what, text);
    snprintf(ret_host, capacity, "%.*s", (int)(colon - text), text);
    *ret_port = (uint16_t)port;
    return MOB_OK;
}

void node_join_welcome_write(node_cluster_t *c) {
    const node_cluster_config_t *config = &c->node->config.cluster;
    if (c->id[0] == 0 && !c->is_alone) {
        snprintf(c->welcome, sizeof c->welcome,
                 "%srefused it has not joined its own cluster yet: try again\n", FIRST);
        return;
    }
    if (c->is_alone) {
        snprintf(c->welcome, sizeof c->welcome,
                 "%srefused it runs without Redis, so no other node can join: install Debian's "
                 "package redis-server (or valkey) there, then end it and start it again\n",
                 FIRST);
        return;
    }
    bool has_sentinels = c->settings.sentinels.count > 0;
    snprintf(c->welcome, sizeof c->welcome, "%sid %016llx%016llx\npatience %llu %llu\n%s %s\n",
             FIRST, (unsigned long long)c->id[0], (unsigned long long)c->id[1],
             (unsigned long long)config->patience_ms, (unsigned long long)config->newcomer_ms,
             has_sentinels ? "sentinels" : "redis",
             has_sentinels ? config->sentinels : config->redis);
}

/* The rest of a line that begins so; NULL: there is none. */
static char *line_of(char *text, const char *beginning) {
    for (char *line = text; line != NULL && *line != 0;) {
        char *next = strchr(line, '\n');
        if (strncmp(line, beginning, strlen(beginning)) == 0)
            return strndup(line + strlen(beginning),
                           (next != NULL ? (size_t)(next - line) : strlen(line)) -
                               strlen(beginning));
        line = next != NULL ? next + 1 : NULL;
    }
    return NULL;
}

static mob_status_t patience_take(node_cluster_config_t *config, const char *words) {
    unsigned long long patience_ms, newcomer_ms;
    if (words == NULL || sscanf(words, "%llu %llu", &patience_ms, &newcomer_ms) != 2)
        return base_fail(MOB_EPROTO, "its answer does not say when a node is dead");
    config->patience_ms = patience_ms;
    config->newcomer_ms = newcomer_ms;
    return MOB_OK;
}

/* What stays with the configuration, as if the user had said it. */
static mob_status_t welcome_take(node_cluster_t *c, char *text) {
    node_cluster_config_t *config = &c->node->config.cluster;
    if (strncmp(text, FIRST, sizeof FIRST - 1) != 0)
        return base_fail(MOB_EPROTO, "its answer makes no sense to this version of Mobula");
    char *refused = line_of(text, "refused "), *id = line_of(text, "id "),
         *patience = line_of(text, "patience ");
    mob_status_t status = MOB_OK;
    if (refused != NULL)
        status = base_fail(MOB_EINVAL, "%s", refused);
    else if (id == NULL)
        status = base_fail(MOB_EPROTO, "its answer does not name its cluster");
    else
        status = node_join_id_read(id, c->id);
    if (status == MOB_OK) status = patience_take(config, patience);
    if (status == MOB_OK) {
        config->redis = line_of(text, "redis ");
        config->sentinels = line_of(text, "sentinels ");
    }
    free(refused);
    free(id);
    free(patience);
    return status;
}

static void welcomed(void *context, mob_status_t status, const void *welcome, size_t size) {
    node_cluster_t *c = context;
    char why[700];
    if (c->state != CLUSTER_OPENING) return;
    char *text = status == MOB_OK ? strndup(welcome, size) : NULL;
    if (status == MOB_OK) status = text != NULL ? welcome_take(c, text) : MOB_ENOMEM;
    free(text);
    if (status == MOB_OK) status = node_cluster_go_on(c);
    if (status == MOB_OK) return;
    snprintf(why, sizeof why, "joining the cluster by the node at %s: %s",
             c->node->config.cluster.join,
             *mob_last_error() ? mob_last_error() : mob_status_text(status));
    node_cluster_fail(c, status, why);
}

mob_status_t node_join_ask(node_cluster_t *c) {
    char host[64];
    uint16_t port;
    mob_status_t status = node_join_address_read(
        "the address of a node to join by", c->node->config.cluster.join, host, sizeof host, &port);
    return status == MOB_OK ? mesh_join(c->mesh, host, port, welcomed, c) : status;
}
