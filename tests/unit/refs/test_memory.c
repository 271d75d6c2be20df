/* Without memory: what can't be done changes nothing and can be done later; what can't be sent is
 * sent later, in its order. */
#include "net.h"

enum { A, B, C };

/* The allocator of this program fails after so many calls; -1: never. The sanitizer has its own. */
static volatile long calls_left = -1; /* the compiler thinks that malloc does not read it */

#ifndef __SANITIZE_ADDRESS__
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);

static bool is_out(void) {
    if (calls_left == 0) return true;
    if (calls_left > 0) calls_left--;
    return false;
}

void *malloc(size_t size) { return is_out() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_out() ? NULL : __libc_calloc(count, size); }
#endif

static bool can_fail(void) {
    calls_left = 0;
    void *volatile memory = malloc(1);
    calls_left = -1;
    free(memory);
    return memory == NULL;
}

static void assert_counts(size_t node, refs_counts_t before) {
    flush(node);
    refs_counts_t now = refs_count(nodes[node].refs);
    assert_memory_equal(&before, &now, sizeof now);
}

/* A frame with objects of all kinds is sent and taken in, with ever more memory. */
static void test_frames(void **state) {
    (void)state;
    if (!can_fail()) skip();
    frame_id_t ids[] = {object(B, 1), object(A, 2), object(A, 3), object(A, 2), object(C, 4)};
    give(B, A, ids[0]);
    deliver(B, A);
    refs_counts_t before = refs_count(nodes[A].refs), empty = refs_count(nodes[C].refs);
    mob_status_t status = MOB_ENOMEM;
    for (long calls = 0; status != MOB_OK; calls++) {
        calls_left = calls;
        status = refs_frame_send(nodes[A].refs, C + 1, 1, ids, 5);
        calls_left = -1;
        assert_true(status == MOB_OK || status == MOB_ENOMEM);
        if (status != MOB_OK) assert_counts(A, before);
    }
    bool waits;
    status = MOB_ENOMEM;
    for (long calls = 0; status != MOB_OK; calls++) {
        calls_left = calls;
        status = refs_frame_came(nodes[C].refs, A + 1, 1, ids, 5, &waits);
        calls_left = -1;
        assert_true(status == MOB_OK || status == MOB_ENOMEM);
        if (status != MOB_OK) assert_counts(C, empty);
    }
    assert_true(waits);
    sent[A][C] = received[A][C] = 1;
    nodes[C].waits = 1;
    settle(); /* C holds nothing of it */
    unhold(A, ids[0]);
    settle();
    assert_true(refs_unheld(nodes[B].refs, ids[0]));
    assert_true(refs_unheld(nodes[A].refs, ids[1]));
    assert_empty(A, C);
}

/* The home has no memory for a HOLD: it is asked again, and the giver keeps the object meanwhile.
 */
static void test_again(void **state) {
    (void)state;
    if (!can_fail()) skip();
    frame_id_t x = object(A, 1);
    give(A, B, x);
    unhold(A, x);
    deliver(A, B);
    give(B, C, x);
    unhold(B, x);
    deliver(B, C);
    letter_t *hold = ways[C][A].items[0];
    ways[C][A].count = 0;
    refs_counts_t before = refs_count(nodes[A].refs);
    calls_left = 0;
    mob_status_t status = refs_message(nodes[A].refs, C + 1, hold->bytes, hold->count);
    calls_left = -1;
    assert_int_equal(status, MOB_ENOMEM); /* not even for the peer */
    assert_counts(A, before);
    give(A, C, object(A, 9)); /* the peer is known now */
    before = refs_count(nodes[A].refs);
    calls_left = 0;
    nodes[A].send_status = MOB_ENOMEM; /* the test's own link needs memory too */
    status = refs_message(nodes[A].refs, C + 1, hold->bytes, hold->count);
    calls_left = -1;
    nodes[A].send_status = MOB_OK;
    assert_int_equal(status, MOB_OK);
    assert_counts(A, before);
    free(hold);
    received[C][A] = 1;
    settle();
    assert_int_equal(nodes[C].kept, 1);
    unhold(C, x);
    unhold(C, object(A, 9));
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_true(refs_unheld(nodes[A].refs, object(A, 9)));
    assert_empty(A, C);
}

/* The link takes nothing for a while. */
static void test_send(void **state) {
    (void)state;
    frame_id_t x = object(A, 1), y = object(C, 2);
    give(A, B, x);
    give(C, B, y);
    unhold(A, x);
    settle();
    nodes[B].send_status = MOB_ENOMEM;
    assert_false(refs_unheld(nodes[B].refs, x));
    assert_int_equal(refs_flush(nodes[B].refs), MOB_ENOMEM);
    assert_false(refs_unheld(nodes[B].refs, y));
    assert_int_equal(refs_flush(nodes[B].refs), MOB_ENOMEM);
    assert_int_equal(refs_message(nodes[B].refs, C + 1, "\1\0\0\0\0\0\0\0\0", 9), MOB_ENOMEM);
    nodes[B].send_status = MOB_OK;
    settle();
    assert_true(is_told(&nodes[A].freed, x));
    assert_true(refs_unheld(nodes[C].refs, y));
    assert_empty(A, C);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, net_make, net_free)
    const struct CMUnitTest tests[] = {TEST(test_frames), TEST(test_again), TEST(test_send)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
