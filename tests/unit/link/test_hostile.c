/* Whatever a peer sends: the link stays as it was, and the connection is ended. */
#include "pair.h"

#include "../random.h"
#include "link/codec.h"

/* The only allocation of what a peer sends is a vec's. */
static bool has_no_memory;

void *reallocarray(void *memory, size_t count, size_t size) {
    return has_no_memory ? NULL : realloc(memory, count * size);
}

/* A frame of a kind, with these numbers of 8 bytes. */
typedef struct {
    uint8_t bytes[64];
    size_t size;
} sample_t;

static sample_t sample(uint32_t length, uint8_t kind, size_t numbers, uint64_t x, uint64_t y) {
    sample_t s = {.size = 0};
    base_writer_t w = {s.bytes, 0};
    base_put_number(&w, length, 4);
    base_put_number(&w, kind, 1);
    if (numbers > 0) base_put_number(&w, x, 8);
    if (numbers > 1) base_put_number(&w, y, 8);
    s.size = w.size;
    return s;
}

static void test_malformed_frames(void **state) {
    (void)state;
    link_hello_t hello = {.from = LOW, .to = HIGH, .turn = 100};
    sample_t welcome = {.size = LINK_HELLO_SIZE};
    base_writer_t w = {welcome.bytes, 0};
    link_put_hello(&w, LINK_WELCOME, &hello);
    sample_t samples[] = {
        sample(0, 0, 0, 0, 0),
        sample(UINT32_MAX, LINK_MESSAGE, 1, 1, 0),
        sample(LINK_MESSAGE_MAX + 10, LINK_MESSAGE, 1, 1, 0),
        sample(9, 0, 1, 0, 0),
        sample(9, LINK_REFUSED, 1, HIGH, 0), /* it was welcome */
        sample(9, 8, 1, 0, 0),
        sample(9, 255, 1, 0, 0),
        sample(9, LINK_MESSAGE, 1, 0, 0), /* before the first */
        sample(9, LINK_MESSAGE, 1, 2, 0), /* after the next */
        sample(9, LINK_GOODBYE, 1, 2, 0),
        sample(17, LINK_GOODBYE, 2, 1, 0),
        sample(9, LINK_ACK, 1, 1, 0),
        sample(17, LINK_ACK, 2, 3, 0),    /* of what was not sent */
        sample(17, LINK_ACK, 2, 2, 1000), /* processed more */
        sample(17, LINK_ACK, 2, UINT64_MAX, UINT64_MAX),
        sample(17, LINK_BEAT, 2, 1, 1),
        sample(5, LINK_BEAT, 1, 0, 0),
        sample(1, LINK_HELLO, 0, 0, 0),
        welcome,
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        side_t a, b;
        pair_init(&a, &b);
        side_send(&b, 10, 0, false);
        side_send(&b, 10, 0, false);
        link_flush(b.link, now);
        size_t held = link_held_bytes(b.link);
        assert_int_equal(
            link_received(b.link, b.connection, samples[i].bytes, samples[i].size, now),
            MOB_EPROTO);
        assert_int_equal(b.ends, 1);
        assert_int_equal(link_held_bytes(b.link), held);
        assert_int_equal(b.received + b.goodbyes + b.beats, 0);
        cut(&a, &b);
        now += LINK_PAUSE_MAX_NS;
        link_flush(a.link, now);
        assert_int_equal(greet(&a, &b), MOB_OK); /* it goes on */
        pump(&a, &b, SIZE_MAX);
        assert_int_equal(a.received, 2);
        pair_fini(&a, &b);
    }
}

static void test_nothing_before_the_welcome(void **state) {
    (void)state;
    link_hello_t wrong = {.from = HIGH + 1, .to = LOW, .turn = 1};
    sample_t welcome = {.size = LINK_HELLO_SIZE};
    base_writer_t w = {welcome.bytes, 0};
    link_put_hello(&w, LINK_WELCOME, &wrong);
    sample_t samples[] = {sample(9, LINK_MESSAGE, 1, 1, 0), sample(9, LINK_BEAT, 1, 1, 0),
                          sample(1000, LINK_WELCOME, 0, 0, 0),
                          sample(9, LINK_REFUSED, 1, LOW + 1, 0), welcome};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        side_t a;
        side_init(&a, LOW, HIGH);
        link_tick(a.link, now, 0);
        link_connected(a.link, a.connection, now);
        mob_status_t status =
            link_received(a.link, a.connection, samples[i].bytes, samples[i].size, now);
        assert_int_equal(status, i == 4 ? MOB_ESTALE : MOB_EPROTO);
        assert_int_equal(a.ends, 1);
        assert_int_equal(a.received + a.beats + a.refusals, 0);
        side_fini(&a);
    }
}

static void test_random_hellos(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    for (int i = 0; i < 50000; i++) {
        uint8_t bytes[LINK_HELLO_SIZE];
        link_hello_t hello = {.from = LOW, .to = HIGH, .turn = 0};
        base_writer_t w = {bytes, 0};
        link_put_hello(&w, LINK_HELLO, &hello);
        for (uint64_t n = 1 + next_random() % 4; n > 0; n--)
            bytes[next_random() % sizeof bytes] ^= (uint8_t)(1 + next_random() % 255);
        if (i % 10 == 0)
            for (size_t j = 0; j < sizeof bytes; j++) bytes[j] = (uint8_t)next_random();
        if (link_hello_read(bytes, &hello) != MOB_OK) continue;
        if (hello.received == 0 && hello.processed == 0) continue; /* that one makes sense */
        assert_int_not_equal(link_accept(b.link, ++connections, &hello, now), MOB_OK);
    }
    assert_true(link_is_open(b.link));
    assert_int_equal(b.ends, 0);
    pair_fini(&a, &b);
}

/* What a real peer has written, with a few bytes changed, left out or doubled. */
static void test_mutated_streams(void **state) {
    (void)state;
    size_t errors = 0;
    for (int round = 0; round < 20000; round++) {
        side_t a, b;
        pair_init(&a, &b);
        for (int i = 0; i < 5; i++) {
            side_send(&a, next_random() % 60, (uint8_t)i, false);
            side_send(&b, next_random() % 60, (uint8_t)i, false);
        }
        link_flush(b.link, now);
        carry(&b, &a, next_random() % 400);
        now += LINK_TICK_NS;
        link_tick(a.link, now, 0);
        if (next_random() % 2 == 0) link_leave(a.link);
        link_flush(a.link, now);
        for (uint64_t n = 1 + next_random() % 3; n > 0; n--)
            a.out.items[next_random() % a.out.count] ^= (uint8_t)(1 + next_random() % 255);
        if (next_random() % 3 == 0) a.out.count = 1 + next_random() % a.out.count;
        mob_status_t status = MOB_OK;
        while (a.out.count > 0 && status == MOB_OK) status = carry(&a, &b, 1 + next_random() % 50);
        assert_true(status == MOB_OK || status == MOB_EPROTO);
        assert_int_equal(b.ends, status == MOB_EPROTO);
        assert_true(b.received <= 6);
        errors += status != MOB_OK;
        pair_fini(&a, &b);
    }
    assert_in_range(errors, 5000, 20000);
}

static void test_random_bytes(void **state) {
    (void)state;
    for (int round = 0; round < 20000; round++) {
        side_t a, b;
        pair_init(&a, &b);
        uint8_t bytes[100];
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)next_random();
        if (round % 2 == 0) memset(bytes + 1, 0, 3); /* a length that may be */
        mob_status_t status = link_received(b.link, b.connection, bytes, sizeof bytes, now);
        assert_true(status == MOB_OK || status == MOB_EPROTO);
        assert_int_equal(b.received, 0);
        pair_fini(&a, &b);
    }
}

/* A long frame that never comes takes no memory for what it claims. No memory for what comes: the
 * connection ends, and nothing is lost. */
static void test_no_memory(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    assert_int_equal(side_send(&a, 1000, 5, false), MOB_OK);
    link_flush(a.link, now);
    has_no_memory = true;
    uint8_t bytes[10];
    memcpy(bytes, a.out.items, sizeof bytes);
    assert_int_equal(link_received(b.link, b.connection, bytes, sizeof bytes, now), MOB_ENOMEM);
    has_no_memory = false;
    assert_int_equal(b.ends, 1);
    cut(&a, &b);
    link_flush(a.link, now);
    assert_int_equal(greet(&a, &b), MOB_OK);
    pump(&a, &b, 100);
    assert_int_equal(b.received, 1);
    assert_int_equal(b.last_byte, 5);
    pair_fini(&a, &b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_frames), cmocka_unit_test(test_nothing_before_the_welcome),
        cmocka_unit_test(test_random_hellos),    cmocka_unit_test(test_mutated_streams),
        cmocka_unit_test(test_random_bytes),     cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
