/*
 * Values that other nodes read here: which ones can be read, and their chunks.
 *
 * A chunk goes from where it lies in the store, or from a value's own file. Chunks of a value that
 * was moved to disk are sent when it is back in memory, where its checksum was looked at. A copy
 * that comes itself is sent on as far as it has come.
 */
#include <stdlib.h>

#include "node/cluster/cluster.h"
#include "node/cluster/pulled.h"
#include "node/space/restore.h"
#include "node/state.h"
#include "node/value.h"

/* ---- chunks ---- */

typedef enum { SERVE_DONE, SERVE_WAITS, SERVE_NEVER } serve_t;

static serve_t serve_from(node_pulling_t *p, const node_serving_t *s, const node_elsewhere_t *what,
                          bulk_bytes_t from) {
    pull_copy_view_t view;
    if (!pull_copy_look(p->pull, &s->id, &view)) return SERVE_NEVER;
    bulk_chunk_t chunk = {
        .id = s->id,
        .ticket = s->ticket,
        .chunk = s->chunk,
        .version = view.version,
        .about = {what->bytes, node_pulled_about(what->format, what->error, what->ref_count)}};
    from.offset += node_pulled_offset(s->chunk);
    from.size = node_pulled_size_in(what->bytes, s->chunk);
    if (from.bytes != NULL) from.bytes += node_pulled_offset(s->chunk);
    mob_status_t status = bulk_serve(p->bulk, s->reader, &chunk, &from);
    return status == MOB_OK ? SERVE_DONE : SERVE_NEVER;
}

static bulk_bytes_t block_bytes(const node_t *n, uint64_t block) {
    return (bulk_bytes_t){.bytes = n->arena.base + block, .fd = n->arena.fd, .offset = block};
}

/* It is on disk: it comes back first. */
static serve_t restore(node_pulling_t *p, const node_serving_t *s, node_object_t *o) {
    node_t *n = p->node;
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    if (o->moving) return SERVE_WAITS;
    if (o->copy == NULL) { /* its file was damaged: what is made again may have other bytes */
        node_pulling_note(p, (node_todo_t){.kind = TODO_GONE, .id = s->id});
        return SERVE_NEVER;
    }
    if (node_restore_begin(n, o)) return SERVE_WAITS;
    uint64_t extent = shm_heap_extent_for(o->copy->item.bytes);
    node_space_want(n, 0, extent, extent, ref, true);
    return SERVE_WAITS;
}

static serve_t serve_try(node_pulling_t *p, const node_serving_t *s) {
    node_t *n = p->node;
    node_pulled_t *e = node_pulled_find(p, s->id);
    node_object_t *o = e != NULL ? node_object_known(n, e->ref) : NULL;
    node_elsewhere_t what;
    node_value_t value;
    if (o == NULL || !pull_is_read_by(p->pull, &s->id, s->reader, s->ticket)) return SERVE_NEVER;
    node_pulled_update(p, e); /* it stays from now on */
    if (e->state == PULLED_COMING || e->state == PULLED_SEALING)
        return o->elsewhere != NULL ? serve_from(p, s, o->elsewhere, block_bytes(n, e->block))
                                    : SERVE_NEVER;
    if (e->state == PULLED_NONE) return SERVE_NEVER;
    if (node_object_is_away(n, o)) return restore(p, s, o);
    if (!node_value_read(n, e->ref, &value)) return SERVE_NEVER;
    what = (node_elsewhere_t){.bytes = store_meta_size(value.meta),
                              .format = store_meta_format(value.meta),
                              .error = store_meta_error(value.meta),
                              .ref_count = value.ref_count};
    if (!store_meta_in_file(value.meta))
        return serve_from(p, s, &what, block_bytes(n, value.block));
    int fd = o->large != NULL ? node_large_fd(o->large) : -1;
    return fd < 0 ? SERVE_NEVER : serve_from(p, s, &what, (bulk_bytes_t){.fd = fd});
}

void node_pulled_serve(node_pulling_t *p, node_serving_t s) {
    serve_t done = serve_try(p, &s);
    if (done == SERVE_WAITS && !vec_push(&p->servings, s)) done = SERVE_NEVER;
    if (done == SERVE_WAITS) node_pulling_wake(p, false);
    if (done == SERVE_NEVER)
        node_pulling_note(
            p, (node_todo_t){.kind = TODO_SERVED, .reader = s.reader, .ticket = s.ticket});
}

void node_pulled_servings_settle(node_pulling_t *p) {
    size_t kept = 0, count = p->servings.count;
    for (size_t i = 0; i < count; i++) {
        node_serving_t s = p->servings.items[i];
        serve_t done = serve_try(p, &s);
        if (done == SERVE_WAITS) p->servings.items[kept++] = s;
        if (done == SERVE_NEVER)
            node_pulling_note(
                p, (node_todo_t){.kind = TODO_SERVED, .reader = s.reader, .ticket = s.ticket});
    }
    p->servings.count = kept;
}

/* ---- what was made here ---- */

uint64_t node_pulling_size(const node_t *n, mob_ref_t ref) {
    node_t *node = (node_t *)(uintptr_t)n;
    const store_slot_t *slot = &n->slots[ref.slot];
    const node_object_t *o = node_object_known(node, ref);
    node_value_t value;
    if (o == NULL) return 0;
    if (node_object_is_away(node, o)) {
        if (o->copy == NULL) return 0;
        return store_block_size(store_meta_size(slot->meta), slot->value.large.ref_count);
    }
    if (!node_value_read(node, ref, &value) || store_meta_inline(value.meta)) return 0;
    return store_block_size(store_meta_size(value.meta), value.ref_count);
}

mob_status_t node_pulled_offer(node_pulling_t *p, frame_id_t id) {
    node_t *n = p->node;
    mob_ref_t ref = node_proxy_find(n, id);
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL) return MOB_EINVAL;
    if (node_remake_if_gone(n, o)) {
        node_wanting_lost(p, id);
        return MOB_OK;
    }
    uint64_t size = node_pulling_size(n, ref);
    node_pulled_t *e = size > 0 ? node_pulled_get(p, id, ref) : NULL;
    if (e == NULL) return size > 0 ? MOB_ENOMEM : MOB_EINVAL;
    pull_object_view_t view = {0};
    (void)pull_object_look(p->pull, &id, &view);
    if (e->state == PULLED_NONE) e->state = PULLED_MADE;
    node_object_contents_hold(n, o);
    mob_status_t status =
        pull_object_add(p->pull, &id, view.version + 1, size, n->incarnation, node_pulling_now());
    if (status == MOB_EEXISTS) return MOB_OK;
    if (status != MOB_OK && e->state == PULLED_MADE) e->state = PULLED_NONE;
    node_pulled_update(p, e);
    return status;
}

mob_status_t node_pulling_made(node_cluster_t *c, frame_id_t id, uint32_t version, uint64_t size) {
    node_pulling_t *p = c->pulling;
    mob_ref_t ref = node_proxy_find(c->node, id);
    node_pulled_t *e = node_pulled_get(p, id, ref);
    if (e == NULL) return MOB_ENOMEM;
    mob_status_t status = pull_copy_made(p->pull, &id, version, size, node_pulling_now());
    if (status == MOB_OK) e->state = PULLED_MADE;
    node_pulled_update(p, e);
    node_pulling_wake(p, false);
    return status;
}

mob_status_t node_pulling_found(node_cluster_t *c, frame_id_t id, uint32_t version, uint64_t size,
                                uint64_t peer) {
    node_pulling_wake(c->pulling, false);
    return pull_object_add(c->pulling->pull, &id, version, size, peer, node_pulling_now());
}
