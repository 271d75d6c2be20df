/*
 * Chunks that go: to each peer over one connection, which is dialled when the first is to be served
 * and stays; one after the other, in the order in which they were asked for.
 *
 * A chunk that lies in shared memory is hashed there, and goes from its memfd by sendfile, without
 * a copy. One in a file is read by a thread of libuv's first: this one waits for no disk. With TLS
 * there is a copy in either case.
 *
 * Who does not take the bytes has its connection ended after BULK_LIMIT_MS, and what it was to be
 * sent is answered as served: the readings behind that are the room pull's to end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bulk/state.h"

enum { TURN = 64, TLS_PIECE = 64 << 10 }; /* TURN: steps before others have theirs */

/* ---- from a file ---- */

typedef struct {
    uv_work_t work;
    pipe_t *pipe;
    item_t *item;
    int error;
} reading_t;

static void reading_run(uv_work_t *work) {
    reading_t *r = work->data;
    const bulk_bytes_t *from = &r->item->from;
    for (size_t at = 0; at < from->size && r->error == 0;) {
        ssize_t n =
            pread(from->fd, r->item->read + at, from->size - at, (off_t)(from->offset + at));
        if (n > 0)
            at += (size_t)n;
        else if (n == 0)
            r->error = EIO;
        else if (errno != EINTR)
            r->error = errno;
    }
}

static void reading_done(uv_work_t *work, int status) {
    (void)status;
    reading_t *r = work->data;
    pipe_t *pipe = r->pipe;
    item_t *item = r->item;
    pipe->is_reading = false;
    bool is_good = r->error == 0;
    free(r);
    if (is_good && pipe->state != PIPE_ENDED) {
        item->from.bytes = item->read;
        bulk_pipe_touch(pipe);
    } else {
        pipe->serving = NULL;
        bulk_answer(pipe->bulk, item); /* it is not sent: its reader asks elsewhere */
    }
    if (pipe->state == PIPE_ENDED)
        bulk_pipe_close(pipe);
    else
        bulk_out_go(pipe);
}

/* False: it can't be read. */
static bool reading_begin(pipe_t *pipe, item_t *item) {
    reading_t *r = calloc(1, sizeof *r);
    item->read = malloc(item->from.size);
    if (r == NULL || item->read == NULL) {
        free(r);
        return false;
    }
    *r = (reading_t){.pipe = pipe, .item = item};
    r->work.data = r;
    pipe->is_reading = uv_queue_work(&pipe->bulk->loop, &r->work, reading_run, reading_done) == 0;
    if (!pipe->is_reading) free(r);
    return pipe->is_reading;
}

/* ---- one chunk ---- */

/* Its head, with the tag. */
static bool head_say(pipe_t *pipe) {
    const item_t *item = pipe->serving;
    uint8_t head[CHUNK_HEAD];
    chunk_hash_begin(pipe->hash, &pipe->key);
    if (item->from.size > 0) chunk_hash_add(pipe->hash, item->from.bytes, item->from.size);
    mob_status_t status =
        chunk_head_write(&pipe->key, &item->chunk, item->from.size, pipe->hash, head);
    if (status == MOB_OK) status = bulk_pipe_say(pipe, head, sizeof head);
    if (status != MOB_OK) bulk_pipe_end(pipe, status);
    pipe->is_told = true;
    return status == MOB_OK;
}

/* Bytes of the chunk, as many as the kernel takes. */
static ssize_t body_send(pipe_t *pipe) {
    const item_t *item = pipe->serving;
    size_t left = item->from.size - pipe->served;
    if (item->read != NULL) return send(pipe->fd, item->read + pipe->served, left, MSG_NOSIGNAL);
    off_t at = (off_t)(item->from.offset + pipe->served);
    return sendfile(pipe->fd, item->from.fd, &at, left);
}

static mob_status_t body_seal(pipe_t *pipe) {
    size_t left = pipe->serving->from.size - pipe->served;
    size_t size = left < TLS_PIECE ? left : TLS_PIECE;
    mob_status_t status = bulk_pipe_say(pipe, pipe->serving->from.bytes + pipe->served, size);
    if (status == MOB_OK) pipe->served += size;
    return status;
}

/* False: the kernel takes no more now, or the connection has ended. */
static bool body_go(pipe_t *pipe) {
    if (pipe->tls != NULL) {
        mob_status_t status = body_seal(pipe);
        if (status != MOB_OK) bulk_pipe_end(pipe, status);
        return status == MOB_OK;
    }
    ssize_t n = body_send(pipe);
    if (n > 0) {
        pipe->served += (size_t)n;
        bulk_pipe_touch(pipe);
    } else if (n == 0) {
        bulk_pipe_end(pipe, base_fail(MOB_ESYS, "a value has fewer bytes than it should"));
    } else if (errno != EAGAIN && errno != EINTR) {
        bulk_pipe_end(pipe, base_fail(MOB_ESYS, "%s: %s", pipe->address, strerror(errno)));
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

/* The next of the line; one in a file is read first, and one that can't be is answered. */
static void next_take(pipe_t *pipe) {
    item_t *item;
    while (pipe->serving == NULL && (item = bulk_items_take(&pipe->line)) != NULL) {
        pipe->served = 0;
        pipe->is_told = false;
        bool is_mapped = item->from.bytes != NULL || item->from.size == 0;
        if (is_mapped || reading_begin(pipe, item))
            pipe->serving = item;
        else
            bulk_answer(pipe->bulk, item);
    }
}

/* ---- a connection ---- */

/* A receiver says nothing; but its end is seen here. */
static void strays_read(pipe_t *pipe) {
    uint8_t stray[64];
    if (bulk_pipe_read(pipe, stray, sizeof stray) > 0)
        bulk_pipe_end(
            pipe, base_fail(MOB_EPROTO, "%s speaks where it should only listen", pipe->address));
}

/* False: nothing can be done now. */
static bool step(pipe_t *pipe) {
    if (!bulk_pipe_flush(pipe)) return false;
    next_take(pipe);
    item_t *item = pipe->serving;
    if (item == NULL || pipe->is_reading) return false;
    if (!pipe->is_told) return head_say(pipe);
    if (pipe->served < item->from.size) return body_go(pipe);
    pipe->serving = NULL;
    bulk_answer(pipe->bulk, item);
    return true;
}

void bulk_out_go(pipe_t *pipe) {
    pipe->taken = 0;
    strays_read(pipe);
    for (int i = 0; i < TURN && pipe->state == PIPE_UP && step(pipe); i++) {
    }
    bulk_pipe_watch(pipe, bulk_out_is_busy(pipe));
}

bool bulk_out_is_busy(const pipe_t *pipe) {
    if (!pipe->is_out) return pipe->out_at < pipe->out_size;
    return !pipe->is_reading &&
           (pipe->out_at < pipe->out_size || pipe->serving != NULL || pipe->line.first != NULL);
}

void bulk_out_ended(pipe_t *pipe) {
    bulk_t *bulk = pipe->bulk;
    peer_t *peer = base_map_get(&bulk->peers, &pipe->peer);
    if (peer != NULL && peer->out == pipe) peer->out = NULL;
    if (pipe->serving != NULL && !pipe->is_reading) bulk_answer(bulk, pipe->serving);
    item_t *item;
    while ((item = bulk_items_take(&pipe->line)) != NULL) bulk_answer(bulk, item);
}

/* A connection to the peer, there or on its way; NULL: none can be had, with words. */
static pipe_t *pipe_to(bulk_t *bulk, uint64_t node) {
    peer_t *peer = base_map_get(&bulk->peers, &node);
    if (peer == NULL) {
        (void)base_fail(MOB_ESTALE, "the node is not known here");
        return NULL;
    }
    if (peer->out == NULL) peer->out = bulk_dial(bulk, peer);
    return peer->out;
}

void bulk_out_add(bulk_t *bulk, item_t *item) {
    pipe_t *pipe = pipe_to(bulk, item->peer);
    if (pipe == NULL) {
        bulk_trouble(bulk, item->peer, MOB_ESYS);
        bulk_answer(bulk, item);
        return;
    }
    if (!bulk_out_is_busy(pipe)) bulk_pipe_touch(pipe);
    bulk_items_add(&pipe->line, item);
    if (pipe->state == PIPE_UP) bulk_out_go(pipe);
}
