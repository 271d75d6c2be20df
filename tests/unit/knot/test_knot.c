/* Which things can never go on: cases by hand, and random ones against schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "../random.h"
#include "knot/knot.h"

static int knot_make(void **state) { return (*state = knot_new()) == NULL; }

static int knot_unmake(void **state) {
    knot_free(*state);
    return 0;
}

static void test_nothing(void **state) {
    assert_int_equal(knot_tie(*state), 0);
    knot_free(NULL);
}

static void test_a_chain_that_ends_in_one_that_runs(void **state) {
    knot_t *k = *state;
    uint32_t runs = knot_thing_add(k, 0), last = runs;
    for (int i = 0; i < 1000; i++) {
        uint32_t next = knot_thing_add(k, 1);
        knot_need(k, next, last);
        last = next;
    }
    assert_int_equal(knot_tie(k), 0);
    assert_false(knot_is_tied(k, last));
}

static void test_a_cycle_and_what_waits_for_it(void **state) {
    knot_t *k = *state;
    uint32_t a = knot_thing_add(k, 1), b = knot_thing_add(k, 1), behind = knot_thing_add(k, 1),
             beside = knot_thing_add(k, 0), self = knot_thing_add(k, 1);
    knot_need(k, a, b);
    knot_need(k, b, a);
    knot_need(k, behind, a);
    knot_need(k, self, self);
    assert_int_equal(knot_tie(k), 4);
    assert_true(knot_is_tied(k, a) && knot_is_tied(k, b) && knot_is_tied(k, behind));
    assert_true(knot_is_tied(k, self));
    assert_false(knot_is_tied(k, beside));
}

static void test_all_and_some(void **state) {
    knot_t *k = *state;
    uint32_t free = knot_thing_add(k, 0), self = knot_thing_add(k, 1);
    uint32_t any = knot_thing_add(k, 1), all = knot_thing_add(k, 2);
    knot_need(k, self, self);
    knot_need(k, any, free);
    knot_need(k, any, self);
    knot_need(k, all, free);
    knot_need(k, all, self);
    assert_int_equal(knot_tie(k), 2);
    assert_false(knot_is_tied(k, any));
    assert_true(knot_is_tied(k, all));
}

/* A parent holds the GPU that its child asks for. */
static void test_a_resource_that_only_a_waiting_one_holds(void **state) {
    knot_t *k = *state;
    uint32_t gpu = knot_resource_add(k, 1);
    uint32_t parent = knot_thing_add(k, 1), child = knot_thing_add(k, 0);
    knot_need(k, parent, child);
    knot_hold(k, parent, gpu, 1);
    knot_ask(k, child, gpu, 1);
    assert_int_equal(knot_tie(k), 2);
}

static void test_a_resource_of_which_enough_comes_back(void **state) {
    knot_t *k = *state;
    uint32_t gpu = knot_resource_add(k, 2);
    uint32_t parent = knot_thing_add(k, 1), child = knot_thing_add(k, 0),
             other = knot_thing_add(k, 0), large = knot_thing_add(k, 0);
    knot_need(k, parent, child);
    knot_hold(k, parent, gpu, 1);
    knot_hold(k, other, gpu, 1); /* runs, and will give it back */
    knot_ask(k, child, gpu, 1);
    knot_ask(k, large, gpu, 2); /* after the parent */
    assert_int_equal(knot_tie(k), 0);
    assert_false(knot_is_tied(k, large));
}

static void test_more_than_there_is(void **state) {
    knot_t *k = *state;
    uint32_t gpu = knot_resource_add(k, 1), asks = knot_thing_add(k, 0);
    knot_ask(k, asks, gpu, 2);
    assert_int_equal(knot_tie(k), 1);
}

/* ---- random ones ---- */

enum { MOST = 12, RESOURCES = 3, ROUNDS = 20000 };

typedef struct {
    int count, needed[MOST];
    int64_t total[RESOURCES], holds[MOST][RESOURCES], asks[MOST][RESOURCES];
    bool needs[MOST][MOST];
} model_t;

static void model_fill(model_t *m) {
    *m = (model_t){.count = 1 + (int)(next_random() % MOST)};
    for (int r = 0; r < RESOURCES; r++) m->total[r] = (int64_t)(next_random() % 6);
    for (int i = 0; i < m->count; i++) {
        int needs = 0;
        for (int j = 0; j < m->count; j++)
            needs += m->needs[i][j] = next_random() % (uint64_t)m->count == 0;
        m->needed[i] = needs > 0 ? (int)(next_random() % (uint64_t)(needs + 1)) : 0;
        for (int r = 0; r < RESOURCES; r++) {
            if (next_random() % 4 == 0) m->holds[i][r] = (int64_t)(next_random() % 3);
            if (next_random() % 4 == 0) m->asks[i][r] = (int64_t)(next_random() % 4);
        }
    }
}

static void model_tell(const model_t *m, knot_t *k) {
    for (int r = 0; r < RESOURCES; r++) knot_resource_add(k, m->total[r]);
    for (int i = 0; i < m->count; i++) knot_thing_add(k, (uint32_t)m->needed[i]);
    for (uint32_t i = 0; i < (uint32_t)m->count; i++) {
        for (uint32_t j = 0; j < (uint32_t)m->count; j++)
            if (m->needs[i][j]) knot_need(k, i, j);
        for (uint32_t r = 0; r < RESOURCES; r++) {
            if (m->holds[i][r] > 0) knot_hold(k, i, r, m->holds[i][r]);
            if (m->asks[i][r] > 0) knot_ask(k, i, r, m->asks[i][r]);
        }
    }
}

static bool may_begin(const model_t *m, const bool *over, const int64_t *free, int i) {
    int there = 0;
    for (int j = 0; j < m->count; j++) there += m->needs[i][j] && over[j];
    bool may = there >= m->needed[i];
    for (int r = 0; r < RESOURCES; r++) may &= m->asks[i][r] <= free[r] || m->asks[i][r] == 0;
    return may;
}

/* Some begin, take what they ask for, and end some time later, in any order. */
static void schedule_run(const model_t *m, bool *over) {
    int64_t free[RESOURCES];
    bool begun[MOST] = {0};
    memcpy(free, m->total, sizeof free);
    for (int i = 0; i < m->count; i++)
        for (int r = 0; r < RESOURCES; r++) free[r] -= m->holds[i][r];
    for (int step = 0; step < 30 * m->count; step++) {
        int i = (int)(next_random() % (uint64_t)m->count);
        if (over[i]) continue;
        if (!begun[i] && may_begin(m, over, free, i)) {
            begun[i] = true;
            for (int r = 0; r < RESOURCES; r++) free[r] -= m->asks[i][r];
        } else if (begun[i]) {
            over[i] = true;
            for (int r = 0; r < RESOURCES; r++) free[r] += m->asks[i][r] + m->holds[i][r];
        }
    }
}

static void test_no_schedule_ends_what_is_tied(void **state) {
    (void)state;
    size_t tied = 0, free = 0;
    for (int round = 0; round < ROUNDS; round++) {
        model_t m;
        model_fill(&m);
        knot_t *k = knot_new();
        model_tell(&m, k);
        (void)knot_tie(k);
        bool over[MOST] = {0};
        schedule_run(&m, over);
        for (uint32_t i = 0; i < (uint32_t)m.count; i++) {
            assert_false(over[i] && knot_is_tied(k, i));
            tied += knot_is_tied(k, i);
            free += over[i];
        }
        knot_free(k);
    }
    assert_true(tied > ROUNDS / 10 && free > ROUNDS / 10); /* both were tried */
}

/* One after the other: then what is not tied ends, too. */
static void test_all_that_is_not_tied_can_end(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        model_t m;
        model_fill(&m);
        knot_t *k = knot_new();
        model_tell(&m, k);
        size_t tied = knot_tie(k), count = 0;
        bool over[MOST] = {0}, more = true;
        int64_t free[RESOURCES];
        memcpy(free, m.total, sizeof free);
        for (int i = 0; i < m.count; i++)
            for (int r = 0; r < RESOURCES; r++) free[r] -= m.holds[i][r];
        while (more) {
            more = false;
            for (int i = 0; i < m.count; i++) {
                if (over[i] || !may_begin(&m, over, free, i)) continue;
                over[i] = more = true;
                for (int r = 0; r < RESOURCES; r++) free[r] += m.holds[i][r];
            }
        }
        for (uint32_t i = 0; i < (uint32_t)m.count; i++) {
            assert_int_equal(knot_is_tied(k, i), !over[i]);
            count += !over[i];
        }
        assert_int_equal(tied, count);
        knot_free(k);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, knot_make, knot_unmake)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing),
        TEST(test_a_chain_that_ends_in_one_that_runs),
        TEST(test_a_cycle_and_what_waits_for_it),
        TEST(test_all_and_some),
        TEST(test_a_resource_that_only_a_waiting_one_holds),
        TEST(test_a_resource_of_which_enough_comes_back),
        TEST(test_more_than_there_is),
        cmocka_unit_test(test_no_schedule_ends_what_is_tied),
        cmocka_unit_test(test_all_that_is_not_tied_can_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
