/*
 * Values, moved and written by the daemon.
 *
 * Why a move is safe: the slot `to` is read by nobody, for it is PENDING or AWAY. Who pinned an
 * AWAY one asks, and reads meta and block after AWAY has gone (release there, acquire in
 * client/get.c). The block's tag is changed by the daemon, while no other process can name the slot
 * `from`: its worker has sealed it, and has forgotten it.
 */
#include "node/value.h"

#include <stdlib.h>
#include <string.h>

#include "node/cluster/proxy.h"
#include "node/space/survey.h"
#include "node/state.h"

bool node_value_read(node_t *n, mob_ref_t ref, node_value_t *ret_value) {
    const store_slot_t *slot = &n->slots[ref.slot];
    uint64_t extent, tag = shm_tag(false, ref.slot, ref.generation);
    uint32_t units;
    if ((atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) != STORE_SEALED)
        return false;
    *ret_value = (node_value_t){.meta = slot->meta};
    memcpy(ret_value->small, slot->value.small, sizeof ret_value->small);
    uint64_t size = store_meta_size(ret_value->meta);
    if (store_meta_inline(ret_value->meta)) return size <= STORE_INLINE;
    ret_value->block = slot->value.large.block;
    ret_value->ref_count = slot->value.large.ref_count;
    if (store_meta_in_file(ret_value->meta)) {
        if (ret_value->ref_count == 0) return true;
        size = 0;
    }
    return size <= n->config.store_bytes &&
           node_survey_block(n, ret_value->block, tag, store_block_size(size, ret_value->ref_count),
                             &extent, &units);
}

const uint8_t *node_value_bytes(const node_t *n, const node_value_t *v) {
    return store_meta_inline(v->meta) ? v->small : n->arena.base + v->block;
}

static bool has_block(const node_value_t *v) {
    return !store_meta_inline(v->meta) && (!store_meta_in_file(v->meta) || v->ref_count > 0);
}

/* The book of a slot that counts as escaped from now on; NULL: no memory. */
static node_object_t *book_of(node_t *n, mob_ref_t ref) {
    atomic_fetch_or_explicit(&n->slots[ref.slot].word, STORE_ESCAPED, memory_order_acq_rel);
    return node_object_find(n, ref);
}

/* The block is `to`'s from now on. */
static bool block_move(node_t *n, mob_ref_t from, uint64_t at, mob_ref_t to) {
    uint64_t old = shm_block_used(shm_tag(false, from.slot, from.generation));
    shm_block_t *block = (shm_block_t *)(n->arena.base + at - sizeof(shm_block_t));
    return atomic_compare_exchange_strong(&block->word, &old,
                                          shm_block_used(shm_tag(false, to.slot, to.generation)));
}

bool node_value_move(node_t *n, mob_ref_t from, const node_value_t *v, mob_ref_t to) {
    store_slot_t *slot = &n->slots[to.slot];
    node_object_t *source = node_object_known(n, from), *o = node_object_known(n, to);
    bool counted = source != NULL && (source->contents_held || source->large != NULL);
    if (counted && o == NULL && (o = book_of(n, to)) == NULL) return false;
    if (has_block(v) && !block_move(n, from, v->block, to)) return false;
    if (store_meta_inline(v->meta)) {
        memcpy(slot->value.small, v->small, sizeof slot->value.small);
    } else {
        slot->value.large.block = v->block;
        slot->value.large.ref_count = v->ref_count;
    }
    slot->meta = v->meta;
    if (o != NULL) node_object_contents_release(n, o);
    /* what is inside it is held once, by one book or the other */
    if (counted && source->contents_held) node_object_contents_move(source, o);
    if (counted && source->large != NULL) node_large_move(source, o);
    return true;
}

/* The references lie behind the bytes in their block, and the value holds them. */
static mob_status_t refs_write(node_t *n, mob_ref_t to, uint64_t block, uint64_t size,
                               const mob_ref_t *refs, uint32_t count) {
    if (book_of(n, to) == NULL) {
        shm_heap_free(&n->heap, block, shm_tag(false, to.slot, to.generation));
        return MOB_ENOMEM;
    }
    memcpy(n->arena.base + block + store_refs_offset(size), refs, count * sizeof *refs);
    return MOB_OK;
}

/* `most`: bytes that may lie in the slot itself. */
static mob_status_t value_put(node_t *n, mob_ref_t to, const frame_value_t *v,
                              const mob_ref_t *refs, uint64_t most) {
    store_slot_t *slot = &n->slots[to.slot];
    uint64_t block = 0, size = v->size;
    uint32_t count = v->num_refs;
    bool small = size <= most && count == 0;
    if (!small) {
        mob_status_t status = shm_heap_alloc(&n->heap, store_block_size(size, count),
                                             shm_tag(false, to.slot, to.generation), &block);
        if (status == MOB_ESPACE) node_space_make(n, store_block_size(size, count));
        if (status == MOB_OK && count > 0) status = refs_write(n, to, block, size, refs, count);
        if (status != MOB_OK) return status;
    }
    if (size > 0) memcpy(small ? slot->value.small : n->arena.base + block, v->bytes, size);
    if (!small) {
        slot->value.large.block = block;
        slot->value.large.ref_count = count;
    }
    slot->meta = store_meta(size, (mob_format_t)v->format, (mob_status_t)v->error, small);
    if (count > 0) node_object_escape(n, to); /* holds what is inside */
    return MOB_OK;
}

mob_status_t node_value_write(node_t *n, mob_ref_t to, mob_format_t format, mob_status_t error,
                              const uint8_t *bytes, uint64_t size, const mob_ref_t *refs,
                              uint32_t count) {
    frame_value_t v = {.format = (uint8_t)format,
                       .error = (uint8_t)error,
                       .bytes = bytes,
                       .size = size,
                       .num_refs = count};
    return value_put(n, to, &v, refs, STORE_INLINE);
}

mob_status_t node_value_write_item(node_t *n, mob_ref_t to, const frame_value_t *v,
                                   const mob_ref_t *refs) {
    return value_put(n, to, v, refs, STORE_ITEM_INLINE);
}

mob_status_t node_value_refs(node_t *n, const node_object_t *o, frame_value_t *ret_value) {
    size_t count = o->contents.count;
    ret_value->refs = calloc(count + 1, sizeof *ret_value->refs);
    if (ret_value->refs == NULL) return MOB_ENOMEM;
    for (size_t i = 0; i < count; i++) ret_value->refs[i] = node_proxy_id(n, o->contents.items[i]);
    ret_value->num_refs = (uint32_t)count;
    return MOB_OK;
}

mob_status_t node_value_frame(node_t *n, mob_ref_t ref, frame_value_t *ret_value) {
    node_object_t *o = node_object_known(n, ref);
    node_value_t found;
    if (o != NULL && node_object_is_away(n, o)) return MOB_ELIMIT;
    if (!node_value_read(n, ref, &found)) return MOB_ELOST;
    bool is_inline = store_meta_inline(found.meta);
    if (!is_inline &&
        (store_meta_in_file(found.meta) || store_meta_size(found.meta) > FRAME_VALUE_MOST ||
         found.ref_count > FRAME_VALUE_MOST / MOB_ID_SIZE))
        return MOB_ELIMIT;
    *ret_value = (frame_value_t){.format = (uint8_t)store_meta_format(found.meta),
                                 .error = (uint8_t)store_meta_error(found.meta),
                                 .size = store_meta_size(found.meta),
                                 .bytes = is_inline ? n->slots[ref.slot].value.small
                                                    : n->arena.base + found.block};
    if (is_inline || found.ref_count == 0) return MOB_OK;
    if (o == NULL) return MOB_ELOST;
    node_object_contents_hold(n, o);
    /* without the daemon's copy of what is inside, the value can only be moved as it is */
    return o->contents.count == found.ref_count ? node_value_refs(n, o, ret_value) : MOB_ELIMIT;
}

void node_value_free(node_t *n, mob_ref_t ref, const node_value_t *v) {
    if (has_block(v))
        shm_block_release(n->arena.base, n->extents, v->block,
                          shm_tag(false, ref.slot, ref.generation));
}
