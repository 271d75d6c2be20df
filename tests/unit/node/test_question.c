/* Questions: an answer knows of all that the asker can have seen. */
#include "players.h"

/* ---- questions ---- */

/* What a client says, and the daemon has not read yet. */
static void say_unread(node_client_t *c, wire_message_t m) {
    assert_true(shm_ring_push(c->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, c->number);
}

static void ask_for_resources(void) {
    say_unread(JOB(n)->driver, (wire_message_t){.query = {WIRE_QUERY, MOB_QUERY_RESOURCES,
                                                          .capacity = SHM_SCRATCH_BYTES}});
    node_inbox_read(n);
    n->round++; /* every ring is read once more */
    node_inbox_read(n);
    node_questions_answer(n);
}

/* Asks, and goes round as the loop does until there is an answer: how long it is. It lies in the
 * scratch page. */
static uint64_t answer_to(uint32_t what) {
    say_unread(JOB(n)->driver,
               (wire_message_t){.query = {WIRE_QUERY, what, .capacity = SHM_SCRATCH_BYTES}});
    for (int i = 0; i < 1000; i++) {
        n->round++;
        node_inbox_read(n);
        node_questions_answer(n);
        node_schedule(n);
        wire_message_t m = fixture_heard(JOB(n)->driver);
        if (m.kind == WIRE_ANSWER) return m.answer.value;
        usleep(1000);
    }
    fail_msg("there is no answer");
    return 0;
}

static void test_what_nobody_uses_is_available(void **state) {
    (void)state;
    uint32_t records[2];
    node_client_t *free_one = busy_worker(0, &records[0], NULL),
                  *busy_one = busy_worker(0, &records[1], NULL);
    finish(free_one, records[0], NONE);
    rest(free_one);
    assert_int_equal(cpus_free(), CPUS - 2);
    ask_for_resources();
    /* its task is not done: nothing to wait for */
    assert_int_equal(fixture_heard(JOB(n)->driver).kind, WIRE_ANSWER);
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_int_equal(lease_word(free_one), SHM_LEASE_NONE);
    assert_int_equal(lease_word(busy_one), SHM_LEASE_BUSY);
    assert_true(free_one->idle);
    finish(busy_one, records[1], NONE);
    rest(busy_one);
    node_leases_take_free(n);
    assert_int_equal(cpus_free(), CPUS);
    assert_int_equal(n->leases.given, 0);
    assert_int_equal(node_pool_first(JOB(n))->idle.count, 2);
}

/* Who asks may have seen the result: so a worker between two tasks is waited for, for a moment. */
static void test_a_question_waits_for_who_is_between_two_tasks(void **state) {
    (void)state;
    uint32_t record;
    uint64_t begin = base_clock_mono_ns();
    node_client_t *w = busy_worker(0, &record, NULL);
    finish(w, record, NONE);
    assert_int_equal(node_leases_due(n), 1);
    ask_for_resources();
    /* it gives up after half a second, which may pass on a busy machine */
    if (base_clock_mono_ns() - begin < 300000000)
        assert_int_equal(fixture_heard(JOB(n)->driver).kind, 0);
    rest(w);
    assert_int_equal(node_leases_due(n), 0);
    node_questions_answer(n);
    assert_int_equal(cpus_free(), CPUS);
    assert_int_equal(n->questions.count, 0);
}

/* The asker has seen the result; the worker's words about it may lie in a ring that is read after
 * the asker's. */
static void test_a_question_is_answered_after_what_was_said_before_it(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    mob_ref_t argument, result;
    uint32_t record = push_with_argument(&argument, &result);
    uint64_t generation = generation_of(record);
    say_unread(JOB(n)->driver, wire_about_record(WIRE_ARGUMENTS, record, generation));
    assert_int_equal(take(w, &driver), record);
    assert_true(commit(w, record));
    slot_seal(result);
    say_unread(w, wire_about_record(WIRE_DONE, record, generation));
    atomic_store(&lease_of(w)->run, 0);
    rest(w);
    uint64_t size = answer_to(MOB_QUERY_EVENTS);
    assert_non_null(memmem(JOB(n)->driver->segment.base + SHM_CLIENT_SCRATCH, size, "work", 4));
}

static void test_a_lease_that_was_given_back_just_before_is_available(void **state) {
    (void)state;
    uint32_t record;
    node_client_t *w = busy_worker(0, &record, NULL);
    atomic_store(&lease_of(w)->word, SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    finish(w, record, NONE);
    atomic_store(&lease_of(w)->word, SHM_LEASE_NONE);
    say_unread(w, wire_plain(WIRE_LEASE));
    uint8_t *scratch = JOB(n)->driver->segment.base + SHM_CLIENT_SCRATCH, before[SHM_SCRATCH_BYTES];
    uint64_t size = answer_to(MOB_QUERY_RESOURCES);
    memcpy(before, scratch, size);
    assert_false(w->leased);
    /* with everything read, it is the same */
    assert_int_equal(answer_to(MOB_QUERY_RESOURCES), size);
    assert_memory_equal(before, scratch, size);
}

static void test_runs_are_read(void **state) {
    (void)state;
    uint32_t record;
    node_client_t *w = busy_worker(0, &record, NULL);
    for (uint64_t i = 0; i < SHM_EVENTS; i++) {
        shm_event_t *e = shm_events_next(w->events);
        assert_non_null(e);
        *e = (shm_event_t){
            .start_ns = i, .end_ns = i + 1, .kind = MOB_TASK, .name_size = 4, .name = "work"};
        /* we are told once, at the half */
        assert_int_equal(shm_events_publish(w->events), i + 1 == SHM_EVENTS_TELL);
    }
    assert_null(shm_events_next(w->events));
    fixture_say(w, WIRE_EVENTS, 0, 0);
    assert_non_null(shm_events_next(w->events));
    assert_int_equal(control_event_count(n->control), SHM_EVENTS);
    for (uint64_t i = 0; i < SHM_EVENTS; i += 100) {
        assert_int_equal(control_event_at(n->control, i)->start_ns, i);
        assert_int_equal(control_event_at(n->control, i)->worker, w->number);
        assert_string_equal(control_event_at(n->control, i)->name, "work");
    }
    /* What it leaves at its end counts too. */
    shm_event_t *e = shm_events_next(w->events);
    *e = (shm_event_t){
        .start_ns = 5000, .end_ns = 5001, .kind = MOB_TASK, .name_size = 255, .name = "last"};
    (void)shm_events_publish(w->events);
    finish(w, record, NONE);
    node_client_died(w);
    assert_int_equal(control_event_count(n->control), SHM_EVENTS + 1);
    assert_string_equal(control_event_at(n->control, SHM_EVENTS)->name, "last");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_what_nobody_uses_is_available),
        TEST(test_a_question_waits_for_who_is_between_two_tasks),
        TEST(test_a_question_is_answered_after_what_was_said_before_it),
        TEST(test_a_lease_that_was_given_back_just_before_is_available),
        TEST(test_runs_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
