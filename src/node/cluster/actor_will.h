/*
 * What a detached actor leaves, for those who go on with it when its home is dead: all that is
 * needed to make it again on another node and to give out handles. actor_will.c has what is in it.
 */
#ifndef NODE_CLUSTER_ACTOR_WILL_H
#define NODE_CLUSTER_ACTOR_WILL_H

#include "base/bytes.h"
#include "frame/frame.h"
#include "node/name.h"
#include "node/types.h"

enum { NODE_WILL_NONE = 0xffff };

/* An object of the store. Inside of it are others, by their places among the will's: all before
 * it. */
typedef struct {
    frame_id_t id; /* that it had */
    mob_format_t format;
    const uint8_t *bytes, *inside;
    size_t size, inside_count;
} node_will_object_t;

/* Borrowed from the bytes that it was read from, but for the list of objects. */
typedef struct {
    const uint8_t *setup, *frame, *named;
    size_t setup_size, frame_size; /* frame_size 0: it can't be made again */
    size_t named_count;            /* what the frame names, behind its results */
    node_will_object_t *objects;
    size_t count;
    uint16_t function, info; /* NODE_WILL_NONE: there is none */
} node_will_t;

/* False: it makes no sense. node_will_fini in any case. */
bool node_will_read(const void *bytes, size_t size, node_will_t *ret_will);
void node_will_fini(node_will_t *will);
/* Makes all objects of the will, as slots of the daemon's own that go when nobody holds them: in
 * this turn somebody has to. The list is to be freed. MOB_ENOMEM, MOB_ESPACE. */
mob_status_t node_will_objects(node_t *node, const node_will_t *will, mob_ref_t **ret_refs);
/* The creation's frame, which names these objects now; to be frame_fini'd, and then its bytes
 * freed. MOB_EPROTO, MOB_ENOMEM. */
mob_status_t node_will_frame(node_t *node, const node_will_t *will, const mob_ref_t *objects,
                             frame_t *ret_frame, uint8_t **ret_bytes);

/* What the room actor keeps of a detached actor, as its `spec`: its name, and how large its will
 * is. */
typedef struct {
    size_t will_size;
    char name_space[MOB_NAME_MAX + 1], name[MOB_NAME_MAX + 1];
} node_will_about_t;

/* False: it makes no sense. */
bool node_will_about(const void *spec, size_t size, node_will_about_t *ret_about);

/* The creation, which is in no queue, is of an actor of this home that has just become detached:
 * what it leaves is written, and `named->spec` says so. Without that its home's death is its end:
 * no memory. */
void node_will_write(node_cluster_t *cluster, const node_task_t *creation, node_named_t *named);

#endif
