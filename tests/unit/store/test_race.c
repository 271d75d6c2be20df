/*
 * One slot, a sealer, a waiter and a dropper at once, many times over.
 *
 * Whatever the order: a waiter that was noted is in the word that the sealer gets back, the value
 * is whole for whoever sees SEALED, and exactly one of sealer and dropper is told to free.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "store/slot.h"

enum { ROUNDS = 60000, WAITER = 5 };

static store_slot_t slot;
static _Atomic uint32_t round_begun, done_sealing, done_dropping;
static uint64_t sealed_from;
static store_drop_t dropped_as;

static void await(_Atomic uint32_t *count, uint32_t round) {
    while (atomic_load_explicit(count, memory_order_acquire) < round) sched_yield();
}

static void *seal_rounds(void *unused) {
    (void)unused;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        await(&round_begun, round);
        slot.meta = store_meta(round, MOB_FORMAT_DIRECT, MOB_OK, true);
        slot.value.large.block = round * 3;
        sealed_from = store_slot_seal(&slot, false);
        atomic_store_explicit(&done_sealing, round, memory_order_release);
    }
    return NULL;
}

static void *drop_rounds(void *unused) {
    (void)unused;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        await(&round_begun, round);
        dropped_as = store_slot_drop(&slot, false);
        atomic_store_explicit(&done_dropping, round, memory_order_release);
    }
    return NULL;
}

static void test_seal_wait_drop(void **state) {
    (void)state;
    pthread_t sealer, dropper;
    assert_int_equal(pthread_create(&sealer, NULL, seal_rounds, NULL), 0);
    assert_int_equal(pthread_create(&dropper, NULL, drop_rounds, NULL), 0);
    unsigned noted_rounds = 0, later_rounds = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        assert_int_equal(store_slot_open(&slot), round);
        atomic_store_explicit(&round_begun, round, memory_order_release);
        if (round % 3 == 0) sched_yield();
        bool noted = store_slot_wait(&slot, WAITER);
        if (!noted) { /* then the value is there, and whole, at once */
            assert_int_equal(store_meta_size(slot.meta), round);
            assert_int_equal(slot.value.large.block, round * 3);
        }
        await(&done_sealing, round);
        await(&done_dropping, round);
        bool in_word = sealed_from >> (STORE_WAITER_SHIFT + WAITER - 1) & 1;
        assert_int_equal(in_word, noted);
        assert_int_not_equal(dropped_as, STORE_DROP_ASK);
        assert_int_equal((sealed_from & STORE_DROPPED) != 0, dropped_as == STORE_DROP_LATER);
        assert_int_equal(atomic_load(&slot.word),
                         STORE_SEALED | (dropped_as == STORE_DROP_LATER ? STORE_DROPPED : 0));
        noted_rounds += noted;
        later_rounds += dropped_as == STORE_DROP_LATER;
        store_slot_close(&slot);
    }
    assert_int_equal(pthread_join(sealer, NULL), 0);
    assert_int_equal(pthread_join(dropper, NULL), 0);
    print_message("waiter noted in %u of %u rounds, dropped before the seal in %u\n", noted_rounds,
                  ROUNDS, later_rounds);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seal_wait_drop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
