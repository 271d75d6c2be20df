/*
 * References in frames.
 *
 * A frame from B to C names objects of three kinds.
 * - Of B: B makes C a member with the frame's number, before it is enqueued. So the object is held
 *   for C while the frame is on its way, and a DROP that C said before it saw the frame is known by
 *   its lower number.
 * - Of C: nothing is done. B was a member when it sent the frame, and its DROP can't overtake it.
 * - Of a third node A: B pins the object, and so its own place in A's set, until C confirms the
 *   frame. C confirms it when A has answered its HOLDs. So C is in the set before B leaves it.
 * Objects of homes known to be dead are counted by nobody.
 *
 * The list of references inside a container, sent by the container's home B, is lighter: C keeps
 * the container until its HOLDs on the contents are answered; the container is kept by C's place in
 * B's set, and keeps its contents. So B pins nothing for C, and is told nothing.
 *
 * Both calls reserve all memory before they change anything that counts.
 */
#include <stdlib.h>

#include "base/rule.h"
#include "refs/books.h"

typedef struct {
    uint64_t peer, sequence;
    const frame_id_t *container; /* NULL: none */
    const frame_id_t *ids;
    size_t count;
} sheet_t;

/* Whether it is an object of a third node that lives. */
static bool is_third(const refs_t *refs, const sheet_t *sheet, frame_id_t id) {
    return id.home != refs->self && id.home != sheet->peer &&
           !refs->ops->is_dead(refs->context, id.home);
}

/* ---- sending ---- */

static void fresh_remove(refs_t *refs, refs_peer_t *peer, frame_id_t id) {
    refs_member_t *member = id.home == refs->self ? refs_member_find(refs, id, peer) : NULL;
    if (member != NULL && member->is_fresh) refs_member_remove(refs, member);
}

static void send_undo(refs_t *refs, refs_peer_t *peer, const sheet_t *sheet) {
    for (size_t i = 0; i < sheet->count; i++) fresh_remove(refs, peer, sheet->ids[i]);
    if (sheet->container != NULL) fresh_remove(refs, peer, *sheet->container);
}

/* A list of references is a sending of its container, too. */
static bool list_gives(const sheet_t *sheet) {
    return sheet->container != NULL && BASE_RULE(REFS_LIST_GIVES);
}

static bool members_reserve(refs_t *refs, refs_peer_t *peer, const sheet_t *sheet) {
    if (!BASE_RULE(REFS_SENDING_ADDS)) return true;
    for (size_t i = 0; i < sheet->count; i++)
        if (sheet->ids[i].home == refs->self && refs_member_get(refs, sheet->ids[i], peer) == NULL)
            return false;
    return !list_gives(sheet) || refs_member_get(refs, *sheet->container, peer) != NULL;
}

static void member_give(refs_t *refs, refs_peer_t *peer, frame_id_t id, uint64_t sequence) {
    refs_member_t *member = id.home == refs->self ? refs_member_find(refs, id, peer) : NULL;
    if (member == NULL) return;
    member->last = sequence;
    refs_member_set(refs, member, REFS_HELD);
}

/* What of the frame is to be pinned: ids of third nodes that are held here. */
static refs_away_t *pinned_by(const refs_t *refs, const sheet_t *sheet, size_t i) {
    return is_third(refs, sheet, sheet->ids[i]) ? refs_away_find(refs, sheet->ids[i]) : NULL;
}

/* Reserves the memory of the pins; they are counted later. */
static bool sent_reserve(refs_t *refs, refs_peer_t *peer, const sheet_t *sheet,
                         refs_sent_t **ret_sent) {
    size_t count = 0;
    *ret_sent = NULL;
    if (sheet->container != NULL || !BASE_RULE(REFS_GIVER_KEEPS)) return true;
    for (size_t i = 0; i < sheet->count; i++) count += pinned_by(refs, sheet, i) != NULL;
    if (count == 0) return true;
    refs_sent_t *sent = malloc(sizeof *sent + count * sizeof *sent->pinned);
    if (sent == NULL || !base_map_put(&peer->sent, &sheet->sequence, sent)) {
        free(sent);
        return false;
    }
    sent->count = 0;
    refs->sent++;
    *ret_sent = sent;
    return true;
}

static mob_status_t sheet_send(refs_t *refs, const sheet_t *sheet) {
    if (sheet->peer == refs->self) return MOB_EINVAL;
    if (refs->ops->is_dead(refs->context, sheet->peer)) return MOB_ECLOSED;
    refs_peer_t *peer = refs_peer_get(refs, sheet->peer);
    if (peer == NULL) return MOB_ENOMEM;
    if (sheet->sequence <= peer->last) return MOB_EINVAL;
    refs_sent_t *sent;
    if (!members_reserve(refs, peer, sheet) || !sent_reserve(refs, peer, sheet, &sent)) {
        send_undo(refs, peer, sheet);
        return MOB_ENOMEM;
    }
    peer->last = sheet->sequence;
    for (size_t i = 0; i < sheet->count; i++) {
        member_give(refs, peer, sheet->ids[i], sheet->sequence);
        refs_away_t *away = sent != NULL ? pinned_by(refs, sheet, i) : NULL;
        if (away == NULL) continue;
        refs_away_pin(away);
        sent->pinned[sent->count++] = away;
    }
    if (list_gives(sheet)) member_give(refs, peer, *sheet->container, sheet->sequence);
    return MOB_OK;
}

mob_status_t refs_frame_send(refs_t *refs, uint64_t peer, uint64_t sequence, const frame_id_t *ids,
                             size_t count) {
    return sheet_send(refs, &(sheet_t){peer, sequence, NULL, ids, count});
}

mob_status_t refs_list_send(refs_t *refs, uint64_t peer, uint64_t sequence, frame_id_t container,
                            const frame_id_t *ids, size_t count) {
    if (container.home != refs->self) return MOB_EINVAL;
    return sheet_send(refs, &(sheet_t){peer, sequence, &container, ids, count});
}

static void sent_free(refs_t *refs, refs_sent_t *sent) {
    for (size_t i = 0; i < sent->count; i++) refs_away_unpin(refs, sent->pinned[i]);
    refs->sent--;
    free(sent);
}

void refs_sent_confirm(refs_t *refs, refs_peer_t *peer, uint64_t sequence) {
    refs_sent_t *sent = base_map_remove(&peer->sent, &sequence);
    if (sent != NULL) sent_free(refs, sent);
}

void refs_sent_release(refs_t *refs, refs_peer_t *peer) {
    size_t cursor = 0;
    const void *key;
    void *sent;
    while (base_map_each(&peer->sent, &cursor, &key, &sent)) sent_free(refs, sent);
    base_map_fini(&peer->sent);
}

/* ---- coming ---- */

/* A foreign object of the frame that is to be counted here. */
static bool is_counted(const refs_t *refs, const sheet_t *sheet, frame_id_t id) {
    return id.home == sheet->peer || is_third(refs, sheet, id);
}

/* Those that are made and then not wanted go with the next flush. */
static bool aways_reserve(refs_t *refs, const sheet_t *sheet) {
    for (size_t i = 0; i < sheet->count; i++)
        if (is_counted(refs, sheet, sheet->ids[i]) && refs_away_get(refs, sheet->ids[i]) == NULL)
            return false;
    return sheet->container == NULL || refs_away_get(refs, *sheet->container) != NULL;
}

static void came_add(refs_t *refs, const sheet_t *sheet, refs_came_t *frame, frame_id_t id) {
    if (id.home == refs->self) return;
    frame->confirms |= id.home != sheet->peer;
    if (!is_counted(refs, sheet, id)) return;
    refs_away_t *away = refs_away_find(refs, id);
    if (id.home == sheet->peer) {
        refs_away_given(refs, away);
        return;
    }
    refs_away_change(refs, away);
    if (away->told != REFS_NONE || !BASE_RULE(REFS_CONFIRM_ANSWERED)) return;
    refs_wait_t *wait = &frame->waits[frame->missing++];
    wait->frame = frame;
    refs_link_init(&wait->in_away);
    refs_link_move(&wait->in_away, &away->waits);
}

static void container_add(refs_t *refs, const sheet_t *sheet, refs_came_t *frame) {
    refs_away_t *container = refs_away_find(refs, *sheet->container);
    refs_away_given(refs, container);
    frame->confirms = false;
    if (!BASE_RULE(REFS_CONTAINER_KEPT)) return;
    refs_away_pin(container);
    frame->container = container;
}

static void frame_ready(refs_t *refs, refs_came_t *frame) {
    refs_link_move(&frame->answered, &frame->peer->answered);
    refs_peer_busy(refs, frame->peer);
}

/* Whether the frame stays on the books: somebody waits for it. */
static bool frame_begin(refs_t *refs, const sheet_t *sheet, refs_peer_t *peer, refs_came_t *frame) {
    *frame = (refs_came_t){.peer = peer, .sequence = sheet->sequence};
    refs_link_init(&frame->answered);
    refs_link_init(&frame->in_all);
    for (size_t i = 0; i < sheet->count; i++) came_add(refs, sheet, frame, sheet->ids[i]);
    if (sheet->container != NULL) container_add(refs, sheet, frame);
    peer->processed = sheet->sequence;
    if (frame->missing == 0 && !frame->confirms && frame->container == NULL) return false;
    refs_link_move(&frame->in_all, &refs->frames);
    refs->came++;
    peer->pending++;
    if (frame->missing == 0) frame_ready(refs, frame);
    return true;
}

static mob_status_t sheet_came(refs_t *refs, const sheet_t *sheet, bool *ret_waits) {
    if (sheet->peer == refs->self) return MOB_EPROTO;
    if (refs->ops->is_dead(refs->context, sheet->peer)) return MOB_ECLOSED;
    refs_peer_t *peer = refs_peer_get(refs, sheet->peer);
    if (peer == NULL) return MOB_ENOMEM;
    if (sheet->sequence <= peer->processed) return MOB_EPROTO;
    refs_came_t *frame = malloc(sizeof *frame + sheet->count * sizeof *frame->waits);
    if (frame == NULL || !aways_reserve(refs, sheet)) {
        free(frame);
        return MOB_ENOMEM;
    }
    *ret_waits = frame_begin(refs, sheet, peer, frame);
    if (!*ret_waits) free(frame);
    return MOB_OK;
}

mob_status_t refs_frame_came(refs_t *refs, uint64_t peer, uint64_t sequence, const frame_id_t *ids,
                             size_t count, bool *ret_waits) {
    return sheet_came(refs, &(sheet_t){peer, sequence, NULL, ids, count}, ret_waits);
}

mob_status_t refs_list_came(refs_t *refs, uint64_t peer, uint64_t sequence, frame_id_t container,
                            const frame_id_t *ids, size_t count, bool *ret_waits) {
    if (container.home != peer) return MOB_EPROTO;
    return sheet_came(refs, &(sheet_t){peer, sequence, &container, ids, count}, ret_waits);
}

void refs_came_answer(refs_t *refs, refs_came_t *frame) {
    if (--frame->missing == 0) frame_ready(refs, frame);
}

void refs_came_settle(refs_t *refs, refs_came_t *frame) {
    uint64_t node = frame->peer->node, sequence = frame->sequence;
    if (frame->confirms) refs_say_confirm(refs, sequence);
    if (frame->container != NULL) refs_away_unpin(refs, frame->container);
    refs_link_remove(&frame->in_all);
    refs->came--;
    frame->peer->pending--;
    refs->is_closing |= frame->peer->number != 0;
    free(frame);
    refs->ops->kept(refs->context, node, sequence);
}
