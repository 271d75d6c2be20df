/* A worker's own moves of its lease, its bits in the lane, and its sleep. The table of moves is in
 * shm/lease.h. */
#include "worker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { OTHER = 100, ROUNDS = 20000 };

static const uint32_t BUSY_RECALL = SHM_LEASE_BUSY | SHM_LEASE_RECALL;

static void lease_set(mob_client_t *c, uint32_t word) { atomic_store(&lease(c)->word, word); }

static bool is_looking(mob_client_t *c, uint32_t lane) {
    return atomic_load(&bits(c, lane, NUMBER)->looking) & shm_node_bit(NUMBER);
}

static void test_a_task_may_be_taken_under_a_lease_only(void **state) {
    static const struct {
        uint32_t before, after;
        bool may;
    } moves[] = {
        {SHM_LEASE_NONE, SHM_LEASE_NONE, false},       {SHM_LEASE_FREE, SHM_LEASE_BUSY, true},
        {SHM_LEASE_BUSY, SHM_LEASE_BUSY, true},        {SHM_LEASE_LENT, SHM_LEASE_LENT, false},
        {SHM_LEASE_BLOCKED, SHM_LEASE_BLOCKED, false},
    };
    mob_client_t *c = *state;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        lease_set(c, moves[i].before);
        assert_int_equal(client_lease_begin(c), moves[i].may);
        assert_int_equal(lease_word(c), moves[i].after);
    }
    daemon_hears_nothing(c);
}

static void test_a_lease_that_is_wanted_goes_back_between_two_tasks(void **state) {
    mob_client_t *c = *state;
    lease_set(c, BUSY_RECALL);
    assert_false(client_lease_begin(c));
    assert_int_equal(lease_word(c), SHM_LEASE_NONE);
    daemon_hears_only(c, WIRE_LEASE, 0, 0);
    lease_set(c, BUSY_RECALL);
    client_lease_rest(c);
    assert_int_equal(lease_word(c), SHM_LEASE_NONE);
    daemon_hears_only(c, WIRE_LEASE, 0, 0);
}

static void test_a_worker_without_tasks_is_free(void **state) {
    mob_client_t *c = *state;
    lease_set(c, SHM_LEASE_BUSY);
    client_lease_rest(c);
    assert_int_equal(lease_word(c), SHM_LEASE_FREE);
    assert_false(daemon_is_told(c, NUMBER));
    client_lease_rest(c); /* it may come here again, or without a lease */
    assert_int_equal(lease_word(c), SHM_LEASE_FREE);
    lease_set(c, SHM_LEASE_NONE);
    client_lease_rest(c);
    assert_int_equal(lease_word(c), SHM_LEASE_NONE);
    atomic_store(&c->node->wanted, 1);
    lease_set(c, SHM_LEASE_BUSY);
    client_lease_rest(c);
    assert_int_equal(lease_word(c), SHM_LEASE_FREE);
    assert_true(daemon_is_told(c, NUMBER));
    daemon_hears_nothing(c); /* it finds that in the word */
}

static void test_a_task_that_waits_lends_its_cpu(void **state) {
    mob_client_t *c = *state;
    lease_set(c, SHM_LEASE_BUSY);
    client_lease_block(c);
    assert_int_equal(lease_word(c), SHM_LEASE_BLOCKED);
    assert_false(daemon_is_told(c, NUMBER));
    client_lease_unblock(c); /* nobody took it meanwhile */
    assert_int_equal(lease_word(c), SHM_LEASE_BUSY);
    atomic_store(&c->node->wanted, 1);
    client_lease_block(c);
    assert_true(daemon_is_told(c, NUMBER));
    lease_set(c, SHM_LEASE_LENT);
    client_lease_unblock(c); /* it goes on without one, and takes no other task */
    assert_int_equal(lease_word(c), BUSY_RECALL);
    daemon_hears_only(c, WIRE_UNBLOCK, 0, 0);
    assert_false(client_lease_begin(c));
}

static void test_recall_is_kept_while_a_task_waits(void **state) {
    mob_client_t *c = *state;
    lease_set(c, BUSY_RECALL);
    client_lease_block(c);
    assert_int_equal(lease_word(c), SHM_LEASE_BLOCKED | SHM_LEASE_RECALL);
    client_lease_unblock(c);
    assert_int_equal(lease_word(c), BUSY_RECALL);
    daemon_hears_nothing(c);
}

static void test_only_a_task_under_a_lease_is_blocked(void **state) {
    static const uint32_t words[] = {SHM_LEASE_NONE, SHM_LEASE_FREE};
    mob_client_t *c = *state;
    for (size_t i = 0; i < 2; i++) {
        lease_set(c, words[i]);
        client_lease_block(c);
        assert_int_equal(lease_word(c), words[i]);
        client_lease_unblock(c);
        assert_int_equal(lease_word(c), words[i]);
    }
    daemon_hears_nothing(c);
}

/* ---- one lease, and two that want it ---- */

typedef struct {
    mob_client_t *c;
    _Atomic uint32_t round;
    _Atomic uint32_t done;
    bool took; /* in this round */
} game_t;

/* The daemon, which wants the CPU of a worker that is FREE. */
static void *taker_run(void *context) {
    game_t *g = context;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&g->round) != round) sched_yield();
        uint32_t word = SHM_LEASE_FREE;
        g->took = atomic_compare_exchange_strong(&lease(g->c)->word, &word, SHM_LEASE_NONE);
        atomic_store(&g->done, round);
    }
    return NULL;
}

static void test_either_the_worker_or_the_daemon_has_it(void **state) {
    mob_client_t *c = *state;
    game_t g = {.c = c};
    pthread_t taker;
    assert_int_equal(pthread_create(&taker, NULL, taker_run, &g), 0);
    unsigned wrong = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        lease_set(c, SHM_LEASE_FREE);
        atomic_store(&g.round, round);
        bool began = client_lease_begin(c);
        while (atomic_load(&g.done) != round) sched_yield();
        wrong += began == g.took || lease_word(c) != (began ? SHM_LEASE_BUSY : SHM_LEASE_NONE);
    }
    pthread_join(taker, NULL);
    assert_int_equal(wrong, 0);
}

/* ---- who relies on it ---- */

static void test_what_it_runs_is_written_down(void **state) {
    mob_client_t *c = *state;
    client_lease_run(c, 42);
    assert_int_equal(atomic_load(&lease(c)->run), 42);
    client_lease_run(c, 0);
    assert_int_equal(atomic_load(&lease(c)->run), 0);
}

static void test_its_bit_goes_where_it_came(void **state) {
    mob_client_t *c = *state;
    lease_give(c);
    client_looking_set(c, true);
    assert_true(is_looking(c, LANE));
    atomic_store(&lease(c)->lane, LANE + 1); /* a lease for another lane, meanwhile */
    client_looking_set(c, true);
    assert_false(is_looking(c, LANE + 1));
    client_looking_set(c, false);
    assert_false(is_looking(c, LANE));
    client_looking_set(c, true);
    assert_true(is_looking(c, LANE + 1));
}

static void test_who_looks_no_more_leaves_the_rest_to_another(void **state) {
    mob_client_t *c = *state;
    atomic_fetch_or(&bits(c, LANE, OTHER)->idle, shm_node_bit(OTHER));
    lease_give(c);
    client_looking_set(c, true);
    client_looking_end(c); /* nothing was pushed */
    assert_true(is_idle(c, OTHER));
    client_looking_set(c, true);
    pushed(); /* who pushes relies on it */
    assert_true(is_idle(c, OTHER));
    client_looking_end(c);
    assert_false(is_looking(c, LANE));
    assert_false(is_idle(c, OTHER));
    assert_int_equal(rings(c, OTHER), 1);
    client_looking_end(c); /* said once */
    assert_int_equal(rings(c, OTHER), 1);
}

/* ---- sleep ---- */

typedef struct {
    mob_client_t *c;
    _Atomic bool over;
    bool woken;
} sleeper_t;

static void *sleeper_run(void *context) {
    sleeper_t *s = context;
    s->woken = client_lease_sleep(s->c, rings(s->c, NUMBER));
    atomic_store(&s->over, true);
    return NULL;
}

static void test_a_sleeper_with_a_lease_is_woken_by_a_push(void **state) {
    sleeper_t s = {.c = *state};
    lease_give(s.c);
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    assert_true(is_idle(s.c, NUMBER));
    pushed();
    pthread_join(thread, NULL);
    assert_true(s.woken);
    assert_false(is_idle(s.c, NUMBER));
}

static void test_nobody_relies_on_a_sleeper_without_a_lease(void **state) {
    sleeper_t s = {.c = *state};
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    assert_false(is_idle(s.c, NUMBER));
    pushed();
    assert_int_equal(rings(s.c, NUMBER), 0);
    shm_bell_ring(&s.c->node->bells[NUMBER]); /* the daemon, which tells it to run something */
    pthread_join(thread, NULL);
    assert_true(s.woken);
}

static void test_what_was_pushed_before_its_sleep_keeps_it_awake(void **state) {
    sleeper_t s = {.c = *state};
    lease_give(s.c);
    pushed();
    sleeper_run(&s); /* else this is for ever */
    assert_true(s.woken);
    assert_false(is_idle(s.c, NUMBER));
}

static void test_who_lost_its_lease_asleep_wakes_another(void **state) {
    sleeper_t s = {.c = *state};
    lease_give(s.c);
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    atomic_fetch_or(&bits(s.c, LANE, OTHER)->idle, shm_node_bit(OTHER));
    lease_set(s.c, SHM_LEASE_NONE); /* the daemon takes the lease, and is about to take the bit */
    pushed();
    assert_false(is_idle(s.c, NUMBER)); /* who pushes woke it, in vain */
    pthread_join(thread, NULL);
    assert_false(is_idle(s.c, OTHER));
    assert_int_equal(rings(s.c, OTHER), 1);
}

static void test_an_actor_says_that_it_rests(void **state) {
    sleeper_t s = {.c = *state};
    client_calls_add(s.c, CALLS);
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    assert_int_equal(atomic_load(&lease(s.c)->rests), 1);
    atomic_store(&s.c->queues[CALLS].taker, NUMBER);
    called(NULL);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&lease(s.c)->rests), 0);
}

static void on_signal(int number) { (void)number; }

static void test_a_signal_ends_its_sleep(void **state) {
    sleeper_t s = {.c = *state};
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    lease_give(s.c);
    pthread_t thread = sleeper_start(s.c, sleeper_run, &s);
    while (!atomic_load(&s.over)) { /* it may be about to sleep when the first one comes */
        pthread_kill(thread, SIGUSR1);
        sched_yield();
    }
    pthread_join(thread, NULL);
    assert_false(s.woken);
    assert_false(is_idle(s.c, NUMBER));
}

static void test_who_wakes_has_the_machine_watched(void **state) {
    mob_client_t *c = *state;
    client_work_tell(c);
    assert_false(daemon_is_told(c, NUMBER));
    atomic_store(&c->node->watched, 0);
    client_work_tell(c);
    assert_true(daemon_is_told(c, NUMBER));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_a_task_may_be_taken_under_a_lease_only),
        WORKER_TEST(test_a_lease_that_is_wanted_goes_back_between_two_tasks),
        WORKER_TEST(test_a_worker_without_tasks_is_free),
        WORKER_TEST(test_a_task_that_waits_lends_its_cpu),
        WORKER_TEST(test_recall_is_kept_while_a_task_waits),
        WORKER_TEST(test_only_a_task_under_a_lease_is_blocked),
        WORKER_TEST(test_either_the_worker_or_the_daemon_has_it),
        WORKER_TEST(test_what_it_runs_is_written_down),
        WORKER_TEST(test_its_bit_goes_where_it_came),
        WORKER_TEST(test_who_looks_no_more_leaves_the_rest_to_another),
        WORKER_TEST(test_a_sleeper_with_a_lease_is_woken_by_a_push),
        WORKER_TEST(test_nobody_relies_on_a_sleeper_without_a_lease),
        WORKER_TEST(test_what_was_pushed_before_its_sleep_keeps_it_awake),
        WORKER_TEST(test_who_lost_its_lease_asleep_wakes_another),
        WORKER_TEST(test_an_actor_says_that_it_rests),
        WORKER_TEST(test_a_signal_ends_its_sleep),
        WORKER_TEST(test_who_wakes_has_the_machine_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
