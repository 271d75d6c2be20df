/* How fast a leader of a thousand nodes answers: the number is printed, and a lax bound is kept. */
#include <stdio.h>
#include <time.h>

#include "town.h"

enum { MANY = 1000, QUESTIONS = 200000 };

static uint64_t granted;

static void count_send(void *context, uint64_t to, const void *head, size_t head_size,
                       const void *body, size_t body_size, bool is_answer) {
    (void)context, (void)to, (void)head_size, (void)body, (void)body_size, (void)is_answer;
    granted += *(const uint8_t *)head == MESSAGE_GRANT;
}

static void nothing_free(void *context, int64_t *ret_free) {
    (void)context;
    *ret_free = 0;
}

static void view_say(place_t *place, uint64_t node, uint64_t free) {
    uint8_t bytes[128];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, MESSAGE_VIEW, 1);
    base_put_number(&w, 1, 8);
    base_put_number(&w, node, 8); /* any version */
    place_message_text_write(&w, "");
    base_put_number(&w, 2, 1);
    place_message_text_write(&w, "CPU");
    base_put_number(&w, 64, 8);
    base_put_number(&w, free, 8);
    place_message_text_write(&w, node % 10 == 0 ? "GPU" : "memory");
    base_put_number(&w, 8, 8);
    base_put_number(&w, 8, 8);
    assert_int_equal(place_receive(place, node, bytes, w.size, 1), MOB_OK);
}

static void ask(place_t *place, uint64_t origin, uint32_t lane, const uint8_t *demand,
                size_t size) {
    uint8_t bytes[256];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, MESSAGE_ASK, 1);
    base_put_number(&w, 1, 8);
    base_put_number(&w, lane, 4);
    base_put_number(&w, 1, 4);
    base_put_number(&w, 1, 4);
    base_put_number(&w, 0, 4);
    base_put_number(&w, MESSAGE_LOCAL, 1);
    base_put_number(&w, 0, 1);
    base_put_bytes(&w, demand, size);
    assert_int_equal(place_receive(place, origin, bytes, w.size, 1), MOB_OK);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void questions_measure(const char *what, bool is_full) {
    place_ops_t ops = town_ops;
    ops.send = count_send;
    ops.free_amounts = nothing_free;
    place_t *place = place_new(&ops, NULL, 1);
    assert_non_null(place);
    place_leads(place, 1, 1);
    place_tick(place, 1);
    for (uint64_t node = 2; node < 2 + MANY; node++) view_say(place, node, is_full ? 0 : 64);
    place_demand_t demand = one_cpu();
    uint8_t *bytes;
    size_t size;
    assert_int_equal(place_message_demand_write(&demand, &bytes, &size), MOB_OK);
    double begun = seconds();
    granted = 0;
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        uint64_t node = 2 + i % MANY;
        ask(place, node, is_full ? i / MANY : 1, bytes, size);
        if (i % 32 == 0) view_say(place, 2 + (i / 32) % MANY, is_full ? 0 : 64);
        place_tick(place, 1);
    }
    double rate = QUESTIONS / (seconds() - begun);
    printf("%s: %.0f questions a second, %d nodes\n", what, rate, MANY);
    assert_true(rate > 20000);
    assert_true(is_full ? granted == 0 : granted > QUESTIONS / 2);
    free(bytes);
    place_free(place);
}

static void test_questions_with_room(void **state) {
    (void)state;
    questions_measure("with room", false);
}

static void test_questions_without_room(void **state) {
    (void)state;
    questions_measure("without room", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions_with_room),
        cmocka_unit_test(test_questions_without_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
