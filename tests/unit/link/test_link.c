/* A link, by example: order, reconnects, dials that cross, room, goodbyes, tombstones. */
#include "pair.h"

static void test_messages_come_in_order(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(side_send(&a, 5, (uint8_t)i, false), MOB_OK);
        assert_int_equal(side_send(&b, 6, (uint8_t)(10 * i), false), MOB_OK);
    }
    assert_int_equal(a.out.count, 0); /* nothing is written before the turn's end */
    link_flush(a.link, now);
    link_flush(b.link, now);
    pump(&a, &b, SIZE_MAX);
    assert_int_equal(b.received, 3);
    assert_int_equal(b.last_byte, 3);
    assert_int_equal(b.last_size, 5);
    assert_int_equal(a.received, 3);
    assert_int_equal(a.last_byte, 30);
    assert_int_equal(link_received_sequence(b.link), 3);
    assert_true(link_held_bytes(a.link) > 0); /* nothing is acknowledged before the next tick */
    assert_false(link_is_idle(a.link));
    pass(&a, &b, 100);
    assert_int_equal(link_held_bytes(a.link), 0);
    assert_true(link_is_idle(a.link) && link_is_idle(b.link));
    pair_fini(&a, &b);
}

static void test_pieces_of_any_size(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 13, 200, 70000};
    for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
        side_t a, b;
        pair_init(&a, &b);
        a.capacity = 100;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            assert_int_equal(side_send(&a, sizes[i], (uint8_t)i, true), MOB_OK);
            link_flush(a.link, now);
            pump(&a, &b, piece);
            assert_int_equal(b.received, i + 1);
            assert_int_equal(b.last_size, sizes[i]);
        }
        pair_fini(&a, &b);
    }
}

static void test_largest_message(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    link_message_t *message = NULL;
    assert_int_equal(link_message_new((size_t)LINK_MESSAGE_MAX + 1, &message), MOB_ELIMIT);
    assert_null(message);
    assert_int_equal(side_send(&a, LINK_MESSAGE_MAX, 9, false), MOB_OK);
    link_flush(a.link, now);
    pump(&a, &b, 60000);
    assert_int_equal(b.last_size, LINK_MESSAGE_MAX);
    pair_fini(&a, &b);
}

/* The connection breaks in the middle of a message, and of others nobody knows. */
static void test_each_once_over_reconnects(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(side_send(&a, 30, (uint8_t)(4 * round + i), true), MOB_OK);
        link_flush(a.link, now);
        carry(&a, &b, 20 + round * 3);
        cut(&a, &b);
        now += LINK_PAUSE_MAX_NS;
        link_flush(a.link, now);
        assert_int_equal(greet(&a, &b), MOB_OK);
        pump(&a, &b, SIZE_MAX);
        assert_int_equal(b.received, 4 * (round + 1));
        assert_int_equal(b.last_byte, (uint8_t)(4 * round + 3));
    }
    pair_fini(&a, &b);
}

/* Of an acknowledgement that was lost with its connection the greeting makes up. */
static void test_greeting_acknowledges(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    assert_int_equal(side_send(&a, 30, 1, false), MOB_OK);
    link_flush(a.link, now);
    carry(&a, &b, SIZE_MAX);
    now += LINK_TICK_NS;
    link_tick(b.link, now, 0);
    assert_true(b.out.count > 0);
    cut(&a, &b);
    assert_true(link_held_bytes(a.link) > 0);
    link_flush(a.link, now);
    assert_int_equal(greet(&a, &b), MOB_OK);
    pump(&a, &b, SIZE_MAX);
    assert_int_equal(link_held_bytes(a.link), 0);
    assert_int_equal(b.received, 1);
    pair_fini(&a, &b);
}

static void test_of_two_dials_the_lower_ones_wins(void **state) {
    (void)state;
    side_t a, b;
    side_init(&a, LOW, HIGH);
    side_init(&b, HIGH, LOW);
    now += LINK_TICK_NS;
    link_tick(a.link, now, 0);
    link_tick(b.link, now, 0);
    link_hello_t low = hello_of(&a), high = hello_of(&b);
    assert_int_equal(hello_come(&a, &high), MOB_EEXISTS);
    assert_int_equal(a.ends, 0);
    assert_int_equal(hello_come(&b, &low), MOB_OK);
    assert_int_equal(b.ends, 1);
    pump(&a, &b, SIZE_MAX);
    assert_true(link_is_open(a.link) && link_is_open(b.link));
    /* The same again, late: a newer greeting was read since. */
    assert_int_equal(hello_come(&b, &low), MOB_ESTALE);
    assert_int_equal(hello_come(&a, &high), MOB_ESTALE);
    pair_fini(&a, &b);
}

/* One that has not come up yet gives way. */
static void test_a_dial_in_vain_stands_in_nobodys_way(void **state) {
    (void)state;
    side_t a, b;
    side_init(&a, LOW, HIGH);
    side_init(&b, HIGH, LOW);
    now += LINK_TICK_NS;
    link_tick(a.link, now, 0);
    link_tick(b.link, now, 0);
    assert_int_equal(greet(&b, &a), MOB_OK);
    assert_int_equal(a.ends, 1);
    pump(&a, &b, SIZE_MAX);
    assert_true(link_is_open(a.link) && link_is_open(b.link));
    pair_fini(&a, &b);
}

static void test_other_incarnations_are_refused(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    link_hello_t hello = {.from = LOW, .to = HIGH + 1, .turn = 100};
    assert_int_equal(link_accept(b.link, ++connections, &hello, now), MOB_ESTALE);
    hello = (link_hello_t){.from = LOW + 1, .to = HIGH, .turn = 100};
    assert_int_equal(link_accept(b.link, ++connections, &hello, now), MOB_ESTALE);
    hello = (link_hello_t){.from = LOW, .to = HIGH, .turn = 100, .received = 1};
    assert_int_equal(link_accept(b.link, ++connections, &hello, now), MOB_EPROTO);
    assert_true(link_is_open(b.link)); /* its connection was not touched */
    assert_int_equal(b.ends, 0);
    pair_fini(&a, &b);
}

static void test_room(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    b.keeps = true;
    size_t sent = 0;
    while (link_has_room(a.link)) {
        assert_int_equal(side_send(&a, 100, 0, false), MOB_OK);
        sent++;
    }
    assert_int_equal(sent, ROOM / (100 + LINK_MESSAGE_COST) + 1);
    assert_int_equal(side_send(&a, 100, 0, false), MOB_ELIMIT);
    assert_int_equal(side_send(&a, 100, 0, true), MOB_OK); /* an answer */
    pass(&a, &b, 1000);
    assert_int_equal(b.received, sent + 1);
    assert_int_equal(link_held_bytes(a.link), 0); /* the peer has it all */
    assert_false(link_has_room(a.link));          /* and has dealt with nothing */
    assert_int_equal(a.rooms, 0);
    for (size_t i = 0; i < sent + 1; i++) link_processed(b.link, 100);
    pass(&a, &b, 100);
    assert_int_equal(a.rooms, 1);
    assert_true(link_has_room(a.link));
    pair_fini(&a, &b);
}

/* A batch is acknowledged at once, by number or by bytes. */
static void test_acknowledgements_in_batches(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    size_t by_bytes = ROOM / 4 / LINK_MESSAGE_COST;
    for (size_t i = 1; i <= by_bytes; i++) {
        assert_int_equal(side_send(&a, 0, 0, false), MOB_OK);
        link_flush(a.link, now);
        carry(&a, &b, SIZE_MAX);
        assert_int_equal(b.out.count > 0, i == by_bytes);
    }
    pump(&a, &b, SIZE_MAX);
    assert_true(link_is_idle(a.link));
    pair_fini(&a, &b);
}

static void test_goodbye_is_the_last(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    assert_int_equal(side_send(&a, 10, 1, false), MOB_OK);
    link_leave(a.link);
    link_leave(a.link);
    assert_int_equal(side_send(&a, 10, 1, true), MOB_ECLOSED);
    assert_int_equal(side_send(&b, 10, 1, false), MOB_OK);
    pass(&a, &b, 200);
    assert_int_equal(b.goodbyes, 1);
    assert_int_equal(b.received, 2);
    assert_int_equal(a.received, 1);
    assert_true(link_is_idle(a.link));
    pair_fini(&a, &b);
}

/* The tombstone is known in the middle of what came: nothing behind it is heard. */
static void test_closed(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    for (uint8_t i = 0; i < 3; i++) assert_int_equal(side_send(&a, 10, i, false), MOB_OK);
    assert_int_equal(side_send(&b, 10, 0, false), MOB_OK);
    link_flush(a.link, now);
    b.closes = true;
    assert_int_equal(carry(&a, &b, SIZE_MAX), MOB_OK);
    assert_int_equal(b.received, 1);
    assert_int_equal(b.ends, 1);
    assert_int_equal(link_held_bytes(b.link), 0);
    assert_int_equal(side_send(&b, 10, 0, true), MOB_ECLOSED);
    cut(&a, &b);
    link_flush(a.link, now);
    assert_int_equal(greet(&a, &b), MOB_ECLOSED);
    link_hello_t hello = {.from = LOW};
    uint8_t refusal[LINK_REFUSAL_SIZE];
    link_refusal_write(&hello, refusal);
    assert_int_equal(link_received(a.link, a.connection, refusal, sizeof refusal, now),
                     MOB_ECLOSED);
    assert_int_equal(a.refusals, 1);
    assert_int_equal(a.connection, 0);
    uint64_t dials = b.dials;
    for (int i = 0; i < 100; i++) link_tick(b.link, now += LINK_TICK_NS, 0);
    assert_int_equal(b.dials, dials);
    assert_int_equal(b.silent, 0);
    assert_false(link_is_open(b.link));
    pair_fini(&a, &b);
}

/* What the node had no memory for comes again. */
static void test_a_refused_message_comes_again(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    assert_int_equal(side_send(&a, 10, 1, false), MOB_OK);
    assert_int_equal(side_send(&a, 10, 2, false), MOB_OK);
    link_flush(a.link, now);
    b.refuses = true;
    assert_int_equal(carry(&a, &b, SIZE_MAX), MOB_ENOMEM);
    assert_int_equal(b.ends, 1);
    b.refuses = false;
    cut(&a, &b);
    link_flush(a.link, now);
    assert_int_equal(greet(&a, &b), MOB_OK);
    pump(&a, &b, SIZE_MAX);
    assert_int_equal(b.received, 2);
    pair_fini(&a, &b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_come_in_order),
        cmocka_unit_test(test_pieces_of_any_size),
        cmocka_unit_test(test_largest_message),
        cmocka_unit_test(test_each_once_over_reconnects),
        cmocka_unit_test(test_greeting_acknowledges),
        cmocka_unit_test(test_of_two_dials_the_lower_ones_wins),
        cmocka_unit_test(test_a_dial_in_vain_stands_in_nobodys_way),
        cmocka_unit_test(test_other_incarnations_are_refused),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_acknowledgements_in_batches),
        cmocka_unit_test(test_goodbye_is_the_last),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_a_refused_message_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
