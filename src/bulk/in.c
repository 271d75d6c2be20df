/*
 * Chunks that come: each into the memory that was named for it, straight from the socket, and its
 * hash is made on the way, while the bytes are in the cache. A chunk that nobody waits for (any
 * more) is read and thrown away: who let go of it has done nothing wrong, and nor has the source.
 *
 * A head is believed in one thing before its tag was checked: where the bytes go. That place is
 * one that was named for this peer, ticket, chunk and version, and what is there counts for nothing
 * before the tag has fitted. So the worst that garbage does is to spoil a chunk that has not come.
 */
#include <stdlib.h>

#include "base/copy.h"
#include "bulk/state.h"

bool bulk_in_is_busy(const pipe_t *pipe) { return !pipe->is_out && pipe->head_size > 0; }

/* ---- for whom ---- */

static bool is_meant(const item_t *fetch, const pipe_t *pipe) {
    const bulk_chunk_t *a = &fetch->chunk, *b = &pipe->chunk;
    return fetch->peer == pipe->peer && a->ticket == b->ticket && a->chunk == b->chunk &&
           a->version == b->version && a->id.home == b->id.home && a->id.number == b->id.number &&
           a->id.generation == b->id.generation && pipe->size <= fetch->to.capacity;
}

/* Takes the fetch out; NULL: nobody waits for this chunk. */
static item_t *fetch_take(pipe_t *pipe) {
    items_t *all = &pipe->bulk->fetches, left = {0};
    item_t *item, *found = NULL;
    while ((item = bulk_items_take(all)) != NULL) {
        if (found == NULL && is_meant(item, pipe))
            found = item;
        else
            bulk_items_add(&left, item);
    }
    *all = left;
    return found;
}

void bulk_in_let_go(bulk_t *bulk, uint64_t ticket) {
    items_t left = {0};
    item_t *item;
    while ((item = bulk_items_take(&bulk->fetches)) != NULL) {
        if (item->chunk.ticket == ticket)
            bulk_item_free(item);
        else
            bulk_items_add(&left, item);
    }
    bulk->fetches = left;
    for (pipe_t *pipe = bulk->pipes; pipe != NULL; pipe = pipe->next) {
        if (pipe->into == NULL || pipe->into->chunk.ticket != ticket) continue;
        bulk_item_free(pipe->into);
        pipe->into = NULL;
    }
}

/* ---- one chunk ---- */

static mob_status_t head_take(pipe_t *pipe) {
    if (!chunk_head_read(pipe->head, &pipe->chunk, &pipe->size))
        return base_fail(MOB_EPROTO, "%s sent a chunk of %zu bytes, and the most is %d",
                         pipe->address, pipe->size, BULK_CHUNK);
    bulk_requests_read(pipe->bulk);
    if (pipe->state == PIPE_ENDED) return MOB_OK;
    pipe->got = 0;
    pipe->into = fetch_take(pipe);
    if (pipe->into != NULL && pipe->into->to.is_cold) base_map(pipe->into->to.at, pipe->size, 0);
    chunk_hash_begin(pipe->hash, &pipe->key);
    return MOB_OK;
}

/* All bytes are here. */
static mob_status_t chunk_end(pipe_t *pipe) {
    mob_status_t status = chunk_check(&pipe->key, pipe->head, pipe->hash);
    item_t *item = pipe->into;
    pipe->into = NULL;
    pipe->head_size = 0;
    if (item == NULL) return status;
    item->chunk = pipe->chunk;
    item->size = pipe->size;
    item->is_whole = status == MOB_OK;
    bulk_answer(pipe->bulk, item);
    return status;
}

/* Where the next bytes go, and how many at the most. */
static uint8_t *place(pipe_t *pipe, size_t *ret_size) {
    if (pipe->head_size < CHUNK_HEAD) {
        *ret_size = CHUNK_HEAD - pipe->head_size;
        return pipe->head + pipe->head_size;
    }
    size_t left = pipe->size - pipe->got, most = pipe->into != NULL ? PIECE : SCRATCH;
    *ret_size = left < most ? left : most;
    return pipe->into != NULL ? pipe->into->to.at + pipe->got : pipe->bulk->scratch;
}

static mob_status_t taken(pipe_t *pipe, const uint8_t *at, size_t n) {
    mob_status_t status = MOB_OK;
    if (pipe->head_size < CHUNK_HEAD) {
        pipe->head_size += n;
        if (pipe->head_size < CHUNK_HEAD) return MOB_OK;
        status = head_take(pipe);
    } else {
        chunk_hash_add(pipe->hash, at, n);
        pipe->got += n;
    }
    bool is_all = status == MOB_OK && pipe->state == PIPE_UP && pipe->got == pipe->size;
    return is_all ? chunk_end(pipe) : status;
}

/* ---- a connection ---- */

void bulk_in_go(pipe_t *pipe) {
    /* What TLS has taken from the socket wakes nobody: all of it is read, and no more taken. */
    pipe->taken = 0;
    while (pipe->state == PIPE_UP && (pipe->taken < BULK_TURN || pipe->tls != NULL)) {
        size_t size;
        uint8_t *at = place(pipe, &size);
        size_t n = bulk_pipe_read(pipe, at, size);
        if (n == 0) break;
        mob_status_t status = taken(pipe, at, n);
        if (status != MOB_OK) bulk_pipe_end(pipe, status);
    }
    if (pipe->state == PIPE_UP) bulk_pipe_watch(pipe, !bulk_pipe_flush(pipe));
}

void bulk_in_ended(pipe_t *pipe) {
    bulk_item_free(pipe->into);
    pipe->into = NULL;
}

/* A node sends over one connection at a time: a new one means that the last has ended there. */
static void older_end(bulk_t *bulk, uint64_t peer) {
    for (pipe_t *pipe = bulk->pipes, *next; pipe != NULL; pipe = next) {
        next = pipe->next;
        if (!pipe->is_out && pipe->peer == peer) bulk_pipe_end(pipe, MOB_OK);
    }
}

void bulk_in_accept(bulk_t *bulk, item_t *item) {
    net_handover_t *h = &item->handover;
    older_end(bulk, item->peer);
    pipe_t *pipe = bulk_pipe_new(bulk, h->fd, false, item->peer, h->address);
    h->fd = -1;
    if (pipe == NULL) return;
    pipe->tls = h->tls;
    h->tls = NULL;
    pipe->state = PIPE_UP;
    mob_status_t status = chunk_key_init(&pipe->key, h->keys[0]);
    if (status != MOB_OK) bulk_pipe_end(pipe, status);
    bulk_pipe_watch(pipe, false); /* nothing is read here: requests behind this one come first */
}
