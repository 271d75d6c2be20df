/*
 * Messages: a version, the number of the receiver's newest frame that the sender had seen when it
 * wrote this, then words of a byte each with an id or a number. The whole message is read before
 * anything of it is done: so a bad one changes nothing.
 *
 * One message is written at a time, in memory that is always there. If it can't be sent it stays,
 * and nothing else is written before it is. The answers to a message are no longer than the
 * message, so they always fit.
 */
#include <stdlib.h>

#include "base/rule.h"
#include "refs/books.h"

enum { VERSION = 1, HEAD = 1 + 8, WORD_MAX = 1 + MOB_ID_SIZE };

/* ---- writing ---- */

mob_status_t refs_out_send(refs_t *refs) {
    mob_status_t status = MOB_OK;
    if (refs->out_to != 0 && refs->out.size > HEAD)
        status = refs->ops->send(refs->context, refs->out_to, refs->out_bytes, refs->out.size);
    if (status == MOB_ENOMEM) return status;
    refs->out_to = 0;
    return MOB_OK;
}

mob_status_t refs_out_begin(refs_t *refs, refs_peer_t *peer) {
    mob_status_t status = refs_out_send(refs);
    if (status != MOB_OK) return status;
    refs->out_to = peer->node;
    refs->out = (base_writer_t){.bytes = refs->out_bytes};
    base_put_number(&refs->out, VERSION, 1);
    base_put_number(&refs->out, peer->processed, 8);
    return MOB_OK;
}

bool refs_out_has_room(const refs_t *refs) { return refs->out.size + WORD_MAX <= REFS_MESSAGE_MAX; }

void refs_say_object(refs_t *refs, refs_say_t what, frame_id_t id) {
    refs_key_t key = refs_key(id);
    base_put_number(&refs->out, what, 1);
    base_put_bytes(&refs->out, key.bytes, sizeof key.bytes);
}

void refs_say_confirm(refs_t *refs, uint64_t sequence) {
    base_put_number(&refs->out, REFS_SAY_CONFIRM, 1);
    base_put_number(&refs->out, sequence, 8);
}

/* ---- reading ---- */

typedef struct {
    uint64_t what, number;
    frame_id_t id;
} word_t;

static word_t word_take(base_reader_t *r) {
    word_t word = {.what = base_take_number(r, 1)};
    if (word.what == REFS_SAY_CONFIRM) {
        word.number = base_take_number(r, 8);
        return word;
    }
    word.id.home = base_take_number(r, 8);
    word.id.number = (uint32_t)base_take_number(r, 4);
    word.id.generation = base_take_number(r, 8);
    return word;
}

static bool is_message(const void *bytes, size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    if (size > REFS_MESSAGE_MAX || base_take_number(&r, 1) != VERSION) return false;
    base_take_number(&r, 8);
    while (r.left > 0) {
        word_t word = word_take(&r);
        if (word.what == 0 || word.what >= REFS_SAYS) return false;
    }
    return base_reader_is_done(&r);
}

static refs_say_t hold_take(refs_t *refs, refs_peer_t *peer, frame_id_t id) {
    if (refs_own_find(refs, id) == NULL) return REFS_SAY_GONE;
    refs_member_t *member = refs_member_get(refs, id, peer);
    if (member == NULL) return REFS_SAY_AGAIN;
    refs_member_set(refs, member, REFS_HELD);
    return REFS_SAY_KNOWN;
}

/* `processed`: what the peer had seen of this node when it said so. */
static void drop_take(refs_t *refs, refs_peer_t *peer, const word_t *word, uint64_t processed) {
    refs_member_t *member = refs_member_find(refs, word->id, peer);
    if (member == NULL) return;
    if (BASE_RULE(REFS_OLD_DROP) && member->last > processed) return;
    if (word->what == REFS_SAY_DROP)
        refs_member_remove(refs, member);
    else
        refs_member_set(refs, member, REFS_CACHED);
}

static void own_word_do(refs_t *refs, refs_peer_t *peer, const word_t *word, uint64_t processed) {
    if (word->what == REFS_SAY_HOLD)
        refs_say_object(refs, hold_take(refs, peer, word->id), word->id);
    else if (word->what == REFS_SAY_DROP || word->what == REFS_SAY_CACHE)
        drop_take(refs, peer, word, processed);
}

static void answer_take(refs_t *refs, refs_away_t *away, uint64_t what) {
    if (what == REFS_SAY_KNOWN || (what == REFS_SAY_AGAIN && away->told != REFS_NONE)) {
        refs_away_answered(refs, away); /* or its home has sent it meanwhile */
    } else if (what == REFS_SAY_GONE) {
        refs_away_lose(refs, away, REFS_LOST);
    } else if (what == REFS_SAY_AGAIN) {
        away->is_asking = false;
        refs_away_change(refs, away);
    }
}

static void forget_take(refs_t *refs, refs_away_t *away) {
    if (away->told != REFS_CACHED) return; /* it was sent again since */
    if (away->level == REFS_HELD && !BASE_RULE(REFS_FORGET_LATER)) return;
    away->is_forgotten = true;
    refs_away_change(refs, away);
}

static void away_word_do(refs_t *refs, const word_t *word) {
    refs_away_t *away = refs_away_find(refs, word->id);
    if (away == NULL) return;
    if (away->is_asking)
        answer_take(refs, away, word->what);
    else if (word->what == REFS_SAY_FORGET)
        forget_take(refs, away);
}

mob_status_t refs_message(refs_t *refs, uint64_t node, const void *bytes, size_t size) {
    if (node == refs->self || !is_message(bytes, size)) return MOB_EPROTO;
    if (refs->ops->is_dead(refs->context, node)) return MOB_ECLOSED;
    refs_peer_t *peer = refs_peer_get(refs, node);
    if (peer == NULL || refs_out_begin(refs, peer) != MOB_OK) return MOB_ENOMEM;
    base_reader_t r = {.at = (const uint8_t *)bytes + 1, .left = size - 1};
    uint64_t processed = base_take_number(&r, 8);
    while (r.left > 0) {
        word_t word = word_take(&r);
        if (word.what == REFS_SAY_CONFIRM)
            refs_sent_confirm(refs, peer, word.number);
        else if (word.id.home == refs->self)
            own_word_do(refs, peer, &word, processed);
        else if (word.id.home == node)
            away_word_do(refs, &word);
    }
    refs_out_send(refs); /* what can't be sent now stays, and refs_flush sends it */
    return MOB_OK;
}
