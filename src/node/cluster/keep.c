/*
 * One piece is asked for after the other, so that a value is never in the way of what else the
 * control state is asked. A question that is not answered comes again at the next tick: a piece may
 * be written, read or deleted twice.
 *
 * Who reads a value that is being written finds that a piece is missing: MOB_ELOST.
 */
#include "node/cluster/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/cluster/cluster.h"
#include "node/state.h"

static const uint64_t PATIENCE_NS = 5000000000;
enum { PIECE = 4000, SAY_OK = 1, SAY_NONE };

typedef enum { KEEP_WRITE, KEEP_READ, KEEP_DROP } what_t;

struct node_keep {
    node_keep_t *next; /* of those that were not answered */
    node_cluster_t *cluster;
    what_t what;
    frame_id_t id;
    size_t size, at;
    uint64_t since_ns;
    node_kept_fn kept;
    void *context;
    uint8_t bytes[];
};

typedef struct {
    what_t what;
    uint32_t size;
    char key[SCRIPT_KEY_MAX];
    uint8_t bytes[PIECE];
} arguments_t;

static size_t script(const script_keys_t *keys, const void *arguments, size_t size, void *answer) {
    const arguments_t *a = arguments;
    uint8_t *out = answer;
    size_t found_size = 0;
    (void)size;
    out[0] = SAY_OK;
    if (a->what == KEEP_WRITE) keys->set(keys->context, a->key, a->bytes, a->size, 0);
    if (a->what == KEEP_DROP) keys->del(keys->context, a->key);
    if (a->what != KEEP_READ) return 1;
    const void *found = keys->get(keys->context, a->key, &found_size);
    if (found == NULL || found_size > PIECE) {
        out[0] = SAY_NONE;
        return 1;
    }
    memcpy(out + 1, found, found_size);
    return 1 + found_size;
}

static void keep_end(node_keep_t *k, mob_status_t status) {
    if (k->kept != NULL) k->kept(k->context, status, k->bytes, status == MOB_OK ? k->size : 0);
    k->cluster->node->again = true;
    free(k);
}

static size_t piece_size(const node_keep_t *k) {
    return k->size - k->at < PIECE ? k->size - k->at : PIECE;
}

static void later(node_keep_t *k) {
    k->next = NULL;
    bool is_late = k->what == KEEP_READ && base_clock_mono_ns() - k->since_ns > PATIENCE_NS;
    if (k->cluster->state == CLUSTER_OVER || is_late) {
        keep_end(k, is_late ? MOB_ETIMEOUT : MOB_ECLOSED);
        return;
    }
    node_keep_t **last = &k->cluster->acting.keeps;
    while (*last != NULL) last = &(*last)->next;
    *last = k; /* what is written is asked for again before it is deleted */
}

static void on_answer(void *context, uint64_t master, const void *answer, size_t size);

static void piece_ask(node_keep_t *k) {
    arguments_t *a = calloc(1, sizeof *a);
    mob_status_t status = a != NULL ? MOB_OK : MOB_ENOMEM;
    if (a != NULL) {
        a->what = k->what;
        a->size = (uint32_t)piece_size(k);
        snprintf(a->key, sizeof a->key, "aw/%016llx%08x%016llx/%04x",
                 (unsigned long long)k->id.home, (unsigned)k->id.number,
                 (unsigned long long)k->id.generation, (unsigned)(k->at / PIECE));
        if (k->what == KEEP_WRITE) memcpy(a->bytes, k->bytes + k->at, a->size);
        status = node_cluster_ask(k->cluster, script, a, sizeof *a, on_answer, k);
        free(a);
    }
    if (status != MOB_OK) later(k);
}

static void on_answer(void *context, uint64_t master, const void *answer, size_t size) {
    node_keep_t *k = context;
    const uint8_t *said = answer;
    (void)master;
    if (answer == NULL || size == 0) {
        later(k);
        return;
    }
    if (k->what == KEEP_READ && (said[0] != SAY_OK || size - 1 != piece_size(k))) {
        keep_end(k, MOB_ELOST);
        return;
    }
    if (k->what == KEEP_READ) memcpy(k->bytes + k->at, said + 1, size - 1);
    k->at += piece_size(k);
    if (k->at < k->size)
        piece_ask(k);
    else
        keep_end(k, MOB_OK);
}

static node_keep_t *keep_new(node_cluster_t *c, what_t what, frame_id_t id, size_t size,
                             bool has_bytes) {
    node_keep_t *k = calloc(1, sizeof *k + (has_bytes ? size : 0) + 1);
    if (k == NULL) return NULL;
    k->cluster = c;
    k->what = what;
    k->id = id;
    k->size = size;
    k->since_ns = base_clock_mono_ns();
    return k;
}

mob_status_t node_keep_write(node_cluster_t *c, frame_id_t id, const void *bytes, size_t size) {
    node_keep_t *k = keep_new(c, KEEP_WRITE, id, size, true);
    if (k == NULL) return MOB_ENOMEM;
    memcpy(k->bytes, bytes, size);
    piece_ask(k);
    return MOB_OK;
}

mob_status_t node_keep_read(node_cluster_t *c, frame_id_t id, size_t size, node_kept_fn kept,
                            void *context) {
    node_keep_t *k = size <= NODE_KEEP_MOST ? keep_new(c, KEEP_READ, id, size, true) : NULL;
    if (k == NULL) return MOB_ENOMEM;
    k->kept = kept;
    k->context = context;
    piece_ask(k);
    return MOB_OK;
}

void node_keep_drop(node_cluster_t *c, frame_id_t id, size_t size) {
    node_keep_t *k = keep_new(c, KEEP_DROP, id, size, false);
    if (k == NULL)
        node_cluster_trouble(c, "no memory to delete what a dead actor has left in Redis");
    else
        piece_ask(k);
}

void node_keeps_tick(node_cluster_t *c) {
    node_keep_t *next, *k = c->acting.keeps;
    c->acting.keeps = NULL;
    for (; k != NULL; k = next) {
        next = k->next;
        piece_ask(k);
    }
}

void node_keeps_end(node_cluster_t *c) {
    for (node_keep_t *k; (k = c->acting.keeps) != NULL;) {
        c->acting.keeps = k->next;
        keep_end(k, MOB_ECLOSED);
    }
}
