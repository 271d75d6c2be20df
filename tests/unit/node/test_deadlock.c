/* What waits for what, as the daemon sees it in records and in the workers' own words. */
#include "base/clock.h"
#include "fixture.h"

enum { FIRST = 8 };

typedef struct {
    node_t *n;
    node_client_t *driver, *workers[2];
    mob_ref_t results[2];
} players_t;

/* Opens a slot of the driver's, and a task that makes it and that the worker runs. */
static void run_begin(players_t *p, int i, uint32_t record) {
    uint32_t slot = p->n->grants.slots.granted - 10 + (uint32_t)i;
    p->results[i] = (mob_ref_t){.slot = slot};
    p->results[i].generation = store_slot_open(&p->n->slots[slot]);
    wire_record_t *r =
        fixture_record_fill(p->n, record, MOB_TASK, p->results[i], (mob_ref_t){0}, 0);
    fixture_record_publish(r, false);
    uint64_t word = atomic_load(&r->word);
    atomic_store(&r->word,
                 wire_word(wire_word_generation(word), p->workers[i]->number, WIRE_TAKEN));
}

static void wait_write(players_t *p, int i, uint32_t record, mob_ref_t ref, uint64_t age_s) {
    shm_wait_t *w = (shm_wait_t *)(p->workers[i]->segment.base + SHM_CLIENT_WAITS);
    shm_wait_clear(w);
    w->record = record;
    w->generation = wire_word_generation(atomic_load(&p->n->records[record].word));
    w->since_ns = base_clock_mono_ns() - age_s * 1000000000;
    w->count = w->needed = w->listed = 1;
    w->slots[0] = ref.slot;
    w->generations[0] = ref.generation;
    shm_wait_publish(w);
}

/* Two tasks run, each on its worker, and wait for each other. */
static int players_make(void **state) {
    players_t *p = calloc(1, sizeof *p);
    *state = p;
    p->n = fixture_node_new(1 << 22);
    JOB(p->n)->driver = p->driver = fixture_client_new(p->n, WIRE_DRIVER);
    fixture_say(p->driver, WIRE_NEED_SLOTS, STORE_SLOT_BLOCK, 0);
    fixture_say(p->driver, WIRE_NEED_RECORDS, WIRE_RECORD_BLOCK, 0);
    for (int i = 0; i < 2; i++) p->workers[i] = fixture_client_new(p->n, WIRE_WORKER);
    for (int i = 0; i < 2; i++) run_begin(p, i, FIRST + (uint32_t)i);
    for (int i = 0; i < 2; i++)
        wait_write(p, i, FIRST + (uint32_t)i, p->results[1 - i], 6 + (uint64_t)i);
    return 0;
}

static int players_unmake(void **state) {
    players_t *p = *state;
    vec_free(&p->n->deadlock.told);
    fixture_node_free(p->n);
    free(p);
    return 0;
}

static void nothing_found(players_t *p) {
    for (int i = 0; i < 4; i++) assert_true(node_deadlock_look(p->n) > 0);
    assert_string_equal(p->n->deadlock.text, "");
}

static void test_a_knot_is_told_at_the_second_look(void **state) {
    players_t *p = *state;
    assert_true(node_deadlock_look(p->n) > 0);
    assert_string_equal(p->n->deadlock.text, "");
    assert_true(node_deadlock_look(p->n) > 0);
    assert_non_null(strstr(p->n->deadlock.text, "work (task "));
    assert_non_null(strstr(p->n->deadlock.text, "has waited for 7 s for work"));
    p->n->deadlock.text[0] = 0;
    nothing_found(p); /* and once */
    assert_int_equal(fixture_heard(p->workers[0]).kind, 0);
}

static void test_the_youngest_raises(void **state) {
    players_t *p = *state;
    p->n->deadlock.raises = true;
    for (int i = 0; i < 2; i++) assert_true(node_deadlock_look(p->n) > 0);
    wire_message_t m = fixture_heard(p->workers[0]);
    assert_int_equal(m.kind, WIRE_DEADLOCK);
    assert_int_equal(m.record.record, FIRST);
    assert_int_equal(fixture_heard(p->workers[1]).kind, 0);
}

static void test_nothing_waits(void **state) {
    players_t *p = *state;
    for (int i = 0; i < 2; i++)
        shm_wait_clear((shm_wait_t *)(p->workers[i]->segment.base + SHM_CLIENT_WAITS));
    assert_true(node_deadlock_look(p->n) > 0); /* for one that came up for air */
    assert_int_equal(node_deadlock_look(p->n), 0);
}

static void test_one_of_them_runs(void **state) {
    players_t *p = *state;
    shm_wait_clear((shm_wait_t *)(p->workers[1]->segment.base + SHM_CLIENT_WAITS));
    nothing_found(p);
}

static void test_one_of_them_is_young(void **state) {
    players_t *p = *state;
    for (int i = 0; i < 2; i++) wait_write(p, i, FIRST + (uint32_t)i, p->results[1 - i], 4);
    nothing_found(p);
    assert_true(node_deadlock_look(p->n) <= 1001); /* and then it is old enough */
}

static void test_what_it_waits_for_is_there(void **state) {
    players_t *p = *state;
    store_slot_seal(&p->n->slots[p->results[0].slot], false);
    nothing_found(p);
}

static void test_words_that_make_no_sense(void **state) {
    players_t *p = *state;
    shm_wait_t *w = (shm_wait_t *)(p->workers[0]->segment.base + SHM_CLIENT_WAITS);
    const shm_wait_t good = *w;
    w->generation++; /* of another run */
    nothing_found(p);
    *w = good;
    w->record = UINT32_MAX;
    nothing_found(p);
    *w = good;
    w->slots[0] = UINT32_MAX;
    nothing_found(p);
    *w = good;
    w->listed = UINT32_MAX;
    nothing_found(p);
    *w = good;
    w->count = 100; /* it wants one of many, of which most are not named */
    nothing_found(p);
    p->n->records[FIRST].num_returns = UINT32_MAX;
    nothing_found(p);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, players_make, players_unmake)
    const struct CMUnitTest tests[] = {
        TEST(test_a_knot_is_told_at_the_second_look),
        TEST(test_the_youngest_raises),
        TEST(test_nothing_waits),
        TEST(test_one_of_them_runs),
        TEST(test_one_of_them_is_young),
        TEST(test_what_it_waits_for_is_there),
        TEST(test_words_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
