/* Waiting: how long one looks before one sleeps, and when one does not. */
#include "fixture.h"

#include <pthread.h>

#include "base/clock.h"

static const uint64_t MINUTE_NS = 60000000000u;

static bool never(mob_client_t *c, void *context) {
    (void)c;
    ++*(unsigned *)context;
    return false;
}

static unsigned looks(mob_client_t *c) {
    client_patience_t patience = {0};
    unsigned count = 0;
    assert_false(client_spin(c, &patience, never, &count));
    return count;
}

static void test_it_looks_only_while_there_is_a_cpu_for_it(void **state) {
    mob_client_t *c = *state;
    atomic_store(&c->node->daemon_sleeps, 1);
    atomic_store(&c->node->numbers, 10);
    client_awake_set(c, true);
    atomic_store(&c->node->cpus, 1);
    assert_int_equal(looks(c), 1);
    atomic_store(&c->node->cpus, 2);
    assert_true(looks(c) > 1);
    /* Another process, and then a third. */
    atomic_fetch_or(&c->node->awake[0], shm_node_bit(5));
    assert_true(looks(c) > 1);
    atomic_fetch_or(&c->node->awake[0], shm_node_bit(6));
    assert_int_equal(looks(c), 1);
    /* Or threads of this one that look already. */
    atomic_store(&c->node->awake[0], shm_node_bit(NUMBER));
    atomic_store(&c->spinners, 1);
    assert_true(looks(c) > 1);
    atomic_store(&c->spinners, 2);
    assert_int_equal(looks(c), 1);
    assert_int_equal(atomic_load(&c->spinners), 2);
}

static uint64_t learnt(uint64_t ago_ns, bool there) {
    client_patience_t patience = {.since_ns = base_clock_mono_ns() - ago_ns};
    client_patience_learn(&patience, there);
    return atomic_load(&patience.spin_ns);
}

/* A minute, because a test may stand still for long: the one that came at once is tried until it
 * was not interrupted. */
static void test_what_came_soon_is_looked_for_longer(void **state) {
    (void)state;
    uint64_t short_ns = learnt(MINUTE_NS, true), long_ns = 0;
    assert_true(short_ns > 0);
    while (long_ns <= short_ns) long_ns = learnt(0, true);
    /* who is woken for nothing has not missed anything */
    assert_int_equal(learnt(0, false), short_ns);
}

static void *lease_take(void *context) {
    mob_client_t *c = context;
    while (atomic_load(&c->spinners) == 0) {
    }
    atomic_store(&c->node->leases[NUMBER].word, SHM_LEASE_NONE);
    return NULL;
}

/* Submitters wake nobody while it looks: it must not go on looking for what it may not take. */
static void test_who_loses_the_lease_stops_looking(void **state) {
    mob_client_t *c = *state;
    atomic_store(&c->node->daemon_sleeps, 1);
    atomic_store(&c->node->numbers, 10);
    atomic_store(&c->node->cpus, 2);
    atomic_store(&c->node->leases[NUMBER].word, SHM_LEASE_FREE);
    atomic_store(&c->run_patience.spin_ns, MINUTE_NS);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, lease_take, c), 0);
    assert_true(client_lease_look(c, 0));
    pthread_join(thread, NULL);
    assert_true(c->looking);
    assert_false(client_lease_look(c, 0)); /* without a lease it looks no more, and says so */
    assert_false(c->looking);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_it_looks_only_while_there_is_a_cpu_for_it),
        cmocka_unit_test(test_what_came_soon_is_looked_for_longer),
        TEST(test_who_loses_the_lease_stops_looking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
