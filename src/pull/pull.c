/*
 * The room as a whole: its messages, and what all its parts are told. What this node says to itself
 * (it is an object's home and its receiver) lies in a list until the end of a call, so no part is
 * called from within another one's decision.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pull/state.h"

/* ---- beginning and end ---- */

static void rings_init(pull_t *pull) {
    ring_t *rings[] = {&pull->edges, &pull->active, &pull->patience, &pull->cache, &pull->primaries,
                       &pull->all,   &pull->notes,  &pull->sent,     &pull->looks};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) ring_init(rings[i]);
    for (int i = 0; i < PULL_CLASSES; i++) ring_init(&pull->lines[i]);
}

mob_status_t pull_new(const pull_ops_t *ops, void *context, uint64_t self, pull_t **ret_pull) {
    pull_t *pull = calloc(1, sizeof *pull);
    if (pull == NULL) return MOB_ENOMEM;
    pull->ops = ops;
    pull->context = context;
    pull->self = self;
    rings_init(pull);
    base_map_init(&pull->peers, sizeof(uint64_t));
    base_map_init(&pull->copies, PULL_ID_SIZE);
    base_map_init(&pull->books, PULL_ID_SIZE);
    base_map_init(&pull->sites, PULL_ID_SIZE + sizeof(uint64_t));
    base_map_init(&pull->readings, 2 * sizeof(uint64_t));
    if (!pull_loop_reserve(pull, 0)) {
        pull_free(pull);
        return MOB_ENOMEM;
    }
    *ret_pull = pull;
    return MOB_OK;
}

static void values_free(base_map_t *map) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(map, &cursor, &key, &value)) free(value);
    base_map_fini(map);
}

void pull_free(pull_t *pull) {
    if (pull == NULL) return;
    RING_EACH(link, &pull->all) free(RING_OF(link, pull_want_t, of_pull));
    pull_copy_free_all(pull);
    pull_afterlife_free(pull); /* what outlives its copy */
    base_map_fini(&pull->copies);
    base_map_fini(&pull->readings);
    values_free(&pull->sites);
    values_free(&pull->books);
    values_free(&pull->peers);
    vec_free(&pull->loop);
    free(pull);
}

peer_t *pull_peer(pull_t *pull, uint64_t node) {
    peer_t *peer = base_map_get(&pull->peers, &node);
    if (peer != NULL) return peer;
    peer = calloc(1, sizeof *peer);
    if (peer == NULL || !base_map_put(&pull->peers, &node, peer)) {
        free(peer);
        return NULL;
    }
    peer->node = node;
    ring_init(&peer->sites);
    ring_init(&peer->readings);
    return peer;
}

bool pull_is_dead(const pull_t *pull, uint64_t node) {
    const peer_t *peer = base_map_get(&pull->peers, &node);
    return peer != NULL && peer->is_dead;
}

uint32_t pull_chunks(uint64_t size) { return (uint32_t)((size + PULL_CHUNK - 1) / PULL_CHUNK); }

/* ---- messages ---- */

bool pull_loop_reserve(pull_t *pull, size_t items) {
    size_t needed = LOOP_MIN + LOOP_ITEM * (pull->items + items);
    return base_vec_grow((void **)&pull->loop.items, needed, &pull->loop.capacity,
                         sizeof *pull->loop.items);
}

static void loop_push(pull_t *pull, const pull_message_t *m) {
    if (pull->loop.count == pull->loop.capacity && pull->loop_first > 0) {
        pull->loop.count -= pull->loop_first;
        memmove(pull->loop.items, pull->loop.items + pull->loop_first,
                pull->loop.count * sizeof *m);
        pull->loop_first = 0;
    }
    assert(pull->loop.count < pull->loop.capacity);
    pull->loop.items[pull->loop.count++] = *m;
}

static bool is_answer(pull_kind_t kind) {
    return kind == PULL_DESCRIBED || kind == PULL_SOURCE || kind == PULL_UNMADE ||
           kind == PULL_GONE || kind == PULL_NOT_HERE || kind == PULL_KEPT || kind == PULL_CLOSE;
}

void pull_send(pull_t *pull, uint64_t peer, const pull_message_t *m) {
    if (peer == pull->self) {
        loop_push(pull, m);
        return;
    }
    uint8_t bytes[PULL_MESSAGE_MAX];
    size_t size = pull_message_write(m, bytes);
    pull->ops->send(pull->context, peer, bytes, size, is_answer(m->kind));
}

/* What is said to a home is for this one's objects. */
static bool is_for_home(const pull_t *pull, const pull_message_t *m) {
    return m->id.home == pull->self;
}

/* MOB_EPROTO: another node's object. */
static mob_status_t home_read(pull_t *pull, peer_t *from, const pull_message_t *m) {
    if (!is_for_home(pull, m)) return MOB_EPROTO;
    switch (m->kind) {
    case PULL_DESCRIBE:
        return pull_source_describe(pull, from, m);
    case PULL_ASK:
        return pull_source_ask(pull, from, m);
    case PULL_PROGRESS:
        pull_source_progress(pull, from->node, m);
        return MOB_OK;
    case PULL_GAVE_UP:
        pull_source_gave_up(pull, from->node, m);
        return MOB_OK;
    default:
        pull_primary_kept(pull, from->node, m);
        return MOB_OK;
    }
}

static mob_status_t message_read(pull_t *pull, peer_t *from, const pull_message_t *m) {
    switch (m->kind) {
    case PULL_DESCRIBED:
        pull_described(pull, from->node, m);
        return MOB_OK;
    case PULL_SOURCE:
        pull_transfer_source(pull, from->node, m);
        return MOB_OK;
    case PULL_UNMADE:
        pull_transfer_unmade(pull, from->node, m);
        return MOB_OK;
    case PULL_GONE:
        pull_gone(pull, from->node, m);
        return MOB_OK;
    case PULL_FETCH:
        return pull_serve_fetch(pull, from, m);
    case PULL_NOT_HERE:
        pull_transfer_not_here(pull, from->node, m);
        return MOB_OK;
    case PULL_CLOSE:
        pull_serve_close(pull, from->node, m);
        return MOB_OK;
    case PULL_KEEP:
        pull_copy_keep(pull, from->node, m);
        return MOB_OK;
    case PULL_RELEASE:
        pull_copy_release(pull, from->node, m);
        return MOB_OK;
    default:
        return home_read(pull, from, m);
    }
}

void pull_drain(pull_t *pull) {
    while (pull->loop_first < pull->loop.count) {
        pull_message_t m = pull->loop.items[pull->loop_first++];
        /* Its peer and its books are there, so nothing needs memory. */
        mob_status_t status = message_read(pull, pull_peer(pull, pull->self), &m);
        assert(status == MOB_OK);
        (void)status;
    }
    pull->loop.count = pull->loop_first = 0;
}

void pull_settle(pull_t *pull) {
    do {
        pull_drain(pull);
        pull_admit(pull);
    } while (pull->loop.count > 0);
}

mob_status_t pull_receive(pull_t *pull, uint64_t peer, const void *bytes, size_t size,
                          uint64_t now_ns) {
    pull->now_ns = now_ns;
    pull_message_t m;
    if (!pull_message_read(bytes, size, &m) || peer == pull->self) return MOB_EPROTO;
    peer_t *from = pull_peer(pull, peer);
    if (from == NULL) return MOB_ENOMEM;
    if (from->is_dead) return MOB_OK;
    mob_status_t status = message_read(pull, from, &m);
    pull_settle(pull);
    return status;
}

/* ---- deaths, and time ---- */

mob_status_t pull_died(pull_t *pull, uint64_t node, uint64_t now_ns) {
    pull->now_ns = now_ns;
    peer_t *peer = pull_peer(pull, node);
    if (peer == NULL) return MOB_ENOMEM;
    if (peer->is_dead) return MOB_OK;
    peer->is_dead = true;
    pull_source_died(pull, peer);
    pull_serve_died(pull, peer);
    pull_afterlife_died(pull, node);
    pull_transfer_died(pull, node);
    pull_strike(pull, node);
    pull_settle(pull);
    return MOB_OK;
}

void pull_tick(pull_t *pull, uint64_t now_ns) {
    pull->now_ns = now_ns;
    pull_source_tick(pull);
    pull_transfer_tick(pull);
    pull_admission_tick(pull);
    pull_afterlife_tick(pull);
    pull_settle(pull);
}

void pull_memory_set(pull_t *pull, uint64_t bytes, uint64_t now_ns) {
    pull->now_ns = now_ns;
    pull->capacity = bytes;
    pull_copy_evict(pull, 0);
    pull->may_admit = true;
    pull_settle(pull);
}
