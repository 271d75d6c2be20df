/*
 * References inside of a value that was pulled.
 *
 * The bytes come from any node that has them; the list of references comes from the home only, in
 * messages, since the home counts who holds what (refs_list_send):
 *
 *   LIST_ASK   to the home: an id
 *   LIST       from the home: the id, how many references there are, the first of these, and ids
 *
 * One of many thousands is cut into several messages. Each id becomes a reference of this node, and
 * has a use, until all are here. Then they are written behind the value's bytes, where its readers
 * look, and the value holds them. The room hears that the value is sealed when the homes of all of
 * them have answered (`kept`): before that no source is acknowledged to.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/post.h"
#include "node/cluster/pulled.h"
#include "node/state.h"

enum { IDS_MOST = 32768, LIST_HEAD = MOB_ID_SIZE + 4 + 4 };

void node_contents_sealed(node_pulling_t *p, frame_id_t id, mob_status_t status) {
    pull_sealed(p->pull, &id, status, node_pulling_now());
    node_pulled_t *e = node_pulled_find(p, id);
    if (e != NULL) node_pulled_update(p, e);
}

void node_contents_drop(node_pulling_t *p, node_pulled_t *e) {
    for (uint32_t i = 0; i < e->listed; i++) node_object_unuse_ref(p->node, e->list[i]);
    free(e->list);
    e->list = NULL;
    e->listed = 0;
}

/* One more of the list. False: it is gone. */
static bool list_add(node_pulling_t *p, node_pulled_t *e, mob_ref_t ref) {
    node_object_t *o = ref.slot != 0 ? node_object_find(p->node, ref) : NULL;
    if (o != NULL) node_object_use(o);
    e->list[e->listed++] = o != NULL ? ref : (mob_ref_t){0};
    return o != NULL;
}

/* ---- asking ---- */

/* An own object's list is in the books. False: it is not. */
static bool list_take(node_pulling_t *p, node_pulled_t *e, const node_object_t *o) {
    if (!o->contents_held || o->contents.count != o->elsewhere->ref_count) return false;
    for (size_t i = 0; i < o->contents.count; i++) list_add(p, e, o->contents.items[i]);
    return true;
}

static mob_status_t list_ask(node_pulling_t *p, const node_pulled_t *e) {
    uint8_t bytes[1 + MOB_ID_SIZE];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, PULLING_LIST_ASK, 1);
    frame_id_put(&w, e->id);
    node_letter_parts_t parts = {.body = bytes, .body_size = w.size};
    return node_post_send(p->cluster, e->id.home, POST_PULL, &parts, true);
}

void node_contents_seal(node_pulling_t *p, frame_id_t id) {
    node_pulled_t *e = node_pulled_find(p, id);
    node_object_t *o = e != NULL ? node_object_known(p->node, e->ref) : NULL;
    if (o == NULL || o->elsewhere == NULL || e->state != PULLED_COMING) {
        node_contents_sealed(p, id, MOB_ELOST);
        return;
    }
    uint32_t count = o->elsewhere->ref_count;
    e->state = PULLED_SEALING;
    if (count > 0) e->list = calloc(count, sizeof *e->list);
    mob_status_t status = count > 0 && e->list == NULL ? MOB_ENOMEM : MOB_OK;
    bool is_here = count == 0;
    if (status == MOB_OK && !is_here && id.home == p->node->incarnation) {
        is_here = list_take(p, e, o);
        if (!is_here) status = MOB_ELOST;
    } else if (status == MOB_OK && !is_here) {
        status = list_ask(p, e);
        if (status == MOB_ECLOSED) status = MOB_EOWNER;
    }
    if (is_here) node_pulled_fill(p, e);
    if (is_here || status != MOB_OK) node_contents_sealed(p, id, status);
}

/* ---- answering ---- */

static mob_status_t list_send(node_pulling_t *p, uint64_t peer, frame_id_t id,
                              const node_object_t *o, size_t first) {
    size_t total = o->contents.count;
    size_t count = total - first < IDS_MOST ? total - first : IDS_MOST;
    frame_id_t *ids = malloc((count + 1) * sizeof *ids);
    uint8_t *bytes = malloc(1 + LIST_HEAD + count * MOB_ID_SIZE);
    base_writer_t w = {.bytes = bytes};
    mob_status_t status = ids != NULL && bytes != NULL ? MOB_OK : MOB_ENOMEM;
    if (status == MOB_OK) {
        base_put_number(&w, PULLING_LIST, 1);
        frame_id_put(&w, id);
        base_put_number(&w, total, 4);
        base_put_number(&w, first, 4);
        for (size_t i = 0; i < count; i++) {
            ids[i] = node_proxy_id(p->node, o->contents.items[first + i]);
            frame_id_put(&w, ids[i]);
        }
        node_letter_parts_t parts = {.body = bytes, .body_size = w.size};
        status = count > 0 ? node_post_send_refs(p->cluster, peer, POST_PULL, &parts, ids, count,
                                                 &id, true)
                           : node_post_send(p->cluster, peer, POST_PULL, &parts, true);
    }
    free(bytes);
    free(ids);
    return status;
}

mob_status_t node_contents_asked(node_pulling_t *p, uint64_t peer, const uint8_t *bytes,
                                 size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    frame_id_t id = frame_id_take(&r);
    if (!base_reader_is_done(&r) || id.home != p->node->incarnation)
        return base_fail(MOB_EPROTO, "a question about references that makes no sense");
    node_object_t *o = node_object_known(p->node, node_proxy_find(p->node, id));
    if (o != NULL && !node_object_is_away(p->node, o)) node_object_contents_hold(p->node, o);
    static const node_object_t gone; /* it has an empty list, which the peer does not expect */
    if (o == NULL) o = (node_object_t *)(uintptr_t)&gone;
    mob_status_t status = list_send(p, peer, id, o, 0);
    if (status == MOB_ENOMEM) return status;
    for (size_t first = IDS_MOST; status == MOB_OK && first < o->contents.count; first += IDS_MOST)
        status = list_send(p, peer, id, o, first);
    return MOB_OK;
}

/* ---- the answer ---- */

/* The references of this message; false: one of them could not be made. */
static bool ids_take(node_pulling_t *p, node_pulled_t *e, const frame_id_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        mob_ref_t ref = node_proxy_get(p->node, ids[i]);
        if (ids[i].home == p->node->incarnation) ref = node_proxy_find(p->node, ids[i]);
        if (ref.slot == 0 && !frame_id_is_none(ids[i])) return false;
        list_add(p, e, ref);
    }
    return true;
}

static void list_end(node_pulling_t *p, node_pulled_t *e, uint64_t peer, bool waits) {
    node_pull_list_t keeping = {e->id, peer, node_post_sequence(p->cluster)};
    frame_id_t id = e->id;
    node_pulled_fill(p, e);
    if (waits && vec_push(&p->lists, keeping)) return;
    node_contents_sealed(p, id, MOB_OK);
}

mob_status_t node_contents_came(node_pulling_t *p, uint64_t peer, const uint8_t *bytes,
                                size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    frame_id_t id = frame_id_take(&r), *ids = NULL;
    uint32_t total = (uint32_t)base_take_number(&r, 4), first = (uint32_t)base_take_number(&r, 4);
    size_t count = r.left / MOB_ID_SIZE;
    bool waits = false;
    if (r.short_of || r.left % MOB_ID_SIZE != 0 || count > IDS_MOST)
        return base_fail(MOB_EPROTO, "a list of references that makes no sense");
    mob_status_t status = frame_ids_take(&r, count, &ids);
    if (status == MOB_OK && count > 0)
        status = node_holding_list_came(p->cluster, peer, id, ids, count, &waits);
    if (status != MOB_OK) {
        free(ids);
        return status;
    }
    node_pulled_t *e = node_pulled_find(p, id);
    node_object_t *o = e != NULL ? node_object_known(p->node, e->ref) : NULL;
    bool is_asked = o != NULL && o->elsewhere != NULL && e->state == PULLED_SEALING &&
                    e->list != NULL && e->listed == first;
    if (is_asked &&
        (total != o->elsewhere->ref_count || count > total - first || !ids_take(p, e, ids, count)))
        node_contents_sealed(p, id, MOB_ELOST);
    else if (is_asked && e->listed == total)
        list_end(p, e, peer, waits);
    free(ids);
    return MOB_OK;
}

void node_contents_kept(node_cluster_t *c, uint64_t peer, uint64_t sequence) {
    node_pulling_t *p = c->pulling;
    for (size_t i = 0; p != NULL && i < p->lists.count; i++) {
        node_pull_list_t k = p->lists.items[i];
        if (k.peer != peer || k.sequence != sequence) continue;
        vec_swap_remove(&p->lists, i);
        node_pulling_note(p, (node_todo_t){.kind = TODO_SEALED, .id = k.id});
        return;
    }
}

void node_contents_died(node_pulling_t *p, uint64_t peer) {
    VEC(frame_id_t) ids = {0};
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&p->all, &cursor, &key, &value)) {
        const node_pulled_t *e = value;
        if (e->state == PULLED_SEALING && e->id.home == peer) (void)vec_push(&ids, e->id);
    }
    for (size_t i = 0; i < ids.count; i++) node_contents_sealed(p, ids.items[i], MOB_EOWNER);
    vec_free(&ids);
}
