/* Frames and their ends, as liar.h's peers write them. */
#ifndef TESTS_NODE_LIAR_FRAMES_H
#define TESTS_NODE_LIAR_FRAMES_H

#include "frame/done.h"
#include "frame/frame.h"

/* A frame of B's that names B's objects and A's. */
static size_t frame_of(mob_kind_t kind, bool flows, uint8_t **ret_bytes) {
    frame_id_t ids[4] = {known[4], known[2], known[3]};
    if (flows) memcpy(&ids[1], (frame_id_t[3]){{0}, known[2], known[3]}, 3 * sizeof *ids);
    frame_amount_t one = {"CPU", amount()}, held = {"CPU", amount()};
    frame_t f = {.kind = (uint8_t)kind,
                 .max_retries = 1,
                 .limit = 1,
                 .job = job_of(B),
                 .actor = kind == MOB_ACTOR_CALL ? known[2] : (frame_id_t){0},
                 .demand = {&one, 1},
                 .held = {&held, 1},
                 .where = {.selector = ""},
                 .ids = ids,
                 .flows = flows,
                 .flow_limit = (uint32_t)odd_number(),
                 .num_returns = flows ? 2 : 1,
                 .num_deps = 1,
                 .num_refs = 1,
                 .name = "work",
                 .name_size = 4,
                 .args = (const uint8_t *)"arguments",
                 .args_size = 9};
    size_t size;
    assert_int_equal(frame_write(&f, ret_bytes, &size), MOB_OK);
    return size;
}

static size_t done_of(frame_end_t end, uint8_t **ret_bytes) {
    frame_id_t inside = known[1];
    frame_value_t values[2] = {
        {.format = MOB_FORMAT_PICKLE, .bytes = (const uint8_t *)"abc", .size = 3},
        {.format = MOB_FORMAT_PICKLE,
         .bytes = (const uint8_t *)"abc",
         .size = 3,
         .refs = &inside,
         .num_refs = 1}};
    frame_done_t d = {.end = end,
                      .values = values,
                      .num_values = end == FRAME_RESULTS ? 1 + next_random() % 2 : 0,
                      .pid = 7,
                      .text = "words",
                      .text_size = 5};
    size_t size;
    assert_int_equal(frame_done_write(&d, ret_bytes, &size), MOB_OK);
    return size;
}

#endif
