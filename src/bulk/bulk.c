/*
 * The two threads, and what they say to each other: lists under a mutex, each with a uv_async that
 * wakes the one who reads it. A request's memory is that of its answer.
 *
 * The thread reads its requests whenever it is woken, and once more before it says that nobody
 * wants a chunk that has come: the fetch was asked for before the source was, so it is there.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bulk/state.h"

enum { LOOK_MS = 1000 };

/* ---- lists ---- */

void bulk_items_add(items_t *items, item_t *item) {
    item->next = NULL;
    *(items->last != NULL ? &items->last->next : &items->first) = item;
    items->last = item;
}

item_t *bulk_items_take(items_t *items) {
    item_t *item = items->first;
    if (item == NULL) return NULL;
    items->first = item->next;
    if (items->first == NULL) items->last = NULL;
    return item;
}

void bulk_item_free(item_t *item) {
    if (item == NULL) return;
    if (item->kind == ITEM_ACCEPT) net_handover_fini(&item->handover);
    free(item->read);
    free(item);
}

static void items_free(items_t *items) {
    item_t *item;
    while ((item = bulk_items_take(items)) != NULL) bulk_item_free(item);
}

/* ---- the owner's side ---- */

static item_t *item_new(item_kind_t kind, uint64_t peer) {
    item_t *item = calloc(1, sizeof *item);
    if (item != NULL) *item = (item_t){.kind = kind, .peer = peer, .handover = {.fd = -1}};
    return item;
}

static mob_status_t request(bulk_t *bulk, item_t *item) {
    if (item == NULL) return MOB_ENOMEM;
    uv_mutex_lock(&bulk->mutex);
    bulk_items_add(&bulk->requests, item);
    uv_mutex_unlock(&bulk->mutex);
    uv_async_send(&bulk->asked);
    return MOB_OK;
}

mob_status_t bulk_peer(bulk_t *bulk, uint64_t peer, const char *address, uint16_t port) {
    item_t *item = item_new(ITEM_PEER, peer);
    if (item == NULL) return MOB_ENOMEM;
    snprintf(item->words, sizeof item->words, "%s", address);
    item->port = port;
    return request(bulk, item);
}

mob_status_t bulk_peer_died(bulk_t *bulk, uint64_t peer) {
    return request(bulk, item_new(ITEM_DIED, peer));
}

mob_status_t bulk_accept(bulk_t *bulk, net_handover_t *handover) {
    item_t *item = item_new(ITEM_ACCEPT, handover->peer.incarnation);
    if (item == NULL) {
        net_handover_fini(handover);
        return MOB_ENOMEM;
    }
    item->handover = *handover;
    explicit_bzero(handover, sizeof *handover);
    handover->fd = -1;
    return request(bulk, item);
}

mob_status_t bulk_fetch(bulk_t *bulk, uint64_t source, const bulk_chunk_t *chunk, uint8_t *to,
                        size_t capacity, bool is_cold) {
    item_t *item = item_new(ITEM_FETCH, source);
    if (item == NULL) return MOB_ENOMEM;
    item->chunk = *chunk;
    item->to.at = to;
    item->to.capacity = capacity;
    item->to.is_cold = is_cold;
    return request(bulk, item);
}

mob_status_t bulk_let_go(bulk_t *bulk, uint64_t ticket, const frame_id_t *id) {
    item_t *item = item_new(ITEM_LET_GO, 0);
    if (item == NULL) return MOB_ENOMEM;
    item->chunk.ticket = ticket;
    item->chunk.id = *id;
    return request(bulk, item);
}

mob_status_t bulk_serve(bulk_t *bulk, uint64_t reader, const bulk_chunk_t *chunk,
                        const bulk_bytes_t *from) {
    item_t *item = item_new(ITEM_SERVE, reader);
    if (item == NULL) return MOB_ENOMEM;
    item->chunk = *chunk;
    item->from = *from;
    return request(bulk, item);
}

static void answer_tell(bulk_t *bulk, const item_t *item) {
    const bulk_ops_t *ops = bulk->ops;
    if (item->kind == ITEM_FETCH)
        ops->came(bulk->context, &item->chunk, item->size, item->is_whole);
    else if (item->kind == ITEM_LET_GO)
        ops->let_go(bulk->context, item->chunk.ticket, &item->chunk.id);
    else if (item->kind == ITEM_SERVE)
        ops->served(bulk->context, item->peer, &item->chunk);
    else
        ops->trouble(bulk->context, item->peer, item->status, item->words);
}

static void on_answered(uv_async_t *async) {
    bulk_t *bulk = async->data;
    uv_mutex_lock(&bulk->mutex);
    items_t answers = bulk->answers;
    bulk->answers = (items_t){0};
    uv_mutex_unlock(&bulk->mutex);
    item_t *item;
    while ((item = bulk_items_take(&answers)) != NULL) {
        answer_tell(bulk, item);
        bulk_item_free(item);
    }
}

/* ---- the thread's side ---- */

void bulk_answer(bulk_t *bulk, item_t *item) {
    uv_mutex_lock(&bulk->mutex);
    bulk_items_add(&bulk->answers, item);
    uv_mutex_unlock(&bulk->mutex);
    uv_async_send(&bulk->answered);
}

void bulk_trouble(bulk_t *bulk, uint64_t peer, mob_status_t status) {
    item_t *item = item_new(ITEM_TROUBLE, peer);
    if (item == NULL) return;
    item->status = status;
    snprintf(item->words, sizeof item->words, "%s",
             *mob_last_error() ? mob_last_error() : mob_status_text(status));
    bulk_answer(bulk, item);
}

static void peer_note(bulk_t *bulk, const item_t *item) {
    peer_t *peer = base_map_get(&bulk->peers, &item->peer);
    if (peer == NULL) {
        peer = calloc(1, sizeof *peer);
        if (peer == NULL || !base_map_put(&bulk->peers, &item->peer, peer)) {
            free(peer); /* it can't be served, and its readings find other sources */
            return;
        }
    }
    peer->node = item->peer;
    peer->port = item->port;
    snprintf(peer->address, sizeof peer->address, "%.63s", item->words);
}

static void peer_died(bulk_t *bulk, uint64_t node) {
    for (pipe_t *pipe = bulk->pipes, *next; pipe != NULL; pipe = next) {
        next = pipe->next;
        if (pipe->peer == node) bulk_pipe_end(pipe, MOB_OK);
    }
    free(base_map_remove(&bulk->peers, &node));
}

static void loop_end(bulk_t *bulk) {
    bulk->is_closing = true;
    while (bulk->pipes != NULL) bulk_pipe_end(bulk->pipes, MOB_OK);
    uv_close((uv_handle_t *)&bulk->asked, NULL);
    uv_close((uv_handle_t *)&bulk->limit, NULL);
}

/* Takes the item, if it is no fetch and nothing to be served. */
static void request_take(bulk_t *bulk, item_t *item) {
    switch (item->kind) {
    case ITEM_FETCH:
        bulk_items_add(&bulk->fetches, item);
        return;
    case ITEM_SERVE:
        bulk_out_add(bulk, item);
        return;
    case ITEM_LET_GO:
        bulk_in_let_go(bulk, item->chunk.ticket);
        bulk_answer(bulk, item);
        return;
    case ITEM_PEER:
        peer_note(bulk, item);
        break;
    case ITEM_DIED:
        peer_died(bulk, item->peer);
        break;
    case ITEM_ACCEPT:
        bulk_in_accept(bulk, item);
        break;
    default:
        loop_end(bulk);
    }
    bulk_item_free(item);
}

void bulk_requests_read(bulk_t *bulk) {
    uv_mutex_lock(&bulk->mutex);
    items_t requests = bulk->requests;
    bulk->requests = (items_t){0};
    uv_mutex_unlock(&bulk->mutex);
    item_t *item;
    while (!bulk->is_closing && (item = bulk_items_take(&requests)) != NULL)
        request_take(bulk, item);
    items_free(&requests);
}

static void on_asked(uv_async_t *async) { bulk_requests_read(async->data); }

/* ---- time ---- */

static void on_limit(uv_timer_t *timer) {
    bulk_t *bulk = timer->data;
    bool is_busy = false;
    for (pipe_t *pipe = bulk->pipes, *next; pipe != NULL; pipe = next) {
        next = pipe->next;
        bool is_due = pipe->state != PIPE_UP || bulk_out_is_busy(pipe) || bulk_in_is_busy(pipe);
        is_busy |= is_due;
        if (is_due && bulk_now_ms() - pipe->touched_ms >= BULK_LIMIT_MS)
            bulk_pipe_end(pipe, base_fail(MOB_ETIMEOUT, "%s has moved no byte for %d s",
                                          pipe->address, BULK_LIMIT_MS / 1000));
    }
    if (!is_busy) uv_timer_stop(timer);
}

void bulk_limit_start(bulk_t *bulk) {
    if (!uv_is_active((uv_handle_t *)&bulk->limit))
        uv_timer_start(&bulk->limit, on_limit, LOOK_MS, LOOK_MS);
}

/* ---- beginning and end ---- */

static void on_thread(void *context) {
    bulk_t *bulk = context;
    pthread_setname_np(pthread_self(), "bulk");
    uv_run(&bulk->loop, UV_RUN_DEFAULT);
    uv_loop_close(&bulk->loop);
}

/* Signals are for the process's other threads. */
static int thread_start(bulk_t *bulk) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = uv_thread_create(&bulk->thread, on_thread, bulk);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void bulk_free(bulk_t *bulk) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&bulk->peers, &cursor, &key, &value)) free(value);
    base_map_fini(&bulk->peers);
    items_free(&bulk->requests);
    items_free(&bulk->answers);
    items_free(&bulk->fetches);
    uv_mutex_destroy(&bulk->mutex);
    free(bulk->scratch);
    explicit_bzero(bulk, sizeof *bulk);
    free(bulk);
}

static void on_closed(uv_handle_t *handle) { bulk_free(handle->data); }

/* Everything of the thread's but the thread. */
static int loop_init(bulk_t *bulk) {
    int error = uv_loop_init(&bulk->loop);
    if (error != 0) return error;
    uv_timer_init(&bulk->loop, &bulk->limit);
    error = uv_async_init(&bulk->loop, &bulk->asked, on_asked);
    if (error == 0) error = thread_start(bulk);
    if (error == 0) return 0;
    uv_close((uv_handle_t *)&bulk->limit, NULL);
    if (bulk->asked.loop != NULL) uv_close((uv_handle_t *)&bulk->asked, NULL);
    uv_run(&bulk->loop, UV_RUN_DEFAULT);
    uv_loop_close(&bulk->loop);
    return error;
}

mob_status_t bulk_open(uv_loop_t *loop, const bulk_config_t *config, const bulk_ops_t *ops,
                       void *context, bulk_t **ret_bulk) {
    bulk_t *bulk = calloc(1, sizeof *bulk);
    uint8_t *scratch = malloc(SCRATCH);
    if (bulk == NULL || scratch == NULL || uv_mutex_init(&bulk->mutex) != 0) {
        free(bulk);
        free(scratch);
        return MOB_ENOMEM;
    }
    bulk->ops = ops;
    bulk->context = context;
    bulk->secret = *config->secret;
    bulk->credentials = config->credentials;
    bulk->self = *config->self;
    bulk->scratch = scratch;
    bulk->asked.data = bulk->answered.data = bulk->limit.data = bulk;
    base_map_init(&bulk->peers, sizeof(uint64_t));
    int error = uv_async_init(loop, &bulk->answered, on_answered);
    if (error != 0) {
        bulk_free(bulk);
        return base_fail(MOB_ESYS, "making the bulk thread: %s", uv_strerror(error));
    }
    error = loop_init(bulk);
    if (error != 0) {
        uv_close((uv_handle_t *)&bulk->answered, on_closed);
        return base_fail(MOB_ESYS, "making the bulk thread: %s", uv_strerror(error));
    }
    *ret_bulk = bulk;
    return MOB_OK;
}

void bulk_close(bulk_t *bulk) {
    static const bulk_ops_t none;
    item_t *item = item_new(ITEM_CLOSE, 0);
    while (item == NULL) item = item_new(ITEM_CLOSE, 0); /* there is no other way to end it */
    (void)request(bulk, item);
    uv_thread_join(&bulk->thread);
    bulk->ops = &none;
    uv_close((uv_handle_t *)&bulk->answered, on_closed);
}
