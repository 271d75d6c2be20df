#include "node/cluster/flowpost.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"
#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guest.h"
#include "node/cluster/inflow.h"
#include "node/cluster/outflow.h"
#include "node/cluster/post.h"
#include "node/state.h"

enum { HEAD_MAX = 64 };

/* ---- out ---- */

static void head_put(base_writer_t *w, const node_flow_letter_t *l) {
    base_put_number(w, l->kind, 1);
    frame_id_put(w, l->flow);
    base_put_number(w, l->index, 8);
    if (l->kind == FLOW_ROOM) {
        base_put_number(w, l->taken, 8);
        base_put_number(w, l->is_closed, 1);
    }
    if (l->kind == FLOW_NAMED) frame_id_put(w, l->id);
}

/* The references that go along, to be freed; NULL: none. */
static mob_status_t ids_of(const node_flow_letter_t *l, frame_id_t **ret_ids, size_t *ret_count) {
    *ret_ids = NULL;
    *ret_count = 0;
    if (l->kind == FLOW_ITEM)
        return node_guest_answer_ids(l->value, l->value_size, ret_ids, ret_count);
    if (l->kind != FLOW_NAMED) return MOB_OK;
    if ((*ret_ids = malloc(sizeof **ret_ids)) == NULL) return MOB_ENOMEM;
    (*ret_ids)[(*ret_count)++] = l->id;
    return MOB_OK;
}

static mob_status_t letter_come(node_cluster_t *c, uint64_t from, node_flow_letter_t *l);

mob_status_t node_flowpost_send(node_cluster_t *c, uint64_t to, const node_flow_letter_t *l) {
    uint8_t head[HEAD_MAX];
    base_writer_t w = {.bytes = head};
    frame_id_t *ids;
    size_t count;
    if (to == c->node->incarnation) {
        node_flow_letter_t own = *l;
        return letter_come(c, to, &own);
    }
    head_put(&w, l);
    node_letter_parts_t parts = {
        .head = head, .head_size = w.size, .body = l->value, .body_size = l->value_size};
    mob_status_t status = ids_of(l, &ids, &count);
    if (status == MOB_OK && count > 0)
        status = node_post_send_refs(c, to, POST_FLOW, &parts, ids, count, NULL, true);
    else if (status == MOB_OK)
        status = node_post_send(c, to, POST_FLOW, &parts, true);
    free(ids);
    return status;
}

/* ---- in ---- */

static bool letter_read(base_reader_t *r, node_flow_letter_t *l) {
    l->kind = (node_flow_kind_t)base_take_number(r, 1);
    l->flow = frame_id_take(r);
    l->index = base_take_number(r, 8);
    if (l->kind == FLOW_ROOM) {
        l->taken = base_take_number(r, 8);
        l->is_closed = base_take_number(r, 1) != 0;
    }
    if (l->kind == FLOW_NAMED) l->id = frame_id_take(r);
    if (l->kind == FLOW_ITEM) {
        l->value_size = r->left;
        l->value = base_take_bytes(r, r->left);
    }
    return base_reader_is_done(r) && l->kind >= FLOW_ITEM && l->kind <= FLOW_ROOM;
}

static mob_status_t letter_take(node_cluster_t *c, uint64_t from, const node_flow_letter_t *l) {
    bool is_for_reader = l->kind == FLOW_ITEM || l->kind == FLOW_NAME;
    if (l->flow.home != (is_for_reader ? c->node->incarnation : from)) return MOB_EPROTO;
    switch (l->kind) {
    case FLOW_ITEM:
        return node_inflow_item(c, from, l);
    case FLOW_NAME:
        return node_inflow_name(c, from, l);
    case FLOW_NAMED:
        return node_outflow_named(c, l);
    default:
        return node_outflow_room(c, l);
    }
}

/* All that can fail for want of memory is done before references are accounted for, which is done
 * once. */
static mob_status_t letter_come(node_cluster_t *c, uint64_t from, node_flow_letter_t *l) {
    frame_done_t done = {0};
    frame_id_t *ids;
    size_t count;
    mob_status_t status = ids_of(l, &ids, &count);
    if (status == MOB_OK && l->kind == FLOW_ITEM)
        status = frame_done_read(l->value, l->value_size, &done);
    if (status == MOB_OK && l->kind == FLOW_ITEM && done.num_values != 1) status = MOB_EPROTO;
    if (status == MOB_OK && count > 0 && from != c->node->incarnation)
        status = node_holding_frame_came(c, from, ids, count);
    l->item = done.values;
    if (status == MOB_OK) status = letter_take(c, from, l);
    frame_done_fini(&done);
    free(ids);
    return status;
}

mob_status_t node_flowpost_receive(node_cluster_t *c, uint64_t peer, const void *bytes,
                                   size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    node_flow_letter_t l = {0};
    mob_status_t status = node_holding_check(c);
    if (status != MOB_OK) return status;
    if (!letter_read(&r, &l)) return base_fail(MOB_EPROTO, "a message about items cut short");
    status = letter_come(c, peer, &l);
    return status == MOB_EPROTO ? base_fail(status, "a message about items that makes no sense")
                                : status;
}
