/*
 * The holder's side of a reading. The first FETCH of a ticket opens it, and names the copy's birth
 * and version: a copy that was given up and read anew since is another one [the home named the old
 * one, whose reader would now be the new one's source: a cycle]. Chunks are asked for one after the
 * other, so what is open is a range. A chunk that is not here yet is sent when it has come.
 *
 * The copy is held until CLOSE: then the reader has all that was sent, or its bulk thread takes no
 * more. The bulk thread has few chunks of a reading at a time, so that one that was closed costs
 * little. There is no bound on all readings together [receivers that are stopped would have all of
 * it, and nobody else would be served].
 */
#include <stdlib.h>

#include "base/rule.h"
#include "pull/state.h"

typedef struct {
    uint64_t node, ticket;
} reading_key_t;

static reading_t *reading_find(const pull_t *pull, uint64_t node, uint64_t ticket) {
    return base_map_get(&pull->readings, &(reading_key_t){node, ticket});
}

/* Gives the bulk thread what it can send. */
static void reading_go_on(pull_t *pull, reading_t *reading) {
    while (reading->from < reading->to && reading->from < reading->copy->have &&
           reading->serving < PULL_SERVES) {
        reading->serving++;
        pull->ops->serve(pull->context, reading->peer->node, reading->ticket, &reading->copy->id,
                         reading->from++);
    }
}

static void reading_tidy(pull_t *pull, reading_t *reading) {
    if (!reading->is_closed || reading->serving > 0) return;
    copy_t *copy = reading->copy;
    base_map_remove(&pull->readings, &(reading_key_t){reading->peer->node, reading->ticket});
    ring_remove(&reading->of_copy);
    ring_remove(&reading->of_peer);
    free(reading);
    pull_copy_update(pull, copy);
}

static void not_here_tell(pull_t *pull, uint64_t to, const frame_id_t *id, uint64_t ticket) {
    pull_send(pull, to, &(pull_message_t){.kind = PULL_NOT_HERE, .id = *id, .ticket = ticket});
}

/* Whether this copy is the one that the reader was told of, and can be read by it. */
static bool may_open(const copy_t *copy, const peer_t *from, const pull_message_t *m) {
    if (copy == NULL || copy->state == COPY_NONE || copy->state == COPY_LEAVING) return false;
    if (copy->have == 0 || copy->version != m->version || m->chunk >= copy->chunks) return false;
    if (copy->birth != m->birth && BASE_RULE(PULL_BIRTH)) return false;
    RING_EACH(link, &copy->readings) {
        const reading_t *other = RING_OF(link, reading_t, of_copy);
        if (other->peer == from && !other->is_closed) return false; /* one at a time */
    }
    return true;
}

static mob_status_t reading_open(pull_t *pull, peer_t *from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (!may_open(copy, from, m)) {
        not_here_tell(pull, from->node, &m->id, m->ticket);
        return MOB_OK;
    }
    reading_t *reading = calloc(1, sizeof *reading);
    reading_key_t key = {from->node, m->ticket};
    if (reading == NULL || !base_map_put(&pull->readings, &key, reading)) {
        free(reading);
        return MOB_ENOMEM;
    }
    *reading = (reading_t){
        .copy = copy, .peer = from, .ticket = m->ticket, .from = m->chunk, .to = m->chunk + 1};
    ring_push(&copy->readings, &reading->of_copy);
    ring_push(&from->readings, &reading->of_peer);
    pull_copy_update(pull, copy);
    reading_go_on(pull, reading);
    return MOB_OK;
}

mob_status_t pull_serve_fetch(pull_t *pull, peer_t *from, const pull_message_t *m) {
    if (from->node == pull->self) return MOB_OK; /* nobody reads its own copy */
    reading_t *reading = reading_find(pull, from->node, m->ticket);
    if (reading == NULL) return m->flag ? reading_open(pull, from, m) : MOB_OK;
    bool is_next = m->chunk == reading->to && m->chunk < reading->copy->chunks &&
                   reading->to - reading->from < PULL_AHEAD;
    if (reading->is_closed || !is_next) return MOB_OK;
    reading->to++;
    reading_go_on(pull, reading);
    return MOB_OK;
}

static void reading_close(pull_t *pull, reading_t *reading) {
    reading->is_closed = true;
    reading->to = reading->from;
    reading_tidy(pull, reading);
}

void pull_serve_close(pull_t *pull, uint64_t from, const pull_message_t *m) {
    reading_t *reading = reading_find(pull, from, m->ticket);
    if (reading != NULL) reading_close(pull, reading);
}

void pull_serve_more(pull_t *pull, copy_t *copy) {
    RING_EACH(link, &copy->readings) reading_go_on(pull, RING_OF(link, reading_t, of_copy));
}

void pull_serve_end(pull_t *pull, copy_t *copy) {
    RING_EACH(link, &copy->readings) {
        reading_t *reading = RING_OF(link, reading_t, of_copy);
        reading->to = reading->from;
        if (!reading->is_closed)
            not_here_tell(pull, reading->peer->node, &copy->id, reading->ticket);
    }
}

void pull_serve_died(pull_t *pull, peer_t *peer) {
    RING_EACH(link, &peer->readings) {
        reading_close(pull, RING_OF(link, reading_t, of_peer));
        pull_drain(pull);
    }
}

void pull_served(pull_t *pull, uint64_t reader, uint64_t ticket, uint64_t now_ns) {
    pull->now_ns = now_ns;
    reading_t *reading = reading_find(pull, reader, ticket);
    if (reading != NULL && reading->serving > 0) {
        reading->serving--;
        reading_go_on(pull, reading);
        reading_tidy(pull, reading);
    }
    pull_settle(pull);
}
