/*
 * Objects of this node that other nodes hold.
 *
 * An object that never crosses nodes is not here. One that does has a member for each node that
 * holds it. A member comes when a frame with the object is enqueued for that node, or with its
 * HOLD; it goes with its DROP, or when the node is struck off. With the last member the object is
 * the node's own affair again; if nothing here holds it either, it is freed.
 *
 * Members of one object are found by (object, node) in one map of all, so a thousand of them cost
 * no more to look through than one. A member that only keeps a function loaded counts like any
 * other: the home asks it to forget the function, and frees only after its DROP. (Freeing at once
 * was rejected: the node may have begun to use the function meanwhile.)
 */
#include <stdlib.h>

#include "base/rule.h"
#include "refs/books.h"

static refs_pair_t pair_of(frame_id_t id, const refs_peer_t *peer) {
    refs_pair_t pair = {.object = refs_key(id)};
    base_writer_t w = {.bytes = pair.node};
    base_put_number(&w, peer->node, 8);
    return pair;
}

refs_own_t *refs_own_find(const refs_t *refs, frame_id_t id) {
    refs_key_t key = refs_key(id);
    return base_map_get(&refs->owns, &key);
}

void refs_own_change(refs_t *refs, refs_own_t *own) {
    refs_link_move(&own->changed, &refs->changed);
}

/* What is not on the books is held on this node, or it would be gone. */
static refs_own_t *own_get(refs_t *refs, frame_id_t id) {
    refs_key_t key = refs_key(id);
    refs_own_t *own = base_map_get(&refs->owns, &key);
    if (own != NULL) return own;
    own = malloc(sizeof *own);
    if (own == NULL || !base_map_put(&refs->owns, &key, own)) {
        free(own);
        return NULL;
    }
    *own = (refs_own_t){.id = id, .is_local = true};
    refs_link_init(&own->changed);
    refs_link_init(&own->untold);
    refs_link_init(&own->members);
    refs_own_change(refs, own); /* it goes again if it gets no member */
    return own;
}

/* ---- members ---- */

refs_member_t *refs_member_find(const refs_t *refs, frame_id_t id, const refs_peer_t *peer) {
    refs_pair_t pair = pair_of(id, peer);
    return base_map_get(&refs->members, &pair);
}

refs_member_t *refs_member_get(refs_t *refs, frame_id_t id, refs_peer_t *peer) {
    refs_member_t *member = refs_member_find(refs, id, peer);
    if (member != NULL) return member;
    refs_own_t *own = own_get(refs, id);
    if (own == NULL) return NULL;
    refs_pair_t pair = pair_of(id, peer);
    member = malloc(sizeof *member);
    if (member == NULL || !base_map_put(&refs->members, &pair, member)) {
        free(member);
        return NULL;
    }
    *member = (refs_member_t){.own = own, .peer = peer, .is_fresh = true};
    refs_link_init(&member->in_own);
    refs_link_init(&member->in_peer);
    refs_link_init(&member->in_forgets);
    refs_link_move(&member->in_own, &own->members);
    refs_link_move(&member->in_peer, &peer->members);
    own->count++;
    return member;
}

void refs_member_set(refs_t *refs, refs_member_t *member, refs_level_t level) {
    refs_own_t *own = member->own;
    own->held += (size_t)(level == REFS_HELD) - (size_t)(member->level == REFS_HELD);
    if (level == REFS_HELD) {
        refs_link_remove(&member->in_forgets);
        refs_link_move(&member->in_own, &own->members);
    } else if (member->level != level) {
        refs_link_move(&member->in_own, &own->untold);
    }
    member->level = level;
    member->is_fresh = false;
    refs_own_change(refs, own);
}

void refs_member_remove(refs_t *refs, refs_member_t *member) {
    refs_own_t *own = member->own;
    refs_pair_t pair = pair_of(own->id, member->peer);
    base_map_remove(&refs->members, &pair);
    own->count--;
    own->held -= member->level == REFS_HELD;
    refs_link_remove(&member->in_own);
    refs_link_remove(&member->in_peer);
    refs_link_remove(&member->in_forgets);
    free(member);
    refs_own_change(refs, own);
}

/* ---- what follows ---- */

static void forget_ask(refs_t *refs, refs_own_t *own) {
    refs_link_t *link;
    while ((link = refs_link_pop(&own->untold)) != NULL) {
        refs_member_t *member = REFS_OF(link, refs_member_t, in_own);
        refs_link_move(&member->in_own, &own->members);
        refs_link_move(&member->in_forgets, &member->peer->forgets);
        refs_peer_busy(refs, member->peer);
    }
}

static void members_remove(refs_t *refs, refs_link_t *members) {
    while (!refs_link_is_alone(members))
        refs_member_remove(refs, REFS_OF(members->next, refs_member_t, in_own));
}

void refs_own_settle(refs_t *refs, refs_own_t *own) {
    bool is_held = BASE_RULE(REFS_CACHES_COUNT) ? own->count > 0 : own->held > 0;
    if (is_held) {
        if (!own->is_local && own->held == 0) forget_ask(refs, own);
        return;
    }
    members_remove(refs, &own->untold);
    members_remove(refs, &own->members);
    frame_id_t id = own->id;
    bool is_local = own->is_local;
    refs_key_t key = refs_key(id);
    base_map_remove(&refs->owns, &key);
    refs_link_remove(&own->changed);
    free(own);
    if (!is_local) refs->ops->free(refs->context, id);
}
