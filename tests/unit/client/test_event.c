/* Events: a program that sleeps in poll is told of every result, whoever seals it and whenever. */
#include "fixture.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { LONG_MS = 10000, ROUNDS = 20000 };

static mob_event_t *event_of(mob_client_t *c) {
    mob_event_t *e = NULL;
    assert_int_equal(mob_event_open(c, false, &e), MOB_OK);
    return e;
}

static bool readable(mob_event_t *e, int timeout_ms) {
    struct pollfd fd = {.fd = mob_event_fd(e), .events = POLLIN};
    return poll(&fd, 1, timeout_ms) == 1;
}

/* What a worker does. */
static void seal(mob_client_t *c, mob_ref_t ref) {
    client_wake(c, store_slot_seal(&c->slots[ref.slot], false));
}

/* One look, as a loop would do it; counts what was found. */
static size_t look(mob_event_t *e) {
    size_t found = 0;
    bool some;
    do {
        size_t before = found;
        while (mob_event_next(e) != NULL) found++;
        some = found > before;
    } while (mob_event_look_again(e, some));
    return found;
}

/* Looks until so much was found: a look may be left out, if the one before took long. */
static void look_for(mob_event_t *e, size_t wanted) {
    size_t found = 0;
    while ((found += look(e)) < wanted)
        if (!readable(e, LONG_MS))
            fail_msg("%zu of %zu found, and nobody told of the others", found, wanted);
    assert_int_equal(found, wanted);
}

static void test_told_of_a_result(void **state) {
    mob_client_t *c = *state;
    mob_event_t *e = event_of(c);
    mob_watch_t watch = {.ref = opened(c)};
    assert_int_equal(mob_event_watch(e, &watch), MOB_OK);
    assert_int_equal(look(e), 0);
    assert_false(readable(e, 20));
    seal(c, watch.ref);
    assert_true(readable(e, LONG_MS));
    assert_ptr_equal(mob_event_next(e), &watch);
    assert_null(mob_event_next(e));
    /* the thread is about to say that it wrote */
    for (int i = 0; i < LONG_MS && readable(e, 0); i++) {
        while (mob_event_look_again(e, false)) {
        }
        poll(NULL, 0, 1);
    }
    assert_false(readable(e, 20)); /* told once */
    mob_event_close(e);
}

static void test_what_is_there_is_found_at_once(void **state) {
    mob_client_t *c = *state;
    mob_event_t *e = event_of(c);
    mob_watch_t first = {.ref = sealed(c)}, second = {.ref = sealed(c)};
    assert_int_equal(mob_event_watch(e, &first), MOB_OK);
    assert_int_equal(mob_event_watch(e, &second), MOB_OK);
    assert_ptr_equal(mob_event_next(e), &first); /* in their order */
    assert_ptr_equal(mob_event_next(e), &second);
    assert_null(mob_event_next(e));
    mob_event_close(e);
}

static void test_forgetting(void **state) {
    mob_client_t *c = *state;
    mob_event_t *e = event_of(c);
    mob_watch_t watches[4];
    for (int i = 0; i < 4; i++) {
        watches[i] = (mob_watch_t){.ref = opened(c)};
        assert_int_equal(mob_event_watch(e, &watches[i]), MOB_OK);
    }
    seal(c, watches[0].ref);
    mob_event_forget(&watches[1]); /* given out all the same, for its user to free */
    assert_ptr_equal(mob_event_next(e), &watches[0]);
    mob_event_forget(&watches[2]); /* in the middle of a look */
    assert_ptr_equal(mob_event_next(e), &watches[1]);
    assert_ptr_equal(mob_event_next(e), &watches[2]);
    assert_null(mob_event_next(e));
    assert_ptr_equal(mob_event_drop(e), &watches[3]);
    assert_null(mob_event_drop(e));
    mob_event_close(e);
}

static void test_watches_that_come_during_a_look(void **state) {
    mob_client_t *c = *state;
    mob_event_t *e = event_of(c);
    mob_watch_t watches[75];
    for (int i = 0; i < 50; i++) {
        watches[i] = (mob_watch_t){.ref = opened(c)};
        assert_int_equal(mob_event_watch(e, &watches[i]), MOB_OK);
    }
    for (int i = 0; i < 50; i += 2) seal(c, watches[i].ref);
    size_t found = 0;
    for (int i = 50; mob_event_next(e) != NULL; found++, i++) {
        watches[i] = (mob_watch_t){.ref = opened(c)};
        assert_int_equal(mob_event_watch(e, &watches[i]), MOB_OK);
    }
    assert_int_equal(found, 25);
    for (int i = 1; i < 50; i += 2) seal(c, watches[i].ref);
    for (int i = 50; i < 75; i++) seal(c, watches[i].ref);
    look_for(e, 50);
    mob_event_close(e);
}

/* Looking through very many takes long, so looks are left out; none of the results may be. */
static void test_many_watches(void **state) {
    enum { MANY = 100000, RESULTS = 200 };
    mob_client_t *c = *state;
    mob_event_t *e = event_of(c);
    mob_watch_t *watches = calloc(MANY, sizeof *watches);
    mob_ref_t never = opened(c);
    for (int i = 0; i < MANY; i++) {
        watches[i].ref = never;
        assert_int_equal(mob_event_watch(e, &watches[i]), MOB_OK);
    }
    for (int i = 0; i < RESULTS; i++) {
        mob_watch_t watch = {.ref = opened(c)};
        assert_int_equal(mob_event_watch(e, &watch), MOB_OK);
        if (i % 3 == 0) assert_int_equal(look(e), 0);
        seal(c, watch.ref);
        look_for(e, 1);
        store_slot_close(&c->slots[watch.ref.slot]);
        client_slot_give(c, watch.ref.slot);
    }
    mob_event_close(e);
    free(watches);
}

static void test_the_end_of_the_session_ends_all(void **state) {
    mob_client_t *c = *state;
    mob_event_t *e = event_of(c);
    mob_watch_t watch = {.ref = opened(c)};
    assert_int_equal(mob_event_watch(e, &watch), MOB_OK);
    assert_int_equal(look(e), 0);
    mob_events_end(c);
    assert_true(readable(e, LONG_MS));
    assert_ptr_equal(mob_event_next(e), &watch);
    assert_false(mob_event_look_again(e, true));
    assert_int_equal(mob_event_watch(e, &watch), MOB_ECLOSED);
    mob_event_close(e);
}

/* A ring that nobody waits for makes nothing readable, and lets the thread leave the bell. */
static void test_rings_of_others(void **state) {
    mob_client_t *c = *state;
    mob_event_t *e = event_of(c);
    shm_bell_t *bell = &c->node->bells[c->number];
    assert_int_equal(look(e), 0);
    for (int i = 0; i < 100; i++) shm_bell_ring(bell);
    assert_false(readable(e, 20));
    for (int i = 0; i < LONG_MS && atomic_load(&bell->sleepers) > 0; i++) poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&bell->sleepers), 0);
    mob_event_close(e);
}

/* ---- no wake-up is lost ---- */

typedef struct {
    mob_client_t *c;
    mob_ref_t ref;
    _Atomic uint32_t turn; /* odd: the sealer's */
    _Atomic bool over;
} game_t;

static void *sealer_run(void *context) {
    game_t *g = context;
    unsigned seed = 1;
    for (uint32_t round = 1; !atomic_load(&g->over); round += 2) {
        while (atomic_load(&g->turn) != round && !atomic_load(&g->over)) sched_yield();
        if (atomic_load(&g->over)) break;
        /* Before, while and after the other arms and sleeps. */
        for (int i = rand_r(&seed) % 400; i > 0; i--) atomic_signal_fence(memory_order_seq_cst);
        if (rand_r(&seed) % 64 == 0) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        seal(g->c, g->ref);
        atomic_store(&g->turn, round + 1);
    }
    return NULL;
}

static void test_no_wake_up_is_lost(void **state) {
    mob_client_t *c = *state;
    game_t g = {.c = c};
    mob_event_t *e = event_of(c);
    pthread_t sealer;
    assert_int_equal(pthread_create(&sealer, NULL, sealer_run, &g), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        g.ref = opened(c);
        mob_watch_t watch = {.ref = g.ref};
        assert_int_equal(mob_event_watch(e, &watch), MOB_OK);
        atomic_store(&g.turn, 2 * round + 1);
        look_for(e, 1);
        while (atomic_load(&g.turn) != 2 * round + 2) sched_yield();
        store_slot_close(&c->slots[g.ref.slot]);
        client_slot_give(c, g.ref.slot);
    }
    atomic_store(&g.over, true);
    pthread_join(sealer, NULL);
    mob_event_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_told_of_a_result), TEST(test_what_is_there_is_found_at_once),
        TEST(test_forgetting),       TEST(test_watches_that_come_during_a_look),
        TEST(test_many_watches),     TEST(test_the_end_of_the_session_ends_all),
        TEST(test_rings_of_others),  TEST(test_no_wake_up_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
