/* Rings: in order, bounded, suspicious of the other side's index, and whole between two
 * processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/ring.h"

enum { CAPACITY = 64, ACROSS = 1000000 };

static shm_ring_t *ring;

static int ring_make(void **state) {
    (void)state;
    ring = mmap(NULL, shm_ring_bytes(CAPACITY), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    return ring == MAP_FAILED ? -1 : 0;
}

static int ring_unmake(void **state) {
    (void)state;
    return munmap(ring, shm_ring_bytes(CAPACITY));
}

static shm_message_t message(uint64_t i) {
    return (shm_message_t){.words = {i * 3, i * 5, i * 7, ~i}};
}

static void assert_message(const shm_message_t *m, uint64_t i) {
    shm_message_t expected = message(i);
    assert_memory_equal(m, &expected, sizeof expected);
}

static void test_empty(void **state) {
    (void)state;
    shm_message_t m = message(9);
    assert_false(shm_ring_has_more(ring));
    assert_int_equal(shm_ring_pop(ring, CAPACITY, &m), SHM_RING_EMPTY);
    assert_message(&m, 9);
}

static void test_order_through_many_rounds(void **state) {
    (void)state;
    uint64_t in = 0, out = 0;
    shm_message_t m;
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < round % CAPACITY + 1; i++) {
            m = message(in++);
            assert_true(shm_ring_push(ring, CAPACITY, &m));
        }
        while (shm_ring_pop(ring, CAPACITY, &m) == SHM_RING_MESSAGE) assert_message(&m, out++);
        assert_int_equal(in, out);
    }
}

static void test_full(void **state) {
    (void)state;
    shm_message_t m;
    for (uint64_t i = 0; i < CAPACITY; i++) {
        m = message(i);
        assert_true(shm_ring_push(ring, CAPACITY, &m));
    }
    m = message(1000);
    assert_false(shm_ring_push(ring, CAPACITY, &m));
    assert_int_equal(shm_ring_pop(ring, CAPACITY, &m), SHM_RING_MESSAGE);
    assert_message(&m, 0);
    m = message(CAPACITY);
    assert_true(shm_ring_push(ring, CAPACITY, &m));
    for (uint64_t i = 1; i <= CAPACITY; i++) {
        assert_int_equal(shm_ring_pop(ring, CAPACITY, &m), SHM_RING_MESSAGE);
        assert_message(&m, i);
    }
    assert_int_equal(shm_ring_pop(ring, CAPACITY, &m), SHM_RING_EMPTY);
}

static void test_indices_may_wrap(void **state) {
    (void)state;
    atomic_store(&ring->head, UINT64_MAX - 3);
    atomic_store(&ring->tail, UINT64_MAX - 3);
    shm_message_t m;
    for (uint64_t i = 0; i < CAPACITY; i++) {
        m = message(i);
        assert_true(shm_ring_push(ring, CAPACITY, &m));
    }
    assert_false(shm_ring_push(ring, CAPACITY, &m));
    for (uint64_t i = 0; i < CAPACITY; i++) {
        assert_int_equal(shm_ring_pop(ring, CAPACITY, &m), SHM_RING_MESSAGE);
        assert_message(&m, i);
    }
}

static void test_garbage_tail(void **state) {
    (void)state;
    const uint64_t tails[] = {CAPACITY + 11, 1 << 20, UINT64_MAX, 9, 0, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        atomic_store(&ring->head, 10);
        atomic_store(&ring->tail, tails[i]);
        shm_message_t m = message(5);
        assert_int_equal(shm_ring_pop(ring, CAPACITY, &m), SHM_RING_GARBAGE);
        assert_message(&m, 5);
        assert_int_equal(atomic_load(&ring->head), 10);
    }
}

/* An impossible head looks full or has an innocent value; in no case does the producer leave the
 * ring. */
static void test_garbage_head_stays_inside(void **state) {
    (void)state;
    const struct {
        uint64_t head;
        bool pushed;
    } cases[] = {{11, false},
                 {(uint64_t)1 << 63, false},
                 {UINT64_C(10) - CAPACITY, false},
                 {UINT64_C(11) - CAPACITY, true},
                 {UINT64_MAX, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(ring->messages, 0, CAPACITY * sizeof *ring->messages);
        atomic_store(&ring->tail, 10);
        atomic_store(&ring->head, cases[i].head);
        shm_message_t m = message(5), none = {0};
        assert_int_equal(shm_ring_push(ring, CAPACITY, &m), cases[i].pushed);
        assert_int_equal(atomic_load(&ring->tail), cases[i].pushed ? 11 : 10);
        for (int k = 0; k < CAPACITY; k++)
            assert_memory_equal(&ring->messages[k], cases[i].pushed && k == 10 ? &m : &none,
                                sizeof m);
    }
}

static void test_two_processes(void **state) {
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (uint64_t i = 0; i < ACROSS;) {
            shm_message_t m = message(i);
            if (shm_ring_push(ring, CAPACITY, &m))
                i++;
            else
                sched_yield();
        }
        _exit(0);
    }
    for (uint64_t i = 0; i < ACROSS;) {
        shm_message_t m;
        switch (shm_ring_pop(ring, CAPACITY, &m)) {
        case SHM_RING_MESSAGE: {
            shm_message_t expected = message(i++);
            if (memcmp(&m, &expected, sizeof m) != 0)
                fail_msg("message %llu is not whole", (unsigned long long)i - 1);
            break;
        }
        case SHM_RING_EMPTY:
            sched_yield();
            break;
        case SHM_RING_GARBAGE:
            fail_msg("garbage at %llu", (unsigned long long)i);
        }
    }
    assert_false(shm_ring_has_more(ring));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, ring_make, ring_unmake),
        cmocka_unit_test_setup_teardown(test_order_through_many_rounds, ring_make, ring_unmake),
        cmocka_unit_test_setup_teardown(test_full, ring_make, ring_unmake),
        cmocka_unit_test_setup_teardown(test_indices_may_wrap, ring_make, ring_unmake),
        cmocka_unit_test_setup_teardown(test_garbage_tail, ring_make, ring_unmake),
        cmocka_unit_test_setup_teardown(test_garbage_head_stays_inside, ring_make, ring_unmake),
        cmocka_unit_test_setup_teardown(test_two_processes, ring_make, ring_unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
