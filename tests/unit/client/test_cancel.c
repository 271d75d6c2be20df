/* Cancelling from a client, and runs of a worker that were cancelled. */
#include "worker.h"

#include <signal.h>

static mob_run_t *claimed(mob_client_t *c, task_t task) {
    client_order_t order = {
        .record = task.record, .generation = task.generation, .taken = true, .leased = true};
    return client_run_claim(c, &order) ? c->claimed : NULL;
}

static void cancelled(mob_client_t *c, task_t task) {
    daemon_says(c, WIRE_CANCEL_RUN, task.record, task.generation);
}

static void quiet(mob_client_t *c) {
    while (daemon_hears(c).kind != 0) {
    }
}

static void test_the_daemon_is_told_of_what_is_to_be_cancelled(void **state) {
    (void)state;
    task_t task = pushed();
    quiet(submitter);
    assert_int_equal(mob_cancel(submitter, task.result, false, true), MOB_OK);
    wire_message_t m = daemon_hears(submitter);
    assert_int_equal(m.kind, WIRE_CANCEL);
    assert_int_equal(m.cancel.slot, task.result.slot);
    assert_int_equal(m.cancel.generation, task.result.generation);
    assert_int_equal(m.cancel.how, WIRE_CANCEL_RECURSIVE);
    assert_int_equal(submitter->slots[task.result.slot].value.maker, task.record);
    store_slot_seal(&submitter->slots[task.result.slot], false);
    assert_int_equal(mob_cancel(submitter, task.result, false, true), MOB_OK);
    assert_int_equal(daemon_hears(submitter).kind, 0); /* it is there: nothing to tell */
    assert_int_equal(mob_cancel(submitter, (mob_ref_t){0}, false, true), MOB_ESTALE);
}

static void test_a_run_is_interrupted_once(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task);
    assert_non_null(run);
    assert_false(mob_run_is_cancelled(c, run));
    assert_false(mob_run_interrupt(c, run));
    cancelled(c, task);
    assert_true(mob_run_is_cancelled(c, run));
    quiet(c);
    assert_true(mob_run_interrupt(c, run));
    wire_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, WIRE_INTERRUPTED);
    assert_int_equal(m.record.record, task.record);
    assert_int_equal(m.record.generation, task.generation);
    cancelled(c, task);
    assert_false(mob_run_interrupt(c, run));
    assert_null(mob_run_cancelled(c));
    assert_true(mob_run_is_cancelled(c, run));
    assert_int_equal(c->cancelled, 0);
}

/* The message for one run comes when the next one runs in the same place. */
static void test_the_next_run_is_never_meant(void **state) {
    mob_client_t *c = *state;
    task_t first = pushed(), second = pushed();
    mob_run_t *run = claimed(c, first);
    assert_non_null(run);
    mob_buffer_t buffer;
    assert_int_equal(mob_run_result_begin(c, run, 0, 1, 0, &buffer), MOB_OK);
    mob_run_result_commit(c, run, 0, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
    mob_run_finish(c, run);
    cancelled(c, first);
    mob_run_t *next = claimed(c, second);
    assert_ptr_equal(next, run); /* the same memory */
    assert_false(mob_run_interrupt(c, next));
    assert_false(mob_run_is_cancelled(c, next));
    /* also if it was read while the first one ran, and nobody asked */
    task_t third = pushed();
    cancelled(c, second);
    assert_true(mob_run_is_cancelled(c, next));
    assert_int_equal(mob_run_result_begin(c, next, 0, 1, 0, &buffer), MOB_OK);
    mob_run_result_commit(c, next, 0, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
    mob_run_finish(c, next);
    assert_int_equal(c->cancelled, 0);
    next = claimed(c, third);
    assert_false(mob_run_interrupt(c, next));
    assert_null(mob_run_cancelled(c));
    /* nor by another generation of its own record */
    daemon_says(c, WIRE_CANCEL_RUN, third.record, third.generation + 1);
    assert_false(mob_run_interrupt(c, next));
}

static void test_of_several_the_right_one_is_given_out(void **state) {
    mob_client_t *c = *state;
    c->limit = 3;
    task_t tasks[3];
    mob_run_t *runs[3];
    for (int i = 0; i < 3; i++) {
        tasks[i] = pushed();
        assert_non_null(runs[i] = claimed(c, tasks[i]));
    }
    cancelled(c, tasks[1]);
    assert_false(mob_run_is_cancelled(c, runs[0]));
    assert_ptr_equal(mob_run_cancelled(c), runs[1]);
    assert_null(mob_run_cancelled(c));
    assert_false(mob_run_is_cancelled(c, runs[2]));
}

/* The daemon has taken the record away: by force, and a kill is on its way. */
static void test_a_worker_whose_run_was_taken_away_takes_no_other(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task);
    atomic_store(&record_of(task)->word,
                 wire_word(task.generation + 1, c->number, WIRE_TAKEN | WIRE_KNOWN));
    mob_buffer_t buffer;
    assert_int_equal(mob_run_result_begin(c, run, 0, 1, 0, &buffer), MOB_OK);
    mob_run_result_commit(c, run, 0, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
    quiet(c);
    mob_run_finish(c, run);
    assert_int_equal(daemon_hears(c).kind, 0);
    assert_int_equal(atomic_load(&submitter->slots[task.result.slot].word) & STORE_STATE,
                     STORE_PENDING);
    pushed();
    assert_int_equal(mob_run_try(c, &run), MOB_ECLOSED);
}

static void test_a_task_says_which_run_submitted_it(void **state) {
    mob_client_t *c = *state;
    task_t outer = pushed();
    assert_int_equal(record_of(outer)->parent, 0); /* a driver's */
    mob_task_t inner = {.kind = MOB_TASK};
    assert_int_equal(client_parent_of(c, &inner), 0);
    mob_run_t *run = claimed(c, outer);
    assert_int_equal(client_parent_of(c, &inner), entry_of(outer));
    c->limit = 2; /* which of several it is, its submitter says */
    assert_int_equal(client_parent_of(c, &inner), 0);
    inner.parent = run;
    assert_int_equal(client_parent_of(c, &inner), entry_of(outer));
}

static void on_signal(int number) { (void)number; }

static void test_the_signal_is_ignored_unless_it_is_handled(void **state) {
    (void)state;
    struct sigaction action;
    signal(WIRE_CANCEL_SIGNAL, SIG_DFL);
    client_cancel_ignore();
    assert_int_equal(sigaction(WIRE_CANCEL_SIGNAL, NULL, &action), 0);
    assert_true(action.sa_handler == SIG_IGN);
    signal(WIRE_CANCEL_SIGNAL, on_signal);
    client_cancel_ignore();
    assert_int_equal(sigaction(WIRE_CANCEL_SIGNAL, NULL, &action), 0);
    assert_true(action.sa_handler == on_signal);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_the_daemon_is_told_of_what_is_to_be_cancelled),
        WORKER_TEST(test_a_run_is_interrupted_once),
        WORKER_TEST(test_the_next_run_is_never_meant),
        WORKER_TEST(test_of_several_the_right_one_is_given_out),
        WORKER_TEST(test_a_worker_whose_run_was_taken_away_takes_no_other),
        WORKER_TEST(test_a_task_says_which_run_submitted_it),
        WORKER_TEST(test_the_signal_is_ignored_unless_it_is_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
