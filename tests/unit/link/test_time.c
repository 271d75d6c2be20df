/* What a link does with time: heartbeats, silence, pauses between dials. */
#include "pair.h"

static void test_heartbeats_carry_the_age(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    pass(&a, &b, 5000);
    assert_in_range(a.beats, 9, 11);
    assert_in_range(b.beats, 9, 11);
    assert_int_equal(b.age_ms, 7);
    assert_int_equal(a.age_ms, 8);
    assert_int_equal(a.silent, 0);
    pair_fini(&a, &b);
}

/* A busy link says the age as often. */
static void test_heartbeats_of_a_busy_link(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(side_send(&a, 10, 0, false), MOB_OK);
        pass(&a, &b, 100);
    }
    assert_in_range(b.beats, 9, 11);
    pair_fini(&a, &b);
}

/* Only one side's ticks come. */
static uint64_t ticks_until(side_t *side, int silent) {
    uint64_t ticks = 0;
    for (; side->silent != silent && ticks < 100; ticks++)
        link_tick(side->link, now += LINK_TICK_NS, 0);
    return ticks;
}

static void test_silence(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    assert_int_equal(ticks_until(&a, 1), LINK_SILENCE_NS / LINK_TICK_NS);
    assert_true(link_is_silent(a.link));
    assert_false(link_is_open(a.link));        /* the connection may be dead without a word */
    assert_int_equal(ticks_until(&a, 2), 100); /* it is told once */
    cut(&a, &b);
    now += LINK_PAUSE_MAX_NS;
    link_flush(b.link, now);
    assert_int_equal(greet(&b, &a), MOB_OK);
    assert_int_equal(a.silent, 0);
    pair_fini(&a, &b);
}

static void test_one_byte_is_heard(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    assert_int_equal(side_send(&b, 1000, 0, false), MOB_OK);
    link_flush(b.link, now);
    for (int i = 0; i < 60; i++) { /* a byte every 100 ms, and no whole frame for 6 s */
        assert_int_equal(carry(&b, &a, 1), MOB_OK);
        link_tick(a.link, now += LINK_TICK_NS, 0);
    }
    assert_int_equal(a.silent, 0);
    pair_fini(&a, &b);
}

/* An observer that was late itself counts again. */
static void test_a_late_observer_counts_again(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    for (int i = 0; i < 24; i++) link_tick(a.link, now += LINK_TICK_NS, 0);
    link_tick(a.link, now += 5 * LINK_SILENCE_NS, 0);
    assert_int_equal(a.silent, 0);
    assert_int_equal(ticks_until(&a, 1), LINK_SILENCE_NS / LINK_TICK_NS);
    pair_fini(&a, &b);
}

/* Each dial fails at once: how long is it until the next? */
static uint64_t pause_ms(side_t *side) {
    uint64_t dials = side->dials, begun = now;
    while (side->dials == dials) link_flush(side->link, now += MS);
    uint64_t connection = side->connection;
    side->connection = 0;
    link_ended(side->link, connection, now);
    return (now - begun) / MS;
}

static void test_pauses_grow_and_are_bounded(void **state) {
    (void)state;
    side_t a;
    side_init(&a, LOW, HIGH);
    pause_ms(&a);
    static const uint64_t pauses[] = {50, 100, 200, 400, 800, 1600, 2000, 2000, 2000};
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++)
        assert_int_equal(pause_ms(&a), pauses[i]);
    /* There is something to say now. */
    assert_int_equal(side_send(&a, 10, 0, false), MOB_OK);
    assert_int_equal(pause_ms(&a), 1);
    assert_int_equal(side_send(&a, 10, 0, false), MOB_OK);
    assert_int_equal(pause_ms(&a), 2000);
    side_fini(&a);
}

/* A connection that was well and breaks is dialled again at once, if there is something to say. */
static void test_dials_at_once(void **state) {
    (void)state;
    side_t a, b;
    pair_init(&a, &b);
    pass(&a, &b, 1500);
    assert_int_equal(side_send(&a, 10, 0, false), MOB_OK);
    link_flush(a.link, now);
    uint64_t dials = a.dials, others = b.dials, connection = a.connection;
    a.connection = 0;
    link_ended(a.link, connection, now);
    assert_int_equal(a.dials, dials + 1);
    link_ended(b.link, b.connection, now);
    assert_int_equal(b.dials, others);
    pair_fini(&a, &b);
}

/* Neither a dial nor a hello is waited for without end. */
static void test_a_greeting_has_a_limit(void **state) {
    (void)state;
    side_t a;
    side_init(&a, LOW, HIGH);
    link_tick(a.link, now, 0);
    for (int i = 0; i < 20; i++) link_tick(a.link, now += LINK_TICK_NS, 0);
    assert_int_equal(a.ends, 1);
    while (a.dials < 2) link_tick(a.link, now += LINK_TICK_NS, 0);
    link_connected(a.link, a.connection, now);
    assert_int_equal(a.out.count, LINK_HELLO_SIZE);
    for (int i = 0; i < 20; i++) link_tick(a.link, now += LINK_TICK_NS, 0);
    assert_int_equal(a.ends, 2);
    side_fini(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heartbeats_carry_the_age),
        cmocka_unit_test(test_heartbeats_of_a_busy_link),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_one_byte_is_heard),
        cmocka_unit_test(test_a_late_observer_counts_again),
        cmocka_unit_test(test_pauses_grow_and_are_bounded),
        cmocka_unit_test(test_dials_at_once),
        cmocka_unit_test(test_a_greeting_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
