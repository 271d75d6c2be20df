/* Messages between nodes: written and read back the same; and whatever else is read, nothing of it
 * is believed, and no more memory is taken than it has bytes for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "frame/done.h"
#include "frame/drop.h"
#include "frame/id.h"
#include "frame/message.h"
#include "frame/order.h"

enum { MOST_VALUES = 4, MOST_REFS = 5, MOST_BYTES = 200, ROUNDS = 20000 };

/* A random end, and the memory that it names. */
typedef struct {
    frame_done_t done;
    frame_value_t values[MOST_VALUES];
    frame_id_t refs[MOST_VALUES][MOST_REFS];
    uint8_t bytes[MOST_VALUES][MOST_BYTES];
    char text[MOST_BYTES];
} sample_t;

static frame_id_t id_random(void) {
    return (frame_id_t){
        .home = next_random(), .number = (uint32_t)next_random(), .generation = next_random()};
}

static void value_fill(sample_t *s, uint32_t i) {
    frame_value_t *v = &s->values[i];
    v->at = next_random() % 2 ? id_random() : (frame_id_t){0};
    if (!frame_id_is_none(v->at)) v->stayed_bytes = next_random(), v->pulled_bytes = next_random();
    v->format = (uint8_t)(next_random() % (MOB_FORMAT_PICKLE + 1));
    v->error = (uint8_t)next_random();
    v->bytes = s->bytes[i];
    v->size = next_random() % MOST_BYTES;
    v->refs = s->refs[i];
    v->num_refs = next_random() % MOST_REFS;
    for (size_t k = 0; k < MOST_BYTES; k++) s->bytes[i][k] = (uint8_t)next_random();
    for (size_t k = 0; k < MOST_REFS; k++) s->refs[i][k] = id_random();
}

static void sample_fill(sample_t *s) {
    memset(s, 0, sizeof *s);
    frame_done_t *d = &s->done;
    d->end = (frame_end_t)(FRAME_RESULTS + next_random() % FRAME_REFUSED);
    d->begun = next_random() % 2;
    d->oom = next_random() % 2;
    d->oom_again = next_random() % 2;
    d->pid = (int32_t)next_random();
    d->status = (uint8_t)next_random();
    d->text = s->text;
    d->text_size = next_random() % MOST_BYTES;
    memset(s->text, 'w', sizeof s->text);
    d->values = s->values;
    d->num_values = d->end == FRAME_RESULTS ? next_random() % (MOST_VALUES + 1) : 0;
    for (uint32_t i = 0; i < d->num_values; i++) value_fill(s, i);
}

static void ids_are_equal(frame_id_t a, frame_id_t b) {
    assert_int_equal(a.home, b.home);
    assert_int_equal(a.number, b.number);
    assert_int_equal(a.generation, b.generation);
}

static void values_are_equal(const frame_value_t *a, const frame_value_t *b) {
    ids_are_equal(a->at, b->at);
    assert_int_equal(a->stayed_bytes, b->stayed_bytes);
    assert_int_equal(a->pulled_bytes, b->pulled_bytes);
    assert_int_equal(a->format, b->format);
    assert_int_equal(a->error, b->error);
    assert_int_equal(a->size, b->size);
    if (a->size > 0) assert_memory_equal(a->bytes, b->bytes, a->size);
    assert_int_equal(a->num_refs, b->num_refs);
    for (uint32_t i = 0; i < a->num_refs; i++) ids_are_equal(a->refs[i], b->refs[i]);
}

static void ends_are_equal(const frame_done_t *a, const frame_done_t *b) {
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->begun, b->begun);
    assert_int_equal(a->oom, b->oom);
    assert_int_equal(a->oom_again, b->oom_again);
    assert_int_equal(a->pid, b->pid);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->text_size, b->text_size);
    if (a->text_size > 0) assert_memory_equal(a->text, b->text, a->text_size);
    assert_int_equal(a->num_values, b->num_values);
    for (uint32_t i = 0; i < a->num_values; i++) values_are_equal(&a->values[i], &b->values[i]);
}

static void test_an_end_is_read_as_it_was_written(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        sample_t s;
        uint8_t *bytes;
        size_t size;
        frame_done_t back;
        sample_fill(&s);
        assert_int_equal(frame_done_write(&s.done, &bytes, &size), MOB_OK);
        assert_int_equal(frame_done_read(bytes, size, &back), MOB_OK);
        ends_are_equal(&s.done, &back);
        frame_done_fini(&back);
        free(bytes);
    }
}

static void test_an_end_that_says_too_much_is_not_written(void **state) {
    (void)state;
    uint8_t *bytes;
    size_t size;
    frame_value_t value = {.size = FRAME_VALUE_MOST + 1};
    frame_done_t large = {.end = FRAME_RESULTS, .values = &value, .num_values = 1},
                 wordy = {.end = FRAME_DIED, .text_size = FRAME_TEXT_MOST + 1};
    assert_int_equal(frame_done_write(&large, &bytes, &size), MOB_EINVAL);
    assert_int_equal(frame_done_write(&wordy, &bytes, &size), MOB_EINVAL);
}

static void test_every_shorter_end_is_refused(void **state) {
    (void)state;
    sample_t s;
    uint8_t *bytes;
    size_t size;
    frame_done_t back;
    do sample_fill(&s);
    while (s.done.num_values < 2);
    assert_int_equal(frame_done_write(&s.done, &bytes, &size), MOB_OK);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *part = malloc(cut + 1); /* so that a sanitizer sees what is read behind it */
        memcpy(part, bytes, cut);
        assert_int_equal(frame_done_read(part, cut, &back), MOB_EPROTO);
        free(part);
    }
    free(bytes);
}

/* Ends with some bytes changed: read as something, or refused. */
static void test_changed_ends_do_no_harm(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        sample_t s;
        uint8_t *bytes;
        size_t size;
        frame_done_t back;
        sample_fill(&s);
        assert_int_equal(frame_done_write(&s.done, &bytes, &size), MOB_OK);
        for (uint64_t k = 1 + next_random() % 4; k > 0; k--)
            bytes[next_random() % size] = (uint8_t)next_random();
        if (frame_done_read(bytes, size, &back) == MOB_OK) frame_done_fini(&back);
        free(bytes);
    }
}

static void test_a_count_without_bytes_behind_it_takes_no_memory(void **state) {
    (void)state;
    uint8_t bytes[15] = {FRAME_RESULTS};
    frame_done_t back;
    memset(bytes + 11, 0xff, 4);
    assert_int_equal(frame_done_read(bytes, sizeof bytes, &back), MOB_EPROTO);
    bytes[11] = 0xa0; /* 100,000, as many as there may be */
    bytes[12] = 0x86;
    bytes[13] = 1;
    bytes[14] = 0;
    assert_int_equal(frame_done_read(bytes, sizeof bytes, &back), MOB_EPROTO);
}

static void test_messages_say_whose_run_it_is(void **state) {
    (void)state;
    for (int kind = FRAME_TASK; kind <= FRAME_DROP; kind++) {
        uint8_t *bytes, body[50];
        size_t size;
        frame_message_t back;
        frame_id_t run = id_random();
        memset(body, kind, sizeof body);
        assert_int_equal(
            frame_message_write((frame_kind_t)kind, run, body, sizeof body, &bytes, &size), MOB_OK);
        assert_int_equal(frame_message_read(bytes, size, &back), MOB_OK);
        assert_int_equal(back.kind, kind);
        ids_are_equal(back.run, run);
        assert_int_equal(back.body_size, sizeof body);
        assert_memory_equal(back.body, body, sizeof body);
        for (size_t cut = 0; cut < size - sizeof body; cut++)
            assert_int_equal(frame_message_read(bytes, cut, &back), MOB_EPROTO);
        bytes[5] = FRAME_DROP + 1;
        assert_int_equal(frame_message_read(bytes, size, &back), MOB_EPROTO);
        bytes[4]++;
        assert_int_equal(frame_message_read(bytes, size, &back), MOB_EPROTO);
        free(bytes);
    }
}

static void test_random_bytes_do_no_harm(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[120];
        size_t size = next_random() % sizeof bytes, count;
        frame_message_t message;
        frame_done_t done;
        frame_order_t order;
        frame_id_t *ids;
        for (size_t k = 0; k < size; k++) bytes[k] = (uint8_t)next_random();
        (void)frame_message_read(bytes, size, &message);
        (void)frame_order_read(bytes, size, &order);
        if (frame_done_read(bytes, size, &done) == MOB_OK) frame_done_fini(&done);
        if (frame_drop_read(bytes, size, &ids, &count) == MOB_OK) free(ids);
    }
}

static void test_orders(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        frame_order_t order = {.force = how & 1, .recursive = how & 2}, back;
        uint8_t bytes[FRAME_ORDER_BYTES];
        frame_order_write(&order, bytes);
        assert_int_equal(frame_order_read(bytes, sizeof bytes, &back), MOB_OK);
        assert_int_equal(back.force, order.force);
        assert_int_equal(back.recursive, order.recursive);
        assert_int_equal(frame_order_read(bytes, 0, &back), MOB_EPROTO);
    }
    assert_int_equal(frame_order_read((const uint8_t[]){4}, 1, &(frame_order_t){0}), MOB_EPROTO);
}

static void test_drops(void **state) {
    (void)state;
    frame_id_t ids[7], *back;
    uint8_t *bytes;
    size_t size, count;
    for (size_t i = 0; i < 7; i++) ids[i] = id_random();
    assert_int_equal(frame_drop_write(ids, 7, &bytes, &size), MOB_OK);
    assert_int_equal(frame_drop_read(bytes, size, &back, &count), MOB_OK);
    assert_int_equal(count, 7);
    for (size_t i = 0; i < 7; i++) ids_are_equal(ids[i], back[i]);
    free(back);
    assert_int_equal(frame_drop_read(bytes, size - 1, &back, &count), MOB_EPROTO);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_end_is_read_as_it_was_written),
        cmocka_unit_test(test_an_end_that_says_too_much_is_not_written),
        cmocka_unit_test(test_every_shorter_end_is_refused),
        cmocka_unit_test(test_changed_ends_do_no_harm),
        cmocka_unit_test(test_a_count_without_bytes_behind_it_takes_no_memory),
        cmocka_unit_test(test_messages_say_whose_run_it_is),
        cmocka_unit_test(test_random_bytes_do_no_harm),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_drops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
