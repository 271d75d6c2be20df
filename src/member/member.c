/*
 * A member's life, and the way of questions and answers.
 *
 *     new          -> register until there is a number        (member.c)
 *     registered   -> renew, read all members and tombstones   (lease.c, history.c)
 *     member       -> renew every half second; lead if nobody does (lead.c)
 *     new era      -> say again what may be lost, until the state has settled (era.c)
 *     leaving      -> paused for good; renews until it is its turn to bury itself
 *     over         -> nothing more; the node begins again as another incarnation
 *
 * What it decides by, it reads in the state with each renewal: so nothing has to be told to it, and
 * a message that is lost costs half a second.
 *
 * Rejected: tombstones taken from peers (then two nodes could hear of them in two orders, and K
 * would mean different things to them; a peer's word only makes a node read the state at once); a
 * subscription (it has to be polled all the same after every reconnect, and a poll rides in the
 * renewal for nothing); burying by the survey's own script (the leader would hold its conditions in
 * the state, where a fail-over can lose a part of them).
 */
#include "member/member.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "member/books.h"

/* ---- its life ---- */

static bool config_is_good(const member_config_t *config) {
    return config->self != 0 && config->blob_size <= MEMBER_BLOB_MAX &&
           (config->blob != NULL || config->blob_size == 0);
}

mob_status_t member_new(const member_config_t *config, const member_ops_t *ops, void *context,
                        member_t **ret_member) {
    if (!config_is_good(config)) return MOB_EINVAL;
    member_t *m = calloc(1, sizeof *m);
    if (m == NULL) return MOB_ENOMEM;
    if (!vec_reserve(&m->buries, config->buries_count)) {
        free(m);
        return MOB_ENOMEM;
    }
    for (size_t i = 0; i < config->buries_count; i++)
        m->buries.items[m->buries.count++] = config->buries[i];
    m->ops = ops;
    m->context = context;
    m->self = config->self;
    memcpy(m->cluster, config->cluster, sizeof m->cluster);
    m->founds = config->founds;
    m->patience_ms = config->patience_ms;
    m->newcomer_ms = config->newcomer_ms;
    m->blob_size = config->blob_size;
    if (m->blob_size > 0) memcpy(m->blob, config->blob, m->blob_size);
    m->is_paused = true;
    m->heard.older = m->heard.newer = &m->heard;
    base_map_init(&m->peers, sizeof(uint64_t));
    base_map_init(&m->dead, sizeof(uint64_t));
    *ret_member = m;
    return MOB_OK;
}

void member_free(member_t *m) {
    if (m == NULL) return;
    history_fini(m);
    vec_free(&m->buries);
    vec_free(&m->absent);
    free(m);
}

void member_end(member_t *m, member_end_t why, uint64_t number) {
    if (m->is_over) return;
    m->is_over = true;
    if (m->is_leaving && why == MEMBER_BURIED) why = MEMBER_LEFT;
    m->is_leader = false;
    if (m->end_ns != 0) m->ops->term(m->context, m->end_ns = 0);
    if (!m->is_paused) m->ops->paused(m->context, m->is_paused = true);
    m->ops->over(m->context, why, number);
}

void member_leave(member_t *m, uint64_t now) {
    if (m->is_over) return;
    m->is_leaving = true;
    lease_term(m, now);
    if (m->number == 0) member_end(m, MEMBER_LEFT, 0); /* there is nothing to bury yet */
}

void member_closed(member_t *m, uint64_t number) {
    if (number > m->closed) m->closed = number;
}

/* ---- questions ---- */

uint64_t member_ask(member_t *m, uint64_t now, ask_t kind, script_fn script, const void *arguments,
                    size_t size) {
    uint64_t request = ++m->requests << ASK_BITS | kind;
    m->asked[kind] = request;
    m->asked_ns[kind] = now;
    m->ops->ask(m->context, request, script, arguments, size);
    return request;
}

bool member_is_asking(const member_t *m, uint64_t now, ask_t kind) {
    return m->asked[kind] != 0 && now < m->asked_ns[kind] + TIMES_NS(TIMES_ANSWER_MS);
}

static void register_ask(member_t *m, uint64_t now) {
    uint8_t bytes[32 + MEMBER_BLOB_MAX];
    base_writer_t w = {bytes, 0};
    base_put_number(&w, m->self, 8);
    base_put_number(&w, m->founds, 8);
    base_put_number(&w, m->cluster[0], 8);
    base_put_number(&w, m->cluster[1], 8);
    base_put_bytes(&w, m->blob, m->blob_size);
    m->renew_ns = now + TIMES_NS(MEMBER_RENEW_MS);
    member_ask(m, now, ASK_REGISTER, member_script_register, bytes, w.size);
}

static bool is_time_for_own(const member_t *m, uint64_t now) {
    bool has_any = m->is_leaving || (m->buries.count > 0 && m->is_member);
    bool is_settled = m->settled == m->era || !BASE_RULE(MEMBER_OWN_SETTLED);
    uint64_t last_ns = m->asked_ns[ASK_OWN];
    bool is_soon = last_ns != 0 && now < last_ns + TIMES_NS(MEMBER_RENEW_MS);
    return has_any && is_settled && !is_soon && !member_is_asking(m, now, ASK_OWN);
}

/* Earlier incarnations of this node, whose folder it has; itself, if it leaves. */
static void bury_own(member_t *m, uint64_t now) {
    if (!is_time_for_own(m, now)) return;
    if (m->is_leaving) lead_release(m);
    uint8_t bytes[32];
    base_writer_t w = {bytes, 0};
    base_put_number(&w, m->self, 8);
    base_put_number(&w, m->era, 8);
    base_put_number(&w, m->is_leaving ? m->self : m->buries.items[m->buries.count - 1], 8);
    base_put_number(&w, m->above, 8);
    member_ask(m, now, ASK_OWN, member_script_bury_own, bytes, w.size);
}

static uint64_t sooner(uint64_t at, uint64_t than, uint64_t now) {
    return at > now && at < than ? at : than;
}

uint64_t member_tick(member_t *m, uint64_t now) {
    uint64_t next = now + TIMES_NS(MEMBER_RENEW_MS);
    if (m->is_over) return next;
    if (m->number == 0 && now >= m->renew_ns && !member_is_asking(m, now, ASK_REGISTER))
        register_ask(m, now);
    lease_tick(m, now);
    if (!m->is_over) lead_tick(m, now);
    if (!m->is_over) bury_own(m, now);
    next = sooner(m->renew_ns, next, now);
    next = sooner(m->end_ns, next, now);
    if (!m->is_leader) return next;
    next = sooner(m->reign_ns + TIMES_NS(TIMES_REIGN_MS) * 2 / 3, next, now);
    return sooner(m->survey_ns, next, now);
}

/* ---- answers ---- */

static mob_status_t register_answer(member_t *m, uint64_t now, uint64_t status, base_reader_t *r) {
    if (status == MEMBER_SAYS_LATER) return MOB_OK;
    uint64_t number = base_take_number(r, 8), era = base_take_number(r, 8);
    if (status != MEMBER_SAYS_OK || !base_reader_is_done(r) || number == 0) return MOB_EPROTO;
    if (m->number != 0) return MOB_OK;
    m->number = number;
    era_meet(m, now, era);
    lease_begin(m, now);
    return MOB_OK;
}

static mob_status_t own_answer(member_t *m, uint64_t now, uint64_t status, base_reader_t *r) {
    if (status == MEMBER_SAYS_LATER) return MOB_OK;
    uint64_t incarnation = base_take_number(r, 8);
    if (status != MEMBER_SAYS_OK || !base_reader_is_done(r)) return MOB_EPROTO;
    size_t count = m->buries.count;
    if (incarnation == m->self) m->renew_ns = now; /* it reads its own tombstone */
    if (count > 0 && m->buries.items[count - 1] == incarnation) m->buries.count--;
    return MOB_OK;
}

static mob_status_t poisoned(member_t *m, const base_reader_t *r) {
    char key[SCRIPT_KEY_MAX] = "";
    if (r->left >= sizeof key) return MOB_EPROTO;
    memcpy(key, r->at, r->left);
    m->ops->poisoned(m->context, key);
    return MOB_OK;
}

static mob_status_t answer_take(member_t *m, uint64_t now, uint64_t request, uint64_t asked_ns,
                                base_reader_t *r) {
    ask_t kind = (ask_t)(request & ((1 << ASK_BITS) - 1));
    uint64_t status = base_take_number(r, 8);
    if (r->short_of) return MOB_EPROTO;
    if (status == MEMBER_SAYS_POISONED) return poisoned(m, r);
    if (status == MEMBER_SAYS_STRANGER && r->left == 0) {
        member_end(m, MEMBER_STRANGER, 0);
        return MOB_OK;
    }
    if (status == MEMBER_SAYS_DEAD) {
        uint64_t number = base_take_number(r, 8);
        if (!base_reader_is_done(r) || number == 0) return MOB_EPROTO;
        member_end(m, MEMBER_BURIED, number);
        return MOB_OK;
    }
    switch (kind) {
    case ASK_REGISTER:
        return register_answer(m, now, status, r);
    case ASK_RENEW:
        return lease_answer(m, now, request, status, r);
    case ASK_SAY:
        return era_answer(m, now, status);
    case ASK_OWN:
        return own_answer(m, now, status, r);
    default:
        return lead_answer(m, now, kind, asked_ns, status, r);
    }
}

mob_status_t member_answer(member_t *m, uint64_t now, uint64_t request, const void *answer,
                           size_t size) {
    size_t kind = request & ((1 << ASK_BITS) - 1);
    if (m->is_over) return MOB_OK;
    bool is_newest = m->asked[kind] == request;
    uint64_t asked_ns = is_newest ? m->asked_ns[kind] : 0;
    if (is_newest) m->asked[kind] = 0;
    if (answer == NULL) return MOB_OK;
    base_reader_t r = {answer, size, false};
    return answer_take(m, now, request, asked_ns, &r);
}
