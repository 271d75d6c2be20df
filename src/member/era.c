/*
 * Eras: what this node does when the state may have lost something.
 *
 * It says again, in this order: its registration, if that is gone; the tombstones behind the last
 * one that the state has; after a lease, the members that it knows and that nobody has said, for
 * these can't speak for themselves. Then its rooms' facts count as said, and it says so in its
 * renewals.
 *
 * The state's tombstones are always a part of the true list from its beginning: a fail-over takes
 * off an end, and what is said again goes behind what is there. So a node whose list does not go on
 * where the state's ends has acted on tombstones that are lost for good, and ends.
 */
#include <string.h>

#include "base/bytes.h"
#include "member/books.h"

enum { SAY_STONES = 64, SAY_BYTES = 3400 }; /* one member more always fits */

bool era_meet(member_t *m, uint64_t now, uint64_t era) {
    if (era < m->era) return false;
    if (era == m->era) return true;
    bool is_first = m->era == 0;
    m->era = era;
    m->era_ns = now;
    m->cursor = m->echo_ms = 0;
    m->has_read = false;
    m->has_said = is_first; /* it has no facts yet */
    if (is_first) m->said = era;
    if (BASE_RULE(MEMBER_ERA_IS_GAP)) m->is_unbroken = false;
    m->ops->master(m->context, era);
    if (!is_first && !m->is_member) member_end(m, MEMBER_FORGOTTEN, 0);
    return true;
}

void era_settled(member_t *m, uint64_t settled) {
    if (m->settled == settled) return;
    m->settled = settled;
    m->ops->settled(m->context, settled);
}

uint64_t member_master(const member_t *m) { return m->era; }

void member_said(member_t *m, uint64_t master) {
    if (master > m->said) m->said = master;
}

/* ---- saying again ---- */

static void head_put(base_writer_t *w, const member_t *m, uint64_t stones, uint64_t members) {
    uint64_t words[] = {m->self, m->era, m->tail, stones, members};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) base_put_number(w, words[i], 8);
}

static void member_put(base_writer_t *w, uint64_t incarnation, uint64_t number, uint64_t closed,
                       const void *blob, size_t size) {
    base_put_number(w, incarnation, 8);
    base_put_number(w, number, 8);
    base_put_number(w, closed, 8);
    base_put_number(w, size, 8);
    base_put_bytes(w, blob, size);
}

static void say_self(member_t *m, uint64_t now) {
    uint8_t bytes[SCRIPT_VALUE_MAX];
    base_writer_t w = {bytes, 0};
    head_put(&w, m, 0, 1);
    member_put(&w, m->self, m->number, m->closed, m->blob, m->blob_size);
    member_ask(m, now, ASK_SAY, member_script_say, bytes, w.size);
}

/* The place of the first tombstone after the state's last; `tombs.count` + 1: the state's last is
 * not among them. */
static size_t place_after(const member_t *m) {
    size_t low = 0, high = m->tombs.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->tombs.items[middle].number <= m->tail)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_known = m->tail == 0 || (low > 0 && m->tombs.items[low - 1].number == m->tail);
    return is_known ? low : m->tombs.count + 1;
}

/* Whether there was something to say, or to end for. */
static bool say_stones(member_t *m, uint64_t now) {
    const tomb_t *last = history_last(m);
    if (last == NULL || last->number <= m->tail || !BASE_RULE(MEMBER_SAY_STONES)) return false;
    size_t first = place_after(m), count = m->tombs.count - first;
    if (first > m->tombs.count) {
        member_end(m, MEMBER_CONTRADICTED, 0);
        return true;
    }
    if (count > SAY_STONES) count = SAY_STONES;
    uint8_t bytes[SCRIPT_VALUE_MAX];
    base_writer_t w = {bytes, 0};
    head_put(&w, m, count, 0);
    for (const tomb_t *tomb = &m->tombs.items[first]; count-- > 0; tomb++) {
        base_put_number(&w, tomb->number, 8);
        base_put_number(&w, tomb->incarnation, 8);
        base_put_number(&w, tomb->closed, 8);
    }
    member_ask(m, now, ASK_SAY, member_script_say, bytes, w.size);
    return true;
}

static bool say_others(member_t *m, uint64_t now) {
    uint8_t bytes[SCRIPT_VALUE_MAX];
    base_writer_t w = {bytes, 0}, head = w;
    uint64_t count = 0;
    head_put(&w, m, 0, 0);
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&m->peers, &cursor, &key, &value) && w.size < SAY_BYTES) {
        const peer_t *p = value;
        if (p->era == m->era || !BASE_RULE(MEMBER_SAY_OTHERS)) continue;
        member_put(&w, p->incarnation, p->number, p->number, p->blob, p->blob_size);
        count++;
    }
    head_put(&head, m, 0, count);
    if (count > 0) member_ask(m, now, ASK_SAY, member_script_say, bytes, w.size);
    return count > 0;
}

void era_tick(member_t *m, uint64_t now, bool is_registered) {
    if (m->settled == m->era) m->has_said = true;
    if (m->has_said || member_is_asking(m, now, ASK_SAY)) return;
    if (!is_registered) {
        say_self(m, now);
        return;
    }
    if (say_stones(m, now)) return;
    if (!m->has_read || now < m->era_ns + TIMES_NS(TIMES_OTHERS_MS)) return;
    m->has_said = !say_others(m, now);
}

/* What was said is seen in the next renewal's answer. */
mob_status_t era_answer(member_t *m, uint64_t now, uint64_t status) {
    if (status != MEMBER_SAYS_OK && status != MEMBER_SAYS_REFUSED) return MOB_EPROTO;
    if (status == MEMBER_SAYS_OK) m->renew_ns = now;
    return MOB_OK;
}
