/* What peers say about placement groups: all items of the room, as whoever leads and as others, and
 * the words between books. */
#ifndef UNIT_NODE_LIAR_GROUPS_H
#define UNIT_NODE_LIAR_GROUPS_H

#include "group/message.h"
#include "group/spec.h"
#include "node/cluster/grouping.h"

/* Of the home, with three bundles. */
static group_spec_t *group_spec_new(frame_id_t id) {
    frame_amount_t cpu = {"CPU", SCHED_UNIT / 2};
    group_bundle_t bundles[3] = {{{&cpu, 1}, ""}, {{&cpu, 1}, ""}, {{&cpu, 1}, "a=b"}};
    group_want_t want = {.id = id,
                         .job = {id.home, 1},
                         .strategy = MOB_SPREAD,
                         .name_space = "",
                         .name = "",
                         .bundles = bundles,
                         .count = 3};
    group_spec_t *spec;
    assert_int_equal(group_spec_write(&want, &spec), MOB_OK);
    return spec;
}

static group_id_t group_key(frame_id_t id) {
    group_id_t key;
    base_writer_t w = {.bytes = key.bytes};
    frame_id_put(&w, id);
    return key;
}

/* One item of each kind, behind the fence that its sender leads with, or 0. */
static void group_items_say(frame_id_t id, uint64_t fence, uint64_t attempt) {
    uint8_t bytes[4096], list[64];
    group_spec_t *spec = group_spec_new(id);
    base_writer_t l = {.bytes = list};
    base_put_number(&l, 0, 4);
    base_put_number(&l, 2, 4);
    base_put_number(&l, A->n->incarnation, 8);
    base_put_number(&l, B->n->incarnation, 8);
    for (int kind = GROUP_ITEM_WATCH; kind <= GROUP_ITEM_LAST; kind++) {
        group_item_t item = {.kind = (group_item_kind_t)kind,
                             .id = group_key(id),
                             .fence = fence,
                             .attempt = attempt,
                             .master = 1,
                             .flag = kind == GROUP_ITEM_STATE ? GROUP_READY : 1,
                             .spec = spec->bytes,
                             .spec_size = spec->size,
                             .list = list,
                             .count = kind == GROUP_ITEM_STATE ? 3 : 1,
                             .labels = "a=b"};
        base_writer_t w = {.bytes = bytes};
        base_put_number(&w, GROUPING_ROOM, 1);
        base_put_number(&w, fence, 8);
        group_item_put(&w, &item);
        sample_add(POST_GROUP, bytes, w.size);
    }
    group_spec_free(spec);
}

static void group_told_say(frame_id_t id, bool is_first, uint32_t places) {
    uint8_t bytes[1024];
    mob_group_t head = {.strategy = MOB_SPREAD, .bundles = 3, .id_at = UINT32_MAX};
    mob_bundle_t bundle = {.resources = 1, .size = 8 + sizeof "CPU" + 1};
    uint64_t amount = SCHED_UNIT / 2;
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, GROUPING_TELL, 1);
    frame_id_put(&w, id);
    base_put_number(&w, is_first, 1);
    base_put_number(&w, places > 0 ? NODE_GROUP_CREATED : NODE_GROUP_PENDING, 1);
    base_put_number(&w, 1, 4);
    base_put_number(&w, 5, 8);
    base_put_number(&w, 6, 8);
    base_put_number(&w, places, 4);
    for (uint32_t i = 0; i < places; i++)
        base_put_number(&w, i % 2 ? A->n->incarnation : C->n->incarnation, 8);
    base_put_bytes(&w, "name\0space", 11);
    base_put_bytes(&w, &head, sizeof head);
    for (int b = 0; b < 3; b++) {
        base_put_bytes(&w, &bundle, sizeof bundle);
        base_put_bytes(&w, &amount, sizeof amount);
        base_put_bytes(&w, "CPU\0", 5);
    }
    sample_add(POST_GROUP, bytes, w.size);
}

static void groups_say(void) {
    for (size_t i = 0; i < 6; i++) {
        frame_id_t id = known[i % known_count];
        for (uint64_t attempt = 1; attempt <= 2; attempt++) {
            group_items_say(id, 0, attempt);
            group_items_say(id, 7, attempt);
        }
        group_told_say(id, true, 0);
        group_told_say(id, false, 1);
        group_told_say(id, false, 3);
        for (int kind = GROUPING_ASK; kind <= GROUPING_GONE; kind++) {
            uint8_t bytes[1 + MOB_ID_SIZE];
            base_writer_t w = {.bytes = bytes};
            base_put_number(&w, (uint64_t)kind, 1);
            frame_id_put(&w, id);
            sample_add(POST_GROUP, bytes, w.size);
        }
    }
}

#endif
