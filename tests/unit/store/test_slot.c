/* Every line of slot.h's table of transitions, one thread at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/slot.h"

static uint64_t word_of(store_slot_t *slot) { return atomic_load(&slot->word); }

static void test_open_starts_a_generation(void **state) {
    (void)state;
    store_slot_t slot = {0};
    for (uint64_t g = 1; g < 5; g++) {
        assert_int_equal(store_slot_open(&slot), g);
        assert_int_equal(word_of(&slot), STORE_PENDING);
        assert_int_equal(atomic_load(&slot.generation), g);
        store_slot_close(&slot);
        assert_int_equal(word_of(&slot), STORE_FREE);
        assert_int_equal(atomic_load(&slot.generation), g);
    }
}

static void test_seal(void **state) {
    (void)state;
    store_slot_t slot = {0};
    store_slot_open(&slot);
    assert_int_equal(store_slot_seal(&slot, false), STORE_PENDING);
    assert_int_equal(word_of(&slot), STORE_SEALED);
    store_slot_close(&slot);
    store_slot_open(&slot);
    assert_int_equal(store_slot_seal(&slot, true), STORE_PENDING);
    assert_int_equal(word_of(&slot), STORE_SEALED | STORE_ESCAPED);
}

static void test_seal_keeps_its_flags_and_takes_the_waiters(void **state) {
    (void)state;
    store_slot_t slot = {0};
    store_slot_open(&slot);
    assert_true(store_slot_wait(&slot, 3));
    assert_true(store_slot_wait(&slot, 999));
    atomic_fetch_or(&slot.word, STORE_ESCAPED);
    assert_int_equal(store_slot_drop(&slot, true), STORE_DROP_LATER);
    uint64_t before = word_of(&slot);
    assert_true(store_slot_seal(&slot, false) == before);
    assert_true(before == (STORE_PENDING | STORE_ESCAPED | STORE_DROPPED | STORE_CROWD |
                           (uint64_t)1 << (STORE_WAITER_SHIFT + 2)));
    assert_int_equal(word_of(&slot), STORE_SEALED | STORE_ESCAPED | STORE_DROPPED);
}

static void test_seal_only_once(void **state) {
    (void)state;
    store_slot_t slot = {0};
    assert_int_equal(store_slot_seal(&slot, true), 0); /* FREE stays FREE */
    assert_int_equal(word_of(&slot), STORE_FREE);
    store_slot_open(&slot);
    assert_int_not_equal(store_slot_seal(&slot, false), 0);
    assert_int_equal(store_slot_seal(&slot, true), 0);
    assert_int_equal(word_of(&slot), STORE_SEALED);
}

static void test_each_waiter_has_its_bit(void **state) {
    (void)state;
    store_slot_t slot = {0};
    store_slot_open(&slot);
    uint64_t expected = STORE_PENDING;
    for (uint32_t number = 1; number <= STORE_WAITER_BITS; number++) {
        expected |= (uint64_t)1 << (STORE_WAITER_SHIFT + number - 1);
        assert_true(store_slot_wait(&slot, number));
        assert_true(store_slot_wait(&slot, number)); /* again is the same */
        assert_true(word_of(&slot) == expected);
    }
    assert_int_equal(word_of(&slot) & STORE_CROWD, 0);
}

static void test_those_without_a_bit_are_a_crowd(void **state) {
    (void)state;
    const uint32_t numbers[] = {0, STORE_WAITER_BITS + 1, 64, 4095, UINT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        store_slot_t slot = {0};
        store_slot_open(&slot);
        assert_true(store_slot_wait(&slot, numbers[i]));
        assert_int_equal(word_of(&slot), STORE_PENDING | STORE_CROWD);
    }
}

static void test_nothing_to_wait_for(void **state) {
    (void)state;
    store_slot_t slot = {0};
    assert_false(store_slot_wait(&slot, 1));
    assert_int_equal(word_of(&slot), STORE_FREE);
    store_slot_open(&slot);
    store_slot_seal(&slot, false);
    assert_false(store_slot_wait(&slot, 1));
    assert_int_equal(word_of(&slot), STORE_SEALED);
}

static void test_drop(void **state) {
    (void)state;
    const struct {
        uint64_t before;
        bool is_daemon;
        store_drop_t expected;
        uint64_t after;
    } cases[] = {
        {STORE_PENDING, false, STORE_DROP_LATER, STORE_PENDING | STORE_DROPPED},
        {STORE_PENDING, true, STORE_DROP_LATER, STORE_PENDING | STORE_DROPPED},
        {STORE_PENDING | STORE_CROWD, false, STORE_DROP_LATER,
         STORE_PENDING | STORE_CROWD | STORE_DROPPED},
        {STORE_PENDING | STORE_ESCAPED, false, STORE_DROP_ASK, STORE_PENDING | STORE_ESCAPED},
        {STORE_PENDING | STORE_ESCAPED, true, STORE_DROP_LATER,
         STORE_PENDING | STORE_ESCAPED | STORE_DROPPED},
        {STORE_SEALED, false, STORE_DROP_FREE, STORE_SEALED | STORE_GOING},
        {STORE_SEALED | STORE_ESCAPED | STORE_AWAY, false, STORE_DROP_ASK,
         STORE_SEALED | STORE_ESCAPED | STORE_AWAY},
        {STORE_SEALED, true, STORE_DROP_FREE, STORE_SEALED},
        {STORE_SEALED | STORE_ESCAPED, false, STORE_DROP_ASK, STORE_SEALED | STORE_ESCAPED},
        {STORE_SEALED | STORE_ESCAPED, true, STORE_DROP_FREE, STORE_SEALED | STORE_ESCAPED},
        {STORE_SEALED | STORE_DROPPED, true, STORE_DROP_FREE, STORE_SEALED | STORE_DROPPED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        store_slot_t slot = {0};
        atomic_store(&slot.word, cases[i].before);
        assert_int_equal(store_slot_drop(&slot, cases[i].is_daemon), cases[i].expected);
        assert_true(word_of(&slot) == cases[i].after);
    }
    /* What lies in the slot itself is never moved: nothing to guard against. */
    store_slot_t slot = {.meta = store_meta(8, MOB_FORMAT_DIRECT, MOB_OK, true)};
    atomic_store(&slot.word, STORE_SEALED);
    assert_int_equal(store_slot_drop(&slot, false), STORE_DROP_FREE);
    assert_true(word_of(&slot) == STORE_SEALED);
}

static void test_escape_and_leave(void **state) {
    (void)state;
    enum { HERE = STORE_SEALED | STORE_ESCAPED };
    const struct {
        uint64_t before;
        bool escapes, leaves;
    } cases[] = {
        {STORE_SEALED, true, false},
        {HERE, true, true},
        {HERE | STORE_AWAY, true, false},
        {HERE | STORE_DROPPED, false, false},
        {STORE_SEALED | STORE_GOING, false, false},
        {STORE_PENDING | STORE_ESCAPED, false, false},
        {STORE_FREE, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        store_slot_t slot = {0};
        atomic_store(&slot.word, cases[i].before);
        assert_int_equal(store_slot_leave(&slot), cases[i].leaves);
        assert_true(word_of(&slot) == (cases[i].before | (cases[i].leaves ? STORE_AWAY : 0)));
        atomic_store(&slot.word, cases[i].before);
        assert_int_equal(store_slot_escape(&slot), cases[i].escapes);
        assert_true(word_of(&slot) == (cases[i].before | (cases[i].escapes ? STORE_ESCAPED : 0)));
    }
    store_slot_t slot = {0};
    atomic_store(&slot.word, HERE | STORE_AWAY);
    store_slot_return(&slot);
    assert_true(word_of(&slot) == HERE);
}

static void test_dropped_then_sealed_is_left_to_the_daemon(void **state) {
    (void)state;
    store_slot_t slot = {0};
    store_slot_open(&slot);
    assert_int_equal(store_slot_drop(&slot, false), STORE_DROP_LATER);
    assert_true(store_slot_seal(&slot, false) & STORE_DROPPED);
    assert_int_equal(word_of(&slot), STORE_SEALED | STORE_DROPPED);
    assert_int_equal(store_slot_drop(&slot, true), STORE_DROP_FREE);
    store_slot_close(&slot);
    assert_int_equal(word_of(&slot), STORE_FREE);
}

static void test_meta_round_trip(void **state) {
    (void)state;
    const uint64_t sizes[] = {0, 1, STORE_INLINE, ((uint64_t)1 << 48) - 1};
    for (size_t s = 0; s < 4; s++) {
        for (int error = 0; error < MOB_STATUS_COUNT; error++) {
            for (int format = MOB_FORMAT_DIRECT; format <= MOB_FORMAT_PICKLE; format++) {
                for (int is_inline = 0; is_inline < 2; is_inline++) {
                    uint64_t meta =
                        store_meta(sizes[s], (mob_format_t)format, (mob_status_t)error, is_inline);
                    assert_true(store_meta_size(meta) == sizes[s]);
                    assert_int_equal(store_meta_error(meta), error);
                    assert_int_equal(store_meta_format(meta), format);
                    assert_int_equal(store_meta_inline(meta), is_inline);
                }
            }
        }
    }
}

/* An error that nobody has seen is the daemon's to free. */
static void test_drop_of_an_error(void **state) {
    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        for (int is_inline = 0; is_inline < 2; is_inline++) {
            store_slot_t slot = {0};
            store_slot_open(&slot);
            if (seen) store_slot_see(&slot);
            slot.meta = store_meta(20, MOB_FORMAT_DIRECT, MOB_ETASK, is_inline);
            store_slot_seal(&slot, false);
            assert_int_equal(store_is_untold(word_of(&slot), slot.meta), !seen);
            assert_int_equal(store_slot_drop(&slot, false),
                             seen ? STORE_DROP_FREE : STORE_DROP_ASK);
            assert_int_equal(!!(word_of(&slot) & STORE_ESCAPED), !seen);
            if (!seen) assert_int_equal(store_slot_drop(&slot, true), STORE_DROP_FREE);
            store_slot_close(&slot);
            store_slot_open(&slot);
            assert_int_equal(word_of(&slot), STORE_PENDING); /* the next object is not seen */
        }
    }
}

static void test_references_lie_behind_the_data(void **state) {
    (void)state;
    for (uint64_t size = 0; size < 100; size++) {
        assert_int_equal(store_block_size(size, 0), size);
        assert_true(store_refs_offset(size) >= size && store_refs_offset(size) < size + 16);
        assert_int_equal(store_refs_offset(size) % 16, 0);
        assert_int_equal(store_block_size(size, 3),
                         store_refs_offset(size) + 3 * sizeof(mob_ref_t));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_starts_a_generation),
        cmocka_unit_test(test_seal),
        cmocka_unit_test(test_seal_keeps_its_flags_and_takes_the_waiters),
        cmocka_unit_test(test_seal_only_once),
        cmocka_unit_test(test_each_waiter_has_its_bit),
        cmocka_unit_test(test_those_without_a_bit_are_a_crowd),
        cmocka_unit_test(test_nothing_to_wait_for),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_escape_and_leave),
        cmocka_unit_test(test_dropped_then_sealed_is_left_to_the_daemon),
        cmocka_unit_test(test_meta_round_trip),
        cmocka_unit_test(test_drop_of_an_error),
        cmocka_unit_test(test_references_lie_behind_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
