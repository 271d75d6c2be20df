/* Queues: in order, bounded, begun again when empty; hints that come late do no harm, and nothing
 * is lost between threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "shm/queue.h"

enum { ACROSS = 2000000, TAKERS = 3, LIMIT_S = 60 };

static shm_queue_t *queue;

static int queue_make(void **state) {
    (void)state;
    queue = mmap(NULL, sizeof *queue, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return queue == MAP_FAILED ? -1 : 0;
}

static int queue_unmake(void **state) {
    (void)state;
    return munmap(queue, sizeof *queue);
}

static uint64_t head(void) { return atomic_load(&queue->head); }
static uint64_t tail(void) { return atomic_load(&queue->tail); }

/* The next entry, which must be this one; passed. */
static void take(uint64_t expected) {
    uint64_t position = 0, entry = 0;
    assert_true(shm_queue_peek(queue, &position, &entry));
    assert_int_equal(entry, expected);
    shm_queue_pass(queue, position);
}

static void assert_empty(void) {
    uint64_t position = 7, entry = 9;
    assert_false(shm_queue_peek(queue, &position, &entry));
    assert_int_equal(position, 7);
    assert_int_equal(entry, 9);
    assert_int_equal(shm_queue_count(queue), 0);
}

/* As many as these, in and out. */
static void run_through(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        assert_true(shm_queue_push(queue, i));
        take(i);
    }
}

static void test_the_entry_after(void **state) {
    (void)state;
    for (uint64_t start = 0; start < 3; start++) {
        uint64_t position = 0, entry = 0;
        assert_true(shm_queue_push(queue, 5));
        assert_true(shm_queue_peek(queue, &position, &entry));
        assert_int_equal(shm_queue_after(queue, position), 0);
        assert_true(shm_queue_push(queue, 6));
        assert_int_equal(shm_queue_after(queue, position), 6);
        take(5);
        assert_int_equal(shm_queue_after(queue, position + 1), 0);
        take(6);
        /* passed, and emptied: nothing is there */
        assert_int_equal(shm_queue_after(queue, position + 2), 0);
        run_through(SHM_QUEUE_REWIND); /* so that the next round begins at the first place again */
    }
}

static void test_empty(void **state) {
    (void)state;
    assert_empty();
    run_through(3);
    assert_empty();
}

static void test_order_through_many_rounds(void **state) {
    (void)state;
    uint64_t in = 0, out = 0;
    for (uint64_t round = 0; round < 500; round++) {
        for (uint64_t i = 0; i < round * 7 % 300 + 1; i++)
            assert_true(shm_queue_push(queue, in++ * 3));
        assert_int_equal(shm_queue_count(queue), in - out);
        while (in - out > round % 50) take(out++ * 3); /* mostly not to the end */
    }
    while (out < in) take(out++ * 3);
    assert_empty();
}

static void test_any_number_is_an_entry(void **state) {
    (void)state;
    const uint64_t entries[] = {0, 1, UINT64_MAX, (uint64_t)1 << 63, 0};
    for (size_t i = 0; i < 5; i++) assert_true(shm_queue_push(queue, entries[i]));
    for (size_t i = 0; i < 5; i++) take(entries[i]);
    assert_empty();
}

static void test_full(void **state) {
    (void)state;
    for (uint64_t i = 0; i < SHM_QUEUE_ENTRIES; i++)
        if (!shm_queue_push(queue, i)) fail_msg("full at %llu", (unsigned long long)i);
    assert_false(shm_queue_push(queue, 12345));
    assert_int_equal(shm_queue_count(queue), SHM_QUEUE_ENTRIES);
    take(0); /* not overwritten */
    assert_true(shm_queue_push(queue, SHM_QUEUE_ENTRIES));
    assert_false(shm_queue_push(queue, 12345));
    for (uint64_t i = 1; i <= SHM_QUEUE_ENTRIES; i++) take(i);
    assert_empty();
    assert_true(shm_queue_push(queue, 5));
    take(5);
}

static void test_a_look_takes_nothing(void **state) {
    (void)state;
    assert_true(shm_queue_push(queue, 41));
    assert_true(shm_queue_push(queue, 42));
    uint64_t position = 0, entry = 0;
    for (int i = 0; i < 3; i++) {
        assert_true(shm_queue_peek(queue, &position, &entry));
        assert_int_equal(entry, 41);
    }
    assert_int_equal(shm_queue_count(queue), 2);
}

/* Two takers look at the same entry, and both pass it: the next one is not passed with it. */
static void test_passing_a_position_twice(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 3; i++) assert_true(shm_queue_push(queue, i));
    uint64_t mine = 0, theirs = 0, entry = 0;
    assert_true(shm_queue_peek(queue, &mine, &entry));
    assert_true(shm_queue_peek(queue, &theirs, &entry));
    shm_queue_pass(queue, mine);
    shm_queue_pass(queue, theirs);
    shm_queue_pass(queue, mine);
    take(1);
    shm_queue_pass(queue, theirs);
    take(2);
    shm_queue_pass(queue, theirs + 1);
    assert_empty();
}

/* Only what is at the head can be passed: nothing that nobody has looked at. */
static void test_passing_what_is_not_first(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 3; i++) assert_true(shm_queue_push(queue, i));
    shm_queue_pass(queue, 1);
    shm_queue_pass(queue, 2);
    shm_queue_pass(queue, 3);
    for (uint64_t i = 0; i < 3; i++) take(i);
}

static void test_an_emptied_queue_begins_again_at_the_first_place(void **state) {
    (void)state;
    run_through(SHM_QUEUE_REWIND);
    assert_int_equal(tail(), SHM_QUEUE_REWIND);
    for (uint64_t round = 1; round < 4; round++) {
        assert_true(shm_queue_push(queue, 1000 + round));
        assert_int_equal(head(), round * SHM_QUEUE_ENTRIES);
        assert_int_equal(tail(), round * SHM_QUEUE_ENTRIES + 1);
        assert_int_equal(atomic_load(&queue->entries[0]), 1000 + round);
        assert_int_equal(shm_queue_count(queue), 1);
        take(1000 + round);
        run_through(SHM_QUEUE_REWIND - 1);
        assert_int_equal(tail(), round * SHM_QUEUE_ENTRIES + SHM_QUEUE_REWIND);
    }
    /* so no place beyond these was ever touched */
    assert_int_equal(atomic_load(&queue->entries[SHM_QUEUE_REWIND]), 0);
}

static void test_one_that_is_short_or_not_empty_goes_on(void **state) {
    (void)state;
    run_through(SHM_QUEUE_REWIND - 1);
    assert_true(shm_queue_push(queue, 1));
    assert_int_equal(tail(), SHM_QUEUE_REWIND);
    assert_true(shm_queue_push(queue, 2)); /* far enough, but there is one in it */
    assert_int_equal(tail(), SHM_QUEUE_REWIND + 1);
    take(1);
    assert_true(shm_queue_push(queue, 3));
    assert_int_equal(tail(), SHM_QUEUE_REWIND + 2);
    take(2);
    take(3);
    assert_true(shm_queue_push(queue, 4));
    assert_int_equal(tail(), SHM_QUEUE_ENTRIES + 1);
    take(4);
}

/* One that looked before a rewind and passes after it. Its number may be any of those before. */
static void test_a_late_taker_after_a_rewind(void **state) {
    (void)state;
    uint64_t late[2] = {0}, entry = 0;
    assert_true(shm_queue_push(queue, 0));
    assert_true(shm_queue_peek(queue, &late[0], &entry));
    take(0);
    run_through(SHM_QUEUE_REWIND - 2);
    assert_true(shm_queue_push(queue, 1));
    assert_true(shm_queue_peek(queue, &late[1], &entry));
    take(1);
    assert_true(shm_queue_push(queue, 2));
    assert_true(shm_queue_push(queue, 3));
    assert_int_equal(head(), SHM_QUEUE_ENTRIES);
    for (int i = 0; i < 2; i++) shm_queue_pass(queue, late[i]);
    shm_queue_pass(queue, SHM_QUEUE_REWIND); /* where head was, but for the rewind */
    assert_int_equal(head(), SHM_QUEUE_ENTRIES);
    take(2);
    take(3);
    assert_empty();
}

/* The rewind moves head first: who looks then finds nothing, and does not move it. */
static void test_the_moment_of_a_rewind_looks_empty(void **state) {
    (void)state;
    atomic_store(&queue->tail, SHM_QUEUE_REWIND);
    atomic_store(&queue->head, SHM_QUEUE_ENTRIES);
    assert_empty();
    shm_queue_pass(queue, SHM_QUEUE_REWIND);
    assert_int_equal(head(), SHM_QUEUE_ENTRIES);
}

static void test_positions_may_wrap(void **state) {
    (void)state;
    atomic_store(&queue->head, UINT64_MAX - 3);
    atomic_store(&queue->tail, UINT64_MAX - 2);
    atomic_store(&queue->entries[(UINT64_MAX - 3) % SHM_QUEUE_ENTRIES], 0);
    for (uint64_t i = 1; i < 10; i++) assert_true(shm_queue_push(queue, i));
    assert_int_equal(shm_queue_count(queue), 10);
    for (uint64_t i = 0; i < 10; i++) take(i);
    assert_empty();
    atomic_store(&queue->head, UINT64_MAX - 3);
    atomic_store(&queue->tail, UINT64_MAX - 3);
    assert_true(shm_queue_push(queue, 77)); /* begins again, at a multiple that is zero */
    assert_int_equal(tail(), 1);
    take(77);
}

/* Whatever another process wrote there, nobody leaves the queue, and the count is one that can be
 * added up. */
static void test_garbage_stays_inside(void **state) {
    (void)state;
    const uint64_t numbers[] = {0, 9, SHM_QUEUE_ENTRIES + 11, (uint64_t)1 << 63, UINT64_MAX};
    for (size_t h = 0; h < 5; h++) {
        for (size_t t = 0; t < 5; t++) {
            uint64_t position = 0, entry = 0;
            atomic_store(&queue->head, numbers[h]);
            atomic_store(&queue->tail, numbers[t]);
            bool there = shm_queue_peek(queue, &position, &entry);
            assert_int_equal(there, shm_queue_count(queue) > 0);
            (void)shm_queue_push(queue, 1);
        }
    }
}

/* ---- between threads ---- */

/* What an entry names, by its number: each has a word, as a task's record has. Number 0 is never
 * pushed. */
enum { ABSENT = 0, READY = 1, TAKEN = 2 /* and more: by which taker */ };
static _Atomic uint32_t words[ACROSS + 1];
static _Atomic uint32_t claimed_in_all;
static _Atomic bool over, impossible;

static void *taker(void *context) {
    uint32_t mine = (uint32_t)(uintptr_t)context, *claimed = calloc(1, sizeof *claimed);
    while (claimed != NULL && !atomic_load(&over)) {
        uint64_t position = 0, entry = 0;
        if (!shm_queue_peek(queue, &position, &entry)) {
            sched_yield();
            continue;
        }
        if (entry > ACROSS) {
            atomic_store(&impossible, true);
            break;
        }
        uint32_t ready = READY;
        if (atomic_compare_exchange_strong(&words[entry], &ready, TAKEN + mine)) {
            ++*claimed;
            atomic_fetch_add(&claimed_in_all, 1);
        } else if (ready == ABSENT && entry != 0) {
            atomic_store(&impossible, true); /* seen before it was whole */
        }
        shm_queue_pass(queue, position);
        if (*claimed % 64 == mine) shm_queue_pass(queue, position); /* late, and again */
    }
    return claimed;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void test_one_producer_and_three_takers(void **state) {
    (void)state;
    pthread_t threads[TAKERS];
    double end = seconds() + LIMIT_S;
    unsigned seed = 1, emptied = 0;
    for (uintptr_t i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, taker, (void *)i), 0);
    for (uint32_t number = 1; number <= ACROSS && seconds() < end;) {
        /* Bursts of all sizes: one by one, and beyond what makes a queue begin again. */
        seed = seed * 1103515245 + 12345;
        uint32_t burst = 1 + (seed >> 16) % (seed >> 28 == 0 ? 3 * SHM_QUEUE_REWIND : 64);
        for (; burst > 0 && number <= ACROSS; burst--, number++) {
            /* the push publishes it */
            atomic_store_explicit(&words[number], READY, memory_order_relaxed);
            while (!shm_queue_push(queue, number)) sched_yield();
        }
        if ((seed >> 20 & 3) == 0) continue;
        emptied++;
        while (shm_queue_count(queue) > 0 && seconds() < end) sched_yield();
    }
    while (atomic_load(&claimed_in_all) < ACROSS && seconds() < end && !atomic_load(&impossible))
        sched_yield();
    atomic_store(&over, true);
    uint64_t sum = 0;
    for (size_t i = 0; i < TAKERS; i++) {
        uint32_t *claimed;
        assert_int_equal(pthread_join(threads[i], (void **)&claimed), 0);
        sum += *claimed;
        free(claimed);
    }
    assert_false(atomic_load(&impossible));
    for (uint32_t number = 1; number <= ACROSS; number++)
        if (atomic_load(&words[number]) < TAKEN) fail_msg("number %u was lost", number);
    assert_int_equal(sum, ACROSS);
    assert_int_equal(atomic_load(&words[0]), ABSENT);
    assert_true(emptied > 1000);
    assert_true(tail() > 10 * (uint64_t)SHM_QUEUE_ENTRIES); /* so many times it began again */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_the_entry_after, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_order_through_many_rounds, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_any_number_is_an_entry, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_full, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_a_look_takes_nothing, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_passing_a_position_twice, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_passing_what_is_not_first, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_an_emptied_queue_begins_again_at_the_first_place,
                                        queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_one_that_is_short_or_not_empty_goes_on, queue_make,
                                        queue_unmake),
        cmocka_unit_test_setup_teardown(test_a_late_taker_after_a_rewind, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_the_moment_of_a_rewind_looks_empty, queue_make,
                                        queue_unmake),
        cmocka_unit_test_setup_teardown(test_positions_may_wrap, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_garbage_stays_inside, queue_make, queue_unmake),
        cmocka_unit_test_setup_teardown(test_one_producer_and_three_takers, queue_make,
                                        queue_unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
