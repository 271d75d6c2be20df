/* Workers that end, and some that do not: real processes, and a loop that is run by hand. */
#include "fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_signal(int number) { (void)number; }

/* A worker whose process ends by the signal, or heeds none. */
static node_client_t *worker_new(node_t *n, bool heeds) {
    node_client_t *w = fixture_client_new(n, WIRE_WORKER);
    int ready[2];
    char word;
    assert_int_equal(pipe(ready), 0);
    w->pid = fork();
    if (w->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!heeds) signal(WIRE_END_SIGNAL, on_signal);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return w;
}

/* As the loop does when a child has ended. */
static void reaped(node_client_t *w) {
    assert_int_equal(waitpid(w->pid, &w->exit_status, 0), w->pid);
    w->exited = true;
    node_farewell_reaped(w);
}

static void wait_killed(node_t *n, const node_client_t *w) {
    while (!w->killed) uv_run(&n->loop, UV_RUN_ONCE);
    int status;
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_one_that_takes_too_long_is_killed(void **state) {
    (void)state;
    node_t *n = fixture_node_new(64 << 20);
    n->ends.end_ms = 30;
    node_client_t *w = worker_new(n, false), *other = worker_new(n, false);
    fixture_say(w, WIRE_ENDING, 0, 0);
    assert_true(uv_is_active((uv_handle_t *)&n->ends.timer));
    fixture_say(w, WIRE_ENDING, 0, 0); /* gets it no more time */
    wait_killed(n, w);
    char text[256];
    node_worker_exit_text(w, text, sizeof text);
    assert_string_equal(text, "it was killed because it did not end in time");
    assert_false(other->killed || n->ending);
    kill(other->pid, SIGKILL);
    waitpid(other->pid, NULL, 0);
    fixture_node_free(n);
}

static void test_a_driver_that_says_so_has_no_limit(void **state) {
    (void)state;
    node_t *n = fixture_node_new(64 << 20);
    node_client_t *driver = fixture_client_new(n, WIRE_DRIVER);
    fixture_say(driver, WIRE_ENDING, 0, 0);
    assert_false(uv_is_active((uv_handle_t *)&n->ends.timer));
    fixture_node_free(n);
}

static void test_a_session_ends_when_all_have(void **state) {
    (void)state;
    node_t *n = fixture_node_new(64 << 20);
    node_client_t *a = worker_new(n, true), *b = worker_new(n, true);
    node_job_leave(JOB(n), false);
    for (node_client_t *w = a; w != NULL; w = w == a ? b : NULL) {
        wire_message_t m = fixture_heard(w);
        assert_int_equal(m.kind, WIRE_EXIT);
        assert_int_equal(m.exit.job_ends, 1);
    }
    reaped(a);
    assert_false(n->ending);
    reaped(b);
    assert_true(n->ending);
    fixture_node_free(n);
}

static void test_a_session_ends_though_one_does_not(void **state) {
    (void)state;
    node_t *n = fixture_node_new(64 << 20);
    node_client_t *w = worker_new(n, false);
    node_job_leave(JOB(n), false);
    node_job_leave(JOB(n), false); /* the driver's end is told twice */
    assert_false(n->ending);
    wait_killed(n, w);
    assert_true(n->ending);
    fixture_node_free(n);
}

static void test_a_driver_that_waits_ends_it_by_hanging_up(void **state) {
    (void)state;
    node_t *n = fixture_node_new(64 << 20);
    JOB(n)->driver = fixture_client_new(n, WIRE_DRIVER);
    node_client_t *w = worker_new(n, false);
    fixture_say(JOB(n)->driver, WIRE_MESSAGES_END, 0, 0);
    assert_true(JOB(n)->farewell.leaving && !n->ending);
    node_job_leave(JOB(n), false); /* it does not wait any more */
    assert_true(n->ending);
    kill(w->pid, SIGKILL);
    reaped(w);
    fixture_node_free(n);
}

/* It was asked for after another one died, and is not forked yet. */
static void test_a_worker_that_was_starting_ends_nothing(void **state) {
    (void)state;
    node_t *n = fixture_node_new(64 << 20);
    JOB(n)->driver = fixture_client_new(n, WIRE_DRIVER);
    node_client_t *w = node_client_new(n);
    w->role = WIRE_WORKER;
    w->pool = node_pool_first(JOB(n));
    w->state = NODE_STARTING;
    node_job_join(JOB(n), w);
    assert_true(vec_push(&node_pool_first(JOB(n))->starting, w));
    fixture_say(JOB(n)->driver, WIRE_MESSAGES_END, 0, 0);
    assert_false(n->ending); /* the driver waits for its messages */
    assert_int_not_equal(JOB(n)->finish_round, 0);
    fixture_node_free(n);
}

static void test_nothing_to_wait_for(void **state) {
    (void)state;
    node_t *n = fixture_node_new(64 << 20);
    node_job_leave(JOB(n), false);
    assert_true(n->ending);
    fixture_node_free(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_takes_too_long_is_killed),
        cmocka_unit_test(test_a_driver_that_says_so_has_no_limit),
        cmocka_unit_test(test_a_session_ends_when_all_have),
        cmocka_unit_test(test_a_session_ends_though_one_does_not),
        cmocka_unit_test(test_a_driver_that_waits_ends_it_by_hanging_up),
        cmocka_unit_test(test_a_worker_that_was_starting_ends_nothing),
        cmocka_unit_test(test_nothing_to_wait_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
