/* References across nodes, by example: who keeps what until when. */
#include "net.h"

enum { A, B, C, D };

static const told_t nothing;

static void test_what_stays_at_home(void **state) {
    (void)state;
    refs_held(nodes[A].refs, object(A, 1));
    assert_true(refs_unheld(nodes[A].refs, object(A, 1)));
    assert_int_equal(nodes[A].sends, 0);
    assert_empty(A, D);
}

static void test_home_to_other(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    unhold(A, x);
    assert_int_equal(nodes[A].freed.count, 0); /* it is on its way */
    deliver(A, B);
    unhold(B, x);
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_empty(A, D);
}

static void test_home_keeps_its_own(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    deliver(A, B);
    unhold(B, x);
    settle();
    assert_int_equal(nodes[A].freed.count, 0);
    assert_empty(A, D);
    assert_true(refs_unheld(nodes[A].refs, x));
}

static void test_back_home(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    unhold(A, x);
    deliver(A, B);
    give(B, A, x);
    unhold(B, x);
    settle(); /* the frame comes before the DROP, and A holds it again */
    assert_int_equal(nodes[A].freed.count, 0);
    assert_true(refs_unheld(nodes[A].refs, x));
    assert_empty(A, D);
}

static void test_old_drop(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    deliver(A, B);
    unhold(B, x);
    give(A, B, x);
    unhold(A, x);
    deliver(B, A); /* DROP, said before the second frame was seen */
    assert_int_equal(nodes[A].freed.count, 0);
    settle();
    unhold(B, x);
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_empty(A, D);
}

static void test_giver_keeps(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    unhold(A, x);
    deliver(A, B);
    give(B, C, x);
    unhold(B, x);
    deliver(B, C);
    assert_int_equal(ways[B][A].count, 0); /* B says nothing yet */
    deliver(C, A);                         /* HOLD */
    assert_int_equal(nodes[C].kept, 0);
    deliver(A, C); /* KNOWN */
    assert_int_equal(nodes[C].kept, 1);
    deliver(C, B); /* CONFIRM */
    deliver(B, A); /* DROP */
    assert_int_equal(nodes[A].freed.count, 0);
    unhold(C, x);
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_empty(A, D);
}

static void test_home_answers_who_waits(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    deliver(A, B);
    give(B, C, x);
    give(A, C, x);
    letter_take(B, C, ways[B][C].items[0]);
    letter_take(A, C, ways[A][C].items[0]);
    flush(C);
    assert_int_equal(nodes[C].kept, 1); /* in the same turn: nothing is asked */
    assert_int_equal(ways[C][A].count, 0);
    free(ways[B][C].items[0]);
    free(ways[A][C].items[0]);
    ways[B][C].count = ways[A][C].count = 0;
    unhold(A, x);
    unhold(B, x);
    unhold(C, x);
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_empty(A, D);
}

static void test_container(void **state) {
    (void)state;
    frame_id_t x = object(A, 1), v = object(B, 2);
    give(A, B, x); /* B makes v, which contains x */
    unhold(A, x);
    deliver(A, B);
    give(B, C, v);
    deliver(B, C);
    give_list(B, C, v, x);
    unhold(B, v);
    deliver(B, C);
    assert_int_equal(refs_count(nodes[B].refs).sent, 0); /* nothing is kept for the reader */
    unhold(C, v);
    assert_int_equal(ways[C][B].count, 0); /* the container stays until x is known to be held */
    deliver(C, A);
    deliver(A, C);
    assert_int_equal(nodes[C].kept, 1);
    settle();
    assert_true(is_told(&nodes[B].freed, v));
    unhold(B, x);
    settle();
    assert_int_equal(nodes[A].freed.count, 0);
    unhold(C, x);
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_empty(A, D);
}

static void test_not_held(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    bool waits;
    give(A, B, x);
    give(B, C, x); /* B did not hold it: it was not there */
    assert_int_equal(refs_frame_came(nodes[C].refs, B + 1, 1, &x, 1, &waits), MOB_OK);
    assert_true(waits);
    refs_flush(nodes[C].refs); /* C does not hold it either, but must answer */
    unhold(A, x);
    deliver(A, B);
    unhold(B, x);
    deliver(B, A);
    assert_true(is_told(&nodes[A].freed, x));
    deliver(C, A);
    deliver(A, C);
    assert_true(is_told(&nodes[C].gone, x));
    assert_int_equal(nodes[C].reason, REFS_LOST);
    assert_int_equal(nodes[C].kept, 1);
    refs_held(nodes[C].refs, x); /* an error object now: counted by nobody */
    unhold(C, x);
    assert_int_equal(refs_count(nodes[C].refs).away, 0);
}

static void test_forget(void **state) {
    (void)state;
    frame_id_t f = object(A, 1);
    give(A, B, f);
    give(A, C, f);
    settle();
    refs_cached(nodes[B].refs, f);
    settle();
    unhold(A, f);
    settle();
    assert_int_equal(nodes[B].forgotten.count, 0); /* C uses it */
    refs_cached(nodes[C].refs, f);
    refs_held(nodes[B].refs, f); /* B uses it again, and says nothing */
    settle();
    assert_true(is_told(&nodes[C].forgotten, f));
    assert_int_equal(nodes[B].forgotten.count, 0);
    unhold(C, f);
    refs_cached(nodes[B].refs, f);
    settle();
    assert_true(is_told(&nodes[B].forgotten, f));
    assert_int_equal(nodes[A].freed.count, 0);
    unhold(B, f);
    settle();
    assert_true(is_told(&nodes[A].freed, f));
    assert_empty(A, D);
}

static void test_sent_again_after_forget(void **state) {
    (void)state;
    frame_id_t f = object(A, 1);
    give(A, B, f);
    deliver(A, B);
    refs_cached(nodes[B].refs, f);
    flush(B);
    unhold(A, f);
    deliver(B, A); /* CACHE; FORGET is on its way */
    refs_held(nodes[A].refs, f);
    give(A, B, f);
    deliver(A, B);
    assert_true(is_told(&nodes[B].forgotten, f));
    unhold(B, f); /* an old DROP */
    settle();
    refs_cached(nodes[B].refs, f);
    settle();
    nodes[B].forgotten = nothing;
    unhold(A, f);
    settle();
    assert_true(is_told(&nodes[B].forgotten, f));
    unhold(B, f);
    settle();
    assert_true(is_told(&nodes[A].freed, f));
    assert_empty(A, D);
}

/* FORGET comes while the function is used, and then its home sends it again: it is needed. */
static void test_needed_after_forget(void **state) {
    (void)state;
    frame_id_t f = object(A, 1);
    give(A, B, f);
    settle();
    refs_cached(nodes[B].refs, f);
    settle();
    refs_held(nodes[B].refs, f);
    unhold(A, f);
    settle(); /* FORGET */
    refs_held(nodes[A].refs, f);
    give(A, B, f);
    settle();
    refs_cached(nodes[B].refs, f);
    settle();
    assert_int_equal(nodes[B].forgotten.count, 0);
    unhold(B, f);
    settle();
    assert_true(refs_unheld(nodes[A].refs, f));
    assert_empty(A, D);
}

/* B gives x to C and dies: A keeps it until C has its answer. */
static void test_death_of_giver(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    unhold(A, x);
    deliver(A, B);
    give(B, C, x);
    deliver(B, C);
    tell_death(B, A, 1);
    tell_death(B, C, 1);
    assert_int_equal(nodes[A].closed, 1);
    assert_int_equal(nodes[C].closed, 0); /* a HOLD that followed is not answered */
    assert_int_equal(nodes[A].freed.count, 0);
    deliver(C, A);
    deliver(A, C);
    assert_int_equal(nodes[C].closed, 1);
    refs_struck(nodes[A].refs, 1);
    refs_struck(nodes[C].refs, 1);
    settle();
    assert_int_equal(nodes[A].freed.count, 0);
    unhold(C, x);
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_empty(A, A);
    assert_empty(C, D);
}

/* Tombstones close in the order of their numbers. */
static void test_closed_in_order(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    deliver(A, B);
    give(B, C, x);
    deliver(B, C);
    tell_death(B, C, 1);
    tell_death(D, C, 2);
    assert_int_equal(nodes[C].closed, 0);
    deliver(C, A);
    deliver(A, C);
    assert_int_equal(nodes[C].closed, 2);
}

/* B gives x to C, who dies before B has heard of it: B keeps it until C is struck off. */
static void test_death_of_receiver(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    give(A, B, x);
    unhold(A, x);
    deliver(A, B);
    give(B, C, x);
    unhold(B, x);
    tell_death(C, A, 1);
    tell_death(C, B, 1);
    settle();
    assert_int_equal(nodes[A].freed.count, 0);
    refs_struck(nodes[B].refs, 1);
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    refs_struck(nodes[A].refs, 1);
    assert_empty(A, B);
}

static void test_death_of_home(void **state) {
    (void)state;
    frame_id_t x = object(A, 1);
    bool waits;
    give(A, B, x);
    deliver(A, B);
    give(B, C, x);
    deliver(B, C);
    tell_death(A, C, 1); /* answers its HOLD */
    assert_true(is_told(&nodes[C].gone, x));
    assert_int_equal(nodes[C].reason, REFS_OWNER_DIED);
    assert_int_equal(nodes[C].kept, 1);
    assert_int_equal(nodes[C].closed, 1);
    deliver(C, B);
    tell_death(A, B, 1);
    assert_true(is_told(&nodes[B].gone, x));
    give(B, C, x); /* counted by nobody, but a copy may be there */
    deliver(B, C);
    refs_struck(nodes[B].refs, 1);
    refs_struck(nodes[C].refs, 1);
    settle();
    assert_empty(B, D);
    assert_int_equal(refs_frame_came(nodes[B].refs, A + 1, 9, &x, 1, &waits), MOB_ECLOSED);
    assert_int_equal(refs_frame_send(nodes[B].refs, A + 1, 9, &x, 1), MOB_ECLOSED);
    assert_int_equal(refs_message(nodes[B].refs, A + 1, "\1\0\0\0\0\0\0\0\0", 9), MOB_ECLOSED);
}

static void test_refused(void **state) {
    (void)state;
    frame_id_t x = object(A, 1), y = object(B, 2);
    bool waits;
    assert_int_equal(refs_frame_send(nodes[A].refs, A + 1, 1, &x, 1), MOB_EINVAL);
    assert_int_equal(refs_list_send(nodes[A].refs, B + 1, 1, y, &x, 1), MOB_EINVAL);
    give(A, B, x);
    assert_int_equal(refs_frame_send(nodes[A].refs, B + 1, 1, &x, 1), MOB_EINVAL);
    assert_int_equal(refs_list_came(nodes[B].refs, A + 1, 1, y, &x, 1, &waits), MOB_EPROTO);
    deliver(A, B);
    assert_int_equal(refs_frame_came(nodes[B].refs, A + 1, 1, &x, 1, &waits), MOB_EPROTO);
}

/* Many objects that are dropped in one turn are few messages; one that thousands of nodes hold is
 * as quick as any. */
static void test_many(void **state) {
    (void)state;
    enum { MANY = 3000 };
    for (uint32_t i = 0; i < MANY; i++) give(A, B, object(A, i));
    settle();
    for (uint32_t i = 0; i < MANY; i++) {
        assert_false(refs_unheld(nodes[A].refs, object(A, i)));
        assert_false(refs_unheld(nodes[B].refs, object(A, i)));
    }
    nodes[B].sends = 0;
    settle();
    assert_in_range(nodes[B].sends, 1, 2 * MANY * 21 / REFS_MESSAGE_MAX);
    assert_int_equal(nodes[A].freed.count, MANY);
    frame_id_t x = object(A, MANY);
    for (uint64_t peer = 100; peer < 100 + MANY; peer++)
        assert_int_equal(refs_frame_send(nodes[A].refs, peer, 1, &x, 1), MOB_OK);
    unhold(A, x);
    assert_int_equal(refs_count(nodes[A].refs).holders, MANY);
    for (uint64_t peer = 100; peer < 100 + MANY; peer++) refs_died(nodes[A].refs, peer, peer);
    flush(A);
    refs_struck(nodes[A].refs, UINT64_MAX);
    flush(A);
    assert_int_equal(nodes[A].freed.count, MANY + 1);
    assert_empty(A, D);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, net_make, net_free)
    const struct CMUnitTest tests[] = {
        TEST(test_what_stays_at_home),
        TEST(test_home_to_other),
        TEST(test_home_keeps_its_own),
        TEST(test_back_home),
        TEST(test_old_drop),
        TEST(test_giver_keeps),
        TEST(test_home_answers_who_waits),
        TEST(test_container),
        TEST(test_not_held),
        TEST(test_forget),
        TEST(test_sent_again_after_forget),
        TEST(test_needed_after_forget),
        TEST(test_death_of_giver),
        TEST(test_closed_in_order),
        TEST(test_death_of_receiver),
        TEST(test_death_of_home),
        TEST(test_refused),
        TEST(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
