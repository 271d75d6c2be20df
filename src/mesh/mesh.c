/*
 * A line has a number, by which its link knows it. An accepted line has no link before its hello
 * has come: until then its bytes gather here, and the port's time limit for strangers is followed
 * by one for the hello.
 *
 * Links write when a turn ends (`on_turn`): what was sent in it goes together. The same at each
 * tick of the timer, which runs as long as there are peers.
 */
#include "mesh/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/status.h"
#include "link/link.h"

enum { PENDING_MAX = 4 << 20, HELLO_MS = 5000 };

typedef struct peer {
    mesh_t *mesh;
    uint64_t incarnation;
    char address[64];
    uint16_t port;
    link_t *link;
    bool is_closed, is_dirty;
    struct peer *next_dirty;
    uint64_t written; /* the line that was written to last */
} peer_t;

/* This node asks another one to let it join. */
typedef struct {
    mesh_welcomed_fn welcomed;
    void *context;
    uint8_t answer[2 + MESH_WELCOME_MAX]; /* its size, then its bytes */
    size_t size;
} asker_t;

typedef struct {
    mesh_t *mesh;
    net_line_t *line;
    uint64_t number;
    uint64_t from;     /* the incarnation that the handshake has proved; 0: not yet */
    uint64_t began_ns; /* of an accepted one that has not said hello */
    peer_t *peer;      /* NULL: it has not said hello */
    bool is_full;      /* it did not take everything */
    uint8_t hello[LINK_HELLO_SIZE];
    size_t hello_size;
    asker_t *asker; /* of a line that asks to join; NULL */
} line_t;

struct mesh {
    uv_timer_t timer;
    uv_prepare_t turn;
    net_port_t *port;
    const mesh_ops_t *ops;
    void *context;
    uint64_t self, lines_made;
    size_t room_bytes;
    base_map_t peers, lines; /* by incarnation; by number */
    peer_t *dirty;           /* peers that something was sent to in this turn */
    int handles;
    bool is_closed;
};

static uint64_t now_ns(void) { return base_clock_mono_ns(); }

/* ---- lines ---- */

static line_t *line_new(mesh_t *m) {
    line_t *line = calloc(1, sizeof *line);
    if (line == NULL) return NULL;
    *line = (line_t){.mesh = m, .number = ++m->lines_made, .began_ns = now_ns()};
    if (base_map_put(&m->lines, &line->number, line)) return line;
    free(line);
    return NULL;
}

static void line_free(line_t *line) {
    base_map_remove(&line->mesh->lines, &line->number);
    free(line->asker);
    free(line);
}

static void line_end(line_t *line) {
    net_line_end(line->line);
    line_free(line);
}

/* ---- what a link asks for ---- */

static uint64_t link_dial(void *context) {
    peer_t *peer = context;
    mesh_t *m = peer->mesh;
    line_t *line = line_new(m);
    if (line == NULL) return 0;
    line->peer = peer;
    mob_status_t status = net_port_dial(m->port, peer->address, peer->port, peer->incarnation,
                                        NET_FRAMES, line, &line->line);
    if (status == MOB_OK) return line->number;
    m->ops->trouble(m->context, peer->address, status);
    line_free(line);
    return 0;
}

static size_t link_write(void *context, uint64_t connection, const link_piece_t *pieces,
                         size_t count) {
    peer_t *peer = context;
    line_t *line = base_map_get(&peer->mesh->lines, &connection);
    size_t taken = 0;
    peer->written = connection;
    for (size_t i = 0; line != NULL && i < count; i++) {
        line->is_full = net_line_pending(line->line) > PENDING_MAX ||
                        net_line_write(line->line, pieces[i].bytes, pieces[i].size) != MOB_OK;
        if (line->is_full) break;
        taken += pieces[i].size;
    }
    return taken;
}

static void link_end(void *context, uint64_t connection) {
    peer_t *peer = context;
    line_t *line = base_map_get(&peer->mesh->lines, &connection);
    if (line != NULL) line_end(line);
}

static bool link_receive(void *context, uint64_t sequence, const void *bytes, size_t size) {
    peer_t *peer = context;
    mesh_t *m = peer->mesh;
    return m->ops->receive(m->context, peer->incarnation, sequence, bytes, size);
}

static void link_room(void *context) {
    peer_t *peer = context;
    peer->mesh->ops->room(peer->mesh->context, peer->incarnation);
}

static void link_silent(void *context, bool silent) {
    peer_t *peer = context;
    peer->mesh->ops->silent(peer->mesh->context, peer->incarnation, silent);
}

/* The renewal's age comes with what membership itself says to its peers. */
static void link_beat(void *context, uint64_t renewal_age_ms) {
    (void)context, (void)renewal_age_ms;
}

static void link_goodbye(void *context) {
    peer_t *peer = context;
    peer->mesh->ops->goodbye(peer->mesh->context, peer->incarnation);
}

static void link_refused(void *context) {
    peer_t *peer = context;
    peer->mesh->ops->buried(peer->mesh->context, peer->incarnation);
}

static const link_ops_t link_ops = {.dial = link_dial,
                                    .write = link_write,
                                    .end = link_end,
                                    .receive = link_receive,
                                    .room = link_room,
                                    .silent = link_silent,
                                    .beat = link_beat,
                                    .goodbye = link_goodbye,
                                    .refused = link_refused};

/* ---- joining ---- */

/* The answer has come, or never will; the connection has ended. */
static void ask_end(line_t *line, mob_status_t status) {
    asker_t asker = *line->asker;
    mesh_t *m = line->mesh;
    line_free(line);
    if (!m->is_closed)
        asker.welcomed(asker.context, status, asker.answer + 2,
                       asker.size > 2 ? asker.size - 2 : 0);
}

static void ask_bytes(line_t *line, const uint8_t *bytes, size_t size) {
    asker_t *asker = line->asker;
    size_t room = sizeof asker->answer - asker->size;
    if (size > room) size = room;
    memcpy(asker->answer + asker->size, bytes, size);
    asker->size += size;
    size_t wanted = asker->size < 2 ? 2 : 2 + (size_t)asker->answer[0] + 256u * asker->answer[1];
    if (asker->size < 2 || (asker->size < wanted && asker->size < sizeof asker->answer)) return;
    asker->size = wanted < asker->size ? wanted : asker->size;
    net_line_end(line->line);
    ask_end(line, MOB_OK);
}

/* Somebody wants to join, and is told how. It ends the line when it has read that. */
static void ask_answer(line_t *line) {
    mesh_t *m = line->mesh;
    size_t size;
    const void *welcome = m->ops->welcome(m->context, &size);
    if (size > MESH_WELCOME_MAX) size = MESH_WELCOME_MAX;
    uint8_t head[2] = {(uint8_t)size, (uint8_t)(size >> 8)};
    net_line_write(line->line, head, sizeof head);
    net_line_write(line->line, welcome, size);
}

mob_status_t mesh_join(mesh_t *m, const char *address, uint16_t port, mesh_welcomed_fn welcomed,
                       void *context) {
    line_t *line = line_new(m);
    asker_t *asker = line != NULL ? calloc(1, sizeof *asker) : NULL;
    if (asker == NULL) {
        if (line != NULL) line_free(line);
        return MOB_ENOMEM;
    }
    *asker = (asker_t){.welcomed = welcomed, .context = context};
    line->asker = asker;
    mob_status_t status = net_port_dial(m->port, address, port, 0, NET_JOIN, line, &line->line);
    if (status != MOB_OK) line_free(line);
    return status;
}

void mesh_cluster_set(mesh_t *m, uint64_t cluster) { net_port_cluster_set(m->port, cluster); }

/* ---- what comes from the port ---- */

static net_verdict_t on_admit(void *context, const net_identity_t *peer) {
    mesh_t *m = context;
    if (peer->incarnation == 0 || peer->incarnation == m->self) return NET_WRONG_NODE;
    return NET_WELCOME; /* one that is dead is told so by its link's hello */
}

static void on_up(void *context, net_line_t *net_line, const net_identity_t *identity) {
    mesh_t *m = context;
    line_t *line = net_line_user(net_line);
    if (line == NULL) { /* accepted */
        line = line_new(m);
        if (line == NULL) {
            net_line_end(net_line);
            return;
        }
        line->line = net_line;
        net_line_user_set(net_line, line);
    }
    line->from = identity->incarnation;
    if (line->asker == NULL && identity->purpose == NET_JOIN) ask_answer(line);
    if (line->peer != NULL) link_connected(line->peer->link, line->number, now_ns());
}

/* It means to be somebody that it is not, is unknown, or is dead. */
static void hello_refuse(line_t *line, const link_hello_t *hello, mob_status_t status) {
    mesh_t *m = line->mesh;
    if (status == MOB_ECLOSED) {
        uint8_t refusal[LINK_REFUSAL_SIZE];
        link_refusal_write(hello, refusal);
        net_line_write(line->line, refusal, sizeof refusal);
        net_line_flush(line->line);
    }
    if (status == MOB_EPROTO || status == MOB_EPERM) m->ops->trouble(m->context, "", status);
    /* the flush may have ended it, and told */
    line_t *left = base_map_get(&m->lines, &line->number);
    if (left != NULL) line_end(left);
}

static void hello_take(line_t *line) {
    mesh_t *m = line->mesh;
    link_hello_t hello = {0};
    mob_status_t status = link_hello_read(line->hello, &hello);
    if (status == MOB_OK && hello.from != line->from)
        status = base_fail(MOB_EPERM, "a node speaks in another one's name");
    peer_t *peer = status == MOB_OK ? base_map_get(&m->peers, &hello.from) : NULL;
    if (status == MOB_OK && peer == NULL) {
        m->ops->stranger(m->context, hello.from);
        status = MOB_ESTALE; /* it dials again until it is known */
    }
    if (status == MOB_OK && peer->is_closed) status = MOB_ECLOSED;
    if (status == MOB_OK) {
        line->peer = peer;
        status = link_accept(peer->link, line->number, &hello, now_ns());
        if (status != MOB_OK) line->peer = NULL;
    }
    if (status != MOB_OK) hello_refuse(line, &hello, status);
}

static void on_bytes(void *context, net_line_t *net_line, const uint8_t *bytes, size_t size) {
    mesh_t *m = context;
    line_t *line = net_line_user(net_line);
    uint64_t number = line->number;
    if (line->asker != NULL) {
        ask_bytes(line, bytes, size);
        return;
    }
    if (line->peer == NULL) {
        size_t part = LINK_HELLO_SIZE - line->hello_size;
        if (part > size) part = size;
        memcpy(line->hello + line->hello_size, bytes, part);
        line->hello_size += part;
        bytes += part;
        size -= part;
        if (line->hello_size < LINK_HELLO_SIZE) return;
        hello_take(line);
        line = base_map_get(&m->lines, &number);
    }
    if (line == NULL || line->peer == NULL || size == 0) return;
    mob_status_t status = link_received(line->peer->link, number, bytes, size, now_ns());
    if (status == MOB_EPROTO) m->ops->trouble(m->context, "", status);
}

static void on_down(void *context, net_line_t *net_line, mob_status_t status) {
    mesh_t *m = context;
    line_t *line = net_line_user(net_line);
    peer_t *peer = line->peer;
    uint64_t number = line->number;
    if (line->asker != NULL) {
        ask_end(line, status);
        return;
    }
    if (peer != NULL && line->from == 0) m->ops->trouble(m->context, peer->address, status);
    line_free(line);
    if (peer != NULL) link_ended(peer->link, number, now_ns());
}

static void on_drained(void *context, net_line_t *net_line) {
    (void)context;
    line_t *line = net_line_user(net_line);
    if (line == NULL || line->peer == NULL || !line->is_full) return;
    line->is_full = false;
    link_writable(line->peer->link, line->number);
}

static void on_refused(void *context, const char *address, mob_status_t status) {
    mesh_t *m = context;
    m->ops->trouble(m->context, address, status);
}

/* Only of peers that are known and not dead: there is no link's hello that would tell. */
static void on_bulk(void *context, net_handover_t *handover) {
    mesh_t *m = context;
    const peer_t *peer = base_map_get(&m->peers, &handover->peer.incarnation);
    if (m->ops->bulk == NULL || peer == NULL || peer->is_closed)
        net_handover_fini(handover);
    else
        m->ops->bulk(m->context, handover);
}

static const net_port_ops_t port_ops = {.admit = on_admit,
                                        .up = on_up,
                                        .bytes = on_bytes,
                                        .down = on_down,
                                        .drained = on_drained,
                                        .bulk = on_bulk,
                                        .refused = on_refused};

/* ---- turns and time ---- */

/* This turn's writes of one peer. */
static void peer_flush(mesh_t *m, peer_t *peer) {
    peer->is_dirty = false;
    if (peer->is_closed) return;
    link_flush(peer->link, now_ns());
    line_t *line = base_map_get(&m->lines, &peer->written);
    if (line != NULL && line->from != 0) net_line_flush(line->line);
}

void mesh_flush(mesh_t *m) {
    uv_prepare_stop(&m->turn);
    while (m->dirty != NULL) {
        peer_t *peer = m->dirty;
        m->dirty = peer->next_dirty;
        peer_flush(m, peer);
    }
}

static void on_turn(uv_prepare_t *prepare) { mesh_flush(prepare->data); }

static void peer_dirty(peer_t *peer) {
    mesh_t *m = peer->mesh;
    if (peer->is_dirty) return;
    if (m->dirty == NULL) uv_prepare_start(&m->turn, on_turn);
    peer->is_dirty = true;
    peer->next_dirty = m->dirty;
    m->dirty = peer;
}

/* Accepted lines whose hello does not come. */
static void hellos_expire(mesh_t *m) {
    size_t cursor = 0;
    const void *key;
    void *value;
    line_t *late = NULL;
    while (late == NULL && base_map_each(&m->lines, &cursor, &key, &value)) {
        line_t *line = value;
        if (line->peer == NULL && now_ns() - line->began_ns > HELLO_MS * UINT64_C(1000000))
            late = line;
    }
    if (late == NULL) return; /* one a tick will do */
    if (late->asker == NULL) {
        line_end(late);
        return;
    }
    net_line_end(late->line);
    ask_end(late, base_fail(MOB_ETIMEOUT, "it does not say how to join"));
}

static void on_tick(uv_timer_t *timer) {
    mesh_t *m = timer->data;
    uint64_t age = m->ops->renewal_age_ms(m->context);
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&m->peers, &cursor, &key, &value)) {
        peer_t *peer = value;
        if (!peer->is_closed) link_tick(peer->link, now_ns(), age);
    }
    hellos_expire(m);
}

/* ---- peers ---- */

mob_status_t mesh_peer_add(mesh_t *m, uint64_t incarnation, const char *address, uint16_t port) {
    if (base_map_get(&m->peers, &incarnation) != NULL) return MOB_EEXISTS;
    peer_t *peer = calloc(1, sizeof *peer);
    if (peer == NULL) return MOB_ENOMEM;
    *peer = (peer_t){.mesh = m, .incarnation = incarnation, .port = port};
    snprintf(peer->address, sizeof peer->address, "%s", address);
    mob_status_t status =
        link_new(&link_ops, peer, m->self, incarnation, m->room_bytes, now_ns(), &peer->link);
    if (status == MOB_OK && !base_map_put(&m->peers, &incarnation, peer)) {
        link_free(peer->link);
        status = MOB_ENOMEM;
    }
    if (status != MOB_OK) free(peer);
    return status;
}

void mesh_peer_close(mesh_t *m, uint64_t incarnation) {
    peer_t *peer = base_map_get(&m->peers, &incarnation);
    if (peer == NULL || peer->is_closed) return;
    peer->is_closed = true;
    link_close(peer->link);
}

static peer_t *peer_open(const mesh_t *m, uint64_t incarnation) {
    peer_t *peer = base_map_get(&m->peers, &incarnation);
    return peer != NULL && !peer->is_closed ? peer : NULL;
}

mob_status_t mesh_send(mesh_t *m, uint64_t incarnation, const mesh_letter_t *letter,
                       uint64_t *ret_sequence) {
    peer_t *peer = peer_open(m, incarnation);
    link_message_t *message;
    uint64_t sequence = peer != NULL ? link_next_sequence(peer->link) : 0;
    if (sequence == 0) return MOB_ECLOSED;
    if (!letter->is_answer && !link_has_room(peer->link)) return MOB_ELIMIT;
    mob_status_t status = link_message_new(letter->head_size + letter->body_size, &message);
    if (status != MOB_OK) return status;
    if (letter->note != NULL) status = letter->note(letter->context, sequence);
    if (status != MOB_OK) {
        link_message_free(message);
        return status;
    }
    uint8_t *bytes = link_message_bytes(message);
    if (letter->head_size > 0) memcpy(bytes, letter->head, letter->head_size);
    if (letter->body_size > 0) memcpy(bytes + letter->head_size, letter->body, letter->body_size);
    (void)link_send(peer->link, message, true, ret_sequence); /* it was asked, and has room */
    peer_dirty(peer);
    return MOB_OK;
}

bool mesh_has_room(mesh_t *m, uint64_t incarnation) {
    peer_t *peer = peer_open(m, incarnation);
    return peer != NULL && link_has_room(peer->link);
}

bool mesh_is_open(const mesh_t *m, uint64_t incarnation) {
    const peer_t *peer = peer_open(m, incarnation);
    return peer != NULL && link_is_open(peer->link);
}

void mesh_processed(mesh_t *m, uint64_t incarnation, size_t size) {
    peer_t *peer = base_map_get(&m->peers, &incarnation);
    if (peer == NULL || peer->is_closed) return;
    link_processed(peer->link, size);
    peer_dirty(peer);
}

void mesh_leave(mesh_t *m) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&m->peers, &cursor, &key, &value)) {
        peer_t *peer = value;
        if (peer->is_closed) continue;
        link_leave(peer->link);
        peer_dirty(peer);
    }
}

bool mesh_is_idle(const mesh_t *m, uint64_t incarnation) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&m->peers, &cursor, &key, &value)) {
        const peer_t *peer = value;
        if ((incarnation == 0 || peer->incarnation == incarnation) && !peer->is_closed &&
            !link_is_idle(peer->link))
            return false;
    }
    return true;
}

/* ---- opening and closing ---- */

mob_status_t mesh_open(uv_loop_t *loop, const mesh_config_t *config, const mesh_ops_t *ops,
                       void *context, mesh_t **ret_mesh) {
    mesh_t *m = calloc(1, sizeof *m);
    if (m == NULL) return MOB_ENOMEM;
    *m = (mesh_t){.ops = ops,
                  .context = context,
                  .self = config->self->incarnation,
                  .room_bytes = config->room_bytes};
    base_map_init(&m->peers, sizeof(uint64_t));
    base_map_init(&m->lines, sizeof(uint64_t));
    mob_status_t status = net_port_open(loop, config->address, config->port, config->secret,
                                        config->credentials, config->self, &port_ops, m, &m->port);
    if (status != MOB_OK) {
        free(m);
        return status;
    }
    m->timer.data = m->turn.data = m;
    uv_timer_init(loop, &m->timer);
    uv_prepare_init(loop, &m->turn);
    uv_timer_start(&m->timer, on_tick, LINK_TICK_NS / 1000000, LINK_TICK_NS / 1000000);
    m->handles = 2;
    *ret_mesh = m;
    return MOB_OK;
}

uint16_t mesh_port(const mesh_t *m) { return net_port_number(m->port); }

static void on_closed(uv_handle_t *handle) {
    mesh_t *m = handle->data;
    if (--m->handles == 0) free(m);
}

void mesh_close(mesh_t *m) {
    m->is_closed = true;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&m->peers, &cursor, &key, &value)) {
        link_free(((peer_t *)value)->link);
        free(value);
    }
    cursor = 0;
    while (base_map_each(&m->lines, &cursor, &key, &value)) {
        free(((line_t *)value)->asker);
        free(value);
    }
    base_map_fini(&m->peers);
    base_map_fini(&m->lines);
    net_port_close(m->port);
    uv_close((uv_handle_t *)&m->timer, on_closed);
    uv_close((uv_handle_t *)&m->turn, on_closed);
}
