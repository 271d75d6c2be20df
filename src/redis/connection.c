/*
 * hiredis says which events of its socket it waits for, and when it wants to be woken (`hooks`).
 * Here these are a poll and a timer of libuv, whose memory stays until libuv has let go of both.
 *
 * hiredis answers what is open with nothing when a connection ends, and then says so; an end from
 * our side does the same at once. So a closed connection is marked before, and then nobody is
 * called.
 */
#include "redis/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <async.h>

#include "base/status.h"

/* What libuv knows of a connection. */
typedef struct {
    uv_poll_t poll;
    uv_timer_t timer;
    redisAsyncContext *redis; /* NULL: hiredis has let go of it */
    int events, open;         /* handles that are not closed yet */
} hook_t;

struct redis_connection {
    redisAsyncContext *redis;
    const redis_connection_ops_t *ops;
    void *context;
    bool is_closed; /* nobody is called any more */
    char password[512];
    char where[80];
};

typedef struct {
    redis_connection_t *connection;
    redis_answer_fn answer;
    void *context;
} asked_t;

/* ---- hiredis on libuv ---- */

static void on_poll(uv_poll_t *poll, int status, int events) {
    hook_t *hook = poll->data;
    /* an error is found by reading */
    if (hook->redis != NULL && (status < 0 || (events & UV_READABLE)))
        redisAsyncHandleRead(hook->redis);
    if (hook->redis != NULL && status == 0 && (events & UV_WRITABLE))
        redisAsyncHandleWrite(hook->redis);
}

static void events_set(hook_t *hook, int events) {
    hook->events = events;
    if (events == 0)
        uv_poll_stop(&hook->poll);
    else
        uv_poll_start(&hook->poll, events, on_poll);
}

static void read_add(void *hook) { events_set(hook, ((hook_t *)hook)->events | UV_READABLE); }
static void read_end(void *hook) { events_set(hook, ((hook_t *)hook)->events & ~UV_READABLE); }
static void write_add(void *hook) { events_set(hook, ((hook_t *)hook)->events | UV_WRITABLE); }
static void write_end(void *hook) { events_set(hook, ((hook_t *)hook)->events & ~UV_WRITABLE); }

static void on_timer(uv_timer_t *timer) {
    hook_t *hook = timer->data;
    if (hook->redis != NULL) redisAsyncHandleTimeout(hook->redis);
}

static void timer_set(void *context, struct timeval limit) {
    hook_t *hook = context;
    uv_timer_start(&hook->timer, on_timer,
                   (uint64_t)limit.tv_sec * 1000 + (uint64_t)limit.tv_usec / 1000, 0);
}

static void on_closed(uv_handle_t *handle) {
    hook_t *hook = handle->data;
    if (--hook->open == 0) free(hook);
}

static void hook_free(void *context) {
    hook_t *hook = context;
    hook->redis = NULL;
    uv_close((uv_handle_t *)&hook->poll, on_closed);
    uv_close((uv_handle_t *)&hook->timer, on_closed);
}

static mob_status_t hook_attach(uv_loop_t *loop, redisAsyncContext *redis) {
    hook_t *hook = calloc(1, sizeof *hook);
    if (hook == NULL) return MOB_ENOMEM;
    if (uv_poll_init(loop, &hook->poll, redis->c.fd) != 0) {
        free(hook);
        return base_fail(MOB_ESYS, "the loop can't watch a connection to Redis");
    }
    uv_timer_init(loop, &hook->timer);
    hook->poll.data = hook->timer.data = hook;
    hook->redis = redis;
    hook->open = 2;
    redis->ev.data = hook;
    redis->ev.addRead = read_add;
    redis->ev.delRead = read_end;
    redis->ev.addWrite = write_add;
    redis->ev.delWrite = write_end;
    redis->ev.cleanup = hook_free;
    redis->ev.scheduleTimer = timer_set;
    return MOB_OK;
}

/* ---- commands ---- */

static void on_answer(redisAsyncContext *redis, void *reply, void *context) {
    (void)redis;
    asked_t *asked = context;
    if (!asked->connection->is_closed) asked->answer(asked->context, reply);
    free(asked);
}

mob_status_t redis_connection_send(redis_connection_t *c, const redis_word_t *words, size_t count,
                                   redis_answer_fn answer, void *context) {
    const char **texts = malloc(count * sizeof *texts);
    size_t *sizes = malloc(count * sizeof *sizes);
    asked_t *asked = malloc(sizeof *asked);
    mob_status_t status = texts != NULL && sizes != NULL && asked != NULL ? MOB_OK : MOB_ENOMEM;
    if (status == MOB_OK) {
        *asked = (asked_t){c, answer, context};
        for (size_t i = 0; i < count; i++) {
            texts[i] = words[i].bytes;
            sizes[i] = words[i].size;
        }
        if (redisAsyncCommandArgv(c->redis, on_answer, asked, (int)count, texts, sizes) != REDIS_OK)
            status = base_fail(MOB_ESYS, "Redis at %s: %s", c->where, c->redis->errstr);
    }
    if (status != MOB_OK) free(asked);
    free(texts);
    free(sizes);
    return status;
}

/* ---- beginning and end ---- */

/* hiredis calls it when it frees the context, whatever that ended by. */
static void connection_free(void *context) {
    redis_connection_t *c = context;
    explicit_bzero(c->password, sizeof c->password);
    free(c);
}

static void gone(redis_connection_t *c, mob_status_t status) {
    if (c->is_closed) return;
    c->is_closed = true;
    c->ops->down(c->context, status);
}

static void on_down(const redisAsyncContext *redis, int failed) {
    redis_connection_t *c = redis->data;
    gone(c, base_fail(MOB_ECLOSED, "the connection to Redis at %s has ended: %s", c->where,
                      failed != REDIS_OK ? redis->errstr : "closed"));
}

/* A server without a password lets everybody in, also who gives one: a node that joins takes the
 * password from the token, and can't know that its head needed none. */
static bool needs_none(const redisReply *reply) {
    return strstr(reply->str, "without any password configured") != NULL ||
           strstr(reply->str, "no password is set") != NULL; /* before Redis 6 */
}

static void on_password(void *context, const redisReply *reply) {
    redis_connection_t *c = context;
    if (reply == NULL) return; /* its end is told */
    if (reply->type != REDIS_REPLY_ERROR || needs_none(reply)) {
        c->ops->up(c->context);
        return;
    }
    gone(c, base_fail(MOB_EPERM, "Redis at %s refuses the password: %s", c->where, reply->str));
    redisAsyncDisconnect(c->redis);
}

static void on_connected(redisAsyncContext *redis, int failed) {
    redis_connection_t *c = redis->data;
    if (failed != REDIS_OK) { /* hiredis frees it, and says nothing more */
        const char *why = redis->errstr[0] != 0 ? redis->errstr : strerror(errno);
        gone(c, base_fail(MOB_ESYS, "Redis at %s can't be reached: %s", c->where, why));
        return;
    }
    redis_word_t words[] = {{"AUTH", 4}, {c->password, strlen(c->password)}};
    redis_word_t ping[] = {{"PING", 4}};
    bool has_password = c->password[0] != 0;
    mob_status_t status =
        redis_connection_send(c, has_password ? words : ping, has_password ? 2 : 1, on_password, c);
    if (status != MOB_OK) redisAsyncDisconnect(redis);
}

mob_status_t redis_connection_open(uv_loop_t *loop, const char *host, uint16_t port,
                                   const char *password, const redis_connection_ops_t *ops,
                                   void *context, redis_connection_t **ret_connection) {
    redis_connection_t *c = calloc(1, sizeof *c);
    if (c == NULL) return MOB_ENOMEM;
    c->ops = ops;
    c->context = context;
    snprintf(c->where, sizeof c->where, "%s:%u", host, port);
    snprintf(c->password, sizeof c->password, "%s", password != NULL ? password : "");
    redisOptions options = {0};
    struct timeval limit = {REDIS_LIMIT_MS / 1000, REDIS_LIMIT_MS % 1000 * 1000};
    REDIS_OPTIONS_SET_TCP(&options, host, port);
    options.connect_timeout = options.command_timeout = &limit;
    c->redis = redisAsyncConnectWithOptions(&options);
    mob_status_t status = MOB_OK;
    if (c->redis == NULL)
        status = MOB_ENOMEM;
    else if (c->redis->err != 0)
        status = base_fail(MOB_ESYS, "Redis at %s: %s", c->where, c->redis->errstr);
    if (status == MOB_OK) status = hook_attach(loop, c->redis);
    if (status != MOB_OK) {
        if (c->redis != NULL) redisAsyncFree(c->redis);
        connection_free(c);
        return status;
    }
    c->redis->data = c;
    c->redis->dataCleanup = connection_free;
    redisAsyncSetConnectCallbackNC(c->redis, on_connected);
    redisAsyncSetDisconnectCallback(c->redis, on_down);
    *ret_connection = c;
    return MOB_OK;
}

void redis_connection_close(redis_connection_t *c) {
    c->is_closed = true;
    redisAsyncFree(c->redis);
}
