/*
 * Exactly one copy of an object is its primary: the node that has it does not give it up until the
 * home says so. Only the home changes which one it is, in two steps: it asks a holder of a complete
 * copy to keep it, and when that has answered yes, it is the primary, and the old one is released.
 * A holder may have given its copy up while the question was under way: then it answers no, and the
 * home asks the next one. So there are two for a moment, never none.
 *
 *     THERE --the primary dies--> LOST --a complete copy keeps--> THERE
 *                                      --made again, added----> THERE, with a greater version
 *
 * While an heir is asked, askers wait. When there is none they are told to give back the memory
 * that they have for it [the task that makes it again needs that memory for its arguments], and to
 * have it described again, which waits until it is made.
 */
#include "base/rule.h"
#include "pull/state.h"

static void keep_ask(pull_t *pull, book_t *book, site_t *heir) {
    book->heir = heir;
    book->move = ++pull->last;
    pull_send(pull, heir->peer->node,
              &(pull_message_t){.kind = PULL_KEEP,
                                .id = book->id,
                                .ticket = book->move,
                                .birth = heir->birth,
                                .version = book->version});
}

static void release_tell(pull_t *pull, const book_t *book, const site_t *site, bool is_unneeded) {
    pull_send(
        pull, site->peer->node,
        &(pull_message_t){
            .kind = PULL_RELEASE, .id = book->id, .version = book->version, .flag = is_unneeded});
}

static void primary_set(pull_t *pull, book_t *book, site_t *site) {
    site_t *old = book->primary;
    book->heir = NULL;
    book->primary = site;
    if (old != NULL && old != site) release_tell(pull, book, old, false);
    book->state = BOOK_THERE;
    pull_book_describe(pull, book);
    pull_book_match(pull, book);
}

/* Without the rule the home believes that its word is enough. */
static void heir_ask(pull_t *pull, book_t *book, site_t *heir) {
    keep_ask(pull, book, heir);
    if (!BASE_RULE(PULL_KEPT_ANSWERED)) primary_set(pull, book, heir);
}

/* A complete copy that was not refused; complete ones come first. */
static site_t *heir_find(const book_t *book) {
    RING_EACH(link, &book->sites) {
        site_t *site = RING_OF(link, site_t, of_book);
        if (!pull_site_is_complete(site)) return NULL;
        if (!site->was_refused) return site;
    }
    return NULL;
}

void pull_primary_lose(pull_t *pull, book_t *book) {
    book->primary = NULL;
    book->state = BOOK_LOST;
    if (book->heir != NULL) return; /* its answer decides */
    site_t *heir = heir_find(book);
    if (heir != NULL) {
        heir_ask(pull, book, heir);
        return;
    }
    pull_book_unmade(pull, book);
    pull->ops->lost(pull->context, &book->id);
}

void pull_primary_offer(pull_t *pull, book_t *book, site_t *site) {
    if (book->state == BOOK_LOST && book->heir == NULL) heir_ask(pull, book, site);
}

void pull_primary_heir_lose(pull_t *pull, book_t *book) {
    book->heir = NULL;
    if (book->primary == NULL) pull_primary_lose(pull, book);
}

void pull_primary_kept(pull_t *pull, uint64_t from, const pull_message_t *m) {
    book_t *book = pull_book_find(pull, &m->id);
    if (book == NULL || book->heir == NULL || book->move != m->ticket ||
        book->heir->peer->node != from)
        return;
    site_t *heir = book->heir;
    if (m->flag) {
        primary_set(pull, book, heir);
        return;
    }
    heir->was_refused = true;
    pull_primary_heir_lose(pull, book);
}

/* ---- the node's calls ---- */

static bool value_makes_sense(uint32_t version, uint64_t size) {
    return version > 0 && size > 0 && size <= PULL_SIZE_MAX;
}

/* Copies of older versions are none. The site of the new one stays. */
static void versions_drop(pull_t *pull, book_t *book, const site_t *next) {
    RING_EACH(link, &book->sites) {
        site_t *site = RING_OF(link, site_t, of_book);
        if (!site->has_copy) continue;
        if (pull_site_is_complete(site)) release_tell(pull, book, site, true);
        pull_site_lose(pull, site);
        if (site != next) pull_site_tidy(pull, site);
    }
}

/* The object has a value: the node that made another need not keep it. */
static void made_release(pull_t *pull, const frame_id_t *id, uint32_t version, uint64_t node) {
    if (node == pull->self) return;
    pull_send(pull, node,
              &(pull_message_t){.kind = PULL_RELEASE, .id = *id, .version = version, .flag = 1});
}

mob_status_t pull_object_add(pull_t *pull, const frame_id_t *id, uint32_t version, uint64_t size,
                             uint64_t node, uint64_t now_ns) {
    pull->now_ns = now_ns;
    if (!value_makes_sense(version, size) || id->home != pull->self) return MOB_EINVAL;
    book_t *book = pull_book_find(pull, id);
    if (book != NULL && (book->state == BOOK_THERE || book->heir != NULL)) {
        made_release(pull, id, version, node);
        return MOB_EEXISTS;
    }
    if (book != NULL && version <= book->version) return MOB_EINVAL;
    if (pull_is_dead(pull, node)) return MOB_ESTALE;
    peer_t *peer = pull_peer(pull, node);
    bool is_new = book == NULL;
    if (peer != NULL && is_new) book = pull_book_new(pull, id);
    site_t *site = peer != NULL && book != NULL ? pull_site_new(pull, book, peer) : NULL;
    mob_status_t status = site == NULL ? MOB_ENOMEM : MOB_OK;
    if (status == MOB_OK && node == pull->self)
        status = pull_copy_made(pull, id, version, size, now_ns);
    if (status != MOB_OK) {
        if (is_new && book != NULL) pull_book_free(pull, book);
        return status;
    }
    if (book->state == BOOK_LOST) versions_drop(pull, book, site);
    book->version = version;
    book->size = size;
    book->chunks = pull_chunks(size);
    pull_site_have(pull, site, 0, book->chunks);
    primary_set(pull, book, site);
    pull_settle(pull);
    return MOB_OK;
}

void pull_object_free(pull_t *pull, const frame_id_t *id, uint64_t now_ns) {
    pull->now_ns = now_ns;
    book_t *book = pull_book_find(pull, id);
    if (book == NULL) return;
    RING_EACH(link, &book->sites) {
        site_t *site = RING_OF(link, site_t, of_book);
        uint64_t node = site->peer->node;
        if (site->has_copy) release_tell(pull, book, site, true);
        if (site->is_asking || site->is_describing)
            pull_send(pull, node,
                      &(pull_message_t){
                          .kind = PULL_GONE, .id = *id, .ticket = site->ticket, .flag = MOB_ELOST});
    }
    pull_book_free(pull, book);
    pull_settle(pull);
}

mob_status_t pull_object_move(pull_t *pull, const frame_id_t *id, uint64_t node, uint64_t now_ns) {
    pull->now_ns = now_ns;
    book_t *book = pull_book_find(pull, id);
    site_t *site = book != NULL ? pull_site_find(pull, book, node) : NULL;
    if (site == NULL || book->state != BOOK_THERE || !pull_site_is_complete(site))
        return MOB_ESTALE;
    if (site == book->primary || book->heir != NULL) return MOB_OK;
    heir_ask(pull, book, site);
    pull_settle(pull);
    return MOB_OK;
}
