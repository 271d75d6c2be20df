/* One sentinel at a time. One that can't be reached, does not know the master or makes no sense is
 * passed over; the last one's words are those that are told. */
#include "redis/master.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "redis/connection.h"

struct redis_master {
    uv_loop_t *loop;
    const redis_sentinels_t *sentinels;
    size_t at, asked; /* the one that is asked now; how many were */
    redis_connection_t *connection;
    redis_master_fn found;
    void *context;
    uv_timer_t timer; /* so that no answer comes within the asking */
};

/* ---- where the sentinels are ---- */

static bool is_address(const char *host) {
    uint8_t bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool address_set(redis_address_t *address, const char *host, size_t host_size,
                        const char *port) {
    char *end;
    unsigned long number = strtoul(port, &end, 10);
    if (host_size > REDIS_HOST_MAX || end == port || number == 0 || number > UINT16_MAX)
        return false;
    snprintf(address->host, sizeof address->host, "%.*s", (int)host_size, host);
    address->port = (uint16_t)number;
    return is_address(address->host) && (*end == 0 || *end == ',');
}

mob_status_t redis_sentinels_read(const char *text, redis_sentinels_t *ret_sentinels) {
    redis_sentinels_t made = {0};
    const char *at = strchr(text, '@');
    bool is_right = at != NULL && at > text && (size_t)(at - text) < sizeof made.name;
    if (is_right) memcpy(made.name, text, (size_t)(at - text));
    while (is_right && at != NULL) {
        const char *next = strchr(++at, ','), *port = NULL;
        for (const char *c = at; *c != 0 && c != next; c++)
            if (*c == ':') port = c; /* the last: an address may have more */
        is_right = port != NULL && made.count < REDIS_SENTINELS_MAX &&
                   address_set(&made.at[made.count++], at, (size_t)(port - at), port + 1);
        at = next;
    }
    if (!is_right)
        return base_fail(MOB_EINVAL,
                         "%s does not say where sentinels are: NAME@ADDRESS:PORT,ADDRESS:PORT with "
                         "addresses in digits, and at most %d of them",
                         text, REDIS_SENTINELS_MAX);
    *ret_sentinels = made;
    return MOB_OK;
}

/* ---- asking ---- */

static void next_ask(redis_master_t *m);

static void on_closed(uv_handle_t *handle) { free(handle->data); }

void redis_master_cancel(redis_master_t *m) {
    if (m->connection != NULL) redis_connection_close(m->connection);
    m->connection = NULL;
    uv_close((uv_handle_t *)&m->timer, on_closed);
}

static void answer(redis_master_t *m, const redis_address_t *address, size_t replicas) {
    redis_master_fn found = m->found;
    void *context = m->context;
    redis_master_cancel(m);
    found(context, address, replicas);
}

/* The value behind this name in a flat list of both; "" if it is not there. */
static const char *field(const redisReply *reply, const char *name) {
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *key = reply->element[i], *value = reply->element[i + 1];
        if (key->str != NULL && value->str != NULL && strcmp(key->str, name) == 0)
            return value->str;
    }
    return "";
}

static void on_master(void *context, const redisReply *reply) {
    redis_master_t *m = context;
    redis_address_t address;
    if (reply == NULL) return; /* the connection's end is told */
    if (reply->type == REDIS_REPLY_ARRAY) {
        const char *host = field(reply, "ip");
        if (address_set(&address, host, strlen(host), field(reply, "port"))) {
            answer(m, &address, strtoul(field(reply, "num-slaves"), NULL, 10));
            return;
        }
    }
    base_fail(MOB_EINVAL, "the sentinel at %s:%u does not know a master %s: %s",
              m->sentinels->at[m->at].host, m->sentinels->at[m->at].port, m->sentinels->name,
              reply->str != NULL ? reply->str : "no address");
    next_ask(m);
}

static void on_up(void *context) {
    redis_master_t *m = context;
    const redis_word_t words[] = {
        {"SENTINEL", 8}, {"MASTER", 6}, {m->sentinels->name, strlen(m->sentinels->name)}};
    if (redis_connection_send(m->connection, words, 3, on_master, m) != MOB_OK) next_ask(m);
}

static void on_down(void *context, mob_status_t status) {
    (void)status;
    redis_master_t *m = context;
    m->connection = NULL;
    next_ask(m);
}

static const redis_connection_ops_t ops = {.up = on_up, .down = on_down};

static void next_ask(redis_master_t *m) {
    const redis_sentinels_t *s = m->sentinels;
    if (m->connection != NULL) redis_connection_close(m->connection);
    m->connection = NULL;
    while (m->asked < s->count) {
        m->at = (m->at + 1) % s->count;
        m->asked++;
        const char *password = s->password[0] != 0 ? s->password : NULL;
        if (redis_connection_open(m->loop, s->at[m->at].host, s->at[m->at].port, password, &ops, m,
                                  &m->connection) == MOB_OK)
            return;
    }
    answer(m, NULL, 0);
}

static void on_begin(uv_timer_t *timer) { next_ask(timer->data); }

mob_status_t redis_master_ask(uv_loop_t *loop, const redis_sentinels_t *sentinels, size_t first,
                              redis_master_fn found, void *context, redis_master_t **ret_master) {
    redis_master_t *m = calloc(1, sizeof *m);
    if (m == NULL) return MOB_ENOMEM;
    m->loop = loop;
    m->sentinels = sentinels;
    m->at = first;
    m->found = found;
    m->context = context;
    uv_timer_init(loop, &m->timer);
    m->timer.data = m;
    uv_timer_start(&m->timer, on_begin, 0, 0);
    *ret_master = m;
    return MOB_OK;
}
