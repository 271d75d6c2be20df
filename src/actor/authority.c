/*
 * Who moves an actor from epoch to epoch.
 *
 *            placed        moved          made           kept
 *   NONE -> PLACE -> MOVE ------> SENT ---------> MADE ---------> ALIVE
 *    ^                             |  refused       |               |
 *    |<----------------------------+                |               |
 *    |<------------- ended, or the node's tombstone: again ---------+
 *                                     ... for good: END --kept--> DEAD
 *
 * record_step does what the phase asks for, one question to the control state at a time: whatever
 * happens meanwhile changes the record, and the next step sees it.
 *
 * Restartable, named and detached actors are kept in the control state. Their epoch moves there by
 * compare-and-swap before the creation goes out; ALIVE is written there before a stub is told. If
 * the control state says otherwise, somebody else has decided (this node is buried and does not
 * know it, or leads no more): the record goes on from what is kept.
 *
 * An epoch is over when its node has said so, or has a tombstone. Silence moves nothing. OVER tells
 * the node that it was heard.
 *
 * A record that is DEAD is forgotten when its end was kept for a while by one master, and asked for
 * again: else a fail-over that is heard of late has lost an end that nobody says again.
 *
 * The creation is sent once over the link of the home, which loses nothing. A leader repeats it: it
 * is also the question what became of it.
 */
#include "actor/room.h"

enum { REPEAT_MS = 1000 };

record_t *record_find(const actor_t *room, frame_id_t id) {
    actor_key_t key = actor_key(id);
    return base_map_get(&room->records, &key);
}

static bool is_registered(const record_t *r) {
    return (r->facts.flags & (ACTOR_RESTARTABLE | ACTOR_NAMED | ACTOR_DETACHED)) != 0;
}

static bool spec_copy(actor_facts_t *facts) {
    uint8_t *spec = malloc(facts->spec_size + 1);
    if (spec == NULL) return false;
    if (facts->spec_size > 0) memcpy(spec, facts->spec, facts->spec_size);
    facts->spec = spec;
    return true;
}

record_t *record_new(actor_t *room, const actor_facts_t *facts) {
    record_t *r = calloc(1, sizeof *r);
    actor_key_t key = actor_key(facts->id);
    if (r == NULL) return NULL;
    r->facts = *facts;
    if (!spec_copy(&r->facts) || !base_map_put(&room->records, &key, r)) {
        if (r->facts.spec != facts->spec) free((void *)r->facts.spec);
        free(r);
        return NULL;
    }
    actor_list_init(&r->watches);
    actor_list_add(&room->all_records, &r->in_records);
    actor_list_add(&room->restless, &r->in_restless);
    actor_life_init(&r->life, facts->restarts_left);
    return r;
}

void record_free(actor_t *room, record_t *r) {
    actor_key_t key = actor_key(r->facts.id);
    actor_list_each(&r->watches, at) watch_free(room, actor_list_item(at, watch_t, in_record));
    question_cancel(room, &r->ask);
    question_cancel(room, &r->say);
    base_map_remove(&room->records, &key);
    actor_list_remove(&r->in_records);
    actor_list_remove(&r->in_restless);
    actor_list_remove(&r->in_placed);
    free((void *)r->facts.spec);
    free(r);
}

static void phase_set(actor_t *room, record_t *r, phase_t phase) {
    r->phase = phase;
    if (phase == PHASE_ALIVE && !r->life.killed)
        actor_list_remove(&r->in_restless);
    else if (!actor_link_is_in(&r->in_restless))
        actor_list_add(&room->restless, &r->in_restless);
    bool has_node = phase == PHASE_MOVE || (phase >= PHASE_SENT && phase <= PHASE_ALIVE);
    if (!has_node) actor_list_remove(&r->in_placed);
}

/* ---- steps ---- */

static void create_send(actor_t *room, record_t *r) {
    uint8_t head[HEAD_MAX], body[SCRIPT_VALUE_MAX];
    base_writer_t w = head_begin(head, MESSAGE_CREATE, r->facts.id, r->facts.epoch);
    base_writer_t facts = {.bytes = body};
    actor_facts_put(&facts, &r->facts);
    head_send(room, r->facts.node, &w, body, facts.size);
    r->due_ms = room->now_ms + REPEAT_MS;
    if (!BASE_RULE(ACTOR_TOLD_ALIVE)) watches_tell(room, r);
}

static void end_send(actor_t *room, record_t *r, actor_end_t how) {
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_END, r->facts.id, r->facts.epoch);
    base_put_number(&w, how, 1);
    head_send(room, r->facts.node, &w, NULL, 0);
    r->due_ms = room->now_ms + REPEAT_MS;
}

static void over_send(actor_t *room, const record_t *r) {
    message_send(room, r->facts.node, MESSAGE_OVER, r->facts.id, r->facts.epoch);
}

static void record_finish(actor_t *room, record_t *r) {
    frame_id_t id = r->facts.id;
    watches_end(room, r);
    phase_set(room, r, PHASE_DEAD);
    r->due_ms = room->now_ms + ACTOR_KEPT_MS;
    if (!r->is_kept) record_free(room, r);
    room->ops->ended(room->context, id);
}

/* The epoch is kept, or needs not be: the creation goes out. */
static void record_moved(actor_t *room, record_t *r, uint64_t epoch) {
    actor_facts_t *f = &r->facts;
    f->epoch = epoch;
    f->node = r->next_node;
    f->request = r->next_request;
    f->at = ACTOR_AT_SENT;
    f->restarts_left = r->life.restarts_left;
    f->restarts = r->life.restarts;
    if (r->phase != PHASE_MOVE) return;
    if (peer_is_dead(room, f->node)) {
        phase_set(room, r, PHASE_NONE);
        return;
    }
    phase_set(room, r, PHASE_SENT);
    create_send(room, r);
}

static void step_move(actor_t *room, record_t *r) {
    if (peer_is_dead(room, r->next_node)) {
        phase_set(room, r, PHASE_NONE);
        r->due_ms = room->now_ms;
    } else if (is_registered(r)) {
        r->next_request = (actor_request_t){room->self, ++room->numbers};
        question_ask(room, &r->ask, ASK_MOVE, r);
    } else {
        record_moved(room, r, r->facts.epoch + 1);
    }
}

static void step_none(actor_t *room, record_t *r) {
    if ((r->facts.flags & ACTOR_NAMED) != 0 && !r->is_named_ours) {
        question_ask(room, &r->ask, ASK_TAKE, r);
        return;
    }
    if (r->due_ms > room->now_ms) return;
    phase_set(room, r, PHASE_PLACE);
    if (r->is_placing) return;
    r->is_placing = true;
    room->ops->place(room->context, r->facts.id);
}

static void record_alive(actor_t *room, record_t *r) {
    r->facts.at = ACTOR_AT_ALIVE;
    phase_set(room, r, PHASE_ALIVE);
    watches_tell(room, r);
}

/* It is to die for good. */
static void step_killed(actor_t *room, record_t *r) {
    if (r->is_kept && (r->facts.flags & ACTOR_DETACHED) != 0 && !r->is_kill_kept) {
        question_ask(room, &r->ask, ASK_KILL, r);
    } else if (r->phase < PHASE_SENT) {
        (void)actor_life_ended(&r->life, ACTOR_IMPOSSIBLE, false);
        phase_set(room, r, PHASE_END);
        record_step(room, r);
    } else if (r->due_ms <= room->now_ms) {
        end_send(room, r, ACTOR_LEFT);
    }
}

void record_step(actor_t *room, record_t *r) {
    if (r->ask.kind != ASK_NONE || r->phase == PHASE_LOAD || r->phase == PHASE_DEAD) return;
    if (r->phase == PHASE_END) {
        if (r->is_kept)
            question_ask(room, &r->ask, ASK_END, r);
        else
            record_finish(room, r);
    } else if (r->life.killed) {
        step_killed(room, r);
    } else if (r->phase == PHASE_NONE) {
        step_none(room, r);
    } else if (r->phase == PHASE_MOVE) {
        step_move(room, r);
        if (r->phase == PHASE_NONE) step_none(room, r);
    } else if (r->phase == PHASE_MADE) {
        if (is_registered(r))
            question_ask(room, &r->ask, ASK_ALIVE, r);
        else
            record_alive(room, r);
    }
}

void record_seat_gone(actor_t *room, record_t *r, actor_end_t end) {
    if (actor_life_ended(&r->life, end, !r->is_unwanted)) {
        phase_set(room, r, PHASE_NONE);
        r->due_ms = room->now_ms + actor_life_pause_ms(&r->life);
    } else {
        phase_set(room, r, PHASE_END);
    }
    record_step(room, r);
}

void record_tick(actor_t *room, record_t *r) {
    if (r->phase == PHASE_DEAD) {
        bool is_due = r->due_ms <= room->now_ms && r->ask.kind == ASK_NONE;
        if (is_due) question_ask(room, &r->ask, ASK_END, r); /* a fail-over may have lost it */
        return;
    }
    if (r->phase == PHASE_LOAD && r->ask.kind == ASK_NONE)
        question_ask(room, &r->ask, ASK_ADOPT, r);
    if (r->phase == PHASE_PLACE && !r->is_placing) phase_set(room, r, PHASE_NONE);
    if (r->phase == PHASE_SENT && r->is_adopted && r->due_ms <= room->now_ms) {
        create_send(room, r);
        if (r->life.killed) end_send(room, r, ACTOR_LEFT);
    }
    record_step(room, r);
}

/* ---- what the control state answers ---- */

/* It is otherwise than this record says, or the record is new here. */
void record_load(actor_t *room, record_t *r, const actor_facts_t *facts) {
    const uint8_t *spec = r->facts.spec;
    size_t spec_size = r->facts.spec_size;
    r->facts = *facts;
    if (facts->at == ACTOR_AT_END || r->phase != PHASE_LOAD) {
        r->facts.spec = spec;
        r->facts.spec_size = spec_size;
    } else if (spec_copy(&r->facts)) {
        free((void *)spec);
    } else {
        r->facts.spec = spec;
        r->facts.spec_size = spec_size;
        return; /* asked again at the next tick */
    }
    r->is_kept = r->is_named_ours = true;
    bool killed = r->life.killed;
    actor_life_init(&r->life, facts->restarts_left);
    r->life.restarts = facts->restarts;
    r->is_kill_kept = (facts->flags & ACTOR_KILLED) != 0;
    if (killed || r->is_kill_kept) actor_life_kill(&r->life);
    phase_set(room, r, PHASE_NONE);
    r->due_ms = room->now_ms;
    if (facts->at == ACTOR_AT_END) {
        record_finish(room, r);
        return;
    }
    if (facts->at != ACTOR_AT_NONE) {
        actor_life_made(&r->life);
        peer_t *peer = peer_is_dead(room, facts->node) ? NULL : peer_of(room, facts->node);
        if (peer_is_dead(room, facts->node)) {
            record_seat_gone(room, r, ACTOR_CRASHED);
            return;
        }
        if (peer == NULL) {
            phase_set(room, r, PHASE_LOAD);
            return;
        }
        phase_set(room, r, PHASE_SENT);
        actor_list_add(&peer->placed, &r->in_placed);
        create_send(room, r);
    }
    record_step(room, r);
}

/* OTHER: this node is buried, and a leader has gone on with its actor. */
static void take_answered(actor_t *room, record_t *r, actor_say_t what, base_reader_t *reader) {
    frame_id_t id = r->facts.id;
    actor_facts_t facts;
    if (what == ACTOR_SAY_OTHER && actor_facts_take(reader, &facts) &&
        actor_id_equal(facts.id, id)) {
        room->ops->created(room->context, id, MOB_OK);
        record_load(room, r, &facts);
        return;
    }
    if (what != ACTOR_SAY_OK) {
        watches_end(room, r);
        record_free(room, r);
        room->ops->created(room->context, id, what == ACTOR_SAY_TAKEN ? MOB_EEXISTS : MOB_EPROTO);
        return;
    }
    r->facts.epoch = base_take_number(reader, 8);
    r->is_kept = r->is_named_ours = true;
    room->ops->created(room->context, id, MOB_OK);
    record_step(room, r);
}

static void record_decided(actor_t *room, record_t *r, ask_kind_t kind, uint64_t epoch) {
    if (kind == ASK_MOVE) {
        r->is_kept = true;
        record_moved(room, r, epoch);
    } else if (kind == ASK_ALIVE && r->phase == PHASE_MADE) {
        record_alive(room, r);
    } else if (kind == ASK_KILL) {
        r->is_kill_kept = true;
        r->facts.flags |= ACTOR_KILLED;
    } else if (kind == ASK_END) {
        r->facts.at = ACTOR_AT_END;
        record_finish(room, r);
        return;
    }
    record_step(room, r);
}

void record_answered(actor_t *room, record_t *r, ask_kind_t kind, actor_say_t what,
                     base_reader_t *reader) {
    actor_facts_t facts;
    if (r->phase == PHASE_DEAD) {
        record_free(room, r); /* its end is still kept, or somebody has gone on with it */
    } else if (kind == ASK_TAKE) {
        take_answered(room, r, what, reader);
    } else if (what == ACTOR_SAY_OK) {
        record_decided(room, r, kind, base_take_number(reader, 8));
    } else if (what == ACTOR_SAY_OTHER && actor_facts_take(reader, &facts) &&
               actor_id_equal(facts.id, r->facts.id)) {
        record_load(room, r, &facts);
    } else if (kind == ASK_ADOPT) {
        r->is_kept = true; /* its home is dead, and may yet write it: so its end is kept first */
        phase_set(room, r, PHASE_END);
        record_step(room, r);
    } else { /* it is forgotten there */
        r->is_kept = false;
        actor_life_kill(&r->life);
        record_step(room, r);
    }
}

/* ---- what seats say ---- */

/* The record, if this node may speak of this epoch now. */
static record_t *record_of_seat(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch) {
    record_t *r = record_find(room, id);
    bool is_current = r != NULL && r->facts.node == from && r->facts.epoch == epoch &&
                      r->phase >= PHASE_SENT && r->phase <= PHASE_ALIVE;
    return is_current ? r : NULL;
}

void record_made(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch) {
    record_t *r = record_of_seat(room, from, id, epoch);
    if (r == NULL || r->phase != PHASE_SENT) return;
    actor_life_made(&r->life);
    phase_set(room, r, PHASE_MADE);
    record_step(room, r);
}

/* A word about an epoch that is long over here: the seat may forget it. */
static void report_old(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch) {
    record_t *r = record_find(room, id);
    bool is_over = r == NULL ? id.home == room->self
                             : r->phase == PHASE_DEAD || (r->is_kept && r->facts.epoch > epoch);
    if (is_over) message_send(room, from, MESSAGE_OVER, id, epoch);
    if (r == NULL) orphan_adopt(room, id); /* the seat says it again */
}

void record_refused(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch) {
    record_t *r = record_of_seat(room, from, id, epoch);
    if (r == NULL || r->phase != PHASE_SENT) {
        report_old(room, from, id, epoch);
        return;
    }
    over_send(room, r);
    phase_set(room, r, PHASE_NONE);
    r->due_ms = room->now_ms;
    record_step(room, r);
}

void record_ended(actor_t *room, uint64_t from, frame_id_t id, uint64_t epoch, actor_end_t end,
                  bool has_answered) {
    record_t *r = record_of_seat(room, from, id, epoch);
    if (r == NULL) {
        report_old(room, from, id, epoch);
        return;
    }
    over_send(room, r);
    if (has_answered) actor_life_answered(&r->life);
    record_seat_gone(room, r, end);
}

/* ---- what users want ---- */

void record_kill(actor_t *room, record_t *r, bool no_restart) {
    if (no_restart) {
        actor_life_kill(&r->life);
        phase_set(room, r, r->phase);
        r->due_ms = 0;
        record_step(room, r);
    } else if (r->phase >= PHASE_SENT && r->phase <= PHASE_ALIVE) {
        end_send(room, r, ACTOR_SHOT);
    }
}

mob_status_t actor_create(actor_t *room, frame_id_t id, const actor_spec_t *spec) {
    if (id.home != room->self || spec->limit == 0 || record_find(room, id) != NULL)
        return MOB_EINVAL;
    if (spec->size > ACTOR_SPEC_MAX) return MOB_ELIMIT;
    actor_facts_t facts = {.id = id,
                           .flags = spec->flags & (ACTOR_NAMED | ACTOR_DETACHED),
                           .restarts_left = spec->max_restarts < 0 ? -1 : spec->max_restarts,
                           .limit = spec->limit,
                           .spec = spec->bytes,
                           .spec_size = spec->size};
    if (spec->max_restarts != 0) facts.flags |= ACTOR_RESTARTABLE;
    memcpy(facts.name, spec->name, sizeof facts.name);
    record_t *r = record_new(room, &facts);
    if (r == NULL) return MOB_ENOMEM;
    phase_set(room, r, PHASE_NONE);
    record_step(room, r);
    return MOB_OK;
}

const void *actor_spec_of(const actor_t *room, frame_id_t id, size_t *ret_size) {
    const record_t *r = record_find(room, id);
    *ret_size = r != NULL ? r->facts.spec_size : 0;
    return r != NULL ? r->facts.spec : NULL;
}

void actor_placed(actor_t *room, frame_id_t id, uint64_t node) {
    record_t *r = record_find(room, id);
    if (r == NULL || !r->is_placing) return;
    r->is_placing = false;
    if (r->phase != PHASE_PLACE) return;
    peer_t *peer = node != 0 && !peer_is_dead(room, node) ? peer_of(room, node) : NULL;
    if (peer == NULL) return; /* another one is asked for at the next tick */
    r->next_node = node;
    phase_set(room, r, PHASE_MOVE);
    actor_list_add(&peer->placed, &r->in_placed);
    record_step(room, r);
}

void actor_unwanted(actor_t *room, frame_id_t id) {
    record_t *r = record_find(room, id);
    if (r == NULL || (r->facts.flags & ACTOR_DETACHED) != 0 || r->is_unwanted) return;
    r->is_unwanted = true;
    record_kill(room, r, true);
}
