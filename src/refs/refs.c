/*
 * The room as a whole: peers, turns, deaths.
 *
 * Deaths. A dead node may have given references to others that its homes do not know of yet: the
 * frame came, the HOLD is on its way. So a home keeps a dead node in its sets until every live node
 * has closed its tombstone: has processed what came of it, and has had the HOLDs answered that
 * followed. A node that took from the dead one and died before it had its answers may have given on
 * in turn. Its own tombstone is then the one that all must have closed: the leader sees to it, who
 * publishes the greatest K for which all that is so (refs_struck). For the same reason a giver
 * keeps what a dead node has not confirmed until that node is struck off.
 *
 * Tombstones have numbers and come in their order. What is said to the leader is the number up to
 * which all are closed, for one number a node is all that it keeps.
 *
 * At a home's death nothing of it is counted any more: its tombstone is the answer to every HOLD.
 */
#include "refs/refs.h"

#include <stdlib.h>

#include "base/rule.h"
#include "refs/books.h"

/* ---- peers ---- */

refs_peer_t *refs_peer_find(const refs_t *refs, uint64_t node) {
    return base_map_get(&refs->peers, &node);
}

refs_peer_t *refs_peer_get(refs_t *refs, uint64_t node) {
    refs_peer_t *peer = refs_peer_find(refs, node);
    if (peer != NULL) return peer;
    peer = malloc(sizeof *peer);
    if (peer == NULL || !base_map_put(&refs->peers, &node, peer)) {
        free(peer);
        return NULL;
    }
    *peer = (refs_peer_t){.node = node};
    base_map_init(&peer->sent, sizeof(uint64_t));
    refs_link_t *links[] = {&peer->busy,    &peer->dead,  &peer->changed, &peer->answered,
                            &peer->forgets, &peer->aways, &peer->members};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) refs_link_init(links[i]);
    return peer;
}

void refs_peer_busy(refs_t *refs, refs_peer_t *peer) { refs_link_move(&peer->busy, &refs->busy); }

/* ---- the room ---- */

mob_status_t refs_new(const refs_ops_t *ops, void *context, uint64_t self, uint64_t tombstones,
                      refs_t **ret_refs) {
    refs_t *refs = calloc(1, sizeof *refs);
    if (refs == NULL) return MOB_ENOMEM;
    refs->ops = ops;
    refs->context = context;
    refs->self = self;
    refs->heard = refs->closed = tombstones;
    base_map_init(&refs->peers, sizeof(uint64_t));
    base_map_init(&refs->owns, sizeof(refs_key_t));
    base_map_init(&refs->members, sizeof(refs_pair_t));
    base_map_init(&refs->aways, sizeof(refs_key_t));
    refs_link_init(&refs->busy);
    refs_link_init(&refs->changed);
    refs_link_init(&refs->dead);
    refs_link_init(&refs->frames);
    *ret_refs = refs;
    return MOB_OK;
}

static void values_free(base_map_t *map) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(map, &cursor, &key, &value)) free(value);
    base_map_fini(map);
}

void refs_free(refs_t *refs) {
    if (refs == NULL) return;
    refs_link_t *link;
    while ((link = refs_link_pop(&refs->frames)) != NULL) {
        refs_came_t *frame = REFS_OF(link, refs_came_t, in_all);
        if (frame->container != NULL) refs_away_unpin(refs, frame->container);
        free(frame);
    }
    size_t cursor = 0;
    const void *key;
    void *peer;
    while (base_map_each(&refs->peers, &cursor, &key, &peer)) refs_sent_release(refs, peer);
    values_free(&refs->aways);
    values_free(&refs->members);
    values_free(&refs->owns);
    values_free(&refs->peers);
    free(refs);
}

refs_counts_t refs_count(const refs_t *refs) {
    return (refs_counts_t){
        .own = refs->owns.count,
        .holders = refs->members.count,
        .away = refs->aways.count,
        .sent = refs->sent,
        .came = refs->came,
        .dead = refs->dead_count,
    };
}

/* ---- what this node holds ---- */

static void own_set(refs_t *refs, refs_own_t *own, bool is_local) {
    own->is_local = is_local;
    refs_own_change(refs, own);
}

static void away_set(refs_t *refs, frame_id_t id, refs_level_t level) {
    refs_away_t *away = refs_away_find(refs, id);
    if (away == NULL) return; /* it is gone */
    away->level = level;
    refs_away_change(refs, away);
}

void refs_held(refs_t *refs, frame_id_t id) {
    refs_own_t *own = id.home == refs->self ? refs_own_find(refs, id) : NULL;
    if (own != NULL) own_set(refs, own, true);
    if (id.home != refs->self) away_set(refs, id, REFS_HELD);
}

void refs_cached(refs_t *refs, frame_id_t id) { away_set(refs, id, REFS_CACHED); }

bool refs_unheld(refs_t *refs, frame_id_t id) {
    if (id.home != refs->self) {
        away_set(refs, id, REFS_NONE);
        return false;
    }
    refs_own_t *own = refs_own_find(refs, id);
    if (own == NULL) return true;
    own_set(refs, own, false);
    return false;
}

/* ---- turns ---- */

/* Says one thing to the peer. False: there is nothing to say. */
static bool peer_settle(refs_t *refs, refs_peer_t *peer) {
    refs_link_t *link;
    if ((link = refs_link_pop(&peer->changed)) != NULL)
        refs_away_settle(refs, REFS_OF(link, refs_away_t, changed));
    else if ((link = refs_link_pop(&peer->answered)) != NULL)
        refs_came_settle(refs, REFS_OF(link, refs_came_t, answered));
    else if ((link = refs_link_pop(&peer->forgets)) != NULL)
        refs_say_object(refs, REFS_SAY_FORGET, REFS_OF(link, refs_member_t, in_forgets)->own->id);
    return link != NULL;
}

static mob_status_t peer_flush(refs_t *refs, refs_peer_t *peer) {
    mob_status_t status = refs_out_begin(refs, peer);
    if (status != MOB_OK) return status;
    bool has_more = true;
    while (has_more && refs_out_has_room(refs)) has_more = peer_settle(refs, peer);
    if (!has_more) refs_link_remove(&peer->busy);
    return refs_out_send(refs);
}

/* Up to where all tombstones are closed: the first open one is the limit. */
static uint64_t closed_now(const refs_t *refs) {
    for (refs_link_t *link = refs->dead.next; link != &refs->dead; link = link->next) {
        const refs_peer_t *peer = REFS_OF(link, const refs_peer_t, dead);
        if (peer->pending == 0 || !BASE_RULE(REFS_CLOSE_ANSWERED)) continue;
        if (BASE_RULE(REFS_CLOSE_IN_ORDER) || peer->number == refs->heard) return peer->number - 1;
    }
    return refs->heard;
}

static void closed_tell(refs_t *refs) {
    if (!refs->is_closing) return;
    refs->is_closing = false;
    uint64_t closed = closed_now(refs);
    if (closed <= refs->closed) return;
    refs->closed = closed;
    refs->ops->closed(refs->context, closed);
}

mob_status_t refs_flush(refs_t *refs) {
    mob_status_t status = refs_out_send(refs);
    while (status == MOB_OK) {
        refs_link_t *link = refs_link_pop(&refs->changed);
        if (link != NULL)
            refs_own_settle(refs, REFS_OF(link, refs_own_t, changed));
        else if (!refs_link_is_alone(&refs->busy))
            status = peer_flush(refs, REFS_OF(refs->busy.next, refs_peer_t, busy));
        else
            break;
    }
    if (status == MOB_OK) closed_tell(refs);
    return status;
}

/* ---- deaths ---- */

static void members_strike(refs_t *refs, refs_peer_t *peer) {
    while (!refs_link_is_alone(&peer->members))
        refs_member_remove(refs, REFS_OF(peer->members.next, refs_member_t, in_peer));
}

/* The tombstone is the answer of a home to everything that it was asked. */
static void aways_lose(refs_t *refs, refs_peer_t *peer) {
    for (refs_link_t *link = peer->aways.next, *next; link != &peer->aways; link = next) {
        refs_away_t *away = REFS_OF(link, refs_away_t, in_home);
        next = link->next;
        if (BASE_RULE(REFS_TOMBSTONE_ANSWERS) || !away->is_asking)
            refs_away_lose(refs, away, REFS_OWNER_DIED);
    }
}

void refs_died(refs_t *refs, uint64_t node, uint64_t number) {
    if (number <= refs->heard) return;
    refs->heard = number;
    refs->is_closing = true;
    refs_peer_t *peer = refs_peer_find(refs, node);
    if (peer == NULL) return;
    peer->number = number;
    refs_link_move(&peer->dead, &refs->dead);
    refs->dead_count++;
    aways_lose(refs, peer);
    if (!BASE_RULE(REFS_STRIKE_AT_K)) members_strike(refs, peer);
    if (!BASE_RULE(REFS_DEAD_UNCONFIRMED)) refs_sent_release(refs, peer);
}

static void peer_strike(refs_t *refs, refs_peer_t *peer) {
    members_strike(refs, peer);
    refs_sent_release(refs, peer);
    refs_link_remove(&peer->dead);
    refs_link_remove(&peer->busy);
    refs->dead_count--;
    base_map_remove(&refs->peers, &peer->node);
    free(peer);
}

void refs_struck(refs_t *refs, uint64_t number) {
    if (number > refs->closed) number = refs->closed;
    while (!refs_link_is_alone(&refs->dead)) {
        refs_peer_t *peer = REFS_OF(refs->dead.next, refs_peer_t, dead);
        if (peer->number > number || peer->pending > 0 || !refs_link_is_alone(&peer->aways)) break;
        peer_strike(refs, peer);
    }
}
