/*
 * The room: its messages, its peers, and what comes with time.
 *
 * A message is a head of kind (1), id (20), epoch (8) and what its kind adds, and for some a body.
 * It is read whole before anything is done: so one that makes no sense changes nothing.
 */
#include "actor/room.h"

enum { ERRAND_MS = 1000 };

/* ---- new and free ---- */

static void lists_init(actor_t *room) {
    actor_link_t *lists[] = {&room->all_records, &room->all_seats, &room->all_stubs,
                             &room->restless,    &room->paused,    &room->resting,
                             &room->looking,     &room->silent,    &room->deferred,
                             &room->errands,     &room->finds};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) actor_list_init(lists[i]);
}

static void maps_init(actor_t *room) {
    base_map_t *by_number[] = {&room->peers, &room->runs, &room->calls, &room->questions,
                               &room->kills};
    base_map_t *by_id[] = {&room->records, &room->seats, &room->stubs};
    for (size_t i = 0; i < sizeof by_number / sizeof *by_number; i++)
        base_map_init(by_number[i], sizeof(uint64_t));
    for (size_t i = 0; i < sizeof by_id / sizeof *by_id; i++)
        base_map_init(by_id[i], sizeof(actor_key_t));
    base_map_init(&room->watches, sizeof(peer_key_t));
    base_map_init(&room->callers, sizeof(peer_key_t));
    base_map_init(&room->asked, sizeof(peer_key_t));
}

mob_status_t actor_new(const actor_ops_t *ops, void *context, uint64_t self, uint64_t master,
                       uint64_t now_ms, actor_t **ret_actor) {
    actor_t *room = calloc(1, sizeof *room);
    if (room == NULL) return MOB_ENOMEM;
    room->ops = ops;
    room->context = context;
    room->self = self;
    room->master = master;
    room->now_ms = now_ms;
    lists_init(room);
    maps_init(room);
    *ret_actor = room;
    return MOB_OK;
}

static void quiet_send(void *context, uint64_t to, const void *head, size_t head_size,
                       const void *body, size_t body_size, bool is_answer) {
    (void)context, (void)to, (void)head, (void)head_size;
    (void)body, (void)body_size, (void)is_answer;
}
static void quiet_said(void *context, uint64_t master) { (void)context, (void)master; }
static void quiet_run(void *context, uint64_t call, bool begins) {
    (void)context, (void)call, (void)begins;
}

/* What the ends of its parts would say to others. */
static const actor_ops_t quiet = {.send = quiet_send, .said = quiet_said, .run = quiet_run};

static void errands_free(actor_link_t *list) {
    actor_list_each(list, at) free(actor_list_item(at, errand_t, in_room));
}

static void peers_free(actor_t *room) {
    size_t cursor = 0;
    const void *key;
    void *peer;
    while (base_map_each(&room->peers, &cursor, &key, &peer)) free(peer);
}

void actor_free(actor_t *room) {
    if (room == NULL) return;
    room->ops = &quiet;
    actor_list_each(&room->all_records, at)
        record_free(room, actor_list_item(at, record_t, in_records));
    actor_list_each(&room->all_seats, at) seat_free(room, actor_list_item(at, seat_t, in_seats));
    actor_list_each(&room->all_stubs, at) stub_free(room, actor_list_item(at, stub_t, in_stubs));
    errands_free(&room->errands);
    errands_free(&room->finds);
    peers_free(room);
    base_map_t *maps[] = {&room->peers,   &room->records, &room->watches,  &room->seats,
                          &room->callers, &room->runs,    &room->asked,    &room->stubs,
                          &room->calls,   &room->kills,   &room->questions};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) base_map_fini(maps[i]);
    vec_free(&room->walk_dead);
    free(room);
}

/* ---- peers ---- */

peer_t *peer_of(actor_t *room, uint64_t incarnation) {
    peer_t *peer = peer_find(room, incarnation);
    if (peer != NULL) return peer;
    peer = calloc(1, sizeof *peer);
    if (peer == NULL || !base_map_put(&room->peers, &incarnation, peer)) {
        free(peer);
        return NULL;
    }
    peer->incarnation = incarnation;
    actor_link_t *lists[] = {&peer->placed,  &peer->watches,    &peer->homed,
                             &peer->callers, &peer->stubs_home, &peer->stubs_node};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) actor_list_init(lists[i]);
    return peer;
}

bool peer_is_dead(const actor_t *room, uint64_t incarnation) {
    return room->ops->is_dead != NULL && room->ops->is_dead(room->context, incarnation);
}

uint64_t authority_of(const actor_t *room, frame_id_t id, uint8_t flags) {
    if (!peer_is_dead(room, id.home)) return id.home;
    return (flags & ACTOR_DETACHED) != 0 ? room->leader : 0;
}

/* The home is dead, and with it all that it did not detach. */
static void seat_home_died(actor_t *room, seat_t *seat) {
    actor_list_remove(&seat->in_homed);
    if ((seat->facts.flags & ACTOR_DETACHED) != 0 || !BASE_RULE(ACTOR_HOME_DEATH)) return;
    bool is_done = seat->state == SEAT_ENDED || seat->state == SEAT_REFUSED;
    seat->is_over = true;
    if (is_done)
        seat_free(room, seat);
    else
        seat_stop(room, seat);
}

static void record_node_died(actor_t *room, record_t *record) {
    actor_list_remove(&record->in_placed);
    if (record->phase >= PHASE_SENT && record->phase <= PHASE_ALIVE)
        record_seat_gone(room, record, ACTOR_CRASHED);
    else
        record_step(room, record);
}

void actor_peer_died(actor_t *room, uint64_t incarnation) {
    room->walk_ms = 0;
    if (room->leader == incarnation) room->leader = 0;
    peer_t *peer = peer_find(room, incarnation);
    if (peer == NULL) return;
    actor_list_each(&peer->stubs_node, at)
        stub_node_died(room, actor_list_item(at, stub_t, in_node));
    actor_list_each(&peer->stubs_home, at)
        stub_home_died(room, actor_list_item(at, stub_t, in_home));
    actor_list_each(&peer->homed, at) seat_home_died(room, actor_list_item(at, seat_t, in_homed));
    actor_list_each(&peer->callers, at) caller_drop(room, actor_list_item(at, caller_t, in_peer));
    actor_list_each(&peer->watches, at) watch_free(room, actor_list_item(at, watch_t, in_peer));
    actor_list_each(&peer->placed, at)
        record_node_died(room, actor_list_item(at, record_t, in_placed));
    actor_list_remove(&peer->in_silent);
    base_map_remove(&room->peers, &incarnation);
    free(peer);
}

void actor_peer_silent(actor_t *room, uint64_t incarnation, bool is_silent) {
    peer_t *peer = is_silent ? peer_of(room, incarnation) : peer_find(room, incarnation);
    if (peer == NULL) return; /* without memory its calls wait until it is heard, or dead */
    actor_list_remove(&peer->in_silent);
    if (!is_silent) return;
    peer->silent_ms = room->now_ms;
    actor_list_add(&room->silent, &peer->in_silent);
    if (BASE_RULE(ACTOR_TOMBSTONE)) return;
    actor_list_each(&peer->placed, at)
        record_node_died(room, actor_list_item(at, record_t, in_placed));
}

void actor_pause(actor_t *room, bool is_paused) {
    room->is_paused = is_paused;
    if (is_paused) return;
    actor_link_t waiting = {&waiting, &waiting};
    actor_list_each(&room->paused, at) actor_list_add(&waiting, at);
    actor_list_each(&waiting, at) {
        actor_list_remove(at);
        seat_go_on(room, actor_list_item(at, seat_t, in_paused));
    }
}

void actor_leader(actor_t *room, uint64_t leader) {
    if (room->leader == leader) return;
    bool led = room->leader == room->self;
    room->leader = leader;
    if (led) orphan_abandon(room);
    room->walk_ms = 0;
    orphan_walk(room);
}

/* ---- errands ---- */

static void errand_free(actor_t *room, errand_t *errand) {
    base_map_remove(&room->kills, &errand->number);
    actor_list_remove(&errand->in_room);
    free(errand);
}

static void errand_send(actor_t *room, errand_t *errand) {
    uint64_t to = authority_of(room, errand->id, errand->flags);
    errand->due_ms = room->now_ms + ERRAND_MS;
    if (to == 0) return;
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_KILL, errand->id, 0);
    base_put_number(&w, errand->number, 8);
    base_put_number(&w, errand->no_restart, 1);
    head_send(room, to, &w, NULL, 0);
}

mob_status_t actor_kill(actor_t *room, frame_id_t id, uint8_t flags, bool no_restart) {
    errand_t *errand = calloc(1, sizeof *errand);
    uint64_t number = room->numbers + 1;
    if (errand == NULL || !base_map_put(&room->kills, &number, errand)) {
        free(errand);
        return MOB_ENOMEM;
    }
    errand->number = room->numbers = number;
    errand->id = id;
    errand->flags = flags;
    errand->no_restart = no_restart;
    actor_list_add(&room->errands, &errand->in_room);
    errand_send(room, errand);
    return MOB_OK;
}

mob_status_t actor_name_find(actor_t *room, const uint8_t name[ACTOR_NAME_SIZE], uint64_t token) {
    errand_t *find = calloc(1, sizeof *find);
    if (find == NULL) return MOB_ENOMEM;
    memcpy(find->name, name, sizeof find->name);
    find->token = token;
    actor_list_add(&room->finds, &find->in_room);
    question_ask(room, &find->ask, ASK_FIND, find);
    return MOB_OK;
}

/* The control state has it, or may have written it and not answered yet. */
static bool record_may_be_kept(const record_t *record) {
    return record->is_kept || record->ask.kind != ASK_NONE;
}

static void kill_come(actor_t *room, uint64_t from, frame_id_t id, uint64_t number,
                      bool no_restart) {
    record_t *record = record_find(room, id);
    if (record == NULL && id.home != room->self) {
        orphan_adopt(room, id); /* it is asked for again */
        return;
    }
    if (record != NULL && record->phase == PHASE_LOAD) return; /* here too */
    bool is_alive = record != NULL && record->phase != PHASE_DEAD;
    if (is_alive && (!no_restart || !record->life.killed)) record_kill(room, record, no_restart);
    record = record_find(room, id);
    bool has_to_be_kept = record != NULL && record->phase != PHASE_DEAD && no_restart &&
                          (record->facts.flags & ACTOR_DETACHED) != 0 && record_may_be_kept(record);
    if (BASE_RULE(ACTOR_KILL_KEPT) && has_to_be_kept && !record->is_kill_kept) return;
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_KILLED, id, 0);
    base_put_number(&w, number, 8);
    head_send(room, from, &w, NULL, 0);
}

static void killed_come(actor_t *room, frame_id_t id, uint64_t number) {
    errand_t *errand = base_map_get(&room->kills, &number);
    if (errand != NULL && actor_id_equal(errand->id, id)) errand_free(room, errand);
}

/* ---- time ---- */

static void errands_tick(actor_t *room) {
    actor_list_each(&room->errands, at) {
        errand_t *errand = actor_list_item(at, errand_t, in_room);
        bool is_over = (errand->flags & ACTOR_DETACHED) == 0 && peer_is_dead(room, errand->id.home);
        if (is_over)
            errand_free(room, errand);
        else if (errand->due_ms <= room->now_ms && (errand->flags & ACTOR_DETACHED) != 0)
            errand_send(room, errand);
    }
    actor_list_each(&room->finds, at) {
        errand_t *find = actor_list_item(at, errand_t, in_room);
        if (room->now_ms - find->ask.since_ms < ACTOR_CONTROL_MS) continue;
        uint64_t token = find->token;
        question_cancel(room, &find->ask);
        actor_list_remove(&find->in_room);
        free(find);
        room->ops->found(room->context, token, MOB_ECLOSED, (frame_id_t){0}, 0);
    }
}

static void silence_tick(actor_t *room) {
    actor_list_each(&room->silent, silent) {
        peer_t *peer = actor_list_item(silent, peer_t, in_silent);
        if (room->now_ms - peer->silent_ms < ACTOR_PATIENCE_MS) continue;
        actor_list_each(&peer->stubs_node, at)
            stub_silent(room, actor_list_item(at, stub_t, in_node));
        actor_list_each(&peer->stubs_home, at) {
            stub_t *stub = actor_list_item(at, stub_t, in_home);
            if (stub->sent == 0 && (stub->node == 0 || stub->is_over)) stub_silent(room, stub);
        }
    }
}

void actor_tick(actor_t *room, uint64_t now_ms) {
    if (now_ms > room->now_ms) room->now_ms = now_ms;
    question_retry(room);
    actor_list_each(&room->restless, at)
        record_tick(room, actor_list_item(at, record_t, in_restless));
    actor_list_each(&room->looking, at) stub_tick(room, actor_list_item(at, stub_t, in_looking));
    actor_list_each(&room->resting, at) seat_tick(room, actor_list_item(at, seat_t, in_resting));
    silence_tick(room);
    errands_tick(room);
    orphan_walk(room);
}

/* ---- messages ---- */

base_writer_t head_begin(uint8_t *head, uint8_t kind, frame_id_t id, uint64_t epoch) {
    base_writer_t w = {.bytes = head};
    base_put_number(&w, kind, 1);
    actor_id_put(&w, id);
    base_put_number(&w, epoch, 8);
    return w;
}

void head_send(actor_t *room, uint64_t to, const base_writer_t *head, const void *body,
               size_t body_size) {
    uint8_t kind = head->bytes[0];
    bool is_answer = kind != MESSAGE_CREATE && kind != MESSAGE_LOOK && kind != MESSAGE_CALL;
    room->ops->send(room->context, to, head->bytes, head->size, body, body_size, is_answer);
}

void message_send(actor_t *room, uint64_t to, uint8_t kind, frame_id_t id, uint64_t epoch) {
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, kind, id, epoch);
    head_send(room, to, &w, NULL, 0);
}

typedef struct {
    frame_id_t id;
    uint64_t from, epoch;
} head_t;

static mob_status_t create_come(actor_t *room, const head_t *h, base_reader_t *r) {
    actor_facts_t facts;
    if (!actor_facts_take(r, &facts) || !actor_id_equal(facts.id, h->id) ||
        facts.epoch != h->epoch || facts.epoch == 0)
        return MOB_EPROTO;
    return seat_create(room, h->from, &facts);
}

static mob_status_t ended_come(actor_t *room, const head_t *h, base_reader_t *r) {
    uint64_t end = base_take_number(r, 1), has_answered = base_take_number(r, 1);
    if (!base_reader_is_done(r) || end > ACTOR_IMPOSSIBLE || has_answered > 1) return MOB_EPROTO;
    record_ended(room, h->from, h->id, h->epoch, (actor_end_t)end, has_answered != 0);
    return MOB_OK;
}

static mob_status_t end_come(actor_t *room, const head_t *h, base_reader_t *r) {
    uint64_t how = base_take_number(r, 1);
    if (!base_reader_is_done(r) || (how != ACTOR_SHOT && how != ACTOR_LEFT)) return MOB_EPROTO;
    seat_t *seat = seat_find(room, h->id);
    if (seat == NULL || seat->facts.epoch != h->epoch) return MOB_OK;
    if (h->from != h->id.home && (seat->facts.flags & ACTOR_DETACHED) == 0) return MOB_OK;
    if (how == ACTOR_SHOT && !seat->is_stopping) seat->is_shot = true;
    seat_stop(room, seat);
    return MOB_OK;
}

static mob_status_t call_come(actor_t *room, const head_t *h, base_reader_t *r) {
    uint64_t caller = base_take_number(r, 8), token = base_take_number(r, 8);
    if (r->short_of) return MOB_EPROTO;
    return run_come(room, h->from, h->id, h->epoch, caller, token, r->at, r->left);
}

static mob_status_t answer_come(actor_t *room, const head_t *h, base_reader_t *r) {
    uint64_t token = base_take_number(r, 8), what = base_take_number(r, 1);
    uint64_t status = base_take_number(r, 2);
    if (r->short_of || what > ANSWER_CANCELLED || status >= MOB_STATUS_COUNT) return MOB_EPROTO;
    stub_answered(room, h->from, token, (answer_t)what, (mob_status_t)status, r->at, r->left);
    return MOB_OK;
}

static mob_status_t cancel_come(actor_t *room, const head_t *h, base_reader_t *r) {
    uint64_t token = base_take_number(r, 8), recursive = base_take_number(r, 1);
    if (!base_reader_is_done(r) || recursive > 1) return MOB_EPROTO;
    run_cancel(room, h->from, h->id, token, recursive != 0);
    return MOB_OK;
}

static mob_status_t kills_come(actor_t *room, const head_t *h, base_reader_t *r, uint8_t kind) {
    uint64_t number = base_take_number(r, 8);
    uint64_t no_restart = kind == MESSAGE_KILL ? base_take_number(r, 1) : 0;
    if (!base_reader_is_done(r) || no_restart > 1) return MOB_EPROTO;
    if (kind == MESSAGE_KILL)
        kill_come(room, h->from, h->id, number, no_restart != 0);
    else
        killed_come(room, h->id, number);
    return MOB_OK;
}

/* Those that are a head and nothing else. */
static mob_status_t plain_come(actor_t *room, const head_t *h, uint8_t kind) {
    switch (kind) {
    case MESSAGE_MADE:
        record_made(room, h->from, h->id, h->epoch);
        break;
    case MESSAGE_REFUSED:
        record_refused(room, h->from, h->id, h->epoch);
        break;
    case MESSAGE_OVER:
        seat_over(room, h->from, h->id, h->epoch);
        break;
    case MESSAGE_LOOK:
        return record_watch(room, h->id, h->from);
    case MESSAGE_UNLOOK:
        record_unwatch(room, h->id, h->from);
        break;
    case MESSAGE_DEAD:
        stub_dead(room, h->from, h->id);
        break;
    default:
        return MOB_EPROTO;
    }
    return MOB_OK;
}

static mob_status_t alive_come(actor_t *room, const head_t *h, base_reader_t *r) {
    uint64_t node = base_take_number(r, 8);
    if (!base_reader_is_done(r) || node == 0 || h->epoch == 0) return MOB_EPROTO;
    stub_alive(room, h->from, h->id, h->epoch, node);
    return MOB_OK;
}

mob_status_t actor_receive(actor_t *room, uint64_t from, const void *bytes, size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    uint8_t kind = (uint8_t)base_take_number(&r, 1);
    head_t h = {.id = actor_id_take(&r), .from = from};
    h.epoch = base_take_number(&r, 8);
    if (r.short_of) return MOB_EPROTO;
    switch (kind) {
    case MESSAGE_CREATE:
        return create_come(room, &h, &r);
    case MESSAGE_ENDED:
        return ended_come(room, &h, &r);
    case MESSAGE_END:
        return end_come(room, &h, &r);
    case MESSAGE_ALIVE:
        return alive_come(room, &h, &r);
    case MESSAGE_KILL:
    case MESSAGE_KILLED:
        return kills_come(room, &h, &r, kind);
    case MESSAGE_CALL:
        return call_come(room, &h, &r);
    case MESSAGE_ANSWER:
        return answer_come(room, &h, &r);
    case MESSAGE_CALL_CANCEL:
        return cancel_come(room, &h, &r);
    default:
        return r.left > 0 ? MOB_EPROTO : plain_come(room, &h, kind);
    }
}

bool actor_message_peek(const void *bytes, size_t size, actor_message_t *ret_message) {
    base_reader_t r = {.at = bytes, .left = size};
    *ret_message = (actor_message_t){.kind = (uint8_t)base_take_number(&r, 1)};
    ret_message->id = actor_id_take(&r);
    ret_message->epoch = base_take_number(&r, 8);
    if (r.short_of) return false;
    if (ret_message->kind != MESSAGE_KILL) return true;
    (void)base_take_number(&r, 8);
    ret_message->no_restart = base_take_number(&r, 1) != 0;
    return base_reader_is_done(&r);
}

size_t actor_message_killed(const void *kill, size_t size, uint8_t ret_bytes[ACTOR_KILLED_MAX]) {
    base_reader_t r = {.at = kill, .left = size};
    (void)base_take_number(&r, 1);
    frame_id_t id = actor_id_take(&r);
    (void)base_take_number(&r, 8);
    base_writer_t w = head_begin(ret_bytes, MESSAGE_KILLED, id, 0);
    base_put_number(&w, base_take_number(&r, 8), 8);
    return w.size;
}

actor_counts_t actor_counts(const actor_t *room) {
    return (actor_counts_t){.actors = room->records.count,
                            .seats = room->seats.count,
                            .calls = room->runs.count + room->calls.count,
                            .stubs = room->stubs.count,
                            .errands = room->kills.count};
}
