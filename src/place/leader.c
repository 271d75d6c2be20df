/*
 * The leader: questions of all origins, and which node each of them is given.
 *
 * A question is (origin, lane) and how many tasks of it wait; it stays until it is granted in full
 * or taken back. Questions with the same needs are of one kind, in the order in which they began to
 * wait. A kind waits at one index of nodes. A node that says something new is tried for the kinds
 * that wait at its indexes, so nothing is looked at twice for nothing.
 *
 * The choice: the node that has most of the arguments, if there is room; else the one with the most
 * free of the rarest resource asked for, by powers of two, in turn among equals; nodes with GPUs
 * last for those that need none. Ray fills nodes up to the half first. Here only what its own node
 * had no room for comes to the leader, and it wants to run now: on the freest node many tasks fit
 * at once, so one answer serves a long backlog, and it disturbs the fewest others. The price is
 * that a demand for a whole node may have to wait while small ones lie on all of them.
 *
 * When there is room for some of what waits, each question of a kind gets an equal part, and the
 * one that was given something goes to the end. When there is no room at all, a question whose
 * origin can't run it itself (it starves) is granted one task at a full node: there it waits in the
 * scheduler's queue, which is fair between jobs, local ones too [a node that is never seen free
 * because its own tasks take every CPU that comes free].
 *
 * Nothing here decides: the node does. What was granted is taken off its view until it says
 * something new, and if it does not, it is asked [an origin that dies with a grant, or has nothing
 * to send any more: the leader would think the node full for ever].
 */
#include "place/kind.h"

#include <stdlib.h>

leader_t *place_leader_new(place_t *place) {
    leader_t *leader = calloc(1, sizeof *leader);
    if (leader == NULL) return NULL;
    leader->place = place;
    place_views_init(&leader->views, place);
    base_map_init(&leader->questions, sizeof(question_key_t));
    base_map_init(&leader->kinds, sizeof(uint64_t));
    ring_init(&leader->fresh);
    ring_init(&leader->starving);
    ring_init(&leader->improved);
    ring_init(&leader->probed);
    return leader;
}

size_t place_leader_questions(const leader_t *leader) { return leader->questions.count; }
size_t place_leader_views(const leader_t *leader) { return leader->views.by_id.count; }

/* ---- questions ---- */

static void question_count(leader_t *leader, const question_t *q, uint32_t change) {
    peer_t *peer = base_map_get(&leader->place->peers, &q->key.origin);
    if (peer != NULL) peer->question_count += change;
}

static void question_free(leader_t *leader, question_t *q) {
    kind_t *kind = q->kind;
    question_count(leader, q, -1u);
    base_map_remove(&leader->questions, &q->key);
    ring_remove(&q->in_kind);
    ring_remove(&q->fresh);
    ring_remove(&q->starving);
    free(q);
    kind->question_count--;
    place_kind_release(leader, kind);
}

enum { STEPS_MAX = 64 }; /* after a new leader came, all ask at once */

/* By the time since which they wait, which a new leader did not see. */
static void question_line_up(question_t *q) {
    ring_t *head = &q->kind->questions, *before = head->prev;
    for (int i = 0; i < STEPS_MAX && before != head; i++, before = before->prev)
        if (RING_OF(before, question_t, in_kind)->since_ns <= q->since_ns) break;
    ring_push(before->next, &q->in_kind);
}

static question_t *question_new(leader_t *leader, question_key_t key, const message_demand_t *d) {
    const peer_t *peer = base_map_get(&leader->place->peers, &key.origin);
    if (peer != NULL && peer->question_count >= PLACE_LANES_MAX) return NULL;
    kind_t *kind = place_kind_get(leader, d);
    if (kind == NULL) return NULL;
    question_t *q = calloc(1, sizeof *q);
    if (q == NULL || !base_map_put(&leader->questions, &key, q)) {
        free(q);
        place_kind_release(leader, kind);
        return NULL;
    }
    q->key = key;
    q->kind = kind;
    kind->question_count++;
    question_count(leader, q, 1);
    return q;
}

static void answer(leader_t *leader, const question_key_t *key, uint32_t serial, uint64_t node,
                   uint32_t credits, uint32_t flags) {
    uint8_t head[MESSAGE_HEAD_MAX];
    base_writer_t w = {.bytes = head};
    base_put_number(&w, MESSAGE_GRANT, 1);
    base_put_number(&w, leader->place->fence, 8);
    base_put_number(&w, key->lane, 4);
    base_put_number(&w, serial, 4);
    base_put_number(&w, node, 8);
    base_put_number(&w, credits, 4);
    base_put_number(&w, flags, 1);
    place_send_head(leader->place, key->origin, &w, true);
}

/* The question may be gone afterwards. */
static void grant(leader_t *leader, question_t *q, view_t *view, uint32_t credits, uint32_t flags) {
    place_view_take(view, q->kind->needs, q->kind->count, credits);
    place_view_rotate(view, q->kind->index);
    if (!ring_is_in(&view->probe)) {
        view->probe_ns = leader->place->now_ns + PLACE_PROBE_NS;
        ring_push(&leader->probed, &view->probe);
    }
    ring_remove(&q->starving);
    answer(leader, &q->key, q->serial, view->id, credits, flags);
    q->want -= credits;
    if (q->want == 0)
        question_free(leader, q);
    else
        ring_push(&q->kind->questions, &q->in_kind);
}

void place_leader_probe(place_t *place, uint64_t node, bool is_for_all) {
    uint8_t words[2] = {MESSAGE_PROBE, is_for_all};
    place_send(place, node, words, sizeof words, NULL, 0, false);
}

/* The leader that it is said to; NULL: this node does not lead, or not yet with that number. */
static leader_t *leader_for(place_t *place, uint64_t from, uint64_t fence) {
    peer_t *peer = base_map_get(&place->peers, &from);
    bool is_early = place->lead == NULL || fence > place->fence;
    if (is_early && peer != NULL) peer->is_early = true;
    return fence == place->fence ? place->lead : NULL;
}

mob_status_t place_leader_receive_ask(place_t *place, uint64_t from, base_reader_t *r) {
    uint64_t fence = base_take_number(r, 8);
    question_key_t key = {from, base_take_number(r, 4)};
    uint32_t serial = (uint32_t)base_take_number(r, 4), want = (uint32_t)base_take_number(r, 4);
    uint64_t age_ns = base_take_number(r, 4) * 1000000;
    uint32_t flags = (uint32_t)base_take_number(r, 1);
    message_avoid_t avoid[MESSAGE_AVOID_MAX];
    size_t avoid_count = base_take_number(r, 1);
    if (avoid_count > MESSAGE_AVOID_MAX) return MOB_EPROTO;
    for (size_t i = 0; i < avoid_count; i++) {
        avoid[i].node = base_take_number(r, 8);
        avoid[i].version = base_take_number(r, 8);
    }
    message_demand_t d;
    if (place_message_demand_read(r, &d) != MOB_OK || want > PLACE_WANT_MAX ||
        flags > MESSAGE_FLAGS)
        return MOB_EPROTO;
    leader_t *leader = leader_for(place, from, fence);
    if (leader == NULL) return MOB_OK;
    question_t *q = base_map_get(&leader->questions, &key);
    if (q != NULL && want == 0) question_free(leader, q);
    if (want == 0) return MOB_OK;
    if (q == NULL) q = question_new(leader, key, &d);
    if (q == NULL) {
        answer(leader, &key, serial, from, 0, 0);
        return MOB_OK;
    }
    q->serial = serial;
    q->want = want;
    q->hint = d.demand.hint;
    q->is_local = (flags & MESSAGE_LOCAL) != 0;
    q->avoid_count = avoid_count;
    memcpy(q->avoid, avoid, avoid_count * sizeof *avoid);
    ring_remove(&q->starving);
    if (flags & MESSAGE_STARVES) {
        q->starved_ns = place->now_ns + PLACE_STARVE_NS;
        ring_push(&leader->starving, &q->starving);
    }
    if (!ring_is_in(&q->in_kind)) {
        q->since_ns = place->now_ns > age_ns ? place->now_ns - age_ns : 0;
        question_line_up(q);
    }
    ring_add(&leader->fresh, &q->fresh);
    return MOB_OK;
}

/* ---- choosing ---- */

static bool is_allowed(const leader_t *leader, const question_t *q, const view_t *view) {
    if (q->is_local && view->id == q->key.origin) return false;
    const peer_t *peer = base_map_get(&leader->place->peers, &view->id);
    if (peer == NULL ? view->id != leader->place->self : peer->is_silent) return false;
    for (size_t i = 0; i < q->avoid_count; i++)
        if (q->avoid[i].node == view->id && view->version <= q->avoid[i].version) return false;
    return true;
}

typedef struct {
    const leader_t *leader;
    const question_t *q;
} chooser_t;

static bool accepts_now(void *context, const view_t *view) {
    const chooser_t *c = context;
    return place_view_fits(view, c->q->kind->needs, c->q->kind->count, 1) > 0 &&
           is_allowed(c->leader, c->q, view);
}

static bool accepts_ever(void *context, const view_t *view) {
    const chooser_t *c = context;
    return place_view_fits_ever(view, c->q->kind->needs, c->q->kind->count) &&
           is_allowed(c->leader, c->q, view);
}

static view_t *choose(leader_t *leader, const question_t *q) {
    chooser_t chooser = {leader, q};
    const kind_t *kind = q->kind;
    view_t *view =
        q->hint != 0 && !kind->index->is_flat ? place_views_find(&leader->views, q->hint) : NULL;
    if (view != NULL && accepts_now(&chooser, view)) return view;
    view = kind->prefer != NULL ? place_views_pick(kind->prefer, 0, accepts_now, &chooser) : NULL;
    return view != NULL ? view : place_views_pick(kind->index, kind->least, accepts_now, &chooser);
}

static uint32_t lower(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* All nodes for one question. */
static void serve_question(leader_t *leader, question_t *q) {
    view_t *view;
    while ((view = choose(leader, q)) != NULL) {
        uint32_t most = q->kind->strategy == PLACE_SPREAD ? 1 : q->want, left = q->want;
        uint32_t credits = lower(place_view_fits(view, q->kind->needs, q->kind->count, most), left);
        grant(leader, q, view, credits, 0);
        if (credits == left) return; /* it is gone */
    }
}

/* One node for the questions of a kind that wait, an equal part for each. */
static void serve_kind(leader_t *leader, kind_t *kind, view_t *view) {
    size_t count = kind->question_count;
    uint32_t fits = place_view_fits(view, kind->needs, kind->count, PLACE_WANT_MAX);
    uint32_t part = kind->strategy == PLACE_SPREAD ? 1 : fits / (uint32_t)count;
    ring_t *at = ring_first(&kind->questions), *next;
    for (; count > 0 && fits > 0 && at != NULL; count--, at = next) {
        question_t *q = RING_OF(at, question_t, in_kind);
        next = ring_after(&kind->questions, at);
        if (!is_allowed(leader, q, view)) continue;
        uint32_t credits = lower(q->want, lower(part > 0 ? part : 1, fits));
        fits -= credits;
        bool is_last = kind->question_count == 1 && credits == q->want;
        grant(leader, q, view, credits, 0);
        if (is_last) return; /* so is the kind */
    }
}

static void serve_index(leader_t *leader, index_t *index, view_t *view) {
    ring_t *next;
    for (ring_t *at = ring_first(&index->waiting); at != NULL; at = next) {
        next = ring_after(&index->waiting, at);
        serve_kind(leader, RING_OF(at, kind_t, waiting), view);
    }
}

static void serve_view(leader_t *leader, view_t *view) {
    for (uint32_t i = 0; i < view->count; i++)
        serve_index(leader, view->items[i].member.index, view);
    for (member_t *member = view->flat; member != NULL; member = member->next)
        serve_index(leader, member->index, view);
}

/* Nothing is free for it: it waits in the queue of a node that is full. */
static void serve_starving(leader_t *leader, question_t *q) {
    chooser_t chooser = {leader, q};
    view_t *view = place_views_pick(q->kind->index, 0, accepts_ever, &chooser);
    if (BASE_RULE(PLACE_STARVING_QUEUES) && view != NULL) grant(leader, q, view, 1, MESSAGE_QUEUES);
}

/* ---- its course ---- */

mob_status_t place_leader_receive_view(place_t *place, uint64_t from, base_reader_t *r) {
    view_t *view;
    leader_t *leader = leader_for(place, from, base_take_number(r, 8));
    if (leader == NULL) return MOB_OK;
    mob_status_t status = place_views_read(&leader->views, from, r, &view);
    if (status == MOB_ENOMEM) { /* it says it again */
        place_leader_probe(place, from, false);
        return MOB_OK;
    }
    if (status != MOB_OK) return status;
    ring_remove(&view->probe);
    ring_add(&leader->improved, &view->improved);
    return MOB_OK;
}

void place_leader_tick(leader_t *leader) {
    uint64_t now_ns = leader->place->now_ns;
    ring_t *first;
    while ((first = ring_first(&leader->improved)) != NULL) {
        ring_remove(first);
        serve_view(leader, RING_OF(first, view_t, improved));
    }
    while ((first = ring_first(&leader->fresh)) != NULL) {
        ring_remove(first);
        serve_question(leader, RING_OF(first, question_t, fresh));
    }
    while ((first = ring_first(&leader->starving)) != NULL) {
        question_t *q = RING_OF(first, question_t, starving);
        if (q->starved_ns > now_ns) break;
        ring_remove(first);
        serve_starving(leader, q);
    }
    while ((first = ring_first(&leader->probed)) != NULL) {
        view_t *view = RING_OF(first, view_t, probe);
        if (view->probe_ns > now_ns) break;
        ring_remove(first);
        if (BASE_RULE(PLACE_UNUSED_IS_PROBED)) place_leader_probe(leader->place, view->id, false);
    }
}

uint64_t place_leader_due_ns(const leader_t *leader) {
    if (!ring_is_empty(&leader->improved) || !ring_is_empty(&leader->fresh))
        return leader->place->now_ns;
    const ring_t *starving = ring_first(&leader->starving), *probed = ring_first(&leader->probed);
    uint64_t due = UINT64_MAX;
    if (starving != NULL) due = RING_OF(starving, question_t, starving)->starved_ns;
    if (probed != NULL && RING_OF(probed, view_t, probe)->probe_ns < due)
        due = RING_OF(probed, view_t, probe)->probe_ns;
    return due;
}

void place_leader_node_heard(leader_t *leader, uint64_t node) {
    view_t *view = place_views_find(&leader->views, node);
    if (view != NULL) ring_add(&leader->improved, &view->improved);
}

void place_leader_node_died(leader_t *leader, uint64_t node) {
    view_t *view = place_views_find(&leader->views, node);
    for (member_t *member = view != NULL ? view->flat : NULL; member != NULL;
         member = member->next) {
        ring_t *next;
        for (ring_t *at = ring_first(&member->index->waiting); at != NULL; at = next) {
            kind_t *kind = RING_OF(at, kind_t, waiting);
            next = ring_after(&member->index->waiting, at);
            if (kind->else_index != NULL && member->index->count == 1)
                place_kind_move(leader, kind);
        }
    }
    place_views_remove(&leader->views, node);
    ring_t dead;
    ring_init(&dead);
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&leader->questions, &cursor, &key, &value)) {
        question_t *q = value;
        if (q->key.origin == node) ring_push(&dead, &q->fresh);
    }
    ring_t *first;
    while ((first = ring_first(&dead)) != NULL)
        question_free(leader, RING_OF(first, question_t, fresh));
}

void place_leader_free(leader_t *leader) {
    if (leader == NULL) return;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&leader->questions, &cursor, &key, &value)) {
        question_count(leader, value, -1u);
        free(value);
    }
    cursor = 0;
    while (base_map_each(&leader->kinds, &cursor, &key, &value))
        for (kind_t *kind = value, *next; kind != NULL; kind = next) {
            next = kind->chain;
            free(kind);
        }
    base_map_fini(&leader->questions);
    base_map_fini(&leader->kinds);
    place_views_fini(&leader->views);
    free(leader);
}
