/* A message is a byte that names its room, and what that room wrote. */
#include "node/cluster/post.h"

#include <string.h>

#include "node/cluster/cluster.h"
#include "node/cluster/flowpost.h"
#include "node/cluster/membership.h"
#include "node/cluster/pulling.h"
#include "node/state.h"

enum { HEAD_MAX = 4096 };

/* The letter with its room's byte; false: its head is longer than any. */
static bool letter_make(node_post_t kind, const node_letter_parts_t *parts, bool is_answer,
                        uint8_t *head, mesh_letter_t *ret_letter) {
    if (parts->head_size >= HEAD_MAX) return false;
    head[0] = (uint8_t)kind;
    if (parts->head_size > 0) memcpy(head + 1, parts->head, parts->head_size);
    *ret_letter = (mesh_letter_t){.head = head,
                                  .head_size = 1 + parts->head_size,
                                  .body = parts->body,
                                  .body_size = parts->body_size,
                                  .is_answer = is_answer};
    return true;
}

mob_status_t node_post_send(node_cluster_t *c, uint64_t peer, node_post_t kind,
                            const node_letter_parts_t *parts, bool is_answer) {
    uint8_t head[HEAD_MAX];
    mesh_letter_t letter;
    if (!letter_make(kind, parts, is_answer, head, &letter)) return MOB_EINVAL;
    return mesh_send(c->mesh, peer, &letter, NULL);
}

/* References that go with a message, noted when it has its number. */
typedef struct {
    node_cluster_t *cluster;
    uint64_t peer;
    const frame_id_t *ids;
    size_t count;
    const frame_id_t *container;
} freight_t;

static mob_status_t freight_note(void *context, uint64_t sequence) {
    const freight_t *f = context;
    return node_holding_frame_sends(f->cluster, f->peer, sequence, f->ids, f->count, f->container);
}

mob_status_t node_post_send_refs(node_cluster_t *c, uint64_t peer, node_post_t kind,
                                 const node_letter_parts_t *parts, const frame_id_t *ids,
                                 size_t count, const frame_id_t *container, bool is_answer) {
    uint8_t head[HEAD_MAX];
    mesh_letter_t letter;
    freight_t freight = {c, peer, ids, count, container};
    if (!letter_make(kind, parts, is_answer, head, &letter)) return MOB_EINVAL;
    letter.note = freight_note;
    letter.context = &freight;
    return mesh_send(c->mesh, peer, &letter, NULL);
}

bool node_post_has_room(node_cluster_t *c, uint64_t peer) { return mesh_has_room(c->mesh, peer); }

uint64_t node_post_sequence(const node_cluster_t *c) { return c->sequence; }

static mob_status_t message_give(node_cluster_t *c, uint64_t peer, node_post_t kind,
                                 const void *bytes, size_t size) {
    switch (kind) {
    case POST_PULSE:
        return node_membership_pulse(c, peer, bytes, size);
    case POST_MEMBER:
        return member_receive(c->member, node_cluster_now_ns(), peer, bytes, size);
    case POST_JOB:
        return node_guestjob_receive(c, peer, bytes, size);
    case POST_REFS:
        return node_holding_receive(c, peer, bytes, size);
    case POST_PULL:
        return node_pulling_receive(c, peer, bytes, size);
    case POST_ACTOR:
        return node_acting_receive(c, peer, bytes, size);
    case POST_GROUP:
        return node_grouping_receive(c, peer, bytes, size);
    case POST_PLACE:
        return node_placing_receive(c, peer, bytes, size);
    case POST_VALUE:
        return node_watch_receive(c, peer, bytes, size);
    case POST_FLOW:
        return node_flowpost_receive(c, peer, bytes, size);
    default:
        return base_fail(MOB_EPROTO, "a message of no kind that is known");
    }
}

bool node_post_receive(node_cluster_t *c, uint64_t peer, uint64_t sequence, const void *bytes,
                       size_t size) {
    const uint8_t *at = bytes;
    if (size == 0) return true; /* it says nothing */
    c->sequence = sequence;
    mob_status_t status = message_give(c, peer, (node_post_t)at[0], at + 1, size - 1);
    c->sequence = 0;
    if (status == MOB_ENOMEM) return false;
    if (status == MOB_EPROTO)
        node_cluster_trouble(c, "from node %016llx: %s", (unsigned long long)peer,
                             mob_last_error());
    c->node->again = true;
    mesh_processed(c->mesh, peer, size);
    return true;
}
