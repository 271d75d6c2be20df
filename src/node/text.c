/*
 * What workers print. Their standard output and error are pipes to the daemon.
 *
 * Whose text it is: a worker that prints by its language's own means announces the task's name in
 * the stream itself, by a mark: \1, the name, a newline. A mark without a name takes that back,
 * before a task of another name begins. A \1 that such a task prints comes doubled. What comes
 * without a mark was written past all that, to the descriptor: by a subprocess, or a library. The
 * daemon takes it for the text of what the worker runs when it reads (node/runname.c). That is as
 * good as exact while a run lasts; the last words of a subprocess may get the name of the next run,
 * if that has begun when the daemon comes to read. To know better would cost every run a system
 * call.
 *
 * A change of name ends a line.
 *
 * When it is sent: whole lines at once. A line without an end is sent as a piece, after PIECE_MS:
 * a progress bar moves, and dots come one by one; the driver puts pieces together. One timer is for
 * all streams, and runs only while such a line waits. But pieces of two lines that come at the same
 * time make four lines on a screen, so a line of more than LONG_LINE is put off while it grows: up
 * to LINE_MOST it arrives whole. Pieces end between characters.
 *
 * Bounds: while the driver does not read, the daemon does not either, so that workers wait in their
 * print. A stream holds one line of LINE_MOST at most, and all streams ALL_MOST together: beyond
 * that a line is sent as it is. What is sent lies in the driver's outbox, which holds
 * NODE_OUTBOX_HIGH and one such line.
 *
 * The driver of a guest job is at another node: what its workers print goes there
 * (cluster/output.h), and the link takes the place of the outbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "node/cluster/output.h"
#include "node/runname.h"
#include "node/state.h"
#include "node/watch.h"

enum {
    CHUNK = 64 * 1024, /* what a pipe holds */
    MAX_CHUNKS = 16,
    ADDRESS_BYTES = 64,
    PACKET_TEXT = WIRE_PACKET_MAX - sizeof(wire_text_t) - NODE_NAME_BYTES - ADDRESS_BYTES,
    LINE_MOST = 16 << 20,
    ALL_MOST = 64 << 20,
    LONG_LINE = CHUNK / 2,
    PIECE_MS = 50,
    LONG_MS = 1000,
    /* An object that was dropped before the end was asked for is freed by then, and what is inside
     * it. */
    FINISH_ROUNDS = 3,
};

/* ---- sending ---- */

static void packet_send(node_client_t *driver, const node_print_t *p) {
    static char packet[WIRE_PACKET_MAX];
    const char *address = p->address != NULL ? p->address : "";
    wire_text_t head = {
        .packet = {.magic = WIRE_MAGIC, .kind = WIRE_TEXT},
        .stream = (uint32_t)p->kind,
        .pid = p->pid,
        .name_size = (uint32_t)strlen(p->name) + 1,
        .text_size = (uint32_t)p->size,
        .unfinished = p->unfinished,
        .address_size = (uint32_t)strnlen(address, ADDRESS_BYTES - 1) + 1,
    };
    char *at = packet;
    memcpy(at, &head, sizeof head);
    memcpy(at += sizeof head, p->name, head.name_size);
    memcpy(at += head.name_size, address, head.address_size - 1);
    at[head.address_size - 1] = 0;
    if (p->size > 0) memcpy(at += head.address_size, p->text, p->size);
    node_client_send(driver, packet, sizeof head + head.name_size + head.address_size + p->size,
                     NULL, 0);
}

/* The job whose driver is told. */
static node_job_t *told_of(const node_job_t *job) {
    return job->maker != NULL ? job->maker : node_pool_first(job)->job;
}

bool node_job_is_heard(const node_job_t *job) {
    return told_of(job)->is_guest || node_job_listener(job) != NULL;
}

bool node_job_has_room(const node_job_t *job, size_t most) {
    if (told_of(job)->is_guest) return node_output_has_room(told_of(job));
    const node_client_t *driver = node_job_listener(job);
    return driver == NULL || driver->outbox_bytes <= most;
}

void node_print_send(const node_job_t *job, const node_print_t *print) {
    node_job_t *guest = told_of(job);
    node_client_t *driver = node_job_listener(job);
    if (!guest->is_guest && driver == NULL) return;
    node_print_t rest = *print, part = *print;
    bool more;
    do {
        more = rest.size > PACKET_TEXT;
        part.text = rest.text;
        part.size = more ? base_utf8_whole(rest.text, PACKET_TEXT) : rest.size;
        part.unfinished = more || rest.unfinished;
        if (guest->is_guest)
            node_output_send(guest, &part);
        else
            packet_send(driver, &part);
        rest.text += part.size;
        rest.size -= part.size;
    } while (more);
}

static void text_send(const node_job_t *job, int kind, int pid, const char *name, const char *text,
                      size_t size, bool unfinished) {
    node_print_send(job, &(node_print_t){.kind = kind,
                                         .pid = pid,
                                         .name = name,
                                         .text = text,
                                         .size = size,
                                         .unfinished = unfinished});
}

void node_text_send(const node_job_t *job, int kind, int pid, const char *name, const char *text,
                    size_t size) {
    text_send(job, kind, pid, name, text, size, false);
}

enum { WARNING_BYTES = 1024 };

/* Returns its size; whole characters. */
__attribute__((format(printf, 2, 0))) static size_t warning_format(char *text, const char *format,
                                                                   va_list args) {
    int size = vsnprintf(text, WARNING_BYTES, format, args);
    return size < WARNING_BYTES ? (size_t)size : base_utf8_whole(text, WARNING_BYTES - 1);
}

void node_job_warn(const node_job_t *job, const char *format, ...) {
    char text[WARNING_BYTES];
    va_list args;
    va_start(args, format);
    size_t size = warning_format(text, format, args);
    va_end(args);
    text_send(job, MOB_MESSAGE_WARN, 0, "", text, size, false);
}

void node_warn(node_t *n, const char *format, ...) {
    char text[WARNING_BYTES];
    va_list args;
    va_start(args, format);
    size_t size = warning_format(text, format, args);
    va_end(args);
    NODE_EACH_JOB(n, job)
    if (job->driver != NULL || job->is_guest)
        text_send(job, MOB_MESSAGE_WARN, 0, "", text, size, false);
}

/* Sends the first `size` bytes of the line, and takes them and `more` off it. */
static void line_send(node_stream_t *s, size_t size, size_t more, bool unfinished) {
    text_send(s->client->job, s->kind, s->client->pid, s->name, s->line.items, size, unfinished);
    s->open = unfinished;
    s->due_ms = 0;
    size += more;
    s->line.count -= size;
    s->client->node->texts.bytes -= size;
    if (s->line.count > 0) memmove(s->line.items, s->line.items + size, s->line.count);
    if (s->line.capacity > LONG_LINE && s->line.count == 0) vec_free(&s->line);
}

/* Sends what there is of the line, but for a character that is not whole. */
static void piece_send(node_stream_t *s) {
    size_t size = base_utf8_whole(s->line.items, s->line.count);
    if (size > 0) line_send(s, size, 0, true);
    s->due_ms = 0; /* no piece without new bytes: a part of a character may stay one for ever */
}

/* Sends what there is of the line, and ends it. */
static void line_end(node_stream_t *s) {
    if (s->open || s->line.count > 0) line_send(s, s->line.count, 0, false);
}

/* ---- pieces in time ---- */

static void on_text_timer(uv_timer_t *timer);

static void timer_arm(node_t *n, uint64_t due_ms) {
    uint64_t now = uv_now(&n->loop), wait = due_ms > now ? due_ms - now : 0;
    bool sooner = uv_is_active((uv_handle_t *)&n->texts.timer) &&
                  uv_timer_get_due_in(&n->texts.timer) <= wait;
    if (!sooner) uv_timer_start(&n->texts.timer, on_text_timer, wait, 0);
}

static void piece_plan(node_stream_t *s, uint64_t wait_ms) {
    node_t *n = s->client->node;
    s->due_ms = uv_now(&n->loop) + wait_ms;
    s->seen = s->line.count;
    timer_arm(n, s->due_ms);
}

/* ---- reading ---- */

static void name_set(node_stream_t *s, const char *name) {
    if (strcmp(s->name, name) == 0) return;
    line_end(s);
    snprintf(s->name, sizeof s->name, "%s", name);
}

static void text_put(node_stream_t *s, const char *text, size_t size) {
    node_t *n = s->client->node;
    if (!vec_reserve(&s->line, size)) { /* no memory: it goes as it is */
        line_send(s, s->line.count, 0, true);
        text_send(s->client->job, s->kind, s->client->pid, s->name, text, size, true);
        return;
    }
    const char *newline = memrchr(text, '\n', size);
    size_t whole = newline ? s->line.count + (size_t)(newline - text) : 0;
    memcpy(s->line.items + s->line.count, text, size);
    s->line.count += size;
    n->texts.bytes += size;
    if (newline) line_send(s, whole, 1, false);
    if (s->line.count > LINE_MOST || (s->line.count > LONG_LINE && n->texts.bytes > ALL_MOST))
        piece_send(s);
    else if (s->line.count > 0 && s->due_ms == 0)
        piece_plan(s, PIECE_MS);
}

/* Text of the task's. Without a mark its name is looked up; but a newline that comes first is the
 * end of the line before it. */
static void text_take(node_stream_t *s, const char *text, size_t size) {
    if (size == 0 || !s->client->job->setup->given.log_to_driver) return;
    if (!s->announced && !s->looked) {
        char name[NODE_NAME_BYTES];
        if (text[0] == '\n' && (s->open || s->line.count > 0)) {
            text_put(s, text++, 1);
            if (--size == 0) return;
        }
        node_run_name(s->client, name);
        name_set(s, name);
        s->looked = true;
    }
    text_put(s, text, size);
}

/* The whole mark is there. */
static void mark_take(node_stream_t *s) {
    s->mark[base_utf8_whole(s->mark, s->mark_size)] = 0;
    s->announced = s->mark_size > 0;
    s->looked = false;
    if (s->announced) name_set(s, s->mark);
    s->place = NODE_TEXT;
}

/* Takes what follows the \1, up to the end of the mark or of the bytes. How many bytes that is. */
static size_t mark_read(node_stream_t *s, const char *bytes, size_t size) {
    if (s->place == NODE_MARK && bytes[0] == 1) { /* the task's own */
        text_take(s, bytes, 1);
        s->place = NODE_TEXT;
        return 1;
    }
    if (s->place == NODE_MARK) s->mark_size = 0;
    s->place = NODE_MARK_NAME;
    const char *end = memchr(bytes, '\n', size);
    size_t length = end ? (size_t)(end - bytes) : size, space = sizeof s->mark - 1 - s->mark_size,
           kept = length < space ? length : space;
    memcpy(s->mark + s->mark_size, bytes, kept);
    s->mark_size += kept;
    if (end == NULL) return size;
    mark_take(s);
    return length + 1;
}

static void bytes_take(node_stream_t *s, const char *bytes, size_t size) {
    s->looked = false;
    while (size > 0) {
        size_t taken;
        if (s->place == NODE_TEXT) {
            const char *mark = memchr(bytes, 1, size);
            taken = mark ? (size_t)(mark - bytes) : size;
            text_take(s, bytes, taken);
            if (mark) s->place = NODE_MARK, taken++;
        } else {
            taken = mark_read(s, bytes, size);
        }
        bytes += taken;
        size -= taken;
    }
}

static void on_output(uv_poll_t *poll, int status, int events);

/* Reads what there is, within bounds: the rest keeps its poll readable. With `all` also if the
 * driver does not read. False at the end of the stream. */
static bool stream_read(node_stream_t *s, bool all) {
    static char chunk[CHUNK];
    for (int chunks = 0; chunks < MAX_CHUNKS; chunks++) {
        if (!all && !node_job_has_room(s->client->job, NODE_OUTBOX_HIGH)) {
            uv_poll_stop(&s->poll);
            s->paused = true;
            told_of(s->client->job)->output.held = true;
            return true;
        }
        ssize_t n = read(s->fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        if (n == 0) return false;
        bytes_take(s, chunk, (size_t)n);
    }
    return true;
}

static void on_output(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    node_client_t *c = poll->data;
    node_stream_t *s = poll == &c->out.poll ? &c->out : &c->err;
    if (!s->live || stream_read(s, false)) return;
    node_stream_close(s);
    /* Both outputs of the worker have ended and it never connected: it is dead. */
    if (c->state == NODE_STARTING && !c->out.live && !c->err.live) node_worker_start_failed(c);
}

/* ---- a stream's life ---- */

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

static void stream_finish(node_stream_t *s) {
    stream_read(s, true);
    line_end(s);
}

void node_stream_close(node_stream_t *s) {
    if (!s->live) return;
    s->live = false;
    stream_finish(
        s); /* the last words of a process that was reaped before its pipe was looked at */
    uv_poll_stop(&s->poll);
    vec_free(&s->line);
}

void node_streams_read(node_client_t *c) {
    if (c->out.live) stream_read(&c->out, true);
    if (c->err.live) stream_read(&c->err, true);
}

/* ---- all streams ---- */

/* Of one job, or of all. */
static void streams_each(node_t *n, const node_job_t *job, void (*visit)(node_stream_t *)) {
    for (size_t i = n->connections.count; i-- > 0;) {
        node_client_t *c = n->connections.items[i];
        if (job != NULL && c->job != job) continue;
        if (c->out.live) visit(&c->out);
        if (c->err.live) visit(&c->err);
    }
}

/* Its line has no end: a piece of it is sent when it is due. The line of a paused stream waits with
 * it. */
static void stream_tick(node_stream_t *s) {
    node_t *n = s->client->node;
    if (s->line.count == 0 || s->due_ms == 0 || s->paused) return;
    if (s->due_ms > uv_now(&n->loop)) {
        timer_arm(n, s->due_ms);
        return;
    }
    size_t seen = s->seen;
    if (s->line.count > LONG_LINE) stream_read(s, false); /* the daemon may be what is slow */
    if (s->due_ms == 0 || s->paused) return;              /* it is sent, or waits */
    if (s->line.count > LONG_LINE && s->line.count != seen)
        piece_plan(s, LONG_MS);
    else
        piece_send(s);
}

static void on_text_timer(uv_timer_t *timer) { streams_each(timer->data, NULL, stream_tick); }

mob_status_t node_streams_start(node_t *n) {
    n->texts.timer.data = n;
    return node_watch(uv_timer_init(&n->loop, &n->texts.timer), "making a timer");
}

static void stream_resume(node_stream_t *s) {
    if (!s->paused) return;
    s->paused = false;
    uv_poll_start(&s->poll, UV_READABLE, on_output);
    if (s->due_ms != 0) piece_plan(s, PIECE_MS);
}

void node_streams_resume(node_client_t *driver) {
    NODE_EACH_JOB(driver->node, job)
    if (node_job_listener(job) == driver) streams_each(driver->node, job, stream_resume);
}

void node_job_resume(const node_job_t *guest) {
    NODE_EACH_JOB(guest->node, job)
    if (told_of(job) == guest) streams_each(guest->node, job, stream_resume);
}

void node_streams_end(node_job_t *job) {
    job->finish_round = job->node->round + FINISH_ROUNDS;
    job->node->again = true;
}

/* Sends what has come so far from the job's streams, and tells the driver that this was all. */
static void streams_finish(node_job_t *job) {
    streams_each(job->node, job, stream_finish);
    node_failures_flush(job);
    wire_packet_t end = {.magic = WIRE_MAGIC, .kind = WIRE_TEXT_END};
    if (job->driver != NULL) node_client_send(job->driver, &end, sizeof end, NULL, 0);
}

void node_streams_settle(node_t *n) {
    NODE_EACH_JOB(n, job) {
        if (job->finish_round == 0) continue;
        n->again = true;
        if (n->round < job->finish_round) continue;
        job->finish_round = 0;
        streams_finish(job);
    }
}
