/*
 * A few nodes with their rooms, for the tests: messages come when the test says so, a node's queue
 * starts what fits, and the test ends runs by hand. A frame is the task's record, as 4 bytes.
 */
#ifndef UNIT_PLACE_TOWN_H
#define UNIT_PLACE_TOWN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/vec.h"
#include "place/message.h"
#include "place/place.h"

enum { NODES = 3, TASKS = 4096, LETTERS = 65536, MS = 1000000 };

typedef struct {
    int node; /* where it is */
    place_guest_t *guest;
    uint32_t record;
    bool may_start, runs, was_stopped;
} guest_t;

typedef struct {
    int from, to;
    size_t size;
    uint8_t bytes[512];
} letter_t;

typedef struct {
    place_t *place;
    int64_t total, free;
    uint32_t ready[TASKS]; /* records that wait, oldest last */
    uint32_t ready_count;
    int retries[TASKS];
    uint8_t moves[TASKS];
    int ended[TASKS]; /* outcome + 1 */
    place_lane_t *lane;
    uint32_t kept, impossible, refused;
    bool is_sick;
} town_node_t;

typedef struct {
    town_node_t nodes[NODES];
    VEC(letter_t *) letters;
    VEC(guest_t *) guests;
    uint64_t now_ns;
    uint64_t sent[16]; /* letters by kind */
} town_t;

static town_t *town;

static inline uint64_t id_of(int node) { return 100 + (uint64_t)node; }
static inline int index_of(void *context) { return (int)((town_node_t *)context - town->nodes); }

static inline void town_send(void *context, uint64_t to, const void *head, size_t head_size,
                             const void *body, size_t body_size, bool is_answer) {
    (void)is_answer;
    letter_t *letter = test_malloc(sizeof *letter);
    *letter = (letter_t){index_of(context), (int)(to - 100), head_size + body_size, {0}};
    assert_true(letter->size <= sizeof letter->bytes);
    memcpy(letter->bytes, head, head_size);
    if (body_size > 0) memcpy(letter->bytes + head_size, body, body_size);
    town->sent[letter->bytes[0]]++;
    assert_true(vec_push(&town->letters, letter));
}

static inline bool town_take(void *context, void *lane, uint64_t to, place_task_t *ret_task) {
    town_node_t *node = context;
    static uint32_t frame;
    (void)lane, (void)to;
    if (node->ready_count == 0) return false;
    frame = node->ready[--node->ready_count];
    *ret_task = (place_task_t){frame, node->retries[frame], node->moves[frame], &frame, 4};
    return true;
}

static inline void town_put_back(void *context, uint32_t record, int32_t retries, uint8_t moves) {
    town_node_t *node = context;
    node->retries[record] = retries;
    node->moves[record] = moves;
    node->ready[node->ready_count++] = record;
}

static inline void town_ended(void *context, uint32_t record, place_outcome_t outcome,
                              const void *value, size_t size) {
    (void)value, (void)size;
    town_node_t *node = context;
    assert_int_equal(node->ended[record], 0);
    node->ended[record] = outcome + 1;
}

static inline void town_keep(void *context, void *lane, uint32_t count) {
    (void)lane;
    town_node_t *node = context;
    node->kept += count;
    node->ready_count -= count;
}

static inline void town_impossible(void *context, void *lane) {
    (void)lane;
    ((town_node_t *)context)->impossible++;
}

static inline uint32_t town_fits(void *context, const frame_amount_t *amounts, size_t count,
                                 uint32_t most) {
    (void)amounts, (void)count;
    return ((town_node_t *)context)->is_sick ? 0 : most;
}

static inline void town_free_amounts(void *context, int64_t *ret_free) {
    *ret_free = ((town_node_t *)context)->free;
}

static inline mob_status_t town_admit(void *context, place_guest_t *guest, uint64_t origin,
                                      const void *frame, size_t size, void **ret_task) {
    (void)origin;
    if (size != 4) return MOB_EPROTO;
    guest_t *g = test_calloc(1, sizeof *g);
    g->node = index_of(context);
    g->guest = guest;
    memcpy(&g->record, frame, 4);
    assert_true(vec_push(&town->guests, g));
    *ret_task = g;
    return MOB_OK;
}

static inline void town_refuse(void *context, uint64_t origin, const void *frame, size_t size) {
    (void)origin, (void)frame, (void)size;
    ((town_node_t *)context)->refused++;
}

static inline void town_queue(void *context, void *task) {
    (void)context;
    ((guest_t *)task)->may_start = true;
}

static inline bool town_unqueue(void *context, void *task) {
    (void)context;
    ((guest_t *)task)->may_start = false;
    return !((guest_t *)task)->runs;
}

static inline void guest_remove(guest_t *guest) {
    for (size_t i = 0; i < town->guests.count; i++)
        if (town->guests.items[i] == guest) vec_swap_remove(&town->guests, i);
    test_free(guest);
}

static inline void town_drop(void *context, void *task) {
    (void)context;
    assert_false(((guest_t *)task)->runs);
    guest_remove(task);
}

static inline void town_stop(void *context, void *task, uint32_t how) {
    (void)context, (void)how;
    ((guest_t *)task)->was_stopped = true;
}

static inline bool town_matches(void *context, const char *labels, const char *selector) {
    (void)context;
    return strcmp(labels, selector) == 0;
}

static const place_ops_t town_ops = {
    .send = town_send,
    .take = town_take,
    .put_back = town_put_back,
    .ended = town_ended,
    .keep = town_keep,
    .impossible = town_impossible,
    .fits = town_fits,
    .free_amounts = town_free_amounts,
    .admit = town_admit,
    .refuse = town_refuse,
    .queue = town_queue,
    .unqueue = town_unqueue,
    .drop = town_drop,
    .stop = town_stop,
    .matches = town_matches,
};

/* ---- its course ---- */

static inline void town_start_guests(void) {
    for (size_t i = 0; i < town->guests.count; i++) {
        guest_t *g = town->guests.items[i];
        if (!g->may_start || g->runs || town->nodes[g->node].free <= 0) continue;
        g->runs = true;
        town->nodes[g->node].free--;
        place_guest_begun(town->nodes[g->node].place, g->guest, town->now_ns);
        place_free_changed(town->nodes[g->node].place);
    }
}

static inline void town_tick(void) {
    town_start_guests();
    for (int i = 0; i < NODES; i++)
        if (town->nodes[i].place != NULL) place_tick(town->nodes[i].place, town->now_ns);
}

/* The oldest letter comes. False: there is none. */
static inline bool town_deliver(void) {
    if (town->letters.count == 0) return false;
    letter_t *letter = town->letters.items[0];
    town->letters.count--;
    memmove(town->letters.items, town->letters.items + 1,
            town->letters.count * sizeof *town->letters.items);
    place_t *to = town->nodes[letter->to].place;
    if (to != NULL)
        assert_int_equal(
            place_receive(to, id_of(letter->from), letter->bytes, letter->size, town->now_ns),
            MOB_OK);
    test_free(letter);
    return true;
}

/* All letters come, and what follows from them, while `ms` pass. */
static inline void town_pass(int ms) {
    for (int i = 0; i <= ms; i++) {
        town_tick();
        while (town_deliver()) town_tick();
        if (i < ms) town->now_ns += MS;
    }
}

static inline void town_done(guest_t *g, place_outcome_t outcome) {
    assert_true(town->guests.count > 0);
    town_node_t *node = &town->nodes[g->node];
    node->free += g->runs;
    place_free_changed(node->place);
    place_guest_done(node->place, g->guest, outcome, "v", 1, town->now_ns);
    guest_remove(g);
}

/* Node 0 leads; each has that many CPUs. */
static inline void town_new(const int64_t *cpus) {
    town = test_calloc(1, sizeof *town);
    town->now_ns = 1000 * (uint64_t)MS;
    for (int i = 0; i < NODES; i++) {
        town_node_t *node = &town->nodes[i];
        frame_amount_t total = {"CPU", (uint64_t)cpus[i]};
        node->total = node->free = cpus[i];
        node->place = place_new(&town_ops, node, id_of(i));
        assert_non_null(node->place);
        assert_int_equal(place_resources_set(node->place, &total, 1, i == 2 ? "zone=a" : ""),
                         MOB_OK);
        for (int j = 0; j < NODES; j++)
            if (j != i) assert_int_equal(place_peer_joined(node->place, id_of(j)), MOB_OK);
    }
    for (int i = 0; i < NODES; i++) place_leads(town->nodes[i].place, id_of(0), 1);
    town_pass(20);
}

static inline void town_free(void) {
    for (int i = 0; i < NODES; i++) place_free(town->nodes[i].place);
    for (size_t i = 0; i < town->letters.count; i++) test_free(town->letters.items[i]);
    while (town->guests.count > 0) guest_remove(town->guests.items[0]);
    vec_free(&town->letters);
    vec_free(&town->guests);
    test_free(town);
}

static const frame_job_t job = {7, 1};

static inline place_demand_t one_cpu(void) {
    static const frame_amount_t amount = {"CPU", 1};
    return (place_demand_t){.job = job, .amounts = &amount, .count = 1};
}

/* So many tasks of node 0, from this record on, wait in a lane of this demand. */
static inline void town_submit(int node, place_demand_t demand, uint32_t first, uint32_t count,
                               int retries) {
    town_node_t *n = &town->nodes[node];
    if (n->lane == NULL) assert_int_equal(place_lane_new(n->place, &demand, n, &n->lane), MOB_OK);
    for (uint32_t i = 0; i < count; i++) {
        n->retries[first + i] = retries;
        n->ready[n->ready_count++] = first + i;
    }
    place_lane_waiting(n->place, n->lane, n->ready_count, town->now_ns);
}

static inline place_counts_t counts_of(int node) {
    place_counts_t counts;
    place_counts(town->nodes[node].place, &counts);
    return counts;
}

static inline guest_t *guest_of(uint32_t record) {
    for (size_t i = 0; i < town->guests.count; i++)
        if (town->guests.items[i]->record == record) return town->guests.items[i];
    return NULL;
}

#endif
