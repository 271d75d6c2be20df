/*
 * A will is
 *
 *     u32 size, the job's setup
 *     u32 size, frame of the creation | u16 count: places of what it names behind its results
 *     u16 count, objects, each: its id | u8 format | u32 size, bytes
 *                               u16 count: places of what is inside
 *     u16 place of the class | u16 place of what ray.get_actor is told
 *
 * It is written when the actor gets its name, before it is made, and never changes. Objects of the
 * store die with their owner, and so would the actor's class and arguments: so they are in it, and
 * what is inside of them.
 *
 * An object that is made again has another id. Pickles name what is inside of them by their ids, as
 * 20 bytes that are nowhere else (a node's incarnation is random): they are exchanged.
 *
 * Without a frame the actor can't be made again: something of that is not on this node, has no
 * value yet, or is an error, or all is over NODE_KEEP_MOST. Then it outlives its home only as long
 * as its process lives, on another node.
 */
#include "node/cluster/actor_will.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/keep.h"
#include "node/frame.h"
#include "node/state.h"
#include "node/value.h"

enum { SPEC_VERSION = 1, OBJECTS_MOST = 1024, DEPTH_MOST = 64 };

/* ---- in ---- */

static bool places_are_below(const uint8_t *places, size_t count, size_t limit) {
    base_reader_t r = {.at = places, .left = 2 * count};
    for (size_t i = 0; i < count; i++)
        if (base_take_number(&r, 2) >= limit) return false;
    return true;
}

static bool object_take(base_reader_t *r, node_will_t *will) {
    node_will_object_t *o = &will->objects[will->count];
    o->id = frame_id_take(r);
    o->format = (mob_format_t)base_take_number(r, 1);
    o->size = base_take_number(r, 4);
    o->bytes = base_take_bytes(r, o->size);
    o->inside_count = base_take_number(r, 2);
    o->inside = base_take_bytes(r, 2 * o->inside_count);
    return !r->short_of && o->format <= MOB_FORMAT_PICKLE &&
           places_are_below(o->inside, o->inside_count, will->count++);
}

bool node_will_read(const void *bytes, size_t size, node_will_t *will) {
    base_reader_t r = {.at = bytes, .left = size};
    *will = (node_will_t){.setup_size = base_take_number(&r, 4)};
    will->setup = base_take_bytes(&r, will->setup_size);
    will->frame_size = base_take_number(&r, 4);
    will->frame = base_take_bytes(&r, will->frame_size);
    will->named_count = base_take_number(&r, 2);
    will->named = base_take_bytes(&r, 2 * will->named_count);
    size_t count = base_take_number(&r, 2);
    if (r.short_of || count > OBJECTS_MOST ||
        (will->objects = calloc(count + 1, sizeof *will->objects)) == NULL)
        return false;
    while (will->count < count)
        if (!object_take(&r, will)) return false;
    will->function = (uint16_t)base_take_number(&r, 2);
    will->info = (uint16_t)base_take_number(&r, 2);
    return base_reader_is_done(&r) && will->setup_size > 0 &&
           places_are_below(will->named, will->named_count, count) &&
           (will->function < count || will->function == NODE_WILL_NONE) &&
           (will->info < count || will->info == NODE_WILL_NONE);
}

void node_will_fini(node_will_t *will) {
    free(will->objects);
    will->objects = NULL;
}

/* As clients write an id: see mob_ref_id. */
static void id_write(frame_id_t id, uint8_t ret_bytes[MOB_ID_SIZE]) {
    uint64_t home = htobe64(id.home), generation = htobe64(id.generation);
    uint32_t number = htobe32(id.number);
    memcpy(ret_bytes, &home, 8);
    memcpy(ret_bytes + 8, &number, 4);
    memcpy(ret_bytes + 12, &generation, 8);
}

static void id_exchange(uint8_t *bytes, size_t size, frame_id_t old, frame_id_t new) {
    uint8_t from[MOB_ID_SIZE], to[MOB_ID_SIZE], *at = bytes;
    id_write(old, from);
    id_write(new, to);
    while ((at = memmem(at, size - (size_t)(at - bytes), from, sizeof from)) != NULL) {
        memcpy(at, to, sizeof to);
        at += sizeof to;
    }
}

/* A copy that names what is made instead of these objects, by their places. NULL: no memory. */
static uint8_t *bytes_renamed(node_t *n, const node_will_t *will, const mob_ref_t *made,
                              const node_will_object_t *o) {
    uint8_t *copy = malloc(o->size + 1);
    base_reader_t r = {.at = o->inside, .left = 2 * o->inside_count};
    if (copy == NULL) return NULL;
    if (o->size > 0) memcpy(copy, o->bytes, o->size);
    for (size_t i = 0; i < o->inside_count; i++) {
        size_t place = base_take_number(&r, 2);
        id_exchange(copy, o->size, will->objects[place].id, node_proxy_id(n, made[place]));
    }
    return copy;
}

static mob_status_t object_make(node_t *n, const node_will_t *will, const node_will_object_t *o,
                                const mob_ref_t *made, mob_ref_t *ret_ref) {
    node_own_t *own = &n->cluster->proxies.swept;
    mob_ref_t ref, *inside = calloc(o->inside_count + 1, sizeof *inside);
    base_reader_t r = {.at = o->inside, .left = 2 * o->inside_count};
    for (size_t i = 0; inside != NULL && i < o->inside_count; i++)
        inside[i] = made[base_take_number(&r, 2)];
    uint8_t *bytes = bytes_renamed(n, will, made, o);
    if (inside == NULL || bytes == NULL || !node_own_slot_swept(n, own, &ref.slot)) {
        free(inside);
        free(bytes);
        return MOB_ENOMEM;
    }
    store_slot_t *slot = &n->slots[ref.slot];
    ref.generation = store_slot_open(slot);
    atomic_fetch_or_explicit(&slot->word, STORE_ESCAPED, memory_order_relaxed);
    node_object_t *book = node_object_find(n, ref);
    mob_status_t status = book == NULL ? MOB_ENOMEM
                                       : node_value_write(n, ref, o->format, MOB_OK, bytes, o->size,
                                                          inside, (uint32_t)o->inside_count);
    free(inside);
    free(bytes);
    if (status != MOB_OK) {
        if (book != NULL) node_object_forget(n, ref);
        store_slot_close(slot);
        return status;
    }
    (void)store_slot_seal(slot, true);
    node_object_settle(n, book); /* at zero, until somebody holds it */
    *ret_ref = ref;
    return MOB_OK;
}

mob_status_t node_will_objects(node_t *n, const node_will_t *will, mob_ref_t **ret_refs) {
    mob_ref_t *refs = calloc(will->count + 1, sizeof *refs);
    mob_status_t status = refs != NULL ? MOB_OK : MOB_ENOMEM;
    for (size_t i = 0; status == MOB_OK && i < will->count; i++)
        status = object_make(n, will, &will->objects[i], refs, &refs[i]);
    if (status != MOB_OK)
        free(refs); /* what was made goes with the next sweep */
    else
        *ret_refs = refs;
    return status;
}

mob_status_t node_will_frame(node_t *n, const node_will_t *will, const mob_ref_t *objects,
                             frame_t *f, uint8_t **ret_bytes) {
    node_will_object_t frame = {.bytes = will->frame,
                                .size = will->frame_size,
                                .inside = will->named,
                                .inside_count = will->named_count};
    uint8_t *bytes = *ret_bytes = bytes_renamed(n, will, objects, &frame);
    if (bytes == NULL) return MOB_ENOMEM;
    mob_status_t status = frame_read(bytes, will->frame_size, f);
    if (status != MOB_OK) return status;
    if (will->function == NODE_WILL_NONE || f->num_deps + f->num_refs != will->named_count) {
        frame_fini(f);
        return MOB_EPROTO;
    }
    base_reader_t r = {.at = will->named, .left = 2 * will->named_count};
    f->function = node_proxy_id(n, objects[will->function]);
    for (size_t i = 0; i < will->named_count; i++)
        f->ids[f->num_returns + i] = node_proxy_id(n, objects[base_take_number(&r, 2)]);
    return MOB_OK;
}

bool node_will_about(const void *spec, size_t size, node_will_about_t *ret_about) {
    base_reader_t r = {.at = spec, .left = spec != NULL ? size : 0};
    if (base_take_number(&r, 1) != SPEC_VERSION) return false;
    *ret_about = (node_will_about_t){.will_size = base_take_number(&r, 4)};
    size_t space_size = base_take_number(&r, 1);
    const char *space = base_take_bytes(&r, space_size);
    size_t name_size = base_take_number(&r, 1);
    const char *name = base_take_bytes(&r, name_size);
    if (!base_reader_is_done(&r) || ret_about->will_size > NODE_KEEP_MOST ||
        space_size > MOB_NAME_MAX || name_size > MOB_NAME_MAX)
        return false;
    memcpy(ret_about->name_space, space, space_size);
    memcpy(ret_about->name, name, name_size);
    return true;
}

/* ---- out ---- */

/* What is to be written. */
typedef struct {
    node_t *node;
    base_writer_t objects; /* only counts, if it has no bytes */
    VEC(mob_ref_t) refs;   /* by their places */
} testator_t;

static uint16_t place_of(const testator_t *t, mob_ref_t ref) {
    for (size_t i = 0; i < t->refs.count; i++)
        if (t->refs.items[i].slot == ref.slot && t->refs.items[i].generation == ref.generation)
            return (uint16_t)i;
    return NODE_WILL_NONE;
}

/* The object, after what is inside of it; its place. NODE_WILL_NONE: it can't be had. */
static uint16_t object_put(testator_t *t, mob_ref_t ref, int depth) {
    node_t *n = t->node;
    node_value_t found;
    uint16_t place = place_of(t, ref);
    if (place != NODE_WILL_NONE) return place;
    const node_object_t *o = ref.slot != 0 ? node_object_find(n, ref) : NULL;
    if (o == NULL || depth > DEPTH_MOST || node_object_is_away(n, o) ||
        !node_value_read(n, ref, &found) || store_meta_in_file(found.meta) ||
        store_meta_error(found.meta) != MOB_OK || store_meta_size(found.meta) > NODE_KEEP_MOST)
        return NODE_WILL_NONE;
    size_t count = store_meta_inline(found.meta) ? 0 : o->contents.count;
    if (!store_meta_inline(found.meta) && count != found.ref_count) return NODE_WILL_NONE;
    for (size_t i = 0; i < count; i++)
        if (object_put(t, o->contents.items[i], depth + 1) == NODE_WILL_NONE) return NODE_WILL_NONE;
    if (t->refs.count >= OBJECTS_MOST || !vec_push(&t->refs, ref)) return NODE_WILL_NONE;
    frame_id_put(&t->objects, node_proxy_id(n, ref));
    base_put_number(&t->objects, store_meta_format(found.meta), 1);
    base_put_number(&t->objects, store_meta_size(found.meta), 4);
    base_put_bytes(&t->objects, node_value_bytes(n, &found), store_meta_size(found.meta));
    base_put_number(&t->objects, count, 2);
    for (size_t i = 0; i < count; i++)
        base_put_number(&t->objects, place_of(t, o->contents.items[i]), 2);
    return (uint16_t)(t->refs.count - 1);
}

static bool spec_set(node_named_t *named, size_t will_size) {
    size_t space_size = strlen(named->name_space), name_size = strlen(named->name);
    free(named->spec);
    base_writer_t w = {.bytes = named->spec = malloc(7 + space_size + name_size)};
    if (w.bytes == NULL) return false;
    base_put_number(&w, SPEC_VERSION, 1);
    base_put_number(&w, will_size, 4);
    base_put_number(&w, space_size, 1);
    base_put_bytes(&w, named->name_space, space_size);
    base_put_number(&w, name_size, 1);
    base_put_bytes(&w, named->name, name_size);
    named->spec_size = w.size;
    return true;
}

/* The frame, and all that it names. False: it can't be had, and the objects are as they were. */
static bool frame_put(base_writer_t *w, testator_t *t, const node_task_t *creation,
                      uint16_t *ret_function) {
    uint32_t named = creation->num_deps + creation->num_refs;
    uint8_t *frame;
    size_t size;
    bool ok = (*ret_function = object_put(t, creation->function, 0)) != NODE_WILL_NONE;
    for (uint32_t i = 0; ok && i < named; i++)
        ok = object_put(t, creation->refs[creation->num_returns + i], 0) != NODE_WILL_NONE;
    if (!ok || node_frame_write(t->node, creation, &frame, &size) != MOB_OK) return false;
    base_put_number(w, size, 4);
    base_put_bytes(w, frame, size);
    base_put_number(w, named, 2);
    for (uint32_t i = 0; i < named; i++)
        base_put_number(w, place_of(t, creation->refs[creation->num_returns + i]), 2);
    free(frame);
    return true;
}

/* All of it; with a writer that has no bytes its size. `with_frame`: it can be made again. */
static bool will_put(base_writer_t *w, node_t *n, const node_task_t *creation, mob_ref_t info,
                     bool with_frame, uint8_t *room) {
    testator_t t = {.node = n, .objects = {.bytes = room}};
    uint16_t function = NODE_WILL_NONE, described;
    base_put_number(w, creation->job->setup->size, 4);
    base_put_bytes(w, creation->job->setup->bytes, creation->job->setup->size);
    bool ok = !with_frame || frame_put(w, &t, creation, &function);
    if (!with_frame) base_put_number(w, 0, 4);
    if (!with_frame) base_put_number(w, 0, 2);
    described = object_put(&t, info, 0);
    base_put_number(w, t.refs.count, 2);
    base_put_bytes(w, room, t.objects.size);
    base_put_number(w, function, 2);
    base_put_number(w, described, 2);
    vec_free(&t.refs);
    return ok;
}

static bool will_keep(node_cluster_t *c, const node_task_t *creation, node_named_t *named,
                      bool with_frame) {
    frame_id_t id = node_proxy_id(c->node, creation->actor->id);
    base_writer_t w = {0};
    if (!will_put(&w, c->node, creation, named->info, with_frame, NULL) || w.size > NODE_KEEP_MOST)
        return false;
    uint8_t *objects = malloc(w.size);
    size_t size = w.size;
    w = (base_writer_t){.bytes = malloc(size)};
    bool ok = objects != NULL && w.bytes != NULL &&
              will_put(&w, c->node, creation, named->info, with_frame, objects) && w.size == size &&
              spec_set(named, size) && node_keep_write(c, id, w.bytes, size) == MOB_OK;
    free(objects);
    free(w.bytes);
    return ok;
}

void node_will_write(node_cluster_t *c, const node_task_t *creation, node_named_t *named) {
    if (will_keep(c, creation, named, true) || will_keep(c, creation, named, false)) return;
    node_cluster_trouble(c,
                         "the detached actor %s will end with this node: there is no memory for "
                         "what it would leave",
                         named->name);
}
