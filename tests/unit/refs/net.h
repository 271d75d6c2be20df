/* A few nodes with ordered links between them, as the daemon would have them. Nothing moves by
 * itself: a test says which message is delivered when. A node holds everything that comes. */
#ifndef UNIT_REFS_NET_H
#define UNIT_REFS_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/vec.h"
#include "refs/refs.h"

enum { NODES = 5, TOLD_MAX = 8 };

typedef struct {
    bool is_frame;
    frame_id_t container; /* home 0: none */
    frame_id_t ids[4];
    size_t count;
    uint8_t bytes[REFS_MESSAGE_MAX];
} letter_t;

typedef struct {
    frame_id_t ids[TOLD_MAX];
    size_t count;
} told_t;

typedef struct {
    refs_t *refs;
    told_t freed, gone, forgotten;
    refs_reason_t reason;
    size_t kept, sends, waits;
    uint64_t closed;
    bool is_dead[NODES]; /* as it knows */
    mob_status_t send_status;
} node_t;

static node_t nodes[NODES];
static VEC(letter_t *) ways[NODES][NODES];
static uint64_t sent[NODES][NODES], received[NODES][NODES];
static bool is_down[NODES];

/* Incarnations are 1 to NODES. */
static inline frame_id_t object(size_t home, uint32_t number) {
    return (frame_id_t){home + 1, number, 1};
}

static inline void told_add(told_t *told, frame_id_t id) {
    if (told->count < TOLD_MAX) told->ids[told->count] = id;
    told->count++;
}

static inline letter_t *letter_add(size_t from, size_t to) {
    letter_t *letter = calloc(1, sizeof *letter);
    assert_non_null(letter);
    assert_true(vec_push(&ways[from][to], letter));
    sent[from][to]++;
    return letter;
}

static mob_status_t op_send(void *context, uint64_t peer, const void *bytes, size_t size) {
    node_t *node = context;
    node->sends++;
    if (node->send_status != MOB_OK) return node->send_status;
    if (peer > NODES) return MOB_OK; /* nobody reads it */
    if (node->is_dead[peer - 1]) return MOB_ECLOSED;
    letter_t *letter = letter_add((size_t)(node - nodes), peer - 1);
    assert_in_range(size, 1, REFS_MESSAGE_MAX);
    memcpy(letter->bytes, bytes, letter->count = size);
    return MOB_OK;
}
static bool op_is_dead(void *context, uint64_t node) {
    return node == 0 || (node <= NODES && ((node_t *)context)->is_dead[node - 1]);
}
static void op_free(void *context, frame_id_t id) { told_add(&((node_t *)context)->freed, id); }
static void op_gone(void *context, frame_id_t id, refs_reason_t reason) {
    told_add(&((node_t *)context)->gone, id);
    ((node_t *)context)->reason = reason;
}
static void op_forget(void *context, frame_id_t id) {
    told_add(&((node_t *)context)->forgotten, id);
}
static void op_kept(void *context, uint64_t peer, uint64_t sequence) {
    (void)peer, (void)sequence;
    ((node_t *)context)->kept++;
}
static void op_closed(void *context, uint64_t number) { ((node_t *)context)->closed = number; }

static const refs_ops_t ops = {op_send,   op_is_dead, op_free,  op_gone,
                               op_forget, op_kept,    op_closed};

static inline int net_make(void **state) {
    (void)state;
    memset(nodes, 0, sizeof nodes);
    memset(sent, 0, sizeof sent);
    memset(received, 0, sizeof received);
    memset(is_down, 0, sizeof is_down);
    for (size_t i = 0; i < NODES; i++)
        if (refs_new(&ops, &nodes[i], i + 1, 0, &nodes[i].refs) != MOB_OK) return -1;
    return 0;
}

static inline int net_free(void **state) {
    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        refs_free(nodes[i].refs);
        for (size_t j = 0; j < NODES; j++) {
            for (size_t k = 0; k < ways[i][j].count; k++) free(ways[i][j].items[k]);
            vec_free(&ways[i][j]);
        }
    }
    return 0;
}

static inline void flush(size_t node) { assert_int_equal(refs_flush(nodes[node].refs), MOB_OK); }

/* A frame from one node to another, on its way. */
static inline void give(size_t from, size_t to, frame_id_t id) {
    assert_int_equal(refs_frame_send(nodes[from].refs, to + 1, sent[from][to] + 1, &id, 1), MOB_OK);
    letter_t *letter = letter_add(from, to);
    letter->is_frame = true;
    letter->ids[letter->count++] = id;
}

static inline void give_list(size_t from, size_t to, frame_id_t container, frame_id_t id) {
    assert_int_equal(
        refs_list_send(nodes[from].refs, to + 1, sent[from][to] + 1, container, &id, 1), MOB_OK);
    letter_t *letter = letter_add(from, to);
    letter->is_frame = true;
    letter->container = container;
    letter->ids[letter->count++] = id;
}

static inline void letter_take(size_t from, size_t to, const letter_t *letter) {
    refs_t *refs = nodes[to].refs;
    uint64_t number = ++received[from][to];
    bool waits = false;
    mob_status_t status;
    if (!letter->is_frame)
        status = refs_message(refs, from + 1, letter->bytes, letter->count);
    else if (letter->container.home != 0)
        status = refs_list_came(refs, from + 1, number, letter->container, letter->ids,
                                letter->count, &waits);
    else
        status = refs_frame_came(refs, from + 1, number, letter->ids, letter->count, &waits);
    assert_int_equal(status, MOB_OK);
    nodes[to].waits += waits;
    for (size_t i = 0; letter->is_frame && i < letter->count; i++) refs_held(refs, letter->ids[i]);
    if (letter->container.home != 0) refs_held(refs, letter->container);
}

/* The next one from one node to another is delivered, and the receiver's turn ends. */
static inline void deliver(size_t from, size_t to) {
    assert_true(ways[from][to].count > 0);
    letter_t *letter = ways[from][to].items[0];
    memmove(ways[from][to].items, ways[from][to].items + 1, --ways[from][to].count * sizeof letter);
    if (!is_down[from] && !is_down[to]) letter_take(from, to, letter);
    free(letter);
    flush(to);
}

/* Everything is delivered, until nothing is said any more. */
static inline void settle(void) {
    bool goes_on = true;
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].refs != NULL) flush(i);
    while (goes_on) {
        goes_on = false;
        for (size_t i = 0; i < NODES; i++)
            for (size_t j = 0; j < NODES; j++)
                for (; ways[i][j].count > 0; goes_on = true) deliver(i, j);
    }
}

static inline void unhold(size_t node, frame_id_t id) {
    assert_false(refs_unheld(nodes[node].refs, id));
    flush(node);
}

static inline bool is_told(const told_t *told, frame_id_t id) {
    return told->count == 1 && told->ids[0].home == id.home && told->ids[0].number == id.number;
}

/* Nothing is on the books of these nodes. */
static inline void assert_empty(size_t first, size_t last) {
    for (size_t i = first; i <= last; i++) {
        refs_counts_t c = refs_count(nodes[i].refs);
        assert_int_equal(c.own + c.holders + c.away + c.sent + c.came + c.dead, 0);
        assert_int_equal(nodes[i].kept, nodes[i].waits);
    }
}

/* The node is dead: nothing of it moves any more, and `to` hears of it. */
static inline void tell_death(size_t dead, size_t to, uint64_t number) {
    is_down[dead] = true;
    nodes[to].is_dead[dead] = true;
    refs_died(nodes[to].refs, dead + 1, number);
    flush(to);
}

#endif
