/* What is said to a peer within a turn of the loop goes as one message, unless it is long. What is
 * said to the own node takes the same way, without a message. */
#include <stdlib.h>

#include "group/books.h"

enum { BOX_MOST = 64 << 10 };

typedef struct {
    group_link_t link; /* in `full` */
    uint64_t peer;
    VEC(uint8_t) bytes;
} group_box_t;

static group_box_t *box_of(group_t *room, uint64_t peer) {
    group_box_t *box = base_map_get(&room->boxes, &peer);
    if (box != NULL) return box;
    box = calloc(1, sizeof *box);
    if (box == NULL) return NULL;
    box->peer = peer;
    if (base_map_put(&room->boxes, &peer, box)) return box;
    free(box);
    return NULL;
}

static void box_free(group_box_t *box) {
    group_ring_drop(&box->link);
    vec_free(&box->bytes);
    free(box);
}

/* Takes the bytes out first: what is sent to the own node may say more. */
static void box_send(group_t *room, group_box_t *box) {
    uint8_t *bytes = box->bytes.items;
    size_t size = box->bytes.count;
    box->bytes.items = NULL;
    box->bytes.count = box->bytes.capacity = 0;
    group_ring_drop(&box->link);
    if (box->peer == room->self)
        (void)group_receive(room, room->self, bytes, size);
    else
        room->ops->send(room->context, box->peer, bytes, size);
    free(bytes);
}

static void put(group_t *room, group_box_t *box, const group_item_t *item) {
    base_writer_t count = {0};
    group_item_put(&count, item);
    bool is_new = box->bytes.count == 0;
    if (!vec_reserve(&box->bytes, count.size + 8)) {
        room->is_short = true;
        return;
    }
    base_writer_t w = {.bytes = box->bytes.items, .size = box->bytes.count};
    if (is_new) base_put_number(&w, room->is_leading ? room->fence : 0, 8);
    group_item_put(&w, item);
    box->bytes.count = w.size;
    if (is_new) group_ring_add(&room->full, &box->link);
}

void group_say(group_t *room, uint64_t to, const group_item_t *item) {
    if (to == 0 || group_is_dead(room, to)) return;
    group_box_t *box = box_of(room, to);
    if (box == NULL) {
        room->is_short = true;
        return;
    }
    put(room, box, item);
    if (box->bytes.count > BOX_MOST && to != room->self) box_send(room, box);
}

void group_say_id(group_t *room, uint64_t to, group_item_kind_t kind, const group_id_t *id) {
    group_say(room, to, &(group_item_t){.kind = kind, .id = *id});
}

void group_boxes_send(group_t *room) {
    while (room->full.next != &room->full) box_send(room, (group_box_t *)room->full.next);
}

void group_box_drop(group_t *room, uint64_t peer) {
    group_box_t *box = base_map_remove(&room->boxes, &peer);
    if (box != NULL) box_free(box);
}

void group_boxes_free(group_t *room) {
    size_t cursor = 0;
    const void *key;
    void *box;
    while (base_map_each(&room->boxes, &cursor, &key, &box)) box_free(box);
    base_map_fini(&room->boxes);
}
