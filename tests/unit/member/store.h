/* A control state in this process, and nodes that ask it: questions wait until `town_answer`. */
#ifndef UNIT_MEMBER_STORE_H
#define UNIT_MEMBER_STORE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "member/member.h"

enum { KEYS = 256, QUESTIONS = 64, NODES = 4, MS = 1000000, STEP_MS = 10 };

typedef struct {
    char key[SCRIPT_KEY_MAX];
    uint8_t value[SCRIPT_VALUE_MAX];
    size_t size;
    uint64_t expires_ms;
} stored_t;

typedef struct {
    uint64_t request;
    script_fn script;
    uint8_t arguments[SCRIPT_VALUE_MAX];
    size_t size;
} asked_t;

typedef struct {
    member_t *member;
    asked_t asked[QUESTIONS];
    size_t asked_count, asked_ever;
    bool is_cut;  /* from the state */
    bool is_mute; /* nobody hears it any more */
    bool is_paused, is_gone;
    uint64_t began, end_ns, leader, fence, master, settled, struck, joined, died, died_number;
    member_end_t over;
    char poisoned[SCRIPT_KEY_MAX];
} node_t;

static stored_t stored[KEYS];
static size_t stored_count;
static uint64_t clock_ms, copy_number = 1;
static node_t nodes[NODES];

static stored_t *key_find(const char *key) {
    for (size_t i = 0; i < stored_count; i++)
        if (strcmp(stored[i].key, key) == 0 &&
            (stored[i].expires_ms == 0 || stored[i].expires_ms > clock_ms))
            return &stored[i];
    return NULL;
}

static const void *key_get(void *context, const char *key, size_t *ret_size) {
    (void)context;
    stored_t *at = key_find(key);
    if (at == NULL) return NULL;
    *ret_size = at->size;
    return at->value;
}

static void key_del(void *context, const char *key) {
    (void)context;
    for (size_t i = stored_count; i-- > 0;)
        if (strcmp(stored[i].key, key) == 0) stored[i] = stored[--stored_count];
}

static void key_set(void *context, const char *key, const void *value, size_t size,
                    uint64_t ttl_ms) {
    key_del(context, key);
    assert_true(stored_count < KEYS && size <= SCRIPT_VALUE_MAX);
    stored_t *at = &stored[stored_count++];
    strcpy(at->key, key);
    memcpy(at->value, value, size);
    at->size = size;
    at->expires_ms = ttl_ms > 0 ? clock_ms + ttl_ms : 0;
}

static const char *key_next(void *context, const char *prefix, const char *after) {
    (void)context;
    const char *first = NULL;
    for (size_t i = 0; i < stored_count; i++) {
        const char *key = stored[i].key;
        if (key_find(key) == NULL || strncmp(key, prefix, strlen(prefix)) != 0) continue;
        if (after != NULL && strcmp(key, after) <= 0) continue;
        if (first == NULL || strcmp(key, first) < 0) first = key;
    }
    return first;
}

static script_keys_t keys_now(void) {
    return (script_keys_t){NULL, clock_ms, copy_number, key_get, key_set, key_del, key_next};
}

static void op_ask(void *context, uint64_t request, script_fn script, const void *arguments,
                   size_t size) {
    node_t *node = context;
    assert_true(node->asked_count < QUESTIONS);
    asked_t *asked = &node->asked[node->asked_count++];
    node->asked_ever++;
    *asked = (asked_t){.request = request, .script = script, .size = size};
    memcpy(asked->arguments, arguments, size);
}

static void op_send(void *context, uint64_t peer, const void *bytes, size_t size) {
    (void)context;
    if (peer <= NODES && nodes[peer - 1].member != NULL)
        assert_int_equal(member_receive(nodes[peer - 1].member, clock_ms * MS, 1, bytes, size),
                         MOB_OK);
}

static void op_began(void *context, uint64_t number) { ((node_t *)context)->began = number; }

static void op_joined(void *context, uint64_t peer, const void *blob, size_t size) {
    (void)peer;
    assert_true(size == 4 && memcmp(blob, "blob", 4) == 0);
    ((node_t *)context)->joined++;
}

static void op_died(void *context, uint64_t peer, uint64_t number) {
    node_t *node = context;
    assert_true(number > node->died_number);
    node->died = peer;
    node->died_number = number;
}

static void op_struck(void *context, uint64_t number) { ((node_t *)context)->struck = number; }
static void op_term(void *context, uint64_t end_ns) { ((node_t *)context)->end_ns = end_ns; }
static void op_paused(void *context, bool paused) { ((node_t *)context)->is_paused = paused; }

static void op_leads(void *context, uint64_t leader, uint64_t fence) {
    node_t *node = context;
    node->leader = leader;
    node->fence = fence;
}

static void op_master(void *context, uint64_t master) { ((node_t *)context)->master = master; }
static void op_settled(void *context, uint64_t master) { ((node_t *)context)->settled = master; }

static void op_over(void *context, member_end_t why, uint64_t number) {
    (void)number;
    ((node_t *)context)->over = why;
}

static void op_poisoned(void *context, const char *key) {
    strcpy(((node_t *)context)->poisoned, key);
}

static const member_ops_t ops = {op_ask,     op_send, op_began,   op_joined, op_died,
                                 op_struck,  op_term, op_paused,  op_leads,  op_master,
                                 op_settled, op_over, op_poisoned};

/* Of the nodes that are started from now on. */
static uint64_t patience_ms, newcomer_ms;

/* Node number `self`, from 1; the first one founds. */
static node_t *node_start(uint64_t self) {
    node_t *node = &nodes[self - 1];
    *node = (node_t){.is_paused = true};
    member_config_t config = {.self = self,
                              .cluster = {7, 8},
                              .founds = self == 1,
                              .blob = "blob",
                              .blob_size = 4,
                              .patience_ms = patience_ms,
                              .newcomer_ms = newcomer_ms};
    mob_status_t status;
    while ((status = member_new(&config, &ops, node, &node->member)) == MOB_ENOMEM) {
    }
    assert_int_equal(status, MOB_OK);
    return node;
}

static void node_answer(node_t *node) {
    while (node->asked_count > 0) {
        asked_t asked = node->asked[0];
        memmove(node->asked, node->asked + 1, --node->asked_count * sizeof asked);
        script_keys_t keys = keys_now();
        uint8_t answer[SCRIPT_ANSWER_MAX];
        size_t size = 0;
        if (!node->is_cut) size = asked.script(&keys, asked.arguments, asked.size, answer);
        assert_true(size <= sizeof answer);
        assert_int_equal(member_answer(node->member, clock_ms * MS, asked.request,
                                       size > 0 ? answer : NULL, size),
                         MOB_OK);
    }
}

static void town_beat(void) {
    uint8_t pulse[MEMBER_PULSE_SIZE];
    for (uint64_t a = 1; a <= NODES; a++)
        for (uint64_t b = 1; b <= NODES; b++) {
            node_t *from = &nodes[a - 1], *to = &nodes[b - 1];
            if (a == b || from->member == NULL || to->member == NULL) continue;
            if (from->is_gone || to->is_gone || from->is_mute) continue;
            member_pulse_write(from->member, clock_ms * MS, b, pulse);
            assert_int_equal(member_pulse_read(to->member, clock_ms * MS, a, pulse, sizeof pulse),
                             MOB_OK);
        }
}

/* Time passes, with heartbeats and answers. */
static void town_run(uint64_t for_ms) {
    for (uint64_t end = clock_ms + for_ms; clock_ms < end; clock_ms += STEP_MS) {
        for (int i = 0; i < NODES; i++) {
            if (nodes[i].member == NULL || nodes[i].is_gone) continue;
            member_tick(nodes[i].member, clock_ms * MS);
            node_answer(&nodes[i]);
        }
        if (clock_ms % MEMBER_RENEW_MS == 0) town_beat();
    }
}

static int town_begin(void **state) {
    (void)state;
    stored_count = 0;
    clock_ms = 1000000;
    memset(nodes, 0, sizeof nodes);
    return 0;
}

static int town_end(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++) member_free(nodes[i].member);
    patience_ms = newcomer_ms = 0;
    return 0;
}

#endif
