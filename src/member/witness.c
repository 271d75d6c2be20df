/*
 * Pulses, and living on without the control state.
 *
 * A pulse says: this is my stamp; this was yours, when I last heard you; so old is my last answered
 * renewal; I have paused or not; this is the last tombstone that I know. What it says was said
 * after its receiver sent the stamp that comes back, however long it was on its way.
 *
 * A node past its term goes on while more than half of its witnesses and itself have said lately
 * that they have not paused, and have not renewed since it did itself. Each such word counts for
 * TIMES_FRESH_MS, whatever the same witness says next; times.h says why no tombstone is written
 * meanwhile.
 */
#include <string.h>

#include "base/bytes.h"
#include "member/books.h"

enum { PULSE_PAUSED = 1, EPITAPH = 1 };

/* ---- pulses ---- */

void member_pulse_write(member_t *m, uint64_t now, uint64_t peer,
                        uint8_t pulse[MEMBER_PULSE_SIZE]) {
    const peer_t *p = base_map_get(&m->peers, &peer);
    const tomb_t *last = history_last(m);
    bool is_paused = member_is_paused(m, now);
    base_writer_t w = {pulse, 0};
    base_put_number(&w, now, 8);
    base_put_number(&w, p != NULL ? p->stamp : 0, 8);
    base_put_number(&w, m->answered_ns != 0 ? now - m->answered_ns : UINT64_MAX, 8);
    base_put_number(&w, is_paused ? PULSE_PAUSED : 0, 8);
    base_put_number(&w, last != NULL ? last->number : 0, 8);
}

typedef struct {
    uint64_t stamp, echo, age, flags, tail;
} pulse_t;

static bool pulse_take(const void *bytes, size_t size, uint64_t now, pulse_t *ret_pulse) {
    base_reader_t r = {bytes, size, false};
    uint64_t words[5];
    for (int i = 0; i < 5; i++) words[i] = base_take_number(&r, 8);
    if (!base_reader_is_done(&r) || words[3] > PULSE_PAUSED || words[1] > now) return false;
    memcpy(ret_pulse, words, sizeof words);
    return true;
}

static void epitaph_send(member_t *m, uint64_t peer, uint64_t number) {
    uint8_t bytes[24];
    base_writer_t w = {bytes, 0};
    base_put_number(&w, EPITAPH, 8);
    base_put_number(&w, peer, 8);
    base_put_number(&w, number, 8);
    m->ops->send(m->context, peer, bytes, w.size);
}

mob_status_t member_receive(member_t *m, uint64_t now, uint64_t peer, const void *bytes,
                            size_t size) {
    (void)now;
    (void)peer;
    base_reader_t r = {bytes, size, false};
    uint64_t kind = base_take_number(&r, 8), incarnation = base_take_number(&r, 8);
    uint64_t number = base_take_number(&r, 8);
    if (!base_reader_is_done(&r) || kind != EPITAPH || number == 0) return MOB_EPROTO;
    if (incarnation == m->self && !m->is_over) member_end(m, MEMBER_BURIED, number);
    return MOB_OK;
}

/* To the newest end of those that were heard. */
static void peer_is_heard(member_t *m, peer_t *p) {
    p->older->newer = p->newer;
    p->newer->older = p->older;
    p->newer = &m->heard;
    p->older = m->heard.older;
    p->older->newer = m->heard.older = p;
}

/* A witness has renewed: the control state may be back. */
static void renew_again(member_t *m, uint64_t now) {
    uint64_t at = m->sent[0].sent_ns + TIMES_NS(TIMES_AGAIN_MS);
    if (m->number == 0 || now < m->term_ns + TIMES_NS(MEMBER_TERM_MS) / 2) return;
    if (at < m->renew_ns) m->renew_ns = at;
}

/* The state has a list without a witness: whoever dies with that is buried late. */
static void renew_with_witness(member_t *m, uint64_t now) {
    if (m->lists[0].count == 0) member_look(m, now);
}

/* What it said of itself. */
static void peer_says(member_t *m, uint64_t now, peer_t *p, const pulse_t *pulse) {
    uint64_t fresh = BASE_RULE(MEMBER_PULSE_ECHO) ? pulse->echo : now;
    if (pulse->echo == 0 || fresh < p->fresh_ns) return;
    p->fresh_ns = fresh;
    p->is_paused = pulse->flags == PULSE_PAUSED;
    /* at the latest: it was some time on its way */
    p->renewed_ns = pulse->age == UINT64_MAX ? UINT64_MAX : pulse->age < now ? now - pulse->age : 0;
    peer_is_heard(m, p);
    bool has_renewed = p->renewed_ns > m->term_ns + TIMES_NS(TIMES_SINCE_MS);
    if (has_renewed) renew_again(m, now);
    if (p->is_paused && BASE_RULE(MEMBER_WITNESS_PAUSED)) return;
    if (has_renewed && BASE_RULE(MEMBER_WITNESS_RENEWED)) return;
    p->until_ns = fresh + TIMES_NS(TIMES_FRESH_MS);
    renew_with_witness(m, now);
}

mob_status_t member_pulse_read(member_t *m, uint64_t now, uint64_t peer, const void *bytes,
                               size_t size) {
    pulse_t pulse;
    if (!pulse_take(bytes, size, now, &pulse)) return MOB_EPROTO;
    peer_t *p = base_map_get(&m->peers, &peer);
    uint64_t number = member_tombstone(m, peer);
    if (number != 0) epitaph_send(m, peer, number);
    if (m->is_over || p == NULL) return MOB_OK;
    p->stamp = pulse.stamp;
    peer_says(m, now, p, &pulse);
    if (pulse.tail > m->hinted) { /* told over links, read from the state */
        m->hinted = pulse.tail;
        const tomb_t *last = history_last(m);
        if (last == NULL || last->number < pulse.tail) m->renew_ns = now;
    }
    lease_term(m, now);
    return MOB_OK;
}

/* ---- witnesses ---- */

static bool is_in(const witnesses_t *list, uint64_t incarnation) {
    for (uint64_t i = 0; i < list->count; i++)
        if (list->items[i] == incarnation) return true;
    return false;
}

/* Somebody who is heard, and renews. */
static bool is_witness(const peer_t *p, uint64_t now) {
    return p->fresh_ns != 0 && now <= p->fresh_ns + TIMES_NS(TIMES_FRESH_MS) && !p->is_paused &&
           p->renewed_ns != UINT64_MAX && now <= p->renewed_ns + TIMES_NS(MEMBER_TERM_MS);
}

/* Those of the list that still are witnesses, and others that were heard lately. */
static witnesses_t list_next(const member_t *m, uint64_t now, const witnesses_t *list) {
    witnesses_t next = {.sent_ns = now};
    for (uint64_t i = 0; i < list->count; i++) {
        const peer_t *p = base_map_get(&m->peers, &list->items[i]);
        if (p != NULL && is_witness(p, now)) next.items[next.count++] = p->incarnation;
    }
    for (const peer_t *p = m->heard.older; p != &m->heard && next.count < MEMBER_WITNESSES;
         p = p->older) {
        if (p->fresh_ns == 0 || now > p->fresh_ns + TIMES_NS(TIMES_FRESH_MS)) break;
        if (is_witness(p, now) && !is_in(&next, p->incarnation))
            next.items[next.count++] = p->incarnation;
    }
    return next;
}

/* Whether the state may have this list. It may have gone back to a renewal that was answered
 * TIMES_LOST_MS before the last one, or was the last before that: of the two marks the newer one if
 * that is old enough, for they are at least so far apart. */
static bool is_possible(const member_t *m, const witnesses_t *list) {
    uint64_t first = m->marks[m->marks[0] + TIMES_NS(TIMES_LOST_MS) > m->term_ns];
    if (!BASE_RULE(MEMBER_WITNESS_LISTS)) first = m->term_ns;
    return list->sent_ns != 0 && list->sent_ns >= first;
}

void witness_mark(member_t *m, uint64_t sent_ns) {
    if (m->marks[0] != 0 && sent_ns < m->marks[0] + TIMES_NS(TIMES_LOST_MS)) return;
    m->marks[1] = m->marks[0];
    m->marks[0] = sent_ns;
}

/* A node that leaves has said goodbye, and hears nobody. It goes on by nobody's word, so any list
 * is right, and the newest that names somebody is best: with an empty one the node would be buried
 * late if it ended before it has left. */
static witnesses_t list_last(const member_t *m) {
    for (int i = 0; i < LISTS_MAX; i++)
        if (m->lists[i].count > 0) return m->lists[i];
    return m->lists[0];
}

const witnesses_t *witness_choose(member_t *m, uint64_t now) {
    witnesses_t next = m->is_leaving ? list_last(m) : list_next(m, now, &m->lists[0]);
    bool is_same = next.count == m->lists[0].count &&
                   memcmp(next.items, m->lists[0].items, sizeof next.items) == 0;
    bool is_full = is_possible(m, &m->lists[LISTS_MAX - 1]);
    if (!is_same && !is_full) {
        memmove(m->lists + 1, m->lists, sizeof m->lists - sizeof *m->lists);
        m->lists[0] = next;
    }
    m->lists[0].sent_ns = now;
    return &m->lists[0];
}

bool member_is_witnessed(const member_t *m) { return m->is_witnessed; }

/* What it said lets this node go on until then; 0: it does not. */
static uint64_t end_by(const member_t *m, uint64_t incarnation) {
    const peer_t *p = base_map_get(&m->peers, &incarnation);
    return p != NULL ? p->until_ns : 0;
}

/* Until when more than half of the list and this node agree: the end of the one that tips it. */
static uint64_t end_of(const member_t *m, const witnesses_t *list) {
    uint64_t ends[MEMBER_WITNESSES], needed = (list->count + 1) / 2;
    if (needed == 0) return UINT64_MAX;
    for (uint64_t i = 0; i < list->count; i++) { /* the latest first */
        uint64_t end = end_by(m, list->items[i]), at = i;
        for (; at > 0 && ends[at - 1] < end; at--) ends[at] = ends[at - 1];
        ends[at] = end;
    }
    return ends[needed - 1];
}

uint64_t witness_end(const member_t *m) {
    uint64_t end = m->term_ns + TIMES_NS(MEMBER_ALONE_MS);
    if (!BASE_RULE(MEMBER_ALONE_LIMIT)) end = UINT64_MAX;
    for (int i = 0; i < LISTS_MAX; i++) {
        if (!is_possible(m, &m->lists[i])) continue;
        uint64_t by_list = end_of(m, &m->lists[i]);
        if (by_list < end) end = by_list;
    }
    return end;
}
