/*
 * The leader. Whoever hears that nobody leads asks to. The leader looks at all members twice a
 * second, which keeps its lead, and asks for the tombstones of those that it has found without a
 * lease for long enough. All that it knows beside that is in the state.
 *
 * Fencing numbers rise. A node that knows a higher one, or this one of another holder, takes no
 * orders, and its renewals say so: then the state refuses that leader too, which asks for a number
 * above.
 */
#include "base/bytes.h"
#include "member/books.h"

static void words_ask(member_t *m, uint64_t now, ask_t kind, script_fn script,
                      const uint64_t *words, size_t count) {
    uint8_t bytes[64];
    base_writer_t w = {bytes, 0};
    for (size_t i = 0; i < count; i++) base_put_number(&w, words[i], 8);
    member_ask(m, now, kind, script, bytes, w.size);
}

/* ---- who leads ---- */

bool lead_is_holding(const member_t *m, uint64_t now) {
    bool is_over = now >= m->reign_ns + TIMES_NS(TIMES_REIGN_MS) * 2 / 3;
    return m->is_leader && !m->is_over && (!is_over || !BASE_RULE(MEMBER_REIGN));
}

bool member_is_leader(const member_t *m, uint64_t now, uint64_t *ret_fence) {
    if (!lead_is_holding(m, now)) return false;
    *ret_fence = m->fence;
    return true;
}

static void give_up(member_t *m) {
    if (!m->is_leader) return;
    m->is_leader = false;
    m->absent.count = 0;
    m->ops->leads(m->context, 0, m->fence);
}

/* Whether it was news, or is known. */
static bool fence_meet(member_t *m, uint64_t leader, uint64_t fence) {
    bool is_known = fence == m->fence && leader == m->holder;
    if (is_known) return true;
    if (fence <= m->fence && BASE_RULE(MEMBER_FENCE_RISES)) return false;
    if (leader != m->self) {
        m->is_leader = false;
        m->absent.count = 0;
    }
    m->fence = fence;
    m->holder = leader;
    m->ops->leads(m->context, leader, fence);
    return true;
}

void lead_told(member_t *m, uint64_t leader, uint64_t fence) {
    m->is_vacant = leader == 0 || leader == m->self; /* its own: the answer was lost */
    if (leader != 0 && leader != m->self) fence_meet(m, leader, fence);
}

bool member_accepts(member_t *m, uint64_t leader, uint64_t fence) {
    return leader != 0 && !m->is_over && fence_meet(m, leader, fence);
}

void member_refused(member_t *m, uint64_t fence) {
    if (!m->is_leader || fence < m->fence) return;
    m->above = fence;
    give_up(m);
    m->is_vacant = true;
}

void lead_release(member_t *m) {
    if (m->is_leader) m->above = m->fence;
    if (BASE_RULE(MEMBER_LEAVE_RELEASES)) give_up(m);
}

static void lead_taken(member_t *m, uint64_t now, uint64_t asked_ns, uint64_t fence) {
    bool is_given_up = fence <= m->above;
    m->above = m->fence;
    bool is_own = fence == m->fence && m->holder == m->self;
    bool is_late = now >= asked_ns + TIMES_NS(TIMES_REIGN_MS) * 2 / 3;
    if (is_late || is_given_up || (m->is_leader && is_own)) return;
    if (is_own)
        m->ops->leads(m->context, m->self, fence); /* once more: it had given up */
    else if (!fence_meet(m, m->self, fence))
        return;
    m->is_leader = true;
    m->reign_ns = asked_ns;
    m->survey_ns = now;
    m->to_condemn = 0;
    m->absent.count = 0;
}

/* ---- looking at all ---- */

/* Its own renewals were answered for that long, without a gap, up to now. */
static bool had_answers(const member_t *m, uint64_t now, uint64_t for_ms) {
    return m->is_unbroken && now <= m->answered_ns + TIMES_NS(MEMBER_TERM_MS) &&
           m->answered_ns >= m->unbroken_ns + TIMES_NS(for_ms);
}

static bool may_decide(const member_t *m, uint64_t now) {
    return had_answers(m, now, TIMES_RUN_MS) || !BASE_RULE(MEMBER_TWO_LEASES);
}

void lead_tick(member_t *m, uint64_t now) {
    if (!m->is_member) return;
    if (m->is_leader && !lead_is_holding(m, now)) give_up(m);
    if (m->is_vacant && !m->is_leader && !member_is_asking(m, now, ASK_LEAD)) {
        m->is_vacant = false;
        words_ask(m, now, ASK_LEAD, member_script_lead, (uint64_t[]){m->self, m->era, m->above}, 3);
    }
    if (!m->is_leader || now < m->survey_ns || member_is_asking(m, now, ASK_SURVEY)) return;
    m->survey_ns = now + TIMES_NS(MEMBER_RENEW_MS);
    words_ask(m, now, ASK_SURVEY, member_script_survey,
              (uint64_t[]){m->self, m->fence, m->era, may_decide(m, now)}, 4);
}

static void absent_note(member_t *m, uint64_t now, uint64_t incarnation, uint64_t sequence) {
    absent_t absent = {incarnation, sequence, now, true};
    for (size_t i = 0; i < m->absent.count; i++) {
        absent_t *known = &m->absent.items[i];
        if (known->incarnation != incarnation) continue;
        if (known->sequence != sequence) *known = absent; /* it had renewed in between */
        known->is_seen = true;
        return;
    }
    (void)vec_push(&m->absent, absent); /* without memory it is found by the next look */
}

/* Those that renewed in between are not absent any more. */
static void absent_sift(member_t *m) {
    for (size_t i = m->absent.count; i-- > 0;) {
        if (!m->absent.items[i].is_seen)
            vec_swap_remove(&m->absent, i);
        else
            m->absent.items[i].is_seen = false;
    }
}

/* For how long it has to be without a lease before its tombstone is asked for. Its last renewal was
 * a lease before that. */
static uint64_t patience_with(const member_t *m, uint64_t incarnation) {
    uint64_t least_ms = MEMBER_LEASE_MS + TIMES_LOOKED_MS;
    if (m->patience_ms > least_ms) least_ms = m->patience_ms;
    const peer_t *p = base_map_get(&m->peers, &incarnation);
    /* numbers of registrations are times of the state, or above */
    bool is_new = p != NULL && m->newcomer_ms > 0 && m->echo_ms < p->number + m->newcomer_ms;
    return is_new ? UINT64_MAX : TIMES_NS(least_ms - MEMBER_LEASE_MS);
}

static void bury_due(member_t *m, uint64_t now) {
    if (!may_decide(m, now)) return;
    for (size_t i = 0; i < m->absent.count; i++) {
        const absent_t *absent = &m->absent.items[i];
        uint64_t for_ns = now - absent->since_ns;
        if (for_ns < patience_with(m, absent->incarnation)) continue;
        bool is_certain =
            for_ns >= TIMES_NS(TIMES_CERTAIN_MS) && had_answers(m, now, TIMES_CERTAIN_MS);
        words_ask(m, now, ASK_BURY, member_script_bury,
                  (uint64_t[]){m->self, m->fence, m->era, absent->incarnation, absent->sequence,
                               is_certain},
                  6);
    }
}

static void condemn_due(member_t *m, uint64_t now, uint64_t incarnation) {
    if (incarnation != m->to_condemn) m->to_condemn_ns = now;
    m->to_condemn = incarnation;
    if (incarnation == 0 || now < m->to_condemn_ns + TIMES_NS(TIMES_COMPLAINT_MS)) return;
    if (!may_decide(m, now)) return;
    m->to_condemn = 0;
    words_ask(m, now, ASK_CONDEMN, member_script_condemn,
              (uint64_t[]){m->self, m->fence, m->era, incarnation}, 4);
}

static mob_status_t survey_take(member_t *m, uint64_t now, uint64_t asked_ns, base_reader_t *r) {
    uint64_t accused = base_take_number(r, 8), count = base_take_number(r, 8);
    if (r->short_of || count > MEMBER_SURVEY_MAX || r->left != count * 16) return MOB_EPROTO;
    if (!m->is_leader) return MOB_OK;
    m->reign_ns = asked_ns;
    while (count-- > 0) {
        uint64_t incarnation = base_take_number(r, 8);
        absent_note(m, now, incarnation, base_take_number(r, 8));
    }
    absent_sift(m);
    bury_due(m, now);
    condemn_due(m, now, accused);
    return MOB_OK;
}

mob_status_t lead_answer(member_t *m, uint64_t now, ask_t kind, uint64_t asked_ns, uint64_t status,
                         base_reader_t *r) {
    if (status != MEMBER_SAYS_OK && status != MEMBER_SAYS_REFUSED) return MOB_EPROTO;
    if (kind == ASK_LEAD && status == MEMBER_SAYS_OK) {
        uint64_t fence = base_take_number(r, 8);
        if (!base_reader_is_done(r)) return MOB_EPROTO;
        lead_taken(m, now, asked_ns, fence);
    } else if (kind == ASK_SURVEY && status == MEMBER_SAYS_OK) {
        return survey_take(m, now, asked_ns, r);
    } else if (kind == ASK_SURVEY) {
        give_up(m);
    }
    return MOB_OK;
}
