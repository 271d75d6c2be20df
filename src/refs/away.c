/*
 * Objects of other nodes that are held here, asked for, or given on.
 *
 * - told NONE, not asking: the home does not know that it is wanted here. A HOLD goes out.
 * - told NONE, asking: only the home's answer, its frame, or its tombstone leads on.
 * - told HELD: this node is in the home's set, and stays there until it says DROP.
 * - told CACHED: the same, and the home may ask to forget it.
 *
 * An object is wanted as long as the node holds it, a frame pins it (given on and not confirmed, or
 * a container whose contents are asked for) or a frame waits for the home's answer. A frame of the
 * home itself leads to told HELD: the home had added this node before it sent it, and a DROP that
 * was said before is too old to count. Whoever waits then need not ask.
 *
 * What was asked is answered before a DROP is said, so at most one HOLD of an object is on its way,
 * and an answer is always that of the newest HOLD. (Were the frame of the home taken for the answer
 * to a HOLD on its way, then a DROP and a second HOLD could follow, and the first one's answer
 * would be taken for the second's.)
 *
 * Where this node is told CACHED and begins to use the object again, it says nothing: it is in the
 * set, and nothing in the set is freed.
 */
#include <stdlib.h>

#include "base/rule.h"
#include "refs/books.h"

refs_away_t *refs_away_find(const refs_t *refs, frame_id_t id) {
    refs_key_t key = refs_key(id);
    return base_map_get(&refs->aways, &key);
}

void refs_away_change(refs_t *refs, refs_away_t *away) {
    refs_link_move(&away->changed, &away->home->changed);
    refs_peer_busy(refs, away->home);
}

refs_away_t *refs_away_get(refs_t *refs, frame_id_t id) {
    refs_key_t key = refs_key(id);
    refs_away_t *away = base_map_get(&refs->aways, &key);
    if (away != NULL) return away;
    refs_peer_t *home = refs_peer_get(refs, id.home);
    away = home != NULL ? malloc(sizeof *away) : NULL;
    if (away == NULL || !base_map_put(&refs->aways, &key, away)) {
        free(away);
        return NULL;
    }
    *away = (refs_away_t){.id = id, .home = home};
    refs_link_init(&away->waits);
    refs_link_init(&away->in_home);
    refs_link_init(&away->changed);
    refs_link_move(&away->in_home, &home->aways);
    refs_away_change(refs, away); /* it goes again if nobody wants it */
    return away;
}

/* Takes it off the books. Pins keep its memory. */
static void away_strike(refs_t *refs, refs_away_t *away) {
    refs_key_t key = refs_key(away->id);
    base_map_remove(&refs->aways, &key);
    refs_link_remove(&away->in_home);
    refs_link_remove(&away->changed);
    away->home = NULL;
    if (away->pins == 0) free(away);
}

void refs_away_pin(refs_away_t *away) { away->pins++; }

void refs_away_unpin(refs_t *refs, refs_away_t *away) {
    if (--away->pins > 0) return;
    if (away->home != NULL)
        refs_away_change(refs, away);
    else
        free(away);
}

static void waits_end(refs_t *refs, refs_away_t *away) {
    refs_link_t *link;
    while ((link = refs_link_pop(&away->waits)) != NULL)
        refs_came_answer(refs, REFS_OF(link, refs_wait_t, in_away)->frame);
}

void refs_away_given(refs_t *refs, refs_away_t *away) {
    away->told = REFS_HELD;
    away->is_forgotten = false;
    if (!away->is_asking) waits_end(refs, away);
    refs_away_change(refs, away);
}

void refs_away_answered(refs_t *refs, refs_away_t *away) {
    away->is_asking = false;
    refs_away_given(refs, away);
}

void refs_away_lose(refs_t *refs, refs_away_t *away, refs_reason_t reason) {
    frame_id_t id = away->id;
    waits_end(refs, away);
    away_strike(refs, away);
    refs->ops->gone(refs->context, id, reason);
}

static refs_level_t level_wanted(const refs_away_t *away) {
    return away->pins > 0 || !refs_link_is_alone(&away->waits) ? REFS_HELD : away->level;
}

void refs_away_settle(refs_t *refs, refs_away_t *away) {
    refs_level_t wanted = level_wanted(away);
    if (away->is_asking) return;
    if (away->told == REFS_NONE && wanted != REFS_NONE) {
        away->is_asking = true;
        refs_say_object(refs, REFS_SAY_HOLD, away->id);
    } else if (wanted == REFS_NONE) {
        if (away->told != REFS_NONE) refs_say_object(refs, REFS_SAY_DROP, away->id);
        away_strike(refs, away);
    } else if (wanted == REFS_CACHED && away->told == REFS_HELD) {
        away->told = REFS_CACHED;
        refs_say_object(refs, REFS_SAY_CACHE, away->id);
    } else if (wanted == REFS_CACHED && away->is_forgotten) {
        refs->ops->forget(refs->context, away->id);
    }
}
