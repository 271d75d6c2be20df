/*
 * Back from disk into memory, when somebody asks.
 *
 * The value gets a block of the daemon's own; a thread of libuv's reads it there and checks it;
 * then the slot says where it lies, and it is AWAY no longer. The asker pinned it before it asked,
 * so it stays. The copy on disk stays good too, as long as the object lives: if it has to go again,
 * nothing is written.
 *
 * A file that is gone, or does not have what was written: the value is gone, and is made again if
 * that can be done (node/remake.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "node/cluster/pulling.h"
#include "node/space/restore.h"
#include "node/state.h"

typedef struct {
    uv_work_t work;
    node_t *node;
    char *path;
    store_spill_item_t item;
    bool cold;   /* the block's pages are new to us */
    bool cached; /* it is read through the page cache */
    int error;
} read_t;

void node_restore_tell(node_t *n, node_object_t *o, mob_status_t status) {
    for (size_t i = 0; i < o->askers.count; i++) {
        node_client_t *c = n->clients[o->askers.items[i]];
        if (c != NULL)
            node_client_tell(
                c, (wire_message_t){.restored = {WIRE_RESTORED, .slot = o->slot,
                                                 .generation = o->generation, .status = status}});
        node_number_unname(n, o->askers.items[i]);
    }
    o->askers.count = 0;
}

static void read_run(uv_work_t *work) {
    read_t *r = work->data;
    if (r->cold) base_map(r->node->arena.base + r->item.block, r->item.bytes, 0);
    r->error =
        store_spill_read(r->path, r->cached, r->node->incarnation, r->node->arena.base, &r->item);
}

static void copy_lose(node_t *n, node_object_t *o, const read_t *r) {
    free(o->lost);
    if (asprintf(
            &o->lost, "the object was moved to disk, to %s, and can't be read back: %s", r->path,
            r->error == EBADMSG ? "the file is not as it was written" : strerror(r->error)) < 0)
        o->lost = NULL;
    if (o->lineage != NULL) node_failure_lost(n, o);
    node_copy_drop(n, o);
    if (!node_pulling_lost(n, o)) node_remake_want(n, o);
}

static void read_done(uv_work_t *work, int status) {
    (void)status;
    read_t *r = work->data;
    node_t *n = r->node;
    node_object_t *o = n->objects[r->item.slot];
    node_extent_backed(n, 0, r->item.block);
    bool here = o != NULL && o->generation == r->item.generation && o->moving, good = r->error == 0;
    if (here && !good && node_spare_read(o, n->arena.base + r->item.block, r->item.bytes)) {
        node_copy_drop(n, o); /* which is no good */
        good = true;
    }
    if (!here || !good)
        shm_heap_free(&n->heap, r->item.block, shm_tag(false, r->item.slot, r->item.generation));
    if (here) {
        o->moving = false;
        store_slot_t *slot = &n->slots[o->slot];
        if (good) {
            slot->value.large.block = r->item.block;
            atomic_store_explicit(&slot->value.large.used_ms, base_clock_coarse_ms(),
                                  memory_order_relaxed);
            store_slot_return(slot);
            node_restore_tell(n, o, MOB_OK);
        } else if (r->error == ENOMEM || r->error == EMFILE || r->error == ENFILE) {
            node_restore_tell(n, o, MOB_ENOMEM); /* it may be read another time */
        } else {
            copy_lose(n, o, r);
        }
        node_object_settle(n, o);
    }
    free(r->path);
    free(r);
    node_space_serve(n);
}

bool node_restore_begin(node_t *n, node_object_t *o) {
    if (o->copy == NULL) return node_pulling_space(n, o);
    uint64_t block, tag = shm_tag(false, o->slot, o->generation);
    read_t *r = calloc(1, sizeof *r);
    char *path = strdup(o->copy->file->path);
    if (r == NULL || path == NULL ||
        shm_heap_alloc(&n->heap, o->copy->item.bytes, tag, &block) != MOB_OK) {
        free(r);
        free(path);
        return false;
    }
    *r = (read_t){
        .node = n, .path = path, .item = o->copy->item, .cached = node_cache_reads(n, o->copy)};
    r->item.block = block;
    r->cold = r->item.bytes > SHM_HEAP_SMALL && shm_heap_cold(&n->heap, block);
    r->work.data = r;
    if (uv_queue_work(&n->loop, &r->work, read_run, read_done) != 0) {
        node_extent_backed(n, 0, block);
        shm_heap_free(&n->heap, block, tag);
        free(r);
        free(path);
        return false;
    }
    o->moving = true;
    return true;
}

void node_restore(node_client_t *client, mob_ref_t ref, bool waits, bool goes_on) {
    node_t *n = client->node;
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL || !node_object_is_away(n, o)) {
        if (waits)
            node_client_tell(client, (wire_message_t){.restored = {WIRE_RESTORED, .slot = ref.slot,
                                                                   .generation = ref.generation,
                                                                   .status = MOB_OK}});
        return;
    }
    bool known = false;
    for (size_t i = 0; i < o->askers.count; i++) known |= o->askers.items[i] == client->number;
    if (waits && !known) {
        if (!vec_push(&o->askers, (uint16_t)client->number)) {
            node_client_tell(client, (wire_message_t){.restored = {WIRE_RESTORED, .slot = ref.slot,
                                                                   .generation = ref.generation,
                                                                   .status = MOB_ENOMEM}});
            return;
        }
        node_number_name(n, client->number);
    }
    if (o->copy == NULL && node_pulling_want(n, o, waits)) return;
    if (o->copy == NULL && waits) node_remake_want(n, o);
    if (o->copy == NULL || o->moving) return;
    /* Who waits in line for space is not overtaken by what is merely needed soon. */
    if ((n->space.wants.count == 0 || waits) && node_restore_begin(n, o)) return;
    uint64_t size = shm_heap_extent_for(o->copy->item.bytes);
    if (waits) node_space_want(n, 0, size, size, ref, goes_on);
}

void node_restore_own(node_t *n, node_object_t *o) {
    if (o->moving || o->copy == NULL || node_restore_begin(n, o)) return;
    uint64_t extent = shm_heap_extent_for(o->copy->item.bytes);
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    node_space_want(n, 0, extent, extent, ref, true);
}

void node_restore_refuse(node_t *n, mob_ref_t ref, mob_status_t status) {
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL) return;
    node_pulling_refused(n, o, status);
    node_restore_tell(n, o, status);
}
