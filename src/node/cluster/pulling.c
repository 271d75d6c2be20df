/*
 * The room pull decides, the room bulk moves bytes, and this folder's files join both to the books:
 *
 *   wanting    a client opens a value that is AWAY: a want; what comes of it
 *   pulled     memory for copies, chunks into and out of it, and when a copy has to stay
 *   contents   references inside of a value that comes: a list from its home
 *
 * Rules of the room: what it asks for from within a call is noted (`todo`) and done at the end of
 * the round, for that may call it again. Only memory is given and taken at once.
 *
 * Time: the room is ticked every PULL_TICK_NS while there is a want, a reading or a chunk on disk
 * that waits, and for some seconds after anything has happened. Then no timer runs.
 *
 * The memory of copies is the store's, like everybody's: what a copy needs is asked of the store,
 * which moves other values to disk for it. So the room is told that it may have all of it.
 *
 * A message that the room sends is small, and there are few for each chunk: so all of them go as
 * answers, which a full link takes too.
 */
#include "node/cluster/pulling.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "node/cluster/cluster.h"
#include "node/cluster/membership.h"
#include "node/cluster/post.h"
#include "node/cluster/pulled.h"
#include "node/state.h"
#include "node/watch.h"
#include "pull/message.h"

static const uint64_t BUSY_NS = 3 * PULL_STALL_NS;

uint64_t node_pulling_now(void) { return base_clock_mono_ns(); }

/* ---- time ---- */

static void on_timer(uv_timer_t *timer);

void node_pulling_wake(node_pulling_t *p, bool soon) {
    uint64_t tick = PULL_TICK_NS / PULL_MS;
    p->busy_ns = node_pulling_now();
    p->node->again = true;
    if (soon || !uv_is_active((uv_handle_t *)&p->timer))
        uv_timer_start(&p->timer, on_timer, soon ? 0 : tick, tick);
}

static bool is_idle(const node_pulling_t *p) {
    pull_counts_t counts;
    pull_count(p->pull, &counts);
    return counts.wants == 0 && counts.transfers == 0 && counts.readings == 0 &&
           p->servings.count == 0 && p->lost == 0 && node_pulling_now() - p->busy_ns > BUSY_NS;
}

static void on_timer(uv_timer_t *timer) {
    node_pulling_t *p = timer->data;
    node_pulling_settle(p->cluster);
    node_wanting_settle(p);
    node_wanting_remade(p);
    pull_tick(p->pull, node_pulling_now());
    node_pulled_servings_settle(p);
    node_pulled_update_all(p);
    p->node->again = true;
    if (is_idle(p)) uv_timer_stop(timer);
}

/* ---- what the room asks for ---- */

void node_pulling_note(node_pulling_t *p, node_todo_t todo) {
    if (!vec_push(&p->todo, todo))
        node_cluster_trouble(p->cluster, "no memory for what is to be done for a pulled value");
    p->node->again = true;
}

static void on_send(void *context, uint64_t peer, const void *bytes, size_t size, bool is_answer) {
    (void)is_answer;
    node_pulling_t *p = context;
    uint8_t kind = PULLING_ROOM;
    node_letter_parts_t parts = {.head = &kind, .head_size = 1, .body = bytes, .body_size = size};
    (void)node_post_send(p->cluster, peer, POST_PULL, &parts, true); /* the dead hear nothing */
}

typedef struct {
    node_cluster_t *cluster;
    pull_question_t question;
} asked_t;

static void on_reply(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    asked_t asked = *(asked_t *)context;
    free(context);
    node_pulling_t *p = asked.cluster->pulling;
    if (p == NULL) return;
    pull_answered(p->pull, &asked.question, answer, size, node_pulling_now());
    p->node->again = true;
}

static void on_ask(void *context, const pull_question_t *question, script_fn script,
                   const void *arguments, size_t size) {
    node_pulling_t *p = context;
    asked_t *asked = malloc(sizeof *asked);
    if (asked != NULL) {
        *asked = (asked_t){p->cluster, *question};
        if (node_cluster_ask(p->cluster, script, arguments, size, on_reply, asked) == MOB_OK)
            return;
        free(asked);
    }
    node_pulling_note(p, (node_todo_t){.kind = TODO_UNANSWERED, .question = *question});
}

static void on_said(void *context, uint64_t master) {
    node_pulling_t *p = context;
    p->said = master;
    node_membership_said(p->cluster);
}

static mob_status_t on_object_state(void *context, const frame_id_t *id) {
    node_pulling_t *p = context;
    node_t *n = p->node;
    mob_ref_t ref = node_proxy_find(n, *id);
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL) return MOB_ELOST;
    uint64_t word = atomic_load_explicit(&n->slots[o->slot].word, memory_order_acquire);
    if ((word & STORE_STATE) != STORE_SEALED) return MOB_OK;
    if (!node_object_is_gone(n, o) && node_pulling_size(n, ref) == 0) return MOB_ELOST;
    node_pulling_note(p, (node_todo_t){.kind = TODO_OFFER, .id = *id});
    return MOB_OK;
}

static void on_lost(void *context, const frame_id_t *id) {
    node_pulling_note(context, (node_todo_t){.kind = TODO_LOST, .id = *id});
}

static void on_owned(void *context, const frame_id_t *id) {
    node_pulling_t *p = context;
    node_pulled_t *e = node_pulled_find(p, *id);
    if (e == NULL) return;
    e->is_owned = true;
    if (e->is_shelved && node_proxy_find(p->node, *id).slot == 0)
        node_pulling_note(p, (node_todo_t){.kind = TODO_DROP, .id = *id});
}

static bool on_extent_new(void *context, const frame_id_t *id, uint64_t size) {
    return node_pulled_extent_new(context, id, size);
}

static void on_spill(void *context, const frame_id_t *id) {
    node_pulling_note(context, (node_todo_t){.kind = TODO_SPILL, .id = *id});
}

static void on_extent_free(void *context, const frame_id_t *id) {
    node_pulled_extent_free(context, id);
}

static void on_fetch(void *context, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                     uint64_t source) {
    node_pulled_fetch(context, ticket, id, chunk, source);
}

static void on_let_go(void *context, uint64_t ticket, const frame_id_t *id) {
    node_pulling_note(context, (node_todo_t){.kind = TODO_LET_GO, .id = *id, .ticket = ticket});
}

static void on_serve(void *context, uint64_t reader, uint64_t ticket, const frame_id_t *id,
                     uint32_t chunk) {
    node_pulled_serve(context, (node_serving_t){*id, reader, ticket, chunk});
}

static void on_seal(void *context, const frame_id_t *id) {
    node_pulling_note(context, (node_todo_t){.kind = TODO_SEAL, .id = *id});
}

/* By their names: what they belong to may be gone when it is their turn. */
static void ask_note(node_pulling_t *p, const node_pull_ask_t *ask, node_todo_t todo) {
    todo.id = ask->of->id;
    todo.class = (pull_class_t)(ask - ask->of->asks);
    node_pulling_note(p, todo);
}

static void on_ready(void *context, void *user) {
    ask_note(context, user, (node_todo_t){.kind = TODO_READY});
}

static void on_failed(void *context, void *user, const frame_id_t *id, mob_status_t why) {
    (void)id; /* the only one */
    ask_note(context, user, (node_todo_t){.kind = TODO_FAILED, .why = why});
}

static const pull_ops_t room_ops = {.send = on_send,
                                    .ask = on_ask,
                                    .said = on_said,
                                    .object_state = on_object_state,
                                    .lost = on_lost,
                                    .owned = on_owned,
                                    .extent_new = on_extent_new,
                                    .spill = on_spill,
                                    .extent_free = on_extent_free,
                                    .fetch = on_fetch,
                                    .let_go = on_let_go,
                                    .serve = on_serve,
                                    .seal = on_seal,
                                    .ready = on_ready,
                                    .failed = on_failed};

/* ---- doing it ---- */

static void todo_do(node_pulling_t *p, const node_todo_t *t) {
    uint64_t now = node_pulling_now();
    switch (t->kind) {
    case TODO_SEAL:
        node_contents_seal(p, t->id);
        break;
    case TODO_SEALED:
        node_contents_sealed(p, t->id, MOB_OK);
        break;
    case TODO_READY:
        node_wanting_ready(p, t->id, t->class);
        break;
    case TODO_FAILED:
        node_wanting_failed(p, t->id, t->class, t->why);
        break;
    case TODO_LOST:
        node_wanting_lost(p, t->id);
        break;
    case TODO_SPILL:
        /* Its memory is the store's, which moves it to disk when it needs to, like all others. */
        (void)pull_copy_spilled(p->pull, &t->id, now);
        break;
    case TODO_SERVED:
        pull_served(p->pull, t->reader, t->ticket, now);
        break;
    case TODO_DROP:
        (void)pull_copy_drop(p->pull, &t->id, now);
        break;
    case TODO_GONE:
        pull_object_free(p->pull, &t->id, now);
        (void)pull_copy_drop(p->pull, &t->id, now);
        break;
    case TODO_ROOM:
        node_pulled_room_make(p, t->bytes);
        break;
    case TODO_OFFER:
        (void)node_pulled_offer(p, t->id);
        break;
    case TODO_UNANSWERED:
        pull_answered(p->pull, &t->question, NULL, 0, now);
        break;
    default: /* without memory the room is not answered, so nobody gets that memory meanwhile */
        if (bulk_let_go(p->bulk, t->ticket, &t->id) != MOB_OK)
            node_cluster_trouble(p->cluster, "no memory to let go of a pulled value");
    }
}

void node_pulling_settle(node_cluster_t *c) {
    node_pulling_t *p = c->pulling;
    if (p == NULL || p->todo.count == 0) return;
    for (size_t i = 0; i < p->todo.count; i++) {
        node_todo_t t = p->todo.items[i];
        todo_do(p, &t);
    }
    p->todo.count = 0;
    node_pulling_wake(p, false);
}

/* ---- the bulk thread's answers ---- */

static void on_came(void *context, const bulk_chunk_t *chunk, size_t size, bool is_whole) {
    node_pulled_came(context, chunk, size, is_whole);
    node_pulling_wake(context, false);
}

static void on_gone(void *context, uint64_t ticket, const frame_id_t *id) {
    node_pulling_t *p = context;
    pull_let_go(p->pull, ticket, id, node_pulling_now());
    node_pulling_wake(p, false);
}

static void on_served(void *context, uint64_t reader, const bulk_chunk_t *chunk) {
    node_pulling_t *p = context;
    pull_served(p->pull, reader, chunk->ticket, node_pulling_now());
    node_pulled_t *e = node_pulled_find(p, chunk->id);
    if (e != NULL) node_pulled_update(p, e);
    node_pulling_wake(p, false);
}

static void on_trouble(void *context, uint64_t peer, mob_status_t status, const char *words) {
    node_pulling_t *p = context;
    if (status != MOB_ECLOSED)
        node_cluster_trouble(p->cluster, "values to or from node %016llx: %s",
                             (unsigned long long)peer, words);
}

static const bulk_ops_t bulk_ops = {
    .came = on_came, .let_go = on_gone, .served = on_served, .trouble = on_trouble};

/* ---- messages ---- */

static mob_status_t room_receive(node_pulling_t *p, uint64_t peer, const uint8_t *bytes,
                                 size_t size) {
    mob_status_t status = pull_receive(p->pull, peer, bytes, size, node_pulling_now());
    pull_message_t m;
    if (status != MOB_OK || !pull_message_read(bytes, size, &m)) return status;
    node_pulled_t *e = node_pulled_find(p, m.id);
    if (e != NULL) node_pulled_update(p, e);
    return MOB_OK;
}

mob_status_t node_pulling_receive(node_cluster_t *c, uint64_t peer, const void *bytes,
                                  size_t size) {
    node_pulling_t *p = c->pulling;
    const uint8_t *at = bytes;
    if (p == NULL) return MOB_ECLOSED;
    if (size == 0) return base_fail(MOB_EPROTO, "a message about values that is empty");
    node_pulling_wake(p, false);
    switch (at[0]) {
    case PULLING_ROOM:
        return room_receive(p, peer, at + 1, size - 1);
    case PULLING_LIST_ASK:
        return node_contents_asked(p, peer, at + 1, size - 1);
    case PULLING_LIST:
        return node_contents_came(p, peer, at + 1, size - 1);
    default:
        return base_fail(MOB_EPROTO, "a message about values of no kind that is known");
    }
}

/* ---- members ---- */

mob_status_t node_pulling_peer(node_cluster_t *c, uint64_t peer, const char *address,
                               uint16_t port) {
    return c->pulling != NULL ? bulk_peer(c->pulling->bulk, peer, address, port) : MOB_OK;
}

mob_status_t node_pulling_died(node_cluster_t *c, uint64_t peer) {
    node_pulling_t *p = c->pulling;
    if (p == NULL) return MOB_OK;
    mob_status_t status = bulk_peer_died(p->bulk, peer);
    if (status == MOB_OK) status = pull_died(p->pull, peer, node_pulling_now());
    if (status != MOB_OK) return status;
    node_contents_died(p, peer);
    node_pulled_update_all(p);
    node_pulling_wake(p, true);
    return MOB_OK;
}

void node_pulling_master(node_cluster_t *c, uint64_t master) {
    if (c->pulling == NULL) return;
    pull_master(c->pulling->pull, master, node_pulling_now());
    node_pulling_wake(c->pulling, true);
}

uint64_t node_pulling_said(const node_cluster_t *c) {
    return c->pulling != NULL ? c->pulling->said : UINT64_MAX;
}

void node_pulling_accept(node_cluster_t *c, net_handover_t *handover) {
    if (c->pulling == NULL)
        net_handover_fini(handover);
    else
        (void)bulk_accept(c->pulling->bulk, handover); /* without memory it dials again */
}

/* ---- beginning and end ---- */

static mob_status_t threads_open(node_pulling_t *p) {
    node_cluster_t *c = p->cluster;
    node_t *n = p->node;
    net_identity_t self = {
        .cluster = c->id[0], .incarnation = n->incarnation, .port = mesh_port(c->mesh)};
    snprintf(self.version, sizeof self.version, "%s", MOBULA_VERSION);
    if (n->config.cluster.python != NULL)
        sscanf(n->config.cluster.python, "%hhu.%hhu", &self.python_major, &self.python_minor);
    bulk_config_t config = {.secret = &c->secret, .credentials = c->credentials, .self = &self};
    return bulk_open(&n->loop, &config, &bulk_ops, p, &p->bulk);
}

mob_status_t node_pulling_start(node_cluster_t *c) {
    node_pulling_t *p = calloc(1, sizeof *p);
    if (p == NULL) return MOB_ENOMEM;
    *p = (node_pulling_t){.cluster = c, .node = c->node, .timer = {.data = p}};
    base_map_init(&p->all, MOB_ID_SIZE);
    base_map_init(&p->shelves, sizeof(uint64_t));
    mob_status_t status =
        node_watch(uv_timer_init(&c->node->loop, &p->timer), "making a timer for pulled values");
    if (status == MOB_OK) status = pull_new(&room_ops, p, c->node->incarnation, &p->pull);
    if (status == MOB_OK) status = threads_open(p);
    if (status != MOB_OK) return status; /* the node does not take part, and ends */
    pull_memory_set(p->pull, c->node->config.store_bytes, node_pulling_now());
    c->holding.kept = node_contents_kept;
    c->pulling = p;
    return MOB_OK;
}

static void on_closed(uv_handle_t *handle) { free(handle->data); }

/* Blocks go with the store, and uses with the books. */
void node_pulling_end(node_cluster_t *c) {
    node_pulling_t *p = c->pulling;
    if (p == NULL) return;
    c->pulling = NULL;
    c->holding.kept = NULL;
    bulk_close(p->bulk);
    pull_free(p->pull);
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&p->all, &cursor, &key, &value)) {
        free(((node_pulled_t *)value)->list);
        free(value);
    }
    base_map_fini(&p->all);
    base_map_fini(&p->shelves);
    vec_free(&p->todo);
    vec_free(&p->servings);
    vec_free(&p->lists);
    uv_close((uv_handle_t *)&p->timer, on_closed);
}
