#include "node/cluster/jobpieces.h"

#include <stdlib.h>
#include <string.h>

#include "node/cluster/cluster.h"
#include "node/state.h"

mob_status_t node_jobpieces_send(node_cluster_t *c, uint64_t peer, bool is_environment,
                                 const node_jobpiece_t *whole) {
    node_jobpiece_t piece = *whole;
    for (piece.offset = 0; piece.offset < piece.total; piece.offset += (uint32_t)piece.size) {
        uint32_t left = piece.total - piece.offset;
        uint8_t head[JOBPOST_HEAD_MAX];
        piece.size = left < JOBPOST_PIECE ? left : JOBPOST_PIECE;
        node_letter_parts_t parts = {.head = head,
                                     .head_size = node_jobpiece_head(is_environment, &piece, head),
                                     .body = (const uint8_t *)whole->bytes + piece.offset,
                                     .body_size = piece.size};
        mob_status_t status = node_post_send(c, peer, POST_JOB, &parts, true);
        if (status != MOB_OK) return status;
    }
    return MOB_OK;
}

static bool is_next(const node_jobpart_t *part, bool is_environment, const node_jobpiece_t *p) {
    return part != NULL && part->is_environment == is_environment && part->size == p->offset &&
           part->about.total == p->total && part->about.job.home == p->job.home &&
           part->about.job.number == p->job.number;
}

/* In place of what the peer has begun to send before, if it has. NULL: no memory. */
static node_jobpart_t *part_begin(node_cluster_t *c, uint64_t peer, bool is_environment,
                                  const node_jobpiece_t *first) {
    node_jobpart_t *before = base_map_get(&c->guestjobs.parts, &peer),
                   *part = malloc(sizeof *part + first->total);
    if (part == NULL || !base_map_put(&c->guestjobs.parts, &peer, part)) {
        free(part);
        return NULL;
    }
    free(before);
    *part = (node_jobpart_t){.is_environment = is_environment, .about = *first};
    return part;
}

mob_status_t node_jobpieces_take(node_cluster_t *c, uint64_t peer, bool is_environment,
                                 base_reader_t *r, node_jobpart_t **ret_part) {
    node_jobpiece_t piece;
    bool makes_sense = node_jobpiece_read(is_environment, r, &piece);
    node_jobpart_t *part = base_map_get(&c->guestjobs.parts, &peer);
    if (makes_sense && piece.offset == 0) {
        part = part_begin(c, peer, is_environment, &piece);
        if (part == NULL) return MOB_ENOMEM;
    }
    if (!makes_sense || !is_next(part, is_environment, &piece))
        return base_fail(MOB_EPROTO, "a piece of a job's setup makes no sense");
    memcpy(part->bytes + piece.offset, piece.bytes, piece.size);
    part->size = piece.offset + piece.size;
    part->last = piece.size;
    *ret_part = part;
    return MOB_OK;
}

void node_jobpieces_drop(node_cluster_t *c, uint64_t peer) {
    free(base_map_remove(&c->guestjobs.parts, &peer));
}
