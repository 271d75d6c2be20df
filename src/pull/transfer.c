/*
 * A copy on its way: chunks of one version, from one source after the other, in their order. So
 * what is there is a number of chunks, from the first on; that many may be read by others.
 *
 *     ASKING --SOURCE--> READING --last chunk--> (the copy is SEALING)
 *       ^                   |
 *       +----- complains ---+   no chunk for a second; not there; a checksum; the source died
 *
 * A receiver that leaves a source with chunks under way asks its bulk thread to let go, and neither
 * reads from another one, nor gives the memory back, nor acknowledges to the source, before that is
 * answered: else late bytes would be written into what is another's by then.
 *
 * The source named has another version than the chunks that are here: a run gave other bytes, so
 * they are thrown away, and the wants wait for room anew, as the size may be another too.
 */
#include "base/rule.h"
#include "pull/state.h"

enum { BROKEN_MAX = 8 }; /* checksums in a row that do not fit */

static void ask_send(pull_t *pull, copy_t *copy, uint64_t avoid, pull_reason_t why) {
    copy->phase = PHASE_ASKING;
    copy->ticket = ++pull->last;
    copy->is_named = false;
    if (pull_is_dead(pull, copy->id.home)) {
        pull_look_next(pull, copy, why == PULL_ABSENT || why == PULL_BROKEN);
        return;
    }
    pull_send(pull, copy->id.home,
              &(pull_message_t){.kind = PULL_ASK,
                                .id = copy->id,
                                .ticket = copy->ticket,
                                .birth = copy->birth,
                                .node = avoid,
                                .version = copy->version,
                                .chunk = copy->have,
                                .flag = (uint8_t)why});
}

void pull_transfer_start(pull_t *pull, copy_t *copy) {
    copy->birth = ++pull->last;
    copy->have = copy->next = copy->broken = 0;
    copy->source = 0;
    copy->told_ns = 0;
    ask_send(pull, copy, 0, PULL_FIRST);
}

static void close_send(pull_t *pull, copy_t *copy) {
    if (copy->old_ticket == 0) return;
    pull_send(pull, copy->old_source,
              &(pull_message_t){.kind = PULL_CLOSE, .id = copy->id, .ticket = copy->old_ticket});
    copy->old_ticket = 0;
}

/* Reads no more from its source. */
static void reading_stop(pull_t *pull, copy_t *copy) {
    if (copy->phase != PHASE_READING) return;
    ring_remove(&copy->active);
    copy->phase = PHASE_NONE;
    copy->old_ticket = copy->ticket;
    copy->old_source = copy->source;
    if (copy->next > copy->have) {
        copy->is_letting_go = BASE_RULE(PULL_LET_GO);
        pull->ops->let_go(pull->context, copy->ticket, &copy->id);
    }
    if (!copy->is_letting_go) close_send(pull, copy);
}

void pull_transfer_stop(pull_t *pull, copy_t *copy) {
    reading_stop(pull, copy);
    copy->phase = PHASE_NONE;
    copy->ticket = 0;
    copy->is_named = false;
    ring_remove(&copy->look);
}

void pull_transfer_complain(pull_t *pull, copy_t *copy, pull_reason_t why) {
    uint64_t source = copy->source;
    reading_stop(pull, copy);
    ask_send(pull, copy, source, why);
}

/* ---- reading ---- */

static void chunks_ask(pull_t *pull, copy_t *copy) {
    while (copy->next < copy->chunks && copy->next - copy->have < PULL_AHEAD) {
        pull->ops->fetch(pull->context, copy->ticket, &copy->id, copy->next, copy->source);
        pull_send(pull, copy->source,
                  &(pull_message_t){.kind = PULL_FETCH,
                                    .id = copy->id,
                                    .ticket = copy->ticket,
                                    .birth = copy->source_birth,
                                    .version = copy->version,
                                    .chunk = copy->next,
                                    .flag = !copy->is_open});
        copy->next++;
        copy->is_open = true;
    }
}

static void reading_begin(pull_t *pull, copy_t *copy) {
    copy->is_named = false;
    copy->phase = PHASE_READING;
    copy->next = copy->have;
    copy->is_open = false;
    copy->touched_ns = pull->now_ns;
    chunks_ask(pull, copy);
    ring_push(&pull->active, &copy->active);
}

void pull_transfer_begin(pull_t *pull, copy_t *copy, uint64_t source, uint64_t birth) {
    copy->source = source;
    copy->source_birth = birth;
    copy->is_named = true;
    if (!copy->is_letting_go) reading_begin(pull, copy);
}

/* Chunks that are here are of another version than the source's. */
static bool is_outdated(const copy_t *copy, const pull_message_t *m) {
    if (copy->size != m->size) return true;
    return copy->version != m->version && BASE_RULE(PULL_VERSION);
}

void pull_transfer_source(pull_t *pull, uint64_t from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (copy == NULL || from != m->id.home || copy->phase != PHASE_ASKING || copy->is_named ||
        copy->ticket != m->ticket || m->node == pull->self)
        return;
    if (is_outdated(copy, m)) {
        pull_copy_retreat(pull, copy);
        return;
    }
    copy->version = m->version;
    if (pull_is_dead(pull, m->node))
        ask_send(pull, copy, m->node, PULL_STALLED);
    else
        pull_transfer_begin(pull, copy, m->node, m->birth);
}

void pull_transfer_unmade(pull_t *pull, uint64_t from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (copy == NULL || from != m->id.home || copy->phase != PHASE_ASKING || copy->is_named ||
        copy->ticket != m->ticket)
        return;
    pull_copy_retreat(pull, copy);
}

void pull_transfer_not_here(pull_t *pull, uint64_t from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (copy == NULL || copy->phase != PHASE_READING || copy->ticket != m->ticket ||
        copy->source != from)
        return;
    pull_transfer_complain(pull, copy, PULL_ABSENT);
}

/* ---- chunks ---- */

void pull_transfer_tell(pull_t *pull, copy_t *copy) {
    if (pull_is_dead(pull, copy->id.home)) return;
    copy->told_ns = pull->now_ns;
    pull_send(pull, copy->id.home,
              &(pull_message_t){.kind = PULL_PROGRESS,
                                .id = copy->id,
                                .birth = copy->birth,
                                .version = copy->version,
                                .chunk = copy->have});
}

/* All bytes are here. The source is acknowledged to when what the value refers to is held. */
static void complete(pull_t *pull, copy_t *copy) {
    ring_remove(&copy->active);
    copy->phase = PHASE_NONE;
    copy->old_ticket = copy->ticket;
    copy->old_source = copy->source;
    copy->ticket = copy->source = 0;
    copy->state = COPY_SEALING;
    if (!BASE_RULE(PULL_ACK_AFTER_HOLDS)) close_send(pull, copy);
    pull->ops->seal(pull->context, &copy->id);
}

static void chunk_good(pull_t *pull, copy_t *copy) {
    copy->have++;
    copy->broken = 0;
    copy->touched_ns = pull->now_ns;
    ring_push(&pull->active, &copy->active);
    bool is_complete = copy->have == copy->chunks;
    if (copy->have == 1 || is_complete || pull->now_ns - copy->told_ns >= PULL_TELL_NS)
        pull_transfer_tell(pull, copy);
    pull_serve_more(pull, copy);
    if (is_complete)
        complete(pull, copy);
    else
        chunks_ask(pull, copy);
}

static void chunk_broken(pull_t *pull, copy_t *copy) {
    if (++copy->broken >= BROKEN_MAX)
        pull_copy_fail(pull, copy, MOB_ELOST);
    else
        pull_transfer_complain(pull, copy, PULL_BROKEN);
}

void pull_chunk_came(pull_t *pull, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                     bool is_whole, uint64_t now_ns) {
    pull->now_ns = now_ns;
    copy_t *copy = pull_copy_find(pull, id);
    if (copy == NULL || copy->phase != PHASE_READING || copy->ticket != ticket ||
        copy->have != chunk)
        return;
    if (is_whole)
        chunk_good(pull, copy);
    else
        chunk_broken(pull, copy);
    pull_settle(pull);
}

void pull_let_go(pull_t *pull, uint64_t ticket, const frame_id_t *id, uint64_t now_ns) {
    pull->now_ns = now_ns;
    copy_t *copy = pull_copy_find(pull, id);
    if (copy == NULL || !copy->is_letting_go) return;
    (void)ticket; /* one at a time */
    copy->is_letting_go = false;
    close_send(pull, copy);
    if (copy->is_named) reading_begin(pull, copy);
    pull_copy_update(pull, copy);
    pull_settle(pull);
}

void pull_sealed(pull_t *pull, const frame_id_t *id, mob_status_t status, uint64_t now_ns) {
    pull->now_ns = now_ns;
    copy_t *copy = pull_copy_find(pull, id);
    if (copy == NULL || copy->state != COPY_SEALING) return;
    close_send(pull, copy);
    copy->state = COPY_COMPLETE;
    if (status == MOB_OK) {
        pull_note_add(pull, copy);
        pull_copy_own(pull, copy);
        pull_copy_ready(pull, copy);
    } else {
        copy->is_primary = false;
        copy->is_unneeded = true;
        pull_copy_fail(pull, copy, status);
    }
    copy = pull_copy_find(pull, id); /* a want that failed may have been its last */
    if (copy != NULL) pull_copy_update(pull, copy);
    pull_settle(pull);
}

/* ---- deaths, and time ---- */

void pull_transfer_died(pull_t *pull, uint64_t peer) {
    ring_t orphans;
    ring_init(&orphans);
    RING_EACH(link, &pull->active)
    if (RING_OF(link, copy_t, active)->source == peer) ring_push(&orphans, link);
    while (!ring_is_empty(&orphans)) {
        copy_t *copy = RING_OF(orphans.next, copy_t, active);
        pull_transfer_complain(pull, copy, PULL_STALLED);
        pull_drain(pull);
    }
}

void pull_transfer_tick(pull_t *pull) {
    if (!BASE_RULE(PULL_STALL_COMPLAINED)) return;
    while (!ring_is_empty(&pull->active)) {
        copy_t *copy = RING_OF(pull->active.next, copy_t, active);
        if (pull->now_ns - copy->touched_ns < PULL_STALL_NS) return;
        pull_transfer_complain(pull, copy, PULL_STALLED);
        pull_drain(pull);
    }
}
