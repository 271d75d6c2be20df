/*
 * One side of a link.
 *
 *            dial            link_connected        WELCOME
 *     IDLE --------> DIALLING ------------> GREETING -----> OPEN
 *      |                                                     ^
 *      +--------------------- link_accept -------------------+     link_close: CLOSED, from any
 *
 * Whatever goes wrong leads back to IDLE, and a dial follows after a pause. link_accept leads from
 * each state to OPEN, but not from GREETING on the side with the lower incarnation.
 *
 * Greeting. Whoever has dialled says HELLO, the other WELCOME, and both say how many messages they
 * have received. The other side writes to this connection what comes after, and nothing before it
 * was told. A side ends the connection that it had before it says a position on the next: so it has
 * received exactly that much until the first message of the new one, and each message comes once.
 * A message out of sequence is therefore the peer's error, and is neither dropped nor believed.
 *
 * Turns. Connections overtake each other: a HELLO may be read long after its dialler gave it up and
 * made a newer connection. Its position would be older than what was acknowledged since, and the
 * messages are gone. So each greeting has a number that grows with every greeting of that side, and
 * one that is not above the newest read is refused. Then positions, too, are read in the order in
 * which they were said.
 *
 * Two dials that cross: the side with the lower incarnation waits for the answer to its own, the
 * other takes it. The lower one does so only once it has said HELLO: a dial that does not come up
 * stands in nobody's way.
 *
 * Flow. A message is freed when the peer has received it. It is counted as used room until the
 * peer's node has dealt with it, so that the peer's memory is bounded too. Both numbers are in each
 * acknowledgement and each greeting, and both only grow: one that was lost with its connection is
 * made up for by the next. Acknowledgements never wait for room.
 *
 * Rejected: to resend all that was not acknowledged and drop duplicates. It would need no greeting
 * before the first message, but costs a window of bytes for each reconnect, and hides what the
 * order of greetings gets wrong.
 */
#include "link/link.h"

#include <assert.h>
#include <stdlib.h>

#include "base/rule.h"
#include "link/inbox.h"
#include "link/outbox.h"

enum { PIECES = 32 };                  /* that are written at once */
#define STEADY_NS UINT64_C(1000000000) /* a connection that lasts so long was no failure */

struct link {
    const link_ops_t *ops;
    void *context;
    uint64_t self, peer;
    size_t room_bytes;
    enum { IDLE, DIALLING, GREETING, OPEN, CLOSED } state;
    uint64_t connection; /* 0: none, in IDLE and CLOSED */
    uint64_t turn, peer_turn;
    uint64_t since_ns; /* in this state */
    uint64_t dial_ns;  /* not before */
    uint64_t heard_ns, ticked_ns, beat_ns;
    uint64_t age_ms;
    unsigned failures; /* since a connection lasted */
    bool is_silent, is_blocked, is_full, takes_none, owes_ack, owes_beat;
    uint64_t received, received_cost, processed_cost;
    uint64_t said_received, said_received_cost, said_processed_cost; /* to the peer */
    uint8_t control[LINK_CONTROL_MAX]; /* a greeting, acknowledgement or heartbeat to be written */
    size_t control_size, control_offset;
    link_outbox_t outbox;
    link_inbox_t inbox;
    link_message_t *goodbye; /* kept ready, so that leaving needs no memory */
};

mob_status_t link_new(const link_ops_t *ops, void *context, uint64_t self, uint64_t peer,
                      size_t room_bytes, uint64_t now_ns, link_t **ret_link) {
    assert(self != peer);
    link_t *link = calloc(1, sizeof *link);
    if (link == NULL) return MOB_ENOMEM;
    link->ops = ops;
    link->context = context;
    link->self = self;
    link->peer = peer;
    link->room_bytes = room_bytes;
    link->heard_ns = link->ticked_ns = now_ns;
    /* The lower one's first dial spares the other its own. */
    link->dial_ns = self < peer ? now_ns : now_ns + LINK_TICK_NS;
    mob_status_t status = link_message_new(0, &link->goodbye);
    if (status != MOB_OK) {
        free(link);
        return status;
    }
    *ret_link = link;
    return MOB_OK;
}

void link_free(link_t *link) {
    if (link == NULL) return;
    if (link->connection != 0) link->ops->end(link->context, link->connection);
    link_message_free(link->goodbye);
    link_outbox_fini(&link->outbox);
    link_inbox_fini(&link->inbox);
    free(link);
}

/* ---- the connection's life ---- */

static void state_set(link_t *link, int state, uint64_t connection, uint64_t now_ns) {
    link->state = state;
    link->connection = connection;
    link->since_ns = now_ns;
    link->is_blocked = link->owes_ack = link->owes_beat = false;
    link->control_size = link->control_offset = 0;
    link->outbox.offset = 0; /* the rest of a message that was begun means nothing to the next */
    link_inbox_clear(&link->inbox);
}

/* At once, the first time, if there is something to say. */
static uint64_t pause_of(const link_t *link) {
    if (!BASE_RULE(LINK_PAUSE_GROWS)) return 0;
    if (link->failures == 1 && link->outbox.head != NULL) return 0;
    uint64_t pause = LINK_PAUSE_NS << (link->failures < 8 ? link->failures - 1 : 7);
    return pause < LINK_PAUSE_MAX_NS ? pause : LINK_PAUSE_MAX_NS;
}

/* The connection is no more, or the dial has failed. */
static void lose(link_t *link, uint64_t now_ns) {
    state_set(link, IDLE, 0, now_ns);
    if (link->failures < UINT32_MAX) link->failures++;
    link->dial_ns = now_ns + pause_of(link);
}

static void end(link_t *link, uint64_t now_ns) {
    link->ops->end(link->context, link->connection);
    lose(link, now_ns);
}

static void dial(link_t *link, uint64_t now_ns) {
    uint64_t connection = link->ops->dial(link->context);
    if (connection == 0)
        lose(link, now_ns);
    else
        state_set(link, DIALLING, connection, now_ns);
}

static uint64_t processed_now(const link_t *link) {
    return BASE_RULE(LINK_CREDIT_WHEN_PROCESSED) ? link->processed_cost : link->received_cost;
}

static void note_said(link_t *link) {
    link->said_received = link->received;
    link->said_received_cost = link->received_cost;
    link->said_processed_cost = processed_now(link);
    link->owes_ack = false;
}

static void greet(link_t *link, link_kind_t kind) {
    link_hello_t hello = {.from = link->self,
                          .to = link->peer,
                          .turn = ++link->turn,
                          .received = link->received,
                          .processed = processed_now(link)};
    base_writer_t w = {link->control, 0};
    link_put_hello(&w, kind, &hello);
    link->control_size = w.size;
    note_said(link);
}

static void hear(link_t *link, uint64_t now_ns) {
    link->heard_ns = now_ns;
    if (!link->is_silent) return;
    link->is_silent = false;
    link->ops->silent(link->context, false);
}

static void tell_room(link_t *link) {
    if (link->state == CLOSED || !link->is_full) return;
    if (link_outbox_used(&link->outbox) > link->room_bytes / 2) return;
    link->is_full = false;
    link->ops->room(link->context);
}

/* ---- writing ---- */

static bool ack_is_due(const link_t *link) {
    uint64_t batch = link->room_bytes / 4;
    return link->owes_ack || link->received - link->said_received >= LINK_ACK_MESSAGES ||
           link->received_cost - link->said_received_cost >= batch ||
           processed_now(link) - link->said_processed_cost >= batch;
}

static void control_fill(link_t *link) {
    if (link->state != OPEN || link->control_offset < link->control_size) return;
    base_writer_t w = {link->control, 0};
    if (ack_is_due(link)) {
        link_put_ack(&w, link->received, processed_now(link));
        note_said(link);
    }
    if (link->owes_beat) link_put_beat(&w, link->age_ms);
    link->owes_beat = false;
    link->control_size = w.size;
    link->control_offset = 0;
}

/* What is written next: the rest of a message that was begun, then control, then messages. */
static size_t gather(const link_t *link, link_piece_t pieces[PIECES]) {
    size_t count = link_outbox_begun(&link->outbox, pieces) ? 1 : 0;
    if (link->control_offset < link->control_size)
        pieces[count++] = (link_piece_t){link->control + link->control_offset,
                                         link->control_size - link->control_offset};
    if (link->state != OPEN) return count;
    return count + link_outbox_gather(&link->outbox, pieces + count, PIECES - count);
}

static void advance(link_t *link, size_t size) {
    if (size > 0 && link->outbox.offset > 0) size = link_outbox_advance(&link->outbox, size);
    size_t control = link->control_size - link->control_offset;
    if (control > size) control = size;
    link->control_offset += control;
    size -= control;
    while (size > 0) size = link_outbox_advance(&link->outbox, size);
}

static void write_all(link_t *link) {
    while ((link->state == OPEN || link->state == GREETING) && !link->is_blocked) {
        control_fill(link);
        link_piece_t pieces[PIECES];
        size_t count = gather(link, pieces), total = 0;
        if (count == 0) return;
        for (size_t i = 0; i < count; i++) total += pieces[i].size;
        size_t size = link->ops->write(link->context, link->connection, pieces, count);
        assert(size <= total);
        link->is_blocked = size < total;
        advance(link, size);
    }
}

void link_flush(link_t *link, uint64_t now_ns) {
    if (link->state == IDLE && now_ns >= link->dial_ns) dial(link, now_ns);
    write_all(link);
}

void link_writable(link_t *link, uint64_t connection) {
    if (connection != link->connection) return;
    link->is_blocked = false;
    write_all(link);
}

/* ---- sending ---- */

bool link_has_room(link_t *link) {
    bool is_full = link_outbox_used(&link->outbox) >= link->room_bytes;
    if (is_full) link->is_full = true;
    return !is_full || !BASE_RULE(LINK_BOUNDED);
}

static void push(link_t *link, link_message_t *message, link_kind_t kind) {
    if (link->outbox.head == NULL) link->dial_ns = 0; /* there is something to say now */
    link_outbox_push(&link->outbox, message, kind);
}

mob_status_t link_send(link_t *link, link_message_t *message, bool is_answer,
                       uint64_t *ret_sequence) {
    if (link->takes_none) return MOB_ECLOSED;
    bool is_exempt = is_answer && BASE_RULE(LINK_ANSWERS_EXEMPT);
    if (!is_exempt && !link_has_room(link)) return MOB_ELIMIT;
    push(link, message, LINK_MESSAGE);
    if (ret_sequence != NULL) *ret_sequence = link->outbox.last;
    return MOB_OK;
}

uint64_t link_next_sequence(const link_t *link) {
    return link->takes_none ? 0 : link->outbox.last + 1;
}

void link_leave(link_t *link) {
    if (link->takes_none) return;
    link->takes_none = true;
    push(link, link->goodbye, LINK_GOODBYE);
    link->goodbye = NULL;
}

void link_processed(link_t *link, size_t size) {
    link->processed_cost += size + LINK_MESSAGE_COST;
    assert(link->processed_cost <= link->received_cost);
}

void link_close(link_t *link) {
    link->takes_none = true;
    if (!BASE_RULE(LINK_CLOSED_HEARS_NOTHING)) return;
    if (link->connection != 0) link->ops->end(link->context, link->connection);
    state_set(link, CLOSED, 0, link->ticked_ns);
    link_outbox_fini(&link->outbox);
}

/* ---- connections that come ---- */

void link_connected(link_t *link, uint64_t connection, uint64_t now_ns) {
    if (link->state != DIALLING || connection != link->connection) return;
    state_set(link, GREETING, connection, now_ns);
    greet(link, LINK_HELLO);
    write_all(link);
}

void link_ended(link_t *link, uint64_t connection, uint64_t now_ns) {
    if (connection == 0 || connection != link->connection) return;
    lose(link, now_ns);
    link_flush(link, now_ns);
}

/* Whether the greeting is the peer's, for this node, and its newest. */
static mob_status_t greeting_check(const link_t *link, const link_hello_t *hello) {
    bool is_right = hello->from == link->peer && hello->to == link->self;
    if (!is_right && BASE_RULE(LINK_RIGHT_INCARNATION)) return MOB_ESTALE;
    if (hello->turn <= link->peer_turn && BASE_RULE(LINK_NEWEST_TURN)) return MOB_ESTALE;
    return MOB_OK;
}

/* Not before it has come up and said hello. */
static bool own_dial_wins(const link_t *link) {
    bool greets =
        link->state == GREETING || (link->state == DIALLING && !BASE_RULE(LINK_DIAL_CLAIMS_LATE));
    return greets && link->self < link->peer && BASE_RULE(LINK_LOWER_DIAL_WINS);
}

mob_status_t link_accept(link_t *link, uint64_t connection, const link_hello_t *hello,
                         uint64_t now_ns) {
    if (link->state == CLOSED) return MOB_ECLOSED;
    mob_status_t status = greeting_check(link, hello);
    if (status != MOB_OK) return status;
    hear(link, now_ns);
    if (link->state == CLOSED) return MOB_ECLOSED; /* by what it was told */
    if (own_dial_wins(link)) return MOB_EEXISTS;
    if (!link_outbox_resume(&link->outbox, hello->received, hello->processed)) return MOB_EPROTO;
    if (link->connection != 0 && BASE_RULE(LINK_ENDS_OLD_FIRST))
        link->ops->end(link->context, link->connection);
    link->peer_turn = hello->turn;
    state_set(link, OPEN, connection, now_ns);
    greet(link, LINK_WELCOME);
    tell_room(link);
    write_all(link);
    return MOB_OK;
}

/* ---- frames that come ---- */

static mob_status_t refusal_receive(link_t *link, const link_frame_t *frame) {
    if (frame->dead != link->self) return MOB_EPROTO;
    link->ops->refused(link->context);
    return MOB_ECLOSED;
}

static mob_status_t welcome_receive(link_t *link, const link_frame_t *frame, uint64_t now_ns) {
    if (frame->kind == LINK_REFUSED) return refusal_receive(link, frame);
    if (frame->kind != LINK_WELCOME) return MOB_EPROTO;
    const link_hello_t *hello = &frame->hello;
    mob_status_t status = greeting_check(link, hello);
    if (status != MOB_OK) return status;
    if (!link_outbox_resume(&link->outbox, hello->received, hello->processed)) return MOB_EPROTO;
    link->peer_turn = hello->turn;
    link->state = OPEN;
    link->since_ns = now_ns;
    tell_room(link);
    return MOB_OK;
}

static mob_status_t message_receive(link_t *link, const link_frame_t *frame) {
    if (frame->sequence != link->received + 1) return MOB_EPROTO;
    uint64_t cost = frame->size + LINK_MESSAGE_COST;
    link->received_cost += cost;
    if (frame->kind == LINK_GOODBYE) {
        link->processed_cost += cost;
        link->received++;
        link->ops->goodbye(link->context);
        return MOB_OK;
    }
    if (!link->ops->receive(link->context, frame->sequence, frame->bytes, frame->size)) {
        link->received_cost -= cost;
        return MOB_ENOMEM;
    }
    link->received++;
    return MOB_OK;
}

static mob_status_t frame_receive(link_t *link, const uint8_t *bytes, size_t size,
                                  uint64_t now_ns) {
    link_frame_t frame;
    mob_status_t status = link_frame_read(bytes, size, &frame);
    if (status != MOB_OK) return status;
    if (link->state == GREETING) return welcome_receive(link, &frame, now_ns);
    switch (frame.kind) {
    case LINK_ACK:
        if (!link_outbox_acknowledge(&link->outbox, frame.received, frame.processed))
            return MOB_EPROTO;
        tell_room(link);
        return MOB_OK;
    case LINK_BEAT:
        link->ops->beat(link->context, frame.age_ms);
        return MOB_OK;
    case LINK_MESSAGE:
    case LINK_GOODBYE:
        return message_receive(link, &frame);
    default:
        return MOB_EPROTO; /* a greeting comes once */
    }
}

/* A call of ops may have closed the link. */
static bool is_reading(const link_t *link, uint64_t connection) {
    if (!BASE_RULE(LINK_ENDS_OLD_FIRST) && link->state == OPEN) return true;
    return connection == link->connection && (link->state == GREETING || link->state == OPEN);
}

mob_status_t link_received(link_t *link, uint64_t connection, const void *bytes, size_t size,
                           uint64_t now_ns) {
    if (!is_reading(link, connection) || size == 0) return MOB_OK;
    if (BASE_RULE(LINK_ANY_BYTE_COUNTS)) hear(link, now_ns);
    const uint8_t *at = bytes, *frame = NULL;
    mob_status_t status = MOB_OK;
    while (is_reading(link, connection)) {
        size_t most = link->state == GREETING ? LINK_HELLO_SIZE : LINK_FRAME_MAX, frame_size;
        status = link_inbox_next(&link->inbox, &at, &size, most, &frame, &frame_size);
        if (status != MOB_OK || frame == NULL) break;
        if (!BASE_RULE(LINK_ANY_BYTE_COUNTS)) hear(link, now_ns);
        status = frame_receive(link, frame, frame_size, now_ns);
        if (status != MOB_OK) break;
    }
    if (status != MOB_OK && is_reading(link, connection)) end(link, now_ns);
    link_inbox_rest(&link->inbox);
    link_flush(link, now_ns);
    return status;
}

/* ---- time ---- */

static void silence_check(link_t *link, uint64_t now_ns) {
    if (link->is_silent || now_ns - link->heard_ns < LINK_SILENCE_NS) return;
    link->is_silent = true;
    link->ops->silent(link->context, true);
    if (link->state == OPEN && BASE_RULE(LINK_SILENT_REDIALS)) end(link, now_ns);
}

static void greeting_limit(link_t *link, uint64_t now_ns) {
    bool waits = link->state == DIALLING || link->state == GREETING;
    if (waits && now_ns - link->since_ns >= LINK_GREET_NS && BASE_RULE(LINK_GREETING_ENDS))
        end(link, now_ns);
}

static void open_tick(link_t *link, uint64_t now_ns) {
    if (now_ns - link->since_ns >= STEADY_NS) link->failures = 0;
    bool owes =
        link->received != link->said_received || processed_now(link) != link->said_processed_cost;
    if (owes && BASE_RULE(LINK_ACK_BY_TIME)) link->owes_ack = true;
    if (now_ns - link->beat_ns < LINK_BEAT_NS || !BASE_RULE(LINK_BEATS)) return;
    if (link->outbox.head != NULL && !BASE_RULE(LINK_BEATS_WHEN_BUSY)) return;
    link->beat_ns = now_ns;
    link->owes_beat = true;
}

void link_tick(link_t *link, uint64_t now_ns, uint64_t renewal_age_ms) {
    if (link->state == CLOSED) return;
    bool is_late = now_ns - link->ticked_ns >= LINK_LATE_NS;
    link->ticked_ns = now_ns;
    link->age_ms = renewal_age_ms;
    if (is_late && BASE_RULE(LINK_LATE_COUNTS_AGAIN)) link->heard_ns = link->since_ns = now_ns;
    silence_check(link, now_ns);
    greeting_limit(link, now_ns);
    if (link->state == OPEN) open_tick(link, now_ns);
    link_flush(link, now_ns);
}

/* ---- questions ---- */

bool link_is_open(const link_t *link) { return link->state == OPEN; }
bool link_is_silent(const link_t *link) { return link->is_silent; }

bool link_is_idle(const link_t *link) {
    return link->outbox.head == NULL && link->received == link->said_received &&
           link->control_offset == link->control_size;
}

uint64_t link_received_sequence(const link_t *link) { return link->received; }

size_t link_held_bytes(const link_t *link) {
    return (size_t)(link->outbox.sent_cost - link->outbox.received_cost);
}
