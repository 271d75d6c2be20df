/*
 * The lease and the term.
 *
 * A renewal goes out every half second, whether or not the last one was answered. The term counts
 * from the sending of an answered one, for the script has run after that. Requests run in their
 * order, and a late one is known by its sequence number.
 *
 * An answer moves the term on if the node has not paused, or if the state has settled. A node that
 * has paused may have a tombstone which a fail-over has lost; whoever heard of it says it again
 * before the state is settled. One that has not paused has none.
 */
#include <string.h>

#include "base/bytes.h"
#include "member/books.h"

enum { HEAD_WORDS = 10 };

typedef struct {
    uint64_t era, settled, now_ms, leader, fence, struck, tail, more, tombs, members;
} head_t;

/* ---- asking ---- */

static void renewal_fill(member_t *m, uint64_t now, member_renewal_t *a) {
    const tomb_t *last = history_last(m);
    bool has_said = m->has_said && m->said >= m->era;
    *a = (member_renewal_t){.self = m->self,
                            .cluster = {m->cluster[0], m->cluster[1]},
                            .sequence = m->requests + 1,
                            .era = m->era,
                            .echo_ms = m->echo_ms,
                            .said = has_said ? m->era : 0,
                            .closed = m->closed,
                            .heard = last != NULL ? last->number : 0,
                            .heard_inc = last != NULL ? last->incarnation : 0,
                            .cursor = m->cursor,
                            .fence = m->fence,
                            .holder = m->holder,
                            .is_member = m->is_member};
    a->seen = a->heard > m->number ? a->heard : m->number;
    const witnesses_t *list = witness_choose(m, now);
    a->witness_count = list->count;
    memcpy(a->witnesses, list->items, sizeof a->witnesses);
    a->complaint_count =
        m->accused.count < MEMBER_COMPLAINTS ? m->accused.count : MEMBER_COMPLAINTS;
    for (uint64_t i = 0; i < a->complaint_count; i++) a->complaints[i] = m->accused.items[i];
}

static void renew(member_t *m, uint64_t now) {
    member_renewal_t a;
    renewal_fill(m, now, &a);
    uint64_t words[MEMBER_RENEWAL_WORDS];
    uint8_t bytes[sizeof words];
    memcpy(words, &a, sizeof words);
    base_writer_t w = {bytes, 0};
    for (size_t i = 0; i < MEMBER_RENEWAL_WORDS; i++) base_put_number(&w, words[i], 8);
    m->renew_ns = now + TIMES_NS(MEMBER_RENEW_MS);
    for (size_t i = RENEWALS_MAX - 1; i > 0; i--) m->sent[i] = m->sent[i - 1];
    m->sent[0].sent_ns = now;
    m->sent[0].request = member_ask(m, now, ASK_RENEW, member_script_renew, bytes, w.size);
}

void lease_begin(member_t *m, uint64_t now) {
    m->closed = m->number;
    renew(m, now);
}

void lease_tick(member_t *m, uint64_t now) {
    if (m->number != 0 && now >= m->renew_ns) renew(m, now);
    lease_term(m, now);
}

/* ---- the term ---- */

void lease_term(member_t *m, uint64_t now) {
    uint64_t end = 0;
    bool is_leaving = m->is_leaving && BASE_RULE(MEMBER_LEAVE_PAUSES);
    if (m->is_ever && !is_leaving) {
        uint64_t alone = m->is_held ? 0 : witness_end(m);
        end = m->term_ns + TIMES_NS(MEMBER_TERM_MS);
        if (alone > end) end = alone;
    }
    if (end != m->end_ns) m->ops->term(m->context, m->end_ns = end);
    bool is_paused = now >= end;
    if (is_paused != m->is_paused) m->ops->paused(m->context, m->is_paused = is_paused);
}

bool member_is_paused(const member_t *m, uint64_t now) { return m->is_over || now >= m->end_ns; }

/* Renewals that were answered one after the other, as their sender sees it. */
static void run_of_answers(member_t *m, uint64_t now, uint64_t sent_ns) {
    bool is_gap = !m->is_unbroken || sent_ns > m->answered_ns + TIMES_NS(MEMBER_TERM_MS);
    if (is_gap) m->unbroken_ns = now; /* it may have run just before */
    m->is_unbroken = true;
    if (sent_ns > m->answered_ns) m->answered_ns = sent_ns;
}

static void term_extend(member_t *m, uint64_t now, uint64_t sent_ns) {
    bool is_sure = m->settled == m->era || (m->is_ever && now < m->end_ns);
    m->is_held = !is_sure && BASE_RULE(MEMBER_RESUME_SETTLED);
    if (m->is_held) return;
    if (!BASE_RULE(MEMBER_TERM_FROM_SENDING)) sent_ns = now;
    if (!m->is_ever || sent_ns > m->term_ns) m->term_ns = sent_ns;
    m->is_ever = true;
}

/* ---- answers ---- */

static bool stones_take(member_t *m, base_reader_t *r, uint64_t count) {
    bool is_kept = true;
    for (uint64_t i = 0; i < count; i++) {
        tomb_t tomb = {.number = base_take_number(r, 8)};
        tomb.incarnation = base_take_number(r, 8);
        tomb.closed = base_take_number(r, 8);
        if (!r->short_of && is_kept) is_kept = history_bury(m, &tomb);
        if (m->is_over) return false;
    }
    return is_kept;
}

static bool members_take(member_t *m, base_reader_t *r, uint64_t count) {
    bool is_kept = true;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t stamp = base_take_number(r, 8), incarnation = base_take_number(r, 8);
        uint64_t number = base_take_number(r, 8), size = base_take_number(r, 8);
        const void *blob = base_take_bytes(r, (size_t)size);
        if (blob == NULL || !is_kept) continue;
        is_kept = history_join(m, incarnation, number, blob, (size_t)size);
        if (is_kept && stamp > m->cursor) m->cursor = stamp;
    }
    return is_kept;
}

/* Whether the lists are all there, before anything is taken from them. */
static bool lists_are_whole(base_reader_t r, const head_t *head) {
    for (uint64_t i = 0; i < head->tombs && !r.short_of; i++) base_take_bytes(&r, 24);
    for (uint64_t i = 0; i < head->members && !r.short_of; i++) {
        base_take_bytes(&r, 24);
        uint64_t size = base_take_number(&r, 8);
        if (size > MEMBER_BLOB_MAX) return false;
        base_take_bytes(&r, (size_t)size);
    }
    return base_reader_is_done(&r);
}

static bool head_take(base_reader_t *r, head_t *ret_head) {
    uint64_t words[HEAD_WORDS];
    for (int i = 0; i < HEAD_WORDS; i++) words[i] = base_take_number(r, 8);
    memcpy(ret_head, words, sizeof words);
    return !r->short_of && lists_are_whole(*r, ret_head);
}

/* What the state says of everybody. */
static void news_take(member_t *m, uint64_t now, base_reader_t *r, const head_t *head) {
    bool is_kept = stones_take(m, r, head->tombs);
    if (m->is_over) return;
    is_kept &= members_take(m, r, head->members);
    m->tail = head->tail;
    bool has_more = head->more != 0 || !is_kept;
    if (!has_more && !m->is_member) {
        m->is_member = true;
        m->ops->began(m->context, m->number);
    }
    m->has_read |= !has_more;
    if (head->more != 0 && is_kept) m->renew_ns = now; /* the rest at once */
    lead_told(m, head->leader, head->fence);
    if (head->settled == m->era) era_settled(m, head->settled);
    if (head->struck > m->struck && m->is_member)
        m->ops->struck(m->context, m->struck = head->struck);
}

static const sent_t *sent_find(const member_t *m, uint64_t request) {
    for (int i = 0; i < RENEWALS_MAX; i++)
        if (m->sent[i].request == request) return &m->sent[i];
    return NULL;
}

static void renewed(member_t *m, uint64_t now, const sent_t *sent, const head_t *head) {
    m->echo_ms = head->now_ms;
    witness_mark(m, sent->sent_ns);
    m->is_witnessed |= m->lists[0].count > 0 && m->lists[0].sent_ns == sent->sent_ns;
    run_of_answers(m, now, sent->sent_ns);
    if (head->settled == m->era) era_settled(m, head->settled);
    term_extend(m, now, sent->sent_ns);
}

void member_look(member_t *m, uint64_t now) {
    uint64_t at = m->sent[0].sent_ns + TIMES_NS(TIMES_AGAIN_MS);
    if (at < now) at = now;
    if (m->number != 0 && at < m->renew_ns) m->renew_ns = at;
}

mob_status_t lease_answer(member_t *m, uint64_t now, uint64_t request, uint64_t status,
                          base_reader_t *r) {
    head_t head;
    const sent_t *sent = sent_find(m, request);
    if (status == MEMBER_SAYS_CONTRADICTED) {
        member_end(m, MEMBER_CONTRADICTED, 0);
        return MOB_OK;
    }
    if (status != MEMBER_SAYS_OK && status != MEMBER_SAYS_UNKNOWN &&
        status != MEMBER_SAYS_CONDEMNED)
        return MOB_EPROTO;
    if (!head_take(r, &head)) return MOB_EPROTO;
    if (sent == NULL || !era_meet(m, now, head.era) || m->is_over) return MOB_OK;
    if (status == MEMBER_SAYS_OK) renewed(m, now, sent, &head);
    if (status == MEMBER_SAYS_UNKNOWN && head.settled == head.era) {
        member_end(m, MEMBER_FORGOTTEN, 0);
        return MOB_OK;
    }
    news_take(m, now, r, &head);
    if (!m->is_over) era_tick(m, now, status != MEMBER_SAYS_UNKNOWN);
    if (!m->is_over) lease_term(m, now);
    return MOB_OK;
}
