/* What peers say of items, for liar.h: of flows of A's that are at peers, and of flows that A makes
 * items for. */
#ifndef TESTS_NODE_LIAR_FLOWS_H
#define TESTS_NODE_LIAR_FLOWS_H

#include "node/cluster/flowpost.h"
#include "store/flow.h"

/* A task that yields, as task_submit's. */
static uint32_t flow_submit(daemon_t *d, uint32_t record, uint64_t cpus, mob_ref_t *ret) {
    node_t *n = d->n;
    sched_amount_t demand = {.name = "CPU", .amount = cpus * SCHED_UNIT};
    mob_ref_t link = slot_open_by(d), first = slot_open_by(d);
    *ret = slot_open_by(d);
    wire_record_t *r = fixture_record_fill(n, record, MOB_TASK, *ret, (mob_ref_t){0}, 1);
    r->num_returns = 2;
    r->flags = WIRE_FLOWS;
    memcpy(r->body + sizeof link, &link, sizeof link);
    memcpy(r->body + 2 * sizeof link, "work", 4);
    r->body_size = wire_body_size(2, 0, 0, 4, 0);
    slot_at(d, link)->value.maker = record;
    store_flow_init(&slot_at(d, link)->value.flow, d->client->number, record % 4, first);
    d->client->reads = true;
    fixture_record_publish(r, true);
    assert_int_equal(sched_shape_intern(JOB(n)->sched, &demand, 1, &r->shape), MOB_OK);
    fixture_say(d->client, WIRE_SUBMIT, record, wire_word_generation(atomic_load(&r->word)));
    return record;
}

static void flow_say(int kind, frame_id_t flow, uint64_t index) {
    uint8_t bytes[4096], *done;
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, (uint64_t)kind, 1);
    frame_id_put(&w, flow);
    base_put_number(&w, index, 8);
    if (kind == FLOW_ROOM) {
        base_put_number(&w, index / 2, 8);
        base_put_number(&w, index % 5 == 4, 1);
    }
    if (kind == FLOW_NAMED) frame_id_put(&w, known[index % known_count]);
    if (kind == FLOW_ITEM) {
        size_t size = done_of(FRAME_RESULTS, &done);
        base_put_bytes(&w, done, size);
        free(done);
    }
    sample_add(POST_FLOW, bytes, w.size);
}

/* `theirs`: of a task of B's, which comes to A, too. */
static void flows_say(frame_id_t theirs) {
    for (int i = 0; i < TASKS; i++)
        for (uint64_t index = 0; index < 6; index++) {
            flow_say(FLOW_ITEM, node_proxy_id(A->n, results[i]), index);
            flow_say(FLOW_NAME, node_proxy_id(A->n, results[i]), index);
            flow_say(FLOW_NAMED, theirs, index);
            flow_say(FLOW_ROOM, theirs, index);
        }
}

#endif
