/*
 * One handle, three parts that know each other by messages only: the origin (lane, lease, sent),
 * the guests (berth, guest, report) and the leader. What one part of a node says to another part of
 * the same node is received at once, by the same function that a peer's message comes to.
 *
 * Receiving changes the books and marks what is to be looked at; only a tick asks, grants and
 * sends. So no message is answered in the middle of a change, whoever sent it.
 */
#include "place/books.h"

#include <stdlib.h>

/* ---- peers ---- */

peer_t *place_peer(place_t *place, uint64_t id) {
    peer_t *peer = base_map_get(&place->peers, &id);
    if (peer != NULL || base_map_get(&place->dead, &id) != NULL || id == place->self || id == 0)
        return peer;
    peer = calloc(1, sizeof *peer);
    if (peer == NULL) return NULL;
    peer->id = id;
    ring_init(&peer->leases);
    ring_init(&peer->berths);
    if (base_map_put(&place->peers, &id, peer)) return peer;
    free(peer);
    return NULL;
}

mob_status_t place_peer_joined(place_t *place, uint64_t id) {
    if (base_map_get(&place->dead, &id) != NULL || id == place->self || id == 0) return MOB_OK;
    if (base_map_get(&place->peers, &id) != NULL) return MOB_OK;
    if (place_peer(place, id) == NULL) return MOB_ENOMEM;
    place_lanes_ask_refused(place); /* it may have been named before it was known */
    return MOB_OK;
}

void place_peer_died(place_t *place, uint64_t id) {
    /* Without memory for the mark, a lane that must go there waits instead of failing. */
    base_map_put(&place->dead, &id, place);
    peer_t *peer = base_map_remove(&place->peers, &id);
    if (peer != NULL) {
        place_sent_peer_died(place, peer);
        place_berths_peer_died(place, peer);
        free(peer);
    }
    place_lanes_node_died(place, id);
    if (place->lead != NULL) place_leader_node_died(place->lead, id);
}

void place_peer_silent(place_t *place, uint64_t id, bool is_silent) {
    peer_t *peer = place_peer(place, id);
    if (peer == NULL || peer->is_silent == is_silent) return;
    peer->is_silent = is_silent;
    for (ring_t *at = peer->leases.next; at != &peer->leases; at = at->next)
        place_lease_refresh(RING_OF(at, lease_t, in_peer));
    if (is_silent)
        place_berths_peer_silent(place, peer);
    else
        place_lanes_ask_refused(place);
    if (!is_silent && place->lead != NULL) place_leader_node_heard(place->lead, id);
    if (!BASE_RULE(PLACE_DEAD_NOT_SILENT) && is_silent) place_sent_peer_died(place, peer);
}

/* ---- jobs ---- */

static void job_key(frame_job_t job, uint8_t key[12]) {
    memcpy(key, &job.home, sizeof job.home);
    memcpy(key + sizeof job.home, &job.number, sizeof job.number);
}

bool place_is_ended(const place_t *place, frame_job_t job) {
    uint8_t key[12];
    job_key(job, key);
    return base_map_get(&place->ended, key) != NULL;
}

mob_status_t place_job_end(place_t *place, frame_job_t job) {
    uint8_t key[12];
    job_key(job, key);
    if (BASE_RULE(PLACE_JOB_END_KEPT) && !base_map_put(&place->ended, key, place))
        return MOB_ENOMEM;
    place_sent_job_ended(place, job);
    place_berths_job_ended(place, job);
    return MOB_OK;
}

/* ---- messages ---- */

static mob_status_t receive_probe(place_t *place, uint64_t from, base_reader_t *r) {
    uint64_t is_for_all = base_take_number(r, 1);
    if (!base_reader_is_done(r) || is_for_all > 1) return MOB_EPROTO;
    if (from != place->leader) return MOB_OK;
    place->must_say = true;
    if (is_for_all) place_lanes_ask_again(place);
    return MOB_OK;
}

static mob_status_t receive_by_kind(place_t *place, uint64_t from, message_kind_t kind,
                                    base_reader_t *r) {
    switch (kind) {
    case MESSAGE_VIEW:
        return place_leader_receive_view(place, from, r);
    case MESSAGE_ASK:
        return place_leader_receive_ask(place, from, r);
    case MESSAGE_PROBE:
        return receive_probe(place, from, r);
    case MESSAGE_GRANT:
        return place_lane_receive_grant(place, from, r);
    case MESSAGE_OPEN:
        return place_berth_receive_open(place, from, r);
    case MESSAGE_CREDIT:
        return place_lease_receive_credit(place, from, r);
    case MESSAGE_CLOSE:
        return place_berth_receive_close(place, from, r);
    case MESSAGE_TASK:
        return place_guest_receive_task(place, from, r);
    case MESSAGE_BACK:
        return place_sent_receive_back(place, from, r);
    case MESSAGE_DONE:
        return place_sent_receive_done(place, from, r);
    case MESSAGE_BLOCK:
        return place_sent_receive_block(place, from, r);
    case MESSAGE_CANCEL:
        return place_guest_receive_cancel(place, from, r);
    }
    return MOB_EPROTO;
}

mob_status_t place_receive(place_t *place, uint64_t from, const void *bytes, size_t size,
                           uint64_t now_ns) {
    place->now_ns = now_ns;
    if (from != place->self && place_peer(place, from) == NULL)
        return base_map_get(&place->dead, &from) != NULL ? MOB_OK : MOB_ENOMEM;
    base_reader_t r = {.at = bytes, .left = size};
    return receive_by_kind(place, from, (message_kind_t)base_take_number(&r, 1), &r);
}

/* Only heads with a demand or a view go from a node to itself: these lie in one piece already, or
 * are read from two pieces by the head's reader alone. */
static void send_to_self(place_t *place, const void *head, size_t head_size, const void *body,
                         size_t body_size) {
    uint8_t *bytes = malloc(head_size + body_size);
    if (bytes == NULL) { /* said again at a later tick */
        place->must_say = true;
        place_lanes_ask_again(place);
        return;
    }
    memcpy(bytes, head, head_size);
    if (body_size > 0) memcpy(bytes + head_size, body, body_size);
    place_receive(place, place->self, bytes, head_size + body_size, place->now_ns);
    free(bytes);
}

void place_send(place_t *place, uint64_t to, const void *head, size_t head_size, const void *body,
                size_t body_size, bool is_answer) {
    if (to == place->self) {
        send_to_self(place, head, head_size, body, body_size);
        return;
    }
    place->messages++;
    place->ops->send(place->context, to, head, head_size, body, body_size, is_answer);
}

void place_send_head(place_t *place, uint64_t to, const base_writer_t *w, bool is_answer) {
    place_send(place, to, w->bytes, w->size, NULL, 0, is_answer);
}

/* ---- the leader ---- */

void place_leads(place_t *place, uint64_t leader, uint64_t fence) {
    if (fence < place->fence) return;
    if (place->leader == leader && place->fence == fence) return;
    place->leader = leader;
    place->fence = fence;
    place_leader_free(place->lead);
    place->lead = NULL;
    if (BASE_RULE(PLACE_VIEWS_ANEW)) place->must_say = true;
    if (BASE_RULE(PLACE_ASKED_ANEW)) place_lanes_ask_again(place);
}

/* Tasks that run at most once leave the queue, for a paused node may be dead for its peers. */
void place_paused(place_t *place, bool is_paused) {
    place->is_paused = is_paused;
    place_free_changed(place);
    size_t cursor = 0;
    const void *key;
    void *value;
    while (BASE_RULE(PLACE_PAUSED_HOLDS) && is_paused &&
           base_map_each(&place->guests, &cursor, &key, &value)) {
        place_guest_t *guest = value;
        if (guest->is_once) place_guest_hold(guest);
    }
    for (ring_t *at = place->all_berths.next; !is_paused && at != &place->all_berths; at = at->next)
        place_berth_fill(place, RING_OF(at, berth_t, link));
}

/* Those that have said something to it before it knew that it leads say it again [a node hears of
 * the new leader before the leader does]. */
static void place_lead(place_t *place) {
    place->lead = place_leader_new(place);
    if (place->lead == NULL) return; /* at a later tick */
    place->must_say = true;
    place_lanes_ask_again(place);
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&place->peers, &cursor, &key, &value)) {
        peer_t *peer = value;
        if (BASE_RULE(PLACE_EARLY_IS_PROBED) && peer->is_early)
            place_leader_probe(place, peer->id, true);
        peer->is_early = false;
    }
}

/* ---- time ---- */

enum { ROUNDS = 4 }; /* a node that leads answers itself within a tick */

void place_tick(place_t *place, uint64_t now_ns) {
    place->now_ns = now_ns;
    if (place->leader == place->self && place->lead == NULL) place_lead(place);
    place_guests_tick(place);
    place_berths_tick(place);
    for (int round = 0; round < ROUNDS; round++) {
        place_lanes_tick(place);
        place_leases_tick(place);
        place_report_tick(place);
        if (place->lead != NULL) place_leader_tick(place->lead);
        if (ring_is_empty(&place->dirty)) break;
    }
}

static uint64_t lower(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t place_due_ns(const place_t *place) {
    if (!ring_is_empty(&place->dirty)) return place->now_ns;
    bool is_to_lead = place->leader == place->self && place->lead == NULL; /* no memory yet */
    uint64_t due = lower(place_lanes_due_ns(place), place_leases_due_ns(place));
    due = lower(due, lower(place_guests_due_ns(place), place_berths_due_ns(place)));
    due = lower(due, place_report_due_ns(place));
    if (is_to_lead) due = lower(due, place->now_ns + PLACE_WAIT_NS);
    return place->lead != NULL ? lower(due, place_leader_due_ns(place->lead)) : due;
}

/* ---- its life ---- */

place_t *place_new(const place_ops_t *ops, void *context, uint64_t self) {
    place_t *place = calloc(1, sizeof *place);
    if (place == NULL) return NULL;
    place->ops = ops;
    place->context = context;
    place->self = self;
    base_map_init(&place->peers, sizeof(uint64_t));
    base_map_init(&place->dead, sizeof(uint64_t));
    base_map_init(&place->ended, 12);
    base_map_init(&place->lanes, sizeof(uint32_t));
    base_map_init(&place->leases, sizeof(uint64_t));
    base_map_init(&place->sent, sizeof(uint32_t));
    base_map_init(&place->guests, 2 * sizeof(uint64_t));
    base_map_init(&place->berths, 2 * sizeof(uint64_t));
    ring_init(&place->all_lanes);
    ring_init(&place->dirty);
    ring_init(&place->patient);
    ring_init(&place->idle);
    ring_init(&place->all_berths);
    ring_init(&place->unused);
    for (int i = 0; i < PLACE_MOVES_MAX; i++) ring_init(&place->unbegun[i]);
    return place;
}

/* Frees what the map's values are, and the map. */
static void map_free(base_map_t *map) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(map, &cursor, &key, &value)) free(value);
    base_map_fini(map);
}

void place_free(place_t *place) {
    if (place == NULL) return;
    place_leader_free(place->lead);
    for (ring_t *at = place->all_lanes.next; at != &place->all_lanes; at = at->next)
        free(RING_OF(at, place_lane_t, link)->demand);
    map_free(&place->lanes);
    map_free(&place->leases);
    map_free(&place->sent);
    map_free(&place->guests);
    map_free(&place->berths);
    map_free(&place->peers);
    base_map_fini(&place->dead);
    base_map_fini(&place->ended);
    for (uint32_t i = 0; i < place->resource_count; i++) free(place->resources[i].name);
    free(place->resources);
    free(place->labels);
    free(place->view);
    free(place);
}

void place_counts(const place_t *place, place_counts_t *ret) {
    *ret =
        (place_counts_t){.lanes = place->lanes.count,
                         .leases = place->leases.count,
                         .sent = place->sent.count,
                         .guests = place->guests.count,
                         .guest_leases = place->berths.count,
                         .views = place->lead != NULL ? place_leader_views(place->lead) : 0,
                         .questions = place->lead != NULL ? place_leader_questions(place->lead) : 0,
                         .messages = place->messages};
}
