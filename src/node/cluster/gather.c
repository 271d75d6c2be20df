/*
 * Lists of all nodes. This node asks each other member, and waits for all: a list that lacks a
 * node's part says nothing of that. A node that dies is not waited for; one that is silent is, for
 * PATIENCE_NS, in which it is heard again or dead, as long as Redis answers.
 *
 *     ASK    epoch: the asker's number | u8 what | namespace, or nothing for all
 *     TOLD   epoch: the same | u8 is it the last | u32 count | rows
 *
 * TOLD come in their order. A number is used once, so one that is not known is of a list that was
 * given up.
 */
#include "node/cluster/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/acting.h"
#include "node/cluster/cluster.h"
#include "node/cluster/post.h"
#include "node/state.h"

static const uint64_t PATIENCE_NS = 10000000000;
enum { PIECE = 64 * 1024 };

struct node_gathering {
    node_gathering_t *next;
    node_t *node;
    node_list_t what;
    char space[MOB_NAME_MAX + 1];
    uint64_t number, since_ns;
    node_rows_t rows;
    VEC(uint64_t) waits; /* for these nodes */
    node_listed_fn listed;
    void *context;
};

/* ---- messages ---- */

static mob_status_t message_send(node_cluster_t *c, uint64_t to, uint8_t kind, uint64_t number,
                                 const base_writer_t *body) {
    uint8_t head[64];
    base_writer_t w = {.bytes = head};
    base_put_number(&w, 0, 4); /* no ids, and nothing that goes along */
    base_put_number(&w, 0, 4);
    base_put_number(&w, kind, 1);
    frame_id_put(&w, (frame_id_t){0});
    base_put_number(&w, number, 8);
    node_letter_parts_t parts = {
        .head = head, .head_size = w.size, .body = body->bytes, .body_size = body->size};
    return node_post_send(c, to, POST_ACTOR, &parts, true);
}

/* ---- the asker ---- */

static void gathering_free(node_gathering_t *g) {
    node_rows_fini(&g->rows);
    vec_free(&g->waits);
    free(g);
}

/* It is in no list any more. */
static void gathering_end(node_gathering_t *g, mob_status_t status) {
    g->listed(g->context, status, &g->rows);
    g->node->again = true;
    gathering_free(g);
}

static node_gathering_t **gathering_find(node_cluster_t *c, uint64_t number) {
    node_gathering_t **at = &c->acting.gatherings;
    while (*at != NULL && (*at)->number != number) at = &(*at)->next;
    return at;
}

/* The node has said all, or will say nothing more. */
static void part_end(node_gathering_t *g, uint64_t node) {
    for (size_t i = g->waits.count; i-- > 0;)
        if (g->waits.items[i] == node) vec_swap_remove(&g->waits, i);
}

/* True: it has ended, and *at is the next one. */
static bool look(node_gathering_t **at, mob_status_t status) {
    node_gathering_t *g = *at;
    if (g->waits.count > 0 && status == MOB_OK) return false;
    *at = g->next;
    gathering_end(g, status);
    return true;
}

static mob_status_t peers_ask(node_cluster_t *c, node_gathering_t *g) {
    uint8_t bytes[1 + MOB_NAME_MAX];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, g->what, 1);
    base_put_bytes(&w, g->space, strlen(g->space));
    g->number = ++c->acting.search_count;
    for (size_t i = 0; i < c->roster.order.count; i++) {
        const node_row_t *row = c->roster.order.items[i];
        if (row->until_ms != 0 || row->incarnation == c->node->incarnation) continue;
        mob_status_t status = message_send(c, row->incarnation, NODE_GATHER_ASK, g->number, &w);
        if (status == MOB_ECLOSED) continue; /* it has just ended */
        if (status != MOB_OK) return status;
        if (!vec_push(&g->waits, row->incarnation)) return MOB_ENOMEM;
    }
    return MOB_OK;
}

/* This node's own part comes first. */
static void on_own(void *context, mob_status_t status, const node_rows_t *rows) {
    node_gathering_t *g = context;
    node_cluster_t *c = g->node->cluster;
    if (status == MOB_OK) status = node_rows_add(&g->rows, rows->bytes, rows->size, rows->count);
    bool is_alone = c == NULL || c->is_alone || c->acting.room == NULL;
    if (status == MOB_OK && !is_alone) status = peers_ask(c, g);
    if (status != MOB_OK || g->waits.count == 0) {
        gathering_end(g, status);
        return;
    }
    g->next = c->acting.gatherings;
    c->acting.gatherings = g;
}

mob_status_t node_gather(node_t *n, node_list_t what, const char *space, node_listed_fn listed,
                         void *context) {
    node_gathering_t *g = calloc(1, sizeof *g);
    if (g == NULL) return MOB_ENOMEM;
    *g = (node_gathering_t){.node = n,
                            .what = what,
                            .since_ns = base_clock_mono_ns(),
                            .listed = listed,
                            .context = context};
    snprintf(g->space, sizeof g->space, "%s", space);
    mob_status_t status = node_listing_own(n, what, g->space, on_own, g);
    if (status != MOB_OK) gathering_free(g);
    return status;
}

mob_status_t node_gather_told(node_cluster_t *c, uint64_t peer, const actor_message_t *m,
                              const uint8_t *body, size_t size) {
    base_reader_t r = {.at = body, .left = size};
    bool is_last = base_take_number(&r, 1) != 0;
    uint32_t count = (uint32_t)base_take_number(&r, 4);
    node_gathering_t **at = gathering_find(c, m->epoch);
    if (r.short_of) return MOB_EPROTO;
    if (*at == NULL) return MOB_OK;
    bool is_asked = false;
    for (size_t i = 0; i < (*at)->waits.count; i++) is_asked |= (*at)->waits.items[i] == peer;
    if (!is_asked) return MOB_EPROTO;
    mob_status_t status = node_rows_add(&(*at)->rows, r.at, r.left, count);
    if (status != MOB_OK) return status;
    if (is_last) part_end(*at, peer);
    (void)look(at, MOB_OK);
    return MOB_OK;
}

void node_gather_died(node_cluster_t *c, uint64_t peer) {
    for (node_gathering_t **at = &c->acting.gatherings; *at != NULL;) {
        part_end(*at, peer);
        if (!look(at, MOB_OK)) at = &(*at)->next;
    }
}

void node_gather_tick(node_cluster_t *c) {
    uint64_t now = base_clock_mono_ns();
    for (node_gathering_t **at = &c->acting.gatherings; *at != NULL;) {
        bool is_late = now - (*at)->since_ns > PATIENCE_NS;
        if (!look(at, is_late ? MOB_ETIMEOUT : MOB_OK)) at = &(*at)->next;
    }
}

void node_gather_end(node_cluster_t *c) {
    while (c->acting.gatherings != NULL) (void)look(&c->acting.gatherings, MOB_ECLOSED);
}

/* ---- who is asked ---- */

typedef struct {
    node_cluster_t *cluster;
    uint64_t peer, number;
} asker_t;

/* A dead peer needs no answer. */
static void on_listed(void *context, mob_status_t status, const node_rows_t *rows) {
    asker_t asker = *(asker_t *)context;
    uint8_t *bytes = malloc(5 + rows->size);
    size_t at = 0, size;
    free(context);
    if (status != MOB_OK || bytes == NULL)
        node_cluster_trouble(asker.cluster, "no memory for a list for node %016llx",
                             (unsigned long long)asker.peer); /* it waits in vain, and says so */
    for (bool is_last = false; status == MOB_OK && bytes != NULL && !is_last; at += size) {
        base_writer_t w = {.bytes = bytes};
        uint32_t count = node_rows_piece(rows, at, PIECE, &size);
        is_last = at + size == rows->size;
        base_put_number(&w, is_last, 1);
        base_put_number(&w, count, 4);
        if (size > 0) base_put_bytes(&w, rows->bytes + at, size);
        (void)message_send(asker.cluster, asker.peer, NODE_GATHER_TOLD, asker.number, &w);
    }
    free(bytes);
}

mob_status_t node_gather_asked(node_cluster_t *c, uint64_t peer, const actor_message_t *m,
                               const uint8_t *body, size_t size) {
    base_reader_t r = {.at = body, .left = size};
    uint64_t what = base_take_number(&r, 1);
    char space[MOB_NAME_MAX + 1] = "";
    if (r.short_of || r.left > MOB_NAME_MAX ||
        (what != NODE_LIST_NAMES && what != NODE_LIST_ACTORS))
        return MOB_EPROTO;
    memcpy(space, r.at, r.left);
    asker_t *asker = malloc(sizeof *asker);
    if (asker == NULL) return MOB_ENOMEM;
    *asker = (asker_t){c, peer, m->epoch};
    if (node_listing_own(c->node, (node_list_t)what, space, on_listed, asker) == MOB_OK)
        return MOB_OK;
    free(asker);
    return MOB_ENOMEM;
}
