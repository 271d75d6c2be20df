/*
 * What workers print. Their standard output and error are pipes to us; whole lines go to the driver
 * with the name of the task that printed them, which the worker announces in the stream itself: \1,
 * the name, a newline. A \1 that a task prints comes doubled.
 *
 * A driver that does not read makes us stop reading, so that workers wait in their print and
 * nothing grows without bound.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "node/state.h"
#include "node/watch.h"

enum { CHUNK = 16 * 1024, LINE_LIMIT = 32 * 1024, OUTBOX_HIGH = 4 << 20, MAX_CHUNKS = 64 };

static void text_send(node_t *n, int kind, int pid, const char *name, const char *text,
                      size_t size) {
    if (n->driver == NULL || n->driver->state != NODE_LIVE) return;
    char packet[sizeof(wire_text_t) + 256 + LINE_LIMIT + CHUNK];
    wire_text_t head = {
        .packet = {.magic = WIRE_MAGIC, .kind = WIRE_TEXT},
        .stream = (uint32_t)kind,
        .pid = pid,
        .name_size = (uint32_t)base_utf8_whole(name, strnlen(name, 255)) + 1,
        .text_size = (uint32_t)size,
    };
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, name, head.name_size - 1);
    packet[sizeof head + head.name_size - 1] = 0;
    memcpy(packet + sizeof head + head.name_size, text, size);
    node_client_send(n->driver, packet, sizeof head + head.name_size + size, NULL, 0);
}

void node_warn(node_t *n, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_send(n, MOB_MESSAGE_WARN, 0, "", text,
              size < (int)sizeof text ? (size_t)size : base_utf8_whole(text, sizeof text - 1));
}

static void lines_send(node_stream_t *s, size_t size) {
    if (size == 0 || !s->client->node->config.log_to_driver) return;
    if (s->line.items[size - 1] == '\n') size--; /* the reader ends the last line itself */
    char plain[LINE_LIMIT + CHUNK];
    size_t kept = 0;
    for (size_t i = 0; i < size && kept < sizeof plain; i++) {
        plain[kept++] = s->line.items[i];
        if (s->line.items[i] == 1 && i + 1 < size && s->line.items[i + 1] == 1) i++;
    }
    text_send(s->client->node, s->kind, s->client->pid, s->name ? s->name : "", plain, kept);
}

/* Takes `size` bytes off the front. */
static void line_skip(node_stream_t *s, size_t size) {
    memmove(s->line.items, s->line.items + size, s->line.count - size);
    s->line.count -= size;
}

/* Sends the whole lines that have come so far, and with `all` the rest too. A change of name may
 * come in the middle of a line: that ends it. */
static void lines_split(node_stream_t *s, bool all) {
    size_t lines = 0, i = 0; /* bytes up to the last newline seen, and up to here */
    while (i < s->line.count) {
        if (s->line.items[i] != 1) {
            i++;
            if (s->line.items[i - 1] == '\n') lines = i;
            continue;
        }
        if (i + 1 < s->line.count && s->line.items[i + 1] == 1) { /* the task's own */
            i += 2;
            continue;
        }
        char *end = memchr(s->line.items + i, '\n', s->line.count - i);
        if (end == NULL) break; /* the name is still to come */
        size_t name_size = (size_t)(end - s->line.items) - i - 1;
        char *name = strndup(s->line.items + i + 1, name_size);
        lines_send(s, i);
        free(s->name);
        s->name = name;
        line_skip(s, i + name_size + 2);
        i = lines = 0;
    }
    if (s->line.count - lines > LINE_LIMIT) lines = base_utf8_whole(s->line.items, i);
    if (all || s->line.count - lines > LINE_LIMIT) lines = s->line.count;
    lines_send(s, lines);
    line_skip(s, lines);
}

/* Reads what there is, within bounds: the rest keeps its poll readable. False at the end of the
 * stream. */
static bool stream_read(node_stream_t *s) {
    for (int chunks = 0; chunks < MAX_CHUNKS; chunks++) {
        if (!vec_reserve(&s->line, CHUNK)) return true;
        ssize_t n = read(s->fd, s->line.items + s->line.count, CHUNK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        if (n == 0) return false;
        s->line.count += (size_t)n;
        lines_split(s, false);
        node_client_t *driver = s->client->node->driver;
        if (driver != NULL && driver->outbox_bytes > OUTBOX_HIGH) {
            uv_poll_stop(&s->poll);
            s->paused = true;
            return true;
        }
    }
    return true;
}

static void on_output(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    node_client_t *c = poll->data;
    node_stream_t *s = poll == &c->out.poll ? &c->out : &c->err;
    if (!s->live || stream_read(s)) return;
    node_stream_close(s);
    /* Both its outputs have ended and it never came: it is dead. */
    if (c->state == NODE_STARTING && !c->out.live && !c->err.live) node_worker_start_failed(c);
}

mob_status_t node_stream_open(node_client_t *c, node_stream_t *s, int fd, int kind) {
    s->client = c;
    s->kind = kind;
    s->fd = fd;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    /* libuv ties a poll handle to its descriptor: a worker that is asked for again gets a new
     * struct instead. */
    static const char what[] = "watching a pipe";
    mob_status_t status = node_watch(uv_poll_init(&c->node->loop, &s->poll, fd), what);
    if (status != MOB_OK) return status;
    s->poll.data = c;
    s->live = true;
    return node_watch(uv_poll_start(&s->poll, UV_READABLE, on_output), what);
}

void node_stream_close(node_stream_t *s) {
    if (!s->live) return;
    s->live = false;
    stream_read(s); /* the last words of one that was reaped before its pipe was looked at */
    lines_split(s, true);
    uv_poll_stop(&s->poll);
    free(s->name);
    s->name = NULL;
    vec_free(&s->line);
}

static void streams_each(node_t *n, void (*visit)(node_stream_t *)) {
    for (size_t i = n->connections.count; i-- > 0;) {
        node_client_t *c = n->connections.items[i];
        if (c->out.live) visit(&c->out);
        if (c->err.live) visit(&c->err);
    }
}

static void stream_finish(node_stream_t *s) {
    stream_read(s);
    lines_split(s, true);
}

static void stream_resume(node_stream_t *s) {
    if (s->paused) uv_poll_start(&s->poll, UV_READABLE, on_output);
    s->paused = false;
}

void node_streams_finish(node_t *n) {
    streams_each(n, stream_finish);
    wire_packet_t end = {.magic = WIRE_MAGIC, .kind = WIRE_TEXT_END};
    node_client_send(n->driver, &end, sizeof end, NULL, 0);
}

void node_streams_resume(node_t *n) { streams_each(n, stream_resume); }
