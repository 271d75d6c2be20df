/* Three nodes whose messages, chunks and answers come at once, in order. */
#ifndef PULL_FIXTURE_H
#define PULL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pull/message.h"
#include "pull/pull.h"

enum { NODES = 3, QUEUE = 4096 };

typedef struct node {
    uint64_t self;
    pull_t *pull;
    size_t extents, ready, failed, lost, sealed, asked;
    mob_status_t why;
    pull_question_t question; /* the last one */
} node_t;

typedef struct {
    enum { MESSAGE, CHUNK, SERVED, GONE_FROM, SEALED } what;
    node_t *to;
    uint64_t from, ticket;
    frame_id_t id;
    uint32_t chunk;
    size_t size;
    uint8_t bytes[PULL_MESSAGE_MAX];
} item_t;

static node_t nodes[NODES];
static item_t queue[QUEUE];
static size_t queue_first, queue_count;
static uint64_t now_ns = 1;

static node_t *node_of(uint64_t incarnation) {
    for (int i = 0; i < NODES; i++)
        if (nodes[i].self == incarnation) return &nodes[i];
    return NULL;
}

static void put(item_t item) {
    assert_true(queue_count < QUEUE);
    queue[queue_count++] = item;
}

static void on_send(void *context, uint64_t peer, const void *bytes, size_t size, bool is_answer) {
    (void)is_answer;
    node_t *to = node_of(peer);
    if (to == NULL) return;
    item_t item = {.what = MESSAGE, .to = to, .from = ((node_t *)context)->self, .size = size};
    memcpy(item.bytes, bytes, size);
    put(item);
}

static void on_ask(void *context, const pull_question_t *question, script_fn script,
                   const void *arguments, size_t size) {
    (void)script;
    (void)arguments;
    (void)size;
    ((node_t *)context)->asked++;
    ((node_t *)context)->question = *question;
}

static void on_said(void *context, uint64_t master) {
    (void)context;
    (void)master;
}

static mob_status_t on_object_state(void *context, const frame_id_t *id) {
    (void)context;
    return id->number < 100 ? MOB_OK : MOB_ELOST; /* others are being made */
}

static void on_lost(void *context, const frame_id_t *id) {
    (void)id;
    ((node_t *)context)->lost++;
}

static void on_id(void *context, const frame_id_t *id) {
    (void)context;
    (void)id;
}

static bool on_extent_new(void *context, const frame_id_t *id, uint64_t size) {
    (void)id;
    (void)size;
    ((node_t *)context)->extents++;
    return true;
}

static void on_extent_free(void *context, const frame_id_t *id) {
    (void)context;
    (void)id;
}

static void on_fetch(void *context, uint64_t ticket, const frame_id_t *id, uint32_t chunk,
                     uint64_t source) {
    (void)context;
    (void)ticket;
    (void)id;
    (void)chunk;
    (void)source;
}

static void on_let_go(void *context, uint64_t ticket, const frame_id_t *id) {
    put((item_t){.what = GONE_FROM, .to = context, .ticket = ticket, .id = *id});
}

static void on_serve(void *context, uint64_t reader, uint64_t ticket, const frame_id_t *id,
                     uint32_t chunk) {
    node_t *to = node_of(reader);
    if (to != NULL)
        put((item_t){.what = CHUNK, .to = to, .ticket = ticket, .id = *id, .chunk = chunk});
    put((item_t){.what = SERVED, .to = context, .from = reader, .ticket = ticket});
}

static void on_seal(void *context, const frame_id_t *id) {
    put((item_t){.what = SEALED, .to = context, .id = *id});
}

static void on_ready(void *context, void *user) {
    (void)user;
    ((node_t *)context)->ready++;
}

static void on_failed(void *context, void *user, const frame_id_t *id, mob_status_t why) {
    (void)user;
    (void)id;
    ((node_t *)context)->failed++;
    ((node_t *)context)->why = why;
}

static const pull_ops_t ops = {
    .send = on_send,
    .ask = on_ask,
    .said = on_said,
    .object_state = on_object_state,
    .lost = on_lost,
    .owned = on_id,
    .extent_new = on_extent_new,
    .spill = on_id,
    .extent_free = on_extent_free,
    .fetch = on_fetch,
    .let_go = on_let_go,
    .serve = on_serve,
    .seal = on_seal,
    .ready = on_ready,
    .failed = on_failed,
};

static void item_do(const item_t *item) {
    pull_t *pull = item->to->pull;
    if (pull == NULL) return;
    switch (item->what) {
    case MESSAGE:
        assert_int_equal(pull_receive(pull, item->from, item->bytes, item->size, now_ns), MOB_OK);
        break;
    case CHUNK:
        pull_chunk_came(pull, item->ticket, &item->id, item->chunk, true, now_ns);
        break;
    case SERVED:
        pull_served(pull, item->from, item->ticket, now_ns);
        break;
    case GONE_FROM:
        pull_let_go(pull, item->ticket, &item->id, now_ns);
        break;
    case SEALED:
        item->to->sealed++;
        pull_sealed(pull, &item->id, MOB_OK, now_ns);
        break;
    }
}

/* All that is under way comes. */
static inline void run(void) {
    while (queue_first < queue_count) {
        item_t item = queue[queue_first++];
        item_do(&item);
    }
    queue_first = queue_count = 0;
}

static int setup(void **state) {
    (void)state;
    queue_first = queue_count = 0;
    for (int i = 0; i < NODES; i++) {
        nodes[i] = (node_t){.self = (uint64_t)i + 1};
        assert_int_equal(pull_new(&ops, &nodes[i], nodes[i].self, &nodes[i].pull), MOB_OK);
        pull_memory_set(nodes[i].pull, 16 * (uint64_t)PULL_CHUNK, now_ns);
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++) pull_free(nodes[i].pull);
    return 0;
}

static frame_id_t object(uint64_t home, uint32_t number) {
    return (frame_id_t){.home = home, .number = number, .generation = 1};
}

static void make(uint64_t home, uint32_t number, uint32_t chunks) {
    frame_id_t id = object(home, number);
    assert_int_equal(
        pull_object_add(node_of(home)->pull, &id, 1, chunks * (uint64_t)PULL_CHUNK, home, now_ns),
        MOB_OK);
}

static pull_want_t *want(node_t *node, pull_class_t class, const frame_id_t *ids, size_t count) {
    pull_want_t *ret_want;
    assert_int_equal(pull_want_new(node->pull, class, ids, count, NULL, now_ns, &ret_want), MOB_OK);
    return ret_want;
}

#endif
