/* A peer may send anything. What is no message changes nothing; what is one can only change what is
 * the peer's own. */
#include "net.h"

#include "../random.h"
#include "base/bytes.h"

enum { A, B, C, TIMES = 20000 };

/* A and C hold objects of each other and of B, some are asked for, some given on. */
static int busy_make(void **state) {
    if (net_make(state) != 0) return -1;
    for (uint32_t i = 0; i < 4; i++) {
        give(A, B, object(A, i));
        give(A, C, object(A, i));
        give(B, A, object(B, i));
        give(C, A, object(C, i));
    }
    settle();
    for (uint32_t i = 0; i < 4; i++) give(A, C, object(B, i));
    for (uint32_t i = 0; i < 4; i++) give(C, B, object(A, i));
    refs_cached(nodes[A].refs, object(B, 1));
    flush(A);
    return 0;
}

static void assert_same(refs_counts_t before) {
    refs_counts_t now = refs_count(nodes[A].refs);
    assert_memory_equal(&before, &now, sizeof now);
}

static void test_noise(void **state) {
    (void)state;
    uint8_t bytes[200];
    refs_counts_t before = refs_count(nodes[A].refs);
    for (int i = 0; i < TIMES; i++) {
        size_t size = next_random() % sizeof bytes;
        for (size_t k = 0; k < size; k++) bytes[k] = (uint8_t)next_random();
        if (size > 0) bytes[0] = (uint8_t)(next_random() % 2);
        mob_status_t status = refs_message(nodes[A].refs, B + 1, bytes, size);
        assert_true(status == MOB_OK || status == MOB_EPROTO);
        flush(A);
    }
    assert_same(before); /* no id in it was one of A's */
    assert_int_equal(nodes[A].freed.count, 0);
}

/* A message of words about the objects that there are. */
static size_t words_write(uint8_t *bytes, size_t capacity) {
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, 1, 1);
    base_put_number(&w, next_random() % 20, 8);
    while (w.size + 21 <= capacity && next_random() % 6 != 0) {
        uint64_t word = 1 + next_random() % 8;
        base_put_number(&w, word, 1);
        if (word != 8) {
            base_put_number(&w, 1 + next_random() % 4, 8);
            base_put_number(&w, next_random() % 5, 4);
            base_put_number(&w, 1, 8);
        } else {
            base_put_number(&w, next_random() % 20, 8);
        }
    }
    return w.size;
}

/* Whatever B says, what C holds stays, and what C gave and is given stays. */
static void test_words(void **state) {
    (void)state;
    uint8_t bytes[400];
    for (int i = 0; i < TIMES; i++) {
        size_t size = words_write(bytes, sizeof bytes);
        assert_int_equal(refs_message(nodes[A].refs, B + 1, bytes, size), MOB_OK);
        flush(A);
        for (size_t k = 0; k < ways[A][B].count; k++) free(ways[A][B].items[k]);
        ways[A][B].count = 0;
    }
    for (uint32_t i = 0; i < 4; i++) unhold(A, object(A, i));
    assert_int_equal(nodes[A].freed.count, 0); /* C holds them */
    for (size_t i = 0; i < nodes[A].gone.count && i < TOLD_MAX; i++)
        assert_int_equal(nodes[A].gone.ids[i].home, B + 1);
    refs_counts_t now = refs_count(nodes[A].refs);
    assert_in_range(now.own, 4, 4);
    assert_in_range(now.holders, 4, 8);
    assert_int_equal(now.sent, 4); /* to C, who alone can confirm them */
}

/* Each byte of a true message changed, and each shorter one: no harm, and no change where it is no
 * message. */
static void test_mutations(void **state) {
    (void)state;
    uint8_t bytes[400], changed[400];
    size_t size = 0;
    while (size < 200) size = words_write(bytes, sizeof bytes);
    for (int i = 0; i < TIMES; i++) {
        memcpy(changed, bytes, size);
        size_t cut = next_random() % 4 == 0 ? next_random() % size : size;
        changed[next_random() % size] ^= (uint8_t)(1 << next_random() % 8);
        refs_counts_t before = refs_count(nodes[A].refs);
        mob_status_t status = refs_message(nodes[A].refs, B + 1, changed, cut);
        if (status != MOB_OK) {
            assert_int_equal(status, MOB_EPROTO);
            assert_same(before);
        }
        flush(A);
    }
    assert_int_equal(nodes[A].freed.count, 0);
}

static void test_too_long(void **state) {
    (void)state;
    static uint8_t bytes[REFS_MESSAGE_MAX + 21];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, 1, 1);
    base_put_number(&w, 0, 8);
    while (w.size + 21 <= sizeof bytes) {
        base_put_number(&w, 1, 1); /* HOLD of what is not there */
        base_put_number(&w, A + 1, 8);
        base_put_number(&w, w.size, 4);
        base_put_number(&w, 7, 8);
    }
    assert_int_equal(refs_message(nodes[A].refs, B + 1, bytes, w.size), MOB_EPROTO);
    size_t own = refs_count(nodes[A].refs).own, sends = nodes[A].sends;
    assert_int_equal(refs_message(nodes[A].refs, B + 1, bytes, w.size - 21), MOB_OK);
    assert_int_equal(nodes[A].sends, sends + 1); /* all answers in one message */
    assert_int_equal(refs_count(nodes[A].refs).own, own);
    assert_int_equal(refs_message(nodes[A].refs, A + 1, bytes, 9), MOB_EPROTO);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, busy_make, net_free)
    const struct CMUnitTest tests[] = {
        TEST(test_noise),
        TEST(test_words),
        TEST(test_mutations),
        TEST(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
