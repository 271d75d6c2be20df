/*
 * The home's choice of sources. Its book of an object has a site for every node that has bytes of
 * it or waits for some. Who reads from whom are edges, from a site to its source.
 *
 * A source serves one reader at a time: it is among the idle ones exactly if it has bytes and no
 * reader that gets on. So the first asker reads from the primary, the second from the first as soon
 * as that has a chunk, and so on: a chain, in which every link is used once. An edge that has made
 * no progress for PULL_STALE_NS is not live any more, and its source is idle again: a receiver that
 * was stopped keeps nobody waiting. When it goes on, its source has two readers for a while. Nor is
 * the edge of one that has complained live before it gets a chunk again [it can't reach the only
 * complete copy, is sent there every second, and nobody else ever is].
 *
 * No cycle: a site gets a new rank, above all others, when it is named a source while it has no
 * readers itself. One that has readers keeps its rank, and is sent only to complete copies and to
 * partial ones of a lower rank. So every edge goes from a higher rank to a lower one or ends at a
 * complete copy, and no walk over the chain is needed to know it. The book has every edge that is
 * really read along, and perhaps more: a receiver stops reading before it asks again, and a copy
 * that a node has anew has another birth, which the old readers do not know.
 *
 * A whole chain stalls behind one stopped node. Its reader asks first, and gets another source. Who
 * asks because its own source has just asked stays where it is, once: else the chain would fall
 * apart into as many readers of the primary.
 *
 * Rejected: naming askers as sources before they have bytes (a chain of promises, of which a dead
 * link is noticed only when bytes should come); a tree (the primary's link is then shared by its
 * children, and everybody's time is a multiple of one copy's).
 */
#include <stdlib.h>
#include <string.h>

#include "base/rule.h"
#include "pull/state.h"

enum { TRIES = 8 }; /* sources, and askers, that are looked at for one match */

#define STAY_NS (2 * PULL_STALL_NS) /* how long a source's own complaint excuses it */

/* ---- books and sites ---- */

typedef struct {
    uint8_t id[PULL_ID_SIZE], node[8];
} site_key_t;

static site_key_t key_of(const frame_id_t *id, uint64_t node) {
    site_key_t key;
    pull_id_write(id, key.id);
    memcpy(key.node, &node, sizeof node);
    return key;
}

book_t *pull_book_find(const pull_t *pull, const frame_id_t *id) {
    uint8_t key[PULL_ID_SIZE];
    pull_id_write(id, key);
    return base_map_get(&pull->books, key);
}

static void site_init(site_t *site, book_t *book, peer_t *peer) {
    *site = (site_t){.book = book, .peer = peer};
    ring_init(&site->readers);
    ring_push(&book->sites, &site->of_book);
    ring_push(&peer->sites, &site->of_peer);
}

book_t *pull_book_new(pull_t *pull, const frame_id_t *id) {
    uint8_t key[PULL_ID_SIZE];
    pull_id_write(id, key);
    peer_t *own = pull_peer(pull, pull->self);
    book_t *book = own != NULL ? calloc(1, sizeof *book) : NULL;
    if (book == NULL || !base_map_put(&pull->books, key, book)) {
        free(book);
        return NULL;
    }
    book->id = *id;
    ring_init(&book->sites);
    ring_init(&book->askers);
    ring_init(&book->describers);
    ring_init(&book->idle_complete);
    ring_init(&book->idle_partial);
    site_init(&book->own, book, own);
    return book;
}

site_t *pull_site_find(pull_t *pull, book_t *book, uint64_t node) {
    if (node == pull->self) return &book->own;
    site_key_t key = key_of(&book->id, node);
    return base_map_get(&pull->sites, &key);
}

site_t *pull_site_new(pull_t *pull, book_t *book, peer_t *peer) {
    site_t *site = pull_site_find(pull, book, peer->node);
    if (site != NULL) return site;
    site_key_t key = key_of(&book->id, peer->node);
    site = malloc(sizeof *site);
    if (site == NULL || !base_map_put(&pull->sites, &key, site)) {
        free(site);
        return NULL;
    }
    site_init(site, book, peer);
    return site;
}

bool pull_site_is_complete(const site_t *site) {
    return site->has_copy && site->have == site->book->chunks;
}

/* ---- edges ---- */

static void idle_update(site_t *site) {
    bool is_free = site->live == 0 || !BASE_RULE(PULL_ONE_RECEIVER);
    bool is_idle = site->has_copy && site->have > 0 && is_free;
    book_t *book = site->book;
    ring_remove(&site->idle);
    if (!is_idle) return;
    ring_push(pull_site_is_complete(site) ? &book->idle_complete : &book->idle_partial,
              &site->idle);
}

static void edge_live_set(pull_t *pull, site_t *site, bool is_live) {
    if (is_live) {
        site->touched_ns = pull->now_ns;
        ring_push(&pull->edges, &site->edge);
    } else {
        ring_remove(&site->edge);
    }
    if (site->is_live == is_live) return;
    site->is_live = is_live;
    site->source->live += is_live ? 1 : (size_t)-1;
    idle_update(site->source);
}

static void edge_cut(pull_t *pull, site_t *site) {
    if (site->source == NULL) return;
    edge_live_set(pull, site, false);
    ring_remove(&site->of_source);
    site->source = NULL;
}

static void edge_make(pull_t *pull, site_t *site, site_t *source) {
    if (ring_is_empty(&site->readers)) site->rank = ++site->book->last_rank;
    site->source = source;
    ring_push(&source->readers, &site->of_source);
    edge_live_set(pull, site, !site->is_lame || !BASE_RULE(PULL_LAME_EXCEEDED));
    idle_update(source); /* behind the others: who complains is sent to one after the other */
}

void pull_site_tidy(pull_t *pull, site_t *site) {
    if (site->has_copy || site->is_asking || site->is_describing || site->source != NULL) return;
    if (site == &site->book->own) return;
    site_key_t key = key_of(&site->book->id, site->peer->node);
    base_map_remove(&pull->sites, &key);
    ring_remove(&site->of_book);
    ring_remove(&site->of_peer);
    free(site);
}

static void readers_cut(pull_t *pull, site_t *site) {
    RING_EACH(link, &site->readers) {
        site_t *reader = RING_OF(link, site_t, of_source);
        edge_cut(pull, reader);
    }
}

/* It has no copy any more, and reads nothing; it may wait for something. */
static void site_clear(pull_t *pull, site_t *site) {
    edge_cut(pull, site);
    readers_cut(pull, site);
    site->has_copy = false;
    site->have = 0;
    site->was_refused = false;
    ring_push(&site->book->sites, &site->of_book); /* complete ones are in front */
    idle_update(site);
}

static void site_stop_waiting(site_t *site) {
    ring_remove(&site->line);
    site->is_asking = site->is_describing = false;
}

void pull_site_lose(pull_t *pull, site_t *site) {
    book_t *book = site->book;
    site_clear(pull, site);
    if (book->heir == site) pull_primary_heir_lose(pull, book);
    if (book->primary == site) pull_primary_lose(pull, book);
}

void pull_site_have(pull_t *pull, site_t *site, uint64_t birth, uint32_t have) {
    site->birth = birth;
    site->has_copy = true;
    site->have = have;
    if (site->source != NULL) edge_live_set(pull, site, true);
    site->has_stayed = site->is_lame = false;
    if (pull_site_is_complete(site)) {
        edge_cut(pull, site);
        ring_insert(&site->book->sites, &site->of_book); /* in front */
    }
    idle_update(site);
}

void pull_book_free(pull_t *pull, book_t *book) {
    uint8_t key[PULL_ID_SIZE];
    pull_id_write(&book->id, key);
    base_map_remove(&pull->books, key);
    RING_EACH(link, &book->sites) {
        site_t *site = RING_OF(link, site_t, of_book);
        site_clear(pull, site);
        site_stop_waiting(site);
        pull_site_tidy(pull, site);
    }
    ring_remove(&book->own.of_peer);
    free(book);
}

/* ---- the choice ---- */

static bool may_read(const site_t *asker, const site_t *source) {
    if (asker == source) return false;
    if (pull_site_is_complete(source) || ring_is_empty(&asker->readers)) return true;
    return source->rank < asker->rank || !BASE_RULE(PULL_NO_DESCENDANT);
}

/* The first that will do, and is not what the asker complains of; else that one. */
static site_t *choose_from(const site_t *asker, ring_t *idle, site_t **second) {
    int tries = 0;
    RING_EACH(link, idle) {
        site_t *source = RING_OF(link, site_t, idle);
        if (++tries > TRIES) break;
        if (!may_read(asker, source)) continue;
        if (source->peer->node != asker->avoid) return source;
        *second = source;
    }
    return NULL;
}

static site_t *choose(const site_t *asker) {
    site_t *second = NULL;
    site_t *source = choose_from(asker, &asker->book->idle_complete, &second);
    if (source == NULL) source = choose_from(asker, &asker->book->idle_partial, &second);
    return source != NULL ? source : second;
}

static void source_tell(pull_t *pull, site_t *asker) {
    const book_t *book = asker->book;
    pull_send(pull, asker->peer->node,
              &(pull_message_t){.kind = PULL_SOURCE,
                                .id = book->id,
                                .ticket = asker->ticket,
                                .birth = asker->source->birth,
                                .node = asker->source->peer->node,
                                .size = book->size,
                                .version = book->version});
}

void pull_book_match(pull_t *pull, book_t *book) {
    if (book->state != BOOK_THERE) return;
    int tries = 0;
    RING_EACH(link, &book->askers) {
        site_t *asker = RING_OF(link, site_t, line);
        site_t *source = choose(asker);
        if (source == NULL && ++tries >= TRIES) return;
        if (source == NULL) continue;
        site_stop_waiting(asker);
        edge_make(pull, asker, source);
        source_tell(pull, asker);
    }
}

void pull_book_describe(pull_t *pull, book_t *book) {
    RING_EACH(link, &book->describers) {
        site_t *site = RING_OF(link, site_t, line);
        pull_send(pull, site->peer->node,
                  &(pull_message_t){.kind = PULL_DESCRIBED,
                                    .id = book->id,
                                    .ticket = site->ticket,
                                    .size = book->size,
                                    .version = book->version});
        site_stop_waiting(site);
        pull_site_tidy(pull, site);
    }
}

void pull_book_unmade(pull_t *pull, book_t *book) {
    if (!BASE_RULE(PULL_LOST_RETREATS)) return;
    RING_EACH(link, &book->askers) {
        site_t *site = RING_OF(link, site_t, line);
        pull_send(pull, site->peer->node,
                  &(pull_message_t){.kind = PULL_UNMADE, .id = book->id, .ticket = site->ticket});
        site_stop_waiting(site);
        pull_site_tidy(pull, site);
    }
}

/* ---- messages ---- */

static void gone_tell(pull_t *pull, uint64_t to, const pull_message_t *m, mob_status_t why) {
    pull_send(pull, to,
              &(pull_message_t){
                  .kind = PULL_GONE, .id = m->id, .ticket = m->ticket, .flag = (uint8_t)why});
}

mob_status_t pull_source_describe(pull_t *pull, peer_t *from, const pull_message_t *m) {
    book_t *book = pull_book_find(pull, &m->id);
    mob_status_t state = book == NULL ? pull->ops->object_state(pull->context, &m->id) : MOB_OK;
    if (state != MOB_OK) {
        gone_tell(pull, from->node, m, state);
        return MOB_OK;
    }
    if (book == NULL) book = pull_book_new(pull, &m->id);
    site_t *site = book != NULL ? pull_site_new(pull, book, from) : NULL;
    if (site == NULL) return MOB_ENOMEM;
    if (site->is_asking) return MOB_OK; /* it has no right to: it was told before it asked */
    site->ticket = m->ticket;
    site->is_describing = true;
    ring_push(&book->describers, &site->line);
    if (book->state == BOOK_THERE) pull_book_describe(pull, book);
    return MOB_OK;
}

/* Whether the asker's source has asked for another itself: then bytes will come from there. */
static bool is_excused(const pull_t *pull, const site_t *asker, const pull_message_t *m) {
    const site_t *source = asker->source;
    return m->flag == PULL_STALLED && source != NULL && !asker->has_stayed &&
           source->complained_ns != 0 && pull->now_ns - source->complained_ns < STAY_NS;
}

/* What the asker has by its own word: of this version, or nothing. */
static void asker_update(pull_t *pull, site_t *site, const pull_message_t *m) {
    book_t *book = site->book;
    bool is_same = book->state != BOOK_PENDING && m->version == book->version;
    if (site->has_copy && (site->birth != m->birth || !is_same)) pull_site_lose(pull, site);
    if (is_same && m->chunk > 0 && m->chunk < book->chunks)
        pull_site_have(pull, site, m->birth, m->chunk);
    site->birth = m->birth;
}

/* The named source is not there: nobody else is sent to it. */
static void absent_note(pull_t *pull, site_t *asker) {
    site_t *source = asker->source;
    edge_cut(pull, asker);
    if (source == NULL || source == asker->book->primary) return;
    pull_site_lose(pull, source);
    pull_site_tidy(pull, source);
}

mob_status_t pull_source_ask(pull_t *pull, peer_t *from, const pull_message_t *m) {
    book_t *book = pull_book_find(pull, &m->id);
    if (book == NULL) {
        gone_tell(pull, from->node, m, MOB_ELOST);
        return MOB_OK;
    }
    site_t *site = pull_site_new(pull, book, from);
    if (site == NULL) return MOB_ENOMEM;
    if (site->is_describing) return MOB_OK; /* it has no right to: it does not know the size */
    site->ticket = m->ticket;
    if (m->flag != PULL_FIRST) site->complained_ns = pull->now_ns;
    if (is_excused(pull, site, m)) {
        site->has_stayed = true;
        edge_live_set(pull, site, true);
        source_tell(pull, site);
        return MOB_OK;
    }
    if (m->flag == PULL_ABSENT) absent_note(pull, site);
    edge_cut(pull, site);
    asker_update(pull, site, m);
    site->is_lame = m->flag == PULL_STALLED;
    site->avoid = m->node;
    site->is_asking = true;
    /* One that others read from goes first. */
    if (ring_is_empty(&site->readers))
        ring_push(&book->askers, &site->line);
    else
        ring_insert(&book->askers, &site->line);
    if (book->state == BOOK_LOST && book->heir == NULL) pull_book_unmade(pull, book);
    pull_book_match(pull, book);
    return MOB_OK;
}

static void outdated_tell(pull_t *pull, uint64_t to, const pull_message_t *m) {
    pull_send(
        pull, to,
        &(pull_message_t){.kind = PULL_RELEASE, .id = m->id, .version = m->version, .flag = 1});
}

void pull_source_progress(pull_t *pull, uint64_t from, const pull_message_t *m) {
    book_t *book = pull_book_find(pull, &m->id);
    site_t *site = book != NULL ? pull_site_find(pull, book, from) : NULL;
    bool is_known = site != NULL && book->state != BOOK_PENDING && book->version == m->version &&
                    site->birth == m->birth && m->chunk <= book->chunks && m->chunk > 0 &&
                    m->chunk >= site->have;
    if (!is_known) {
        if (book == NULL || book->version != m->version) outdated_tell(pull, from, m);
        return;
    }
    pull_site_have(pull, site, m->birth, m->chunk);
    if (pull_site_is_complete(site)) pull_primary_offer(pull, book, site);
    pull_book_match(pull, book);
}

void pull_source_gave_up(pull_t *pull, uint64_t from, const pull_message_t *m) {
    book_t *book = pull_book_find(pull, &m->id);
    site_t *site = book != NULL ? pull_site_find(pull, book, from) : NULL;
    if (site == NULL || site->birth != m->birth || site->is_describing) return;
    site_stop_waiting(site);
    pull_site_lose(pull, site);
    pull_site_tidy(pull, site);
    pull_book_match(pull, book);
}

/* ---- deaths, and time ---- */

void pull_source_died(pull_t *pull, peer_t *peer) {
    if (!BASE_RULE(PULL_DEATH_FREES)) return;
    while (!ring_is_empty(&peer->sites)) {
        site_t *site = RING_OF(peer->sites.next, site_t, of_peer);
        book_t *book = site->book;
        site_stop_waiting(site);
        pull_site_lose(pull, site);
        pull_site_tidy(pull, site);
        pull_book_match(pull, book);
        if (book->state == BOOK_PENDING && ring_is_empty(&book->describers))
            pull_book_free(pull, book);
        pull_drain(pull);
    }
}

void pull_source_tick(pull_t *pull) {
    if (!BASE_RULE(PULL_STALE_EXCEEDED)) return;
    while (!ring_is_empty(&pull->edges)) {
        site_t *site = RING_OF(pull->edges.next, site_t, edge);
        if (pull->now_ns - site->touched_ns < PULL_STALE_NS) return;
        edge_live_set(pull, site, false);
        pull_book_match(pull, site->book);
        pull_drain(pull);
    }
}
